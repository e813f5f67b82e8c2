/* cuda_rows.c - rows of activations on their way into a device and out of it: columns that other ranks have computed,
 * results, and the best logit of each row. */
#include "core/act_move.h"
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"

enum { MOVE_BLOCK = 256 }; /* threads of a block that moves columns */

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
    else if (!rc)
        rc = cuda_launch(&d->q, d->w->kernels.columns_in, rows * cols, MOVE_BLOCK,
                         (void *[]){&to, &d->stage.at, (int64_t *)&all, &col0, &cols, &rows}, e);
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

int cuda_pick(dev *of, const segment *s, ref t, int64_t row0, int64_t rows, best_logit *to, err *e)
{
    cuda_device *d = cuda_device_of(of);
    int64_t n = tensor_count(&s->p->tensors[t]);
    cu_address from = cuda_act_address(s->compiled, s->p, t) + (uint64_t)(row0 * n) * sizeof(float);
    const uint64_t bytes = (uint64_t)rows * sizeof *to;
    int rc = cuda_block_grow(&d->q, &d->stage, bytes, "rows", e);
    if (!rc)
        rc = cuda_launch(&d->q, d->w->kernels.pick, rows * PICK_THREADS, PICK_THREADS,
                         (void *[]){&from, &n, &d->stage.at}, e);
    return rc ? rc : cuda_fetch(&d->q, to, d->stage.at, bytes, e);
}

/* What the driver says is not an error of the device: memory that is not pinned is copied by a detour. */
static void cuda_pin(dev *of, void *at, uint64_t bytes)
{
    const cuda_device *d = cuda_device_of(of);
    d->q.cu->cuMemHostRegister_v2(at, bytes, CU_HOST_PORTABLE);
}

static void cuda_unpin(dev *of, void *at)
{
    const cuda_device *d = cuda_device_of(of);
    d->q.cu->cuMemHostUnregister(at);
}

const row_ways cuda_row_ways = {.pin = cuda_pin, .unpin = cuda_unpin};
