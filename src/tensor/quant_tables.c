/* quant_tables.c - this project's own formats, with trained tables of levels: q4_t q3h_t q3_t q2_t; the best up to 4.3
 * bits.
 *
 * 128 weights have one scale; every 8 or 16 of them choose one of 8 or 16 tables of levels:
 *
 *     weight = level[choice][code] * scale
 *
 *     type    code    weights of a choice    tables x levels    bytes of 128    bits per weight
 *     q4_t    4 bits  16                     8 x 16             68              4.25
 *     q3h_t   3 bits  8                      16 x 8             57              3.5625
 *     q3_t    3 bits  16                     16 x 8             53              3.3125
 *     q2_t    2 bits  8                      16 x 4             41              2.5625
 *
 * The usual way is a small scale (and minimum) for every sub-block under a common one. The number of a table takes as
 * few bits and says more: the width of the sub-block, its centre, the best spacing of its levels. It costs no
 * arithmetic either: choice and code together index one table of 128 bytes (64 for q2_t) in a vector register or two,
 * and integer sums run over all 128 weights. (Nearest relative: LO-BCQ, arXiv 2502.05376, which clusters blocks in the
 * same way for 4-bit weights and activations.)
 *
 * Tables come from alternating least squares: encode, then move every level to the weighted mean of the weights coded
 * with it. Short runs of weights are nearly normal in trained models, so the training data were normal and Student (8
 * degrees) numbers and rows of trained models; on all models tried the error differs by at most 0.4 dB. Levels are
 * integers up to TABLES_TOP: 0.03 dB worse than real ones, and sums of two products with 8-bit activations fit 16 bits.
 *
 * A block: scale byte (tables_scale), choices lowest first (4 bits, q4_t 3), codes: of q3 all third bits, then the low
 * pairs; lowest first. */
#include "tensor/quant_tables.h"

#include "base/half.h"
#include "tensor/quant_bits.h"
#include "tensor/quant_row.h"

#include <string.h>

/* clang-format off */
static const int8_t level_4[128] = {
    -52, -38, -32, -26, -21, -17, -13,  -9,  -5,  -1,   3,   7,  12,  17,  23,  31,
    -62, -49, -35, -25, -19, -13,  -8,  -4,   0,   5,   9,  14,  19,  25,  32,  40,
    -41, -32, -26, -20, -16, -11,  -8,  -4,   0,   3,   7,  11,  16,  21,  26,  36,
    -46, -37, -30, -24, -19, -15, -10,  -6,  -2,   3,   8,  13,  20,  29,  40,  63,
    -45, -35, -27, -19, -13,  -8,  -3,   1,   6,  10,  14,  18,  23,  28,  35,  46,
    -29, -23, -18, -14, -10,  -6,  -3,   1,   4,   7,  11,  15,  19,  23,  29,  36,
    -38, -29, -23, -17, -13,  -9,  -5,   0,   4,   9,  13,  19,  25,  33,  43,  54,
    -33, -22, -16, -11,  -6,  -2,   2,   6,   9,  13,  17,  21,  26,  32,  40,  49,
};
static const int8_t level_3h[128] = {
    -45, -33, -24, -15,  -7,   1,  10,  19,
    -52, -33, -19,  -9,  -2,   6,  15,  27,
    -30, -22, -15,  -9,  -4,   2,   8,  15,
    -63, -35, -17,  -6,   3,  13,  24,  39,
    -37, -26, -15,  -8,   0,   7,  16,  26,
    -41, -29, -19, -10,  -1,   9,  21,  44,
    -25, -18, -11,  -5,   1,   6,  13,  20,
    -35, -22, -12,  -4,   3,  11,  20,  31,
    -45, -22, -11,  -1,   7,  15,  24,  37,
    -30, -19, -11,  -3,   4,  13,  24,  36,
    -21, -13,  -7,  -1,   5,  11,  17,  25,
    -41, -24, -13,  -4,   4,  14,  30,  60,
    -16,  -9,  -2,   3,   9,  15,  22,  30,
    -28, -19,  -9,   0,   8,  18,  32,  51,
    -26, -15,  -6,   3,  11,  18,  28,  40,
    -14,  -7,   1,   7,  15,  23,  34,  45,
};
static const int8_t level_3[128] = {
    -42, -30, -20, -11,  -4,   4,  12,  23,
    -52, -33, -20, -10,  -1,   7,  16,  28,
    -63, -30, -17,  -7,   1,  11,  22,  38,
    -34, -24, -15,  -8,  -1,   6,  14,  22,
    -37, -26, -15,  -7,   1,   9,  19,  31,
    -47, -26, -14,  -5,   4,  12,  21,  34,
    -45, -28, -16,  -7,   1,  11,  23,  45,
    -28, -18, -11,  -4,   2,   9,  16,  26,
    -33, -21, -11,  -3,   5,  14,  22,  34,
    -23, -14,  -8,  -1,   5,  11,  19,  28,
    -32, -21, -12,  -4,   5,  14,  26,  43,
    -42, -21, -10,  -1,   8,  17,  28,  42,
    -40, -24, -12,  -2,   6,  16,  29,  61,
    -25, -14,  -6,   1,   8,  15,  24,  36,
    -29, -16,  -7,   2,  11,  20,  33,  53,
    -19, -10,  -2,   5,  12,  20,  32,  45,
};
static const int8_t level_2[64] = {
    -43, -22,  -4,  12,
    -54, -20,  -1,  20,
    -63, -17,   6,  34,
    -30, -14,  -1,  12,
    -36, -16,   2,  23,
    -22,  -8,   3,  17,
    -42,  -8,  10,  30,
    -38, -14,   8,  42,
    -28,  -8,   8,  26,
    -17,  -4,   8,  23,
    -22,  -5,  11,  36,
    -30,  -3,  17,  38,
    -36,  -8,  15,  61,
    -13,   1,  15,  30,
    -21,   0,  21,  52,
    -11,   6,  22,  45,
};
/* clang-format on */

static const tables_format row[DTYPE_COUNT] = {
    [DTYPE_Q4_T] = {4, 16, 3, 18.490f, level_4},
    [DTYPE_Q3H_T] = {3, 8, 4, 17.619f, level_3h},
    [DTYPE_Q3_T] = {3, 16, 4, 17.858f, level_3},
    [DTYPE_Q2_T] = {2, 8, 4, 20.737f, level_2},
};

const tables_format *tables_format_of(dtype t) { return row[t].bits ? &row[t] : NULL; }

float tables_scale(uint8_t scale) { return f16_to_f32((uint16_t)(scale << 7)) * TABLES_UNIT; }

/* Choices of 3 bits cross bytes: each is taken from a word. */
static int choice_bytes(const tables_format *f) { return TABLES_WEIGHTS / f->sub * f->choice / 8; }

void tables_get(dtype t, const uint8_t *block, uint8_t *code, uint8_t *choice, uint8_t *scale)
{
    const tables_format *f = &row[t];
    *scale = block[0];
    for (int j = 0; j < TABLES_WEIGHTS / f->sub; j++) {
        int bit = j * f->choice, at = 1 + bit / 8;
        choice[j] = (uint8_t)((block[at] | block[at + 1] << 8) >> bit % 8 & ((1 << f->choice) - 1));
    }
    split_get(block + 1 + choice_bytes(f), code, TABLES_WEIGHTS, f->bits == 3 ? 2 : f->bits, f->bits == 3);
}

void tables_put(dtype t, uint8_t *block, const uint8_t *code, const uint8_t *choice, uint8_t scale)
{
    const tables_format *f = &row[t];
    memset(block, 0, dtype_info[t].bytes);
    block[0] = scale;
    for (int j = 0; j < TABLES_WEIGHTS / f->sub; j++) {
        int bit = j * f->choice, v = choice[j] << bit % 8;
        block[1 + bit / 8] |= (uint8_t)v;
        if (v >> 8) block[2 + bit / 8] |= (uint8_t)(v >> 8);
    }
    split_put(block + 1 + choice_bytes(f), code, TABLES_WEIGHTS, f->bits == 3 ? 2 : f->bits, f->bits == 3);
}

static void decode(dtype t, const uint8_t *from, float *to, uint64_t n)
{
    const tables_format *f = &row[t];
    for (; n; n -= TABLES_WEIGHTS, from += dtype_info[t].bytes, to += TABLES_WEIGHTS) {
        uint8_t code[TABLES_WEIGHTS], choice[TABLES_SUBS], scale;
        tables_get(t, from, code, choice, &scale);
        float d = tables_scale(scale);
        for (int i = 0; i < TABLES_WEIGHTS; i++) to[i] = d * (float)f->level[choice[i / f->sub] << f->bits | code[i]];
    }
}

#define TABLES_DECODER(id, name)                                                                                       \
    void quant_decode_##name(const uint8_t *from, float *to, uint64_t n) { decode(DTYPE_##id, from, to, n); }
TABLES_DECODER(Q4_T, q4_tables)
TABLES_DECODER(Q3H_T, q3h_tables)
TABLES_DECODER(Q3_T, q3_tables)
TABLES_DECODER(Q2_T, q2_tables)
