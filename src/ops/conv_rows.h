/* conv_rows.h - the body of CONV: which columns a worker takes, and which rows taps read: those of the step, before
 * them those of the slot, zeros before position 0. A slot has the last taps - 1 rows, the oldest first, then those that
 * it keeps apart (step.slot_apart). The caller passes in how columns of one row are computed: the definition, or the
 * same on vectors.
 *
 * Another op with a slot does the same with its state: it goes on from the state by the slot_taken rows, of operands as
 * they were kept, then by the rows of the step; the state that it writes is the one before the last slot_apart of all
 * these, whose operands it keeps. The rows that were taken give no results again. */
#pragma once
#include "ops/run.h"

#include <string.h>

/* A sequence of a step. */
typedef struct conv_seq {
    const float *x;         /* [n, dim] its rows in the step */
    float *y;               /* [n, dim] */
    const float *was;       /* [past, dim] the slot that it reads; NULL: it begins */
    float *kept;            /* [past, dim] the slot that it writes */
    const float *was_apart; /* [taken, dim] rows after those of `was` */
    float *kept_apart;      /* [apart, dim] */
    int64_t n, dim, past, taken, apart;
} conv_seq;

/* From x and y of the step's row 0, which s has beside dim and past, those of a sequence, and what its slots have. */
static inline void conv_seq_at(conv_seq *s, const step *st, const slot_store *slots, int32_t seq)
{
    const int64_t row = st->tok.seq_row[seq];
    s->n = st->tok.seq_row[seq + 1] - row;
    const bool begins = st->tok.seq_len[seq] == s->n;
    s->x += row * s->dim;
    s->y += row * s->dim;
    s->was = begins ? NULL : slot_at(slots, st->slot_read[seq]);
    s->kept = slot_at(slots, st->slot_write[seq]);
    s->was_apart = begins ? NULL : slot_row(slots, st->slot_read[seq], 0, s->dim);
    s->kept_apart = slot_row(slots, st->slot_write[seq], 0, s->dim);
    s->taken = begins ? 0 : step_taken(st, seq);
    s->apart = step_apart(st, seq);
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
    if (!s->was) return NULL;
    at += s->taken;
    return at >= 0 ? s->was_apart + at * s->dim : s->was + (s->past + at) * s->dim;
}

/* Writes columns from … to - 1 of the slot. */
static inline void conv_keep(const conv_seq *s, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < s->past + s->apart; i++) {
        const float *row = conv_row(s, s->n - s->apart - s->past + i);
        float *kept = (i < s->past ? s->kept + i * s->dim : s->kept_apart + (i - s->past) * s->dim) + from;
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
        for (int64_t i = 0; i < s.n; i++) columns(&s, w, bias, i, from, to);
        conv_keep(&s, from, to);
    }
}
