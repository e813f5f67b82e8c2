/* quant_k_fit.c - encoders of the K formats and of IQ4_XS: small integer scales (and minima) of sub-blocks under one or two f16.
 *
 * First every sub-block is fitted by itself with real numbers. The greatest of them make the f16s, the rest becomes integers. Then two steps in
 * turns: each sub-block tries the integers next to its own, with the codes that follow (rounding scale and minimum apart is not best for
 * the pair); and the f16s are the least-squares solution over all that was chosen. */
#include "base/half.h"
#include "tensor/block.h"
#include "tensor/quant_fit.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_grids.h"
#include "tensor/quant_row.h"

#include <math.h>
#include <string.h>

enum { K = 256, SUBS = 16, TURNS = 3 };

/* A block on its way: sub-blocks of `sub` weights. */
typedef struct k_block {
    int sub;
    float d, dmin;
    int scale[SUBS], minimum[SUBS];
    uint8_t q[K];
    float error;
} k_block;

static float as_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
static int nearest(float x, int low, int high) { return x > (float)low ? x < (float)high ? (int)rintf(x) : high : low; }

/* ---- scale and minimum */

/* The best integers of sub-block j near those at hand, and its codes. Returns its error. */
static float settle_minimum(k_block *b, int j, const float *x, const float *w, int top, int most)
{
    float best = INFINITY;
    int scale = b->scale[j], minimum = b->minimum[j];
    for (int s = scale - 1; s <= scale + 1; s++)
        for (int m = minimum - 1; m <= minimum + 1; m++) {
            if (s < 0 || s > most || m < 0 || m > most) continue;
            fit_affine f = {.scale = b->d * (float)s, .base = -(b->dmin * (float)m)};
            fit_affine_try(x, w, b->sub, top, &f, NULL);
            if (!(f.error < best)) continue;
            best = f.error;
            b->scale[j] = s;
            b->minimum[j] = m;
        }
    fit_affine f = {.scale = b->d * (float)b->scale[j], .base = -(b->dmin * (float)b->minimum[j])};
    fit_affine_try(x, w, b->sub, top, &f, b->q + j * b->sub);
    return f.error;
}

/* d and dmin that suit all codes, scales and minima. */
static void solve_minimum(k_block *b, const float *x, const float *w)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int i = 0; i < K; i++) {
        double a = b->scale[i / b->sub] * b->q[i], m = -b->minimum[i / b->sub];
        aa += w[i] * a * a;
        ab += w[i] * a * m;
        bb += w[i] * m * m;
        ax += w[i] * a * x[i];
        bx += w[i] * m * x[i];
    }
    double of = aa * bb - ab * ab;
    if (of > 1e-9 * aa * bb) {
        b->d = (float)((ax * bb - bx * ab) / of);
        b->dmin = (float)((bx * aa - ax * ab) / of);
    } else if (aa > 0) {
        b->d = (float)((ax - b->dmin * ab) / aa);
    }
}

static k_block fit_minimum(const float *x, const float *w, int sub, int top, int most)
{
    fit_affine f[SUBS];
    k_block b = {.sub = sub}, best = {.error = INFINITY};
    float scale = 0, minimum = 0;
    for (int j = 0; j < K / sub; j++) {
        f[j] = fit_affine_best(x + j * sub, w + j * sub, sub, top, NULL, 0);
        if (f[j].scale < 0) f[j].scale = 0;
        scale = f[j].scale > scale ? f[j].scale : scale;
        minimum = -f[j].base > minimum ? -f[j].base : minimum;
    }
    b.d = scale / (float)most;
    b.dmin = minimum / (float)most;
    for (int turn = 0; turn < TURNS; turn++) {
        b.d = as_f16(b.d);
        b.dmin = as_f16(b.dmin);
        b.error = 0;
        for (int j = 0; j < K / sub; j++) {
            if (turn == 0) {
                b.scale[j] = b.d > 0 ? nearest(f[j].scale / b.d, 0, most) : 0;
                b.minimum[j] = b.dmin > 0 ? nearest(-f[j].base / b.dmin, 0, most) : 0;
            }
            b.error += settle_minimum(&b, j, x + j * sub, w + j * sub, top, most);
        }
        if (!(b.error < best.error)) break;
        best = b;
        if (b.error == 0) break;
        solve_minimum(&b, x, w);
        if (!(b.d > 0) || !(b.dmin >= 0)) break;
    }
    return best;
}

static void put_k4_scales(uint8_t *s, const k_block *b)
{
    for (int j = 0; j < 8; j++) {
        int scale = b->scale[j], minimum = b->minimum[j];
        if (j < 4) {
            s[j] = (uint8_t)(s[j] | scale);
            s[j + 4] = (uint8_t)(s[j + 4] | minimum);
        } else {
            s[j + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
            s[j - 4] = (uint8_t)(s[j - 4] | scale >> 4 << 6);
            s[j] = (uint8_t)(s[j] | minimum >> 4 << 6);
        }
    }
}

static void put_two(uint8_t *qs, int k, int q)
{
    uint8_t *at = qs + k / 128 * 32 + k % 32;
    *at = (uint8_t)(*at | q << k / 32 % 4 * 2);
}
static void put_four(uint8_t *qs, int k, int q)
{
    uint8_t *at = qs + k / 64 * 32 + k % 32;
    *at = (uint8_t)(*at | q << k / 32 % 2 * 4);
}

void fit_k_minimum(dtype t, const float *x, const float *w, uint8_t *block)
{
    int top = t == DTYPE_Q2_K ? 3 : t == DTYPE_Q4_K ? 15 : 31;
    k_block b = fit_minimum(x, w, t == DTYPE_Q2_K ? 16 : 32, top, t == DTYPE_Q2_K ? 15 : 63);
    uint16_t d = f32_to_f16(b.d), dmin = f32_to_f16(b.dmin);
    if (t == DTYPE_Q2_K) {
        block_q2_k out = {.d = d, .dmin = dmin};
        for (int j = 0; j < 16; j++) out.scales[j] = (uint8_t)(b.scale[j] | b.minimum[j] << 4);
        for (int k = 0; k < K; k++) put_two(out.qs, k, b.q[k]);
        memcpy(block, &out, sizeof out);
    } else if (t == DTYPE_Q4_K) {
        block_q4_k out = {.d = d, .dmin = dmin};
        put_k4_scales(out.scales, &b);
        for (int k = 0; k < K; k++) put_four(out.qs, k, b.q[k]);
        memcpy(block, &out, sizeof out);
    } else {
        block_q5_k out = {.d = d, .dmin = dmin};
        put_k4_scales(out.scales, &b);
        for (int k = 0; k < K; k++) {
            put_four(out.qs, k, b.q[k] & 15);
            out.qh[k % 32] = (uint8_t)(out.qh[k % 32] | b.q[k] >> 4 << k / 32);
        }
        memcpy(block, &out, sizeof out);
    }
}

/* ---- a signed scale alone */

/* How codes of a format become numbers: low … high, or the levels of IQ4. */
typedef struct code_kind {
    int low, high;
    bool levels;
} code_kind;

/* Codes are the nearest levels; f->error. Sums of importance * level * level and importance * level * x for least squares. */
FIT_LOOPS
static void try_levels(const float *x, const float *w, int n, fit_scale *f, int8_t *q, float *vv, float *xv)
{
    float e[LANES] = {0}, svv[LANES] = {0}, sxv[LANES] = {0}, inverse = f->scale != 0 ? 1 / f->scale : 0;
    for (int i = 0; i < n; i += LANES) {
        float u[LANES], v[LANES], far[LANES];
        for (int j = 0; j < LANES; j++) {
            u[j] = x[i + j] * inverse;
            v[j] = 0;
            far[j] = 0x1p60f;
        }
        for (int c = 0; c < 16; c++)
            for (int j = 0; j < LANES; j++) {
                float d = (u[j] - quant_level_iq4[c]) * (u[j] - quant_level_iq4[c]);
                v[j] = d < far[j] ? quant_level_iq4[c] : v[j];
                far[j] = d < far[j] ? d : far[j];
            }
        for (int j = 0; j < LANES; j++) {
            float d = x[i + j] - v[j] * f->scale;
            e[j] += w[i + j] * d * d;
            svv[j] += w[i + j] * v[j] * v[j];
            sxv[j] += w[i + j] * v[j] * x[i + j];
            if (q) q[i + j] = (int8_t)v[j];
        }
    }
    f->error = lanes_sum(e);
    *vv = lanes_sum(svv);
    *xv = lanes_sum(sxv);
}

static fit_scale best_levels(const float *x, const float *w, int n, float (*round)(float))
{
    fit_scale best = {.error = INFINITY};
    float most = 0;
    for (int i = 0; i < n; i++) most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    for (int c = 0; c < 14; c++) {
        float last = INFINITY, vv, xv;
        fit_scale f = {.scale = most / (c % 2 ? 113 + 9.f * (float)(c / 2 - 2) : -127 - 9.f * (float)(c / 2 - 2))};
        for (int turn = 0; turn < 2; turn++) {
            if (round) f.scale = round(f.scale);
            try_levels(x, w, n, &f, NULL, &vv, &xv);
            if (f.error < best.error) best = f;
            if (!(f.error < last) || !(vv > 0)) break;
            last = f.error;
            f.scale = xv / vv;
        }
        if (best.error == 0) break;
    }
    return best;
}

static void try_codes(const code_kind *kind, const float *x, const float *w, int n, fit_scale *f, int8_t *q)
{
    float unused;
    if (kind->levels) try_levels(x, w, n, f, q, &unused, &unused);
    else fit_scale_try(x, w, n, kind->low, kind->high, f, q);
}

static float settle_scale(k_block *b, int j, const code_kind *kind, const float *x, const float *w, int most)
{
    float best = INFINITY;
    int scale = b->scale[j];
    for (int s = scale - 1; s <= scale + 1; s++) {
        if (s < -most - 1 || s > most) continue;
        fit_scale f = {.scale = b->d * (float)s};
        try_codes(kind, x, w, b->sub, &f, NULL);
        if (!(f.error < best)) continue;
        best = f.error;
        b->scale[j] = s;
    }
    fit_scale f = {.scale = b->d * (float)b->scale[j]};
    try_codes(kind, x, w, b->sub, &f, (int8_t *)b->q + j * b->sub);
    return f.error;
}

/* Scales -most - 1 … most of sub-blocks; codes come as signed numbers. */
static k_block fit_scales(const float *x, const float *w, int sub, int most, code_kind kind)
{
    fit_scale f[SUBS];
    k_block b = {.sub = sub}, best = {.error = INFINITY};
    float extreme = 0;
    for (int j = 0; j < K / sub; j++) {
        f[j] = kind.levels ? best_levels(x + j * sub, w + j * sub, sub, NULL)
                           : fit_scale_best(x + j * sub, w + j * sub, sub, kind.low, kind.high, NULL);
        extreme = fabsf(f[j].scale) > fabsf(extreme) ? f[j].scale : extreme;
    }
    b.d = extreme / (float)(-most - 1);
    for (int turn = 0; turn < TURNS; turn++) {
        b.d = as_f16(b.d);
        b.error = 0;
        double ss = 0, xs = 0;
        for (int j = 0; j < K / sub; j++) {
            if (turn == 0) b.scale[j] = b.d != 0 ? nearest(f[j].scale / b.d, -most - 1, most) : 0;
            b.error += settle_scale(&b, j, &kind, x + j * sub, w + j * sub, most);
            for (int i = j * sub; i < (j + 1) * sub; i++) {
                double v = b.scale[j] * (int8_t)b.q[i];
                ss += w[i] * v * v;
                xs += w[i] * v * x[i];
            }
        }
        if (!(b.error < best.error)) break;
        best = b;
        if (b.error == 0 || !(ss > 0)) break;
        b.d = (float)(xs / ss);
    }
    return best;
}

void fit_k_scale(dtype t, const float *x, const float *w, uint8_t *block)
{
    bool three = t == DTYPE_Q3_K;
    k_block b = fit_scales(x, w, 16, three ? 31 : 127, (code_kind){three ? -4 : -32, three ? 3 : 31, false});
    uint16_t d = f32_to_f16(b.d);
    if (three) {
        block_q3_k out = {.d = d};
        for (int j = 0; j < 16; j++) {
            int s = b.scale[j] + 32;
            out.scales[j % 8] = (uint8_t)(out.scales[j % 8] | (s & 15) << (j < 8 ? 0 : 4));
            out.scales[8 + j % 4] = (uint8_t)(out.scales[8 + j % 4] | s >> 4 << j / 4 * 2);
        }
        for (int k = 0; k < K; k++) {
            int q = (int8_t)b.q[k] + 4;
            put_two(out.qs, k, q & 3);
            out.hmask[k % 32] = (uint8_t)(out.hmask[k % 32] | q >> 2 << k / 32);
        }
        memcpy(block, &out, sizeof out);
        return;
    }
    block_q6_k out = {.d = d};
    for (int j = 0; j < 16; j++) out.scales[j] = (int8_t)b.scale[j];
    for (int k = 0; k < K; k++) {
        int q = (int8_t)b.q[k] + 32, half = k / 128, r = k % 128;
        uint8_t *low = out.ql + half * 64 + r % 64, *high = out.qh + half * 32 + r % 32;
        *low = (uint8_t)(*low | (q & 15) << r / 64 * 4);
        *high = (uint8_t)(*high | q >> 4 << r / 32 * 2);
    }
    memcpy(block, &out, sizeof out);
}

static int iq4_code(int8_t level)
{
    int c = 0;
    while (quant_level_iq4[c] < (float)level) c++;
    return c;
}

void fit_iq4_nl(dtype t, const float *x, const float *w, uint8_t *block)
{
    (void)t;
    int8_t v[32];
    float unused;
    fit_scale f = best_levels(x, w, 32, as_f16);
    try_levels(x, w, 32, &f, v, &unused, &unused);
    block_iq4_nl out = {.d = f32_to_f16(f.scale)};
    for (int i = 0; i < 16; i++) out.qs[i] = (uint8_t)(iq4_code(v[i]) | iq4_code(v[i + 16]) << 4);
    memcpy(block, &out, sizeof out);
}

void fit_iq4_xs(dtype t, const float *x, const float *w, uint8_t *block)
{
    (void)t;
    k_block b = fit_scales(x, w, 32, 31, (code_kind){.levels = true});
    block_iq4_xs out = {.d = f32_to_f16(b.d)};
    for (int g = 0; g < 8; g++) {
        int s = b.scale[g] + 32;
        out.scales_l[g / 2] = (uint8_t)(out.scales_l[g / 2] | (s & 15) << g % 2 * 4);
        out.scales_h = (uint16_t)(out.scales_h | s >> 4 << g * 2);
        for (int i = 0; i < 16; i++)
            out.qs[16 * g + i] = (uint8_t)(iq4_code((int8_t)b.q[32 * g + i]) | iq4_code((int8_t)b.q[32 * g + i + 16])
                                                                                   << 4);
    }
    memcpy(block, &out, sizeof out);
}

/* ---- as plain encoders: there is no other */
#define K_ENCODER(id, name)                                                                                            \
    void quant_encode_##name(const float *from, uint8_t *to, uint64_t n) { quant_fit(DTYPE_##id, from, n, NULL, to); }
K_ENCODER(Q2_K, q2_k)
K_ENCODER(Q3_K, q3_k)
K_ENCODER(Q4_K, q4_k)
K_ENCODER(Q5_K, q5_k)
K_ENCODER(Q6_K, q6_k)
K_ENCODER(IQ4_NL, iq4_nl)
K_ENCODER(IQ4_XS, iq4_xs)
