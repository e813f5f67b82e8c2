/* small.cuh - ops of which every element, pair or row is computed by itself: one thread each instead of one for sixteen
 * elements or a whole row, as their definitions have it. */
#pragma once
#include "cuda/cuda_args.h"

#include "core/act_value.h"
#include "core/kv_codes.h"

extern "C" __global__ void __launch_bounds__(EACH_THREADS) cuda_each(const each_args a)
{
    const int64_t i = (int64_t)blockIdx.x * EACH_THREADS + threadIdx.x;
    if (i >= *a.live * a.dim) return;
    const float x = a.x[i], b = a.b ? a.b[a.by_column ? i % a.dim : a.by_row ? i / a.dim : i] : 0;
    float y = x;
    switch (a.o.kind) {
    case OP_ACT: y = act_value(a.o.u.act.fn, x); break;
    case OP_MUL: y = x * b; break;
    case OP_ADD: y = x + b; break;
    case OP_SCALE: y = x * a.o.u.scale.factor; break;
    case OP_SOFTCAP: y = a.o.u.softcap.cap * fm_tanh(x / a.o.u.softcap.cap); break;
    case OP_CLAMP: {
        const float max = a.o.u.clamp.limit, min = a.o.u.clamp.above ? -INFINITY : -max;
        y = x > max ? max : x < min ? min : x;
    }
    }
    a.y[i] = y;
}

extern "C" __global__ void __launch_bounds__(EACH_THREADS) cuda_rope(const rope_args a)
{
    const int64_t each = a.width - a.half, i = (int64_t)blockIdx.x * EACH_THREADS + threadIdx.x;
    if (i >= a.st->n[a.axis] * a.heads * each) return;
    const int64_t u = i / each, row = u / a.heads;
    const int at = (int)(i % each);
    const float *x = a.x + u * a.width;
    float *y = a.y + u * a.width;
    if (at >= a.half) {
        y[at + a.half] = x[at + a.half];
        return;
    }
    const step_rows *rows = step_rows_of(a.st, a.axis);
    const rope_variant *v = &a.variant[a.st->seq_rope[(int64_t)a.table * a.st->n_seq + rows->seq[row]]];
    const float *c = v->table + (int64_t)rows->pos[row] * a.half, *s = c + v->bytes / (2 * sizeof *v->table);
    const int first = a.halves ? at : 2 * at, second = a.halves ? at + a.half : 2 * at + 1;
    const float p = x[first], q = x[second];
    y[first] = fmaf(p, c[at], -(q * s[at]));
    y[second] = fmaf(q, c[at], p * s[at]);
}

/* Of blocks of four bits two elements share a byte: they go by the definition. */
__device__ void kv_store_warp(dtype t, const kv_codes *f, bool values, uint8_t *tile, const float *x, int dim, int token,
                              int lane)
{
    if (!kv_is_codes(t)) {
        for (int d = lane; d < dim; d += 32) {
            const int64_t at = values ? (int64_t)token * dim + d : (int64_t)d * PAGE_TOKENS + token;
            if (t == DTYPE_F16) ((uint16_t *)tile)[at] = f32_to_f16(x[d]);
            else ((float *)tile)[at] = x[d];
        }
        return;
    }
    if (f->bits != 16) {
        if (lane == 0) kv_token_put(f, tile, values, x, dim, token);
        return;
    }
    float most = 0;
    bool odd = false;
    for (int d = lane; d < dim; d += 32) {
        most = fm_max(fabsf(x[d]), most);
        odd = odd || !(fabsf(x[d]) < INFINITY);
    }
    most = warp_max(most);
    uint16_t scale = __any_sync(~0u, odd) ? 0x7e00 : f32_to_f16(most);
    if (half_float(scale) < most) ++scale;
    const float d16 = half_float(scale), by = d16 > 0 && d16 * 0 == 0 ? (float)f->top / d16 : 0;
    if (lane == 0) kv_scales(f, tile)[token] = scale;
    for (int d = lane; d < dim; d += 32) kv_code_put(f, tile, values, d, token, kv_int(x[d], by));
}

extern "C" __global__ void __launch_bounds__(KV_THREADS) cuda_kv_put(const kv_args a)
{
    const int64_t u = (int64_t)blockIdx.x * (KV_THREADS / 32) + threadIdx.x / 32, at = u / 2;
    const bool values = u % 2;
    if (at >= (int64_t)a.st->n[a.axis] * a.kv.heads) return;
    const int64_t row = at / a.kv.heads, head = at % a.kv.heads;
    const step_rows *of = step_rows_of(a.st, a.axis);
    const int pos = of->pos[row], dim = values ? a.kv.v_dim : a.kv.k_dim;
    const int32_t page = step_page(a.st, a.group, of->seq[row], pos / PAGE_TOKENS);
    if (page < 0) return;
    const dtype t = values ? a.kv.v_type : a.kv.k_type;
    const kv_codes f = kv_codes_of(t, dim, values);
    kv_store_warp(t, &f, values, kv_tile(&a.kv, values, page, head), (values ? a.v : a.k) + at * dim, dim,
                  pos % PAGE_TOKENS, (int)threadIdx.x % 32);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) cuda_copy(const copy_args a)
{
    const int64_t row = blockIdx.x;
    if (row >= *a.live) return;
    const int64_t from = a.st ? a.st->out[row] : row;
    for (int64_t i = threadIdx.x; i < a.dim; i += ROW_THREADS)
        a.y[row * a.dim + i] = a.x[from * a.x_dim + a.from + i];
}

/* Row n of panels: a thread takes a span. */
__device__ void embed_panels(const held_weight *w, int64_t n, float *to)
{
    const panel_format *f = panel_format_of(w->type);
    const uint8_t *panel = w->data + (uint64_t)(n / PANEL_ROWS) * w->stride;
    const int64_t spans = (w->cols + f->span - 1) / f->span;
    for (int64_t s = threadIdx.x; s < spans; s += ROW_THREADS) {
        const int64_t k = s * f->span, left = w->cols - k;
        const uint64_t before = (uint64_t)s * (uint64_t)(f->span / PANEL_K * f->code_lines + f->tail_lines) * PANEL_LINE;
        panel_row(w->type, panel + before, (int)(n % PANEL_ROWS), left < f->span ? left : f->span, to + k);
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) cuda_embed(const embed_args a)
{
    const step_rows *rows = step_rows_of(a.st, a.axis);
    const int64_t i = blockIdx.x;
    if (i >= a.st->n[a.axis]) return;
    const int32_t *ids = a.by == EMBED_BY_TOKEN ? rows->token : a.by == EMBED_BY_POSITION ? rows->pos : rows->type;
    const int64_t n = (int64_t)ids[i] + a.offset;
    float *y = a.y + i * a.dim;
    const held_weight *w = &a.table;
    const bool vector = a.by == EMBED_BY_TOKEN && ids[i] < 0, there = n >= 0 && n < w->rows;
    if (!vector && there && w->packed) {
        embed_panels(w, n, y);
        return;
    }
    const uint8_t *row = w->data + (uint64_t)n * w->stride;
    for (int64_t k = threadIdx.x; k < a.dim; k += ROW_THREADS)
        y[k] = vector                    ? a.st->vec[~(int64_t)ids[i] * a.dim + k]
               : !there                  ? 0
               : w->type == DTYPE_F32    ? ((const float *)row)[k]
               : w->type == DTYPE_F16    ? half_float(((const uint16_t *)row)[k])
                                         : bf16_to_f32(((const uint16_t *)row)[k]);
}
