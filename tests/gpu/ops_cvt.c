/* ops_cvt.c - conversions. Floats become integers by clamping to what fits. Registers may be wider than the types
 * (letters B H R D: decode.c widens and narrows). */
#include "tests/gpu/ops.h"
#include "tests/gpu/soft_float.h"

#include <math.h>

/* Integer to integer: cut off, or clamped with .sat. */
static uint64_t clamp_from(bool negative, uint64_t v, int width, bool is_signed)
{
    const uint64_t top = (is_signed ? UINT64_C(1) << (width - 1) : width < 64 ? UINT64_C(1) << width : 0) - 1;
    if (negative) {
        const uint64_t least = is_signed ? ~top : 0;
        return !is_signed || (int64_t)v < (int64_t)least ? least : v;
    }
    return v > top ? top : v;
}
#define INT_INT(dt, DW, D, dw, ds, st, SW, S)                                                                          \
    LANES_1(cvt_##dt##_##st, DW, SW, S, (DW)(D)a)                                                                      \
    LANES_1(cvt_sat_##dt##_##st, DW, SW, S, (DW)(D)clamp_from(a < (S)1 && a != 0, (uint64_t)a, dw, ds))
#define INT_FROM(dt, DW, D, dw, ds)                                                                                    \
    INT_INT(dt, DW, D, dw, ds, s8, uint32_t, int8_t)                                                                   \
    INT_INT(dt, DW, D, dw, ds, u8, uint32_t, uint8_t)                                                                  \
    INT_INT(dt, DW, D, dw, ds, s16, uint32_t, int16_t)                                                                 \
    INT_INT(dt, DW, D, dw, ds, u16, uint32_t, uint16_t)                                                                \
    INT_INT(dt, DW, D, dw, ds, s32, uint32_t, int32_t)                                                                 \
    INT_INT(dt, DW, D, dw, ds, u32, uint32_t, uint32_t)                                                                \
    INT_INT(dt, DW, D, dw, ds, s64, uint64_t, int64_t)                                                                 \
    INT_INT(dt, DW, D, dw, ds, u64, uint64_t, uint64_t)
#define INTEGERS(X)                                                                                                    \
    X(s8, uint32_t, int8_t, 8, true)                                                                                   \
    X(u8, uint32_t, uint8_t, 8, false)                                                                                 \
    X(s16, uint32_t, int16_t, 16, true)                                                                                \
    X(u16, uint32_t, uint16_t, 16, false)                                                                              \
    X(s32, uint32_t, int32_t, 32, true)                                                                                \
    X(u32, uint32_t, uint32_t, 32, false)                                                                              \
    X(s64, uint64_t, int64_t, 64, true)                                                                                \
    X(u64, uint64_t, uint64_t, 64, false)
INTEGERS(INT_FROM)

/* A float to an integer. A NaN gives 0, and the top bit where the result has 64 bits. */
static uint64_t whole_of(double v, rounding how, int width, bool is_signed)
{
    if (isnan(v)) return width == 64 ? UINT64_C(1) << 63 : 0;
    const double w = f64_whole(v, how), end = ldexp(1, is_signed ? width - 1 : width), from = is_signed ? -end : 0;
    if (w >= end) return (is_signed ? UINT64_C(1) << (width - 1) : width < 64 ? UINT64_C(1) << width : 0) - 1;
    if (w < from) return is_signed ? ~UINT64_C(0) << (width - 1) : 0;
    return is_signed ? (uint64_t)(int64_t)w : (uint64_t)w;
}
static double value_f32(uint32_t bits) { return f32_of(bits); }
#define INT_FLOAT_HOW(dt, DW, D, dw, ds, ft, FW, LOAD, m, how)                                                         \
    LANES_1(cvt_##m##_##dt##_##ft, DW, FW, FW, (DW)(D)whole_of(LOAD(a), how, dw, ds))
#define INT_FLOAT(dt, DW, D, dw, ds, ft, FW, LOAD)                                                                     \
    INT_FLOAT_HOW(dt, DW, D, dw, ds, ft, FW, LOAD, rni, ROUND_NEAREST)                                                 \
    INT_FLOAT_HOW(dt, DW, D, dw, ds, ft, FW, LOAD, rzi, ROUND_ZERO)                                                    \
    INT_FLOAT_HOW(dt, DW, D, dw, ds, ft, FW, LOAD, rmi, ROUND_DOWN)                                                    \
    INT_FLOAT_HOW(dt, DW, D, dw, ds, ft, FW, LOAD, rpi, ROUND_UP)
#define INT_FROM_FLOAT(dt, DW, D, dw, ds)                                                                              \
    INT_FLOAT(dt, DW, D, dw, ds, f32, uint32_t, value_f32)                                                             \
    INT_FLOAT(dt, DW, D, dw, ds, f64, uint64_t, f64_of)                                                                \
    INT_FLOAT(dt, DW, D, dw, ds, f16, uint32_t, f16_value)                                                             \
    INT_FLOAT(dt, DW, D, dw, ds, bf16, uint32_t, bf16_value)
INTEGERS(INT_FROM_FLOAT)

/* An integer to a float. To 16 bits by way of a double with a last odd bit, which 64 bits would not fit into. */
static double odd_double(uint64_t size, bool negative)
{
    const int over = size >> 53 ? 11 - __builtin_clzll(size) : 0;
    const uint64_t kept = size >> over;
    const double v = ldexp((double)(kept | (kept << over != size)), over);
    return negative ? -v : v;
}
#define FLOAT_INT_HOW(st, SW, S, is_signed, m, how)                                                                    \
    LANES_1(cvt_##m##_f32_##st, float, SW, S,                                                                          \
            is_signed ? f32_from_s64((int64_t)a, how) : f32_from_u64((uint64_t)a, how))                                \
    LANES_1(cvt_##m##_f64_##st, double, SW, S,                                                                         \
            is_signed ? f64_from_s64((int64_t)a, how) : f64_from_u64((uint64_t)a, how))                                \
    LANES_1(cvt_##m##_f16_##st, uint32_t, SW, S,                                                                       \
            f16_bits(odd_double(a < (S)1 ? 0 - (uint64_t)a : (uint64_t)a, a < (S)1 && a != 0), how))                   \
    LANES_1(cvt_##m##_bf16_##st, uint32_t, SW, S,                                                                      \
            bf16_bits(odd_double(a < (S)1 ? 0 - (uint64_t)a : (uint64_t)a, a < (S)1 && a != 0), how))
#define FLOAT_FROM_INT(st, SW, S, sw, is_signed)                                                                       \
    FLOAT_INT_HOW(st, SW, S, is_signed, rz, ROUND_ZERO)                                                                \
    FLOAT_INT_HOW(st, SW, S, is_signed, rm, ROUND_DOWN)                                                                \
    FLOAT_INT_HOW(st, SW, S, is_signed, rp, ROUND_UP)                                                                  \
    LANES_1(cvt_rn_f32_##st, float, SW, S, (float)a)                                                                   \
    LANES_1(cvt_rn_f64_##st, double, SW, S, (double)a)                                                                 \
    LANES_1(cvt_rn_f16_##st, uint32_t, SW, S,                                                                          \
            f16_bits(odd_double(a < (S)1 ? 0 - (uint64_t)a : (uint64_t)a, a < (S)1 && a != 0), ROUND_NEAREST))         \
    LANES_1(cvt_rn_bf16_##st, uint32_t, SW, S,                                                                         \
            bf16_bits(odd_double(a < (S)1 ? 0 - (uint64_t)a : (uint64_t)a, a < (S)1 && a != 0), ROUND_NEAREST))
INTEGERS(FLOAT_FROM_INT)

/* A float to a float. */
static double relu(double v) { return v > 0 ? v : isnan(v) ? v : 0; }
#define NARROWING(m, how)                                                                                              \
    LANES_1(cvt_##m##_f16_f32, uint32_t, float, double, f16_bits(a, how))                                              \
    LANES_1(cvt_##m##_bf16_f32, uint32_t, float, double, bf16_bits(a, how))                                            \
    LANES_1(cvt_##m##_relu_f16_f32, uint32_t, float, double, f16_bits(relu(a), how))                                   \
    LANES_1(cvt_##m##_relu_bf16_f32, uint32_t, float, double, bf16_bits(relu(a), how))                                 \
    LANES_1(cvt_##m##_f16_f64, uint32_t, double, double, f16_bits(a, how))                                             \
    LANES_1(cvt_##m##_f32_f64, float, double, double, f32_from_f64(a, how))                                            \
    LANES_2(cvt_##m##_f16x2_f32, uint32_t, float, double, f16_bits(a, how) << 16 | f16_bits(b, how))                   \
    LANES_2(cvt_##m##_bf16x2_f32, uint32_t, float, double, bf16_bits(a, how) << 16 | bf16_bits(b, how))                \
    LANES_2(cvt_##m##_relu_f16x2_f32, uint32_t, float, double, f16_bits(relu(a), how) << 16 | f16_bits(relu(b), how))  \
    LANES_2(cvt_##m##_relu_bf16x2_f32, uint32_t, float, double, bf16_bits(relu(a), how) << 16 | bf16_bits(relu(b), how))
NARROWING(rn, ROUND_NEAREST)
NARROWING(rz, ROUND_ZERO)
LANES_1(cvt_rm_f32_f64, float, double, double, f32_from_f64(a, ROUND_DOWN))
LANES_1(cvt_rp_f32_f64, float, double, double, f32_from_f64(a, ROUND_UP))
LANES_1(cvt_rm_f16_f32, uint32_t, float, double, f16_bits(a, ROUND_DOWN))
LANES_1(cvt_rp_f16_f32, uint32_t, float, double, f16_bits(a, ROUND_UP))
LANES_1(cvt_f32_f16, float, uint32_t, uint32_t, (float)f16_value(a))
LANES_1(cvt_f32_bf16, uint32_t, uint32_t, uint32_t, a << 16)
LANES_1(cvt_f64_f16, double, uint32_t, uint32_t, f16_value(a))
LANES_1(cvt_f64_f32, double, float, float, a)
LANES_1(cvt_sat_f32_f32, float, float, float, a > 0 ? a < 1 ? a : 1 : 0)
#define WHOLE(m, how)                                                                                                  \
    LANES_1(cvt_##m##_f32_f32, float, float, float, (float)f64_whole(a, how))                                          \
    LANES_1(cvt_##m##_f64_f64, double, double, double, f64_whole(a, how))                                              \
    LANES_1(cvt_##m##_f16_f16, uint32_t, uint32_t, uint32_t, f16_bits(f64_whole(f16_value(a), how), ROUND_NEAREST))
WHOLE(rni, ROUND_NEAREST)
WHOLE(rzi, ROUND_ZERO)
WHOLE(rmi, ROUND_DOWN)
WHOLE(rpi, ROUND_UP)

#define LETTER_s8  "B"
#define LETTER_u8  "B"
#define LETTER_s16 "H"
#define LETTER_u16 "H"
#define LETTER_s32 "R"
#define LETTER_u32 "R"
#define LETTER_s64 "D"
#define LETTER_u64 "D"
#define ROW_INT(dt, st)                                                                                                \
    {"cvt." #dt "." #st, cvt_##dt##_##st, LETTER_##dt ":" LETTER_##st},                                                \
    {                                                                                                                  \
        "cvt.sat." #dt "." #st, cvt_sat_##dt##_##st, LETTER_##dt ":" LETTER_##st                                       \
    }
#define ROW_TO_INT(m, dt)                                                                                              \
    {"cvt." #m "." #dt ".f32", cvt_##m##_##dt##_f32, LETTER_##dt ":f"},                                                \
        {"cvt." #m ".sat." #dt ".f32", cvt_##m##_##dt##_f32, LETTER_##dt ":f"},                                        \
        {"cvt." #m "." #dt ".f64", cvt_##m##_##dt##_f64, LETTER_##dt ":g"},                                            \
        {"cvt." #m "." #dt ".f16", cvt_##m##_##dt##_f16, LETTER_##dt ":h"},                                            \
    {                                                                                                                  \
        "cvt." #m "." #dt ".bf16", cvt_##m##_##dt##_bf16, LETTER_##dt ":h"                                             \
    }
#define ROW_FROM_INT(m, st)                                                                                            \
    {"cvt." #m ".f32." #st, cvt_##m##_f32_##st, "f:" LETTER_##st},                                                     \
        {"cvt." #m ".f64." #st, cvt_##m##_f64_##st, "g:" LETTER_##st},                                                 \
        {"cvt." #m ".f16." #st, cvt_##m##_f16_##st, "h:" LETTER_##st},                                                 \
    {                                                                                                                  \
        "cvt." #m ".bf16." #st, cvt_##m##_bf16_##st, "h:" LETTER_##st                                                  \
    }
#define ROWS_OF_INT(t, ...)                                                                                            \
    ROW_INT(t, s8), ROW_INT(t, u8), ROW_INT(t, s16), ROW_INT(t, u16), ROW_INT(t, s32), ROW_INT(t, u32),                \
        ROW_INT(t, s64), ROW_INT(t, u64), ROW_TO_INT(rni, t), ROW_TO_INT(rzi, t), ROW_TO_INT(rmi, t),                  \
        ROW_TO_INT(rpi, t), ROW_FROM_INT(rn, t), ROW_FROM_INT(rz, t), ROW_FROM_INT(rm, t), ROW_FROM_INT(rp, t),
#define ROWS_NARROWING(m)                                                                                              \
    {"cvt." #m ".f16.f32", cvt_##m##_f16_f32, "h:f"}, {"cvt." #m ".bf16.f32", cvt_##m##_bf16_f32, "h:f"},              \
        {"cvt." #m ".relu.f16.f32", cvt_##m##_relu_f16_f32, "h:f"},                                                    \
        {"cvt." #m ".relu.bf16.f32", cvt_##m##_relu_bf16_f32, "h:f"},                                                  \
        {"cvt." #m ".f16.f64", cvt_##m##_f16_f64, "h:g"}, {"cvt." #m ".f32.f64", cvt_##m##_f32_f64, "f:g"},            \
        {"cvt." #m ".f16x2.f32", cvt_##m##_f16x2_f32, "r:ff"},                                                         \
        {"cvt." #m ".bf16x2.f32", cvt_##m##_bf16x2_f32, "r:ff"},                                                       \
        {"cvt." #m ".relu.f16x2.f32", cvt_##m##_relu_f16x2_f32, "r:ff"},                                               \
    {                                                                                                                  \
        "cvt." #m ".relu.bf16x2.f32", cvt_##m##_relu_bf16x2_f32, "r:ff"                                                \
    }
#define ROWS_WHOLE(m)                                                                                                  \
    {"cvt." #m ".f32.f32", cvt_##m##_f32_f32, "f:f"}, {"cvt." #m ".f64.f64", cvt_##m##_f64_f64, "g:g"},                \
    {                                                                                                                  \
        "cvt." #m ".f16.f16", cvt_##m##_f16_f16, "h:h"                                                                 \
    }

const op_row ops_cvt[] = {
    INTEGERS(ROWS_OF_INT) ROWS_NARROWING(rn),
    ROWS_NARROWING(rz),
    ROWS_WHOLE(rni),
    ROWS_WHOLE(rzi),
    ROWS_WHOLE(rmi),
    ROWS_WHOLE(rpi),
    {"cvt.rm.f32.f64", cvt_rm_f32_f64, "f:g"},
    {"cvt.rp.f32.f64", cvt_rp_f32_f64, "f:g"},
    {"cvt.rm.f16.f32", cvt_rm_f16_f32, "h:f"},
    {"cvt.rp.f16.f32", cvt_rp_f16_f32, "h:f"},
    {"cvt.f32.f16", cvt_f32_f16, "f:h"},
    {"cvt.f32.bf16", cvt_f32_bf16, "f:h"},
    {"cvt.f64.f16", cvt_f64_f16, "g:h"},
    {"cvt.f64.f32", cvt_f64_f32, "g:f"},
    {"cvt.sat.f32.f32", cvt_sat_f32_f32, "f:f"},
    {0},
};
