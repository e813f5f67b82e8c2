/* rope_heads.h - the body of ROPE: which heads a worker takes, their angles, and the definition of a rotation. */
#pragma once
#include "ops/run.h"

#include <math.h>

/* Rotates the first pairs of a head on vectors, and returns how many; the definition does the rest of `half`. halves:
 * pairs are (i, i + half), else (2i, 2i + 1). x may be y. */
typedef int64_t rope_pairs(const float *x, float *y, const float *c, const float *s, int64_t half, bool halves);

/* vectors: or NULL. */
__attribute__((always_inline)) static inline void rope_heads(const run *r, const op *o, int worker, int workers,
                                                             rope_pairs *vectors)
{
    const step *st = r->st;
    const step_rows *rows = step_rows_of(st, arg_info(r, o->out)->axis);
    const rope_set *set = &r->p->ropes[o->u.rope.table];
    int64_t dim = arg_dim(r, o->out), width = o->u.rope.width, heads = dim / width, half = o->u.rope.dims / 2, from, to;
    bool halves = o->u.rope.style == ROPE_HALVES;
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    run_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads;
        int variant = st->seq_rope[(int64_t)o->u.rope.table * st->n_seq + rows->seq[row]];
        const float *c = rope_cos(set, variant) + rows->pos[row] * half,
                    *s = rope_sin(set, variant) + rows->pos[row] * half;
        const float *head = x + u * width;
        float *out = y + u * width;
        for (int64_t i = vectors ? vectors(head, out, c, s, half, halves) : 0; i < half; i++) {
            int64_t first = halves ? i : 2 * i, second = halves ? i + half : 2 * i + 1;
            float a = head[first], b = head[second];
            out[first] = fmaf(a, c[i], -(b * s[i]));
            out[second] = fmaf(b, c[i], a * s[i]);
        }
        for (int64_t i = 2 * half; i < width; i++) out[i] = head[i];
    }
}
