/* cut_experts.c - see cut_experts.h. */
#include "plan/cut_experts.h"

bool cut_goes_by_experts(const cut *c, const op *o)
{
    bool by = o->kind == OP_DISPATCH && c->s->whole_experts;
    for (int k = 0; k < 4; k++) by = by || (o->in[k] && c->has[o->in[k]] == HAS_EXPERTS);
    return by;
}

/* Rows of weight or constant t that experts `own` have; of what is not of experts all. */
static ref window_of_experts(rank_program *to, const op *o, ref t, cut_range own, err *e)
{
    const tensor *k = &to->p->tensors[t];
    const bool table = o->kind == OP_EMBED; /* a row for each */
    if (o->kind != OP_MATMUL_EXP && !table) return t;
    const int32_t all = table ? (int32_t)k->dim[0] : to->p->weights[to->p->tensors[o->in[1]].weight].parts;
    const int64_t each = k->dim[0] / all, rows = cut_length(own) * each;
    const bool matrix = !table && t == o->in[1];
    return cut_window(to, t,
                      (weight_range){.row0 = own.from * each,
                                     .rows = rows,
                                     .run = rows,
                                     .stride = rows,
                                     .parts = matrix ? (int32_t)cut_length(own) : 0},
                      e);
}

/* Op o on one rank, which has these experts. */
static int add_on_rank(cut *c, int rank, const op *o, cut_range own, err *e)
{
    rank_program *to = &c->rank[rank];
    const cut_range all = {0, cut_width(c->s->p, o->out)};
    op part = *o;
    for (int k = 0; k < 4; k++) {
        const ref t = o->in[k];
        if (!t) continue;
        if (to->p->tensors[t].kind != TENSOR_ACT) part.in[k] = window_of_experts(to, o, t, own, e);
        else if (c->has[t] == HAS_EXPERTS) part.in[k] = to->part[t];
        if (!part.in[k]) return e->code;
    }
    if (o->kind == OP_DISPATCH) {
        part.u.dispatch.first = (int32_t)own.from;
        part.u.dispatch.experts = (int32_t)cut_length(own);
    }
    part.out = to->part[o->out] = cut_part_like(to->p, o->out, o->kind == OP_SCATTER ? "part" : "own", all, e);
    return part.out ? program_op(to->p, &part, e) : e->code;
}

int cut_add_by_experts(cut *c, const op *o, err *e)
{
    int rc = OK;
    if (o->kind == OP_DISPATCH) c->experts = o->u.dispatch.experts;
    for (int r = 0; r < c->s->ranks && !rc; r++) {
        const cut_range own = cut_experts(c->b, r, c->experts);
        if (cut_length(own)) rc = add_on_rank(c, r, o, own, e);
    }
    c->has[o->out] = o->kind == OP_SCATTER ? HAS_SUM : HAS_EXPERTS;
    return rc;
}
