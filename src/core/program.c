/* program.c - builds a program: appends tensors, weights, states, tables and ops, and refuses what does not fit.
 * Arrays grow by doubling inside the program's arena, so the whole model description is one lifetime. */
#include "core/program.h"
#include "tensor/act_q8.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { FIRST_CAP = 32, DIM_MAX = INT32_MAX };

/* Room for one more element: capacities are FIRST_CAP times powers of two, so the count alone says when to grow. */
static bool grow_array(program *p, void **array, uint32_t n, size_t size, err *e)
{
    bool full = n == 0 || (n >= FIRST_CAP && (n & (n - 1)) == 0);
    if (!full) return true;
    void *more = arena_array(&p->mem, n ? (size_t)n * 2 : FIRST_CAP, size);
    if (!more) {
        err_memory(e, "the program");
        return false;
    }
    if (n) memcpy(more, *array, n * size);
    *array = more;
    return true;
}

program *program_new(err *e)
{
    program *p = mem_zero(1, sizeof *p);
    if (!p) {
        err_memory(e, "a program");
        return NULL;
    }
    if (!grow_array(p, (void **)&p->tensors, 0, sizeof *p->tensors, e)) {
        program_free(p);
        return NULL;
    }
    p->n_tensor = 1; /* ref 0 means none */
    return p;
}

void program_free(program *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n_rope && !p->of; i++) rope_close(&p->ropes[i]);
    arena_free(&p->mem);
    mem_free(p);
}

/* Room for n elements as grow would have made it. */
static uint32_t grown(uint32_t n)
{
    uint32_t cap = FIRST_CAP;
    while (cap < n) cap *= 2;
    return cap;
}

program *program_slice(const program *p, err *e)
{
    program *s = mem_zero(1, sizeof *s);
    if (s) {
        *s = *p;
        s->of = p;
        s->mem = (arena){0};
        s->ops = NULL;
        s->n_op = s->n_cut = 0;
        s->tensors = arena_array(&s->mem, grown(p->n_tensor), sizeof *s->tensors);
        s->weights = arena_array(&s->mem, grown(p->n_weight), sizeof *s->weights);
        s->cuts = arena_array(&s->mem, (size_t)p->n_cut + 1, sizeof *s->cuts);
        for (int k = 0; k < ENTRY_COUNT; k++) s->entries[k].op0 = s->entries[k].op1 = UINT32_MAX;
    }
    if (!s || !s->tensors || !s->weights || !s->cuts) {
        program_free(s);
        err_memory(e, "a segment");
        return NULL;
    }
    memcpy(s->tensors, p->tensors, p->n_tensor * sizeof *s->tensors);
    if (p->n_weight) memcpy(s->weights, p->weights, p->n_weight * sizeof *s->weights);
    return s;
}

void program_slice_mark(program *slice, const program *p, uint32_t i)
{
    for (int k = 0; k < ENTRY_COUNT; k++) {
        if (p->entries[k].op0 == i) slice->entries[k].op0 = slice->n_op;
        if (p->entries[k].op1 == i) slice->entries[k].op1 = slice->n_op;
    }
    for (uint32_t k = 0; k < p->n_cut; k++)
        if (p->cuts[k] == i) slice->cuts[slice->n_cut++] = slice->n_op;
}

bool program_stores(const program *p, uint32_t number)
{
    uint32_t k = 0;
    while (k < p->n_op && (p->ops[k].kind != OP_KV_PUT || p->ops[k].state != (int)number)) k++;
    return k < p->n_op;
}

int64_t program_slot_row(const program *p, const op *o)
{
    int64_t floats = 0;
    for (size_t k = 0; k < sizeof o->in / sizeof *o->in; k++)
        if (o->in[k] && p->tensors[o->in[k]].kind == TENSOR_ACT) floats += tensor_count(&p->tensors[o->in[k]]);
    return floats;
}

uint64_t program_slot_bytes(const program *p, int rows)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < p->n_op; i++)
        if (op_is(&p->ops[i], OPF_SLOT))
            floats += (uint64_t)(p->states[p->ops[i].state].slot_floats + rows * program_slot_row(p, &p->ops[i]));
    return floats * sizeof(float);
}

uint64_t tensor_row_bytes(const tensor *t)
{
    int64_t n = tensor_count(t);
    return t->block ? act_row_bytes(n, t->block) : (uint64_t)n * sizeof(float);
}

int64_t program_row_products(const program *p, const op *o)
{
    if (!op_is(o, OPF_MATRIX)) return 0;
    const tensor *w = &p->tensors[o->in[1]];
    return tensor_count(w) / (o->kind == OP_MATMUL_EXP ? p->weights[w->weight].parts : 1);
}

ref program_tensor(program *p, const tensor *t, err *e)
{
    const char *name = t->name ? t->name : "?";
    uint64_t n = 1;
    if (t->rank < 1 || t->rank > 3) return err_set(e, ERR_SPEC, "tensor %s: rank %d", name, t->rank), 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 1 || t->dim[i] > DIM_MAX || !mem_mul(n, (uint64_t)t->dim[i], &n) || n > (uint64_t)1 << 48)
            return err_set(e, ERR_SPEC, "tensor %s: dimension %" PRId64 " is out of range", name, t->dim[i]), 0;
    if ((t->kind == TENSOR_ACT) != (t->axis != AXIS_NONE) || t->axis >= AXIS_COUNT)
        return err_set(e, ERR_SPEC, "tensor %s: only activations have a row axis", name), 0;
    if (t->kind == TENSOR_ACT && n > DIM_MAX)
        return err_set(e, ERR_SPEC, "tensor %s: activations are float32, at most %d a row", name, DIM_MAX), 0;
    if (t->whole && (t->kind != TENSOR_ACT || (uint64_t)t->whole < n || t->whole > DIM_MAX))
        return err_set(e, ERR_SPEC, "tensor %s: %" PRIu64 " columns of %" PRId64, name, n, t->whole), 0;
    if (t->kind == TENSOR_CONST && !t->data) return err_set(e, ERR_SPEC, "constant %s has no values", name), 0;
    if (t->kind == TENSOR_WEIGHT) {
        if (t->weight >= p->n_weight) return err_set(e, ERR_SPEC, "tensor %s names no weight", name), 0;
        const weight *w = &p->weights[t->weight];
        if (w->rows != t->dim[0] || w->vector != (t->rank == 1) || (t->rank == 2 && w->cols != t->dim[1]) ||
            t->rank > 2)
            return err_set(e, ERR_SPEC, "tensor %s does not have the shape of its weight", name), 0;
    }
    if (!grow_array(p, (void **)&p->tensors, p->n_tensor, sizeof *p->tensors, e)) return 0;
    char *own = arena_str(&p->mem, name);
    if (!own) return err_memory(e, "the program"), 0;
    p->tensors[p->n_tensor] = *t;
    p->tensors[p->n_tensor].name = own;
    return p->n_tensor++;
}

/* The highest source row that the piece reads, or -1 when the numbers do not make sense. */
static int64_t piece_last_row(const piece *c)
{
    uint64_t a, b = 0;
    uint64_t whole = (uint64_t)(c->rows / c->block), rest = (uint64_t)(c->rows % c->block);
    if (c->stride < 0 || !mem_mul(whole, (uint64_t)c->stride, &a)) return -1;
    if (whole && !mem_mul(whole - 1, (uint64_t)c->stride, &b)) return -1;
    if (!rest) a = 0;
    else a += rest - 1;
    if (whole && b + (uint64_t)c->block - 1 > a) a = b + (uint64_t)c->block - 1;
    return a > (uint64_t)INT64_MAX / 2 ? -1 : c->row0 + (int64_t)a;
}

static int check_stored(const weight *w, const piece *c, err *e)
{
    const bool same = c->stored->rows == c->src_rows && c->stored->cols == c->src_cols;
    if (same && !c->packed && !c->transpose && !w->vector) return 0;
    return err_set(e, ERR_SPEC, "weight %s: a quantized matrix is used as it is", w->name);
}

static int check_piece(const weight *w, const piece *c, err *e)
{
    const char *name = w->name;
    int64_t have_rows = c->transpose ? c->src_cols : c->src_rows, have_cols = c->transpose ? c->src_rows : c->src_cols;
    if (c->type <= DTYPE_NONE || c->type >= DTYPE_COUNT || !c->data)
        return err_set(e, ERR_SPEC, "weight %s: a piece without data or type", name);
    if (c->rows < 1 || c->block < 1 || c->row0 < 0 || have_rows < 1 || have_rows > DIM_MAX || c->row0 >= have_rows)
        return err_set(e, ERR_SPEC, "weight %s: rows %" PRId64 " from %" PRId64 " of %" PRId64, name, c->rows, c->row0,
                       have_rows);
    if (c->transpose ? c->col0 < 0 || c->col0 > have_cols - w->cols : c->col0 || have_cols != w->cols)
        return err_set(e, ERR_SPEC, "weight %s: expected %" PRId64 " columns, the tensor has %" PRId64, name, w->cols,
                       have_cols);
    if (c->pairs && (c->rotated < 0 || c->rotated % 2 || c->rotated > c->pairs))
        return err_set(e, ERR_SPEC, "weight %s: %d rotated rows in heads of %d", name, c->rotated, c->pairs);
    if (c->pairs && c->rows % c->pairs)
        return err_set(e, ERR_SPEC, "weight %s: heads of %d rows do not divide %" PRId64 " rows", name, c->pairs,
                       c->rows);
    int64_t last = piece_last_row(c);
    if (last < 0 || last >= have_rows)
        return err_set(e, ERR_SPEC, "weight %s: needs row %" PRId64 " of a tensor of %" PRId64 " rows", name, last,
                       have_rows);
    if (c->normalize_rows && w->vector) return err_set(e, ERR_SPEC, "weight %s: rows of a vector have no length", name);
    if (c->mul == 0) return err_set(e, ERR_SPEC, "weight %s: multiplied by zero", name);
    if (c->packed && (!panel_format_of(c->type) || w->n_piece != 1 || c->rows != c->src_rows || c->transpose ||
                      c->pairs || c->stride != c->block || piece_changes(c) || w->vector))
        return err_set(e, ERR_SPEC, "weight %s: of a packed tensor only the whole can be used, as it is", name);
    if (dtype_is_block(c->type) && c->transpose)
        return err_set(e, ERR_SPEC, "weight %s: %s cannot be transposed", name, dtype_info[c->type].name);
    return c->stored ? check_stored(w, c, e) : 0;
}

uint32_t program_weight(program *p, const weight *w, err *e)
{
    int64_t sum = 0;
    if (w->rows < 1 || w->rows > DIM_MAX || w->cols < 1 || w->cols > DIM_MAX || w->n_piece < 1 ||
        (w->vector && w->cols != 1) || w->parts < 0 || (w->parts && w->rows % w->parts)) {
        err_set(e, ERR_SPEC, "weight %s: shape [%" PRId64 ", %" PRId64 "] of %u pieces", w->name, w->rows, w->cols,
                w->n_piece);
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < w->n_piece; i++) {
        if (check_piece(w, &w->pieces[i], e)) return UINT32_MAX;
        sum += w->pieces[i].rows;
    }
    if (sum != w->rows) {
        err_set(e, ERR_SPEC, "weight %s: expected %" PRId64 " rows, its pieces have %" PRId64, w->name, w->rows, sum);
        return UINT32_MAX;
    }
    if (!grow_array(p, (void **)&p->weights, p->n_weight, sizeof *p->weights, e)) return UINT32_MAX;
    weight own = *w;
    own.name = arena_str(&p->mem, w->name ? w->name : "?");
    own.pieces = arena_array(&p->mem, w->n_piece, sizeof *w->pieces);
    if (!own.name || !own.pieces) {
        err_memory(e, "the program");
        return UINT32_MAX;
    }
    memcpy(own.pieces, w->pieces, w->n_piece * sizeof *w->pieces);
    p->weights[p->n_weight] = own;
    return p->n_weight++;
}

uint32_t program_window(program *slice, uint32_t of, const weight_range *at, err *e)
{
    weight own = {.row0 = at->row0,
                  .rows = at->rows,
                  .run = at->run,
                  .stride = at->stride,
                  .col0 = at->col0,
                  .cols = at->cols,
                  .parts = at->parts};
    if (!grow_array(slice, (void **)&slice->weights, slice->n_weight, sizeof *slice->weights, e)) return UINT32_MAX;
    if (weight_window(&own, &slice->of->weights[of], e)) return UINT32_MAX;
    slice->weights[slice->n_weight] = own;
    return slice->n_weight++;
}

static int add_state(program *p, const state *s, uint32_t group, err *e)
{
    if (p->n_state >= INT16_MAX) return err_set(e, ERR_LIMIT, "more than %d states", INT16_MAX);
    if (!grow_array(p, (void **)&p->states, p->n_state, sizeof *p->states, e)) return ERR_MEMORY;
    p->states[p->n_state] = *s;
    p->states[p->n_state].group = (uint8_t)group;
    return (int)p->n_state++;
}

int program_state(program *p, const state *s, err *e)
{
    enum { HEADS_MAX = 1 << 16, HEAD_DIM_MAX = 1 << 16, SLOT_MAX = 1 << 28 };
    const bool slot = s->kind == STATE_SLOT;
    if (slot && (s->slot_floats < 1 || s->slot_floats > SLOT_MAX || s->axis != AXIS_TOK))
        return err_set(e, ERR_SPEC, "layer %d: a state of %" PRId64 " floats for a sequence of tokens", s->layer,
                       s->slot_floats);
    if (slot) return add_state(p, s, 0, e);
    if (s->heads < 1 || s->heads > HEADS_MAX || s->k_dim < 1 || s->k_dim > HEAD_DIM_MAX || s->v_dim < 1 ||
        s->v_dim > HEAD_DIM_MAX || s->window < 0)
        return err_set(e, ERR_SPEC, "layer %d: a state of %d heads, keys of %d, values of %d, window %d", s->layer,
                       s->heads, s->k_dim, s->v_dim, s->window);
    if (s->axis != AXIS_TOK && s->axis != AXIS_ENC)
        return err_set(e, ERR_SPEC, "layer %d: a state of neither token nor encoder rows", s->layer);
    uint32_t g = 0;
    while (g < p->n_group && (p->group_window[g] != s->window || p->group_axis[g] != s->axis)) g++;
    if (g == GROUP_MAX) return err_set(e, ERR_LIMIT, "more than %d different attention windows", GROUP_MAX);
    if (g == p->n_group) {
        p->group_axis[g] = s->axis;
        p->group_window[p->n_group++] = s->window;
    }
    return add_state(p, s, g, e);
}

int program_bound(program *p, const bound *b, err *e)
{
    if (!grow_array(p, (void **)&p->bounds, p->n_bound, sizeof *p->bounds, e)) return ERR_MEMORY;
    bound own = *b;
    float *values = b->n ? arena_array(&p->mem, b->n, sizeof *values) : NULL;
    own.name = arena_str(&p->mem, b->name);
    if (!own.name || (b->n && !values)) return err_memory(e, "the program");
    if (b->n) memcpy(values, b->values, b->n * sizeof *values);
    own.values = values;
    p->bounds[p->n_bound++] = own;
    return 0;
}

static bool floats_same(const float *a, const float *b, int n)
{
    return a == b || (a && b && !memcmp(a, b, (size_t)n * sizeof *a));
}

static bool params_same(const rope_params *a, const rope_params *b)
{
    return a->scaling == b->scaling && a->dims == b->dims && a->theta == b->theta && a->factor == b->factor &&
           a->original == b->original && a->max_positions == b->max_positions && a->low_freq == b->low_freq &&
           a->high_freq == b->high_freq && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim &&
           a->attention_factor == b->attention_factor && a->truncate == b->truncate &&
           floats_same(a->short_factor, b->short_factor, a->dims / 2) &&
           floats_same(a->long_factor, b->long_factor, a->dims / 2);
}

int program_rope(program *p, const rope_params *rp, int ctx, err *e)
{
    for (uint32_t i = 0; i < p->n_rope; i++)
        if (params_same(&p->ropes[i].params, rp) && p->ropes[i].ctx == ctx) return (int)i;
    if (!grow_array(p, (void **)&p->ropes, p->n_rope, sizeof *p->ropes, e)) return ERR_MEMORY;
    rope_params own = *rp;
    const float **factors[2] = {&own.short_factor, &own.long_factor};
    for (int i = 0; i < 2; i++) {
        if (!*factors[i] || rp->dims < 2 || rp->dims > ROPE_DIMS_MAX) continue;
        float *copy = arena_array(&p->mem, (size_t)rp->dims / 2, sizeof *copy);
        if (!copy) return err_memory(e, "the program");
        memcpy(copy, *factors[i], (size_t)(rp->dims / 2) * sizeof *copy);
        *factors[i] = copy;
    }
    int rc = rope_init(&p->ropes[p->n_rope], &own, ctx, e);
    return rc ? rc : (int)p->n_rope++;
}

int program_op(program *p, const op *o, err *e)
{
    const char *wrong = op_check(p, o);
    if (wrong) {
        const char *name = o->out && o->out < p->n_tensor ? p->tensors[o->out].name : "-";
        return err_set(e, ERR_SPEC, "op %u %s (%s, layer %d): %s", p->n_op,
                       o->kind < OP_COUNT ? op_info[o->kind].name : "?", name, o->layer, wrong);
    }
    if (!grow_array(p, (void **)&p->ops, p->n_op, sizeof *p->ops, e)) return ERR_MEMORY;
    p->ops[p->n_op++] = *o;
    if (o->kind == OP_ROUTE) p->n_used = o->u.route.used;
    if (o->kind == OP_ATTN && o->u.attn.ahead && p->tensors[o->out].axis == p->states[o->state].axis)
        p->needs_whole_sequence = p->needs_whole_sequence || p->tensors[o->out].axis == AXIS_TOK;
    return 0;
}
