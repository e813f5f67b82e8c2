/* tokenizer_equal.h - whether two tokenizers do the same, and what writers of tokenizer files need to know of one. */
#ifndef TEXT_TOKENIZER_EQUAL_H
#define TEXT_TOKENIZER_EQUAL_H
#include "text/tokenizer.h"

/* Both cut sample texts (and with `added` every added token in its surroundings) into the same ids, and print these ids alike. The samples are
 * chosen so that known pre-tokenizers differ on them. */
bool tokenizer_same(const tokenizer *a, const tokenizer *b, bool added);

/* Names of pre-tokenizers with different patterns (pattern_find), the usual ones first; NULL ends. */
extern const char *const tokenizer_patterns[];

/* Of a BPE tokenizer: in which order pieces are made by merging, per id; UINT32_MAX: by none. mem_free it; NULL: out of memory. */
uint32_t *tokenizer_ranks(const tokenizer *t);

#endif
