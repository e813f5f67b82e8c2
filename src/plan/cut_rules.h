/* cut_rules.h - how each op may be cut by columns over the ranks of a group: one row an op, beside OP_LIST.
 *
 * Matrices are cut by output rows and read whole rows of their input, so nothing is summed across ranks and every
 * result has the bits of the uncut one. What lies between two matrices is cut as their outputs are, as far as its
 * columns do not depend on each other. */
#pragma once
#include "core/program.h"

/* What the columns of a result are. */
enum {
    CUT_NONE,  /* there is no result */
    CUT_ALIKE, /* those of the operands ALIKE, and cut like them */
    CUT_ROWS,  /* output rows of a matrix: cut anew */
    CUT_WHOLE, /* never cut: every rank has all of them */
};
/* What a rank needs of an operand. */
enum {
    TAKE_NOTHING,
    TAKE_ALIKE,   /* activation: the columns that it makes */
    TAKE_BESIDE,  /* the same; of a number a row that number; of a vector the same columns */
    TAKE_WHOLE,   /* activation: whole rows */
    TAKE_COPIED,  /* whole rows that each rank computes by itself: they are short, and a hand-over takes longer */
    TAKE_STATE,   /* keys or values: the heads that its queries read */
    TAKE_ALL,     /* of a weight or constant all */
    TAKE_VECTOR,  /* one value for each column, or for each head; of one for all heads all */
    TAKE_ROWS,    /* matrix: the rows of its columns, in each part */
    TAKE_PARTS,   /* matrix: the parts of its heads */
    TAKE_COLUMNS, /* matrix: its columns */
    TAKE_BUCKETS, /* values [bucket][head]: those of its heads */
    TAKE_KEYS,    /* activation: the key heads of its columns; tiled, or of one key head, whole rows */
    TAKE_HEADS,   /* equal runs of values, one for each head */
    TAKE_OWNED,   /* table: some rows of it; the others come from other ranks */
};

/* Heads of RECUR that stay together: value heads with one key head, or tiled ones each for itself. */
static inline bool cut_by_keys(const op *o) { return !o->u.recur.tiled && o->u.recur.key_heads > 1; }
static inline int64_t cut_recur_heads(const op *o) { return cut_by_keys(o) ? o->u.recur.key_heads : o->u.recur.heads; }

/* X(ID, result, in0, in1, in2, in3, heads: equal groups of columns that stay together, as an expression of p and o; 0:
 * any column may be cut from any other) */
#define CUT_LIST(X)                                                                                                    \
    X(EMBED, WHOLE, OWNED, WHOLE, NOTHING, NOTHING, 0)                                                                 \
    X(NORM, ALIKE, ALIKE, VECTOR, VECTOR, NOTHING, cut_width(p, o->out) / o->u.norm.width)                             \
    X(MATMUL, ROWS, WHOLE, ROWS, VECTOR, NOTHING, 0)                                                                   \
    X(QUANT, ALIKE, ALIKE, WHOLE, NOTHING, NOTHING, 1)                                                                 \
    X(ROPE, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, cut_width(p, o->out) / o->u.rope.width)                           \
    X(KV_PUT, NONE, STATE, STATE, NOTHING, NOTHING, p->states[o->state].heads)                                         \
    X(ATTN, ALIKE, ALIKE, BUCKETS, VECTOR, ALL, o->u.attn.heads)                                                       \
    X(ACT, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                                 \
    X(MUL, ALIKE, ALIKE, BESIDE, NOTHING, NOTHING, 0)                                                                  \
    X(ADD, ALIKE, ALIKE, BESIDE, NOTHING, NOTHING, 0)                                                                  \
    X(SCALE, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                               \
    X(SOFTCAP, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                             \
    X(CLAMP, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                               \
    X(TAKE_OUT, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                            \
    X(ROUTE, WHOLE, COPIED, ALL, ALL, NOTHING, 0)                                                                      \
    X(DISPATCH, WHOLE, WHOLE, NOTHING, NOTHING, NOTHING, 0)                                                            \
    X(GATHER, ALIKE, ALIKE, WHOLE, WHOLE, NOTHING, 0)                                                                  \
    X(MATMUL_EXP, ROWS, WHOLE, ROWS, VECTOR, WHOLE, 0)                                                                 \
    X(SCATTER, ALIKE, ALIKE, WHOLE, WHOLE, NOTHING, 0)                                                                 \
    X(POOL, ALIKE, ALIKE, NOTHING, NOTHING, NOTHING, 0)                                                                \
    X(MATMUL_HEADS, ALIKE, ALIKE, PARTS, NOTHING, NOTHING, p->weights[p->tensors[o->in[1]].weight].parts)              \
    X(JOIN, ALIKE, ALIKE, ALIKE, NOTHING, NOTHING, o->u.join.heads)                                                    \
    X(CONV, ALIKE, ALIKE, COLUMNS, VECTOR, NOTHING, 0)                                                                 \
    X(RECUR, ALIKE, ALIKE, KEYS, ALIKE, HEADS, cut_recur_heads(o))                                                     \
    X(COLUMNS, WHOLE, WHOLE, ALL, NOTHING, NOTHING, 0)                                                                 \
    X(COLL, WHOLE, WHOLE, NOTHING, NOTHING, NOTHING, 0)

typedef struct cut_rule {
    uint8_t result, in[4];
    int64_t heads;
} cut_rule;

/* The row of an op, with what its shapes say: of one head all columns stay together, so the op is done whole. */
cut_rule cut_rule_of(const program *p, const op *o);

/* Elements of a row of an activation; of a weight or constant all. */
static inline int64_t cut_width(const program *p, ref t) { return tensor_count(&p->tensors[t]); }
