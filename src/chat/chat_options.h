/* chat_options.h - the flags of commands that chat, which are the keys of [chat] in a spec. */
#pragma once
#include "base/param.h"
#include "chat/chat_template.h"

typedef struct chat_options {
    const char *chat_template, *chat_format; /* NULL: the model's own; what the template shows */
} chat_options;

extern const param chat_param_rows[];
extern const size_t chat_param_count;

/* Opens the template that is named, else that of the tokenizer (NULL ok). ERR_NOT_FOUND: there is none. */
int chat_options_open(chat_template **out, const chat_options *o, const tokenizer *t, err *e);
