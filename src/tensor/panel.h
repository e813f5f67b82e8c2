/* panel.h - the packed layout of quantized matrices: one for all instruction sets, for one row and for many, in memory
 * and files.
 *
 * A panel is 16 output rows. Along k it is a sequence of spans of 64 to 512 columns. A span holds the codes, tile after
 * tile (64 columns), in lines of 64 bytes, then its tail: scales and bases, whole lines too. Where a row ends within a
 * span, the last span has fewer tiles and a whole tail, but only the lines of picks (below) that it needs. A group
 * vector holds the codes of 16 rows x 4 columns (byte 4 r + t: row r, column 4 g + t; g = 0 … 15 is the group), so that
 * one multiply-add of bytes in fours adds 4 columns of 16 outputs, and nothing is ever summed across lanes. The 16
 * group vectors w[g] of a tile in lines:
 *
 *     8 bits      line g = w[g]
 *     4 bits      line j = w[2j] | w[2j+1] << 4
 *     5 bits      the low four like that, then line j: bit i is the fifth bit of w[8j + i]
 *     6 bits      lines 3j … 3j+2: w[4j + i], above it (bits 6, 7) bits 2i, 2i+1 of w[4j + 3]
 *     3 bits      line j: the low two of w[4j + i] at bit 2i; then line j: bit i is the third bit of w[8j + i]
 *     2 bits      line j: w[4j + i] at bit 2i
 *     1 bit       line j: w[8j + i] at bit i; codes are 0 and 2
 *     11 levels   line i < 7: p[i], and in bit 7 bit i of p[7], of the pairs p[i] = w[2i] + 11 w[2i+1]
 *
 * The level of a code is code + zero; or its entry in a table of 16; or its entry in one of several tables, which every
 * 8 or 16 weights of a row pick. Three kinds of tails:
 *
 *     one level   scales [block][row], then bases if there are any [block][row] as f16:
 *                 weight = level * scale + base
 *     two levels  d [row] and with minima dmin [row], f16; sub-scales [pair of blocks][row][2] of 8 signed bits; minima
 *                 likewise of 8 unsigned bits; or both as nibbles of one byte, the scale low:
 *                 weight = level * (d * sub-scale) - dmin * minimum
 *     picks       words of 32 bits [word][row]: eight picks of 4 bits each, lowest first, then scales as of one level;
 *                 or eight picks of 3 bits and the scale byte above them
 *
 * Every block type maps exactly: the same codes, scales and bases, so a packed matrix has about as many bits as its
 * blocks. Rows are padded to 16 and k to 64 with code, scale and base 0. */
#pragma once
#include "base/gpu.h"
#include "tensor/dtype.h"
#include "tensor/e4m3.h"

#include <stdbool.h>
#include <stdint.h>

enum { PANEL_ROWS = 16, PANEL_K = 64, PANEL_LINE = 64, PANEL_SPAN = 512 };
enum { PANEL_BLOCKS = 16, PANEL_PICKS = 64 }; /* of a span, at most */

/* Whether panels can hold a matrix of so many rows, or a stack of `parts` matrices, each by itself. */
static inline bool panel_holds(int64_t rows, int64_t parts) { return parts == 0 || rows / parts % PANEL_ROWS == 0; }

/* A scale is an f16, an f32, a power of two (8 bits, bias 128: 2^(e - 128)), the upper half of a positive f16 without
 * its sign (E5M3); or of two levels, a byte or a nibble under an f16. */
enum { PANEL_F16, PANEL_F32, PANEL_E8M0, PANEL_E5M3, PANEL_SUB8, PANEL_SUB4 };
/* A code is a level minus the zero, an index of 16 levels, an index into the table that 8 or 16 weights picked, or an
 * FP8 number, whose level has 20 bits (e4m3.h): sums of 32 products with codes of activations fit in 32 bits. */
enum { PANEL_CODE, PANEL_LOOK, PANEL_PICK8, PANEL_PICK16, PANEL_E4M3 };
/* A base is nothing, an f16, an 8-bit or nibble minimum under an f16, or minus an integer zero, as f16, that the scale
 * multiplies. */
enum { PANEL_NONE, PANEL_BASE, PANEL_MINIMUM, PANEL_ZERO };

/* Kinds of formats: what a kernel has to know at compile time. X(name, bits of a code or 0 for pairs of 11 levels,
 * weights with one scale, columns of a span, scale, base, code, zero). A zero is minus a power of two: shifted sums of
 * the activations account for it (act_q8.h). Levels in tables are stored minus the zero. */
#define PANEL_KIND_LIST(X)                                                                                             \
    X(8_B32, 8, 32, 64, PANEL_F16, PANEL_NONE, PANEL_CODE, -128)                                                       \
    X(4_B32, 4, 32, 64, PANEL_F16, PANEL_NONE, PANEL_CODE, -8)                                                         \
    X(8_B32_BASE, 8, 32, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(8_B64_BASE, 8, 64, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(6_B64_BASE, 6, 64, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(5_B64_BASE, 5, 64, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(4_B32_BASE, 4, 32, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(4_B64_BASE, 4, 64, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(PAIR_B64_BASE, 0, 64, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                  \
    X(3_B32_BASE, 3, 32, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(2_B32_BASE, 2, 32, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(5_B32, 5, 32, 64, PANEL_F16, PANEL_NONE, PANEL_CODE, -16)                                                        \
    X(5_B32_BASE, 5, 32, 64, PANEL_F16, PANEL_BASE, PANEL_CODE, 0)                                                     \
    X(8_B32_F32, 8, 32, 64, PANEL_F32, PANEL_NONE, PANEL_CODE, -128)                                                   \
    X(8_B64_F32, 8, 64, 256, PANEL_F32, PANEL_NONE, PANEL_CODE, -128)                                                  \
    X(2_B64, 2, 64, 256, PANEL_F16, PANEL_NONE, PANEL_CODE, -1)                                                        \
    X(1_B64, 1, 64, 128, PANEL_F16, PANEL_NONE, PANEL_CODE, -1)                                                        \
    X(TABLE_B32, 4, 32, 64, PANEL_F16, PANEL_NONE, PANEL_LOOK, -128)                                                   \
    X(TABLE_B32_E8M0, 4, 32, 128, PANEL_E8M0, PANEL_NONE, PANEL_LOOK, -16)                                             \
    X(TABLE_B16_E5M3, 4, 16, 64, PANEL_E5M3, PANEL_NONE, PANEL_LOOK, -16)                                              \
    X(4_S32_MIN, 4, 32, 256, PANEL_SUB8, PANEL_MINIMUM, PANEL_CODE, 0)                                                 \
    X(5_S32_MIN, 5, 32, 256, PANEL_SUB8, PANEL_MINIMUM, PANEL_CODE, 0)                                                 \
    X(2_S16_MIN, 2, 16, 256, PANEL_SUB4, PANEL_MINIMUM, PANEL_CODE, 0)                                                 \
    X(3_S16, 3, 16, 256, PANEL_SUB8, PANEL_NONE, PANEL_CODE, -4)                                                       \
    X(6_S16, 6, 16, 256, PANEL_SUB8, PANEL_NONE, PANEL_CODE, -32)                                                      \
    X(TABLE_S32, 4, 32, 256, PANEL_SUB8, PANEL_NONE, PANEL_LOOK, -128)                                                 \
    X(TABLE3_S32, 3, 32, 256, PANEL_SUB8, PANEL_NONE, PANEL_LOOK, -64)                                                 \
    X(TABLE3_S16, 3, 16, 256, PANEL_SUB8, PANEL_NONE, PANEL_LOOK, -64)                                                 \
    X(PICK8_2, 2, 128, 512, PANEL_E5M3, PANEL_NONE, PANEL_PICK8, -64)                                                  \
    X(PICK8_3, 3, 128, 512, PANEL_E5M3, PANEL_NONE, PANEL_PICK8, -64)                                                  \
    X(PICK16_3, 3, 128, 512, PANEL_E5M3, PANEL_NONE, PANEL_PICK16, -64)                                                \
    X(PICK16_4, 4, 128, 128, PANEL_E5M3, PANEL_NONE, PANEL_PICK16, -64)                                                \
    X(E4M3_B128, 8, 128, 128, PANEL_F32, PANEL_NONE, PANEL_E4M3, 0)                                                    \
    X(8_B128_F32, 8, 128, 128, PANEL_F32, PANEL_NONE, PANEL_CODE, -128)                                                \
    X(8_B128_ZERO, 8, 128, 128, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                  \
    X(4_B32_ZERO, 4, 32, 64, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                     \
    X(4_B64_ZERO, 4, 64, 64, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                     \
    X(4_B128_ZERO, 4, 128, 128, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                  \
    X(3_B128_ZERO, 3, 128, 128, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                  \
    X(2_B128_ZERO, 2, 128, 128, PANEL_F16, PANEL_ZERO, PANEL_CODE, 0)                                                  \
    X(TABLE_B16_F32, 4, 16, 64, PANEL_F32, PANEL_NONE, PANEL_LOOK, -16)

/* Activation block of a kind. Weights of 6 and 8 bits lose less than activation blocks of 64 would. */
#define PANEL_ACT(bits, block, scale)                                                                                  \
    ((scale) != PANEL_SUB8 && (scale) != PANEL_SUB4 && ((block) == 32 || (bits) >= 6) ? 32 : 64)

enum {
#define X(name, ...) PANEL_KIND_##name,
    PANEL_KIND_LIST(X)
#undef X
        PANEL_KINDS,
};

/* X(dtype, kind, table of levels (panel_strip.c) or NONE, factor of every scale: a power of two) */
#define PANEL_LIST(X)                                                                                                  \
    X(Q8_0, 8_B32, NONE, 1)                                                                                            \
    X(Q4_0, 4_B32, NONE, 1)                                                                                            \
    X(Q8_B32, 8_B32_BASE, NONE, 1)                                                                                     \
    X(Q8_B64, 8_B64_BASE, NONE, 1)                                                                                     \
    X(Q6_B64, 6_B64_BASE, NONE, 1)                                                                                     \
    X(Q5_B64, 5_B64_BASE, NONE, 1)                                                                                     \
    X(Q4_B32, 4_B32_BASE, NONE, 1)                                                                                     \
    X(Q4_B64, 4_B64_BASE, NONE, 1)                                                                                     \
    X(Q3H_B64, PAIR_B64_BASE, NONE, 1)                                                                                 \
    X(Q3_B32, 3_B32_BASE, NONE, 1)                                                                                     \
    X(Q2_B32, 2_B32_BASE, NONE, 1)                                                                                     \
    X(Q8_1, 8_B32, NONE, 1)                                                                                            \
    X(Q8_F32, 8_B32_F32, NONE, 1)                                                                                      \
    X(Q8_K, 8_B64_F32, NONE, 1)                                                                                        \
    X(Q4_1, 4_B32_BASE, NONE, 1)                                                                                       \
    X(Q5_0, 5_B32, NONE, 1)                                                                                            \
    X(Q5_1, 5_B32_BASE, NONE, 1)                                                                                       \
    X(Q2_0, 2_B64, NONE, 1)                                                                                            \
    X(TQ1_0, 2_B64, NONE, 1)                                                                                           \
    X(TQ2_0, 2_B64, NONE, 1)                                                                                           \
    X(Q1_0, 1_B64, NONE, 1)                                                                                            \
    X(IQ4_NL, TABLE_B32, IQ4, 1)                                                                                       \
    X(MXFP4, TABLE_B32_E8M0, FP4, 1)                                                                                   \
    X(NVFP4, TABLE_B16_E5M3, FP4, 128)                                                                                 \
    X(Q2_K, 2_S16_MIN, NONE, 1)                                                                                        \
    X(Q3_K, 3_S16, NONE, 1)                                                                                            \
    X(Q4_K, 4_S32_MIN, NONE, 1)                                                                                        \
    X(Q5_K, 5_S32_MIN, NONE, 1)                                                                                        \
    X(Q6_K, 6_S16, NONE, 1)                                                                                            \
    X(IQ4_XS, TABLE_S32, IQ4, 1)                                                                                       \
    X(IQ3_S, TABLE_S32, IQ3_S, 1)                                                                                      \
    X(IQ3_XXS, TABLE_S32, IQ3_XXS, 0.25f)                                                                              \
    X(IQ2_XXS, TABLE3_S32, IQ2, 0.125f)                                                                                \
    X(IQ2_XS, TABLE3_S16, IQ2, 0.125f)                                                                                 \
    X(IQ2_S, TABLE3_S16, IQ2, 0.125f)                                                                                  \
    X(IQ1_S, TABLE3_S32, IQ1, 0.125f)                                                                                  \
    X(IQ1_M, TABLE3_S16, IQ1, 0.125f)                                                                                  \
    X(Q4_T, PICK16_4, Q4, 0x1p-8f)                                                                                     \
    X(Q3H_T, PICK8_3, Q3H, 0x1p-8f)                                                                                    \
    X(Q3_T, PICK16_3, Q3, 0x1p-8f)                                                                                     \
    X(Q2_T, PICK8_2, Q2, 0x1p-8f)                                                                                      \
    X(F8_B128, E4M3_B128, NONE, E4M3_UNIT)                                                                             \
    X(I8_B128, 8_B128_F32, NONE, 1)                                                                                    \
    X(Q8_Z128, 8_B128_ZERO, NONE, 1)                                                                                   \
    X(Q4_Z32, 4_B32_ZERO, NONE, 1)                                                                                     \
    X(Q4_Z64, 4_B64_ZERO, NONE, 1)                                                                                     \
    X(Q4_Z128, 4_B128_ZERO, NONE, 1)                                                                                   \
    X(Q3_Z128, 3_B128_ZERO, NONE, 1)                                                                                   \
    X(Q2_Z128, 2_B128_ZERO, NONE, 1)                                                                                   \
    X(NVFP4_F32, TABLE_B16_F32, FP4, 1)

typedef struct panel_format {
    dtype type;
    uint8_t kind;
    uint8_t bits, block, scale, base, code; /* see above */
    uint8_t act;                            /* block of the activations that it multiplies: 32 or 64 */
    uint8_t code_lines, tail_lines;         /* of a tile, of a span */
    uint16_t span;
    int16_t zero;
    const int8_t *level; /* by code, or by pick << bits | code; none is below the zero. NULL: codes are not looked up */
    float factor;
} panel_format;

static inline bool panel_picks(int code) { return code == PANEL_PICK8 || code == PANEL_PICK16; }
/* The level of a code as a strip has it. */
static inline int32_t panel_level(const panel_format *f, uint8_t code)
{
    return f->code == PANEL_E4M3 ? e4m3_level(code) : code + f->zero;
}
static inline bool panel_two_levels(int scale) { return scale == PANEL_SUB8 || scale == PANEL_SUB4; }

/* NULL: the type has no packed form. */
GPU_CODE const panel_format *panel_format_of(dtype t);

/* Bytes of one panel; rows of `cols` weights. */
uint64_t panel_bytes(dtype t, int64_t cols);

/* Packs up to 16 rows of blocks (NULL: a row of padding) into one panel. */
void panel_pack(dtype t, const uint8_t *const rows[PANEL_ROWS], int64_t cols, uint8_t *panel);

/* Makes row q of panel `to`, as cleared, row r of another panel: rows of `cols` weights. */
void panel_row_copy(dtype t, const uint8_t *panel, int r, int64_t cols, uint8_t *to, int q);

/* One span of 16 rows before it is packed. Blocks count from the span's beginning. */
typedef struct panel_span {
    uint8_t code[PANEL_ROWS][PANEL_SPAN];
    uint32_t scale[PANEL_BLOCKS][PANEL_ROWS]; /* one level: as stored, in the low bits */
    uint16_t base[PANEL_BLOCKS][PANEL_ROWS];
    uint16_t d[PANEL_ROWS], dmin[PANEL_ROWS]; /* two levels */
    int8_t sub[PANEL_BLOCKS][PANEL_ROWS];
    uint8_t minimum[PANEL_BLOCKS][PANEL_ROWS];
    uint32_t picks[PANEL_PICKS / 8][PANEL_ROWS]; /* words of eight, as the tail has them */
} panel_span;
/* panel_span_put: writes the code lines of `tiles` tiles. panel_lines_cut: copies such lines, zeroing codes from column
 * n on. panel_tail_put: writes the tail. */
void panel_span_put(const panel_format *f, const panel_span *from, int tiles, uint8_t *to);
void panel_lines_cut(const panel_format *f, const uint8_t *lines, int n, int tiles, uint8_t *to);
void panel_tail_put(const panel_format *f, const panel_span *from, int tiles, uint8_t *to);

/* What the tail says of one block of a row of a span: one level has scale and base (0: none), two levels the rest. */
typedef struct panel_block {
    float scale, base;
    float d, dmin; /* dmin 0 where there is none */
    int32_t sub, minimum;
} panel_block;
/* One row of a span, unpacked: the definition of the layout. */
typedef struct panel_strip {
    uint8_t code[PANEL_SPAN];                      /* level = code + zero, however it is looked up */
    float scale[PANEL_BLOCKS], base[PANEL_BLOCKS]; /* one level; base 0 where there is none */
    float d, dmin;                                 /* two levels; dmin 0 where there is none */
    int32_t sub[PANEL_BLOCKS], minimum[PANEL_BLOCKS];
} panel_strip;
/* The code of group g at byte i of its vector, from the lines of a tile of so many bits a code. */
GPU_CODE int panel_line_code(int bits, const uint8_t *line, int g, int i);
GPU_CODE void panel_strip_get(const panel_format *f, const uint8_t *span, int r, int tiles, panel_strip *to);
GPU_CODE panel_block panel_block_get(const panel_format *f, const uint8_t *span, int r, int tiles, int b);
/* Weight k of row r of a span of so many tiles; `of` is its block. */
GPU_CODE float panel_weight(const panel_format *f, const uint8_t *span, int r, int tiles, int k, panel_block of);

/* Row r (0 … 15) of a panel as float32: cols values, equal to those of quant_decode on its blocks. */
GPU_CODE void panel_row(dtype t, const uint8_t *panel, int r, int64_t cols, float *to);
