/* act_q8.c - see act_q8.h: the definition of a block of activations. */
#include "tensor/act_q8.h"

#include <math.h>

void act_encode(const float *x, int64_t n, int block, act_block *to)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        odd = fmaf(x[i], 0, odd);
    }
    bool finite = odd == 0, tiny = !(most >= ACT_TINY);
    float inverse = !finite || tiny ? 0 : 127 / most;
    to->scale = !finite ? NAN : tiny ? 0 : most / 127;
    to->neg_sum = 0;
    for (int64_t i = 0; i < block; i++) {
        to->code[i] = i < n && finite ? (int8_t)rintf(x[i] * inverse) : 0;
        to->neg_sum -= to->code[i];
    }
    to->scaled_sum = to->scale * (float)-to->neg_sum;
    for (int p = 0; p < 4 && block == 64; p++) {
        int32_t sum = 0;
        for (int i = 0; i < 16; i++) sum -= to->code[16 * p + i];
        to->neg_subsums[2 + p] = (int16_t)sum;
    }
    for (int p = 0; p < 2 && block == 64; p++)
        to->neg_subsums[p] = (int16_t)(to->neg_subsums[2 + 2 * p] + to->neg_subsums[3 + 2 * p]);
}
