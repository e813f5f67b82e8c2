/* weight_reads.c - see weight_reads.h. */
#include "core/weight_reads.h"

#include "base/mem.h"
#include "tensor/panel.h"

#include <stdlib.h>

/* ---- lists of runs */

bool byte_runs_add(byte_runs *to, uint32_t entry, uint64_t at, uint64_t n)
{
    byte_run *last = to->n ? &to->run[to->n - 1] : NULL;
    if (!n) return true;
    if (last && last->entry == entry && last->at + last->n == at) {
        last->n += n;
        return true;
    }
    if (!mem_grow((void **)&to->run, &to->cap, to->n + 1, sizeof *to->run)) return false;
    to->run[to->n++] = (byte_run){entry, at, n};
    return true;
}

static int by_place(const void *pa, const void *pb)
{
    const byte_run *a = pa, *b = pb;
    if (a->entry != b->entry) return a->entry < b->entry ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

void byte_runs_merge(byte_runs *r)
{
    size_t to = 0;
    if (r->n) qsort(r->run, r->n, sizeof *r->run, by_place);
    for (size_t i = 0; i < r->n; i++) {
        const byte_run x = r->run[i];
        byte_run *last = to ? &r->run[to - 1] : NULL;
        if (!last || last->entry != x.entry || last->at + last->n < x.at) r->run[to++] = x;
        else if (x.at + x.n > last->at + last->n) last->n = x.at + x.n - last->at;
    }
    r->n = to;
}

uint64_t byte_runs_bytes(const byte_runs *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->n; i++) sum += r->run[i].n;
    return sum;
}

bool byte_runs_minus(byte_runs *to, const byte_runs *a, const byte_runs *b)
{
    size_t k = 0;
    for (size_t i = 0; i < a->n; i++) {
        byte_run left = a->run[i];
        while (k < b->n && (b->run[k].entry < left.entry ||
                            (b->run[k].entry == left.entry && b->run[k].at + b->run[k].n <= left.at)))
            k++;
        for (size_t j = k; left.n && j < b->n && b->run[j].entry == left.entry && b->run[j].at < left.at + left.n;
             j++) {
            const uint64_t from = b->run[j].at, to_end = from + b->run[j].n, end = left.at + left.n;
            if (from > left.at && !byte_runs_add(to, left.entry, left.at, from - left.at)) return false;
            left.n = to_end < end ? end - to_end : 0;
            left.at = to_end;
        }
        if (!byte_runs_add(to, left.entry, left.at, left.n)) return false;
    }
    return true;
}

bool byte_runs_meet(const byte_runs *r, const byte_run *with)
{
    size_t from = 0, to = r->n;
    while (from < to) { /* the first that ends after `with` begins */
        const size_t middle = (from + to) / 2;
        const byte_run *x = &r->run[middle];
        if (x->entry < with->entry || (x->entry == with->entry && x->at + x->n <= with->at)) from = middle + 1;
        else to = middle;
    }
    return from < r->n && r->run[from].entry == with->entry && r->run[from].at < with->at + with->n;
}

void byte_runs_free(byte_runs *r)
{
    mem_free(r->run);
    *r = (byte_runs){0};
}

/* ---- weights */

/* Whether only the columns of a window are read, as its rows are not made anew (weight_fill.c). */
static bool takes_columns(const weight *w)
{
    const dtype held = weight_held_type(w);
    uint32_t transposed = 0, packed = 0;
    for (uint32_t i = 0; i < w->n_piece; i++) {
        if (w->pieces[i].type != held || piece_changes(&w->pieces[i]) || w->pieces[i].stored) return false;
        transposed += w->pieces[i].transpose;
        packed += w->pieces[i].packed;
    }
    return packed ? w->packed : transposed ? transposed == w->n_piece && !w->packed : true;
}

static bool add_elements(byte_runs *to, const piece *c, int64_t from, int64_t n)
{
    const dtype_row *t = &dtype_info[c->type];
    const uint64_t first = (uint64_t)(from / t->weights), last = (uint64_t)((from + n - 1) / t->weights);
    return byte_runs_add(to, c->entry, first * t->bytes, (last + 1 - first) * t->bytes);
}

/* Columns col0 … col0 + cols - 1 of m source rows, from `row` on. */
static bool add_rows(byte_runs *to, const piece *c, int64_t row, int64_t m, int64_t col0, int64_t cols)
{
    const int64_t all = c->src_cols;
    bool ok = true;
    if (c->packed) {
        const uint64_t bytes = panel_bytes(c->type, all), skip = col0 ? panel_bytes(c->type, col0) : 0;
        for (int64_t p = row / PANEL_ROWS; p <= (row + m - 1) / PANEL_ROWS && ok; p++)
            ok = byte_runs_add(to, c->entry, (uint64_t)p * bytes + skip, panel_bytes(c->type, cols));
    } else if (c->transpose) {
        for (int64_t k = col0; k < col0 + cols && ok; k++) ok = add_elements(to, c, (c->col0 + k) * all + row, m);
    } else {
        for (int64_t n = row; n < row + m && ok; n++) ok = add_elements(to, c, n * all + col0, cols);
    }
    return ok;
}

/* The tensors that rows are made of, whole: their layouts need not be by rows. */
static bool add_sources(byte_runs *to, const stored_matrix *s)
{
    bool ok = true;
    for (int i = 0; i < s->n_source && ok; i++) ok = byte_runs_add(to, s->source[i].entry, 0, s->source[i].bytes);
    return ok;
}

int weight_reads(const weight *w, byte_runs *to, err *e)
{
    const bool cut = takes_columns(w);
    const int64_t col0 = cut && w->of ? w->col0 : 0, cols = cut ? w->cols : weight_whole(w)->cols;
    bool ok = true;
    for (int64_t n = 0, m; n < w->rows && ok; n += m) {
        int64_t row, next;
        const piece *c = weight_row(w, n, &row);
        for (m = 1; n + m < w->rows && weight_row(w, n + m, &next) == c && next == row + m;) m++;
        ok = c->stored ? add_sources(to, c->stored) : add_rows(to, c, row, m, col0, cols);
    }
    return ok ? OK : err_set(e, ERR_MEMORY, "out of memory for the places of weight %s", w->name);
}
