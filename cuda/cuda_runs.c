/* cuda_runs.c - see cuda_runs.h (kernel: rows.cuh): which ops follow each other, in which slot of shared memory a row
 * lies, and the parameters.
 *
 * A run grows as long as every op takes rows that lie in a slot, or come from before the run, and gives rows of the
 * same length. So ADD, NORM and QUANT are one launch, and so are ACT, MUL and QUANT, or SCATTER and what follows. */
#include "cuda/cuda_runs.h"
#include "cuda/cuda_args.h"
#include "tensor/act_q8.h"

enum { SHARED_MAX = 96 << 10 }; /* bytes of dynamic shared memory that every device gives when asked: 99 KiB in all */
enum { NONE = -1, OPS = 8 };    /* ops of a run at most */

/* Where the rows of an op are: slots. `from` of a first operand that is loaded: where to. */
typedef struct place {
    int8_t from, to, second;
    bool loads; /* the first operand comes from before the run */
} place;

typedef struct run_plan {
    const segment *s;
    uint32_t first, n;
    ref holds[RUN_SLOTS];
    int64_t dim;
    int slots;  /* used */
    bool whole; /* a block of threads needs the whole row */
    place at[OPS];
} run_plan;

static bool brings_rows(const op *o)
{
    return o->kind == OP_COLUMNS || o->kind == OP_TAKE_OUT || o->kind == OP_GATHER || o->kind == OP_SCATTER;
}

static bool takes_op(const program *p, const op *o)
{
    if ((o->kind == OP_SCATTER && p->n_used > RUN_USED) || (o->kind == OP_COLUMNS && o->in[1])) return false;
    return op_is(o, OPF_ELEMENTWISE) || o->kind == OP_NORM || o->kind == OP_QUANT || brings_rows(o);
}

static int slot_of(const run_plan *r, ref t)
{
    for (int k = 0; k < RUN_SLOTS; k++)
        if (t && r->holds[k] == t) return k;
    return NONE;
}

static bool made_here(const run_plan *r, ref t)
{
    for (uint32_t i = r->first; i < r->first + r->n; i++)
        if (t && r->s->p->ops[i].out == t) return true;
    return false;
}

/* Whether an op soon after op i reads t, perhaps one of the run. */
static bool needed_after(const run_plan *r, uint32_t i, ref t)
{
    const program *p = r->s->p;
    for (uint32_t j = i + 1; t && j < p->n_op && j < r->first + OPS; j++)
        for (int k = 0; k < 4; k++)
            if (p->ops[j].in[k] == t) return true;
    return false;
}

static int free_slot(const run_plan *r, uint32_t i)
{
    for (int k = 0; k < RUN_SLOTS; k++)
        if (!needed_after(r, i, r->holds[k])) return k;
    return NONE;
}

/* Floats of a slot: a row, or RUN_COLUMNS of it, in whole blocks of codes. */
static int64_t slot_floats(const run_plan *r)
{
    const int64_t all = act_padded(r->dim);
    return r->whole || all < RUN_COLUMNS ? all : RUN_COLUMNS;
}

/* Finds the slots of op i, and whether its operands are at hand. */
static bool find_place(const run_plan *r, uint32_t i, place *at)
{
    const op *o = &r->s->p->ops[i];
    for (int k = 0; k < 4; k++)
        if (made_here(r, o->in[k]) && (brings_rows(o) || slot_of(r, o->in[k]) == NONE)) return false;
    const int from = slot_of(r, o->in[0]);
    *at = (place){.from = (int8_t)from, .second = (int8_t)slot_of(r, o->in[1]), .loads = from == NONE};
    int to = free_slot(r, i);
    if (from != NONE && (o->kind == OP_QUANT || to == NONE || !needed_after(r, i, o->in[0]))) to = from;
    if (to == NONE) return false;
    at->to = (int8_t)to;
    if (at->loads) at->from = at->to;
    return true;
}

static bool add_op(run_plan *r, uint32_t i)
{
    const program *p = r->s->p;
    const op *o = &p->ops[i];
    place at;
    if (r->n == OPS || i >= p->n_op || !takes_op(p, o)) return false;
    const tensor *out = &p->tensors[o->out];
    if (r->n && (out->axis != p->tensors[p->ops[r->first].out].axis || tensor_count(out) != r->dim)) return false;
    if (!find_place(r, i, &at)) return false;
    run_plan more = *r;
    more.dim = tensor_count(out);
    more.whole = r->whole || o->kind == OP_NORM;
    if (at.to >= more.slots) more.slots = at.to + 1;
    if (more.slots * slot_floats(&more) * (int64_t)sizeof(float) > SHARED_MAX) return false;
    more.at[more.n++] = at;
    if (at.loads && !brings_rows(o)) more.holds[at.from] = o->in[0];
    if (o->kind != OP_QUANT) more.holds[at.to] = o->out;
    *r = more;
    return true;
}

static run_plan plan_run(const segment *s, uint32_t first, uint32_t most)
{
    run_plan r = {.s = s, .first = first};
    while (r.n < most && add_op(&r, first + r.n)) continue;
    return r;
}

int cuda_run_load(cuda_weights *w, err *e)
{
    return cuda_done(&w->q, w->q.cu->cuFuncSetAttribute(w->kernels.rows, CU_SHARED_DYNAMIC, SHARED_MAX),
                     "preparing a kernel", e);
}

uint32_t cuda_run_length(const segment *s, uint32_t first) { return plan_run(s, first, OPS).n; }

/* The second operand: of the same shape, one number for each row, or a vector. */
static void take_second(const cuda_device *d, const cuda_segment *s, const op *o, run_step *to)
{
    const tensor *b = &d->p->tensors[o->in[1]];
    const int64_t dim = tensor_count(&d->p->tensors[o->out]);
    to->b = cuda_at(d, s, o->in[1]);
    to->b_row = b->kind != TENSOR_ACT ? 0 : tensor_count(b) < dim ? 1 : dim;
    to->b_column = b->kind != TENSOR_ACT || tensor_count(b) == dim;
}

/* A row from where it lies into a slot. */
static run_step load_step(const cuda_device *d, const cuda_segment *s, ref t, int to)
{
    return (run_step){
        .kind = OP_COLUMNS, .to = (int8_t)to, .x = cuda_at(d, s, t), .x_dim = tensor_count(&d->p->tensors[t])};
}

static run_step op_step(const cuda_device *d, const cuda_segment *s, const op *o, const place *at)
{
    const program *p = d->p;
    run_step to = {.kind = o->kind, .from = at->from, .to = at->to, .second = at->second};
    switch ((op_kind)o->kind) {
    case OP_ADD:
    case OP_MUL: take_second(d, s, o, &to); break;
    case OP_SCALE: to.f = o->u.scale.factor; break;
    case OP_SOFTCAP: to.f = o->u.softcap.cap; break;
    case OP_CLAMP: to.f = o->u.clamp.limit, to.i[0] = o->u.clamp.above; break;
    case OP_ACT: to.i[0] = o->u.act.fn; break;
    case OP_QUANT: to.i[0] = p->tensors[o->out].block, to.i[1] = o->u.quant.residual; break;
    case OP_NORM:
        to.b = cuda_at(d, s, o->in[1]);
        to.c = cuda_at(d, s, o->in[2]);
        to.gain_n = o->in[1] ? tensor_count(&p->tensors[o->in[1]]) : 1;
        to.bias_n = o->in[2] ? tensor_count(&p->tensors[o->in[2]]) : 1;
        to.i[0] = o->u.norm.kind, to.i[1] = o->u.norm.width, to.f = o->u.norm.eps;
        break;
    default:
        to.x = cuda_at(d, s, o->in[0]);
        to.x_dim = tensor_count(&p->tensors[o->in[0]]);
        to.table = o->kind == OP_COLUMNS ? NULL : cuda_at(d, s, o->in[1]);
        to.c = cuda_at(d, s, o->in[2]);
        to.from_column = o->kind == OP_COLUMNS ? o->u.columns.from : 0;
        to.i[0] = p->n_used;
    }
    return to;
}

static void add_steps(const cuda_device *d, const cuda_segment *s, const op *o, const place *at, bool kept, run_args *a)
{
    run_step to = op_step(d, s, o, at);
    if (at->loads && (o->kind == OP_ADD || o->kind == OP_MUL)) {
        to.from = NONE;
        to.x = cuda_at(d, s, o->in[0]);
        to.x_dim = a->dim;
    } else if (at->loads && !brings_rows(o)) {
        a->steps[a->n++] = load_step(d, s, o->in[0], at->from);
    }
    to.y = kept || o->kind == OP_QUANT ? cuda_at(d, s, o->out) : NULL;
    a->steps[a->n++] = to;
}

int cuda_run_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e)
{
    const run_plan r = plan_run(s->of, of->first, of->n);
    const tensor *out = &d->p->tensors[d->p->ops[of->first].out];
    run_args a = {
        .st = cuda_step_at(s), .live = cuda_live(s, out->axis), .dim = r.dim, .padded = (int32_t)slot_floats(&r)};
    for (uint32_t i = 0; i < r.n; i++)
        add_steps(d, s, &d->p->ops[of->first + i], &r.at[i], !of->kept || of->kept[of->first + i], &a);
    const int64_t threads = cuda_blocks(a.padded, 128) * 32;
    const cuda_grid grid = {st->n[out->axis], cuda_blocks(r.dim, a.padded),
                            threads > RUN_THREADS ? RUN_THREADS : (int)threads,
                            (uint64_t)r.slots * (uint64_t)a.padded * sizeof(float)};
    return cuda_launch_fast(&d->q, d->w->kernels.rows, grid, (void *[]){&a}, e);
}
