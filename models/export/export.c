/* export.c - see export.h: copies a checkpoint that is of the wanted kind already, and checks the result. */
#include "models/export/export.h"

#include "base/mem.h"
#include "io/gguf.h"
#include "models/compile/bind.h"
#include "models/arch.h"
#include "models/compile/build.h"
#include "models/compile/wrapped.h"
#include "models/export/export_state.h"
#include "tensor/quant.h"
#include "tensor/panel.h"
#include "models/spec/spec_load.h"
#include "models/export/gguf_types.h"

#include <math.h>
#include <string.h>

/* Whether the checkpoint has the container's names: a GGUF file, or a config.json with an architecture. */
static bool is_of_kind(const exporter *x)
{
    const ckpt *c = x->m->weights;
    if (x->family || strcmp(ckpt_source(c), export_source(x)) != 0) return false;
    const json *j = ckpt_config(c);
    return x->kind == EXPORT_GGUF || json_get(j, "architectures") || json_get(j, "model_type");
}

/* ---- copying */

static int decode_entry_row(void *self, uint64_t n, float *to, err *e)
{
    const ckpt_entry *t = self;
    uint64_t cols = (uint64_t)t->dims.dim[t->dims.rank - 1], row_bytes = 0;
    (void)e;
    if (t->packed) {
        panel_row(t->type, t->data + n / PANEL_ROWS * panel_bytes(t->type, (int64_t)cols), (int)(n % PANEL_ROWS),
                  (int64_t)cols, to);
        return OK;
    }
    dtype_bytes(t->type, cols, &row_bytes); /* whole blocks: the checkpoint was checked */
    quant_decode(t->type, t->data + n * row_bytes, to, cols);
    return OK;
}

/* The type that the policy chose for the weight of an entry. */
static dtype type_as_held(const exporter *x, const ckpt_entry *t)
{
    const program *p = x->m->prog;
    for (uint32_t i = 0; i < p->n_weight; i++)
        for (uint32_t k = 0; k < p->weights[i].n_piece && !p->weights[i].vector; k++)
            if (ckpt_at(x->m->weights, p->weights[i].pieces[k].entry) == t && p->weights[i].want != DTYPE_NONE)
                return gguf_type_fitting(p->weights[i].want, t->dims.dim[t->dims.rank - 1]);
    return t->type;
}

/* The type to write an entry in. Integers and, in GGUF, vectors stay as they are. */
static dtype type_of_copy(const exporter *x, const ckpt_entry *t)
{
    bool number = t->type == DTYPE_F32 || t->type == DTYPE_F16 || t->type == DTYPE_BF16 || t->type == DTYPE_F64 ||
                  t->type == DTYPE_F8_E4M3 || t->type == DTYPE_F8_E5M2 || dtype_is_block(t->type);
    bool vector = t->dims.rank < 2;
    if (x->as_held && !vector) return type_as_held(x, t);
    if (x->type == DTYPE_NONE || !number || t->dims.rank == 0 || (vector && x->kind == EXPORT_GGUF)) return t->type;
    return t->dims.dim[t->dims.rank - 1] % dtype_info[x->type].weights == 0 ? x->type : t->type;
}

/* Whether a weight is quantized in several tensors, whose types say nothing by themselves. */
static bool has_stored(const program *p)
{
    for (uint32_t i = 0; i < p->n_weight; i++)
        for (uint32_t k = 0; k < p->weights[i].n_piece; k++)
            if (p->weights[i].pieces[k].stored && !p->weights[i].pieces[k].stored->product) return true;
    return false;
}

static int copy_tensors(exporter *x)
{
    const ckpt *c = x->m->weights;
    if ((x->type != DTYPE_NONE || x->as_held) && has_stored(x->m->prog))
        return err_set(x->e, ERR_USAGE,
                       "%s: a quantized folder is copied as it is: leave --weights out, or write a GGUF file",
                       ckpt_path(c));
    x->tensor = mem_zero(ckpt_count(c), sizeof *x->tensor);
    if (!x->tensor) return export_oom(x);
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        dtype type = type_of_copy(x, t);
        x->tensor[x->n++] = (write_tensor){.name = t->name,
                                           .type = type,
                                           .dims = t->dims,
                                           .raw = type == t->type && !t->packed ? t->data : NULL,
                                           .row = decode_entry_row,
                                           .self = (void *)t};
    }
    return OK;
}

static int copy_config(exporter *x)
{
    if (!(x->config = json_new_object())) return export_oom(x);
    if (x->family_text) {
        json *classes = json_add_array(x->config, "architectures");
        if (!json_add_str(classes, NULL, x->arch)) return export_oom(x);
    }
    const json *from = x->family_text ? x->family_text : x->family ? x->family_config : ckpt_config(x->m->weights);
    for (const json *m = json_first(from); m; m = json_next(m)) {
        if (json_get(x->config, json_key(m))) continue;
        bool of_type = strcmp(json_key(m), "torch_dtype") == 0 || strcmp(json_key(m), "dtype") == 0;
        if (of_type && (x->type != DTYPE_NONE || x->family)) continue;
        if (!json_add_copy(x->config, json_key(m), m)) return export_oom(x);
    }
    return OK;
}

static int copy_pairs(exporter *x)
{
    const char *key;
    ckpt_array v;
    bool scalar, versioned = false;
    for (uint32_t i = 0; ckpt_meta_at(x->m->weights, i, &key, &v, &scalar); i++) {
        bool about_file = strcmp(key, "general.alignment") == 0 || strcmp(key, "general.file_type") == 0 ||
                          strncmp(key, "split.", 6) == 0;
        uint64_t at = 0;
        versioned |= strcmp(key, "general.quantization_version") == 0;
        if (about_file) continue;
        if (strcmp(key, "tokenizer.ggml.tokens") == 0) x->vocabulary = true;
        span bytes = span_of(v.data, (size_t)v.bytes);
        if (!scalar) gguf_add_array(&x->pairs, key, (gguf_type)v.type, v.count, bytes);
        else if (v.type != GGUF_STRING) gguf_add_value(&x->pairs, key, (gguf_type)v.type, bytes);
        else gguf_add_value(&x->pairs, key, GGUF_STRING, ckpt_array_string(&v, &at));
    }
    if (x->as_held && !versioned) gguf_add_uint(&x->pairs, "general.quantization_version", GGUF_U32, 2);
    return x->pairs.bad ? export_oom(x) : OK;
}

/* ---- what transformers wants to know of the type */

static int add_type(exporter *x)
{
    static const struct {
        dtype type;
        const char *torch;
    } names[] = {{DTYPE_F32, "float32"}, {DTYPE_F16, "float16"}, {DTYPE_BF16, "bfloat16"}};
    if (x->kind != EXPORT_HF || json_get(x->config, "torch_dtype") || json_get(x->config, "dtype")) return OK;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i < x->n; i++)
            if (x->tensor[i].dims.rank > 1 && x->tensor[i].type == names[k].type)
                return json_add_str(x->config, "torch_dtype", names[k].torch) ? OK : export_oom(x);
    return OK;
}

/* A quantized file has a spec and names of its own. Where it was made from a folder, it holds that folder's
 * config.json, whose family has the names of other containers. */
static int open_family(exporter *x)
{
    const ckpt *c = x->m->weights;
    err none = {0};
    const json *config = ckpt_side_json(x->m->weights, "config.json", &none);
    config_sources from;
    char name[80];
    if (!json_get(config, "architectures") && !json_get(config, "model_type"))
        return err_set(x->e, ERR_SPEC,
                       "%s: is a file of `quantize` without a config.json, so it has names of its own only; take the "
                       "model that it was made of",
                       ckpt_path(c));
    int rc = arch_find(c, config, name, sizeof name, x->e);
    if (!rc) rc = spec_load_builtin(&x->family, name, x->e);
    if (!rc) rc = build_sources(&from, x->m->weights, config, x->e);
    if (!rc) rc = wrapped_config(&x->family_text, x->family, from.hf, x->e);
    if (x->family_text) from.hf = x->family_text;
    if (!rc) rc = config_open(&x->family_values, x->family, &from, x->e);
    if (rc) return rc;
    x->family_config = config;
    x->s = x->family;
    x->values = x->family_values;
    return OK;
}

static int open_as(exporter **out, const model *m, export_kind kind, dtype type, bool as_held, err *e)
{
    *out = NULL;
    if (type != DTYPE_NONE && !quant_can_encode(type))
        return err_set(e, ERR_USAGE, "type %s cannot be written", dtype_info[type].name);
    if (kind == EXPORT_HF && type != DTYPE_NONE && !dtype_is_float(type))
        return err_set(e, ERR_USAGE, "a Hugging Face folder holds f32, f16 or bf16, not %s; write a .gguf file instead",
                       dtype_info[type].name);
    exporter *x = mem_zero(1, sizeof *x);
    if (!x) return err_memory(e, "an export");
    *x = (exporter){
        .m = m, .s = m->resolved, .values = model_values(m), .kind = kind, .type = type, .as_held = as_held, .e = e};
    int rc = ckpt_own_spec(m->weights) ? open_family(x) : OK;
    if (!rc && is_of_kind(x)) {
        rc = copy_tensors(x);
        if (!rc) rc = kind == EXPORT_HF ? copy_config(x) : copy_pairs(x);
    } else if (!rc) {
        rc = export_find_names(x);
        if (!rc) rc = export_rename_tensors(x);
        if (!rc) rc = kind == EXPORT_HF && x->family ? copy_config(x) : export_rename_config(x);
    }
    if (!rc) rc = add_type(x);
    if (rc) export_close(x);
    else *out = x;
    return rc;
}

int export_open(exporter **out, const model *m, export_kind kind, dtype type, err *e)
{
    return open_as(out, m, kind, type, false, e);
}

int export_open_held(exporter **out, const model *m, err *e)
{
    return open_as(out, m, EXPORT_GGUF, DTYPE_NONE, true, e);
}

void export_weigh(exporter *x, weigh_fn *find, void *self)
{
    for (size_t i = 0; i < x->n; i++) {
        write_tensor *t = &x->tensor[i];
        uint64_t n;
        if (!dtype_is_block(t->type) || t->dims.rank < 2 || !shape_count(&t->dims, &n) || !n) continue;
        int64_t cols = t->dims.dim[t->dims.rank - 1], parts = t->dims.rank == 3 ? t->dims.dim[0] : 1;
        t->importance = find(self, t->name, (int64_t)n / cols, cols, parts);
    }
}

void export_close(exporter *x)
{
    if (!x) return;
    mem_free(x->tensor);
    mem_free(x->whole);
    bind_close(x->trained);
    config_close(x->family_values);
    json_free(x->family_text);
    spec_free(x->family);
    spec_free(x->base);
    json_free(x->config);
    gguf_pairs_free(&x->pairs);
    arena_free(&x->mem);
    mem_free(x);
}

const write_tensor *export_tensors(const exporter *x, size_t *n)
{
    *n = x->n;
    return x->tensor;
}

const json *export_config(const exporter *x) { return x->config; }

bool export_widens(const exporter *x) { return x->widens; }

const char *export_class_apart(const exporter *x)
{
    const char *code = x->names ? spec_text(x->names, "model", "code") : NULL;
    bool named = json_first(json_get(x->config, "auto_map")) != NULL;
    return code && strcmp(code, "apart") == 0 && !named ? x->arch : NULL;
}

gguf_pairs *export_pairs(exporter *x) { return &x->pairs; }
bool export_has_vocabulary(const exporter *x) { return x->vocabulary; }

/* ---- the check */

static int refuse_difference(const model *m, const model *again, const char *path, const char *what, err *e)
{
    return err_set(e, ERR_SPEC, "%s: would not be the same model again (%s), which this form cannot say; %s", path,
                   what, export_hint(m, ckpt_describes_itself(again->weights) ? EXPORT_GGUF : EXPORT_HF));
}

/* Whether both rotate by the same angles, up to rounding: a container may keep just the frequencies. */
static bool same_angles(const rope_params *p, const rope_params *q, int length)
{
    float a[ROPE_DIMS_MAX / 2], b[ROPE_DIMS_MAX / 2], scale[2];
    rope_frequencies(p, length, a, &scale[0]);
    rope_frequencies(q, length, b, &scale[1]);
    bool same = fabsf(scale[0] - scale[1]) <= 0x1p-20f * scale[0];
    for (int i = 0; i < p->dims / 2; i++) same &= fabsf(a[i] - b[i]) <= 0x1p-20f * a[i];
    return same;
}

static bool same_rope(const rope_params *p, const rope_params *q)
{
    if (p->dims != q->dims || (p->scaling == ROPE_DYNAMIC) != (q->scaling == ROPE_DYNAMIC)) return false;
    bool dynamic = p->scaling == ROPE_DYNAMIC, by_length = p->scaling == ROPE_LONGROPE && !export_rope_factors_equal(p);
    if (dynamic && (p->factor != q->factor || p->max_positions != q->max_positions)) return false;
    if (by_length && p->original != q->original) return false;
    return same_angles(p, q, 1) && same_angles(p, q, INT32_MAX);
}

static bool same_ropes(const program *a, const program *b)
{
    if (a->n_rope != b->n_rope) return false;
    for (uint32_t i = 0; i < a->n_rope; i++)
        if (!same_rope(&a->ropes[i].params, &b->ropes[i].params)) return false;
    return true;
}

int export_check(const model *m, const char *path, err *e)
{
    model *again;
    const model_options o = {.model_path = path, .act = "f32", .written = true, .ctx = m->ctx};
    int rc = model_open(&again, &o, e);
    if (rc) {
        export_kind kind = str_ends(path, ".gguf") ? EXPORT_GGUF : EXPORT_HF;
        return err_wrap(e, "this form cannot hold the model, %s; reading back what was written", export_hint(m, kind));
    }
    const program *a = m->prog, *b = again->prog;
    if (a->n_op != b->n_op || a->n_tensor != b->n_tensor || a->n_weight != b->n_weight || a->n_layer != b->n_layer) {
        rc = refuse_difference(m, again, path, "another number of operations", e);
    } else if (!same_ropes(a, b)) {
        rc = refuse_difference(m, again, path, "other rotary positions", e);
    }
    for (uint32_t i = 0; i < a->n_op && !rc; i++)
        if (program_op_hash(a, i) != program_op_hash(b, i))
            rc = refuse_difference(
                m, again, path,
                a->tensors[a->ops[i].out].name ? a->tensors[a->ops[i].out].name : op_info[a->ops[i].kind].name, e);
    for (uint32_t i = 1; i < a->n_tensor && !rc; i++)
        if (strcmp(a->tensors[i].name, b->tensors[i].name) != 0 ||
            memcmp(a->tensors[i].dim, b->tensors[i].dim, sizeof a->tensors[i].dim) != 0)
            rc = refuse_difference(m, again, path, a->tensors[i].name, e);
    model_close(again);
    return rc;
}
