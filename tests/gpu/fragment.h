/* fragment.h - elements of matrices in registers, and their sums. */
#pragma once
#include "tests/gpu/decode.h"
#include "tests/gpu/machine.h"

enum { FRAGMENT_S8, FRAGMENT_U8, FRAGMENT_F16, FRAGMENT_BF16 };

/* Element i of a word. */
double fragment_element(uint32_t word, int i, int type);
/* c and the products of k elements. Of floats only where no adder of 24 bits could lose anything: else the launch of
 * lane l's warp fails. */
uint32_t fragment_sum(const double *a, const double *b, int k, int32_t c, bool clamps);
float fragment_float_sum(warp *w, int l, const double *a, const double *b, int k, double c);
/* The rows of n registers that an operand names. */
void fragment_rows(decoder *d, const ptx_operand *o, int n, char letter, bool result, int32_t *x);
