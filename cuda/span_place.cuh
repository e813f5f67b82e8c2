/* span_place.cuh - where column k of a panel lies: its span, the tiles of that span, and k within it. */
#pragma once
#include "src/tensor/panel.h"

typedef struct span_place {
    const uint8_t *span;
    int tiles, k;
} span_place;

__device__ static span_place span_of(const panel_format *f, const uint8_t *panel, int64_t cols, int64_t k)
{
    const int64_t s = k / f->span, left = cols - s * f->span;
    const int n = left < f->span ? (int)left : f->span;
    const uint64_t bytes = (uint64_t)(f->span / PANEL_K * f->code_lines + f->tail_lines) * PANEL_LINE;
    return {panel + (uint64_t)s * bytes, (n + PANEL_K - 1) / PANEL_K, (int)(k - s * f->span)};
}
