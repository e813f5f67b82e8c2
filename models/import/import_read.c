/* import_read.c - model_spec.json of the original engine into a struct: its keys as rows, its values checked.
 *
 * The file is JSON, after any number of blank lines and lines that start with '#'. Unknown keys are ignored there,
 * so they become remarks here. Names become parts of spec lines and are therefore limited to the letters of tensor
 * names. */
#include "models/import/import_state.h"

#include "base/mem.h"
#include "base/param.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { RULES_MAX = 4096, NAME_MAX_BYTES = 200 };

#define ROW(field, kind, ...)          PARAM_ROW(original, field, kind, __VA_ARGS__)
#define COUNT(field, otherwise_, max_) ROW(field, PARAM_INT, .otherwise = otherwise_, .min = -1, .max = max_)
#define REAL(field, otherwise_)        ROW(field, PARAM_FLOAT, .otherwise = otherwise_, .min = -1e15, .max = 1e15)
#define TEXT(field, otherwise_)        ROW(field, PARAM_TEXT, .otherwise = otherwise_)

static const param top_rows[] = {
    TEXT(config_file, ""),
    TEXT(model_file_format, ""),
    TEXT(token_remap_file, ""),
    TEXT(unk_token, ""),
    TEXT(pad_token, ""),
    TEXT(bos_token, ""),
    TEXT(eos_token, ""),
    TEXT(tokenizer_file, ""),
    ROW(tokenization_algorithm, PARAM_WORD, .otherwise = "bpe", .words = "std|auto|bpe|fmm|fmm2|ulm"),
    TEXT(generation_config, ""),
    COUNT(vocab_size, "0", 1 << 26),
    COUNT(input_vocab_size, "0", 1 << 26),
    COUNT(padded_vocab_size, "0", 1 << 26),
    COUNT(output_vocab_size, "0", 1 << 26),
    COUNT(token_bytes_mapping, "0", 1 << 26),
};
static const param network_rows[] = {
    ROW(normalization_function, PARAM_WORD, .otherwise = "std", .words = "std|rms|linear"),
    ROW(activation_function, PARAM_WORD, .otherwise = "silu", .words = "sigmoid|elu|relu|gelu|silu|glu_silu"),
    ROW(position_embedding, PARAM_WORD, .otherwise = "rope", .words = "empty|rope|alibi|sinusoidal|sinusoidal2"),
    TEXT(tensor_name_prefix, NULL),
    COUNT(pos_embedding_offset, "0", 1 << 16),
    COUNT(rope_dim, "-1", 1 << 16),
    COUNT(qk_column_order, "0", 2),
    COUNT(qkv_format, "0", 1),
    COUNT(expert_count, "0", 1 << 16),
    COUNT(using_expert_count, "0", 1 << 16),
    COUNT(moe_top_k, "0", 1 << 16),
    COUNT(moe_layer_start, "0", 1 << 16),
    COUNT(moe_layer_end, "-1", 1 << 16),
    REAL(rope_theta, "0"),
    REAL(partial_rotary_factor, "1"),
    REAL(kq_scale, "1"),
    REAL(attn_pre_norm_base, "0"),
    REAL(ffn_pre_norm_base, "0"),
    REAL(output_norm_base, "0"),
    REAL(embedding_linear_scale, "0"),
    REAL(attn_out_scale, "1"),
    REAL(ffn_out_scale, "1"),
    REAL(out_scale, "1"),
    ROW(normalize_lm_head, PARAM_BOOL),
    ROW(use_self_attn_pre_norm, PARAM_BOOL, .otherwise = "true"),
    ROW(is_attn_post_as_residual, PARAM_BOOL, .otherwise = "true"),
    ROW(is_parallel_attn, PARAM_BOOL),
    ROW(mlp_attn_share_input, PARAM_BOOL),
    ROW(has_embedding_linear_norm, PARAM_BOOL),
    ROW(linear_norm_before_sinusoidal, PARAM_BOOL, .otherwise = "true"),
    ROW(moe_norm_top_k_prob, PARAM_BOOL, .otherwise = "true"),
    ROW(has_shared_expert, PARAM_BOOL),
};
enum { N_TOP = sizeof top_rows / sizeof *top_rows, N_NETWORK = sizeof network_rows / sizeof *network_rows };

static const struct {
    const char *name;
    original_type type;
    bool moe;
} type_rows[] = {{"transformer", ORIGINAL_PAIR, false},
                 {"transformer.encoder_decoder", ORIGINAL_PAIR, false},
                 {"transformer.encoder_only", ORIGINAL_ENCODER, false},
                 {"bert", ORIGINAL_ENCODER, false},
                 {"transformer.decoder_only", ORIGINAL_DECODER, false},
                 {"transformer.decoder_only.sparse_moe", ORIGINAL_DECODER, true},
                 {"llama", ORIGINAL_LLAMA, false},
                 {"transformer.llama", ORIGINAL_LLAMA, false},
                 {"bloom", ORIGINAL_BLOOM, false},
                 {"transformer.bloom", ORIGINAL_BLOOM, false}};

static int set_value(original *o, const param *row, const json *j, err *e)
{
    char where[300];
    snprintf(where, sizeof where, "%.200s: %s", o->what, row->key);
    switch (json_type(j)) {
    case JSON_NUMBER:
        if (row->type == PARAM_BOOL) return param_set(row, o, json_num(j, 0) != 0 ? "true" : "false", where, e);
        return param_set_number(row, o, json_num(j, 0), where, e);
    case JSON_BOOL:
        if (row->type == PARAM_INT) return param_set_number(row, o, json_bool(j, false), where, e);
        return param_set(row, o, json_bool(j, false) ? "true" : "false", where, e);
    case JSON_STRING: {
        const char *text = json_str(j, "");
        if (row->type == PARAM_WORD && !*text)
            text = strcmp(row->key, "position_embedding") == 0 ? "empty" : row->otherwise;
        if (!(text = arena_str(&o->mem, text))) return err_memory(e, NULL);
        return param_set(row, o, text, where, e);
    }
    default: return err_set(e, ERR_FORMAT, "%s: expected a single value", where);
    }
}

static void remark_unknown(original *o, const char *key)
{
    buf_str(&o->remarks, "# left out: ");
    for (size_t i = 0; key[i] && i < NAME_MAX_BYTES; i++)
        buf_byte(&o->remarks, (unsigned char)key[i] < 32 || key[i] == 127 ? '?' : (uint8_t)key[i]);
    buf_str(&o->remarks, ", which is no key (the original ignores it too)\n");
}

/* Keys with rows go where the rows say; others that are not in `known` become a remark. */
static int read_keys(original *o, const json *object, const param *rows, size_t n, const char *known, err *e)
{
    int rc = OK;
    for (const json *m = json_first(object); m && !rc; m = json_next(m)) {
        const char *key = json_key(m), *at = strstr(known, key);
        const param *row = NULL;
        for (size_t i = 0; i < n && !row; i++)
            if (strcmp(rows[i].key, key) == 0) row = &rows[i];
        size_t length = strlen(key);
        bool elsewhere = at && length && (at == known || at[-1] == ' ') && (!at[length] || at[length] == ' ');
        if (row) rc = set_value(o, row, m, e);
        else if (!elsewhere) remark_unknown(o, key);
    }
    return rc;
}

static bool name_is_plain(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > NAME_MAX_BYTES) return false;
    for (const char *p = s; *p; p++) {
        if (strncmp(p, "{i}", 3) == 0 || strncmp(p, "{j}", 3) == 0) p += 2;
        else if (!isalnum((unsigned char)*p) && !strchr("._-/", *p)) return false;
    }
    return true;
}

static int add_rule(original *o, const char *source, const char *to, err *e)
{
    if (!name_is_plain(source) || !name_is_plain(to))
        return err_set(e, ERR_FORMAT, "%s: tensor_name_mapping: '%.80s' to '%.80s' is not a name of tensors", o->what,
                       source, to);
    if (o->n_rule == RULES_MAX) return err_set(e, ERR_LIMIT, "%s: more than %d mapped names", o->what, RULES_MAX);
    name_rule r = {arena_str(&o->mem, source), arena_str(&o->mem, to)};
    if (!r.source || !r.target || !mem_grow((void **)&o->rules, &o->cap_rule, o->n_rule + 1, sizeof *o->rules))
        return err_memory(e, NULL);
    o->rules[o->n_rule++] = r;
    return OK;
}

/* Names that the original's specs were written for and transformers has changed since: files of both have to work. */
static const char *const newer[][2] = {{".gamma", ".weight"},
                                       {".beta", ".bias"},
                                       {"layer_norm.weight", "final_layer_norm.weight"},
                                       {"layer_norm.bias", "final_layer_norm.bias"}};

/* The last norm of OPT was decoder.layer_norm; LayerNorm.gamma and .beta of BERT are .weight and .bias. */
static int add_newer_names(original *o, err *e)
{
    int rc = OK;
    for (size_t i = 0, n = o->n_rule; i < n && !rc; i++)
        for (size_t k = 0; k < sizeof newer / sizeof *newer && !rc; k++) {
            const char *source = o->rules[i].source;
            size_t length = strlen(source), old = strlen(newer[k][0]);
            char name[NAME_MAX_BYTES + 40];
            bool whole = *newer[k][0] != '.', last = strncmp(o->rules[i].target, "dec.output_norm.", 16) == 0;
            if (length < old || strcmp(source + length - old, newer[k][0]) != 0 || (whole && (length > old || !last)))
                continue;
            snprintf(name, sizeof name, "%.*s%s", (int)(length - old), source, newer[k][1]);
            if (strlen(name) <= NAME_MAX_BYTES) rc = add_rule(o, name, o->rules[i].target, e);
        }
    return rc;
}

/* Names that are changed before the mapping: each is another name for the target of the new name. */
static int add_renamed(original *o, const json *pre, err *e)
{
    int rc = OK;
    size_t n = o->n_rule, prefix = o->tensor_name_prefix ? strlen(o->tensor_name_prefix) : 0;
    for (const json *m = json_first(pre); m && !rc; m = json_next(m)) {
        const char *to = json_str(m, ""), *target = NULL;
        for (size_t i = 0; i < n && !target; i++) {
            bool prefixed = prefix && strncmp(to, o->tensor_name_prefix, prefix) == 0 &&
                            strcmp(to + prefix, o->rules[i].source) == 0;
            if (prefixed || strcmp(o->rules[i].source, to) == 0) target = o->rules[i].target;
        }
        if (!target)
            return err_set(e, ERR_SPEC,
                           "%s: tensor_name_pre_mapping: '%.80s' is renamed to '%.80s', which no line of "
                           "tensor_name_mapping has: map the first name there",
                           o->what, json_key(m), to);
        rc = add_rule(o, json_key(m), target, e);
    }
    return rc;
}

static int read_type(original *o, const json *network, err *e)
{
    const char *type = json_str(json_get(network, "type"), "");
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        if (strcmp(type_rows[i].name, type) != 0) continue;
        o->network = type_rows[i].name;
        o->type = type_rows[i].type;
        o->moe = type_rows[i].moe;
        if (o->type == ORIGINAL_LLAMA) o->normalization_function = "rms";
        if (o->type == ORIGINAL_BLOOM) o->activation_function = "gelu", o->position_embedding = "alibi";
        return OK;
    }
    if (strcmp(type, "general") == 0)
        return err_set(e, ERR_SPEC, "%s: network_structure type 'general' does not say what the layers are", o->what);
    return err_set(e, ERR_FORMAT, "%s: network_structure type '%.60s' is none of the original's", o->what, type);
}

static int first_text(original *o, const json *list, const char **out, err *e)
{
    const char *text = json_str(json_type(list) == JSON_ARRAY ? json_first(list) : list, "");
    *out = arena_str(&o->mem, text);
    return *out ? OK : err_memory(e, NULL);
}

/* What a path in a spec cannot hold. */
static int check_path(const original *o, const char *key, const char *text, err *e)
{
    size_t n = strlen(text);
    bool odd = n && (isspace((unsigned char)text[0]) || isspace((unsigned char)text[n - 1]));
    for (size_t i = 0; i < n; i++) odd |= (unsigned char)text[i] < 32 || text[i] == 127;
    return odd ? err_set(e, ERR_FORMAT, "%s: %s: a file name with control characters or blanks at an end", o->what, key)
               : OK;
}

static int read_all(original *o, const json *root, err *e)
{
    const json *network = json_get(root, "network_structure");
    int rc = OK;
    param_defaults(top_rows, N_TOP, o);
    param_defaults(network_rows, N_NETWORK, o);
    if (json_type(network) != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "%s: no network_structure: this is not a model_spec.json", o->what);
    rc = read_type(o, network, e);
    if (!rc) rc = read_keys(o, root, top_rows, N_TOP, "COMMENTS model_files tokenizer_files network_structure", e);
    if (!rc)
        rc = read_keys(o, network, network_rows, N_NETWORK, "COMMENTS type tensor_name_mapping tensor_name_pre_mapping",
                       e);
    if (!rc) rc = first_text(o, json_get(root, "model_files"), &o->model_file, e);
    if (!rc) rc = first_text(o, json_get(root, "tokenizer_files"), &o->tokenizer, e);
    if (rc) return rc;
    if (!*o->tokenizer) o->tokenizer = o->tokenizer_file;
    if (!o->tensor_name_prefix) o->tensor_name_prefix = strcmp(o->model_file_format, "gguf") == 0 ? "blk." : "";
    if (*o->tensor_name_prefix && !name_is_plain(o->tensor_name_prefix))
        return err_set(e, ERR_FORMAT, "%s: tensor_name_prefix '%.60s' is not a name", o->what, o->tensor_name_prefix);
    const json *maps = json_get(network, "tensor_name_mapping");
    for (const json *m = json_first(maps); m && !rc; m = json_next(m))
        rc = add_rule(o, json_key(m), json_str(m, ""), e);
    if (!rc) rc = add_newer_names(o, e);
    if (!rc) rc = add_renamed(o, json_get(network, "tensor_name_pre_mapping"), e);
    if (!rc) rc = check_path(o, "config_file", o->config_file, e);
    if (!rc) rc = check_path(o, "model_files", o->model_file, e);
    return rc ? rc : check_path(o, "tokenizer_files", o->tokenizer, e);
}

int original_read(original *o, span text, const char *what, err *e)
{
    json *root;
    *o = (original){.what = what};
    while (text.n) {
        const uint8_t *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) + 1 : text.n, i = 0;
        while (i < n && isspace(text.p[i])) i++;
        if (i < n && text.p[i] != '#') break;
        text = span_of(text.p + n, text.n - n);
    }
    int rc = json_parse(&root, text, what, e);
    if (rc) return rc;
    rc = read_all(o, root, e);
    json_free(root);
    return rc;
}

void original_free(original *o)
{
    mem_free(o->rules);
    buf_free(&o->remarks);
    arena_free(&o->mem);
    *o = (original){0};
}
