/* cpu_experts.h - the rows of a DISPATCH, as the kernels of expert rows read them. */
#pragma once
#include "cpu/cpu.h"

static inline const int32_t *dispatch_at(const run *r, ref t) { return (const int32_t *)(const void *)arg_at(r, t); }

/* Rows of one expert: adjacent. */
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

/* The weight of an expert in a row of ROUTE that picked it. */
static inline float route_weight(const float *route, int64_t used, int32_t expert)
{
    int64_t k = 0;
    while (k < used - 1 && (int32_t)route[k] != expert) k++;
    return route[used + k];
}
