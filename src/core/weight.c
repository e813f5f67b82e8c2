/* weight.c - the meaning of a recipe: the place of each row of a weight in the checkpoint, and its values.
 *
 * weight_decode_row is the definition; packers and zero-copy paths are tested against it. */
#include "core/program.h"
#include "tensor/quant.h"
#include "tensor/panel.h"

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

const piece *weight_row(const weight *w, int64_t n, int64_t *src_row)
{
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

/* True when rows 0 … rows-1 of the piece lie one after another in the file. */
static bool piece_contiguous(const piece *c)
{
    return !c->transpose && !c->pairs && (c->block >= c->rows || c->stride == c->block);
}

dtype weight_held_type(const weight *w)
{
    if (w->vector) return DTYPE_F32;
    if (w->want != DTYPE_NONE) return w->want;
    for (uint32_t i = 0; i < w->n_piece; i++)
        if (piece_changes(&w->pieces[i]) || w->pieces[i].type != w->pieces[0].type) return DTYPE_F32;
    return w->pieces[0].type;
}

bool weight_is_plain(const weight *w)
{
    const piece *c = &w->pieces[0];
    dtype want = w->vector ? DTYPE_F32 : w->want == DTYPE_NONE ? c->type : w->want;
    return w->n_piece == 1 && piece_contiguous(c) && !piece_changes(c) && want == c->type;
}

uint64_t weight_file_bytes(const weight *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->n_piece; i++) {
        const piece *c = &w->pieces[i];
        const dtype_row *t = &dtype_info[c->type];
        uint64_t n = (uint64_t)c->rows * (uint64_t)w->cols;
        if (c->packed) sum += (uint64_t)(c->rows + PANEL_ROWS - 1) / PANEL_ROWS * panel_bytes(c->type, w->cols);
        else sum += (n + t->weights - 1) / t->weights * t->bytes;
    }
    return sum;
}

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
    int64_t row;
    const piece *c = weight_row(w, n, &row);
    if (c->packed) {
        uint64_t panel = (uint64_t)(row / PANEL_ROWS) * panel_bytes(c->type, w->cols);
        panel_row(c->type, c->data + panel, (int)(row % PANEL_ROWS), w->cols, to);
        return;
    }
    if (c->transpose)
        for (int64_t k = 0; k < w->cols; k++)
            decode_run(c->type, c->data, (c->col0 + k) * c->src_cols + row, 1, to + k);
    else decode_run(c->type, c->data, row * c->src_cols, w->cols, to);
    if (c->normalize_rows) divide_by_length(to, w->cols);
    if (c->mul != 1 || c->add != 0)
        for (int64_t k = 0; k < w->cols; k++) to[k] = to[k] * c->mul + c->add;
}
