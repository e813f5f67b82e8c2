/* export_config.c - hyper-parameters under the keys of another container: [config] read backwards.
 *
 * A line such as `kv_heads = num_key_value_heads | gguf:attention.head_count_kv | heads` tells which key the value has in config.json
 * and in GGUF. Words are translated back ({gelu_new: gelu.tanh}). A dotted name whose head is itself a line (scaling.factor, with
 * scaling = rope_parameters | rope_scaling) goes into the object that the head names last. Values that the line computes
 * (dim / heads) are written too, so that nothing depends on a default. */
#include "base/mem.h"
#include "models/export_state.h"
#include "models/spec_split.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* GGUF keys end in these where the reader of that format demands a float, whatever the value is. */
static const char *const float_endings[] = {"epsilon",     "freq_base", "factor",         "scale",   "softcapping",
                                            "attn_factor", "clamp_kqv", "max_alibi_bias", "bias_max"};

/* ---- which key */

static bool is_config_name(const exporter *x, const char *name, const char *own)
{
    return strcmp(name, own) != 0 && hyper_knows(x->h, name);
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

/* What a line says: the key, the words to translate back. Plain keys are preferred to dotted ones. */
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
    bool each = v->kind == EXPR_INDEX && x->kind == EXPORT_GGUF && v->arg[1]->kind == EXPR_NAME &&
                strcmp(v->arg[1]->text, "i") == 0;
    const char *key = key_of(x, each ? v->arg[0] : v, own);
    bool better = key && (!best->key || (strchr(best->key, '.') && !strchr(key, '.') && x->kind == EXPORT_HF));
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
    err outside = {0}; /* it may need i: then it has no value outside layers */
    if (hyper_name(x->h, name, OUTSIDE, out, &outside)) *out = (value){0};
    bool tied = out->kind == VALUE_TEXT && strcmp(name, "tied") == 0;
    if (tied) *out = (value){.kind = VALUE_BOOL, .number = !has_head(x)}; /* "auto" */
    if (out->kind != VALUE_NONE || hyper_layers(x->h) == 0) return OK;
    return hyper_name(x->h, name, 0, out, x->e);
}

static json *add_json_value(json *to, const char *key, const value *v, const expr *words)
{
    switch (v->kind) {
    case VALUE_NUMBER: return json_add_num(to, key, v->number);
    case VALUE_BOOL: return json_add_bool(to, key, v->number != 0);
    case VALUE_TEXT: return json_add_str(to, key, translate_back(words, v->text));
    case VALUE_NODE: return json_add_copy(to, key, v->node);
    default: break;
    }
    json *list = json_add_array(to, key);
    for (size_t i = 0; list && i < value_count(v); i++) {
        value item = value_at(v, i);
        if (!add_json_value(list, NULL, &item, words)) return NULL;
    }
    return list;
}

static bool wants_float(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < sizeof float_endings / sizeof *float_endings; i++) {
        size_t k = strlen(float_endings[i]);
        if (n >= k && strcmp(key + n - k, float_endings[i]) == 0) return true;
    }
    return false;
}

/* Words are those that specs think in, as GGUF has them ("none" for what config.json calls a "default" rope). */
static void add_gguf_value(exporter *x, const char *key, const value *v)
{
    bool whole = v->kind == VALUE_NUMBER && v->number == floor(v->number) && fabs(v->number) <= INT32_MAX &&
                 !wants_float(key);
    if (v->kind == VALUE_TEXT) gguf_add_text(&x->pairs, key, v->text);
    else if (v->kind == VALUE_BOOL) gguf_add_uint(&x->pairs, key, GGUF_BOOL, v->number != 0);
    else if (whole) gguf_add_uint(&x->pairs, key, v->number < 0 ? GGUF_I32 : GGUF_U32, (uint64_t)(int64_t)v->number);
    else if (v->kind == VALUE_NUMBER) gguf_add_float(&x->pairs, key, (float)v->number);
    else if (v->kind == VALUE_LIST || v->kind == VALUE_NODE) {
        buf packed = {0};
        bool ints = true, truths = true;
        for (size_t i = 0; i < value_count(v); i++) {
            ints &= value_at(v, i).number == floor(value_at(v, i).number);
            truths &= value_at(v, i).kind == VALUE_BOOL;
        }
        for (size_t i = 0; i < value_count(v); i++) {
            float f = (float)value_at(v, i).number;
            if (ints) buf_uint(&packed, (uint64_t)(int64_t)value_at(v, i).number, truths ? 1 : 4);
            else buf_add(&packed, &f, 4);
        }
        x->pairs.bad |= packed.bad;
        gguf_add_array(&x->pairs, key,
                       truths ? GGUF_BOOL
                       : ints ? GGUF_I32
                              : GGUF_F32,
                       value_count(v), buf_span(&packed));
        buf_free(&packed);
    }
}

/* ---- where it goes */

/* The object of config.json that a head such as `scaling` stands for. */
static json *object_of(exporter *x, const char *head)
{
    const spec_row *row;
    const char *name = NULL;
    if (spec_value(x->names, "config", head, &row, x->e) || !row) return NULL;
    for (const expr *v = row->value; v;) {
        const expr *last = v->kind == EXPR_ELSE ? v->arg[v->n_arg - 1] : v;
        name = last->kind == EXPR_NAME ? last->text : name;
        v = last != v ? last : NULL;
    }
    if (!name) return NULL;
    const json *have = json_get(x->config, name);
    return have ? (json *)have : json_add_object(x->config, name);
}

static int put_hf(exporter *x, const char *key, const value *v, const expr *words)
{
    json *to = x->config;
    const char *dot = strchr(key, '.');
    char head[64];
    if (dot) {
        snprintf(head, sizeof head, "%.*s", (int)(dot - key), key);
        if (!hyper_knows(x->h, head))
            return OK; /* a nested key that no line names: its plain form or a default serves */
        to = object_of(x, head);
        key = dot + 1;
    }
    if (!to) return export_short_of_memory(x);
    if (json_get(to, key)) return OK;
    return add_json_value(to, key, v, words) ? OK : export_short_of_memory(x);
}

static int put_gguf(exporter *x, const char *key, const value *v)
{
    char full[160];
    bool whole = gguf_key_is_whole(key);
    snprintf(full, sizeof full, "%s%s%s", whole ? "" : x->arch, whole ? "" : ".", key);
    for (size_t i = 0; i < x->pairs.n; i++)
        if (strcmp(x->pairs.pair[i].key, full) == 0) return OK;
    add_gguf_value(x, full, v);
    return x->pairs.bad ? export_short_of_memory(x) : OK;
}

/* ---- architecture */

/* A word of [model] arch: for GGUF the one with that source; for HF the class name, or the model_type in small letters. */
static const char *arch_word(exporter *x, const spec *s, const char *source, bool small)
{
    const char *list = spec_text(s, "model", "arch");
    span rest = list ? span_str(list) : (span){0}, part;
    while (split_next(&rest, ',', &part)) {
        const uint8_t *colon = memchr(part.p, ':', part.n);
        if (*source) {
            size_t n = strlen(source);
            if (!colon || (size_t)(colon - part.p) != n || memcmp(part.p, source, n) != 0) continue;
            const uint8_t *plus = memchr(part.p, '+', part.n); /* a key that tells it from its namesakes */
            size_t end = plus ? (size_t)(plus - part.p) : part.n;
            return arena_strn(&x->mem, (const char *)colon + 1, end - n - 1);
        }
        bool is_small = true;
        for (size_t i = 0; i < part.n; i++) is_small &= !(part.p[i] >= 'A' && part.p[i] <= 'Z');
        if (!colon && part.n && is_small == small) return arena_strn(&x->mem, (const char *)part.p, part.n);
    }
    return NULL;
}

int export_find_names(exporter *x)
{
    const char *source = x->kind == EXPORT_GGUF ? "gguf" : "";
    x->names = x->s;
    for (int depth = 0; depth < SPEC_DEPTH_MAX; depth++) {
        const char *base = spec_text(x->names, "model", "base");
        x->arch = arch_word(x, x->names, source, false);
        x->model_type = arch_word(x, x->names, "", true);
        if (x->arch || !base) break;
        spec *next;
        int rc = spec_load_base(&next, x->names, base, x->e);
        if (rc) return rc;
        spec_free(x->base);
        x->names = x->base = next;
    }
    if (x->arch) return OK;
    return err_set(x->e, ERR_SPEC, "%s: [model] arch has no %s name, nor has a base", x->s->file, export_source(x));
}

static int add_ids(exporter *x)
{
    const model *m = x->m;
    if (x->kind == EXPORT_GGUF) {
        if (m->bos >= 0) gguf_add_uint(&x->pairs, "tokenizer.ggml.bos_token_id", GGUF_U32, (uint64_t)m->bos);
        if (m->n_eos) gguf_add_uint(&x->pairs, "tokenizer.ggml.eos_token_id", GGUF_U32, (uint64_t)m->eos[m->n_eos - 1]);
        return x->pairs.bad ? export_short_of_memory(x) : OK;
    }
    if (m->bos >= 0 && !json_add_int(x->config, "bos_token_id", m->bos)) return export_short_of_memory(x);
    if (m->n_eos == 1) return json_add_int(x->config, "eos_token_id", m->eos[0]) ? OK : export_short_of_memory(x);
    json *list = m->n_eos ? json_add_array(x->config, "eos_token_id") : NULL;
    for (int i = 0; i < m->n_eos; i++)
        if (!json_add_int(list, NULL, m->eos[i])) return export_short_of_memory(x);
    return OK;
}

/* The class of layers that a section is about, and the first layer in it; -1: none. */
static int first_layer(const exporter *x, const char *section, size_t *class)
{
    for (size_t k = 0; k < x->s->n_class; k++)
        for (int i = 0; i < hyper_layers(x->h) && strcmp(x->s->classes[k].section, section) == 0; i++)
            if (hyper_in_class(x->h, *class = k, i)) return i;
    return OUTSIDE;
}

/* A value for each layer: of a name, or whether the layer is in the class. */
static int list_of(exporter *x, const char *name, size_t class, value *out)
{
    size_t n = (size_t)hyper_layers(x->h);
    value *items = arena_array(&x->mem, n, sizeof *items);
    if (!items) return export_short_of_memory(x);
    for (size_t i = 0; i < n; i++) {
        items[i] = (value){.kind = VALUE_BOOL, .number = !name && hyper_in_class(x->h, class, (int)i)};
        int rc = name ? hyper_name(x->h, name, (int)i, &items[i], x->e) : OK;
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
        return where ? list_of(x, NULL, class, out) : hyper_name(x->h, row->key, layer, out, x->e);
    }
    if (!hyper_knows(x->h, row->key)) return OK;
    return to->each ? list_of(x, row->key, class, out) : value_of(x, row->key, out);
}

/* Lines that can have a key: those of [config], and for GGUF those of classes of layers. */
static bool has_line(const exporter *x, const spec_row *row)
{
    bool class = x->kind == EXPORT_GGUF && strncmp(row->section, "layer ", 6) == 0;
    return strcmp(row->section, "config") == 0 || (class && strstr(row->text, "gguf:"));
}

/* GGUF has the positions of Llama 3 as a tensor of factors alone. */
static bool is_left_out(const exporter *x, const char *key)
{
    const rope_params *p = export_gguf_rope(x);
    return p && p->scaling == ROPE_LLAMA3 && strncmp(key, "rope.scaling.", 13) == 0;
}

static int add_lines(exporter *x)
{
    for (size_t i = 0; i < x->names->n; i++) {
        const spec_row *row = &x->names->rows[i];
        out_key to = {0};
        value v = {0};
        if (!has_line(x, row)) continue;
        int rc = spec_value(x->names, row->section, row->key, &row, x->e);
        if (rc || !row) return rc;
        find_key(x, row->value, row->key, NULL, &to);
        if (!to.key || is_left_out(x, to.key)) continue;
        if ((rc = value_of_line(x, row, &to, &v))) return rc;
        if (v.kind == VALUE_NONE || (v.kind == VALUE_TEXT && strcmp(v.text, "auto") == 0)) continue;
        rc = x->kind == EXPORT_HF ? put_hf(x, to.key, &v, to.words) : put_gguf(x, to.key, &v);
        if (rc) return rc;
    }
    return OK;
}

/* What longrope multiplies cosines and sines by: config.json may leave it to be computed, GGUF states it. */
static int add_magnitude(exporter *x)
{
    const rope_params *p = export_gguf_rope(x);
    float unused[ROPE_DIMS_MAX / 2], magnitude;
    if (!p || p->scaling != ROPE_LONGROPE || p->short_factor == p->long_factor) return OK;
    rope_frequencies(p, 1, unused, &magnitude);
    return put_gguf(x, "rope.scaling.attn_factor", &(value){.kind = VALUE_NUMBER, .number = (double)magnitude});
}

int export_rename_config(exporter *x)
{
    if (x->kind == EXPORT_HF) {
        x->config = json_new_object();
        json *list = json_add_array(x->config, "architectures");
        if (!json_add_str(list, NULL, x->arch)) return export_short_of_memory(x);
        if (x->model_type && !json_add_str(x->config, "model_type", x->model_type)) return export_short_of_memory(x);
    } else {
        gguf_add_text(&x->pairs, "general.architecture", x->arch);
        gguf_add_text(&x->pairs, "general.name", x->m->name);
        gguf_add_uint(&x->pairs, "general.quantization_version", GGUF_U32, 2);
    }
    int rc = add_magnitude(x);
    if (!rc) rc = add_lines(x);
    return rc ? rc : add_ids(x);
}
