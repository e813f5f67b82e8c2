/* api_completions.c - POST /v1/completions of the OpenAI API. */
#include "serve/api_list.h"
#include "serve/reply_form.h"

static const field completion_fields[] = {
    REQUEST_FIELDS,
    REQUEST_FIELD("prompt", FIELD_NODE, text.prompt),
    REQUEST_FIELD("decoder_prompt", FIELD_NODE, text.decoder_prompt),
    REQUEST_NUMBER("max_tokens", FIELD_INT, max_tokens, -1, 1 << 30),
    REQUEST_NUMBER("logprobs", FIELD_INT, logprobs, 0, REQUEST_LOGPROBS_MAX),
    REQUEST_FIELD("echo", FIELD_BOOL, echo),
    REQUEST_FIELD("suffix", FIELD_TEXT, text.suffix),
    REQUEST_FIELD("add_special_tokens", FIELD_BOOL, text.adds_special),
    REQUEST_FIELD("parse_special", FIELD_BOOL, text.parses_special),
    {.name = "parallel_tool_calls", .type = FIELD_IGNORE},
    {NULL},
};

const route route_completions = {.method = "POST",
                                 .path = "/v1/completions",
                                 .needs_engine = true,
                                 .fields = completion_fields,
                                 .reply = &completion_form,
                                 .handle = completion_handle};
