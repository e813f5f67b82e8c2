/* quant_linear.c - the formats of the Inferflow paper (arXiv 2401.08294, tables 2 and 3): blocks of 32 or 64 weights,
 * each code times one scale plus one base, both f16: q8_b32 q8_b64 q6_b64 q5_b64 q4_b32 q4_b64 q3h_b64 q3_b32 q2_b32.
 *
 * weight = code * scale + base, codes 0 … top. q3h has 11 levels, so that two codes share 7 bits: 3.5 bits a weight. A
 * block is base, scale, the upper bits if there are any, the lower bits; lowest bits first. Encoding here is min-max
 * rounding (equation 1 of the paper: base is the minimum, scale the range over top), with codes for base and scale as
 * stored. quant_fit.c does better. */
#include "tensor/quant_linear.h"

#include "base/half.h"
#include "tensor/quant_bits.h"
#include "tensor/quant_row.h"

#include <math.h>

/* 32 pairs in 7 bits each, q[0] + 11 q[1]: the top bits, two middle bits, four low bits. 121 … 127 are not written;
 * their second code is read as 10. */
static void pairs_get(const uint8_t *from, uint8_t *q)
{
    uint8_t pair[32];
    for (int i = 0; i < 4; i++) {
        uint64_t v = bits_eight(from + 12, i, 4) | bits_eight(from + 4, i, 2) << 4 | bits_eight(from, i, 1) << 6;
        memcpy(pair + 8 * i, &v, 8);
    }
    for (int i = 0; i < 32; i++) {
        int p = pair[i];
        q[2 * i] = (uint8_t)(p % 11);
        q[2 * i + 1] = (uint8_t)(p / 11 < 10 ? p / 11 : 10);
    }
}

static void pairs_put(uint8_t *to, const uint8_t *q)
{
    for (int i = 0; i < 32; i++) {
        int p = q[2 * i] + 11 * q[2 * i + 1];
        bits_put(to + 12, i, 4, p & 15);
        bits_put(to + 4, i, 2, p >> 4 & 3);
        bits_put(to, i, 1, p >> 6);
    }
}

/* ---- formats: X(id, name, low bits, high bits of a code); low 0: pairs */
#define LINEAR_LIST(X)                                                                                                 \
    X(Q8_B32, q8_b32, 8, 0)                                                                                            \
    X(Q8_B64, q8_b64, 8, 0)                                                                                            \
    X(Q6_B64, q6_b64, 4, 2)                                                                                            \
    X(Q5_B64, q5_b64, 4, 1)                                                                                            \
    X(Q4_B32, q4_b32, 4, 0)                                                                                            \
    X(Q4_B64, q4_b64, 4, 0)                                                                                            \
    X(Q3H_B64, q3h_b64, 0, 0)                                                                                          \
    X(Q3_B32, q3_b32, 2, 1)                                                                                            \
    X(Q2_B32, q2_b32, 2, 0)

static const struct linear_row {
    bool known;
    int low, high;
} rows[DTYPE_COUNT] = {
#define X(id, name, low, high) [DTYPE_##id] = {true, low, high},
    LINEAR_LIST(X)
#undef X
};

int linear_top(dtype t)
{
    const struct linear_row *r = &rows[t];
    return !r->known ? 0 : r->low ? (1 << (r->low + r->high)) - 1 : 10;
}

void linear_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, uint16_t *base)
{
    const struct linear_row *r = &rows[t];
    memcpy(base, block, 2);
    memcpy(scale, block + 2, 2);
    if (r->low) split_get(block + 4, q, dtype_info[t].weights, r->low, r->high);
    else pairs_get(block + 4, q);
}

void linear_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, uint16_t base)
{
    const struct linear_row *r = &rows[t];
    memset(block, 0, dtype_info[t].bytes);
    memcpy(block, &base, 2);
    memcpy(block + 2, &scale, 2);
    if (r->low) split_put(block + 4, q, dtype_info[t].weights, r->low, r->high);
    else pairs_put(block + 4, q);
}

static void decode_linear(dtype t, const uint8_t *from, float *to, uint64_t n)
{
    uint64_t weights = dtype_info[t].weights, bytes = dtype_info[t].bytes;
    for (; n; n -= weights, from += bytes, to += weights) {
        uint8_t q[64];
        uint16_t scale, base;
        linear_get(t, from, q, &scale, &base);
        float d = f16_to_f32(scale), m = f16_to_f32(base);
        for (uint64_t i = 0; i < weights; i++) to[i] = (float)q[i] * d + m;
    }
}

/* The code nearest to x, ties to even; some code for NaN and for scale 0 too. */
static uint8_t linear_code(float x, float scale, float base, int top)
{
    float v = (x - base) / scale;
    return !(v > 0) ? 0 : v >= (float)top ? (uint8_t)top : (uint8_t)(int)rintf(v);
}

static void encode_linear(dtype t, const float *from, uint8_t *to, uint64_t n)
{
    uint64_t weights = dtype_info[t].weights, bytes = dtype_info[t].bytes;
    int top = linear_top(t);
    for (; n; n -= weights, from += weights, to += bytes) {
        float low = from[0], high = from[0];
        for (uint64_t i = 1; i < weights; i++) {
            low = from[i] < low ? from[i] : low;
            high = from[i] > high ? from[i] : high;
        }
        uint16_t base = f32_to_f16(low), scale = f32_to_f16((high - low) / (float)top);
        float d = f16_to_f32(scale), m = f16_to_f32(base);
        uint8_t q[64];
        for (uint64_t i = 0; i < weights; i++) q[i] = linear_code(from[i], d, m, top);
        linear_put(t, to, q, scale, base);
    }
}

#define X(id, name, low, high)                                                                                         \
    void quant_decode_##name(const uint8_t *from, float *to, uint64_t n) { decode_linear(DTYPE_##id, from, to, n); }   \
    void quant_encode_##name(const float *from, uint8_t *to, uint64_t n) { encode_linear(DTYPE_##id, from, to, n); }
LINEAR_LIST(X)
#undef X
