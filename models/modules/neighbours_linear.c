/* neighbours_linear.c - a linear map of a row and as many rows before and after it: a Conv1d over all columns, padded
 * with zeros (DeBERTa v2's first layer).
 *
 * A row comes to its neighbour by attention that can see one row only: products of queries and keys count 0, of all
 * distances one has bias 0 and the others one far below, and where the text has no such row a sink takes all. So
 * weights are 1 and e^-86, the least that softmax gives, which is 0 beside any other number of a sum. The shifted rows
 * are joined column by column, as a kernel [out, in, taps] wants them: recipe `kernel`. */
#include "models/compile/builder.h"

#include <stdio.h>

typedef struct options {
    int64_t taps;
    const char *bias, *activation;
} options;

static const param rows[] = {
    ROW(taps, PARAM_INT, .otherwise = "3", .min = 1, .max = 1 << 10, .doc = "rows that a result is made of: odd"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "adds a bias vector"),
    ROW(activation, PARAM_WORD, .otherwise = "none", .words = ACT_WORDS, .doc = "applied to the result"),
};
static const module_weight weights[] = {
    {"kernel", "[dim, dim * taps]", "of each input column its taps, the first row's first"}};

/* Rows of x, `by` rows later; x is in the state. */
static ref shifted(builder *b, const call *c, int index, ref at, int by, int64_t width)
{
    static const float bias[] = {-1e30f, 0}, sink[] = {-1e15f};
    float bucket[2 * (1 << 9) + 1] = {0};
    const int reach = by < 0 ? -by : by;
    char part[32];
    snprintf(part, sizeof part, "from%+d", by);
    bucket[reach + by] = 1;
    const op a = {
        .kind = OP_ATTN,
        .state = (int16_t)index,
        .in = {[ATTN_Q] = at,
               [ATTN_BIAS] = builder_const(b, c->path, "bias", bias, 2, 0),
               [ATTN_SINKS] = builder_const(b, c->path, "sink", sink, 1, 0),
               [ATTN_TABLE] = builder_const(b, c->path, "distances", bucket, 2 * (int64_t)reach + 1, 0)},
        .u.attn = {.heads = 1, .window = by < 0 ? reach + 1 : 1, .ahead = by < 0 ? 0 : by, .bias = BIAS_BUCKETS}};
    return a.in[ATTN_BIAS] && a.in[ATTN_SINKS] && a.in[ATTN_TABLE] ? builder_op(b, a, c->path, part, at, width) : 0;
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    const ref x = c->in[0];
    const int64_t dim = builder_width(b, x), half = o->taps / 2;
    if (o->taps % 2 == 0)
        return err_set(b->e, ERR_SPEC, "%s: %lld taps: of a row and its neighbours there is an odd number", c->where,
                       (long long)o->taps),
               0;
    if (!b->bidirectional && !b->encoding)
        return err_set(b->e, ERR_SPEC, "%s: later rows are seen in encoders only", c->where), 0;
    const state s = {.axis = b->prog->tensors[x].axis, .heads = 1, .k_dim = 1, .v_dim = (int32_t)dim, .scratch = true};
    const int index = builder_state(b, s);
    const ref at = index < 0 ? 0 : builder_columns(b, c->path, "key", x, 0, 1);
    const op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {at, x}};
    if (!at || !builder_op(b, put, c->path, NULL, 0, 0)) return 0;
    ref all = 0;
    for (int by = -(int)half; by <= half; by++) {
        char part[32];
        snprintf(part, sizeof part, "to%+d", by);
        const ref row = by ? shifted(b, c, index, at, by, dim) : x;
        all = !row ? 0 : by == -half ? row : builder_join(b, c, part, all, row, (int)dim);
        if (!all) return 0;
    }
    const ref y = builder_linear(b, c, "kernel", all, dim, (linear_opt){.bias = o->bias});
    return y ? builder_act_fn(b, c->path, "act", y, builder_act_kind(o->activation)) : 0;
}

MODULE(neighbours, linear, 1, "a linear map of a row and its neighbours on both sides: Conv1d");
