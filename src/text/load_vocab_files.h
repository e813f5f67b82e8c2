/* load_vocab_files.h - loaders of vocabularies that come as bare files beside a model, and the text treatments they share with GGUF. */
#ifndef TEXT_LOAD_VOCAB_FILES_H
#define TEXT_LOAD_VOCAB_FILES_H
#include "text/load_tokenizer_config.h"
#include "text/tk_patterns.h"
#include "text/tokenizer_parts.h"

/* vocab.json (its parsed object) and merges.txt. `pre` names a pattern instead of the class's own; NULL ok. */
int load_byte_bpe(tokenizer *t, const json *vocab_root, span merges, const char *path, const char *pre,
                  const side_files *s, err *e);
/* vocab.txt of a BERT model. */
int load_vocab_txt(tokenizer *t, span file, const char *path, const side_files *s, err *e);
bool vocab_txt_probe(span file);
/* A SentencePiece model in a model's folder: numbers of pieces and frame as its class has them. */
int load_spm_model(tokenizer *t, span file, const char *path, const side_files *s, err *e);
/* vocab.json (its parsed object) that numbers the pieces of a SentencePiece model: Marian, M2M100. */
int load_numbered_spm(tokenizer *t, const json *vocab_root, span spm, const char *path, const side_files *s, err *e);
/* {"piece": id, ...} into the vocabulary. */
int read_piece_numbers(tokenizer *t, const json *root, const char *path, err *e);

/* Byte-level pre-tokenization by a row of the pattern table, and its decoder. */
int tokenizer_set_pattern(tokenizer *t, const pattern_row *row, err *e);
/* BERT's normalizer, pre-tokenizer, decoder and model. */
int tokenizer_set_bert(tokenizer *t, bool lower, bool accents, bool chinese, err *e);
/* BOS before and EOS after each text; -1: none. */
void tokenizer_frame(tokenizer *t, int32_t bos, int32_t eos);

#endif
