/* run.h - what a definition of an op is given, and how it reads its operands.
 *
 * The file def_<op>.c holds the definition of an op: plain C, which kernels of every device must equal in every bit.
 * It is called by every worker at once and takes its share of output units, never of a reduction, so results do not
 * depend on the number of workers: on the CPU a worker is a thread of a pool, on a GPU a thread of a grid. out may be
 * the memory of in[0] for NORM and ops with OPF_IN_PLACE; otherwise operands do not overlap.
 *
 * nvcc compiles these files as they are (base/gpu.h). */
#pragma once
#include "base/gpu.h"
#include "core/op.h"
#include "core/step.h"
#include "ops/held.h"

/* One step of one segment on one device. */
typedef struct run {
    const program *p;
    const step *st;
    uint8_t *act;            /* arena of the segment; activations at tensor.off */
    const held_weight *held; /* [p->n_weight] */
    const kv_store *kv;      /* [p->n_state] */
    const slot_store *slots; /* [p->n_state] */
    float *scratch;          /* [workers][scratch_floats] */
    uint64_t scratch_floats; /* run_scratch_floats at least */
    struct dev *on;          /* for kernels that need more than this */
} run;

/* A definition or a kernel. All workers call it; each takes its share of output units (never of a reduction). */
typedef void (*kernel)(const run *r, const op *o, int worker, int workers);

/* Floats of scratch space that a worker needs for the definitions of all ops of a program. */
uint64_t run_scratch_floats(const program *p);

/* ---- operands of the op being run */
static inline const tensor *arg_info(const run *r, ref t) { return &r->p->tensors[t]; }
static inline int64_t arg_rows(const run *r, ref t) { return r->st->n[arg_info(r, t)->axis]; }
/* Elements of one row of an activation; all elements of a weight or constant vector. */
static inline int64_t arg_dim(const run *r, ref t) { return tensor_count(arg_info(r, t)); }
static inline const held_weight *arg_weight(const run *r, ref t) { return &r->held[arg_info(r, t)->weight]; }
/* Values of an activation, a constant, or a vector weight; NULL for ref 0. */
static inline float *arg_at(const run *r, ref t)
{
    if (!t) return NULL;
    const tensor *i = arg_info(r, t);
    if (i->kind == TENSOR_CONST) return (float *)i->data;
    if (i->kind == TENSOR_WEIGHT) return (float *)arg_weight(r, t)->data;
    return (float *)(r->act + i->off);
}
static inline float *arg_scratch(const run *r, int worker) { return r->scratch + (uint64_t)worker * r->scratch_floats; }
static inline int32_t step_page(const step *st, int group, int seq, int tile)
{
    return st->page[((int64_t)group * st->n_seq + seq) * st->page_cap + tile];
}

/* The units [*from, *to) of n that a worker takes; borders are multiples of `grain`. Ops with OPF_ELEMENTWISE share
 * all elements of the output with grain LANES, on every instruction set: the CPU puts no barrier between them. */
static inline void run_share(int64_t n, int64_t grain, int worker, int workers, int64_t *from, int64_t *to)
{
    int64_t grains = (n + grain - 1) / grain;
    int64_t a = grains * worker / workers * grain, b = grains * (worker + 1) / workers * grain;
    *from = a < n ? a : n;
    *to = b < n ? b : n;
}

/* ---- what definitions share */
enum { LANES = 16 }; /* partial sums of every float reduction: element i belongs to lane i mod 16 */
static inline float lanes_fold(const float a[LANES])
{
    float s[8];
    for (int i = 0; i < 8; i++) s[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
    for (int i = 0; i < 2; i++) s[i] = s[i] + s[i + 2];
    return s[0] + s[1];
}

enum { ATTN_RANGE = 512 }; /* keys per range: ranges are reduced on their own, then merged ascending */

GPU_CODE float def_dot(const float *w, const float *x, int64_t k); /* of MATMUL and its relatives */

/* The definitions: def_<op>. */
#define X(id, name, facts, doc) GPU_CODE void def_##name(const run *r, const op *o, int worker, int workers);
KERNEL_LIST(X)
#undef X

/* MATMUL of packed weights with int8 activations: called by def_matmul. */
GPU_CODE void def_qmatmul(const run *r, const op *o, int worker, int workers);
