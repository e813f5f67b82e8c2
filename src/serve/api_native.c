/* api_native.c - POST /completion: llama.cpp's own endpoint, which continues a prompt until its end (n_predict -1) or
 * for n_predict tokens. */
#include "serve/api_list.h"
#include "serve/reply_form.h"

static const field native_fields[] = {
    REQUEST_FIELDS,
    NATIVE_FIELDS,
    REQUEST_FIELD("prompt", FIELD_NODE, text.prompt),
    REQUEST_FIELD("add_special_tokens", FIELD_BOOL, text.adds_special),
    REQUEST_FIELD("parse_special", FIELD_BOOL, text.parses_special),
    {NULL},
};

const route route_native = {.method = "POST",
                            .path = "/completion",
                            .needs_engine = true,
                            .fields = native_fields,
                            .reply = &native_form,
                            .handle = completion_handle};
