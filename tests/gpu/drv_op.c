/* drv_op.c - one piece of work: a kernel, a copy, a set. Copies of pinned memory read and write it when they run,
 * which is late. */
#include "tests/gpu/drv_state.h"
#include "tests/gpu/plant.h"

#include <stdlib.h>
#include <string.h>

op *op_new(op_kind kind, context *cx)
{
    op *o = calloc(1, sizeof *o);
    if (!o) abort();
    o->kind = kind;
    o->cx = cx;
    return o;
}

void op_free(op *o)
{
    if (o->running) launch_free(o->running);
    if (o->run) graph_run_free(o->run);
    free(o->params);
    free(o->staged);
    free(o->waits);
    free(o);
}

op *op_copy(const op *o)
{
    op *copy = op_new(o->kind, o->cx);
    *copy = *o;
    copy->waits = NULL;
    copy->n_wait = 0;
    copy->next = NULL;
    if (o->params) {
        copy->params = malloc(PARAM_BYTES);
        if (!copy->params) abort();
        memcpy(copy->params, o->params, PARAM_BYTES);
    }
    return copy;
}

/* Host memory of device bytes; NULL breaks the context. */
static uint8_t *bytes_at(const op *o, uint64_t at)
{
    const gpu_range *r = gpu_range_near(at);
    if (gpu_range_holds(r, at, o->bytes)) return r->host + (at - r->at);
    drv_say("error 700: a copy or set of %zu bytes at %#llx: %s", o->bytes, (unsigned long long)at, gpu_tell(at));
    o->cx->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    return NULL;
}

static void copy_now(const op *o)
{
    uint8_t *to = o->to_host ? (uint8_t *)(uintptr_t)o->to : bytes_at(o, o->to);
    const uint8_t *from = o->staged ? o->staged : o->from_host ? (uint8_t *)(uintptr_t)o->from : bytes_at(o, o->from);
    if (to && from) memmove(to, from, o->bytes);
}

static void set_now(const op *o)
{
    uint8_t *to = bytes_at(o, o->to);
    for (size_t i = 0; to && i < o->bytes; i += (size_t)o->unit) memcpy(to + i, &o->value, (size_t)o->unit);
}

static bool kernel_step(op *o, int64_t budget)
{
    if (!o->running) {
        drv_count.kernels++;
        o->running = launch_new(o->fn->of->p, o->fn->index, o->grid, o->dim, o->dynamic);
        o->running->device = o->cx->device;
        o->running->random = drv_set.seed;
        o->running->patience = drv_set.patience;
        memcpy(o->running->params, o->params, PARAM_BYTES);
    }
    if (!launch_run(o->running, budget)) return false;
    if (o->running->fault) o->cx->broken = o->running->fault;
    launch_free(o->running);
    o->running = NULL;
    return true;
}

/* Whether it is the piece of work that is left out. */
static bool drops_now(const op *o)
{
    if (o->kind == OP_COPY) return plant_now("copy:");
    if (o->kind != OP_KERNEL || o->running || !plant_now("kernel:")) return false;
    drv_say("left out: %s, %u x %u blocks", o->fn->of->p->m->function[o->fn->index].name, o->grid[0], o->grid[1]);
    return true;
}

bool op_step(op *o)
{
    if (o->cx->broken || drops_now(o)) return true;
    switch (o->kind) {
    case OP_KERNEL: return kernel_step(o, 100000);
    case OP_COPY: copy_now(o); return true;
    case OP_SET: set_now(o); return true;
    case OP_GRAPH: return graph_run_step(o->run);
    case OP_NOTHING: return true;
    }
    return true;
}
