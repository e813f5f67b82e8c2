/* chat_request.h - what a request for chat has besides that for text: messages, tools, variables of its template. */
#pragma once
#include "serve/request.h"
#include "chat/call_parser.h"

/* How the texts of a chat are read, for all of its choices. */
typedef struct chat_job {
    call_parser_options parse;
} chat_job;

extern const field chat_fields[];          /* of POST /v1/chat/completions */
extern const field chat_template_fields[]; /* of requests that end with the prompt; of a `request` too */

/* After the plain fields were read: those that must be known before others are checked. NULL: the reply is in x. */
chat_job *chat_job_new(server *s, exchange *x, request *r);
void chat_job_free(chat_job *j); /* NULL ok */
/* Checks messages and tools, and makes the prompt. False: the reply is in x. */
bool chat_prompt_read(server *s, exchange *x, request *r);
/* The prompt alone: as text, and its ids. False: the reply is in x; free both in any case. */
bool chat_prompt_make(server *s, exchange *x, const request *r, jinja_output *text, token_list *ids);
