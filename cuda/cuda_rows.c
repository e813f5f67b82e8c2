/* cuda_rows.c - rows of activations on their way into a device and out of it: columns that other ranks have computed,
 * results, and the best logit of each row. */
#include "base/mem.h"
#include "core/act_move.h"
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"

#include <string.h>

enum { MOVE_BLOCK = 256 }; /* threads of a block that moves columns */

/* Columns that are in the stage to their place. */
static int place_columns(cuda_device *d, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, err *e)
{
    const tensor *a = &s->p->tensors[t];
    int64_t all = tensor_count(a);
    cu_address to = cuda_act_address(s->compiled, s->p, t);
    return cuda_launch(&d->q, d->w->kernels.columns_in, rows * cols, MOVE_BLOCK,
                       (void *[]){&to, &d->stage.at, &all, &col0, &cols, &rows}, e);
}

int cuda_act_put(dev *of, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows, const void *from, err *e)
{
    cuda_device *d = cuda_device_of(of);
    const cuda_segment *c = s->compiled;
    const tensor *a = &s->p->tensors[t];
    const int64_t all = tensor_count(a);
    const uint64_t bytes = (uint64_t)rows * act_move_bytes(a, cols);
    cu_address to = cuda_act_address(c, s->p, t), act = c->act, p = d->program;
    int rc;
    if (!a->block && cols == all) {
        rc = cuda_send(&d->q, to, from, bytes, e);
        return rc ? rc : cuda_wait(&d->q, e);
    }
    rc = cuda_block_grow(&d->q, &d->stage, bytes, "rows", e);
    if (!rc) rc = cuda_send(&d->q, d->stage.at, from, bytes, e);
    if (!rc && a->block)
        rc = cuda_launch(&d->q, d->w->kernels.move_in, 1, 1,
                         (void *[]){&p, &act, &t, &col0, &cols, &rows, &d->stage.at}, e);
    else if (!rc) rc = place_columns(d, s, t, col0, cols, rows, e);
    return rc ? rc : cuda_wait(&d->q, e);
}

int cuda_act_get(dev *of, const segment *s, ref t, int64_t row0, int64_t rows, void *to, err *e)
{
    cuda_device *d = cuda_device_of(of);
    const cuda_segment *c = s->compiled;
    const tensor *a = &s->p->tensors[t];
    const uint64_t row = act_move_bytes(a, tensor_count(a)), bytes = (uint64_t)rows * row;
    if (!a->block) return cuda_fetch(&d->q, to, cuda_act_address(c, s->p, t) + (uint64_t)row0 * row, bytes, e);
    cu_address act = c->act, p = d->program;
    int rc = cuda_block_grow(&d->q, &d->stage, bytes, "rows", e);
    if (!rc)
        rc = cuda_launch(&d->q, d->w->kernels.move_out, 1, 1, (void *[]){&p, &act, &t, &row0, &rows, &d->stage.at}, e);
    return rc ? rc : cuda_fetch(&d->q, to, d->stage.at, bytes, e);
}

/* Starts the kernel that picks the best logits of rows from `logits` on. */
static int start_pick(cuda_device *d, int64_t rows, pick_args a, err *e)
{
    return cuda_launch_fast(&d->q, d->w->kernels.pick, (cuda_grid){rows, 1, PICK_THREADS, 0}, (void *[]){&a}, e);
}

static uint64_t best_room(const cuda_device *d) { return (uint64_t)d->max_rows[AXIS_OUT] * BEST_MAX; }

int cuda_best_open(cuda_device *d, cuda_segment *s, err *e)
{
    const program *p = d->p;
    const ref last = p->n_op ? p->ops[p->n_op - 1].out : 0;
    for (uint32_t i = 0; i < s->of->n_out && last; i++)
        if (s->of->out[i] == last && p->tensors[last].axis == AXIS_OUT && !p->tensors[last].block) s->best_of = last;
    if (!s->best_of) return OK;
    return cuda_block_grow(&d->q, &s->best, best_room(d) * sizeof(best_logit), "the best logits", e);
}

/* Rounded up to a power of two, since the steps of one graph copy as many. */
int32_t cuda_best_asked(const cuda_device *d, const cuda_segment *s, const step *st)
{
    uint64_t n = 0, asked = 0;
    for (int32_t i = 0; i < st->n[AXIS_OUT] && s->best_of; i++) n += (uint64_t)step_best(st, i);
    for (asked = n > 0; asked < n;) asked *= 2;
    return (int32_t)(asked < best_room(d) ? asked : best_room(d));
}

int cuda_best_start(cuda_device *d, const cuda_segment *s, const step *st, err *e)
{
    const uint64_t bytes = (uint64_t)s->picks * sizeof(best_logit);
    const pick_args a = {.logits = (const float *)(uintptr_t)cuda_act_address(s, d->p, s->best_of),
                         .n = tensor_count(&d->p->tensors[s->best_of]),
                         .st = cuda_step_at(s),
                         .to = (best_logit *)(uintptr_t)s->best.at};
    int rc = start_pick(d, st->n[AXIS_OUT], a, e);
    if (rc) return rc;
    return cuda_done(&d->q, d->q.cu->cuMemcpyDtoHAsync_v2(s->best.host, s->best.at, bytes, cuda_stream_of(&d->q)),
                     "copying from the device", e);
}

/* The best logits of a row, which the step has brought. */
static const best_logit *brought_best(const cuda_segment *s, int64_t row)
{
    const best_logit *at = (const best_logit *)(const void *)s->best.host;
    for (int64_t i = 0; i < row; i++) at += s->wanted[i];
    return at;
}

int cuda_pick(dev *of, const segment *s, ref t, int64_t row0, int64_t rows, int32_t k, best_logit *to, err *e)
{
    cuda_device *d = cuda_device_of(of);
    const cuda_segment *c = s->compiled;
    const uint64_t bytes = (uint64_t)rows * (uint64_t)k * sizeof *to;
    if (c->picks && t == c->best_of) {
        memcpy(to, brought_best(c, row0), bytes);
        return OK;
    }
    int rc = cuda_block_grow(&d->q, &d->stage, bytes, "rows", e);
    const int64_t n = tensor_count(&d->p->tensors[t]);
    const pick_args a = {.logits = (const float *)(uintptr_t)cuda_act_address(c, d->p, t) + row0 * n,
                         .n = n,
                         .k = k,
                         .to = (best_logit *)(uintptr_t)d->stage.at};
    if (!rc) rc = start_pick(d, rows, a, e);
    return rc ? rc : cuda_fetch(&d->q, to, d->stage.at, bytes, e);
}

/* What the driver says is not an error of the device: memory that is not pinned is copied by a detour. */
static void pin_rows(dev *of, void *at, uint64_t bytes)
{
    const cuda_device *d = cuda_device_of(of);
    d->q.cu->cuMemHostRegister_v2(at, bytes, CU_HOST_PORTABLE);
}

static void unpin_rows(dev *of, void *at)
{
    const cuda_device *d = cuda_device_of(of);
    if (!cuda_hangs(d->q.device)) d->q.cu->cuMemHostUnregister(at);
}

/* ---- from device to device */

struct parcel {
    cuda_queue *of; /* the device that fills it */
    cu_address at;
    uint64_t bytes;
    cu_event full;
};

static void close_parcel(parcel *p)
{
    const cuda_driver *cu = p->of->cu;
    cu->cuCtxSetCurrent(p->of->context);
    if (p->full && !cuda_hangs(p->of->device)) cu->cuEventDestroy_v2(p->full);
    cuda_give(p->of, &p->at, p->bytes);
    mem_free(p);
}

static int open_parcel(parcel **out, dev *of, uint64_t bytes, err *e)
{
    cuda_device *d = cuda_device_of(of);
    parcel *p = mem_zero(1, sizeof *p);
    *out = NULL;
    if (!p) return err_memory(e, "rows between devices");
    p->of = &d->q;
    p->bytes = bytes;
    int rc = cuda_take(&d->q, bytes, "rows between devices", &p->at, e);
    if (!rc) rc = cuda_done(&d->q, d->q.cu->cuEventCreate(&p->full, CU_EVENT_UNTIMED), "making an event", e);
    if (rc) close_parcel(p);
    else *out = p;
    return rc;
}

static int fill_parcel(parcel *p, dev *of, const segment *s, ref t, int64_t rows, err *e)
{
    cuda_device *d = cuda_device_of(of);
    const uint64_t bytes = (uint64_t)rows * (uint64_t)tensor_count(&s->p->tensors[t]) * sizeof(float);
    int rc = cuda_copy(&d->q, p->at, d->q.context, cuda_act_address(s->compiled, s->p, t), bytes, e);
    return rc ? rc : cuda_done(&d->q, d->q.cu->cuEventRecord(p->full, cuda_stream_of(&d->q)), "recording an event", e);
}

static int take_parcel(const parcel *p, dev *of, const segment *s, ref t, int64_t col0, int64_t cols, int64_t rows,
                       err *e)
{
    cuda_device *d = cuda_device_of(of);
    const uint64_t bytes = (uint64_t)(rows * cols) * sizeof(float);
    const bool whole = cols == tensor_count(&s->p->tensors[t]);
    int rc = whole ? OK : cuda_block_grow(&d->q, &d->stage, bytes, "rows", e);
    if (!rc)
        rc = cuda_done(&d->q, d->q.cu->cuStreamWaitEvent(cuda_stream_of(&d->q), p->full, 0), "waiting for a device", e);
    const cu_address to = whole ? cuda_act_address(s->compiled, s->p, t) : d->stage.at;
    if (!rc) rc = cuda_copy(&d->q, to, p->of->context, p->at, bytes, e);
    return rc || whole ? rc : place_columns(d, s, t, col0, cols, rows, e);
}

const row_ways cuda_row_ways = {.pin = pin_rows,
                                .unpin = unpin_rows,
                                .parcel_open = open_parcel,
                                .parcel_close = close_parcel,
                                .parcel_fill = fill_parcel,
                                .parcel_take = take_parcel,
                                .join = &cuda_join_ways};
