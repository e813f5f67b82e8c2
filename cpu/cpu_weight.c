/* cpu_weight.c - binds a weight to the device: used where it lies in the mapped file when its recipe changes nothing, else
 * gathered, transposed or re-encoded once, by all workers, into memory of its own.
 *
 * Rows are held one after another, each a whole number of blocks, or packed in panels of 16 (tensor/r16.h). A recipe that only permutes rows copies bytes; everything
 * else goes through weight_decode_row, the definition. */
#include "base/mem.h"
#include "cpu/cpu.h"
#include "tensor/quant.h"
#include "tensor/r16.h"

#include <inttypes.h>
#include <string.h>

typedef struct fill {
    const weight *w;
    held_weight *to;
    float *row;         /* [workers][cols] */
    uint8_t *blocks;    /* packing: [workers][R16_ROWS][row_bytes] */
    uint64_t row_bytes; /* of a row of blocks */
} fill;

static bool changes(const weight *w)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (piece_changes(&w->pieces[i])) return true;
    return false;
}

/* Rows can be copied as bytes: nothing but their order changes. */
static bool copies(const weight *w, dtype type)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (w->pieces[i].type != type || w->pieces[i].transpose) return false;
    return !changes(w);
}

/* Transposed files of plain types: elements move, tile by tile so that both sides stay in cache. */
static bool transposes(const weight *w, dtype type)
{
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (!w->pieces[i].transpose || w->pieces[i].type != type) return false;
    return !changes(w);
}

static void fill_copy(void *arg, int worker, int workers)
{
    const fill *f = arg;
    int64_t from, to, row;
    cpu_share(f->w->rows, 1, worker, workers, &from, &to);
    for (int64_t n = from; n < to; n++) {
        const piece *c = weight_row(f->w, n, &row);
        memcpy((uint8_t *)f->to->own + (uint64_t)n * f->to->stride, c->data + (uint64_t)row * f->to->stride,
               f->to->stride);
    }
}

static void fill_transposed(void *arg, int worker, int workers)
{
    enum { TILE = 64 };
    const fill *f = arg;
    uint64_t size = dtype_info[f->to->type].bytes, apart[TILE]; /* from element to element of a row, in the file */
    int64_t from, to, row;
    const uint8_t *source[TILE];
    cpu_share(f->w->rows, TILE, worker, workers, &from, &to);
    for (int64_t n0 = from; n0 < to; n0 += TILE) {
        int64_t n1 = n0 + TILE < to ? n0 + TILE : to;
        for (int64_t n = n0; n < n1; n++) {
            const piece *c = weight_row(f->w, n, &row);
            apart[n - n0] = (uint64_t)c->src_cols * size;
            source[n - n0] = c->data + (uint64_t)c->col0 * apart[n - n0] + (uint64_t)row * size;
        }
        for (int64_t k0 = 0; k0 < f->w->cols; k0 += TILE) {
            int64_t k1 = k0 + TILE < f->w->cols ? k0 + TILE : f->w->cols;
            for (int64_t n = n0; n < n1; n++) {
                uint8_t *out = (uint8_t *)f->to->own + (uint64_t)n * f->to->stride;
                for (int64_t k = k0; k < k1; k++)
                    memcpy(out + (uint64_t)k * size, source[n - n0] + (uint64_t)k * apart[n - n0], size);
            }
        }
    }
}

static void fill_encoded(void *arg, int worker, int workers)
{
    const fill *f = arg;
    float *row = f->row + (int64_t)worker * f->w->cols;
    int64_t from, to;
    cpu_share(f->w->rows, 1, worker, workers, &from, &to);
    for (int64_t n = from; n < to; n++) {
        uint8_t *out = (uint8_t *)f->to->own + (uint64_t)n * f->to->stride;
        weight_decode_row(f->w, n, row);
        if (f->to->type == DTYPE_F32) memcpy(out, row, f->to->stride);
        else quant_encode(f->to->type, row, out, (uint64_t)f->w->cols);
    }
}

/* Packed panels: 16 rows at a time, copied or encoded as blocks first. */
static void fill_packed(void *arg, int worker, int workers)
{
    const fill *f = arg;
    const weight *w = f->w;
    dtype type = f->to->type;
    bool copy = copies(w, type);
    uint8_t *blocks = copy ? NULL : f->blocks + (uint64_t)worker * R16_ROWS * f->row_bytes;
    float *values = copy ? NULL : f->row + (int64_t)worker * w->cols;
    int64_t from, to, row;
    cpu_share((w->rows + R16_ROWS - 1) / R16_ROWS, 1, worker, workers, &from, &to);
    for (int64_t p = from; p < to; p++) {
        const uint8_t *rows[R16_ROWS] = {NULL};
        for (int r = 0; r < R16_ROWS && p * R16_ROWS + r < w->rows; r++) {
            int64_t n = p * R16_ROWS + r;
            if (copy) {
                const piece *c = weight_row(w, n, &row);
                rows[r] = c->data + (uint64_t)row * f->row_bytes;
                continue;
            }
            weight_decode_row(w, n, values);
            quant_encode(type, values, blocks + (uint64_t)r * f->row_bytes, (uint64_t)w->cols);
            rows[r] = blocks + (uint64_t)r * f->row_bytes;
        }
        r16_pack(type, rows, w->cols, (uint8_t *)f->to->own + (uint64_t)p * f->to->stride);
    }
}

/* Where the rows of a plain weight begin in the file; NULL when float32 values there are not aligned (vectors are read as floats). */
static const uint8_t *plain_data(const weight *w)
{
    int64_t row;
    uint64_t skip;
    const piece *c = weight_row(w, 0, &row);
    if (!weight_is_plain(w) || !dtype_bytes(c->type, (uint64_t)row * (uint64_t)w->cols, &skip)) return NULL;
    return w->vector && (uintptr_t)(c->data + skip) % sizeof(float) ? NULL : c->data + skip;
}

/* Where a part of a weight lies in the files, when it is a run of rows there that nothing changes; else NULL. */
static const uint8_t *part_data(const weight *w, dtype type, int64_t row0, int64_t rows)
{
    int64_t first, last;
    uint64_t skip;
    const piece *c = weight_row(w, row0, &first), *end = weight_row(w, row0 + rows - 1, &last);
    bool whole = c == end && last - first == rows - 1 && c->stride >= c->block;
    if (!whole || c->transpose || c->pairs || piece_changes(c) || c->type != type) return NULL;
    return dtype_bytes(type, (uint64_t)first * (uint64_t)w->cols, &skip) ? c->data + skip : NULL;
}

/* Experts are used where they lie, one by one: h->part, or NULL when one of them has to be changed. */
static int find_parts(const weight *w, held_weight *h, err *e)
{
    int64_t rows = w->rows / w->parts, i = 0;
    h->part = mem_array((size_t)w->parts, sizeof *h->part);
    if (!h->part) return err_set(e, ERR_MEMORY, "out of memory for weight %s", w->name);
    while (i < w->parts && (h->part[i] = part_data(w, h->type, i * rows, rows))) i++;
    if (i == w->parts) {
        h->data = h->part[0];
        return OK;
    }
    mem_free((void *)h->part);
    h->part = NULL;
    return OK;
}

/* Memory of its own, filled by all workers. `row_bytes`: of a row as it is in the file or as it is encoded. */
static int fill_own(dev *d, const weight *w, held_weight *h, uint64_t row_bytes, err *e)
{
    bool copy = copies(w, h->type), transposed = !h->packed && transposes(w, h->type);
    uint64_t units = h->packed ? (uint64_t)(h->rows + R16_ROWS - 1) / R16_ROWS : (uint64_t)h->rows;
    size_t workers = (size_t)pool_workers(d->pool);
    if (!copy && !transposed && h->type != DTYPE_F32 && !quant_can_encode(h->type))
        return err_set(e, ERR_USAGE, "weight %s: nothing can be converted to %s", w->name, dtype_info[h->type].name);
    if (!mem_mul(units, h->stride, &h->own_bytes) || !(h->own = mem_map(h->own_bytes)))
        return err_set(e, ERR_MEMORY, "out of memory for weight %s (%" PRIu64 " bytes)", w->name, h->own_bytes);
    fill f = {.w = w, .to = h, .row_bytes = row_bytes};
    bool room = true;
    if (!copy && !transposed) {
        f.row = mem_array((size_t)w->cols * workers, sizeof *f.row);
        if (h->packed) f.blocks = mem_array(workers * R16_ROWS, row_bytes);
        room = f.row && (f.blocks || !h->packed);
    }
    if (room)
        pool_run(d->pool, h->packed ? fill_packed : copy ? fill_copy : transposed ? fill_transposed : fill_encoded, &f);
    mem_free(f.row);
    mem_free(f.blocks);
    if (room) return 0;
    mem_unmap(h->own, h->own_bytes);
    return err_set(e, ERR_MEMORY, "out of memory for weight %s", w->name);
}

int cpu_weight_put(dev *d, const program *p, uint32_t index, err *e)
{
    const weight *w = &p->weights[index];
    held_weight *to = &d->held[index];
    if (to->data) return 0; /* tied: two ops, one weight */
    held_weight h = {.type = weight_held_type(w), .rows = w->rows, .cols = w->cols, .packed = w->packed};
    uint64_t row_bytes;
    if (!dtype_bytes(h.type, (uint64_t)w->cols, &row_bytes))
        return err_set(e, ERR_SPEC, "weight %s: rows of %" PRId64 " cannot be held as %s (blocks of %d)", w->name,
                       w->cols, dtype_info[h.type].name, dtype_info[h.type].weights);
    h.stride = w->packed ? r16_panel_bytes(h.type, w->cols) : row_bytes;
    h.data = w->packed ? NULL : plain_data(w);
    int rc = w->parts && !h.data ? find_parts(w, &h, e) : OK;
    if (!rc && !h.data) rc = fill_own(d, w, &h, row_bytes, e);
    if (rc) return rc;
    if (!h.data) h.data = h.own;
    *to = h;
    return 0;
}

void cpu_weight_drop(held_weight *h)
{
    mem_unmap(h->own, h->own_bytes);
    mem_free((void *)h->part);
    *h = (held_weight){0};
}
