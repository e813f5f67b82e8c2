/* export_tensors.c - the program's weights under the names of another container: [tensors] read backwards.
 *
 * For each weight the line of its slot gives a name there and a recipe. Several weights may go into one tensor (fused q, k, v). For
 * every row of a tensor it is worked out once which row of which weight belongs there, by running the recipe forwards. */
#include "base/mem.h"
#include "models/bind.h"
#include "models/export_state.h"
#include "models/recipe.h"
#include "models/spec_split.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A weight and how the container holds it: a piece without data, whose rows are those of the container's tensor. */
typedef struct out_part {
    const weight *from;
    piece how;
} out_part;

typedef struct out_row {
    uint32_t part;
    int64_t row; /* of the weight; -1: none yet */
} out_row;

typedef struct out_tensor {
    const char *name, *slot;
    out_part *part;
    uint32_t n_part;
    out_row *row;
    int64_t rows, cols; /* as the engine sees it: cols 0 is a vector */
    bool transpose;
    exporter *x;
} out_tensor;

/* ---- names */

/* "dec.3.attn.q.bias" -> layer 3, slot "attn.q", bias; "enc.3.attn.q" -> layer ENCODER + 3, slot "enc.attn.q". */
static void split_name(const char *name, int *layer, char slot[64], bool *bias)
{
    const char *p = strchr(name, '.');
    int used = 0;
    p = p ? p + 1 : name;
    *layer = OUTSIDE;
    const bool enc = strncmp(name, "enc.", 4) == 0;
    if (sscanf(p, "%d.%n", layer, &used) == 1 && used) p += used;
    else *layer = OUTSIDE;
    if (enc && *layer != OUTSIDE) *layer += ENCODER;
    snprintf(slot, 64, "%s%s", enc ? "enc." : "", p);
    size_t n = strlen(slot);
    *bias = n > 5 && strcmp(slot + n - 5, ".bias") == 0;
    if (*bias) slot[n - 5] = 0;
}

/* The first name that a line has for the container; of those of experts ("_exps") and of one matrix, the one that a stack or none asks for. */
static int first_name(exporter *x, const spec_row *row, int layer, bool stack, recipe *out, bool *any)
{
    span rest = span_str(row->text), part;
    *any = false;
    while (!*any && split_next(&rest, '|', &part)) {
        if (part.n == 0) continue;
        int rc = recipe_parse(out, x->h, &x->mem, part, layer, row->where, x->e);
        if (rc) return rc;
        bool gguf = strcmp(out->source, "gguf") == 0, hf = !*out->source || strcmp(out->source, "hf") == 0;
        bool experts = gguf && str_ends(out->name, "_exps");
        *any = x->kind == EXPORT_GGUF ? gguf && (stack || !experts) : hf;
    }
    return OK;
}

/* "model.layers.0.self_attn.q_proj.weight": the prefix stands before all names but the head's. */
static const char *full_name(exporter *x, const recipe *how, const char *slot, bool bias)
{
    const char *prefix = spec_text(x->names, "tensors", "prefix"), *end = bias ? ".bias" : ".weight";
    size_t n = strlen(how->name), k = strlen(".weight");
    span first = {0}, rest = prefix ? span_str(prefix) : (span){0};
    if (x->kind == EXPORT_HF && strcmp(slot, "head") != 0) split_next(&rest, '|', &first);
    if (n > k && strcmp(how->name + n - k, ".weight") == 0) n -= k;
    return arena_printf(&x->mem, "%.*s%.*s%s", (int)first.n, first.n ? (const char *)first.p : "", (int)n, how->name,
                        end);
}

static int find_name(exporter *x, const weight *w, recipe *how, const char **name, char slot[64])
{
    int layer;
    bool bias, any = false;
    char key[160];
    split_name(w->name, &layer, slot, &bias);
    bind_key(key, sizeof key, slot, layer, NULL);
    size_t n = strlen(key);
    snprintf(key + n, sizeof key - n, ".bias");
    const spec_row *row = bias ? spec_find(x->names, "tensors", key) : NULL;
    bool own_line = row != NULL;
    key[n] = 0;
    if (!row) row = spec_find(x->names, "tensors", key);
    int rc = row ? first_name(x, row, layer, w->parts > 0, how, &any) : OK;
    if (rc) return rc;
    if (!any)
        return err_set(x->e, ERR_SPEC,
                       "%s: [tensors] has no %s name for %s, so the model cannot be written in that form",
                       x->names->file, export_source(x), key);
    if (how->tail || (w->parts && (how->sliced || how->transpose)))
        return err_set(x->e, ERR_SPEC,
                       "%s: %s: experts can only be written where one tensor holds them as they are used",
                       x->names->file, key);
    if (bias && !own_line) how->transpose = false, how->mul = 1, how->add = 0;
    *name = own_line ? arena_str(&x->mem, how->name) : full_name(x, how, slot, bias);
    return *name ? OK : export_short_of_memory(x);
}

/* ---- rows */

static bool is_width(const value *v)
{
    return v->kind == VALUE_NUMBER && v->number >= 2 && v->number < 1 << 20 && v->number == floor(v->number);
}

/* The width of a head and how much of it rotates. */
static int head_dims(exporter *x, int32_t *width, int32_t *rotated)
{
    value v, part = {0};
    int rc = hyper_name(x->h, "head_dim", OUTSIDE, &v, x->e);
    if (!rc && hyper_knows(x->h, "rope_dims")) rc = hyper_name(x->h, "rope_dims", OUTSIDE, &part, x->e);
    if (rc) return rc;
    if (!is_width(&v)) return err_set(x->e, ERR_SPEC, "%s: head_dim has no value, which rope_pairs needs", x->s->file);
    *width = (int32_t)v.number;
    *rotated = is_width(&part) ? (int32_t)part.number : *width;
    return OK;
}

static int add_part(exporter *x, out_tensor *t, const weight *w, const recipe *how)
{
    int32_t pairs = 0, rotated = 0;
    int rc = how->rope_pairs ? head_dims(x, &pairs, &rotated) : OK;
    if (rc) return rc;
    out_part *parts = arena_array(&x->mem, t->n_part + 1, sizeof *parts);
    if (!parts) return export_short_of_memory(x);
    if (t->n_part) memcpy(parts, t->part, t->n_part * sizeof *parts);
    parts[t->n_part] = (out_part){w,
                                  {.rows = w->rows,
                                   .row0 = how->row0,
                                   .block = how->block ? how->block : w->rows,
                                   .stride = how->block ? how->stride : w->rows,
                                   .pairs = pairs,
                                   .rotated = rotated,
                                   .mul = (float)how->mul,
                                   .add = (float)how->add}};
    t->part = parts;
    t->n_part++;
    t->rows += w->rows;
    return OK;
}

/* Which row of which weight each row of the tensor is. */
static int map_rows(exporter *x, out_tensor *t)
{
    t->row = arena_array(&x->mem, (size_t)t->rows, sizeof *t->row);
    if (!t->row) return export_short_of_memory(x);
    for (int64_t i = 0; i < t->rows; i++) t->row[i].row = -1;
    for (uint32_t p = 0; p < t->n_part; p++) {
        const weight run = {.pieces = &t->part[p].how, .n_piece = 1, .rows = t->part[p].how.rows};
        for (int64_t n = 0; n < run.rows; n++) {
            int64_t at = 0;
            weight_row(&run, n, &at);
            if (at < 0 || at >= t->rows || t->row[at].row >= 0)
                return err_set(x->e, ERR_SPEC, "%s: the recipes of %s do not fill %s once", x->s->file, t->slot,
                               t->name);
            t->row[at] = (out_row){p, n};
        }
    }
    return OK;
}

/* ---- values */

static void decode_row(const out_tensor *t, uint64_t n, float *to)
{
    const out_row *r = &t->row[n];
    const out_part *p = &t->part[r->part];
    weight_decode_row(p->from, r->row, to);
    if (p->how.mul == 1 && p->how.add == 0) return;
    for (int64_t k = 0; k < p->from->cols; k++) to[k] = (to[k] - p->how.add) / p->how.mul;
}

/* Matrices or vectors that lie in one tensor, one after the other. */
static int64_t stack_of(const out_tensor *t) { return t->part[0].from->parts ? t->part[0].from->parts : 1; }

static int give_row(void *self, uint64_t n, float *to, err *e)
{
    out_tensor *t = self;
    if (t->cols == 0) { /* a vector, or one for each of a stack: its rows are single numbers */
        uint64_t wide = (uint64_t)(t->rows / stack_of(t));
        for (uint64_t i = 0; i < wide; i++) decode_row(t, n * wide + i, to + i);
        return OK;
    }
    if (!t->transpose) {
        decode_row(t, n, to);
        return OK;
    }
    exporter *x = t->x;
    if (x->whole_of != t) { /* all values of one transposed tensor at a time */
        mem_free(x->whole);
        x->whole_of = t;
        x->whole = mem_array((size_t)t->rows, (size_t)t->cols * sizeof *x->whole);
        if (!x->whole) return err_set(e, ERR_MEMORY, "out of memory while exporting");
        for (int64_t i = 0; i < t->rows; i++) decode_row(t, (uint64_t)i, x->whole + i * t->cols);
    }
    for (int64_t i = 0; i < t->rows; i++) to[i] = x->whole[i * t->cols + (int64_t)n];
    return OK;
}

/* The bytes of a row that lies in the checkpoint as it is to be written. */
static const void *give_raw(void *self, uint64_t n, dtype type)
{
    const out_tensor *t = self;
    int64_t row;
    uint64_t row_bytes;
    const out_row *r = &t->row[n];
    const out_part *p = &t->part[r->part];
    const piece *c = weight_row(p->from, r->row, &row);
    bool same = !c->transpose && !c->packed && c->mul == 1 && c->add == 0 && p->how.mul == 1 && p->how.add == 0 &&
                c->type == type;
    return same && dtype_bytes(type, (uint64_t)c->src_cols, &row_bytes) ? c->data + (uint64_t)row * row_bytes : NULL;
}

/* ---- the list */

static dtype type_of(const exporter *x, const out_tensor *t)
{
    dtype have = t->part[0].from->pieces[0].type, want = x->type;
    bool known = x->kind == EXPORT_GGUF ? dtype_info[have].ggml >= 0 : dtype_is_float(have);
    if (t->cols == 0 && x->kind == EXPORT_GGUF) return DTYPE_F32;
    int64_t last = t->cols == 0 || t->transpose ? t->rows : t->cols;
    if (x->as_held && t->part[0].from->want != DTYPE_NONE) want = export_fitting(t->part[0].from->want, last);
    if (want == DTYPE_NONE) want = known ? have : DTYPE_F32;
    bool copied = !quant_can_encode(want);
    for (int64_t i = 0; i < t->rows && copied; i++) /* a type without encoder can only be copied */
        if (t->transpose || !give_raw((void *)t, (uint64_t)i, want)) return DTYPE_F32;
    return last % dtype_info[want].weights == 0 ? want : DTYPE_F32;
}

static out_tensor *tensor_named(out_tensor *all, size_t n, const char *name)
{
    for (size_t i = n; i-- > 0;) /* parts of one tensor follow each other closely */
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

static int collect(exporter *x, out_tensor *all, size_t *n)
{
    const program *p = x->m->prog;
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        const char *name = NULL;
        char slot[64];
        recipe how;
        int rc = find_name(x, w, &how, &name, slot);
        if (rc) return rc;
        out_tensor *t = tensor_named(all, *n, name);
        if (!t) {
            t = &all[(*n)++];
            *t = (out_tensor){.name = name, .cols = w->vector ? 0 : w->cols, .transpose = how.transpose, .x = x};
            if (!(t->slot = arena_str(&x->mem, slot))) return export_short_of_memory(x);
        } else if (t->cols != (w->vector ? 0 : w->cols) || t->transpose != how.transpose) {
            return err_set(x->e, ERR_SPEC, "%s: %s and %s do not fit into one tensor %s", x->s->file, t->slot, slot,
                           name);
        }
        if ((rc = add_part(x, t, w, &how))) return rc;
    }
    return OK;
}

/* ---- factors of rotary positions, which GGUF keeps as tensors */

typedef struct factors {
    float at[ROPE_DIMS_MAX / 2];
    int n;
} factors;

static int give_factors(void *self, uint64_t n, float *to, err *e)
{
    const factors *f = self;
    (void)n;
    (void)e;
    memcpy(to, f->at, (size_t)f->n * sizeof *to);
    return OK;
}

/* What frequencies without scaling are divided by, for sequences of a length; under the name that `role` has there. */
static int add_factors(exporter *x, const rope_params *p, const char *role, int length)
{
    const spec_row *row = spec_find(x->names, "tensors", role);
    recipe how;
    bool any = false;
    int rc = row ? first_name(x, row, OUTSIDE, false, &how, &any) : OK;
    if (rc || !any) return rc;
    factors *f = arena_array(&x->mem, 1, sizeof *f);
    const char *name = full_name(x, &how, role, false);
    if (!f || !name) return export_short_of_memory(x);
    rope_params plain = *p;
    float scaled[ROPE_DIMS_MAX / 2], scale;
    plain.scaling = ROPE_NONE;
    f->n = p->dims / 2;
    rope_frequencies(&plain, length, f->at, &scale);
    rope_frequencies(p, length, scaled, &scale);
    for (int i = 0; i < f->n; i++) f->at[i] /= scaled[i];
    x->tensor[x->n++] = (write_tensor){
        .name = name, .type = DTYPE_F32, .dims = {1, {f->n}}, .row = give_factors, .self = f};
    return OK;
}

static int add_rope(exporter *x)
{
    const rope_params *p = export_gguf_rope(x);
    if (!p) return OK;
    if (p->scaling == ROPE_LLAMA3) return add_factors(x, p, "rope_freqs", 1);
    if (p->scaling != ROPE_LONGROPE) return OK;
    if (p->short_factor == p->long_factor) return add_factors(x, p, "rope_freqs", 1);
    int rc = add_factors(x, p, "rope_short", 1);
    return rc ? rc : add_factors(x, p, "rope_long", INT32_MAX);
}

enum { ROPE_TENSORS = 2 };

int export_rename_tensors(exporter *x)
{
    size_t most = x->m->prog->n_weight;
    out_tensor *all = arena_array(&x->mem, most, sizeof *all);
    x->tensor = mem_zero(most + ROPE_TENSORS, sizeof *x->tensor);
    if (!all || !x->tensor) return export_short_of_memory(x);
    int rc = collect(x, all, &x->n);
    for (size_t i = 0; i < x->n && !rc; i++) {
        out_tensor *t = &all[i];
        if ((rc = map_rows(x, t))) break;
        shape dims = t->cols == 0   ? (shape){1, {t->rows}}
                     : t->transpose ? (shape){2, {t->cols, t->rows}}
                                    : (shape){2, {t->rows, t->cols}};
        int64_t n = stack_of(t);
        if (n > 1 || t->part[0].from->parts)
            dims = t->cols ? (shape){3, {n, t->rows / n, t->cols}} : (shape){2, {n, t->rows / n}};
        x->tensor[i] = (write_tensor){.name = t->name,
                                      .type = type_of(x, t),
                                      .dims = dims,
                                      .row = give_row,
                                      .raw_row = t->cols && !t->transpose ? give_raw : NULL,
                                      .self = t};
    }
    return rc ? rc : add_rope(x);
}
