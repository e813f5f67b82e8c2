/* v_quant.h - QUANT: activations as int8, a block at a time on vectors; definition: act_encode (tensor/act_q8.h),
 * def_quant.c. */
#pragma once
#include "ops/quant_rows.h"
#include "cpu/simd/v16.h"

#include <math.h>

/* act_encode on vectors; it does blocks that reach beyond the row, or hold a value that is not finite; compared as
 * integers, the bits of such a value exceed all others. */
INLINE void act_code_of(int block, const float *x, int64_t n, act_block *to)
{
    s4 sum[4];
    float top = n < block ? NAN : v16_max_magnitude(x, block);
    if (!(top < INFINITY)) {
        act_encode(x, n, block, to);
        return;
    }
    float inverse = top >= ACT_TINY ? 127 / top : 0;
    to->scale = top >= ACT_TINY ? top / 127 : 0;
    UNROLLED (i, 4) {
        sum[i] = s4_zero();
        if (i * LANES >= block) continue;
        b16 bytes = v16_i8(v16_mul(v16_load(x + i * LANES), v16_all(inverse)));
        b16_store(to->code + i * LANES, bytes);
        sum[i] = s4_of_bytes(bytes);
    }
    if (block == 32) {
        to->neg_sum = -s4_fold(s4_add(sum[0], sum[1]));
    } else {
        s4 of16 = s4_less(s4_pairs(s4_pairs(sum[0], sum[1]), s4_pairs(sum[2], sum[3])));
        int16_t all[8]; /* of 32, twice, of 16 */
        to->neg_sum = s4_fold(of16);
        s4_store_i16(all, s4_pairs(of16, of16), of16);
        memcpy(to->neg_subsums, all + 2, sizeof to->neg_subsums);
    }
    to->scaled_sum = to->scale * (float)-to->neg_sum;
}
INLINE void act_code(const float *x, int64_t n, int block, act_block *to)
{
    if (block == 32) act_code_of(32, x, n, to);
    else act_code_of(64, x, n, to);
}

static void v_quant(const run *r, const op *o, int worker, int workers)
{
    quant_plain from = quant_plain_of(r, o);
    quant_rows(r, o, worker, workers, &from, quant_plain_fetch, act_code);
}
