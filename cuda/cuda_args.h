/* cuda_args.h - the parameters of the kernels of fast.cu: device addresses and sizes that the host has looked up, so
 * that a kernel begins its work without a chain of loads. Kernels and host include it. */
#pragma once
#include "core/attn_mask.h"
#include "core/op.h"
#include "core/step.h"
#include "ops/held.h"

/* Rows: a graph is made for a number of rows and replayed for fewer, so a grid may have more blocks than this step has
 * rows. `live` points to the number in the step, where kernels read it. */

/* Threads of a block of each kernel. */
enum {
    QMAT_THREADS = 256,
    FMAT_THREADS = 256,
    NORM_THREADS = 128,
    QUANT_THREADS = 128,
    ATTN_WARPS = 4,
    ATTN_THREADS = ATTN_WARPS * 32,
    PICK_THREADS = 256,
    EACH_THREADS = 128,
    ROW_THREADS = 128,
    KV_THREADS = 128,
};

/* MATMUL, MATMUL_HEADS, MATMUL_EXP: outputs y[row][n] for rows of activations. Heads: output n takes columns from
 * n / head_rows * cols on. Experts: row m takes the matrix of its expert. */
typedef struct product_args {
    const float *bias;       /* [n], of experts [experts][n]; NULL: none */
    float *y;                /* [rows][n] */
    const int32_t *table;    /* of a DISPATCH; NULL: one matrix */
    int64_t n, cols, x_cols; /* cols: of the matrix; x_cols: of a whole row of activations */
    int64_t head_rows;       /* no heads: INT64_MAX */
    const int32_t *live;     /* rows of this step */
    int32_t rows;            /* that many at most: the grid's */
} product_args;

/* Packed weights, int8 activations (act_q8.h, one row a tile). */
typedef struct qmat_args {
    product_args of;
    const uint8_t *w, *x;        /* panels; rows */
    uint64_t w_stride, x_stride; /* bytes from panel to panel, from row to row */
    int32_t type;                /* dtype of w */
    float factor;                /* of scales: panel_format.factor */
} qmat_args;

/* Float weights, float activations. */
typedef struct fmat_args {
    product_args of;
    const uint8_t *w;
    const float *x;
} fmat_args;

/* NORM: one group of `width` elements is a block of threads. */
typedef struct norm_args {
    const float *x, *gain, *bias;
    float *y;
    const int32_t *live;
    int64_t groups, gain_n, bias_n; /* groups of a row; lengths of both vectors */
    int32_t width, kind;
    float eps;
} norm_args;

/* QUANT: a block is a warp. */
typedef struct quant_args {
    const float *x;
    uint8_t *to;
    const int32_t *live;
    int64_t cols;
    int32_t block, residual;
} quant_args;

/* ATTN: a row and head is a block of threads. Bytes of its dynamic shared memory: sums of values of the row and of each
 * warp, the query as floats and as codes. */
static inline uint64_t attn_shared_bytes(int k_dim, int v_dim)
{
    return (uint64_t)((1 + ATTN_WARPS) * v_dim + k_dim) * sizeof(float) + (uint64_t)(k_dim + 64) * 2 +
           (uint64_t)(k_dim / 32 + 2) * sizeof(float);
}

typedef struct attn_args {
    const step *st;
    const float *q, *bias, *sinks, *table; /* bias: slopes, or values by bucket */
    float *out;
    kv_store kv;
    op o;
    int32_t group, axis, key_axis, reach, per_kv;
} attn_args;

/* ACT, MUL, ADD, SCALE, SOFTCAP, CLAMP: y[i] of x[i] and b[i], b of the column, or b of the row. */
typedef struct each_args {
    const float *x, *b;
    float *y;
    const int32_t *live;
    int64_t dim; /* elements of a row */
    op o;
    bool by_column, by_row;
} each_args;

/* ROPE: a pair is a thread, and so is an element that is not rotated. */
typedef struct rope_args {
    const step *st;
    const rope_variant *variant; /* [variants] of the table */
    const float *x;
    float *y;
    int64_t heads; /* of a row */
    int32_t axis, table, width, half, halves;
} rope_args;

/* KV_PUT: the keys or the values of a head of a token are a warp. */
typedef struct kv_args {
    const step *st;
    const float *k, *v;
    kv_store kv;
    int32_t group, axis;
} kv_args;

/* EMBED: a row is a block of threads. TAKE_OUT, COLUMNS: likewise, `from` being the first column. */
typedef struct embed_args {
    const step *st;
    held_weight table;
    float *y;
    int64_t dim;
    int32_t axis, by, offset;
} embed_args;
typedef struct copy_args {
    const float *x;
    float *y;
    const step *st; /* rows are st->out's; NULL: all */
    const int32_t *live;
    int64_t x_dim, dim, from;
} copy_args;
