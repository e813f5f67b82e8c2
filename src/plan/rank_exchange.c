/* rank_exchange.c - see rank_exchange.h. Rows are taken out of a device into memory of the collective, and put into the
 * others straight from there, where the link is of threads. */
#include "plan/rank_exchange.h"

#include "plan/row_faults.h"
#include "plan/row_memory.h"
#include "plan/turns.h"

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
    rank_lane *a;
    const cut_coll *k;
    const step *st;
    const op *o;
    int64_t rows;
    bool idle; /* the device has failed */
    int rc;    /* in this collective, which goes on: others wait for its bytes */
    err why;
} exchanging;

static void fail_exchange(exchanging *x, int rc, const err *why)
{
    if (!rc || x->rc) return;
    x->rc = rc;
    x->why = *why;
    x->idle = true;
}

static int64_t width_of(cut_range c) { return c.to - c.from; }

static const op *coll_op(const plan_rank *r, uint32_t number) { return &r->seg.p->ops[r->seg.ends[number]]; }

/* Columns c of the result, when it is the lane's turn. */
static void put_in(exchanging *x, cut_range c, const void *from)
{
    const segment *s = &x->a->seg;
    err e = {0};
    if (x->idle) return;
    turn_take_for_rows(x->a);
    int rc = s->be->act_put(s->on, s, x->o->out, c.from, width_of(c), x->rows, from, &e);
    turn_give(x->a, x->a->reached);
    fail_exchange(x, rc, &e);
}

/* ---- gather: columns */

static int put_columns(void *self, int from, const void *part, err *e)
{
    exchanging *x = self;
    const program *p = x->a->seg.p;
    const cut_range c = x->k->of[from];
    (void)e;
    if (!p->tensors[x->o->out].block) step_tap_columns(x->st, p, x->k->t, c, x->rows, part);
    put_in(x, c, part);
    return OK;
}

static int get_columns(const exchanging *x, err *e)
{
    const segment *s = &x->a->seg;
    const bool none = x->idle || !x->o->in[0] || !x->rows;
    return none ? OK : s->be->act_get(s->on, s, x->o->in[0], 0, x->rows, coll_own(&x->a->side), e);
}

/* ---- owner: rows of a table, each from the rank that has it */

static bool owns(const exchanging *x, int rank, int64_t i)
{
    const int32_t token = step_rows_of(x->st, x->a->seg.p->tensors[x->o->out].axis)->token[i];
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

static int64_t width_of_row(const exchanging *x) { return tensor_count(&x->a->seg.p->tensors[x->o->out]); }

static int put_rows(void *self, int from, const void *part, err *e)
{
    const exchanging *x = self;
    const int64_t width = width_of_row(x);
    const float *at = part;
    (void)e;
    for (int64_t i = 0; i < x->rows; i++) {
        if (!owns(x, from, i)) continue;
        memcpy(x->a->rows + i * width, at, (size_t)width * sizeof *at);
        at += width;
    }
    return OK;
}

static int get_rows(const exchanging *x, err *e)
{
    const segment *s = &x->a->seg;
    const int64_t width = width_of_row(x);
    float *to = coll_own(&x->a->side);
    int rc = OK;
    for (int64_t i = 0, n; i < x->rows && !x->idle && !rc; i += n ? n : 1) {
        n = run_from(x, x->a->of->index, i);
        if (n) rc = s->be->act_get(s->on, s, x->o->in[0], i, n, to, e);
        to += n * width;
    }
    return rc;
}

/* Rows that no table has: given as they are, or zeros. */
static void fill_rows(const exchanging *x)
{
    const int32_t *token = step_rows_of(x->st, x->a->seg.p->tensors[x->o->out].axis)->token;
    const int64_t width = width_of_row(x);
    for (int64_t i = 0; i < x->rows; i++) {
        float *to = x->a->rows + i * width;
        if (token[i] < 0) memcpy(to, x->st->vec + ~token[i] * width, (size_t)width * sizeof *to);
        else memset(to, 0, (size_t)width * sizeof *to);
    }
}

/* ---- reduce: sums over the ranks */

/* The sum of no more than these rows, without their memory. */
static coll_job job_of_sum(const plan_rank *r, const op *o, int64_t rows)
{
    const plan_group *g = group_of(r->of, r);
    coll_job j = reduction_job(&r->of->reduction, rows, tensor_count(&r->seg.p->tensors[o->out]), g->ranks);
    j.wire = r->of->codecs;
    return j;
}

/* The partial sums of this rank; without a part zeros, which every codec holds. */
static int get_sums(const exchanging *x, err *e)
{
    const segment *s = &x->a->seg;
    if (x->o->in[0] && !x->idle) return s->be->act_get(s->on, s, x->o->in[0], 0, x->rows, x->a->rows, e);
    memset(x->a->rows, 0, (size_t)(x->rows * width_of_row(x)) * sizeof *x->a->rows);
    return OK;
}

/* ---- all */

static uint64_t bytes_of(const exchanging *x, int rank)
{
    const tensor *t = &x->a->seg.p->tensors[x->o->out];
    int64_t rows = 0;
    if (x->k->how == COLL_GATHER) return (uint64_t)x->rows * act_move_bytes(t, width_of(x->k->of[rank]));
    for (int64_t i = 0; i < x->rows; i++) rows += owns(x, rank, i);
    return (uint64_t)rows * act_move_bytes(t, tensor_count(t));
}

/* What is to be done; bytes: [ranks] of a gather's parts. */
static coll_job job_of(exchanging *x, uint64_t *bytes)
{
    const uint8_t how = x->k->how;
    if (how == COLL_REDUCE) {
        coll_job j = job_of_sum(x->a->of, x->o, x->rows);
        j.x = x->a->rows;
        return j;
    }
    for (int i = 0; i < x->a->side.link->ranks; i++) bytes[i] = bytes_of(x, i);
    return (coll_job){.kind = &coll_gather,
                      .bytes = bytes,
                      .takes = x->k->takes,
                      .put = how == COLL_GATHER ? put_columns : put_rows,
                      .self = x};
}

void rank_exchange_enter(rank_lane *a, int *rc, err *e)
{
    err own = {0};
    int blocked = coll_enter(&a->side, &own);
    if (blocked && !*rc) *rc = blocked, *e = own;
}

/* Takes rows out of the device and gives the turn away. After a failure the others get whatever lies there. */
static void take_out(exchanging *x, uint32_t number)
{
    static int (*const get[COLL_COUNT])(const exchanging *x, err *e) = {get_columns, get_rows, get_sums};
    err e = {0};
    fail_exchange(x, x->rows ? get[x->k->how](x, &e) : OK, &e);
    turn_give(x->a, number + 1);
}

static bool is_coded(const exchanging *x)
{
    const wire_pair *codec = x->a->of->of->reduction.codec;
    return x->k->how == COLL_REDUCE && !x->rc && !x->idle && codec->sum != WIRE_F32;
}

static void find_faults(const exchanging *x, bool coded)
{
    plan *l = x->a->of->of;
    flight *f = &l->flights[x->a->next % (uint64_t)l->in_flight];
    const int rank = (int)(x->a->of - l->ranks);
    row_faults_find(l, f, &(rows_seen){x->k->t, coded, rank, x->a->rows, x->rows, width_of_row(x)});
}

void rank_exchange(rank_lane *a, const cut_coll *k, uint32_t number, const step *st, int *rc, err *e)
{
    uint64_t bytes[LINK_RANKS_MAX];
    const program *p = a->seg.p;
    exchanging x = {.a = a, .k = k, .st = st, .o = coll_op(a->of, number), .idle = *rc != OK};
    const bool whole = k->how != COLL_GATHER;
    x.rows = st->n[p->tensors[x.o->out].axis];
    take_out(&x, number);
    if (!x.rows) return;
    const coll_job job = job_of(&x, bytes);
    if (k->how == COLL_OWNER) fill_rows(&x);
    if (is_coded(&x)) find_faults(&x, false);
    coll_begin(&a->side, &job);
    err lost = {0};
    fail_exchange(&x, coll_run(&a->side, &lost), &lost);
    if (is_coded(&x)) find_faults(&x, true);
    const cut_range all = {0, width_of_row(&x)};
    if (whole && !k->goes_on) step_tap_columns(st, p, k->t, all, x.rows, a->rows);
    if (whole && k->takes[a->of->index]) put_in(&x, all, a->rows);
    if (*rc || !x.rc) return;
    *rc = x.rc;
    *e = x.why;
}

/* ---- opening */

static void raise_to(uint64_t *most, uint64_t n)
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
    if (how != COLL_GATHER) raise_to(&r->rows_bytes, bytes);
    if (how == COLL_REDUCE) {
        coll_job j = job_of_sum(r, o, (int64_t)most_rows);
        for (int k = 0; k < 2; k++) { /* by size it may be either */
            j.kind = r->of->reduction.kind ? r->of->reduction.kind : sums[k];
            raise_to(&r->coll_bytes, coll_bytes(&j, r->index, g->ranks));
        }
        return true;
    }
    for (int k = 0; k < g->ranks; k++) needs[k] = bytes;
    const coll_job j = {.kind = &coll_gather, .bytes = needs};
    raise_to(&r->coll_bytes, coll_bytes(&j, r->index, g->ranks));
    return true;
}

static int open_side(const plan *l, const plan_group *g, plan_rank *r, err *e)
{
    uint64_t needs[LINK_RANKS_MAX];
    bool ok = true;
    for (uint32_t i = 0; i < g->n_coll && ok; i++)
        ok = add_memory(g, r, i, (uint64_t)l->max_rows[r->seg.p->tensors[coll_op(r, i)->out].axis], needs);
    for (int i = 0; i < r->n_lane && ok; i++) {
        rank_lane *a = &r->lane[i];
        ok = !r->coll_bytes || (a->coll_memory = row_memory_take(l, r->coll_bytes));
        ok = ok && (!r->rows_bytes || (a->rows = row_memory_take(l, r->rows_bytes)));
        if (r->end[i]) link_part_open(&a->part, r->end[i], g->rank0, g->ranks);
        link_end *end = r->end[i] ? &a->part.base : link_threads_end(g->link[i], r->index);
        coll_open(&a->side, end, 0, a->coll_memory, r->coll_bytes);
    }
    return ok ? OK : err_memory(e, "what ranks hand over");
}

int rank_exchange_open(plan *l, plan_group *g, err *e)
{
    int rc = OK;
    bool all_here = true;
    if (!g->by_columns) return OK;
    for (int i = 0; i < g->ranks; i++)
        all_here = all_here && !l->ranks[g->rank0 + i].end[0] && is_here(l, &l->ranks[g->rank0 + i]);
    for (int i = 0; i < l->lanes && !rc && all_here; i++)
        rc = link_threads_open(&g->link[i], g->ranks, COLL_CHANNELS, e);
    for (int i = 0; i < g->ranks && !rc; i++)
        if (is_here(l, &l->ranks[g->rank0 + i])) rc = open_side(l, g, &l->ranks[g->rank0 + i], e);
    return rc;
}

void rank_exchange_close(plan *l, plan_group *g)
{
    for (int i = 0; i < g->ranks; i++) {
        plan_rank *r = &l->ranks[g->rank0 + i];
        for (int k = 0; k < PLAN_LANES; k++) {
            row_memory_give(l, r->lane[k].coll_memory, r->coll_bytes);
            row_memory_give(l, r->lane[k].rows, r->rows_bytes);
        }
    }
    for (int k = 0; k < PLAN_LANES; k++) link_threads_close(g->link[k]);
}
