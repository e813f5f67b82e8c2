/* import_settings.c - how the original engine was told to run a model, as [runtime], [serve] and [generate].
 *
 * Formats of weights are those of the paper; Q8_B32T2 and Q5_B32T1 have the bytes of q8_0 and q5_1. The few that do not
 * exist here (one scale for a tensor, other divisions of the range) become the nearest, with a remark. Placement on
 * GPUs, and prompt templates in its brace language, become remarks. */
#include "models/import/import_settings.h"

#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *theirs, *ours;
    bool same;
} types[] = {
    {"f32", "f16", true},           {"fp32", "f16", true},          {"f16", "f16", true},
    {"fp16", "f16", true},          {"q8", "q8_0", true},           {"q8_b32t2", "q8_0", true},
    {"q8_b32t1", "q8_b32", true},   {"q8_gl", "q8_0", false},       {"q8_log", "q8_0", false},
    {"q6", "q6_b64", true},         {"q6_b64t1", "q6_b64", true},   {"q5", "q5_b64", true},
    {"q5_b64t1", "q5_b64", true},   {"q5_b32t1", "q5_1", true},     {"q4", "q4_b32", true},
    {"q4_b16", "q4_b32", false},    {"q4_b32t1", "q4_b32", true},   {"q4_b32t1a", "q4_b32", true},
    {"q4_b32t1b", "q4_b32", false}, {"q4_b32t2", "q4_b32", false},  {"q4_b64t1", "q4_b64", true},
    {"q3h", "q3h_b64", true},       {"q3h_b64t1", "q3h_b64", true}, {"q3", "q3_b32", true},
    {"q3_b32t1", "q3_b32", true},   {"q3_b32t1a", "q3_b32", true},  {"q3_b32t1b", "q3_b32", false},
    {"q2", "q2_b32", true},         {"q2_b32t1", "q2_b32", true},   {"q2_b32t1a", "q2_b32", true},
    {"q2_b32t1b", "q2_b32", false},
};

/* Appends "# " and the value of a key on one line, control characters as '?'. */
static void remark(buf *out, const char *key, const char *value, const char *why)
{
    buf_printf(out, "# %s = ", key);
    for (size_t i = 0; value[i] && i < 1000; i++)
        buf_byte(out, (unsigned char)value[i] < 32 || value[i] == 127 ? '?' : (uint8_t)value[i]);
    buf_printf(out, ": %s\n", why);
}

static int weights(const char *value, buf *out, buf *remarks, const char *where, err *e)
{
    if (!value || !*value) return OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(types[i].theirs, value) != 0) continue;
        buf_printf(out, "weights = %s\n", types[i].ours);
        if (!types[i].same)
            remark(remarks, "device_weight_data_type", value, "no such type here; [runtime] weights has the nearest");
        return OK;
    }
    return err_set(e, ERR_FORMAT, "%s device_weight_data_type '%.40s' is no type of the original's", where, value);
}

/* ---- [generate] */

typedef struct strategy {
    const char *name;
    const char *lines; /* of [generate]; there the names imply a pool of 50 candidates and a cap of 8 */
} strategy;

static const strategy strategies[] = {
    {"greedy", "temperature = 0\n"},
    {"top_k", "temperature = 1\ntop_k = 8\n"},
    {"min_p", "temperature = 1\ntop_k = 50\nmin_p = 0.05\n"},
};
static const char *const unknown_here[] = {"fsd", "random_fsd", "tfs", "typical", "mirostat"};

static int decoding(const char *value, buf *out, buf *remarks, const char *where, err *e)
{
    json *j = NULL;
    int rc = value && *value == '{' ? json_parse(&j, span_str(value), where, e) : OK;
    const char *name = j ? json_str(json_get(j, "name"), "") : value ? value : "";
    if (rc) return rc;
    if (strncasecmp(name, "sample.", 7) == 0) name += 7;
    for (size_t i = 0; i < sizeof unknown_here / sizeof *unknown_here; i++)
        if (strcasecmp(unknown_here[i], name) == 0)
            remark(remarks, "decoding_strategy", name, "no such sampling here; the defaults hold");
    bool done = false;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies && !done; i++) {
        done = strcasecmp(strategies[i].name, name) == 0;
        if (done) buf_str(out, strategies[i].lines);
    }
    if (!done && (!*name || strcasecmp(name, "std") == 0 || strcasecmp(name, "top_p") == 0)) {
        double top_p = json_num(json_get(j, "top_p"), 0.9);
        int64_t max_k = json_int(json_get(j, "max_k"), 8);
        buf_printf(out, "temperature = 1\ntop_k = %lld\ntop_p = %.6g\n",
                   (long long)(max_k > 0 && max_k <= 50 ? max_k : 8), top_p > 0 && top_p <= 1 ? top_p : 0.9);
    }
    json_free(j);
    return OK;
}

/* ---- prompt templates */

/* The text of a template: the value itself, or the lines of [prompt_template.NAME] where it has no braces. */
static void template(const original_service *s, const char *key, const char *value, buf *remarks)
{
    static const char *const why = "a prompt template; put prompts into it yourself: {…} are single tokens";
    char section[200], line[32];
    buf text = {0};
    snprintf(section, sizeof section, "prompt_template.%s", value);
    const char *count = strchr(value, '{') ? NULL : service_value(s, section, "line_count");
    int n = count ? atoi(count) : 0;
    for (int i = 1; i <= n && i <= 64; i++) {
        snprintf(line, sizeof line, "line%d", i);
        const char *part = service_value(s, section, line);
        buf_printf(&text, "%s%s", i > 1 ? "{\\n}" : "", part ? part : "");
    }
    if (*value) remark(remarks, key, count ? buf_cstr(&text) : value, why);
    buf_free(&text);
}

/* ---- devices */

/* "0&1;2&3" -> "cuda:0&cuda:1;cuda:2&cuda:3" */
static void devices(const char *value, buf *remarks)
{
    buf text = {0};
    bool start = true, several = false;
    for (const char *p = value; *p; p++) {
        if (isspace((unsigned char)*p)) continue;
        bool cut = *p == ';' || *p == ',' || *p == '&' || *p == '|';
        if (!cut && start) buf_str(&text, "cuda:");
        buf_byte(&text, *p == ',' ? ';' : *p == '|' ? '&' : (uint8_t)*p);
        start = cut;
        several |= cut;
    }
    if (several)
        remark(remarks, "devices", buf_cstr(&text),
               "its GPUs in the notation of [runtime] devices; this build has none");
    buf_free(&text);
}

/* Keys of features that do not exist here; remarks where they are not 0. */
static const struct {
    const char *key, *why;
} left_out[] = {
    {"delta_tensor_ratio", "keeps outliers of quantized weights apart; not done here"},
    {"tensor_quant_threshold", "smaller tensors stay in half precision; here all matrices take the type"},
    {"host_kv_cache_percent", "keys and values outside a GPU; here they are in memory anyway"},
    {"decoder_cpu_layer_count", "here all layers run on the processor"},
    {"cpu_layer_count", "here all layers run on the processor"},
};

static const char *either(const original_service *s, const char *section, const char *key)
{
    const char *own = service_value(s, section, key);
    return own ? own : service_value(s, "transformer_engine", key);
}

static void write_number(const original_service *s, const char *section, const char *key, const char *ours, int min,
                         int max, buf *out)
{
    const char *text = either(s, section, key);
    int v = text ? atoi(text) : 0;
    if (v >= min && v <= max) buf_printf(out, "%s = %d\n", ours, v);
}

int service_settings(const original_service *s, const char *section, buf *generate, buf *settings, buf *remarks, err *e)
{
    char where[300];
    static const char *const templates[] = {"encoder_input_template", "decoder_input_template", "prompt_template"};
    snprintf(where, sizeof where, "[%s]", section);
    buf_str(settings, "\n[runtime]\n");
    int rc = weights(service_value(s, section, "device_weight_data_type"), settings, remarks, where, e);
    if (rc) return rc;
    const char *kv = service_value(s, section, "device_kv_cache_data_type");
    if (kv && (strcasecmp(kv, "f16") == 0 || strcasecmp(kv, "fp16") == 0)) buf_str(settings, "kv = f16\n");
    else if (kv && *kv)
        remark(remarks, "device_kv_cache_data_type", kv, "no such type of the cache here; the default holds");
    write_number(s, section, "max_context_len", "ctx", 17, 1 << 24, settings);
    write_number(s, section, "cpu_threads", "threads", 1, 1024, settings);
    write_number(s, section, "max_concurrent_queries", "max_batch", 1, 16, settings);
    buf_str(settings, "\n[serve]\n");
    const char *port = service_value(s, "main", "http_port");
    if (port && atoi(port) > 0 && atoi(port) < 65536) buf_printf(settings, "port = %d\n", atoi(port));
    const char *where_to = either(s, section, "devices"), *key, *value;
    if (where_to) devices(where_to, remarks);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if ((value = either(s, section, left_out[i].key)) && atof(value) > 0)
            remark(remarks, left_out[i].key, value, left_out[i].why);
    for (size_t at = 0; (key = service_key_at(s, section, &at, &value));)
        if (strncasecmp(key, "device_weight_data_type.", 24) == 0)
            remark(remarks, key, value, "here one type holds all matrices");
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if ((value = service_value(s, section, templates[i]))) template(s, templates[i], value, remarks);
    return decoding(service_value(s, section, "decoding_strategy"), generate, remarks, where, e);
}
