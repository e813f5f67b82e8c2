/* answer.h - a text on its way: events of a query become text, until the engine or a stop string ends it. The server,
 * `run` and its conversations read their texts by it.
 *
 * The detokenizer reads the prompt first: the text after it may depend on it. */
#pragma once
#include "base/buf.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

/* What holds for all answers of a request. */
typedef struct answer_rules {
    const char *const *stop; /* [n_stop] texts that end an answer where they begin; none is empty */
    int n_stop;
    int64_t min_tokens; /* before which stop strings are not looked for */
    bool shows_stop;    /* what ended it, a stop string or a token, is a part of it */
    bool keeps_ids;
    bool (*wants)(const void *ctx, span special); /* whether a special token's text is shown; NULL: none is */
    const void *ctx;
} answer_rules;

typedef struct answer {
    const answer_rules *rules;
    const tokenizer *vocabulary; /* NULL: tokens have no text */
    detok *maker;
    buf text;                 /* what is shown of the prompt, then what was generated */
    size_t echo;              /* bytes of it that are the prompt's; stop strings are not looked for in them */
    token_list ids;           /* generated; of rules.keeps_ids */
    int64_t n_tokens, cached; /* generated; of the prompt, those that needed no computation */
    double first, last;       /* clock_now of the first and the last token; 0: there is none */
    const char *stop_word;    /* the stop string that ended it; NULL: none did */
    bool end_token;           /* a token ended it */
    finish_reason finish;     /* FINISH_NONE: more will come */
} answer;

/* vocabulary: of what is generated; NULL: none. The rules must outlive the answer. Always answer_close. */
int answer_open(answer *a, const tokenizer *vocabulary, const answer_rules *rules, err *e);
void answer_close(answer *a);
/* More of the prompt; all of it is shown, unless answer_show follows. */
int answer_read(answer *a, const int32_t *ids, size_t n, err *e);
/* Shows this text before the answer instead of the prompt as it was read. */
int answer_show(answer *a, span prompt, err *e);
/* Takes an event of the query. ERR_IO: the engine failed, as it says; ERR_MEMORY. Both end the answer. */
int answer_take(answer *a, const token_event *ev, err *e);
/* Bytes of the text that no later event takes back: all but the beginning of a stop string. */
size_t answer_certain(const answer *a);
/* Whether a text of these generated ids has a stop string: for beam searches (query.is_whole). */
bool answer_would_stop(const answer *a, const int32_t *ids, int64_t n);
