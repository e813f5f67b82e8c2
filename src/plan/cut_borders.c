/* cut_borders.c - see cut_borders.h. Classes by union-find; what stays together is a grain, a number of columns of the
 * class's first member: the widths of members are in proportion. */
#include "plan/cut_borders.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Columns that codes of activations travel in (act_q8.h), rows of a panel: borders lie on these where they may. */
enum { CODES = 64, PANEL = 16 };

typedef struct class
{
    ref parent;    /* itself: the first member */
    int64_t grain; /* borders are multiples of it, of the first member's width; that width: none may be */
    int64_t wish;  /* they are rather multiples of this too */
    bool copied;   /* all ranks have all of it */
    int32_t state; /* keys or values of this state; -1: neither */
    bool ready;    /* columns are known */
} class;

/* Which ranks do an op whole. */
enum { BY_ALL = 1 /* those with a share */, BY_EXPERTS = 2 /* those with experts */ };

struct cut_borders {
    cut_shape s;
    class *of;         /* [n_tensor] */
    cut_range *range;  /* [n_tensor][ranks] of first members */
    uint32_t *writer;  /* [n_tensor] op + 1; 0: not written here */
    ref *queries;      /* [n_state] queries of a state */
    uint8_t *by;       /* [n_tensor] BY_*: who computes it */
    uint64_t *readers; /* [n_tensor] ranks */
};

/* ---- classes */

static ref first_of(const cut_borders *b, ref t)
{
    while (b->of[t].parent != t) t = b->of[t].parent;
    return t;
}

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The least multiple of both; `most` if it is larger. */
static int64_t multiple(int64_t a, int64_t b, int64_t most)
{
    int64_t by = b / common(a, b);
    return a > most / by ? most : a * by;
}

/* Adds to *grain, of the class of t, that borders are multiples of n columns of t. */
static void add_grain(const cut_borders *b, int64_t *grain, ref t, int64_t n)
{
    const int64_t width = cut_width(b->s.p, t), all = cut_width(b->s.p, first_of(b, t));
    if (n < 1 || n > width) n = width;
    *grain = multiple(*grain, n * all / common(n * all, width), all);
}

static void keep_together(cut_borders *b, ref t, int64_t n) { add_grain(b, &b->of[first_of(b, t)].grain, t, n); }
static void wish_together(cut_borders *b, ref t, int64_t n) { add_grain(b, &b->of[first_of(b, t)].wish, t, n); }

bool cut_by_experts(const cut_borders *b, ref t)
{
    const program *p = b->s.p;
    if (!b->s.experts) return false;
    return p->tensors[t].axis == AXIS_EXP || (b->writer[t] && p->ops[b->writer[t] - 1].kind == OP_SCATTER);
}

static void cut_alike(cut_borders *b, ref t, ref u)
{
    const ref x = first_of(b, t), y = first_of(b, u);
    if (x == y || cut_by_experts(b, t) != cut_by_experts(b, u)) return;
    const class was = b->of[y];
    b->of[y].parent = x;
    b->of[x].copied = b->of[x].copied || was.copied;
    if (b->of[x].state < 0) b->of[x].state = was.state;
    keep_together(b, y, was.grain);
    keep_together(b, y, 1);
    wish_together(b, y, was.wish);
}

/* All ranks compute t, and what it is made of up to the next matrix. */
static void copy_all(cut_borders *b, ref t)
{
    b->of[first_of(b, t)].copied = true;
    if (!b->writer[t]) return;
    const op *o = &b->s.p->ops[b->writer[t] - 1];
    const cut_rule r = cut_rule_of(b->s.p, o);
    for (int k = 0; k < 4 && r.result != CUT_ROWS; k++)
        if (r.in[k] == TAKE_WHOLE && !b->of[first_of(b, o->in[k])].copied) copy_all(b, o->in[k]);
}

/* Rows of a matrix that stay together: of a packed file panels; of parts that are packed too. */
static int64_t row_grain(const program *p, const op *o)
{
    const weight *w = &p->weights[p->tensors[o->in[1]].weight];
    if (w->parts) return weight_row_grain(w);
    return w->pieces[0].packed ? PANEL : 1;
}

static void join_op(cut_borders *b, const op *o)
{
    const program *p = b->s.p;
    const cut_rule r = cut_rule_of(p, o);
    for (int k = 0; k < 4; k++) {
        if (r.in[k] == TAKE_ALIKE) cut_alike(b, o->out, o->in[k]);
        if (r.in[k] == TAKE_ALIKE && r.heads) keep_together(b, o->in[k], cut_width(p, o->in[k]) / r.heads);
        if (r.in[k] == TAKE_STATE) keep_together(b, o->in[k], cut_width(p, o->in[k]) / r.heads);
    }
    if (r.result == CUT_ALIKE && r.heads) keep_together(b, o->out, cut_width(p, o->out) / r.heads);
    if (r.result == CUT_ROWS) keep_together(b, o->out, row_grain(p, o));
    if (r.result == CUT_ROWS && b->s.reduces)
        wish_together(b, o->in[0], weight_column_grain(&p->weights[p->tensors[o->in[1]].weight]));
    if (o->kind != OP_ATTN) return;
    ref *q = &b->queries[o->state];
    if (*q) cut_alike(b, *q, o->in[ATTN_Q]);
    else *q = o->in[ATTN_Q];
    if (r.heads == 1) b->of[first_of(b, *q)].copied = true;
}

/* Keys that ATTN also reads as places are cut with its queries already. */
static void join_state(cut_borders *b, const op *o, ref t)
{
    class *c = &b->of[first_of(b, t)];
    const ref q = b->queries[o->state];
    if (q && first_of(b, q) == first_of(b, t)) return;
    if (!q) copy_all(b, t);
    else if (c->state < 0) c->state = o->state;
    else cut_alike(b, b->queries[c->state], q);
}

static void make_classes(cut_borders *b)
{
    const program *p = b->s.p;
    for (uint32_t i = b->s.op0; i < b->s.op1; i++) join_op(b, &p->ops[i]);
    for (uint32_t i = b->s.op0; i < b->s.op1; i++) {
        const cut_rule r = cut_rule_of(p, &p->ops[i]);
        for (int k = 0; k < 4; k++) {
            if (r.in[k] == TAKE_COPIED) copy_all(b, p->ops[i].in[k]);
            if (r.in[k] == TAKE_STATE) join_state(b, &p->ops[i], p->ops[i].in[k]);
        }
    }
}

/* ---- who does what */

/* Those with experts compute t, and what it is made of from the last matrix on. */
static void compute_with_experts(cut_borders *b, ref t)
{
    if (!b->writer[t] || b->by[t] == BY_EXPERTS) return;
    const op *o = &b->s.p->ops[b->writer[t] - 1];
    b->by[t] = BY_EXPERTS;
    if (cut_rule_of(b->s.p, o).result == CUT_ROWS || o->state >= 0) return;
    for (int k = 0; k < 4; k++)
        if (b->s.p->tensors[o->in[k]].kind == TENSOR_ACT) compute_with_experts(b, o->in[k]);
}

/* What is not handed over from those with experts is computed by all who read it. */
static void find_doers(cut_borders *b)
{
    const program *p = b->s.p;
    memset(b->by, BY_ALL, p->n_tensor);
    for (uint32_t i = b->s.op0; i < b->s.op1 && b->s.experts; i++) {
        const op *o = &p->ops[i];
        if (o->kind == OP_ROUTE) compute_with_experts(b, o->in[0]);
        if (o->kind == OP_ROUTE || cut_by_experts(b, o->out)) b->by[o->out] = BY_EXPERTS;
    }
    for (uint32_t i = b->s.op1; i-- > b->s.op0;)
        for (int k = 0; k < 4; k++) {
            const ref t = p->ops[i].in[k];
            if (b->by[p->ops[i].out] & BY_ALL && !cut_by_experts(b, t)) b->by[t] |= BY_ALL;
            b->readers[t] |= cut_doers(b, p->ops[i].out);
        }
}

static uint64_t ranks_with(const cut_shape *s, const double *share)
{
    uint64_t bits = 0;
    for (int r = 0; r < s->ranks; r++) bits |= (uint64_t)(share[r] > 0) << r;
    return bits;
}

uint64_t cut_doers(const cut_borders *b, ref t)
{
    return (b->by[t] & BY_ALL ? ranks_with(&b->s, b->s.share) : 0) |
           (b->by[t] & BY_EXPERTS ? ranks_with(&b->s, b->s.experts) : 0);
}

uint64_t cut_readers(const cut_borders *b, ref t) { return b->readers[t]; }

static bool does(const cut_borders *b, int rank, ref t) { return cut_doers(b, t) >> rank & 1; }

/* ---- borders */

/* With the shares by which t is cut. */
static cut_shape shape_for(const cut_borders *b, ref t)
{
    cut_shape s = b->s;
    if (cut_by_experts(b, t)) s.share = s.experts;
    return s;
}

/* Where rank `rank` begins if borders may be anywhere. */
static double ideal(const cut_shape *s, int rank, int64_t n)
{
    double before = 0, all = 0;
    for (int r = 0; r < s->ranks; r++) {
        all += s->share[r];
        before += r < rank ? s->share[r] : 0;
    }
    return (double)n * before / all;
}

static int64_t border(const cut_shape *s, int rank, int64_t n, int64_t stride)
{
    const int64_t at = (int64_t)(ideal(s, rank, n) / (double)stride + 0.5) * stride;
    return rank == s->ranks || at > n ? n : at;
}

/* Whether borders at multiples of `stride` shift none by more than a twentieth of a rank's part. */
static bool shifts_little(const cut_shape *s, int64_t n, int64_t stride)
{
    const double most = (double)n / s->ranks / 20;
    for (int r = 1; r < s->ranks; r++)
        if (fabs((double)border(s, r, n, stride) - ideal(s, r, n)) > most) return false;
    return true;
}

/* Whether borders at multiples of `stride` leave every rank a part, and give none more than 1.2 times its share. */
static bool is_fair(const cut_shape *s, int64_t n, int64_t stride)
{
    for (int r = 0; r < s->ranks; r++) {
        const int64_t has = border(s, r + 1, n, stride) - border(s, r, n, stride);
        if (has <= 0 || (double)has > 1.2001 * (ideal(s, r + 1, n) - ideal(s, r, n))) return false;
    }
    return true;
}

/* Ranges in which each of n columns belongs to one rank: borders are multiples of `grain`, in proportion to the shares;
 * rather multiples of `even` where that shifts none far. */
static cut_range cut_divide(const cut_shape *s, int rank, int64_t n, int64_t grain, int64_t even)
{
    int64_t stride = grain;
    for (int64_t e = even; e > 1; e = e > PANEL ? PANEL : 1) {
        const int64_t rather = multiple(grain, e, n);
        if (rather >= n || !shifts_little(s, n, rather)) continue;
        stride = rather;
        break;
    }
    return (cut_range){border(s, rank, n, stride), border(s, rank + 1, n, stride)};
}

ref cut_queries(const cut_borders *b, int of) { return b->queries[of]; }

cut_range cut_state_heads(const cut_borders *b, int rank, int of)
{
    const ref q = b->queries[of];
    const cut_range c = cut_columns(b, rank, q);
    const int64_t kv = b->s.p->states[of].heads, each = cut_width(b->s.p, q) / kv; /* columns of a group */
    if (!cut_is_cut(b, q)) return (cut_range){0, kv};
    return (cut_range){c.from / each, c.from == c.to ? c.from / each : (c.to + each - 1) / each};
}

/* Columns of a class of keys or values; it is copied where a border is not allowed. */
static void cut_by_state(cut_borders *b, ref first)
{
    class *c = &b->of[first];
    const int64_t width = cut_width(b->s.p, first), each = width / b->s.p->states[c->state].heads;
    for (int r = 0; r < b->s.ranks; r++) {
        const cut_range h = cut_state_heads(b, r, c->state);
        b->range[first * (ref)b->s.ranks + (ref)r] = (cut_range){h.from * each, h.to * each};
        if (h.from * each % c->grain || (h.to * each % c->grain && h.to * each != width)) c->copied = true;
    }
    if (!cut_is_cut(b, b->queries[c->state])) c->copied = true;
}

static void find_columns(cut_borders *b, ref first)
{
    class *c = &b->of[first];
    const int64_t width = cut_width(b->s.p, first);
    if (c->ready) return;
    c->ready = true;
    const cut_shape s = shape_for(b, first);
    const uint64_t ranks = ranks_with(&s, s.share);
    if (c->grain >= width || (s.experts && !(ranks & (ranks - 1)))) c->copied = true; /* by the one rank that has it */
    if (c->copied) return;
    if (c->state >= 0) {
        cut_by_state(b, first);
        return;
    }
    const int64_t wish = multiple(c->grain, c->wish, width);
    const int64_t grain = wish < width && is_fair(&s, width, wish) ? wish : c->grain;
    for (int r = 0; r < s.ranks; r++) b->range[first * (ref)s.ranks + (ref)r] = cut_divide(&s, r, width, grain, CODES);
}

bool cut_is_cut(const cut_borders *b, ref t) { return !b->of[first_of(b, t)].copied; }

bool cut_one_class(const cut_borders *b, ref t, ref u) { return first_of(b, t) == first_of(b, u); }

cut_range cut_columns(const cut_borders *b, int rank, ref t)
{
    const ref first = first_of(b, t);
    const int64_t width = cut_width(b->s.p, t), all = cut_width(b->s.p, first);
    if (b->of[first].copied) return (cut_range){0, does(b, rank, t) ? width : 0};
    const cut_range c = b->range[first * (ref)b->s.ranks + (ref)rank];
    return (cut_range){c.from * width / all, c.to * width / all};
}

cut_range cut_experts(const cut_borders *b, int rank, int64_t n) { return cut_divide(&b->s, rank, n, 1, 1); }

cut_range cut_table_rows(const cut_borders *b, int rank, const op *embed)
{
    const program *p = b->s.p;
    const tensor *table = &p->tensors[embed->in[0]];
    const weight *w = &p->weights[table->weight];
    for (uint32_t i = b->s.op0; i < b->s.op1; i++) { /* a tied head has the same rows */
        const op *o = &p->ops[i];
        if (o->kind == OP_MATMUL && p->tensors[o->in[1]].weight == table->weight) return cut_columns(b, rank, o->out);
    }
    if (w->rows < b->s.ranks * PANEL) return (cut_range){0, does(b, rank, embed->out) ? w->rows : 0};
    return cut_divide(&b->s, rank, w->rows, w->pieces[0].packed ? PANEL : 1, PANEL);
}

/* ---- opening */

int cut_borders_open(cut_borders **out, const cut_shape *s, err *e)
{
    const program *p = s->p;
    cut_borders *b = *out = mem_zero(1, sizeof *b);
    if (b) {
        b->s = *s;
        b->of = mem_array(p->n_tensor, sizeof *b->of);
        b->range = mem_zero((size_t)p->n_tensor * (size_t)s->ranks, sizeof *b->range);
        b->writer = mem_zero(p->n_tensor, sizeof *b->writer);
        b->queries = mem_zero((size_t)p->n_state + 1, sizeof *b->queries);
        b->by = mem_array(p->n_tensor, sizeof *b->by);
        b->readers = mem_zero(p->n_tensor, sizeof *b->readers);
    }
    if (!b || !b->of || !b->range || !b->writer || !b->queries || !b->by || !b->readers)
        return err_memory(e, "the borders of a group");
    for (ref t = 0; t < p->n_tensor; t++) b->of[t] = (class){.parent = t, .grain = 1, .wish = 1, .state = -1};
    for (uint32_t i = s->op0; i < s->op1; i++) b->writer[p->ops[i].out] = i + 1;
    b->writer[0] = 0;
    make_classes(b);
    find_doers(b);
    for (int keys = 0; keys < 2; keys++) /* queries first */
        for (ref t = 1; t < p->n_tensor; t++)
            if (b->of[t].parent == t && p->tensors[t].kind == TENSOR_ACT && (b->of[t].state >= 0) == keys)
                find_columns(b, t);
    return OK;
}

void cut_borders_close(cut_borders *b)
{
    if (!b) return;
    mem_free(b->of);
    mem_free(b->range);
    mem_free(b->writer);
    mem_free(b->queries);
    mem_free(b->by);
    mem_free(b->readers);
    mem_free(b);
}
