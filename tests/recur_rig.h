/* recur_rig.h - ops RECUR of a rig: the recurrences of published models in small, and odd shapes. */
#pragma once
#include "rig.h"

#include "ops/recur_rows.h"

typedef struct recur_case {
    const char *what;
    int rows, heads, width, key_heads; /* of the state; value heads and their width */
    int step, rate;                    /* numbers a head: 0 (steps of 1), 1 or rows; 1 or rows */
    int strength;                      /* RECUR_* */
    bool delta, tiled;
    int head0;
    int n_seq, seq_rows[4], last[4];
} recur_case;

#define SEQS .n_seq = 3, .seq_rows = {7, 1, 30}, .last = {6, 2, 70}
#define TEXT .n_seq = 1, .seq_rows = {1}, .last = {40}
static const recur_case cases[] = {
    {"gated delta", 128, 4, 128, 2, 1, 1, RECUR_OWN, true, SEQS},
    {"gated delta, one row", 128, 4, 128, 2, 1, 1, RECUR_OWN, true, TEXT},
    {"gated delta, tiled", 16, 6, 32, 2, 1, 1, RECUR_OWN, true, .tiled = true, SEQS},
    {"gated delta, tiled, later heads", 16, 3, 32, 2, 1, 1, RECUR_OWN, true, .tiled = true, .head0 = 3, SEQS},
    {"gated delta, odd widths", 11, 6, 13, 3, 1, 1, RECUR_OWN, true, SEQS},
    {"gated delta, one column", 5, 3, 1, 3, 1, 1, RECUR_OWN, true, SEQS},
    {"gated delta, 80 columns", 24, 2, 80, 1, 1, 1, RECUR_OWN, true, SEQS},
    {"KDA", 32, 3, 48, 3, 32, 1, RECUR_OWN, true, SEQS},
    {"KDA, odd widths", 9, 2, 20, 2, 9, 1, RECUR_OWN, true, SEQS},
    {"lightning", 64, 3, 64, 3, 0, 1, RECUR_ONE, false, SEQS},
    {"lightning, odd widths", 10, 2, 7, 2, 0, 1, RECUR_ONE, false, TEXT},
    {"Mamba 2", 128, 8, 64, 1, 1, 1, RECUR_STEP, false, SEQS},
    {"Mamba 2, groups", 16, 8, 16, 4, 1, 1, RECUR_STEP, false, SEQS},
    {"Mamba 1", 16, 100, 1, 1, 1, 16, RECUR_STEP, false, SEQS},
    {"Mamba 1, one row", 7, 33, 1, 1, 1, 7, RECUR_STEP, false, TEXT},
    {"one row", 1, 2, 16, 1, 1, 1, RECUR_OWN, false, SEQS},
};

static inline int of_head(const recur_case *c) { return c->step + (c->strength == RECUR_OWN); }

static inline int64_t floats_of(const recur_case *c) { return (int64_t)c->rows * c->heads * c->width; }

static inline op recur_op(rig *g, const recur_case *c)
{
    op o = {.kind = OP_RECUR,
            .in = {rig_act(g, (int64_t)c->heads * c->width), rig_act(g, (int64_t)2 * c->rows * c->key_heads)},
            .u.recur = {.heads = c->heads,
                        .key_heads = c->key_heads,
                        .tiled = c->tiled,
                        .head0 = c->head0,
                        .delta = c->delta,
                        .strength = c->strength}};
    if (of_head(c)) o.in[2] = rig_act(g, (int64_t)c->heads * of_head(c));
    o.in[3] = rig_const(g, (int64_t)c->heads * c->rate);
    /* the step and the strength above zero, the rate below */
    for (int64_t i = 0; o.in[2] && i < (int64_t)g->st.n[AXIS_TOK] * c->heads * of_head(c); i++)
        rig_at(g, o.in[2])[i] = 0.05f + 0.3f * fabsf(rig_at(g, o.in[2])[i]);
    for (int64_t i = 0; i < (int64_t)c->heads * c->rate; i++)
        ((float *)g->t[o.in[3]].data)[i] = -0.1f - fabsf(g->t[o.in[3]].data[i]);
    for (int64_t i = 0; i < (int64_t)g->st.n[AXIS_TOK] * 2 * c->rows * c->key_heads; i++)
        rig_at(g, o.in[1])[i] /= sqrtf((float)c->rows);
    o.out = rig_act(g, (int64_t)c->heads * c->width);
    return o;
}

/* Of a row that a slot keeps apart: values, keys, steps. */
static inline int64_t row_floats(const recur_case *c)
{
    return (int64_t)c->heads * c->width + 2 * c->rows * c->key_heads + c->heads * of_head(c);
}
