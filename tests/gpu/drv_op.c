/* drv_op.c - one piece of work: a kernel, a copy, a set. Copies of pinned memory read and write it when they run,
 * which is late.
 *
 * A kernel that waits for something may fill its device as far as anybody knows: none begins beside it there. Other
 * devices go on. */
#include "tests/gpu/drv_state.h"
#include "tests/gpu/plant.h"

#include <stdlib.h>
#include <string.h>

enum { IDLE_TURNS = 16, IDLE_NS = 500000 };
static const launch *waiting[GPU_DEVICES]; /* of each device */
static int n_waiting, idle_turns;          /* idle_turns: of kernels that wait, and of nothing else since */

static void note_waiting(int device, const launch *l, bool waits)
{
    if (waits ? waiting[device] != NULL : waiting[device] != l) return;
    waiting[device] = waits ? l : NULL;
    n_waiting += waits ? 1 : -1;
}

bool op_waits(void) { return n_waiting > 0; }

/* Time goes on outside of the devices as it does there: others may be on their way to launch something. */
void op_idle(void)
{
    if (idle_turns < IDLE_TURNS) return;
    idle_turns = 0;
    machine_idle += drv_sleep(IDLE_NS);
}

static void end_launch(op *o)
{
    note_waiting(o->cx->device, o->running, false);
    launch_free(o->running);
    o->running = NULL;
}

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
    if (o->running) end_launch(o);
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

bool op_lets_begin(const op *o, const op *next)
{
    return o->kind == OP_KERNEL && next->kind == OP_KERNEL && next->depends && o->running &&
           launch_lets_begin(o->running);
}

static bool kernel_step(op *o, int64_t budget)
{
    if (!o->running) {
        if (waiting[o->cx->device]) return false;
        drv_count.kernels++;
        o->running = launch_new(o->fn->of->p, o->fn->index, o->grid, o->dim, o->dynamic);
        o->running->device = o->cx->device;
        o->running->random = drv_set.seed;
        o->running->patience = drv_set.patience;
        o->running->depends = o->depends;
        drv_count.early += o->held;
        memcpy(o->running->params, o->params, PARAM_BYTES);
    }
    o->running->held = o->held;
    const bool done = launch_run(o->running, budget);
    note_waiting(o->cx->device, o->running, o->running->waits);
    idle_turns = o->running->waits ? idle_turns + 1 : 0;
    if (!done) return false;
    if (o->running->fault) o->cx->broken = o->running->fault;
    end_launch(o);
    return true;
}

/* Whether it is a piece of work that is left out. */
static bool drops_now(const op *o)
{
    static bool stopped[GPU_DEVICES];
    if (o->kind == OP_COPY) return plant_now("copy:");
    if (o->kind != OP_KERNEL || o->running) return false;
    const char *name = o->fn->of->p->m->function[o->fn->index].name;
    if (plant_stops(name)) stopped[o->cx->device] = true;
    if (stopped[o->cx->device] || !plant_now("kernel:")) return stopped[o->cx->device];
    drv_say("left out: %s, %u x %u blocks", name, o->grid[0], o->grid[1]);
    return true;
}

/* Whether its device hangs, from this piece of work on. */
static bool hangs_now(const op *o)
{
    static bool hung[GPU_DEVICES];
    bool *now = &hung[o->cx->device];
    if (o->kind == OP_KERNEL && !o->running && !*now) *now = plant_hangs(o->fn->of->p->m->function[o->fn->index].name);
    if (*now) machine_idle += drv_sleep(IDLE_NS);
    return *now;
}

bool op_step(op *o)
{
    if (hangs_now(o)) return false;
    if (o->cx->broken || drops_now(o)) return true;
    switch (o->kind) {
    case OP_KERNEL: return kernel_step(o, 100000);
    case OP_COPY: copy_now(o); break;
    case OP_SET: set_now(o); break;
    case OP_GRAPH: return graph_run_step(o->run);
    case OP_NOTHING: break;
    }
    idle_turns = 0;
    return true;
}
