/* quant_range.c - see quant_range.h.
 *
 * There is no list of the largest number of each type: a block with large numbers and a smaller copy of it are encoded,
 * and the block is too large when its error is much worse than the copy's. Every type holds numbers up to COMMON, so
 * trained weights never need this. */
#include "tensor/quant_range.h"

#include "base/half.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const float COMMON = 1024;

/* Bits of the largest magnitude; infinities and NaN are larger than all numbers. */
static uint32_t max_bits(const float *x, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    return most;
}

/* What n weights, at most a block, lose by being encoded, as a share of their squares. */
static double rounding_loss(dtype t, const float *x, uint64_t n)
{
    uint8_t block[DTYPE_WEIGHTS_MAX * sizeof(float)];
    float back[DTYPE_WEIGHTS_MAX];
    double lost = 0, all = 0;
    quant_fit(t, x, n, NULL, block);
    quant_decode(t, block, back, dtype_info[t].weights);
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)back[i];
        lost += d * d;
        all += (double)x[i] * (double)x[i];
    }
    return lost / all;
}

static bool block_is_held(dtype t, const float *x, uint64_t n, float most)
{
    float small[DTYPE_WEIGHTS_MAX];
    int power; /* of two: formats with few levels hit them as well as before */
    frexpf(most / COMMON, &power);
    for (uint64_t i = 0; i < n; i++) small[i] = ldexpf(x[i], -power);
    return rounding_loss(t, x, n) <= 4 * rounding_loss(t, small, n) + 1e-4;
}

quant_range quant_range_of(dtype t, const float *row, uint64_t n)
{
    const uint64_t weights = dtype_info[t].weights;
    const uint32_t bits = max_bits(row, n);
    float most;
    memcpy(&most, &bits, sizeof most);
    if (most <= COMMON) return RANGE_HELD;
    if (weights == 1)
        return t == DTYPE_F16 && isfinite(most) && isinf(f16_to_f32(f32_to_f16(most))) ? RANGE_TOO_LARGE : RANGE_HELD;
    if (!isfinite(most)) return RANGE_NOT_FINITE;
    for (uint64_t i = 0; i < n; i += weights) {
        uint64_t there = n - i < weights ? n - i : weights;
        const uint32_t here = max_bits(row + i, there);
        memcpy(&most, &here, sizeof most);
        if (most > COMMON && !block_is_held(t, row + i, there, most)) return RANGE_TOO_LARGE;
    }
    return RANGE_HELD;
}

int quant_range_error(dtype t, const char *name, int64_t at, const float *row, uint64_t n, err *e)
{
    const uint32_t bits = max_bits(row, n);
    const quant_range range = quant_range_of(t, row, n);
    float most;
    memcpy(&most, &bits, sizeof most);
    if (range == RANGE_NOT_FINITE)
        return err_set(e, ERR_SPEC, "weight %s: row %" PRId64 " has infinities or NaN, which %s cannot hold; f32 can",
                       name, at, dtype_info[t].name);
    if (range == RANGE_TOO_LARGE)
        return err_set(e, ERR_SPEC,
                       "weight %s: row %" PRId64 " has numbers up to %g, too large for %s; f32 can hold them", name, at,
                       (double)most, dtype_info[t].name);
    return OK;
}
