/* v_matmul_heads.h - MATMUL_HEADS on sixteen lanes: the bodies of v_matmul.h and v_qmatmul.h on one head after the
 * other; definition: def_matmul_heads.c. Work is dealt over (head, chunk of its output). The rows of a head are not
 * adjacent: several are copied side by side first. */
#pragma once
#include "cpu/simd/v_matmul.h"
#include "cpu/simd/v_qmatmul.h"

#include <string.h>

static void v_qmatmul_heads(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    float *y = arg_at(r, o->out);
    act_rows x = act_rows_at(r, o->in[0]);
    int64_t heads = x.cols / w->cols, n = w->rows / heads, panels = n / PANEL_ROWS, each = q_chunk(w, panels, heads),
            chunks = (panels + each - 1) / each, tiles = row_tiles(x.rows);
    for (int64_t t0 = 0, t1; t0 < tiles; t0 = t1) {
        t1 = q_turn_end(tiles, t0);
        chunk_steal d = steal_start(r, worker, workers, heads * chunks, false);
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            int64_t h = c / chunks, from = c % chunks * each, to = from + each < panels ? from + each : panels;
            held_weight own = held_part(w, h, n);
            qwork k = {.w = &own, .x = x, .y = y + h * n, .ldy = w->rows};
            k.x.k0 = h * w->cols;
            q_panels(&k, from, to, t0, t1);
        }
    }
}

static void v_matmul_heads(const run *r, const op *o, int worker, int workers)
{
    if (arg_info(r, o->in[0])->block) {
        v_qmatmul_heads(r, o, worker, workers);
        return;
    }
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), in = arg_dim(r, o->in[0]), k = w->cols, heads = in / k, n = w->rows / heads;
    held_weight first = held_part(w, 0, n);
    int64_t each = chunk_rows_of_parts(&first, heads), chunks = (n + each - 1) / each;
    for (int64_t m = 0, count; m < rows; m += count, x += count * in, y += count * w->rows) {
        count = matmul_block_rows(rows, m);
        chunk_steal d = steal_start(r, worker, workers, heads * chunks, false);
        matmul_space at = matmul_space_of(scratch, count, k);
        float *together = scratch + matmul_space_floats(count, k, true);
        int64_t packed = -1;
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            int64_t h = c / chunks, from = c % chunks * each, to = from + each < n ? from + each : n;
            held_weight own = held_part(w, h, n);
            own.rows = w->rows; /* from row to row of y */
            if (h != packed) {
                for (int64_t i = 0; i < count; i++) memcpy(together + i * k, x + i * in + h * k, (size_t)k * sizeof *x);
                pack_rows(together, count, k, at.x);
            }
            packed = h;
            matmul_rows(&own, count, y + h * n, NULL, &at, from, to);
        }
    }
}
