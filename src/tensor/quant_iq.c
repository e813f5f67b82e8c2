/* quant_iq.c - the IQ formats: groups of weights are entries of a code book (quant_grids.h), with signs and small
 * scales.
 *
 * iq2: eight magnitudes per entry; iq3: four; signs apart. "xxs" and "xs" store seven sign bits per eight weights, the
 * eighth makes the number of minus signs even. iq1: eight of {-1, 0, 1} per entry plus a common shift of +-1/8. iq4:
 * sixteen fixed levels. */
#include "base/half.h"
#include "tensor/quant_grids.h"
#include "tensor/quant_row.h"

static const float level_iq2[4] = {8, 25, 43, 0}; /* the fourth is in no entry */
static const float level_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
const float quant_level_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static int even_signs(int seven) { return seven | __builtin_parity((unsigned)seven) << 7; }
static float with_sign(float v, int signs, int j) { return signs >> j & 1 ? -v : v; }
static uint32_t word_at(const uint16_t *q, int i) { return q[2 * i] | (uint32_t)q[2 * i + 1] << 16; }

static void put_iq2(float *y, float d, uint16_t entry, int signs)
{
    for (int j = 0; j < 8; j++) y[j] = with_sign(d * level_iq2[entry >> 2 * j & 3], signs, j);
}

/* Per 32 weights two words: four entry numbers of 8 bits; four times seven sign bits and a 4-bit scale. */
static void decode_block_iq2_xxs(const block_iq2_xxs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int g = 0; g < 8; g++) {
        uint32_t entries = word_at(b->qs, 2 * g), rest = word_at(b->qs, 2 * g + 1);
        float ds = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++)
            put_iq2(y + 32 * g + 8 * k, ds, quant_grid_iq2_xxs[entries >> 8 * k & 255],
                    even_signs((int)(rest >> 7 * k & 127)));
    }
}

/* Per 8 weights one word: entry number of 9 bits, seven sign bits. A 4-bit scale per 16 weights. */
static void decode_block_iq2_xs(const block_iq2_xs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 32; k++) {
        int scale = b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        put_iq2(y + 8 * k, d * (0.5f + (float)scale) * 0.25f, quant_grid_iq2_xs[b->qs[k] & 511],
                even_signs(b->qs[k] >> 9));
    }
}

/* Entry numbers of 10 bits (two of them in qh), all eight signs. */
static void decode_block_iq2_s(const block_iq2_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 32; k++) {
        int scale = b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        int entry = b->qs[k] | (b->qh[k / 4] >> k % 4 * 2 & 3) << 8;
        put_iq2(y + 8 * k, d * (0.5f + (float)scale) * 0.25f, quant_grid_iq2_s[entry], b->signs[k]);
    }
}

static void decode_block_iq3_xxs(const block_iq3_xxs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int g = 0; g < 8; g++) {
        const uint8_t *s = b->signs + 4 * g;
        uint32_t rest = s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
        float ds = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        for (int j = 0; j < 32; j++) {
            int l = quant_grid_iq3_xxs[b->qs[8 * g + j / 4]] >> 4 * (j % 4) & 7;
            y[32 * g + j] = with_sign(ds * level_iq3_xxs[l], even_signs((int)(rest >> 7 * (j / 8) & 127)), j % 8);
        }
    }
}

static void decode_block_iq3_s(const block_iq3_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 64; k++) { /* four weights each */
        int scale = b->scales[k / 16] >> k / 8 % 2 * 4 & 15;
        int entry = b->qs[k] | (b->qh[k / 8] >> k % 8 & 1) << 8;
        float ds = d * (float)(1 + 2 * scale);
        for (int j = 0; j < 4; j++) {
            int l = quant_grid_iq3_s[entry] >> 4 * j & 15;
            y[4 * k + j] = with_sign(ds * (float)(2 * l + 1), b->signs[k / 2], k % 2 * 4 + j);
        }
    }
}

static void put_iq1(float *y, float d, uint16_t entry, float delta)
{
    for (int j = 0; j < 8; j++) y[j] = d * ((float)((entry >> 2 * j & 3) - 1) + delta);
}

/* Per 32 weights: four entry numbers of 11 bits (three of them in qh), a 3-bit scale, the sign of the shift. */
static void decode_block_iq1_s(const block_iq1_s *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int k = 0; k < 32; k++) {
        uint16_t h = b->qh[k / 4];
        int entry = b->qs[k] | (h >> 3 * (k % 4) & 7) << 8;
        put_iq1(y + 8 * k, d * (float)(2 * (h >> 12 & 7) + 1), quant_grid_iq1[entry], h & 0x8000 ? -0.125f : 0.125f);
    }
}

/* The shift's sign per 8 weights, a 3-bit scale per 16; d is spread over the top nibbles of the four scale words. */
static void decode_block_iq1_m(const block_iq1_m *b, float *y)
{
    const uint16_t *s = b->scales;
    float d = f16_to_f32((uint16_t)(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000)));
    for (int k = 0; k < 32; k++) {
        int h = b->qh[k / 2] >> k % 2 * 4 & 15, scale = s[k / 8] >> 3 * (k / 2 % 4) & 7;
        put_iq1(y + 8 * k, d * (float)(2 * scale + 1), quant_grid_iq1[b->qs[k] | (h & 7) << 8],
                h & 8 ? -0.125f : 0.125f);
    }
}

static void decode_block_iq4_nl(const block_iq4_nl *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int j = 0; j < 16; j++) {
        y[j] = d * quant_level_iq4[b->qs[j] & 15];
        y[j + 16] = d * quant_level_iq4[b->qs[j] >> 4];
    }
}

static void decode_block_iq4_xs(const block_iq4_xs *b, float *y)
{
    float d = f16_to_f32(b->d);
    for (int g = 0; g < 8; g++) {
        int scale = (b->scales_l[g / 2] >> g % 2 * 4 & 15) | (b->scales_h >> 2 * g & 3) << 4;
        float ds = d * (float)(scale - 32);
        for (int j = 0; j < 16; j++) {
            y[32 * g + j] = ds * quant_level_iq4[b->qs[16 * g + j] & 15];
            y[32 * g + j + 16] = ds * quant_level_iq4[b->qs[16 * g + j] >> 4];
        }
    }
}

BLOCK_DECODER(iq2_xxs, 256)
BLOCK_DECODER(iq2_xs, 256)
BLOCK_DECODER(iq2_s, 256)
BLOCK_DECODER(iq3_xxs, 256)
BLOCK_DECODER(iq3_s, 256)
BLOCK_DECODER(iq1_s, 256)
BLOCK_DECODER(iq1_m, 256)
BLOCK_DECODER(iq4_nl, 32)
BLOCK_DECODER(iq4_xs, 256)
