/* draws.h - the next tokens of a step: each sequence's is drawn by one worker of a pool, several at once. What is drawn
 * depends on the sequence alone (sample/sample.h), so the number of workers changes nothing. */
#pragma once
#include "engine/batch.h"
#include "sample/sample.h"

typedef struct draws draws;

/* For steps of at most `sequences`, on at most so many threads, the caller's among them. */
int draws_open(draws **out, int32_t n_vocab, const scan_ops *scan, int sequences, int threads, err *e);
void draws_close(draws *d);             /* NULL ok */
sampler *draws_sampler(const draws *d); /* working memory, for the engine thread between calls of draws_run */

/* Draws for every session of a step whose last token has a row of logits [n_vocab] among `logits`, and is not greedy:
 * session.drawn and drawn_logprob, session.top. */
void draws_run(draws *d, const engine_info *info, const batch *b, const float *logits);
/* The same of one session, whose last token has this row, by the caller. */
void draws_one(draws *d, const engine_info *info, session *s, const float *logits);
