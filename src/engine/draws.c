/* draws.c - see draws.h. */
#include "engine/draws.h"

#include "base/mem.h"
#include "core/logit_check.h"
#include "base/pool.h"

#include <math.h>
#include <stdatomic.h>

enum { DRAW_WORKERS_MAX = 16 }; /* each has working memory of the size of a few rows of logits */

typedef struct draw_task {
    session *s;
    logit_row row;
} draw_task;

struct draws {
    pool *team;
    int workers;
    sampler *own[DRAW_WORKERS_MAX];
    draw_task *task; /* [sequences] */
    int n_task;
    atomic_int next; /* task that no worker has taken */
    const engine_info *info;
};

int draws_open(draws **out, int32_t n_vocab, const scan_ops *scan, int sequences, int threads, err *e)
{
    draws *d = *out = mem_zero(1, sizeof *d);
    if (!d || !(d->task = mem_array((size_t)sequences, sizeof *d->task))) return err_memory(e, "drawing tokens");
    d->workers = threads < sequences ? threads : sequences;
    if (d->workers > DRAW_WORKERS_MAX) d->workers = DRAW_WORKERS_MAX;
    int rc = OK;
    for (int i = 0; i < d->workers && !rc; i++) rc = sampler_open(&d->own[i], n_vocab, scan, e);
    return rc ? rc : pool_open(&d->team, d->workers, e);
}

void draws_close(draws *d)
{
    if (!d) return;
    pool_close(d->team);
    for (int i = 0; i < d->workers; i++) sampler_close(d->own[i]);
    mem_free(d->task);
    mem_free(d);
}

sampler *draws_sampler(const draws *d) { return d->own[0]; }

static int32_t draw_by_rule(sampler *own, const session *s, int k, const sample_input *in)
{
    const sample_params *p = &s->q.sample;
    if (s->draft.agreed && s->draft.chances)
        return sampler_guess(own, p, in, &s->draft.chances[s->n_ids - s->draft.agreed]);
    if (s->draft.rule == GUESS_SAME || k == s->draft.n) return sampler_pick(own, p, in);
    return sampler_judge(own, p, in, s->draft.rule, s->ids[s->n_ids], s->draft.chances ? &s->draft.chances[k] : NULL);
}

/* The token after the session's own and its first `k` guesses, from the row of the last of these. */
static int32_t draw(sampler *own, const engine_info *info, session *s, int k, const logit_row *row)
{
    const int64_t made = s->n_ids - s->n_prompt;
    const uint64_t *allowed = s->q.allowed;
    top_logprob *top = s->top ? s->top + (int64_t)k * s->q.n_logprobs : NULL;
    int32_t id;
    if (s->rule && !(allowed = constraint_allowed(s->rule, s, &id))) return id;
    const sample_input in = {.logits = row->all,
                             .best = row->best,
                             .n_best = row->n_best,
                             .n_vocab = info->n_vocab,
                             .prompt = s->ids,
                             .n_prompt = s->n_prompt,
                             .generated = s->ids + s->n_prompt,
                             .n_generated = made,
                             .bias = s->q.bias,
                             .n_bias = s->q.n_bias,
                             .banned = s->banned,
                             .n_banned = session_list_banned(s, info),
                             .allowed = allowed,
                             .state = s->states && made ? s->states + made : NULL,
                             .next = s->states ? s->states + made + 1 : NULL};
    id = draw_by_rule(own, s, k, &in);
    if (s->rule && id >= 0 && !constraint_allows(s->rule, id)) id = -1; /* none has a finite logit */
    if (s->q.n_logprobs >= 0)
        s->drawn_logprob[k] = sampler_logprobs(own, row->all, info->n_vocab, id, top, s->q.n_logprobs);
    return id;
}

/* Whether a row has a NaN. */
static bool is_odd(const logit_row *row, int32_t n_vocab)
{
    return row->n_best ? isnan(row->best->value) : logits_have_nan(row->all, n_vocab);
}

static float logit_of(const logit_row *row, int32_t id)
{
    if (!row->n_best) return row->all[id];
    int32_t i = 0;
    while (row->best[i].id != id) i++;
    return row->best[i].value;
}

/* Draws as long as guesses hold; row: of the last token, before those of the guesses. */
static void draw_rows(sampler *own, const engine_info *info, session *s, logit_row row)
{
    const int64_t n_ids = s->n_ids;
    bool holds = true;
    for (int k = 0; k <= s->draft.n && holds; k++) {
        s->n_ids = n_ids + k; /* the draw sees the guesses before it as tokens */
        int32_t *id = &s->drawn[k];
        *id = is_odd(&row, info->n_vocab) ? -1 : draw(own, info, s, k, &row);
        if (*id >= 0 && !isfinite(logit_of(&row, *id))) *id = -1;
        holds = k < s->draft.n && *id == s->ids[n_ids + k];
        if (row.n_best) row.best += row.n_best;
        else row.all += info->n_vocab;
    }
    s->n_ids = n_ids;
}

static void draw_share(void *arg, int worker, int workers)
{
    draws *d = arg;
    (void)workers;
    for (int i; (i = atomic_fetch_add(&d->next, 1)) < d->n_task;)
        draw_rows(d->own[worker], d->info, d->task[i].s, d->task[i].row);
}

logit_row draws_row(const plan *l, const engine_info *info, const step *st, int32_t i)
{
    const int32_t n = step_best(st, i);
    if (n) return (logit_row){.best = plan_best(l, i), .n_best = n};
    return (logit_row){.all = plan_result(l, ENTRY_HEAD) + (int64_t)i * info->n_vocab};
}

void draws_run(draws *d, const engine_info *info, const batch *b, const plan *l)
{
    const step *st = &b->st;
    d->n_task = 0;
    d->info = info;
    for (int32_t k = 0, i = 0; k < st->n_seq; k++)
        for (; i < st->n[AXIS_OUT] && st->out[i] < st->tok.seq_row[k + 1]; i++) {
            session *s = b->who[k];
            const int64_t pos = s->text.n_past + st->out[i] - st->tok.seq_row[k];
            if (pos + 1 != s->n_ids || s->beams || s->gone || s->best == 1 || s->room == 0) continue;
            d->task[d->n_task++] = (draw_task){s, draws_row(l, info, st, i)};
        }
    atomic_store(&d->next, 0);
    if (d->n_task > 1) pool_run(d->team, draw_share, d);
    else draw_share(d, 0, 1);
}

void draws_one(draws *d, const engine_info *info, session *s, const logit_row *row)
{
    s->draft.n = 0;
    draw_rows(d->own[0], info, s, *row);
}
