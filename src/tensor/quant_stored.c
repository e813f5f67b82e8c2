/* quant_stored.c - blocks that hold, number for number, what quantizers of the hub store (stored.h): FP8 E4M3 and int8
 * under a float32 scale; codes of 8, 4, 3 and 2 bits with an integer zero under an f16 scale (GPTQ: arXiv 2210.17323,
 * AWQ: arXiv 2306.00978); NF4 (QLoRA: arXiv 2305.14314, appendix E).
 *
 * Nothing is written in these types but what was read, so they have no encoder. The zero stays an integer: as a base it
 * would be zero * scale, which has more bits than an f16. E4M3's NaN counts as 480, the next number of its octave, so
 * that all kernels agree; files that hold it are refused elsewhere or are broken anyway. */
#include "base/half.h"
#include "tensor/e4m3.h"
#include "tensor/quant_bits.h"
#include "tensor/quant_row.h"
#include "tensor/quant_stored.h"

#include <math.h>

static void decode_block_f8_b128(const block_f8_b128 *b, float *y)
{
    for (int j = 0; j < 128; j++) y[j] = b->d * E4M3_UNIT * (float)e4m3_level(b->qs[j]);
}

static void decode_block_i8_b128(const block_i8_b128 *b, float *y)
{
    for (int j = 0; j < 128; j++) y[j] = b->d * (float)b->qs[j];
}

static void decode_block_nf4(const block_nf4 *b, float *y)
{
    static const float level[16] = {-1.0f,
                                    -0.6961928009986877f,
                                    -0.5250730514526367f,
                                    -0.39491748809814453f,
                                    -0.28444138169288635f,
                                    -0.18477343022823334f,
                                    -0.09105003625154495f,
                                    0.0f,
                                    0.07958029955625534f,
                                    0.16093020141124725f,
                                    0.24611230194568634f,
                                    0.33791524171829224f,
                                    0.44070982933044434f,
                                    0.5626170039176941f,
                                    0.7229568362236023f,
                                    1.0f};
    for (int j = 0; j < 64; j++) y[j] = b->d * level[b->qs[j / 2] >> j % 2 * 4 & 15];
}

BLOCK_DECODER(f8_b128, 128)
BLOCK_DECODER(i8_b128, 128)
BLOCK_DECODER(nf4, 64)

enum { ZERO_MOST = 511 }; /* products with scales are exact, and f16 holds it */

/* ---- integer zeros: X(id, name, low bits, high bits of a code) */
#define ZERO_LIST(X)                                                                                                   \
    X(Q8_Z128, q8_z128, 8, 0)                                                                                          \
    X(Q4_Z32, q4_z32, 4, 0)                                                                                            \
    X(Q4_Z64, q4_z64, 4, 0)                                                                                            \
    X(Q4_Z128, q4_z128, 4, 0)                                                                                          \
    X(Q3_Z128, q3_z128, 2, 1)                                                                                          \
    X(Q2_Z128, q2_z128, 2, 0)

static const struct zero_row {
    int low, high;
} rows[DTYPE_COUNT] = {
#define X(id, name, low, high) [DTYPE_##id] = {low, high},
    ZERO_LIST(X)
#undef X
};

int zero_bits(dtype t) { return rows[t].low + rows[t].high; }

void zero_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, int16_t *zero)
{
    memcpy(scale, block, 2);
    memcpy(zero, block + 2, 2);
    *zero &= ZERO_MOST;
    split_get(block + 4, q, dtype_info[t].weights, rows[t].low, rows[t].high);
}

void zero_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, int16_t zero)
{
    memcpy(block, &scale, 2);
    memcpy(block + 2, &zero, 2);
    split_put(block + 4, q, dtype_info[t].weights, rows[t].low, rows[t].high);
}

static void decode_zero(dtype t, const uint8_t *from, float *to, uint64_t n)
{
    const uint64_t weights = dtype_info[t].weights, bytes = dtype_info[t].bytes;
    for (; n; n -= weights, from += bytes, to += weights) {
        uint8_t q[128];
        uint16_t scale;
        int16_t zero;
        zero_get(t, from, q, &scale, &zero);
        const float d = f16_to_f32(scale), base = d * (float)-zero; /* exact, and so are the sums */
        for (uint64_t i = 0; i < weights; i++) to[i] = d * (float)q[i] + base;
    }
}

#define X(id, name, low, high)                                                                                         \
    void quant_decode_##name(const uint8_t *from, float *to, uint64_t n) { decode_zero(DTYPE_##id, from, to, n); }
ZERO_LIST(X)
#undef X
