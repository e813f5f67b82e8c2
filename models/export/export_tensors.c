/* export_tensors.c - the program's weights as tensors of another container: the recipes of [tensors] run backwards.
 *
 * Several weights may go into one tensor (fused q, k, v), and one weight into many (experts). A tensor is one matrix,
 * or a stack of matrices with the same recipe, so the places of one matrix are computed once, by running the recipe
 * forwards. Where nothing is transposed, each row is a row of some weight; else matrices are put together in memory,
 * one at a time. */
#include "base/map.h"
#include "base/mem.h"
#include "models/export/export_state.h"
#include "models/export/gguf_types.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

/* A weight, or one of its matrices, and how the container holds it. */
typedef struct out_part {
    const weight *from;
    int64_t first;      /* the row of the weight that the tensor's first matrix begins with */
    int64_t rows, cols; /* of one matrix of the weight; cols 1: a vector */
    piece how;          /* without data: where rows of one matrix lie in one of the container */
    bool transpose;
} out_part;

/* Which row of which part a row of the tensor is. */
typedef struct out_row {
    uint32_t part;
    int64_t row; /* of one matrix; -1: none */
} out_row;

typedef struct out_tensor {
    const char *name, *slot;
    out_part *part;
    uint32_t n_part;
    int64_t matrices, rows, cols; /* of one matrix as the container has it; of a vector: rows numbers, cols 1 */
    bool stacked, vector, mixed;  /* mixed: some part is transposed, matrices are put together */
    bool conv1d;
    int64_t lines; /* of a vector: rows that it is written as, 0: as it lies */
    out_row *row;  /* [rows] of one matrix; NULL: mixed, or the rows of one part in their order */
    shape dims;    /* as it is written */
    exporter *x;
} out_tensor;

/* ---- parts */

static int does_not_fill(exporter *x, const out_tensor *t)
{
    return err_set(x->e, ERR_SPEC, "%s: the recipes of %s do not fill %s once", x->s->file, t->slot, t->name);
}

static bool is_width(const value *v)
{
    return v->kind == VALUE_NUMBER && v->number >= 2 && v->number < 1 << 20 && v->number == floor(v->number);
}

/* The width of a head and how much of it rotates. */
static int head_dims(exporter *x, int32_t *width, int32_t *rotated)
{
    value v, part = {0};
    int rc = config_name(x->values, "head_dim", OUTSIDE, &v, x->e);
    if (!rc && config_knows(x->values, "rope_dims")) rc = config_name(x->values, "rope_dims", OUTSIDE, &part, x->e);
    if (rc) return rc;
    if (!is_width(&v)) return err_set(x->e, ERR_SPEC, "%s: head_dim has no value, which rope_pairs needs", x->s->file);
    *width = (int32_t)v.number;
    const bool none = part.kind == VALUE_NUMBER && part.number == 0;
    *rotated = none || is_width(&part) ? (int32_t)part.number : *width;
    return OK;
}

static int add_part(exporter *x, out_tensor *t, const weight *w, const out_name *name, int64_t first)
{
    const recipe *how = &name->how;
    int64_t rows = w->rows / name->tensors / name->matrices;
    int32_t pairs = 0, rotated = 0;
    int rc = how->rope_pairs ? head_dims(x, &pairs, &rotated) : OK;
    if (!rc && how->block && rows / how->block > INT64_MAX / 2 / how->stride) rc = does_not_fill(x, t);
    if (rc) return rc;
    out_part *parts = arena_array(&x->mem, t->n_part + 1, sizeof *parts);
    if (!parts) return export_oom(x);
    if (t->n_part) memcpy(parts, t->part, t->n_part * sizeof *parts);
    parts[t->n_part] = (out_part){.from = w,
                                  .first = first,
                                  .rows = rows,
                                  .cols = w->cols,
                                  .transpose = how->transpose && !w->vector,
                                  .how = {.rows = rows,
                                          .row0 = how->row0,
                                          .col0 = how->col0,
                                          .block = how->block ? how->block : rows,
                                          .stride = how->block ? how->stride : rows,
                                          .pairs = pairs,
                                          .rotated = how->whole_head ? pairs : rotated,
                                          .exponential = how->exponential,
                                          .mul = (float)how->mul,
                                          .add = (float)how->add}};
    t->mixed |= parts[t->n_part].transpose;
    t->part = parts;
    t->n_part++;
    return OK;
}

/* The row (transposed: column) of the container's matrix for row n of a part. */
static int64_t place_of(const out_part *p, int64_t n)
{
    const weight run = {.pieces = (piece *)&p->how, .n_piece = 1, .rows = p->rows};
    int64_t at = -1;
    weight_row(&run, n, &at);
    return at;
}

/* ---- the places of one matrix */

static bool is_in_order(const out_tensor *t)
{
    const piece *c = &t->part[0].how;
    return t->n_part == 1 && c->row0 == 0 && c->block == c->rows && !c->pairs;
}

static out_row row_at(const out_tensor *t, int64_t i) { return t->row ? t->row[i] : (out_row){0, i}; }

static int map_rows(exporter *x, out_tensor *t)
{
    for (uint32_t p = 0; p < t->n_part; p++) t->rows += t->part[p].rows;
    t->cols = t->part[0].cols;
    if (is_in_order(t)) return OK;
    t->row = arena_array(&x->mem, (size_t)t->rows, sizeof *t->row);
    if (!t->row) return export_oom(x);
    for (int64_t i = 0; i < t->rows; i++) t->row[i].row = -1;
    for (uint32_t p = 0; p < t->n_part; p++) {
        if (t->part[p].cols != t->cols) return does_not_fill(x, t);
        for (int64_t n = 0; n < t->part[p].rows; n++) {
            int64_t at = place_of(&t->part[p], n);
            if (at < 0 || at >= t->rows || t->row[at].row >= 0) return does_not_fill(x, t);
            t->row[at] = (out_row){p, n};
        }
    }
    return OK;
}

/* A transposed part covers a band of `cols` rows from col0 on; parts may share a band, each with some columns. */
static bool same_band(const out_part *a, const out_part *b)
{
    return a->transpose && b->transpose && a->how.col0 == b->how.col0 && a->cols == b->cols;
}

static int64_t width_of_band(const out_tensor *t, const out_part *of)
{
    int64_t width = 0;
    for (uint32_t p = 0; p < t->n_part; p++) width += same_band(of, &t->part[p]) ? t->part[p].rows : 0;
    return width;
}

/* Whether the parts of a band have each of its columns once; `seen`: t->cols bytes. */
static bool band_is_full(const out_tensor *t, const out_part *of, uint8_t *seen)
{
    memset(seen, 0, (size_t)t->cols);
    for (uint32_t p = 0; p < t->n_part; p++)
        for (int64_t n = 0; same_band(of, &t->part[p]) && n < t->part[p].rows; n++) {
            int64_t at = place_of(&t->part[p], n);
            if (at < 0 || at >= t->cols || seen[at]++) return false;
        }
    return width_of_band(t, of) == t->cols;
}

/* Takes the rows of a part, or of its band, which must be free. */
static bool take_rows(const out_tensor *t, const out_part *part, uint8_t *taken)
{
    for (int64_t n = 0; n < (part->transpose ? part->cols : part->rows); n++) {
        int64_t at = part->transpose ? part->how.col0 + n : place_of(part, n);
        if (at < 0 || at >= t->rows || taken[at]++) return false;
    }
    return true;
}

/* Sizes of a matrix with transposed parts, and whether each element of it is in one part. */
static int map_bands(exporter *x, out_tensor *t)
{
    bool fits = true;
    for (uint32_t p = 0; p < t->n_part; p++) {
        bool known = false; /* the band of an earlier part */
        for (uint32_t q = 0; q < p; q++) known |= same_band(&t->part[q], &t->part[p]);
        if (!known) t->rows += t->part[p].transpose ? t->part[p].cols : t->part[p].rows;
    }
    t->cols = t->part[0].transpose ? width_of_band(t, &t->part[0]) : t->part[0].cols;
    uint8_t *taken = mem_zero((size_t)t->rows, 1), *seen = mem_zero((size_t)t->cols, 1);
    int rc = taken && seen ? OK : export_oom(x);
    for (uint32_t p = 0; p < t->n_part && fits && !rc; p++) {
        const out_part *part = &t->part[p];
        bool known = false;
        for (uint32_t q = 0; q < p; q++) known |= same_band(&t->part[q], part);
        if (part->transpose) fits = known || (band_is_full(t, part, seen) && take_rows(t, part, taken));
        else fits = part->cols == t->cols && take_rows(t, part, taken);
    }
    mem_free(taken);
    mem_free(seen);
    return rc || fits ? rc : does_not_fill(x, t);
}

/* ---- values */

/* Row n of matrix k of a part, as the container has it. */
static void decode_row(const out_part *p, int64_t k, int64_t n, float *to)
{
    weight_decode_row(p->from, p->first + k * p->rows + n, to);
    if (!piece_changes(&p->how)) return;
    for (int64_t c = 0; c < p->cols; c++) {
        const float v = (to[c] - p->how.add) / p->how.mul;
        to[c] = p->how.exponential ? (float)log((double)v) : v;
    }
}

/* All values of matrix k, whose rows are those of untransposed parts and whose columns those of the others. */
static int put_together(out_tensor *t, int64_t k, err *e)
{
    exporter *x = t->x;
    int64_t widest = 1;
    for (uint32_t p = 0; p < t->n_part; p++) widest = t->part[p].cols > widest ? t->part[p].cols : widest;
    float *row = mem_array((size_t)widest, sizeof *row);
    mem_free(x->whole);
    x->whole = mem_array((size_t)t->rows, (size_t)t->cols * sizeof *x->whole);
    x->whole_of = t;
    x->whole_matrix = k;
    if (!x->whole || !row) {
        x->whole_of = NULL;
        mem_free(row);
        return err_memory(e, "an export");
    }
    for (uint32_t p = 0; p < t->n_part; p++)
        for (int64_t n = 0; n < t->part[p].rows; n++) {
            const out_part *part = &t->part[p];
            int64_t at = place_of(part, n);
            decode_row(part, k, n, row);
            if (!part->transpose) memcpy(x->whole + at * t->cols, row, (size_t)t->cols * sizeof *row);
            for (int64_t c = 0; part->transpose && c < part->cols; c++)
                x->whole[(part->how.col0 + c) * t->cols + at] = row[c];
        }
    mem_free(row);
    return OK;
}

static int give_row(void *self, uint64_t n, float *to, err *e)
{
    out_tensor *t = self;
    if (t->vector) { /* rows of its parts are single numbers */
        int64_t width = t->dims.dim[t->dims.rank - 1], from = (int64_t)n * width;
        for (int64_t i = from; i < from + width; i++) {
            out_row r = row_at(t, i % t->rows);
            decode_row(&t->part[r.part], i / t->rows, r.row, to + (i - from));
        }
        return OK;
    }
    int64_t k = (int64_t)n / t->rows, i = (int64_t)n % t->rows;
    if (!t->mixed) {
        out_row r = row_at(t, i);
        decode_row(&t->part[r.part], k, r.row, to);
        return OK;
    }
    bool ready = t->x->whole_of == t && t->x->whole_matrix == k;
    int rc = ready ? OK : put_together(t, k, e);
    if (!rc) memcpy(to, t->x->whole + i * t->cols, (size_t)t->cols * sizeof *to);
    return rc;
}

/* The piece that holds row n in the type to write, and which of its rows it is; NULL: none does. */
static const piece *piece_with(const out_tensor *t, uint64_t n, dtype type, int64_t *row)
{
    out_row r = row_at(t, (int64_t)n % t->rows);
    const out_part *p = &t->part[r.part];
    const piece *c = weight_row(p->from, p->first + (int64_t)n / t->rows * p->rows + r.row, row);
    bool same = !c->transpose && !c->packed && !piece_changes(c) && !piece_changes(&p->how) && c->type == type;
    uint64_t bytes;
    return same && dtype_bytes(type, (uint64_t)c->src_cols, &bytes) ? c : NULL;
}

/* The bytes of a row that the checkpoint holds in the type to write. */
static const void *give_raw(void *self, uint64_t n, dtype type, uint8_t *room)
{
    int64_t row;
    const piece *c = piece_with(self, n, type, &row);
    if (!c) return NULL;
    if (!c->stored) return c->data + (uint64_t)row * dtype_row_bytes(type, (uint64_t)c->src_cols);
    stored_row(c->stored, row, room);
    return room;
}

/* ---- the list */

/* Whether the checkpoint holds all rows in the type: types without encoder can only be copied. */
static bool lies_ready(const out_tensor *t, dtype type)
{
    if (t->mixed || t->vector) return false;
    for (int64_t i = 0, row; i < t->matrices * t->rows; i++)
        if (!piece_with(t, (uint64_t)i, type, &row)) return false;
    return true;
}

static dtype type_of(const exporter *x, const out_tensor *t)
{
    const weight *first = t->part[0].from;
    dtype have = first->pieces[0].type, want = x->type;
    bool known = x->kind == EXPORT_GGUF ? dtype_info[have].ggml >= 0 : dtype_is_float(have);
    if ((t->vector || t->conv1d) && x->kind == EXPORT_GGUF) return DTYPE_F32;
    int64_t last = t->dims.dim[t->dims.rank - 1];
    if (x->as_held && first->want != DTYPE_NONE) want = gguf_type_fitting(first->want, last);
    if (want == DTYPE_NONE) /* blocks are copied or decoded, never encoded again */
        want = known && (!dtype_is_block(have) || lies_ready(t, have)) ? have : DTYPE_F32;
    if (!quant_can_encode(want) && !lies_ready(t, want)) return DTYPE_F32;
    return last % dtype_info[want].weights == 0 ? want : DTYPE_F32;
}

/* A table that the program has as one vector (biases of distances) keeps its shape of the checkpoint. */
static const shape *table_of(const out_tensor *t)
{
    const weight *w = t->part[0].from;
    const shape *s = &ckpt_at(t->x->m->weights, w->pieces[0].entry)->dims;
    uint64_t n;
    bool whole = t->n_part == 1 && w->rows == t->rows && w->n_piece == 1 && shape_count(s, &n) &&
                 n == (uint64_t)t->rows;
    return whole && s->rank > 1 ? s : NULL;
}

/* Vectors of equal length that the program has as one (a norm for each head): how many. */
static int64_t vectors_in(const out_tensor *t)
{
    const weight *w = t->part[0].from;
    if (t->n_part > 1 || w->rows != t->rows) return 1;
    for (uint32_t i = 1; i < w->n_piece; i++)
        if (w->pieces[i].rows != w->pieces[0].rows) return 1;
    return w->n_piece;
}

static shape dims_of(const out_tensor *t)
{
    const shape *table = t->vector ? table_of(t) : NULL;
    int64_t vectors = t->vector ? vectors_in(t) : 1;
    if (t->lines > 1 && t->rows % t->lines == 0) return (shape){2, {t->lines, t->rows / t->lines}};
    if (t->lines == 1) return (shape){1, {t->rows}};
    if (table) return *table;
    if (t->conv1d && t->x->kind != EXPORT_GGUF) return (shape){3, {t->rows, 1, t->cols}};
    if (vectors > 1) return (shape){2, {vectors, t->rows / vectors}};
    if (t->vector) return t->stacked ? (shape){2, {t->matrices, t->rows}} : (shape){1, {t->matrices * t->rows}};
    return t->stacked ? (shape){3, {t->matrices, t->rows, t->cols}} : (shape){2, {t->matrices * t->rows, t->cols}};
}

typedef struct tensor_list {
    out_tensor *at;
    size_t n;
    map by_name;
} tensor_list;

/* Adds the k-th of the tensors that a weight lies in, or the weight to one that is there. */
static int collect_one(exporter *x, tensor_list *all, const weight *w, const out_name *name, int64_t k)
{
    const char *full = export_full_name(x, name, k);
    if (!full) return export_oom(x);
    uint32_t known = map_get_str(&all->by_name, full);
    out_tensor *t = &all->at[known == MAP_NONE ? all->n : known];
    if (known == MAP_NONE) {
        *t = (out_tensor){.name = full,
                          .slot = name->slot,
                          .matrices = name->matrices,
                          .stacked = name->stacked,
                          .vector = w->vector,
                          .lines = w->vector ? name->how.lines : 0,
                          .conv1d = name->how.conv1d && !w->vector,
                          .x = x};
        if (!map_put(&all->by_name, span_str(full), (uint32_t)all->n)) return export_oom(x);
        all->n++;
    } else if (t->vector != w->vector || t->matrices != name->matrices || t->stacked != name->stacked) {
        return err_set(x->e, ERR_SPEC, "%s: %s and %s do not fit into one tensor %s", x->s->file, t->slot, name->slot,
                       full);
    }
    return add_part(x, t, w, name, w->rows / name->tensors * k);
}

/* The tensors and their parts; all->at stays where it is. */
static int collect_tensors(exporter *x, tensor_list *all)
{
    const program *p = x->m->prog;
    size_t cap = 0;
    out_name *names = mem_zero(p->n_weight ? p->n_weight : 1, sizeof *names);
    int rc = names ? OK : export_oom(x);
    for (uint32_t i = 0; i < p->n_weight && !rc; i++) {
        rc = export_find_name(x, &p->weights[i], &names[i]);
        cap += rc ? 0 : (size_t)names[i].tensors;
    }
    if (!rc && !(all->at = arena_array(&x->mem, cap, sizeof *all->at))) rc = export_oom(x);
    for (uint32_t i = 0; i < p->n_weight && !rc; i++)
        for (int64_t k = 0; k < names[i].tensors && !rc; k++) rc = collect_one(x, all, &p->weights[i], &names[i], k);
    mem_free(names);
    return rc;
}

int export_rename_tensors(exporter *x)
{
    tensor_list all = {0};
    int rc = collect_tensors(x, &all);
    map_free(&all.by_name);
    if (!rc && !mem_grow((void **)&x->tensor, &x->cap, all.n, sizeof *x->tensor)) rc = export_oom(x);
    for (; x->n < all.n && !rc; x->n++) {
        out_tensor *t = &all.at[x->n];
        if ((rc = t->mixed ? map_bands(x, t) : map_rows(x, t))) break;
        t->dims = dims_of(t);
        const piece *first = &t->part[0].from->pieces[0];
        const dtype type = type_of(x, t);
        x->widens |= type == DTYPE_F32 && x->type == DTYPE_NONE && (dtype_is_block(first->type) || first->stored);
        x->tensor[x->n] = (write_tensor){.name = t->name,
                                         .type = type,
                                         .dims = t->dims,
                                         .row = give_row,
                                         .raw_row = t->vector || t->mixed ? NULL : give_raw,
                                         .self = t};
    }
    return rc ? rc : export_add_values(x);
}
