/* r16.h - the packed layout of quantized matrices, one for every instruction set, for one row and for many, and for files.
 *
 * A panel is 16 output rows. Along k a panel is a run of super-tiles of 64 k: lines of 64 bytes with codes, then lines with scales and
 * bases. A vector of codes holds 16 rows x 4 consecutive k (byte 4 r + t: row r, k 4 g + t; g = 0 … 15 is its group), so that one
 * multiply-add of bytes in groups of four adds 4 k of 16 outputs and nothing is ever summed across. How the 16 group
 * vectors w[g] lie in lines:
 *
 *     8 bits      line g = w[g]
 *     4 bits      line j = w[2j] | w[2j+1] << 4
 *     5 bits      the low four like that, then line j: bit i is the fifth bit of w[8j + i]
 *     6 bits      lines 3j … 3j+2: w[4j + i], above it (bits 6, 7) bits 2i, 2i+1 of w[4j + 3]
 *     3 bits      line j: the low two of w[4j + i] at bit 2i; then line j: bit i is the third bit of w[8j + i]
 *     2 bits      line j: w[4j + i] at bit 2i
 *     11 levels   line i < 7: p[i], and in bit 7 bit i of p[7], of the pairs p[i] = w[2i] + 11 w[2i+1]
 *
 * Scales, then bases, as f16: [block of the super-tile][row]. So a packed matrix has as many bits per weight as its blocks. Rows are
 * padded to 16 and k to 64 with code, scale and base 0. weight = (code + zero) * scale + base. */
#ifndef TENSOR_R16_H
#define TENSOR_R16_H
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { R16_ROWS = 16, R16_K = 64, R16_LINE = 64 };

/* X(dtype, bits of a code, weights with one scale, lines of a super-tile, zero, has base); bits 0: pairs of 11 levels */
#define R16_LIST(X)                                                                                                    \
    X(Q8_0, 8, 32, 17, -128, 0)                                                                                        \
    X(Q4_0, 4, 32, 9, -8, 0)                                                                                           \
    X(Q8_B32, 8, 32, 18, 0, 1)                                                                                         \
    X(Q8_B64, 8, 64, 17, 0, 1)                                                                                         \
    X(Q6_B64, 6, 64, 13, 0, 1)                                                                                         \
    X(Q5_B64, 5, 64, 11, 0, 1)                                                                                         \
    X(Q4_B32, 4, 32, 10, 0, 1)                                                                                         \
    X(Q4_B64, 4, 64, 9, 0, 1)                                                                                          \
    X(Q3H_B64, 0, 64, 8, 0, 1)                                                                                         \
    X(Q3_B32, 3, 32, 8, 0, 1)                                                                                          \
    X(Q2_B32, 2, 32, 6, 0, 1)

typedef struct r16_format {
    uint8_t bits, block, lines;
    int16_t zero; /* added to every code */
    bool has_base;
} r16_format;

/* NULL: the type has no packed form. */
const r16_format *r16_of(dtype t);

/* Bytes of one panel; rows of `cols` weights. */
uint64_t r16_panel_bytes(dtype t, int64_t cols);

/* Packs up to 16 rows of blocks (NULL: a row of padding) into one panel. */
void r16_pack(dtype t, const uint8_t *const rows[R16_ROWS], int64_t cols, uint8_t *panel);

/* One super-tile as codes [row][k], scales and bases [block][row] (bases 0 where the format has none): the definition of the layout. */
typedef struct r16_tile {
    uint8_t code[R16_ROWS][R16_K];
    uint16_t scale[2][R16_ROWS], base[2][R16_ROWS];
} r16_tile;
void r16_tile_get(const r16_format *f, const uint8_t *tile, r16_tile *to);
void r16_tile_put(const r16_format *f, uint8_t *tile, const r16_tile *from);

/* Row r (0 … 15) of a panel as float32: cols values, equal to those of quant_decode on its blocks. */
void r16_row(dtype t, const uint8_t *panel, int r, int64_t cols, float *to);

#endif
