/* answer.c - see answer.h. */
#include "engine/answer.h"

#include "base/clock.h"
#include "text/stop_text.h"

#include <string.h>

int answer_open(answer *a, const tokenizer *vocabulary, const answer_rules *rules, err *e)
{
    *a = (answer){.rules = rules, .vocabulary = vocabulary};
    return vocabulary ? detok_open(&a->maker, vocabulary, DETOKENIZE_SKIP_SPECIAL, e) : OK;
}

void answer_close(answer *a)
{
    detok_close(a->maker);
    buf_free(&a->text);
    token_list_free(&a->ids);
}

static int check_memory(const answer *a, err *e) { return a->text.bad ? err_memory(e, NULL) : OK; }

int answer_read(answer *a, const int32_t *ids, size_t n, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < n && a->maker && !rc; i++) rc = detok_next(a->maker, ids[i], &a->text, e);
    a->echo = a->text.n;
    return rc ? rc : check_memory(a, e);
}

int answer_show(answer *a, span prompt, err *e)
{
    a->text.n = 0;
    buf_add(&a->text, prompt.p, prompt.n);
    a->echo = a->text.n;
    return check_memory(a, e);
}

/* Special tokens give no text by themselves. */
static void add_special(answer *a, int32_t id)
{
    if (!a->rules->wants || !tokenizer_is_special(a->vocabulary, id)) return;
    const span piece = tokenizer_piece(a->vocabulary, id);
    if (piece.n && a->rules->wants(a->rules->ctx, piece)) buf_add(&a->text, piece.p, piece.n);
}

static int take_token(answer *a, int32_t id, err *e)
{
    a->last = clock_now();
    if (!a->n_tokens++) a->first = a->last;
    if (a->rules->keeps_ids && !token_list_add(&a->ids, id)) return err_memory(e, NULL);
    int rc = a->maker ? detok_next(a->maker, id, &a->text, e) : OK;
    if (!rc && a->maker) add_special(a, id);
    return rc;
}

/* Cuts the text at the first stop string. The text before `seen` has none. */
static void look_for_stop(answer *a, size_t seen)
{
    const answer_rules *r = a->rules;
    const char *text = (const char *)a->text.p;
    size_t cut;
    if (!r->n_stop || a->n_tokens < r->min_tokens) return;
    if (!stop_find(r->stop, r->n_stop, text, a->echo, seen, a->text.n, r->shows_stop, &cut)) return;
    for (int i = 0; i < r->n_stop && !a->stop_word; i++) {
        const size_t n = strlen(r->stop[i]), at = r->shows_stop ? cut - n : cut;
        if (n <= a->text.n && at <= a->text.n - n && !memcmp(text + at, r->stop[i], n)) a->stop_word = r->stop[i];
    }
    a->text.n = cut;
    a->finish = FINISH_STOP;
}

int answer_take(answer *a, const token_event *ev, err *e)
{
    const size_t seen = a->text.n + 1;
    int rc = OK;
    if (ev->index <= 0) a->cached = ev->cached_tokens;
    if (ev->token >= 0 && ev->index >= 0) rc = take_token(a, ev->token, e);
    if (!rc && ev->ends && a->rules->shows_stop && a->maker) rc = detok_next(a->maker, ev->end_token, &a->text, e);
    if (!rc && ev->finish && a->maker) rc = detok_finish(a->maker, &a->text, e);
    if (!rc) rc = check_memory(a, e);
    if (!rc && ev->finish == FINISH_ERROR) rc = err_set(e, ERR_IO, "%s", ev->error ? ev->error : "the engine failed");
    a->end_token = ev->ends;
    a->finish = rc ? FINISH_ERROR : ev->finish;
    if (!rc) look_for_stop(a, seen);
    return rc;
}

size_t answer_certain(const answer *a)
{
    const answer_rules *r = a->rules;
    if (a->finish || !r->n_stop || !a->text.n) return a->text.n;
    return stop_certain(r->stop, r->n_stop, (const char *)a->text.p, a->echo, a->text.n);
}

bool answer_would_stop(const answer *a, const int32_t *ids, int64_t n)
{
    const answer_rules *r = a->rules;
    buf text = {0};
    size_t cut;
    if (!a->vocabulary || n < r->min_tokens) return false;
    const int flags = DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUE;
    const bool made = tokenizer_decode(a->vocabulary, ids, (size_t)n, flags, &text, NULL) == OK && !text.bad;
    const bool found = made && stop_find(r->stop, r->n_stop, (const char *)text.p, 0, 0, text.n, false, &cut);
    buf_free(&text);
    return found;
}
