/* remote.h - a plan whose ranks lie in several processes, as src/net sees it: what ranks send each other, and what the
 * process that leads is told. */
#pragma once
#include "plan/plan.h"

/* Lanes, of which each has channels and ends of its own; channels of a lane between any two ranks, and the largest
 * message, either way, on one; 0: they never use it. */
int plan_lanes(const plan *l);
int plan_channels(const plan *l);
uint64_t plan_channel_bytes(const plan *l, int a, int b, int channel);
/* A rank in another process has finished a step, for which it has computed `busy` seconds; `why` has a code: it
 * failed there. False: that step is not under way. Each rank tells it once a step. From any thread. */
bool plan_remote_done(plan *l, int rank, uint64_t number, double busy, const err *why);
/* Before that: a row of sequence k is at fault there. False: that step is not under way, or has no such sequence. */
bool plan_remote_fault(plan *l, int rank, uint64_t number, int32_t k, const row_fault *x);
/* How far the ranks here are, for who wonders whether they stand still. `work` moves while they compute, by the time of
 * the processor that their threads use; `alive` while they can run; waits: the rank for whose rows one of them waits,
 * -1: none does. From any thread. */
typedef struct plan_progress {
    uint64_t work, alive;
    int waits;
} plan_progress;
plan_progress plan_progress_now(const plan *l);
/* The way to one is lost: all steps from now on fail with this. From any thread. */
void plan_remote_lost(plan *l, const err *why);
