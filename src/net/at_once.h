/* at_once.h - the same call for several others at the same time: what waits for one of them need not wait for all. */
#pragma once
#include "base/err.h"

/* Calls fn(ctx, i) for 0 … n - 1, each on a thread of its own but the last; returns when all have ended, with the error
 * of the first that failed. Where no thread can be had the call is made here. */
int at_once(int n, int (*fn)(void *ctx, int i, err *e), void *ctx, err *e);
