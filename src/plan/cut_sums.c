/* cut_sums.c - see cut_sums.h. */
#include "plan/cut_sums.h"

static cut_range all_of(const cut *c, ref t) { return (cut_range){0, cut_width(c->s->p, t)}; }

static bool is_act(const cut *c, ref t) { return c->s->p->tensors[t].kind == TENSOR_ACT; }

/* ---- matrices */

static bool is_border(int64_t at, int64_t width, int64_t grain) { return at % grain == 0 || at == width; }

/* Whether each column of t is on one rank, and borders lie on the grain. */
static bool borders_suit(const cut *c, ref t, int64_t grain)
{
    int64_t end = 0;
    for (int r = 0; r < c->s->ranks; r++) {
        const cut_range own = cut_columns(c->b, r, t);
        if (own.from != end || !is_border(own.to, cut_width(c->s->p, t), grain)) return false;
        end = own.to;
    }
    return true;
}

bool cut_multiplies_columns(const cut *c, const op *o)
{
    const program *p = c->s->p;
    const ref x = o->in[0];
    if (!c->s->reduces || (o->kind != OP_MATMUL && o->kind != OP_MATMUL_EXP)) return false;
    if (c->has[x] != HAS_COLUMNS || !cut_is_cut(c->b, x)) return false;
    const uint8_t axis = p->tensors[x].axis;
    if (axis == AXIS_OUT || axis == AXIS_SEQ) return false;
    return borders_suit(c, x, weight_column_grain(&p->weights[p->tensors[o->in[1]].weight]));
}

/* The bias of a row of experts is not the same for all rows: it is in the sum of one rank, the first that has one. */
int cut_add_partial(cut *c, const op *o, err *e)
{
    const tensor *k = &c->s->p->tensors[o->in[1]];
    const bool one_bias = o->kind == OP_MATMUL;
    bool first = true;
    for (int r = 0; r < c->s->ranks; r++) {
        rank_program *to = &c->rank[r];
        const cut_range own = cut_columns(c->b, r, o->in[0]);
        op part = *o;
        if (!cut_length(own)) continue;
        part.in[0] = cut_columns_of(c, r, o->in[0], own, o->layer, e);
        const weight_range w = {.rows = k->dim[0],
                                .run = k->dim[0],
                                .stride = k->dim[0],
                                .col0 = own.from,
                                .cols = cut_length(own),
                                .parts = c->s->p->weights[k->weight].parts};
        if (part.in[0]) part.in[1] = cut_window(to, o->in[1], w, e);
        if (one_bias || !first) part.in[2] = 0;
        part.out = part.in[0] && part.in[1] ? cut_part_like(to->p, o->out, "part", all_of(c, o->out), e) : 0;
        if (!part.out || program_op(to->p, &part, e)) return e->code;
        to->part[o->out] = part.out;
        first = false;
    }
    c->has[o->out] = HAS_SUM;
    if (one_bias && o->in[2]) c->vectors[o->out] = (sum_vectors){1, {o->in[2]}};
    return OK;
}

/* ---- ops that keep a sum */

/* Vectors of the result of ADD. */
static int vectors_of_add(const cut *c, const op *o)
{
    return c->vectors[o->in[0]].n + (is_act(c, o->in[1]) ? c->vectors[o->in[1]].n : 1);
}

bool cut_keeps_sum(const cut *c, const op *o)
{
    const ref a = o->in[0], b = o->in[1];
    const bool sum_a = a && c->has[a] == HAS_SUM, act_b = b && is_act(c, b);
    const int vectors = c->vectors[a].n;
    switch (o->kind) {
    case OP_ADD:
        if (!sum_a && !(act_b && c->has[b] == HAS_SUM)) return false;
        if (c->has[a] == HAS_COLUMNS || (act_b && c->has[b] == HAS_COLUMNS)) return false;
        return vectors_of_add(c, o) <= SUM_VECTORS;
    case OP_MUL: return sum_a && !vectors && (!act_b || c->has[b] == HAS_WHOLE);
    case OP_SCALE:
    case OP_SCATTER: return sum_a && !vectors;
    case OP_TAKE_OUT: return sum_a && !cut_is_result(c->s->p, a); /* else it is made whole anyway */
    default: return false;
    }
}

/* Op o on a rank with operand a in place of its first, and b, unless 0, in place of its second. */
static int apply(cut *c, int rank, const op *o, ref a, ref b, const char *more, ref *out, err *e)
{
    program *p = c->rank[rank].p;
    op own = *o;
    own.in[0] = a;
    if (b) own.in[1] = b;
    own.out = *out = cut_part_like(p, o->out, more, all_of(c, o->out), e);
    return own.out ? program_op(p, &own, e) : e->code;
}

/* The sum of two operands of ADD, of which there may be one or none. */
static int apply_add(cut *c, int rank, const op *o, ref a, ref b, const char *more, ref *out, err *e)
{
    *out = a ? a : b;
    return a && b ? apply(c, rank, o, a, b, more, out, e) : OK;
}

/* Whole rows of an operand of ADD on a rank; 0: it has none. */
static ref base_of(const cut *c, int rank, ref t)
{
    return !is_act(c, t) ? 0 : c->has[t] == HAS_WHOLE ? t : c->rank[rank].base[t];
}

static ref part_of(const cut *c, int rank, ref t)
{
    return is_act(c, t) && c->has[t] == HAS_SUM ? c->rank[rank].part[t] : 0;
}

static void add_vectors(cut *c, const op *o)
{
    const sum_vectors a = c->vectors[o->in[0]];
    sum_vectors *to = &c->vectors[o->out];
    *to = a;
    if (o->kind != OP_ADD) return;
    if (!is_act(c, o->in[1])) to->of[to->n++] = o->in[1];
    else
        for (int i = 0; i < c->vectors[o->in[1]].n; i++) to->of[to->n++] = c->vectors[o->in[1]].of[i];
}

int cut_add_linear(cut *c, const op *o, err *e)
{
    int rc = OK;
    for (int r = 0; r < c->s->ranks && !rc; r++) {
        rank_program *to = &c->rank[r];
        ref *part = &to->part[o->out], *base = &to->base[o->out];
        const ref a = o->in[0], b = o->in[1];
        if (o->kind == OP_ADD) {
            rc = apply_add(c, r, o, part_of(c, r, a), part_of(c, r, b), "part", part, e);
            if (!rc) rc = apply_add(c, r, o, base_of(c, r, a), base_of(c, r, b), "base", base, e);
            continue;
        }
        if (to->part[a]) rc = apply(c, r, o, to->part[a], 0, "part", part, e);
        if (to->base[a] && !rc) rc = apply(c, r, o, to->base[a], 0, "base", base, e);
    }
    c->has[o->out] = HAS_SUM;
    add_vectors(c, o);
    return rc;
}

/* ---- making sums */

/* On a rank: t = the reduced sum, and what comes to it. */
static int make_on_rank(cut *c, int rank, ref t, int16_t layer, err *e)
{
    rank_program *to = &c->rank[rank];
    const sum_vectors *v = &c->vectors[t];
    const bool based = to->base[t] != 0;
    const bool bare = !based && !v->n;
    ref at = bare ? t : cut_part_like(to->p, t, "sum", all_of(c, t), e);
    const op sum = {
        .kind = OP_COLL, .layer = layer, .state = -1, .in = {to->part[t]}, .out = at, .u.coll = {.how = COLL_REDUCE}};
    int rc = at ? program_op(to->p, &sum, e) : e->code;
    op add = {.kind = OP_ADD, .layer = layer, .state = -1};
    for (int i = 0; i < v->n && !rc; i++) {
        add.in[0] = at;
        add.in[1] = v->of[i];
        at = add.out = i + 1 == v->n && !based ? t : cut_part_like(to->p, t, "sum", all_of(c, t), e);
        rc = at ? program_op(to->p, &add, e) : e->code;
    }
    add.in[0] = to->base[t];
    add.in[1] = at;
    add.out = t;
    return rc || !based ? rc : program_op(to->p, &add, e);
}

int cut_make_sum(cut *c, ref t, int16_t layer, err *e)
{
    int rc = cut_add_reduce(c, t, c->rank[0].base[t] || c->vectors[t].n, e);
    for (int r = 0; r < c->s->ranks && !rc; r++) {
        rc = make_on_rank(c, r, t, layer, e);
        c->rank[r].part[t] = c->rank[r].base[t] = 0;
    }
    c->vectors[t].n = 0;
    c->has[t] = HAS_WHOLE;
    c->at[t] = UINT64_MAX >> (64 - c->s->ranks);
    return rc;
}

int cut_make_outer_sums(cut *c, err *e)
{
    const program *p = c->s->p;
    int rc = OK;
    for (uint32_t i = c->s->op0; i < c->s->op1 && !rc; i++) {
        const ref t = p->ops[i].out;
        bool outer = t && cut_is_result(p, t);
        for (uint32_t j = c->s->op1; j < p->n_op && t && !outer; j++)
            for (int k = 0; k < 4; k++) outer = outer || p->ops[j].in[k] == t;
        if (outer && c->has[t] == HAS_SUM) rc = cut_make_sum(c, t, p->ops[i].layer, e);
    }
    return rc;
}
