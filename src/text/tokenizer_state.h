/* tokenizer_state.h - what a tokenizer is made of; only the files that build one or run one include this.
 *
 *   text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> post-processor -> ids
 *   ids -> decoder -> text
 * Every file format fills the same struct; no code here knows a format. */
#pragma once
#include "text/tk_added.h"
#include "text/tk_bpe.h"
#include "text/tk_decode.h"
#include "text/tk_normalize.h"
#include "text/tk_pretokenize.h"
#include "text/tk_unigram.h"
#include "text/tk_vocab.h"
#include "text/tk_wordpiece.h"
#include "text/tokenizer.h"

#include <pthread.h>

typedef enum { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL } model_kind;

/* One element of a template: a special token, or a sequence. */
enum { POST_A = -1, POST_B = -2 };
typedef struct post_item {
    int32_t id; /* or POST_A, POST_B */
    int32_t type;
} post_item;
enum { POST_ITEMS_MAX = 64 };
typedef struct post_template {
    post_item item[POST_ITEMS_MAX];
    int n; /* -1: the file's post-processors cannot take two texts */
} post_template;

typedef struct tokenizer_work tokenizer_work;

struct tokenizer {
    bool short_of_memory; /* tokenizer_keep failed */
    arena mem;            /* small things that live as long as the tokenizer */
    const char *kind;
    vocab voc;
    added_set raw, normalized; /* looked for before, and after normalization */
    span *shown;               /* [voc.size] or NULL: text of pieces for decoders, where it is not their spelling */
    normalizer norm;
    pretok pre;
    model_kind model;
    bpe bp;
    unigram ug;
    wordpiece wp;
    span wp_prefix; /* of pieces that continue a word */
    post_template single, pair;
    int32_t language; /* the token of the frames that token_input.language replaces; -1: none */
    bool cut_left;    /* texts that are too long lose their beginning */
    decoder dec;
    bool byte_level;                /* pieces are spelled with GPT-2's characters for bytes */
    bool space_sign;                /* pieces are spelled with U+2581 for spaces */
    bool language_codes;            /* Marian: ">>fra<<" in front of a text is one token */
    vocab model_voc;                /* Marian, M2M100: what the model calls its pieces ... */
    int32_t *number;                /* ... and their numbers in voc; NULL: the model's are voc's */
    int32_t role[TOKEN_ROLE_COUNT]; /* -1: none */
    char *chat_template;
    pthread_mutex_t lock; /* guards `idle` */
    tokenizer_work *idle; /* working memory that no thread uses now */
};

/* Working memory of one encode call: taken from the tokenizer, given back, so that buffers and word caches live on. */
struct tokenizer_work {
    tokenizer_work *next;
    buf clean;
    buf marks;        /* of a normalized text */
    norm_work prefix; /* of the texts before its marks */
    norm_work norm;
    pretok_work pre;
    regex_work *rx;
    bpe_work bp;
    unigram_work ug;
    word_cache words;
    token_list text[2]; /* ids of the texts of an input */
};
