/* logit_check.h - whether a row of logits is one: the greedy pick and the scans of a row take NaN as minus infinity. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether one of n logits is NaN: then the model has computed nothing that could be drawn from. */
static inline bool logits_have_nan(const float *row, int64_t n)
{
    enum { AT_ONCE = 16 };
    uint32_t odd[AT_ONCE] = {0}, bits[AT_ONCE], any = 0;
    for (; n >= AT_ONCE; n -= AT_ONCE, row += AT_ONCE) {
        memcpy(bits, row, sizeof bits);
        for (int k = 0; k < AT_ONCE; k++) odd[k] |= (bits[k] & 0x7fffffff) > 0x7f800000;
    }
    for (int k = 0; k < AT_ONCE; k++) any |= odd[k];
    for (int64_t i = 0; i < n; i++) any |= isnan(row[i]) != 0;
    return any;
}
