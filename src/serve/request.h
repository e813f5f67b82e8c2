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

typedef struct request {
    json *body; /* strings below point into it */
    /* plain fields */
    const char *model, *suffix, *cache_salt;
    const json *prompt_node, *decoder_node, *stop_node, *bias_node, *stream_options, *early_node;
    const json *allowed_node, *stop_ids_node, *bad_node;
    int64_t n, best_of, max_tokens, min_tokens;
    int64_t logprobs, prompt_logprobs; /* -1: not asked for */
    bool echo, streams, ignore_eos, shows_stop, returns_ids;
    bool adds_special, parses_special; /* of prompts that are texts */
    sample_params sample;
    int64_t beams; /* 1: no beam search */
    double length_penalty;
    text_rules rules;
    /* made from them */
    uint8_t salt[SALT_BYTES];
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
    grammar *form; /* of the text; NULL: any */
} request;

extern const field request_fields[];

/* Reads the body of POST /v1/completions and tokenizes its prompts. False: the reply is in x. Always request_free. */
bool request_read(server *s, exchange *x, request *r);
void request_free(request *r);
