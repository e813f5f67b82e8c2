/* conv_rows.h - the body of CONV: which columns a worker takes, and which rows taps read: those of the step, before
 * them those of the slot, zeros before position 0. A slot has the last taps - 1 rows, the oldest first. The caller
 * passes in how columns of one row are computed: the definition, or the same on vectors. */
#pragma once
#include "ops/run.h"

#include <string.h>

/* A sequence of a step. */
typedef struct conv_seq {
    const float *x;   /* [n, dim] its rows in the step */
    float *y;         /* [n, dim] */
    const float *was; /* [past, dim] the slot that it reads; NULL: it begins */
    float *kept;      /* [past, dim] the slot that it writes */
    int64_t n, dim, past;
} conv_seq;

static inline conv_seq conv_seq_of(const run *r, const op *o, int32_t seq)
{
    const step *st = r->st;
    const slot_store *s = &r->slots[o->state];
    const int64_t dim = arg_dim(r, o->out), row = st->tok.seq_row[seq], n = st->tok.seq_row[seq + 1] - row;
    return (conv_seq){.x = arg_at(r, o->in[0]) + row * dim,
                      .y = arg_at(r, o->out) + row * dim,
                      .was = st->tok.seq_len[seq] > n ? slot_at(s, st->slot_read[seq]) : NULL,
                      .kept = slot_at(s, st->slot_write[seq]),
                      .n = n,
                      .dim = dim,
                      .past = arg_info(r, o->in[1])->dim[0] - 1};
}

/* Row `at` of the sequence, -past … n - 1; NULL: zeros. */
static inline const float *conv_row(const conv_seq *s, int64_t at)
{
    if (at >= 0) return s->x + at * s->dim;
    return s->was ? s->was + (s->past + at) * s->dim : NULL;
}

/* Writes columns from … to - 1 of the slot. */
static inline void conv_keep(const conv_seq *s, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < s->past; i++) {
        const float *row = conv_row(s, s->n - s->past + i);
        float *kept = s->kept + i * s->dim + from;
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
