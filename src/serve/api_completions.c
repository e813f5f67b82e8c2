/* api_completions.c - POST /v1/completions of the OpenAI API. */
#include "serve/api_list.h"
#include "serve/completion.h"

static void handle_completions(server *s, exchange *x)
{
    request r;
    if (request_read(s, x, &r)) completion_start(s, x, &r);
    request_free(&r);
}

const route route_completions = {.method = "POST",
                                 .path = "/v1/completions",
                                 .needs_engine = true,
                                 .fields = request_fields,
                                 .handle = handle_completions};
