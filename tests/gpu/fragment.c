/* fragment.c - elements of matrices in registers, and their sums. */
#include "tests/gpu/fragment.h"
#include "tests/gpu/soft_float.h"

#include <math.h>

double fragment_element(uint32_t word, int i, int type)
{
    switch (type) {
    case FRAGMENT_S8: return (int8_t)(word >> 8 * i);
    case FRAGMENT_U8: return (uint8_t)(word >> 8 * i);
    case FRAGMENT_F16: return f16_value(word >> 16 * i & 0xffff);
    default: return bf16_value(word >> 16 * i & 0xffff);
    }
}

/* The sum of products and c, where no adder of 24 bits or more could lose anything; false where it could. */
static bool exact_sum(const double *a, const double *b, int k, double c, float *sum)
{
    double all = c, most = fabs(c), unit = INFINITY;
    for (int i = -1; i < k; i++) {
        const double t = i < 0 ? c : a[i] * b[i];
        int e;
        if (i >= 0) all += t;
        if (!isfinite(t) || t == 0) continue;
        if (fabs(t) > most) most = fabs(t);
        const uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(t), &e), 53);
        const double low = ldexp(1, e - 53 + __builtin_ctzll(mantissa));
        if (low < unit) unit = low;
    }
    *sum = (float)all;
    return !isfinite(all) || ((double)*sum == all && most < ldexp(unit, 24));
}

float fragment_float_sum(warp *w, int l, const double *a, const double *b, int k, double c)
{
    float sum;
    if (!exact_sum(a, b, k, c, &sum)) machine_fault(w, l, FAULT_LAUNCH, "a sum of floats that has to be rounded");
    return sum;
}

uint32_t fragment_sum(const double *a, const double *b, int k, int32_t c, bool clamps)
{
    double part[4] = {0}; /* exact: whole numbers below 2^53 */
    for (int i = 0; i < k; i += 4)
        for (int j = 0; j < 4; j++) part[j] += a[i + j] * b[i + j];
    int64_t sum = c + (int64_t)(part[0] + part[1] + part[2] + part[3]);
    if (clamps) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

void fragment_rows(decoder *d, const ptx_operand *o, int n, char letter, bool result, int32_t *x)
{
    const ptx_operand *part = o->kind == OPERAND_VECTOR ? o->part : o;
    if ((o->kind == OPERAND_VECTOR ? o->n : 1) != n) decode_stop(d, "not so many registers");
    for (int i = 0; i < n; i++) x[i] = result ? decode_result(d, &part[i], letter) : decode_source(d, &part[i], letter);
}
