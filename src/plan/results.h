/* results.h - results of ranks on nodes, on their way to the process that leads: where the last group is on nodes and
 * has the head (--ends away). The leader then has one more rank, without a device, which takes them.
 *
 * A message is what one rank has of the rows of one result in one step: its columns, as floats that no codec touches,
 * or of rows of which only the best logits are wanted, the best of these columns. */
#pragma once
#include "plan/plan_state.h"

/* How many of the best logits of a row of crossing k are wanted; 0: the row. */
int32_t results_best(const plan *l, uint32_t k, const step *st, int32_t row);
/* Number of rows of crossing k, from `row` on, that are wanted alike: whole, or as many of their best. */
int32_t results_alike(const plan *l, uint32_t k, const step *st, int32_t row);
/* The best of the rank's columns of n rows that are wanted alike, with ids of the whole vocabulary: as many as are
 * wanted of each. */
int results_pick(const rank_lane *a, uint32_t k, const step *st, int32_t row, int32_t n, best_logit *out, err *e);

/* Where rank number `index` of the group with the head puts its best logits of a step: of each row of HEAD as many as
 * are wanted, one row after another. Then of all ranks, in place of those of rank 0. */
best_logit *results_best_of(const plan *l, const flight *f, int index);
uint64_t results_best_bytes(const plan *l); /* of all ranks */
void results_join_best(const plan *l, flight *f);

/* What rank `from` sends of crossing k at most. */
uint64_t result_bytes_max(const plan *l, const plan_rank *from, uint32_t k);

/* Memory for messages of the rank on this node, until they are taken. */
int results_open(const plan *l, flight *f, err *e);
uint64_t results_bytes(const plan *l); /* of it */
void results_close(const plan *l, flight *f);
/* On a node, with the turn of the device: takes what the rank has of crossing k out of it. */
void results_write(const rank_lane *a, const flight *f, uint32_t k, int *rc, err *e);
/* Sends it; after *rc is set, whatever lies there. */
void results_send(const rank_lane *a, const flight *f, uint32_t k, int *rc, err *e);
/* At the leader: waits for all results of the step on nodes, and puts them where the caller looks. */
int results_take(const rank_lane *a, const flight *f, err *e);
