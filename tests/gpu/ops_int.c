/* ops_int.c - integer arithmetic. Sums and products wrap; a division by zero has all bits set, and a remainder of it is
 * the dividend, as the card answers. */
#include "tests/gpu/ops.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

/* The operations of one width: T its type, U the unsigned one of its width, W the word it is stored in, WIDE a type of
 * twice the width. */
#define OF_TYPE(t, T, U, W, WIDE, BITS)                                                                                \
    LANES_2(add_##t, W, W, U, (U)(a + b))                                                                              \
    LANES_2(sub_##t, W, W, U, (U)(a - b))                                                                              \
    LANES_2(mul_lo_##t, W, W, U, (U)((u128)a * b))                                                                     \
    LANES_2(mul_hi_##t, W, W, T, (U)(((WIDE)a * (WIDE)b) >> BITS))                                                     \
    LANES_3(mad_lo_##t, W, W, U, (U)((u128)a * b + c))                                                                 \
    LANES_3(mad_hi_##t, W, W, T, (U)((((WIDE)a * (WIDE)b) >> BITS) + c))                                               \
    LANES_2(min_##t, W, W, T, (U)(a < b ? a : b))                                                                      \
    LANES_2(max_##t, W, W, T, (U)(a > b ? a : b))                                                                      \
    LANES_2(div_##t, W, W, T, (U)(!b ? (T)-1 : (T)((WIDE)a / (WIDE)b)))                                                \
    LANES_2(rem_##t, W, W, T, (U)(!b ? a : (T)((WIDE)a % (WIDE)b)))                                                    \
    LANES_3(sad_##t, W, W, T, (U)((U)c + (a > b ? (U)a - (U)b : (U)b - (U)a)))

OF_TYPE(s16, int16_t, uint16_t, uint32_t, int32_t, 16)
OF_TYPE(u16, uint16_t, uint16_t, uint32_t, uint32_t, 16)
OF_TYPE(s32, int32_t, uint32_t, uint32_t, int64_t, 32)
OF_TYPE(u32, uint32_t, uint32_t, uint32_t, uint64_t, 32)
OF_TYPE(s64, int64_t, uint64_t, uint64_t, s128, 64)
OF_TYPE(u64, uint64_t, uint64_t, uint64_t, u128, 64)

#define OF_SIGNED(t, U, W)                                                                                             \
    LANES_1(abs_##t, W, W, U, (U)(a >> (sizeof(U) * 8 - 1) ? (U)(0 - a) : a))                                          \
    LANES_1(neg_##t, W, W, U, (U)(0 - a))
OF_SIGNED(s16, uint16_t, uint32_t)
OF_SIGNED(s32, uint32_t, uint32_t)
OF_SIGNED(s64, uint64_t, uint64_t)

static int32_t saturate(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v; }
LANES_2(add_sat_s32, uint32_t, uint32_t, int32_t, saturate((int64_t)a + b))
LANES_2(sub_sat_s32, uint32_t, uint32_t, int32_t, saturate((int64_t)a - b))

LANES_2(mul_wide_s16, uint32_t, uint32_t, int16_t, (int32_t)a *b)
LANES_2(mul_wide_u16, uint32_t, uint32_t, uint16_t, (uint32_t)a *b)
LANES_2(mul_wide_s32, uint64_t, uint32_t, int32_t, (int64_t)a *b)
LANES_2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)a *b)

/* a * b + c where c is twice as wide. */
#define MAD_WIDE(t, S, WIDE, DW)                                                                                       \
    static void mad_wide_##t(warp *w, const inst *in, uint32_t mask)                                                   \
    {                                                                                                                  \
        DW *d = (DW *)row_set(w, in->o[0]);                                                                            \
        const uint32_t *a = row(w, in->o[1]), *b = row(w, in->o[2]);                                                   \
        const DW *c = (const DW *)row(w, in->o[3]);                                                                    \
        EACH_LANE(mask, d[l] = (DW)((WIDE)(S)a[l] * (WIDE)(S)b[l]) + c[l];);                                           \
    }
MAD_WIDE(s16, int16_t, int32_t, uint32_t)
MAD_WIDE(u16, uint16_t, uint32_t, uint32_t)
MAD_WIDE(s32, int32_t, int64_t, uint64_t)
MAD_WIDE(u32, uint32_t, uint64_t, uint64_t)

static uint32_t low24(uint32_t v, bool is_signed)
{
    return is_signed ? (uint32_t)((int32_t)(v << 8) >> 8) : v & 0xffffff;
}
LANES_2(mul24_lo_s32, uint32_t, uint32_t, uint32_t, low24(a, true) * low24(b, true))
LANES_2(mul24_lo_u32, uint32_t, uint32_t, uint32_t, low24(a, false) * low24(b, false))

/* Sums with the carry flag, which they set, read, or both. A subtraction adds the complement, so its flag is set where
 * nothing was borrowed. */
enum { CARRY_SETS, CARRY_READS, CARRY_BOTH };
#define OF_CARRY(w_, W, WIDE)                                                                                          \
    /* a + b and what the flag adds; begin: the flag of an operation that does not read it. */                         \
    static W carry_##w_(warp *w, int l, W a, W b, int how, uint32_t begin)                                             \
    {                                                                                                                  \
        const WIDE v = (WIDE)a + b + (how == CARRY_SETS ? begin : w->carry >> l & 1);                                  \
        if (how != CARRY_READS) w->carry = (w->carry & ~(1u << l)) | (uint32_t)(v >> w_) << l;                         \
        return (W)v;                                                                                                   \
    }                                                                                                                  \
    /* The flags are one word, so lanes go one after the other. */                                                     \
    static void sum_carry_##w_(warp *w, const inst *in, uint32_t mask, bool minus, int how)                            \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]), *b = (const W *)row(w, in->o[2]);                                    \
        for (uint32_t m = mask; m; m &= m - 1) {                                                                       \
            const int l = __builtin_ctz(m);                                                                            \
            d[l] = carry_##w_(w, l, a[l], minus ? (W)~b[l] : b[l], how, minus);                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void mad_carry_##w_(warp *w, const inst *in, uint32_t mask, bool high, int how)                             \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]), *b = (const W *)row(w, in->o[2]), *c = (const W *)row(w, in->o[3]);  \
        for (uint32_t m = mask; m; m &= m - 1) {                                                                       \
            const int l = __builtin_ctz(m);                                                                            \
            const WIDE v = (WIDE)a[l] * b[l];                                                                          \
            d[l] = carry_##w_(w, l, high ? (W)(v >> w_) : (W)v, c[l], how, 0);                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void add_cc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, false, CARRY_SETS); }      \
    static void addc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, false, CARRY_READS); }       \
    static void addc_cc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, false, CARRY_BOTH); }     \
    static void sub_cc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, true, CARRY_SETS); }       \
    static void subc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, true, CARRY_READS); }        \
    static void subc_cc_##w_(warp *w, const inst *in, uint32_t m) { sum_carry_##w_(w, in, m, true, CARRY_BOTH); }      \
    static void mad_lo_cc_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, false, CARRY_SETS); }   \
    static void mad_hi_cc_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, true, CARRY_SETS); }    \
    static void madc_lo_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, false, CARRY_READS); }    \
    static void madc_hi_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, true, CARRY_READS); }     \
    static void madc_lo_cc_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, false, CARRY_BOTH); }  \
    static void madc_hi_cc_##w_(warp *w, const inst *in, uint32_t m) { mad_carry_##w_(w, in, m, true, CARRY_BOTH); }
OF_CARRY(32, uint32_t, uint64_t)
OF_CARRY(64, uint64_t, u128)

#define ROWS_OF_TYPE(t, l)                                                                                             \
    {"add." #t, add_##t, #l ":" #l #l}, {"sub." #t, sub_##t, #l ":" #l #l}, {"min." #t, min_##t, #l ":" #l #l},        \
        {"max." #t, max_##t, #l ":" #l #l}, {"mul.lo." #t, mul_lo_##t, #l ":" #l #l},                                  \
        {"mul.hi." #t, mul_hi_##t, #l ":" #l #l}, {"mad.lo." #t, mad_lo_##t, #l ":" #l #l #l},                         \
        {"mad.hi." #t, mad_hi_##t, #l ":" #l #l #l}, {"div." #t, div_##t, #l ":" #l #l},                               \
        {"rem." #t, rem_##t, #l ":" #l #l},                                                                            \
    {                                                                                                                  \
        "sad." #t, sad_##t, #l ":" #l #l #l                                                                            \
    }
#define ROWS_OF_CARRY(t, w_, l)                                                                                        \
    {"add.cc." #t, add_cc_##w_, #l ":" #l #l}, {"addc." #t, addc_##w_, #l ":" #l #l},                                  \
        {"addc.cc." #t, addc_cc_##w_, #l ":" #l #l}, {"sub.cc." #t, sub_cc_##w_, #l ":" #l #l},                        \
        {"subc." #t, subc_##w_, #l ":" #l #l}, {"subc.cc." #t, subc_cc_##w_, #l ":" #l #l},                            \
        {"mad.lo.cc." #t, mad_lo_cc_##w_, #l ":" #l #l #l}, {"madc.lo." #t, madc_lo_##w_, #l ":" #l #l #l},            \
    {                                                                                                                  \
        "madc.lo.cc." #t, madc_lo_cc_##w_, #l ":" #l #l #l                                                             \
    }
#define ROWS_OF_HIGH_CARRY(t, w_, l) /* of unsigned numbers */                                                         \
    {"mad.hi.cc." #t, mad_hi_cc_##w_, #l ":" #l #l #l}, {"madc.hi." #t, madc_hi_##w_, #l ":" #l #l #l},                \
    {                                                                                                                  \
        "madc.hi.cc." #t, madc_hi_cc_##w_, #l ":" #l #l #l                                                             \
    }

const op_row ops_int[] = {
    ROWS_OF_TYPE(s16, h),
    ROWS_OF_TYPE(u16, h),
    ROWS_OF_TYPE(s32, r),
    ROWS_OF_TYPE(u32, r),
    ROWS_OF_TYPE(s64, d),
    ROWS_OF_TYPE(u64, d),
    ROWS_OF_CARRY(u32, 32, r),
    ROWS_OF_CARRY(s32, 32, r),
    ROWS_OF_CARRY(u64, 64, d),
    ROWS_OF_CARRY(s64, 64, d),
    ROWS_OF_HIGH_CARRY(u32, 32, r),
    ROWS_OF_HIGH_CARRY(u64, 64, d),
    {"add.sat.s32", add_sat_s32, "r:rr"},
    {"sub.sat.s32", sub_sat_s32, "r:rr"},
    {"abs.s16", abs_s16, "h:h"},
    {"abs.s32", abs_s32, "r:r"},
    {"abs.s64", abs_s64, "d:d"},
    {"neg.s16", neg_s16, "h:h"},
    {"neg.s32", neg_s32, "r:r"},
    {"neg.s64", neg_s64, "d:d"},
    {"mul.wide.s16", mul_wide_s16, "r:hh"},
    {"mul.wide.u16", mul_wide_u16, "r:hh"},
    {"mul.wide.s32", mul_wide_s32, "d:rr"},
    {"mul.wide.u32", mul_wide_u32, "d:rr"},
    {"mad.wide.s16", mad_wide_s16, "r:hhr"},
    {"mad.wide.u16", mad_wide_u16, "r:hhr"},
    {"mad.wide.s32", mad_wide_s32, "d:rrd"},
    {"mad.wide.u32", mad_wide_u32, "d:rrd"},
    {"mul24.lo.s32", mul24_lo_s32, "r:rr"},
    {"mul24.lo.u32", mul24_lo_u32, "r:rr"},
    {0},
};
