/* weight.c - the meaning of a recipe: the place of each row of a weight in the checkpoint, and its values.
 *
 * weight_decode_row is the definition; packers and zero-copy paths are tested against it. A window of a weight is
 * taken after its rows are made, so that its values do not depend on how a matrix is cut. */
#include "base/fmath.h"
#include "core/program.h"
#include "tensor/quant.h"
#include "tensor/panel.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Source row (column of the file when transposed) of output row n of one piece. */
static int64_t piece_row(const piece *c, int64_t n)
{
    if (c->pairs) {
        int64_t head = n / c->pairs, j = n % c->pairs, half = c->rotated / 2;
        n = head * c->pairs + (j >= c->rotated ? j : j < half ? 2 * j : 2 * (j - half) + 1);
    }
    return c->row0 + n / c->block * c->stride + n % c->block;
}

/* Rows from n on that lie one after another in the source of one piece. */
static int64_t piece_run(const piece *c, int64_t n)
{
    if (c->pairs) return 1;
    int64_t rest = c->rows - n, run = c->block - n % c->block;
    return c->stride == c->block || rest < run ? rest : run;
}

const piece *weight_row(const weight *w, int64_t n, int64_t *src_row)
{
    n = weight_whole_row(w, n);
    for (uint32_t i = 0; i < w->n_piece; i++) {
        const piece *c = &w->pieces[i];
        if (n < c->rows) {
            *src_row = piece_row(c, n);
            return c;
        }
        n -= c->rows;
    }
    return NULL;
}

/* Rows from n on that are rows of the whole one after another. */
static int64_t window_run(const weight *w, int64_t n)
{
    int64_t rest = w->rows - n, run = w->of ? w->run - n % w->run : rest;
    return !w->of || w->stride == w->run || rest < run ? rest : run;
}

dtype weight_held_type(const weight *w)
{
    if (w->vector) return DTYPE_F32;
    if (w->want != DTYPE_NONE) return w->want;
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (piece_changes(&w->pieces[i]) || w->pieces[i].type != w->pieces[0].type) return DTYPE_F32;
    return w->pieces[0].type;
}

/* Whether rows row0 … row0 + rows - 1 are one run of one piece: *c, from source row *from on. */
static bool is_one_run(const weight *w, int64_t row0, int64_t rows, const piece **c, int64_t *from)
{
    *c = weight_row(w, row0, from);
    for (int64_t n = 0; n < rows;) {
        int64_t row, at = weight_whole_row(w, row0 + n), run = window_run(w, row0 + n);
        if (weight_row(w, row0 + n, &row) != *c || row != *from + n) return false;
        for (const piece *before = w->pieces; before < *c; before++) at -= before->rows;
        int64_t together = piece_run(*c, at);
        n += together < run ? together : run;
    }
    return true;
}

const uint8_t *weight_in_file(const weight *w, int64_t row0, int64_t rows)
{
    const piece *c;
    int64_t from, cols = weight_whole(w)->cols;
    uint64_t skip;
    if (w->cols != cols || !is_one_run(w, row0, rows, &c, &from)) return NULL;
    if (c->transpose || piece_changes(c) || c->type != weight_held_type(w) || c->packed != w->packed || c->stored)
        return NULL;
    if (!c->packed) return dtype_bytes(c->type, (uint64_t)from * (uint64_t)cols, &skip) ? c->data + skip : NULL;
    bool panels = from % PANEL_ROWS == 0 && (rows % PANEL_ROWS == 0 || from + rows == c->rows);
    return panels ? c->data + (uint64_t)(from / PANEL_ROWS) * panel_bytes(c->type, cols) : NULL;
}

uint64_t weight_file_bytes(const weight *w)
{
    uint64_t sum = 0;
    int64_t first = 0; /* of the piece, in the whole */
    for (uint32_t i = 0; i < w->n_piece; first += w->pieces[i++].rows) {
        const piece *c = &w->pieces[i];
        const dtype_row *t = &dtype_info[c->type];
        int64_t rows = 0, panels = 0;
        for (int64_t n = 0, run; n < w->rows; n += run) {
            run = window_run(w, n);
            int64_t from = weight_whole_row(w, n) - first, to = from + run;
            if (from < 0) from = 0;
            if (to > c->rows) to = c->rows;
            if (from >= to) continue;
            rows += to - from;
            panels += (to + PANEL_ROWS - 1) / PANEL_ROWS - from / PANEL_ROWS;
        }
        if (c->packed) sum += (uint64_t)panels * panel_bytes(c->type, w->cols);
        else sum += ((uint64_t)rows * (uint64_t)w->cols + t->weights - 1) / t->weights * t->bytes;
    }
    return sum;
}

/* ---- windows */

int64_t weight_column_grain(const weight *w)
{
    const dtype t = weight_held_type(w);
    const panel_format *f = panel_format_of(t);
    const piece *c = &w->pieces[0];
    if (f && c->packed && c->type == t) return f->span;
    return f && dtype_info[t].weights < PANEL_K ? PANEL_K : dtype_info[t].weights;
}

int64_t weight_row_grain(const weight *w)
{
    const weight *whole = weight_whole(w);
    return panel_format_of(weight_held_type(w)) && panel_holds(whole->rows, whole->parts) ? PANEL_ROWS : 1;
}

/* Why `at` is no window of `of`; NULL: it is one. */
static const char *window_mistake(const weight *at, const weight *of)
{
    const int64_t grain = weight_column_grain(of);
    if (of->of) return "a window of a window";
    if (at->rows < 1 || at->rows > of->rows || at->run < 1 || at->stride < at->run || at->stride > of->rows ||
        at->row0 < 0 || at->row0 > of->rows || weight_whole_row(at, at->rows - 1) >= of->rows)
        return "rows that it does not have";
    if (at->cols < 1 || at->cols > of->cols || at->col0 < 0 || at->col0 > of->cols - at->cols)
        return "columns that it does not have";
    if (at->col0 % grain || (at->cols % grain && at->col0 + at->cols != of->cols))
        return "columns that share a block or span with others";
    if (at->parts < 0 || (at->parts && at->rows % at->parts)) return "unequal parts";
    if (of->parts && at->parts && at->rows / at->parts % weight_row_grain(of)) return "parts that are not whole panels";
    return NULL;
}

int weight_window(weight *at, const weight *of, err *e)
{
    weight w = *of;
    w.of = of;
    w.rows = at->rows;
    w.row0 = at->row0;
    w.run = at->run ? at->run : at->rows;
    w.stride = at->run ? at->stride : at->rows;
    w.col0 = at->col0;
    w.cols = at->cols || at->col0 < 0 ? at->cols : of->cols - at->col0;
    w.parts = at->parts;
    const char *mistake = window_mistake(&w, of);
    if (mistake)
        return err_set(e, ERR_SPEC, "weight %s [%" PRId64 ", %" PRId64 "]: a window of %s", of->name, of->rows,
                       of->cols, mistake);
    *at = w;
    return OK;
}

/* ---- values */

/* Elements start … start + n - 1 of a run of `type`, which may begin inside a block. */
static void decode_run(dtype type, const uint8_t *data, int64_t start, int64_t n, float *to)
{
    const dtype_row *t = &dtype_info[type];
    float block[DTYPE_WEIGHTS_MAX];
    while (n > 0) {
        int64_t skip = start % t->weights;
        const uint8_t *from = data + start / t->weights * t->bytes;
        int64_t whole = skip ? 0 : n - n % t->weights, done = whole;
        if (whole) {
            quant_decode(type, from, to, (uint64_t)whole);
        } else {
            quant_decode(type, from, block, t->weights);
            done = t->weights - skip < n ? t->weights - skip : n;
            memcpy(to, block + skip, (size_t)done * sizeof *to);
        }
        start += done;
        to += done;
        n -= done;
    }
}

/* As torch's normalize: a length below 1e-12 counts as that. */
static void divide_by_length(float *row, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += (double)row[k] * row[k];
    double length = sqrt(sum) > 1e-12 ? sqrt(sum) : 1e-12;
    for (int64_t k = 0; k < n; k++) row[k] = (float)(row[k] / length);
}

void weight_decode_row(const weight *w, int64_t n, float *to)
{
    int64_t row, cols = weight_whole(w)->cols;
    const piece *c = weight_row(w, n, &row);
    if (c->packed) {
        uint64_t panel = (uint64_t)(row / PANEL_ROWS) * panel_bytes(c->type, cols);
        panel_row(c->type, c->data + panel, (int)(row % PANEL_ROWS), cols, to);
    } else if (c->stored) {
        stored_floats(c->stored, row, to);
    } else if (c->transpose) {
        for (int64_t k = 0; k < cols; k++) decode_run(c->type, c->data, (c->col0 + k) * c->src_cols + row, 1, to + k);
    } else {
        decode_run(c->type, c->data, row * c->src_cols, cols, to);
    }
    if (c->normalize_rows) divide_by_length(to, cols);
    for (int64_t k = 0; k < cols && c->exponential; k++) to[k] = fm_exp(to[k]);
    if (c->mul != 1 || c->add != 0)
        for (int64_t k = 0; k < cols; k++) to[k] = to[k] * c->mul + c->add;
    if (w->of && w->col0) memmove(to, to + w->col0, (size_t)w->cols * sizeof *to);
}
