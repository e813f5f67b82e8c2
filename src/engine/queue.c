/* queue.c - the engine as other threads see it: adds, cancels and pauses queries, waits, counts. */
#include "engine/beam.h"
#include "engine/decoder_prompt.h"
#include "engine/engine_state.h"

#include "base/cond.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int query_check_encoder(const engine *g, const query *q, err *e)
{
    int32_t vocab = g->info.n_enc_vocab;
    if (!vocab && q->n_enc) return err_set(e, ERR_USAGE, "this model has no encoder: it takes one text");
    if (vocab && !q->n_enc) return err_set(e, ERR_USAGE, "the encoder input is empty: at least one token is needed");
    if ((int64_t)q->n_enc > g->info.ctx)
        return err_set(e, ERR_LIMIT, "the encoder input has %zu tokens, the context holds %d", q->n_enc, g->info.ctx);
    for (size_t i = 0; i < q->n_enc; i++)
        if (q->enc_ids[i] < 0 || q->enc_ids[i] >= vocab)
            return err_set(e, ERR_USAGE, "token id %d is outside the encoder's vocabulary of %d", q->enc_ids[i], vocab);
    return 0;
}

/* All beams run at once: there must be places and pages for them. */
static int check_beams(const engine *g, const query *q, err *e)
{
    const program *p = g->prog;
    int64_t most = g->info.max_batch < BEAMS_MAX ? g->info.max_batch : BEAMS_MAX;
    int64_t room = g->info.ctx - (int64_t)q->n_ids,
            length = (int64_t)q->n_ids + (q->max_tokens < room ? q->max_tokens : room);
    for (uint32_t i = 0; i < p->n_group; i++) {
        int64_t each = pages_needed(length, p->group_window[i], g->chunk * g->steps.in_flight); /* session_admit */
        if (p->group_axis[i] == AXIS_TOK && each && g->kv.pages[i].total / each < most)
            most = g->kv.pages[i].total / each;
    }
    if (g->kv.slots.total && g->kv.slots.total / 2 < most) most = g->kv.slots.total / 2;
    if (q->beams > most)
        return err_set(e, ERR_USAGE, "%d beams: at most %" PRId64 " of %" PRId64 " tokens run at once", q->beams, most,
                       length);
    if (q->n_logprobs >= 0 || q->prompt_logprobs || q->n_bias || q->n_allowed || q->n_bad || q->constraint ||
        !isfinite(q->length_penalty))
        return err_set(e, ERR_USAGE, "beam search gives no log-probabilities of tokens and takes no bias or mask");
    if (q->n_best < 0 || q->n_best > q->beams)
        return err_set(e, ERR_USAGE, "%d texts of %d beams", q->n_best, q->beams);
    return 0;
}

/* Lists of ids: each is in the vocabulary, `bad` holds whole sequences. */
static int check_lists(const engine *g, const query *q, err *e)
{
    const int32_t n_vocab = g->info.n_vocab;
    if (q->n_stop_ids < 0 || q->n_bad < 0 || (q->n_allowed && q->n_allowed != (n_vocab + 63) / 64))
        return err_set(e, ERR_USAGE, "lists of ids of a query have the wrong length");
    for (int32_t i = 0; i < q->n_stop_ids; i++)
        if (q->stop_ids[i] < 0 || q->stop_ids[i] >= n_vocab)
            return err_set(e, ERR_USAGE, "stop token id %d is outside the vocabulary of %d", q->stop_ids[i], n_vocab);
    for (int32_t i = 0, left; i < q->n_bad; i += q->bad[i] + 1) {
        left = q->n_bad - i - 1;
        if (q->bad[i] < 1 || q->bad[i] > left) return err_set(e, ERR_USAGE, "a bad sequence of %d ids", q->bad[i]);
    }
    return OK;
}

int query_check(const engine *g, const query *q, err *e)
{
    int64_t n = (int64_t)q->n_ids, ctx = g->info.ctx;
    int rc = query_check_encoder(g, q, e);
    if (rc) return rc;
    if (n < 1) return err_set(e, ERR_USAGE, "the prompt is empty: at least one token is needed");
    if (n > ctx || (n == ctx && q->max_tokens > 0 && !q->pooled))
        return err_set(e, ERR_LIMIT, "the prompt has %" PRId64 " tokens, the context holds %" PRId64 "%s", n, ctx,
                       n == ctx ? ", which leaves no room to generate" : "");
    for (size_t i = 0; i < q->n_ids; i++)
        if (q->ids[i] < 0 || q->ids[i] >= g->info.n_vocab)
            return err_set(e, ERR_USAGE, "token id %d is outside the vocabulary of %d", q->ids[i], g->info.n_vocab);
    if (q->pooled && !g->info.n_pooled && !g->info.n_score)
        return err_set(e, ERR_USAGE,
                       "this model gives no embeddings (--pooling mean or last makes some of its states)");
    if (!q->pooled && !g->info.generates)
        return err_set(e, ERR_USAGE, "this model does not generate text: it gives embeddings, scores or labels");
    for (size_t i = 0; q->types && i < q->n_ids; i++)
        if (q->types[i] < 0 || (g->info.n_type && q->types[i] >= g->info.n_type))
            return err_set(e, ERR_USAGE, "token type %d, the model has %d", q->types[i], g->info.n_type);
    for (int32_t i = 0; i < q->n_bias; i++)
        if (q->bias[i].id < 0 || q->bias[i].id >= g->info.n_vocab)
            return err_set(e, ERR_USAGE, "bias for token id %d, which is outside the vocabulary of %d", q->bias[i].id,
                           g->info.n_vocab);
    if ((rc = check_lists(g, q, e)) || (q->beams > 1 && (rc = check_beams(g, q, e)))) return rc;
    if (q->max_tokens < 0 || q->n_bias < 0 || q->n_logprobs < -1 || q->n_logprobs > g->info.n_vocab)
        return err_set(e, ERR_USAGE, "max_tokens, bias or logprobs of a query out of range");
    return 0;
}

/* The model's own bad sequences behind those of the query; *memory: to be freed once they were copied. */
static int add_bans(const engine *g, query *q, int32_t **memory, err *e)
{
    const int32_t n = q->n_bad, more = g->options.n_bans;
    if (!more) return OK;
    *memory = n <= INT32_MAX - more ? mem_array((size_t)n + (size_t)more, sizeof **memory) : NULL;
    if (!*memory) return err_memory(e, "a query");
    if (n) memcpy(*memory, q->bad, (size_t)n * sizeof **memory);
    memcpy(*memory + n, g->options.bans, (size_t)more * sizeof **memory);
    q->bad = *memory;
    q->n_bad = n + more;
    return OK;
}

/* A text that an encoder-decoder scores is read by both parts. `shifted`: to be freed once the ids were copied. */
static int read_twice(const engine *g, query *q, token_list *shifted, err *e)
{
    if (!q->pooled || !g->info.n_enc_vocab || q->n_enc) return OK;
    int rc = engine_shifted_ids(g, q->ids, q->n_ids, true, shifted, e);
    q->enc_ids = q->ids;
    q->n_enc = q->n_ids;
    q->ids = shifted->id;
    q->n_ids = shifted->n;
    q->types = NULL;
    return rc;
}

int engine_add_query(engine *g, const query *q, uint64_t *id, err *e)
{
    session *s;
    int32_t *bad = NULL;
    token_list shifted = {0};
    query own = *q;
    int rc = read_twice(g, &own, &shifted, e);
    if (!rc) rc = query_check(g, &own, e);
    if (!rc && !q->pooled && q->beams < 2) rc = add_bans(g, &own, &bad, e);
    if (!rc) rc = session_new(&s, &own, g->prog, g->info.ctx, e);
    mem_free(bad);
    token_list_free(&shifted);
    if (rc) return rc;
    if (q->beams < 2 && !q->n_bias && !q->n_allowed && !own.n_bad && !q->constraint && q->n_logprobs < 0 &&
        q->min_tokens < 1)
        s->best = sampler_reads(&q->sample, g->info.n_vocab);
    if (q->beams > 1) rc = beam_new(s, q, g, e);
    s->draft.rule = g->guesses.rule;
    const draft *d = &g->guesses;
    if (!rc && d->kind && d->kind->add) rc = d->kind->add(d->self, s, q->constraint, e);
    pthread_mutex_lock(&g->lock);
    const int64_t most = g->options.max_queue ? g->options.max_queue : QUEUE_MAX;
    if (!rc && g->harm.active) rc = err_copy(e, &g->harm.why);
    if (!rc && g->stats.running + g->n_queued >= g->info.max_batch + most) /* those that find a place do not wait */
        rc = err_set(e, ERR_BUSY, "%" PRId64 " queries are waiting already", most);
    if (rc) {
        pthread_mutex_unlock(&g->lock);
        beam_free(s->beams);
        session_free(s);
        return rc;
    }
    s->id = ++g->last_id;
    s->added = clock_now();
    s->seen = (engine_slot){.id = s->id, .prompt_tokens = s->n_prompt, .priority = q->priority};
    s->next = g->inbox;
    g->inbox = s;
    s->all_next = g->all;
    g->all = s;
    g->n_queued++;
    if (id) *id = s->id; /* before the engine thread can see the session */
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return 0;
}

/* Under the lock. */
static session *find_session(engine *g, uint64_t id)
{
    session *s = g->all;
    while (s && s->id != id) s = s->all_next;
    return s;
}

void engine_cancel(engine *g, uint64_t id)
{
    pthread_mutex_lock(&g->lock);
    session *s = find_session(g, id);
    if (s) s->cancelled = true;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void engine_pause(engine *g, uint64_t id, bool hold)
{
    pthread_mutex_lock(&g->lock);
    session *s = find_session(g, id);
    if (s) s->paused = hold;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* Under the lock: some session could take part in a step, or has to be ended. */
static bool has_work(const engine *g)
{
    for (const session *s = g->all; s; s = s->all_next)
        if (s->cancelled || !s->paused) return true;
    return false;
}

bool queue_has_work(engine *g)
{
    pthread_mutex_lock(&g->lock);
    bool work = has_work(g);
    pthread_mutex_unlock(&g->lock);
    return work;
}

void engine_wait(engine *g, int milliseconds)
{
    const double until = milliseconds < 0 ? INFINITY : clock_now() + milliseconds * 1e-3;
    bool in_time = true;
    pthread_mutex_lock(&g->lock);
    while (!g->woken && !has_work(g) && !g->stats.away && in_time) in_time = cond_wait(&g->changed, &g->lock, until);
    g->woken = false;
    pthread_mutex_unlock(&g->lock);
}

void engine_wake(engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->woken = true;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void engine_get_stats(engine *g, engine_stats *out)
{
    pthread_mutex_lock(&g->lock);
    *out = g->stats;
    out->waiting = g->n_queued;
    out->late = g->late_at > 0 && clock_now() > g->late_at;
    pthread_mutex_unlock(&g->lock);
}
