/* tokenizer_parts.h - what a tokenizer is made of; only the files that build one or run one include this.
 *
 *   text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> post-processor -> ids
 *   ids -> decoder -> text
 * Every file format fills the same struct; no code here knows a format. */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H
#include "base/json.h"
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
    span *shown;               /* [voc.size] or NULL: how decoders see a piece, where that is not how it is spelled */
    normalizer norm;
    pretok pre;
    model_kind model;
    bpe bp;
    unigram ug;
    wordpiece wp;
    span wp_prefix; /* of pieces that go on a word */
    post_template single, pair;
    int32_t language; /* of texts by the frames: the token there that token_input.language replaces; -1: none */
    bool cut_left;    /* what is too long loses its beginning */
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
    norm_work norm;
    pretok_work pre;
    regex_work *rx;
    bpe_work bp;
    unigram_work ug;
    word_cache words;
    token_list text[2]; /* ids of the texts of an input */
};

/* An empty tokenizer; NULL: out of memory. */
tokenizer *tokenizer_new(void);
/* What is left to do when a loader has filled it. */
int tokenizer_complete(tokenizer *t, err *e);
/* A decoder step appended, cleared; NULL and an error when there are too many. */
decode_step *tokenizer_add_decoder(tokenizer *t, decode_kind kind, err *e);
norm_step *tokenizer_add_normalizer(tokenizer *t, norm_kind kind, err *e);
pretok_step *tokenizer_add_pretokenizer(tokenizer *t, pretok_kind kind, err *e);
/* Cuts by a pattern, gaps kept as pieces. */
int tokenizer_add_split(tokenizer *t, const char *pattern, regex_flavour from, split_behaviour behaviour, bool invert,
                        err *e);
/* A copy of bytes that lives as long as the tokenizer. Out of memory: empty, and opening fails in the end (t->short_of_memory). */
span tokenizer_keep(tokenizer *t, span s);
/* Decoders see `text` (kept already) for this id. After all ids are in the vocabulary. */
int tokenizer_show_as(tokenizer *t, int32_t id, span text, err *e);
/* A token whose text is found in the input as it is (special: only where special tokens are parsed). */
int tokenizer_add_special(tokenizer *t, int32_t id, err *e);

/* The loaders, one per kind of file. Each fills an empty tokenizer. */
int load_hf_json(tokenizer *t, const json *root, const char *path, err *e);
int load_spm(tokenizer *t, span file, const char *path, err *e);
int load_tiktoken(tokenizer *t, span file, const char *path, const char *pre, err *e);
int load_llama2c(tokenizer *t, span file, const char *path, err *e);
int load_gguf_vocab(tokenizer *t, const ckpt *model, err *e); /* ERR_NOT_FOUND when the model has none */

/* For loaders that read the same kinds of vocabulary from other files: a merge given by its two halves (`joined` is working
 * memory), and what is to be done when vocabulary, merges, steps and special tokens are all there. */
int hf_add_merge(tokenizer *t, span a, span b, uint32_t rank, buf *joined, err *e);
int hf_finish(tokenizer *t, err *e);

/* Whether the bytes of a file look like that kind, without reading all of it. */
bool spm_probe(span file);
bool tiktoken_probe(span file);
bool llama2c_probe(span file);

#endif
