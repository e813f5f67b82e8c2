/* act_q8.h - activations as int8: the layout of a step's rows for matrices in panels (panel.h).
 *
 * Each row by itself: blocks of 32 or 64 elements (panel_format.act) with scale = max |x| / 127 and codes to nearest,
 * ties to even; elements beyond the row are 0. Rows are grouped in row tiles of at most ACT_ROWS, sizes as equal as
 * possible, the larger first: one register tile of the multiplication each. Few rows are one tile, which is multiplied
 * with one panel at a time; more rows are two tiles or more, multiplied with two panels at a time, so that each tile
 * can prefetch its part of the next ones. A tile of R rows holds, k padded to 64,
 *
 *     code        [k / 4][R][4] int8
 *     scale       [k / block][R] float
 *     scaled_sum  [k / block][R] float: scale * sum(codes), for formats with bases
 *     neg_sum     [k / block][R] int32: -sum(codes); the accumulator starts at zero_point * that, which folds the zero
 *                 point of formats without bases into the dot product
 *     neg_subsums [k / 64][R][6] int16, only for blocks of 64: -sum of 32 codes (two), then of 16 (four)
 *
 * so a step's rows take rows * act_row_bytes. The place of a row depends on the number of rows, its bytes do not. Rows
 * sorted by expert are tiled expert by expert: those of one expert lie as if they were alone, from their first row
 * times act_row_bytes on.
 *
 * Rows of at most ACT_NARROW elements are coded twice: the values, then the residual of those codes as a second row.
 * The matrix multiplies both and the products are added: 16 bits of precision, since few blocks average little of the
 * rounding error away. */
#pragma once
#include "base/gpu.h"
#include "tensor/panel.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Rows of a tile at most; up to ACT_ALONE rows are one tile. On a GPU rows lie one by one. */
#ifdef __CUDACC__
enum { ACT_ROWS = 1, ACT_ALONE = 1 };
#else
enum { ACT_ROWS = 6, ACT_ALONE = 5 };
#endif
enum { ACT_SUBSUMS = 6, ACT_NARROW = 256 };

static inline int64_t act_padded(int64_t cols) { return (cols + PANEL_K - 1) / PANEL_K * PANEL_K; }
static inline uint64_t act_row_bytes(int64_t cols, int block)
{
    uint64_t k = (uint64_t)act_padded(cols);
    return k + k / (uint64_t)block *
                   (2 * sizeof(float) + sizeof(int32_t) + (block == 64 ? ACT_SUBSUMS * sizeof(int16_t) : 0));
}

typedef struct row_tile {
    int64_t row0; /* first row */
    int rows;
} row_tile;

static inline int64_t row_tiles(int64_t rows)
{
    return rows <= ACT_ALONE ? rows > 0 : rows <= 2 * ACT_ROWS ? 2 : (rows + ACT_ROWS - 1) / ACT_ROWS;
}
static inline row_tile row_tile_at(int64_t rows, int64_t t)
{
    int64_t n = row_tiles(rows), each = rows / n, more = rows % n;
    return (row_tile){t * each + (t < more ? t : more), (int)(each + (t < more))};
}
/* The tile that holds a row. */
static inline int64_t row_tile_of(int64_t rows, int64_t row)
{
    int64_t n = row_tiles(rows), each = rows / n, more = rows % n;
    return row < more * (each + 1) ? row / (each + 1) : more + (row - more * (each + 1)) / each;
}

/* The arrays of a tile. */
typedef struct act_part {
    int8_t *code;
    float *scale, *scaled_sum;
    int32_t *neg_sum;
    int16_t *neg_subsums; /* blocks of 64 */
} act_part;
static inline act_part act_parts(uint8_t *activations, row_tile t, int64_t cols, int block)
{
    uint8_t *at = activations + (uint64_t)t.row0 * act_row_bytes(cols, block);
    int64_t k = act_padded(cols);
    const int64_t blocks = k / block * t.rows;
    float *scale = (float *)(void *)(at + k * t.rows), *scaled_sum = scale + blocks;
    int32_t *neg_sum = (int32_t *)(void *)(scaled_sum + blocks);
    int16_t *subsums = block == 64 ? (int16_t *)(void *)(neg_sum + blocks) : NULL;
    return (act_part){(int8_t *)at, scale, scaled_sum, neg_sum, subsums};
}

/* Rows in tiles of their own: those of a step or of one expert; multiplied from column k0 on. */
typedef struct act_rows {
    uint8_t *at; /* the first tile */
    int block;
    int64_t rows, cols; /* cols: of whole rows */
    int64_t k0;         /* a multiple of 64 */
} act_rows;
static inline act_part act_part_of(const act_rows *x, row_tile t)
{
    act_part p = act_parts(x->at, t, x->cols, x->block);
    int64_t blocks = x->k0 / x->block * t.rows;
    return (act_part){p.code + x->k0 * t.rows, p.scale + blocks, p.scaled_sum + blocks, p.neg_sum + blocks,
                      p.neg_subsums ? p.neg_subsums + blocks * ACT_SUBSUMS : NULL};
}

/* One block of which the first n elements are given. A block whose maximum is below ACT_TINY is 0; one with a value
 * that is not finite has scale NaN, so that the result shows it. */
#define ACT_TINY 0x1p-100f
typedef struct act_block {
    int8_t code[PANEL_K];
    float scale, scaled_sum;
    int32_t neg_sum;
    int16_t neg_subsums[ACT_SUBSUMS];
} act_block;
GPU_CODE void act_encode(const float *x, int64_t n, int block, act_block *to);

/* Block b of row `row` of a tile of `rows` rows. */
__attribute__((always_inline)) static inline void act_block_put(act_part p, int rows, int64_t row, int64_t b, int block,
                                                                const act_block *from)
{
    const int64_t i = b * rows + row;
    p.scale[i] = from->scale;
    p.scaled_sum[i] = from->scaled_sum;
    p.neg_sum[i] = from->neg_sum;
    if (p.neg_subsums) memcpy(p.neg_subsums + i * ACT_SUBSUMS, from->neg_subsums, sizeof from->neg_subsums);
    int8_t *lane = p.code + (b * block / 4 * rows + row) * 4;
    if (rows == 1) memcpy(lane, from->code, (size_t)block);
    else
        for (int c = 0; c < block; c += 4, lane += 4 * rows) memcpy(lane, from->code + c, 4);
}

/* Rows of codes in wire order, as they go from one device to another: of each row its codes, whole blocks, then a float
 * scale for each block. All else follows from these, in the very same bits. */
static inline uint64_t act_wire_bytes(int64_t cols, int block) /* of a row */
{
    return (uint64_t)((cols + block - 1) / block) * ((uint64_t)block + sizeof(float));
}
/* All rows of x to wire order; columns col0 … col0+cols-1 of them from it: col0 is a multiple of the block, cols too,
 * except at the end of the row. */
GPU_CODE void act_wire_get(const act_rows *x, void *to);
GPU_CODE void act_wire_put(const act_rows *x, int64_t col0, int64_t cols, const void *from);

/* The residual x - scale * code. */
static inline void act_residual(const float *x, int64_t n, const act_block *codes, float *residual)
{
    for (int64_t i = 0; i < n; i++) residual[i] = fmaf(-codes->scale, codes->code[i], x[i]);
}
