/* op.h - the op list: everything a program can do, one row each.
 *
 * Activations are float32, row-major [rows, dim], rows being a symbol (enum row_axis) that each step binds to a count.
 * Parameters are constants after load; whatever changes from step to step is in struct step. Each tensor is written by
 * exactly one op (single assignment): in-place is the memory plan's business. The definition of an op is
 * ops/def_<op>.c; the sentence here is its contract. To add an op: a row of KERNEL_LIST (and its parameters in
 * struct op) here, rows of its parameters and its shape rule in op.c, the reference. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What other passes have to know about an op. */
enum {
    OPF_ELEMENTWISE = 1, /* each element of the output depends on the same element of the operands alone */
    OPF_IN_PLACE = 2,    /* the output may take the memory of in0 */
    OPF_MATRIX = 4,      /* multiplies in0, which may be int8, by the matrix in1 */
    OPF_HEAVY = 8,       /* worth sharing among threads even for a few rows */
    OPF_STATE = 16,      /* reads or writes the state */
    OPF_NO_OUTPUT = 32,  /* writes no tensor */
    OPF_FOUR = 64,       /* may have a fourth operand */
    OPF_SLOT = 128,      /* its state is a slot, which no other op has: it reads the old and writes the new one */
    OPF_COLL = 256, /* moves rows between ranks: ends a stretch; carried out by the driver, no device has a kernel */
    OPF_EACH = OPF_ELEMENTWISE | OPF_IN_PLACE,
    OPF_PRODUCT = OPF_MATRIX | OPF_HEAVY,
    OPF_RECURRENT = OPF_STATE | OPF_SLOT,
};

/* X(ID, name, facts, sentence): the ops that devices have kernels for; all ops. */
#define KERNEL_LIST(X)                                                                                                 \
    X(EMBED, embed, 0,                                                                                                 \
      "out[r] = table in0[ id(r) + offset ], 0 outside; id: the row's token, position or token type, "                 \
      "or the expert that dispatch in1 says")                                                                          \
    X(NORM, norm, 0, "out = normalise(in0) over groups of `width` [* weight in1] [+ bias in2]")                        \
    X(MATMUL, matmul, OPF_PRODUCT, "out[r,n] = in0[r,k] * weight in1[n,k]^T [+ bias in2[n]]")                          \
    X(QUANT, quant, 0,                                                                                                 \
      "out = in0 as int8 with a scale for every `block` elements, for packed weights [rows sorted by dispatch in1]")   \
    X(ROPE, rope, OPF_IN_PLACE,                                                                                        \
      "out = in0 with the first `dims` of each head of `width` rotated by the row's position")                         \
    X(KV_PUT, kv_put, OPF_STATE | OPF_NO_OUTPUT, "state[row's position] = keys in0, values in1; writes no tensor")     \
    X(ATTN, attn, OPF_STATE | OPF_HEAVY | OPF_FOUR,                                                                    \
      "out = softmax(scale * in0 . keys [soft-capped] [+ bias]) . values, over the state; cross: rows of another "     \
      "axis")                                                                                                          \
    X(ACT, act, OPF_EACH, "out = fn(in0)")                                                                             \
    X(MUL, mul, OPF_EACH,                                                                                              \
      "out = in0 * in1; in1 an activation (as wide, or of width 1), or a vector over the last axis")                   \
    X(ADD, add, OPF_EACH, "out = in0 + in1; in1 an activation, or a vector over the last axis")                        \
    X(SCALE, scale, OPF_EACH, "out = in0 * factor")                                                                    \
    X(SOFTCAP, softcap, OPF_EACH, "out = cap * tanh(in0 / cap)")                                                       \
    X(CLAMP, clamp, OPF_EACH, "out = min(max(in0, -limit), limit); `above`: min(in0, limit)")                          \
    X(TAKE_OUT, take_out, 0, "out[i] = in0[ step.out[i] ]: only rows whose result is wanted go on")                    \
    X(ROUTE, route, 0,                                                                                                 \
      "out[r] = the `used` experts that row r of scores in0 [+ bias in1] picks, best first, then their weights [* "    \
      "in2 "                                                                                                           \
      "of the expert]")                                                                                                \
    X(DISPATCH, dispatch, 0,                                                                                           \
      "out = one row for each expert of each row of in0, sorted by expert: token row, expert - first; and where each " \
      "went; last, as expert -1, rows of experts that are not here, which nobody computes")                            \
    X(GATHER, gather, 0, "out[i] = the row of in0 that row i of dispatch in1 names [* its weight in in2]")             \
    X(MATMUL_EXP, matmul_exp, OPF_PRODUCT | OPF_FOUR,                                                                  \
      "out[i] = in0[i] * W^T [+ bias in2], W the part of weight in1 that belongs to the expert of row i by in3")       \
    X(SCATTER, scatter, 0,                                                                                             \
      "out[r] = sum over the experts of row r that are here, best first, of their rows of in0 by in1 [* weight in "    \
      "in2]")                                                                                                          \
    X(POOL, pool, 0, "out[i] = first, mean or last of the rows of in0 that sequence step.pool[i] has")                 \
    X(MATMUL_HEADS, matmul_heads, OPF_PRODUCT,                                                                         \
      "out = each head of in0 times W^T, W the part of weight in1 that belongs to the head")                           \
    X(JOIN, join, 0, "out = each head of in0 and the same of in1 side by side")                                        \
    X(CONV, conv, OPF_RECURRENT,                                                                                       \
      "out[r,c] = [bias in2[c] +] sum over taps t of weight in1[t,c] * in0[r - (taps - 1) + t,c], rows of the "        \
      "sequence; those before the step are in its slot")                                                               \
    X(RECUR, recur, OPF_RECURRENT | OPF_HEAVY | OPF_FOUR,                                                              \
      "out = queries of in1 times a state, rows by columns, which decays by exp(rate in3 * step of in2) and then "     \
      "takes "                                                                                                         \
      "up in0 by the keys of in1 [delta: less what they find there], as strong as in2 says; heads of in0 and in2 "     \
      "share "                                                                                                         \
      "key heads of in1; the state is in its slot")                                                                    \
    X(COLUMNS, columns, 0,                                                                                             \
      "out = the columns of in0 from column `from` on, as many as out has, or those that constant in1 names")
#define OP_LIST(X)                                                                                                     \
    KERNEL_LIST(X)                                                                                                     \
    X(COLL, coll, OPF_COLL,                                                                                            \
      "out = gather: the columns of in0 of all ranks side by side; owner: rows of in0, each from the rank that has "   \
      "its id; reduce: the sum of in0 over all ranks; without in0 this rank has no part [codes of rows sorted by "     \
      "dispatch in1]")

typedef enum op_kind {
#define X(id, ...) OP_##id,
    OP_LIST(X)
#undef X
        OP_COUNT
} op_kind;

/* Activation functions: X(id, spec name, sentence). erf form of gelu is the exact one. The scalar definitions are in
 * core/act_value.h; "gelu.tanh" is gelu_new = gelu_pytorch_tanh, "gelu.quick" is x*sigmoid(1.702x). */
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
    X(TANH, "tanh", "tanh(x)")                                                                                         \
    X(SOFTPLUS, "softplus", "log(1 + exp(x))")

typedef enum act_kind {
#define X(id, name, doc) ACT_##id,
    ACT_LIST(X)
#undef X
        ACT_COUNT
} act_kind;
extern const char *const act_name[ACT_COUNT];
/* "none|silu|…": all of them as an option takes them (PARAM_WORD). */
#define ACT_WORD(id, name, doc) "|" name
#define ACT_WORDS               (&ACT_LIST(ACT_WORD)[1])

/* rms: x / sqrt(mean x^2 + eps); layer: (x - mean) / sqrt(var + eps); l2: x / max(sqrt(sum x^2), eps) */
/* size: sqrt(mean x^2), for each element; above: x - mean - eps * sqrt(var) */
enum { NORM_RMS, NORM_LAYER, NORM_L2, NORM_SIZE, NORM_ABOVE, NORM_COUNT };
enum { POOL_FIRST, POOL_MEAN, POOL_LAST, POOL_COUNT };
enum { COLL_GATHER, COLL_OWNER, COLL_REDUCE, COLL_COUNT };
enum { EMBED_BY_TOKEN, EMBED_BY_POSITION, EMBED_BY_TYPE, EMBED_BY_EXPERT, EMBED_BY_COUNT };
/* Pairs that rotate: (i, i + dims/2), "neox"; (2i, 2i + 1), "interleaved". */
enum { ROPE_HALVES, ROPE_NEIGHBOURS, ROPE_STYLE_COUNT };
/* What is added to scores. ALIBI: -slope[h] * distance. ALIBI_BF16: slope * position rounded to bfloat16 and added
 * before scaling (how Falcon was trained). BUCKETS: values[bucket][h], the bucket of every distance -reach … reach
 * being in a table; larger distances count as reach (T5). PLACES: scale times what the row has for the place of the key
 * plus what the key has for it, the place of every distance being in a table (disentangled attention, DeBERTa: as each
 * summand belongs to a pair of rows, no other op can add it). */
enum { BIAS_NONE, BIAS_ALIBI, BIAS_ALIBI_BF16, BIAS_BUCKETS, BIAS_PLACES, BIAS_COUNT };
/* in[] of ATTN, 0 = none. Bias: slopes [heads] or values [buckets * heads]; sinks [heads]: a logit without a value;
 * table [2 * reach + 1]. BIAS_PLACES has two activations [heads * places] in place of bias and sinks: values of a row
 * as a query, values of a row as a key; one of them may be 0. */
enum { ATTN_Q, ATTN_BIAS, ATTN_SINKS, ATTN_TABLE, ATTN_OWN_PLACES = ATTN_BIAS, ATTN_KEY_PLACES = ATTN_SINKS };
enum { AHEAD_ALL = INT32_MAX };
/* How logits of experts become scores: X(id, spec name). SOFTMAX, SIGMOID: over all, before picking; PICKED: softmax
 * over those picked. MIXER: the best expert first, its weight a softmax over those scores that lie near its own; then
 * the same among the remaining ones (arXiv 2409.12136, as at inference). */
#define SCORE_LIST(X) X(SOFTMAX, "softmax") X(PICKED, "picked") X(SIGMOID, "sigmoid") X(MIXER, "mixer")
enum {
#define X(id, name) SCORE_##id,
    SCORE_LIST(X)
#undef X
        SCORE_COUNT
};
extern const char *const score_name[SCORE_COUNT];
#define SCORE_WORD(id, name) "|" name
#define SCORE_WORDS          (&SCORE_LIST(SCORE_WORD)[1])
/* A row of DISPATCH, int32 in the memory of floats: token row and expert of the row; in SLOT of row r * used + rank:
 * the row to which the expert of that rank of token row r went. */
enum { DISPATCH_ROW, DISPATCH_EXPERT, DISPATCH_SLOT, DISPATCH_COLS };
enum { EXPERTS_MAX = 1024 };
/* in[] of RECUR. Of each key head a query, then its key; of each value head a step, or one for each row of the state,
 * then the strength where that is OWN (0: all steps are 1); of each value head a rate, or one for each row. Strength:
 * ONE; STEP: the step, of which there is one; OWN: a number of its own. */
enum { RECUR_V, RECUR_KEYS, RECUR_STEPS, RECUR_RATE };
enum { RECUR_ONE, RECUR_STEP, RECUR_OWN, RECUR_STRENGTHS };
enum { RECUR_ROWS_MAX = 1024 }; /* of a state */

typedef uint32_t ref; /* index of a tensor in its program; 0 = none */

/* Its parameters are a union of one small struct for each kind, which makes the members many. */
typedef struct op {
    uint8_t kind;  /* op_kind */
    int16_t layer; /* -1 outside layers */
    int16_t state; /* OPF_STATE: index into program.state; else -1 */
    ref out;       /* 0 for KV_PUT */
    ref in[4];
    /* clang-format off */
    union {
        struct { int32_t by, offset; } embed;               /* EMBED_BY_* */
        struct { float eps; int32_t kind, width; } norm;    /* NORM_*; elements normalised together */
        struct { int32_t dims, style, width, table; } rope; /* rotated of `width`; in program.ropes */
        struct {
            float scale, softcap; /* softcap 0 = none */
            int32_t heads;        /* of the queries here; head h reads head (head0 + h) / per_kv of the state */
            int32_t per_kv;       /* query heads of one head of the state; 0: heads / heads of the state */
            int32_t head0;        /* query heads of the state's first head that come before the first one here */
            int32_t window;       /* 0 = all before; w: keys at positions > own - w */
            int32_t ahead;        /* 0 = causal; n: keys up to own + n as well; AHEAD_ALL: up to the last */
            int32_t chunk;        /* 0 = none; c: no keys before own / c * c */
            int32_t bias;         /* BIAS_* */
        } attn;
        struct { int32_t fn; } act;                         /* ACT_* */
        struct { float factor; } scale;
        struct { float cap; } softcap;
        struct { float limit; int32_t above; } clamp;       /* > 0; above: values below -limit stay */
        struct {
            int32_t score, used;         /* SCORE_*; experts of a row */
            int32_t groups, groups_used; /* equal groups of experts, the best of which count; 0 = one */
            int32_t group_best;          /* a group is as good as the sum of its best 1 or 2 */
            int32_t renorm;              /* weights are divided by their sum */
            float factor;                /* multiplies the weights at the end */
            float near;                  /* MIXER: share of its size by which a near score is below the best */
        } route;
        struct { int32_t experts, used, first; } dispatch;  /* those here; of a row; experts before them */
        struct { int32_t how, skip; } pool; /* POOL_*; LAST: of the rows whose token is not skip - 1 (0: of all) */
        struct { int32_t heads; } join;
        struct {
            int32_t heads, key_heads; /* of values, here; of keys: head p has p / (heads / key_heads) */
            int32_t tiled, head0;     /* 1: key head (head0 + p) % key_heads, head0 value heads being before these */
            int32_t delta, strength;  /* 1: the delta rule; RECUR_* */
        } recur;
        struct { int32_t from; } columns;
        struct { int32_t how, codes, left; } coll;          /* COLL_*; block of codes that may travel instead, or 0;
                                                               1: only others want the result, which has no memory */
        struct { int32_t residual; } quant;                 /* quantizes in0 minus its own codes (act_residual) */
    } u;
    /* clang-format on */
} op;

/* A parameter of an op: 4 bytes of op.u. Dump, hash and comparison of ops follow from these rows. */
typedef struct op_param {
    uint8_t kind, type, offset; /* op_kind, OPP_*, in struct op */
    bool optional;              /* not shown when it has the value `otherwise` */
    bool silent;                /* nor part of an identity then */
    bool (*shown)(const op *o); /* NULL: always */
    float otherwise;
    int n_word;
    const char *const *words; /* OPP_WORD: [n_word] the names of 0, 1, … */
    const char *label;        /* what the dump writes before the value: " width=" */
} op_param;
/* int32_t: a number, a choice; float: shown with 6 digits, with 9. */
enum { OPP_INT, OPP_WORD, OPP_FLOAT, OPP_EXACT };
extern const op_param op_params[]; /* in the order of the dump; the last has no label */
double op_param_value(const op_param *row, const op *o);

typedef struct op_row {
    const char *name;
    uint32_t facts; /* OPF_* */
} op_row;
extern const op_row op_info[OP_COUNT];

static inline bool op_is(const op *o, uint32_t fact) { return op_info[o->kind].facts & fact; }

/* Whether operands, shapes and parameters are what the kernels take for granted: NULL, or what is wrong. */
struct program;
const char *op_check(const struct program *p, const op *o);
