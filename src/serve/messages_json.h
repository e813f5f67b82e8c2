/* messages_json.h - replies of POST /v1/messages: the Messages API of Anthropic. */
#pragma once
#include "serve/reply_form.h"

/* {"type":"error","error":{"type","message"}}, with OpenAI's param and code besides. */
bool messages_error_write(buf *out, int status, const char *at, const char *code, const char *message);
