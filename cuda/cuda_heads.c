/* cuda_heads.c - see cuda_heads.h (kernel: heads.cuh). */
#include "cuda/cuda_heads.h"
#include "cuda/cuda_args.h"
#include "cuda/cuda_launches.h"

enum { NORMS = 2, ROPES = 2, NONE = -1 };

/* Ops of a launch, by number; n_norm and n_rope of the first kinds. */
typedef struct heads_plan {
    const program *p;
    uint32_t norm, rope, put; /* the first norm, the first rope; KV_PUT */
    int n_norm, n_rope;
    bool puts;
} heads_plan;

static heads_plan read_ops(const program *p, uint32_t first, uint32_t most)
{
    const uint32_t end = first + most < p->n_op ? first + most : p->n_op;
    heads_plan h = {.p = p, .norm = first};
    uint32_t i = first;
    while (i < end && p->ops[i].kind == OP_NORM && p->ops[i].u.norm.kind <= NORM_L2 && h.n_norm < NORMS)
        h.n_norm++, i++;
    h.rope = i;
    while (i < end && p->ops[i].kind == OP_ROPE && h.n_rope < ROPES) h.n_rope++, i++;
    h.put = i;
    h.puts = i < end && p->ops[i].kind == OP_KV_PUT;
    return h;
}

/* The NORM that makes t, and the ROPE. */
static const op *norm_of(const heads_plan *h, ref t)
{
    for (int k = 0; k < h->n_norm; k++)
        if (h->p->ops[h->norm + (uint32_t)k].out == t) return &h->p->ops[h->norm + (uint32_t)k];
    return NULL;
}
static const op *rope_of(const heads_plan *h, ref t)
{
    for (int k = 0; k < h->n_rope; k++)
        if (h->p->ops[h->rope + (uint32_t)k].out == t) return &h->p->ops[h->rope + (uint32_t)k];
    return NULL;
}

/* Elements of a head that takes t: of the ROPE or of the store. 0: nobody does. */
static int width_for(const heads_plan *h, ref t)
{
    for (int k = 0; k < h->n_rope; k++)
        if (h->p->ops[h->rope + (uint32_t)k].in[0] == t) return h->p->ops[h->rope + (uint32_t)k].u.rope.width;
    const op *put = &h->p->ops[h->put];
    const state *s = h->puts ? &h->p->states[put->state] : NULL;
    return s && put->in[0] == t ? s->k_dim : s && put->in[1] == t ? s->v_dim : 0;
}

static bool is_one(const segment *s, const heads_plan *h, uint32_t first, uint32_t n)
{
    const program *p = s->p;
    const op *put = &p->ops[h->put];
    for (int k = 0; k < h->n_norm; k++) {
        const op *o = &p->ops[h->norm + (uint32_t)k];
        if (o->in[2] || o->u.norm.width != width_for(h, o->out) || cuda_read_elsewhere(s, o->out, first, n))
            return false;
    }
    for (uint32_t i = first; i < first + n; i++)
        if (p->tensors[p->ops[i].in[0]].axis != p->tensors[p->ops[first].in[0]].axis) return false;
    const op *keys = h->puts ? rope_of(h, put->in[0]) : NULL, *values = h->puts ? rope_of(h, put->in[1]) : NULL;
    return !values && (!keys || keys->u.rope.width == p->states[put->state].k_dim) && (h->puts || h->n_rope);
}

uint32_t cuda_heads_length(const segment *s, uint32_t first)
{
    const heads_plan h = read_ops(s->p, first, NORMS + ROPES + 1);
    const uint32_t n = (uint32_t)(h.n_norm + h.n_rope + h.puts);
    if (n && is_one(s, &h, first, n)) return n;
    return s->p->ops[first].kind == OP_ROPE || s->p->ops[first].kind == OP_KV_PUT;
}

/* Adds a part whose heads are those of t, with the NORM that makes it. */
static heads_part *add_part(const cuda_device *d, const cuda_segment *s, const heads_plan *h, ref t, int width,
                            heads_args *a)
{
    const op *norm = norm_of(h, t);
    heads_part *to = &a->part[a->n++];
    *to = (heads_part){.x = cuda_at(d, s, norm ? norm->in[0] : t),
                       .heads = (int32_t)(tensor_count(&h->p->tensors[t]) / width),
                       .width = width,
                       .norm = norm ? norm->u.norm.kind : NONE};
    if (norm) {
        to->gain = cuda_at(d, s, norm->in[1]);
        to->gain_n = norm->in[1] ? tensor_count(&h->p->tensors[norm->in[1]]) : 1;
        to->eps = norm->u.norm.eps;
    }
    a->heads += to->heads;
    if (width > a->width) a->width = width;
    return to;
}

static void add_rope(const cuda_device *d, const cuda_segment *s, const heads_plan *h, uint32_t i, const cuda_ops *of,
                     heads_args *a)
{
    const op *o = &h->p->ops[i], *put = &h->p->ops[h->put];
    const uint64_t variants = (uint64_t)o->u.rope.table * CUDA_VARIANTS * sizeof(rope_variant);
    heads_part *to = add_part(d, s, h, o->in[0], o->u.rope.width, a);
    to->variant = (const rope_variant *)(uintptr_t)(d->rope_variants + variants);
    to->table = o->u.rope.table;
    to->half = o->u.rope.dims / 2;
    to->halves = o->u.rope.style == ROPE_HALVES;
    to->y = !of->kept || of->kept[i] ? cuda_at(d, s, o->out) : NULL;
    to->store = h->puts && put->in[0] == o->out ? HEADS_KEYS : HEADS_NOT_STORED;
}

int cuda_heads_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e)
{
    const program *p = d->p;
    const heads_plan h = read_ops(p, of->first, of->n);
    const op *put = &p->ops[h.put];
    heads_args a = {.st = cuda_step_at(s), .axis = p->tensors[p->ops[of->first].in[0]].axis};
    for (int k = 0; k < h.n_rope; k++) add_rope(d, s, &h, h.rope + (uint32_t)k, of, &a);
    if (h.puts) {
        a.kv = d->kv[put->state];
        a.group = p->states[put->state].group;
        if (!rope_of(&h, put->in[0])) add_part(d, s, &h, put->in[0], a.kv.k_dim, &a)->store = HEADS_KEYS;
        add_part(d, s, &h, put->in[1], a.kv.v_dim, &a)->store = HEADS_VALUES;
    }
    const cuda_grid grid = {cuda_blocks((int64_t)st->n[a.axis] * a.heads, HEADS_THREADS / 32), 1, HEADS_THREADS,
                            (uint64_t)a.width * (HEADS_THREADS / 32) * sizeof(float)};
    return cuda_launch_fast(&d->q, d->w->kernels.heads, grid, (void *[]){&a}, e);
}
