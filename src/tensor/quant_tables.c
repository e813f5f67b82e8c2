/* quant_tables.c - this project's own formats, with trained tables of levels: q4_t q3h_t q3_t q2_t; the best up to 4.3
 * bits. The tables are in quant_tables_level.c.
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

static const tables_format row[DTYPE_COUNT] = {
    [DTYPE_Q4_T] = {4, 16, 3, 18.490f, tables_level_q4},
    [DTYPE_Q3H_T] = {3, 8, 4, 17.619f, tables_level_q3h},
    [DTYPE_Q3_T] = {3, 16, 4, 17.858f, tables_level_q3},
    [DTYPE_Q2_T] = {2, 8, 4, 20.737f, tables_level_q2},
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

static void decode_table(dtype t, const uint8_t *from, float *to, uint64_t n)
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
    void quant_decode_##name(const uint8_t *from, float *to, uint64_t n) { decode_table(DTYPE_##id, from, to, n); }
TABLES_DECODER(Q4_T, q4_tables)
TABLES_DECODER(Q3H_T, q3h_tables)
TABLES_DECODER(Q3_T, q3_tables)
TABLES_DECODER(Q2_T, q2_tables)
