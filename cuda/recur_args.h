/* recur_args.h - the parameters of the kernels of recur.cuh. Kernels and host include it. */
#pragma once
#include "ops/recur_rows.h"

/* RECUR: a column of a lane. s has the operands of row 0. Columns by themselves have decays for each row of a state of
 * so many at most. */
enum { RECUR_COLUMNS = 32, RECUR_ALONE_ROWS = 16 };
typedef struct recur_args {
    recur_seq s;
    const step *st;
    slot_store slots;
} recur_args;
