/* step_time.c - see step_time.h. */
#include "engine/step_time.h"

#include <math.h>

/* Weight of the step before; steps before anything is said; a term in units in which it is about one. */
static const double FORGET = 0.97, ROWS = 16, SEEN = 16384;
enum { LEARN = 4 };

static void terms_of(const step *st, double x[STEP_TIME_TERMS])
{
    double seen = 0;
    for (int32_t i = 0; i < st->n_seq; i++) {
        const double rows = st->tok.seq_row[i + 1] - st->tok.seq_row[i];
        seen += rows * (st->tok.seq_len[i] - rows / 2);
    }
    x[0] = 1;
    x[1] = st->n[AXIS_TOK] / ROWS;
    x[2] = seen / SEEN;
}

/* Solves for the terms that are in use; the others are 0. */
static void solve(step_time *t, const bool use[STEP_TIME_TERMS])
{
    double a[STEP_TIME_TERMS][STEP_TIME_TERMS + 1];
    for (int i = 0; i < STEP_TIME_TERMS; i++) {
        for (int k = 0; k < STEP_TIME_TERMS; k++) a[i][k] = use[i] && use[k] ? t->xx[i][k] : 0;
        a[i][i] = use[i] ? t->xx[i][i] * (1 + 1e-6) + 1e-9 : 1; /* terms that do not vary yet share the time */
        a[i][STEP_TIME_TERMS] = use[i] ? t->xy[i] : 0;
    }
    for (int i = 0; i < STEP_TIME_TERMS; i++)
        for (int k = 0; k < STEP_TIME_TERMS; k++) {
            const double by = k == i ? 0 : a[k][i] / a[i][i];
            for (int m = 0; m <= STEP_TIME_TERMS; m++) a[k][m] -= by * a[i][m];
        }
    for (int i = 0; i < STEP_TIME_TERMS; i++) t->cost[i] = a[i][STEP_TIME_TERMS] / a[i][i];
}

void step_time_learn(step_time *t, const step *st, double seconds)
{
    double x[STEP_TIME_TERMS];
    bool use[STEP_TIME_TERMS] = {true, true, true};
    const double expected = step_time_predict(t, st);
    if (!(seconds > 0)) return;
    if (expected > 0 && seconds > 4 * expected) seconds = 4 * expected; /* another program had the processor */
    terms_of(st, x);
    for (int i = 0; i < STEP_TIME_TERMS; i++) {
        for (int k = 0; k < STEP_TIME_TERMS; k++) t->xx[i][k] = FORGET * t->xx[i][k] + x[i] * x[k];
        t->xy[i] = FORGET * t->xy[i] + x[i] * seconds;
    }
    t->n++;
    for (bool again = true; again;) {
        again = false;
        solve(t, use);
        for (int i = 0; i < STEP_TIME_TERMS; i++)
            if (t->cost[i] < 0) use[i] = false, again = true;
    }
}

double step_time_predict(const step_time *t, const step *st)
{
    double x[STEP_TIME_TERMS], sum = 0;
    terms_of(st, x);
    for (int i = 0; i < STEP_TIME_TERMS; i++) sum += t->cost[i] * x[i];
    return t->n < LEARN ? 0 : sum;
}

double step_time_rows(const step_time *t, int64_t rows, int64_t depth)
{
    const double n = (double)rows;
    return n * (t->cost[1] / ROWS + t->cost[2] * ((double)depth + n / 2) / SEEN);
}

double step_time_of(const step_time *t, int sequences, int64_t depth)
{
    return t->n < LEARN ? 0 : t->cost[0] + sequences * step_time_rows(t, 1, depth);
}

int64_t step_time_fit(const step_time *t, double seconds, int64_t depth, int64_t most)
{
    if (step_time_rows(t, most, depth) <= seconds) return most;
    const double row = t->cost[1] / ROWS + t->cost[2] * (double)depth / SEEN, seen = t->cost[2] / (2 * SEEN);
    const double n = 2 * seconds / (row + sqrt(row * row + 4 * seen * seconds)); /* seen n^2 + row n = seconds */
    return n < (double)most ? (int64_t)n : most;
}
