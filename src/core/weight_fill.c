/* weight_fill.c - see weight_fill.h. */
#include "core/weight_fill.h"

#include "base/file.h"
#include "base/mem.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"
#include "tensor/quant_range.h"
#include "tensor/panel.h"

#include <inttypes.h>
#include <string.h>

enum { FILL_COPY, FILL_TRANSPOSE, FILL_ENCODE, FILL_PANELS };
enum { TILE = 64 }; /* rows and columns that are transposed together */

static bool changes(const weight *w)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (piece_changes(&w->pieces[i])) return true;
    return false;
}

static bool is_stored(const weight *w)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (w->pieces[i].stored) return true;
    return false;
}

/* Rows can be copied as bytes: nothing but their order changes. */
static bool copies(const weight *w, dtype type)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (w->pieces[i].type != type || w->pieces[i].transpose || w->pieces[i].packed) return false;
    return !changes(w);
}

static bool transposes(const weight *w, dtype type)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (!w->pieces[i].transpose || w->pieces[i].type != type) return false;
    return !changes(w);
}

int weight_fill_plan(weight_fill *f, const weight *w, dtype type, bool packed, err *e)
{
    bool copy = copies(w, type), transpose = !packed && transposes(w, type);
    const uint64_t whole = (uint64_t)weight_whole(w)->cols, cols = (uint64_t)w->cols;
    *f = (weight_fill){.w = w, .type = type, .packed = packed, .row_bytes = dtype_row_bytes(type, whole)};
    f->skip = dtype_row_bytes(type, (uint64_t)w->col0);
    f->method = packed && w->pieces[0].packed && w->pieces[0].type == type ? FILL_PANELS
                : copy                                                     ? FILL_COPY
                : transpose                                                ? FILL_TRANSPOSE
                                                                           : FILL_ENCODE;
    f->units = packed ? (w->rows + PANEL_ROWS - 1) / PANEL_ROWS : w->rows;
    f->to = f->units;
    f->unit_bytes = packed ? panel_bytes(type, w->cols) : dtype_row_bytes(type, cols);
    if (f->method == FILL_COPY && is_stored(w)) f->scratch = PANEL_ROWS * f->row_bytes;
    if (f->method == FILL_ENCODE)
        f->scratch = whole * sizeof(float) + (packed ? PANEL_ROWS : cols < whole) * f->row_bytes;
    if (f->method != FILL_ENCODE || quant_can_encode(type)) return OK;
    return err_set(e, ERR_USAGE, "weight %s: nothing can be converted to %s", w->name, dtype_info[type].name);
}

/* Row n of blocks, from the window's columns on: in the file, or made in `scratch`, which has room for a row. */
static const uint8_t *blocks_of(const weight_fill *f, int64_t n, uint8_t *scratch)
{
    int64_t row;
    const piece *c = weight_row(f->w, n, &row);
    if (c->stored) stored_row(c->stored, row, scratch);
    return (c->stored ? scratch : c->data + (uint64_t)row * f->row_bytes) + f->skip;
}

static void copy_rows(const weight_fill *f, int64_t from, int64_t to, uint8_t *out, uint8_t *scratch)
{
    for (int64_t n = from; n < to; n++, out += f->unit_bytes) memcpy(out, blocks_of(f, n, scratch), f->unit_bytes);
}

/* Elements move tile by tile, so that both sides stay in cache. */
static void transpose_rows(const weight_fill *f, int64_t from, int64_t to, uint8_t *out)
{
    uint64_t size = dtype_info[f->type].bytes, apart[TILE]; /* from element to element of a row, in the file */
    int64_t row;
    const uint8_t *source[TILE];
    for (int64_t n0 = from; n0 < to; n0 += TILE) {
        int64_t n1 = n0 + TILE < to ? n0 + TILE : to;
        for (int64_t n = n0; n < n1; n++) {
            const piece *c = weight_row(f->w, n, &row);
            apart[n - n0] = (uint64_t)c->src_cols * size;
            source[n - n0] = c->data + (uint64_t)(c->col0 + f->w->col0) * apart[n - n0] + (uint64_t)row * size;
        }
        for (int64_t k0 = 0; k0 < f->w->cols; k0 += TILE) {
            int64_t k1 = k0 + TILE < f->w->cols ? k0 + TILE : f->w->cols;
            for (int64_t n = n0; n < n1; n++) {
                uint8_t *at = out + (uint64_t)(n - from) * f->unit_bytes;
                for (int64_t k = k0; k < k1; k++)
                    memcpy(at + (uint64_t)k * size, source[n - n0] + (uint64_t)k * apart[n - n0], size);
            }
        }
    }
}

/* Row n of the whole; *beyond: the first row of w so far that the type cannot hold. */
static void encode_row(const weight_fill *f, int64_t n, uint8_t *out, float *values, int64_t *beyond)
{
    const weight *whole = weight_whole(f->w);
    const int64_t row = weight_whole_row(f->w, n);
    weight_decode_row(whole, row, values);
    if (n < *beyond && quant_range_of(f->type, values, (uint64_t)whole->cols)) *beyond = n;
    if (f->type == DTYPE_F32) memcpy(out, values, f->row_bytes);
    else quant_fit(f->type, values, (uint64_t)whole->cols, fit_importance_of(f->importance, row, whole->cols), out);
}

static void encode_rows(const weight_fill *f, int64_t from, int64_t to, uint8_t *out, float *values, int64_t *beyond)
{
    const int64_t cols = weight_whole(f->w)->cols;
    uint8_t *blocks = (uint8_t *)(values + cols);
    for (int64_t n = from; n < to; n++, out += f->unit_bytes) {
        encode_row(f, n, f->w->cols < cols ? blocks : out, values, beyond);
        if (f->w->cols < cols) memcpy(out, blocks + f->skip, f->unit_bytes);
    }
}

/* 16 rows at a time, copied or encoded as blocks first. */
static void fill_panel(const weight_fill *f, int64_t panel, uint8_t *out, void *scratch, int64_t *beyond)
{
    float *values = scratch;
    uint8_t *blocks = f->method == FILL_COPY ? NULL : (uint8_t *)(values + weight_whole(f->w)->cols), *row;
    const uint8_t *rows[PANEL_ROWS] = {NULL};
    for (int r = 0; r < PANEL_ROWS && panel * PANEL_ROWS + r < f->w->rows; r++) {
        const int64_t n = panel * PANEL_ROWS + r;
        if (f->method == FILL_COPY) {
            rows[r] = blocks_of(f, n, (uint8_t *)scratch + (uint64_t)r * f->row_bytes);
            continue;
        }
        encode_row(f, n, row = blocks + (uint64_t)r * f->row_bytes, values, beyond);
        rows[r] = row + f->skip;
    }
    panel_pack(f->type, rows, f->w->cols, out);
}

/* A panel of the file, or rows of several. */
static void copy_panel(const weight_fill *f, int64_t panel, uint8_t *out)
{
    const weight *w = f->w;
    const int64_t n0 = panel * PANEL_ROWS, n1 = n0 + PANEL_ROWS < w->rows ? n0 + PANEL_ROWS : w->rows;
    const int64_t first = weight_whole_row(w, n0), last = weight_whole_row(w, n1 - 1), all = weight_whole(w)->cols;
    const bool full = n1 - n0 == PANEL_ROWS || last + 1 == weight_whole(w)->rows;
    const uint8_t *data = w->pieces[0].data + panel_bytes(f->type, w->col0);
    if (first % PANEL_ROWS == 0 && last - first == n1 - n0 - 1 && full) {
        memcpy(out, data + (uint64_t)(first / PANEL_ROWS) * panel_bytes(f->type, all), f->unit_bytes);
        return;
    }
    memset(out, 0, f->unit_bytes);
    for (int64_t n = n0; n < n1; n++) {
        const int64_t row = weight_whole_row(w, n);
        const uint8_t *from = data + (uint64_t)(row / PANEL_ROWS) * panel_bytes(f->type, all);
        panel_row_copy(f->type, from, (int)(row % PANEL_ROWS), w->cols, out, (int)(n - n0));
    }
}

/* Units from … to - 1 are not read again: their pages of the file need not stay in memory. */
static void release_units(const weight_fill *f, int64_t from, int64_t to)
{
    if (f->packed) from *= PANEL_ROWS, to = to * PANEL_ROWS < f->w->rows ? to * PANEL_ROWS : f->w->rows;
    const piece *last = NULL;
    const uint8_t *low = NULL, *high = NULL;
    int64_t row;
    for (int64_t n = from; n < to; n++) {
        const piece *c = weight_row(f->w, n, &row);
        if (c->transpose || c->stored) return; /* not in runs */
        const dtype_row *t = &dtype_info[c->type];
        const uint64_t bytes = c->packed ? panel_bytes(c->type, c->src_cols)
                                         : dtype_row_bytes(c->type, (uint64_t)c->src_cols);
        const uint8_t *at = c->data + (c->packed ? (uint64_t)(row / PANEL_ROWS) * bytes
                                                 : (uint64_t)(row * c->src_cols / t->weights) * t->bytes);
        if (c != last && last) file_release(low, (size_t)(high - low));
        if (c != last || at < low) low = at;
        if (c != last || at + bytes > high) high = at + bytes;
        last = c;
    }
    if (last) file_release(low, (size_t)(high - low));
}

/* The codes of stored matrices, when all is filled. */
static void release_stored(const weight *w)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (w->pieces[i].stored) file_release(w->pieces[i].data, (size_t)w->pieces[i].stored->source[0].bytes);
}

static void fill_units(const weight_fill *f, int64_t from, int64_t to, uint8_t *out, void *scratch, int64_t *beyond)
{
    if (f->method == FILL_PANELS)
        for (int64_t p = from; p < to; p++, out += f->unit_bytes) copy_panel(f, p, out);
    else if (f->packed)
        for (int64_t p = from; p < to; p++, out += f->unit_bytes) fill_panel(f, p, out, scratch, beyond);
    else if (f->method == FILL_COPY) copy_rows(f, from, to, out, scratch);
    else if (f->method == FILL_TRANSPOSE) transpose_rows(f, from, to, out);
    else encode_rows(f, from, to, out, scratch, beyond);
}

static int say_beyond(const weight_fill *f, int64_t row, err *e)
{
    const weight *w = weight_whole(f->w);
    float *values = mem_array((size_t)w->cols, sizeof *values);
    if (!values) return err_set(e, ERR_MEMORY, "out of memory for weight %s", w->name);
    row = weight_whole_row(f->w, row);
    weight_decode_row(w, row, values);
    int rc = quant_range_error(f->type, w->name, row, values, (uint64_t)w->cols, e);
    mem_free(values);
    return rc;
}

/* Units that one thread fills at once: of one weight among several two megabytes, as the system gives and takes memory
 * in pages of that size. */
static int64_t units_at_once(const weight_fill *f, size_t n, int threads)
{
    int64_t most = (2 << 20) / (int64_t)f->unit_bytes + 1, tile = f->packed ? 1 : TILE;
    if (n == 1 && most > (f->to - f->from) / (4 * threads)) most = (f->to - f->from) / (4 * threads) + 1;
    return (most + tile - 1) / tile * tile;
}

/* This thread's share of f's units, among the threads that call this together; none waits for the others. Gives the
 * first row of it that the type cannot hold. */
static int64_t fill_share(const weight_fill *f, int64_t each, void *scratch)
{
    int64_t beyond = INT64_MAX;
#pragma omp for schedule(dynamic) nowait
    for (int64_t at = f->from; at < f->to; at += each) {
        int64_t to = at + each < f->to ? at + each : f->to;
        if (scratch) fill_units(f, at, to, f->out + (uint64_t)(at - f->from) * f->unit_bytes, scratch, &beyond);
        release_units(f, at, to);
    }
    return beyond;
}

/* All weights in one region: OpenMP's threads spin where they wait, which on a busy machine takes the time that others
 * need to arrive. */
int weight_fill_run(const weight_fill *f, size_t n, int threads, err *e)
{
    size_t most = 0, bad = n;
    if (n == 0) return OK;
    int64_t bad_row = 0;
    bool room = true;
    for (size_t i = 0; i < n; i++) most = f[i].scratch > most ? f[i].scratch : most;
#pragma omp parallel num_threads(threads) if (n > 1 || f->to - f->from > units_at_once(f, n, threads))                 \
    reduction(&& : room)
    {
        void *scratch = mem_alloc(most);
        room = scratch != NULL;
        for (size_t i = 0; i < n; i++) {
            int64_t row = fill_share(&f[i], units_at_once(&f[i], n, threads), scratch);
            if (row == INT64_MAX) continue;
#pragma omp critical
            if (i < bad || (i == bad && row < bad_row)) {
                bad = i;
                bad_row = row;
            }
        }
        mem_free(scratch);
    }
    for (size_t i = 0; i < n; i++) {
        release_units(&f[i], f[i].from, f[i].to); /* what the neighbour's reading ahead brought back */
        release_stored(weight_whole(f[i].w));
    }
    if (!room) return err_set(e, ERR_MEMORY, "out of memory for weight %s", f->w->name);
    return bad < n ? say_beyond(&f[bad], bad_row, e) : OK;
}
