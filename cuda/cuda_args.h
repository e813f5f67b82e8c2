/* cuda_args.h - the parameters of the kernels of fast.cu: device addresses and sizes that the host has looked up, so
 * that a kernel begins its work without a chain of loads. Kernels and host include it. */
#pragma once
#include "core/attn_mask.h"
#include "core/best_logit.h"
#include "core/kv_codes.h"
#include "core/op.h"
#include "core/step.h"
#include "ops/held.h"

/* Rows: a graph is made for a number of rows and replayed for fewer, so a grid may have more blocks than this step has
 * rows. `live` points to the number in the step, where kernels read it. */

/* Threads of a block of each kernel. */
enum {
    FMAT_THREADS = 64,
    MANY_THREADS = 256,
    RUN_THREADS = 512, /* at most */
    ATTN_WARPS = 8,
    ATTN_THREADS = ATTN_WARPS * 32,
    PICK_THREADS = 1024,
    ROUTE_THREADS = 512,
    CHANGE_THREADS = 256,
    ROW_THREADS = 128,
    HEADS_THREADS = 128,
    WIDE_THREADS = 256,
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

/* Packed weights, int8 activations (act_q8.h, one row a tile): up to PRODUCT_PARTS matrices of one type that read the
 * same activations. `share` warps, a power of two, take a panel by turns. A block has QDECODE_WARPS warps at most and
 * `shared` bytes of dynamic shared memory: at most so many a warp, and for activations those of a stage of weights at
 * least. */
enum { PRODUCT_PARTS = 4, QDECODE_WARPS = 8, QDECODE_STAGE = 2432, QDECODE_RING = 9728, QDECODE_WAYS = 3 };
#define QDECODE_WARP_BYTES(rows)  (QDECODE_RING + 32 * 4 * ((rows) == 1 ? 2 : (rows) / 2))
#define QDECODE_STAGE_BYTES(rows) (512 + 640 * (rows))
typedef struct product_part { /* one of the matrices of a launch */
    const uint8_t *w;
    const float *bias; /* see product_args */
    float *y;
    int64_t n;
    uint64_t stride; /* bytes from panel to panel; of floats from row to row */
    int32_t first;   /* the number of its first panel; of floats of its first FMAT_OUTPUTS outputs */
} product_part;

/* Codes of rows that a launch makes where its results are: QUANT. */
enum { CODES_MOST = 2 };
typedef struct codes_to {
    uint8_t *y;
    int32_t block;
    bool residual;
} codes_to;

/* Two products that end with ACT, MUL, QUANT. Eight panels are a group: four of each matrix, of the same outputs. The
 * block of threads that ends a group last codes it. */
enum { GATED_PANELS = 8, GATED_COLUMNS = GATED_PANELS / 2 * 16 };
typedef struct gated_end {
    uint32_t
        *turns; /* of blocks along x and groups: how many of those that share a group are done; 0 between launches */
    codes_to codes[CODES_MOST];
    int32_t n, act, gate; /* codes, 0: there is no such end; function; part that it is of */
} gated_end;
typedef struct qdecode_args {
    product_part part[PRODUCT_PARTS];
    gated_end end;
    const int32_t *table, *live;
    const uint8_t *x;
    uint64_t x_stride;
    int64_t cols, x_cols, head_rows;
    int32_t parts, panels, share, shared, type;
    float factor;
} qdecode_args;

/* Packed weights, many rows of int8 activations (act_q8.h, one row a tile). */
typedef struct qmat_args {
    product_args of;
    const uint8_t *w, *x;        /* panels; rows */
    uint64_t w_stride, x_stride; /* bytes from panel to panel, from row to row */
    int32_t type;                /* dtype of w */
    float factor;                /* of scales: panel_format.factor */
} qmat_args;
enum { MANY_ROWS = 128, MANY_OUTPUTS = 128 }; /* of a block of threads where there are many rows */
/* And of one by warpgroups (qwgmma.cuh), for kinds whose blocks fit: threads, bytes of dynamic shared memory. */
enum { WG_OUTPUTS = 192, WG_THREADS = 512, WG_SHARED = 208 << 10 };
#define WG_ROWS(two_levels)  ((two_levels) ? 64 : 128)
#define WG_FITS(block, code) ((block) >= 32 && (code) != PANEL_E4M3)

/* Float weights, float activations. A warp has FMAT_WARP_OUTPUTS outputs, and a ring of FMAT_DEPTH stages of FMAT_PIECE
 * bytes of each, FMAT_PITCH apart; size: bytes of a weight. */
enum { FMAT_WARP_OUTPUTS = 8, FMAT_OUTPUTS = FMAT_THREADS / 32 * FMAT_WARP_OUTPUTS, FMAT_PIECE = 256, FMAT_DEPTH = 12 };
#define FMAT_PITCH(size) (FMAT_PIECE + 16 * (size))
#define FMAT_RING(size)  (FMAT_DEPTH * FMAT_WARP_OUTPUTS * FMAT_PITCH(size))
typedef struct fmat_args { /* up to PRODUCT_PARTS matrices of one type that read the same activations */
    product_part part[PRODUCT_PARTS];
    const int32_t *table, *live;
    const float *x;
    int64_t cols, x_cols, head_rows;
    int32_t parts, blocks;
} fmat_args;

/* A run of ops on rows of one length, which hand rows on in shared memory: a block of threads has a row, or some
 * columns of one where no norm is among them. A step of it is an op, or brings a row that the next op reads. */
enum { RUN_STEPS = 16, RUN_SLOTS = 2, RUN_USED = 64, RUN_COLUMNS = 1024 };

typedef struct run_step {
    uint8_t kind;         /* op_kind; COLUMNS, TAKE_OUT, GATHER, SCATTER bring a row */
    int8_t from, to;      /* slots: of the first operand, -1: it is `x`; of the result */
    int8_t second;        /* slot of the second operand, -1: it is `b` */
    const float *x;       /* rows of x_dim elements, taken from column `from_column` on */
    const float *b;       /* element [row * b_row + column * b_column]; of norms the gain */
    const float *c;       /* bias of norms; weights of experts, of GATHER and SCATTER, or NULL */
    const int32_t *table; /* of a DISPATCH */
    void *y;              /* where the result is written; NULL: nobody else reads it */
    int64_t x_dim, from_column, b_row, b_column, gain_n, bias_n;
    int32_t i[3]; /* ACT: function; CLAMP: above; NORM: kind, width; QUANT: block, residual; experts of a row */
    float f;      /* eps, factor, cap, limit */
} run_step;

typedef struct run_args {
    const step *st;
    const int32_t *live;
    int64_t dim;    /* elements of a row */
    int32_t padded; /* floats of a slot: those of a block of threads, whole blocks of codes */
    int32_t n;
    run_step steps[RUN_STEPS];
} run_args;

/* ATTN. A block of threads has `units`: rows of one sequence, and those `heads` query heads that read one head of keys
 * and values. Blocks along x have rows: the first `row_blocks` begin at every `rows`-th row, each of the others where a
 * sequence begins; along y heads, and as often as `splits` says, each time for some of the ranges of keys. */
typedef struct attn_shape {
    int32_t units, heads, rows;                        /* units: a multiple of 8 */
    int32_t row_blocks, head_blocks, first_kv, chunks; /* chunks: blocks along y of one head of keys */
    int32_t tiles;                                     /* of a range, at a time */
    bool ring;                                         /* keys and values come through one: 8 units, all tiles */
    int32_t splits, slots;                             /* slots: ranges of a block that fit in attn_args.parts, */
    int64_t part, parts;                               /* floats of one of them, of all */
} attn_shape;

/* Bytes in shared memory from its begin on where things of a block lie, and of all. */
typedef struct attn_room {
    int32_t query, query_row, query_plane; /* codes of a unit, a plane of bytes; floats: [k_dim][units] */
    int32_t query_sums;                    /* [units][blocks of keys] */
    int32_t share;                /* [tiles][blocks of values][planes][units][SHARE_ROW]; floats: [tiles][64][units] */
    int32_t each, base, offset;   /* [tiles][blocks of values][units] */
    int32_t max, sum, keep, take; /* [tiles][units] */
    int32_t part; /* of a range so far: [units][v_dim], none where it is done at once; floats: [units][ATTN_WIDTH] */
    int32_t ring; /* of each warp ATTN_DEPTH slots, where the kernel has one */
    int32_t bytes;
} attn_room;

/* Tiles of a range; bytes between units: no two in one bank; elements of values that are floats at a time, at most. */
enum { ATTN_TILES = 8, SHARE_ROW = 80, ATTN_WIDTH = 128 };
/* The ring of a warp (attn_ring.cuh): pieces in it, bytes of one; in a slot bytes from row to row of codes of keys and
 * of values, where scales begin, and of all. */
enum { ATTN_DEPTH = 3, ATTN_PIECE = 2048, ATTN_VALUE_PITCH = 80, ATTN_SCALES_AT = 2304, ATTN_SCALES = 8 };
#define ATTN_KEY_PITCH(type) ((type) == DTYPE_I16 ? 144 : 288)
#define ATTN_SLOT(type)                                                                                                \
    ((type) == DTYPE_Q4_B32                          ? ATTN_SCALES_AT + 512                                            \
     : (type) == DTYPE_I16 || (type) == DTYPE_Q8_B64 ? ATTN_SCALES_AT + 256                                            \
                                                     : ATTN_PIECE)

/* How many pieces are keys of a tile, scales of its values (those of ATTN_SCALES blocks are one), and values: of codes
 * of as many elements as a warp takes at once, of floats of ATTN_WIDTH. */
typedef struct attn_parts {
    int32_t keys, scales, values;
} attn_parts;

static inline attn_room attn_room_of(dtype type, int k_dim, int v_dim, const attn_shape *a)
{
    attn_room s = {.query = 0};
    const int n = a->units, tile = a->tiles * n * (int)sizeof(float);
    const bool codes = kv_is_codes(type);
    const int k_blocks = codes ? (int)kv_blocks(type, k_dim) : 0, v_blocks = codes ? (int)kv_blocks(type, v_dim) : 0,
              planes = type == DTYPE_I16 ? 2 : 1;
    int at = 0;
    s.query_row = (int)(kv_padded(type, k_dim, false) + 31) / 32 * 32 + 16;
    s.query_plane = s.query_row * n;
    at += codes ? s.query_plane * planes : k_dim * n * (int)sizeof(float);
    s.query_sums = at;
    at += (n * k_blocks + 3) / 4 * 16;
    s.share = at;
    at += codes ? a->tiles * v_blocks * planes * n * SHARE_ROW : tile * PAGE_TOKENS;
    int32_t *const of_block[] = {&s.each, &s.base, &s.offset}, *const of_tile[] = {&s.max, &s.sum, &s.keep, &s.take};
    for (int i = 0; i < 3; i++) {
        *of_block[i] = at;
        at += tile * v_blocks;
    }
    for (int i = 0; i < 4; i++) {
        *of_tile[i] = at;
        at += tile;
    }
    const bool weights_end = !codes && v_dim <= ATTN_WIDTH; /* before sums begin */
    s.part = weights_end ? s.share : at;
    s.bytes = at;
    if (codes && a->tiles < ATTN_TILES) s.bytes += n * v_dim * (int)sizeof(float);
    if (!codes && !weights_end) s.bytes += n * ATTN_WIDTH * (int)sizeof(float);
    s.ring = (s.bytes + 15) / 16 * 16;
    if (a->ring) s.bytes = s.ring + ATTN_WARPS * ATTN_DEPTH * ATTN_SLOT(type);
    return s;
}

/* X(name, dtype) of a cache, keys and values alike. */
#define ATTN_TYPES(X) X(f32, DTYPE_F32) X(f16, DTYPE_F16) X(i16, DTYPE_I16) X(q8, DTYPE_Q8_B64) X(q4, DTYPE_Q4_B32)

typedef struct attn_args {
    const step *st;
    const float *q, *slopes, *buckets, *sinks, *table; /* NULL: none */
    const float *own_places, *key_places;              /* [rows][heads][places] */
    float *out;
    float *parts;    /* of blocks: [slots] of a maximum and a sum [units], and sums of values [units][v_dim] */
    uint32_t *turns; /* of blocks: how many of those that share ranges are done; 0 between launches */
    codes_to codes[CODES_MOST];
    int32_t n_codes;
    kv_store kv;
    op o;
    attn_shape shape;
    attn_room at;
    attn_parts pieces; /* of the ring */
    kv_codes kf, vf;
    uint64_t k_tile, v_tile; /* bytes */
    int32_t group, axis, key_axis, reach, places, per_kv;
} attn_args;

/* Heads of queries, keys and values of new rows: normed, rotated, written, stored in pages; a head of a row is a warp.
 * Parts are what ROPE ops and KV_PUT take, with the NORM before them. */
enum { HEADS_PARTS = 4, HEADS_NOT_STORED = 0, HEADS_KEYS, HEADS_VALUES };

typedef struct heads_part {
    const float *x, *gain;       /* gain NULL: none */
    const rope_variant *variant; /* [variants] of the table; NULL: not rotated */
    float *y;                    /* NULL: nobody reads it */
    int64_t gain_n;
    int32_t heads, width, table, half, halves;
    int32_t norm; /* NORM_*, or -1 */
    float eps;
    int32_t store; /* HEADS_* */
} heads_part;

typedef struct heads_args {
    const step *st;
    kv_store kv;
    heads_part part[HEADS_PARTS];
    int32_t n, heads;           /* parts; heads of all */
    int32_t axis, group, width; /* width: the largest */
} heads_args;

/* ROUTE, for each row the experts and their weights; and, by one block of threads, DISPATCH. */
enum { DISPATCH_PART = 4096 }; /* experts of rows in shared memory */
typedef struct route_args {
    const int32_t *live;
    const float *x, *bias;  /* scores [n] of each row; added for the pick, or NULL */
    const float *scale;     /* [n] factors of weights, or NULL */
    float *y;               /* what ROUTE gives */
    int32_t *table;         /* what DISPATCH gives; NULL: it is not done */
    op o;                   /* ROUTE */
    int32_t n, space;       /* bytes of shared memory of a warp */
    int32_t experts, first; /* of DISPATCH */
    bool routes;
} route_args;

/* The best logits of each row of n: as many as the step wants, of row after row; without a step, k of each row. */
typedef struct pick_args {
    const float *logits;
    int64_t n;
    const step *st; /* NULL: the grid's rows, each k */
    int32_t k;
    best_logit *to;
} pick_args;

/* The page tables of a step: those entries that have changed. */
typedef struct page_change {
    int32_t at, page;
} page_change;

/* EMBED: a row is a block of threads. */
typedef struct embed_args {
    const step *st;
    held_weight table;
    float *y;
    int64_t dim;
    int32_t axis, by, offset;
} embed_args;

/* Around a product of cuBLAS. Rows row0 … row0 + rows - 1 of packed weights, as bfloat16; rows of activations: int8
 * codes by `block`, or floats (block 0), as bfloat16, or as float16 (`half`) times a power of two whose inverse is
 * scale[row]; results y[rows][n]. */
typedef struct wide_weights {
    const uint8_t *w;
    uint16_t *to;
    uint64_t stride;
    int64_t cols, row0, rows; /* row0: a multiple of PANEL_ROWS */
    int32_t type;
    float factor; /* of the type's panels */
} wide_weights;
typedef struct wide_rows {
    const void *x;
    uint16_t *to;
    float *scale;
    int64_t cols;
    int32_t block;
    bool half;
} wide_rows;
typedef struct wide_end {
    float *y;
    const float *scale, *bias;
    int64_t rows, n;
} wide_end;
