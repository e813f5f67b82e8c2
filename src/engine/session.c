/* session.c - see session.h. */
#include "engine/session.h"

#include "base/mem.h"

#include <string.h>

/* A copy of an array of a query, NULL where it is empty; *ok turns false where there is no memory. */
static void *copy_list(const void *from, int32_t n, size_t each, bool *ok)
{
    void *own = n > 0 && *ok ? mem_array((size_t)n, each) : NULL;
    if (own) memcpy(own, from, (size_t)n * each);
    else if (n > 0) *ok = false;
    return own;
}

int session_new(session **out, const query *q, const program *p, int64_t ctx, err *e)
{
    *out = NULL;
    session *s = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, "a query");
    int64_t n = (int64_t)q->n_ids, room = q->pooled ? 0 : ctx - n;
    s->q = *q;
    s->room = q->max_tokens < room ? q->max_tokens : room;
    s->n_prompt = s->n_ids = n;
    s->text.shares = !q->unshared && !q->pooled && !q->types && !q->n_enc && !p->needs_whole_sequence;
    _Static_assert((int)TEXT_SALT == (int)SALT_BYTES, "texts are kept apart by the salt of a query");
    if (q->salt) memcpy(s->text.salt, q->salt, SALT_BYTES);
    s->ids = mem_array((size_t)(n + s->room), sizeof *s->ids);
    s->text.ids = s->ids;
    bool ok = text_open(&s->text, p, n + s->room, (int64_t)q->n_enc) && s->ids;
    if (ok && q->types) {
        s->types = mem_array((size_t)n, sizeof *s->types);
        ok = s->types != NULL;
        if (ok) memcpy(s->types, q->types, (size_t)n * sizeof *s->types);
    }
    s->q.types = s->types;
    s->encoded = q->n_enc == 0;
    s->q.enc_ids = s->enc_ids = q->n_enc && ok ? mem_array(q->n_enc, sizeof *s->enc_ids) : NULL;
    if (s->enc_ids) memcpy(s->enc_ids, q->enc_ids, q->n_enc * sizeof *s->enc_ids);
    else ok = ok && s->encoded;
    s->q.bias = copy_list(q->bias, q->n_bias, sizeof *q->bias, &ok);
    s->q.stop_ids = copy_list(q->stop_ids, q->n_stop_ids, sizeof *q->stop_ids, &ok);
    s->q.allowed = copy_list(q->allowed, q->n_allowed, sizeof *q->allowed, &ok);
    s->q.bad = copy_list(q->bad, q->n_bad, sizeof *q->bad, &ok);
    if (ok && (q->n_bad || q->min_tokens > 0)) {
        s->banned = mem_array(EOS_MAX + (size_t)q->n_stop_ids + (size_t)q->n_bad, sizeof *s->banned);
        ok = s->banned != NULL;
    }
    if (ok && sampler_has_state(&q->sample)) {
        s->states = mem_array((size_t)s->room + 2, sizeof *s->states);
        ok = s->states != NULL;
    }
    if (ok && q->n_logprobs > 0) {
        s->top = mem_array((size_t)q->n_logprobs * (DRAFT_MAX + 1), sizeof *s->top);
        ok = s->top != NULL;
    }
    s->q.constraint = NULL;
    if (ok && q->constraint) ok = constraint_open(&s->rule, q->constraint, NULL) == OK;
    if (!ok) {
        session_free(s);
        return err_set(e, ERR_MEMORY, "out of memory for a query of %lld tokens", (long long)n);
    }
    memcpy(s->ids, q->ids, q->n_ids * sizeof *s->ids);
    s->q.ids = s->ids;
    *out = s;
    return 0;
}

void session_free(session *s)
{
    if (!s) return;
    if (s->draft.model_session) s->draft.model_session->draft.chances = NULL; /* the session's */
    session_free(s->draft.model_session);
    mem_free(s->draft.chances);
    mem_free(s->ids);
    mem_free(s->types);
    mem_free(s->enc_ids);
    mem_free((void *)s->q.bias);
    mem_free((void *)s->q.stop_ids);
    mem_free((void *)s->q.allowed);
    mem_free((void *)s->q.bad);
    mem_free(s->banned);
    mem_free(s->top);
    constraint_close(s->rule);
    mem_free(s->states);
    text_close(&s->text);
    mem_free(s);
}

bool session_ends_with(const session *s, const engine_info *i, int32_t id)
{
    for (int k = 0; k < i->n_eos && !s->q.ignore_eos; k++)
        if (i->eos[k] == id) return true;
    for (int32_t k = 0; k < s->q.n_stop_ids; k++)
        if (s->q.stop_ids[k] == id) return true;
    return false;
}

/* Whether a sequence stands before the next id, but for its own last. */
static bool has_begun(const session *s, const int32_t *word, int32_t before)
{
    return before <= s->n_ids - s->n_prompt && !memcmp(s->ids + s->n_ids - before, word, (size_t)before * sizeof *word);
}

bool session_would_complete(const session *s, const int32_t *bad, int32_t n_bad, int32_t id)
{
    bool would = false;
    for (int32_t k = 0; k < n_bad && !would; k += bad[k] + 1)
        would = bad[k + bad[k]] == id && has_begun(s, bad + k + 1, bad[k] - 1);
    return would;
}

int32_t session_list_banned(const session *s, const engine_info *i)
{
    const int64_t made = s->n_ids - s->n_prompt;
    int32_t n = 0;
    if (made < s->q.min_tokens) {
        for (int k = 0; k < i->n_eos; k++) s->banned[n++] = i->eos[k];
        for (int32_t k = 0; k < s->q.n_stop_ids; k++) s->banned[n++] = s->q.stop_ids[k];
    }
    for (int32_t k = 0; k < s->q.n_bad; k += s->q.bad[k] + 1) {
        const int32_t *word = s->q.bad + k + 1, before = s->q.bad[k] - 1;
        if (has_begun(s, word, before)) s->banned[n++] = word[before];
    }
    return n;
}
