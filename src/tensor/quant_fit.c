/* quant_fit.c - see quant_fit.h: types of which nothing better is known go through their plain encoder. */
#include "tensor/quant_fit.h"

#include "tensor/quant.h"

#include <string.h>

void quant_fit(dtype t, const float *row, uint64_t n, const float *importance, void *out)
{
    (void)importance;
    uint64_t weights = dtype_info[t].weights, tail = n % weights, whole = n - tail;
    float last[DTYPE_WEIGHTS_MAX];
    if (whole) quant_encode(t, row, out, whole);
    if (!tail) return;
    memcpy(last, row + whole, tail * sizeof *last);
    for (uint64_t i = tail; i < weights; i++) last[i] = row[n - 1];
    quant_encode(t, last, (uint8_t *)out + whole / weights * dtype_info[t].bytes, weights);
}
