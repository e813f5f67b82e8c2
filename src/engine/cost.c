/* cost.c - bytes and operations of one step, from the program. */
#include "engine/cost.h"
#include "core/kv_type.h"
#include "engine/engine_state.h"
#include "plan/plan_show.h"

/* The ops of one segment. */
static void add_ops(engine_cost *c, const engine *g, const program *p, int64_t rows, int64_t outs, int64_t depth)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        int axis = p->tensors[o->out].axis;
        double n = (double)(axis == AXIS_OUT ? outs : axis == AXIS_EXP ? rows * p->n_used : rows);
        if (op_is(o, OPF_MATRIX)) {
            *(p->tensors[o->in[0]].block ? &c->int8_ops : &c->flops) += 2 * n * (double)program_row_products(p, o);
        } else if (op_is(o, OPF_SLOT)) {
            c->kv_bytes += 2 * sizeof(float) * (uint64_t)p->states[o->state].slot_floats; /* read, written */
        } else if (o->kind == OP_ATTN) {
            const state *s = &p->states[o->state];
            int64_t keys = o->u.attn.window && o->u.attn.window < depth ? o->u.attn.window : depth;
            double seen = (double)keys - (keys == depth ? (n - 1) / 2 : 0); /* on average: later rows see more */
            c->kv_bytes += (uint64_t)keys * kv_page_bytes(s, g->kv_type, g->kv_type) / PAGE_TOKENS;
            c->flops += 2 * n * seen * (double)o->u.attn.heads * (double)(s->k_dim + s->v_dim);
        }
    }
}

engine_cost engine_cost_of(const engine *g, int64_t rows, int64_t outs, int64_t depth)
{
    engine_cost c = {.weight_bytes = plan_weight_bytes(g->placed, rows, NULL)};
    for (int k = 0; k < plan_segments(g->placed); k++) {
        const program *p = plan_segment(g->placed, k)->p; /* NULL: of another process */
        if (p) add_ops(&c, g, p, rows, outs, depth);
    }
    return c;
}
