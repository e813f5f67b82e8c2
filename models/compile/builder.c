/* builder.c - see builder.h: the helpers that modules emit ops with. */
#include "models/compile/builder.h"

#include "models/compile/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tensors and ops */

int64_t builder_width(const builder *b, ref x) { return tensor_count(&b->prog->tensors[x]); }

static void full_name(const builder *b, const char *path, const char *part, char *out, size_t cap)
{
    const char *dot = part && *part && *path ? "." : "", *side = b->encoding ? "enc" : "dec";
    if (b->encoding && strncmp(path, "enc.", 4) == 0) path += 4;
    if (b->layer == OUTSIDE) snprintf(out, cap, "%s.%s%s%s", side, path, dot, part ? part : "");
    else snprintf(out, cap, "%s.%d.%s%s%s", side, b->layer % ENCODER, path, dot, part ? part : "");
}

static int16_t op_layer(const builder *b) { return layer_number(b->layer, b->prog->n_enc); }

static ref fresh(builder *b, const char *path, const char *part, int rows, int64_t width)
{
    char name[200];
    full_name(b, path, part, name, sizeof name);
    tensor t = {
        .name = name, .kind = TENSOR_ACT, .rank = 1, .axis = (uint8_t)rows, .layer = op_layer(b), .dim = {width}};
    return program_tensor(b->prog, &t, b->e);
}

static int rows_like(const builder *b, ref like)
{
    return like ? b->prog->tensors[like].axis : b->encoding ? AXIS_ENC : AXIS_TOK;
}

static bool emit(builder *b, op *o)
{
    if (b->prog->n_op >= BUILDER_OPS_MAX) {
        err_set(b->e, ERR_LIMIT, "the program has more than %d ops", BUILDER_OPS_MAX);
        return false;
    }
    o->layer = op_layer(b);
    return program_op(b->prog, o, b->e) == OK;
}

ref builder_op(builder *b, op o, const char *path, const char *part, ref like, int64_t width)
{
    if (!op_is(&o, OPF_STATE)) o.state = -1;
    if (o.kind != OP_KV_PUT) {
        int rows = o.kind == OP_TAKE_OUT   ? AXIS_OUT
                   : o.kind == OP_POOL     ? AXIS_SEQ
                   : o.kind == OP_DISPATCH ? AXIS_EXP
                                           : rows_like(b, like);
        o.out = fresh(b, path, part, rows, width);
        if (!o.out) return 0;
    }
    if (!emit(b, &o)) return 0;
    return o.kind == OP_KV_PUT ? o.in[0] : o.out;
}

ref builder_const(builder *b, const char *path, const char *part, const float *values, int64_t rows, int64_t cols)
{
    char name[200];
    full_name(b, path, part, name, sizeof name);
    size_t n = (size_t)rows * (size_t)(cols ? cols : 1);
    float *own = arena_array(&b->prog->mem, n, sizeof *own);
    if (!own) return err_memory(b->e, "a table of the model"), 0;
    memcpy(own, values, n * sizeof *own);
    tensor t = {.name = name,
                .kind = TENSOR_CONST,
                .rank = cols ? 2 : 1,
                .layer = op_layer(b),
                .dim = {rows, cols},
                .data = own};
    return program_tensor(b->prog, &t, b->e);
}

int builder_state(builder *b, state s)
{
    s.layer = op_layer(b);
    for (uint32_t i = 0; i < b->prog->n_state && s.scratch; i++) {
        const state *t = &b->prog->states[i];
        if (t->scratch && t->axis == s.axis && t->heads == s.heads && t->k_dim == s.k_dim && t->v_dim == s.v_dim &&
            t->window == s.window)
            return (int)i;
    }
    return program_state(b->prog, &s, b->e);
}

/* ---- weights */

static void slot_of(const call *c, const char *role, char *out, size_t cap)
{
    snprintf(out, cap, "%s%s%s", c->path, *role ? "." : "", role);
}

/* A weight of the call; *w 0 when it is optional and absent. */
static bool weight_of(builder *b, const call *c, const char *role, bind_want want, ref *w)
{
    char slot[128];
    slot_of(c, role, slot, sizeof slot);
    want.slot = slot;
    want.for_whom = c->where;
    want.layer = b->layer;
    return bind_weight(b->bind, &want, w, b->e) == OK;
}

static bool bias_of(builder *b, const call *c, const char *role, const char *mode, int64_t n, linear_opt o, ref *bias)
{
    *bias = 0;
    if (!mode || strcmp(mode, "false") == 0) return true;
    bind_want want = {
        .rows = n, .pairs = o.pairs, .rotated = o.rotated, .bias = true, .optional = strcmp(mode, "auto") == 0};
    return weight_of(b, c, role, want, bias);
}

/* The name of one of several ops that make `part` (NULL ok). */
enum { PART_NAME = 64 };
static const char *part_name(const char *part, const char *what, char out[PART_NAME])
{
    bool some = part && *part;
    snprintf(out, PART_NAME, "%s%s%s", some ? part : "", some ? "." : "", what);
    return out;
}

/* x with its columns in the order that matrix w wants them in: once for all matrices of the same order. */
static ref in_order(builder *b, const call *c, ref w, ref x, const char *part)
{
    const program *p = b->prog;
    const ref order = p->weights[p->tensors[w].weight].order;
    if (!order) return x;
    for (uint32_t i = p->n_op; i-- > 0 && p->ops[i].out != x;)
        if (p->ops[i].kind == OP_COLUMNS && p->ops[i].in[0] == x && p->ops[i].in[1] == order) return p->ops[i].out;
    char name[PART_NAME];
    op o = {.kind = OP_COLUMNS, .in = {x, order}};
    return builder_op(b, o, c->path, part_name(part, "ordered", name), x, builder_width(b, x));
}

ref builder_matmul(builder *b, const call *c, ref w, ref bias, ref x, const char *part)
{
    const float factor = b->prog->weights[b->prog->tensors[w].weight].output_scale;
    if (!(x = in_order(b, c, w, x, part))) return 0;
    op o = {.kind = OP_MATMUL, .in = {x, w, bias}};
    ref y = builder_op(b, o, c->path, part, x, b->prog->tensors[w].dim[0]);
    if (!y || factor == 0) return y;
    char name[PART_NAME];
    return builder_scale(b, c->path, part_name(part, "scaled", name), y, (double)factor);
}

ref builder_linear(builder *b, const call *c, const char *role, ref x, int64_t n, linear_opt o)
{
    ref w, bias;
    if (n < 1 && n != BUILDER_ALL_ROWS)
        return err_set(b->e, ERR_SPEC, "%s: %s of width %lld", c->where, role, (long long)n), 0;
    bind_want want = {.rows = n == BUILDER_ALL_ROWS ? 0 : n,
                      .cols = builder_width(b, x),
                      .pairs = o.pairs,
                      .rotated = o.rotated,
                      .keep_type = o.keep_type,
                      .output_scale = !b->act_f32,
                      .order = !b->written};
    if (!weight_of(b, c, role, want, &w) || !bias_of(b, c, role, o.bias, b->prog->tensors[w].dim[0], o, &bias))
        return 0;
    return builder_matmul(b, c, w, bias, x, role);
}

ref builder_table(builder *b, const call *c, int64_t rows, int64_t width)
{
    ref table;
    bind_want want = {.rows = rows, .cols = width, .keep_type = true};
    return weight_of(b, c, "", want, &table) ? table : 0;
}

bool builder_vector(builder *b, const call *c, const char *role, const char *mode, int64_t n, ref *v)
{
    *v = 0;
    if (strcmp(mode, "false") == 0) return true;
    return weight_of(b, c, role, (bind_want){.rows = n, .optional = strcmp(mode, "auto") == 0}, v);
}

bool builder_trained(builder *b, const call *c, const char *role, double *out, bool *there)
{
    size_t n;
    char slot[128];
    slot_of(c, role, slot, sizeof slot);
    const float *values = bind_values(b->bind, slot, b->layer, &b->prog->mem, &n, b->e);
    *there = values != NULL;
    if (b->e->code) return false;
    if (values && n != 1)
        return err_set(b->e, ERR_SPEC, "%s: %s has %zu elements; expected one", c->where, slot, n), false;
    if (values) *out = values[0];
    return true;
}

ref builder_trained_columns(builder *b, const call *c, const char *role, int64_t n, int64_t width)
{
    size_t have;
    char slot[128], name[PART_NAME];
    slot_of(c, role, slot, sizeof slot);
    const float *values = bind_values(b->bind, slot, b->layer, &b->prog->mem, &have, b->e);
    if (b->e->code) return 0;
    if (!values || have != (size_t)n)
        return err_set(b->e, ERR_SPEC, "%s: %s has %zu elements; expected %lld", c->where, slot, have, (long long)n), 0;
    float *all = arena_array(&b->prog->mem, (size_t)(n * width), sizeof *all);
    if (!all) return err_memory(b->e, "the program"), 0;
    for (int64_t i = 0; i < n * width; i++) all[i] = values[i / width];
    return builder_const(b, c->path, part_name(role, "columns", name), all, n * width, 0);
}

/* ---- experts */

/* Rows times the factor of their expert, where matrix w has left these to an op. */
static ref times_factors(builder *b, const call *c, const char *role, ref w, const builder_experts *by, ref y)
{
    const ref factors = b->prog->weights[b->prog->tensors[w].weight].factors;
    if (!y || !factors) return y;
    char name[PART_NAME];
    op o = {.kind = OP_EMBED, .in = {factors, by->table}, .u.embed.by = EMBED_BY_EXPERT};
    ref factor = builder_op(b, o, c->path, part_name(role, "factor", name), by->table, 1);
    return factor ? builder_mul(b, c->path, part_name(role, "scaled", name), y, factor) : 0;
}

ref builder_linear_exp(builder *b, const call *c, const char *role, ref x, const builder_experts *by, int64_t n,
                       const char *bias)
{
    ref w, add = 0;
    int64_t rows = n * by->experts;
    bind_want want = {
        .rows = rows, .cols = builder_width(b, x), .parts = by->experts, .output_scale = !b->act_f32 && !b->written};
    bind_want adds = {.rows = rows, .parts = by->experts, .bias = true, .optional = strcmp(bias, "auto") == 0};
    if (!weight_of(b, c, role, want, &w)) return 0;
    if (strcmp(bias, "false") != 0 && !weight_of(b, c, role, adds, &add)) return 0;
    op o = {.kind = OP_MATMUL_EXP, .in = {x, w, add, by->table}};
    return times_factors(b, c, role, w, by, builder_op(b, o, c->path, role, x, n));
}

ref builder_gather(builder *b, const call *c, ref x, const builder_experts *by, bool weigh)
{
    op o = {.kind = OP_GATHER, .in = {x, by->table, weigh ? by->route : 0}};
    return builder_op(b, o, c->path, "gather", by->table, builder_width(b, x));
}

ref builder_scatter(builder *b, const call *c, ref rows, const builder_experts *by, bool weigh)
{
    op o = {.kind = OP_SCATTER, .in = {rows, by->table, weigh ? by->route : 0}};
    return builder_op(b, o, c->path, "scatter", by->route, builder_width(b, rows));
}

ref builder_linear_heads(builder *b, const call *c, const char *role, ref x, int heads, int64_t n)
{
    ref w;
    bind_want want = {.rows = n * heads, .cols = builder_width(b, x) / heads, .parts = heads};
    if (!weight_of(b, c, role, want, &w)) return 0;
    return builder_op(b, (op){.kind = OP_MATMUL_HEADS, .in = {x, w}}, c->path, role, x, n * heads);
}

ref builder_join(builder *b, const call *c, const char *part, ref x, ref y, int heads)
{
    op o = {.kind = OP_JOIN, .in = {x, y}, .u.join = {heads}};
    return builder_op(b, o, c->path, part, x, builder_width(b, x) + builder_width(b, y));
}

ref builder_conv(builder *b, const call *c, const char *role, const char *part, ref x, int64_t taps, const char *bias)
{
    ref w, add;
    const int64_t dim = builder_width(b, x);
    if (b->encoding) return err_set(b->e, ERR_SPEC, "%s: encoders have no convolutions", c->where), 0;
    if (!weight_of(b, c, role, (bind_want){.rows = taps, .cols = dim, .floats = true}, &w) ||
        !bias_of(b, c, role, bias, dim, (linear_opt){}, &add))
        return 0;
    int index = builder_state(b, (state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = (taps - 1) * dim});
    op o = {.kind = OP_CONV, .state = (int16_t)index, .in = {x, w, add}};
    return index < 0 ? 0 : builder_op(b, o, c->path, part, x, dim);
}

ref builder_recur(builder *b, const call *c, const char *part, op o, int64_t rows)
{
    const int64_t dim = builder_width(b, o.in[RECUR_V]);
    if (b->encoding) return err_set(b->e, ERR_SPEC, "%s: encoders have no recurrences", c->where), 0;
    int index = builder_state(b, (state){.kind = STATE_SLOT, .axis = AXIS_TOK, .slot_floats = rows * dim});
    o.kind = OP_RECUR;
    o.state = (int16_t)index;
    return index < 0 ? 0 : builder_op(b, o, c->path, part, o.in[RECUR_V], dim);
}

ref builder_norm(builder *b, const call *c, const char *role, ref x, norm_opt o)
{
    ref w = 0, bias = 0;
    int64_t width = o.width ? o.width : builder_width(b, x);
    if (o.n_weight) {
        bind_want want = {.rows = o.n_weight};
        if (!weight_of(b, c, role, want, &w)) return 0;
        if (!bias_of(b, c, role, o.bias, o.n_weight, (linear_opt){}, &bias)) return 0;
    }
    op n = {.kind = OP_NORM, .in = {x, w, bias}, .u.norm = {(float)o.eps, o.kind, (int32_t)width}};
    return builder_op(b, n, c->path, role, x, builder_width(b, x));
}

/* ---- small ops */

ref builder_act_fn(builder *b, const char *path, const char *part, ref x, act_kind fn)
{
    if (fn == ACT_NONE) return x;
    op o = {.kind = OP_ACT, .in = {x}, .u.act = {fn}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

static ref binary_op(builder *b, op_kind kind, const char *path, const char *part, ref x, ref y)
{
    op o = {.kind = (uint8_t)kind, .in = {x, y}};
    if (kind == OP_MUL && builder_width(b, x) == 1) o.in[0] = y, o.in[1] = x; /* one number a row is the second */
    return builder_op(b, o, path, part, x, builder_width(b, o.in[0]));
}

ref builder_add(builder *b, const char *path, const char *part, ref x, ref y)
{
    return binary_op(b, OP_ADD, path, part, x, y);
}
ref builder_mul(builder *b, const char *path, const char *part, ref x, ref y)
{
    return binary_op(b, OP_MUL, path, part, x, y);
}

ref builder_scale(builder *b, const char *path, const char *part, ref x, double factor)
{
    if (factor == 1) return x;
    op o = {.kind = OP_SCALE, .in = {x}, .u.scale = {(float)factor}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

ref builder_add_number(builder *b, const char *path, const char *part, ref x, double number)
{
    char name[PART_NAME];
    if (number == 0) return x;
    const int64_t n = builder_width(b, x);
    float *values = arena_array(&b->prog->mem, (size_t)n, sizeof *values);
    if (!values) return err_memory(b->e, "the program"), 0;
    for (int64_t i = 0; i < n; i++) values[i] = (float)number;
    ref all = builder_const(b, path, part_name(part, "number", name), values, n, 0);
    return all ? builder_add(b, path, part, x, all) : 0;
}

ref builder_clamp(builder *b, const char *path, const char *part, ref x, double limit)
{
    if (limit == 0) return x;
    op o = {.kind = OP_CLAMP, .in = {x}, .u.clamp = {(float)limit, 0}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

ref builder_clamp_above(builder *b, const char *path, const char *part, ref x, double limit)
{
    op o = {.kind = OP_CLAMP, .in = {x}, .u.clamp = {(float)limit, 1}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

ref builder_softcap(builder *b, const char *path, const char *part, ref x, double cap)
{
    if (cap == 0) return x;
    op o = {.kind = OP_SOFTCAP, .in = {x}, .u.softcap = {(float)cap}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

ref builder_columns(builder *b, const char *path, const char *part, ref x, int64_t from, int64_t n)
{
    op o = {.kind = OP_COLUMNS, .in = {x}, .u.columns = {(int32_t)from}};
    return builder_op(b, o, path, part, x, n);
}

ref builder_row(builder *b, const char *path, const char *part, ref x, int kind, double eps)
{
    op o = {.kind = OP_NORM, .in = {x}, .u.norm = {(float)eps, kind, (int32_t)builder_width(b, x)}};
    return builder_op(b, o, path, part, x, builder_width(b, x));
}

ref builder_l2(builder *b, const char *path, const char *part, ref x, double least)
{
    return builder_row(b, path, part, x, NORM_L2, least);
}

act_kind builder_act_kind(const char *name)
{
    for (int i = 0; i < ACT_COUNT; i++)
        if (strcmp(act_name[i], name) == 0) return (act_kind)i;
    return ACT_NONE;
}

int64_t builder_head_dim(builder *b, const call *c, int64_t heads, int64_t option)
{
    int64_t width = builder_width(b, c->in[0]);
    if (!option && width % heads)
        return err_set(b->e, ERR_SPEC, "%s: %lld heads do not divide the width %lld: head_dim is needed", c->where,
                       (long long)heads, (long long)width),
               0;
    return option ? option : width / heads;
}

const float *builder_list(builder *b, const call *c, const char *key, size_t *n)
{
    static const float empty[1];
    const param *row = param_find(c->mod->params, c->mod->n_params, key);
    const char *where;
    value v;
    *n = 0;
    if (option_value(c->slot, b->values, row, b->layer, &v, &where, b->e)) return NULL;
    size_t count = value_count(&v);
    if (v.kind == VALUE_BOOL && !v.number) return empty; /* not even a tensor */
    if (!count) {
        const float *stored = bind_values(b->bind, key, OUTSIDE, &b->prog->mem, n, b->e);
        return stored ? stored : b->e->code ? NULL : empty;
    }
    float *list = arena_array(&b->prog->mem, count, sizeof *list);
    if (!list) return err_memory(b->e, "the program"), NULL;
    for (size_t i = 0; i < count; i++) {
        value item = value_at(&v, i);
        if (item.kind != VALUE_NUMBER)
            return err_set(b->e, ERR_SPEC, "%s: %s.%s: element %zu is not a number", where, c->path, key, i), NULL;
        list[i] = (float)item.number;
    }
    *n = count;
    return list;
}
