/* cuda_backend.c - a GPU as a device (core/backend.h): opening and closing, slots, the loop over the ops of a
 * stretch.
 *
 * The kernel of an op is its definition (definitions.cu), where each thread is a worker, or a faster kernel with the
 * same bits (fast.cu). So results do not depend on the number of threads. All launches of a stretch go to one stream;
 * the host waits for the last one. */
#include "cuda/cuda_backend.h"

#include "base/mem.h"
#include "cuda/cuda_launches.h"
#include "cuda/cuda_state.h"
#include "tensor/panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Definitions: threads of a block; maximum number of workers, of those that need scratch space, and its bytes. */
enum { BLOCK = 64, WORKERS_MAX = 1 << 20, SCRATCH_WORKERS = 1 << 11, SCRATCH_BYTES = 32 << 20 };
/* Memory that is kept for the steps of a segment and their tables when pages are counted. */
enum { STEP_BYTES = 16 << 20 };

/* ---- opening */

static bool cuda_takes_int8(dtype type) { return panel_format_of(type) != NULL; }

static int load_kernels(cuda_weights *w, err *e)
{
    int rc = cuda_load_image(&w->q, "definitions", &w->definitions, e);
#define X(id, name, ...)                                                                                               \
    if (!rc) rc = cuda_find(&w->q, w->definitions, "cuda_op_" #name, &w->kernels.op[OP_##id], e);
    KERNEL_LIST(X)
#undef X
#define X(name)                                                                                                        \
    if (!rc) rc = cuda_find(&w->q, w->definitions, "cuda_" #name, &w->kernels.name, e);
    CUDA_MOVE_LIST(X)
#undef X
    return rc ? rc : cuda_fast_load(w, e);
}

static bool cuda_probe(int i, device_info *out)
{
    const char *why;
    const cuda_driver *cu = cuda_driver_open(&why);
    int count = 0, device, version = 0, capability = 0;
    size_t available = 0, total = 0;
    cu_context context = NULL;
    *out = (device_info){.name = "NVIDIA GPU", .why = why};
    if (!cu) return i == 0;
    if (cu->cuDeviceGetCount(&count) || count == 0) out->why = "the NVIDIA driver has no device";
    if (i >= count) return i == 0;
    if (cu->cuDeviceGet(&device, i) || cuda_hangs(device)) {
        out->why = "the device hangs";
        return true;
    }
    if (cu->cuDeviceGetName(out->name, sizeof out->name, device) || cuda_find_capability(cu, device, &capability) ||
        cu->cuDriverGetVersion(&version) || cu->cuDevicePrimaryCtxRetain(&context, device) ||
        cu->cuCtxSetCurrent(context) || cu->cuMemGetInfo_v2(&available, &total))
        out->why = "the device does not answer";
    else if (!cuda_has_image(capability)) out->why = "this build has no kernels for its kind";
    if (context) cu->cuDevicePrimaryCtxRelease_v2(device);
    snprintf(out->kind, sizeof out->kind, "sm_%d", capability);
    snprintf(out->driver, sizeof out->driver, "%d.%d", version / 1000, version % 1000 / 10);
    out->software = !strncmp(out->name, "Software GPU", 12);
    out->free_bytes = available;
    out->total_bytes = total;
    return true;
}

/* Device and memory of a number of the notation. */
static int ordinal_of(int number) { return number < 0 ? 0 : number; }

/* ---- weights */

static cuda_weights *weights_of(weight_set *w) { return (cuda_weights *)(void *)w; }
static const cuda_weights *weights_at(const weight_set *w) { return (const cuda_weights *)(const void *)w; }

static void close_weights(weight_set *of)
{
    if (!of) return;
    cuda_weights *w = weights_of(of);
    if (w->q.context) w->q.cu->cuCtxSetCurrent(w->q.context);
    cuda_give(&w->q, &w->weights, 0);
    cuda_unpin(&w->q, &w->tables);
    const cu_module images[] = {w->definitions, w->fast, w->prefill, w->wgmma, w->wide};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        if (images[i] && !cuda_hangs(w->q.device)) w->q.cu->cuModuleUnload(images[i]);
    cuda_queue_close(&w->q);
    mem_free(w->wanted);
    mem_free(w->helds);
    mem_free(w);
}

static int open_weights(weight_set **out, const program *p, const bool *reads, const weight_options *o, err *e)
{
    const char *why;
    const cuda_driver *cu = cuda_driver_open(&why);
    *out = NULL;
    if (!cu) return err_set(e, ERR_UNAVAILABLE, "--devices cuda: %s", why);
    int count = 0;
    const int ordinal = ordinal_of(o->number);
    const cuda_options *own = o->own;
    int rc = cuda_check(cu, cu->cuDeviceGetCount(&count), "counting devices", e);
    if (!rc && ordinal >= count)
        rc = err_set(e, ERR_USAGE, "--devices cuda:%d: the NVIDIA driver has %d devices, from 0 on", ordinal, count);
    if (rc) return rc;
    cuda_weights *w = mem_zero(1, sizeof *w);
    if (!w) return err_memory(e, "a CUDA device");
    w->p = p;
    w->ordinal = ordinal;
    w->wanted = mem_zero(p->n_weight + 1, sizeof *w->wanted);
    w->helds = mem_zero(p->n_weight + 1, sizeof *w->helds);
    if (w->wanted) memcpy(w->wanted, reads, p->n_weight * sizeof *reads);
    if (!w->wanted || !w->helds) rc = err_memory(e, "a CUDA device");
    if (!rc) rc = cuda_queue_open(&w->q, cu, ordinal, e);
    if (own && own->timeout > 0) w->q.timeout = own->timeout;
    snprintf(w->isa, sizeof w->isa, "sm_%d", w->q.capability);
    if (!rc) rc = load_kernels(w, e);
    if (!rc) rc = cuda_wide_find(w, o, e);
    if (rc) close_weights((weight_set *)(void *)w);
    else *out = (weight_set *)(void *)w;
    return rc;
}

static int read_weights(weight_set *of, err *e)
{
    cuda_weights *w = weights_of(of);
    w->q.cu->cuCtxSetCurrent(w->q.context);
    return cuda_weights_send(w, e);
}

static uint64_t host_bytes(const weight_set *of)
{
    const cuda_weights *w = weights_at(of);
    uint64_t host;
    cuda_weights_take(w->p, w->wanted, &host);
    return host;
}

static uint64_t weight_bytes(const weight_set *of)
{
    const cuda_weights *w = weights_at(of);
    uint64_t host;
    const uint64_t own = cuda_weights_take(w->p, w->wanted, &host);
    return (w->weights ? w->q.held : own) + host;
}

static uint64_t weights_take(const program *p, const bool *reads)
{
    uint64_t host;
    return cuda_weights_take(p, reads, &host);
}

static const char *cuda_isa(const weight_set *w) { return weights_at(w)->isa; }

static const char *cuda_exact_note(const weight_set *w) { return *weights_at(w)->note ? weights_at(w)->note : NULL; }

/* Workers that have scratch space. */
static int scratch_workers(const program *p)
{
    const uint64_t most = SCRATCH_BYTES / (run_scratch_floats(p) * sizeof(float));
    return most > SCRATCH_WORKERS ? SCRATCH_WORKERS : most ? (int)most : 1;
}

static uint64_t scratch_bytes(const program *p)
{
    return (uint64_t)scratch_workers(p) * run_scratch_floats(p) * sizeof(float);
}

static uint64_t cuda_budget(const weight_set *of)
{
    const cuda_weights *w = weights_at(of);
    size_t available = 0, total = 0;
    w->q.cu->cuCtxSetCurrent(w->q.context);
    return w->q.bad || cuda_hangs(w->q.device) || w->q.cu->cuMemGetInfo_v2(&available, &total) ? 0 : available;
}

static uint64_t cuda_overhead(const weight_set *w, const program *p, int segments)
{
    return scratch_bytes(p) + cuda_wide_bytes(weights_at(w), p) + (uint64_t)segments * STEP_BYTES;
}

/* ---- slots */

static int open_slots(cuda_device *d, err *e)
{
    const uint64_t floats = slots_place(d->slots, d->p, d->cache.slot_rows, NULL);
    if (!floats) return OK;
    if (d->cache.n_slot < 2)
        return err_set(e, ERR_USAGE, "a sequence of this model takes two slots, the device has %d", d->cache.n_slot);
    int rc = cuda_take(&d->q, floats * sizeof(float) * (uint64_t)d->cache.n_slot, "slots", &d->slot_memory, e);
    if (!rc) slots_place(d->slots, d->p, d->cache.slot_rows, (float *)(uintptr_t)d->slot_memory);
    return rc;
}

static int open_turns(cuda_device *d, err *e)
{
    static const uint32_t none[CUDA_TURNS];
    int rc = cuda_take(&d->q, sizeof none, "counters", &d->turns, e);
    return rc ? rc : cuda_send(&d->q, d->turns, none, sizeof none, e);
}

static void cuda_close(dev *of)
{
    if (!of) return;
    cuda_device *d = cuda_device_of(of);
    if (d->q.stream) cuda_wait(&d->q, &(err){0});
    cuda_wide_close(d);
    for (uint32_t i = 0; d->ropes && i < d->p->n_rope * CUDA_VARIANTS; i++)
        cuda_give(&d->q, &d->ropes[i].at, d->ropes[i].bytes);
    cu_address *const taken[] = {&d->scratch,       &d->turns,       &d->program,
                                 &d->rope_variants, &d->slot_memory, &d->constants};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) cuda_give(&d->q, taken[i], 0);
    cuda_pages_close(d);
    cuda_block_free(&d->q, &d->stage);
    cuda_queue_close(&d->q);
    mem_free(d->kv);
    mem_free(d->slots);
    mem_free(d->ropes);
    mem_free(d->constant);
    mem_free(d);
}

static int cuda_open(dev **out, weight_set *of, const program *p, const int max_rows[AXIS_COUNT],
                     const cache_options *o, err *e)
{
    *out = NULL;
    cuda_device *d = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, "a CUDA device");
    d->w = weights_of(of);
    d->p = p;
    d->cache = *o;
    memcpy(d->max_rows, max_rows, sizeof d->max_rows);
    d->scratch_floats = run_scratch_floats(p);
    d->scratch_workers = scratch_workers(p);
    d->kv = mem_zero(p->n_state + 1, sizeof *d->kv);
    d->slots = mem_zero(p->n_state + 1, sizeof *d->slots);
    d->ropes = mem_zero((size_t)p->n_rope * CUDA_VARIANTS + 1, sizeof *d->ropes);
    int rc = cuda_queue_open(&d->q, d->w->q.cu, d->w->ordinal, e);
    d->q.timeout = d->w->q.timeout;
    if (!rc && (!d->kv || !d->slots || !d->ropes)) rc = err_memory(e, "a CUDA device");
    if (!rc) rc = cuda_take(&d->q, scratch_bytes(p), "scratch space", &d->scratch, e);
    if (!rc) rc = open_turns(d, e);
    if (!rc) rc = cuda_pages_open(d, e);
    if (!rc) rc = open_slots(d, e);
    if (!rc) rc = cuda_wide_open(d, e);
    if (rc) cuda_close((dev *)(void *)d);
    else *out = (dev *)(void *)d;
    return rc;
}

/* ---- segments */

static void cuda_discard(dev *of, segment *s)
{
    cuda_device *d = cuda_device_of(of);
    cuda_segment *c = s->compiled;
    if (c) {
        cuda_graphs_drop(d, c);
        cuda_launches_free(c);
        if (c->act) d->activations -= s->act_bytes;
        cuda_give(&d->q, &c->act, s->act_bytes);
        cuda_give(&d->q, &c->run, 0);
        cuda_block_free(&d->q, &c->step);
        cuda_block_free(&d->q, &c->pages);
        cuda_block_free(&d->q, &c->best);
    }
    mem_free(c);
    s->compiled = NULL;
}

static int cuda_compile(dev *of, segment *s, err *e)
{
    cuda_device *d = cuda_device_of(of);
    cuda_segment *c = s->compiled = mem_zero(1, sizeof *c);
    if (!c) return err_memory(e, "a segment");
    c->of = s;
    int rc = cuda_launches_make(c, s, e);
    if (!rc) rc = cuda_program_send(d, s->p, e);
    if (!rc) rc = cuda_take(&d->q, s->act_bytes, "activations", &c->act, e);
    if (!rc) d->activations += s->act_bytes;
    if (!rc) rc = cuda_best_open(d, c, e);
    return rc ? rc : cuda_run_send(d, c, e);
}

/* ---- running */

/* Workers for the definition of an op: as many as it has units of output, about. */
static int64_t op_workers(const cuda_device *d, const step *st, const op *o)
{
    const tensor *t = &d->p->tensors[o->out ? o->out : o->in[0]];
    const int64_t rows = st->n[t->axis], dim = tensor_count(t);
    switch ((op_kind)o->kind) {
    case OP_MATMUL:
    case OP_MATMUL_HEADS:
    case OP_MATMUL_EXP: return dim;
    case OP_ATTN: return rows * o->u.attn.heads;
    case OP_JOIN: return rows * o->u.join.heads;
    case OP_CONV: return dim / LANES + 1;
    case OP_RECUR: return dim;
    case OP_POOL: return rows * (dim / LANES + 1);
    case OP_DISPATCH: return 1;
    default: return rows;
    }
}

static int start_definition(cuda_device *d, const cuda_segment *s, const step *st, uint32_t i, err *e)
{
    const op *o = &d->p->ops[i];
    const bool scratch = op_is(o, OPF_MATRIX) || o->kind == OP_ATTN || o->kind == OP_ROUTE || o->kind == OP_DISPATCH ||
                         o->kind == OP_RECUR;
    const int64_t units = op_workers(d, st, o), most = scratch ? d->scratch_workers : WORKERS_MAX;
    int32_t workers = (int32_t)(units < most ? units : most);
    cu_address r = s->run;
    return cuda_launch(&d->q, d->w->kernels.op[o->kind], workers, BLOCK, (void *[]){&r, &i, &workers}, e);
}

static int start_launch(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e)
{
    const op *o = &d->p->ops[of->first];
    bool done = true;
    if (st->n[d->p->tensors[o->out ? o->out : o->in[0]].axis] == 0) return OK; /* there is nothing to do */
    int rc = cuda_fast_start(d, s, st, of, &done, e);
    for (uint32_t i = of->first; i < of->first + of->n && !done && !rc; i++) rc = start_definition(d, s, st, i, e);
    return rc;
}

/* Shows an activation to the taps that ask for it. */
static int show_taps(cuda_device *d, const cuda_segment *s, const step *st, ref done, err *e)
{
    const tensor *t = &d->p->tensors[done];
    const int64_t rows = done ? st->n[t->axis] : 0;
    const uint64_t bytes = (uint64_t)rows * (uint64_t)tensor_count(t) * sizeof(float);
    int rc = OK;
    for (int32_t i = 0; i < st->n_tap && !rc; i++) {
        const tap *to = &st->taps[i];
        if (to->what != done || !done) continue;
        float *copy = to->to ? to->to : mem_alloc(bytes);
        rc = copy ? cuda_fetch(&d->q, copy, cuda_act_address(s, d->p, done), bytes, e)
                  : err_set(e, ERR_MEMORY, "out of memory for the rows of %s", t->name);
        if (!to->to && !rc) to->take(to->self, copy, rows);
        if (!to->to) mem_free(copy);
    }
    return rc;
}

/* The launches of a stretch. */
int cuda_stretch_start(cuda_device *d, cuda_segment *c, uint32_t stretch, const step *st, err *e)
{
    const uint32_t begin = stretch_begin(c->of, stretch), end = c->of->ends[stretch];
    int rc = OK;
    for (uint32_t i = 0; i < c->n_launch && !rc; i++) {
        const cuda_ops *of = &c->launches[i];
        if (of->first >= begin && of->first < end) rc = start_launch(d, c, st, of, e);
    }
    if (!rc && c->picks && end == d->p->n_op) rc = cuda_best_start(d, c, st, e);
    return rc;
}

/* Its ops one by one, each shown to the taps. */
static int show_stretch(cuda_device *d, cuda_segment *c, uint32_t stretch, const step *st, err *e)
{
    int rc = OK;
    for (uint32_t i = stretch_begin(c->of, stretch); i < c->of->ends[stretch] && !rc; i++) {
        const cuda_ops alone = cuda_launch_alone(c->of, i);
        rc = start_launch(d, c, st, &alone, e);
        if (!rc) rc = show_taps(d, c, st, d->p->ops[i].out, e);
    }
    if (!rc && c->picks && c->of->ends[stretch] == d->p->n_op) rc = cuda_best_start(d, c, st, e);
    return rc;
}

static int cuda_start(dev *of, const segment *s, uint32_t stretch, const step *st, err *e)
{
    cuda_device *d = cuda_device_of(of);
    cuda_segment *c = s->compiled;
    const uint32_t begin = stretch_begin(s, stretch);
    cuda_wide_prepare(d, st);
    cuda_note_rows(&d->q, st);
    if (!stretch) c->picks = cuda_best_asked(d, c, st);
    int rc = stretch ? show_taps(d, c, st, s->p->ops[begin - 1].out, e) : cuda_step_send(d, c, st, e);
    if (rc || begin == s->ends[stretch]) return rc;
    return st->n_tap ? show_stretch(d, c, stretch, st, e) : cuda_graph_start(d, c, stretch, st, cuda_stretch_start, e);
}

static int cuda_step_wait(dev *d, err *e) { return cuda_wait(&cuda_device_of(d)->q, e); }

static uint64_t cuda_held_bytes(const dev *of)
{
    const cuda_device *d = cuda_device_at(of);
    return d->q.held - d->activations + d->q.hosted;
}

const backend cuda_backend = {
    .name = "cuda",
    .chunk = 512,
    .chunk_most = 2048, /* blocks of products for all multiprocessors; SPEED.md */
    .chunk_rate = 2e14,
    .sequences = 256,
    .reads_host = true,
    .fuse = &cuda_fuse,
    .probe = cuda_probe,
    .memory = ordinal_of,
    .takes_int8 = cuda_takes_int8,
    .weights_open = open_weights,
    .weights_read = read_weights,
    .weights_close = close_weights,
    .weight_bytes = weight_bytes,
    .host_bytes = host_bytes,
    .weights_take = weights_take,
    .isa = cuda_isa,
    .exact_note = cuda_exact_note,
    .budget = cuda_budget,
    .overhead = cuda_overhead,
    .open = cuda_open,
    .close = cuda_close,
    .compile = cuda_compile,
    .discard = cuda_discard,
    .act_put = cuda_act_put,
    .act_get = cuda_act_get,
    .ways = &cuda_row_ways,
    .start = cuda_start,
    .wait = cuda_step_wait,
    .is_lost = cuda_is_lost,
    .pick = cuda_pick,
    .page_get = cuda_page_get,
    .page_put = cuda_page_put,
    .fused = cuda_fused,
    .held_bytes = cuda_held_bytes,
};
