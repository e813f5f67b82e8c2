/* replay.c - see replay.h. */
#include "measure/replay.h"

#include "measure/evaluate_state.h"

#include <math.h>
#include <string.h>

typedef struct replaying {
    engine *g;
    session *s;
    bool ended;
    replay *out;
} replaying;

/* Draws the token after position `pos` from its row; `last`: the text ends there. */
static void draw_again(replaying *r, int64_t pos, bool last, const float *logits)
{
    session *s = r->s;
    const int32_t given = last ? -1 : s->ids[pos + 1];
    const int64_t n_ids = s->n_ids;
    s->n_ids = pos + 1;
    draws_one(r->g->draws, &r->g->info, s, &(logit_row){.all = logits});
    s->n_ids = n_ids;
    const bool ends = s->drawn[0] == CONSTRAINT_OVER ||
                      (s->drawn[0] >= 0 && session_ends_with(s, &r->g->info, s->drawn[0]));
    if (last ? ends : s->drawn[0] == given && !ends) return;
    sampler *own = draws_sampler(r->g->draws);
    const int32_t n_vocab = r->g->info.n_vocab;
    *r->out = (replay){.at = pos + 1 - s->n_prompt, .given = given, .drawn = s->drawn[0]};
    r->out->given_logprob = given < 0 ? NAN : sampler_logprobs(own, logits, n_vocab, given, NULL, 0);
    r->out->drawn_logprob = s->drawn[0] < 0 ? NAN : sampler_logprobs(own, logits, n_vocab, s->drawn[0], NULL, 0);
}

static int take_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    replaying *r = ctx;
    (void)e;
    for (int64_t i = 0; i < n && r->out->at < 0; i++) {
        const bool last = first + i + 1 == r->s->n_ids;
        if (!last || r->ended) draw_again(r, first + i, last, rows + i * r->g->info.n_vocab);
    }
    return OK;
}

int engine_replay(engine *g, const query *q, const int32_t *ids, size_t n, bool ended, replay *out, err *e)
{
    session *s;
    *out = (replay){.at = -1};
    if ((int64_t)n > q->max_tokens)
        return err_set(e, ERR_FORMAT, "%zu tokens, more than the %lld that were asked for", n,
                       (long long)q->max_tokens);
    int rc = query_check(g, q, e);
    for (size_t i = 0; i < n && !rc; i++)
        if (ids[i] < 0 || ids[i] >= g->info.n_vocab)
            rc = err_set(e, ERR_FORMAT, "token id %d is outside the vocabulary of %d", ids[i], g->info.n_vocab);
    if (!rc) rc = session_new(&s, q, g->prog, g->info.ctx, e);
    if (rc) return rc;
    if (s->room < q->max_tokens)
        rc = err_set(e, ERR_LIMIT, "%zu tokens and room for %lld need a context of %lld, this one holds %d (--ctx)",
                     q->n_ids, (long long)q->max_tokens, (long long)q->n_ids + q->max_tokens, g->info.ctx);
    if (!rc) {
        if (n) memcpy(s->ids + s->n_prompt, ids, n * sizeof *ids); /* of none there is no list */
        s->n_ids += (int64_t)n;
        rc = engine_eval_session(g, s, s->n_prompt - 1, take_rows, &(replaying){g, s, ended, out}, e);
    }
    session_free(s);
    return rc;
}
