/* cpu_fuse.h - the fuse table: runs of ops, one after the other, that vector kernels do in one pass over the rows. The
 * unfused run is the definition: the result of the last op has the same bits; the results of the others are not
 * written. */
#pragma once
#include "core/backend.h"

/* X(id, kernel, name, ops of the run, their kinds) */
#define CPU_FUSE_LIST(X)                                                                                               \
    X(NORM_QUANT, v_norm_quant, "norm+quant", 2, OP_NORM, OP_QUANT)                                                    \
    X(GATE_UP, v_gate_up, "matmul,matmul,act*mul+quant", 5, OP_MATMUL, OP_MATMUL, OP_ACT, OP_MUL, OP_QUANT)            \
    X(ACT_MUL_QUANT, v_act_mul_quant, "act*mul+quant", 3, OP_ACT, OP_MUL, OP_QUANT)

enum {
#define X(id, ...) FUSE_##id,
    CPU_FUSE_LIST(X)
#undef X
        FUSE_COUNT
};

typedef struct fuse_row {
    const char *name;
    uint8_t n, kind[5];
} fuse_row;
extern const fuse_row fuse_rows[FUSE_COUNT];

/* The row whose run begins at op `at` of a placed segment, -1: none. Only the run may read the unwritten results, the
 * kernel must support the shapes, and the result must not overlap operands that the run still reads. */
int fuse_find(const segment *s, const int max_rows[AXIS_COUNT], uint32_t at);

/* Length of such a run before activations are placed; 1: none begins there. */
uint32_t fuse_length(const segment *s, uint32_t at);

/* Whether two activations of a placed segment share memory, each with max_rows rows. */
bool fuse_overlap(const program *p, const int max_rows[AXIS_COUNT], ref a, ref b);
