/* completion.h - a request for text on its way through the engine: one query per choice, whose text (engine/answer.h)
 * becomes JSON.
 *
 * A job owns the request and its choices, prompt-major (all choices of the first prompt, then of the second). It is
 * built on a listener's thread, then written by the engine thread alone; it lives until the connection and every query
 * have dropped its stream. */
#pragma once
#include "chat/call_parser.h"
#include "engine/answer.h"
#include "serve/request.h"
#include "serve/stream.h"

/* One token with its log-probabilities. */
typedef struct token_record {
    int32_t id;
    float logprob;    /* NaN: none (first token of a prompt) */
    size_t offset;    /* bytes of the choice's text before it */
    size_t first_top; /* into choice.top */
    int32_t n_top;
} token_record;

typedef struct record_list {
    token_record *p;
    size_t n, cap;
} record_list;

typedef struct job job;
typedef struct reply_form reply_form;

/* What a chat makes of a choice's text. */
typedef struct chat_part {
    call_parser *parser; /* NULL: nothing was read yet */
    chat_message message;
    size_t taken;                                    /* bytes of the text that the parser has */
    size_t content_sent, reasoning_sent, calls_sent; /* of the message, in earlier chunks: bytes; calls that began */
    size_t arguments_sent;                           /* bytes, of the last of them */
    int64_t reasoning_tokens;                        /* generated until the last that added to the reasoning */
    int block, n_blocks, n_events;                   /* of streams that are lists of items: the open one; how many */
} chat_part;

typedef struct choice {
    job *owner;
    int index;
    const prompt *from;
    uint64_t query_id;
    bool accepted, held; /* under job.lock: the engine has it; held back because the client is slow */
    answer answer;
    size_t sent, sent_chars; /* bytes of the text in earlier chunks; characters, with those of a hidden prompt */
    record_list prompt_tokens, tokens; /* kept only when asked for */
    size_t prompt_tokens_sent, tokens_sent;
    size_t made_sent;   /* ids in earlier chunks */
    bool begun;         /* a part of it was written */
    double logprob_sum; /* of what was generated */
    top_logprob *top;
    size_t n_top, cap_top;
    chat_part chat;
} choice;

struct job {
    server *srv;
    stream *out;
    request req;
    answer_rules rules; /* of its choices */
    char id[40];
    time_t created;
    double began;
    choice *choices;
    size_t n_choices;
    _Atomic size_t pending; /* choices that have not ended, plus one while queries are being added */
    bool first_token_seen;
    err failed;           /* of the first choice that failed */
    buf scratch;          /* reused for every chunk */
    pthread_mutex_t lock; /* accepted, held, gone */
    bool gone;
};

/* A route's handler: reads its request, as its reply form says, and starts it. */
void completion_handle(server *s, exchange *x);
/* Takes the request over (it is freed with the job) and adds its queries; x->later or an error reply is set. */
void completion_start(server *s, exchange *x, request *r);
/* What the engine is asked for a choice; what it points to is the job's. */
query completion_query(const choice *c);
