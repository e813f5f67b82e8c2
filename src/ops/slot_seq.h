/* slot_seq.h - what an op with a slot has of a sequence in a step: the slots that it reads and writes, and the rows
 * that are kept apart behind their states.
 *
 * Of the rows of a step the last `apart` may be guesses (step.slot_apart): the slot gets the state before them, and
 * behind it their operands. The next step goes on from that state by the `taken` of them that hold, then by its own
 * rows. Rows that were taken give no results again. */
#pragma once
#include "ops/run.h"

typedef struct slot_seq {
    const float *was;       /* the state that it reads; NULL: the sequence begins */
    float *kept;            /* the state that it writes */
    const float *was_apart; /* [taken, floats of a row] behind that state */
    float *kept_apart;      /* [apart, floats of a row] */
    int64_t row, n;         /* its first row in the step; its rows there */
    int64_t taken, apart;
} slot_seq;

/* apart_floats: of a row that is kept apart. */
static inline slot_seq slot_seq_of(const step *st, const slot_store *slots, int32_t seq, int64_t apart_floats)
{
    const int64_t row = st->tok.seq_row[seq], n = st->tok.seq_row[seq + 1] - row;
    const int32_t from = st->slot_read[seq], to = st->slot_write[seq];
    const bool begins = st->tok.seq_len[seq] == n;
    slot_seq s = {.was = begins ? NULL : slot_at(slots, from),
                  .kept = slot_at(slots, to),
                  .was_apart = begins ? NULL : slot_row(slots, from, 0, apart_floats),
                  .kept_apart = slot_row(slots, to, 0, apart_floats),
                  .row = row,
                  .n = n,
                  .taken = begins ? 0 : step_taken(st, seq),
                  .apart = step_apart(st, seq)};
    return s;
}
