/* api_tokenize.c - POST /tokenize, POST /detokenize and GET /tokenizer_info. */
#include "base/mem.h"
#include "base/utf8.h"
#include "serve/api_list.h"
#include "serve/chat_request.h"

#include <string.h>

/* Two forms: llama.cpp's with `content`, vLLM's with `prompt` or `messages`. */
typedef struct tokenize_fields {
    const char *model, *content, *prompt;
    bool add_special, with_pieces, return_token_strs;
    const json *add_special_tokens, *parse_special; /* their defaults differ */
    request chat;
} tokenize_fields;

#define AT(member) .offset = offsetof(tokenize_fields, member)
static const field tokenize_rows[] = {
    {.name = "model", .type = FIELD_TEXT, AT(model)},
    {.name = "content", .type = FIELD_TEXT, AT(content)},
    {.name = "prompt", .type = FIELD_TEXT, AT(prompt)},
    {.name = "add_special", .type = FIELD_BOOL, AT(add_special)},
    {.name = "add_special_tokens", .type = FIELD_NODE, AT(add_special_tokens)},
    {.name = "parse_special", .type = FIELD_NODE, AT(parse_special)},
    {.name = "with_pieces", .type = FIELD_BOOL, AT(with_pieces)},
    {.name = "return_token_strs", .type = FIELD_BOOL, AT(return_token_strs)},
    {.name = "messages", .type = FIELD_NODE, AT(chat.chat.messages)},
    {.name = "tools", .type = FIELD_NODE, AT(chat.chat.tools)},
    {.name = "chat_template_kwargs", .type = FIELD_NODE, AT(chat.chat.template_kwargs)},
    {.name = "add_generation_prompt", .type = FIELD_BOOL, AT(chat.chat.generation_prompt)},
    {.name = "continue_final_message", .type = FIELD_BOOL, AT(chat.chat.continues_final)},
    {NULL},
};

typedef struct detokenize_fields {
    const char *model;
    const json *tokens;
} detokenize_fields;

static const field detokenize_rows[] = {
    {.name = "model", .type = FIELD_TEXT, .offset = offsetof(detokenize_fields, model)},
    {.name = "tokens", .type = FIELD_NODE, .offset = offsetof(detokenize_fields, tokens)},
    {NULL},
};

static const tokenizer *tokenizer_of(server *s, exchange *x)
{
    const tokenizer *t = engine_tokenizer(s->g);
    if (!t) reply_error(x, 400, NULL, "no_tokenizer", "this model has no tokenizer");
    return t;
}

/* {"id": 5, "piece": "text"}, or the bytes as an array when they are no text by themselves. */
static void write_piece(buf *out, const tokenizer *t, int32_t id)
{
    buf raw = {0};
    if (!tokenizer_bytes(t, id, &raw)) {
        span piece = tokenizer_piece(t, id);
        raw.n = 0;
        buf_add(&raw, piece.p, piece.n);
    }
    buf_printf(out, "{\"id\":%d,\"piece\":", id);
    if (utf8_is_valid(buf_span(&raw)) && !(raw.n && memchr(raw.p, 0, raw.n))) {
        json_quote(out, buf_span(&raw));
    } else {
        for (size_t i = 0; i < raw.n; i++) buf_printf(out, "%s%d", i ? "," : "[", raw.p[i]);
        buf_str(out, raw.n ? "]" : "[]");
    }
    buf_byte(out, '}');
    buf_free(&raw);
}

static void reply_content(exchange *x, const tokenizer *t, const token_list *ids, bool pieces)
{
    buf *out = &x->out;
    x->status = 200;
    x->content_type = "application/json";
    buf_str(out, "{\"tokens\":[");
    for (size_t i = 0; i < ids->n; i++) {
        if (i) buf_byte(out, ',');
        if (pieces) write_piece(out, t, ids->id[i]);
        else buf_printf(out, "%d", ids->id[i]);
    }
    buf_str(out, "]}");
}

static void reply_prompt(server *s, exchange *x, const tokenizer *t, const token_list *ids, bool pieces)
{
    buf *out = &x->out;
    x->status = 200;
    x->content_type = "application/json";
    buf_printf(out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", ids->n, engine_describe(s->g)->ctx);
    for (size_t i = 0; i < ids->n; i++) buf_printf(out, "%s%d", i ? "," : "", ids->id[i]);
    buf_str(out, pieces ? "],\"token_strs\":[" : "],\"token_strs\":null}");
    for (size_t i = 0; i < ids->n && pieces; i++) {
        if (i) buf_byte(out, ',');
        json_quote(out, tokenizer_piece(t, ids->id[i]));
    }
    if (pieces) buf_str(out, "]}");
}

/* The ids of a text, or of what the template makes of messages. False: the reply is in x. */
static bool encode(server *s, exchange *x, const tokenizer *t, const tokenize_fields *f, token_list *ids)
{
    err e = {0};
    const char *text = f->content ? f->content : f->prompt;
    const json *special = f->add_special_tokens;
    if (special && json_type(special) != JSON_BOOL)
        return field_wrong_type(x, "add_special_tokens", "true or false", special);
    if (f->parse_special && json_type(f->parse_special) != JSON_BOOL)
        return field_wrong_type(x, "parse_special", "true or false", f->parse_special);
    const bool parses = json_bool(f->parse_special, true); /* as in completions */
    const bool adds = f->content ? f->add_special : json_bool(special, !f->chat.chat.messages);
    int flags = (adds ? TOKENIZE_SPECIAL : 0) | (parses ? TOKENIZE_PARSE : 0);
    if (!!f->content + !!f->prompt + !!f->chat.chat.messages > 1) {
        reply_error(x, 400, "prompt", "invalid_value", "content, prompt and messages: one of them");
        return false;
    }
    if (f->chat.chat.messages) {
        jinja_output out = {0};
        const bool begun = !adds || !tokenizer_encode(t, span_of("", 0), TOKENIZE_SPECIAL, ids, &e);
        const bool good = begun && chat_prompt_make(s, x, &f->chat, &out, ids);
        jinja_output_free(&out);
        if (!begun) reply_err(x, "messages", &e);
        return good;
    }
    if (!text) {
        reply_error(x, 400, "content", "missing_field", "content is missing");
        return false;
    }
    if (!tokenizer_encode(t, span_str(text), flags, ids, &e)) return true;
    reply_err(x, f->content ? "content" : "prompt", &e);
    return false;
}

static void handle_tokenize(server *s, exchange *x)
{
    tokenize_fields f = {.chat = {.chat = {.generation_prompt = true}}};
    token_list ids = {0};
    json *body = body_read(s, x, &f);
    const tokenizer *t = body && exchange_check_model(s, x, f.model) ? tokenizer_of(s, x) : NULL;
    f.chat.body = body;
    if (t && encode(s, x, t, &f, &ids)) {
        if (f.content) reply_content(x, t, &ids, f.with_pieces);
        else reply_prompt(s, x, t, &ids, f.return_token_strs);
    }
    mem_free(ids.id);
    json_free(body);
}

static bool collect_ids(exchange *x, const json *array, int64_t size, token_list *out)
{
    if (json_type(array) != JSON_ARRAY) return field_wrong_type(x, "tokens", "an array of token ids", array);
    out->id = mem_array(json_count(array), sizeof *out->id);
    for (const json *m = json_first(array); m; m = json_next(m)) {
        int64_t id = json_int(m, -1);
        if (json_type(m) != JSON_NUMBER) return field_wrong_type(x, "tokens", "an array of token ids", m);
        if (id < 0 || id >= size) {
            reply_error(x, 400, "tokens", "invalid_value", "tokens: %.16g is no token id (0 to %lld)", json_num(m, 0),
                        (long long)size - 1);
            return false;
        }
        if (out->id) out->id[out->n++] = (int32_t)id;
    }
    if (!out->id) reply_error(x, 500, NULL, NULL, "out of memory");
    return out->id != NULL;
}

static void handle_detokenize(server *s, exchange *x)
{
    detokenize_fields f = {0};
    token_list ids = {0};
    buf text = {0};
    err e = {0};
    json *body = body_read(s, x, &f);
    const tokenizer *t = body && exchange_check_model(s, x, f.model) ? tokenizer_of(s, x) : NULL;
    if (t && collect_ids(x, f.tokens, tokenizer_size(t), &ids)) {
        if (tokenizer_decode(t, ids.id, ids.n, 0, &text, &e)) {
            reply_err(x, "tokens", &e);
        } else {
            x->status = 200;
            x->content_type = "application/json";
            buf_str(&x->out, "{\"content\":");
            json_quote(&x->out, buf_span(&text));
            buf_str(&x->out, ",\"prompt\":"); /* as vLLM calls it */
            json_quote(&x->out, buf_span(&text));
            buf_byte(&x->out, '}');
        }
    }
    buf_free(&text);
    mem_free(ids.id);
    json_free(body);
}

static void add_role(json *root, const char *key, const tokenizer *t, token_role role)
{
    int32_t id = tokenizer_role(t, role);
    buf piece = {0};
    span text = tokenizer_piece(t, id);
    buf_add(&piece, text.p, text.n);
    if (id < 0 || !utf8_is_valid(text)) json_add_null(root, key);
    else json_add_str(root, key, buf_cstr(&piece));
    buf_free(&piece);
}

static void handle_tokenizer_info(server *s, exchange *x)
{
    static const char *const name[TOKEN_ROLE_COUNT] = {"bos_token", "eos_token", "unk_token",  "pad_token",
                                                       "sep_token", "cls_token", "mask_token", "eot_token"};
    const tokenizer *t = tokenizer_of(s, x);
    if (!t) return;
    json *root = json_new_object();
    json_add_str(root, "tokenizer_class", tokenizer_kind(t));
    json_add_int(root, "vocab_size", tokenizer_size(t));
    json_add_int(root, "model_max_length", engine_describe(s->g)->ctx);
    for (int i = 0; i < TOKEN_ROLE_COUNT; i++) add_role(root, name[i], t, (token_role)i);
    if (tokenizer_chat_template(t)) json_add_str(root, "chat_template", tokenizer_chat_template(t));
    else json_add_null(root, "chat_template");
    reply_json(x, 200, root);
}

const route route_tokenizer_info = {
    .method = "GET", .path = "/tokenizer_info", .needs_engine = true, .handle = handle_tokenizer_info};
const route route_tokenize = {
    .method = "POST", .path = "/tokenize", .needs_engine = true, .fields = tokenize_rows, .handle = handle_tokenize};
const route route_detokenize = {.method = "POST",
                                .path = "/detokenize",
                                .needs_engine = true,
                                .fields = detokenize_rows,
                                .handle = handle_detokenize};
