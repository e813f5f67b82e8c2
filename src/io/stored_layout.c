/* stored_layout.c - see stored_layout.h. */
#include "io/stored_layout.h"

#include "base/half.h"
#include "base/mem.h"
#include "io/ckpt_build.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ORDER_MOST = 1 << 16 }; /* columns whose order a leader tells its nodes (net/catalogue.c) */

/* One matrix while its tensors are found. */
typedef struct finding {
    ckpt *c;
    const stored_said *said;
    const ckpt_entry *codes;
    char base[CKPT_NAME_MAX]; /* its name without that of the part */
    const char *end;          /* what stands after the base in the name of the matrix */
    stored_matrix s;
    shape dims; /* of the matrix, or of a stack */
    err *e;
} finding;

static int wrong(finding *f, const char *what)
{
    char dims[128];
    return err_set(f->e, ERR_SPEC, "%s: quantized tensor '%.200s' of %s %s: %s", ckpt_file(f->c, f->codes->file),
                   f->codes->name, dtype_info[f->codes->type].name, shape_text(&f->codes->dims, dims, sizeof dims),
                   what);
}

/* The tensor base + part, which becomes a source; NULL: there is none. */
static const ckpt_entry *beside(finding *f, const char *part)
{
    char name[CKPT_NAME_MAX + 64];
    snprintf(name, sizeof name, "%s%s", f->base, part);
    const ckpt_entry *t = ckpt_find(f->c, name);
    if (!t || t->stored || t->packed || f->s.n_source == STORED_SOURCES) return NULL;
    f->s.source[f->s.n_source].entry = ckpt_index(f->c, t);
    f->s.source[f->s.n_source++].bytes = t->bytes;
    return t;
}

static int64_t count_of(const ckpt_entry *t)
{
    uint64_t n = 0;
    return shape_count(&t->dims, &n) && n <= INT64_MAX / 64 ? (int64_t)n : 0;
}
static int64_t last_of(const ckpt_entry *t) { return t->dims.rank ? t->dims.dim[t->dims.rank - 1] : 1; }

static bool is_real(const ckpt_entry *t)
{
    return t->type == DTYPE_F32 || t->type == DTYPE_F16 || t->type == DTYPE_BF16;
}

/* The only number of a tensor. */
static int read_number(finding *f, const ckpt_entry *t, float *out)
{
    if (!t || !is_real(t) || count_of(t) != 1) return wrong(f, "its factor is not one number");
    quant_decode(t->type, t->data, out, 1);
    return OK;
}

/* Shape: that of the codes with `cols` columns; parts of a stack by the first axis. */
static int take_shape(finding *f, int64_t cols)
{
    const shape *d = &f->codes->dims;
    f->dims = *d;
    if (d->rank < 2 || d->rank > 3 || cols < 1 || count_of(f->codes) < 1) return wrong(f, "it is no matrix");
    f->dims.dim[d->rank - 1] = cols;
    f->s.cols = cols;
    f->s.rows = count_of(f->codes) / last_of(f->codes);
    f->s.scale.part = d->rank == 3 ? d->dim[1] : f->s.rows;
    return OK;
}

/* Scales by row and by `group` columns: shape [..., rows, columns / group]. */
static int scales_by_row(finding *f, const ckpt_entry *t, int64_t group)
{
    const int64_t groups = (f->s.cols + group - 1) / group;
    if (!t || count_of(t) != f->s.rows * groups) return wrong(f, "its scales have another shape");
    f->s.scale = (stored_grid){.data = t->data,
                               .type = t->type,
                               .part = f->s.rows,
                               .rows = 1,
                               .row_apart = groups,
                               .cols = group,
                               .group_apart = 1};
    f->s.groups = groups;
    return OK;
}

/* The same matrix in a type of its own, in the checkpoint's memory. */
static stored_matrix *twin_of(finding *f, dtype type)
{
    stored_matrix *twin = ckpt_memory(f->c, sizeof *twin);
    if (!twin) return err_memory(f->e, ckpt_path(f->c)), NULL;
    *twin = f->s;
    twin->type = type;
    return twin;
}

static int join(finding *f, dtype type)
{
    f->s.type = type;
    stored_matrix *own = ckpt_memory(f->c, sizeof *own);
    const size_t n = strlen(f->base) + strlen(f->end) + 1;
    char *name = ckpt_memory(f->c, n);
    if (!own || !name) return err_memory(f->e, ckpt_path(f->c));
    *own = f->s;
    if (type == DTYPE_NVFP4 && !(own->with_factor = twin_of(f, DTYPE_NVFP4_F32))) return f->e->code;
    snprintf(name, n, "%s%s", f->base, f->end);
    return ckpt_join(f->c, name,
                     &(ckpt_entry){.type = type, .dims = f->dims, .stored = own, .of = ckpt_index(f->c, f->codes)},
                     f->e);
}

/* ---- bytes: FP8 and int8 */

/* Scales of one number, of one for each row, or of blocks. */
static int scales_of_bytes(finding *f, const ckpt_entry *t)
{
    stored_matrix *s = &f->s;
    const int64_t n = count_of(t), stacks = s->rows / s->scale.part, part = s->scale.part;
    const int64_t block_rows = f->said->block[0] ? f->said->block[0] : 128,
                  block_cols = f->said->block[1] ? f->said->block[1] : 128, down = (part + block_rows - 1) / block_rows,
                  across = (s->cols + block_cols - 1) / block_cols;
    if (!is_real(t)) return wrong(f, "its scales are not floats");
    s->scale = (stored_grid){.data = t->data, .type = t->type, .part = part, .rows = part, .cols = s->cols};
    s->groups = 1;
    if (n == 1) return OK;
    if (n == stacks) return s->scale.part_apart = 1, OK;
    if (n == s->rows && (last_of(t) == 1 || t->dims.rank == 1)) {
        s->scale.rows = s->scale.row_apart = 1;
        s->scale.part_apart = part;
        return OK;
    }
    if (n != stacks * down * across || last_of(t) != across)
        return wrong(f, "its scales are neither one, nor by row, nor by blocks of 128 x 128");
    s->scale = (stored_grid){t->data, t->type, part, down * across, block_rows, across, block_cols, 1};
    s->groups = across;
    return OK;
}

static dtype type_of_bytes(const stored_matrix *s, dtype blocks)
{
    return s->scale.cols % 128 == 0 || s->scale.cols >= s->cols ? blocks : DTYPE_F32;
}

static int find_bytes(finding *f, bool *made)
{
    const bool fp8 = f->codes->type == DTYPE_F8_E4M3;
    const ckpt_entry *t = beside(f, ".weight_scale_inv");
    f->s.factor = 1;
    if (!t) t = beside(f, ".weight_scale");
    if (!t && !fp8 && (t = beside(f, ".SCB"))) f->s.factor = 1.f / 127;
    if (!t) return OK;
    *made = true;
    f->s.form = STORED_BYTES;
    f->s.level = fp8 ? STORED_E4M3 : STORED_INT8;
    int rc = take_shape(f, last_of(f->codes));
    if (!rc) rc = scales_of_bytes(f, t);
    if (!rc && beside(f, ".weight_zero_point")) rc = wrong(f, "int8 with zero points is not known");
    return rc ? rc : join(f, type_of_bytes(&f->s, fp8 ? DTYPE_F8_B128 : DTYPE_I8_B128));
}

/* ---- nibbles: NVFP4, MXFP4; two bits: BitNet */

static int find_fp4(finding *f, const ckpt_entry *scale, const ckpt_entry *factor, bool divides)
{
    const bool nv = scale->type == DTYPE_F8_E4M3;
    f->s.form = STORED_NIBBLES;
    int rc = take_shape(f, 2 * last_of(f->codes));
    if (!rc && f->s.cols % (nv ? 16 : 32)) rc = wrong(f, "its rows are no whole blocks");
    if (!rc) rc = scales_by_row(f, scale, nv ? 16 : 32);
    if (!rc && nv) rc = read_number(f, factor, &f->s.factor);
    if (!rc && !(f->s.factor > 0 && f->s.factor < INFINITY)) rc = wrong(f, "its factor is not positive");
    if (!rc && divides) f->s.factor = 1 / f->s.factor;
    return rc ? rc : join(f, nv ? DTYPE_NVFP4 : DTYPE_MXFP4);
}

static int find_bitnet(finding *f, const ckpt_entry *scale)
{
    f->s.form = STORED_QUARTERS;
    int rc = take_shape(f, last_of(f->codes));
    if (!rc && f->codes->dims.rank != 2) rc = wrong(f, "it is no matrix");
    if (!rc) rc = read_number(f, scale, &f->s.factor);
    if (!rc && !(f->s.factor > 0 && f->s.factor < INFINITY)) rc = wrong(f, "its scale is not positive");
    f->s.rows *= 4;
    f->dims.dim[0] *= 4;
    f->s.scale.part = f->s.rows;
    f->s.scale.cols = f->s.cols;
    if (!rc && f->said->divides) f->s.factor = 1 / f->s.factor;
    return rc ? rc : join(f, DTYPE_Q2_0);
}

static int find_u8(finding *f, bool *made)
{
    const ckpt_entry *scale = beside(f, ".weight_scale"), *second;
    if (!scale) return OK;
    const bool fours = scale->type == DTYPE_F8_E4M3 || scale->type == DTYPE_U8;
    if (!fours && !(is_real(scale) && count_of(scale) == 1)) return OK;
    *made = true;
    f->s.factor = 1;
    if (!fours) return find_bitnet(f, scale);
    if ((second = beside(f, ".weight_scale_2"))) return find_fp4(f, scale, second, false);
    return find_fp4(f, scale, beside(f, ".weight_global_scale"), true);
}

/* gpt-oss: X_blocks [experts, rows, blocks, 16] and X_scales [experts, rows, blocks]. */
static int find_pairs(finding *f, bool *made)
{
    const shape *d = &f->codes->dims;
    const ckpt_entry *scale = f->codes->type == DTYPE_U8 && d->rank == 4 && d->dim[3] == 16 ? beside(f, "_scales")
                                                                                            : NULL;
    if (!scale || scale->type != DTYPE_U8) return OK;
    *made = true;
    if (count_of(f->codes) < 1 || count_of(scale) != count_of(f->codes) / 16)
        return wrong(f, "its scales have another shape");
    f->s.form = STORED_NIBBLES;
    f->s.factor = 1;
    f->end = "";
    f->s.rows = d->dim[0] * d->dim[1];
    f->s.cols = d->dim[2] * 32;
    f->dims = (shape){3, {d->dim[0], d->dim[1], f->s.cols}};
    int rc = scales_by_row(f, scale, 32);
    return rc ? rc : join(f, DTYPE_MXFP4);
}

/* ---- integers */

/* Whether every scale is an f16. */
static bool scales_are_halves(const stored_grid *g, int64_t n)
{
    const uint64_t bytes = dtype_info[g->type].bytes;
    if (g->type == DTYPE_F16) return true;
    for (int64_t i = 0; i < n; i++) {
        float v;
        quant_decode(g->type, g->data + (uint64_t)i * bytes, &v, 1);
        if (f32_round_f16(v) != v) return false;
    }
    return true;
}

/* Whether a list of names has one. */
static bool is_told(const char *list, const char *name)
{
    const size_t n = strlen(name);
    if (strcmp(list, " *") == 0) return true;
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if (at > list && at[-1] == ' ' && (at[n] == ' ' || !at[n])) return true;
    return false;
}

/* Whether the scales of a matrix of integers need more than f16. */
static bool has_wide_scales(finding *f)
{
    stored_wide *w = f->said->wide;
    w->n++;
    if (w->told) return is_told(w->told, f->codes->name);
    if (scales_are_halves(&f->s.scale, f->s.rows * f->s.groups)) return false;
    w->found++;
    buf_printf(&w->names, " %s", f->codes->name);
    return true;
}

static dtype type_of_ints(const stored_matrix *s)
{
    const int64_t group = s->scale.cols;
    const bool wide = group % 128 == 0 || group >= s->cols;
    const bool halves = !s->zeros && group % 32 == 0 && s->cols % 32 == 0; /* codes less half of their range */
    if (halves && s->bits == 4 && !wide && group % 64) return DTYPE_Q4_0;
    if (halves && s->bits == 8 && !wide) return DTYPE_Q8_0;
    if (s->bits == 4)
        return wide ? DTYPE_Q4_Z128 : group % 64 == 0 ? DTYPE_Q4_Z64 : group % 32 == 0 ? DTYPE_Q4_Z32 : DTYPE_F32;
    return !wide ? DTYPE_F32 : s->bits == 8 ? DTYPE_Q8_Z128 : s->bits == 3 ? DTYPE_Q3_Z128 : DTYPE_Q2_Z128;
}

/* The columns of one group after the other, into `from`; false: not all groups are as wide as their scales say.
 * filled[group]: 0. */
static bool columns_by_group(const finding *f, int32_t *filled, int32_t *from)
{
    const int64_t each = f->s.scale.cols;
    bool even = f->s.cols == f->s.groups * each;
    for (int32_t k = 0; k < f->s.cols && even; k++) {
        int32_t group;
        memcpy(&group, f->s.order + 4 * (int64_t)k, 4);
        even = filled[group] < each;
        if (even) from[group * each + filled[group]++] = k;
    }
    return even;
}

/* f->s.sorted: the matrix in blocks of `type`, its columns by group. */
static int sort_columns(finding *f, dtype type)
{
    stored_matrix *sorted = twin_of(f, type);
    int32_t *from = ckpt_memory(f->c, (uint64_t)f->s.cols * sizeof *from),
            *filled = mem_zero((size_t)f->s.groups, sizeof *filled);
    if (!sorted || !from || !filled) return mem_free(filled), err_memory(f->e, ckpt_path(f->c));
    if (columns_by_group(f, filled, from)) {
        sorted->order = NULL;
        sorted->from = from;
        f->s.sorted = sorted;
    }
    mem_free(filled);
    return OK;
}

/* Joins a matrix of integers. With columns out of order it is one of floats, beside which `sorted` has blocks. */
static int join_ints(finding *f)
{
    const dtype type = has_wide_scales(f) ? DTYPE_F32 : type_of_ints(&f->s);
    if (!f->s.order) return join(f, type);
    int rc = type != DTYPE_F32 && f->s.cols <= ORDER_MOST ? sort_columns(f, type) : OK;
    return rc ? rc : join(f, DTYPE_F32);
}

/* The group of each column, where they are not in order. */
static int take_order(finding *f, const ckpt_entry *t)
{
    bool ascending = true;
    if (!t) return OK;
    if (t->type != DTYPE_I32 || count_of(t) != f->s.cols) return wrong(f, "its g_idx has another shape");
    for (int64_t k = 0; k < f->s.cols; k++) {
        int32_t group;
        memcpy(&group, t->data + 4 * k, 4);
        if (group < 0 || group >= f->s.groups) return wrong(f, "its g_idx names a group that it does not have");
        ascending &= group == k / f->s.scale.cols;
    }
    f->s.order = ascending ? NULL : t->data;
    for (int i = 0; i < f->s.n_source; i++)
        if (f->s.source[i].entry == ckpt_index(f->c, t)) f->s.source[i].told = f->s.cols <= ORDER_MOST;
    return OK;
}

/* Columns under one scale, of so many groups. */
static int take_group(finding *f, int64_t groups)
{
    const int64_t cols = f->s.cols, said = f->said->group;
    if (groups < 1 || groups > cols) return wrong(f, "its scales have another shape");
    int64_t group = groups == 1          ? cols
                    : cols % groups == 0 ? cols / groups
                    : said > 0           ? said
                                         : (cols + groups - 1) / groups;
    if ((cols + group - 1) / group != groups) return wrong(f, "its scales have another shape");
    f->s.scale.cols = group;
    f->s.groups = groups;
    return OK;
}

/* Scales of GPTQ and AWQ: [groups, rows]. */
static int scales_by_group(finding *f, const ckpt_entry *t)
{
    if (!t || !is_real(t) || t->dims.rank != 2 || last_of(t) != f->s.rows)
        return wrong(f, "its scales have another shape");
    int rc = take_group(f, t->dims.dim[0]);
    f->s.scale = (stored_grid){.data = t->data,
                               .type = t->type,
                               .part = f->s.rows,
                               .rows = 1,
                               .row_apart = 1,
                               .cols = f->s.scale.cols,
                               .group_apart = f->s.rows};
    return rc;
}

static int find_qweight(finding *f, bool *made)
{
    stored_matrix *s = &f->s;
    const ckpt_entry *scale = beside(f, ".scales"), *zero = beside(f, ".qzeros"), *order = beside(f, ".g_idx");
    if (!scale || f->codes->dims.rank != 2 || scale->dims.rank != 2) return OK;
    *made = true;
    s->factor = 1;
    s->rows = last_of(scale);
    const int64_t high = f->codes->dims.dim[0], wide = f->codes->dims.dim[1];
    if (count_of(f->codes) < 1 || count_of(scale) < 1) return wrong(f, "it is empty");
    if (wide == s->rows) {
        s->form = STORED_COLUMNS;
        const int64_t inputs = order ? count_of(order) : 0;
        s->bits = (uint8_t)(f->said->bits ? f->said->bits : inputs ? high * 32 / inputs : 4);
        if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8)
            return wrong(f, "of 2, 3, 4 or 8 bits it is none");
        s->cols = high * 32 / s->bits;
        s->zero_more = f->said->zero_as_is ? 0 : 1;
    } else if (wide == s->rows / 8 && s->rows % 8 == 0) {
        s->form = STORED_AWQ;
        s->bits = 4;
        s->cols = high;
    } else return wrong(f, "its scales have another shape");
    int rc = scales_by_group(f, scale);
    if (rc) return rc;
    const int64_t zeros = s->form == STORED_AWQ ? s->groups * (s->rows / 8) : s->groups * (s->rows * s->bits / 32);
    if (zero && (zero->type != DTYPE_I32 || count_of(zero) != zeros || s->rows * s->bits % 32))
        return wrong(f, "its zeros have another shape");
    s->zeros = zero ? zero->data : NULL;
    s->zero = 1 << (s->bits - 1);
    f->dims = (shape){2, {s->rows, s->cols}};
    if (s->form == STORED_COLUMNS) rc = take_order(f, order);
    return rc ? rc : join_ints(f);
}

/* compressed-tensors: X.weight_packed in words, with X.weight_shape. */
static int find_words(finding *f, bool *made)
{
    stored_matrix *s = &f->s;
    const ckpt_entry *scale = beside(f, ".weight_scale"), *zero = beside(f, ".weight_zero_point"),
                     *order = beside(f, ".weight_g_idx"), *sides = beside(f, ".weight_shape");
    if (!scale || f->codes->dims.rank != 2) return OK;
    *made = true;
    int64_t words = last_of(f->codes), sizes[2] = {0};
    if (sides && sides->type == DTYPE_I64 && count_of(sides) == 2) memcpy(sizes, sides->data, sizeof sizes);
    s->bits = (uint8_t)f->said->bits;
    for (int bits = 2; sizes[1] > 0 && bits <= 8; bits *= 2)
        if ((sizes[1] - 1) / (32 / bits) + 1 == words) s->bits = (uint8_t)bits;
    if (s->bits != 2 && s->bits != 4 && s->bits != 8) return wrong(f, "of 2, 4 or 8 bits it is none");
    const int each = 32 / s->bits;
    int rc = take_shape(f, sizes[1] > 0 ? sizes[1] : words * each);
    if (rc) return rc;
    if (!is_real(scale) || (s->cols - 1) / each + 1 != words || count_of(scale) % s->rows)
        return wrong(f, "its scales have another shape");
    s->form = STORED_WORDS;
    s->factor = 1;
    s->zero = 1 << (s->bits - 1);
    rc = take_group(f, count_of(scale) / s->rows);
    if (!rc) rc = scales_by_row(f, scale, s->scale.cols);
    if (!rc && zero && (zero->type != DTYPE_I32 || count_of(zero) != (s->rows + each - 1) / each * s->groups))
        rc = wrong(f, "its zeros have another shape");
    s->zeros = zero ? zero->data : NULL;
    if (!rc) rc = take_order(f, order);
    return rc ? rc : join_ints(f);
}

/* ---- bitsandbytes */

static int find_nf4(finding *f, bool *made)
{
    stored_matrix *s = &f->s;
    const ckpt_entry *state = beside(f, ".weight.quant_state.bitsandbytes__nf4"), *most = beside(f, ".weight.absmax"),
                     *by = beside(f, ".weight.nested_absmax"), *map = beside(f, ".weight.nested_quant_map");
    if (!state || !most) return OK;
    *made = true;
    json *j;
    int rc = json_parse(&j, span_of(state->data, state->bytes), state->name, f->e);
    if (rc) return rc;
    const json *sides = json_get(j, "shape");
    s->rows = json_int(json_at(sides, 0), 0);
    s->cols = json_int(json_at(sides, 1), 0);
    s->nested_offset = (float)json_num(json_get(j, "nested_offset"), 0);
    const int64_t block = json_int(json_get(j, "blocksize"), 0), inner = json_int(json_get(j, "nested_blocksize"), 256);
    const bool matrix = json_count(sides) == 2 && s->rows > 0 && s->cols > 0;
    json_free(j);
    if (!matrix || s->rows > INT32_MAX || s->cols > INT32_MAX || s->rows * s->cols != 2 * count_of(f->codes))
        return wrong(f, "its quant_state has another shape");
    if (block != 64 || s->cols % 64 || inner != 256) return wrong(f, "nf4 is known in blocks of 64 along rows only");
    const int64_t blocks = s->rows * (s->cols / 64);
    const bool nested = most->type == DTYPE_U8;
    if (count_of(most) != blocks || (!nested && most->type != DTYPE_F32) ||
        (nested && (!by || !map || by->type != DTYPE_F32 || map->type != DTYPE_F32 || count_of(map) != 256 ||
                    count_of(by) != (blocks + 255) / 256)))
        return wrong(f, "its absmax has another shape");
    s->form = STORED_NIBBLES_2;
    s->factor = 1;
    f->dims = (shape){2, {s->rows, s->cols}};
    rc = scales_by_row(f, most, 64);
    if (nested) {
        s->nested = map->data;
        s->nested_by = by->data;
    }
    return rc ? rc : join(f, DTYPE_NF4);
}

/* ---- which layout */

typedef struct layout_row {
    const char *part; /* what the name of the codes ends with */
    dtype type;       /* of the codes */
    int (*find)(finding *f, bool *made);
} layout_row;

static const layout_row layouts[] = {
    {".weight", DTYPE_F8_E4M3, find_bytes}, {".weight", DTYPE_I8, find_bytes},
    {".weight", DTYPE_U8, find_nf4},        {".weight", DTYPE_U8, find_u8},
    {".weight_packed", DTYPE_U8, find_u8},  {".weight_packed", DTYPE_I32, find_words},
    {".qweight", DTYPE_I32, find_qweight},  {"_blocks", DTYPE_U8, find_pairs},
};

int stored_layout(ckpt *c, uint32_t i, const stored_said *said, bool *made, err *e)
{
    const ckpt_entry *t = ckpt_at(c, i);
    const size_t n = strlen(t->name);
    *made = false;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts && !*made; k++) {
        const layout_row *row = &layouts[k];
        const size_t part = strlen(row->part);
        finding f = {.c = c, .said = said, .codes = t, .end = ".weight", .s.codes = t->data, .e = e};
        if (t->type != row->type || t->packed || n <= part || n >= sizeof f.base ||
            strcmp(t->name + n - part, row->part))
            continue;
        memcpy(f.base, t->name, n - part);
        f.s.source[f.s.n_source].entry = i;
        f.s.source[f.s.n_source++].bytes = t->bytes;
        int rc = row->find(&f, made);
        if (rc) return rc;
    }
    return OK;
}
