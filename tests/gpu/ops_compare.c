/* ops_compare.c - setp and set: comparisons of integers and floats. The ordered ones are false where an operand is NaN,
 * those with u true. */
#include "tests/gpu/ops.h"
#include "tests/gpu/soft_float.h"

#include <math.h>

#define COMPARE(name, SW, S, LOAD, ...)                                                                                \
    static void setp_##name(warp *w, const inst *in, uint32_t mask)                                                    \
    {                                                                                                                  \
        const SW *pa = (const SW *)row(w, in->o[1]), *pb = (const SW *)row(w, in->o[2]);                               \
        uint32_t bits = 0, *d = row_set(w, in->o[0]);                                                                  \
        for (int l = 0; l < LANES; l++) {                                                                              \
            const S a = LOAD(pa[l]), b = LOAD(pb[l]);                                                                  \
            bits |= (uint32_t)(__VA_ARGS__) << l;                                                                      \
        }                                                                                                              \
        *d = (*d & ~mask) | (bits & mask);                                                                             \
    }
#define INTEGERS(t, SW, S)                                                                                             \
    COMPARE(eq_##t, SW, S, (S), a == b)                                                                                \
    COMPARE(ne_##t, SW, S, (S), a != b)                                                                                \
    COMPARE(lt_##t, SW, S, (S), a < b)                                                                                 \
    COMPARE(le_##t, SW, S, (S), a <= b)                                                                                \
    COMPARE(gt_##t, SW, S, (S), a > b)                                                                                 \
    COMPARE(ge_##t, SW, S, (S), a >= b)
INTEGERS(s16, uint32_t, int16_t)
INTEGERS(u16, uint32_t, uint16_t)
INTEGERS(s32, uint32_t, int32_t)
INTEGERS(u32, uint32_t, uint32_t)
INTEGERS(s64, uint64_t, int64_t)
INTEGERS(u64, uint64_t, uint64_t)

#define UNORDERED (isnan(a) || isnan(b))
#define FLOATS(t, SW, S, LOAD)                                                                                         \
    COMPARE(eq_##t, SW, S, LOAD, a == b)                                                                               \
    COMPARE(ne_##t, SW, S, LOAD, !UNORDERED && a != b)                                                                 \
    COMPARE(lt_##t, SW, S, LOAD, a < b)                                                                                \
    COMPARE(le_##t, SW, S, LOAD, a <= b)                                                                               \
    COMPARE(gt_##t, SW, S, LOAD, a > b)                                                                                \
    COMPARE(ge_##t, SW, S, LOAD, a >= b)                                                                               \
    COMPARE(equ_##t, SW, S, LOAD, UNORDERED || a == b)                                                                 \
    COMPARE(neu_##t, SW, S, LOAD, UNORDERED || a != b)                                                                 \
    COMPARE(ltu_##t, SW, S, LOAD, UNORDERED || a < b)                                                                  \
    COMPARE(leu_##t, SW, S, LOAD, UNORDERED || a <= b)                                                                 \
    COMPARE(gtu_##t, SW, S, LOAD, UNORDERED || a > b)                                                                  \
    COMPARE(geu_##t, SW, S, LOAD, UNORDERED || a >= b)                                                                 \
    COMPARE(num_##t, SW, S, LOAD, !UNORDERED)                                                                          \
    COMPARE(nan_##t, SW, S, LOAD, UNORDERED)
FLOATS(f32, float, float, )
FLOATS(f64, double, double, )
FLOATS(f16, uint32_t, double, f16_value)
FLOATS(bf16, uint32_t, double, bf16_value)

#define ROW(c, t, l)                                                                                                   \
    {                                                                                                                  \
        "setp." #c "." #t, setp_##c##_##t, "p:" #l #l                                                                  \
    }
#define ROWS_OF_INTEGERS(t, l) ROW(eq, t, l), ROW(ne, t, l), ROW(lt, t, l), ROW(le, t, l), ROW(gt, t, l), ROW(ge, t, l)
#define ROWS_OF_UNSIGNED(t, l, w_)                                                                                     \
    ROWS_OF_INTEGERS(t, l), {"setp.lo." #t, setp_lt_##t, "p:" #l #l}, {"setp.ls." #t, setp_le_##t, "p:" #l #l},        \
        {"setp.hi." #t, setp_gt_##t, "p:" #l #l}, {"setp.hs." #t, setp_ge_##t, "p:" #l #l},                            \
        {"setp.eq.b" #w_, setp_eq_##t, "p:" #l #l},                                                                    \
    {                                                                                                                  \
        "setp.ne.b" #w_, setp_ne_##t, "p:" #l #l                                                                       \
    }
#define ROWS_OF_FLOATS(t, l)                                                                                           \
    ROWS_OF_INTEGERS(t, l), ROW(equ, t, l), ROW(neu, t, l), ROW(ltu, t, l), ROW(leu, t, l), ROW(gtu, t, l),            \
        ROW(geu, t, l), ROW(num, t, l), ROW(nan, t, l)

const op_row ops_compare[] = {
    ROWS_OF_INTEGERS(s16, h),
    ROWS_OF_UNSIGNED(u16, h, 16),
    ROWS_OF_INTEGERS(s32, r),
    ROWS_OF_UNSIGNED(u32, r, 32),
    ROWS_OF_INTEGERS(s64, d),
    ROWS_OF_UNSIGNED(u64, d, 64),
    ROWS_OF_FLOATS(f32, f),
    ROWS_OF_FLOATS(f64, g),
    ROWS_OF_FLOATS(f16, h),
    ROWS_OF_FLOATS(bf16, h),
    {0},
};
