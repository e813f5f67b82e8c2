/* cuda_step.c - what a device is told of a step: the struct step with its arrays, as one copy from pinned memory; rope
 * tables that it does not have yet; page copies. */
#include "cuda/cuda_state.h"

#include <string.h>

enum { ALIGN = 16 };

/* Writes structs of a step into the host memory of a block. The pointers in these structs are device addresses. */
typedef struct writer {
    cuda_block *block;
    uint64_t used;
} writer;

/* Takes `bytes` bytes of the block, and gives their offset. */
static uint64_t reserve(writer *w, uint64_t bytes)
{
    const uint64_t at = w->used;
    w->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static const int32_t *put_ids(writer *w, const int32_t *from, int64_t n)
{
    if (!from || n <= 0) return NULL;
    const uint64_t bytes = (uint64_t)n * sizeof *from, at = reserve(w, bytes);
    memcpy(w->block->host + at, from, bytes);
    return (const int32_t *)(uintptr_t)(w->block->at + at);
}

static step_rows put_rows(writer *w, const step *st, const step_rows *from, int32_t n)
{
    return (step_rows){.token = put_ids(w, from->token, n),
                       .type = put_ids(w, from->type, n),
                       .pos = put_ids(w, from->pos, n),
                       .seq = put_ids(w, from->seq, n),
                       .seq_len = put_ids(w, from->seq_len, st->n_seq),
                       .seq_row = put_ids(w, from->seq_row, st->n_seq + 1)};
}

/* Pages of each group and sequence that it has positions for; the others are not set. */
static const int32_t *put_pages(const program *p, writer *w, const step *st)
{
    const int64_t cap = st->page_cap, n = (int64_t)p->n_group * st->n_seq * cap;
    if (!st->page || n == 0) return NULL;
    const uint64_t at = reserve(w, (uint64_t)n * sizeof(int32_t));
    int32_t *to = (int32_t *)(void *)(w->block->host + at);
    for (uint32_t g = 0; g < p->n_group; g++)
        for (int64_t i = 0; i < st->n_seq; i++) {
            const step_rows *of = step_rows_of(st, p->group_axis[g]);
            const int64_t used = of->seq_len ? (of->seq_len[i] + PAGE_TOKENS - 1) / PAGE_TOKENS : 0,
                          from = ((int64_t)g * st->n_seq + i) * cap;
            memcpy(to + from, st->page + from, (size_t)used * sizeof *to);
        }
    return (const int32_t *)(uintptr_t)(w->block->at + at);
}

/* Rows that stand for tokens: those that the step names, in the order of its rows, which then name these. */
static const float *put_vectors(const program *p, writer *w, const step *st, step *to)
{
    const uint64_t bytes = (uint64_t)p->dim * sizeof(float);
    int32_t n = 0;
    if (!st->vec || !st->tok.token) return NULL;
    const uint64_t at = w->used;
    int32_t *ids = (int32_t *)(void *)(w->block->host + ((cu_address)(uintptr_t)to->tok.token - w->block->at));
    for (int32_t i = 0; i < st->n[AXIS_TOK]; i++) {
        if (st->tok.token[i] >= 0) continue;
        memcpy(w->block->host + reserve(w, bytes), st->vec + ~(int64_t)st->tok.token[i] * p->dim, bytes);
        ids[i] = ~n++;
    }
    return (const float *)(uintptr_t)(w->block->at + at);
}

/* Bytes that a step takes at most. */
static uint64_t step_bytes(const program *p, const step *st)
{
    const uint64_t rows = (uint64_t)st->n[AXIS_TOK] + (uint64_t)st->n[AXIS_ENC], seqs = (uint64_t)st->n_seq + 1;
    uint64_t ints = 4 * rows + (8 + p->n_rope) * seqs + (uint64_t)st->n[AXIS_OUT] + (uint64_t)st->n[AXIS_SEQ] +
                    (uint64_t)p->n_group * seqs * (uint64_t)st->page_cap;
    for (int32_t i = 0; i < st->n[AXIS_TOK] && st->vec && st->tok.token; i++)
        if (st->tok.token[i] < 0) ints += (uint64_t)p->dim + ALIGN;
    return sizeof *st + ints * sizeof(int32_t) + 32 * ALIGN;
}

/* Whether an op of the segment reads this rope set. */
static bool rotates_by(const program *p, uint32_t set)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        if (p->ops[i].kind == OP_ROPE && p->ops[i].u.rope.table == (int32_t)set) return true;
    return false;
}

/* Tables of the variants that the step names, where the device has others or none. */
static int send_ropes(cuda_device *d, const step *st, err *e)
{
    for (uint32_t r = 0; r < d->p->n_rope; r++) {
        const rope_set *set = &d->p->ropes[r];
        if (!rotates_by(d->p, r)) continue;
        for (int32_t k = 0; k < st->n_seq; k++) {
            const int32_t v = st->seq_rope[(int64_t)r * st->n_seq + k];
            cuda_rope *t = &d->ropes[r * CUDA_VARIANTS + (uint32_t)v];
            if (t->serial == rope_serial(set, v)) continue;
            rope_variant as = set->variant[v];
            int rc = OK;
            if (t->bytes < as.bytes) {
                cuda_give(&d->q, &t->at, t->bytes);
                rc = cuda_take(&d->q, as.bytes, "a table of positions", &t->at, e);
                t->bytes = rc ? 0 : as.bytes;
            }
            if (!rc) rc = cuda_send(&d->q, t->at, as.table, as.bytes, e);
            as.table = (float *)(uintptr_t)t->at;
            if (!rc) rc = cuda_send(&d->q, d->rope_variants + (uint64_t)(t - d->ropes) * sizeof as, &as, sizeof as, e);
            if (rc) return rc;
            t->serial = rope_serial(set, v);
        }
    }
    return OK;
}

static int copy_pages(cuda_device *d, const step *st, err *e)
{
    int rc = OK;
    for (int32_t i = 0; i < st->n_copy && !rc; i++) {
        const page_copy *c = &st->copies[i];
        const uint64_t bytes = d->page_bytes[c->group];
        if (!bytes) continue;
        const cu_address base = d->pages[c->group];
        rc = cuda_done(&d->q,
                       d->q.cu->cuMemcpyDtoDAsync_v2(base + (uint64_t)c->to * bytes, base + (uint64_t)c->from * bytes,
                                                     bytes, d->q.stream),
                       "copying a page", e);
    }
    return rc;
}

int cuda_step_send(cuda_device *d, cuda_segment *s, const step *st, err *e)
{
    const program *p = d->p;
    const cu_address was = s->step.at;
    int rc = cuda_block_grow(&d->q, &s->step, step_bytes(p, st), "a step", e);
    if (!rc && s->step.at != was) {
        const uint64_t at = s->step.at;
        rc = cuda_send(&d->q, s->run + offsetof(run, st), &at, sizeof at, e);
        if (!rc) rc = cuda_wait(&d->q, e);
    }
    if (rc) return rc;
    writer w = {&s->step, (sizeof *st + ALIGN - 1) / ALIGN * ALIGN};
    step to = {.n_seq = st->n_seq, .page_cap = st->page_cap};
    memcpy(to.n, st->n, sizeof to.n);
    to.tok = put_rows(&w, st, &st->tok, st->n[AXIS_TOK]);
    to.enc = put_rows(&w, st, &st->enc, st->n[AXIS_ENC]);
    to.out = put_ids(&w, st->out, st->n[AXIS_OUT]);
    to.pool = put_ids(&w, st->pool, st->n[AXIS_SEQ]);
    to.seq_rope = put_ids(&w, st->seq_rope, (int64_t)p->n_rope * st->n_seq);
    to.slot_read = put_ids(&w, st->slot_read, st->n_seq);
    to.slot_write = put_ids(&w, st->slot_write, st->n_seq);
    to.page = put_pages(p, &w, st);
    to.vec = put_vectors(p, &w, st, &to);
    memcpy(s->step.host, &to, sizeof to);
    rc = send_ropes(d, st, e);
    if (!rc) rc = cuda_send(&d->q, s->step.at, s->step.host, w.used, e);
    return rc ? rc : copy_pages(d, st, e);
}
