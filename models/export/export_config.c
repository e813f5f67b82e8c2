/* export_config.c - hyper-parameters under the keys of another container: [config] and the biases of slots read
 * backwards, and the lines of [config.json] and [gguf].
 *
 * A line such as `kv_heads = num_key_value_heads | gguf:attention.head_count_kv | heads` gives the key of the value in
 * config.json and in GGUF. Words are translated back ({gelu_new: gelu.tanh}). A dotted name whose head is itself a line
 * (scaling.factor, with scaling = rope_parameters | rope_scaling) goes into the object that the head names last. Values
 * that the line computes (dim / heads) are written too, so that nothing depends on a default. */
#include "models/compile/module.h"
#include "models/export/export_state.h"
#include "models/spec/spec_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys end in these where readers demand a float, whatever the value is. */
static const char *const float_endings[] = {"epsilon",        "freq_base",   "freq_base_swa", "factor",
                                            "scale",          "softcapping", "attn_factor",   "clamp_kqv",
                                            "max_alibi_bias", "bias_max"};

/* ---- which key */

static bool is_config_name(const exporter *x, const char *name, const char *own)
{
    return strcmp(name, own) != 0 && config_knows(x->values, name);
}

/* The key that an alternative names in the wanted container; NULL when it names none. */
static const char *key_of(const exporter *x, const expr *alternative, const char *own)
{
    const char *name = alternative->kind == EXPR_NAME ? alternative->text : NULL,
               *colon = name ? strchr(name, ':') : NULL;
    if (!name) return NULL;
    if (colon) {
        size_t n = (size_t)(colon - name);
        return n == strlen(export_source(x)) && strncmp(name, export_source(x), n) == 0 ? colon + 1 : NULL;
    }
    return x->kind == EXPORT_HF && !is_config_name(x, name, own) ? name : NULL;
}

/* What a line gives: the key, and the words to translate back. Plain keys win over dotted ones without hf: in front. */
typedef struct out_key {
    const char *key;
    const expr *words; /* EXPR_TRANSLATE, or NULL */
    bool each;         /* key[i]: a list with a value for each layer */
} out_key;

static void find_key(const exporter *x, const expr *v, const char *own, const expr *words, out_key *best)
{
    if (v->kind == EXPR_TRANSLATE) {
        find_key(x, v->arg[0], own, v, best);
        return;
    }
    if (v->kind == EXPR_ELSE) {
        for (size_t i = 0; i < v->n_arg; i++) find_key(x, v->arg[i], own, words, best);
        return;
    }
    if (v->kind == EXPR_NAME && config_is_word(x->values, own, v->text)) return;
    bool each = v->kind == EXPR_INDEX && v->arg[1]->kind == EXPR_NAME && strcmp(v->arg[1]->text, "i") == 0;
    const expr *name = each ? v->arg[0] : v;
    const char *key = key_of(x, name, own);
    bool plain = key && x->kind == EXPORT_HF && !strchr(name->text, '.') && !strchr(name->text, ':');
    bool better = key && (!best->key || (plain && strchr(best->key, '.')));
    if (better) *best = (out_key){key, words, each};
}

/* ---- values */

static const char *translate_back(const expr *words, const char *text)
{
    for (size_t i = 0; words && i < words->n_words; i++)
        if (strcmp(words->words[2 * i + 1], text) == 0) return words->words[2 * i];
    return text;
}

static bool has_head(const exporter *x)
{
    for (uint32_t i = 0; i < x->m->prog->n_weight; i++)
        if (strcmp(x->m->prog->weights[i].name, "dec.head") == 0) return true;
    return false;
}

/* The value of a line; where it depends on the layer, that of the first. */
static int value_of(const exporter *x, const char *name, value *out)
{
    err outside = {0}; /* a value that needs i has none outside layers */
    if (config_name(x->values, name, OUTSIDE, out, &outside)) *out = (value){0};
    if (outside.code == ERR_MEMORY) return export_oom(x);
    bool tied = out->kind == VALUE_TEXT && strcmp(name, "tied") == 0;
    if (tied) *out = (value){.kind = VALUE_BOOL, .number = !has_head(x)}; /* "auto" */
    if (out->kind != VALUE_NONE || config_layers(x->values) == 0) return OK;
    return config_name(x->values, name, 0, out, x->e);
}

static bool wants_float(const char *key)
{
    for (size_t i = 0; i < sizeof float_endings / sizeof *float_endings; i++)
        if (str_ends(key, float_endings[i])) return true;
    return false;
}

/* A number for config.json; one that came from float32 is the shortest text that gives it again. `real`: with a point,
 * as typed readers demand. */
static json *add_json_number(json *to, const char *key, double v, bool real)
{
    char text[40];
    if (v == floor(v) && fabs(v) < 1e15) {
        snprintf(text, sizeof text, real ? "%.1f" : "%.0f", v);
        return json_add_raw(to, key, text);
    }
    if ((double)(float)v != v) return json_add_num(to, key, v);
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtof(text, NULL) == (float)v) break;
    }
    return json_add_num(to, key, strtod(text, NULL));
}

static json *add_json_value(json *to, const char *key, const value *v, const expr *words, bool real)
{
    switch (v->kind) {
    case VALUE_NUMBER: return add_json_number(to, key, v->number, real);
    case VALUE_BOOL: return json_add_bool(to, key, v->number != 0);
    case VALUE_TEXT: return json_add_str(to, key, translate_back(words, v->text));
    case VALUE_NODE: return json_add_copy(to, key, v->node);
    case VALUE_NONE: return json_add_null(to, key);
    case VALUE_LIST: break;
    }
    json *list = json_add_array(to, key);
    for (size_t i = 0; list && i < value_count(v); i++) {
        value item = value_at(v, i);
        if (!add_json_value(list, NULL, &item, words, real)) return NULL;
    }
    return list;
}

static bool is_whole(double v) { return v == floor(v) && fabs(v) <= INT32_MAX; }

/* A list of numbers or of truths; others have no form there. */
static void add_gguf_list(exporter *x, const char *key, const value *v, bool real)
{
    buf packed = {0};
    bool whole = !real, truths = !real;
    for (size_t i = 0; i < value_count(v); i++) {
        value item = value_at(v, i);
        if (item.kind != VALUE_NUMBER && item.kind != VALUE_BOOL) return;
        whole &= is_whole(item.number);
        truths &= item.kind == VALUE_BOOL;
    }
    for (size_t i = 0; i < value_count(v); i++) {
        double item = value_at(v, i).number;
        float f = (float)item;
        if (whole) buf_uint(&packed, (uint64_t)(int64_t)item, truths ? 1 : 4);
        else buf_add(&packed, &f, 4);
    }
    x->pairs.bad |= packed.bad;
    gguf_type type = truths ? GGUF_BOOL : whole ? GGUF_I32 : GGUF_F32;
    gguf_add_array(&x->pairs, key, type, value_count(v), buf_span(&packed));
    buf_free(&packed);
}

/* GGUF has the words of specs ("none" for the "default" rope of config.json). */
static void add_gguf_value(exporter *x, const char *key, const value *v, bool real)
{
    bool whole = v->kind == VALUE_NUMBER && is_whole(v->number) && !real;
    bool list = v->kind == VALUE_LIST || (v->kind == VALUE_NODE && json_type(v->node) == JSON_ARRAY);
    if (v->kind == VALUE_TEXT) gguf_add_text(&x->pairs, key, v->text);
    else if (v->kind == VALUE_BOOL) gguf_add_uint(&x->pairs, key, GGUF_BOOL, v->number != 0);
    else if (whole) gguf_add_uint(&x->pairs, key, v->number < 0 ? GGUF_I32 : GGUF_U32, (uint64_t)(int64_t)v->number);
    else if (v->kind == VALUE_NUMBER) gguf_add_float(&x->pairs, key, (float)v->number);
    else if (list) add_gguf_list(x, key, v, real);
}

/* ---- where it goes */

/* The object of config.json that a path of n bytes leads to, made where it is missing. */
static int object_at(exporter *x, const char *path, size_t n, json **out)
{
    *out = x->config;
    while (n) {
        size_t k = strcspn(path, ".");
        k = k < n ? k : n;
        const char *key = arena_strn(&x->mem, path, k);
        const json *have = key ? json_get(*out, key) : NULL;
        *out = !key ? NULL : have ? (json *)have : json_add_object(*out, key);
        if (!*out) return export_oom(x);
        if (json_type(*out) != JSON_OBJECT)
            return err_set(x->e, ERR_SPEC, "%s: config.json has a key '%s' that is no object", x->names->file, key);
        k += k < n;
        path += k;
        n -= k;
    }
    return OK;
}

/* Puts a value under a path of n bytes, unless something is there. */
static int put_path(exporter *x, const char *path, size_t n, const value *v, const expr *words, bool real)
{
    json *to = NULL;
    size_t head = n;
    while (head && path[head - 1] != '.') head--;
    const char *key = arena_strn(&x->mem, path + head, n - head);
    int rc = key ? object_at(x, path, head ? head - 1 : 0, &to) : export_oom(x);
    if (rc || json_get(to, key)) return rc;
    return add_json_value(to, key, v, words, real || wants_float(key)) ? OK : export_oom(x);
}

static int put_key(exporter *x, const char *key, const value *v)
{
    return put_path(x, key, strlen(key), v, NULL, false);
}

/* The path of the object that a head such as `scaling` stands for, its last alternative; *out NULL: it is none. */
static int path_of(exporter *x, const char *head, const char **out)
{
    const spec_row *row;
    int rc = spec_value(x->names, "config", head, &row, x->e);
    const expr *v = rc || !row ? NULL : row->value;
    while (v && v->kind == EXPR_ELSE) v = v->arg[v->n_arg - 1];
    *out = v && v->kind == EXPR_NAME ? v->text : NULL;
    return rc;
}

/* `name` is what the spec calls it. */
static int put_hf(exporter *x, const char *key, const char *name, const value *v, const expr *words)
{
    const char *dot = strchr(key, '.'), *full = key, *path = NULL;
    if (dot) {
        const char *head = arena_strn(&x->mem, key, (size_t)(dot - key));
        int rc = head ? path_of(x, head, &path) : export_oom(x);
        if (rc || !path) return rc; /* no line names the nested key: its plain form or a default serves */
        full = arena_printf(&x->mem, "%s%s", path, dot);
    }
    const bool real = module_option(name, PARAM_FLOAT) || str_ends(key, "_multiplier"); /* classes refuse 1 for 1.0 */
    return full ? put_path(x, full, strlen(full), v, words, real) : export_oom(x);
}

/* Whether a metadata key of GGUF has no architecture in front. */
static bool gguf_key_is_whole(const char *key)
{
    static const char *const starts[] = {"general.", "tokenizer.", "xielu."};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(key, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

static int put_gguf(exporter *x, const char *key, const char *name, const value *v)
{
    bool whole = gguf_key_is_whole(key);
    const char *full = whole ? key : arena_printf(&x->mem, "%s.%s", x->arch, key);
    for (size_t i = 0; full && i < x->pairs.n; i++)
        if (strcmp(x->pairs.pair[i].key, full) == 0) return OK;
    if (full) add_gguf_value(x, full, v, module_option(name, PARAM_FLOAT) || wants_float(key));
    return !full || x->pairs.bad ? export_oom(x) : OK;
}

static int put_value(exporter *x, const out_key *to, const char *name, const value *v)
{
    return x->kind == EXPORT_HF ? put_hf(x, to->key, name, v, to->words) : put_gguf(x, to->key, name, v);
}

/* ---- architecture */

/* A copy of a word, NULL of none. */
static int keep_word(exporter *x, span word, const char **out)
{
    *out = word.n ? arena_strn(&x->mem, (const char *)word.p, word.n) : NULL;
    return word.n && !*out ? export_oom(x) : OK;
}

int export_find_names(exporter *x)
{
    const char *source = x->kind == EXPORT_GGUF ? "gguf" : "";
    x->names = x->s;
    for (int depth = 0; depth < SPEC_DEPTH_MAX; depth++) {
        const char *base = spec_text(x->names, "model", "base");
        int rc = keep_word(x, export_arch_word(x->names, source, false), &x->arch);
        if (!rc) rc = keep_word(x, export_arch_word(x->names, "", true), &x->model_type);
        if (rc) return rc;
        if (x->arch || !base) break;
        spec *next;
        if ((rc = spec_load_base(&next, x->names, base, x->e))) return rc;
        spec_free(x->base);
        x->names = x->base = next;
    }
    if (x->arch) return OK;
    return err_set(x->e, ERR_SPEC, "%s: [model] arch has no %s name, nor has a base; %s", x->s->file, export_source(x),
                   export_hint(x->m, x->kind));
}

static int add_ids(exporter *x)
{
    const model *m = x->m;
    if (x->kind == EXPORT_GGUF) {
        if (m->bos >= 0) gguf_add_uint(&x->pairs, "tokenizer.ggml.bos_token_id", GGUF_U32, (uint64_t)m->bos);
        if (m->n_eos) gguf_add_uint(&x->pairs, "tokenizer.ggml.eos_token_id", GGUF_U32, (uint64_t)m->eos[m->n_eos - 1]);
        return x->pairs.bad ? export_oom(x) : OK;
    }
    value bos = m->bos >= 0 ? (value){.kind = VALUE_NUMBER, .number = m->bos} : (value){0};
    value eos[sizeof m->eos / sizeof *m->eos];
    int rc = put_key(x, "bos_token_id", &bos);
    for (int i = 0; i < m->n_eos; i++) eos[i] = (value){.kind = VALUE_NUMBER, .number = m->eos[i]};
    value list = {.kind = VALUE_LIST, .items = eos, .n = (size_t)m->n_eos};
    if (rc || m->n_eos == 0) return rc;
    return put_key(x, "eos_token_id", m->n_eos == 1 ? &eos[0] : &list);
}

/* The class of layers that a section is about, and the first layer in it; -1: none. */
static int first_layer(const exporter *x, const char *section, size_t *class)
{
    for (size_t k = 0; k < x->s->n_class; k++)
        for (int i = 0; i < config_layers(x->values) && strcmp(x->s->classes[k].section, section) == 0; i++)
            if (config_in_class(x->values, *class = k, i)) return i;
    return OUTSIDE;
}

/* A value for each layer: of a name, or whether the layer is in the class. */
static int list_of(exporter *x, const char *name, size_t class, value *out)
{
    size_t n = (size_t)config_layers(x->values);
    value *items = arena_array(&x->mem, n, sizeof *items);
    if (!items) return export_oom(x);
    for (size_t i = 0; i < n; i++) {
        items[i] = (value){.kind = VALUE_BOOL, .number = !name && config_in_class(x->values, class, (int)i)};
        bool trained = false;
        int rc = name ? export_trained_value(x, name, (int)i, &items[i], &trained) : OK;
        if (!rc && name && !trained) rc = config_name(x->values, name, (int)i, &items[i], x->e);
        if (rc) return rc;
        if (items[i].kind != VALUE_NUMBER && items[i].kind != VALUE_BOOL) return OK;
    }
    *out = (value){.kind = VALUE_LIST, .items = items, .n = n};
    return OK;
}

/* The value that a line of [config], or of a class of layers, has. */
static int value_of_line(exporter *x, const spec_row *row, const out_key *to, value *out)
{
    size_t class = 0;
    if (strcmp(row->section, "config") != 0) {
        int layer = first_layer(x, row->section, &class);
        bool where = strcmp(row->key, "where") == 0;
        if (layer == OUTSIDE || where != to->each) return OK;
        return where ? list_of(x, NULL, class, out) : config_name(x->values, row->key, layer, out, x->e);
    }
    if (!config_knows(x->values, row->key)) return OK;
    bool known;
    int rc = export_rope_value(x, row->key, out, &known);
    if (rc || known) return rc;
    return to->each ? list_of(x, row->key, class, out) : value_of(x, row->key, out);
}

/* Lines that can have a key: those of [config] and of classes of layers. */
static bool has_line(const spec_row *row)
{
    bool class = strncmp(row->section, "layer ", 6) == 0 && strcmp(row->key, "block") != 0;
    return class || strcmp(row->section, "config") == 0;
}

static int add_lines(exporter *x)
{
    for (size_t i = 0; i < x->names->n; i++) {
        const spec_row *row = &x->names->rows[i];
        out_key to = {0};
        value v = {0};
        if (!has_line(row)) continue;
        int rc = spec_value(x->names, row->section, row->key, &row, x->e);
        if (rc) return rc;
        if (!row) continue; /* its name is too long to be found */
        find_key(x, row->value, row->key, NULL, &to);
        if (!to.key || export_rope_leaves_out(x, to.key)) continue;
        if ((rc = value_of_line(x, row, &to, &v))) return rc;
        if (v.kind == VALUE_NONE || (v.kind == VALUE_TEXT && strcmp(v.text, "auto") == 0)) continue;
        if ((rc = put_value(x, &to, row->key, &v))) return rc;
    }
    return OK;
}

/* ---- biases */

/* Whether an option says of the role that it has a bias: "bias_o" is that of role o, "bias_mix" those of convolutions,
 * "bias" those of all others. */
static bool tells_of(const char *option, const char *role)
{
    const char *own = strcmp(role, "o") == 0 ? "bias_o" : str_ends(role, "_kernel") ? "bias_mix" : "bias";
    return strcmp(option, own) == 0;
}

/* Whether the program has the biases of an option. */
static bool has_bias(const exporter *x, const char *slot, const char *option)
{
    size_t n = strlen(slot);
    for (uint32_t i = 0; i < x->m->prog->n_weight; i++) {
        int layer;
        bool bias;
        char path[EXPORT_SLOT];
        export_split_name(x->m->prog->weights[i].name, &layer, path, &bias);
        bool of_slot = bias && strncmp(path, slot, n) == 0 && path[n] == '.' && !strchr(path + n + 1, '.');
        if (of_slot && tells_of(option, path + n + 1)) return true;
    }
    return false;
}

/* The value of an option; one that is left to the checkpoint ("auto") is what the program has. */
static int value_of_option(exporter *x, const spec_slot *slot, const slot_option *o, value *out)
{
    size_t class;
    bool layer = strcmp(slot->section, "network") != 0;
    int at = layer ? first_layer(x, slot->section, &class) : OUTSIDE;
    if (layer && at == OUTSIDE) return OK;
    err unknown = {0}; /* then it has no value here */
    if (config_value(x->values, o->value, at, "auto", o->where, out, &unknown)) *out = (value){0};
    if (unknown.code == ERR_MEMORY) return export_oom(x);
    if (out->kind == VALUE_TEXT) *out = (value){.kind = VALUE_BOOL, .number = has_bias(x, slot->name, o->key)};
    return OK;
}

/* `bias = attention_bias | auto`: the last alternative is the default without a key. */
static int add_biases(exporter *x)
{
    for (size_t i = 0; i < x->names->n_slot; i++)
        for (size_t k = 0; k < x->names->slots[i].n; k++) {
            const slot_option *o = &x->names->slots[i].options[k];
            out_key to = {0};
            value v = {0};
            bool bias = strcmp(o->key, "bias") == 0 || strncmp(o->key, "bias_", 5) == 0;
            if (bias && o->value->kind == EXPR_ELSE) find_key(x, o->value, o->key, NULL, &to);
            if (!to.key) continue;
            int rc = value_of_option(x, &x->names->slots[i], o, &v);
            if (!rc && v.kind != VALUE_NONE) rc = put_value(x, &to, o->key, &v);
            if (rc) return rc;
        }
    return OK;
}

/* ---- lines of [config.json] and [gguf] */

/* The value of "KEY" or, for a list with an element for each layer, "KEY[i]". */
static int value_of_key(exporter *x, const spec_row *row, bool each, value *out)
{
    size_t n = each ? (size_t)config_layers(x->values) : 1;
    value *items = arena_array(&x->mem, n, sizeof *items);
    if (!items) return export_oom(x);
    for (size_t i = 0; i < n; i++) {
        int rc = config_value(x->values, row->value, each ? (int)i : OUTSIDE, NULL, row->where, &items[i], x->e);
        if (rc) return rc;
    }
    *out = each ? (value){.kind = VALUE_LIST, .items = items, .n = n} : items[0];
    return OK;
}

static int add_keys(exporter *x)
{
    const char *section = x->kind == EXPORT_HF ? "config.json" : "gguf";
    for (size_t i = 0; i < x->names->n; i++) {
        const spec_row *row = &x->names->rows[i];
        value v = {0};
        if (strcmp(row->section, section) != 0) continue;
        int rc = spec_value(x->names, row->section, row->key, &row, x->e);
        if (rc) return rc;
        if (!row) continue; /* its name is too long to be found */
        bool each = str_ends(row->key, "[i]");
        const char *key = arena_strn(&x->mem, row->key, strlen(row->key) - (each ? 3 : 0));
        rc = key ? value_of_key(x, row, each, &v) : export_oom(x);
        if (!rc) rc = x->kind == EXPORT_HF ? put_key(x, key, &v) : put_gguf(x, key, "", &v);
        if (rc) return rc;
    }
    return OK;
}

/* A line of [gguf] may say which architecture of several a model is. */
static int choose_arch(exporter *x)
{
    const spec_row *row = spec_find(x->names, "gguf", "general.architecture");
    value v = {0};
    int rc = row ? value_of_key(x, row, false, &v) : OK;
    if (!rc && v.kind == VALUE_TEXT) x->arch = v.text;
    return rc;
}

static int add_name(exporter *x)
{
    if (x->kind == EXPORT_GGUF) {
        int rc = choose_arch(x);
        if (rc) return rc;
        gguf_add_text(&x->pairs, "general.architecture", x->arch);
        gguf_add_text(&x->pairs, "general.name", x->m->name);
        gguf_add_uint(&x->pairs, "general.quantization_version", GGUF_U32, 2);
        return x->pairs.bad ? export_oom(x) : OK;
    }
    value name = {.kind = VALUE_TEXT, .text = x->arch}, list = {.kind = VALUE_LIST, .items = &name, .n = 1};
    value type = {.kind = VALUE_TEXT, .text = x->model_type};
    int rc = put_key(x, "architectures", &list);
    return rc || !x->model_type ? rc : put_key(x, "model_type", &type);
}

int export_rename_config(exporter *x)
{
    value magnitude;
    int rc = OK;
    if (x->kind == EXPORT_HF && !(x->config = json_new_object())) return export_oom(x);
    if (x->kind == EXPORT_GGUF) rc = add_name(x);
    if (!rc) rc = add_keys(x);
    if (!rc && x->kind == EXPORT_HF) rc = add_name(x);
    if (!rc && export_rope_magnitude(x, &magnitude)) rc = put_gguf(x, "rope.scaling.attn_factor", "", &magnitude);
    if (!rc) rc = add_lines(x);
    if (!rc) rc = add_biases(x);
    return rc ? rc : add_ids(x);
}
