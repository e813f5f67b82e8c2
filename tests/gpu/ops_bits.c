/* ops_bits.c - logic, shifts, fields of bits, permutations of bytes, sums of byte products, predicates. Shifts by more
 * than the width give 0, or the sign. */
#include "tests/gpu/ops.h"

#define OF_WIDTH(w_, W, U, S)                                                                                          \
    LANES_2(and_##w_, W, W, W, a &b)                                                                                   \
    LANES_2(or_##w_, W, W, W, a | b)                                                                                   \
    LANES_2(xor_##w_, W, W, W, a ^ b)                                                                                  \
    LANES_1(not_##w_, W, W, W, ~a)                                                                                     \
    LANES_1(cnot_##w_, W, W, U, a == 0)                                                                                \
    LANES_1(mov_##w_, W, W, W, a)                                                                                      \
    static void shl_##w_(warp *w, const inst *in, uint32_t mask)                                                       \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]);                                                                      \
        const uint32_t *by = row(w, in->o[2]);                                                                         \
        EACH_LANE(mask, d[l] = by[l] >= w_ ? 0 : (W)((U)a[l] << by[l]););                                              \
    }                                                                                                                  \
    static void shr_u##w_(warp *w, const inst *in, uint32_t mask)                                                      \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]);                                                                      \
        const uint32_t *by = row(w, in->o[2]);                                                                         \
        EACH_LANE(mask, d[l] = by[l] >= w_ ? 0 : (W)((U)a[l] >> by[l]););                                              \
    }                                                                                                                  \
    static void shr_s##w_(warp *w, const inst *in, uint32_t mask)                                                      \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]);                                                                      \
        const uint32_t *by = row(w, in->o[2]);                                                                         \
        EACH_LANE(mask, d[l] = (W)(U)((S)a[l] >> (by[l] >= w_ ? w_ - 1 : by[l])););                                    \
    }                                                                                                                  \
    static void selp_##w_(warp *w, const inst *in, uint32_t mask)                                                      \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]), *b = (const W *)row(w, in->o[2]);                                    \
        const uint32_t p = *row(w, in->o[3]);                                                                          \
        EACH_LANE(mask, d[l] = p >> l & 1 ? a[l] : b[l];);                                                             \
    }
OF_WIDTH(16, uint32_t, uint16_t, int16_t)
OF_WIDTH(32, uint32_t, uint32_t, int32_t)
OF_WIDTH(64, uint64_t, uint64_t, int64_t)

#define OF_PREDICATE(name, ...)                                                                                        \
    void name(warp *w, const inst *in, uint32_t mask)                                                                  \
    {                                                                                                                  \
        uint32_t *d = row_set(w, in->o[0]);                                                                            \
        const uint32_t a = *row(w, in->o[1]), b = *row(w, in->o[2] == NO_ROW ? in->o[1] : in->o[2]);                   \
        (void)b;                                                                                                       \
        *d = (*d & ~mask) | ((__VA_ARGS__)&mask);                                                                      \
    }
OF_PREDICATE(ops_and_predicate, a &b)
OF_PREDICATE(ops_or_predicate, a | b)
OF_PREDICATE(ops_xor_predicate, a ^ b)
OF_PREDICATE(ops_not_predicate, ~a)
OF_PREDICATE(ops_mov_predicate, a)

void ops_widen(warp *w, const inst *in, uint32_t mask)
{
    uint64_t *d = (uint64_t *)row_set(w, in->o[0]);
    const uint32_t *a = row(w, in->o[1]);
    EACH_LANE(mask, d[l] = a[l];);
}
void ops_widen_signed(warp *w, const inst *in, uint32_t mask)
{
    uint64_t *d = (uint64_t *)row_set(w, in->o[0]);
    const uint32_t *a = row(w, in->o[1]);
    EACH_LANE(mask, d[l] = (uint64_t)(int64_t)(int32_t)a[l];);
}
void ops_narrow(warp *w, const inst *in, uint32_t mask)
{
    uint32_t *d = row_set(w, in->o[0]);
    const uint64_t *a = (const uint64_t *)row(w, in->o[1]);
    EACH_LANE(mask, d[l] = (uint32_t)a[l];);
}

LANES_1(popc_32, uint32_t, uint32_t, uint32_t, (uint32_t)__builtin_popcount(a))
LANES_1(popc_64, uint32_t, uint64_t, uint64_t, (uint32_t)__builtin_popcountll(a))
LANES_1(clz_32, uint32_t, uint32_t, uint32_t, a ? (uint32_t)__builtin_clz(a) : 32)
LANES_1(clz_64, uint32_t, uint64_t, uint64_t, a ? (uint32_t)__builtin_clzll(a) : 64)

static uint64_t reverse(uint64_t v)
{
    v = (v >> 1 & 0x5555555555555555) | (v & 0x5555555555555555) << 1;
    v = (v >> 2 & 0x3333333333333333) | (v & 0x3333333333333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f0f0f0f0f) | (v & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(v);
}
LANES_1(brev_32, uint32_t, uint32_t, uint32_t, reverse(a) >> 32)
LANES_1(brev_64, uint64_t, uint64_t, uint64_t, reverse(a))

/* The highest bit that differs from the sign: its place, or how far a shift brings it to the top; all ones for none. */
static uint32_t find_bit(uint64_t v, int width, bool is_signed, bool shift)
{
    if (is_signed && v >> (width - 1) & 1) v = ~v;
    if (width == 32) v &= 0xffffffff;
    if (!v) return ALL_LANES;
    const int at = 63 - __builtin_clzll(v);
    return (uint32_t)(shift ? width - 1 - at : at);
}
LANES_1(bfind_u32, uint32_t, uint32_t, uint32_t, find_bit(a, 32, false, false))
LANES_1(bfind_s32, uint32_t, uint32_t, uint32_t, find_bit(a, 32, true, false))
LANES_1(bfind_u64, uint32_t, uint64_t, uint64_t, find_bit(a, 64, false, false))
LANES_1(bfind_s64, uint32_t, uint64_t, uint64_t, find_bit(a, 64, true, false))
LANES_1(bfind_shift_u32, uint32_t, uint32_t, uint32_t, find_bit(a, 32, false, true))
LANES_1(bfind_shift_s32, uint32_t, uint32_t, uint32_t, find_bit(a, 32, true, true))
LANES_1(bfind_shift_u64, uint32_t, uint64_t, uint64_t, find_bit(a, 64, false, true))
LANES_1(bfind_shift_s64, uint32_t, uint64_t, uint64_t, find_bit(a, 64, true, true))

/* length bits from bit at on; what lies above the top is 0, or the sign of the field's last bit that exists. */
static uint64_t extract(uint64_t v, uint32_t at, uint32_t length, int width, bool is_signed)
{
    at &= 255, length &= 255;
    const uint32_t last = at + length - 1 < (uint32_t)width - 1 ? at + length - 1 : (uint32_t)width - 1;
    const bool sign = is_signed && length && v >> last & 1;
    uint64_t field = at < (uint32_t)width ? v >> at : 0;
    const uint32_t have = at < (uint32_t)width ? (uint32_t)width - at : 0, take = length < have ? length : have;
    if (take < 64) field &= (UINT64_C(1) << take) - 1;
    if (sign && take < 64) field |= ~UINT64_C(0) << take;
    return field;
}
#define EXTRACT(t, W, width, is_signed)                                                                                \
    static void bfe_##t(warp *w, const inst *in, uint32_t mask)                                                        \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *a = (const W *)row(w, in->o[1]);                                                                      \
        const uint32_t *at = row(w, in->o[2]), *length = row(w, in->o[3]);                                             \
        EACH_LANE(mask, d[l] = (W)extract(a[l], at[l], length[l], width, is_signed););                                 \
    }
EXTRACT(u32, uint32_t, 32, false)
EXTRACT(s32, uint32_t, 32, true)
EXTRACT(u64, uint64_t, 64, false)
EXTRACT(s64, uint64_t, 64, true)

static uint64_t insert(uint64_t from, uint64_t into, uint32_t at, uint32_t length, uint32_t width)
{
    at &= 255, length &= 255;
    if (at >= width || !length) return into;
    const uint64_t field = (length >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << length) - 1) << at;
    return (into & ~field) | (from << at & field);
}
#define INSERT(t, W, width)                                                                                            \
    static void bfi_##t(warp *w, const inst *in, uint32_t mask)                                                        \
    {                                                                                                                  \
        W *d = (W *)row_set(w, in->o[0]);                                                                              \
        const W *from = (const W *)row(w, in->o[1]), *into = (const W *)row(w, in->o[2]);                              \
        const uint32_t *at = row(w, in->o[3]), *length = row(w, in->o[4]);                                             \
        EACH_LANE(mask, d[l] = (W)insert(from[l], into[l], at[l], length[l], width););                                 \
    }
INSERT(b32, uint32_t, 32)
INSERT(b64, uint64_t, 64)

/* Four bytes of eight by a nibble each; its top bit spreads the byte's sign. */
static uint32_t permute(uint32_t a, uint32_t b, uint32_t by)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t nibble = by >> 4 * i & 15, byte = both >> 8 * (nibble & 7) & 255;
        v |= (nibble & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return v;
}
static uint32_t permute_bytes(uint32_t a, uint32_t b, const uint8_t at[4])
{
    return permute(a, b, (uint32_t)(at[0] | at[1] << 4 | at[2] << 8 | at[3] << 12));
}
#define MODE(name, ...)                                                                                                \
    static uint32_t name(uint32_t a, uint32_t b, uint32_t c)                                                           \
    {                                                                                                                  \
        const uint32_t s = c & 3;                                                                                      \
        const uint8_t at[4] = {__VA_ARGS__};                                                                           \
        return permute_bytes(a, b, at);                                                                                \
    }
MODE(forward, s, s + 1, s + 2, s + 3)
MODE(backward, s, (s + 7) & 7, (s + 6) & 7, (s + 5) & 7)
MODE(replicate8, s, s, s, s)
MODE(clamp_left, s, s > 1 ? s : 1, s > 2 ? s : 2, 3)
MODE(clamp_right, 0, s < 1 ? s : 1, s < 2 ? s : 2, s)
MODE(replicate16, (s & 1) * 2, (s & 1) * 2 + 1, (s & 1) * 2, (s & 1) * 2 + 1)
LANES_3(prmt, uint32_t, uint32_t, uint32_t, permute(a, b, c))
LANES_3(prmt_f4e, uint32_t, uint32_t, uint32_t, forward(a, b, c))
LANES_3(prmt_b4e, uint32_t, uint32_t, uint32_t, backward(a, b, c))
LANES_3(prmt_rc8, uint32_t, uint32_t, uint32_t, replicate8(a, b, c))
LANES_3(prmt_ecl, uint32_t, uint32_t, uint32_t, clamp_left(a, b, c))
LANES_3(prmt_ecr, uint32_t, uint32_t, uint32_t, clamp_right(a, b, c))
LANES_3(prmt_rc16, uint32_t, uint32_t, uint32_t, replicate16(a, b, c))

static uint32_t by_table(uint32_t a, uint32_t b, uint32_t c, int64_t table)
{
    uint32_t v = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) v |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return v;
}
LANES_3(lop3, uint32_t, uint32_t, uint32_t, by_table(a, b, c, in->imm))

static uint32_t funnel(uint32_t low, uint32_t high, uint32_t by, bool left)
{
    const uint64_t both = (uint64_t)high << 32 | low;
    return (uint32_t)(left ? both << by >> 32 : both >> by);
}
LANES_3(shf_l_wrap, uint32_t, uint32_t, uint32_t, funnel(a, b, c & 31, true))
LANES_3(shf_r_wrap, uint32_t, uint32_t, uint32_t, funnel(a, b, c & 31, false))
LANES_3(shf_l_clamp, uint32_t, uint32_t, uint32_t, c >= 32 ? a : funnel(a, b, c, true))
LANES_3(shf_r_clamp, uint32_t, uint32_t, uint32_t, c >= 32 ? b : funnel(a, b, c, false))

/* Bytes of b with bytes (dp4a) or halves (dp2a) of a. */
#define DOT(ta, A8, A16, tb, B8)                                                                                       \
    static uint32_t dot4_##ta##_##tb(uint32_t a, uint32_t b, uint32_t c)                                               \
    {                                                                                                                  \
        for (int i = 0; i < 32; i += 8) c += (uint32_t)((int32_t)(A8)(a >> i) * (int32_t)(B8)(b >> i));                \
        return c;                                                                                                      \
    }                                                                                                                  \
    static uint32_t dot2_##ta##_##tb(uint32_t a, uint32_t b, uint32_t c)                                               \
    {                                                                                                                  \
        for (int i = 0; i < 2; i++) c += (uint32_t)((int32_t)(A16)(a >> 16 * i) * (int32_t)(B8)(b >> 8 * i));          \
        return c;                                                                                                      \
    }                                                                                                                  \
    LANES_3(dp4a_##ta##_##tb, uint32_t, uint32_t, uint32_t, dot4_##ta##_##tb(a, b, c))                                 \
    LANES_3(dp2a_lo_##ta##_##tb, uint32_t, uint32_t, uint32_t, dot2_##ta##_##tb(a, b, c))                              \
    LANES_3(dp2a_hi_##ta##_##tb, uint32_t, uint32_t, uint32_t, dot2_##ta##_##tb(a, b >> 16, c))
DOT(s32, int8_t, int16_t, s32, int8_t)
DOT(s32, int8_t, int16_t, u32, uint8_t)
DOT(u32, uint8_t, uint16_t, s32, int8_t)
DOT(u32, uint8_t, uint16_t, u32, uint8_t)

static bool not_negative(uint32_t bits) /* of a float: -0 is not negative */
{
    return bits << 1 > 0xff000000u ? false : !(bits >> 31) || !(bits << 1);
}
LANES_3(slct_s32, uint32_t, uint32_t, uint32_t, (int32_t)c >= 0 ? a : b)
LANES_3(slct_f32, uint32_t, uint32_t, uint32_t, not_negative(c) ? a : b)

#define ROWS_OF_WIDTH(w_, l)                                                                                           \
    {"and.b" #w_, and_##w_, #l ":" #l #l}, {"or.b" #w_, or_##w_, #l ":" #l #l}, {"xor.b" #w_, xor_##w_, #l ":" #l #l}, \
        {"not.b" #w_, not_##w_, #l ":" #l}, {"cnot.b" #w_, cnot_##w_, #l ":" #l}, {"mov.b" #w_, mov_##w_, #l ":" #l},  \
        {"mov.u" #w_, mov_##w_, #l ":" #l}, {"mov.s" #w_, mov_##w_, #l ":" #l},                                        \
        {"shl.b" #w_, shl_##w_, #l ":" #l "r"}, {"shr.b" #w_, shr_u##w_, #l ":" #l "r"},                               \
        {"shr.u" #w_, shr_u##w_, #l ":" #l "r"}, {"shr.s" #w_, shr_s##w_, #l ":" #l "r"},                              \
        {"selp.b" #w_, selp_##w_, #l ":" #l #l "p"}, {"selp.u" #w_, selp_##w_, #l ":" #l #l "p"},                      \
    {                                                                                                                  \
        "selp.s" #w_, selp_##w_, #l ":" #l #l "p"                                                                      \
    }
#define ROWS_OF_DOT(ta, tb)                                                                                            \
    {"dp4a." #ta "." #tb, dp4a_##ta##_##tb, "r:rrr"}, {"dp2a.lo." #ta "." #tb, dp2a_lo_##ta##_##tb, "r:rrr"},          \
    {                                                                                                                  \
        "dp2a.hi." #ta "." #tb, dp2a_hi_##ta##_##tb, "r:rrr"                                                           \
    }

const op_row ops_bits[] = {
    ROWS_OF_WIDTH(16, h),
    ROWS_OF_WIDTH(32, r),
    ROWS_OF_WIDTH(64, d),
    ROWS_OF_DOT(s32, s32),
    ROWS_OF_DOT(s32, u32),
    ROWS_OF_DOT(u32, s32),
    ROWS_OF_DOT(u32, u32),
    {"mov.f32", mov_32, "f:f"},
    {"mov.f64", mov_64, "g:g"},
    {"mov.pred", ops_mov_predicate, "p:p"},
    {"selp.f32", selp_32, "f:ffp"},
    {"selp.f64", selp_64, "g:ggp"},
    {"and.pred", ops_and_predicate, "p:pp"},
    {"or.pred", ops_or_predicate, "p:pp"},
    {"xor.pred", ops_xor_predicate, "p:pp"},
    {"not.pred", ops_not_predicate, "p:p"},
    {"popc.b32", popc_32, "r:r"},
    {"popc.b64", popc_64, "r:d"},
    {"clz.b32", clz_32, "r:r"},
    {"clz.b64", clz_64, "r:d"},
    {"brev.b32", brev_32, "r:r"},
    {"brev.b64", brev_64, "d:d"},
    {"bfind.u32", bfind_u32, "r:r"},
    {"bfind.s32", bfind_s32, "r:r"},
    {"bfind.u64", bfind_u64, "r:d"},
    {"bfind.s64", bfind_s64, "r:d"},
    {"bfind.shiftamt.u32", bfind_shift_u32, "r:r"},
    {"bfind.shiftamt.s32", bfind_shift_s32, "r:r"},
    {"bfind.shiftamt.u64", bfind_shift_u64, "r:d"},
    {"bfind.shiftamt.s64", bfind_shift_s64, "r:d"},
    {"bfe.u32", bfe_u32, "r:rrr"},
    {"bfe.s32", bfe_s32, "r:rrr"},
    {"bfe.u64", bfe_u64, "d:drr"},
    {"bfe.s64", bfe_s64, "d:drr"},
    {"bfi.b32", bfi_b32, "r:rrrr"},
    {"bfi.b64", bfi_b64, "d:ddrr"},
    {"prmt.b32", prmt, "r:rrr"},
    {"prmt.b32.f4e", prmt_f4e, "r:rrr"},
    {"prmt.b32.b4e", prmt_b4e, "r:rrr"},
    {"prmt.b32.rc8", prmt_rc8, "r:rrr"},
    {"prmt.b32.ecl", prmt_ecl, "r:rrr"},
    {"prmt.b32.ecr", prmt_ecr, "r:rrr"},
    {"prmt.b32.rc16", prmt_rc16, "r:rrr"},
    {"lop3.b32", lop3, "r:rrri"},
    {"shf.l.wrap.b32", shf_l_wrap, "r:rrr"},
    {"shf.r.wrap.b32", shf_r_wrap, "r:rrr"},
    {"shf.l.clamp.b32", shf_l_clamp, "r:rrr"},
    {"shf.r.clamp.b32", shf_r_clamp, "r:rrr"},
    {"slct.b32.s32", slct_s32, "r:rrr"},
    {"slct.u32.s32", slct_s32, "r:rrr"},
    {"slct.s32.s32", slct_s32, "r:rrr"},
    {"slct.f32.s32", slct_s32, "f:ffr"},
    {"slct.b32.f32", slct_f32, "r:rrf"},
    {"slct.f32.f32", slct_f32, "f:fff"},
    {0},
};
