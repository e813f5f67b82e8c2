/* cut.c - see cut.h. One walk over the ops: a tensor stays replicated until sharding saves work, so each is gathered
 * once, as late as possible. */
#include "plan/cut.h"
#include "plan/cut_experts.h"
#include "plan/cut_state.h"
#include "plan/cut_sums.h"

#include "base/mem.h"
#include "core/lower_int8.h"
#include "tensor/act_q8.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors of a rank */

ref cut_part_like(program *p, ref t, const char *more, cut_range columns, err *e)
{
    char name[256];
    tensor part = p->tensors[t];
    if (more) snprintf(name, sizeof name, "%s.%s", part.name, more);
    else snprintf(name, sizeof name, "%s[%lld:%lld]", part.name, (long long)columns.from, (long long)columns.to);
    part.name = name;
    part.whole = tensor_count(&part);
    part.rank = 1;
    part.dim[0] = cut_length(columns);
    return program_tensor(p, &part, e);
}

ref cut_columns_of(cut *c, int rank, ref t, cut_range want, int16_t layer, err *e)
{
    rank_program *to = &c->rank[rank];
    const cut_range own = cut_columns(c->b, rank, t);
    const bool alike = own.from == want.from && own.to == want.to;
    if (alike && to->part[t]) return to->part[t];
    if (c->has[t] == HAS_WHOLE && cut_length(want) == cut_width(c->s->p, t)) return t;
    ref part = cut_part_like(to->p, t, NULL, want, e);
    op o = {.kind = OP_COLUMNS, .layer = layer, .state = -1, .in = {t}, .out = part, .u.columns = {(int32_t)want.from}};
    if (!part || program_op(to->p, &o, e)) return 0;
    if (alike) to->part[t] = part;
    return part;
}

/* ---- collectives */

static bool is_in(uint64_t ranks, int rank) { return ranks >> rank & 1; }

static uint64_t all_ranks(const cut *c) { return UINT64_MAX >> (64 - c->s->ranks); }

static int first_in(uint64_t ranks)
{
    int r = 0;
    while (!is_in(ranks, r)) r++;
    return r;
}

/* takes: the ranks that want the result. */
static cut_coll *add_coll(cut *c, uint8_t how, ref t, uint64_t takes, err *e)
{
    cut_range *of = arena_array(&c->rank[0].p->mem, (size_t)c->s->ranks, sizeof *of);
    bool *taken = arena_array(&c->rank[0].p->mem, (size_t)c->s->ranks, sizeof *taken);
    if (!of || !taken || !mem_grow((void **)&c->colls, &c->cap_coll, c->n_coll + 1, sizeof *c->colls))
        return err_memory(e, "the program of a rank"), NULL;
    cut_coll *k = &c->colls[c->n_coll++];
    for (int r = 0; r < c->s->ranks; r++) taken[r] = is_in(takes, r);
    *k = (cut_coll){.how = how, .t = t, .of = of, .takes = taken};
    return k;
}

int cut_add_reduce(cut *c, ref t, bool goes_on, err *e)
{
    cut_coll *k = add_coll(c, COLL_REDUCE, t, all_ranks(c), e);
    if (k) k->goes_on = goes_on;
    return k ? OK : e->code;
}

/* The result of a collective on a rank; one that does not want it has a tensor without memory. */
static int add_result(cut *c, int rank, const cut_coll *k, op *o, err *e)
{
    program *p = c->rank[rank].p;
    const cut_range all = {0, cut_width(c->s->p, k->t)};
    o->u.coll.left = !k->takes[rank];
    o->out = k->takes[rank] ? k->t : cut_part_like(p, k->t, "left", all, e);
    return o->out ? program_op(p, o, e) : e->code;
}

bool cut_is_result(const program *p, ref t)
{
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT; i++)
        if (p->entries[i].out == t) return true;
    for (int32_t l = 0; l <= p->n_layer; l++)
        if (p->hidden[l] == t) return true;
    return false;
}

/* The block of codes in which rows of t may travel, because matrices that take these are all that read them; 0: they
 * travel as floats. *table: the dispatch by which they are tiled. */
static int codes_of(const cut *c, ref t, ref *table)
{
    const program *p = c->s->p;
    int block = 0;
    if (cut_width(p, t) <= ACT_NARROW || cut_is_result(p, t)) return 0;
    for (uint32_t i = c->s->op0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const op *o = &p->ops[i];
            if (o->in[k] != t) continue;
            const bool product = o->kind == OP_MATMUL || o->kind == OP_MATMUL_EXP;
            const panel_format *f = i < c->s->op1 && product ? lower_format(p, o, c->takes) : NULL;
            const ref sorted = o->kind == OP_MATMUL_EXP ? o->in[3] : 0;
            if (!f || (block && (block != f->act || *table != sorted))) return 0;
            block = f->act;
            *table = sorted;
        }
    for (int r = 0; r < c->s->ranks; r++)
        if (cut_columns(c->b, r, t).from % PANEL_K) return 0;
    return block;
}

/* Makes whole rows of t, which ranks have columns of, or one has, on these ranks, and on all that read some of it. */
static int gather(cut *c, ref t, uint64_t for_ranks, int16_t layer, err *e)
{
    const bool whole = c->has[t] == HAS_WHOLE;
    const int giver = whole ? first_in(c->at[t]) : 0;
    if (!whole) c->at[t] = 0;
    if (!(for_ranks & ~c->at[t])) return OK;
    const uint64_t takes = (for_ranks | cut_readers(c->b, t)) & ~c->at[t];
    cut_coll *k = add_coll(c, COLL_GATHER, t, takes, e);
    if (!k) return e->code;
    ref table = 0;
    const int block = whole ? 0 : codes_of(c, t, &table);
    for (int r = 0; r < c->s->ranks; r++) {
        const cut_range all = {0, r == giver ? cut_width(c->s->p, t) : 0};
        ((cut_range *)k->of)[r] = whole ? all : cut_columns(c->b, r, t);
        op o = {.kind = OP_COLL,
                .layer = layer,
                .state = -1,
                .in = {!whole       ? c->rank[r].part[t]
                       : r == giver ? t
                                    : 0},
                .u.coll = {.how = COLL_GATHER}};
        if (o.in[0] || k->takes[r]) o.u.coll.codes = block, o.in[1] = block ? table : 0;
        int rc = add_result(c, r, k, &o, e);
        if (rc) return rc;
    }
    c->has[t] = HAS_WHOLE;
    c->at[t] |= takes;
    return OK;
}

/* ---- windows on weights and constants */

static bool same_window(const weight_range *a, const weight_range *b)
{
    return a->row0 == b->row0 && a->run == b->run && a->stride == b->stride && a->rows == b->rows &&
           a->col0 == b->col0 && a->cols == b->cols;
}

static ref new_constant(program *p, ref t, const weight_range *w, err *e)
{
    tensor k = p->tensors[t];
    float *values = arena_array(&p->mem, (size_t)w->rows, sizeof *values);
    if (!values) return err_memory(e, "the program of a rank"), 0;
    for (int64_t n = 0; n < w->rows; n++) values[n] = k.data[w->row0 + n / w->run * w->stride + n % w->run];
    k.dim[0] = w->rows;
    k.data = values;
    return program_tensor(p, &k, e);
}

static ref new_window(program *p, ref t, const weight_range *w, err *e)
{
    tensor k = p->tensors[t];
    if (k.kind == TENSOR_CONST) return new_constant(p, t, w, e);
    k.weight = program_window(p, k.weight, w, e);
    if (k.weight == UINT32_MAX) return 0;
    k.dim[0] = w->rows;
    if (k.rank > 1) k.dim[1] = w->cols;
    return program_tensor(p, &k, e);
}

ref cut_window(rank_program *to, ref t, weight_range w, err *e)
{
    const tensor *k = &to->p->tensors[t];
    const int64_t cols = k->rank > 1 ? k->dim[1] : 1;
    if (!w.cols) w.cols = cols;
    if (!w.run || w.rows <= w.run) w.run = w.stride = w.rows; /* a single run */
    if (w.rows == k->dim[0] && w.cols == cols) return t;
    for (size_t i = 0; i < to->n_window; i++)
        if (to->windows[i].of == t && same_window(&to->windows[i].range, &w)) return to->windows[i].t;
    const ref window = new_window(to->p, t, &w, e);
    if (!window) return 0;
    if (!mem_grow((void **)&to->windows, &to->cap_window, to->n_window + 1, sizeof *to->windows))
        return err_memory(e, "the program of a rank"), 0;
    to->windows[to->n_window++] = (window_entry){t, window, w};
    return window;
}

/* The window of operand t, a weight or constant, for columns `out` of `width`. */
static weight_range window_of(const program *p, ref t, uint8_t take, cut_range out, int64_t width)
{
    const tensor *k = &p->tensors[t];
    const int64_t n = k->dim[0], parts = k->kind == TENSOR_WEIGHT ? p->weights[k->weight].parts : 0;
    const int64_t each = n < width ? width / n : 1;
    const cut_range own = {out.from / each, out.to / each};
    switch (take) {
    case TAKE_COLUMNS:
        return (weight_range){.rows = n, .run = n, .stride = n, .col0 = out.from, .cols = cut_length(out)};
    case TAKE_HEADS: return (weight_range){.row0 = out.from * n / width, .rows = cut_length(out) * n / width};
    case TAKE_PARTS:
        return (weight_range){.row0 = out.from,
                              .rows = cut_length(out),
                              .run = cut_length(out),
                              .stride = cut_length(out),
                              .parts = (int32_t)(cut_length(out) / (n / parts))};
    default: /* the same rows of every part, of which each has as many as there are columns */
        return (weight_range){.row0 = own.from,
                              .run = cut_length(own),
                              .stride = n < width ? n : width,
                              .rows = (n < width ? 1 : n / width) * cut_length(own),
                              .parts = (int32_t)parts};
    }
}

/* ---- ops */

/* Whether an operand and the result are cut by the same shares. */
static bool is_one_kind(const cut *c, const op *o, int k)
{
    return cut_by_experts(c->b, o->in[k]) == cut_by_experts(c->b, o->out);
}

/* Whether ranks do an op on columns of their own. */
static bool is_divided(const cut *c, const op *o, const cut_rule *r)
{
    if (o->kind == OP_KV_PUT) return r->heads > 1 && cut_is_cut(c->b, cut_queries(c->b, o->state));
    if (r->result == CUT_WHOLE || !cut_is_cut(c->b, o->out)) return false;
    bool whole = r->result == CUT_ALIKE && o->kind != OP_ATTN && o->kind != OP_MATMUL_HEADS && !op_is(o, OPF_SLOT);
    for (int k = 0; k < 4; k++)
        if (r->in[k] == TAKE_ALIKE && is_one_kind(c, o, k) && c->has[o->in[k]] != HAS_WHOLE) whole = false;
    return !whole;
}

/* The columns that a rank makes of op o; of KV_PUT its heads. */
static cut_range makes(const cut *c, int rank, const op *o)
{
    return o->kind == OP_KV_PUT ? cut_state_heads(c->b, rank, o->state) : cut_columns(c->b, rank, o->out);
}

static void divide_recur(op *o, cut_range out, int64_t width)
{
    const int64_t heads = o->u.recur.heads;
    if (cut_by_keys(o)) o->u.recur.key_heads = (int32_t)(cut_length(out) * o->u.recur.key_heads / width);
    if (o->u.recur.tiled) o->u.recur.head0 += (int32_t)(out.from * heads / width);
    o->u.recur.heads = (int32_t)(cut_length(out) * heads / width);
}

/* Parameters and state of an op on some columns. */
static void divide_op(const cut *c, int rank, op *o, cut_range out)
{
    const program *p = c->s->p;
    state *s = o->state >= 0 ? &c->rank[rank].p->states[o->state] : NULL;
    if (o->kind == OP_KV_PUT) s->heads = (int32_t)cut_length(out);
    if (op_is(o, OPF_SLOT)) s->slot_floats = s->slot_floats / cut_width(p, o->out) * cut_length(out);
    if (o->kind == OP_JOIN) o->u.join.heads = (int32_t)(cut_length(out) * o->u.join.heads / cut_width(p, o->out));
    if (o->kind == OP_RECUR) divide_recur(o, out, cut_width(p, o->out));
    if (o->kind != OP_ATTN) return;
    const int32_t heads = o->u.attn.heads, kv = p->states[o->state].heads;
    const int32_t head0 = (int32_t)(out.from * heads / cut_width(p, o->out));
    o->u.attn.per_kv = heads / kv;
    o->u.attn.head0 = head0 - (int32_t)cut_state_heads(c->b, rank, o->state).from * o->u.attn.per_kv;
    o->u.attn.heads = (int32_t)(cut_length(out) * heads / cut_width(p, o->out));
}

/* Operand k of op o for columns `out`, on a rank; 0 on error. */
static ref operand_on_rank(cut *c, int rank, const op *o, int k, uint8_t take, cut_range out, err *e)
{
    const program *p = c->s->p;
    const ref t = o->in[k];
    int64_t width = o->out ? cut_width(p, o->out) : p->states[o->state].heads;
    switch (take) {
    case TAKE_ALIKE:
    case TAKE_STATE: {
        const int64_t own = cut_width(p, t);
        return cut_columns_of(c, rank, t, (cut_range){out.from * own / width, out.to * own / width}, o->layer, e);
    }
    case TAKE_BUCKETS: {
        const int64_t heads = o->u.attn.heads;
        out = (cut_range){out.from * heads / width, out.to * heads / width};
        width = heads;
        break;
    }
    case TAKE_VECTOR:
    case TAKE_HEADS:
    case TAKE_ROWS:
    case TAKE_PARTS:
    case TAKE_COLUMNS: break;
    default: return t;
    }
    return cut_window(&c->rank[rank], t, window_of(p, t, take, out, width), e);
}

/* Op o on the columns of one rank. */
static int add_columns(cut *c, int rank, const op *o, const cut_rule *r, err *e)
{
    program *p = c->rank[rank].p;
    const cut_range out = makes(c, rank, o);
    op own = *o;
    if (out.from == out.to) return OK;
    for (int k = 0; k < 4; k++) {
        if (r->in[k] == TAKE_NOTHING) continue;
        own.in[k] = operand_on_rank(c, rank, o, k, r->in[k], out, e);
        if (!own.in[k]) return e->code;
    }
    divide_op(c, rank, &own, out);
    if (o->out && cut_length(out) < cut_width(c->s->p, o->out)) {
        own.out = cut_part_like(p, o->out, NULL, out, e);
        if (!own.out) return e->code;
    }
    if (o->out) c->rank[rank].part[o->out] = own.out;
    return program_op(p, &own, e);
}

/* Rows of a table: each rank gives those that it has. */
static int add_owned(cut *c, const op *o, err *e)
{
    const uint64_t takes = cut_doers(c->b, o->out);
    cut_coll *k = add_coll(c, COLL_OWNER, o->out, takes, e);
    if (!k) return e->code;
    k->offset = o->u.embed.offset;
    for (int r = 0; r < c->s->ranks; r++) {
        rank_program *to = &c->rank[r];
        const cut_range rows = cut_table_rows(c->b, r, o), all = {0, cut_width(c->s->p, o->out)};
        op own = *o, join = {.kind = OP_COLL, .layer = o->layer, .state = -1, .u.coll.how = COLL_OWNER};
        ((cut_range *)k->of)[r] = rows;
        if (cut_length(rows)) {
            own.in[0] = cut_window(to, o->in[0], (weight_range){.rows = cut_length(rows), .row0 = rows.from}, e);
            own.u.embed.offset -= (int32_t)rows.from;
            own.out = join.in[0] = own.in[0] ? cut_part_like(to->p, o->out, "own", all, e) : 0;
            if (!own.out || program_op(to->p, &own, e)) return e->code;
        }
        int rc = add_result(c, r, k, &join, e);
        if (rc) return rc;
    }
    c->has[o->out] = HAS_WHOLE;
    c->at[o->out] = takes;
    return OK;
}

static bool is_owned(const cut *c, const op *o, const cut_rule *r)
{
    const int64_t rows = c->s->p->tensors[o->in[0]].dim[0];
    return r->in[0] == TAKE_OWNED && cut_length(cut_table_rows(c->b, first_in(cut_doers(c->b, o->out)), o)) < rows;
}

static int add_op(cut *c, const op *o, err *e)
{
    const cut_rule r = cut_rule_of(c->s->p, o);
    int rc = OK;
    if (cut_multiplies_columns(c, o)) return cut_add_partial(c, o, e);
    if (cut_keeps_sum(c, o)) return cut_add_linear(c, o, e);
    for (int k = 0; k < 4 && !rc; k++)
        if (c->has[o->in[k]] == HAS_SUM) rc = cut_make_sum(c, o->in[k], o->layer, e);
    const bool by_experts = cut_goes_by_experts(c, o), divided = !by_experts && is_divided(c, o, &r);
    const uint64_t doers = cut_doers(c->b, o->out);
    for (int k = 0; k < 4 && !rc; k++) {
        const ref t = o->in[k];
        if (!t || c->s->p->tensors[t].kind != TENSOR_ACT || c->has[t] == HAS_EXPERTS) continue;
        const bool alike = (r.in[k] == TAKE_ALIKE && is_one_kind(c, o, k)) || r.in[k] == TAKE_STATE;
        if (!divided || !alike) rc = gather(c, t, doers, o->layer, e);
    }
    if (rc || by_experts) return rc ? rc : cut_add_by_experts(c, o, e);
    if (is_owned(c, o, &r)) return add_owned(c, o, e);
    for (int k = 0; k < c->s->ranks && !rc; k++)
        if (is_in(doers, k)) rc = divided ? add_columns(c, k, o, &r, e) : program_op(c->rank[k].p, o, e);
    if (!o->out || divided) return rc;
    c->has[o->out] = HAS_WHOLE;
    c->at[o->out] = doers;
    return rc;
}

/* ---- opening */

static int open_rank(cut *c, rank_program *r, err *e)
{
    const program *p = c->s->p;
    r->p = program_slice(p, e);
    r->part = mem_zero(p->n_tensor, sizeof *r->part);
    r->base = mem_zero(p->n_tensor, sizeof *r->base);
    if (!r->p || !r->part || !r->base) return r->p ? err_memory(e, "the program of a rank") : e->code;
    state *own = arena_array(&r->p->mem, (size_t)p->n_state + 1, sizeof *own);
    if (!own) return err_memory(e, "the program of a rank");
    if (p->n_state) memcpy(own, p->states, p->n_state * sizeof *own);
    r->p->states = own;
    return OK;
}

/* What other groups wrote comes whole. */
static void mark_inputs(cut *c)
{
    const program *p = c->s->p;
    for (uint32_t i = 0; i < c->s->op0; i++) {
        c->has[p->ops[i].out] = HAS_WHOLE;
        c->at[p->ops[i].out] = all_ranks(c);
    }
}

int cut_open(cut **out, const cut_shape *s, bool (*takes)(dtype type), err *e)
{
    cut *c = *out = mem_zero(1, sizeof *c);
    if (!c) return err_memory(e, "the program of a rank");
    c->s = s;
    c->takes = takes;
    c->rank = mem_zero((size_t)s->ranks, sizeof *c->rank);
    c->has = mem_zero(s->p->n_tensor, sizeof *c->has);
    c->at = mem_zero(s->p->n_tensor, sizeof *c->at);
    c->vectors = mem_zero(s->p->n_tensor, sizeof *c->vectors);
    if (!c->rank || !c->has || !c->at || !c->vectors) return err_memory(e, "the program of a rank");
    int rc = cut_borders_open(&c->b, s, e);
    for (int r = 0; r < s->ranks && !rc; r++) rc = open_rank(c, &c->rank[r], e);
    mark_inputs(c);
    for (uint32_t i = s->op0; i <= s->op1 && !rc; i++) {
        if (i == s->op1) rc = cut_make_outer_sums(c, e);
        for (int r = 0; r < s->ranks; r++) program_slice_mark(c->rank[r].p, s->p, i);
        if (i < s->op1) rc = add_op(c, &s->p->ops[i], e);
    }
    return rc;
}

void cut_close(cut *c)
{
    if (!c) return;
    for (int r = 0; c->rank && r < c->s->ranks; r++) {
        program_free(c->rank[r].p);
        mem_free(c->rank[r].part);
        mem_free(c->rank[r].base);
        mem_free(c->rank[r].windows);
    }
    cut_borders_close(c->b);
    mem_free(c->rank);
    mem_free(c->has);
    mem_free(c->at);
    mem_free(c->vectors);
    mem_free(c->colls);
    mem_free(c);
}

program *cut_program(const cut *c, int rank) { return c->rank[rank].p; }

uint32_t cut_colls(const cut *c, const cut_coll **list)
{
    *list = c->colls;
    return (uint32_t)c->n_coll;
}

cut_part cut_gives(const cut *c, int rank, ref t)
{
    if (c->has[t] == HAS_WHOLE)
        return rank == first_in(c->at[t]) ? (cut_part){t, {0, cut_width(c->s->p, t)}} : (cut_part){0};
    return (cut_part){c->rank[rank].part[t], cut_columns(c->b, rank, t)};
}
