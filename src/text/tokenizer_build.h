/* tokenizer_build.h - what loaders put a tokenizer together with. */
#pragma once
#include "text/tk_patterns.h"
#include "text/tokenizer_state.h"

/* The next line of a file without its end; false at the end of the file. */
bool tokenizer_file_line(cursor *c, span *line);
/* An empty tokenizer; NULL: out of memory. */
tokenizer *tokenizer_new(void);
/* Completes a tokenizer that a loader has filled. */
int tokenizer_complete(tokenizer *t, err *e);
/* Appends a step, zeroed; NULL and an error when there are too many. */
decode_step *tokenizer_add_decoder(tokenizer *t, decode_kind kind, err *e);
norm_step *tokenizer_add_normalizer(tokenizer *t, norm_kind kind, err *e);
pretok_step *tokenizer_add_pretokenizer(tokenizer *t, pretok_kind kind, err *e);
/* Cuts by a pattern, gaps kept as pieces. */
int tokenizer_add_split(tokenizer *t, const char *pattern, regex_flavour from, split_behaviour behaviour, bool invert,
                        err *e);
/* A copy of bytes that lives as long as the tokenizer; empty if memory is short, and opening fails in the end. */
span tokenizer_keep(tokenizer *t, span s);
/* Decoders see `text` (kept already) for this id. After all ids are in the vocabulary. */
int tokenizer_show_as(tokenizer *t, int32_t id, span text, err *e);
/* A token whose text is found in the input as it is (special: only where special tokens are parsed). */
int tokenizer_add_special(tokenizer *t, int32_t id, err *e);

/* Byte-level pre-tokenization by a row of the pattern table, and its decoder. */
int tokenizer_set_pattern(tokenizer *t, const pattern_row *row, err *e);
/* BERT's normalizer, pre-tokenizer, decoder and model. */
int tokenizer_set_bert(tokenizer *t, bool lower, bool accents, bool chinese, err *e);
/* BOS before and EOS after each text; -1: none. */
void tokenizer_frame(tokenizer *t, int32_t bos, int32_t eos);
