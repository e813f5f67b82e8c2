/* chat_template.h - the chat template of a model, and what it takes: a conversation becomes a prompt.
 *
 * What a template can do is found by trying it when it is opened. Conversations are then put into the form that it
 * takes (chat_messages.h), so that nothing of them is lost in silence. */
#pragma once
#include "base/json.h"
#include "chat/call_format.h"
#include "chat/chat_messages.h"
#include "jinja/jinja.h"
#include "text/tokenizer.h"

typedef struct chat_template chat_template;

/* `source` is Jinja, and copied; format: a name of call_format.h, NULL: as the template shows; t (NULL ok) gives
 * bos_token and its like. */
int chat_template_open(chat_template **out, span source, const char *format, const tokenizer *t, err *e);
void chat_template_close(chat_template *c); /* NULL ok */
span chat_template_source(const chat_template *c);
/* How its model writes calls: of the template itself, or the plain one if it shows no tools. */
const call_format *chat_template_calls(const chat_template *c);
const reasoning_marks *chat_template_reasoning(const chat_template *c); /* NULL: it does not show */

typedef struct chat_input {
    const json *messages; /* an array of objects, checked */
    const json *tools;    /* an array; NULL: none */
    const json *kwargs;   /* an object of more variables; NULL: none */
    const char *reasoning_effort;
    bool add_generation_prompt;
    bool continue_final; /* the prompt ends with the last message's text */
    time_t now;
} chat_input;

/* Appends the prompt to *out. ERR_FORMAT: the template refuses, or fails. */
int chat_template_apply(const chat_template *c, const chat_input *in, jinja_output *out, err *e);
/* Whether a prompt has opened the reasoning of the answer. */
bool chat_template_thinks(const chat_template *c, span prompt);
