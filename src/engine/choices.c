/* choices.c - choices of one prompt: the first session computes it, the others wait for its last row. From this row
 * each draws its own first token; they share the full pages of the prompt and the slot, and copy the last page.
 *
 * When the first one leaves before that, the next takes its part. One for which there is no place, page or slot at
 * that moment goes on alone later, from the pages that have names. */
#include "engine/engine_state.h"

#include "base/clock.h"

#include <string.h>

static bool same_ids(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    return n_a == n_b && (!n_a || memcmp(a, b, n_a * sizeof *a) == 0);
}

/* Whether `s` can go on from the last row of a prompt that `first` computes. */
static bool can_follow(const session *s, const session *first)
{
    const query *q = &s->q, *f = &first->q;
    return !q->unshared && !q->pooled && !q->types && !q->prompt_logprobs && !s->beams && !f->prompt_logprobs &&
           !first->beams && s->best == first->best && s->room == first->room && first->text.n_done < first->n_prompt &&
           same_ids(q->ids, q->n_ids, f->ids, f->n_ids) && same_ids(q->enc_ids, q->n_enc, f->enc_ids, f->n_enc) &&
           memcmp(s->text.salt, first->text.salt, SALT_BYTES) == 0;
}

void choices_join(engine *g, session *s)
{
    session *lists[] = {g->waiting, g->running}, *first = NULL;
    s->prompt_counted = s->q.same_prompt_as != 0;
    for (int i = 0; i < 2 && s->prompt_counted && !first; i++)
        for (first = lists[i]; first && first->id != s->q.same_prompt_as;) first = first->next;
    if (first && first->prompt_owner) first = first->prompt_owner;
    if (!first || first == s || !can_follow(s, first)) return;
    s->prompt_owner = first;
    first->owns_prompt = true;
}

void choices_part(engine *g, session *s)
{
    session *next = NULL;
    if (!s->owns_prompt) return;
    for (session *w = g->waiting; w; w = w->next) {
        if (w->prompt_owner != s) continue;
        w->prompt_owner = next;
        if (next) next->owns_prompt = true;
        else next = w;
    }
    if (next) next->prompt_counted = s->prompt_counted;
    s->owns_prompt = false;
}

int choices_fork(engine *g, session *s, session **to)
{
    int n = 0;
    for (session *w = g->waiting, *next; w && s->owns_prompt; w = next) {
        next = w->next;
        if (w->prompt_owner != s) continue;
        if (n < g->info.max_batch && text_part_slot(&g->kv, &s->text) && schedule_admit_one(g, w)) {
            session_copy_text(g, w, s);
            w->cached = s->cached;
            to[n++] = w;
        }
        w->prompt_owner = NULL;
    }
    s->owns_prompt = false;
    return n;
}
