/* bind.c - see bind.h. */
#include "models/compile/bind.h"

#include "base/glob.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/compile/product.h"
#include "models/compile/recipe.h"
#include "models/compile/wrapped.h"
#include "models/spec/spec_split.h"
#include "tensor/quant.h"
#include "tensor/panel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_MAX = 16 };

struct binder {
    program *prog;
    spec *s;
    config_eval *values;
    const ckpt *c;
    weight_policy *policy; /* NULL: all as in the file */
    arena mem;
    map made; /* weight name, or recipe as bytes -> tensor */
    struct {
        int64_t numbers, total; /* that weights were made of, of all that there are; numbers -1: needs no check */
        int64_t cols;           /* of a row, as the weights see it */
    } * used;                   /* [entry] */
    const char *prefix[PREFIX_MAX];
    size_t n_prefix, n_wrapped; /* the first n_wrapped: of a text model inside another */
    int widened;                /* matrices in blocks that their factors make floats of */
};

/* A tensor found for a slot: the entry and what to do to it. */
typedef struct found {
    const ckpt_entry *entry;  /* NULL: none; of a stack the first */
    const ckpt_entry **stack; /* n of them */
    size_t n;
    recipe how;
    const spec_row *row; /* the line of [tensors] */
    const char *first;   /* the first name that was looked for */
    bool output_scale;   /* its factor is weight.output_scale */
    bool sorted;         /* of stored matrices that whose columns are sorted */
} found;

/* Those of a text model inside another one first, then the spec's. */
static int find_prefixes(binder *b, err *e)
{
    const char *own = spec_text(b->s, "tensors", "prefix");
    span rest = own ? span_str(own) : (span){0}, part;
    int rc = wrapped_prefixes(b->prefix, PREFIX_MAX / 2, &b->n_wrapped, b->c, own ? own : "", &b->mem, e);
    b->n_prefix = b->n_wrapped;
    while (!rc && split_next(&rest, '|', &part) && b->n_prefix < PREFIX_MAX)
        if (!(b->prefix[b->n_prefix++] = arena_strn(&b->mem, (const char *)part.p, part.n)))
            rc = err_memory(e, "tensors");
    return rc;
}

int bind_open(binder **out, program *p, spec *s, config_eval *values, const ckpt *c, weight_policy *policy, err *e)
{
    binder *b = mem_zero(1, sizeof *b);
    if (!b) return err_memory(e, "tensors");
    *b = (binder){.prog = p, .s = s, .values = values, .c = c, .policy = policy};
    b->used = mem_zero(ckpt_count(c) ? ckpt_count(c) : 1, sizeof *b->used);
    if (!b->used) {
        mem_free(b);
        return err_memory(e, "tensors");
    }
    int rc = find_prefixes(b, e);
    if (rc) bind_close(b);
    else *out = b;
    return rc;
}

void bind_close(binder *b)
{
    if (!b) return;
    map_free(&b->made);
    mem_free(b->used);
    arena_free(&b->mem);
    mem_free(b);
}

/* ---- looking up */

static bool source_fits(const binder *b, const char *source)
{
    return !*source || strcmp(source, "hf") == 0 || strcmp(source, ckpt_source(b->c)) == 0;
}

/* prefix + name + suffix in the checkpoint. */
static const ckpt_entry *entry_named(const binder *b, const char *prefix, const char *name, size_t n,
                                     const char *suffix)
{
    char full[1024 + 64];
    int len = snprintf(full, sizeof full, "%s%.*s%s", prefix, (int)n, name, suffix);
    return len > 0 && (size_t)len < sizeof full ? ckpt_find(b->c, full) : NULL;
}

/* A name may be full or lack ".weight"; for a bias, ".weight" gives way to ".bias". Norms of old checkpoints say gamma
 * and beta. Each prefix is tried, then none. */
static const ckpt_entry *find_entry(const binder *b, const char *name, bool bias)
{
    size_t n = strlen(name);
    bool full = n > 7 && strcmp(name + n - 7, ".weight") == 0;
    if (bias && full) n -= 7;
    for (size_t k = 0; k <= b->n_prefix; k++) {
        const char *prefix = k < b->n_prefix ? b->prefix[k] : "";
        const ckpt_entry *t = bias ? NULL : entry_named(b, prefix, name, n, "");
        if (!t) t = entry_named(b, prefix, name, n, bias ? ".bias" : ".weight");
        if (!t) t = entry_named(b, prefix, name, n, bias ? ".beta" : ".gamma");
        if (t) return t;
    }
    return NULL;
}

/* Every tensor of a stack; out->entry NULL when not even the first is there. */
static int find_stack(binder *b, const recipe *how, bool bias, const char *where, found *out, err *e)
{
    out->n = (size_t)(how->to - how->from);
    out->stack = arena_array(&b->mem, out->n, sizeof *out->stack);
    if (!out->stack) return err_memory(e, "tensors");
    for (size_t i = 0; i < out->n; i++) {
        char name[1024];
        int len = snprintf(name, sizeof name, "%s%" PRId64 "%s", how->name, how->from + (int64_t)i, how->tail);
        out->stack[i] = len > 0 && (size_t)len < sizeof name ? find_entry(b, name, bias) : NULL;
        if (!out->stack[i] && i > 0)
            return err_set(e, ERR_SPEC, "%s: %s: tensor '%.200s' of a stack of %zu is missing", ckpt_path(b->c), where,
                           name, out->n);
        if (!out->stack[i]) return OK;
    }
    out->entry = out->stack[0];
    return OK;
}

/* The tensor that a recipe names. */
static int find_named(binder *b, const recipe *how, bool bias, const char *where, found *out, err *e)
{
    if (how->tail) return find_stack(b, how, bias, where, out, e);
    out->entry = find_entry(b, how->name, bias);
    out->stack = &out->entry;
    out->n = 1;
    return OK;
}

/* The name that a recipe's tensor most likely has, for messages: after the first prefix, with its ending. */
static const char *likely_name(binder *b, const recipe *how, bool derived)
{
    char stack[600];
    const char *prefix = b->n_prefix && !*how->source ? b->prefix[0] : "";
    const char *name = how->name, *end = derived ? ".bias" : ".weight";
    if (how->tail) {
        snprintf(stack, sizeof stack, "%s%" PRId64 "%s", how->name, how->from, how->tail);
        name = stack;
    }
    size_t n = strlen(name);
    if (derived && str_ends(name, ".weight")) n -= strlen(".weight");
    else if (str_ends(name, end) || str_ends(name, ".bias")) end = "";
    return arena_printf(&b->mem, "%s%.*s%s", prefix, (int)n, name, end);
}

void bind_key(char *to, size_t cap, const char *slot, int layer, const char *number)
{
    const bool enc = strncmp(slot, "enc.", 4) == 0;
    if (layer == OUTSIDE) snprintf(to, cap, "%s", slot);
    else snprintf(to, cap, "%s%s.%s", enc ? "enc." : "", number ? number : "{i}", slot + (enc ? 4 : 0));
}

static const spec_row *line_of(binder *b, const char *slot, const char *suffix, int layer)
{
    char key[200];
    bind_key(key, sizeof key, slot, layer, NULL);
    size_t n = strlen(key);
    snprintf(key + n, sizeof key - n, "%s", suffix);
    return spec_use(b->s, "tensors", key);
}

/* The first alternative of a line that the checkpoint has. out->entry NULL: none. derived: the line is the weight's,
 * the bias is looked for. */
static int resolve_line(binder *b, const spec_row *row, int layer, bool derived, found *out, err *e)
{
    char where[300];
    span rest = span_str(row->text), part;
    snprintf(where, sizeof where, "%s: %s", row->where, row->key);
    *out = (found){.row = row};
    while (split_next(&rest, '|', &part)) {
        recipe how;
        if (part.n == 0) continue;
        int rc = recipe_parse(&how, b->values, &b->mem, part, layer, where, e);
        if (rc) return rc;
        if (!source_fits(b, how.source)) continue;
        if (!out->first && !(out->first = likely_name(b, &how, derived))) return err_memory(e, "tensors");
        if ((rc = find_named(b, &how, derived, where, out, e))) return rc;
        if (!out->entry) continue;
        out->how = how;
        if (out->entry->stored) out->how.transpose = false; /* quantizers store rows */
        if (derived)
            out->how.transpose = out->how.normalize_rows = out->how.exponential = false, out->how.mul = 1,
            out->how.add = 0, out->how.cols = 0;
        return OK;
    }
    return OK;
}

static int find_slot(binder *b, const char *slot, int layer, bool bias, found *out, err *e)
{
    const spec_row *row = line_of(b, slot, bias ? ".bias" : "", layer);
    if (row) return resolve_line(b, row, layer, false, out, e);
    row = bias ? line_of(b, slot, "", layer) : NULL;
    if (row) return resolve_line(b, row, layer, true, out, e);
    *out = (found){0};
    return OK;
}

int bind_has(binder *b, const char *slot, int layer, bool *has, err *e)
{
    found f;
    int rc = find_slot(b, slot, layer, false, &f, e);
    *has = !rc && f.entry;
    return rc;
}

/* ---- shapes */

static uint32_t index_of(const binder *b, const ckpt_entry *t) { return ckpt_index(b->c, t); }

static const char *describe_want(const bind_want *w, char *out, size_t cap)
{
    bind_key(out, cap, w->slot, w->layer, NULL);
    size_t n = strlen(out);
    snprintf(out + n, cap - n, "%s", w->bias ? ".bias" : "");
    return out;
}

static int misshapen(binder *b, const bind_want *w, const found *f, const char *expected, err *e)
{
    char have[128], slot[128];
    return err_set(e, ERR_SPEC, "%s: tensor '%.200s' is %s, expected %s for %s (%s; %s)",
                   ckpt_file(b->c, f->entry->file), f->entry->name, shape_text(&f->entry->dims, have, sizeof have),
                   expected, describe_want(w, slot, sizeof slot), f->row->where, w->for_whom);
}

/* How many matrices of a stack lie in one entry. */
static int64_t matrices(const bind_want *w, const found *f) { return w->parts && !f->how.tail ? w->parts : 1; }

/* The elements of a row of an entry, whose shape was counted. */
static int64_t row_of(const recipe *how, const shape *s)
{
    return how->kernel && s->rank == 3 ? s->dim[1] * s->dim[2] : s->dim[s->rank - 1];
}

/* Rows and columns of one matrix of an entry as the weight sees it; vectors are columns of one. */
static int entry_shape(binder *b, const bind_want *w, const found *f, int64_t *rows, int64_t *cols, err *e)
{
    const shape *s = &f->entry->dims;
    int64_t parts = matrices(w, f);
    uint64_t n;
    if (!shape_count(s, &n) || n == 0 || n > INT64_MAX / 2) return misshapen(b, w, f, "a tensor with elements", e);
    *rows = (int64_t)n;
    *cols = 1;
    if (w->cols != 0) {
        bool stack = s->rank == 3 && parts > 1 && s->dim[0] == parts;
        bool row = s->rank == 1 && w->rows == 1; /* converters leave axes of one out */
        bool kernel = f->how.conv1d && s->rank == 3 && s->dim[1] == 1;
        bool one = f->how.sliced && s->rank == 3 && parts == 1; /* some rows of a stack of matrices */
        bool flat = f->how.kernel && s->rank == 3 && parts == 1;
        if (s->rank != 2 && !stack && !row && !kernel && !one && !flat)
            return misshapen(b, w, f, parts > 1 ? "a stack of matrices" : "a matrix", e);
        *cols = row_of(&f->how, s);
        *rows /= *cols;
    }
    if (*rows % parts) return misshapen(b, w, f, "as many equal parts as there are experts or heads", e);
    *rows /= parts;
    if (w->cols == 0) return OK;
    if (f->how.transpose) {
        int64_t kept = *rows;
        *rows = *cols;
        *cols = kept;
    }
    if (f->how.cols && f->how.col0 > *cols - f->how.cols) return misshapen(b, w, f, "the columns of the recipe", e);
    if (f->how.cols) *cols = f->how.cols;
    return OK;
}

/* The same of all that was found: the rows of a stack add up, unless it is one of equal matrices. */
static int source_shape(binder *b, const bind_want *w, const found *f, int64_t *rows, int64_t *cols, err *e)
{
    int rc = entry_shape(b, w, f, rows, cols, e);
    for (size_t i = 1; i < f->n && !rc; i++) {
        found one = {.entry = f->stack[i], .how = f->how, .row = f->row};
        int64_t more = 0, same = 0;
        rc = entry_shape(b, w, &one, &more, &same, e);
        if (!rc && (same != *cols || more > INT64_MAX / 2 - *rows || (w->parts && more != *rows)))
            rc = misshapen(b, w, &one, "the shape of the others of its stack", e);
        if (!w->parts) *rows += more;
    }
    if (!rc && f->how.tail && w->parts && f->n != (size_t)w->parts)
        rc = err_set(e, ERR_SPEC, "%s: %s: a stack of %zu tensors, expected %d", f->row->where, f->row->key, f->n,
                     w->parts);
    return rc;
}

/* `rows`, `have`: of one matrix of a stack. */
static int check_shape(binder *b, const bind_want *w, const found *f, int64_t rows, int64_t have, int64_t cols, err *e)
{
    char expected[120];
    int64_t last = f->how.row0 + rows;
    bool fits = w->cols == 0 || cols == w->cols;
    if (f->how.block) {
        fits &= rows % f->how.block == 0;
        last = (rows / f->how.block - 1) * f->how.stride + f->how.row0 + f->how.block;
    }
    if (f->how.rows && f->how.rows != rows) {
        snprintf(expected, sizeof expected, "%" PRId64 " rows, not the %" PRId64 " of the recipe,", rows, f->how.rows);
        return misshapen(b, w, f, expected, e);
    }
    fits &= f->how.sliced ? last <= have : rows == have;
    if (fits) return OK;
    const char *least = f->how.sliced ? "at least " : "";
    if (w->cols == 0) snprintf(expected, sizeof expected, "%s[%" PRId64 "]", least, last);
    else if (f->how.transpose)
        snprintf(expected, sizeof expected, "%s[%" PRId64 ", %" PRId64 "]", least, w->cols, last);
    else snprintf(expected, sizeof expected, "%s[%" PRId64 ", %" PRId64 "]", least, last, w->cols);
    return misshapen(b, w, f, expected, e);
}

/* ---- factors
 *
 * GGUF may hold a number beside a matrix, or one for each of a stack, that its values are multiplied by: X.scale of
 * X.weight (of NVFP4, whose own scales have few bits). Where activations are 8-bit it can be left to an op after the
 * product. X.input_scale is about how activations may be held, and changes nothing here. */

static const ckpt_entry *find_beside(const binder *b, const ckpt_entry *t, const char *what)
{
    size_t n = strlen(t->name);
    bool can = ckpt_has_factors(b->c) && str_ends(t->name, ".weight");
    return can ? entry_named(b, "", t->name, n - strlen(".weight"), what) : NULL;
}

static const ckpt_entry *scale_of(const binder *b, const found *f)
{
    return f->how.alone ? NULL : find_beside(b, f->entry, ".scale");
}

static bool has_factors_apart(const binder *b, const found *f)
{
    const ckpt_entry *scale = scale_of(b, f);
    return scale && scale->bytes > sizeof(float);
}

/* The factor that a stored matrix leaves to its reader, 1: none. */
static float stored_factor(const ckpt_entry *t)
{
    const bool left = t->stored && (t->type == DTYPE_NVFP4 || t->type == DTYPE_Q2_0);
    return left ? t->stored->factor : 1;
}

/* The factor of matrix `part` of `parts` that lie in an entry. */
static int factor_of(binder *b, const found *f, int64_t part, int64_t parts, float *out, err *e)
{
    const ckpt_entry *t = f->entry;
    if (t->stored) return *out = stored_factor(t), OK;
    const ckpt_entry *scale = scale_of(b, f), *input = find_beside(b, t, ".input_scale");
    *out = 1;
    if (input) b->used[index_of(b, input)].numbers = -1;
    if (!scale) return OK;
    uint64_t n = scale->bytes / sizeof *out;
    if (scale->type != DTYPE_F32 || (n != 1 && n != (uint64_t)parts))
        return err_set(e, ERR_SPEC, "%s: tensor '%.200s' is no factor for each of the %" PRId64 " matrices of '%.200s'",
                       ckpt_path(b->c), scale->name, parts, t->name);
    memcpy(out, scale->data + (n == 1 ? 0 : (uint64_t)part * sizeof *out), sizeof *out);
    b->used[index_of(b, scale)].numbers = -1;
    return OK;
}

/* ---- products */

/* A tensor beside the one that a recipe is about; it counts as used. NULL and an error where it must be there. */
static const ckpt_entry *other_of(binder *b, const found *f, const char *name, bool bias, bool needed, err *e)
{
    const ckpt_entry *t = find_entry(b, name, bias);
    if (t) b->used[index_of(b, t)].numbers = -1;
    else if (needed)
        err_set(e, ERR_SPEC, "%s: tensor '%.200s' is missing: %s passes %.200s (%s)", ckpt_path(b->c), f->entry->name,
                f->row->key, name, f->row->where);
    return t;
}

/* f becomes the rows of its tensor as they have passed the layer of the recipe `through`. */
static int pass_through(binder *b, const bind_want *w, found *f, err *e)
{
    const recipe *how = &f->how;
    if (!how->through) return OK;
    product_parts p = {.table = f->entry, .eps = how->norm_eps, .parts = w->parts ? w->parts : 1};
    if (!(p.by = other_of(b, f, how->through, false, true, e))) return e->code;
    p.bias = other_of(b, f, how->through, true, false, e);
    if (how->norm && (!(p.gain = other_of(b, f, how->norm, false, true, e)) ||
                      !(p.shift = other_of(b, f, how->norm, true, true, e))))
        return e->code;
    b->used[index_of(b, f->entry)].numbers = -1;
    return product_entry(&f->entry, &p, b->c, &b->prog->mem, f->row->where, e);
}

/* ---- making */

/* The type to hold a matrix in: what the policy asks for; where it cannot be packed, only if rows are whole blocks of
 * it. */
static int wanted_type(binder *b, const bind_want *w, const found *f, const char *name, dtype *out, err *e)
{
    bool own_head = true;
    *out = w->floats ? DTYPE_F32 : DTYPE_NONE;
    if (w->cols == 0 || w->keep_type || w->floats || !b->policy) return OK;
    int rc = w->table ? bind_has(b, "head", OUTSIDE, &own_head, e) : OK;
    if (rc) return rc;
    weight_names names = {.name = name, .tensor = f->entry->name, .table = w->table, .tied = !own_head};
    dtype t = policy_type(b->policy, &names);
    bool whole = t == DTYPE_NONE || w->cols % dtype_info[t].weights == 0;
    bool panels = t != DTYPE_NONE && panel_format_of(t) && panel_holds(w->rows, w->parts);
    if (whole || panels) *out = t;
    return OK;
}

/* The piece of the weight that is matrix `part` of the entry of f: `rows` rows of it by the recipe. */
static int piece_of(binder *b, const bind_want *w, const found *f, int64_t part, int64_t rows, piece *out, err *e)
{
    int64_t have = 0, cols = 0;
    uint32_t at = index_of(b, f->entry);
    const shape *s = &f->entry->dims;
    uint64_t n = 0;
    float factor = 1;
    int rc = entry_shape(b, w, f, &have, &cols, e);
    if (!rc && w->cols != 0 && !f->output_scale) rc = factor_of(b, f, part, matrices(w, f), &factor, e);
    if (rc || !shape_count(s, &n)) return rc;
    const stored_matrix *stored = f->entry->stored;
    if (stored && stored->with_factor && factor != 1) {
        stored = stored->with_factor;
        factor = 1;
    }
    if (f->sorted) stored = stored->sorted;
    bool transpose = f->how.transpose && w->cols != 0;
    int64_t src_cols = w->cols == 0 ? 1 : row_of(&f->how, s), src_rows = (int64_t)n / src_cols;
    *out = (piece){.entry = at,
                   .data = f->entry->data,
                   .name = f->entry->name,
                   .type = stored ? stored->type : f->entry->type,
                   .src_rows = src_rows,
                   .src_cols = src_cols,
                   .rows = rows,
                   .row0 = f->how.row0 + (transpose ? 0 : part * have),
                   .col0 = transpose ? f->how.col0 + part * (src_rows / matrices(w, f)) : 0,
                   .block = f->how.block ? f->how.block : rows,
                   .stride = f->how.block ? f->how.stride : rows,
                   .pairs = f->how.rope_pairs ? w->pairs : 0,
                   .rotated = !f->how.rope_pairs  ? 0
                              : f->how.whole_head ? w->pairs
                                                  : w->rotated,
                   .transpose = transpose,
                   .normalize_rows = f->how.normalize_rows,
                   .exponential = f->how.exponential,
                   .packed = f->entry->packed,
                   .stored = stored,
                   .mul = (float)f->how.mul * factor,
                   .add = (float)f->how.add};
    if (b->used[at].numbers >= 0) b->used[at].numbers += rows * cols;
    b->used[at].cols = cols;
    b->used[at].total = (int64_t)n;
    return OK;
}

/* The pieces of a weight whose matrices (one, or w->parts) have `rows` rows each; *n of them, NULL on error. */
static piece *pieces_of(binder *b, const bind_want *w, const found *f, int64_t rows, size_t *n, err *e)
{
    int64_t per_entry = matrices(w, f);
    bool whole = per_entry > 1 && !f->how.sliced && !f->how.transpose && /* all of them as they lie */
                 (f->output_scale || !has_factors_apart(b, f));
    int rc = OK;
    *n = whole ? 1 : f->n * (size_t)per_entry;
    piece *pieces = arena_array(&b->mem, *n, sizeof *pieces);
    if (!pieces) return err_memory(e, "tensors"), NULL;
    for (size_t i = 0; i < *n && !rc; i++) {
        found one = *f;
        one.entry = f->stack[i / (size_t)per_entry];
        int64_t have = rows, cols = 0;
        if (f->how.tail) rc = entry_shape(b, w, &one, &have, &cols, e);
        bool sum = f->how.tail && !w->parts; /* tensors of any heights */
        if (!rc)
            rc = piece_of(b, w, &one, (int64_t)i % per_entry,
                          whole ? rows * per_entry
                          : sum ? have
                                : rows,
                          &pieces[i], e);
    }
    return rc ? NULL : pieces;
}

/* What no piece can say, or what would be left out of it without a word. */
static int check_recipe(const bind_want *w, const found *f, err *e)
{
    const recipe *how = &f->how;
    const char *wrong = how->rope_pairs && !w->pairs            ? "rope_pairs is for queries and keys"
                        : how->sliced && how->tail && !w->parts ? "rows of a stack of tensors"
                        : how->transpose && w->cols == 0        ? "transpose is for matrices"
                        : how->cols && !how->transpose          ? "columns are taken after transpose only"
                                                                : NULL;
    return wrong ? err_set(e, ERR_SPEC, "%s: %s: %s", f->row->where, f->row->key, wrong) : OK;
}

static bool piece_key(const piece *c, buf *key)
{
    int64_t f[] = {c->entry, c->rows,    c->row0,      c->block,          c->stride,     c->col0,
                   c->pairs, c->rotated, c->transpose, c->normalize_rows, c->exponential};
    return buf_add(key, f, sizeof f) && buf_add(key, &c->stored, sizeof c->stored) &&
           buf_add(key, &c->mul, sizeof c->mul) && buf_add(key, &c->add, sizeof c->add);
}

/* Everything that a weight is made of: layers whose recipes are equal share one (ALBERT: arXiv 1909.11942). */
static bool weight_key(const weight *made, buf *key)
{
    int64_t f[] = {made->rows, made->cols, made->want, made->vector, made->parts, made->n_piece};
    bool ok = buf_byte(key, 0) && buf_add(key, f, sizeof f) &&
              buf_add(key, &made->output_scale, sizeof made->output_scale) &&
              buf_add(key, &made->order, sizeof made->order) && buf_add(key, &made->factors, sizeof made->factors);
    for (uint32_t i = 0; i < made->n_piece && ok; i++) ok = piece_key(&made->pieces[i], key);
    return ok;
}

static int remember_tensor(binder *b, span key, ref t, err *e)
{
    uint8_t *own = arena_alloc(&b->mem, key.n ? key.n : 1);
    if (!own) return err_memory(e, "tensors");
    memcpy(own, key.p, key.n);
    return map_put(&b->made, span_of(own, key.n), t) ? OK : err_memory(e, "tensors");
}

/* A new weight and its tensor. */
static int add_weight(binder *b, const bind_want *w, const found *f, const weight *made, ref *out, err *e)
{
    uint32_t index = program_weight(b->prog, made, e);
    if (index == UINT32_MAX) return err_wrap(e, "%s: %s", f->row->where, f->row->key);
    tensor t = {.name = made->name,
                .kind = TENSOR_WEIGHT,
                .rank = made->vector ? 1 : 2,
                .layer = layer_number(w->layer, b->prog->n_enc),
                .dim = {made->rows, made->vector ? 0 : made->cols},
                .weight = index};
    *out = program_tensor(b->prog, &t, e);
    return *out ? OK : e ? e->code : ERR_MEMORY;
}

/* Whether the weight is held as it is stored, so that an op may have a part of what it is. */
static bool is_as_stored(const found *f, dtype want)
{
    return want == DTYPE_NONE && !f->how.transpose && !recipe_changes(&f->how);
}

/* The factor that products can be multiplied by instead of the weights, so that blocks stay what they are; 0: there is
 * none, or the weights take it. */
static int find_output_scale(binder *b, const bind_want *w, const found *f, dtype want, float *out, err *e)
{
    found bias;
    const bool alone = w->output_scale && f->n == 1;
    const ckpt_entry *scale = alone ? scale_of(b, f) : NULL;
    *out = 0;
    if (!(scale || (alone && stored_factor(f->entry) != 1)) || (scale && scale->bytes > sizeof(float)) || w->parts ||
        !is_as_stored(f, want) || !panel_format_of(f->entry->type))
        return OK;
    int rc = find_slot(b, w->slot, w->layer, true, &bias, e); /* is added by the product */
    return rc || bias.entry ? rc : factor_of(b, f, 0, 1, out, e);
}

/* t, which has values of the program, becomes a constant beside the weight. */
static int add_constant(binder *b, const bind_want *w, const found *f, const char *what, tensor t, ref *out, err *e)
{
    t.name = arena_printf(&b->mem, "%s.%s", f->entry->name, what);
    t.kind = TENSOR_CONST;
    t.layer = layer_number(w->layer, b->prog->n_enc);
    *out = t.name ? program_tensor(b->prog, &t, e) : 0;
    return *out ? OK : e->code ? e->code : err_memory(e, "tensors");
}

/* The same for each part of a stack, as a constant; 0: there are none, or the weights take them. */
static int find_factors(binder *b, const bind_want *w, const found *f, dtype want, ref *out, err *e)
{
    found bias;
    const int64_t per_entry = matrices(w, f);
    *out = 0;
    if (!w->output_scale || !w->parts || !is_as_stored(f, want) || !panel_format_of(f->entry->type)) return OK;
    int rc = find_slot(b, w->slot, w->layer, true, &bias, e); /* is added by the product */
    float *factor = arena_array(&b->prog->mem, (size_t)w->parts, sizeof *factor);
    if (rc || bias.entry) return rc;
    if (!factor) return err_memory(e, "tensors");
    bool any = false;
    for (int32_t k = 0; k < w->parts && !rc; k++) {
        found one = *f;
        one.entry = f->stack[k / per_entry];
        if (one.entry->type != f->entry->type) return OK;
        rc = factor_of(b, &one, k % per_entry, per_entry, &factor[k], e);
        any |= factor[k] != 1;
    }
    if (rc || !any) return rc;
    return add_constant(b, w, f, "factors", (tensor){.rank = 2, .dim = {w->parts, 1}, .data = factor}, out, e);
}

/* The constant that names the columns of a stored matrix in the order of their groups: matrices of the same order have
 * one. 0: they stay as they lie. */
static int find_order(binder *b, const bind_want *w, const found *f, dtype want, ref *out, err *e)
{
    const stored_matrix *sorted = f->entry->stored ? f->entry->stored->sorted : NULL;
    *out = 0;
    if (!sorted || !w->order || f->n != 1 || w->parts || !is_as_stored(f, want)) return OK;
    const size_t n = (size_t)sorted->cols;
    float *from = arena_array(&b->prog->mem, n, sizeof *from);
    if (!from) return err_memory(e, "tensors");
    for (size_t k = 0; k < n; k++) from[k] = (float)sorted->from[k];
    buf key = {0};
    if (!buf_byte(&key, 1) || !buf_add(&key, from, n * sizeof *from)) return buf_free(&key), err_memory(e, "tensors");
    const uint32_t same = map_get(&b->made, buf_span(&key));
    const tensor t = {.rank = 1, .dim = {(int64_t)n}, .data = from};
    int rc = same == MAP_NONE ? add_constant(b, w, f, "order", t, out, e) : OK;
    if (same != MAP_NONE) *out = same;
    else if (!rc) rc = remember_tensor(b, buf_span(&key), *out, e);
    buf_free(&key);
    return rc;
}

static int make_weight(binder *b, const bind_want *w, const found *f, const char *name, ref *out, err *e)
{
    ref order = 0, factors = 0;
    int64_t have = 0, cols = 0, parts = w->parts ? w->parts : 1, rows = w->rows / parts;
    size_t n;
    int rc = check_recipe(w, f, e);
    if (!rc) rc = source_shape(b, w, f, &have, &cols, e);
    if (rc) return rc;
    if (!rows) rows = f->how.rows ? f->how.rows : have;
    if ((rc = check_shape(b, w, f, rows, have, cols, e))) return rc;
    dtype held = DTYPE_NONE;
    float output_scale = 0;
    found own = *f;
    if ((rc = wanted_type(b, w, f, name, &held, e)) || (rc = find_output_scale(b, w, f, held, &output_scale, e)) ||
        (rc = find_order(b, w, f, held, &order, e)) || (rc = find_factors(b, w, f, held, &factors, e)))
        return rc;
    own.output_scale = output_scale != 0 || factors;
    own.sorted = order != 0;
    piece *pieces = pieces_of(b, w, &own, rows, &n, e);
    if (!pieces) return e->code;
    bool vector = w->cols == 0;
    rows *= parts;
    weight made = {.name = name,
                   .pieces = pieces,
                   .n_piece = (uint32_t)n,
                   .rows = rows,
                   .cols = cols,
                   .vector = vector,
                   .parts = w->parts,
                   .want = held,
                   .output_scale = output_scale,
                   .factors = factors,
                   .order = order};
    b->widened += held == DTYPE_NONE && !own.output_scale && dtype_is_block(pieces[0].type) &&
                  (scale_of(b, f) || (stored_factor(f->entry) != 1 && !f->entry->stored->with_factor));
    made.packed = pieces[0].packed && weight_held_type(&made) == pieces[0].type;
    buf key = {0};
    if (!weight_key(&made, &key)) rc = err_memory(e, "tensors");
    uint32_t same = rc ? MAP_NONE : map_get(&b->made, buf_span(&key));
    *out = same == MAP_NONE ? 0 : same;
    if (!rc && !*out) rc = add_weight(b, w, f, &made, out, e);
    if (!rc && same == MAP_NONE) rc = remember_tensor(b, buf_span(&key), *out, e);
    buf_free(&key);
    if (!rc) rc = remember_tensor(b, span_str(name), *out, e);
    return rc ? rc : program_bound(b->prog, &(bound){.name = name, .weight = *out}, e);
}

static int missing(binder *b, const bind_want *w, const found *f, err *e)
{
    char slot[128];
    describe_want(w, slot, sizeof slot);
    if (!f->row)
        return err_set(e, ERR_SPEC, "%s: [tensors] has no line for '%s', which %s needs", b->s->file, slot,
                       w->for_whom);
    if (!f->first)
        return err_set(e, ERR_SPEC, "%s: %s names no tensor of a %s file (%s needs it)", f->row->where, f->row->key,
                       ckpt_format(b->c), w->for_whom);
    return err_set(e, ERR_SPEC, "%s: tensor '%.200s' is missing: %s (%s; %s)", ckpt_path(b->c), f->first, slot,
                   f->row->where, w->for_whom);
}

/* "dec.3.attn.q" */
static void weight_name(char *to, size_t cap, const char *slot, int layer)
{
    char key[160], number[16];
    snprintf(number, sizeof number, "%d", layer % ENCODER);
    bind_key(key, sizeof key, slot, layer, number);
    snprintf(to, cap, "%s%s", strncmp(key, "enc.", 4) == 0 ? "" : "dec.", key);
}

int bind_weight(binder *b, const bind_want *w, ref *out, err *e)
{
    char name[200];
    weight_name(name, sizeof name, w->slot, w->layer);
    if (w->bias) strncat(name, ".bias", sizeof name - strlen(name) - 1);
    uint32_t made = map_get_str(&b->made, name);
    *out = made == MAP_NONE ? 0 : made;
    if (*out) return OK;
    found f;
    int rc = find_slot(b, w->slot, w->layer, w->bias, &f, e);
    if (rc) return rc;
    if (!f.entry) return w->optional ? OK : missing(b, w, &f, e);
    if ((rc = pass_through(b, w, &f, e))) return rc;
    const shape *s = &f.entry->dims;
    if (f.how.fit && w->cols != 0) f.how.transpose = s->rank > 0 && s->dim[s->rank - 1] != w->cols;
    return make_weight(b, w, &f, name, out, e);
}

const float *bind_values(binder *b, const char *slot, int layer, arena *mem, size_t *n, err *e)
{
    enum { VALUES_MAX = 1 << 16 };
    found f;
    uint64_t count;
    *n = 0;
    if (find_slot(b, slot, layer, false, &f, e) || !f.entry) return NULL;
    const recipe *how = &f.how;
    if (how->tail || how->transpose || how->rope_pairs || how->sliced || how->cols || recipe_changes(how))
        return err_set(e, ERR_SPEC, "%s: %s: numbers are read from one tensor as it is", f.row->where, f.row->key),
               NULL;
    if (!shape_count(&f.entry->dims, &count) || !count || count > VALUES_MAX || f.entry->packed) {
        err_set(e, ERR_SPEC, "%s: tensor '%.200s' is no list of at most %d elements", f.row->where, f.entry->name,
                VALUES_MAX);
        return NULL;
    }
    float *list = arena_array(mem, count, sizeof *list);
    if (!list) return err_memory(e, "tensors"), NULL;
    quant_decode(f.entry->type, f.entry->data, list, count);
    int64_t *used = &b->used[index_of(b, f.entry)].numbers;
    char name[200];
    weight_name(name, sizeof name, slot, layer);
    *n = count;
    if (b->prog && *used >= 0 && program_bound(b->prog, &(bound){.name = name, .values = list, .n = count}, e))
        return NULL;
    *used = -1;
    return list;
}

/* ---- nothing left over */

/* Patterns may hold {expressions}, as names do. */
static int ignored(binder *b, const char *name, bool *yes, err *e)
{
    const spec_row *row = spec_find(b->s, "tensors", "ignore");
    span rest = row ? span_str(row->text) : (span){0}, part;
    *yes = wrapped_is_tower(name, b->prefix, b->n_wrapped);
    while (!*yes && split_next(&rest, '|', &part)) {
        recipe how;
        int rc = part.n ? recipe_parse(&how, b->values, &b->mem, part, OUTSIDE, row->where, e) : OK;
        if (rc) return rc;
        *yes = part.n && glob_match(span_str(how.name), name);
    }
    return OK;
}

int bind_finish(binder *b, err *e)
{
    buf names = {0};
    uint32_t unused = 0;
    for (uint32_t i = 0; i < ckpt_count(b->c); i++) {
        const ckpt_entry *t = ckpt_at(b->c, i);
        bool left_out = b->used[i].numbers != 0 || ckpt_is_aside(b->c, i);
        int rc = left_out ? OK : ignored(b, t->name, &left_out, e);
        if (rc) return buf_free(&names), rc;
        if (!left_out && unused++ < 3) buf_printf(&names, "%s'%.120s'", unused > 1 ? ", " : "", t->name);
        if (b->used[i].numbers > 0 && b->used[i].numbers < b->used[i].total) {
            int64_t cols = b->used[i].cols;
            char have[128];
            buf_free(&names);
            return err_set(e, ERR_SPEC, "%s: of tensor '%.200s' %s only %" PRId64 " of %" PRId64 " rows are used",
                           ckpt_file(b->c, t->file), t->name, shape_text(&t->dims, have, sizeof have),
                           b->used[i].numbers / cols, b->used[i].total / cols);
        }
    }
    int rc = OK;
    if (b->widened)
        log_line(LOG_WARN,
                 "%s: %d matrices have factors beside their blocks and are held as f32; --weights q8_0 holds them in a "
                 "quarter of that",
                 ckpt_path(b->c), b->widened);
    if (unused)
        rc = err_set(
            e, ERR_SPEC,
            "%s: %u tensor%s that nothing in %s uses: %s%s (if they are not needed, name them in [tensors] ignore)",
            ckpt_path(b->c), unused, unused == 1 ? "" : "s", b->s->file, buf_cstr(&names), unused > 3 ? ", ..." : "");
    buf_free(&names);
    return rc;
}
