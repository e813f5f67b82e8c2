/* api_native.c - POST /completion: llama.cpp's own endpoint, which continues a prompt until its end (n_predict -1) or
 * for n_predict tokens. */
#include "serve/api_list.h"
#include "serve/completion.h"

static void handle_native(server *s, exchange *x)
{
    request r;
    if (request_read(s, x, &r)) completion_start(s, x, &r);
    request_free(&r);
}

const field native_fields[] = {
    REQUEST_FIELDS,
    NATIVE_FIELDS,
    REQUEST_FIELD("prompt", FIELD_NODE, prompt_node),
    REQUEST_FIELD("add_special_tokens", FIELD_BOOL, adds_special),
    REQUEST_FIELD("parse_special", FIELD_BOOL, parses_special),
    {NULL},
};

const route route_native = {
    .method = "POST", .path = "/completion", .needs_engine = true, .fields = native_fields, .handle = handle_native};
