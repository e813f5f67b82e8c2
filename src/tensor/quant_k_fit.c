/* quant_k_fit.c - encoders of the K formats and of IQ4_XS: small integer scales (and minima) of sub-blocks under one or
 * two f16.
 *
 * First every sub-block is fitted by itself with real numbers. The largest determine the f16s, then all are rounded to
 * integers. Then two steps alternate: each sub-block tries the integers next to its own, with the codes that follow
 * (rounding scale and minimum apart is not best for the pair); and the f16s are solved for by least squares over all
 * choices. */
#include "base/half.h"
#include "tensor/block.h"
#include "tensor/quant_fit_lanes.h"

#include <math.h>
#include <string.h>

enum { K = 256, TURNS = 3 };

/* As many blocks side by side as have LANES sub-blocks between them: one sub-block a lane. */
typedef struct k_lanes {
    fit_lanes l;
    int subs, blocks;                                          /* sub-blocks of a block */
    float d[LANES], dmin[LANES], scale[LANES], minimum[LANES]; /* scale and minimum: whole numbers */
    float error[LANES];
    code_sums sums;
} k_lanes;

static float nearest(float x, float low, float high) { return x > low ? x < high ? rintf(x) : high : low; }

static void load_lanes(k_lanes *k, const float *x, const float *w, int sub, int blocks)
{
    k->subs = K / sub;
    k->blocks = blocks;
    fit_lanes_load(&k->l, x, w, sub, blocks * k->subs, sub);
}

/* Sum over the sub-blocks of block b. */
static float block_sum(const k_lanes *k, int b, const float *of)
{
    float sum = 0;
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) sum += of[j];
    return sum;
}

/* Keeps the better fit of each block, lane by lane. Returns whether any block improved. */
static bool keep_blocks(k_lanes *best, const k_lanes *k)
{
    bool any = false;
    for (int b = 0; b < k->blocks; b++) {
        if (!(block_sum(k, b, k->error) < block_sum(best, b, best->error))) continue;
        any = true;
        for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
            best->d[j] = k->d[j];
            best->dmin[j] = k->dmin[j];
            best->scale[j] = k->scale[j];
            best->minimum[j] = k->minimum[j];
            best->error[j] = k->error[j];
        }
    }
    return any;
}

/* ---- scale and minimum */

/* Keeps the better fit, lane by lane. */
FIT_LOOPS
static void keep_lanes(k_lanes *k, const float *error, const float *scale, const float *minimum, const code_sums *s)
{
    for (int j = 0; j < LANES; j++) {
        bool b = error[j] < k->error[j];
        k->error[j] = b ? error[j] : k->error[j];
        k->scale[j] = b ? scale[j] : k->scale[j];
        k->minimum[j] = b ? minimum[j] : k->minimum[j];
        k->sums.q[j] = b ? s->q[j] : k->sums.q[j];
        k->sums.qq[j] = b ? s->qq[j] : k->sums.qq[j];
        k->sums.xq[j] = b ? s->xq[j] : k->sums.xq[j];
    }
}

/* The best integers near the present ones, lane by lane. */
static void settle_minimum(k_lanes *k, int top, float most)
{
    affine_lanes f;
    code_sums s;
    float scale[LANES], minimum[LANES];
    memcpy(scale, k->scale, sizeof scale);
    memcpy(minimum, k->minimum, sizeof minimum);
    for (int j = 0; j < LANES; j++) k->error[j] = INFINITY;
    for (int c = 0; c < 9; c++) {
        float u[LANES], v[LANES];
        for (int j = 0; j < LANES; j++) {
            u[j] = nearest(scale[j] + (float)(c / 3 - 1), 0, most);
            v[j] = nearest(minimum[j] + (float)(c % 3 - 1), 0, most);
            f.scale[j] = k->d[j] * u[j];
            f.base[j] = -(k->dmin[j] * v[j]);
        }
        fit_affine_try(&k->l, top, &f, &s);
        keep_lanes(k, f.error, u, v, &s);
    }
}

/* d and dmin of block b that suit all codes, scales and minima. */
static void solve_minimum(k_lanes *k, int b)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    float d = k->d[b * k->subs], dmin = k->dmin[b * k->subs];
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
        double s = (double)k->scale[j], m = -(double)k->minimum[j];
        aa += s * s * k->sums.qq[j];
        ab += s * m * k->sums.q[j];
        bb += m * m * k->l.sw[j];
        ax += s * k->sums.xq[j];
        bx += m * k->l.sx[j];
    }
    double of = aa * bb - ab * ab;
    if (of > 1e-9 * aa * bb) {
        d = (float)((ax * bb - bx * ab) / of);
        dmin = (float)((bx * aa - ax * ab) / of);
    } else if (aa > 0) {
        d = (float)((ax - dmin * ab) / aa);
    }
    if (!(d > 0) || !(dmin >= 0)) return;
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
        k->d[j] = f32_round_f16(d);
        k->dmin[j] = f32_round_f16(dmin);
    }
}

/* The f16s of block b from the ideal scales of its sub-blocks, and the integers that follow. */
static void start_minimum(k_lanes *k, int b, const affine_lanes *f, float most)
{
    float scale = 0, minimum = 0;
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
        scale = f->scale[j] > scale ? f->scale[j] : scale;
        minimum = -f->base[j] > minimum ? -f->base[j] : minimum;
    }
    float d = f32_round_f16(scale / most), dmin = f32_round_f16(minimum / most);
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
        k->d[j] = d;
        k->dmin[j] = dmin;
        k->scale[j] = d > 0 ? nearest(f->scale[j] / d, 0, most) : 0;
        k->minimum[j] = dmin > 0 ? nearest(-f->base[j] / dmin, 0, most) : 0;
    }
}

static void fit_minimum(k_lanes *best, const float *x, const float *w, int blocks, int sub, int top, float most)
{
    affine_lanes f;
    load_lanes(best, x, w, sub, blocks);
    fit_affine_best(&best->l, top, false, 0, &f);
    k_lanes k = *best;
    for (int j = 0; j < LANES; j++) best->error[j] = INFINITY;
    for (int b = 0; b < blocks; b++) start_minimum(&k, b, &f, most);
    for (int turn = 0; turn < TURNS; turn++) {
        settle_minimum(&k, top, most);
        if (!keep_blocks(best, &k)) break;
        for (int b = 0; b < blocks; b++) solve_minimum(&k, b);
    }
}

static void codes_minimum(const k_lanes *k, int top, lane_codes q)
{
    affine_lanes f;
    for (int j = 0; j < LANES; j++) {
        f.scale[j] = k->d[j] * k->scale[j];
        f.base[j] = -(k->dmin[j] * k->minimum[j]);
    }
    fit_affine_codes(&k->l, top, &f, q);
}

/* Codes of block b, sub-block after sub-block. */
static void block_codes(const k_lanes *k, const lane_codes q, int b, uint8_t *to)
{
    for (int j = 0; j < k->subs; j++) lane_of(q, k->l.n, b * k->subs + j, to + j * k->l.n);
}

static void put_k4_scales(uint8_t *s, const float *scales, const float *minima)
{
    for (int j = 0; j < 8; j++) {
        int scale = (int)scales[j], minimum = (int)minima[j];
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

static void put_minimum(dtype t, const k_lanes *k, int b, const uint8_t *q, uint8_t *to)
{
    int j0 = b * k->subs;
    uint16_t d = f32_to_f16(k->d[j0]), dmin = f32_to_f16(k->dmin[j0]);
    if (t == DTYPE_Q2_K) {
        block_q2_k out = {.d = d, .dmin = dmin};
        for (int j = 0; j < 16; j++) out.scales[j] = (uint8_t)((int)k->scale[j0 + j] | (int)k->minimum[j0 + j] << 4);
        for (int i = 0; i < K; i++) put_two(out.qs, i, q[i]);
        memcpy(to, &out, sizeof out);
    } else if (t == DTYPE_Q4_K) {
        block_q4_k out = {.d = d, .dmin = dmin};
        put_k4_scales(out.scales, k->scale + j0, k->minimum + j0);
        for (int i = 0; i < K; i++) put_four(out.qs, i, q[i]);
        memcpy(to, &out, sizeof out);
    } else {
        block_q5_k out = {.d = d, .dmin = dmin};
        put_k4_scales(out.scales, k->scale + j0, k->minimum + j0);
        for (int i = 0; i < K; i++) {
            put_four(out.qs, i, q[i] & 15);
            out.qh[i % 32] = (uint8_t)(out.qh[i % 32] | q[i] >> 4 << i / 32);
        }
        memcpy(to, &out, sizeof out);
    }
}

void fit_k_minimum(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    int top = t == DTYPE_Q2_K ? 3 : t == DTYPE_Q4_K ? 15 : 31, sub = t == DTYPE_Q2_K ? 16 : 32;
    int together = LANES * sub / K;
    k_lanes k;
    lane_codes codes;
    uint8_t q[K];
    for (int at = 0; at < blocks; at += together) {
        int n = blocks - at < together ? blocks - at : together;
        fit_minimum(&k, x + at * K, w + at * K, n, sub, top, t == DTYPE_Q2_K ? 15 : 63);
        codes_minimum(&k, top, codes);
        for (int b = 0; b < n; b++, out += dtype_info[t].bytes) {
            block_codes(&k, codes, b, q);
            put_minimum(t, &k, b, q, out);
        }
    }
}

/* ---- a signed scale alone */

static void settle_scale(k_lanes *k, const code_kind *kind, float most)
{
    scale_lanes f;
    code_sums s;
    float scale[LANES];
    memcpy(scale, k->scale, sizeof scale);
    for (int j = 0; j < LANES; j++) k->error[j] = INFINITY;
    for (int c = -1; c <= 1; c++) {
        float u[LANES];
        for (int j = 0; j < LANES; j++) {
            u[j] = nearest(scale[j] + (float)c, -most - 1, most);
            f.scale[j] = k->d[j] * u[j];
        }
        fit_scale_try(&k->l, kind, &f, &s);
        keep_lanes(k, f.error, u, k->minimum, &s);
    }
}

static void solve_scale(k_lanes *k, int b)
{
    double ss = 0, xs = 0;
    for (int j = b * k->subs; j < (b + 1) * k->subs; j++) {
        ss += (double)k->scale[j] * k->scale[j] * k->sums.qq[j];
        xs += (double)k->scale[j] * k->sums.xq[j];
    }
    for (int j = b * k->subs; j < (b + 1) * k->subs && ss > 0; j++) k->d[j] = f32_round_f16((float)(xs / ss));
}

/* Scales -most - 1 … most of sub-blocks. */
static void fit_scales(k_lanes *best, const float *x, const float *w, int blocks, int sub, float most,
                       const code_kind *kind)
{
    scale_lanes f;
    load_lanes(best, x, w, sub, blocks);
    memset(best->minimum, 0, sizeof best->minimum);
    memset(best->dmin, 0, sizeof best->dmin);
    fit_scale_best(&best->l, kind, false, &f);
    k_lanes k = *best;
    for (int j = 0; j < LANES; j++) best->error[j] = INFINITY;
    for (int b = 0; b < blocks; b++) {
        float extreme = 0;
        for (int j = b * k.subs; j < (b + 1) * k.subs; j++)
            extreme = fabsf(f.scale[j]) > fabsf(extreme) ? f.scale[j] : extreme;
        for (int j = b * k.subs; j < (b + 1) * k.subs; j++) {
            k.d[j] = f32_round_f16(extreme / (-most - 1));
            k.scale[j] = k.d[j] != 0 ? nearest(f.scale[j] / k.d[j], -most - 1, most) : 0;
        }
    }
    for (int turn = 0; turn < TURNS; turn++) {
        settle_scale(&k, kind, most);
        if (!keep_blocks(best, &k)) break;
        for (int b = 0; b < blocks; b++) solve_scale(&k, b);
    }
}

static void codes_scale(const k_lanes *k, const code_kind *kind, lane_codes q)
{
    scale_lanes f;
    for (int j = 0; j < LANES; j++) f.scale[j] = k->d[j] * k->scale[j];
    fit_scale_codes(&k->l, kind, &f, q);
}

static void put_q3_k(const k_lanes *k, int b, const uint8_t *q, uint8_t *to)
{
    block_q3_k out = {.d = f32_to_f16(k->d[b * k->subs])};
    for (int j = 0; j < 16; j++) {
        int s = (int)k->scale[b * k->subs + j] + 32;
        out.scales[j % 8] = (uint8_t)(out.scales[j % 8] | (s & 15) << (j < 8 ? 0 : 4));
        out.scales[8 + j % 4] = (uint8_t)(out.scales[8 + j % 4] | s >> 4 << j / 4 * 2);
    }
    for (int i = 0; i < K; i++) {
        put_two(out.qs, i, q[i] & 3);
        out.hmask[i % 32] = (uint8_t)(out.hmask[i % 32] | q[i] >> 2 << i / 32);
    }
    memcpy(to, &out, sizeof out);
}

static void put_q6_k(const k_lanes *k, int b, const uint8_t *q, uint8_t *to)
{
    block_q6_k out = {.d = f32_to_f16(k->d[b * k->subs])};
    for (int j = 0; j < 16; j++) out.scales[j] = (int8_t)k->scale[b * k->subs + j];
    for (int i = 0; i < K; i++) {
        int half = i / 128, r = i % 128;
        uint8_t *low = out.ql + half * 64 + r % 64, *high = out.qh + half * 32 + r % 32;
        *low = (uint8_t)(*low | (q[i] & 15) << r / 64 * 4);
        *high = (uint8_t)(*high | q[i] >> 4 << r / 32 * 2);
    }
    memcpy(to, &out, sizeof out);
}

void fit_k_scale(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    bool three = t == DTYPE_Q3_K;
    const code_kind kind = {three ? -4 : -32, three ? 3 : 31, false};
    k_lanes k;
    lane_codes codes;
    uint8_t q[K];
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        fit_scales(&k, x + b * K, w + b * K, 1, 16, three ? 31 : 127, &kind);
        codes_scale(&k, &kind, codes);
        block_codes(&k, codes, 0, q);
        if (three) put_q3_k(&k, 0, q, out);
        else put_q6_k(&k, 0, q, out);
    }
}

static const code_kind iq4 = {.levels = true};

void fit_iq4_nl(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    uint8_t q[32];
    fit_lanes l;
    scale_lanes f;
    lane_codes codes;
    fit_lanes_load(&l, x, w, 32, blocks, 32);
    fit_scale_best(&l, &iq4, true, &f);
    fit_scale_codes(&l, &iq4, &f, codes);
    for (int b = 0; b < blocks; b++, out += dtype_info[t].bytes) {
        block_iq4_nl to = {.d = f32_to_f16(f.scale[b])};
        lane_of(codes, 32, b, q);
        for (int i = 0; i < 16; i++) to.qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
        memcpy(out, &to, sizeof to);
    }
}

static void put_iq4_xs(const k_lanes *k, int b, const uint8_t *q, uint8_t *to)
{
    block_iq4_xs out = {.d = f32_to_f16(k->d[b * k->subs])};
    for (int g = 0; g < 8; g++, q += 32) {
        int s = (int)k->scale[b * k->subs + g] + 32;
        out.scales_l[g / 2] = (uint8_t)(out.scales_l[g / 2] | (s & 15) << g % 2 * 4);
        out.scales_h = (uint16_t)(out.scales_h | s >> 4 << g * 2);
        for (int i = 0; i < 16; i++) out.qs[16 * g + i] = (uint8_t)(q[i] | q[i + 16] << 4);
    }
    memcpy(to, &out, sizeof out);
}

void fit_iq4_xs(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    k_lanes k;
    lane_codes codes;
    uint8_t q[K];
    for (int at = 0; at < blocks; at += 2) {
        int n = blocks - at < 2 ? 1 : 2;
        fit_scales(&k, x + at * K, w + at * K, n, 32, 31, &iq4);
        codes_scale(&k, &iq4, codes);
        for (int b = 0; b < n; b++, out += dtype_info[t].bytes) {
            block_codes(&k, codes, b, q);
            put_iq4_xs(&k, b, q, out);
        }
    }
}
