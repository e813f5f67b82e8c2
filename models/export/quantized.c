/* quantized.c - see quantized.h. */
#include "models/export/quantized.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "core/weight_fill.h"
#include "io/self_contained.h"
#include "io/write_safetensors.h"
#include "models/export/quantized_names.h"
#include "tensor/panel.h"

#include <inttypes.h>

enum { CHUNK_BYTES = 8 << 20 };

/* What the tensors of one file share. */
typedef struct sink {
    int threads;
    uint64_t done, total;
} sink;

/* A tensor of the file, and how its bytes are made. */
typedef struct source {
    weight_fill fill;
    sink *to;
} source;

static int stream(void *self, file_out *file, err *e)
{
    source *s = self;
    weight_fill *f = &s->fill;
    int64_t step = (int64_t)(CHUNK_BYTES / f->unit_bytes) + 1;
    if (step > f->units) step = f->units;
    uint8_t *out = f->out = mem_array((size_t)step, f->unit_bytes);
    int rc = out ? OK : err_set(e, ERR_MEMORY, "out of memory for weight %s", f->w->name);
    for (f->from = 0; f->from < f->units && !rc; f->from = f->to) {
        f->to = f->from + step < f->units ? f->from + step : f->units;
        uint64_t bytes = (uint64_t)(f->to - f->from) * f->unit_bytes;
        rc = weight_fill_run(f, 1, s->to->threads, e);
        if (!rc) rc = file_write(file, out, bytes, e);
        log_progress("quantizing", "bytes", s->to->done += bytes, s->to->total);
    }
    mem_free(out);
    return rc;
}

/* ---- forms */

/* Whether it is only multiplied by or looked up in, as kernels can with panels. */
static bool may_pack(const program *p, ref t)
{
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        for (int k = 0; k < 4; k++)
            if (o->in[k] == t && !(op_is(o, OPF_MATRIX) && k == 1) && !(o->kind == OP_EMBED && k == 0)) return false;
    }
    return true;
}

static int add_text(json *metadata, const char *key, const char *name, const char *value, err *e)
{
    buf b = {0};
    buf_printf(&b, "%s%s", key, name);
    bool added = !b.bad && json_add_str(metadata, buf_cstr(&b), value);
    buf_free(&b);
    return added ? OK : err_memory(e, NULL);
}

/* The tensor of a weight: type and shape in the file, and the real ones in the metadata. */
static int describe_weight(const program *p, ref t, const source *s, write_tensor *out, json *metadata, err *e)
{
    const weight *w = s->fill.w;
    dtype type = s->fill.type;
    const char *name = p->tensors[t].name;
    int64_t parts = w->parts > 1 ? w->parts : 1;
    char word[64], dims[100];
    *out = (write_tensor){.name = name, .type = type, .stream = stream, .self = (void *)s, .aligned = s->fill.packed};
    snprintf(word, sizeof word, "%s%s", dtype_info[type].name, s->fill.packed ? SELF_PANELS : "");
    if (w->vector) out->dims = (shape){1, {w->rows}};
    else if (parts > 1) out->dims = (shape){3, {parts, w->rows / parts, w->cols}};
    else out->dims = (shape){2, {w->rows, w->cols}};
    int rc = add_text(metadata, "", name, word, e);
    if (rc || !dtype_is_block(type)) return rc;
    if (parts > 1) snprintf(dims, sizeof dims, "%" PRId64 ",%" PRId64 ",%" PRId64, parts, w->rows / parts, w->cols);
    else snprintf(dims, sizeof dims, "%" PRId64 ",%" PRId64, w->rows, w->cols);
    out->type = DTYPE_U8;
    out->dims = (shape){2, {s->fill.units, (int64_t)s->fill.unit_bytes}};
    return add_text(metadata, SELF_SHAPE, name, dims, e);
}

/* Numbers that ops have as parameters (rotary factors): tensors of float32. */
static int describe_list(const bound *b, write_tensor *out, json *metadata, err *e)
{
    *out = (write_tensor){.name = b->name, .type = DTYPE_F32, .dims = {1, {(int64_t)b->n}}, .raw = b->values};
    return add_text(metadata, "", b->name, dtype_info[DTYPE_F32].name, e);
}

static int plan_weight(const model *m, ref t, source *s, const quantized_options *o, err *e)
{
    const weight *w = &m->prog->weights[m->prog->tensors[t].weight];
    dtype type = weight_held_type(w);
    bool packed = !w->vector && panel_format_of(type) && panel_holds(w->rows, w->parts) && may_pack(m->prog, t);
    int rc = weight_fill_plan(&s->fill, w, type, packed, e);
    if (!rc && o->importance && dtype_is_block(type)) s->fill.importance = o->importance(o->self, w);
    return rc;
}

/* Every weight and list once. */
static int plan_all(const model *m, source *s, write_tensor *t, size_t *n, sink *to, json *metadata,
                    const quantized_options *o, err *e)
{
    const program *p = m->prog;
    uint8_t *seen = mem_zero(p->n_tensor, 1);
    int rc = seen ? OK : err_memory(e, NULL);
    for (uint32_t i = 0; i < p->n_bound && !rc; i++) {
        const bound *b = &p->bounds[i];
        if (b->weight && seen[b->weight]) continue;
        seen[b->weight] = b->weight != 0;
        if (b->weight) rc = plan_weight(m, b->weight, &s[*n], o, e);
        if (!rc)
            rc = b->weight ? describe_weight(p, b->weight, &s[*n], &t[*n], metadata, e)
                           : describe_list(b, &t[*n], metadata, e);
        s[*n].to = to;
        if (b->weight) to->total += (uint64_t)s[*n].fill.units * s[*n].fill.unit_bytes;
        ++*n;
    }
    mem_free(seen);
    return rc;
}

static int add_spec(const model *m, json *metadata, err *e)
{
    buf lines = {0}, text = {0};
    int rc = quantized_names(m, &lines, e);
    if (!rc) rc = model_own_spec_text(m, buf_cstr(&lines), &text, e);
    if (!rc && !json_add_str(metadata, SELF_SPEC, buf_cstr(&text))) rc = err_memory(e, NULL);
    buf_free(&lines);
    buf_free(&text);
    return rc;
}

int quantized_write(const model *m, json *metadata, const char *path, const quantized_options *o, err *e)
{
    size_t n = 0, cap = m->prog->n_bound;
    sink to = {.threads = o->threads > 0 ? o->threads : pool_default_threads()};
    source *s = mem_zero(cap, sizeof *s);
    write_tensor *t = mem_zero(cap, sizeof *t);
    int rc = s && t && json_add_str(metadata, SELF_LAYOUT, SELF_VERSION) ? OK : err_memory(e, NULL);
    if (!rc) rc = add_spec(m, metadata, e);
    if (!rc) rc = plan_all(m, s, t, &n, &to, metadata, o, e);
    if (!rc) rc = write_safetensors(path, t, n, metadata, e);
    mem_free(s);
    mem_free(t);
    return rc;
}
