/* expert_rows.h - the rows of a DISPATCH, as the kernels of expert rows read them. */
#pragma once
#include "ops/run.h"

static inline const int32_t *dispatch_at(const run *r, ref t) { return (const int32_t *)(const void *)arg_at(r, t); }

/* Rows of one expert: adjacent. Expert -1: those of experts that are not here, the last run; nobody computes them. */
typedef struct expert_run {
    int32_t expert, row0, rows;
} expert_run;

/* The run that starts at row0 of `rows` rows in all. */
static inline expert_run expert_run_at(const int32_t *table, int32_t row0, int64_t rows)
{
    expert_run u = {table[(int64_t)row0 * DISPATCH_COLS + DISPATCH_EXPERT], row0, 1};
    while (row0 + u.rows < rows && table[(int64_t)(row0 + u.rows) * DISPATCH_COLS + DISPATCH_EXPERT] == u.expert)
        u.rows++;
    return u;
}

/* The run that holds row `row`. */
static inline expert_run expert_run_of(const int32_t *table, int32_t row, int64_t rows)
{
    int32_t expert = table[(int64_t)row * DISPATCH_COLS + DISPATCH_EXPERT];
    while (row > 0 && table[(int64_t)(row - 1) * DISPATCH_COLS + DISPATCH_EXPERT] == expert) row--;
    return expert_run_at(table, row, rows);
}

/* The row where pick i of all went, a token row's after those of the one before; -1: its expert is not here. */
static inline int32_t dispatch_slot(const int32_t *table, int64_t i)
{
    const int32_t slot = table[i * DISPATCH_COLS + DISPATCH_SLOT];
    return table[(int64_t)slot * DISPATCH_COLS + DISPATCH_EXPERT] < 0 ? -1 : slot;
}
