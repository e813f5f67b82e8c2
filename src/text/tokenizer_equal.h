/* tokenizer_equal.h - whether two tokenizers do the same. */
#pragma once
#include "text/tokenizer.h"

/* Both cut sample texts (and with `added` every added token between words) into the same ids, and print these ids
 * alike. The samples are chosen so that known pre-tokenizers differ on them. */
bool tokenizer_equal(const tokenizer *a, const tokenizer *b, bool added);
