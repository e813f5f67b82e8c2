/* v_rope.h - ROPE on sixteen lanes; definition: cpu_rope.c. Pairs beyond a multiple of 16 are done one by one with the
 * same operations. */
#ifndef CPU_V_ROPE_H
#define CPU_V_ROPE_H
#include "cpu/cpu.h"
#include "cpu/simd/v16.h"

#include <math.h>
#include <string.h>

INLINE void rope_turn(v16 *a, v16 *b, v16 c, v16 s)
{
    v16 x = *a, y = *b;
    *a = v16_fma(x, c, v16_neg(v16_mul(y, s)));
    *b = v16_fma(y, c, v16_mul(x, s));
}

static void v_rope(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const step_rows *rows = step_rows_of(st, arg_info(r, o->out)->axis);
    const rope_set *set = &r->seg->p->ropes[o->u.rope.table];
    int64_t dim = arg_dim(r, o->out), width = o->u.rope.width, heads = dim / width, half = o->u.rope.dims / 2, from, to;
    bool halves = o->u.rope.style == ROPE_HALVES;
    const float *in = arg_at(r, o->in[0]);
    float *out = arg_at(r, o->out);
    cpu_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads, i = 0;
        int variant = st->seq_rope[(int64_t)o->u.rope.table * st->n_seq + rows->seq[row]];
        const float *c = rope_cos(set, variant) + rows->pos[row] * half,
                    *s = rope_sin(set, variant) + rows->pos[row] * half;
        const float *x = in + u * width;
        float *y = out + u * width;
        for (; i + LANES <= half; i += LANES) {
            const float *p = halves ? x + i : x + 2 * i;
            float *q = halves ? y + i : y + 2 * i;
            int64_t next = halves ? half : LANES;
            v16 a = v16_load(p), b = v16_load(p + next);
            if (!halves) v16_unzip(&a, &b);
            rope_turn(&a, &b, v16_load(c + i), v16_load(s + i));
            if (!halves) v16_zip(&a, &b);
            v16_store(q, a);
            v16_store(q + next, b);
        }
        for (; i < half; i++) {
            int64_t first = halves ? i : 2 * i, second = halves ? i + half : 2 * i + 1;
            float a = x[first], b = x[second];
            y[first] = fmaf(a, c[i], -(b * s[i]));
            y[second] = fmaf(b, c[i], a * s[i]);
        }
        if (y != x && width > 2 * half) memcpy(y + 2 * half, x + 2 * half, (size_t)(width - 2 * half) * sizeof *y);
    }
}

#endif
