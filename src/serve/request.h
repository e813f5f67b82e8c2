/* request.h - a request for generated text: its JSON fields, checked, and its prompts as token ids. */
#pragma once
#include "sample/sample.h"
#include "serve/fields.h"
#include "serve/server.h"
#include "serve/text_rules.h"

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

/* A member for each field of the endpoints that generate text, and below what is made of them. */
typedef struct request {
    json *body; /* strings below point into it */
    /* plain fields */
    const char *model, *suffix, *cache_salt;
    const json *prompt_node, *decoder_node, *stop_node, *bias_node, *stream_options, *early_node;
    const json *allowed_node, *stop_ids_node, *bad_node;
    int64_t n, best_of, max_tokens, min_tokens;
    int64_t logprobs, prompt_logprobs; /* -1: not asked for */
    struct {
        const char *prefix, *suffix, *start;
        const json *extra;
    } fill;      /* of /infill */
    bool native; /* the reply has llama.cpp's form */
    bool echo, streams, ignore_eos, shows_stop, returns_ids, receipt;
    bool adds_special, parses_special; /* of prompts that are texts */
    sample_params sample;
    int64_t beams; /* 1: no beam search */
    double length_penalty;
    int64_t priority;
    text_rules rules;
    /* of chat */
    const json *messages_node, *tools_node, *tool_choice_node, *template_node;
    const char *reasoning_effort;
    bool logprobs_asked, generation_prompt, continues_final, parallel_calls;
    int64_t top_logprobs;
    /* made from them */
    uint8_t salt[SALT_BYTES];
    uint64_t owner; /* exchange_owner */
    bool include_usage;
    bool tells_reading; /* a stream says how far the prompt has been read */
    int64_t drawn;      /* choices of a prompt that are made, of which n come back */
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
    grammar *form;                  /* of the text; NULL: any */
    struct chat_job *chat;          /* NULL: no chat */
    const struct reply_form *reply; /* of chats under other APIs; NULL: OpenAI's chat completions */
    json *original;                 /* the body of such a request; `body` is what was made of it */
    const field *rows;              /* of `body` */
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
    REQUEST_FIELD("model", FIELD_TEXT, model), REQUEST_NUMBER("n", FIELD_INT, n, 1, REQUEST_CHOICES_MAX),              \
        REQUEST_NUMBER("best_of", FIELD_INT, best_of, 1, REQUEST_CHOICES_MAX),                                         \
        REQUEST_NUMBER("min_tokens", FIELD_INT, min_tokens, 0, 1 << 30),                                               \
        REQUEST_NUMBER("prompt_logprobs", FIELD_INT, prompt_logprobs, 0, REQUEST_LOGPROBS_MAX),                        \
        REQUEST_FIELD("stream", FIELD_BOOL, streams), REQUEST_FIELD("stream_options", FIELD_NODE, stream_options),     \
        REQUEST_FIELD("stop", FIELD_NODE, stop_node), REQUEST_FIELD("ignore_eos", FIELD_BOOL, ignore_eos),             \
        REQUEST_FIELD("stop_token_ids", FIELD_NODE, stop_ids_node),                                                    \
        REQUEST_FIELD("include_stop_str_in_output", FIELD_BOOL, shows_stop),                                           \
        REQUEST_FIELD("allowed_token_ids", FIELD_NODE, allowed_node),                                                  \
        REQUEST_FIELD("bad_words", FIELD_NODE, bad_node), REQUEST_FIELD("return_token_ids", FIELD_BOOL, returns_ids),  \
        REQUEST_FIELD("receipt", FIELD_BOOL, receipt), REQUEST_FIELD("logit_bias", FIELD_NODE, bias_node),             \
        REQUEST_FIELD("return_progress", FIELD_BOOL, tells_reading),                                                   \
        SAMPLE_PARAM_LIST(REQUEST_SAMPLE_FIELD) REQUEST_NUMBER("beams", FIELD_INT, beams, 1, BEAMS_MAX),               \
        REQUEST_NUMBER("length_penalty", FIELD_FLOAT, length_penalty, -100, 100),                                      \
        REQUEST_FIELD("early_stopping", FIELD_NODE, early_node), REQUEST_FIELD("cache_salt", FIELD_TEXT, cache_salt),  \
        REQUEST_NUMBER("priority", FIELD_INT, priority, -(1 << 30), 1 << 30), TEXT_RULE_FIELDS(request),               \
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

extern const field request_fields[];
extern const field native_fields[]; /* of POST /completion */

/* Reads the body of POST /v1/completions or /v1/chat/completions and tokenizes its prompts. False: the reply is in x.
 * Always request_free. */
bool request_read(server *s, exchange *x, request *r);
/* The same of a body that was made from a request of another API, with the fields of `rows`; taken over. */
bool request_read_json(server *s, exchange *x, const field *rows, json *body, request *r);
/* Starts an empty prompt from BOS; one beyond the context is refused with both numbers. False: the reply is in x. */
bool request_check_length(server *s, exchange *x, prompt *p);
void request_free(request *r);
