/* quant_tables.h - blocks of 128 weights whose sub-blocks each choose one of several tables of levels (quant_tables.c): their parts, for
 * packing and for encoders. */
#ifndef TENSOR_QUANT_TABLES_H
#define TENSOR_QUANT_TABLES_H
#include "tensor/dtype.h"

#include <stdint.h>

enum { TWO_WEIGHTS = 128, TWO_SUBS = 16, TWO_TOP = 63 };

typedef struct two_format {
    uint8_t bits;        /* of a code */
    uint8_t sub;         /* weights of a sub-block: 8 or 16 */
    uint8_t choice;      /* bits of a choice: 1 << choice tables */
    float spread;        /* of weights in units of the tables: the standard deviation they were made for */
    const int8_t *level; /* [choice << bits | code], -TWO_TOP … TWO_TOP, rising within a table */
} two_format;

/* NULL: not such a type. */
const two_format *two_of(dtype t);

/* Codes, choices ([TWO_WEIGHTS / sub], the rest stays untouched) and the scale byte of a block. */
void two_get(dtype t, const uint8_t *block, uint8_t *code, uint8_t *choice, uint8_t *scale);
void two_put(dtype t, uint8_t *block, const uint8_t *code, const uint8_t *choice, uint8_t scale);

/* A scale byte is an unsigned float of 5 exponent bits and 3 of mantissa: the top of an f16, times TWO_UNIT. */
#define TWO_UNIT 0x1p-8f
enum { TWO_SCALE_MOST = 247 /* beyond it are the infinity and NaN of f16 */ };
float two_scale(uint8_t scale);

#endif
