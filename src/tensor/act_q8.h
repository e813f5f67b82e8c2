/* act_q8.h - activations as int8: how the rows of a step lie for matrices of panel.h.
 *
 * Each row on its own: blocks of 32 or 64 elements (panel_format.act) with scale = max |x| / 127 and codes to nearest, ties to
 * even; elements beyond the row are 0. Rows come in tiles of at most ACT_ROWS, sizes as equal as possible, the larger first: what one
 * register tile of the multiplication takes. Few rows are one tile, which meets one panel of weights at a time; more are two tiles or more, which meet
 * two panels at a time, so that each tile can fetch its part of the next ones. A tile of R rows holds, k padded to 64,
 *
 *     codes     [k / 4][R][4] int8         scales  [k / block][R] float
 *     totals    [k / block][R] float: the scale times the sum of the block's codes; for formats with bases
 *     less      [k / block][R] int32: minus the sum of the block's codes; times the zero of a format without bases, with which products start
 *     parts     of blocks of 64 only: [k / 64][R][6] int16, minus sums of 32 codes (two), then of 16 (four)
 *
 * so a step's rows take rows * act_row_bytes, and where row m lies depends on the number of rows, but never what is in it. Rows sorted by
 * expert are tiled expert by expert: those of one lie as if they were alone, from their first row times act_row_bytes on.
 *
 * Rows of at most ACT_NARROW elements are coded twice: as said, and then what those codes leave of them, which is a row like any other. The
 * matrix meets both and the products are added: 16 bits of precision. Few blocks average little of the rounding away. */
#ifndef TENSOR_ACT_Q8_H
#define TENSOR_ACT_Q8_H
#include "tensor/panel.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACT_ROWS = 6,
    ACT_ALONE = 5,
    ACT_SUBSUMS = 6,
    ACT_NARROW = 256
}; /* rows of a tile; rows that are one tile alone */

static inline int64_t act_padded(int64_t cols) { return (cols + PANEL_K - 1) / PANEL_K * PANEL_K; }
static inline uint64_t act_row_bytes(int64_t cols, int block)
{
    uint64_t k = (uint64_t)act_padded(cols);
    return k + k / (uint64_t)block *
                   (2 * sizeof(float) + sizeof(int32_t) + (block == 64 ? ACT_SUBSUMS * sizeof(int16_t) : 0));
}

typedef struct act_tile {
    int64_t row0; /* first row */
    int rows;
} act_tile;

static inline int64_t act_tiles(int64_t rows)
{
    return rows <= ACT_ALONE ? rows > 0 : rows <= 2 * ACT_ROWS ? 2 : (rows + ACT_ROWS - 1) / ACT_ROWS;
}
static inline act_tile act_tile_at(int64_t rows, int64_t t)
{
    int64_t n = act_tiles(rows), each = rows / n, more = rows % n;
    return (act_tile){t * each + (t < more ? t : more), (int)(each + (t < more))};
}
/* The tile that holds a row. */
static inline int64_t act_tile_of(int64_t rows, int64_t row)
{
    int64_t n = act_tiles(rows), each = rows / n, more = rows % n;
    return row < more * (each + 1) ? row / (each + 1) : more + (row - more * (each + 1)) / each;
}

/* Parts of a tile at `at`. */
typedef struct act_part {
    int8_t *code;
    float *scale, *scaled_sum;
    int32_t *neg_sum;
    int16_t *neg_subsums; /* blocks of 64 */
} act_part;
static inline act_part act_parts(uint8_t *activations, act_tile t, int64_t cols, int block)
{
    uint8_t *at = activations + (uint64_t)t.row0 * act_row_bytes(cols, block);
    int64_t k = act_padded(cols);
    const int64_t blocks = k / block * t.rows;
    float *scale = (float *)(void *)(at + k * t.rows), *total = scale + blocks;
    int32_t *less = (int32_t *)(void *)(total + blocks);
    return (act_part){(int8_t *)at, scale, total, less, block == 64 ? (int16_t *)(void *)(less + blocks) : NULL};
}

/* Rows in tiles of their own: those of a step or, sorted by expert, of one expert; and from which column on a matrix meets them. */
typedef struct act_rows {
    uint8_t *at; /* the first tile */
    int block;
    int64_t rows, cols; /* cols: of whole rows */
    int64_t k0;         /* a multiple of 64 */
} act_rows;
static inline act_part act_part_of(const act_rows *x, act_tile t)
{
    act_part p = act_parts(x->at, t, x->cols, x->block);
    int64_t blocks = x->k0 / x->block * t.rows;
    return (act_part){p.code + x->k0 * t.rows, p.scale + blocks, p.scaled_sum + blocks, p.neg_sum + blocks,
                      p.neg_subsums ? p.neg_subsums + blocks * ACT_SUBSUMS : NULL};
}

/* One block as it is made: of the first n of `block` elements. A block whose greatest value is below ACT_TINY is 0; one with a value that is not
 * finite has scale NaN, so that the result says so. parts: of blocks of 64. */
#define ACT_TINY 0x1p-100f
typedef struct act_block {
    int8_t code[PANEL_K];
    float scale, scaled_sum;
    int32_t neg_sum;
    int16_t neg_subsums[ACT_SUBSUMS];
} act_block;
void act_encode(const float *x, int64_t n, int block, act_block *to);

/* left[n]: what the codes of x leave of it, code by code one fused multiply-add. */
static inline void act_residual(const float *x, int64_t n, const act_block *codes, float *left)
{
    for (int64_t i = 0; i < n; i++) left[i] = fmaf(-codes->scale, codes->code[i], x[i]);
}

#endif
