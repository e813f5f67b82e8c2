/* conv_rig.h - ops CONV of a rig. */
#pragma once
#include "rig.h"

typedef struct conv_case {
    int taps, dim;
    bool bias;
    int n_seq, rows[4], last[4];
} conv_case;

static const conv_case cases[] = {
    {.taps = 3, .dim = 64, .n_seq = 1, .rows = {1}, .last = {0}},
    {.taps = 3, .dim = 64, .bias = true, .n_seq = 1, .rows = {1}, .last = {1}},
    {.taps = 3, .dim = 100, .n_seq = 4, .rows = {1, 1, 2, 1}, .last = {5, 0, 1, 40}},
    {.taps = 4, .dim = 37, .bias = true, .n_seq = 3, .rows = {7, 1, 30}, .last = {6, 2, 70}},
    {.taps = 4, .dim = 16, .n_seq = 2, .rows = {3, 2}, .last = {2, 2}},
    {.taps = 2, .dim = 1, .bias = true, .n_seq = 2, .rows = {2, 3}, .last = {9, 2}},
    {.taps = 8, .dim = 257, .n_seq = 2, .rows = {5, 130}, .last = {9, 129}},
};

static inline op conv_op(rig *g, const conv_case *c)
{
    op o = {.kind = OP_CONV, .in = {rig_act(g, c->dim), rig_weight(g, DTYPE_F32, c->taps, c->dim, c->dim % 4)}};
    if (c->bias) o.in[2] = rig_const(g, c->dim);
    o.out = rig_act(g, c->dim);
    return o;
}
