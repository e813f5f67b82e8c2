/* quant_tables.h - blocks of 128 weights whose sub-blocks each pick one of several tables of levels (quant_tables.c):
 * access to their parts. */
#pragma once
#include "base/gpu.h"
#include "tensor/dtype.h"

#include <stdint.h>

enum { TABLES_WEIGHTS = 128, TABLES_SUBS = 16, TABLES_TOP = 63 };

typedef struct tables_format {
    uint8_t bits;        /* of a code */
    uint8_t sub;         /* weights of a sub-block: 8 or 16 */
    uint8_t choice;      /* bits of a choice: 1 << choice tables */
    float spread;        /* of weights in units of the tables: the standard deviation they were made for */
    const int8_t *level; /* [choice << bits | code], -TABLES_TOP … TABLES_TOP, rising within a table */
} tables_format;

/* The tables of each type, in a row: [choice << bits | code]. */
extern GPU_DATA const int8_t tables_level_q4[128], tables_level_q3h[128], tables_level_q3[128], tables_level_q2[64];

/* NULL: not such a type. */
const tables_format *tables_format_of(dtype t);

/* Codes, choices ([TABLES_WEIGHTS / sub], the rest stays untouched) and the scale byte of a block. */
void tables_get(dtype t, const uint8_t *block, uint8_t *code, uint8_t *choice, uint8_t *scale);
void tables_put(dtype t, uint8_t *block, const uint8_t *code, const uint8_t *choice, uint8_t scale);

/* A scale byte is an unsigned float of 5 exponent bits and 3 of mantissa: the top of an f16, times TABLES_UNIT. */
#define TABLES_UNIT 0x1p-8f
enum { TABLES_SCALE_MAX = 247 /* beyond it are the infinity and NaN of f16 */ };
float tables_scale(uint8_t scale);
