/* def_matmul_exp.c - reference of MATMUL_EXP: each row times the matrix of its expert, summed as MATMUL sums
 * (def_matmul.c; int8 activations: def_qmatmul.c). Weights of experts without rows are not read. */
#include "ops/quant_rows.h"

GPU_CODE static void multiply_experts_codes(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *bias = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[3]);
    float *y = arg_at(r, o->out);
    act_rows all = act_rows_at(r, o->in[0]);
    int64_t n = arg_dim(r, o->out), from, to;
    run_share(n, 1, worker, workers, &from, &to);
    for (int32_t at = 0; at < all.rows;) {
        expert_run u = expert_run_at(table, at, all.rows);
        if (u.expert < 0) break;
        held_weight own = held_part(w, u.expert, n);
        act_rows x = act_rows_of_run(all, u);
        for (int64_t i = from; i < to; i++)
            def_qoutput(&own, i, &x, bias ? bias + u.expert * n + i : NULL, y + at * n + i, n);
        at += u.rows;
    }
}

GPU_CODE void def_matmul_exp(const run *r, const op *o, int worker, int workers)
{
    if (arg_info(r, o->in[0])->block) {
        multiply_experts_codes(r, o, worker, workers);
        return;
    }
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[3]);
    float *y = arg_at(r, o->out), *row = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), n = arg_dim(r, o->out), from, to;
    run_share(n, 1, worker, workers, &from, &to);
    for (int32_t at = 0; at < rows;) {
        expert_run u = expert_run_at(table, at, rows);
        if (u.expert < 0) break;
        held_weight own = held_part(w, u.expert, n);
        for (int64_t i = from; i < to; i++) {
            held_row(&own, i, row);
            for (int32_t m = at; m < at + u.rows; m++) {
                float s = def_dot(row, x + m * w->cols, w->cols);
                y[m * n + i] = bias ? s + bias[u.expert * n + i] : s;
            }
        }
        at += u.rows;
    }
}
