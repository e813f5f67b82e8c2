/* heads.cuh - heads of new rows (cuda_args.h): the norm of a head, its rotation, and its codes in a page of the cache, in
 * the bits of their definitions. A head of a row is a warp, which keeps it in shared memory. */
#pragma once
#include "cuda/rows.cuh"

extern "C" {
#include "ops/run.h"
}
#include "core/kv_codes.h"

/* The byte of element d of a token in a tile, and the shift within it. */
__device__ __forceinline__ int64_t kv_code_at(const kv_codes &f, bool values, int64_t d, int token, int *shift)
{
    return values ? kv_value_at(&f, d, token, shift) : kv_key_at(&f, d, token, shift);
}

/* Stores the codes of block b of a head, lane l having elements l and l + 32 of it. Of four bits two elements share a
 * byte: they lie 4 apart in keys, 16 in values. */
__device__ __forceinline__ void kv_codes_put(const kv_codes &f, bool values, uint8_t *tile, int64_t b, const int *code,
                                             int token, int lane)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t d = b * f.block + lane + 32 * i;
        const int other = __shfl_xor_sync(~0u, code[i], values ? 16 : 4);
        int shift;
        if (32 * i >= f.block || d >= f.padded) continue;
        uint8_t *at = tile + kv_code_at(f, values, d, token, &shift);
        if (f.bits == 8) *at = (uint8_t)code[i];
        else if (shift == 0) *at = (uint8_t)(code[i] | other << 4);
    }
}

/* kv_block_encode, and where the codes go. */
__device__ __forceinline__ void kv_block_put(const kv_codes &f, bool values, uint8_t *tile, const float *x, int dim,
                                             int64_t b, int token, int lane)
{
    const int n = kv_block_size(&f, dim, b);
    const float first = x[b * f.block];
    float v[2], low = first, high = first, top = f.bits == 8 ? 255 : 15;
    bool odd = false;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        v[i] = lane + 32 * i < n ? x[b * f.block + lane + 32 * i] : first;
        low = fm_min(v[i], low);
        high = fm_max(v[i], high);
        odd = odd || !(v[i] * 0 == 0);
    }
#pragma unroll
    for (int half = 16; half; half /= 2) {
        low = fm_min(__shfl_xor_sync(~0u, low, half), low);
        high = fm_max(__shfl_xor_sync(~0u, high, half), high);
    }
    low = low + 0.0f;
    high = high + 0.0f;
    if (!f.base) {
        high = fm_max(high, -low) + 0.0f;
        low = 0;
        top = 127;
    }
    const uint16_t scale = f32_to_f16((high - low) / top), base = f32_to_f16(low);
    const float d = half_float(scale), m = half_float(base), inverse = d > 0 ? 1 / d : 0;
    const bool bad = __any_sync(~0u, odd) || !(d * 0 == 0 && m * 0 == 0);
    int code[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float c = bad || lane + 32 * i >= n ? 0 : rintf((v[i] - m) * inverse);
        code[i] = (int)fm_min(top, fm_max(f.base ? 0 : -top, c));
    }
    kv_codes_put(f, values, tile, b, code, token, lane);
    if (lane) return;
    kv_scales(&f, tile)[b * PAGE_TOKENS + token] = bad ? 0x7e00 : scale;
    if (f.base) kv_bases(&f, tile)[b * PAGE_TOKENS + token] = base;
}

/* A head of a token into a tile. */
__device__ __forceinline__ void kv_head_put(dtype t, const kv_codes &f, bool values, uint8_t *tile, const float *x,
                                            int dim, int token, int lane)
{
    if (!kv_is_codes(t)) {
        for (int d = lane; d < dim; d += 32) {
            const int64_t at = values ? (int64_t)token * dim + d : (int64_t)d * PAGE_TOKENS + token;
            if (t == DTYPE_F16) ((uint16_t *)tile)[at] = f32_to_f16(x[d]);
            else ((float *)tile)[at] = x[d];
        }
        return;
    }
    if (f.bits != 16) {
        for (int64_t b = 0; b < f.blocks; b++) kv_block_put(f, values, tile, x, dim, b, token, lane);
        return;
    }
    const warp_range of = warp_range_of(x, dim, lane);
    uint16_t scale = of.odd ? 0x7e00 : f32_to_f16(of.most);
    if (half_float(scale) < of.most) ++scale;
    const float d16 = half_float(scale), by = d16 > 0 && d16 * 0 == 0 ? (float)f.top / d16 : 0;
    if (lane == 0) kv_scales(&f, tile)[token] = scale;
    for (int d = lane; d < dim; d += 32) {
        int shift;
        *(int16_t *)(tile + kv_code_at(f, values, d, token, &shift)) = (int16_t)kv_int(x[d], by);
    }
}

__device__ __forceinline__ void norm_head(const heads_part &p, int head, float *x, int lane)
{
    const float2 by = norm_of(x, p.width, p.norm, p.eps, lane % 16);
    const float *gain = p.gain ? p.gain + (int64_t)head * p.width % p.gain_n : NULL;
    __syncwarp();
    for (int d = lane; d < p.width; d += 32) {
        const float v = (x[d] - by.x) * by.y;
        x[d] = gain ? v * gain[d] : v;
    }
    __syncwarp();
}

__device__ __forceinline__ void rotate_head(const heads_part &p, const step *st, int seq, int pos, float *x, int lane)
{
    const rope_variant *v = &p.variant[st->seq_rope[(int64_t)p.table * st->n_seq + seq]];
    const float *c = v->table + (int64_t)pos * p.half, *s = c + v->bytes / (2 * sizeof *v->table);
    for (int i = lane; i < p.half; i += 32) {
        const int first = p.halves ? i : 2 * i, second = p.halves ? i + p.half : 2 * i + 1;
        const float a = x[first], b = x[second];
        x[first] = fmaf(a, c[i], -(b * s[i]));
        x[second] = fmaf(b, c[i], a * s[i]);
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(HEADS_THREADS) cuda_heads(const __grid_constant__ heads_args a)
{
    extern __shared__ float run_slots[];
    begin_in_turn();
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t u = (int64_t)blockIdx.x * (HEADS_THREADS / 32) + warp, row = u / a.heads;
    if (row >= a.st->n[a.axis]) return;
    int head = (int)(u % a.heads), i = 0;
    while (head >= a.part[i].heads) head -= a.part[i++].heads;
    const heads_part &p = a.part[i];
    const step_rows *of = step_rows_of(a.st, a.axis);
    const int seq = of->seq[row], pos = of->pos[row];
    const int64_t at = (row * p.heads + head) * p.width;
    float *x = run_slots + warp * a.width;
#pragma unroll 4
    for (int d = lane; d < p.width; d += 32) x[d] = p.x[at + d];
    __syncwarp();
    if (p.norm >= 0) norm_head(p, head, x, lane);
    if (p.variant) rotate_head(p, a.st, seq, pos, x, lane);
    for (int d = lane; p.y && d < p.width; d += 32) p.y[at + d] = x[d];
    const int32_t page = p.store ? step_page(a.st, a.group, seq, pos / PAGE_TOKENS) : -1;
    if (page < 0) return;
    const bool values = p.store == HEADS_VALUES;
    const dtype t = values ? a.kv.v_type : a.kv.k_type;
    const kv_codes f = kv_codes_of(t, p.width, values);
    kv_head_put(t, f, values, kv_tile(&a.kv, values, page, head), x, p.width, pos % PAGE_TOKENS, lane);
}
