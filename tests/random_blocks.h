/* random_blocks.h - for tests: blocks of every type with random codes and with scales as weights have them, or of any
 * bits. */
#pragma once
#include "tensor/block.h"
#include "tensor/quant_linear.h"
#include "tensor/quant_stored.h"
#include "tensor/quant_tables.h"

#include "rig.h"

#include <stddef.h>

/* Where ggml's blocks have an f16 that scales them, and of what size it is in tests. */
static const struct {
    dtype type;
    size_t at;
    float size;
} halves[] = {
#define AT(id, name, member, size)                                                                                     \
    {                                                                                                                  \
        DTYPE_##id, offsetof(block_##name, member), size                                                               \
    }
    AT(Q4_0, q4_0, d, 0.02f),     AT(Q4_1, q4_1, d, 0.02f),        AT(Q4_1, q4_1, m, 0.3f),
    AT(Q5_0, q5_0, d, 0.02f),     AT(Q5_1, q5_1, d, 0.02f),        AT(Q5_1, q5_1, m, 0.3f),
    AT(Q8_0, q8_0, d, 0.02f),     AT(Q8_1, q8_1, d, 0.02f),        AT(IQ4_NL, iq4_nl, d, 0.005f),
    AT(Q2_0, q2_0, d, 0.1f),      AT(Q1_0, q1_0, d, 0.1f),         AT(Q2_K, q2_k, d, 0.01f),
    AT(Q2_K, q2_k, dmin, 0.01f),  AT(Q3_K, q3_k, d, 0.01f),        AT(Q4_K, q4_k, d, 0.001f),
    AT(Q4_K, q4_k, dmin, 0.003f), AT(Q5_K, q5_k, d, 0.001f),       AT(Q5_K, q5_k, dmin, 0.003f),
    AT(Q6_K, q6_k, d, 0.001f),    AT(IQ2_XXS, iq2_xxs, d, 0.01f),  AT(IQ2_XS, iq2_xs, d, 0.01f),
    AT(IQ2_S, iq2_s, d, 0.01f),   AT(IQ3_XXS, iq3_xxs, d, 0.005f), AT(IQ3_S, iq3_s, d, 0.005f),
    AT(IQ1_S, iq1_s, d, 0.05f),   AT(IQ4_XS, iq4_xs, d, 0.0005f),  AT(TQ1_0, tq1_0, d, 0.1f),
    AT(TQ2_0, tq2_0, d, 0.1f),
#undef AT
};

static inline void put_half(uint8_t *at, float deviation)
{
    uint16_t h = f32_to_f16(rig_normal() * deviation);
    memcpy(at, &h, 2);
}

/* Scales of either sign and of ordinary size. */
static inline void tame(dtype t, uint8_t *block)
{
    float d = rig_normal() * 0.02f;
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        if (halves[i].type == t) put_half(block + halves[i].at, halves[i].size);
    if (linear_top(t)) { /* base, scale */
        put_half(block, 0.3f);
        put_half(block + 2, 0.02f);
    }
    if (t == DTYPE_Q8_F32 || t == DTYPE_Q8_K) memcpy(block, &d, 4);
    if (t == DTYPE_F8_B128) d *= 0.05f;
    for (int i = 0; i < (t == DTYPE_NVFP4_F32 ? 4 : t == DTYPE_F8_B128 || t == DTYPE_I8_B128); i++)
        memcpy(block + 4 * i, &d, 4);
    if (zero_bits(t)) put_half(block, 0.02f);
    if (t == DTYPE_MXFP4)
        block[0] = (uint8_t)(block[0] % 4 ? 120 + block[0] % 8 : block[0] / 4 % 3); /* subnormal too */
    if (tables_format_of(t)) block[0] = (uint8_t)(80 + block[0] % 16);
    for (int i = 0; t == DTYPE_NVFP4 && i < 4; i++) block[i] &= 0x3f;
    uint16_t h = f32_to_f16(d);
    for (int i = 0; t == DTYPE_IQ1_M && i < 4; i++)
        block[offsetof(block_iq1_m, scales) + 2 * i + 1] =
            (uint8_t)((block[offsetof(block_iq1_m, scales) + 2 * i + 1] & 15) | (h >> 4 * i & 15) << 4);
}

/* Rows of blocks with random codes; wild: scales of any bits, infinite and not numbers too. */
static inline uint8_t *random_blocks(dtype t, int64_t rows, int64_t cols, bool wild)
{
    uint64_t size = dtype_info[t].bytes, n = (uint64_t)rows * dtype_row_bytes(t, (uint64_t)cols) / size;
    uint8_t *b = mem_alloc(n * size);
    assert_non_null(b);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < size; k++) b[i * size + k] = (uint8_t)(rig_random() >> 3);
        if (!wild) tame(t, b + i * size);
    }
    return b;
}
