/* row_faults.c - see row_faults.h. */
#include "plan/row_faults.h"

#include <string.h>

static bool is_finite(const float *x, int64_t n)
{
    enum { AT_ONCE = 16 };
    const uint32_t exponent = 0x7f800000;
    uint32_t odd[AT_ONCE] = {0}, any = 0, bits[AT_ONCE] = {0};
    for (; n >= AT_ONCE; n -= AT_ONCE, x += AT_ONCE) {
        memcpy(bits, x, sizeof bits);
        for (int k = 0; k < AT_ONCE; k++) odd[k] |= (bits[k] & exponent) == exponent;
    }
    memset(bits, 0, sizeof bits);
    memcpy(bits, x, (size_t)n * sizeof *bits);
    for (int k = 0; k < AT_ONCE; k++) any |= odd[k] | ((bits[k] & exponent) == exponent);
    return !any;
}

/* Of the first op, and there of the cause rather than of what became of it. */
static bool comes_before(const row_fault *a, const row_fault *b)
{
    if (!b->how || a->op != b->op) return !b->how || a->op < b->op;
    if (a->how != b->how) return a->how < b->how;
    return a->row != b->row ? a->row < b->row : a->rank < b->rank;
}

void row_fault_note(flight *f, int32_t k, const row_fault *x)
{
    if (!comes_before(x, &f->faults[k])) return;
    f->faults[k] = *x;
    f->faulty = true;
}

/* The sequence of a row of tokens or of an encoder. */
static int32_t sequence_of(const step *st, uint8_t axis, int32_t row)
{
    const step_rows *r = step_rows_of(st, axis);
    int32_t k = 0;
    while (k + 1 < st->n_seq && row >= r->seq_row[k + 1]) k++;
    return k;
}

static uint32_t writer_of(const program *p, ref t)
{
    uint32_t i = 0;
    while (i + 1 < p->n_op && p->ops[i].out != t) i++;
    return i;
}

void row_faults_find(plan *l, flight *f, const rows_seen *s)
{
    const step *st = f->st;
    const uint8_t axis = l->p->tensors[s->t].axis;
    for (int64_t i = 0; i < s->n; i++) {
        if (is_finite(s->rows + i * s->width, s->width)) continue;
        const int32_t row = axis == AXIS_OUT   ? st->out[i]
                            : axis == AXIS_EXP ? (int32_t)(i / l->p->n_used)
                            : axis == AXIS_SEQ ? st->tok.seq_row[st->pool[i]]
                                               : (int32_t)i;
        const row_fault x = {s->coded ? ROW_NOT_HELD : ROW_NOT_FINITE, writer_of(l->p, s->t), row, s->rank};
        pthread_mutex_lock(&l->lock);
        row_fault_note(f, sequence_of(st, axis, row), &x);
        pthread_mutex_unlock(&l->lock);
    }
}
