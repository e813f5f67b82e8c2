/* quant_legacy.c - blocks of 32 (and 64, 128) weights with one scale: q4_0 q4_1 q5_0 q5_1 q8_0 q8_1 q8_f32 q1_0 q2_0.
 *
 * weight = q * d, with q centred (q4_0: -8..7, q5_0: -16..15), or q * d + m. Encoding is round-to-nearest the way ggml
 * does it, so that files compare byte for byte: the symmetric forms make the weight of largest magnitude their most
 * negative level. */
#include "base/half.h"
#include "tensor/quant_row.h"

#include <math.h>

static void decode_block_q4_0(const block_q4_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)((b->qs[j] & 15) - 8);
        y[j + 16] = d * (float)((b->qs[j] >> 4) - 8);
    }
}

static void decode_block_q4_1(const block_q4_1 *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)(b->qs[j] & 15) + m;
        y[j + 16] = d * (float)(b->qs[j] >> 4) + m;
    }
}

/* Five-bit value of weight j: four bits in a nibble, the fifth in a bit field. */
static int five_bits(const uint8_t *qh, const uint8_t *qs, int j)
{
    int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    return low | (qh[j / 8] >> j % 8 & 1) << 4;
}

static void decode_block_q5_0(const block_q5_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = d * (float)(five_bits(b->qh, b->qs, j) - 16);
}

static void decode_block_q5_1(const block_q5_1 *b, float *y)
{
    float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
    for (int j = 0; j < 32; j++) y[j] = d * (float)five_bits(b->qh, b->qs, j) + m;
}

static void decode_block_q8_0(const block_q8_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = d * (float)b->qs[j];
}

static void decode_block_q8_1(const block_q8_1 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 32; j++) y[j] = d * (float)b->qs[j];
}

static void decode_block_q8_f32(const block_q8_f32 *b, float *y)
{
    for (int j = 0; j < 32; j++) y[j] = (float)b->qs[j] * b->d;
}

static void decode_block_q2_0(const block_q2_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 64; j++) y[j] = d * (float)((b->qs[j / 4] >> 2 * (j % 4) & 3) - 1);
}

static void decode_block_q1_0(const block_q1_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 128; j++) y[j] = b->qs[j / 8] >> j % 8 & 1 ? d : -d;
}

BLOCK_DECODER(q4_0, 32)
BLOCK_DECODER(q4_1, 32)
BLOCK_DECODER(q5_0, 32)
BLOCK_DECODER(q5_1, 32)
BLOCK_DECODER(q8_0, 32)
BLOCK_DECODER(q8_1, 32)
BLOCK_DECODER(q8_f32, 32)
BLOCK_DECODER(q2_0, 64)
BLOCK_DECODER(q1_0, 128)

/* ---- encoding */

/* Truncation into 0..top; NaN gives 0. */
static int level(float v, int top) { return v >= (float)top ? top : v > 0 ? (int)v : 0; }

/* The value of largest magnitude, the first of equals. */
static float find_extreme(const float *x)
{
    float best = 0;
    for (int j = 0; j < 32; j++)
        if (fabsf(x[j]) > fabsf(best)) best = x[j];
    return best;
}

/* d for levels centred on `half`, as f16 in *bits; returns 1 / d (0 when all weights are 0). */
static float symmetric_scale(const float *x, int half, uint16_t *bits)
{
    float d = find_extreme(x) / (float)-half;
    *bits = f32_to_f16(d);
    return d != 0 ? 1.f / d : 0.f;
}

static float affine_scale(const float *x, int top, float *least, uint16_t *d_bits, uint16_t *m_bits)
{
    float low = x[0], high = x[0];
    for (int j = 1; j < 32; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
    }
    float d = (high - low) / (float)top;
    *d_bits = f32_to_f16(d);
    *m_bits = f32_to_f16(low);
    *least = low;
    return d != 0 ? 1.f / d : 0.f;
}

static void encode_block_q4_0(const float *x, block_q4_0 *b)
{
    float inverse = symmetric_scale(x, 8, &b->d);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(level(x[j] * inverse + 8.5f, 15) | level(x[j + 16] * inverse + 8.5f, 15) << 4);
}

static void encode_block_q4_1(const float *x, block_q4_1 *b)
{
    float m, inverse = affine_scale(x, 15, &m, &b->d, &b->m);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(level((x[j] - m) * inverse + 0.5f, 15) | level((x[j + 16] - m) * inverse + 0.5f, 15) << 4);
}

static void put_five_bits(uint8_t *qh, uint8_t *qs, int j, int q)
{
    qs[j % 16] |= (uint8_t)((q & 15) << (j < 16 ? 0 : 4));
    qh[j / 8] |= (uint8_t)(q >> 4 << j % 8);
}

static void encode_block_q5_0(const float *x, block_q5_0 *b)
{
    float inverse = symmetric_scale(x, 16, &b->d);
    for (int j = 0; j < 32; j++) put_five_bits(b->qh, b->qs, j, level(x[j] * inverse + 16.5f, 31));
}

static void encode_block_q5_1(const float *x, block_q5_1 *b)
{
    float m, inverse = affine_scale(x, 31, &m, &b->d, &b->m);
    for (int j = 0; j < 32; j++) put_five_bits(b->qh, b->qs, j, level((x[j] - m) * inverse + 0.5f, 31));
}

static void encode_block_q8_0(const float *x, block_q8_0 *b)
{
    float d = fabsf(find_extreme(x)) / 127.f, inverse = d != 0 ? 1.f / d : 0.f;
    b->d = f32_to_f16(d);
    for (int j = 0; j < 32; j++) {
        float v = roundf(x[j] * inverse); /* halves away from zero */
        b->qs[j] = (int8_t)(v >= 127 ? 127 : v > -127 ? (int)v : v <= -127 ? -127 : 0);
    }
}

BLOCK_ENCODER(q4_0, 32)
BLOCK_ENCODER(q4_1, 32)
BLOCK_ENCODER(q5_0, 32)
BLOCK_ENCODER(q5_1, 32)
BLOCK_ENCODER(q8_0, 32)
