/* text_until.h - free text that a literal ends, or that has no such literal in it. */
#pragma once
#include "sample/grammar_phrase.h"

/* Any bytes up to the first `trigger`, it too, then `then`; or, unless required, bytes without it to the end. */
phrase *text_until(grammar_builder *b, span trigger, phrase *then, bool required);

/* Texts of characters in UTF-8, but NUL, without `stop` among them; what they share. */
typedef struct stop_rules {
    grammar_builder *b;
    span stop;
    phrase **other;       /* [stop.n] a character that is neither the first byte of stop nor that one */
    uint32_t loop, *left; /* rows of rules: of any number of characters; [n_left] of at most so many */
    size_t n_left;
} stop_rules;

/* stop: 2 to 200 bytes of ASCII, whose first is not among the others; else ERR_USAGE in the builder. */
void stop_rules_open(stop_rules *t, grammar_builder *b, span stop);
/* min to max characters (max -1: any number). The first two bytes of stop are not among the first min, nor, where
 * max is given, among all of them; of a high maximum, texts of more than min + 10000 are left out. */
phrase *text_without(stop_rules *t, int64_t min, int64_t max);
/* What may follow a text without stop; begun: it ends with the first byte of stop. */
phrase *text_rest(stop_rules *t, bool begun);
