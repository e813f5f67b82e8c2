/* program.c - builds a program: appends tensors, weights, states, tables and ops, and refuses what does not fit.
 *
 * Every op's shape rule is one case of check_op: what the reference kernels may take for granted. Arrays grow by doubling inside
 * the program's arena, so the whole model description is one lifetime. */
#include "core/program.h"
#include "tensor/act_q8.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { FIRST_CAP = 32, DIM_MAX = INT32_MAX };

/* Room for one more element: capacities are FIRST_CAP times powers of two, so the count alone says when to grow. */
static bool grow(program *p, void **array, uint32_t n, size_t size, err *e)
{
    bool full = n == 0 || (n >= FIRST_CAP && (n & (n - 1)) == 0);
    if (!full) return true;
    void *more = arena_array(&p->mem, n ? (size_t)n * 2 : FIRST_CAP, size);
    if (!more) {
        err_set(e, ERR_MEMORY, "out of memory while building the program");
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
        err_set(e, ERR_MEMORY, "out of memory for a program");
        return NULL;
    }
    if (!grow(p, (void **)&p->tensors, 0, sizeof *p->tensors, e)) {
        program_free(p);
        return NULL;
    }
    p->n_tensor = 1; /* ref 0 means none */
    return p;
}

void program_free(program *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n_rope; i++) rope_close(&p->ropes[i]);
    arena_free(&p->mem);
    mem_free(p);
}

/* Elements of one row of an activation, or of a whole weight or constant. */
int64_t tensor_count(const tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

uint64_t tensor_row_bytes(const tensor *t)
{
    int64_t n = tensor_count(t);
    return t->block ? act_row_bytes(n, t->block) : (uint64_t)n * sizeof(float);
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
    if (t->kind == TENSOR_ACT && (t->type != DTYPE_F32 || n > DIM_MAX))
        return err_set(e, ERR_SPEC, "tensor %s: activations are float32, at most %d a row", name, DIM_MAX), 0;
    if (t->kind == TENSOR_CONST && !t->data) return err_set(e, ERR_SPEC, "constant %s has no values", name), 0;
    if (t->kind == TENSOR_WEIGHT) {
        if (t->weight >= p->n_weight) return err_set(e, ERR_SPEC, "tensor %s names no weight", name), 0;
        const weight *w = &p->weights[t->weight];
        if (w->rows != t->dim[0] || w->vector != (t->rank == 1) || (t->rank == 2 && w->cols != t->dim[1]) ||
            t->rank > 2)
            return err_set(e, ERR_SPEC, "tensor %s does not have the shape of its weight", name), 0;
    }
    if (!grow(p, (void **)&p->tensors, p->n_tensor, sizeof *p->tensors, e)) return 0;
    char *own = arena_str(&p->mem, name);
    if (!own) return err_set(e, ERR_MEMORY, "out of memory while building the program"), 0;
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
    if (c->pairs && (c->rotated < 2 || c->rotated % 2 || c->rotated > c->pairs))
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
    return 0;
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
    if (!grow(p, (void **)&p->weights, p->n_weight, sizeof *p->weights, e)) return UINT32_MAX;
    weight own = *w;
    own.name = arena_str(&p->mem, w->name ? w->name : "?");
    own.pieces = arena_array(&p->mem, w->n_piece, sizeof *w->pieces);
    if (!own.name || !own.pieces) {
        err_set(e, ERR_MEMORY, "out of memory while building the program");
        return UINT32_MAX;
    }
    memcpy(own.pieces, w->pieces, w->n_piece * sizeof *w->pieces);
    p->weights[p->n_weight] = own;
    return p->n_weight++;
}

int program_state(program *p, const state *s, err *e)
{
    enum { HEADS_MAX = 1 << 16, HEAD_DIM_MAX = 1 << 16, STATES_MAX = INT16_MAX };
    if (s->heads < 1 || s->heads > HEADS_MAX || s->k_dim < 1 || s->k_dim > HEAD_DIM_MAX || s->v_dim < 1 ||
        s->v_dim > HEAD_DIM_MAX || s->window < 0)
        return err_set(e, ERR_SPEC, "layer %d: a state of %d heads, keys of %d, values of %d, window %d", s->layer,
                       s->heads, s->k_dim, s->v_dim, s->window);
    if (p->n_state >= STATES_MAX) return err_set(e, ERR_LIMIT, "more than %d states", STATES_MAX);
    if (s->axis != AXIS_TOK && s->axis != AXIS_ENC)
        return err_set(e, ERR_SPEC, "layer %d: a state of neither token nor encoder rows", s->layer);
    uint32_t g = 0;
    while (g < p->n_group && (p->group_window[g] != s->window || p->group_axis[g] != s->axis)) g++;
    if (g == GROUP_MAX) return err_set(e, ERR_LIMIT, "more than %d different attention windows", GROUP_MAX);
    if (!grow(p, (void **)&p->states, p->n_state, sizeof *p->states, e)) return ERR_MEMORY;
    if (g == p->n_group) {
        p->group_axis[g] = s->axis;
        p->group_window[p->n_group++] = s->window;
    }
    p->states[p->n_state] = *s;
    p->states[p->n_state].group = (uint8_t)g;
    return (int)p->n_state++;
}

int program_bound(program *p, const bound *b, err *e)
{
    if (!grow(p, (void **)&p->bounds, p->n_bound, sizeof *p->bounds, e)) return ERR_MEMORY;
    bound own = *b;
    float *values = b->n ? arena_array(&p->mem, b->n, sizeof *values) : NULL;
    own.name = arena_str(&p->mem, b->name);
    if (!own.name || (b->n && !values)) return err_set(e, ERR_MEMORY, "out of memory while building the program");
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
    if (!grow(p, (void **)&p->ropes, p->n_rope, sizeof *p->ropes, e)) return ERR_MEMORY;
    rope_params own = *rp;
    const float **factors[2] = {&own.short_factor, &own.long_factor};
    for (int i = 0; i < 2; i++) {
        if (!*factors[i] || rp->dims < 2 || rp->dims > ROPE_DIMS_MAX) continue;
        float *copy = arena_array(&p->mem, (size_t)rp->dims / 2, sizeof *copy);
        if (!copy) return err_set(e, ERR_MEMORY, "out of memory while building the program");
        memcpy(copy, *factors[i], (size_t)(rp->dims / 2) * sizeof *copy);
        *factors[i] = copy;
    }
    int rc = rope_init(&p->ropes[p->n_rope], &own, ctx, e);
    return rc ? rc : (int)p->n_rope++;
}

/* ---- shape rules */

static const tensor *operand(const program *p, const op *o, int i)
{
    return o->in[i] && o->in[i] < p->n_tensor ? &p->tensors[o->in[i]] : NULL;
}

static bool is_act(const tensor *t) { return t && t->kind == TENSOR_ACT; }

/* A weight vector or constant of n values. */
static bool is_vector(const tensor *t, int64_t n)
{
    return t && t->kind != TENSOR_ACT && t->rank == 1 && t->dim[0] == n;
}

static bool same_rows(const tensor *a, const tensor *b) { return is_act(a) && is_act(b) && a->axis == b->axis; }

static bool same_shape(const tensor *a, const tensor *b)
{
    return same_rows(a, b) && tensor_count(a) == tensor_count(b);
}

static bool optional_vector(const op *o, int i, const tensor *t, int64_t n) { return !o->in[i] || is_vector(t, n); }

/* Elements with one scale in the activations that a packed weight multiplies; 0: it is not packed. */
static int packed_block(const program *p, const tensor *t)
{
    const weight *w = &p->weights[t->weight];
    const panel_format *f = w->packed ? panel_format_of(weight_held_type(w)) : NULL;
    return f ? f->act : 0;
}

/* values and table: ATTN_BIAS and ATTN_TABLE of an ATTN. */
static const char *check_bias(const op *o, const tensor *values, const tensor *table, bool cross)
{
    int64_t heads = o->u.attn.heads;
    int bias = o->u.attn.bias;
    if (bias < BIAS_NONE || bias > BIAS_BUCKETS) return "unknown bias";
    if ((bias != BIAS_BUCKETS && table) || (bias == BIAS_NONE && values)) return "too many operands";
    if (bias == BIAS_NONE) return NULL;
    if (cross) return "rows of another axis have no distance to keys";
    if (bias != BIAS_BUCKETS) return is_vector(values, heads) ? NULL : "a bias needs one slope per head";
    if (!table || table->kind != TENSOR_CONST || table->rank != 1 || table->dim[0] % 2 == 0)
        return "the bias needs a table of distances";
    if (!values || values->kind == TENSOR_ACT || values->rank != 1 || values->dim[0] % heads)
        return "the bias needs values for each head";
    for (int64_t i = 0; i < table->dim[0]; i++)
        if (!(table->data[i] >= 0 && table->data[i] < (float)(values->dim[0] / heads))) return "no such bucket";
    return NULL;
}

/* The op that writes t; NULL: none. */
static const op *writer(const program *p, ref t)
{
    for (uint32_t i = p->n_op; i-- > 0;)
        if (p->ops[i].out == t) return &p->ops[i];
    return NULL;
}

/* Number of experts of a DISPATCH; 0 when t is none. */
static int32_t dispatched(const program *p, ref t)
{
    const op *w = t ? writer(p, t) : NULL;
    return w && w->kind == OP_DISPATCH ? w->u.dispatch.experts : 0;
}

/* int8 activations, if they are, fit the weight: blocks, parts of whole panels, rows of experts tiled as the dispatch sorted them. */
static bool activations_match_weight(const program *p, const op *o)
{
    const tensor *x = operand(p, o, 0), *w = operand(p, o, 1);
    int32_t parts = p->weights[w->weight].parts;
    bool packed = p->weights[w->weight].packed;
    if (packed && !panel_holds(w->dim[0], parts)) return false;
    if (!x->block) return true;
    const op *quant = writer(p, o->in[0]);
    if (o->kind == OP_MATMUL_HEADS && w->dim[1] % PANEL_K) return false;
    return x->block == packed_block(p, w) && quant && quant->in[1] == (o->kind == OP_MATMUL_EXP ? o->in[3] : 0);
}

static bool is_route(const tensor *t, int32_t used) { return is_act(t) && tensor_count(t) == 2 * (int64_t)used; }

static const char *check_route(const program *p, const op *o, const tensor *out)
{
    const tensor *a = operand(p, o, 0), *b = operand(p, o, 1);
    int64_t experts = is_act(a) ? tensor_count(a) : 0;
    int32_t used = o->u.route.used, groups = o->u.route.groups, best = o->u.route.group_best;
    if (!same_rows(a, out) || a->axis != AXIS_TOK) return "routes token rows";
    if (experts > EXPERTS_MAX || used < 1 || used > experts) return "wrong numbers of experts";
    if (p->n_used && p->n_used != used) return "all layers must use the same number of experts";
    if (!is_route(out, used)) return "the output has an id and a weight for each expert";
    if (!optional_vector(o, 1, b, experts)) return "the bias does not fit";
    if (o->u.route.score < 0 || o->u.route.score >= SCORE_COUNT) return "unknown kind of score";
    if (groups < 0 || (groups && experts % groups)) return "groups do not divide the experts";
    if (groups && (o->u.route.groups_used < 1 || o->u.route.groups_used > groups ||
                   o->u.route.groups_used * (experts / groups) < used))
        return "too few experts in the groups";
    if (groups && (best < 1 || best > 2 || best > experts / groups)) return "a group counts by its best one or two";
    if (!(o->u.route.near >= 0)) return "near must not be negative";
    return NULL;
}

static const char *check_dispatch(const program *p, const op *o, const tensor *out)
{
    const tensor *a = operand(p, o, 0);
    if (!is_act(a) || a->axis != AXIS_TOK || out->axis != AXIS_EXP) return "takes token rows to expert rows";
    if (o->u.dispatch.experts < 1 || o->u.dispatch.experts > EXPERTS_MAX) return "too many experts";
    if (o->u.dispatch.used != p->n_used || !is_route(a, p->n_used)) return "needs a route";
    return tensor_count(out) == DISPATCH_COLS && !operand(p, o, 1) ? NULL : "the output is a table of rows";
}

static const char *check_expert_op(const program *p, const op *o, const tensor *out)
{
    const tensor *a = operand(p, o, 0), *b = operand(p, o, 1), *c = operand(p, o, 2);
    bool in = o->kind == OP_GATHER, by_route = in || o->kind == OP_SCATTER;
    if (!dispatched(p, by_route ? o->in[1] : o->in[3])) return "needs a dispatch";
    if (by_route) {
        if (!is_act(a) || a->axis != (in ? AXIS_TOK : AXIS_EXP) || out->axis != (in ? AXIS_EXP : AXIS_TOK))
            return "takes token rows to expert rows or back";
        if (c && !is_route(c, p->n_used)) return "needs a route";
        return tensor_count(a) == tensor_count(out) ? NULL : "input and output differ";
    }
    if (!same_rows(a, out) || a->axis != AXIS_EXP) return "multiplies expert rows";
    if (!b || b->kind != TENSOR_WEIGHT || b->rank != 2) return "needs a weight matrix";
    int32_t parts = p->weights[b->weight].parts;
    if (parts != dispatched(p, o->in[3])) return "the weight has not as many parts as there are experts";
    if (b->dim[1] != tensor_count(a) || b->dim[0] != parts * tensor_count(out)) return "the weight does not fit";
    if (!activations_match_weight(p, o)) return "activations and weight are not of one kind";
    return optional_vector(o, 2, c, b->dim[0]) ? NULL : "the bias does not fit";
}

/* NULL when the op is well formed, else what is wrong. */
static const char *check_op(const program *p, const op *o)
{
    const tensor *a = operand(p, o, 0), *b = operand(p, o, 1), *c = operand(p, o, 2);
    const tensor *out = o->out && o->out < p->n_tensor ? &p->tensors[o->out] : NULL;
    for (int i = 0; i < 4; i++)
        if (o->in[i] >= p->n_tensor) return "an operand does not exist";
    if (a && a->block && !op_multiplies(o) && o->kind != OP_QUANT) return "reads int8 activations";
    if (out && out->block && o->kind != OP_QUANT) return "writes int8 activations";
    if (o->in[3] && o->kind != OP_ATTN && o->kind != OP_MATMUL_EXP) return "too many operands";
    if (o->kind == OP_KV_PUT ? o->out != 0 : !is_act(out)) return "the output must be an activation";
    bool has_state = o->kind == OP_KV_PUT || o->kind == OP_ATTN;
    if (has_state ? o->state < 0 || (uint32_t)o->state >= p->n_state : o->state >= 0) return "wrong state";
    const state *s = has_state ? &p->states[o->state] : NULL;

    switch ((op_kind)o->kind) {
    case OP_EMBED:
        if (!a || a->kind == TENSOR_ACT || a->rank != 2 || a->dim[1] != tensor_count(out))
            return "the table does not fit";
        if (o->u.embed.by < EMBED_BY_TOKEN || o->u.embed.by > EMBED_BY_TYPE) return "embedded by what?";
        if (out->axis != AXIS_TOK && out->axis != AXIS_ENC) return "embeds rows that have no tokens";
        return o->u.embed.offset < 0 ? "negative offset" : b ? "too many operands" : NULL;
    case OP_NORM: {
        int64_t n = tensor_count(out), width = o->u.norm.width;
        if (!same_shape(a, out)) return "input and output differ";
        if (width < 1 || n % width) return "groups do not divide the row";
        if (!(o->u.norm.eps >= 0)) return "eps must not be negative";
        if (o->u.norm.kind < NORM_RMS || o->u.norm.kind > NORM_L2) return "unknown kind of norm";
        if (!optional_vector(o, 1, b, width) && !is_vector(b, n)) return "the weight fits neither a group nor the row";
        if (!optional_vector(o, 2, c, width) && !is_vector(c, n)) return "the bias fits neither a group nor the row";
        return NULL;
    }
    case OP_QUANT:
        if (!same_shape(a, out) || c) return "input and output differ";
        if (b ? a->axis != AXIS_EXP || !dispatched(p, o->in[1]) : a->axis == AXIS_EXP)
            return "rows of experts, and only they, are tiled by their dispatch";
        return a->block || (out->block != 32 && out->block != 64) ? "turns floats into blocks of 32 or 64" : NULL;
    case OP_MATMUL:
        if (!same_rows(a, out)) return "input and output have different rows";
        if (!b || b->kind != TENSOR_WEIGHT || b->rank != 2) return "needs a weight matrix";
        if (!activations_match_weight(p, o)) return "activations and weight are not of one kind";
        if (b->dim[1] != tensor_count(a) || b->dim[0] != tensor_count(out)) return "the weight does not fit";
        return optional_vector(o, 2, c, b->dim[0]) ? NULL : "the bias does not fit";
    case OP_ROPE:
        if (!same_shape(a, out) || b) return "input and output differ";
        if (o->u.rope.width < 1 || tensor_count(out) % o->u.rope.width) return "heads do not divide the row";
        if (o->u.rope.dims < 2 || o->u.rope.dims % 2 || o->u.rope.dims > o->u.rope.width)
            return "rotated dimensions do not fit";
        if (o->u.rope.table < 0 || (uint32_t)o->u.rope.table >= p->n_rope) return "no such table";
        if (out->axis != AXIS_TOK && out->axis != AXIS_ENC) return "rotates rows that have no positions";
        if (p->ropes[o->u.rope.table].params.dims != o->u.rope.dims) return "the table has other dimensions";
        return o->u.rope.style == ROPE_HALVES || o->u.rope.style == ROPE_NEIGHBOURS ? NULL : "unknown style";
    case OP_KV_PUT:
        if (!same_rows(a, b) || c) return "keys and values have different rows";
        if (a->axis != s->axis) return "keys have other rows than the state";
        if (tensor_count(a) != (int64_t)s->heads * s->k_dim) return "keys do not fit the state";
        return tensor_count(b) == (int64_t)s->heads * s->v_dim ? NULL : "values do not fit the state";
    case OP_ATTN: {
        int32_t heads = o->u.attn.heads;
        if (!same_rows(a, out)) return "queries and output have different rows";
        if (out->axis != AXIS_TOK && out->axis != s->axis) return "the rows cannot see this state";
        if (heads < 1 || heads % s->heads) return "heads are no multiple of the state's";
        if (tensor_count(a) != (int64_t)heads * s->k_dim) return "queries do not fit the state";
        if (tensor_count(out) != (int64_t)heads * s->v_dim) return "output does not fit the state";
        if (o->u.attn.window < 0 || (s->window && (!o->u.attn.window || o->u.attn.window > s->window)))
            return "the window is wider than what the state keeps";
        if (o->u.attn.ahead < 0 || o->u.attn.chunk < 0) return "a negative reach";
        if (out->axis != s->axis && (o->u.attn.ahead != AHEAD_ALL || o->u.attn.window || o->u.attn.chunk))
            return "rows of another axis have no distance to keys";
        if (!optional_vector(o, ATTN_SINKS, c, heads)) return "needs a sink for each head";
        return check_bias(o, b, operand(p, o, ATTN_TABLE), out->axis != s->axis);
    }
    case OP_ACT:
        if (o->u.act.fn < 0 || o->u.act.fn >= ACT_COUNT) return "unknown activation";
        return same_shape(a, out) && !b ? NULL : "input and output differ";
    case OP_MUL:
    case OP_ADD:
        if (!same_shape(a, out) || c) return "input and output differ";
        if (o->kind == OP_MUL && same_rows(a, b) && tensor_count(b) == 1) return NULL;
        return is_act(b) ? (same_shape(b, out) ? NULL : "operands differ")
                         : (is_vector(b, tensor_count(out)) ? NULL : "the vector does not fit");
    case OP_SCALE:
    case OP_SOFTCAP: return same_shape(a, out) && !b ? NULL : "input and output differ";
    case OP_CLAMP:
        if (!(o->u.clamp.limit > 0)) return "the limit must be positive";
        return same_shape(a, out) && !b ? NULL : "input and output differ";
    case OP_TAKE_OUT:
        if (!is_act(a) || a->axis != AXIS_TOK || out->axis != AXIS_OUT || b) return "takes token rows to wanted rows";
        return tensor_count(a) == tensor_count(out) ? NULL : "input and output differ";
    case OP_ROUTE: return check_route(p, o, out);
    case OP_DISPATCH: return check_dispatch(p, o, out);
    case OP_GATHER:
    case OP_MATMUL_EXP:
    case OP_SCATTER: return check_expert_op(p, o, out);
    case OP_POOL:
        if (!is_act(a) || a->axis != AXIS_TOK || out->axis != AXIS_SEQ || b) return "pools token rows to sequences";
        if (o->u.pool.how < POOL_FIRST || o->u.pool.how > POOL_LAST) return "pools how?";
        return tensor_count(a) == tensor_count(out) ? NULL : "input and output differ";
    case OP_MATMUL_HEADS: {
        if (!same_rows(a, out) || c) return "input and output have different rows";
        if (!b || b->kind != TENSOR_WEIGHT || b->rank != 2) return "needs a weight matrix";
        int64_t parts = p->weights[b->weight].parts;
        if (parts < 1 || parts > 1 << 16) return "the weight has no parts, or too many";
        if (parts * b->dim[1] != tensor_count(a) || b->dim[0] != tensor_count(out)) return "the weight does not fit";
        return activations_match_weight(p, o) ? NULL : "activations and weight are not of one kind";
    }
    case OP_JOIN: {
        int32_t heads = o->u.join.heads;
        if (!same_rows(a, out) || !same_rows(b, out) || c) return "inputs and output have different rows";
        if (heads < 1 || tensor_count(a) % heads || tensor_count(b) % heads) return "heads do not divide the row";
        return tensor_count(a) + tensor_count(b) == tensor_count(out) ? NULL : "the output does not fit";
    }
    case OP_COUNT: break;
    }
    return "no such op";
}

int program_op(program *p, const op *o, err *e)
{
    const char *wrong = o->kind < OP_COUNT ? check_op(p, o) : "no such op";
    if (wrong) {
        const char *name = o->out && o->out < p->n_tensor ? p->tensors[o->out].name : "-";
        return err_set(e, ERR_SPEC, "op %u %s (%s, layer %d): %s", p->n_op,
                       o->kind < OP_COUNT ? op_info[o->kind].name : "?", name, o->layer, wrong);
    }
    if (!grow(p, (void **)&p->ops, p->n_op, sizeof *p->ops, e)) return ERR_MEMORY;
    p->ops[p->n_op++] = *o;
    if (o->kind == OP_ROUTE) p->n_used = o->u.route.used;
    if (o->kind == OP_ATTN && o->u.attn.ahead && p->tensors[o->out].axis == p->states[o->state].axis)
        p->needs_whole_sequence = p->needs_whole_sequence || p->tensors[o->out].axis == AXIS_TOK;
    return 0;
}
