/* v_recur.h - RECUR on sixteen columns at a time; definition: def_recur.c.
 *
 * Where sixteen columns are of one head, as in all published models but Mamba 1, decays and decayed keys of a token are
 * computed once, on lanes that are rows. Two sixteens of columns go over the rows together: the sum of one is a chain
 * of multiply-adds, and the other one fills its latency. One pass over the state writes the new state and computes the
 * token's output and the sum that the delta rule of the next token subtracts. Bound: four products for each number of
 * the state. */
#pragma once
#include "ops/recur_rows.h"
#include "cpu/simd/v16.h"
#include "cpu/simd/vmath.h"

#include <math.h>

enum { RECUR_AHEAD = 3 };  /* tokens from one whose values are fetched to the one that is computed */
enum { RECUR_BLOCKS = 2 }; /* sixteens of columns that go together: 16 KiB of state with 128 rows */

/* What a token is for all columns of a head: of each row of the state its decay, and its key times that. */
typedef struct recur_token {
    float decay[RECUR_ROWS_MAX], decayed[RECUR_ROWS_MAX];
    const float *q, *k;
    float strength;
} recur_token;

INLINE void recur_token_of(const recur_seq *s, int64_t i, int64_t head, recur_token *t)
{
    const float *by = recur_step(s, i, head), *rate = s->rate + head * s->rates;
    const bool one = recur_has_one(s);
    const v16 all = v16_all(fm_exp(recur_exponent(s, rate, by, 0)));
    t->q = recur_query(s, i, head);
    t->k = t->q + s->rows;
    t->strength = recur_strength(s, by);
    for (int64_t r = 0; r < s->rows; r += LANES) {
        const int n = s->rows - r < LANES ? (int)(s->rows - r) : LANES;
        v16 of = s->rates > 1 ? v16_load_part(rate + r, n) : v16_all(rate[0]);
        if (s->steps) of = v16_mul(of, s->steps > 1 ? v16_load_part(by + r, n) : v16_all(by[0]));
        const v16 decay = one ? all : v16_exp(of);
        v16_store_part(t->decay + r, decay, n);
        v16_store_part(t->decayed + r, v16_mul(decay, v16_load_part(t->k + r, n)), n);
    }
}

/* Of a token, for each sixteen of columns: u, which the state gets times the key; the output; the sum of state and
 * decayed keys that the delta rule of the next token subtracts. */
typedef struct recur_sums {
    v16 u[RECUR_BLOCKS], y[RECUR_BLOCKS], seen[RECUR_BLOCKS];
} recur_sums;

/* Rows of the state of `blocks` sixteens of columns: sums but u are made, seen for the next token (NULL: none). was:
 * NULL, zeros. */
INLINE void recur_sweep(const recur_seq *s, const recur_token *t, const recur_token *next, const float *was,
                        float *kept, const int blocks, recur_sums *to)
{
    const int64_t rows = s->rows;
    const float *restrict keys = t->k, *restrict queries = t->q; /* not of the state, so kept in registers */
    UNROLLED (b, blocks) to->y[b] = to->seen[b] = v16_zero();
    for (int64_t r = 0; r < rows; r++) {
        const v16 k = v16_all(keys[r]), q = v16_all(queries[r]), decay = v16_all(t->decay[r]);
        UNROLLED (b, blocks) {
            const int64_t at = b * LANES * rows + r * LANES;
            const v16 x = v16_fma(k, to->u[b], v16_mul(decay, was ? v16_load(was + at) : v16_zero()));
            v16_store(kept + at, x);
            to->y[b] = v16_fma(x, q, to->y[b]);
            if (next) to->seen[b] = v16_fma(x, v16_all(next->decayed[r]), to->seen[b]);
        }
    }
}

/* Prefetches what row i of the sequence has in some columns: rows are too far apart for the processor to do so. */
INLINE void recur_fetch(const recur_seq *s, int64_t i, int64_t c, const int blocks)
{
    UNROLLED (b, blocks) {
        prefetch_near(recur_values(s, i) + c + b * LANES);
        if (i >= 0) prefetch_near(s->y + i * s->dim + c + b * LANES);
    }
}

/* Columns c … c + 16 * blocks - 1, which are of one head. */
INLINE void recur_of_head(const recur_seq *s, int64_t c, const int blocks)
{
    const int64_t head = c / s->width;
    const float *was = s->slot.was ? s->slot.was + c * s->rows : NULL;
    float *kept = s->slot.kept + c * s->rows, guess[RECUR_BLOCKS * LANES * RECUR_ROWS_MAX];
    recur_token token[2];
    recur_sums sums;
    const int64_t first = -s->slot.taken;
    const float *from = was;
    if (first == s->slot.n) return;
    recur_token_of(s, first, head, &token[0]);
    UNROLLED (b, blocks) sums.seen[b] = v16_zero();
    for (int64_t r = 0; r < s->rows && s->delta && was; r++)
        UNROLLED (b, blocks)
            sums.seen[b] = v16_fma(v16_load(was + b * LANES * s->rows + r * LANES), v16_all(token[0].decayed[r]),
                                   sums.seen[b]);
    for (int64_t i = first; i < s->slot.n; i++) {
        const recur_token *t = &token[(i - first) % 2];
        recur_token *next = &token[(i + 1 - first) % 2];
        const bool more = s->delta && i + 1 < s->slot.n;
        const v16 strength = v16_all(t->strength);
        float *to = recur_is_sure(s, i) ? kept : guess;
        if (i + 1 < s->slot.n) recur_token_of(s, i + 1, head, next);
        if (i + RECUR_AHEAD < s->slot.n) recur_fetch(s, i + RECUR_AHEAD, c, blocks);
        UNROLLED (b, blocks) {
            const v16 v = v16_load(recur_values(s, i) + c + b * LANES);
            sums.u[b] = v16_mul(strength, s->delta ? v16_sub(v, sums.seen[b]) : v);
        }
        if (!from) recur_sweep(s, t, more ? next : NULL, NULL, to, blocks, &sums);
        else if (more) recur_sweep(s, t, next, from, to, blocks, &sums);
        else recur_sweep(s, t, NULL, from, to, blocks, &sums);
        from = to;
        if (i < 0) continue;
        UNROLLED (b, blocks) v16_store(s->y + i * s->dim + c + b * LANES, sums.y[b]);
    }
}

/* ---- columns of several heads */

/* Row r of the state in n columns from c on: a column a lane. */
typedef struct recur_row {
    v16 decay, k, q;
} recur_row;

INLINE recur_row recur_row_of(const recur_seq *s, int64_t i, int64_t c, int n, int64_t r)
{
    float of[LANES] = {0}, k[LANES] = {0}, q[LANES] = {0};
    for (int l = 0; l < n; l++) {
        const int64_t head = (c + l) / s->width;
        const float *query = recur_query(s, i, head);
        of[l] = recur_exponent(s, s->rate + head * s->rates, recur_step(s, i, head), r);
        q[l] = query[r];
        k[l] = query[s->rows + r];
    }
    return (recur_row){v16_exp(v16_load(of)), v16_load(k), v16_load(q)};
}

/* n columns from c on; any heads. */
static void recur_of_heads(const recur_seq *s, int64_t c, int n)
{
    float *kept = s->slot.kept + c * s->rows, guess[LANES * RECUR_ROWS_MAX];
    const float *from = s->slot.was ? s->slot.was + c * s->rows : NULL;
    for (int64_t i = -s->slot.taken; i < s->slot.n; i++) {
        float strength[LANES] = {0}, *to = recur_is_sure(s, i) ? kept : guess;
        for (int l = 0; l < n; l++) strength[l] = recur_strength(s, recur_step(s, i, (c + l) / s->width));
        v16 v = v16_load_part(recur_values(s, i) + c, n), seen = v16_zero(), y = v16_zero();
        for (int64_t r = 0; r < s->rows && s->delta; r++) {
            const recur_row row = recur_row_of(s, i, c, n, r);
            seen = v16_fma(from ? v16_load_part(from + r * n, n) : v16_zero(), v16_mul(row.decay, row.k), seen);
        }
        const v16 u = v16_mul(v16_load(strength), s->delta ? v16_sub(v, seen) : v);
        for (int64_t r = 0; r < s->rows; r++) {
            const recur_row row = recur_row_of(s, i, c, n, r);
            const v16 x = v16_fma(row.k, u, v16_mul(row.decay, from ? v16_load_part(from + r * n, n) : v16_zero()));
            v16_store_part(to + r * n, x, n);
            y = v16_fma(x, row.q, y);
        }
        from = to;
        if (i >= 0) v16_store_part(s->y + i * s->dim + c, y, n);
    }
}

static void v_recur(const run *r, const op *o, int worker, int workers)
{
    int64_t from, to, first, last;
    run_share(arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int32_t k = 0; k < r->st->n_seq; k++) {
        const recur_seq s = recur_seq_of(r, o, k);
        run_share(s.apart_floats, LANES, worker, workers, &first, &last);
        recur_keep_apart(&s, first, last);
        recur_pass_on(&s, from, to);
        for (int64_t c = from, n; c < to; c += n) {
            const int64_t head_end = (c / s.width + 1) * s.width, end = head_end < to ? head_end : to;
            n = to - c < LANES ? to - c : LANES;
            if (s.width % LANES) recur_of_heads(&s, c, (int)n);
            else if (end - c < RECUR_BLOCKS * LANES) recur_of_head(&s, c, 1);
            else recur_of_head(&s, c, RECUR_BLOCKS), n = RECUR_BLOCKS * LANES;
        }
    }
}
