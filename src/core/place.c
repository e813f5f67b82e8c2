/* place.c - see place.h. First fit over the buffers that are alive, op by op. */
#include "core/place.h"
#include "base/mem.h"
#include "core/fuse.h"

#include <string.h>

enum { ALIGN = 64 };

typedef struct block {
    uint64_t off, bytes;
    uint32_t last; /* op after which it is free */
} block;

typedef struct placer {
    program *p;
    uint32_t *last; /* [n_tensor] last op that reads it; the end of the segment for what must survive */
    block *live;    /* sorted by offset */
    uint32_t n_live;
    uint64_t top; /* highest byte used */
} placer;

static bool buffer_bytes(const program *p, ref t, const int max_rows[AXIS_COUNT], uint64_t *bytes)
{
    const tensor *i = &p->tensors[t];
    return mem_mul(tensor_row_bytes(i), (uint64_t)max_rows[i->axis], bytes) && *bytes < (uint64_t)1 << 46;
}

static void insert(placer *s, block b)
{
    uint32_t i = s->n_live++;
    for (; i > 0 && s->live[i - 1].off > b.off; i--) s->live[i] = s->live[i - 1];
    s->live[i] = b;
    if (b.off + b.bytes > s->top) s->top = b.off + b.bytes;
}

static uint64_t first_fit(const placer *s, uint64_t bytes)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->n_live; i++) {
        if (s->live[i].off >= at + bytes) break;
        uint64_t end = s->live[i].off + s->live[i].bytes;
        if (end > at) at = (end + ALIGN - 1) / ALIGN * ALIGN;
    }
    return at;
}

static void release_ended(placer *s, uint32_t done)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_live; i++)
        if (s->live[i].last > done) s->live[n++] = s->live[i];
    s->n_live = n;
}

/* If op i is the last to read its first operand, the output takes over that block, until op `until` at least; true when
 * done. */
static bool reuse_operand(placer *s, uint32_t i, uint64_t bytes, uint32_t until)
{
    const op *o = &s->p->ops[i];
    const tensor *in = &s->p->tensors[o->in[0]];
    if (!op_is(o, OPF_IN_PLACE) || s->last[o->in[0]] != i || in->kind != TENSOR_ACT || o->in[1] == o->in[0])
        return false;
    for (uint32_t k = 0; k < s->n_live; k++)
        if (s->live[k].off == in->off && s->live[k].bytes >= bytes) {
            s->live[k].last = s->last[o->out] > until ? s->last[o->out] : until;
            s->p->tensors[o->out].off = in->off;
            return true;
        }
    return false;
}

/* The offset of a result of the ops first … last. The result does not overlap the inputs of these ops, so that a device
 * can do them at once; the inputs stay reserved until op `last` is placed. Where the arena would grow by that, and
 * `must` is false, the result takes any free offset. */
static uint64_t fit_apart(placer *s, const int max_rows[AXIS_COUNT], uint32_t first, uint32_t last, uint64_t bytes,
                          bool must)
{
    const program *p = s->p;
    uint64_t plain = first_fit(s, bytes), most = plain + bytes > s->top ? plain + bytes : s->top, taken;
    for (uint32_t i = first; i <= last; i++)
        for (int k = 0; k < 4; k++) {
            const ref in = p->ops[i].in[k];
            bool inside = !in || p->tensors[in].kind != TENSOR_ACT;
            for (uint32_t j = first; j < i; j++) inside = inside || p->ops[j].out == in;
            if (!inside && buffer_bytes(p, in, max_rows, &taken)) insert(s, (block){p->tensors[in].off, taken, last});
        }
    uint64_t apart = first_fit(s, bytes);
    return must || apart + bytes <= most ? apart : plain;
}

static void find_last(placer *s, const segment *g)
{
    const program *p = s->p;
    memset(s->last, 0xff, p->n_tensor * sizeof *s->last); /* nothing reads it: lives to the end */
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) s->last[p->ops[i].in[k]] = i;
    for (uint32_t i = 0; i < g->n_out; i++) s->last[g->out[i]] = UINT32_MAX;
}

static int find_stretches(segment *g, err *e)
{
    const program *p = g->p;
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->n_op; i++) n += op_is(&p->ops[i], OPF_COLL);
    g->ends = arena_array(&g->p->mem, n, sizeof *g->ends);
    if (!g->ends) return err_memory(e, "a segment");
    g->n_stretch = 0;
    for (uint32_t i = 0; i < p->n_op; i++)
        if (op_is(&p->ops[i], OPF_COLL)) g->ends[g->n_stretch++] = i;
    g->ends[g->n_stretch++] = p->n_op;
    return OK;
}

int arena_layout(segment *g, const int max_rows[AXIS_COUNT], err *e)
{
    program *p = g->p;
    placer s = {.p = p,
                .last = mem_array(p->n_tensor, sizeof *s.last),
                .live = mem_array(5 * (size_t)p->n_op + g->n_in + 1, sizeof *s.live)};
    uint32_t first = 0, next = 0; /* of a run, and after it */
    int rc = s.last && s.live ? find_stretches(g, e) : err_memory(e, "the memory plan");
    uint64_t bytes;
    if (rc) goto done;
    find_last(&s, g);
    for (uint32_t i = 0; i < g->n_in; i++) {
        tensor *t = &p->tensors[g->in[i].t];
        if (!buffer_bytes(p, g->in[i].t, max_rows, &bytes)) goto too_large;
        t->off = first_fit(&s, bytes);
        insert(&s, (block){t->off, bytes, s.last[g->in[i].t]});
    }
    for (uint32_t i = 0; i < p->n_op; i++) {
        ref out = p->ops[i].kind == OP_COLL && p->ops[i].u.coll.left ? 0 : p->ops[i].out;
        if (i == next) {
            first = i;
            next = i + fuse_length(g, i);
        }
        if (out) {
            if (!buffer_bytes(p, out, max_rows, &bytes)) goto too_large;
            /* A device may do some ops of a run at once after it did others: no result makes room within it. */
            const uint32_t until = g->be->fuse && g->be->fuse->together ? next - 1 : i;
            if (!reuse_operand(&s, i, bytes, until)) {
                bool joined = first < i && (i + 1 == next || g->be->fuse->together);
                p->tensors[out].off = joined ? fit_apart(&s, max_rows, first, i, bytes, g->be->fuse->together)
                                             : first_fit(&s, bytes);
                insert(&s, (block){p->tensors[out].off, bytes, s.last[out] > until ? s.last[out] : until});
            }
        }
        release_ended(&s, i);
    }
    g->act_bytes = (s.top + ALIGN - 1) / ALIGN * ALIGN;
done:
    mem_free(s.last);
    mem_free(s.live);
    return rc;
too_large:
    rc = err_set(e, ERR_MEMORY, "the activations of a step do not fit any memory");
    goto done;
}
