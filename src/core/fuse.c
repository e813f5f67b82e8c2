/* fuse.c - see fuse.h. */
#include "core/fuse.h"

bool fuse_overlap(const program *p, const int max_rows[AXIS_COUNT], ref a, ref b)
{
    const tensor *x = &p->tensors[a], *y = &p->tensors[b];
    if (!a || !b || x->kind != TENSOR_ACT || y->kind != TENSOR_ACT) return false;
    uint64_t nx = tensor_row_bytes(x) * (uint64_t)max_rows[x->axis];
    uint64_t ny = tensor_row_bytes(y) * (uint64_t)max_rows[y->axis];
    return x->off < y->off + ny && y->off < x->off + nx;
}

/* Whether only ops up to `last` read the result of op i. */
static bool read_within(const segment *s, uint32_t i, uint32_t last)
{
    const program *p = s->p;
    ref t = p->ops[i].out;
    int within = 0, all = 0;
    for (uint32_t k = 0; k < s->n_out; k++) all += s->out[k] == t;
    for (uint32_t j = 0; j < p->n_op; j++)
        for (int k = 0; k < 4; k++) {
            if (p->ops[j].in[k] != t) continue;
            all++;
            within += j > i && j <= last;
        }
    return within == 1 && all == 1;
}

/* Whether row `row` fits the ops from `at` on, and with max_rows, where they lie. */
static bool fits_run(const segment *s, const int *max_rows, int row, uint32_t at)
{
    const program *p = s->p;
    const fuse_row *f = &s->be->fuse->rows[row];
    const uint32_t last = at + f->n - 1;
    bool good = last < p->n_op;
    for (uint32_t i = at; good && i <= last; i++) {
        const op *o = &p->ops[i];
        good = o->kind == f->kind[i - at] && s->be->fuse->fits(p, o) && (i == last || read_within(s, i, last));
        for (int k = 0; max_rows && good && k < 4; k++) {
            bool inside = false;
            for (uint32_t j = at; j < i; j++) inside = inside || p->ops[j].out == o->in[k];
            good = inside || !fuse_overlap(p, max_rows, o->in[k], p->ops[last].out);
        }
    }
    return good;
}

int fuse_find(const segment *s, const int max_rows[AXIS_COUNT], uint32_t at)
{
    for (int row = 0; s->be->fuse && row < s->be->fuse->n; row++)
        if (fits_run(s, max_rows, row, at)) return row;
    return -1;
}

uint32_t fuse_length(const segment *s, uint32_t at)
{
    if (s->be->fuse && s->be->fuse->together) return s->be->fuse->together(s, at);
    for (int row = 0; s->be->fuse && row < s->be->fuse->n; row++)
        if (fits_run(s, NULL, row, at)) return s->be->fuse->rows[row].n;
    return 1;
}
