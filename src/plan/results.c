/* results.c - see results.h. */
#include "plan/results.h"
#include "plan/rank_pass.h"
#include "plan/row_memory.h"

#include <string.h>

static int64_t columns_of(const plan_rank *r, uint32_t k) { return r->sends[k].columns.to - r->sends[k].columns.from; }

bool results_best_only(const plan *l, uint32_t k, const step *st, int32_t row)
{
    return l->cross[k].entry == ENTRY_HEAD && st->best_only && st->best_only[row];
}

static uint64_t row_bytes(const plan_rank *from, uint32_t k, bool only)
{
    return only ? sizeof(best_logit) : (uint64_t)columns_of(from, k) * sizeof(float);
}

static int32_t rows_in(const plan *l, uint32_t k, const step *st) { return st->n[l->p->tensors[l->cross[k].t].axis]; }

static uint64_t result_bytes(const plan *l, const plan_rank *from, uint32_t k, const step *st)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < rows_in(l, k, st); i++) n += row_bytes(from, k, results_best_only(l, k, st, i));
    return n;
}

uint64_t result_bytes_max(const plan *l, const plan_rank *from, uint32_t k)
{
    const uint64_t whole = row_bytes(from, k, false), best = row_bytes(from, k, true);
    return (whole > best ? whole : best) * (uint64_t)l->max_rows[l->p->tensors[l->cross[k].t].axis];
}

/* Whether the rank on this node sends crossing k to the leader. */
static bool is_sent(const plan *l, uint32_t k)
{
    return l->self >= 0 && l->results_to >= 0 && l->ranks[l->results_to].receives[k] && l->ranks[l->self].sends[k].t;
}

int results_open(const plan *l, flight *f, err *e)
{
    for (uint32_t k = 0; k < l->n_cross; k++) {
        if (!is_sent(l, k)) continue;
        f->sent[l->cross[k].entry] = row_memory_take(l, result_bytes_max(l, &l->ranks[l->self], k));
        if (!f->sent[l->cross[k].entry]) return err_memory(e, "results");
    }
    return OK;
}

uint64_t results_bytes(const plan *l)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < l->n_cross; k++)
        if (is_sent(l, k)) sum += result_bytes_max(l, &l->ranks[l->self], k);
    return sum;
}

void results_close(const plan *l, flight *f)
{
    for (uint32_t k = 0; k < l->n_cross; k++)
        if (l->cross[k].entry >= 0 && f->sent[l->cross[k].entry])
            row_memory_give(l, f->sent[l->cross[k].entry], result_bytes_max(l, &l->ranks[l->self], k));
}

int32_t results_alike(const plan *l, uint32_t k, const step *st, int32_t row)
{
    const int32_t rows = rows_in(l, k, st);
    const bool only = results_best_only(l, k, st, row);
    int32_t next = row + 1;
    while (next < rows && results_best_only(l, k, st, next) == only) next++;
    return next - row;
}

int results_pick(const rank_lane *a, uint32_t k, int32_t row, int32_t n, best_logit *out, err *e)
{
    const segment *s = &a->seg;
    const cut_part *part = &a->of->sends[k];
    const int rc = s->be->pick(s->on, s, part->t, row, n, out, e);
    for (int32_t i = 0; i < n && !rc; i++) out[i].id += (int32_t)part->columns.from;
    return rc;
}

static int write_message(const rank_lane *a, const step *st, uint32_t k, uint8_t *to, err *e)
{
    const plan_rank *r = a->of;
    const segment *s = &a->seg;
    const int32_t rows = rows_in(r->of, k, st);
    int rc = OK;
    for (int32_t i = 0, n; i < rows && !rc; i += n) {
        const bool only = results_best_only(r->of, k, st, i);
        n = results_alike(r->of, k, st, i);
        rc = only ? results_pick(a, k, i, n, (best_logit *)(void *)to, e)
                  : s->be->act_get(s->on, s, r->sends[k].t, i, n, to, e);
        to += (uint64_t)n * row_bytes(r, k, only);
    }
    return rc;
}

void results_write(const rank_lane *a, const flight *f, uint32_t k, int *rc, err *e)
{
    const plan *l = a->of->of;
    if (!*rc && is_sent(l, k)) *rc = write_message(a, f->st, k, f->sent[l->cross[k].entry], e);
}

void results_send(const rank_lane *a, const flight *f, uint32_t k, int *rc, err *e)
{
    const plan *l = a->of->of;
    err late = {0};
    if (!is_sent(l, k)) return;
    const uint64_t n = result_bytes(l, a->of, k, f->st);
    const int failed = remote_post(a, l->results_to, k, f->sent[l->cross[k].entry], n, &late);
    if (failed && !*rc) *rc = failed, *e = late;
}

/* One message, in the order of rows. */
static int read_message(const plan *l, const flight *f, uint32_t k, int from, const uint8_t *at, err *e)
{
    const plan_rank *giver = &l->ranks[from];
    const cut_range c = giver->sends[k].columns;
    const int64_t width = tensor_count(&l->p->tensors[l->cross[k].t]);
    float *rows = f->result[l->cross[k].entry];
    best_logit *best = f->best + (int64_t)giver->index * l->max_rows[AXIS_OUT];
    for (int32_t i = 0; i < rows_in(l, k, f->st); i++) {
        const bool only = results_best_only(l, k, f->st, i);
        const uint64_t n = row_bytes(giver, k, only);
        if (only) memcpy(&best[i], at, n);
        else memcpy(rows + i * width + c.from, at, n);
        if (only && (best[i].id < c.from || best[i].id >= c.to))
            return err_set(e, ERR_FORMAT, "rank %d says that token %d is the best of its own, %lld to %lld", from,
                           best[i].id, (long long)c.from, (long long)c.to - 1);
        at += n;
    }
    return OK;
}

/* Of one rank. After *rc is set, its message is still taken. */
static void take_message(const rank_lane *a, const flight *f, uint32_t k, int from, int *rc, err *e)
{
    const plan *l = a->of->of;
    const void *bytes;
    err late = {0};
    const int came = remote_take(a, k, from, result_bytes(l, &l->ranks[from], k, f->st), &bytes, &late);
    if (came && !*rc) *rc = came, *e = late;
    if (bytes && !*rc) *rc = read_message(l, f, k, from, bytes, e);
    if (bytes) remote_release(a, k, from);
}

int results_take(const rank_lane *a, const flight *f, err *e)
{
    const plan *l = a->of->of;
    int rc = OK;
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const plan_group *g = &l->groups[l->cross[k].from];
        for (int i = g->rank0; i < g->rank0 + g->ranks && a->of->receives[k]; i++)
            if (l->ranks[i].sends[k].t && !is_here(l, &l->ranks[i])) take_message(a, f, k, i, &rc, e);
    }
    return rc;
}
