/* quant_few_fit.c - encoders of two to four whole levels under one scale: q1_0 (-1, 1), q2_0 (-1 … 2), tq1_0 and tq2_0
 * (-1, 0, 1). The scale is the optimum, not the result of a search.
 *
 * The best codes under a scale are the nearest, so as it falls from infinity they leave 0 one after another, a weight x
 * for level m + 1 at |x| / (m + 1/2). Over all these sets of codes the one of smallest error maximizes A^2 / B,
 * where A = sum of w |x| m and B = sum of w m^2; its scale is A / B. One pass over the weights in order of size, with a
 * second place in that order for level 2, sees them all. Importance w does not change the order. tq1_0 has five base-3
 * digits in a byte, read by multiplying (quant_fp4.c). */
#include "base/half.h"
#include "tensor/quant_fit_row.h"
#include "tensor/block.h"

#include <math.h>

enum { K = DTYPE_WEIGHTS_MAX };

typedef struct sized {
    float size, w;
    int up; /* of what sign: 1, -1 */
} sized;

/* A stable sort by falling size: merges runs of 1, 2, 4 … */
static void sort_sizes(sized *x, int n)
{
    sized other[K], *from = x, *to = other;
    for (int run = 1; run < n; run *= 2) {
        for (int at = 0; at < n; at += 2 * run) {
            int a = at, a_end = at + run < n ? at + run : n, b = a_end, b_end = at + 2 * run < n ? at + 2 * run : n;
            for (int i = at; i < b_end; i++) {
                bool second = a == a_end || (b < b_end && from[b].size > from[a].size);
                to[i] = from[second ? b++ : a++];
            }
        }
        sized *t = from;
        from = to;
        to = t;
    }
    if (from != x) memcpy(x, from, (size_t)n * sizeof *x);
}

/* The best scale for levels -1, 0, 1, and 2 for weights of sign `up` (0: none); *gain: the error it takes off. */
static float best_scale(const sized *x, int n, int up, double *gain)
{
    double a = 0, b = 0, best = 0;
    *gain = 0;
    for (int one = 0, two = 0;;) {
        while (two < n && x[two].up != up) two++;
        if (one == n && two == n) return (float)best;
        bool again = two < n && (one == n || x[two].size > 3 * x[one].size);
        const sized *at = again ? &x[two++] : &x[one++];
        a += (double)at->w * at->size;
        b += (double)at->w * (again ? 3 : 1);
        if (a * a > *gain * b) {
            *gain = a * a / b;
            best = a / b;
        }
    }
}

/* The scale of a block as f16, never infinite. */
static uint16_t scale_of(const float *x, const float *w, int n, bool two)
{
    sized s[K];
    double gain, other = 0;
    for (int i = 0; i < n; i++) s[i] = (sized){fabsf(x[i]), w[i], x[i] > 0 ? 1 : -1};
    sort_sizes(s, n);
    float scale = best_scale(s, n, two ? 1 : 0, &gain), turned = two ? best_scale(s, n, -1, &other) : 0;
    if (other > gain) scale = -turned;
    return f32_to_f16(scale > 65504 ? 65504 : scale < -65504 ? -65504 : scale);
}

/* Levels plus 1 under that scale. */
static void codes_of(const float *x, int n, uint16_t scale, int top, uint8_t *q)
{
    float d = f16_to_f32(scale), inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < n; i++) {
        float v = x[i] * inverse + 1;
        v = v > 0 ? v : 0;
        v = v < (float)top ? v : (float)top;
        q[i] = (uint8_t)(int)((v + FIT_ROUND) - FIT_ROUND);
    }
}

static void put_q1_0(const float *x, const float *w, uint8_t *out)
{
    block_q1_0 b = {0};
    float sum = 0, all = 0;
    for (int i = 0; i < 128; i++) {
        sum += w[i] * fabsf(x[i]);
        all += w[i];
        b.qs[i / 8] = (uint8_t)(b.qs[i / 8] | (x[i] >= 0) << i % 8);
    }
    b.d = f32_to_f16(sum / all < 65504 ? sum / all : 65504);
    memcpy(out, &b, sizeof b);
}

static void put_q2_0(const float *x, const float *w, uint8_t *out)
{
    block_q2_0 b = {.d = scale_of(x, w, 64, true)};
    uint8_t q[64];
    codes_of(x, 64, b.d, 3, q);
    for (int i = 0; i < 64; i++) b.qs[i / 4] = (uint8_t)(b.qs[i / 4] | q[i] << i % 4 * 2);
    memcpy(out, &b, sizeof b);
}

static void put_tq2_0(const float *x, const float *w, uint8_t *out)
{
    block_tq2_0 b = {.d = scale_of(x, w, K, false)};
    uint8_t q[K];
    codes_of(x, K, b.d, 2, q);
    for (int k = 0; k < K; k++)
        b.qs[k / 128 * 32 + k % 32] = (uint8_t)(b.qs[k / 128 * 32 + k % 32] | q[k] << k / 32 % 4 * 2);
    memcpy(out, &b, sizeof b);
}

/* `n` digits, `apart` from each other, the first the most significant of five. */
static uint8_t pack_digits(const uint8_t *q, int n, int apart)
{
    int value = 0;
    for (int i = 0; i < 5; i++) value = value * 3 + (i < n ? q[i * apart] : 0);
    return (uint8_t)((value * 256 + 242) / 243);
}

static void put_tq1_0(const float *x, const float *w, uint8_t *out)
{
    block_tq1_0 b = {.d = scale_of(x, w, K, false)};
    uint8_t q[K];
    codes_of(x, K, b.d, 2, q);
    for (int i = 0; i < 32; i++) b.qs[i] = pack_digits(q + i, 5, 32);
    for (int i = 0; i < 16; i++) b.qs[32 + i] = pack_digits(q + 160 + i, 5, 16);
    for (int i = 0; i < 4; i++) b.qh[i] = pack_digits(q + 240 + i, 4, 4);
    memcpy(out, &b, sizeof b);
}

void fit_few(dtype t, const float *x, const float *w, int blocks, uint8_t *out)
{
    int n = dtype_info[t].weights;
    for (int b = 0; b < blocks; b++, x += n, w += n, out += dtype_info[t].bytes) switch (t) {
        case DTYPE_Q1_0: put_q1_0(x, w, out); break;
        case DTYPE_Q2_0: put_q2_0(x, w, out); break;
        case DTYPE_TQ1_0: put_tq1_0(x, w, out); break;
        default: put_tq2_0(x, w, out);
        }
}
