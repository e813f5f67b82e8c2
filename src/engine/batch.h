/* batch.h - the arrays of one step, allocated once for the largest: sessions add rows, the plan reads them in place. */
#pragma once
#include "core/step.h"
#include "engine/session.h"

struct batch_sizes; /* steps.h */

typedef struct batch {
    step st;
    int32_t rows_max, enc_max, out_max, page_cap;
    int32_t *token, *type, *pos, *seq, *out, *pool, *seq_len, *seq_row, *seq_rope, *page, *slot_read, *slot_write,
        *slot_taken, *slot_apart;
    int32_t *enc_token, *enc_type, *enc_pos, *enc_seq, *enc_len, *enc_row;
    int32_t *best;     /* [out] */
    page_copy *copies; /* before the step */
    session **who;     /* [n_seq] */
} batch;

int batch_open(batch *b, const program *p, const struct batch_sizes *max, err *e);
void batch_close(batch *b);

void batch_clear(batch *b);
/* Adds up to `rows` rows of a session: the tokens after those that were sent, then its guesses. A row's result is
 * wanted when it is the last token or a guess, when the session wants all, or when it scores a prompt token; rows stop
 * at `out_max - keep` wanted rows. The first rows of a session bring all rows of its encoder input; if these do not
 * fit, none are added. Returns their number. */
int batch_add(batch *b, session *s, int rows, int keep);
/* Makes the step from what was added, with these page copies before it. Rows of which more than `best_most` of the best
 * logits are wanted come whole. */
const step *batch_finish(batch *b, const program *p, const page_copy *copies, int32_t n_copy, int slot_rows,
                         int32_t best_most);
