/* reply_form.h - what an API that generates text has of its own: how its requests are read, and how its replies are
 * written. Each form is one const struct, named by its routes; whatever lies between is the same for all.
 * A form's file knows the requests that it reads and the completions that it writes, and both name their form. */
#pragma once
#include "serve/completion.h"

struct reply_form {
    const char *prefix;    /* of ids */
    const char *object[2]; /* of a reply; of a chunk. Of forms with reply_head_write */
    /* ---- requests */
    int64_t max_tokens; /* where the request does not say; 0: up to the context */
    bool returns_ids;   /* whether it asks or not */
    bool may_be_empty;  /* no tokens may be asked for */
    /* Right after the fields were read. NULL: nothing. False: the reply is in x. */
    bool (*adapt)(exchange *x, request *r);
    bool (*read_prompts)(server *s, exchange *x, request *r); /* likewise */
    /* ---- replies */
    bool done; /* streams end in data: [DONE] */
    /* Reads a choice's text up to byte `upto`, before anything of it is written. NULL: nothing. False: no memory. */
    bool (*take)(job *j, choice *c, size_t upto);
    /* Server-sent events of what is new in a choice: text up to byte `upto`, the tokens that begin before it, and, when
     * it has ended, everything that is left. */
    void (*events)(buf *out, job *j, choice *c, size_t upto);
    /* An event: so many tokens of the prompt have been read. */
    void (*reading)(buf *out, const job *j, const choice *c, int64_t n_read);
    void (*whole)(buf *out, job *j);       /* the whole reply */
    void (*usage)(buf *out, const job *j); /* its member of that name; NULL: streams do not end with it */
    void (*error)(buf *out, int status, const char *code, const char *message); /* an event */
};

extern const reply_form completion_form; /* completion_json.c */
extern const reply_form chat_form;       /* chat_json.c */
extern const reply_form native_form;     /* native_json.c: of llama.cpp */
extern const reply_form fill_in_form;    /* native_json.c: the same, of a text between two others */
extern const reply_form responses_form;  /* responses_json.c */
extern const reply_form messages_form;   /* messages_json.c */
