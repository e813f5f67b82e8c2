/* tk_unicode.h - what tokenizers ask of Unicode: character classes, case, normalization forms, grapheme clusters. */
#pragma once
#include "base/buf.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

bool uc_is_space(uint32_t c);   /* White_Space */
bool uc_is_numeric(uint32_t c); /* general categories N* */
bool uc_is_word(uint32_t c);    /* \w of UTS 18: alphabetic, marks, decimal digits, connectors, joiners */
bool uc_is_mark(uint32_t c);    /* M* */

/* As the tables of BERT tokenizers have it (about Unicode 8). */
bool uc_bert_punctuation(uint32_t c); /* P* and the ASCII symbols */
bool uc_bert_nonspacing(uint32_t c);  /* Mn */
bool uc_bert_control(uint32_t c);     /* Cc but tab and line ends, Cf, Co */

/* Full lower case without context: writes 1 to 2 characters, returns how many. */
int uc_lower(uint32_t c, uint32_t out[2]);

/* Simple upper case. */
uint32_t uc_upper(uint32_t c);
bool uc_is_letter(uint32_t c); /* L* */
bool uc_is_upper(uint32_t c);  /* Lu */
bool uc_is_lower(uint32_t c);  /* Ll */

typedef enum { UC_NFC, UC_NFD, UC_NFKC, UC_NFKD } uc_form;
/* Appends a normalization form of s (valid UTF-8); false: out of memory. */
bool uc_normalize(uc_form form, span s, buf *out);

/* Bytes of the grapheme cluster at the start of s (extended, UAX 29); s.n > 0. Linear in the length of the cluster. */
size_t uc_grapheme(span s);

/* Number of the script for the pre-tokenizer UnicodeScripts (Han, Hiragana, Katakana are one); 0 fits every script. */
int uc_script_of(uint32_t c);
