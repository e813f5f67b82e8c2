/* step.h - all that changes from step to step, in arrays of fixed capacity that kernels read in place.
 *
 * A step is ragged: T rows, each with a sequence and a position; prefill chunks, decode rows, draft verification and training rows
 * mix freely. The rows of a sequence are adjacent and their positions ascend by one. */
#ifndef CORE_STEP_H
#define CORE_STEP_H
#include "core/program.h"

#include <stdint.h>

typedef struct tap {
    ref what;  /* an activation of the program */
    float *to; /* [rows of this step, dim] copied out after the segment that computes it */
} tap;

typedef struct step {
    int32_t n[ROWS_COUNT]; /* counts of the row symbols */
    const int32_t *token;  /* [TOK] id, or ~i: row i of vec (soft prompts, hidden states from a peer) */
    const float *vec;      /* [*, dim] */
    const int32_t *pos;    /* [TOK] position in its sequence */
    const int32_t *seq;    /* [TOK] index into the sequence arrays of this step */
    const int32_t *out;    /* [OUT] token rows whose results are wanted, ascending */
    int32_t n_seq;
    const int32_t *seq_len;  /* [n_seq] tokens held after this step */
    const int32_t *seq_row;  /* [n_seq + 1] first token row of each sequence */
    const int32_t *seq_rope; /* [n_rope][n_seq] variant fixed at admission */
    const int32_t
        *page; /* [group][n_seq][page_cap] physical page of each 64 positions; -1: not held (outside a window) */
    int32_t page_cap;
    const tap *taps;
    int32_t n_tap;
} step;

#endif
