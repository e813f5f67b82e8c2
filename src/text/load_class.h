/* load_class.h - what the class of a tokenizer says where its files do not.
 *
 * Vocabularies in bare files (vocab.txt, vocab.json, a SentencePiece model) do not say what stands around a text, which special
 * tokens there are, or how their pieces are numbered: the class named in tokenizer_config.json does, one row per class. */
#ifndef TEXT_LOAD_CLASS_H
#define TEXT_LOAD_CLASS_H
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
    const char *models; /* model_type of config.json for which this is the class where none is named; NULL ok */
    bare_files files;
    const char *pattern;   /* byte-level BPE: a row of tk_patterns.h */
    const char *one, *two; /* frames: "cls $A sep", "cls $A sep $B:1 sep:1"; NULL: none, or add_bos_token decides */
    const char *role[TOKEN_ROLE_COUNT]; /* where the side files name none */
    piece_order order;
    bool bert_text;        /* SentencePiece: lower case, no accents, plain quotes come before the model's normalizer */
    const char *languages; /* codes of the language tokens in the order of their ids, behind the pieces; NULL: none */
    const char *source;    /* the language of a text where tokenizer_config.json does not say ("src_lang") */
} tokenizer_class;

/* The row for these files; NULL: a class without rules here. */
const tokenizer_class *class_find(const side_files *s, bare_files files);
/* Error that names the class. */
int class_unknown(const char *path, const side_files *s, err *e);

/* Its special tokens that the vocabulary has (a mask token that it lacks gets the next id), and their roles. After
 * side_add_tokens. */
int class_add_tokens(tokenizer *t, const tokenizer_class *c, err *e);
/* Its frames, once the roles are known. */
void class_frame(tokenizer *t, const tokenizer_class *c, const side_files *s);
/* The same for a tokenizer.json: classes with languages frame the text by the language that tokenizer_config.json names. */
void class_frame_languages(tokenizer *t, const side_files *s);

/* Frames written as words: $A, $B, a role (bos eos cls sep) or lang, each with ":1" for the second segment. Where a token is
 * missing nothing is framed. */
void frame_set(tokenizer *t, const char *one, const char *two);

#endif
