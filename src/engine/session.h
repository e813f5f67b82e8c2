/* session.h - one query inside the engine: its tokens, how many of them are in the cache, its pages.
 *
 * There is no "prefill" and no "decode": a session has n_ids tokens, n_sent of them in the KV cache or on the way
 * there, and wants the rest evaluated. One token left is a decode row, many are a prompt or a sequence that lost its
 * pages. Everything a session needs is allocated when the query is added, by the thread that adds it. */
#pragma once
#include "cache/cache_text.h"
#include "engine/constraint.h"
#include "engine/draft_state.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct session session;
typedef struct beam_group beam_group; /* beam.h */
/* What it has in the cache, its draft tokens, its grammar and its beams are structs; of single values there are many
 * because a step asks each session for its query, its progress, its place and its readers. */
struct session {
    session *next;     /* in the list it is in (inbox, waiting, running, leaving) */
    session *all_next; /* every live session, under the engine's lock */
    uint64_t id;
    bool cancelled, paused; /* written by any thread, under the engine's lock */
    engine_slot seen;       /* as of step `seen_at`, under the engine's lock: slots.c */
    uint64_t seen_at;
    double added, waited; /* clock_now of engine_add_query; seconds from there to the first step, 0 = not yet */
    double begun;         /* clock_now when it had its first token; 0: it has none, or beams */

    query q;                        /* ids, enc_ids and bias point to copies */
    int32_t *ids, *types, *enc_ids; /* types: NULL: all 0 */
    beam_group *beams;              /* of a query with several beams, in all their sessions; else NULL */
    bool borrows;                   /* its encoder pages are another session's */
    bool encoded;                   /* a step with the encoder's rows was sent */
    int64_t n_prompt, n_ids, room;  /* room: tokens that may be generated in all */
    cache_text text;                /* what it has in the cache, and how far it is computed */
    int in_flight;                  /* steps under way with rows of it */
    int losses;       /* of nodes, with a step of it under way, since it has made a token; of the first of beams */
    uint64_t lost_in; /* the last of these, as engine.losses counts them */
    int32_t *banned;  /* memory for session_list_banned */
    int32_t best;     /* the next token is drawn among so many of the best logits, 1: it is the best; 0: of all */
    bool gone;        /* it has ended, and waits for its steps */
    int64_t scored;   /* prompt positions whose log-probability was delivered */
    bool want_all;    /* evaluation: rows want_from … want_to - 1 are wanted */
    int64_t want_from, want_to;
    top_logprob *top;
    sample_state *states; /* [room + 2] before each generated token, guesses too; NULL: its samplers have none */
    constraint *rule;     /* of a query with a grammar; else NULL */
    /* What the step that is being delivered has drawn: the next token and, while guesses hold, those after. Their
     * log-probabilities, where the query wants them; the n_logprobs of `top` at n_logprobs * i go with drawn[i]. */
    int32_t drawn[DRAFT_MAX + 1];
    float drawn_logprob[DRAFT_MAX + 1];
    draft_state draft;

    int64_t cached; /* of the prompt, positions that were found in the cache */

    bool placed;           /* it runs: it, or the first of its beams, is in the engine's list */
    bool yields;           /* its place was taken: when its steps are done it gives its cache up */
    uint64_t filled;       /* the last step that was filled with rows of it, or of its beams */
    session *prompt_owner; /* computes the prompt for it; NULL: nobody does */
    bool owns_prompt;      /* it does so for others */
    bool prompt_counted;   /* as another's */
    bool admitted;         /* holds slots, rope variants and encoder pages */
};

/* A session for a query whose ids were checked; q->max_tokens is cut to the room that the context leaves. */
int session_new(session **out, const query *q, const program *p, int64_t ctx, err *e);
/* Whether it goes before another: by priority, then by age. */
static inline bool session_is_before(const session *s, const session *other)
{
    return s->q.priority != other->q.priority ? s->q.priority < other->q.priority : s->id < other->id;
}
/* Whether the token ends its text. */
bool session_ends_with(const session *s, const engine_info *i, int32_t id);
/* Fills s->banned with the ids that must not come next: ends before min_tokens, the last of a bad sequence. */
int32_t session_list_banned(const session *s, const engine_info *i);
/* Whether the id would complete one of these sequences (query.bad). */
bool session_would_complete(const session *s, const int32_t *bad, int32_t n_bad, int32_t id);
void session_free(session *s); /* NULL ok; pages and variants were given back, the beams freed */
