/* v_fuse.h - the kernels of the fuse table (cpu_fuse.h) on sixteen lanes: QUANT whose floats are made block by block,
 * by the same operations as those of v_norm.h and v_elementwise.h, instead of being read. A row of a feed-forward
 * layer is read once and never written as floats. */
#pragma once
#include "cpu/cpu_fuse.h"
#include "cpu/simd/v_elementwise.h"
#include "cpu/simd/v_norm.h"
#include "cpu/simd/v_qmatmul.h"
#include "cpu/simd/v_quant.h"

/* NORM of whole rows; the last row whose norm was computed. */
typedef struct fuse_norm {
    const op *o;
    const float *x, *gain, *bias;
    int64_t cols, row;
    norm_of of;
} fuse_norm;
INLINE const float *fuse_norm_fetch(void *from, int64_t m, int64_t k, int64_t n, float *space)
{
    fuse_norm *f = from;
    if (m != f->row) f->of = norm_measure(f->o, f->x + m * f->cols, (int)f->cols);
    f->row = m;
    const float *x = f->x + m * f->cols + k, *gain = f->gain ? f->gain + k : NULL, *bias = f->bias ? f->bias + k : NULL;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        v16_store(space + i, norm_sixteen(x + i, LANES, f->of, gain ? gain + i : NULL, bias ? bias + i : NULL));
    if (i < n) {
        int rest = (int)n - i;
        v16_store_part(space + i, norm_sixteen(x + i, rest, f->of, gain ? gain + i : NULL, bias ? bias + i : NULL),
                       rest);
    }
    return space;
}
static void v_norm_quant(const run *r, const op *o, int worker, int workers)
{
    fuse_norm from = {o,
                      arg_at(r, o->in[0]),
                      arg_at(r, o->in[1]),
                      arg_at(r, o->in[2]),
                      arg_dim(r, o->out),
                      -1,
                      {v16_zero(), v16_zero(), false}};
    quant_rows(r, o + 1, worker, workers, &from, fuse_norm_fetch, act_code);
}

/* fn(x) * y; `cols` floats from row to row. */
typedef struct fuse_gate {
    const float *x, *y;
    int64_t cols;
    int fn;
} fuse_gate;
#define FUSE_GATE(id, name, doc)                                                                                       \
    case ACT_##id:                                                                                                     \
        for (; i + LANES <= n; i += LANES)                                                                             \
            v16_store(space + i, v16_mul(v16_act(ACT_##id, v16_load(x + i)), v16_load(y + i)));                        \
        if (i < n) {                                                                                                   \
            v16 v = v16_act(ACT_##id, v16_load_part(x + i, (int)n - i));                                               \
            v16_store_part(space + i, v16_mul(v, v16_load_part(y + i, (int)n - i)), (int)n - i);                       \
        }                                                                                                              \
        break;
INLINE const float *fuse_gate_fetch(void *from, int64_t m, int64_t k, int64_t n, float *space)
{
    const fuse_gate *f = from;
    const float *x = f->x + m * f->cols + k, *y = f->y + m * f->cols + k;
    int i = 0;
    switch (f->fn) {
        ACT_LIST(FUSE_GATE)
    }
    return space;
}
static void v_act_mul_quant(const run *r, const op *o, int worker, int workers)
{
    ref other = o[1].in[o[1].in[0] == o->out ? 1 : 0];
    fuse_gate from = {arg_at(r, o->in[0]), arg_at(r, other), arg_dim(r, o->out), o->u.act.fn};
    quant_rows(r, o + 2, worker, workers, &from, fuse_gate_fetch, act_code);
}

/* The first matrices of a gated feed-forward layer, activation, product and QUANT: 64 outputs of both matrices for all
 * rows of an iteration, which stay in the cache until they are quantized. */
static void v_gate_up(const run *r, const op *o, int worker, int workers)
{
    enum { COLS = PANEL_K, PANELS = COLS / PANEL_ROWS };
    float y[2][BLOCK_Q * COLS];
    const int gate = o[2].in[0] == o->out ? 0 : 1;
    const tensor *out = arg_info(r, o[4].out);
    const int64_t cols = arg_dim(r, o[4].out);
    act_rows x[2] = {act_rows_at(r, o[0].in[0]), act_rows_at(r, o[1].in[0])};
    const int64_t rows = x[0].rows, tiles = row_tiles(rows);
    for (int64_t t0 = 0, t1; t0 < tiles; t0 = t1) {
        t1 = q_turn_end(tiles, t0);
        const int64_t row0 = row_tile_at(rows, t0).row0;
        chunk_steal d = steal_start(r, worker, workers, cols / COLS, false);
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            for (int i = 0; i < 2; i++) {
                const float *bias = arg_at(r, o[i].in[2]);
                qwork k = {.w = arg_weight(r, o[i].in[1]),
                           .x = x[i],
                           .y = y[i],
                           .row0 = row0,
                           .col0 = c * COLS,
                           .ldy = COLS,
                           .bias = bias};
                q_panels(&k, c * PANELS, (c + 1) * PANELS, t0, t1);
            }
            fuse_gate from = {y[gate], y[!gate], COLS, o[2].u.act.fn};
            for (int64_t t = t0; t < t1; t++) {
                row_tile tile = row_tile_at(rows, t);
                act_part p = act_parts((uint8_t *)arg_at(r, o[4].out), tile, cols, out->block);
                for (int m = 0; m < tile.rows; m++) {
                    _Alignas(64) float space[PANEL_K];
                    const float *v = fuse_gate_fetch(&from, tile.row0 - row0 + m, 0, COLS, space);
                    for (int k = 0; k < COLS; k += out->block) {
                        const quant_place place = {p, tile.rows, out->block, m, (c * COLS + k) / out->block};
                        quant_put(place, v + k, out->block, false, act_code);
                    }
                }
            }
        }
    }
}
