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

/* A decoder for a plain type: C type of an element, expression of its value x as float. */
#define PLAIN_DECODER(name, ctype, value)                                                                              \
    static void decode_##name(const uint8_t *from, float *to, uint64_t n)                                              \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                                             \
            ctype x;                                                                                                   \
            memcpy(&x, from + i * sizeof x, sizeof x);                                                                 \
            to[i] = (value);                                                                                           \
        }                                                                                                              \
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

static float e4m3_to_f32(uint8_t b)
{
    int exponent = b >> 3 & 15, mantissa = b & 7;
    float v = exponent == 15 && mantissa == 7 ? NAN
              : exponent == 0                 ? ldexpf((float)mantissa, -9)
                                              : ldexpf((float)(8 + mantissa), exponent - 10);
    return b & 0x80 ? -v : v;
}

PLAIN_DECODER(f32, float, x)
PLAIN_DECODER(f64, double, (float)x)
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
PLAIN_DECODER(bf16, uint16_t, bf16_to_f32(x))
PLAIN_DECODER(f8_e4m3, uint8_t, e4m3_to_f32(x))
PLAIN_DECODER(f8_e5m2, uint8_t, f16_to_f32((uint16_t)(x << 8)))
PLAIN_DECODER(i8, int8_t, (float)x)
PLAIN_DECODER(i16, int16_t, (float)x)
PLAIN_DECODER(i32, int32_t, (float)x)
PLAIN_DECODER(i64, int64_t, (float)x)
PLAIN_DECODER(u8, uint8_t, (float)x)
PLAIN_DECODER(u16, uint16_t, (float)x)
PLAIN_DECODER(u32, uint32_t, (float)x)
PLAIN_DECODER(u64, uint64_t, (float)x)
PLAIN_DECODER(bool, uint8_t, x ? 1.f : 0.f)
PLAIN_ENCODER(f32, float, x)
PLAIN_ENCODER(f64, double, x)
PLAIN_ENCODER(f16, uint16_t, f32_to_f16(x))
PLAIN_ENCODER(bf16, uint16_t, f32_to_bf16(x))

/* The block structs have the sizes of the list of types. */
#define X(id, type) _Static_assert(sizeof(type) == DTYPE_BYTES_##id, "size of a block of " #id);
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

static const struct quant_row {
    quant_decoder *decode;
    quant_encoder *encode; /* NULL: none, or only the fitted one of quant_fit.c */
    bool fitted;           /* which then encodes plainly too */
} row[DTYPE_COUNT] = {
    [DTYPE_F32] = {decode_f32, encode_f32},
    [DTYPE_F16] = {decode_f16, encode_f16},
    [DTYPE_BF16] = {decode_bf16, encode_bf16},
    [DTYPE_F64] = {decode_f64, encode_f64},
    [DTYPE_F8_E4M3] = {decode_f8_e4m3, NULL},
    [DTYPE_F8_E5M2] = {decode_f8_e5m2, NULL},
    [DTYPE_I8] = {decode_i8, NULL},
    [DTYPE_I16] = {decode_i16, NULL},
    [DTYPE_I32] = {decode_i32, NULL},
    [DTYPE_I64] = {decode_i64, NULL},
    [DTYPE_U8] = {decode_u8, NULL},
    [DTYPE_U16] = {decode_u16, NULL},
    [DTYPE_U32] = {decode_u32, NULL},
    [DTYPE_U64] = {decode_u64, NULL},
    [DTYPE_BOOL] = {decode_bool, NULL},
    [DTYPE_Q4_0] = {quant_decode_q4_0, quant_encode_q4_0},
    [DTYPE_Q4_1] = {quant_decode_q4_1, quant_encode_q4_1},
    [DTYPE_Q5_0] = {quant_decode_q5_0, quant_encode_q5_0},
    [DTYPE_Q5_1] = {quant_decode_q5_1, quant_encode_q5_1},
    [DTYPE_Q8_0] = {quant_decode_q8_0, quant_encode_q8_0},
    [DTYPE_Q8_1] = {quant_decode_q8_1, NULL},
    [DTYPE_Q8_F32] = {quant_decode_q8_f32, .fitted = true},
    [DTYPE_Q1_0] = {quant_decode_q1_0, .fitted = true},
    [DTYPE_Q2_0] = {quant_decode_q2_0, .fitted = true},
    [DTYPE_Q2_K] = {quant_decode_q2_k, .fitted = true},
    [DTYPE_Q3_K] = {quant_decode_q3_k, .fitted = true},
    [DTYPE_Q4_K] = {quant_decode_q4_k, .fitted = true},
    [DTYPE_Q5_K] = {quant_decode_q5_k, .fitted = true},
    [DTYPE_Q6_K] = {quant_decode_q6_k, .fitted = true},
    [DTYPE_Q8_K] = {quant_decode_q8_k, NULL},
    [DTYPE_IQ2_XXS] = {quant_decode_iq2_xxs, .fitted = true},
    [DTYPE_IQ2_XS] = {quant_decode_iq2_xs, .fitted = true},
    [DTYPE_IQ2_S] = {quant_decode_iq2_s, .fitted = true},
    [DTYPE_IQ3_XXS] = {quant_decode_iq3_xxs, .fitted = true},
    [DTYPE_IQ3_S] = {quant_decode_iq3_s, .fitted = true},
    [DTYPE_IQ1_S] = {quant_decode_iq1_s, .fitted = true},
    [DTYPE_IQ1_M] = {quant_decode_iq1_m, .fitted = true},
    [DTYPE_IQ4_NL] = {quant_decode_iq4_nl, .fitted = true},
    [DTYPE_IQ4_XS] = {quant_decode_iq4_xs, .fitted = true},
    [DTYPE_TQ1_0] = {quant_decode_tq1_0, .fitted = true},
    [DTYPE_TQ2_0] = {quant_decode_tq2_0, .fitted = true},
    [DTYPE_MXFP4] = {quant_decode_mxfp4, quant_encode_mxfp4},
    [DTYPE_NVFP4] = {quant_decode_nvfp4, .fitted = true},
    [DTYPE_Q8_B32] = {quant_decode_q8_b32, quant_encode_q8_b32},
    [DTYPE_Q8_B64] = {quant_decode_q8_b64, quant_encode_q8_b64},
    [DTYPE_Q6_B64] = {quant_decode_q6_b64, quant_encode_q6_b64},
    [DTYPE_Q5_B64] = {quant_decode_q5_b64, quant_encode_q5_b64},
    [DTYPE_Q4_B32] = {quant_decode_q4_b32, quant_encode_q4_b32},
    [DTYPE_Q4_B64] = {quant_decode_q4_b64, quant_encode_q4_b64},
    [DTYPE_Q3H_B64] = {quant_decode_q3h_b64, quant_encode_q3h_b64},
    [DTYPE_Q3_B32] = {quant_decode_q3_b32, quant_encode_q3_b32},
    [DTYPE_Q2_B32] = {quant_decode_q2_b32, quant_encode_q2_b32},
    [DTYPE_Q4_T] = {quant_decode_q4_t, .fitted = true},
    [DTYPE_Q3H_T] = {quant_decode_q3h_t, .fitted = true},
    [DTYPE_Q3_T] = {quant_decode_q3_t, .fitted = true},
    [DTYPE_Q2_T] = {quant_decode_q2_t, .fitted = true},
};

void quant_decode(dtype t, const void *from, float *to, uint64_t n) { row[t].decode(from, to, n); }
void quant_decode_row(dtype t, const void *from, float *to, uint64_t n)
{
    uint64_t tail = n % dtype_info[t].weights, whole = n - tail;
    float last[DTYPE_WEIGHTS_MAX];
    if (whole) quant_decode(t, from, to, whole);
    if (!tail) return;
    quant_decode(t, (const uint8_t *)from + dtype_row_bytes(t, whole), last, dtype_info[t].weights);
    memcpy(to + whole, last, tail * sizeof *to);
}

bool quant_can_encode(dtype t) { return row[t].encode || row[t].fitted; }

void quant_encode(dtype t, const float *from, void *to, uint64_t n)
{
    if (row[t].fitted) quant_fit(t, from, n, NULL, to);
    else row[t].encode(from, to, n);
}
