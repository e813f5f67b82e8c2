/* def_matmul_heads.c - reference of MATMUL_HEADS: each head of a row times the matrix of that head, summed as MATMUL
 * sums (def_matmul.c; int8 activations: def_qmatmul.c). */
#include "ops/quant_rows.h"

GPU_CODE static void multiply_heads_codes(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    float *y = arg_at(r, o->out);
    act_rows x = act_rows_at(r, o->in[0]);
    int64_t n = w->rows / (x.cols / w->cols), from, to;
    run_share(w->rows, 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        held_weight own = held_part(w, i / n, n);
        x.k0 = i / n * w->cols;
        def_qoutput(&own, i % n, &x, NULL, y + i, w->rows);
    }
}

GPU_CODE void def_matmul_heads(const run *r, const op *o, int worker, int workers)
{
    if (arg_info(r, o->in[0])->block) {
        multiply_heads_codes(r, o, worker, workers);
        return;
    }
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out), *row = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), in = arg_dim(r, o->in[0]), n = w->rows / (in / w->cols), from, to;
    run_share(w->rows, 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        held_weight own = held_part(w, i / n, n);
        held_row(&own, i % n, row);
        for (int64_t m = 0; m < rows; m++) y[m * w->rows + i] = def_dot(row, x + m * in + i / n * w->cols, w->cols);
    }
}
