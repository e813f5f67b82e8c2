/* embed.cuh - EMBED: rows of a table of floats or panels. */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/span_place.cuh"

/* Row n of panels: a thread takes a block of weights. */
__device__ void embed_panels(const held_weight *w, int64_t n, float *to)
{
    const panel_format *f = panel_format_of(w->type);
    const uint8_t *panel = w->data + (uint64_t)(n / PANEL_ROWS) * w->stride;
    const int r = (int)(n % PANEL_ROWS);
    for (int64_t k = (int64_t)threadIdx.x * f->block; k < w->cols; k += (int64_t)ROW_THREADS * f->block) {
        const span_place at = span_of(f, panel, w->cols, k);
        const panel_block of = panel_block_get(f, at.span, r, at.tiles, at.k / f->block);
        for (int i = 0; i < f->block && k + i < w->cols; i++)
            to[k + i] = panel_weight(f, at.span, r, at.tiles, at.k + i, of);
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) cuda_embed(const embed_args a)
{
    begin_in_turn();
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
