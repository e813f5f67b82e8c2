/* cpu_backend.c - the CPU as a device: weights with one pool of threads, KV pages, and the loop over the ops of a
 * segment.
 *
 * All workers walk the ops together. compile() puts a barrier before an op only when it touches memory that an op
 * since the last barrier wrote, or writes memory that one of them read. Consecutive elementwise ops over the same
 * elements need none: run_share divides all elements of the output among workers, so each worker reads its own
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
#include "core/act_move.h"
#include "core/logit_check.h"
#include "cpu/cpu.h"
#include "tensor/panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A stretch: what its steps cost, and which way they are faster. */
typedef struct stretch_work {
    uint64_t multiplies[AXIS_COUNT]; /* of all matmuls, per row of each symbol */
    struct pace {
        double seconds[2]; /* of a step alone, of a step shared: running means, 0 unknown */
        uint32_t steps;
    } pace[64]; /* by the logarithm of a step's multiplications */
} stretch_work;

typedef struct compiled {
    uint8_t *act; /* the arena */
    uint64_t act_bytes;
    uint8_t *barrier[2]; /* [n_op] wait before this op: without fused runs; with them */
    int8_t *fused;       /* [n_op] row of the fuse table whose run begins here, or -1 */
    stretch_work *works; /* [n_stretch] */
} compiled;

/* Maximum number of output elements of an op that one worker does alone. */
enum { LIGHT = 16384 };

/* Of ROUND steps of a size the first TRIAL are shared and the next TRIAL run alone, timed except for the first, which
 * wakes threads or warms caches; the rest runs the faster way. Steps of ALWAYS_SHARED multiplications (tens of
 * milliseconds) or more are always shared. */
enum { ROUND = 64, TRIAL = 3, ALWAYS_SHARED = 1 << 28 };

static bool cpu_device(int i, device_info *out)
{
    if (i > 0) return false;
    *out = (device_info){.free_bytes = mem_available()};
    snprintf(out->name, sizeof out->name, "%s", cpu_model());
    return true;
}

/* ---- weights, and the threads that compute with them */

static void close_weights(weight_set *s)
{
    if (!s) return;
    for (uint32_t i = 0; s->held && i < s->p->n_weight; i++) cpu_weight_drop(&s->held[i]);
    pool_close(s->team);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    mem_free(s->held);
    mem_free(s->fills);
    mem_free(s);
}

static int read_weights(weight_set *s, err *e)
{
    int rc = cpu_weights_read(s, e);
    if (!rc) cpu_fetch_choose(s);
    return rc;
}

static bool cpu_takes_int8(dtype type) { return panel_format_of(type) != NULL; }

/* Devices that work at the same time divide the threads of the process. */
static int thread_count(const weight_options *o, const cpu_options *own)
{
    int all = own->threads > 0 ? own->threads : pool_default_threads();
    return o->number > 0 ? o->number : o->sharers > 1 && all > o->sharers ? all / o->sharers : o->sharers > 1 ? 1 : all;
}

static int open_weights(weight_set **out, const program *p, const bool *reads, const weight_options *o, err *e)
{
    const cpu_options plain = {0}, *own = o->own ? o->own : &plain;
    *out = NULL;
    weight_set *s = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, "the cpu device");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->p = p;
    s->threads = thread_count(o, own);
    s->share_all = own->share_all;
    s->asked_inexact = o->inexact && !own->isa;
    int rc = 0;
    s->table = own->isa ? cpu_kernels_named(own->isa) : cpu_kernels(cpu_features(), o->inexact);
    s->held = mem_zero(p->n_weight + 1, sizeof *s->held);
    if (!s->table) rc = err_set(e, ERR_USAGE, "no kernels for \"%s\" on this processor", own->isa);
    else if (s->table->inexact && !o->inexact)
        rc = err_set(e, ERR_USAGE, "kernels for \"%s\" round otherwise: they need --exact off", own->isa);
    else if (!s->held) rc = err_memory(e, "the cpu device");
    if (!rc) rc = pool_open(&s->team, s->threads, e);
    for (uint32_t i = 0; i < p->n_weight && !rc; i++)
        if (reads[i]) rc = cpu_weight_put(s, i, e);
    if (rc) close_weights(s);
    else *out = s;
    return rc;
}

static const char *cpu_isa(const weight_set *s) { return s->table->isa; }

static const char *cpu_exact_note(const weight_set *s)
{
    return s->asked_inexact && !s->table->inexact
               ? "--exact off: this processor multiplies no bfloat16 (AVX-512 BF16); results stay exact"
               : NULL;
}

static uint64_t cpu_budget(const weight_set *s)
{
    (void)s;
    return mem_available();
}

/* A number says how many threads. */
static int cpu_memory(int number)
{
    (void)number;
    return MEMORY_OF_PROCESS;
}

static void take_turn(weight_set *s)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t mine = s->asked++;
    while (s->served != mine) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void give_turn(weight_set *s)
{
    pthread_mutex_lock(&s->lock);
    s->served++;
    if (s->asked != s->served) pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- pages and slots */

/* Memory for the pages of the states of one group that the device writes; the system gives it page by page as it is
 * written. */
static int kv_open(dev *d, int group, err *e)
{
    const cache_options *c = &d->cache;
    const uint64_t pages = (uint64_t)c->n_page[group], bytes = kv_place(d->kv, d->p, group, c->k_type, c->v_type, NULL);
    if (!bytes) return OK;
    d->pages[group] = mem_mul(bytes, pages, &d->pages_bytes[group]) ? mem_map(d->pages_bytes[group]) : NULL;
    if (!d->pages[group]) return err_set(e, ERR_MEMORY, "out of memory for a cache of %" PRIu64 " pages", pages);
    kv_place(d->kv, d->p, group, c->k_type, c->v_type, d->pages[group]);
    return OK;
}

/* Memory for the slots of the states that the device has. */
static int slots_open(dev *d, err *e)
{
    const uint64_t floats = slots_place(d->slots, d->p, d->cache.slot_rows, NULL), slots = (uint64_t)d->cache.n_slot;
    if (!floats) return OK;
    if (d->cache.n_slot < 2)
        return err_set(e, ERR_USAGE, "a sequence of this model takes two slots, the device has %d", d->cache.n_slot);
    d->slot_memory = mem_mul(floats * sizeof(float), slots, &d->slot_bytes) ? mem_map(d->slot_bytes) : NULL;
    if (!d->slot_memory) return err_set(e, ERR_MEMORY, "out of memory for %" PRIu64 " slots of states", slots);
    slots_place(d->slots, d->p, d->cache.slot_rows, d->slot_memory);
    return OK;
}

/* Writes to all memory of pages, unless it is much: then it is taken as it is used. */
static void touch_pages(dev *d)
{
    enum { MOST = 256 << 20, STEP = 4096 };
    uint64_t all = 0;
    for (int g = 0; g < GROUP_MAX; g++) all += d->pages_bytes[g];
    for (int g = 0; g < GROUP_MAX && all <= MOST; g++)
        for (uint64_t at = 0; at < d->pages_bytes[g]; at += STEP) ((volatile uint8_t *)d->pages[g])[at] = 0;
}

static void cpu_close(dev *d)
{
    if (!d) return;
    for (int g = 0; g < GROUP_MAX; g++) mem_unmap(d->pages[g], d->pages_bytes[g]);
    mem_unmap(d->slot_memory, d->slot_bytes);
    cpu_work_close(&d->work);
    mem_free(d->kv);
    mem_free(d->slots);
    mem_free(d);
}

static int cpu_open(dev **out, weight_set *w, const program *p, const int max_rows[AXIS_COUNT], const cache_options *o,
                    err *e)
{
    *out = NULL;
    dev *d = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, "the cpu device");
    d->w = w;
    d->p = p;
    d->cache = *o;
    memcpy(d->max_rows, max_rows, sizeof d->max_rows);
    d->kv = mem_zero(p->n_state + 1, sizeof *d->kv);
    d->slots = mem_zero(p->n_state + 1, sizeof *d->slots);
    int rc = d->kv && d->slots ? cpu_work_open(&d->work, p, max_rows, o, w->threads, e)
                               : err_memory(e, "the cpu device");
    for (int g = 0; g < GROUP_MAX && !rc; g++) rc = kv_open(d, g, e);
    if (!rc) rc = slots_open(d, e);
    if (!rc && o->touch) touch_pages(d);
    if (rc) cpu_close(d);
    else *out = d;
    return rc;
}

static int check_page(const dev *d, int group, int32_t page, err *e)
{
    bool there = group >= 0 && group < GROUP_MAX && page >= 0 && page < d->cache.n_page[group];
    return there ? OK : err_set(e, ERR_USAGE, "no page %d in group %d", page, group);
}

static void copy_page(dev *d, const page_copy *c)
{
    for (uint32_t i = 0; i < d->p->n_state; i++) {
        const kv_store *s = &d->kv[i];
        if (!s->k || d->p->states[i].group != c->group) continue;
        memcpy(kv_tile(s, false, c->to, 0), kv_tile(s, false, c->from, 0), s->k_page);
        memcpy(kv_tile(s, true, c->to, 0), kv_tile(s, true, c->from, 0), s->v_page);
    }
}

/* Reads a slot, or writes it. */
static int move_slot(dev *d, int32_t slot, uint8_t *to, const uint8_t *from, err *e)
{
    if (slot < 0 || slot >= d->cache.n_slot) return err_set(e, ERR_USAGE, "no slot %d", slot);
    for (uint32_t i = 0; i < d->p->n_op; i++) {
        const op *o = &d->p->ops[i];
        if (!op_is(o, OPF_SLOT)) continue;
        const size_t n = (size_t)d->p->states[o->state].slot_floats * sizeof(float);
        float *here = slot_at(&d->slots[o->state], slot);
        if (to) memcpy(to, here, n), to += n;
        else memcpy(here, from, n), from += n;
    }
    return OK;
}

/* Reads a page, or writes it. */
static int move_page(dev *d, int group, int32_t page, uint8_t *to, const uint8_t *from, err *e)
{
    if (group == GROUP_MAX) return move_slot(d, page, to, from, e);
    int rc = check_page(d, group, page, e);
    for (uint32_t i = 0; i < d->p->n_state && !rc; i++) {
        const kv_store *s = &d->kv[i];
        if (!s->k || d->p->states[i].group != group) continue;
        for (int values = 0; values < 2; values++) {
            const uint64_t n = values ? s->v_page : s->k_page;
            uint8_t *here = kv_tile(s, values, page, 0);
            if (to) memcpy(to, here, n), to += n;
            else memcpy(here, from, n), from += n;
        }
    }
    return rc;
}

static int cpu_page_get(dev *d, int group, int32_t page, uint8_t *to, err *e)
{
    return move_page(d, group, page, to, NULL, e);
}

static int cpu_page_put(dev *d, int group, int32_t page, const uint8_t *from, err *e)
{
    return move_page(d, group, page, NULL, from, e);
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
static uint32_t run_length(const compiled *c, bool fuse, uint32_t i)
{
    int row = fuse ? c->fused[i] : FUSE_NONE;
    return row >= 0 ? fuse_rows[row].n : 1;
}

/* Whether op i, or the fused run there, depends on an op after the last barrier, which was before op `since`. */
static bool must_wait(const dev *d, const segment *s, bool fuse, uint32_t since, uint32_t i)
{
    const compiled *c = s->compiled;
    for (uint32_t late = i; late < i + run_length(c, fuse, i); late++)
        for (uint32_t early = since; early < i; early++) {
            bool alone = !fuse || (c->fused[early] == FUSE_NONE && c->fused[late] == FUSE_NONE);
            if (depends(s->p, d->max_rows, &s->p->ops[early], &s->p->ops[late], alone)) return true;
        }
    return false;
}

static void cpu_discard(dev *d, segment *s)
{
    (void)d;
    compiled *c = s->compiled;
    if (c) mem_free(c->barrier[0]);
    if (c) mem_free(c->fused);
    if (c) mem_free(c->works);
    if (c) mem_unmap(c->act, c->act_bytes);
    mem_free(c);
    s->compiled = NULL;
}

/* Barriers and multiplications of a stretch, which nobody is in before it begins. */
static void compile_stretch(const dev *d, const segment *s, uint32_t stretch)
{
    const program *p = s->p;
    compiled *c = s->compiled;
    const uint32_t begin = stretch_begin(s, stretch), end = s->ends[stretch];
    for (int fuse = 0; fuse < 2; fuse++) {
        uint32_t since = begin; /* first op after the last barrier */
        for (uint32_t i = begin; i < end; i += run_length(c, fuse, i))
            if (must_wait(d, s, fuse, since, i)) {
                c->barrier[fuse][i] = 1;
                since = i;
            }
    }
    for (uint32_t i = begin; i < end; i++)
        c->works[stretch].multiplies[p->tensors[p->ops[i].out].axis] += (uint64_t)program_row_products(p, &p->ops[i]);
}

static int cpu_compile(dev *d, segment *s, err *e)
{
    const program *p = s->p;
    compiled *c = mem_zero(1, sizeof *c);
    s->compiled = c;
    if (c) c->barrier[0] = mem_zero((size_t)p->n_op + 1, 2);
    if (c) c->fused = mem_zero(p->n_op + 1, 1);
    if (c) c->works = mem_zero(s->n_stretch, sizeof *c->works);
    if (c) c->act_bytes = s->act_bytes ? s->act_bytes : 1;
    if (c) c->act = mem_map(c->act_bytes);
    if (!c || !c->barrier[0] || !c->fused || !c->works || !c->act)
        return err_set(e, ERR_MEMORY, "out of memory for a segment and its activations (%" PRIu64 " bytes)",
                       s->act_bytes);
    c->barrier[1] = c->barrier[0] + p->n_op;
    for (uint32_t i = 0, n; i < p->n_op; i += n) {
        int row = fuse_find(s, d->max_rows, i);
        n = row >= 0 && d->w->table->fused[row] ? fuse_rows[row].n : 1;
        memset(c->fused + i, FUSE_INSIDE, n);
        c->fused[i] = (int8_t)(n > 1 ? row : FUSE_NONE);
    }
    for (uint32_t i = 0; i < s->n_stretch; i++) compile_stretch(d, s, i);
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
    const op *o = &r->p->ops[i];
    if (op_is(o, OPF_HEAVY)) return false;
    ref t = o->out ? o->out : o->in[0];
    return arg_rows(r, t) * arg_dim(r, t) <= LIGHT;
}

/* Whether runs of ops are fused in this step. Taps need every result; a step of few rows is bound by reading weights
 * alone, in one stream. */
static bool fuses(const run *r) { return r->st->n_tap == 0 && r->st->n[AXIS_TOK] + r->st->n[AXIS_ENC] > ACT_ALONE; }

/* Does op i, or the fused run that begins with it, and returns how many ops that were. */
static uint32_t do_ops(const cpu_run *at, bool fuse, uint32_t i, int worker, int workers)
{
    const run *r = &at->r;
    const compiled *c = at->seg->compiled;
    const cpu_table *table = r->on->w->table;
    const op *o = &r->p->ops[i];
    int row = fuse ? c->fused[i] : FUSE_NONE;
    if (row >= 0) table->fused[row](r, o, worker, workers);
    else cpu_kernel(table, o->kind)(r, o, worker, workers);
    return row >= 0 ? fuse_rows[row].n : 1;
}

/* Ops op0 … op1 - 1 of a run. */
typedef struct light_ops {
    const cpu_run *at;
    uint32_t op0, op1;
} light_ops;

static void run_light(void *arg)
{
    const light_ops *l = arg;
    const bool fuse = fuses(&l->at->r);
    for (uint32_t i = l->op0; i < l->op1;) i += do_ops(l->at, fuse, i, 0, 1);
}

static void run_ops(void *arg, int worker, int workers)
{
    const cpu_run *at = arg;
    const run *r = &at->r;
    const segment *s = at->seg;
    const compiled *c = s->compiled;
    dev *d = r->on;
    const bool fuse = fuses(r);
    const uint32_t end = s->ends[at->stretch];
    bool waited = false; /* a barrier has just been */
    for (uint32_t i = stretch_begin(s, at->stretch); i < end;) {
        light_ops l = {at, i, i};
        while (workers > 1 && r->st->n_tap == 0 && l.op1 < end && light(r, l.op1)) l.op1 += run_length(c, fuse, l.op1);
        if (l.op1 > i) { /* the barriers between them become one */
            pool_barrier_do(d->w->team, worker, run_light, &l);
            i = l.op1;
            waited = true;
            continue;
        }
        if (c->barrier[fuse][i] && workers > 1 && !waited) pool_barrier(d->w->team, worker);
        waited = false;
        ref out = s->p->ops[i].out;
        i += do_ops(at, fuse, i, worker, workers);
        if (r->st->n_tap == 0) continue;
        if (workers > 1) pool_barrier(d->w->team, worker); /* buffers are reused: tap while the values are there */
        if (worker == 0) show_taps(r, out);
        if (workers > 1) pool_barrier(d->w->team, worker);
    }
}

static void run_stretch(const cpu_run *at)
{
    const run *r = &at->r;
    stretch_work *w = &((compiled *)at->seg->compiled)->works[at->stretch];
    pool *p = r->on->w->team;
    uint64_t work = 1;
    for (int i = 0; i < AXIS_COUNT; i++) work += w->multiplies[i] * (uint64_t)r->st->n[i];
    if (work >= ALWAYS_SHARED || pool_workers(p) == 1 || r->on->w->share_all) {
        pool_run(p, run_ops, (void *)at);
        return;
    }
    struct pace *t = &w->pace[63 - __builtin_clzll(work)];
    uint32_t turn = t->steps++ % ROUND;
    bool trial = turn < 2 * TRIAL, shared = trial ? turn < TRIAL : t->seconds[1] < t->seconds[0];
    double start = clock_now();
    if (shared) pool_run(p, run_ops, (void *)at);
    else run_ops((void *)at, 0, 1);
    if (trial && turn % TRIAL) {
        double *mean = &t->seconds[shared], took = clock_now() - start;
        *mean = *mean > 0 ? 0.7 * *mean + 0.3 * took : took;
    }
}

static int cpu_start(dev *d, const segment *s, uint32_t stretch, const step *st, err *e)
{
    int rc = OK;
    for (int32_t i = 0; i < st->n_copy && stretch == 0 && !rc; i++) {
        rc = check_page(d, st->copies[i].group, st->copies[i].from, e);
        if (!rc) rc = check_page(d, st->copies[i].group, st->copies[i].to, e);
    }
    if (!rc) d->started = (cpu_run){cpu_run_of(d, s->p, st, ((compiled *)s->compiled)->act), s, stretch};
    return rc;
}

/* The caller is a worker of the pool, so the work is done here. */
static int cpu_wait(dev *d, err *e)
{
    (void)e;
    const cpu_run at = d->started;
    d->started = (cpu_run){.seg = NULL};
    if (!at.seg) return OK;
    for (int32_t i = 0; i < at.r.st->n_copy && at.stretch == 0; i++) copy_page(d, &at.r.st->copies[i]);
    if (at.stretch) show_taps(&at.r, at.r.p->ops[at.seg->ends[at.stretch - 1]].out);
    take_turn(d->w);
    run_stretch(&at);
    give_turn(d->w);
    return OK;
}

/* ---- rows in and out */

static uint8_t *arena_of(const segment *s) { return ((compiled *)s->compiled)->act; }

static const float *act_row(const segment *s, ref t, int64_t row)
{
    const tensor *a = &s->p->tensors[t];
    return (const float *)(const void *)(arena_of(s) + a->off) + row * tensor_count(a);
}

static int cpu_act_put(dev *d, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, const void *from,
                       err *e)
{
    (void)d, (void)e;
    act_move_in(s->p, arena_of(s), t, col0, cols, rows, from);
    return OK;
}

static int cpu_act_get(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, void *to, err *e)
{
    (void)d, (void)e;
    act_move_out(s->p, arena_of(s), t, row0, rows, to);
    return OK;
}

static best_logit pick_row(const scan_ops *scan, const float *row, int64_t n)
{
    return logits_have_nan(row, n) ? (best_logit){0, NAN} : scan->best(row, n);
}

static int cpu_pick(dev *d, const segment *s, ref t, int64_t row0, int64_t rows, int32_t k, best_logit *to, err *e)
{
    (void)e;
    const int64_t n = tensor_count(&s->p->tensors[t]);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = act_row(s, t, row0 + i);
        if (k == 1) to[i] = pick_row(d->w->table->scan, row, n);
        else logits_best_list(row, n, k, to + i * k);
    }
    return OK;
}

static const wire_ops *cpu_wire(void) { return cpu_kernels(cpu_features(), false)->wire; }

static const char *cpu_fused(const segment *s, uint32_t i, uint32_t *n)
{
    const compiled *c = s->compiled;
    *n = run_length(c, true, i);
    return *n > 1 ? fuse_rows[c->fused[i]].name : NULL;
}

static uint64_t cpu_held_bytes(const dev *d)
{
    uint64_t sum = d->work.bytes;
    for (int g = 0; g < GROUP_MAX; g++) sum += d->pages_bytes[g];
    return sum + d->slot_bytes;
}

const backend cpu_backend = {
    .name = "cpu",
    .chunk = 128,
    .chunk_most = 512,
    .chunk_rate = 0x1p38,
    .sequences = 256,
    .fuse = &cpu_fuse,
    .probe = cpu_device,
    .memory = cpu_memory,
    .takes_int8 = cpu_takes_int8,
    .weights_open = open_weights,
    .weights_read = read_weights,
    .weights_close = close_weights,
    .weight_bytes = cpu_weight_bytes,
    .isa = cpu_isa,
    .exact_note = cpu_exact_note,
    .tell = cpu_fetch_tell,
    .budget = cpu_budget,
    .open = cpu_open,
    .close = cpu_close,
    .compile = cpu_compile,
    .discard = cpu_discard,
    .act_put = cpu_act_put,
    .act_get = cpu_act_get,
    .start = cpu_start,
    .wait = cpu_wait,
    .pick = cpu_pick,
    .page_get = cpu_page_get,
    .page_put = cpu_page_put,
    .fused = cpu_fused,
    .wire = cpu_wire,
    .held_bytes = cpu_held_bytes,
};
