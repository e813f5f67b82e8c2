/* load_vocab_files.h - vocabularies in bare files: vocab.json with merges.txt, vocab.txt. */
#pragma once
#include "text/load_tokenizer_config.h"

/* vocab.json (its parsed object) and merges.txt. `pre` names a pattern instead of the class's own; NULL ok. */
int load_byte_bpe(tokenizer *t, const json *vocab_root, span merges, const char *path, const char *pre,
                  const tokenizer_config *s, err *e);
/* vocab.txt of a BERT model. */
int load_vocab_txt(tokenizer *t, span file, const char *path, const tokenizer_config *s, err *e);
bool vocab_txt_probe(span file);
