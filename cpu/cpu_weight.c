/* cpu_weight.c - binds a weight to the device: used where it lies in the mapped file when its recipe changes nothing,
 * else made once, by all threads (core/weight_fill.h), into memory of its own. */
#include "base/mem.h"
#include "core/weight_fill.h"
#include "cpu/cpu.h"
#include "tensor/panel.h"

#include <inttypes.h>

/* The rows or panels of a plain weight in the file; NULL when float32 values or lines there are not aligned (vectors
 * are read as floats). */
static const uint8_t *plain_data(const weight *w)
{
    int64_t row;
    uint64_t skip;
    const piece *c = weight_row(w, 0, &row);
    if (w->packed != c->packed) return NULL;
    if (c->packed) return weight_is_plain(w) && (uintptr_t)c->data % PANEL_LINE == 0 ? c->data : NULL;
    if (!weight_is_plain(w) || !dtype_bytes(c->type, (uint64_t)row * (uint64_t)w->cols, &skip)) return NULL;
    return w->vector && (uintptr_t)(c->data + skip) % sizeof(float) ? NULL : c->data + skip;
}

/* A part of a weight in the files, when it is an unchanged run of rows there; else NULL. */
static const uint8_t *part_data(const weight *w, dtype type, int64_t row0, int64_t rows)
{
    int64_t first, last;
    uint64_t skip;
    const piece *c = weight_row(w, row0, &first), *end = weight_row(w, row0 + rows - 1, &last);
    bool whole = c == end && last - first == rows - 1 && c->stride >= c->block;
    if (!whole || c->packed || c->transpose || c->pairs || piece_changes(c) || c->type != type) return NULL;
    return dtype_bytes(type, (uint64_t)first * (uint64_t)w->cols, &skip) ? c->data + skip : NULL;
}

/* Matrices of experts or heads are used in the files, one by one (held_part): h->part, or NULL when one of them has to
 * be changed. Vectors are not: their readers expect a single run. */
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

/* Memory of its own, filled by cpu_weights_end. */
static int plan_own(dev *d, const weight *w, held_weight *h, err *e)
{
    weight_fill f;
    int rc = weight_fill_plan(&f, w, h->type, h->packed, e);
    if (rc) return rc;
    if (!mem_grow((void **)&d->fills, &d->cap_fill, d->n_fill + 1, sizeof *d->fills) ||
        !mem_mul((uint64_t)f.units, h->stride, &h->own_bytes) || !(h->own = mem_map(h->own_bytes)))
        return err_set(e, ERR_MEMORY, "out of memory for weight %s (%" PRIu64 " bytes)", w->name, h->own_bytes);
    h->data = f.out = h->own;
    d->fills[d->n_fill++] = f;
    return OK;
}

int cpu_weights_end(dev *d, err *e)
{
    int rc = weight_fill_run(d->fills, d->n_fill, d->threads, e);
    mem_free(d->fills);
    d->fills = NULL;
    d->n_fill = d->cap_fill = 0;
    return rc;
}

int cpu_weight_put(dev *d, uint32_t index, err *e)
{
    const weight *w = &d->p->weights[index];
    held_weight *to = &d->held[index];
    if (to->data) return 0; /* tied: two ops, one weight */
    held_weight h = {.type = weight_held_type(w), .rows = w->rows, .cols = w->cols, .packed = w->packed};
    h.stride = w->packed ? panel_bytes(h.type, w->cols) : dtype_row_bytes(h.type, (uint64_t)w->cols);
    h.data = plain_data(w);
    int rc = w->parts && !w->vector && !h.data && !h.packed ? find_parts(w, &h, e) : OK;
    if (!rc && !h.data) rc = plan_own(d, w, &h, e);
    if (!rc) *to = h;
    return rc;
}

void cpu_weight_drop(held_weight *h)
{
    mem_unmap(h->own, h->own_bytes);
    mem_free((void *)h->part);
    *h = (held_weight){0};
}
