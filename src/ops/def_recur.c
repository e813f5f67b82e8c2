/* def_recur.c - reference of RECUR: a linear recurrence whose state decays, with the delta rule or without; as in gated
 * delta networks (arXiv 2412.06464), KDA (2510.26692), lightning attention (2401.04658), Mamba 2 (2405.21060) and
 * Mamba 1 (2312.00752).
 *
 * Columns do not depend on each other. Each goes token by token, and in each token over the rows of its state in
 * ascending order, in float32; what the delta rule takes off is summed with keys that have decayed, so that the decay
 * of a row is multiplied once for all columns of a head. So nothing depends on how a sequence is divided into steps. */
#include "ops/recur_rows.h"

#include "base/fmath.h"

#include <math.h>

/* The state of a column: a number every `next` floats; at NULL: zeros. */
typedef struct column {
    float *at;
    int64_t next;
} column;

/* Row i of the sequence in column c, whose state goes from `was` to `to`. */
GPU_CODE static void token(const recur_seq *s, int64_t i, int64_t c, column was, column to)
{
    const int64_t head = c / s->width;
    const float *q = recur_query(s, i, head), *k = q + s->rows, *by = recur_step(s, i, head);
    const float *rate = s->rate + head * s->rates;
    const bool one = recur_has_one(s);
    float decay = fm_exp(recur_exponent(s, rate, by, 0)), v = recur_values(s, i)[c], seen = 0, sum = 0;
    for (int64_t r = 0; r < s->rows && s->delta; r++) {
        if (!one) decay = fm_exp(recur_exponent(s, rate, by, r));
        seen = fmaf(was.at ? was.at[r * was.next] : 0, decay * k[r], seen);
    }
    const float u = recur_strength(s, by) * (s->delta ? v - seen : v);
    for (int64_t r = 0; r < s->rows; r++) {
        if (!one) decay = fm_exp(recur_exponent(s, rate, by, r));
        const float x = fmaf(k[r], u, decay * (was.at ? was.at[r * was.next] : 0));
        to.at[r * to.next] = x;
        sum = fmaf(x, q[r], sum);
    }
    if (i >= 0) s->y[i * s->dim + c] = sum;
}

GPU_CODE void def_recur(const run *r, const op *o, int worker, int workers)
{
    int64_t from, to, first, last;
    float *guess = arg_scratch(r, worker);
    run_share(arg_dim(r, o->out), 1, worker, workers, &from, &to);
    for (int32_t k = 0; k < r->st->n_seq; k++) {
        const recur_seq s = recur_seq_of(r, o, k);
        for (int64_t c = from; c < to; c++) {
            const int64_t at = recur_place(s.dim, s.rows, 0, c), next = recur_together(s.dim, c);
            const column kept = {s.slot.kept + at, next}, was = {s.slot.was ? (float *)s.slot.was + at : NULL, next};
            column now = was;
            for (int64_t i = -s.slot.taken; i < s.slot.n; i++) {
                const column then = recur_is_sure(&s, i) ? kept : (column){guess, 1};
                token(&s, i, c, now, then);
                now = then;
            }
            for (int64_t j = 0; j < s.rows && !recur_is_sure(&s, -s.slot.taken); j++)
                kept.at[j * next] = was.at ? was.at[j * next] : 0;
        }
        run_share(s.apart_floats, 1, worker, workers, &first, &last);
        recur_keep_apart(&s, first, last);
    }
}
