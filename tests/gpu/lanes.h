/* lanes.h - 32 lanes and what an instruction does to them.
 *
 * A register is a row of the warp's file: 32 words, one a lane, or 32 double words in two rows. Registers of 8 and 16
 * bits take whole words, and whoever reads one ignores the upper bits. A predicate is one word: a bit a lane. Constants
 * lie in such rows too, so an operand is always a row, and an instruction is a loop over lanes that a compiler can make
 * vectors of. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/ptx.h"

enum { LANES = 32, NO_ROW = INT32_MIN };
#define ALL_LANES 0xffffffffu

typedef struct inst inst;
typedef struct warp warp;

/* Does one instruction for the lanes of mask, which is not empty. */
typedef void inst_fn(warp *w, const inst *in, uint32_t mask);

/* How a warp goes on after an instruction. */
typedef enum { FLOW_NEXT, FLOW_SETS } inst_flow; /* FLOW_SETS: the instruction itself moves its lanes */
/* What target is of an instruction that moves its lanes. */
typedef enum { TARGET_NONE, TARGET_LABEL, TARGET_TABLE, TARGET_FUNCTION } inst_target;

struct inst {
    inst_fn *run;
    int32_t o[5];  /* rows: of the warp's file, or of constants when negative */
    int32_t guard; /* row of a predicate, or NO_ROW */
    bool guard_not;
    uint8_t flow;   /* inst_flow */
    uint8_t aim;    /* inst_target */
    uint8_t space;  /* ptx_space */
    uint8_t kind;   /* an instruction's own: element_kind, cmp ... */
    uint8_t n;      /* elements of a vector */
    uint8_t mode;   /* an instruction's own */
    uint8_t order;  /* of memory: race.h */
    int32_t target; /* place in the code of a branch or of what is called */
    int32_t line;   /* of the PTX text */
    int64_t imm;
    const int32_t *x; /* further rows */
    const char *text; /* the operation's name */
};

/* Lanes that go on together. A warp is one such group until a branch divides it, and again once they meet. */
typedef enum { GROUP_RUNS, GROUP_AT_BARRIER, GROUP_AT_WARP } group_state;
typedef struct group {
    uint32_t mask;
    int32_t pc;
    int16_t depth;   /* of calls */
    uint8_t state;   /* group_state */
    uint8_t barrier; /* which one it waits at */
} group;

struct warp {
    uint32_t *file;
    const uint32_t *constants;
    struct block *block;
    uint8_t *local; /* local_bytes a lane */
    int64_t local_bytes;
    uint32_t carry;  /* the carry flag of each lane */
    uint32_t live;   /* lanes that have not ended */
    int index;       /* in the block */
    int n_group, at; /* at: the group that runs */
    int spins;       /* branches backwards that a divided warp has taken in a row */
    bool sleeps;     /* its turn is over */
    const inst *now;
    group g[LANES];
    struct lane_copies *copies; /* cp.async under way; NULL before the first */
    struct products *products;  /* wgmma under way, likewise */
};

static inline const uint32_t *row(const warp *w, int32_t r)
{
    return (r >= 0 ? w->file : w->constants) + (size_t)LANES * (size_t)(r & INT32_MAX);
}
static inline uint32_t *row_set(const warp *w, int32_t r) { return w->file + (size_t)LANES * (size_t)r; }

/* A row is another one or the same, so lanes never meet. */
#ifdef __clang__
#define LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_APART _Pragma("GCC ivdep")
#endif

/* body for each lane l of mask. */
#define EACH_LANE(mask, ...)                                                                                           \
    do {                                                                                                               \
        if ((mask) == ALL_LANES) {                                                                                     \
            LANES_APART for (int l = 0; l < LANES; l++) { __VA_ARGS__ }                                                \
        } else {                                                                                                       \
            for (uint32_t left_ = (mask); left_; left_ &= left_ - 1) {                                                 \
                const int l = __builtin_ctz(left_);                                                                    \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* Functions of one to three operands of type S, stored as words of type SW, with a result stored as DW. */
#define LANES_1(name, DW, SW, S, ...)                                                                                  \
    static void name(warp *w, const inst *in, uint32_t mask)                                                           \
    {                                                                                                                  \
        DW *d = (DW *)row_set(w, in->o[0]);                                                                            \
        const SW *pa = (const SW *)row(w, in->o[1]);                                                                   \
        EACH_LANE(mask, const S a = (S)pa[l]; d[l] = (DW)(__VA_ARGS__););                                              \
    }
#define LANES_2(name, DW, SW, S, ...)                                                                                  \
    static void name(warp *w, const inst *in, uint32_t mask)                                                           \
    {                                                                                                                  \
        DW *d = (DW *)row_set(w, in->o[0]);                                                                            \
        const SW *pa = (const SW *)row(w, in->o[1]), *pb = (const SW *)row(w, in->o[2]);                               \
        EACH_LANE(mask, const S a = (S)pa[l]; const S b = (S)pb[l]; d[l] = (DW)(__VA_ARGS__););                        \
    }
#define LANES_3(name, DW, SW, S, ...)                                                                                  \
    static void name(warp *w, const inst *in, uint32_t mask)                                                           \
    {                                                                                                                  \
        DW *d = (DW *)row_set(w, in->o[0]);                                                                            \
        const SW *pa = (const SW *)row(w, in->o[1]), *pb = (const SW *)row(w, in->o[2]);                               \
        const SW *pc = (const SW *)row(w, in->o[3]);                                                                   \
        EACH_LANE(mask, const S a = (S)pa[l]; const S b = (S)pb[l]; const S c = (S)pc[l]; d[l] = (DW)(__VA_ARGS__););  \
    }

/* An operation whose operands are decoded by letters: results, a colon, operands. h 16 bits, r 32, d 64, f a float of
 * 32 bits, g of 64, p a predicate, i a number that goes into imm. */
typedef struct op_row {
    const char *op;
    inst_fn *run;
    const char *form;
} op_row;
