/* draws.h - the next tokens of a step: each sequence's is drawn by one worker of a pool, several at once. What is drawn
 * depends on the sequence alone (sample/sample.h), so the number of workers changes nothing. */
#pragma once
#include "engine/batch.h"
#include "plan/drive.h"
#include "sample/sample.h"

typedef struct draws draws;

/* A row of logits as far as a step brought it: all, or the best ones, by id. */
typedef struct logit_row {
    const float *all;       /* [n_vocab]; NULL: there are only */
    const best_logit *best; /* [n_best] */
    int32_t n_best;
} logit_row;

/* Row i of the results of the step that l collected last. */
logit_row draws_row(const plan *l, const engine_info *info, const step *st, int32_t i);

/* For steps of at most `sequences`, on at most so many threads, the caller's among them. */
int draws_open(draws **out, int32_t n_vocab, const scan_ops *scan, int sequences, int threads, err *e);
void draws_close(draws *d);             /* NULL ok */
sampler *draws_sampler(const draws *d); /* working memory, for the engine thread between calls of draws_run */

/* Draws for every session of the step that l collected last whose last token has a row of logits, and of which more
 * than the best one is wanted: session.drawn (-1: of a logit that is no number) and drawn_logprob, session.top. */
void draws_run(draws *d, const engine_info *info, const batch *b, const plan *l);
/* The same of one session, whose last token has this row, by the caller. */
void draws_one(draws *d, const engine_info *info, session *s, const logit_row *row);
