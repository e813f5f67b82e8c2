/* cost.c - see cost.h. */
#include "measure/cost.h"
#include "engine/engine_state.h"
#include "plan/plan_show.h"

step_cost engine_cost_of(const engine *g, int64_t rows, int64_t outs, int64_t depth)
{
    const int32_t n = (int32_t)rows, len = (int32_t)depth, row[] = {0, n};
    const step_rows one = {.seq_row = row, .seq_len = &len};
    const step st = {.n = {[AXIS_TOK] = n,
                           [AXIS_OUT] = (int32_t)outs,
                           [AXIS_ENC] = n,
                           [AXIS_EXP] = n * g->prog->n_used,
                           [AXIS_SEQ] = 1},
                     .tok = one,
                     .enc = one,
                     .n_seq = 1};
    step_cost c = {0};
    for (int k = 0; k < plan_segments(g->plan); k++) {
        const program *p = plan_segment(g->plan, k)->p; /* NULL: of another process */
        if (p) step_cost_add(&c, p, 0, p->n_op, &st, g->kv_type, g->kv_type);
    }
    c.weight_bytes = (double)plan_weight_bytes(g->plan, rows, NULL);
    return c;
}
