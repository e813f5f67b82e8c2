/* number_range.h - phrases of the JSON numbers between two bounds, digit by digit, and so exact.
 *
 * Numbers are written without exponent. Those with a fraction have at most 15 digits, or as many as the bounds need and
 * one more: a reader that rounds to a double keeps them within the bounds. */
#pragma once
#include "sample/grammar_phrase.h"

typedef struct number_bound {
    bool given; /* false: there is no bound */
    bool open;  /* the bound itself is outside */
    bool exact; /* `whole` is its value, else `value` is */
    int64_t whole;
    double value;
} number_bound;

/* Numbers from low to high; whole ones only. NULL without an error in the builder: there is none. */
phrase *number_between(grammar_builder *b, number_bound low, number_bound high, bool whole);
