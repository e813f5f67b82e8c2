/* cpu_rope.c - reference of ROPE: rotary positions (Su et al. 2021, arXiv 2104.09864) from the tables of core/rope.h.
 *
 * A pair (a, b) becomes (a cos - b sin, b cos + a sin); pairs are (i, i + dims/2) or (2i, 2i + 1). */
#include "cpu/cpu.h"

#include <math.h>

void cpu_rope(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const step_rows *rows = step_rows_of(st, arg_info(r, o->out)->axis);
    const rope_set *set = &r->seg->p->ropes[o->u.rope.table];
    int64_t dim = arg_dim(r, o->out), width = o->u.rope.width, heads = dim / width, half = o->u.rope.dims / 2, from, to;
    bool halves = o->u.rope.style == ROPE_HALVES;
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    cpu_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads;
        int variant = st->seq_rope[(int64_t)o->u.rope.table * st->n_seq + rows->seq[row]];
        const float *c = rope_cos(set, variant) + rows->pos[row] * half,
                    *s = rope_sin(set, variant) + rows->pos[row] * half;
        const float *from_head = x + u * width;
        float *to_head = y + u * width;
        for (int64_t i = 0; i < half; i++) {
            int64_t first = halves ? i : 2 * i, second = halves ? i + half : 2 * i + 1;
            float a = from_head[first], b = from_head[second];
            to_head[first] = fmaf(a, c[i], -(b * s[i]));
            to_head[second] = fmaf(b, c[i], a * s[i]);
        }
        for (int64_t i = 2 * half; i < width; i++) to_head[i] = from_head[i];
    }
}
