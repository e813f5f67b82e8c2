/* op.h - the op list: everything a program can do, one row each.
 *
 * Activations are float32, row-major [rows, dim], rows being a symbol (enum row_axis) that each step binds to a count. Parameters are
 * constants after load; whatever changes from step to step is in struct step. Each tensor is written by exactly one op (single
 * assignment): in-place is the memory plan's business. To add an op: a row here, a reference kernel cpu/cpu_<op>.c, and its
 * shape rule in src/core/program.c. The definition of each op is its reference kernel; the sentence here is its contract. */
#ifndef CORE_OP_H
#define CORE_OP_H
#include <stdbool.h>
#include <stdint.h>

/* X(id, name, sentence) */
#define OP_LIST(X)                                                                                                     \
    X(EMBED, "embed", "out[r] = table in0[ id(r) + offset ]; id: the row's token, position or token type")             \
    X(NORM, "norm", "out = normalise(in0) over groups of `width` [* weight in1] [+ bias in2]")                         \
    X(MATMUL, "matmul", "out[r,n] = in0[r,k] * weight in1[n,k]^T [+ bias in2[n]]")                                     \
    X(QUANT, "quant",                                                                                                  \
      "out = in0 as int8 with a scale for every `block` elements, for packed weights [rows sorted by dispatch in1]")   \
    X(ROPE, "rope", "out = in0 with the first `dims` of each head of `width` rotated by the row's position")           \
    X(KV_PUT, "kv_put", "state[row's position] = keys in0, values in1; writes no tensor")                              \
    X(ATTN, "attn",                                                                                                    \
      "out = softmax(scale * in0 . keys [soft-capped] [+ bias]) . values, over the state; cross: rows of another "     \
      "axis")                                                                                                          \
    X(ACT, "act", "out = fn(in0)")                                                                                     \
    X(MUL, "mul", "out = in0 * in1; in1 an activation (as wide, or of width 1), or a vector over the last axis")       \
    X(ADD, "add", "out = in0 + in1; in1 an activation, or a vector over the last axis")                                \
    X(SCALE, "scale", "out = in0 * factor")                                                                            \
    X(SOFTCAP, "softcap", "out = cap * tanh(in0 / cap)")                                                               \
    X(CLAMP, "clamp", "out = min(max(in0, -limit), limit); `above`: min(in0, limit)")                                  \
    X(TAKE_OUT, "take_out", "out[i] = in0[ step.out[i] ]: only rows whose result is wanted go on")                     \
    X(ROUTE, "route",                                                                                                  \
      "out[r] = the `used` experts that row r of scores in0 [+ bias in1] picks, best first, then their weights")       \
    X(DISPATCH, "dispatch",                                                                                            \
      "out = one row for each expert of each row of in0, sorted by expert: token row, expert; and where each went")    \
    X(GATHER, "gather", "out[i] = the row of in0 that row i of dispatch in1 names [* its weight in in2]")              \
    X(MATMUL_EXP, "matmul_exp",                                                                                        \
      "out[i] = in0[i] * W^T [+ bias in2], W the part of weight in1 that belongs to the expert of row i by in3")       \
    X(SCATTER, "scatter",                                                                                              \
      "out[r] = sum over the experts of row r, best first, of their rows of in0 by in1 [* weight in in2]")             \
    X(POOL, "pool", "out[i] = first, mean or last of the rows of in0 that sequence step.pool[i] has")                  \
    X(MATMUL_HEADS, "matmul_heads",                                                                                    \
      "out = each head of in0 times W^T, W the part of weight in1 that belongs to the head")                           \
    X(JOIN, "join", "out = each head of in0 and the same of in1 side by side")

typedef enum op_kind {
#define X(id, name, doc) OP_##id,
    OP_LIST(X)
#undef X
        OP_COUNT
} op_kind;

typedef struct op_row {
    const char *name;
    const char *doc;
} op_row;
extern const op_row op_info[OP_COUNT];

/* Activation functions: X(id, spec name, sentence). erf form of gelu is the exact one. The scalar definitions are in
 * cpu/cpu_act.c; "gelu.tanh" is gelu_new = gelu_pytorch_tanh, "gelu.quick" is x*sigmoid(1.702x). */
#define ACT_LIST(X)                                                                                                    \
    X(NONE, "none", "x")                                                                                               \
    X(SILU, "silu", "x * sigmoid(x)")                                                                                  \
    X(GELU, "gelu", "x * (1 + erf(x / sqrt 2)) / 2")                                                                   \
    X(GELU_TANH, "gelu.tanh", "x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2")                                   \
    X(GELU_QUICK, "gelu.quick", "x * sigmoid(1.702 x)")                                                                \
    X(RELU, "relu", "max(x, 0)")                                                                                       \
    X(RELU2, "relu2", "max(x, 0)^2")                                                                                   \
    X(EXP_REST, "exp.rest", "exp(m) - 1 - m, m = min(x, 0)")                                                           \
    X(SIGMOID, "sigmoid", "1 / (1 + exp(-x))")                                                                         \
    X(TANH, "tanh", "tanh(x)")

typedef enum act_kind {
#define X(id, name, doc) ACT_##id,
    ACT_LIST(X)
#undef X
        ACT_COUNT
} act_kind;
extern const char *const act_name[ACT_COUNT];

/* rms: x / sqrt(mean x^2 + eps); layer: (x - mean) / sqrt(var + eps); l2: x / max(sqrt(sum x^2), eps) */
enum { NORM_RMS, NORM_LAYER, NORM_L2 };
enum { POOL_FIRST, POOL_MEAN, POOL_LAST };
enum { EMBED_BY_TOKEN, EMBED_BY_POSITION, EMBED_BY_TYPE };
enum { ROPE_HALVES, ROPE_NEIGHBOURS }; /* pairs (i, i + dims/2), "neox"; pairs (2i, 2i + 1), "interleaved" */
/* What is added to scores. ALIBI: -slope[h] * distance. ALIBI_BF16: slope * position rounded to bfloat16 and added before scaling
 * (how Falcon was trained). BUCKETS: values[bucket][h], the bucket of every distance -reach … reach being in a table; further ones
 * count as reach (T5). */
enum { BIAS_NONE, BIAS_ALIBI, BIAS_ALIBI_BF16, BIAS_BUCKETS };
enum {
    ATTN_Q,
    ATTN_BIAS,
    ATTN_SINKS,
    ATTN_TABLE
}; /* in[] of ATTN: bias: slopes [heads] or values [buckets * heads]; sinks [heads]: a
                                                       logit without a value; table [2 * reach + 1]; 0 = none */
enum { AHEAD_ALL = INT32_MAX };
/* How logits of experts become scores. SOFTMAX, SIGMOID: over all, before picking; PICKED: softmax over those picked. MIXER: one after the
 * other, the best of those left, its weight a softmax over those left that lie near it (arXiv 2409.12136, as at inference). */
enum { SCORE_SOFTMAX, SCORE_PICKED, SCORE_SIGMOID, SCORE_MIXER, SCORE_COUNT };
extern const char *const score_name[SCORE_COUNT];
/* A row of DISPATCH, int32 in the memory of floats: token row and expert of the row; row r * used + rank has in SLOT where the expert of
 * that rank of token row r went. */
enum { DISPATCH_ROW, DISPATCH_EXPERT, DISPATCH_SLOT, DISPATCH_COLS };
enum { EXPERTS_MAX = 1024 };

typedef uint32_t ref; /* index of a tensor in its program; 0 = none */

typedef struct op {
    uint8_t kind;  /* op_kind */
    int16_t layer; /* -1 outside layers */
    int16_t state; /* KV_PUT, ATTN: index into program.state; else -1 */
    ref out;       /* 0 for KV_PUT */
    ref in[4];
    union {
        struct {
            int32_t by, offset;
        } embed;
        struct {
            float eps;
            int32_t kind, width; /* width: elements normalised together (dim, head_dim, or the whole projection) */
        } norm;
        struct {
            int32_t dims, style, width,
                table; /* dims: rotated per head, even; width: head_dim; table: index into program.rope */
        } rope;
        struct {
            float scale, softcap; /* softcap 0 = none */
            int32_t heads;
            int32_t window; /* 0 = all before; w: sees keys with position > own - w */
            int32_t ahead;  /* 0 = causal; n: keys up to own + n as well; AHEAD_ALL: up to the last */
            int32_t chunk;  /* 0 = none; c: no keys before own / c * c */
            int32_t bias;   /* BIAS_* */
        } attn;
        struct {
            int32_t fn;
        } act;
        struct {
            float factor;
        } scale;
        struct {
            float cap;
        } softcap;
        struct {
            float limit;   /* > 0 */
            int32_t above; /* only what is above the limit is changed */
        } clamp;
        struct {
            int32_t score, used; /* SCORE_*; experts of a row */
            int32_t groups,
                groups_used;    /* experts in `groups` equal groups: only of the best groups_used; 0 = one group */
            int32_t group_best; /* a group is as good as the sum of its best 1 or 2 */
            int32_t renorm;     /* weights are divided by their sum */
            float factor;       /* of weights, at last */
            float near;         /* MIXER: near is what lies less than this share of its size below */
        } route;
        struct {
            int32_t experts, used;
        } dispatch;
        struct {
            int32_t how; /* POOL_* */
        } pool;
        struct {
            int32_t heads;
        } join;
        struct {
            int32_t residual; /* codes of what the codes of in0 leave of it (act_residual) */
        } quant;
    } u;
} op;

/* Whether it multiplies by a matrix of weights, operand 1. */
static inline bool op_multiplies(const op *o)
{
    return o->kind == OP_MATMUL || o->kind == OP_MATMUL_EXP || o->kind == OP_MATMUL_HEADS;
}

#endif
