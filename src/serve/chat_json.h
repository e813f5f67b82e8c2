/* chat_json.h - what forms of chats share: a choice's text as a message, read as it comes. */
#pragma once
#include "serve/completion.h"

/* reply_form.take: reads the choice's text up to byte `upto` into its message. */
bool chat_take(job *j, choice *c, size_t upto);
/* The arguments of the call that was begun last, as far as they are not in earlier chunks; now they are. */
span chat_arguments_take(chat_part *p);
