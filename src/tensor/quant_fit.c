/* quant_fit.c - see quant_fit.h: rows to blocks, the fits that the formats share, and those of one level.
 *
 * Given codes, the best scale and base are a least-squares line; given scale and base, the best codes are the nearest. So both in turns,
 * from the full range and from ranges clipped a little at both ends or one (few bits gain most: levels that one weight needs are lost to
 * all others), each step with scale and base as they are stored. The best seen is kept, the plain encoding among it. */
#include "tensor/quant_fit.h"

#include "base/half.h"
#include "tensor/block.h"
#include "tensor/quant.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_linear.h"

#include <math.h>
#include <string.h>

/* ---- codes 0 … top, scale and base */

/* What a step sees: sums of importance times powers of code and weight. */
typedef struct sums {
    float q, qq, xq;
} sums;

FIT_LOOPS
static sums try_affine(const float *x, const float *w, int n, int top, fit_affine *f, uint8_t *q)
{
    float e[LANES] = {0}, sq[LANES] = {0}, sqq[LANES] = {0}, sxq[LANES] = {0};
    float scale = f->scale, base = f->base, most = (float)top, inverse = scale != 0 ? 1 / scale : 0;
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = (x[i + j] - base) * inverse;
            v = v > 0 ? v : 0;
            v = v < most ? v : most;
            v = (v + FIT_ROUND) - FIT_ROUND;
            float d = x[i + j] - (v * scale + base), wv = w[i + j] * v;
            e[j] += w[i + j] * d * d;
            sq[j] += wv;
            sqq[j] += wv * v;
            sxq[j] += wv * x[i + j];
            if (q) q[i + j] = (uint8_t)v;
        }
    f->error = lanes_sum(e);
    return (sums){lanes_sum(sq), lanes_sum(sqq), lanes_sum(sxq)};
}

void fit_affine_try(const float *x, const float *w, int n, int top, fit_affine *f, uint8_t *q)
{
    try_affine(x, w, n, top, f, q);
}

fit_affine fit_affine_best(const float *x, const float *w, int n, int top, float (*round)(float), float base_most)
{
    /* parts of the range left out at the lower and upper end */
    static const float cut[][2] = {{0, 0}, {0.04f, 0.04f}, {0.09f, 0.09f}, {0, 0.1f}, {0.1f, 0}, {0.15f, 0.15f}};
    int cuts = top > 100 ? 1 : top > 20 ? 3 : 6;
    float low = x[0], high = x[0], sw = 0, sx = 0;
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        sw += w[i];
        sx += w[i] * x[i];
    }
    fit_affine best = {.error = INFINITY};
    for (int c = 0; c < cuts; c++) {
        float range = high - low, last = INFINITY;
        float from = low + cut[c][0] * range, to = high - cut[c][1] * range;
        from = from < base_most ? from : base_most;
        fit_affine f = {.scale = (to - from) / (float)top, .base = from};
        for (int turn = 0; turn < 4; turn++) {
            if (round) f.scale = round(f.scale), f.base = round(f.base);
            sums s = try_affine(x, w, n, top, &f, NULL);
            if (f.error < best.error) best = f;
            if (!(f.error < last)) break;
            last = f.error;
            float of = sw * s.qq - s.q * s.q;
            if (!(of > 0)) break;
            f.scale = (sw * s.xq - s.q * sx) / of;
            f.base = (sx - f.scale * s.q) / sw;
            if (f.base > base_most) {
                f.base = base_most;
                f.scale = (s.xq - f.base * s.q) / s.qq;
            }
        }
        if (best.error == 0) break;
    }
    return best;
}

/* ---- codes low … high and a scale */

FIT_LOOPS
static sums try_scale(const float *x, const float *w, int n, int low, int high, fit_scale *f, int8_t *q)
{
    float e[LANES] = {0}, sqq[LANES] = {0}, sxq[LANES] = {0};
    float scale = f->scale, least = (float)low, most = (float)high, inverse = scale != 0 ? 1 / scale : 0;
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = x[i + j] * inverse;
            v = v > least ? v : least;
            v = v < most ? v : most;
            v = (v + FIT_ROUND) - FIT_ROUND;
            float d = x[i + j] - v * scale, wv = w[i + j] * v;
            e[j] += w[i + j] * d * d;
            sqq[j] += wv * v;
            sxq[j] += wv * x[i + j];
            if (q) q[i + j] = (int8_t)v;
        }
    f->error = lanes_sum(e);
    return (sums){0, lanes_sum(sqq), lanes_sum(sxq)};
}

void fit_scale_try(const float *x, const float *w, int n, int low, int high, fit_scale *f, int8_t *q)
{
    try_scale(x, w, n, low, high, f, q);
}

fit_scale fit_scale_best(const float *x, const float *w, int n, int low, int high, float (*round)(float))
{
    float most = 0;
    for (int i = 0; i < n; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    fit_scale best = {.error = INFINITY};
    int starts = high > 100 ? 1 : high > 10 ? 4 : 9;
    for (int c = 0; c < 2 * starts; c++) {
        /* the greatest weight at the end of the longer side, or of the other; then that end further in */
        float end = (float)(c % 2 ? high : low) + (c % 2 ? 1 : -1) * 0.3f * (float)(c / 2 - (starts > 4));
        float last = INFINITY;
        fit_scale f = {.scale = most / end};
        for (int turn = 0; turn < 3; turn++) {
            if (round) f.scale = round(f.scale);
            sums s = try_scale(x, w, n, low, high, &f, NULL);
            if (f.error < best.error) best = f;
            if (!(f.error < last) || !(s.qq > 0)) break;
            last = f.error;
            f.scale = s.xq / s.qq;
        }
        if (best.error == 0) break;
    }
    return best;
}

/* ---- one level */

static float as_f16(float x) { return f16_to_f32(f32_to_f16(x)); }

void fit_linear(dtype t, const float *x, const float *w, uint8_t *block)
{
    uint8_t q[64];
    int n = dtype_info[t].weights, top = linear_top(t);
    fit_affine f = fit_affine_best(x, w, n, top, as_f16, INFINITY);
    fit_affine_try(x, w, n, top, &f, q);
    linear_put(t, block, q, f32_to_f16(f.scale), f32_to_f16(f.base));
}

static void put_five(uint8_t *high, uint8_t *low, int i, int q)
{
    low[i % 16] = (uint8_t)(low[i % 16] | (q & 15) << (i < 16 ? 0 : 4));
    high[i / 8] = (uint8_t)(high[i / 8] | q >> 4 << i % 8);
}

/* q4_0, q5_0, q4_1, q5_1: nibbles i and i + 16 share a byte; fifth bits in a field of their own. */
void fit_legacy(dtype t, const float *x, const float *w, uint8_t *block)
{
    bool five = t == DTYPE_Q5_0 || t == DTYPE_Q5_1, centred = t == DTYPE_Q4_0 || t == DTYPE_Q5_0;
    int half = five ? 16 : 8;
    uint8_t q[32];
    uint16_t d, m = 0;
    if (centred) {
        int8_t signed_q[32];
        fit_scale f = fit_scale_best(x, w, 32, -half, half - 1, as_f16);
        fit_scale_try(x, w, 32, -half, half - 1, &f, signed_q);
        for (int i = 0; i < 32; i++) q[i] = (uint8_t)(signed_q[i] + half);
        d = f32_to_f16(f.scale);
    } else {
        fit_affine f = fit_affine_best(x, w, 32, 2 * half - 1, as_f16, INFINITY);
        fit_affine_try(x, w, 32, 2 * half - 1, &f, q);
        d = f32_to_f16(f.scale);
        m = f32_to_f16(f.base);
    }
    uint8_t *at = block + 2, high[4] = {0}, low[16] = {0};
    for (int i = 0; i < 32; i++) put_five(high, low, i, q[i]);
    memcpy(block, &d, 2);
    if (!centred) {
        memcpy(at, &m, 2);
        at += 2;
    }
    if (five) {
        memcpy(at, high, 4);
        at += 4;
    }
    memcpy(at, low, 16);
}

/* ---- rows */

static block_fitter *const fitter[DTYPE_COUNT] = {
    [DTYPE_Q8_B32] = fit_linear,  [DTYPE_Q8_B64] = fit_linear,  [DTYPE_Q6_B64] = fit_linear,
    [DTYPE_Q5_B64] = fit_linear,  [DTYPE_Q4_B32] = fit_linear,  [DTYPE_Q4_B64] = fit_linear,
    [DTYPE_Q3H_B64] = fit_linear, [DTYPE_Q3_B32] = fit_linear,  [DTYPE_Q2_B32] = fit_linear,
    [DTYPE_Q4_0] = fit_legacy,    [DTYPE_Q5_0] = fit_legacy,    [DTYPE_Q4_1] = fit_legacy,
    [DTYPE_Q5_1] = fit_legacy,    [DTYPE_Q2_T] = fit_two,       [DTYPE_Q3_T] = fit_two,
    [DTYPE_Q3H_T] = fit_two,      [DTYPE_Q4_T] = fit_two,       [DTYPE_Q2_K] = fit_k_minimum,
    [DTYPE_Q4_K] = fit_k_minimum, [DTYPE_Q5_K] = fit_k_minimum, [DTYPE_Q3_K] = fit_k_scale,
    [DTYPE_Q6_K] = fit_k_scale,   [DTYPE_IQ4_NL] = fit_iq4_nl,  [DTYPE_IQ4_XS] = fit_iq4_xs,
};

/* What brings the mean importance of a row to 1; 0: there is none to speak of. */
static float importance_unit(const float *importance, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; importance && i < n; i++) sum += importance[i];
    double unit = (double)n / sum;
    return sum > 0 && unit < 1e30 && unit > 1e-30 ? (float)unit : 0;
}

void quant_fit(dtype t, const float *row, uint64_t n, const float *importance, void *out)
{
    uint64_t weights = dtype_info[t].weights;
    uint8_t *at = out;
    if (weights == 1) {
        quant_encode(t, row, out, n);
        return;
    }
    float unit = importance_unit(importance, n);
    for (uint64_t i = 0; i < n; i += weights, at += dtype_info[t].bytes) {
        float x[DTYPE_WEIGHTS_MAX], w[DTYPE_WEIGHTS_MAX], all = 0;
        uint64_t there = n - i < weights ? n - i : weights;
        for (uint64_t j = 0; j < weights; j++) {
            float v = row[i + (j < there ? j : there - 1)]; /* filled up by its last weight */
            x[j] = v > FIT_MOST ? FIT_MOST : v > -FIT_MOST ? v : v <= -FIT_MOST ? -FIT_MOST : 0;
            v = j >= there ? 0 : unit > 0 ? importance[i + j] * unit : 1;
            w[j] = v > 0 ? v < FIT_MOST ? v : FIT_MOST : 0;
            all += w[j];
        }
        if (!(all > 0))
            for (uint64_t j = 0; j < there; j++) w[j] = 1;
        if (fitter[t]) fitter[t](t, x, w, at);
        else quant_encode(t, x, at, weights);
    }
}
