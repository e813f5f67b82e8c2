/* step.h - all that changes from step to step, in arrays of fixed capacity that kernels read in place.
 *
 * A step is ragged: T rows, each with a sequence and a position; prefill chunks and decode rows mix freely.
 * The rows of a sequence are adjacent and their positions ascend by one. Encoder rows (the input of an encoder-decoder)
 * are a second such set, with positions of their own. */
#pragma once
#include "core/program.h"

#include <stdint.h>

/* Looks at an activation as soon as it is computed. */
typedef struct tap {
    ref what;  /* an activation of the program */
    float *to; /* [rows of this step, dim] receives a copy; NULL: `take` gets the rows, valid during the call */
    void (*take)(void *self, const float *rows, int64_t n);
    void *self;
} tap;

/* The rows of one axis. Every sequence of the step has token rows and encoder rows, perhaps none of one kind. */
typedef struct step_rows {
    const int32_t *token;   /* [rows] id, or ~i: row i of vec (soft prompts, hidden states from a peer) */
    const int32_t *type;    /* [rows] token type: which of two texts */
    const int32_t *pos;     /* [rows] position in its sequence */
    const int32_t *seq;     /* [rows] index into the sequence arrays of this step */
    const int32_t *seq_len; /* [n_seq] positions held after this step */
    const int32_t *seq_row; /* [n_seq + 1] first row of each sequence */
} step_rows;

/* Before a step: page `to` of a group becomes a copy of page `from`. No page is both in one step. */
typedef struct page_copy {
    int32_t group, from, to;
} page_copy;

typedef struct step {
    int32_t n[AXIS_COUNT]; /* counts of the row symbols */
    step_rows tok, enc;    /* AXIS_TOK, AXIS_ENC: an encoder's rows come all in one step, those of the whole sequence */
    const float *vec;      /* [*, dim] */
    const int32_t *out;    /* [OUT] token rows whose results are wanted, ascending */
    const int32_t *pool;   /* [SEQ] sequences that want a pooled result, ascending; all their tokens are in this step */
    int32_t n_seq;
    const int32_t *seq_rope; /* [n_rope][n_seq] variant fixed at admission */
    const int32_t *page;     /* [group][n_seq][page_cap] physical page of each 64 positions; -1: outside the window */
    int32_t page_cap;
    /* [n_seq] slot that holds what STATE_SLOT ops know of a sequence before the step, and the one that they write: no
     * slot is both, so that a step can be done twice. From position 0 on nothing is read. */
    const int32_t *slot_read, *slot_write;
    /* [n_seq] A slot holds a state and, behind it, the inputs of rows that may prove wrong guesses, at most
     * cache_options.slot_rows: they are kept apart and are not in the state. A step first adds the first slot_taken of
     * those in the slot that it reads: they have proved right and precede its own rows. The last slot_apart of all
     * these rows are kept apart in the slot that it writes. So no accepted row is computed twice. NULL: 0. */
    const int32_t *slot_taken, *slot_apart;
    const page_copy *copies;
    int32_t n_copy;
    /* [OUT] of the row only so many of its best logits are wanted, at most BEST_MAX; 0: all. NULL: all of all rows. */
    const int32_t *best;
    const tap *taps;
    int32_t n_tap;
    double expected; /* seconds that it will probably take, 0: unknown; nodes that take far longer count as lost */
} step;

/* Of result row i: the number of best logits that are wanted of it; 0: all logits. */
static inline int32_t step_best(const step *st, int32_t i) { return st->best ? st->best[i] : 0; }

static inline int32_t step_taken(const step *st, int32_t seq) { return st->slot_taken ? st->slot_taken[seq] : 0; }
static inline int32_t step_apart(const step *st, int32_t seq) { return st->slot_apart ? st->slot_apart[seq] : 0; }

static inline const step_rows *step_rows_of(const step *st, int rows) { return rows == AXIS_ENC ? &st->enc : &st->tok; }
