/* cpu_backend.c - the CPU as a device: one pool of threads, weights, KV pages, and the loop over the ops of a segment.
 *
 * All workers walk the ops together. compile() puts a barrier before an op only when it touches memory that an op
 * since the last barrier wrote, or writes memory that one of them read. Consecutive elementwise ops over the same
 * elements need none: cpu_share divides all elements of the output among workers, so each worker reads its own
 * results. A run of ops in the fuse table counts as one op. In small steps all ops from one matrix or attention to the
 * next (norms, rotations, activations ...) are done inside one barrier, by the last worker to arrive: a Llama layer
 * has five barriers instead of fifteen.
 *
 * A small step may be faster on one thread than on all: waiting at barriers may cost more than sharing gains, most of
 * all when other programs use the cores. So both ways are timed now and then, and the faster one is taken; the bits
 * are the same. */
#include "cpu/cpu_backend.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "tensor/act_q8.h"

#include <inttypes.h>
#include <string.h>

typedef struct compiled {
    uint8_t *barrier[2];             /* [op1 - op0] wait before this op: without fused runs; with them */
    int8_t *fused;                   /* [op1 - op0] row of the fuse table whose run begins here, or -1 */
    uint64_t multiplies[AXIS_COUNT]; /* of all matmuls, per row of each symbol */
    struct pace {
        double seconds[2]; /* of a step alone, of a step shared: running means, 0 unknown */
        uint32_t steps;
    } pace[64]; /* by the logarithm of a step's multiplications */
} compiled;

/* Maximum number of output elements of an op that one worker does alone. */
enum { LIGHT = 16384 };

/* Of ROUND steps of a size the first TRIAL are shared and the next TRIAL run alone, timed except for the first, which
 * wakes threads or warms caches; the rest runs the faster way. Steps of ALWAYS_SHARED multiplications (tens of
 * milliseconds) or more are always shared. */
enum { ROUND = 64, TRIAL = 3, ALWAYS_SHARED = 1 << 28 };

static void cpu_close(dev *d)
{
    if (!d) return;
    for (uint32_t i = 0; d->held && i < d->p->n_weight; i++) cpu_weight_drop(&d->held[i]);
    for (uint32_t i = 0; d->kv && i < d->p->n_state; i++) mem_unmap(d->kv[i].own, d->kv[i].own_bytes);
    cpu_work_close(&d->work);
    pool_close(d->team);
    mem_free(d->held);
    mem_free(d->fills);
    mem_free(d->kv);
    mem_free(d);
}

static int cpu_open(dev **out, int ordinal, const program *p, const dev_options *o, err *e)
{
    (void)ordinal; /* "cpu:N" is a number of threads, in o->threads */
    *out = NULL;
    dev *d = mem_zero(1, sizeof *d);
    if (!d) return err_set(e, ERR_MEMORY, "out of memory for the cpu device");
    d->p = p;
    d->opt = *o;
    if (d->opt.threads < 1) d->opt.threads = pool_default_threads();
    int rc = 0;
    d->table = o->isa ? cpu_kernels_named(o->isa) : cpu_kernels(cpu_features(), o->inexact);
    d->held = mem_zero(p->n_weight + 1, sizeof *d->held);
    d->kv = mem_zero(p->n_state + 1, sizeof *d->kv);
    if (!d->table) rc = err_set(e, ERR_USAGE, "no kernels for \"%s\" on this processor", o->isa);
    else if (d->table->inexact && !o->inexact)
        rc = err_set(e, ERR_USAGE, "kernels for \"%s\" round otherwise: they need --exact off", o->isa);
    else if (!d->held || !d->kv) rc = err_set(e, ERR_MEMORY, "out of memory for the cpu device");
    if (!rc) rc = pool_open(&d->team, d->opt.threads, e);
    if (!rc) rc = cpu_work_open(&d->work, p, &d->opt, d->opt.threads, e);
    if (rc) cpu_close(d);
    else *out = d;
    return rc;
}

/* Memory for the pages of the states of one group that a segment writes; the system gives it page by page as it is
 * written. */
static int kv_open(dev *d, const segment *seg, int group, err *e)
{
    uint64_t bytes = 0, pages = (uint64_t)d->opt.n_page[group], all;
    kv_store *first = NULL;
    for (uint32_t i = seg->op0; i < seg->op1; i++) {
        const op *o = &seg->p->ops[i];
        if (o->kind != OP_KV_PUT || d->p->states[o->state].group != group || d->kv[o->state].k_page) continue;
        kv_store *s = &d->kv[o->state];
        kv_layout(s, &d->p->states[o->state], d->opt.k_type, d->opt.v_type);
        bytes += s->k_page + s->v_page;
        if (!first) first = s;
    }
    if (!first) return OK;
    first->own = mem_mul(bytes, pages, &all) ? mem_map(all) : NULL;
    if (!first->own) return err_set(e, ERR_MEMORY, "out of memory for a cache of %" PRIu64 " pages", pages);
    first->own_bytes = all;
    uint8_t *at = first->own;
    for (uint32_t i = 0; i < d->p->n_state; i++) {
        kv_store *s = &d->kv[i];
        if (s->k || !s->k_page || d->p->states[i].group != group) continue;
        s->k = at;
        s->v = at + s->k_page;
        s->stride = bytes;
        at += s->k_page + s->v_page;
    }
    return OK;
}

static int cpu_page_copy(dev *d, int group, int32_t from, int32_t to, int tokens, err *e)
{
    (void)tokens; /* keys are transposed: whole pages are cheaper than the used part */
    if (group < 0 || group >= GROUP_MAX || from < 0 || to < 0 || from >= d->opt.n_page[group] ||
        to >= d->opt.n_page[group])
        return err_set(e, ERR_USAGE, "no page %d or %d in group %d", from, to, group);
    for (uint32_t i = 0; i < d->p->n_state; i++) {
        const kv_store *s = &d->kv[i];
        if (!s->k || d->p->states[i].group != group) continue;
        memcpy(kv_tile(s, false, to, 0), kv_tile(s, false, from, 0), s->k_page);
        memcpy(kv_tile(s, true, to, 0), kv_tile(s, true, from, 0), s->v_page);
    }
    return 0;
}

/* ---- barriers */

/* Each element of the result depends on the same element of the operands (or of a weight) alone. */
static bool elementwise(const program *p, const op *o)
{
    const tensor *b = &p->tensors[o->in[1]];
    if (o->in[1] && b->kind == TENSOR_ACT && tensor_count(b) != tensor_count(&p->tensors[o->out])) return false;
    return op_is(o, OPF_ELEMENTWISE);
}

/* Two activations share memory; `aligned`: and not element by element. */
static bool overlaps(const program *p, const int max_rows[AXIS_COUNT], ref a, ref b, bool aligned)
{
    return fuse_overlap(p, max_rows, a, b) && !(aligned && p->tensors[a].off == p->tensors[b].off);
}

/* True when a worker of `late` may touch memory that another worker of `early` still uses. `alone`: neither is part of
 * a fused run, whose workers divide rows differently. */
static bool depends(const program *p, const int max_rows[AXIS_COUNT], const op *early, const op *late, bool alone)
{
    if (early->state >= 0 && early->state == late->state && early->kind != late->kind) return true;
    const tensor *a = &p->tensors[early->out], *b = &p->tensors[late->out];
    bool alike = alone && elementwise(p, early) && elementwise(p, late) && a->axis == b->axis &&
                 tensor_count(a) == tensor_count(b);
    for (int k = 0; k < 4; k++)
        if (overlaps(p, max_rows, early->out, late->in[k], alike) ||
            overlaps(p, max_rows, early->in[k], late->out, alike))
            return true;
    return overlaps(p, max_rows, early->out, late->out, alike);
}

/* In compiled.fused: an op by itself; an op after the first of a fused run. */
enum { FUSE_NONE = -1, FUSE_INSIDE = -2 };

/* Number of ops that are done as one from op i on. */
static uint32_t run_length(const compiled *c, const segment *s, bool fuse, uint32_t i)
{
    int row = fuse ? c->fused[i - s->op0] : FUSE_NONE;
    return row >= 0 ? fuse_rows[row].n : 1;
}

/* Whether op i, or the fused run there, depends on an op after the last barrier, which was before op `since`. */
static bool must_wait(const dev *d, const segment *s, bool fuse, uint32_t since, uint32_t i)
{
    const compiled *c = s->compiled;
    for (uint32_t late = i; late < i + run_length(c, s, fuse, i); late++)
        for (uint32_t early = since; early < i; early++) {
            bool alone = !fuse || (c->fused[early - s->op0] == FUSE_NONE && c->fused[late - s->op0] == FUSE_NONE);
            if (depends(s->p, d->opt.max_rows, &s->p->ops[early], &s->p->ops[late], alone)) return true;
        }
    return false;
}

static void cpu_discard(dev *d, segment *s)
{
    (void)d;
    compiled *c = s->compiled;
    if (c) mem_free(c->barrier[0]);
    if (c) mem_free(c->fused);
    mem_free(c);
    s->compiled = NULL;
}

static int cpu_compile(dev *d, segment *s, err *e)
{
    const program *p = s->p;
    int rc = cpu_weights_fill(d, e);
    for (int g = 0; g < GROUP_MAX && !rc; g++) rc = kv_open(d, s, g, e);
    if (rc) return rc;
    compiled *c = mem_zero(1, sizeof *c);
    s->compiled = c;
    if (c) c->barrier[0] = mem_zero((size_t)(s->op1 - s->op0) + 1, 2);
    if (c) c->fused = mem_zero(s->op1 - s->op0 + 1, 1);
    if (!c || !c->barrier[0] || !c->fused) {
        cpu_discard(d, s);
        return err_set(e, ERR_MEMORY, "out of memory for a segment");
    }
    c->barrier[1] = c->barrier[0] + (s->op1 - s->op0);
    for (uint32_t i = s->op0, n; i < s->op1; i += n) {
        int row = fuse_find(s, d->opt.max_rows, i);
        n = row >= 0 && d->table->fused[row] ? fuse_rows[row].n : 1;
        memset(c->fused + (i - s->op0), FUSE_INSIDE, n);
        c->fused[i - s->op0] = (int8_t)(n > 1 ? row : FUSE_NONE);
    }
    for (int fuse = 0; fuse < 2; fuse++) {
        uint32_t since = s->op0; /* first op after the last barrier */
        for (uint32_t i = s->op0; i < s->op1; i += run_length(c, s, fuse, i))
            if (must_wait(d, s, fuse, since, i)) {
                c->barrier[fuse][i - s->op0] = 1;
                since = i;
            }
    }
    for (uint32_t i = s->op0; i < s->op1; i++) {
        const op *o = &p->ops[i];
        c->multiplies[p->tensors[o->out].axis] += (uint64_t)program_row_products(p, o);
    }
    return 0;
}

/* ---- running */

static void show_taps(const run *r, ref done)
{
    for (int32_t i = 0; i < r->st->n_tap; i++) {
        const tap *t = &r->st->taps[i];
        if (t->what != done || !done) continue;
        if (t->to) memcpy(t->to, arg_at(r, done), (size_t)(arg_rows(r, done) * arg_dim(r, done)) * sizeof(float));
        else t->take(t->self, arg_at(r, done), arg_rows(r, done));
    }
}

/* Whether op i is cheaper on one worker than shared. */
static bool light(const run *r, uint32_t i)
{
    const op *o = &r->seg->p->ops[i];
    if (op_is(o, OPF_HEAVY)) return false;
    ref t = o->out ? o->out : o->in[0];
    return arg_rows(r, t) * arg_dim(r, t) <= LIGHT;
}

/* Whether runs of ops are fused in this step. Taps need every result; a step of few rows is bound by reading weights
 * alone, in one stream. */
static bool fuses(const run *r) { return r->st->n_tap == 0 && r->st->n[AXIS_TOK] + r->st->n[AXIS_ENC] > ACT_ALONE; }

/* Does op i, or the fused run that begins with it, and returns how many ops that were. */
static uint32_t do_ops(const run *r, bool fuse, uint32_t i, int worker, int workers)
{
    const segment *s = r->seg;
    const compiled *c = s->compiled;
    const cpu_table *table = s->on->table;
    const op *o = &s->p->ops[i];
    int row = fuse ? c->fused[i - s->op0] : FUSE_NONE;
    if (row >= 0) table->fused[row](r, o, worker, workers);
    else cpu_kernel(table, o->kind)(r, o, worker, workers);
    return row >= 0 ? fuse_rows[row].n : 1;
}

/* Ops op0 … op1 - 1 of a run. */
typedef struct light_ops {
    const run *r;
    uint32_t op0, op1;
} light_ops;

static void run_light(void *arg)
{
    const light_ops *l = arg;
    const bool fuse = fuses(l->r);
    for (uint32_t i = l->op0; i < l->op1;) i += do_ops(l->r, fuse, i, 0, 1);
}

static void run_ops(void *arg, int worker, int workers)
{
    const run *r = arg;
    const segment *s = r->seg;
    const compiled *c = s->compiled;
    dev *d = s->on;
    const bool fuse = fuses(r);
    bool waited = false; /* a barrier has just been */
    for (uint32_t i = s->op0; i < s->op1;) {
        light_ops l = {r, i, i};
        while (workers > 1 && r->st->n_tap == 0 && l.op1 < s->op1 && light(r, l.op1))
            l.op1 += run_length(c, s, fuse, l.op1);
        if (l.op1 > i) { /* the barriers between them become one */
            pool_barrier_do(d->team, worker, run_light, &l);
            i = l.op1;
            waited = true;
            continue;
        }
        if (c->barrier[fuse][i - s->op0] && workers > 1 && !waited) pool_barrier(d->team, worker);
        waited = false;
        ref out = s->p->ops[i].out;
        i += do_ops(r, fuse, i, worker, workers);
        if (r->st->n_tap == 0) continue;
        if (workers > 1) pool_barrier(d->team, worker); /* buffers are reused: tap while the values are there */
        if (worker == 0) show_taps(r, out);
        if (workers > 1) pool_barrier(d->team, worker);
    }
}

static int cpu_run(const run *r, err *e)
{
    (void)e;
    compiled *c = r->seg->compiled;
    pool *p = r->seg->on->team;
    uint64_t work = 1;
    for (int i = 0; i < AXIS_COUNT; i++) work += c->multiplies[i] * (uint64_t)r->st->n[i];
    if (work >= ALWAYS_SHARED || pool_workers(p) == 1 || r->seg->on->opt.share_all) {
        pool_run(p, run_ops, (void *)r);
        return 0;
    }
    struct pace *t = &c->pace[63 - __builtin_clzll(work)];
    uint32_t at = t->steps++ % ROUND;
    bool trial = at < 2 * TRIAL, shared = trial ? at < TRIAL : t->seconds[1] < t->seconds[0];
    double start = clock_now();
    if (shared) pool_run(p, run_ops, (void *)r);
    else run_ops((void *)r, 0, 1);
    if (trial && at % TRIAL) {
        double *mean = &t->seconds[shared], took = clock_now() - start;
        *mean = *mean > 0 ? 0.7 * *mean + 0.3 * took : took;
    }
    return 0;
}

static const char *cpu_isa(const dev *d) { return d->table->isa; }

static const char *cpu_fused(const segment *s, uint32_t i, uint32_t *n)
{
    const compiled *c = s->compiled;
    *n = run_length(c, s, true, i);
    return *n > 1 ? fuse_rows[c->fused[i - s->op0]].name : NULL;
}

static uint64_t cpu_held_bytes(const dev *d)
{
    uint64_t sum = d->work.bytes;
    for (uint32_t i = 0; i < d->p->n_weight; i++) sum += d->held[i].own_bytes;
    for (uint32_t i = 0; i < d->p->n_state; i++) sum += d->kv[i].own_bytes;
    return sum;
}

const backend cpu_backend = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .weight_put = cpu_weight_put,
    .page_copy = cpu_page_copy,
    .compile = cpu_compile,
    .discard = cpu_discard,
    .run = cpu_run,
    .isa = cpu_isa,
    .joins = fuse_length,
    .fused = cpu_fused,
    .held_bytes = cpu_held_bytes,
};
