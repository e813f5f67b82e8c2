/* builder.h - helpers that modules write a program with. They return a tensor, or 0 with the error in b->e.
 *
 * builder_linear is the only place that multiplies by a weight, with its bias. */
#pragma once
#include "core/program.h"
#include "models/compile/bind.h"
#include "models/spec/config_eval.h"
#include "models/compile/module.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUILDER_OPS_MAX = 1 << 18, CARRIED_MAX = 16 };

struct builder {
    program *prog;
    spec *s;
    config_eval *values;
    binder *bind;
    int layer;     /* OUTSIDE before the first and after the last; ENCODER + i in the encoder of an encoder-decoder */
    bool encoding; /* in that encoder's formulas: rows are AXIS_ENC, paths begin with "enc." */
    ref memory;    /* the result of that encoder; 0: there is none */
    int ctx;       /* positions that tables are made for */
    bool act_f32, written; /* build_options */
    bool bidirectional;    /* encoder_only: attention sees later tokens too, unless a slot says otherwise */
    bool uncausal; /* a decoder whose name `causal` is false: so it is there, and a window of w reaches w tokens */
    int64_t dim;
    struct {
        const char *name; /* the program's memory */
        ref t;
    } carried[CARRIED_MAX]; /* [n_carried] variables of `embed`, which blocks see and may change */
    int n_carried;
    err *e;
};

int64_t builder_width(const builder *b, ref x);
/* Emits o with inputs in[], writing a fresh activation "dec.3.<path>.<part>" ("enc.3.…" in an encoder; part "" or NULL:
 * the path alone) with the rows of `like` and `width` elements. */
ref builder_op(builder *b, op o, const char *path, const char *part, ref like, int64_t width);
/* The table of the call, [rows, width], rows 0: as many as it has; never cut or re-encoded. */
ref builder_table(builder *b, const call *c, int64_t rows, int64_t width);
/* A constant of the program; values are copied. dims: cols 0 = a vector. */
ref builder_const(builder *b, const char *path, const char *part, const float *values, int64_t rows, int64_t cols);

typedef struct linear_opt {
    const char *bias;   /* "auto" (when the checkpoint has one), "true", "false" */
    int pairs, rotated; /* where the recipe rope_pairs is allowed: head_dim and how much of it rotates; else 0 */
    bool keep_type;     /* no policy touches it */
} linear_opt;
enum { BUILDER_ALL_ROWS = -1 };
/* y[n] = W[n, width of x] x [+ bias] with the weight of a role; n BUILDER_ALL_ROWS: as many as it has rows. */
ref builder_linear(builder *b, const call *c, const char *role, ref x, int64_t n, linear_opt o);
/* The same with a weight that is bound already (tied heads); bias 0 = none. */
ref builder_matmul(builder *b, const call *c, ref w, ref bias, ref x, const char *part);

/* Token rows sorted by the expert that each goes to (ROUTE, DISPATCH). */
typedef struct builder_experts {
    ref route, table;
    int experts;
} builder_experts;
/* y = W x [+ bias] for rows of experts, with the part of W [experts][n, width of x] that is the row's expert. */
ref builder_linear_exp(builder *b, const call *c, const char *role, ref x, const builder_experts *by, int64_t n,
                       const char *bias);
/* gather: rows of x, one for each of their experts; scatter: sums of such rows, in order. weigh: times the weights. */
ref builder_gather(builder *b, const call *c, ref x, const builder_experts *by, bool weigh);
ref builder_scatter(builder *b, const call *c, ref rows, const builder_experts *by, bool weigh);

/* y[h] = W[h] x[h] for each head h of x, W [heads][n, width of a head]. */
ref builder_linear_heads(builder *b, const call *c, const char *role, ref x, int heads, int64_t n);
/* Heads of x and y side by side. */
ref builder_join(builder *b, const call *c, const char *part, ref x, ref y, int heads);

/* The causal convolution of the columns of x, each with `taps` weights of its own; the rows before the step are in a
 * slot; `part` is what the result is called. bias as linear_opt. */
ref builder_conv(builder *b, const call *c, const char *role, const char *part, ref x, int64_t taps, const char *bias);

/* The recurrence `o`, an op RECUR with its operands and parameters, over a slot of its own: of each value head a state
 * of `rows` rows. */
ref builder_recur(builder *b, const call *c, const char *part, op o, int64_t rows);

typedef struct norm_opt {
    int kind; /* NORM_RMS, NORM_LAYER */
    double eps;
    int64_t width;    /* elements normalised together; 0 = the whole row */
    int64_t n_weight; /* length of weight and bias; 0 = no weight */
    const char *bias; /* as linear_opt; ignored without weight */
} norm_opt;
ref builder_norm(builder *b, const call *c, const char *role, ref x, norm_opt o);

ref builder_act_fn(builder *b, const char *path, const char *part, ref x, act_kind fn);
ref builder_add(builder *b, const char *path, const char *part, ref x, ref y);
ref builder_mul(builder *b, const char *path, const char *part, ref x, ref y);
ref builder_scale(builder *b, const char *path, const char *part, ref x, double factor);      /* 1: x itself */
ref builder_add_number(builder *b, const char *path, const char *part, ref x, double number); /* 0: x itself */
ref builder_clamp(builder *b, const char *path, const char *part, ref x, double limit);       /* 0: x itself */
ref builder_clamp_above(builder *b, const char *path, const char *part, ref x, double limit);
ref builder_softcap(builder *b, const char *path, const char *part, ref x, double cap); /* 0: x itself */
/* Columns from … from + n - 1 of x. */
ref builder_columns(builder *b, const char *path, const char *part, ref x, int64_t from, int64_t n);
/* Rows of length 1, those shorter than `least` divided by it, as torch's normalize. */
ref builder_l2(builder *b, const char *path, const char *part, ref x, double least);
/* NORM_SIZE or NORM_ABOVE of whole rows (core/op.h). */
ref builder_row(builder *b, const char *path, const char *part, ref x, int kind, double eps);

/* The width of a head: the option, or with 0 the input's divided by `heads`. 0: failed. */
int64_t builder_head_dim(builder *b, const call *c, int64_t heads, int64_t option);
/* An optional vector weight of n elements; mode as linear_opt.bias. *v 0: there is none. */
bool builder_vector(builder *b, const call *c, const char *role, const char *mode, int64_t n, ref *v);

/* The one number that the tensor of a role holds; *there false: there is no such tensor. */
bool builder_trained(builder *b, const call *c, const char *role, double *out, bool *there);

/* A constant vector [n * width]: each of the n numbers of the tensor of a role for `width` columns. The tensor must be
 * there. */
ref builder_trained_columns(builder *b, const call *c, const char *role, int64_t n, int64_t width);

/* The index of a state of the layer (s.scratch: of the equal one of an earlier layer), or a negative code. */
int builder_state(builder *b, state s);

/* A list option of the call ("rope_short") as floats in the program's arena: its value, else the tensor that [tensors]
 * names under the same key; *n = 0 when there is neither. NULL on error. */
const float *builder_list(builder *b, const call *c, const char *key, size_t *n);

/* act_kind of an option checked against ACT_WORDS. */
act_kind builder_act_kind(const char *name);
