/* quant_rows.h - the body of QUANT: which blocks a worker takes and where their codes go. The caller passes in how
 * a block is quantized (the definition act_encode, or the same on vectors) and where its floats come from (memory, or
 * earlier ops of the same pass). */
#pragma once
#include "ops/expert_rows.h"
#include "tensor/act_q8.h"

#include <stdalign.h>

/* All rows of a QUANT; rows of experts: take act_rows_of_run of each run. */
static inline act_rows act_rows_at(const run *r, ref t)
{
    return (act_rows){(uint8_t *)arg_at(r, t), arg_info(r, t)->block, arg_rows(r, t), arg_dim(r, t), 0};
}
static inline act_rows act_rows_of_run(act_rows x, expert_run u)
{
    x.at += (uint64_t)u.row0 * act_row_bytes(x.cols, x.block);
    x.rows = u.rows;
    return x;
}

/* Output n of a packed weight for rows of activations, y[m * ldy]; bias: that of the output, or NULL. The
 * definition. */
GPU_CODE void def_qoutput(const held_weight *w, int64_t n, const act_rows *x, const float *bias, float *y, int64_t ldy);

/* Floats k … k + n - 1 of row m; `space` holds 64, aligned to 64. n is 0 beyond the row. */
typedef const float *quant_fetch(void *from, int64_t m, int64_t k, int64_t n, float *space);
typedef void quant_block(const float *x, int64_t n, int block, act_block *to);

/* A block of a row in a tile: block b of row `row` of `rows`. */
typedef struct quant_place {
    act_part p;
    int rows, block;
    int64_t row, b;
} quant_place;

/* Quantizes x, n floats, to a block; or the residual that the codes of x leave. */
__attribute__((always_inline)) static inline void quant_put(quant_place to, const float *x, int64_t n, bool residual,
                                                            quant_block *encode)
{
    act_block coded;
    float left[PANEL_K];
    encode(x, n, to.block, &coded);
    if (residual) {
        act_residual(x, n, &coded, left);
        encode(left, n, to.block, &coded);
    }
    act_block_put(to.p, to.rows, to.row, to.b, to.block, &coded);
}

/* Units are blocks, those of a row one after another. Rows of experts (in1 is their dispatch) are tiled run by run. */
__attribute__((always_inline)) static inline void quant_rows(const run *r, const op *o, int worker, int workers,
                                                             void *from_where, quant_fetch *read, quant_block *encode)
{
    alignas(64) float space[PANEL_K];
    uint8_t *out = (uint8_t *)arg_at(r, o->out);
    int block = arg_info(r, o->out)->block;
    int64_t cols = arg_dim(r, o->out), rows = arg_rows(r, o->out), blocks = act_padded(cols) / block, from, to;
    const int32_t *table = o->in[1] ? dispatch_at(r, o->in[1]) : NULL;
    expert_run u = {0, 0, table ? 0 : (int32_t)rows};
    run_share(rows * blocks, 1, worker, workers, &from, &to);
    for (int64_t m = from / blocks; m * blocks < to; m++) {
        if (m >= u.row0 + u.rows) u = expert_run_of(table, (int32_t)m, rows);
        row_tile t = row_tile_at(u.rows, row_tile_of(u.rows, m - u.row0));
        t.row0 += u.row0;
        act_part p = act_parts(out, t, cols, block);
        int64_t b0 = m * blocks > from ? 0 : from - m * blocks, b1 = (m + 1) * blocks < to ? blocks : to - m * blocks;
        for (int64_t b = b0; b < b1; b++) {
            int64_t k = b * block, left = cols - k, n = left < 0 ? 0 : left < block ? left : block;
            const quant_place place = {p, t.rows, block, m - t.row0, b};
            quant_put(place, read(from_where, m, k, n, space), n, o->u.quant.residual, encode);
        }
    }
}

/* Rows of floats in memory. */
typedef struct quant_plain {
    const float *x;
    int64_t cols;
} quant_plain;
static inline quant_plain quant_plain_of(const run *r, const op *o)
{
    return (quant_plain){arg_at(r, o->in[0]), arg_dim(r, o->out)};
}
static inline const float *quant_plain_fetch(void *from, int64_t m, int64_t k, int64_t n, float *space)
{
    const quant_plain *f = (const quant_plain *)from;
    (void)n, (void)space;
    return f->x + m * f->cols + k;
}
