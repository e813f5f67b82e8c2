/* v_matmul_exp.h - MATMUL_EXP on sixteen lanes: the bodies of v_matmul.h and v_qmatmul.h on the rows of one expert
 * after the other; definition: def_matmul_exp.c.
 *
 * Work is dealt over (expert, chunk of its output rows), so that the weights of an expert are read once for all its
 * rows, by any free worker. An expert with more rows than a block of MATMUL_BLOCK_M, or BLOCK_Q, takes several turns;
 * others are done in the first turn. */
#pragma once
#include "ops/expert_rows.h"
#include "cpu/simd/v_matmul.h"
#include "cpu/simd/v_qmatmul.h"

/* The runs of rows of turn `turn`: the block of that number of every expert that has it. Returns their number. */
static int expert_blocks(const int32_t *table, int64_t rows, int turn, expert_run to[EXPERTS_MAX])
{
    int n = 0;
    for (int32_t at = 0; at < rows;) {
        expert_run u = expert_run_at(table, at, rows);
        at += u.rows;
        int64_t each = matmul_block_rows(u.rows, 0), skip = turn * each;
        if (skip >= u.rows || u.expert < 0) continue;
        to[n++] = (expert_run){u.expert, u.row0 + (int32_t)skip, (int32_t)matmul_block_rows(u.rows, skip)};
    }
    return n;
}

/* The runs with tiles from t0 on. */
static int expert_tiles(const int32_t *table, int64_t rows, int64_t t0, expert_run to[EXPERTS_MAX])
{
    int n = 0;
    for (int32_t at = 0; at < rows;) {
        expert_run u = expert_run_at(table, at, rows);
        at += u.rows;
        if (row_tiles(u.rows) > t0 && u.expert >= 0) to[n++] = u;
    }
    return n;
}

static void v_qmatmul_exp(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *bias = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[3]);
    float *y = arg_at(r, o->out);
    act_rows all = act_rows_at(r, o->in[0]);
    int64_t n = arg_dim(r, o->out), panels = n / PANEL_ROWS, each = q_chunk(w, panels, EXPERTS_MAX),
            chunks = (panels + each - 1) / each;
    expert_run runs[EXPERTS_MAX];
    int count;
    for (int64_t t0 = 0; (count = expert_tiles(table, all.rows, t0, runs)) > 0; t0 = q_turn_end(INT64_MAX, t0)) {
        chunk_steal d = steal_start(r, worker, workers, count * chunks, false);
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            const expert_run *u = &runs[c / chunks];
            held_weight own = held_part(w, u->expert, n);
            qwork k = {.w = &own,
                       .x = act_rows_of_run(all, *u),
                       .y = y + u->row0 * n,
                       .ldy = n,
                       .bias = bias ? bias + u->expert * n : NULL};
            int64_t from = c % chunks * each, to = from + each < panels ? from + each : panels;
            q_panels(&k, from, to, t0, q_turn_end(row_tiles(u->rows), t0));
        }
    }
}

static void v_matmul_exp(const run *r, const op *o, int worker, int workers)
{
    if (arg_info(r, o->in[0])->block) {
        v_qmatmul_exp(r, o, worker, workers);
        return;
    }
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[3]);
    float *y = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), n = arg_dim(r, o->out), k = w->cols;
    held_weight first = held_part(w, 0, n);
    int64_t each = chunk_rows_of_parts(&first, EXPERTS_MAX), chunks = (n + each - 1) / each;
    expert_run runs[EXPERTS_MAX];
    for (int turn = 0, count; (count = expert_blocks(table, rows, turn, runs)) > 0; turn++) {
        chunk_steal d = steal_start(r, worker, workers, count * chunks, false);
        const expert_run *packed = NULL;
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            const expert_run *u = &runs[c / chunks];
            held_weight own = held_part(w, u->expert, n);
            matmul_space at = matmul_space_of(scratch, u->rows, k);
            int64_t from = c % chunks * each, to = from + each < n ? from + each : n;
            if (u != packed) pack_rows(x + u->row0 * k, u->rows, k, at.x);
            packed = u;
            matmul_rows(&own, u->rows, y + u->row0 * n, bias ? bias + u->expert * n : NULL, &at, from, to);
        }
    }
}
