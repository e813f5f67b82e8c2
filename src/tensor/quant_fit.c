/* quant_fit.c - see quant_fit.h: rows to blocks, and the formats of one level. */
#include "tensor/quant_fit.h"

#include "base/half.h"
#include "tensor/quant.h"
#include "tensor/quant_fit_lanes.h"
#include "tensor/quant_linear.h"
#include "tensor/quant_row.h"

#include <math.h>
#include <string.h>

/* ---- one level */

void fit_linear(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    int n = dtype_info[t].weights, top = linear_top(t);
    uint8_t q[FIT_WEIGHTS];
    fit_lanes l;
    affine_lanes f;
    lane_codes codes;
    fit_lanes_load(&l, x, w, n, blocks, n);
    fit_affine_best(&l, top, true, INFINITY, &f);
    fit_affine_codes(&l, top, &f, codes);
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        lane_of(codes, n, b, q);
        linear_put(t, out, q, f32_to_f16(f.scale[b]), f32_to_f16(f.base[b]));
    }
}

static void put_five(uint8_t *high, uint8_t *low, int i, int q)
{
    low[i % 16] = (uint8_t)(low[i % 16] | (q & 15) << (i < 16 ? 0 : 4));
    high[i / 8] = (uint8_t)(high[i / 8] | q >> 4 << i % 8);
}

/* q4_0, q5_0, q4_1, q5_1: nibbles i and i + 16 share a byte; fifth bits in a field of their own. */
static void put_legacy(uint8_t *to, const uint8_t *q, float scale, const float *base, bool five)
{
    uint8_t high[4] = {0}, low[16] = {0};
    uint16_t d = f32_to_f16(scale), m = base ? f32_to_f16(*base) : 0;
    for (int i = 0; i < 32; i++) put_five(high, low, i, q[i]);
    memcpy(to, &d, 2);
    to += 2;
    if (base) memcpy(to, &m, 2), to += 2;
    if (five) memcpy(to, high, 4), to += 4;
    memcpy(to, low, 16);
}

static void fit_centred(dtype t, const fit_lanes *l, int blocks, uint8_t *out)
{
    int half = t == DTYPE_Q5_0 ? 16 : 8;
    uint8_t q[32];
    const code_kind kind = {-half, half - 1, false};
    scale_lanes f;
    lane_codes codes;
    fit_scale_best(l, &kind, true, &f);
    fit_scale_codes(l, &kind, &f, codes);
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        lane_of(codes, 32, b, q);
        put_legacy(out, q, f.scale[b], NULL, half == 16);
    }
}

void fit_legacy(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    int top = t == DTYPE_Q5_1 ? 31 : 15;
    uint8_t q[32];
    fit_lanes l;
    affine_lanes f;
    lane_codes codes;
    fit_lanes_load(&l, x, w, 32, blocks, 32);
    if (t == DTYPE_Q4_0 || t == DTYPE_Q5_0) {
        fit_centred(t, &l, blocks, out);
        return;
    }
    fit_affine_best(&l, top, true, INFINITY, &f);
    fit_affine_codes(&l, top, &f, codes);
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        lane_of(codes, 32, b, q);
        put_legacy(out, q, f.scale[b], &f.base[b], top == 31);
    }
}

/* -128 … 127 under an f16 or a float: uses -128 too, and a scale that clips a little. */
static void fit_q8(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    static const code_kind kind = {-128, 127, false};
    uint8_t q[32];
    fit_lanes l;
    scale_lanes f;
    lane_codes codes;
    fit_lanes_load(&l, x, w, 32, blocks, 32);
    fit_scale_best(&l, &kind, t == DTYPE_Q8_0, &f);
    fit_scale_codes(&l, &kind, &f, codes);
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        const uint16_t half = f32_to_f16(f.scale[b]);
        const size_t scale = t == DTYPE_Q8_0 ? sizeof half : sizeof f.scale[b];
        lane_of(codes, 32, b, q);
        for (int i = 0; i < 32; i++) q[i] ^= 0x80;
        memcpy(out, t == DTYPE_Q8_0 ? (const void *)&half : &f.scale[b], scale);
        memcpy(out + scale, q, sizeof q);
    }
}

/* ---- rows */

static blocks_fitter *const fitter[DTYPE_COUNT] = {
    [DTYPE_Q8_B32] = fit_linear,   [DTYPE_Q8_B64] = fit_linear,  [DTYPE_Q6_B64] = fit_linear,
    [DTYPE_Q5_B64] = fit_linear,   [DTYPE_Q4_B32] = fit_linear,  [DTYPE_Q4_B64] = fit_linear,
    [DTYPE_Q3H_B64] = fit_linear,  [DTYPE_Q3_B32] = fit_linear,  [DTYPE_Q2_B32] = fit_linear,
    [DTYPE_Q4_0] = fit_legacy,     [DTYPE_Q5_0] = fit_legacy,    [DTYPE_Q4_1] = fit_legacy,
    [DTYPE_Q5_1] = fit_legacy,     [DTYPE_Q2_T] = fit_tables,    [DTYPE_Q3_T] = fit_tables,
    [DTYPE_Q3H_T] = fit_tables,    [DTYPE_Q4_T] = fit_tables,    [DTYPE_Q2_K] = fit_k_minimum,
    [DTYPE_Q4_K] = fit_k_minimum,  [DTYPE_Q5_K] = fit_k_minimum, [DTYPE_Q3_K] = fit_k_scale,
    [DTYPE_Q6_K] = fit_k_scale,    [DTYPE_IQ4_NL] = fit_iq4_nl,  [DTYPE_IQ4_XS] = fit_iq4_xs,
    [DTYPE_IQ2_XXS] = fit_iq_grid, [DTYPE_IQ2_XS] = fit_iq_grid, [DTYPE_IQ2_S] = fit_iq_grid,
    [DTYPE_IQ3_XXS] = fit_iq_grid, [DTYPE_IQ3_S] = fit_iq_grid,  [DTYPE_IQ1_S] = fit_iq_grid,
    [DTYPE_IQ1_M] = fit_iq_grid,   [DTYPE_Q8_F32] = fit_q8,      [DTYPE_Q8_0] = fit_q8,
    [DTYPE_Q1_0] = fit_few,        [DTYPE_Q2_0] = fit_few,       [DTYPE_TQ1_0] = fit_few,
    [DTYPE_TQ2_0] = fit_few,       [DTYPE_MXFP4] = fit_fp4,      [DTYPE_NVFP4] = fit_fp4,
};

bool quant_fit_has(dtype t) { return fitter[t]; }

/* The factor that brings the mean importance of a row to 1; 0: all of it is 0. */
static float importance_unit(const float *importance, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; importance && i < n; i++) sum += importance[i];
    double unit = (double)n / sum;
    return sum > 0 && unit < 1e30 && unit > 1e-30 ? (float)unit : 0;
}

/* A block of which the row has the first `there` weights; made finite, padded with the last at importance 0. */
static void load_block(const float *row, const float *importance, float unit, uint64_t there, uint64_t weights,
                       float *x, float *w)
{
    float all = 0;
    for (uint64_t j = 0; j < there; j++) {
        float v = row[j];
        x[j] = v > FIT_MOST ? FIT_MOST : v > -FIT_MOST ? v : v <= -FIT_MOST ? -FIT_MOST : 0;
        w[j] = 1;
    }
    for (uint64_t j = there; j < weights; j++) x[j] = x[there - 1], w[j] = 0;
    if (!importance) return;
    for (uint64_t j = 0; j < there; j++) {
        float v = importance[j] * unit;
        w[j] = v > 0 ? v < FIT_MOST ? v : FIT_MOST : 0;
        all += w[j];
    }
    for (uint64_t j = 0; j < there && !(all > 0); j++) w[j] = 1;
}

void quant_fit(dtype t, const float *row, uint64_t n, const float *importance, void *out)
{
    uint64_t weights = dtype_info[t].weights;
    uint8_t *at = out;
    if (weights == 1) {
        quant_encode(t, row, out, n);
        return;
    }
    float unit = importance_unit(importance, n), x[LANES * DTYPE_WEIGHTS_MAX], w[LANES * DTYPE_WEIGHTS_MAX];
    for (uint64_t i = 0; i < n;) {
        int blocks = 0;
        for (; blocks < LANES && i < n; blocks++, i += weights) {
            uint64_t there = n - i < weights ? n - i : weights, at_block = (uint64_t)blocks * weights;
            load_block(row + i, importance && unit > 0 ? importance + i : NULL, unit, there, weights, x + at_block,
                       w + at_block);
        }
        if (fitter[t]) fitter[t](t, x, w, blocks, at);
        else quant_encode(t, x, at, (uint64_t)blocks * weights);
        at += (uint64_t)blocks * dtype_info[t].bytes;
    }
}
