/* act_q8.c - see act_q8.h: the definition of a block of activations. */
#include "tensor/act_q8.h"

#include <math.h>

void act_encode(const float *x, int64_t n, int block, int8_t *code, float *scale, float *total, int16_t *parts)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        odd = fmaf(x[i], 0, odd);
    }
    bool finite = odd == 0, tiny = !(most >= ACT_TINY);
    float inverse = !finite || tiny ? 0 : 127 / most;
    *scale = !finite ? NAN : tiny ? 0 : most / 127;
    int32_t sum = 0;
    for (int64_t i = 0; i < block; i++) {
        code[i] = i < n && finite ? (int8_t)rintf(x[i] * inverse) : 0;
        sum += code[i];
    }
    *total = *scale * (float)sum;
    if (!parts) return;
    for (int p = 0; p < 4; p++) {
        sum = 0;
        for (int i = 0; i < 16; i++) sum += code[16 * p + i];
        parts[2 + p] = (int16_t)sum;
    }
    parts[0] = (int16_t)(parts[2] + parts[3]);
    parts[1] = (int16_t)(parts[4] + parts[5]);
}
