/* stored.h - matrices that are made of several tensors: as the quantizers of the hub store them, codes in a layout of
 * their own, scales in tensors beside them; and products of two matrices.
 *
 * Such a matrix is read row by row as blocks of a type that holds the same numbers (dtype.h), or, where there is none,
 * as float32. Nothing is rounded, with one exception: scales that are products of two tensors are rounded to float32,
 * as the programs do that wrote them. */
#pragma once
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the code of row r and column k lies. */
enum stored_form {
    STORED_BYTES,     /* byte k of row r */
    STORED_NIBBLES,   /* nibble k of row r, the low one first */
    STORED_NIBBLES_2, /* the same of all rows as one, the high one first (bitsandbytes) */
    STORED_WORDS,     /* in words of 32 bits that hold 32 / bits codes each, lowest first (compressed-tensors) */
    STORED_COLUMNS,   /* word w of the column: a stream of bits along k; words of a row lie side by side (GPTQ) */
    STORED_AWQ,       /* row k, nibbles of 8 outputs in a word, in the order 0 2 4 6 1 3 5 7 */
    STORED_QUARTERS,  /* two bits: row r % (rows / 4), at bit 2 * (r / (rows / 4)) (BitNet) */
    STORED_PRODUCT,   /* no codes: stored_matrix.product */
};
enum { STORED_SOURCES = 6 };

/* What a code means where rows are floats. */
enum stored_level { STORED_UINT, STORED_INT8, STORED_E4M3 };

/* Numbers by row and group of columns: that of row r and column k is element
 *     r / part * part_apart + r % part / rows * row_apart + group * group_apart,  group = k / cols
 * of `data`. */
typedef struct stored_grid {
    const uint8_t *data;
    dtype type;
    int64_t part, part_apart; /* rows of a matrix of a stack */
    int64_t rows, row_apart;
    int64_t cols, group_apart;
} stored_grid;

/* Rows of a table that have passed a linear layer, as matrices of `cols` of its outputs each, one below the other:
 *     row r = by[r / rows * cols … + cols - 1] . normed(table[r % rows]) [+ bias]
 * normed: as it is, or with mean 0 and variance 1 over the row, times gain plus shift. So what never changes at run
 * time is computed once. */
typedef struct stored_part {
    const uint8_t *data; /* NULL: there is none */
    dtype type;
} stored_part;
enum { PRODUCT_WIDTH_MAX = 1 << 14 };
typedef struct stored_product {
    stored_part table, by;         /* [rows, width], [matrices * cols, width] */
    stored_part bias, gain, shift; /* [matrices * cols], [width], [width] */
    int64_t rows, width;           /* width at most PRODUCT_WIDTH_MAX */
    double eps;                    /* of the norm; without gain there is none */
} stored_product;

typedef struct stored_matrix {
    dtype type; /* of the rows that it gives */
    uint8_t form, level, bits;
    int64_t rows, cols; /* of a stack all rows */
    const uint8_t *codes;
    stored_grid scale;
    /* Codes less this: `zero` of all, or where zeros is not NULL codes in words of 32 bits: by group and row; in AWQ's
     * order; or by row and group (compressed-tensors). zero_more is added to each, within `bits` + 1 bits. */
    const uint8_t *zeros;
    int32_t zero, zero_more;
    int64_t groups;                     /* of a row */
    const uint8_t *order;               /* the group of each column, int32; NULL: k / scale.cols */
    const int32_t *from;                /* the stored column of each column that it gives; NULL: they are the same */
    const struct stored_matrix *sorted; /* the same with the columns of a group side by side, in a type of blocks; NULL:
                                           there is none, or they lie so */
    float factor;                       /* of every scale: 1, or, where the type is NVFP4 or Q2_0, left to the reader */
    const struct stored_matrix *with_factor; /* the same in a type whose scales take it; NULL: there is none */
    const uint8_t *nested;                   /* scales are bytes into a table of 256 floats, or NULL … */
    const uint8_t *nested_by;                /* … times a float for 256 of them, plus an offset */
    float nested_offset;
    const stored_product *product; /* STORED_PRODUCT: then only type, rows, cols and the sources are given beside it */
    struct {
        uint32_t entry;
        bool told; /* its values say how the others are read: whoever has a part of the matrix has them all */
        uint64_t bytes;
    } source[STORED_SOURCES]; /* n_source tensors of the checkpoint that it is made of, first that of the codes */
    int n_source;
} stored_matrix;

/* Row r as dtype_row_bytes(type, cols) bytes; for blocks of FP4 and ternary codes without the factor. */
void stored_row(const stored_matrix *s, int64_t r, uint8_t *to);

/* The row as floats, without the factor where stored_row leaves it out. */
void stored_floats(const stored_matrix *s, int64_t r, float *to);
