/* number_multiple.h - phrases of the JSON numbers that are multiples of a number, between two bounds, digit by digit,
 * and so exact.
 *
 * Numbers are written without exponent, with at most as many digits after the point as the number has of which they are
 * multiples, and with at most 15 digits in all. */
#pragma once
#include "sample/number_range.h"

/* step / 10^places, or step * 10^zeros; step is no multiple of 10 where there are zeros. */
typedef struct multiple {
    int64_t step;
    int places, zeros;
} multiple;

/* False: `of` (above 0) is a step with more than 400 remainders, or with more than 9 places. whole: only whole numbers
 * count. */
bool multiple_of(multiple *m, double of, bool whole);
/* Whether a number is a multiple, as far as a double can tell. */
bool multiple_fits(double of, double value);
/* The multiples from low to high. NULL without an error in the builder: there is none. */
phrase *multiples_between(grammar_builder *b, const multiple *m, number_bound low, number_bound high);
