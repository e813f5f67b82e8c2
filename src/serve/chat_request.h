/* chat_request.h - what a request for chat has besides that for text: messages, tools, variables of its template. */
#pragma once
#include "serve/request.h"

extern const field chat_fields[];          /* of POST /v1/chat/completions */
extern const field chat_template_fields[]; /* of requests that end with the prompt; of a `request` too */

/* reply_form.adapt: logprobs is true or false here, and top_logprobs the number. */
bool chat_request_adapt(exchange *x, request *r);
/* reply_form.read_prompts: checks messages and tools, and makes the prompt. */
bool chat_prompt_read(server *s, exchange *x, request *r);
/* The prompt alone: as text, and its ids. False: the reply is in x; free both in any case. */
bool chat_prompt_make(server *s, exchange *x, const request *r, jinja_output *text, token_list *ids);
