/* quant_row.h - one decoder (and where the format is simple, encoder) per element type; quant.c holds the table.
 *
 * A block type defines what one block means; the loop over blocks, and the copy that makes any alignment of the bytes
 * harmless, are written once by BLOCK_DECODER and BLOCK_ENCODER. */
#pragma once
#include "tensor/block.h"
#include "tensor/dtype.h"

#include <stdint.h>
#include <string.h>

typedef void quant_decoder(const uint8_t *from, float *to, uint64_t n);
typedef void quant_encoder(const float *from, uint8_t *to, uint64_t n);

/* quant_decode_<name> over n weights from `static void decode_block_<name>(const block_<name> *b, float *y)`. */
#define BLOCK_DECODER(name, weights)                                                                                   \
    void quant_decode_##name(const uint8_t *from, float *to, uint64_t n)                                               \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n / (weights); i++) {                                                                 \
            block_##name b;                                                                                            \
            memcpy(&b, from + i * sizeof b, sizeof b);                                                                 \
            decode_block_##name(&b, to + i * (weights));                                                               \
        }                                                                                                              \
    }
/* quant_encode_<name> from `static void encode_block_<name>(const float *x, block_<name> *b)`; *b comes zeroed. */
#define BLOCK_ENCODER(name, weights)                                                                                   \
    void quant_encode_##name(const float *from, uint8_t *to, uint64_t n)                                               \
    {                                                                                                                  \
        for (uint64_t i = 0; i < n / (weights); i++) {                                                                 \
            block_##name b = {0};                                                                                      \
            encode_block_##name(from + i * (weights), &b);                                                             \
            memcpy(to + i * sizeof b, &b, sizeof b);                                                                   \
        }                                                                                                              \
    }

#define X(id, name) quant_decoder quant_decode_##name;
BLOCK_LIST(X)
#undef X

/* Types with an encoder as they were published; what else can be encoded is in quant_fit.c. */
/* clang-format off */
#define ENCODER_LIST(X)                                                                                                \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0) X(MXFP4, mxfp4) X(Q8_B32, q8_b32)            \
    X(Q8_B64, q8_b64) X(Q6_B64, q6_b64) X(Q5_B64, q5_b64) X(Q4_B32, q4_b32) X(Q4_B64, q4_b64) X(Q3H_B64, q3h_b64)      \
    X(Q3_B32, q3_b32) X(Q2_B32, q2_b32)
/* clang-format on */
#define X(id, name) quant_encoder quant_encode_##name;
ENCODER_LIST(X)
#undef X
