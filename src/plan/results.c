/* results.c - see results.h. */
#include "plan/results.h"
#include "plan/rank_pass.h"
#include "plan/row_memory.h"

#include <math.h>
#include <string.h>

static int64_t columns_of(const plan_rank *r, uint32_t k) { return r->sends[k].columns.to - r->sends[k].columns.from; }

int32_t results_best(const plan *l, uint32_t k, const step *st, int32_t row)
{
    return l->cross[k].entry == ENTRY_HEAD ? step_best(st, row) : 0;
}

static uint64_t row_bytes(const plan_rank *from, uint32_t k, int32_t best)
{
    return best ? (uint64_t)best * sizeof(best_logit) : (uint64_t)columns_of(from, k) * sizeof(float);
}

static int32_t rows_in(const plan *l, uint32_t k, const step *st) { return st->n[l->p->tensors[l->cross[k].t].axis]; }

static uint64_t result_bytes(const plan *l, const plan_rank *from, uint32_t k, const step *st)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < rows_in(l, k, st); i++) n += row_bytes(from, k, results_best(l, k, st, i));
    return n;
}

uint64_t result_bytes_max(const plan *l, const plan_rank *from, uint32_t k)
{
    const uint64_t whole = row_bytes(from, k, 0), best = row_bytes(from, k, BEST_MAX);
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
    const int32_t best = results_best(l, k, st, row);
    int32_t next = row + 1;
    while (next < rows && results_best(l, k, st, next) == best) next++;
    return next - row;
}

int results_pick(const rank_lane *a, uint32_t k, const step *st, int32_t row, int32_t n, best_logit *out, err *e)
{
    const segment *s = &a->seg;
    const cut_part *part = &a->of->sends[k];
    const int32_t best = results_best(a->of->of, k, st, row);
    const int rc = s->be->pick(s->on, s, part->t, row, n, best, out, e);
    for (int64_t i = 0; i < (int64_t)n * best && !rc; i++)
        if (out[i].id >= 0) out[i].id += (int32_t)part->columns.from;
    return rc;
}

static int write_message(const rank_lane *a, const step *st, uint32_t k, uint8_t *to, err *e)
{
    const plan_rank *r = a->of;
    const segment *s = &a->seg;
    const int32_t rows = rows_in(r->of, k, st);
    int rc = OK;
    for (int32_t i = 0, n; i < rows && !rc; i += n) {
        const int32_t best = results_best(r->of, k, st, i);
        n = results_alike(r->of, k, st, i);
        rc = best ? results_pick(a, k, st, i, n, (best_logit *)(void *)to, e)
                  : s->be->act_get(s->on, s, r->sends[k].t, i, n, to, e);
        to += (uint64_t)n * row_bytes(r, k, best);
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

uint64_t results_best_bytes(const plan *l)
{
    return ((uint64_t)l->max_rows[AXIS_OUT] * (uint64_t)l->n + 1) * BEST_MAX * sizeof(best_logit);
}

best_logit *results_best_of(const plan *l, const flight *f, int index)
{
    return f->best + (int64_t)index * l->max_rows[AXIS_OUT] * BEST_MAX;
}

/* The k best of a row, which begin at `at` in what each rank of the group has; ranks have ascending ids. */
static void join_row(const plan *l, const flight *f, uint32_t cross, int64_t at, int32_t k)
{
    const plan_group *g = &l->groups[l->cross[cross].from];
    best_logit all[BEST_MAX], odd = {0};
    best_list list = {all, k, 0};
    bool any = false;
    for (int r = 0; r < g->ranks && !isnan(odd.value); r++) {
        const best_logit *of = results_best_of(l, f, r) + at;
        if (!l->ranks[g->rank0 + r].sends[cross].t) continue;
        if (isnan(of->value) || (!any && k == 1)) odd = *of; /* a row of -inf has a best one too */
        for (int32_t i = 0; i < k; i++) best_list_add(&list, of[i]);
        any = true;
    }
    best_list_end(&list);
    if (isnan(odd.value) || (k == 1 && !list.n)) all[0] = odd;
    memcpy(f->best + at, all, (size_t)k * sizeof *all);
}

void results_join_best(const plan *l, flight *f)
{
    uint32_t k = 0;
    while (k < l->n_cross && l->cross[k].entry != ENTRY_HEAD) k++;
    if (k == l->n_cross) return;
    int64_t at = 0;
    for (int32_t i = 0; i < f->st->n[AXIS_OUT]; at += step_best(f->st, i++))
        if (step_best(f->st, i)) join_row(l, f, k, at, step_best(f->st, i));
}

/* Whether the k best that a rank tells are tokens of its own. */
static int check_best(const best_logit *of, int32_t k, cut_range c, int from, err *e)
{
    for (int32_t i = 0; i < k; i++) {
        const bool is_none = k > 1 && of[i].id == -1 && of[i].value == -INFINITY;
        if (!is_none && (of[i].id < c.from || of[i].id >= c.to))
            return err_set(e, ERR_FORMAT, "rank %d says that token %d is the best of its own, %lld to %lld", from,
                           of[i].id, (long long)c.from, (long long)c.to - 1);
    }
    return OK;
}

/* One message, in the order of rows. */
static int read_message(const plan *l, const flight *f, uint32_t k, int from, const uint8_t *at, err *e)
{
    const plan_rank *giver = &l->ranks[from];
    const cut_range c = giver->sends[k].columns;
    const int64_t width = tensor_count(&l->p->tensors[l->cross[k].t]);
    float *rows = f->result[l->cross[k].entry];
    best_logit *best = results_best_of(l, f, giver->index);
    int rc = OK;
    for (int32_t i = 0; i < rows_in(l, k, f->st) && !rc; i++) {
        const int32_t wanted = results_best(l, k, f->st, i);
        const uint64_t n = row_bytes(giver, k, wanted);
        if (wanted) {
            memcpy(best, at, n);
            rc = check_best(best, wanted, c, from, e);
            best += wanted;
        } else memcpy(rows + i * width + c.from, at, n);
        at += n;
    }
    return rc;
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
