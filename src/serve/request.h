/* request.h - a request for generated text: its JSON fields, checked, and its prompts as token ids. */
#pragma once
#include "chat/call_parser.h"
#include "sample/sample.h"
#include "serve/fields.h"
#include "serve/form_fields.h"
#include "serve/server.h"

enum {
    REQUEST_PROMPTS_MAX = 2048, /* prompts times n */
    REQUEST_CHOICES_MAX = 128,  /* n */
    REQUEST_STOPS_MAX = 16,
    REQUEST_STOP_BYTES = 1024,
    REQUEST_LOGPROBS_MAX = 20,
    REQUEST_BIAS_MAX = 1024,
    REQUEST_WORDS_MAX = 1024 /* bad words; ids that end the text */
};

typedef struct prompt {
    token_list ids; /* of an encoder-decoder, the start of the decoder's text */
    token_list enc; /* the encoder's input; empty for models without an encoder */
    char *text;     /* of `ids`, as the client wrote it; NULL: the client sent ids */
} prompt;

/* Fields of every request for text that are read further; strings and nodes lie in the body. */
typedef struct request_asked {
    const char *model, *cache_salt;
    const json *stop, *bias, *stream_options, *early_stopping, *allowed, *stop_ids, *bad_words;
    form_fields form;
} request_asked;

/* Fields of requests whose prompt is a text. */
typedef struct text_asked {
    const json *prompt, *decoder_prompt;
    bool adds_special, parses_special;
    const char *suffix, *input_prefix, *input_suffix; /* the text is filled in between: api_fill_in.h */
    const char *middle;                               /* how it begins */
    const json *input_extra;
} text_asked;

/* Fields of chats. */
typedef struct chat_asked {
    const json *messages, *tools, *tool_choice, *template_kwargs;
    const char *reasoning_effort;
    bool logprobs, generation_prompt, continues_final, parallel_calls;
    int64_t top_logprobs;
} chat_asked;

/* What is made of the fields. */
typedef struct request_made {
    uint8_t salt[SALT_BYTES];
    uint64_t owner; /* exchange_owner */
    bool include_usage;
    int64_t drawn; /* choices of a prompt that are made, of which n come back */
    beam_stop early_stopping;
    prompt *prompts;
    size_t n_prompts;
    const char *stop[REQUEST_STOPS_MAX];
    int n_stop;
    logit_bias *bias;
    int32_t n_bias;
    token_list stop_ids;
    token_list bad;    /* query.bad */
    uint64_t *allowed; /* query.allowed */
    int32_t n_allowed;
    grammar *form;             /* of the text; NULL: any */
    call_parser_options parse; /* of a chat: how its texts are read */
} request_made;

/* Numbers and switches stand here as they were read; 0 and false where no default is said (set_defaults). */
typedef struct request {
    const struct reply_form *reply; /* of the route */
    json *body;
    json *original;     /* the body as the client sent it, where `body` was made from it; else NULL */
    const field *rows;  /* of `body` */
    int64_t n, best_of; /* best_of 0: n */
    int64_t max_tokens, min_tokens;
    int64_t logprobs, prompt_logprobs; /* -1: not asked for */
    bool echo, streams, ignore_eos, shows_stop, returns_ids, receipt;
    bool tells_reading; /* a stream says how far the prompt has been read */
    sample_params sample;
    int64_t beams; /* 1: no beam search */
    double length_penalty;
    int64_t priority;
    request_asked asked;
    text_asked text;
    chat_asked chat;
    request_made made;
} request;

/* Fields of all requests for text: rows of a table of this struct. */
#define REQUEST_NUMBER(key, kind, member, low, high)                                                                   \
    {                                                                                                                  \
        .name = key, .type = kind, .offset = offsetof(request, member), .min = low, .max = high                        \
    }
#define REQUEST_FIELD(key, kind, member)                                                                               \
    {                                                                                                                  \
        .name = key, .type = kind, .offset = offsetof(request, member)                                                 \
    }
/* A parameter of the samplers; it ends in a comma. */
#define REQUEST_SAMPLE_FIELD(kind, key, otherwise, low, high, shown, doc, other, ...)                                  \
    {.name = #key,                                                                                                     \
     .alias = other,                                                                                                   \
     .type = FIELD_##kind,                                                                                             \
     .offset = offsetof(request, sample.key),                                                                          \
     .min = low,                                                                                                       \
     .max = high},
#define REQUEST_FIELDS                                                                                                 \
    REQUEST_FIELD("model", FIELD_TEXT, asked.model), REQUEST_NUMBER("n", FIELD_INT, n, 1, REQUEST_CHOICES_MAX),        \
        REQUEST_NUMBER("best_of", FIELD_INT, best_of, 1, REQUEST_CHOICES_MAX),                                         \
        REQUEST_NUMBER("min_tokens", FIELD_INT, min_tokens, 0, 1 << 30),                                               \
        REQUEST_NUMBER("prompt_logprobs", FIELD_INT, prompt_logprobs, 0, REQUEST_LOGPROBS_MAX),                        \
        REQUEST_FIELD("stream", FIELD_BOOL, streams),                                                                  \
        REQUEST_FIELD("stream_options", FIELD_NODE, asked.stream_options),                                             \
        REQUEST_FIELD("stop", FIELD_NODE, asked.stop), REQUEST_FIELD("ignore_eos", FIELD_BOOL, ignore_eos),            \
        REQUEST_FIELD("stop_token_ids", FIELD_NODE, asked.stop_ids),                                                   \
        REQUEST_FIELD("include_stop_str_in_output", FIELD_BOOL, shows_stop),                                           \
        REQUEST_FIELD("allowed_token_ids", FIELD_NODE, asked.allowed),                                                 \
        REQUEST_FIELD("bad_words", FIELD_NODE, asked.bad_words),                                                       \
        REQUEST_FIELD("return_token_ids", FIELD_BOOL, returns_ids), REQUEST_FIELD("receipt", FIELD_BOOL, receipt),     \
        REQUEST_FIELD("logit_bias", FIELD_NODE, asked.bias),                                                           \
        REQUEST_FIELD("return_progress", FIELD_BOOL, tells_reading),                                                   \
        SAMPLE_PARAM_LIST(REQUEST_SAMPLE_FIELD) REQUEST_NUMBER("beams", FIELD_INT, beams, 1, BEAMS_MAX),               \
        REQUEST_NUMBER("length_penalty", FIELD_FLOAT, length_penalty, -100, 100),                                      \
        REQUEST_FIELD("early_stopping", FIELD_NODE, asked.early_stopping),                                             \
        REQUEST_FIELD("cache_salt", FIELD_TEXT, asked.cache_salt),                                                     \
        REQUEST_NUMBER("priority", FIELD_INT, priority, -(1 << 30), 1 << 30), FORM_FIELDS(request, asked.form),        \
        FIELDS_WITHOUT_EFFECT

/* Fields of llama.cpp's own endpoints. */
#define NATIVE_FIELDS                                                                                                  \
    REQUEST_NUMBER("n_predict", FIELD_INT, max_tokens, -1, 1 << 30),                                                   \
        REQUEST_NUMBER("n_probs", FIELD_INT, logprobs, 0, REQUEST_LOGPROBS_MAX),                                       \
        {.name = "cache_prompt", .type = FIELD_IGNORE}, {.name = "id_slot", .type = FIELD_IGNORE},                     \
        {.name = "return_tokens", .type = FIELD_IGNORE},                                                               \
    {                                                                                                                  \
        .name = "timings_per_token", .type = FIELD_IGNORE                                                              \
    }

/* Reads the body of the route, in the reply form of which it is answered, and makes its prompts. False: the reply is in
 * x. Always request_free. */
bool request_read(server *s, exchange *x, request *r);
/* The same of a chat that was made from a request of another API, the `original`; both are taken over. */
bool request_read_chat(server *s, exchange *x, json *chat, json *original, request *r);
/* Makes the prompts of a request that is no chat: a string, ids, or an array of either. False: the reply is in x. */
bool request_read_prompts(server *s, exchange *x, request *r);
/* Starts an empty prompt from BOS; one beyond the context is refused with both numbers. False: the reply is in x. */
bool request_check_length(server *s, exchange *x, prompt *p);
void request_free(request *r);
