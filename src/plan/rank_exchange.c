/* rank_exchange.c - see rank_exchange.h. Rows are taken out of a device into memory of the collective, and put into the
 * others straight from there, where the link is of threads. */
#include "plan/rank_exchange.h"

#include "base/mem.h"
#include "core/act_move.h"

#include <string.h>

void step_tap_columns(const step *st, const program *p, ref t, cut_range c, int64_t rows, const float *from)
{
    const int64_t width = tensor_whole(&p->tensors[t]), cols = c.to - c.from;
    for (int32_t k = 0; k < st->n_tap; k++)
        for (int64_t i = 0; i < rows && st->taps[k].what == t && st->taps[k].to; i++)
            memcpy(st->taps[k].to + i * width + c.from, from + i * cols, (size_t)cols * sizeof *from);
}

typedef struct exchanging {
    plan_rank *r;
    const cut_coll *k;
    const step *st;
    const op *o;
    int64_t rows;
    bool idle; /* the device has failed */
    int rc;    /* in this collective, which goes on: others wait for its bytes */
    err why;
} exchanging;

static void fail(exchanging *x, int rc, const err *why)
{
    if (!rc || x->rc) return;
    x->rc = rc;
    x->why = *why;
    x->idle = true;
}

/* Columns c of the result. */
static void put_in(exchanging *x, cut_range c, const void *from)
{
    const segment *s = &x->r->seg;
    err e = {0};
    if (!x->idle) fail(x, s->be->act_put(s->on, s, x->o->out, c.from, c.to - c.from, x->rows, from, &e), &e);
}

static int64_t width_of(cut_range c) { return c.to - c.from; }

static const op *coll_op(const plan_rank *r, uint32_t number) { return &r->seg.p->ops[r->seg.ends[number]]; }

/* ---- gather: columns */

static int put_columns(void *self, int from, const void *part, err *e)
{
    exchanging *x = self;
    const program *p = x->r->seg.p;
    const cut_range c = x->k->of[from];
    (void)e;
    if (!p->tensors[x->o->out].block) step_tap_columns(x->st, p, x->k->t, c, x->rows, part);
    put_in(x, c, part);
    return OK;
}

static int get_columns(const exchanging *x, err *e)
{
    const segment *s = &x->r->seg;
    const bool none = x->idle || !x->o->in[0] || !x->rows;
    return none ? OK : s->be->act_get(s->on, s, x->o->in[0], 0, x->rows, coll_own(&x->r->side), e);
}

/* ---- owner: rows of a table, each from the rank that has it */

static bool owns(const exchanging *x, int rank, int64_t i)
{
    const int32_t token = step_rows_of(x->st, x->r->seg.p->tensors[x->o->out].axis)->token[i];
    const int64_t row = (int64_t)token + x->k->offset;
    return token >= 0 && row >= x->k->of[rank].from && row < x->k->of[rank].to;
}

/* Rows that a rank has of those from i on, one after another. */
static int64_t run_from(const exchanging *x, int rank, int64_t i)
{
    int64_t n = i;
    while (n < x->rows && owns(x, rank, n)) n++;
    return n - i;
}

static int64_t width_of_row(const exchanging *x) { return tensor_count(&x->r->seg.p->tensors[x->o->out]); }

static int put_rows(void *self, int from, const void *part, err *e)
{
    const exchanging *x = self;
    const int64_t width = width_of_row(x);
    const float *at = part;
    (void)e;
    for (int64_t i = 0; i < x->rows; i++) {
        if (!owns(x, from, i)) continue;
        memcpy(x->r->rows + i * width, at, (size_t)width * sizeof *at);
        at += width;
    }
    return OK;
}

static int get_rows(const exchanging *x, err *e)
{
    const segment *s = &x->r->seg;
    const int64_t width = width_of_row(x);
    float *to = coll_own(&x->r->side);
    int rc = OK;
    for (int64_t i = 0, n; i < x->rows && !x->idle && !rc; i += n ? n : 1) {
        n = run_from(x, x->r->index, i);
        if (n) rc = s->be->act_get(s->on, s, x->o->in[0], i, n, to, e);
        to += n * width;
    }
    return rc;
}

/* Rows that no table has: given as they are, or zeros. */
static void fill_rows(const exchanging *x)
{
    const int32_t *token = step_rows_of(x->st, x->r->seg.p->tensors[x->o->out].axis)->token;
    const int64_t width = width_of_row(x);
    for (int64_t i = 0; i < x->rows; i++) {
        float *to = x->r->rows + i * width;
        if (token[i] < 0) memcpy(to, x->st->vec + ~token[i] * width, (size_t)width * sizeof *to);
        else memset(to, 0, (size_t)width * sizeof *to);
    }
}

/* ---- reduce: sums over the ranks */

/* The sum of no more than these rows, without their memory. */
static coll_job job_of_sum(const plan_rank *r, const op *o, int64_t rows)
{
    const plan_group *g = group_of(r->of, r);
    const backend *be = r->seg.be;
    coll_job j = reduction_job(&r->of->joins, rows, tensor_count(&r->seg.p->tensors[o->out]), g->ranks);
    j.wire = be->wire ? be->wire() : &wire_reference;
    j.x = r->rows;
    return j;
}

/* The partial sums of this rank; without a part zeros, which every codec holds. */
static int get_sums(const exchanging *x, err *e)
{
    const segment *s = &x->r->seg;
    if (x->o->in[0] && !x->idle) return s->be->act_get(s->on, s, x->o->in[0], 0, x->rows, x->r->rows, e);
    memset(x->r->rows, 0, (size_t)(x->rows * width_of_row(x)) * sizeof *x->r->rows);
    return OK;
}

/* ---- all */

static uint64_t bytes_of(const exchanging *x, int rank)
{
    const tensor *t = &x->r->seg.p->tensors[x->o->out];
    int64_t rows = 0;
    if (x->k->how == COLL_GATHER) return (uint64_t)x->rows * act_move_bytes(t, width_of(x->k->of[rank]));
    for (int64_t i = 0; i < x->rows; i++) rows += owns(x, rank, i);
    return (uint64_t)rows * act_move_bytes(t, tensor_count(t));
}

/* What is to be done; bytes: [ranks] of a gather's parts. */
static coll_job job_of(exchanging *x, uint64_t *bytes)
{
    const uint8_t how = x->k->how;
    if (how == COLL_REDUCE) return job_of_sum(x->r, x->o, x->rows);
    for (int i = 0; i < x->r->side.link->ranks; i++) bytes[i] = bytes_of(x, i);
    return (coll_job){
        .kind = &coll_gather, .bytes = bytes, .put = how == COLL_GATHER ? put_columns : put_rows, .self = x};
}

void rank_exchange(plan_rank *r, const cut_coll *k, uint32_t number, const step *st, int *rc, err *e)
{
    static int (*const get[COLL_COUNT])(const exchanging *x, err *e) = {get_columns, get_rows, get_sums};
    uint64_t bytes[LINK_RANKS_MAX];
    const segment *s = &r->seg;
    exchanging x = {.r = r, .k = k, .st = st, .o = coll_op(r, number), .idle = *rc != OK};
    const bool whole = k->how != COLL_GATHER;
    x.rows = st->n[s->p->tensors[x.o->out].axis];
    if (!x.rows) return;
    const coll_job job = job_of(&x, bytes);
    err own = {0}, lost = {0};
    fail(&x, coll_enter(&r->side, &own), &own);
    if (!x.rc) fail(&x, get[k->how](&x, &own), &own); /* else the others get whatever lies there */
    if (k->how == COLL_OWNER) fill_rows(&x);
    coll_begin(&r->side, &job);
    fail(&x, coll_run(&r->side, &lost), &lost);
    if (whole && !k->goes_on) step_tap_columns(st, s->p, k->t, (cut_range){0, width_of_row(&x)}, x.rows, r->rows);
    if (whole) put_in(&x, (cut_range){0, width_of_row(&x)}, r->rows);
    if (*rc || !x.rc) return;
    *rc = x.rc;
    *e = x.why;
}

/* ---- opening */

static void grow(uint64_t *most, uint64_t n)
{
    if (n > *most) *most = n;
}

/* Memory for a collective with the most rows; false: more than there can be. */
static bool add_memory(const plan_group *g, plan_rank *r, uint32_t i, uint64_t most_rows, uint64_t needs[])
{
    static const coll_kind *const sums[] = {&coll_one_shot, &coll_two_step};
    const op *o = coll_op(r, i);
    const tensor *t = &r->seg.p->tensors[o->out];
    const uint8_t how = g->colls[i].how;
    const int64_t cols = how == COLL_GATHER ? width_of(g->colls[i].of[r->index]) : tensor_count(t);
    uint64_t bytes;
    if (!mem_mul(act_move_bytes(t, cols), most_rows, &bytes) || bytes > INT64_MAX / 16) return false;
    if (how != COLL_GATHER) grow(&r->rows_bytes, bytes);
    if (how == COLL_REDUCE) {
        coll_job j = job_of_sum(r, o, (int64_t)most_rows);
        for (int k = 0; k < 2; k++) { /* by size it may be either */
            j.kind = r->of->joins.kind ? r->of->joins.kind : sums[k];
            grow(&r->coll_bytes, coll_bytes(&j, r->index, g->ranks));
        }
        return true;
    }
    for (int k = 0; k < g->ranks; k++) needs[k] = bytes;
    const coll_job j = {.kind = &coll_gather, .bytes = needs};
    grow(&r->coll_bytes, coll_bytes(&j, r->index, g->ranks));
    return true;
}

static int open_side(const plan *l, const plan_group *g, plan_rank *r, err *e)
{
    uint64_t needs[LINK_RANKS_MAX];
    bool ok = true;
    for (uint32_t i = 0; i < g->n_coll && ok; i++)
        ok = add_memory(g, r, i, (uint64_t)l->max_rows[r->seg.p->tensors[coll_op(r, i)->out].axis], needs);
    ok = ok && (!r->coll_bytes || (r->coll_memory = mem_map(r->coll_bytes)));
    ok = ok && (!r->rows_bytes || (r->rows = mem_map(r->rows_bytes)));
    if (!ok) return err_set(e, ERR_MEMORY, "out of memory for what ranks hand over");
    if (r->end) link_part_open(&r->part, r->end, g->rank0, g->ranks);
    link_end *end = r->end ? &r->part.base : link_threads_end(g->link, r->index);
    coll_open(&r->side, end, 0, r->coll_memory, r->coll_bytes);
    return OK;
}

int rank_exchange_open(plan *l, plan_group *g, err *e)
{
    int rc = OK;
    bool all_here = true;
    if (!g->by_columns) return OK;
    for (int i = 0; i < g->ranks; i++)
        all_here = all_here && !l->ranks[g->rank0 + i].end && is_here(l, &l->ranks[g->rank0 + i]);
    if (all_here) rc = link_threads_open(&g->link, g->ranks, COLL_CHANNELS, e);
    for (int i = 0; i < g->ranks && !rc; i++)
        if (is_here(l, &l->ranks[g->rank0 + i])) rc = open_side(l, g, &l->ranks[g->rank0 + i], e);
    return rc;
}

void rank_exchange_close(plan *l, plan_group *g)
{
    for (int i = 0; i < g->ranks; i++) {
        plan_rank *r = &l->ranks[g->rank0 + i];
        mem_unmap(r->coll_memory, r->coll_bytes);
        mem_unmap(r->rows, r->rows_bytes);
    }
    link_threads_close(g->link);
}
