/* quant_row.h - one decoder (and where the format is simple, encoder) per element type; quant.c holds the table.
 *
 * `from`/`to` on the byte side may have any alignment: a block is copied into its struct, then read. */
#ifndef TENSOR_QUANT_ROW_H
#define TENSOR_QUANT_ROW_H
#include "tensor/dtype.h"

#include <stdint.h>

typedef void quant_decoder(const uint8_t *from, float *to, uint64_t n);
typedef void quant_encoder(const float *from, uint8_t *to, uint64_t n);

#endif
