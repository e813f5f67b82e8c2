/* quant_row.h - one decoder (and where the format is simple, encoder) per element type; quant.c holds the table.
 *
 * A block type defines what one block means; the loop over blocks, and the copy that makes any alignment of the bytes
 * harmless, are written once by BLOCK_DECODER and BLOCK_ENCODER. */
#ifndef TENSOR_QUANT_ROW_H
#define TENSOR_QUANT_ROW_H
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

quant_decoder quant_decode_q4_0, quant_decode_q4_1, quant_decode_q5_0, quant_decode_q5_1, quant_decode_q8_0,
    quant_decode_q8_1;
quant_decoder quant_decode_q8_f32, quant_decode_q1_0, quant_decode_q2_0;
quant_decoder quant_decode_q2_k, quant_decode_q3_k, quant_decode_q4_k, quant_decode_q5_k, quant_decode_q6_k,
    quant_decode_q8_k;
quant_decoder quant_decode_iq2_xxs, quant_decode_iq2_xs, quant_decode_iq2_s, quant_decode_iq3_xxs, quant_decode_iq3_s;
quant_decoder quant_decode_iq1_s, quant_decode_iq1_m, quant_decode_iq4_nl, quant_decode_iq4_xs;
quant_decoder quant_decode_tq1_0, quant_decode_tq2_0, quant_decode_mxfp4, quant_decode_nvfp4;

quant_encoder quant_encode_q4_0, quant_encode_q4_1, quant_encode_q5_0, quant_encode_q5_1, quant_encode_q8_0,
    quant_encode_mxfp4;

quant_decoder quant_decode_q8_b32, quant_decode_q8_b64, quant_decode_q6_b64, quant_decode_q5_b64, quant_decode_q4_b32,
    quant_decode_q4_b64, quant_decode_q3h_b64, quant_decode_q3_b32, quant_decode_q2_b32;
quant_encoder quant_encode_q8_b32, quant_encode_q8_b64, quant_encode_q6_b64, quant_encode_q5_b64, quant_encode_q4_b32,
    quant_encode_q4_b64, quant_encode_q3h_b64, quant_encode_q3_b32, quant_encode_q2_b32;

quant_decoder quant_decode_q4_t, quant_decode_q3h_t, quant_decode_q3_t, quant_decode_q2_t;

#endif
