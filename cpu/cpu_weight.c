/* cpu_weight.c - binds a weight to the set: used where it lies in the mapped file when its recipe changes nothing,
 * else made once, by all threads (core/weight_fill.h), into memory of its own. */
#include "base/mem.h"
#include "core/weight_fill.h"
#include "cpu/cpu.h"
#include "tensor/panel.h"

#include <inttypes.h>

/* Rows or panels used in the mapped file; NULL: they lie otherwise there, or float32 values or lines are not aligned
 * (vectors are read as floats). */
static const uint8_t *rows_in_file(const weight *w, int64_t row0, int64_t rows)
{
    const uint8_t *at = weight_in_file(w, row0, rows);
    const size_t line = w->packed ? PANEL_LINE : w->vector ? sizeof(float) : 1;
    return (uintptr_t)at % line ? NULL : at;
}

/* Matrices of experts or heads are used in the files, one by one (held_part): h->part, or NULL when one of them has to
 * be changed. Vectors are not: their readers expect a single run. */
static int find_parts(const weight *w, held_weight *h, err *e)
{
    int64_t rows = w->rows / w->parts, i = 0;
    h->part = mem_array((size_t)w->parts, sizeof *h->part);
    if (!h->part) return err_set(e, ERR_MEMORY, "out of memory for weight %s", w->name);
    while (i < w->parts && (h->part[i] = rows_in_file(w, i * rows, rows))) i++;
    if (i == w->parts) {
        h->data = h->part[0];
        return OK;
    }
    mem_free((void *)h->part);
    h->part = NULL;
    return OK;
}

/* Memory of its own, filled by cpu_weights_read. */
static int plan_own(weight_set *s, const weight *w, held_weight *h, err *e)
{
    weight_fill f;
    int rc = weight_fill_plan(&f, w, h->type, h->packed, e);
    if (rc) return rc;
    if (!mem_grow((void **)&s->fills, &s->cap_fill, s->n_fill + 1, sizeof *s->fills) ||
        !mem_mul((uint64_t)f.units, h->stride, &h->own_bytes) || !(h->own = mem_map(h->own_bytes)))
        return err_set(e, ERR_MEMORY, "out of memory for weight %s (%" PRIu64 " bytes)", w->name, h->own_bytes);
    h->data = f.out = h->own;
    s->fills[s->n_fill++] = f;
    return OK;
}

uint64_t cpu_weight_bytes(const weight_set *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->p->n_weight; i++) sum += s->held[i].own_bytes;
    return sum;
}

/* Memory is taken as it is written: where there is too little, a process is killed without a word. */
static int check_memory(const weight_set *s, err *e)
{
    const double mib = 1 << 20;
    const uint64_t there = mem_available();
    const uint64_t bytes = cpu_weight_bytes(s);
    if (bytes <= there) return OK;
    return err_set(
        e, ERR_MEMORY,
        "the weights are repacked at load, which takes %.1f MiB of memory; %.1f MiB are free: --weights q8 or q4 "
        "may take less, and a file that `quantize` wrote is used where it lies",
        (double)bytes / mib, (double)there / mib);
}

int cpu_weights_read(weight_set *s, err *e)
{
    int rc = s->n_fill ? check_memory(s, e) : OK;
    if (!rc) rc = weight_fill_run(s->fills, s->n_fill, s->threads, e);
    mem_free(s->fills);
    s->fills = NULL;
    s->n_fill = s->cap_fill = 0;
    return rc;
}

int cpu_weight_put(weight_set *s, uint32_t index, err *e)
{
    const weight *w = &s->p->weights[index];
    held_weight h = {.type = weight_held_type(w), .rows = w->rows, .cols = w->cols, .packed = w->packed};
    h.stride = w->packed ? panel_bytes(h.type, w->cols) : dtype_row_bytes(h.type, (uint64_t)w->cols);
    h.data = rows_in_file(w, 0, w->rows);
    int rc = w->parts && !w->vector && !h.data ? find_parts(w, &h, e) : OK;
    if (!rc && !h.data) rc = plan_own(s, w, &h, e);
    if (!rc) s->held[index] = h;
    return rc;
}

void cpu_weight_drop(held_weight *h)
{
    mem_unmap(h->own, h->own_bytes);
    mem_free((void *)h->part);
    *h = (held_weight){0};
}
