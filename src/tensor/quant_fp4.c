/* quant_fp4.c - four-bit floats and ternary weights: mxfp4, nvfp4 (OCP Microscaling Formats v1.0, E2M1) and tq1_0, tq2_0.
 *
 * E2M1 magnitudes are 0 .5 1 1.5 2 3 4 6; as in GGUF they are held doubled, and scales halved. tq1_0 packs five base-3 digits into
 * a byte as ceil(n * 256 / 243), so that multiplying by 3 moves the next digit above the byte. */
#include "base/half.h"
#include "tensor/quant_row.h"

#include <math.h>

static const float level_fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128), exactly, subnormals included. */
static float half_power(int e) { return ldexpf(1.f, e - 128); }

static void decode_block_mxfp4(const block_mxfp4 *b, float *y)
{
    float d = half_power(b->e);
    for (int j = 0; j < 16; j++) {
        y[j] = d * level_fp4[b->qs[j] & 15];
        y[j + 16] = d * level_fp4[b->qs[j] >> 4];
    }
}

/* Half of an unsigned E4M3 (bias 7); 0x7f, its NaN, counts as 0. */
static float half_ue4m3(int b)
{
    int exponent = b >> 3 & 15, mantissa = b & 7;
    if (b == 0x7f) return 0;
    return exponent == 0 ? ldexpf((float)mantissa, -10) : ldexpf((float)(8 + mantissa), exponent - 11);
}

static void decode_block_nvfp4(const block_nvfp4 *b, float *y)
{
    for (int k = 0; k < 64; k++) { /* sub-blocks of 16 in 8 bytes: low nibbles first */
        int q = b->qs[k / 16 * 8 + k % 8] >> k % 16 / 8 * 4 & 15;
        y[k] = half_ue4m3(b->d[k / 16]) * level_fp4[q];
    }
}

static int ternary_digit(uint8_t packed, int digit)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t q = (uint8_t)(packed * power[digit]);
    return (q * 3 >> 8) - 1;
}

static void decode_block_tq1_0(const block_tq1_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 160; k++) y[k] = d * (float)ternary_digit(b->qs[k % 32], k / 32);
    for (int k = 0; k < 80; k++) y[160 + k] = d * (float)ternary_digit(b->qs[32 + k % 16], k / 16);
    for (int k = 0; k < 16; k++) y[240 + k] = d * (float)ternary_digit(b->qh[k % 4], k / 4);
}

static void decode_block_tq2_0(const block_tq2_0 *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 256; k++) y[k] = d * (float)((b->qs[k / 128 * 32 + k % 32] >> k / 32 % 4 * 2 & 3) - 1);
}

BLOCK_DECODER(mxfp4, 32)
BLOCK_DECODER(nvfp4, 64)
BLOCK_DECODER(tq1_0, 256)
BLOCK_DECODER(tq2_0, 256)

/* The exponent puts the largest magnitude into the top octave (4 and 6); then the nearest level, the first of equals. */
static void encode_block_mxfp4(const float *x, block_mxfp4 *b)
{
    float most = 0;
    for (int j = 0; j < 32; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    int e = 0, exponent;
    if (most > 0 && isfinite(most)) {
        frexpf(most, &exponent); /* most = m * 2^exponent, m in [.5, 1) */
        e = exponent - 1 - 2 + 127;
        if (e < 0) e = 0;
    }
    b->e = (uint8_t)e;
    float d = half_power(e);
    for (int j = 0; j < 32; j++) {
        int best = 0;
        float least = INFINITY;
        for (int q = 0; q < 16; q++) {
            float off = fabsf(d * level_fp4[q] - x[j]);
            if (off < least) {
                least = off;
                best = q;
            }
        }
        b->qs[j % 16] |= (uint8_t)(best << j / 16 * 4);
    }
}
BLOCK_ENCODER(mxfp4, 32)
