/* api_fill_in.c - see api_fill_in.h. */
#include "serve/api_fill_in.h"

#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/reply_form.h"

#include <string.h>

enum { EXTRAS_MAX = 1024 };

static const field fill_in_fields[] = {
    REQUEST_FIELDS,
    NATIVE_FIELDS,
    REQUEST_FIELD("prompt", FIELD_TEXT, text.middle),
    REQUEST_FIELD("input_prefix", FIELD_TEXT, text.input_prefix),
    REQUEST_FIELD("input_suffix", FIELD_TEXT, text.input_suffix),
    REQUEST_FIELD("input_extra", FIELD_NODE, text.input_extra),
    /* editors send these too */
    {.name = "samplers", .type = FIELD_IGNORE},
    {.name = "n_indent", .type = FIELD_IGNORE},
    {.name = "t_max_prompt_ms", .type = FIELD_IGNORE},
    {.name = "t_max_predict_ms", .type = FIELD_IGNORE},
    {.name = "response_fields", .type = FIELD_IGNORE},
    {NULL},
};

/* What stands before prefix, suffix and middle, by family: Qwen and Gemma; StarCoder and Granite; older ones; DeepSeek;
 * Code Llama; GLM. */
static const char *const marks[][3] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
};

static bool find_marks(const tokenizer *t, int32_t id[3])
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        bool all = true;
        for (int k = 0; k < 3; k++) all = (id[k] = tokenizer_id(t, marks[i][k])) >= 0 && all;
        if (all) return true;
    }
    return false;
}

bool fill_in_asked(const request *r)
{
    return r->text.input_prefix || r->text.input_suffix || (r->text.suffix && *r->text.suffix);
}

static int add_text(const tokenizer *t, const char *text, token_list *out, err *e)
{
    return tokenizer_encode(t, span_str(text), 0, out, e); /* special-token text stays text */
}

/* BOS, where the tokenizer begins with it. */
static int add_bos(server *s, const tokenizer *t, token_list *out, err *e)
{
    token_list none = {0};
    const int32_t bos = engine_describe(s->g)->bos;
    int rc = tokenizer_encode(t, span_str(""), TOKENIZE_SPECIAL, &none, e);
    if (!rc && none.n && none.id[0] == bos && !token_list_add(out, bos)) rc = err_memory(e, NULL);
    token_list_free(&none);
    return rc;
}

/* [{"filename", "text"}]: other files, before the one that is filled in. False: the reply is in x. */
static bool add_extras(exchange *x, const tokenizer *t, const json *extras, token_list *out, err *e)
{
    const int32_t file = tokenizer_id(t, "<|file_sep|>");
    if (json_type(extras) == JSON_NULL) return true;
    if (json_type(extras) != JSON_ARRAY) return field_wrong_type(x, "input_extra", "an array of objects", extras);
    if (json_count(extras) > EXTRAS_MAX) {
        reply_error(x, 400, "input_extra", "out_of_range", "input_extra: at most %d files", EXTRAS_MAX);
        return false;
    }
    for (const json *m = json_first(extras); m && !e->code; m = json_next(m)) {
        const char *text = json_str(json_get(m, "text"), NULL), *name = json_str(json_get(m, "filename"), "tmp");
        if (!text) return field_wrong_type(x, "input_extra", "objects with \"text\" and \"filename\"", m);
        if (file < 0) {
            add_text(t, "\n\n--- snippet ---\n\n", out, e);
        } else if (!token_list_add(out, file) || add_text(t, name, out, e) || add_text(t, "\n", out, e)) {
            err_memory(e, NULL);
        }
        if (!e->code) add_text(t, text, out, e);
    }
    return true;
}

/* Prefix, suffix and the beginning of the middle. */
static int add_parts(const tokenizer *t, const char *const text[3], token_list *out, err *e)
{
    int32_t id[3];
    int rc = OK;
    if (!find_marks(t, id)) return err_set(e, ERR_USAGE, "this model has no tokens to fill in text");
    for (int k = 0; k < 3 && !rc; k++) {
        if (!token_list_add(out, id[k])) rc = err_memory(e, NULL);
        else if (text[k]) rc = add_text(t, text[k], out, e);
    }
    return rc;
}

bool fill_in_read(server *s, exchange *x, request *r)
{
    const tokenizer *t = engine_tokenizer(s->g);
    const bool own = r->text.input_prefix || r->text.input_suffix; /* /infill */
    const char *at = own ? "input_prefix" : "suffix", *before = json_str(r->text.prompt, NULL);
    const char *const text[3] = {own ? r->text.input_prefix : before, own ? r->text.input_suffix : r->text.suffix,
                                 r->text.middle};
    err e = {0};
    if (!fill_in_asked(r)) {
        reply_error(x, 400, "input_prefix", "missing_field", "input_prefix and input_suffix are missing");
        return false;
    }
    if (!t) {
        reply_error(x, 400, at, "no_tokenizer", "%s: this model has no tokenizer", at);
        return false;
    }
    if (!own && (!before || r->echo)) {
        reply_error(x, 400, "suffix", "unsupported", "suffix: prompt must be one string, without echo");
        return false;
    }
    r->made.prompts = mem_zero(1, sizeof *r->made.prompts);
    r->made.n_prompts = r->made.prompts != NULL;
    token_list *ids = r->made.prompts ? &r->made.prompts->ids : NULL;
    if (!ids) err_memory(&e, NULL);
    else if (!add_bos(s, t, ids, &e) && !add_extras(x, t, r->text.input_extra, ids, &e)) return false;
    if (!e.code && !add_parts(t, text, ids, &e)) return request_check_length(s, x, r->made.prompts);
    reply_error(x, e.code == ERR_MEMORY ? 500 : 400, at, e.code == ERR_MEMORY ? NULL : "unsupported", "%s: %s", at,
                e.msg);
    return false;
}

const route route_fill_in = {.method = "POST",
                             .path = "/infill",
                             .needs_engine = true,
                             .fields = fill_in_fields,
                             .reply = &fill_in_form,
                             .handle = completion_handle};
