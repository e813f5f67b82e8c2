/* api_tokenize.c - POST /tokenize and POST /detokenize. */
#include "base/mem.h"
#include "base/utf8.h"
#include "serve/api_list.h"
#include "serve/fields.h"
#include "serve/server.h"

#include <string.h>

typedef struct tokenize_fields {
    const char *content;
    bool add_special, parse_special, with_pieces;
} tokenize_fields;

#define AT(member) .offset = offsetof(tokenize_fields, member)
static const field tokenize_rows[] = {
    {.name = "content", .type = FIELD_TEXT, AT(content)},
    {.name = "add_special", .type = FIELD_BOOL, AT(add_special)},
    {.name = "parse_special", .type = FIELD_BOOL, AT(parse_special)},
    {.name = "with_pieces", .type = FIELD_BOOL, AT(with_pieces)},
    {NULL},
};

typedef struct detokenize_fields {
    const json *tokens;
} detokenize_fields;

static const field detokenize_rows[] = {
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
static void add_piece(json *list, const tokenizer *t, int32_t id)
{
    buf raw = {0};
    json *o = json_add_object(list, NULL);
    json_add_int(o, "id", id);
    if (!tokenizer_bytes(t, id, &raw)) {
        span piece = tokenizer_piece(t, id);
        raw.n = 0;
        buf_add(&raw, piece.p, piece.n);
    }
    if (utf8_is_valid(buf_span(&raw)) && !(raw.n && memchr(raw.p, 0, raw.n))) {
        json_add_str(o, "piece", buf_cstr(&raw));
    } else {
        json *bytes = json_add_array(o, "piece");
        for (size_t i = 0; i < raw.n; i++) json_add_int(bytes, NULL, raw.p[i]);
    }
    buf_free(&raw);
}

static void handle_tokenize(server *s, exchange *x)
{
    tokenize_fields f = {0};
    token_list ids = {0};
    err e = {0};
    const tokenizer *t = tokenizer_of(s, x);
    json *body = t ? body_read(s, x, &f) : NULL;
    if (!body) return;
    int flags = (f.add_special ? TOKENIZE_SPECIAL : 0) | (f.parse_special ? TOKENIZE_PARSE : 0);
    if (!f.content) {
        reply_error(x, 400, "content", "missing_field", "content is missing");
    } else if (tokenizer_encode(t, span_str(f.content), flags, &ids, &e)) {
        reply_err(x, "content", &e);
    } else {
        json *root = json_new_object();
        json *list = json_add_array(root, "tokens");
        for (size_t i = 0; i < ids.n; i++) {
            if (f.with_pieces) add_piece(list, t, ids.id[i]);
            else json_add_int(list, NULL, ids.id[i]);
        }
        reply_json(x, 200, root);
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
        if (id < 0 || id >= size) {
            reply_error(x, 400, "tokens", "invalid_value", "tokens: element %zu is no token id (0 to %lld)", out->n,
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
    const tokenizer *t = tokenizer_of(s, x);
    json *body = t ? body_read(s, x, &f) : NULL;
    if (body && collect_ids(x, f.tokens, tokenizer_size(t), &ids)) {
        if (tokenizer_decode(t, ids.id, ids.n, 0, &text, &e)) {
            reply_err(x, "tokens", &e);
        } else {
            x->status = 200;
            x->content_type = "application/json";
            buf_str(&x->out, "{\"content\":");
            json_quote(&x->out, buf_span(&text));
            buf_byte(&x->out, '}');
        }
    }
    buf_free(&text);
    mem_free(ids.id);
    json_free(body);
}

const route route_tokenize = {
    .method = "POST", .path = "/tokenize", .needs_engine = true, .fields = tokenize_rows, .handle = handle_tokenize};
const route route_detokenize = {.method = "POST",
                                .path = "/detokenize",
                                .needs_engine = true,
                                .fields = detokenize_rows,
                                .handle = handle_detokenize};
