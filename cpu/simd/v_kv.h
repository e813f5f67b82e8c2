/* v_kv.h - KV_PUT on sixteen lanes; definition: def_kv.c. Floats: keys are scattered (one cache line each), values are
 * a run. Sixteen elements at a time are quantized, and scattered byte by byte: other bytes of a line may be another
 * worker's. */
#pragma once
#include "ops/kv_rows.h"
#include "cpu/simd/v16.h"

#include <string.h>

/* n <= 16 values at x as they are stored. */
INLINE void kv_encode(dtype t, const float *x, int n, void *to)
{
    v16 v = v16_load_part(x, n);
    if (t == DTYPE_F16) v16_store_f16(to, v);
    else v16_store(to, v);
}

INLINE void kv_put_keys(dtype t, const float *x, int dim, uint8_t *tile, int at)
{
    for (int d = 0; d < dim; d += LANES) {
        int n = dim - d < LANES ? dim - d : LANES;
        float coded[LANES];
        kv_encode(t, x + d, n, coded);
        for (int i = 0; i < n; i++) {
            int64_t to = (int64_t)(d + i) * PAGE_TOKENS + at;
            if (t == DTYPE_F16) memcpy(tile + 2 * to, (uint8_t *)coded + 2 * i, 2);
            else memcpy(tile + 4 * to, coded + i, 4);
        }
    }
}

INLINE void kv_put_values(dtype t, const float *x, int dim, uint8_t *row)
{
    for (int d = 0; d < dim; d += LANES) {
        int n = dim - d < LANES ? dim - d : LANES, bytes = t == DTYPE_F16 ? 2 : 4;
        float coded[LANES];
        kv_encode(t, x + d, n, coded);
        memcpy(row + (int64_t)d * bytes, coded, (size_t)(n * bytes));
    }
}

/* kv_block_encode of n elements, a multiple of 16. */
INLINE void kv_block_put(const kv_codes *f, const float *x, int n, uint8_t *code, uint16_t *scale, uint16_t *base)
{
    v16 low = v16_load(x), high = low, odd = v16_zero();
    for (int i = 0; i < n; i += LANES) {
        v16 v = v16_load(x + i);
        low = v16_min(v, low);
        high = v16_max(v, high);
        odd = v16_fma(v, v16_zero(), odd);
    }
    float from = 0.0f - v16_max_lane(v16_neg(low)), to = v16_max_lane(high) + 0.0f, top = f->bits == 8 ? 255 : 15;
    if (!f->base) {
        to = fm_max(to, -from) + 0.0f;
        from = 0;
        top = 127;
    }
    *scale = f32_to_f16((to - from) / top);
    *base = f32_to_f16(from);
    float d = f16_to_f32(*scale), m = f16_to_f32(*base), inverse = d > 0 ? 1 / d : 0;
    if (!(v16_fold(odd) == 0 && d * 0 == 0 && m * 0 == 0)) {
        kv_block_encode(f, x, n, code, scale, base);
        return;
    }
    for (int i = 0; i < n; i += LANES) {
        v16 c = v16_mul(v16_sub(v16_load(x + i), v16_all(m)), v16_all(inverse));
        c = v16_min(v16_all(top), v16_max(v16_all(f->base ? 0 : -top), c));
        b16_store(code + i, f->base ? v16_u8(c) : v16_i8(c));
    }
}

/* kv_token_put of i16. */
static void kv_token_ints(const kv_codes *f, uint8_t *tile, bool values, const float *x, int64_t dim, int token)
{
    float most = v16_max_magnitude(x, (int)dim);
    if (!(most < INFINITY)) {
        kv_token_put(f, tile, values, x, dim, token);
        return;
    }
    v16 by = v16_all(kv_int_scale(f, &most, 1, &kv_scales(f, tile)[token]));
    int shift;
    uint8_t *to = tile + (values ? kv_value_at : kv_key_at)(f, 0, token, &shift);
    for (int64_t d = 0; d < dim; d += LANES) {
        int16_t code[LANES];
        v16_store_int(code, v16_fma(v16_load(x + d), by, v16_all(FM_ROUND)));
        for (int i = 0; values && i < LANES; i++) memcpy(to + (d + i) * 4, code + i, 2);
        for (int i = 0; !values && i < LANES; i += 2) memcpy(to + (d + i) * 2 * PAGE_TOKENS, code + i, 4);
    }
}

/* kv_token_put. */
static void kv_token_codes(const kv_codes *f, uint8_t *tile, bool values, const float *x, int64_t dim, int token)
{
    if (dim % LANES || dim != f->padded) {
        kv_token_put(f, tile, values, x, dim, token);
        return;
    }
    if (f->bits == 16) {
        kv_token_ints(f, tile, values, x, dim, token);
        return;
    }
    uint16_t *scale = kv_scales(f, tile) + token, *bases = kv_bases(f, tile) + token;
    for (int64_t b = 0; b < f->blocks; b++) {
        uint8_t code[64];
        uint16_t base;
        int shift, n = kv_block_size(f, dim, b);
        kv_block_put(f, x + b * f->block, n, code, &scale[b * PAGE_TOKENS], &base);
        if (f->base) bases[b * PAGE_TOKENS] = base;
        uint8_t *to = tile + (values ? kv_value_at : kv_key_at)(f, b * f->block, token, &shift);
        if (f->bits == 8 && values)
            for (int i = 0; i < n; i++) to[4 * i] = code[i];
        else if (f->bits == 8)
            for (int i = 0; i < n; i += 4) memcpy(to + i * PAGE_TOKENS, code + i, 4);
        else if (values) /* a block is two vectors: one byte for both */
            for (int i = 0; i < 16; i++) to[4 * i] = (uint8_t)(code[i] | code[16 + i] << 4);
        else
            for (int i = 0; i < n; i++)
                if (i % 8 < 4) to[i / 8 * 4 * PAGE_TOKENS + i % 4] = (uint8_t)(code[i] | code[i + 4] << 4);
    }
}

INLINE void kv_put_lanes(dtype t, const kv_codes *f, bool values, uint8_t *tile, const float *x, int dim, int token)
{
    if (kv_is_codes(t)) kv_token_codes(f, tile, values, x, dim, token);
    else if (values && t == DTYPE_F16) kv_put_values(DTYPE_F16, x, dim, tile + 2 * (int64_t)token * dim);
    else if (values) kv_put_values(DTYPE_F32, x, dim, tile + 4 * (int64_t)token * dim);
    else if (t == DTYPE_F16) kv_put_keys(DTYPE_F16, x, dim, tile, token);
    else kv_put_keys(DTYPE_F32, x, dim, tile, token);
}

static void v_kv_put(const run *r, const op *o, int worker, int workers)
{
    kv_put_rows(r, o, worker, workers, kv_put_lanes);
}
