/* transcript_rig.h - what an engine gives for the text of a model of tests/vectors, as bytes: rows, and the tokens,
 * vectors and scores of queries at once. */
#pragma once
#include "vector_rig.h"

enum { QUERIES_MAX = 5 };

typedef struct transcript {
    buf of[1 + QUERIES_MAX]; /* rows; queries */
    int ended;
    bool has_experts; /* the model */
    bool numbers;     /* its queries give vectors or scores, not tokens */
} transcript;

/* ctx of on_token. */
typedef struct reader {
    transcript *t;
    buf *to;
    int32_t width, n_score; /* of vectors; of scores */
} reader;

static inline void add(buf *b, const void *bytes, size_t n)
{
    if (n) assert_true(buf_add(b, bytes, n));
}

/* What on_token does besides adding the token. */
static inline bool add_vectors(const reader *r, const token_event *ev)
{
    if (ev->pooled) add(r->to, ev->pooled, (size_t)r->width * sizeof *ev->pooled);
    if (ev->scores) add(r->to, ev->scores, (size_t)r->n_score * sizeof *ev->scores);
    if (ev->finish == FINISH_ERROR) fail_msg("a query ended with: %s", ev->error);
    r->t->ended += ev->finish != FINISH_NONE;
    return true;
}

/* q [n] with all but the text, n at most QUERIES_MAX. */
static inline void run_queries(engine *g, const inputs *x, query *q, int n, transcript *t)
{
    static const size_t length[QUERIES_MAX] = {20, 1, 33, 5, 11};
    const engine_info *i = engine_describe(g);
    reader r[QUERIES_MAX];
    err e = {0};
    for (int k = 0; k < n; k++) {
        r[k] = (reader){t, &t->of[1 + k], i->n_pooled, i->n_score};
        q[k].ids = x->ids;
        q[k].types = i->n_type ? x->types : NULL;
        q[k].n_ids = length[k];
        q[k].enc_ids = x->enc;
        q[k].n_enc = x->n_enc / (size_t)(k + 1);
        q[k].ignore_eos = true;
        q[k].ctx = &r[k];
        assert_ok(engine_add_query(g, &q[k], NULL, &e), &e);
    }
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(t->ended, n);
}

static inline void transcript_free(transcript *t)
{
    for (int i = 0; i <= QUERIES_MAX; i++) buf_free(&t->of[i]);
}
