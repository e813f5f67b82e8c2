/* quant.c - see quant.h: the table of decoders and encoders, and the plain types.
 * Block types: quant_legacy.c, quant_k.c, quant_iq.c, quant_fp4.c, quant_linear.c, quant_tables.c.
 *
 * Float widening is exact; narrowing rounds to nearest, ties to even. f8_e4m3 is the "fn" form of the OCP FP8 paper
 * (Micikevicius et al. 2022): no infinities, S.1111.111 is NaN; f8_e5m2 is the upper byte of an f16. */
#include "tensor/quant.h"

#include "base/half.h"
#include "tensor/quant_fit.h"
#include "tensor/quant_fit_row.h"
#include "tensor/quant_row.h"

#include <math.h>
#include <string.h>

static float e4m3_to_f32(uint8_t b)
{
    int exponent = b >> 3 & 15, mantissa = b & 7;
    float v = exponent == 15 && mantissa == 7 ? NAN
              : exponent == 0                 ? ldexpf((float)mantissa, -9)
                                              : ldexpf((float)(8 + mantissa), exponent - 10);
    return b & 0x80 ? -v : v;
}

/* Plain types but f16: X(id, name, C type of an element, expression of its value x as float) */
#define PLAIN_LIST(X)                                                                                                  \
    X(F32, f32, float, x)                                                                                              \
    X(F64, f64, double, (float)x)                                                                                      \
    X(BF16, bf16, uint16_t, bf16_to_f32(x))                                                                            \
    X(F8_E4M3, f8_e4m3, uint8_t, e4m3_to_f32(x))                                                                       \
    X(F8_E5M2, f8_e5m2, uint8_t, f16_to_f32((uint16_t)(x << 8)))                                                       \
    X(I8, i8, int8_t, (float)x)                                                                                        \
    X(I16, i16, int16_t, (float)x)                                                                                     \
    X(I32, i32, int32_t, (float)x)                                                                                     \
    X(I64, i64, int64_t, (float)x)                                                                                     \
    X(U8, u8, uint8_t, (float)x)                                                                                       \
    X(U16, u16, uint16_t, (float)x)                                                                                    \
    X(U32, u32, uint32_t, (float)x)                                                                                    \
    X(U64, u64, uint64_t, (float)x)                                                                                    \
    X(BOOL, bool, uint8_t, x ? 1.f : 0.f)
#define X(id, name, ctype, value)                                                                                      \
    static void decode_##name(const uint8_t *from, float *to, uint64_t n)                                              \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                                             \
            ctype x;                                                                                                   \
            memcpy(&x, from + i * sizeof x, sizeof x);                                                                 \
            to[i] = (value);                                                                                           \
        }                                                                                                              \
    }
PLAIN_LIST(X)
#undef X

/* f16_to_f32 without branches, for the vectorizer: a product shifts the exponent, exactly for subnormals too. */
FIT_LOOPS
static void decode_f16(const uint8_t *from, float *to, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, from + i * sizeof h, sizeof h);
        uint32_t a = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
        uint32_t v = float_bits(bits_float(a) * 0x1p112f);
        v |= a >= 0x0f800000 ? 0x7f800000 : 0;
        v |= a > 0x0f800000 ? 0x00400000 : 0;
        to[i] = bits_float(v | sign);
    }
}
#define PLAIN_ENCODER(name, ctype, value)                                                                              \
    static void encode_##name(const float *from, uint8_t *to, uint64_t n)                                              \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                                             \
            float x = from[i];                                                                                         \
            ctype y = (value);                                                                                         \
            memcpy(to + i * sizeof y, &y, sizeof y);                                                                   \
        }                                                                                                              \
    }

PLAIN_ENCODER(f32, float, x)
PLAIN_ENCODER(f64, double, x)
PLAIN_ENCODER(f16, uint16_t, f32_to_f16(x))
PLAIN_ENCODER(bf16, uint16_t, f32_to_bf16(x))

/* The block structs have the sizes of the list of types. */
#define X(id, name) _Static_assert(sizeof(block_##name) == DTYPE_BYTES_##id, "size of a block of " #id);
enum {
#define Y(id, name, weights, bytes, ggml) DTYPE_BYTES_##id = bytes,
    DTYPE_LIST(Y)
#undef Y
};
BLOCK_LIST(X)
#undef X
#define X(id, name, weights, bytes, ggml) _Static_assert(weights <= DTYPE_WEIGHTS_MAX, "block of " #id);
DTYPE_LIST(X)
#undef X

/* clang-format off */
static quant_decoder *const decoder[DTYPE_COUNT] = {
    [DTYPE_F16] = decode_f16,
#define X(id, name, ...) [DTYPE_##id] = decode_##name,
    PLAIN_LIST(X)
#undef X
#define X(id, name) [DTYPE_##id] = quant_decode_##name,
    BLOCK_LIST(X)
#undef X
};
/* NULL: none, or that of quant_fit.c. */
static quant_encoder *const encoder[DTYPE_COUNT] = {
    [DTYPE_F32] = encode_f32, [DTYPE_F64] = encode_f64, [DTYPE_F16] = encode_f16, [DTYPE_BF16] = encode_bf16,
#define X(id, name) [DTYPE_##id] = quant_encode_##name,
    ENCODER_LIST(X)
#undef X
};
/* clang-format on */

void quant_decode(dtype t, const void *from, float *to, uint64_t n) { decoder[t](from, to, n); }
void quant_decode_row(dtype t, const void *from, float *to, uint64_t n)
{
    uint64_t tail = n % dtype_info[t].weights, whole = n - tail;
    float last[DTYPE_WEIGHTS_MAX];
    if (whole) quant_decode(t, from, to, whole);
    if (!tail) return;
    quant_decode(t, (const uint8_t *)from + dtype_row_bytes(t, whole), last, dtype_info[t].weights);
    memcpy(to + whole, last, tail * sizeof *to);
}

bool quant_can_encode(dtype t) { return encoder[t] || quant_fit_has(t); }

void quant_encode(dtype t, const float *from, void *to, uint64_t n)
{
    if (encoder[t]) encoder[t](from, to, n);
    else quant_fit(t, from, n, NULL, to);
}
