/* reply_form.h - the form of replies to conversations under other APIs than OpenAI's chat completions. One choice. */
#pragma once
#include "serve/completion.h"

struct reply_form {
    const char *prefix; /* of ids */
    bool done;          /* streams end in data: [DONE] */
    /* Server-sent events of what is new in the choice's message; with its end, all that ends the stream. */
    void (*events)(buf *out, job *j, choice *c);
    void (*whole)(buf *out, job *j); /* the whole reply */
    void (*error)(buf *out, int status, const char *message);
};

extern const reply_form responses_form; /* responses_json.c */
extern const reply_form messages_form;  /* messages_json.c */
