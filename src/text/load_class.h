/* load_class.h - what the class of a tokenizer defines that its files leave out.
 *
 * Vocabularies in bare files (vocab.txt, vocab.json, a SentencePiece model) define no special tokens, no frame around a
 * text and no numbers of pieces: the class named in tokenizer_config.json does, one row per class. */
#pragma once
#include "text/load_tokenizer_config.h"
#include "text/tokenizer_state.h"

typedef enum {
    BARE_BYTE_BPE,    /* vocab.json, merges.txt */
    BARE_WORDPIECE,   /* vocab.txt */
    BARE_SPM,         /* a SentencePiece model */
    BARE_SPM_NUMBERED /* vocab.json, and a SentencePiece model whose pieces it numbers */
} bare_files;

/* How pieces of a SentencePiece model are numbered. */
typedef enum {
    IDS_OF_MODEL,
    IDS_FAIRSEQ,  /* <s> <pad> </s> <unk>, the model's from 3 on, languages, <mask> */
    IDS_PEGASUS,  /* <pad> </s> <mask_1> <mask_2>, 101 <unk_i>, the model's from 2 on */
    IDS_SENTINELS /* the model's, <extra_id_99> ... <extra_id_0> */
} piece_order;

typedef struct tokenizer_class {
    const char *names;  /* tokenizer_class without "Fast"; "": the files name none. Several: spaces between */
    const char *models; /* model_types of config.json that imply this class when none is named; NULL: none */
    bare_files files;
    const char *pattern;   /* byte-level BPE: a row of tk_patterns.h */
    const char *one, *two; /* frames: "cls $A sep", "cls $A sep $B:1 sep:1"; NULL: none, or add_bos_token decides */
    const char *role[TOKEN_ROLE_COUNT]; /* where the configuration names none */
    piece_order order;
    bool bert_text;        /* SentencePiece: lower case, no accents, plain quotes, before the model's normalizer */
    const char *languages; /* codes of the language tokens, whose ids follow the pieces', in order; NULL: none */
    const char *source;    /* language of a text when tokenizer_config.json has no "src_lang" */
} tokenizer_class;

extern const tokenizer_class class_rows[]; /* names NULL ends */
/* The row for these files; NULL: a class without rules here. */
const tokenizer_class *class_find(const tokenizer_config *s, bare_files files);
/* Error that names the class. */
int class_unknown(const char *path, const tokenizer_config *s, err *e);

/* Adds the class's special tokens that the vocabulary has (a missing mask token gets the next id) and sets their roles.
 * After tokenizer_config_add_tokens. */
int class_add_tokens(tokenizer *t, const tokenizer_class *c, err *e);
/* Sets its frames; the roles must be known. */
void class_frame(tokenizer *t, const tokenizer_class *c, const tokenizer_config *s);
/* The same for a tokenizer.json whose class has languages: the one that tokenizer_config.json names. */
void class_frame_languages(tokenizer *t, const tokenizer_config *s);

/* Sets frames written as words: $A, $B, a role (bos eos cls sep) or lang, each with ":1" for the second segment. If a
 * token is missing, the frames stay as they are. */
void frame_set(tokenizer *t, const char *one, const char *two);
