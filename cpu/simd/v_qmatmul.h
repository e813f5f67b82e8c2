/* v_qmatmul.h - the MATMUL of packed weights (tensor/panel.h) with int8 activations; definition: def_qmatmul.c.
 *
 * One body (v_qtile.h): one panel of 16 outputs, or two, against a tile of 1 … ACT_ROWS rows. A format contributes
 * only the unpacking of group vectors. Few rows (one tile) are bound by reading the weights: one panel at a time,
 * read as one sequential stream a thread, lines fetched ahead between multiplications: AHEAD_Q bytes before their
 * use, or one or two rows by the way that was measured to be fastest (fetch_way.h). More rows are bound by the
 * multiplier of bytes, and by the two loads a cycle that feed it: two panels share each loaded activation, and each
 * tile prefetches its part of the next two panels. Each tile unpacks the weights again, from the caches, at 3
 * operations a vector; for formats that need more, and many rows, 512 k of two panels are unpacked once (v_qwide.h).
 * The activations of a block of BLOCK_Q rows stay in the L2 cache while all panels pass. */
#pragma once
#include "base/half.h"
#include "ops/quant_rows.h"
#include "cpu/chunk_steal.h"
#include "cpu/simd/qtile.h"

#include <math.h>

enum { WIDE_TILES = 5, AHEAD_Q = 10240, BLOCK_Q = 132, CHUNK_Q = 128 << 10 };

/* A matrix, rows of activations, and the place of the results. */
typedef struct qwork {
    const held_weight *w;
    act_rows x;
    float *y; /* [rows][ldy], from the output in row row0 and column col0 on */
    int64_t ldy, row0, col0;
    const float *bias;
} qwork;

#if defined(__AVX512F__)
/* Many rows: two panels at a time, 512 k of them unpacked for all tiles of rows. */
static void q_panels_wide(const qwork *k, const qwide_fn *bodies, int64_t from, int64_t to, int64_t t0, int64_t t1)
{
    _Alignas(64) uint8_t wide[WIDE_K * WIDE_LINES * 2 * PANEL_LINE];
    _Alignas(64) float sums[BLOCK_Q][2 * PANEL_ROWS];
    const held_weight *w = k->w;
    const panel_format *f = panel_format_of(w->type);
    const int8_t *level = f->level;
    const int64_t k_tiles = (w->cols + PANEL_K - 1) / PANEL_K;
    const uint64_t part = (uint64_t)WIDE_K * PANEL_LINE * f->code_lines +
                          (uint64_t)(PANEL_SPAN / f->span) * PANEL_LINE * f->tail_lines;
    const int64_t lines = ((int64_t)w->stride / PANEL_LINE + k_tiles - 1) / k_tiles; /* of 64 k */
    const int64_t row0 = row_tile_at(k->x.rows, t0).row0;
    const int64_t share = (2 * lines + t1 - t0 - 1) / (t1 - t0); /* lines to prefetch for each tile and 64 k */
    for (int64_t n = from; n < to; n += 2) {
        const int64_t left = w->rows - n * PANEL_ROWS;
        const uint8_t *panel = w->data + (uint64_t)n * w->stride, *second = n + 1 < to ? panel + w->stride : panel;
        const uint8_t *ahead = panel + 2 * w->stride,
                      *end = left > 2 * PANEL_ROWS ? ahead + 2 * w->stride : ahead; /* end of the lines to prefetch */
        for (int64_t s0 = 0; s0 < k_tiles; s0 += WIDE_K, panel += part, second += part) {
            qwide_job q = {.lines = wide,
                           .k_tiles = k_tiles - s0 < WIDE_K ? (int)(k_tiles - s0) : WIDE_K,
                           .first = s0 == 0,
                           .last = s0 + WIDE_K >= k_tiles,
                           .bias = k->bias ? k->bias + n * PANEL_ROWS : NULL,
                           .ldy = k->ldy};
            act_rows x = k->x;
            x.k0 += s0 * PANEL_K;
            q.n_out = n + 1 == to && left > PANEL_ROWS ? PANEL_ROWS
                      : left < 2 * PANEL_ROWS          ? (int)left
                                                       : 2 * PANEL_ROWS;
            qwiden_avx512[f->kind](f, level, panel, q.k_tiles, 0, wide);
            qwiden_avx512[f->kind](f, level, second, q.k_tiles, 1, wide);
            for (int64_t t = t0; t < t1; t++) {
                row_tile tile = row_tile_at(x.rows, t);
                q.x = act_part_of(&x, tile);
                q.y = k->y + (tile.row0 - k->row0) * k->ldy + n * PANEL_ROWS - k->col0;
                q.sums = sums[tile.row0 - row0];
                q.ahead = ahead;
                q.n_ahead = ahead < end ? (int)share : 0;
                bodies[tile.rows - QWIDE_MIN](&q);
                ahead += (uint64_t)(q.n_ahead * q.k_tiles) * PANEL_LINE;
            }
        }
    }
}
#endif

/* Panels from … to - 1 of the matrix against tiles t0 … t1 - 1 of the rows. */
static void q_panels(const qwork *k, int64_t from, int64_t to, int64_t t0, int64_t t1)
{
    const held_weight *w = k->w;
    bool alone = row_tiles(k->x.rows) == 1;
    qtile_fn joined = NULL;
#if defined(__AVX512F__)
    if (t1 - t0 == 2) joined = qtile_joined(panel_format_of(w->type), k->x.rows);
    const qwide_fn *bodies = t1 - t0 >= WIDE_TILES ? qwide_bodies(panel_format_of(w->type)) : NULL;
    if (bodies) {
        q_panels_wide(k, bodies, from, to, t0, t1);
        return;
    }
#endif
    qjob q = {.f = panel_format_of(w->type),
              .level = panel_format_of(w->type)->level,
              .apart = w->stride,
              .k_tiles = (w->cols + PANEL_K - 1) / PANEL_K,
              .ldy = k->ldy};
    int64_t lines = ((int64_t)w->stride / PANEL_LINE + q.k_tiles - 1) / q.k_tiles; /* of 64 k */
    row_tile tile = row_tile_at(k->x.rows, t0);
    q.x = act_part_of(&k->x, tile);
    const fetch_way way = alone && tile.rows <= QSTREAM_ROWS ? (fetch_way)w->way[tile.rows - 1] : FETCH_NEAR;
    const qtile_fn streams = way != FETCH_NEAR ? QSTREAM_TABLE[q.f->kind][tile.rows - 1][way - 1] : NULL;
    if (joined) {
        q.second = act_part_of(&k->x, row_tile_at(k->x.rows, --t1));
        alone = true;
    }
    for (int64_t n = from, np; n < to; n += np) {
        np = !alone && QPANELS == 2 && n + 2 <= to ? 2 : 1;
        int64_t left = w->rows - (n + np - 1) * PANEL_ROWS; /* outputs from the last of these panels on */
        const uint8_t *panel = w->data + (uint64_t)n * w->stride;
        /* lines of the next panels that each tile prefetches for each 64 k; a single tile prefetches its own panel */
        int64_t share = alone ? lines : (np * lines + t1 - t0 - 1) / (t1 - t0);
        q.ahead = panel; /* the last panels prefetch themselves */
        if (alone) q.ahead = (const uint8_t *)((uintptr_t)panel + (way == FETCH_SPLIT ? SPLIT_BLOCK : AHEAD_Q));
        else if (left > PANEL_ROWS) q.ahead = panel + (uint64_t)np * w->stride;
        for (int64_t t = t0; t < t1; t++) {
            if (t1 - t0 > 1) {
                tile = row_tile_at(k->x.rows, t);
                q.x = act_part_of(&k->x, tile);
            }
            bool fetch = (t - t0) * share < np * lines && (alone || left > PANEL_ROWS);
            q.panel = panel;
            q.y = k->y + (tile.row0 - k->row0) * k->ldy + n * PANEL_ROWS - k->col0;
            q.n_out = left < PANEL_ROWS ? (int)left : PANEL_ROWS;
            q.bias = k->bias ? k->bias + n * PANEL_ROWS : NULL;
            q.n_ahead = fetch ? (int)share : 0;
            (joined ? joined : streams ? streams : QTILE_TABLE[q.f->kind][np - 1][tile.rows - 1])(&q);
            if (fetch && !alone) q.ahead += (uint64_t)(share * q.k_tiles) * PANEL_LINE;
        }
    }
}

/* Tiles from t0 on that are multiplied with all panels in one iteration. */
static int64_t q_turn_end(int64_t tiles, int64_t t0)
{
    return t0 + BLOCK_Q / ACT_ROWS < tiles ? t0 + BLOCK_Q / ACT_ROWS : tiles;
}

/* Panels of a chunk, for `parts` matrices of as many panels each. */
static int64_t q_chunk(const held_weight *w, int64_t panels, int64_t parts)
{
    int64_t each = CHUNK_Q / (int64_t)w->stride + 1, min = panels * parts / STEAL_MAX + 1;
    if (each < min) each = min;
    return (each + QPANELS - 1) / QPANELS * QPANELS;
}

static void v_qmatmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    qwork k = {
        .w = w, .x = act_rows_at(r, o->in[0]), .y = arg_at(r, o->out), .ldy = w->rows, .bias = arg_at(r, o->in[2])};
    int64_t tiles = row_tiles(k.x.rows), panels = (w->rows + PANEL_ROWS - 1) / PANEL_ROWS, each = q_chunk(w, panels, 1);
    for (int64_t t0 = 0, t1; t0 < tiles; t0 = t1) {
        t1 = q_turn_end(tiles, t0);
        chunk_steal d = steal_start(r, worker, workers, (panels + each - 1) / each, false);
        for (int64_t c; (c = steal_next(&d)) >= 0;)
            q_panels(&k, c * each, (c + 1) * each < panels ? (c + 1) * each : panels, t0, t1);
    }
}
