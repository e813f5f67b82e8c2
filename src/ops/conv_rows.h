/* conv_rows.h - the body of CONV: which columns a worker takes, and which rows taps read: those of the step, before
 * them those of the slot, zeros before position 0. A slot has the last taps - 1 rows, the oldest first, then those that
 * it keeps apart (slot_seq.h). The caller passes in how columns of one row are computed: the definition, or the
 * same on vectors. */
#pragma once
#include "ops/slot_seq.h"

#include <string.h>

/* A sequence of a step. */
typedef struct conv_seq {
    const float *x; /* [n, dim] its rows in the step */
    float *y;       /* [n, dim] */
    slot_seq slot;  /* states [past, dim], rows of dim floats apart */
    int64_t dim, past;
} conv_seq;

/* From x and y of the step's row 0, which s has beside dim and past, those of a sequence, and what its slots have. */
static inline void conv_seq_at(conv_seq *s, const step *st, const slot_store *slots, int32_t seq)
{
    s->slot = slot_seq_of(st, slots, seq, s->dim);
    s->x += s->slot.row * s->dim;
    s->y += s->slot.row * s->dim;
}

static inline conv_seq conv_seq_of(const run *r, const op *o, int32_t seq)
{
    conv_seq s = {.x = arg_at(r, o->in[0]),
                  .y = arg_at(r, o->out),
                  .dim = arg_dim(r, o->out),
                  .past = arg_info(r, o->in[1])->dim[0] - 1};
    conv_seq_at(&s, r->st, &r->slots[o->state], seq);
    return s;
}

/* Row `at` of the sequence, -taken - past … n - 1; NULL: zeros. */
static inline const float *conv_row(const conv_seq *s, int64_t at)
{
    if (at >= 0) return s->x + at * s->dim;
    if (!s->slot.was) return NULL;
    at += s->slot.taken;
    return at >= 0 ? s->slot.was_apart + at * s->dim : s->slot.was + (s->past + at) * s->dim;
}

/* Writes columns from … to - 1 of the slot. */
static inline void conv_keep(const conv_seq *s, int64_t from, int64_t to)
{
    const slot_seq *to_slot = &s->slot;
    for (int64_t i = 0; i < s->past + to_slot->apart; i++) {
        const float *row = conv_row(s, s->slot.n - to_slot->apart - s->past + i);
        float *kept = (i < s->past ? to_slot->kept + i * s->dim : to_slot->kept_apart + (i - s->past) * s->dim) + from;
        if (row) memcpy(kept, row + from, (size_t)(to - from) * sizeof *kept);
        else memset(kept, 0, (size_t)(to - from) * sizeof *kept);
    }
}

/* Computes columns from … to - 1 of row i; bias NULL: none. */
typedef void conv_columns(const conv_seq *s, const held_weight *w, const float *bias, int64_t i, int64_t from,
                          int64_t to);

__attribute__((always_inline)) static inline void conv_rows(const run *r, const op *o, int worker, int workers,
                                                            conv_columns *columns)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *bias = arg_at(r, o->in[2]);
    int64_t from, to;
    run_share(arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int32_t k = 0; k < r->st->n_seq; k++) {
        const conv_seq s = conv_seq_of(r, o, k);
        for (int64_t i = 0; i < s.slot.n; i++) columns(&s, w, bias, i, from, to);
        conv_keep(&s, from, to);
    }
}
