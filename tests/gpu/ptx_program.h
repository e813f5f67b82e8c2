/* ptx_program.h - a module that can run: its code, its constants, its variables in device memory.
 *
 * There is no recursion, so each function has its frame at a fixed place behind those of all that call it: rows of the
 * warp's file for registers, bytes of a lane's memory for the rest. */
#pragma once
#include "tests/gpu/lanes.h"

/* Where addresses of each kind lie. Of .shared and .local what ld.shared sees is the offset alone. */
#define WINDOW_SHARED (UINT64_C(1) << 56)
#define WINDOW_LOCAL  (UINT64_C(2) << 56)
#define WINDOW_PARAM  (UINT64_C(3) << 56)
#define WINDOW_CODE   (UINT64_C(4) << 56) /* 16 bytes a function */
#define WINDOW_OFFSET (~(UINT64_C(255) << 56))
enum { SHARED_START = 1024, LOCAL_START = 256 };

/* Rows that every warp has: special registers, then rows for passing values of one line. */
#define SPECIAL_LIST(X)                                                                                                \
    X("%tid.x", TID_X)                                                                                                 \
    X("%tid.y", TID_Y)                                                                                                 \
    X("%tid.z", TID_Z)                                                                                                 \
    X("%ntid.x", NTID_X)                                                                                               \
    X("%ntid.y", NTID_Y)                                                                                               \
    X("%ntid.z", NTID_Z)                                                                                               \
    X("%ctaid.x", CTAID_X)                                                                                             \
    X("%ctaid.y", CTAID_Y)                                                                                             \
    X("%ctaid.z", CTAID_Z)                                                                                             \
    X("%nctaid.x", NCTAID_X)                                                                                           \
    X("%nctaid.y", NCTAID_Y)                                                                                           \
    X("%nctaid.z", NCTAID_Z)                                                                                           \
    X("%laneid", LANEID)                                                                                               \
    X("%warpid", WARPID)                                                                                               \
    X("%nwarpid", NWARPID)                                                                                             \
    X("%smid", SMID)                                                                                                   \
    X("%nsmid", NSMID)                                                                                                 \
    X("%lanemask_eq", LANEMASK_EQ)                                                                                     \
    X("%lanemask_lt", LANEMASK_LT)                                                                                     \
    X("%lanemask_le", LANEMASK_LE)                                                                                     \
    X("%lanemask_gt", LANEMASK_GT)                                                                                     \
    X("%lanemask_ge", LANEMASK_GE)                                                                                     \
    X("%dynamic_smem_size", DYNAMIC_BYTES)                                                                             \
    X("%total_smem_size", SHARED_BYTES)                                                                                \
    X("%cluster_ctarank", CLUSTER_RANK) /* there are no clusters: 0 of 1 */                                            \
    X("%cluster_nctarank", CLUSTER_SIZE)                                                                               \
    X("", DYNAMIC_START) /* where .extern .shared begins */
enum {
#define X(name, id) SPECIAL_##id,
    SPECIAL_LIST(X)
#undef X
        SPECIAL_COUNT,
    TEMP_FIRST = 32,
    TEMP_COUNT = 96,
    FRAME_FIRST = TEMP_FIRST + TEMP_COUNT
};

typedef struct program {
    ptx_module *m;
    int n_code, code_room;
    inst *code;
    int n_constant, constant_room; /* rows */
    uint32_t *constants;
    int *constant_at; /* a table by hash: row + 1 */
    int constant_slots;
    int n_list;
    int32_t **lists;
    int *frame;           /* of each function: its first row */
    int64_t *local;       /* and its first byte of a lane's memory */
    int *entry;           /* and its first instruction */
    int *rows;            /* of a warp's file, from its first to the last that it or what it calls has */
    int64_t *local_bytes; /* of a lane, likewise */
    int64_t shared_bytes; /* of variables outside functions */
    uint8_t *ran;         /* [n_code] not 0: for some lane; NULL: not noted (plant.h) */
    struct block *spare;  /* memory of blocks that have ended: machine.c's */
    int n_old;
    void **old; /* lists that have moved as they grew, to which those that run may point */
    int n_memory;
    uint64_t *memory; /* device addresses of variables, to be freed */
} program;

/* Makes a program of m, which it then owns. allocate gives device memory that is written at the host address that it
 * tells. */
typedef uint64_t ptx_program_allocate(void *user, size_t bytes, uint8_t **host);
program *ptx_program_load(ptx_module *m, ptx_program_allocate *allocate, void *user);
void ptx_program_free(program *p);
/* Reads a function whose body has waited: before it is launched, and before what follows from its body is told. */
void ptx_program_need(program *p, int function);

/* Bytes of .shared that a kernel has without dynamic ones. */
int64_t ptx_program_shared(const program *p, int function);
/* The module's variable of that name, or NULL. */
const ptx_variable *ptx_program_variable(const program *p, const char *name);
