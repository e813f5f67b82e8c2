/* tokenizer.h - text to token ids and back, exactly as the reference library of the vocabulary's own file format does.
 *
 * A tokenizer is immutable after opening and may be used by many threads at once. Time is linear or n log n in the
 * length of any input. Text is bytes; invalid UTF-8 is replaced (U+FFFD per byte) before tokenizing. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "text/token_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;

void tokenizer_close(tokenizer *t); /* NULL ok */

enum {
    TOKENIZE_SPECIAL = 1, /* add the special tokens that the reference adds (BOS, [CLS] … [SEP]) */
    TOKENIZE_PARSE = 2    /* special-token text inside the input becomes special tokens (else it is plain text) */
};

/* Appends the ids of `text` to *out. */
int tokenizer_encode(const tokenizer *t, span text, int flags, token_list *out, err *e);

/* Appends the ids of a text of two origins, in one pass over the whole: words may cross from one to the other, special
 * tokens count only where no byte of them is marked by a 1 in user[text.n]. No special tokens are added. */
int tokenizer_encode_marked(const tokenizer *t, span text, const uint8_t *user, token_list *out, err *e);

/* The input of an encoder network: one text, or two (classification, re-ranking). */
typedef struct token_input {
    span a;
    const span *b;  /* NULL: one text */
    size_t ids_max; /* of the whole input; 0: any number */
    /* the token of the text's language (tokenizer_language) for models that mark it; 0: as the files say */
    int32_t language;
} token_input;

/* Appends the ids of the input and, if `types` is not NULL, the segment number of each (token_type_ids). With
 * TOKENIZE_SPECIAL the reference's special tokens stand around and between the texts. An input that is too long loses
 * the ends of its texts as the Hugging Face library cuts them ("longest_first", and at the side that
 * tokenizer_config.json says); special tokens stay, and ids_max below their number is ERR_USAGE. */
int tokenizer_encode_input(const tokenizer *t, const token_input *in, int flags, token_list *out, token_list *types,
                           err *e);

enum {
    DETOKENIZE_SKIP_SPECIAL = 1, /* special tokens give no text */
    DETOKENIZE_CONTINUE = 2      /* the ids continue earlier text: the space in front of the first word stays */
};
/* Appends the text of ids. Unknown ids are an error that names the id. */
int tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, int flags, buf *out, err *e);

/* Streaming: feeds one token, appends the text that is certain now (never half a character; "" is common). The texts of
 * all calls together plus detok_finish equal tokenizer_decode of the whole list. */
typedef struct detok detok;
int detok_open(detok **out, const tokenizer *t, int flags, err *e);
int detok_next(detok *d, int32_t id, buf *out, err *e);
int detok_finish(detok *d, buf *out, err *e);
void detok_close(detok *d);

uint32_t tokenizer_size(const tokenizer *t);          /* highest id + 1 */
span tokenizer_piece(const tokenizer *t, int32_t id); /* the piece as the vocabulary spells it; empty when unknown */
int32_t tokenizer_id(const tokenizer *t, const char *piece); /* -1 when absent */
bool tokenizer_is_special(const tokenizer *t, int32_t id);
/* Raw bytes that id stands for in running text (for grammars and log-probabilities); false for special tokens. */
bool tokenizer_bytes(const tokenizer *t, int32_t id, buf *out);

/* The token of a language of a translation model, by the model's code ("en_XX", "eng_Latn", "en", "fra"); -1: none. */
int32_t tokenizer_language(const tokenizer *t, const char *code);

typedef enum {
    TOKEN_BOS,
    TOKEN_EOS,
    TOKEN_UNK,
    TOKEN_PAD,
    TOKEN_SEP,
    TOKEN_CLS,
    TOKEN_MASK,
    TOKEN_EOT,
    TOKEN_ROLE_COUNT
} token_role;
int32_t tokenizer_role(const tokenizer *t, token_role role); /* -1 when the vocabulary has none */
const char *tokenizer_chat_template(const tokenizer *t);     /* Jinja source, NULL when there is none */
const char *tokenizer_kind(const tokenizer *t); /* "bpe", "spm-bpe", "unigram", "wordpiece": for `info` and messages */
