/* cpu_fuse.h - the fuse table of the CPU (core/fuse.h): runs of ops that vector kernels do in one pass over rows. */
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

extern const fuse_row fuse_rows[FUSE_COUNT];
extern const fuse_table cpu_fuse;
