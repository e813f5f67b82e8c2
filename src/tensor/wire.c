/* wire.c - see wire.h: the definition of every codec, on GPUs too (cuda/join.cu). */
#include "tensor/wire.h"

#include "base/fmath.h"
#include "base/half.h"
#include "tensor/act_q8.h"

#include <stddef.h>
#include <string.h>

GPU_DATA const wire_info wire_infos[WIRE_COUNT] = {
#define X(id, name, bits, head) {name, bits, head},
    WIRE_LIST(X)
#undef X
};

const wire_pair wire_pairs[] = {
    {"f32", WIRE_F32, WIRE_F32},       {"f16", WIRE_F16, WIRE_F16},    {"int8", WIRE_INT8, WIRE_INT8},
    {"int6", WIRE_INT4, WIRE_INT8},    {"int4", WIRE_INT4, WIRE_INT4}, {"int8s", WIRE_INT8S, WIRE_INT8S},
    {"int4s", WIRE_INT4S, WIRE_INT4S}, {NULL, WIRE_COUNT, WIRE_COUNT},
};

typedef struct wire_scale {
    uint16_t step; /* f16 */
    uint8_t zero;
    float inverse; /* code = nearest(x * inverse + zero), held within 0 … limit */
} wire_scale;

/* Of a group with elements from -low to high, neither negative; odd: not 0 if one is not finite. */
GPU_CODE static wire_scale scale_of(wire_type t, float low, float high, float odd)
{
    const int limit = wire_limit(t), middle = (limit + 1) / 2;
    const bool symmetric = wire_symmetric(t);
    float step = symmetric ? fm_max(high, low) / (float)(middle - 1) : (high + low) / (float)limit;
    uint16_t half = f32_to_f16(step);
    half += f16_to_f32(half) < step;
    step = f16_to_f32(half);
    if (!(odd == 0 && step < INFINITY)) return (wire_scale){.step = 0x7e00};
    float inverse = step > 0 ? 1 / step : 0;
    float zero = symmetric ? (float)middle : rintf(fm_min(low * inverse, (float)limit));
    return (wire_scale){half, (uint8_t)zero, inverse};
}

GPU_CODE static void codes_encode(wire_type t, const float *x, int64_t n, uint8_t *to)
{
    float low = 0, high = 0, odd = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fm_max(-x[i], low);
        high = fm_max(x[i], high);
        odd = fmaf(x[i], 0, odd);
    }
    const wire_scale s = scale_of(t, low, high, odd);
    const float limit = (float)wire_limit(t);
    memset(to, 0, (size_t)wire_group_bytes(t, n));
    memcpy(to, &s.step, 2);
    if (!wire_symmetric(t)) to[2] = s.zero;
    to += wire_infos[t].head;
    for (int64_t i = 0; i < n && s.step != 0x7e00; i++) {
        const int code = (int)rintf(fm_min(fm_max(fmaf(x[i], s.inverse, s.zero), 0), limit));
        const int64_t run = i / 32 * 32, in = n - run < 32 ? n - run : 32, half = (in + 1) / 2, k = i - run;
        if (limit > 15) to[i] = (uint8_t)code;
        else to[run / 2 + k % half] |= (uint8_t)(code << (k < half ? 0 : 4));
    }
}

/* Element i of a group of n. */
GPU_CODE static float codes_value(wire_type t, const uint8_t *from, int64_t n, int64_t i)
{
    uint16_t step;
    memcpy(&step, from, 2);
    const int zero = wire_symmetric(t) ? (wire_limit(t) + 1) / 2 : from[2];
    const int64_t run = i / 32 * 32, in = n - run < 32 ? n - run : 32, half = (in + 1) / 2, k = i - run;
    from += wire_infos[t].head;
    const int code = wire_infos[t].bits == 8 ? from[i] : from[run / 2 + k % half] >> (k < half ? 0 : 4) & 15;
    return (float)(code - zero) * f16_to_f32(step);
}

GPU_CODE static void group_encode(wire_type t, const float *x, int64_t n, uint8_t *to)
{
    if (t == WIRE_F32) {
        memcpy(to, x, (size_t)n * 4);
    } else if (t == WIRE_F16) {
        for (int64_t i = 0; i < n; i++) {
            const uint16_t h = f32_to_f16(x[i]);
            memcpy(to + 2 * i, &h, 2);
        }
    } else if (t == WIRE_Q8) {
        act_block b;
        act_encode(x, n, WIRE_Q8_GROUP, &b);
        memcpy(to, &b.scale, 4);
        memcpy(to + 4, b.code, (size_t)n);
    } else {
        codes_encode(t, x, n, to);
    }
}

GPU_CODE static float element(wire_type t, const uint8_t *from, int64_t n, int64_t i)
{
    float f;
    uint16_t h;
    switch (t) {
    case WIRE_F32: memcpy(&f, from + 4 * i, 4); return f;
    case WIRE_F16: memcpy(&h, from + 2 * i, 2); return f16_to_f32(h);
    case WIRE_Q8: memcpy(&f, from, 4); return f * (float)(int8_t)from[4 + i];
    default: return codes_value(t, from, n, i);
    }
}

GPU_CODE static int64_t group_size(wire_type t, int64_t group, int64_t left)
{
    group = wire_group(t, group);
    return left < group ? left : group;
}

GPU_CODE static void wire_encode(wire_type t, int64_t group, const float *x, int64_t n, uint8_t *to)
{
    for (int64_t i = 0, in; i < n; i += in, to += wire_group_bytes(t, in)) {
        in = group_size(t, group, n - i);
        group_encode(t, x + i, in, to);
    }
}

GPU_CODE static void wire_decode(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x)
{
    for (int64_t i = 0, in; i < n; i += in, from += wire_group_bytes(t, in)) {
        in = group_size(t, group, n - i);
        for (int64_t k = 0; k < in; k++) x[i + k] = element(t, from, in, k);
    }
}

GPU_CODE static void wire_add(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x)
{
    for (int64_t i = 0, in; i < n; i += in, from += wire_group_bytes(t, in)) {
        in = group_size(t, group, n - i);
        for (int64_t k = 0; k < in; k++) x[i + k] += element(t, from, in, k);
    }
}

const wire_ops wire_reference = {wire_encode, wire_decode, wire_add};
