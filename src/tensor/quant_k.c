/* quant_k.c - the K formats: 256 weights, sub-blocks of 16 or 32 with 4- or 6-bit integer scales under one or two f16.
 *
 * q2_k, q4_k, q5_k: weight = (d * scale) * q - (dmin * minimum). q3_k, q6_k: weight = (d * scale) * q, q centred. */
#include "base/half.h"
#include "tensor/quant_row.h"

/* Two bits of weight k (0..255): 32 bytes serve 128 weights, four shifts of two. */
static int two_bits(const uint8_t *qs, int k) { return qs[k / 128 * 32 + k % 32] >> k / 32 % 4 * 2 & 3; }

static void decode_block_q2_k(const block_q2_k *b, float *y)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    for (int k = 0; k < 256; k++) {
        int s = b->scales[k / 16];
        y[k] = d * (float)(s & 15) * (float)two_bits(b->qs, k) - dmin * (float)(s >> 4);
    }
}

/* Scale j of 16: low nibbles of bytes 0-7 hold scales 0-7, high nibbles 8-15; the upper two bits lie in bytes 8-11. */
static int q3_scale(const uint8_t *s, int j)
{
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (low | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

static void decode_block_q3_k(const block_q3_k *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 256; k++) {
        int high = b->hmask[k % 32] >> k / 32 & 1; /* a set bit means: do not subtract 4 */
        y[k] = d * (float)q3_scale(b->scales, k / 16) * (float)(two_bits(b->qs, k) - (high ? 0 : 4));
    }
}

/* Six-bit scale and minimum of sub-block j of 8: 0-3 in the low six bits of bytes 0-3 and 4-7; for 4-7 four bits come
 * from bytes 8-11 and two from the top of the bytes before. */
static void scale_and_min(const uint8_t *s, int j, int *scale, int *minimum)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *minimum = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* Four bits of weight k: 32 bytes serve 64 weights, low nibbles first. */
static int four_bits(const uint8_t *qs, int k) { return qs[k / 64 * 32 + k % 32] >> k / 32 % 2 * 4 & 15; }

static void decode_block_q4_k(const block_q4_k *b, float *y)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    for (int k = 0; k < 256; k++) {
        int scale, minimum;
        scale_and_min(b->scales, k / 32, &scale, &minimum);
        y[k] = d * (float)scale * (float)four_bits(b->qs, k) - dmin * (float)minimum;
    }
}

static void decode_block_q5_k(const block_q5_k *b, float *y)
{
    float d = f16_to_f32(b->d), dmin = f16_to_f32(b->dmin);
    for (int k = 0; k < 256; k++) {
        int scale, minimum, high = b->qh[k % 32] >> k / 32 & 1;
        scale_and_min(b->scales, k / 32, &scale, &minimum);
        y[k] = d * (float)scale * (float)(four_bits(b->qs, k) | high << 4) - dmin * (float)minimum;
    }
}

static void decode_block_q6_k(const block_q6_k *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 256; k++) {
        int half = k / 128, r = k % 128; /* per 128 weights: 64 bytes of nibbles, 32 bytes of upper bit pairs */
        int low = b->ql[half * 64 + r % 64] >> r / 64 * 4 & 15;
        int high = b->qh[half * 32 + r % 32] >> r / 32 * 2 & 3;
        y[k] = d * (float)b->scales[k / 16] * (float)((low | high << 4) - 32);
    }
}

static void decode_block_q8_k(const block_q8_k *b, float *y)
{
    for (int k = 0; k < 256; k++) y[k] = b->d * (float)b->qs[k];
}

BLOCK_DECODER(q2_k, 256)
BLOCK_DECODER(q3_k, 256)
BLOCK_DECODER(q4_k, 256)
BLOCK_DECODER(q5_k, 256)
BLOCK_DECODER(q6_k, 256)
BLOCK_DECODER(q8_k, 256)
