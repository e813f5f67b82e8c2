/* dtype.h - every element type, one row each: the single source of ids, names, sizes, help text and test loops.
 *
 * A type is "plain" (one number per element) or "block" (n weights share a block of bytes). Block types are decoded by
 * the reference in quant.h, which is their definition. Rows of a block type are whole blocks: cols % weights == 0. */
#pragma once
#include "base/gpu.h"

#include <stdbool.h>
#include <stdint.h>

/* X(id, name, weights per block, bytes per block, ggml type id or -1). Plain types are little-endian. Sources of block
 * layouts: ggml (quant_*.c), the Inferflow paper (quant_linear.c), this project (quant_tables.c; quant_stored.c for the
 * numbers of the hub's quantizers). */
#define DTYPE_LIST(X)                                                                                                  \
    X(F32, "f32", 1, 4, 0)                                                                                             \
    X(F16, "f16", 1, 2, 1)                                                                                             \
    X(BF16, "bf16", 1, 2, 30)                                                                                          \
    X(F64, "f64", 1, 8, 28)                                                                                            \
    X(F8_E4M3, "f8_e4m3", 1, 1, -1)                                                                                    \
    X(F8_E5M2, "f8_e5m2", 1, 1, -1)                                                                                    \
    X(I8, "i8", 1, 1, 24)                                                                                              \
    X(I16, "i16", 1, 2, 25)                                                                                            \
    X(I32, "i32", 1, 4, 26)                                                                                            \
    X(I64, "i64", 1, 8, 27)                                                                                            \
    X(U8, "u8", 1, 1, -1)                                                                                              \
    X(U16, "u16", 1, 2, -1)                                                                                            \
    X(U32, "u32", 1, 4, -1)                                                                                            \
    X(U64, "u64", 1, 8, -1)                                                                                            \
    X(BOOL, "bool", 1, 1, -1)                                                                                          \
    X(Q4_0, "q4_0", 32, 18, 2)                                                                                         \
    X(Q4_1, "q4_1", 32, 20, 3)                                                                                         \
    X(Q5_0, "q5_0", 32, 22, 6)                                                                                         \
    X(Q5_1, "q5_1", 32, 24, 7)                                                                                         \
    X(Q8_0, "q8_0", 32, 34, 8)                                                                                         \
    X(Q8_1, "q8_1", 32, 36, 9)                                                                                         \
    X(Q2_K, "q2_k", 256, 84, 10)                                                                                       \
    X(Q3_K, "q3_k", 256, 110, 11)                                                                                      \
    X(Q4_K, "q4_k", 256, 144, 12)                                                                                      \
    X(Q5_K, "q5_k", 256, 176, 13)                                                                                      \
    X(Q6_K, "q6_k", 256, 210, 14)                                                                                      \
    X(Q8_K, "q8_k", 256, 292, 15)                                                                                      \
    X(IQ2_XXS, "iq2_xxs", 256, 66, 16)                                                                                 \
    X(IQ2_XS, "iq2_xs", 256, 74, 17)                                                                                   \
    X(IQ3_XXS, "iq3_xxs", 256, 98, 18)                                                                                 \
    X(IQ1_S, "iq1_s", 256, 50, 19)                                                                                     \
    X(IQ4_NL, "iq4_nl", 32, 18, 20)                                                                                    \
    X(IQ3_S, "iq3_s", 256, 110, 21)                                                                                    \
    X(IQ2_S, "iq2_s", 256, 82, 22)                                                                                     \
    X(IQ4_XS, "iq4_xs", 256, 136, 23)                                                                                  \
    X(IQ1_M, "iq1_m", 256, 56, 29)                                                                                     \
    X(TQ1_0, "tq1_0", 256, 54, 34)                                                                                     \
    X(TQ2_0, "tq2_0", 256, 66, 35)                                                                                     \
    X(MXFP4, "mxfp4", 32, 17, 39)                                                                                      \
    X(NVFP4, "nvfp4", 64, 36, 40)                                                                                      \
    X(Q1_0, "q1_0", 128, 18, 41)                                                                                       \
    X(Q2_0, "q2_0", 64, 18, 42)                                                                                        \
    X(Q8_F32, "q8_f32", 32, 36, -1)                                                                                    \
    X(Q8_B32, "q8_b32", 32, 36, -1)                                                                                    \
    X(Q8_B64, "q8_b64", 64, 68, -1)                                                                                    \
    X(Q6_B64, "q6_b64", 64, 52, -1)                                                                                    \
    X(Q5_B64, "q5_b64", 64, 44, -1)                                                                                    \
    X(Q4_B32, "q4_b32", 32, 20, -1)                                                                                    \
    X(Q4_B64, "q4_b64", 64, 36, -1)                                                                                    \
    X(Q3H_B64, "q3h_b64", 64, 32, -1)                                                                                  \
    X(Q3_B32, "q3_b32", 32, 16, -1)                                                                                    \
    X(Q2_B32, "q2_b32", 32, 12, -1)                                                                                    \
    X(Q4_T, "q4_t", 128, 68, -1)                                                                                       \
    X(Q3H_T, "q3h_t", 128, 57, -1)                                                                                     \
    X(Q3_T, "q3_t", 128, 53, -1)                                                                                       \
    X(Q2_T, "q2_t", 128, 41, -1)                                                                                       \
    X(F8_B128, "f8_b128", 128, 132, -1)                                                                                \
    X(I8_B128, "i8_b128", 128, 132, -1)                                                                                \
    X(Q8_Z128, "q8_z128", 128, 132, -1)                                                                                \
    X(Q4_Z32, "q4_z32", 32, 20, -1)                                                                                    \
    X(Q4_Z64, "q4_z64", 64, 36, -1)                                                                                    \
    X(Q4_Z128, "q4_z128", 128, 68, -1)                                                                                 \
    X(Q3_Z128, "q3_z128", 128, 52, -1)                                                                                 \
    X(Q2_Z128, "q2_z128", 128, 36, -1)                                                                                 \
    X(NVFP4_F32, "nvfp4_f32", 64, 48, -1)                                                                              \
    X(NF4, "nf4", 64, 36, -1)

typedef enum dtype {
    DTYPE_NONE, /* not a type: "as the file has it", "unknown" */
#define X(id, name, weights, bytes, ggml) DTYPE_##id,
    DTYPE_LIST(X)
#undef X
        DTYPE_COUNT
} dtype;

typedef struct dtype_row {
    const char *name;
    uint16_t weights; /* per block; 1 for plain types */
    uint16_t bytes;   /* per block */
    int16_t ggml;     /* type id in GGUF files, -1: has none */
} dtype_row;

extern GPU_DATA const dtype_row dtype_info[DTYPE_COUNT]; /* [DTYPE_NONE] is all zero with name "none" */

dtype dtype_by_name(const char *name); /* DTYPE_NONE when unknown */
dtype dtype_by_ggml(uint32_t id);
static inline bool dtype_is_block(dtype t) { return dtype_info[t].weights > 1; }
static inline bool dtype_is_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

enum { DTYPE_WEIGHTS_MAX = 256 }; /* of a block */

/* Bytes of a row of n elements that is held by itself: its last block may be filled up. */
static inline uint64_t dtype_row_bytes(dtype t, uint64_t n)
{
    return (n + dtype_info[t].weights - 1) / dtype_info[t].weights * dtype_info[t].bytes;
}

/* Bytes of `n` consecutive elements; false when n is not a whole number of blocks or the size overflows. */
bool dtype_bytes(dtype t, uint64_t n, uint64_t *bytes);

enum { SHAPE_MAX = 8 };

/* A shape in row-major order: dim[rank-1] is contiguous. rank 0 is a scalar. */
typedef struct shape {
    int rank;
    int64_t dim[SHAPE_MAX];
} shape;

/* Number of elements; false when a dimension is negative or the product overflows. */
bool shape_count(const shape *s, uint64_t *n);
/* Writes "[a, b, c]"; always NUL-terminated. Returns out. */
char *shape_text(const shape *s, char *out, int cap);
