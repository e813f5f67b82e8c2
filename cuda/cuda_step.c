/* cuda_step.c - what a device is told of a step: the struct step with its arrays and what changes in page tables, as
 * one copy from pinned memory; rope tables that it does not have yet; page copies. */
#include "cuda/cuda_args.h"
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

enum { CHANGES = 256 }; /* of page tables that go with a step: more of them, and the tables go as a whole */

/* Takes memory for the page tables of a step; false: what the device has of them is laid out otherwise. */
static int fit_pages(cuda_device *d, cuda_segment *s, const step *st, bool *same, err *e)
{
    const cu_address was = s->pages.at;
    const uint64_t bytes = (uint64_t)d->p->n_group * (uint64_t)st->n_seq * (uint64_t)st->page_cap * sizeof(int32_t);
    int rc = cuda_block_grow(&d->q, &s->pages, bytes, "page tables", e);
    *same = s->pages.at == was && s->tables[1] == st->page_cap &&
            (s->tables[0] == st->n_seq || (d->p->n_group == 1 && s->tables[0]));
    s->tables[0] = rc ? 0 : st->n_seq;
    s->tables[1] = st->page_cap;
    return rc;
}

/* The page tables: of each group and sequence the pages that it has positions for; others are not set. What differs
 * from the device's goes behind the step, or all of it if that is much. */
static int put_pages(cuda_device *d, cuda_segment *s, writer *w, const step *st, page_change **changes, int *n, err *e)
{
    const program *p = d->p;
    const int64_t cap = st->page_cap, all = (int64_t)p->n_group * st->n_seq * cap;
    bool same = false;
    *n = 0;
    *changes = (page_change *)(void *)(w->block->host + w->used);
    if (!st->page || !all) return OK;
    int rc = fit_pages(d, s, st, &same, e);
    int32_t *shadow = (int32_t *)(void *)s->pages.host;
    for (int64_t u = 0; u < (int64_t)p->n_group * st->n_seq && !rc; u++) {
        const step_rows *of = step_rows_of(st, p->group_axis[u / st->n_seq]);
        const int64_t used = of->seq_len ? (of->seq_len[u % st->n_seq] + PAGE_TOKENS - 1) / PAGE_TOKENS : 0;
        for (int64_t i = u * cap; i < u * cap + used; i++) {
            if (same && shadow[i] == st->page[i]) continue;
            shadow[i] = st->page[i];
            if (same && *n < CHANGES) (*changes)[*n] = (page_change){(int32_t)i, st->page[i]};
            ++*n;
        }
    }
    if (rc || (same && *n <= CHANGES)) return rc;
    *n = 0;
    return cuda_send(&d->q, s->pages.at, s->pages.host, (uint64_t)all * sizeof *shadow, e);
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
    uint64_t ints = 4 * rows + (8 + p->n_rope) * seqs + 2 * (uint64_t)st->n[AXIS_OUT] + (uint64_t)st->n[AXIS_SEQ] +
                    CHANGES * sizeof(page_change) / sizeof(int32_t);
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
    page_change *changes;
    int n;
    writer w = {&s->step, (sizeof *st + ALIGN - 1) / ALIGN * ALIGN};
    step to = {.n_seq = st->n_seq, .page_cap = st->page_cap};
    memcpy(to.n, st->n, sizeof to.n);
    to.tok = put_rows(&w, st, &st->tok, st->n[AXIS_TOK]);
    to.enc = put_rows(&w, st, &st->enc, st->n[AXIS_ENC]);
    to.out = put_ids(&w, st->out, st->n[AXIS_OUT]);
    to.best = put_ids(&w, st->best, st->n[AXIS_OUT]);
    s->wanted = to.best ? (const int32_t *)(const void *)(s->step.host + ((cu_address)(uintptr_t)to.best - s->step.at))
                        : NULL;
    to.pool = put_ids(&w, st->pool, st->n[AXIS_SEQ]);
    to.seq_rope = put_ids(&w, st->seq_rope, (int64_t)p->n_rope * st->n_seq);
    to.slot_read = put_ids(&w, st->slot_read, st->n_seq);
    to.slot_write = put_ids(&w, st->slot_write, st->n_seq);
    to.slot_taken = put_ids(&w, st->slot_taken, st->n_seq);
    to.slot_apart = put_ids(&w, st->slot_apart, st->n_seq);
    to.vec = put_vectors(p, &w, st, &to);
    rc = put_pages(d, s, &w, st, &changes, &n, e);
    const cu_address from = s->step.at + reserve(&w, (uint64_t)n * sizeof *changes);
    to.page = (const int32_t *)(uintptr_t)s->pages.at;
    memcpy(s->step.host, &to, sizeof to);
    if (!rc) rc = send_ropes(d, st, e);
    if (!rc) rc = cuda_send(&d->q, s->step.at, s->step.host, w.used, e);
    if (!rc && n)
        rc = cuda_launch(&d->q, d->w->kernels.pages, 1, CHANGE_THREADS, (void *[]){&s->step.at, (void *)&from, &n}, e);
    if (!rc) rc = cuda_pages_copy(d, st, e);
    if (rc) s->tables[0] = 0;
    return rc;
}
