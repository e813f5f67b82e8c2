/* batch.c - see batch.h. */
#include "engine/steps.h"

#include "base/mem.h"
#include "cache/text_slots.h"

#include <string.h>

/* X(array, elements, multiple): names of the counts are those of batch_open */
#define BATCH_ARRAYS(X)                                                                                                \
    X(token, rows, 1)                                                                                                  \
    X(type, rows, 1)                                                                                                   \
    X(pos, rows, 1)                                                                                                    \
    X(seq, rows, 1)                                                                                                    \
    X(out, outs, 1)                                                                                                    \
    X(pool, seqs, 1)                                                                                                   \
    X(seq_len, seqs, 1)                                                                                                \
    X(seq_row, seqs + 1, 1)                                                                                            \
    X(seq_rope, seqs, p->n_rope + 1)                                                                                   \
    X(page, pages, p->n_group ? p->n_group : 1)                                                                        \
    X(slot_read, seqs, 1)                                                                                              \
    X(slot_write, seqs, 1)                                                                                             \
    X(slot_taken, seqs, 1)                                                                                             \
    X(slot_apart, seqs, 1)                                                                                             \
    X(enc_token, enc + 1, 1)                                                                                           \
    X(enc_type, enc + 1, 1)                                                                                            \
    X(enc_pos, enc + 1, 1)                                                                                             \
    X(enc_seq, enc + 1, 1)                                                                                             \
    X(enc_len, seqs, 1)                                                                                                \
    X(enc_row, seqs + 1, 1)                                                                                            \
    X(best, outs, 1)                                                                                                   \
    X(copies, copies + 1, 1)                                                                                           \
    X(who, seqs, 1)

int batch_open(batch *b, const program *p, const batch_sizes *max, err *e)
{
    const size_t rows = (size_t)max->rows, outs = (size_t)max->outs, seqs = (size_t)max->sequences;
    const size_t enc = (size_t)max->enc, copies = (size_t)max->copies;
    const size_t cap = (size_t)((max->ctx + PAGE_TOKENS - 1) / PAGE_TOKENS), pages = seqs * cap;
    bool ok = true;
    *b = (batch){.rows_max = max->rows, .enc_max = max->enc, .out_max = max->outs, .page_cap = (int32_t)cap};
#define X(array, n, multiple) ok = (b->array = mem_zero(n, (multiple) * sizeof *b->array)) && ok;
    BATCH_ARRAYS(X)
#undef X
    if (ok) return 0;
    batch_close(b);
    return err_set(e, ERR_MEMORY, "out of memory for steps of %d rows", max->rows);
}

void batch_close(batch *b)
{
#define X(array, n, multiple) mem_free(b->array);
    BATCH_ARRAYS(X)
#undef X
    *b = (batch){0};
}

void batch_clear(batch *b)
{
    b->st = (step){.tok = {.token = b->token,
                           .type = b->type,
                           .pos = b->pos,
                           .seq = b->seq,
                           .seq_len = b->seq_len,
                           .seq_row = b->seq_row},
                   .enc = {.token = b->enc_token,
                           .type = b->enc_type,
                           .pos = b->enc_pos,
                           .seq = b->enc_seq,
                           .seq_len = b->enc_len,
                           .seq_row = b->enc_row},
                   .out = b->out,
                   .pool = b->pool,
                   .seq_rope = b->seq_rope,
                   .page = b->page,
                   .page_cap = b->page_cap,
                   .slot_read = b->slot_read,
                   .slot_write = b->slot_write,
                   .slot_taken = b->slot_taken,
                   .slot_apart = b->slot_apart,
                   .copies = b->copies};
}

static bool wanted(const session *s, int64_t pos)
{
    if (s->want_all) return pos >= s->want_from && pos < s->want_to;
    if (s->q.pooled) return false;
    bool scores = s->q.prompt_logprobs && pos + 1 < s->n_prompt && pos + 1 > s->scored;
    return scores || pos >= s->n_ids - 1;
}

/* The encoder rows of a session that takes part in the step: all of its input, or none where the encoder has run. */
static void add_encoder_rows(batch *b, const session *s)
{
    step *st = &b->st;
    int32_t at = st->n[AXIS_ENC], n = s->encoded ? 0 : (int32_t)s->q.n_enc;
    for (int32_t i = 0; i < n; i++) {
        b->enc_token[at + i] = s->enc_ids[i];
        b->enc_pos[at + i] = i;
        b->enc_seq[at + i] = st->n_seq;
    }
    b->enc_row[st->n_seq] = at;
    b->enc_row[st->n_seq + 1] = st->n[AXIS_ENC] = at + n;
    b->enc_len[st->n_seq] = (int32_t)s->q.n_enc;
}

int batch_add(batch *b, session *s, int rows, int keep)
{
    step *st = &b->st;
    int32_t at = st->n[AXIS_TOK], n = 0;
    if (!s->encoded && (int64_t)s->q.n_enc > b->enc_max - st->n[AXIS_ENC]) return 0;
    while (n < rows && at + n < b->rows_max && s->text.n_sent + n < s->n_ids + s->draft.n) {
        int64_t pos = s->text.n_sent + n;
        if (wanted(s, pos)) {
            if (st->n[AXIS_OUT] >= b->out_max - (pos == s->n_ids - 1 ? 0 : keep)) break;
            b->best[st->n[AXIS_OUT]] = pos >= s->n_ids - 1 ? s->best : 0;
            b->out[st->n[AXIS_OUT]++] = at + n;
        }
        b->token[at + n] = s->ids[pos];
        b->type[at + n] = s->types ? s->types[pos] : 0;
        b->pos[at + n] = (int32_t)pos;
        b->seq[at + n] = st->n_seq;
        n++;
    }
    if (n == 0) return 0;
    if (s->q.pooled) b->pool[st->n[AXIS_SEQ]++] = st->n_seq;
    add_encoder_rows(b, s);
    b->who[st->n_seq] = s;
    b->seq_row[st->n_seq] = at;
    b->seq_len[st->n_seq++] = (int32_t)(s->text.n_sent + n);
    b->seq_row[st->n_seq] = st->n[AXIS_TOK] = at + n;
    return n;
}

/* Of the sequence's rows after a step to position `to`, those that may be wrong. A model that guesses may have to read
 * its last row again. */
static int32_t rows_apart(const session *s, int64_t to, int most)
{
    const int64_t sure = s->draft.agreed ? s->draft.agreed - 1 : s->n_ids;
    return to <= sure ? 0 : to - sure < most ? (int32_t)(to - sure) : most;
}

const step *batch_finish(batch *b, const program *p, const page_copy *copies, int32_t n_copy, int slot_rows,
                         int32_t best_most)
{
    step *st = &b->st;
    st->best = b->best;
    for (int32_t i = 0; i < st->n[AXIS_OUT]; i++)
        if (b->best[i] > best_most) b->best[i] = 0;
    st->n_copy = n_copy;
    memcpy(b->copies, copies, (size_t)n_copy * sizeof *copies);
    st->n[AXIS_EXP] = st->n[AXIS_TOK] * p->n_used;
    for (uint32_t r = 0; r < p->n_rope; r++)
        for (int32_t i = 0; i < st->n_seq; i++)
            b->seq_rope[r * (uint32_t)st->n_seq + (uint32_t)i] = b->who[i]->text.variant[r];
    for (int32_t i = 0; i < st->n_seq; i++) {
        b->slot_read[i] = b->who[i]->text.slot_now;
        b->slot_write[i] = text_next_slot(&b->who[i]->text);
        b->slot_taken[i] = b->who[i]->text.taken;
        b->slot_apart[i] = rows_apart(b->who[i], b->seq_len[i], slot_rows);
    }
    for (uint32_t g = 0; g < p->n_group; g++)
        for (int32_t i = 0; i < st->n_seq; i++) {
            const session *s = b->who[i];
            int32_t *to = b->page + ((size_t)g * (size_t)st->n_seq + (size_t)i) * (size_t)b->page_cap;
            memcpy(to, s->text.page[g], (size_t)s->text.n_page[g] * sizeof *to);
        }
    return st;
}
