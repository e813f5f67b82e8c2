/* op.c - the tables of op.h, the parameters of each op as rows, and the shape rule of each op as one function
 * check_<op>: what the kernels may take for granted. */
#include "core/op.h"
#include "core/program.h"
#include "tensor/panel.h"

#include <math.h>

const op_row op_info[OP_COUNT] = {
#define X(id, name, facts, doc) [OP_##id] = {#name, facts},
    OP_LIST(X)
#undef X
};

const char *const act_name[ACT_COUNT] = {
#define X(id, name, doc) [ACT_##id] = name,
    ACT_LIST(X)
#undef X
};

const char *const score_name[SCORE_COUNT] = {
#define X(id, name) [SCORE_##id] = name,
    SCORE_LIST(X)
#undef X
};

/* ---- parameters */

static const char *const by_name[EMBED_BY_COUNT] = {"token", "position", "type", "expert"};
static const char *const norm_name[NORM_COUNT] = {"rms", "layer", "l2", "size", "above"};
static const char *const style_name[ROPE_STYLE_COUNT] = {"halves", "neighbours"};
static const char *const bias_name[BIAS_COUNT] = {"none", "alibi", "alibi.bf16", "buckets", "places"};
static const char *const pool_name[POOL_COUNT] = {"first", "mean", "last"};
static const char *const coll_name[COLL_COUNT] = {"gather", "owner", "reduce"};
static const char *const above_name[] = {"no", "above"};
static const char *const renorm_name[] = {"no", "renorm"};
static const char *const tiled_name[] = {"grouped", "tiled"};
static const char *const delta_name[] = {"no", "delta"};
static const char *const strength_name[RECUR_STRENGTHS] = {"1", "step", "own"};
static const char *const residual_name[] = {"no", "what they leave"};

static bool has_groups(const op *o) { return o->u.route.groups != 0; }
static bool is_mixer(const op *o) { return o->u.route.score == SCORE_MIXER; }

#define ROW(id, field, form, text, ...)                                                                                \
    {                                                                                                                  \
        .kind = OP_##id, .type = form, .offset = offsetof(op, u.field), .label = text, __VA_ARGS__                     \
    }
#define INT(id, field, text, ...)   ROW(id, field, OPP_INT, text, __VA_ARGS__)
#define FLOAT(id, field, text, ...) ROW(id, field, OPP_FLOAT, text, __VA_ARGS__)
#define EXACT(id, field, text, ...) ROW(id, field, OPP_EXACT, text, __VA_ARGS__)
#define WORD(id, field, text, list, ...)                                                                               \
    ROW(id, field, OPP_WORD, text, .words = list, .n_word = sizeof(list) / sizeof *(list), __VA_ARGS__)
#define UNLESS(v) .optional = true, .otherwise = v
#define SILENT(v) UNLESS(v), .silent = true
const op_param op_params[] = {
    WORD(EMBED, embed.by, " by=", by_name),
    INT(EMBED, embed.offset, " offset=", UNLESS(0)),
    WORD(NORM, norm.kind, " ", norm_name),
    FLOAT(NORM, norm.eps, " eps="),
    INT(NORM, norm.width, " width="),
    WORD(QUANT, quant.residual, ", ", residual_name, UNLESS(0)),
    WORD(ROPE, rope.style, " ", style_name),
    INT(ROPE, rope.dims, " dims="),
    INT(ROPE, rope.width, " of "),
    INT(ROPE, rope.table, " table="),
    INT(ATTN, attn.heads, " heads="),
    INT(ATTN, attn.per_kv, " per kv=", SILENT(0)),
    INT(ATTN, attn.head0, " from head=", SILENT(0)),
    EXACT(ATTN, attn.scale, " scale="),
    WORD(ATTN, attn.bias, " ", bias_name, UNLESS(BIAS_NONE)),
    FLOAT(ATTN, attn.softcap, " softcap=", UNLESS(0)),
    INT(ATTN, attn.window, " window=", UNLESS(0)),
    INT(ATTN, attn.ahead, " ahead=", UNLESS(0)),
    INT(ATTN, attn.chunk, " chunk=", UNLESS(0)),
    WORD(ACT, act.fn, " ", act_name),
    EXACT(SCALE, scale.factor, " factor="),
    FLOAT(SOFTCAP, softcap.cap, " cap="),
    FLOAT(CLAMP, clamp.limit, " limit="),
    WORD(CLAMP, clamp.above, " ", above_name, UNLESS(0)),
    WORD(ROUTE, route.score, " ", score_name),
    INT(ROUTE, route.used, " used="),
    INT(ROUTE, route.groups_used, " groups=", .shown = has_groups),
    INT(ROUTE, route.groups, " of ", .shown = has_groups),
    INT(ROUTE, route.group_best, " by ", .shown = has_groups),
    WORD(ROUTE, route.renorm, " ", renorm_name, UNLESS(0)),
    EXACT(ROUTE, route.factor, " factor=", UNLESS(1)),
    FLOAT(ROUTE, route.near, " near=", .shown = is_mixer),
    INT(DISPATCH, dispatch.experts, " experts="),
    INT(DISPATCH, dispatch.used, " used="),
    INT(DISPATCH, dispatch.first, " from expert=", SILENT(0)),
    WORD(POOL, pool.how, " ", pool_name),
    INT(POOL, pool.skip, " skip=", UNLESS(0)),
    INT(JOIN, join.heads, " heads="),
    INT(RECUR, recur.heads, " heads="),
    INT(RECUR, recur.key_heads, " of key heads="),
    WORD(RECUR, recur.tiled, " ", tiled_name, UNLESS(0)),
    INT(RECUR, recur.head0, " from head=", SILENT(0)),
    WORD(RECUR, recur.delta, " ", delta_name, UNLESS(0)),
    WORD(RECUR, recur.strength, " strength=", strength_name),
    INT(COLUMNS, columns.from, " from="),
    WORD(COLL, coll.how, " ", coll_name),
    INT(COLL, coll.codes, " codes=", UNLESS(0)),
    INT(COLL, coll.left, " left=", UNLESS(0)),
    {0},
};

double op_param_value(const op_param *row, const op *o)
{
    const void *at = (const char *)o + row->offset;
    return row->type == OPP_FLOAT || row->type == OPP_EXACT ? (double)*(const float *)at : *(const int32_t *)at;
}

/* ---- shape rules */

/* An op with its operands in0, in1, in2, output and state; NULL: none. */
typedef struct shapes {
    const program *p;
    const op *o;
    const tensor *a, *b, *c, *out;
    const state *s;
} shapes;

static const tensor *operand_of(const program *p, const op *o, int i)
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

static bool optional_vector(const tensor *t, int64_t n) { return !t || is_vector(t, n); }

static bool is_matrix(const tensor *t) { return t && t->kind == TENSOR_WEIGHT && t->rank == 2; }

/* A table whose values, for every distance, are whole numbers below n. */
static const char *check_distances(const tensor *table, int64_t n)
{
    if (!table || table->kind != TENSOR_CONST || table->rank != 1 || table->dim[0] % 2 == 0)
        return "the bias needs a table of distances";
    for (int64_t i = 0; i < table->dim[0]; i++)
        if (!(table->data[i] >= 0 && table->data[i] < (float)n)) return "no such bucket";
    return NULL;
}

/* The keys of ATTN are the rows of this step, and each row sees all keys of its sequence. */
static const char *check_places(shapes t)
{
    const int64_t heads = t.o->u.attn.heads;
    const tensor *any = t.b ? t.b : t.c;
    if (t.o->u.attn.ahead != AHEAD_ALL || t.o->u.attn.window || t.o->u.attn.chunk)
        return "places are of rows that see all others";
    if (!any) return "places of neither rows nor keys";
    if ((t.b && !same_rows(t.b, t.out)) || (t.c && !same_rows(t.c, t.out))) return "places have other rows";
    if (tensor_count(any) % heads || (t.b && t.c && tensor_count(t.b) != tensor_count(t.c)))
        return "places need values for each head";
    return check_distances(operand_of(t.p, t.o, ATTN_TABLE), tensor_count(any) / heads);
}

static const char *check_bias(shapes t, bool cross)
{
    const tensor *values = t.b, *table = operand_of(t.p, t.o, ATTN_TABLE);
    int64_t heads = t.o->u.attn.heads;
    int bias = t.o->u.attn.bias;
    if (bias < BIAS_NONE || bias >= BIAS_COUNT) return "unknown bias";
    if ((bias != BIAS_BUCKETS && bias != BIAS_PLACES && table) || (bias == BIAS_NONE && values))
        return "too many operands";
    if (bias == BIAS_NONE) return NULL;
    if (cross) return "rows of another axis have no distance to keys";
    if (bias == BIAS_PLACES) return check_places(t);
    if (bias != BIAS_BUCKETS) return is_vector(values, heads) ? NULL : "a bias needs one slope per head";
    if (!values || values->kind == TENSOR_ACT || values->rank != 1 || values->dim[0] % heads)
        return "the bias needs values for each head";
    return check_distances(table, values->dim[0] / heads);
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

/* int8 activations fit the weight: blocks, parts of whole panels, rows of experts tiled as the dispatch sorted them. */
static bool activations_match_weight(shapes t)
{
    const weight *w = &t.p->weights[t.b->weight];
    if (w->packed && !panel_holds(t.b->dim[0], w->parts)) return false;
    if (!t.a->block) return true;
    const panel_format *f = w->packed ? panel_format_of(weight_held_type(w)) : NULL;
    const op *quant = writer(t.p, t.o->in[0]);
    if (t.o->kind == OP_MATMUL_HEADS && t.b->dim[1] % PANEL_K) return false;
    return f && t.a->block == f->act && quant && quant->in[1] == (t.o->kind == OP_MATMUL_EXP ? t.o->in[3] : 0);
}

static const char *check_embed(shapes t)
{
    if (!t.a || t.a->kind == TENSOR_ACT || t.a->rank != 2 || t.a->dim[1] != tensor_count(t.out))
        return "the table does not fit";
    if (t.o->u.embed.by < EMBED_BY_TOKEN || t.o->u.embed.by >= EMBED_BY_COUNT) return "embedded by what?";
    if (t.o->u.embed.by == EMBED_BY_EXPERT)
        return t.out->axis == AXIS_EXP && dispatched(t.p, t.o->in[1]) == t.a->dim[0]
                   ? NULL
                   : "needs to know the experts of its rows";
    if (t.out->axis != AXIS_TOK && t.out->axis != AXIS_ENC) return "embeds rows that have no tokens";
    return t.b ? "too many operands" : NULL;
}

static const char *check_norm(shapes t)
{
    if (!same_shape(t.a, t.out)) return "input and output differ";
    int64_t n = tensor_count(t.out), width = t.o->u.norm.width;
    if (width < 1 || n % width) return "groups do not divide the row";
    if (t.o->u.norm.kind < NORM_RMS || t.o->u.norm.kind >= NORM_COUNT) return "unknown kind of norm";
    if (t.o->u.norm.kind == NORM_ABOVE ? !isfinite(t.o->u.norm.eps) : !(t.o->u.norm.eps >= 0))
        return "eps must not be negative";
    if (t.b && !is_vector(t.b, width) && !is_vector(t.b, n)) return "the weight fits neither a group nor the row";
    if (t.c && !is_vector(t.c, width) && !is_vector(t.c, n)) return "the bias fits neither a group nor the row";
    return NULL;
}

static const char *check_quant(shapes t)
{
    if (!same_shape(t.a, t.out) || t.c) return "input and output differ";
    if (t.b ? t.a->axis != AXIS_EXP || !dispatched(t.p, t.o->in[1]) : t.a->axis == AXIS_EXP)
        return "rows of experts, and only they, are tiled by their dispatch";
    return t.a->block || (t.out->block != 32 && t.out->block != 64) ? "turns floats into blocks of 32 or 64" : NULL;
}

static const char *check_matmul(shapes t)
{
    if (!same_rows(t.a, t.out)) return "input and output have different rows";
    if (!is_matrix(t.b)) return "needs a weight matrix";
    if (!activations_match_weight(t)) return "activations and weight are not of one kind";
    if (t.b->dim[1] != tensor_count(t.a) || t.b->dim[0] != tensor_count(t.out)) return "the weight does not fit";
    return optional_vector(t.c, t.b->dim[0]) ? NULL : "the bias does not fit";
}

static const char *check_matmul_exp(shapes t)
{
    int32_t experts = dispatched(t.p, t.o->in[3]);
    if (!experts) return "needs a dispatch";
    if (!same_rows(t.a, t.out) || t.a->axis != AXIS_EXP) return "multiplies expert rows";
    if (!is_matrix(t.b)) return "needs a weight matrix";
    int32_t parts = t.p->weights[t.b->weight].parts;
    if (parts != experts) return "the weight has not as many parts as there are experts";
    if (t.b->dim[1] != tensor_count(t.a) || t.b->dim[0] != parts * tensor_count(t.out))
        return "the weight does not fit";
    if (!activations_match_weight(t)) return "activations and weight are not of one kind";
    return optional_vector(t.c, t.b->dim[0]) ? NULL : "the bias does not fit";
}

static const char *check_matmul_heads(shapes t)
{
    if (!same_rows(t.a, t.out) || t.c) return "input and output have different rows";
    if (!is_matrix(t.b)) return "needs a weight matrix";
    int64_t parts = t.p->weights[t.b->weight].parts;
    if (parts < 1 || parts > 1 << 16) return "the weight has no parts, or too many";
    if (parts * t.b->dim[1] != tensor_count(t.a) || t.b->dim[0] != tensor_count(t.out))
        return "the weight does not fit";
    return activations_match_weight(t) ? NULL : "activations and weight are not of one kind";
}

static const char *check_rope(shapes t)
{
    if (!same_shape(t.a, t.out) || t.b) return "input and output differ";
    if (t.o->u.rope.width < 1 || tensor_count(t.out) % t.o->u.rope.width) return "heads do not divide the row";
    if (t.o->u.rope.dims < 2 || t.o->u.rope.dims % 2 || t.o->u.rope.dims > t.o->u.rope.width)
        return "rotated dimensions do not fit";
    if (t.o->u.rope.table < 0 || (uint32_t)t.o->u.rope.table >= t.p->n_rope) return "no such table";
    if (t.out->axis != AXIS_TOK && t.out->axis != AXIS_ENC) return "rotates rows that have no positions";
    if (t.p->ropes[t.o->u.rope.table].params.dims != t.o->u.rope.dims) return "the table has other dimensions";
    return t.o->u.rope.style == ROPE_HALVES || t.o->u.rope.style == ROPE_NEIGHBOURS ? NULL : "unknown style";
}

static const char *check_kv_put(shapes t)
{
    if (!same_rows(t.a, t.b) || t.c) return "keys and values have different rows";
    if (t.a->axis != t.s->axis) return "keys have other rows than the state";
    if (tensor_count(t.a) != (int64_t)t.s->heads * t.s->k_dim) return "keys do not fit the state";
    return tensor_count(t.b) == (int64_t)t.s->heads * t.s->v_dim ? NULL : "values do not fit the state";
}

/* Every query head has a head of the state, and every head of the state a query head. */
static const char *check_heads(int32_t heads, int32_t per_kv, int32_t head0, int64_t kv_heads)
{
    if (heads < 1 || per_kv < 0 || head0 < 0) return "wrong numbers of heads";
    if (per_kv == 0) return heads % kv_heads || head0 ? "heads are no multiple of the state's" : NULL;
    const int64_t end = (int64_t)head0 + heads;
    return head0 >= per_kv || end > kv_heads * per_kv || end <= (kv_heads - 1) * per_kv ? "heads do not fit the state's"
                                                                                        : NULL;
}

static const char *check_attn(shapes t)
{
    int32_t heads = t.o->u.attn.heads, window = t.o->u.attn.window;
    bool cross = t.out->axis != t.s->axis;
    if (!same_rows(t.a, t.out)) return "queries and output have different rows";
    if (t.out->axis != AXIS_TOK && cross) return "the rows cannot see this state";
    const char *wrong = check_heads(heads, t.o->u.attn.per_kv, t.o->u.attn.head0, t.s->heads);
    if (wrong) return wrong;
    if (tensor_count(t.a) != (int64_t)heads * t.s->k_dim) return "queries do not fit the state";
    if (tensor_count(t.out) != (int64_t)heads * t.s->v_dim) return "output does not fit the state";
    if (window < 0 || (t.s->window && (!window || window > t.s->window)))
        return "the window is wider than what the state keeps";
    if (t.o->u.attn.ahead < 0 || t.o->u.attn.chunk < 0) return "a negative reach";
    if (cross && (t.o->u.attn.ahead != AHEAD_ALL || window || t.o->u.attn.chunk))
        return "rows of another axis have no distance to keys";
    if (t.o->u.attn.bias != BIAS_PLACES && !optional_vector(t.c, heads)) return "needs a sink for each head";
    return check_bias(t, cross);
}

/* Ops of one operand whose shape the output has. */
static const char *check_unary(shapes t) { return same_shape(t.a, t.out) && !t.b ? NULL : "input and output differ"; }

static const char *check_act(shapes t)
{
    if (t.o->u.act.fn < 0 || t.o->u.act.fn >= ACT_COUNT) return "unknown activation";
    return check_unary(t);
}

static const char *check_scale(shapes t) { return check_unary(t); }
static const char *check_softcap(shapes t) { return check_unary(t); }

static const char *check_clamp(shapes t)
{
    return t.o->u.clamp.limit > 0 ? check_unary(t) : "the limit must be positive";
}

static const char *check_add(shapes t)
{
    if (!same_shape(t.a, t.out) || t.c) return "input and output differ";
    if (is_act(t.b)) return same_shape(t.b, t.out) ? NULL : "operands differ";
    return is_vector(t.b, tensor_count(t.out)) ? NULL : "the vector does not fit";
}

static const char *check_mul(shapes t)
{
    bool number_a_row = same_shape(t.a, t.out) && same_rows(t.a, t.b) && tensor_count(t.b) == 1 && !t.c;
    return number_a_row ? NULL : check_add(t);
}

/* Whether the op takes rows of one axis to rows of another. */
static bool moves(shapes t, enum row_axis from, enum row_axis to)
{
    return is_act(t.a) && t.a->axis == from && t.out->axis == to;
}

static const char *check_width(shapes t)
{
    return tensor_count(t.a) == tensor_count(t.out) ? NULL : "input and output differ";
}

static const char *check_take_out(shapes t)
{
    return moves(t, AXIS_TOK, AXIS_OUT) && !t.b ? check_width(t) : "takes token rows to wanted rows";
}

static const char *check_pool(shapes t)
{
    if (!moves(t, AXIS_TOK, AXIS_SEQ) || t.b) return "pools token rows to sequences";
    return t.o->u.pool.how < POOL_FIRST || t.o->u.pool.how >= POOL_COUNT ? "pools how?" : check_width(t);
}

static bool is_route(const tensor *t, int32_t used) { return is_act(t) && tensor_count(t) == 2 * (int64_t)used; }

static const char *check_route(shapes t)
{
    int64_t experts = is_act(t.a) ? tensor_count(t.a) : 0;
    int32_t used = t.o->u.route.used, groups = t.o->u.route.groups, best = t.o->u.route.group_best;
    if (!same_rows(t.a, t.out) || t.a->axis != AXIS_TOK) return "routes token rows";
    if (experts > EXPERTS_MAX || used < 1 || used > experts) return "wrong numbers of experts";
    if (t.p->n_used && t.p->n_used != used) return "all layers must use the same number of experts";
    if (!is_route(t.out, used)) return "the output has an id and a weight for each expert";
    if (!optional_vector(t.b, experts)) return "the bias does not fit";
    if (!optional_vector(t.c, experts)) return "needs a factor for each expert";
    if (t.o->u.route.score < 0 || t.o->u.route.score >= SCORE_COUNT) return "unknown kind of score";
    if (groups < 0 || (groups && experts % groups)) return "groups do not divide the experts";
    if (groups && (t.o->u.route.groups_used < 1 || t.o->u.route.groups_used > groups ||
                   t.o->u.route.groups_used * (experts / groups) < used))
        return "too few experts in the groups";
    if (groups && (best < 1 || best > 2 || best > experts / groups)) return "a group counts by its best one or two";
    return t.o->u.route.near >= 0 ? NULL : "near must not be negative";
}

static const char *check_dispatch(shapes t)
{
    if (!moves(t, AXIS_TOK, AXIS_EXP)) return "takes token rows to expert rows";
    const int32_t experts = t.o->u.dispatch.experts, first = t.o->u.dispatch.first;
    if (experts < 1 || experts > EXPERTS_MAX || first < 0 || first > EXPERTS_MAX - experts) return "too many experts";
    if (t.o->u.dispatch.used != t.p->n_used || !is_route(t.a, t.p->n_used)) return "needs a route";
    return tensor_count(t.out) == DISPATCH_COLS && !t.b ? NULL : "the output is a table of rows";
}

/* GATHER and SCATTER: rows from one axis to the other by a dispatch, weighted or not. */
static const char *check_moved(shapes t, enum row_axis from, enum row_axis to)
{
    if (!dispatched(t.p, t.o->in[1])) return "needs a dispatch";
    if (!moves(t, from, to)) return "takes token rows to expert rows or back";
    return t.c && !is_route(t.c, t.p->n_used) ? "needs a route" : check_width(t);
}

static const char *check_gather(shapes t) { return check_moved(t, AXIS_TOK, AXIS_EXP); }
static const char *check_scatter(shapes t) { return check_moved(t, AXIS_EXP, AXIS_TOK); }

static const char *check_join(shapes t)
{
    int32_t heads = t.o->u.join.heads;
    if (!same_rows(t.a, t.out) || !same_rows(t.b, t.out) || t.c) return "inputs and output have different rows";
    if (heads < 1 || tensor_count(t.a) % heads || tensor_count(t.b) % heads) return "heads do not divide the row";
    return tensor_count(t.a) + tensor_count(t.b) == tensor_count(t.out) ? NULL : "the output does not fit";
}

static const char *check_conv(shapes t)
{
    int64_t dim = tensor_count(t.out), taps = is_matrix(t.b) ? t.b->dim[0] : 0;
    if (!same_shape(t.a, t.out)) return "input and output differ";
    if (t.a->axis != t.s->axis) return "input has other rows than the state";
    if (taps < 2 || t.b->dim[1] != dim) return "needs a weight for each tap and column";
    const weight *w = &t.p->weights[t.b->weight];
    if (w->packed || weight_held_type(w) != DTYPE_F32) return "the weight must be held as float32";
    if (t.s->slot_floats != (taps - 1) * dim) return "the slot does not hold the rows before";
    return optional_vector(t.c, dim) ? NULL : "the bias does not fit";
}

/* Value heads share key heads in groups; tiled, of which some may be elsewhere, one after another. */
static const char *check_recur_heads(const op *o)
{
    const int32_t heads = o->u.recur.heads, keys = o->u.recur.key_heads, tiled = o->u.recur.tiled;
    if (heads < 1 || keys < 1 || (tiled != 0 && tiled != 1)) return "wrong numbers of heads";
    if (!tiled && heads % keys) return "value heads are no multiple of key heads";
    return o->u.recur.head0 < 0 || (!tiled && o->u.recur.head0) ? "only tiled heads count those before them" : NULL;
}

static const char *check_recur(shapes t)
{
    const tensor *rate = operand_of(t.p, t.o, RECUR_RATE);
    const int64_t heads = t.o->u.recur.heads, columns = tensor_count(t.out);
    const int strength = t.o->u.recur.strength;
    const char *wrong = check_recur_heads(t.o);
    if (wrong) return wrong;
    if (!same_shape(t.a, t.out) || !same_rows(t.b, t.out)) return "input and output differ";
    if (t.a->axis != t.s->axis) return "input has other rows than the state";
    const int64_t all_keys = tensor_count(t.b), rows = all_keys / 2 / t.o->u.recur.key_heads;
    if (columns % heads || rows < 1 || rows > RECUR_ROWS_MAX || all_keys != rows * 2 * t.o->u.recur.key_heads)
        return "heads do not divide the rows, or the state has too many";
    if (!rate || rate->kind == TENSOR_ACT || (!is_vector(rate, heads) && !is_vector(rate, heads * rows)))
        return "needs a rate for each head, or one for each row of its state";
    if (strength < RECUR_ONE || strength >= RECUR_STRENGTHS || (t.o->u.recur.delta != 0 && t.o->u.recur.delta != 1))
        return "how strong?";
    const int64_t steps = t.c ? tensor_count(t.c) : 0, own = strength == RECUR_OWN ? heads : 0;
    if (t.c && !same_rows(t.c, t.out)) return "steps have other rows";
    if (steps != own && steps != own + heads && steps != own + heads * rows) return "needs a step for each head";
    if (t.c ? !steps : strength != RECUR_ONE) return "needs steps";
    if (strength == RECUR_STEP && steps != heads) return "needs one step for each head";
    return t.s->slot_floats == rows * columns ? NULL : "the slot does not hold the state";
}

static const char *check_columns(shapes t)
{
    if (!same_rows(t.a, t.out) || t.c) return "input and output have different rows";
    const int64_t from = t.o->u.columns.from;
    if (t.b && (t.b->kind != TENSOR_CONST || !is_vector(t.b, tensor_count(t.out)) || from))
        return "needs the number of each column";
    for (int64_t k = 0; t.b && k < t.b->dim[0]; k++) {
        const float at = t.b->data[k];
        if (!(at >= 0 && at < (float)tensor_count(t.a)) || at != floorf(at)) return "a column is not in the row";
    }
    if (t.b) return NULL;
    return from < 0 || from + tensor_count(t.out) > tensor_count(t.a) ? "the columns are not in the row" : NULL;
}

static const char *check_coll(shapes t)
{
    const int how = t.o->u.coll.how;
    if (how < COLL_GATHER || how >= COLL_COUNT) return "collected how?";
    if (t.c) return "too many operands";
    const bool sorted = t.out->axis == AXIS_EXP && dispatched(t.p, t.o->in[1]);
    if (!sorted && (t.o->in[1] || (t.out->block && t.out->axis == AXIS_EXP)))
        return "codes of expert rows, and only they, are tiled by their dispatch";
    if (!t.o->in[0]) return NULL;
    if (!same_rows(t.a, t.out) || t.a->block != t.out->block) return "input and output have different rows";
    const op *codes = writer(t.p, t.o->in[0]);
    if (t.a->block && (!codes || codes->in[1] != t.o->in[1])) return "the rows are tiled otherwise";
    const int64_t part = tensor_count(t.a), all = tensor_count(t.out);
    return part == all || (part < all && how == COLL_GATHER) ? NULL : "the part does not fit the whole";
}

/* What every op with a state has to have. */
static const char *check_state(const program *p, const op *o, const state *s)
{
    if (!op_is(o, OPF_STATE)) return o->state < 0 ? NULL : "wrong state";
    if (!s || op_is(o, OPF_SLOT) != (s->kind == STATE_SLOT)) return "wrong state";
    for (uint32_t i = 0; i < p->n_op && s->kind == STATE_SLOT; i++)
        if (p->ops[i].state == o->state) return "the slot is another op's";
    return NULL;
}

static const char *(*const checks[OP_COUNT])(shapes t) = {
#define X(id, name, facts, doc) [OP_##id] = check_##name,
    OP_LIST(X)
#undef X
};

const char *op_check(const program *p, const op *o)
{
    if (o->kind >= OP_COUNT) return "no such op";
    const shapes t = {.p = p,
                      .o = o,
                      .a = operand_of(p, o, 0),
                      .b = operand_of(p, o, 1),
                      .c = operand_of(p, o, 2),
                      .out = o->out && o->out < p->n_tensor ? &p->tensors[o->out] : NULL,
                      .s = o->state >= 0 && (uint32_t)o->state < p->n_state ? &p->states[o->state] : NULL};
    for (int i = 0; i < 4; i++)
        if (o->in[i] >= p->n_tensor) return "an operand does not exist";
    const bool coded = o->kind == OP_QUANT || op_is(o, OPF_COLL);
    if (t.a && t.a->block && !op_is(o, OPF_MATRIX) && !coded) return "reads int8 activations";
    if (t.out && t.out->block && !coded) return "writes int8 activations";
    if (o->in[3] && !op_is(o, OPF_FOUR)) return "too many operands";
    if (op_is(o, OPF_NO_OUTPUT) ? o->out != 0 : !is_act(t.out)) return "the output must be an activation";
    const char *wrong = check_state(p, o, t.s);
    return wrong ? wrong : checks[o->kind](t);
}
