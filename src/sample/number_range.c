/* number_range.c - see number_range.h. A number is compared with a bound from its first digit on; a phrase goes on
 * apart for those that are still equal to the lower bound, to the upper one, to both, or to none. */
#include "sample/number_range.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 800, FREE_DIGITS = 15 };

/* A magnitude: digits before and after the point, no zeros that do not count. */
typedef struct decimal {
    bool negative;
    char whole[DIGITS_MAX], part[DIGITS_MAX];
} decimal;

typedef struct range {
    grammar_builder *b;
    const decimal *low, *high; /* magnitudes; high NULL: no bound */
    bool low_open, high_open, whole;
    int length, part_max; /* digits before the point; at most after it */
} range;

typedef struct tight {
    bool low, high; /* equal to the bound so far */
} tight;

/* The shortest digits that give the double again. */
static void decimal_of_double(decimal *d, double v)
{
    char text[64], *point;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(v));
        if (strtod(text, NULL) == fabs(v)) break;
    }
    char mantissa[32] = {text[0]};
    int exponent = atoi(strchr(text, 'e') + 1), n = 1;
    for (point = text + 2; *point != 'e' && text[1] == '.'; point++) mantissa[n++] = *point;
    while (n > 1 && mantissa[n - 1] == '0') n--;
    *d = (decimal){.negative = v < 0};
    int at = 0;
    for (int i = 0; i <= exponent; i++) d->whole[at++] = i < n ? mantissa[i] : '0';
    if (!at) d->whole[at++] = '0';
    at = 0;
    for (int i = exponent + 1; i < 0; i++) d->part[at++] = '0';
    for (int i = exponent < -1 ? 0 : exponent + 1; i < n; i++) d->part[at++] = mantissa[i];
}

static void decimal_of_int(decimal *d, int64_t v)
{
    *d = (decimal){.negative = v < 0};
    snprintf(d->whole, sizeof d->whole, "%" PRIu64, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static bool is_zero(const char *digits)
{
    while (*digits == '0') digits++;
    return !*digits;
}

static char digit_at(const char *digits, int i) { return i < (int)strlen(digits) ? digits[i] : '0'; }
static const char *digits_from(const char *digits, int i)
{
    const int n = (int)strlen(digits);
    return digits + (i < n ? i : n);
}

static phrase *digits_after(const range *r, int done, tight t);

/* Digit `from` … `to`, each with what follows it. */
static phrase *branch(const range *r, char from, char to, tight t, phrase *(*rest)(const range *, int, tight), int next)
{
    grammar_builder *b = r->b;
    phrase *any = phrase_list(b, PHRASE_CHOICE);
    if (t.low && t.high && from == to)
        return phrase_both(b, phrase_range(b, (uint8_t)from, (uint8_t)from), rest(r, next, t));
    if (t.low && from <= to)
        phrase_add(b, any,
                   phrase_both(b, phrase_range(b, (uint8_t)from, (uint8_t)from), rest(r, next, (tight){true, false})));
    const char first = (char)(from + t.low), last = (char)(to - t.high);
    if (first <= last)
        phrase_add(b, any, phrase_both(b, phrase_range(b, (uint8_t)first, (uint8_t)last), rest(r, next, (tight){0})));
    if (t.high && from <= to)
        phrase_add(b, any,
                   phrase_both(b, phrase_range(b, (uint8_t)to, (uint8_t)to), rest(r, next, (tight){false, true})));
    return any;
}

/* The end of a number whose first `done` digits after the point are there, or more of them. */
static phrase *part_from(const range *r, int done, tight t)
{
    grammar_builder *b = r->b;
    const char *low = t.low ? digits_from(r->low->part, done) : "",
               *high = t.high ? digits_from(r->high->part, done) : "";
    if (!grammar_builder_good(b, 0)) return NULL;
    const bool equals_low = t.low && is_zero(low), equals_high = t.high && is_zero(high);
    if (equals_high && r->high_open) return phrase_never(b);
    const bool ends = t.low ? equals_low && !r->low_open : true;
    phrase *end = ends ? phrase_string(b, "") : phrase_never(b);
    if (r->whole || done >= r->part_max) return end;
    if (equals_high) { /* zeros may follow */
        phrase *zeros = phrase_repeat(b, phrase_string(b, "0"), !done, r->part_max - done);
        if (!done) zeros = phrase_repeat(b, phrase_both(b, phrase_string(b, "."), zeros), 0, 1);
        return ends ? zeros : end;
    }
    if (equals_low && !r->low_open) t.low = false;
    phrase *more = digits_after(r, done, t);
    if (!done) more = phrase_both(b, phrase_string(b, "."), more);
    return phrase_either(b, end, more);
}

/* At least one digit more after the point. */
static phrase *digits_after(const range *r, int done, tight t)
{
    if (!t.low && !t.high) return phrase_repeat(r->b, phrase_range(r->b, '0', '9'), 1, r->part_max - done);
    return branch(r, t.low ? digit_at(r->low->part, done) : '0', t.high ? digit_at(r->high->part, done) : '9', t,
                  part_from, done + 1);
}

/* The number from digit `done` before the point on. */
static phrase *whole_from(const range *r, int done, tight t)
{
    if (done == r->length) return part_from(r, 0, t);
    const char least = done == 0 && r->length > 1 ? '1' : '0';
    if (!t.low && !t.high)
        return phrase_both(
            r->b,
            phrase_both(r->b, phrase_range(r->b, (uint8_t)least, '9'),
                        phrase_repeat(r->b, phrase_range(r->b, '0', '9'), r->length - done - 1, r->length - done - 1)),
            part_from(r, 0, t));
    return branch(r, t.low ? r->low->whole[done] : least, t.high ? r->high->whole[done] : '9', t, whole_from, done + 1);
}

static int compare_decimals(const decimal *a, const decimal *b)
{
    const size_t n = strlen(a->whole), m = strlen(b->whole);
    if (n != m) return n < m ? -1 : 1;
    const int whole = strcmp(a->whole, b->whole);
    return whole ? whole : strcmp(a->part, b->part);
}

/* Magnitudes between two; NULL: there is none. */
static phrase *numbers_between(range r)
{
    static const int whole_free = 18;
    const int order = r.high ? compare_decimals(r.low, r.high) : -1;
    if (order > 0 || (!order && (r.low_open || r.high_open))) return NULL;
    const int from = (int)strlen(r.low->whole), free = r.whole ? whole_free : FREE_DIGITS;
    const int to = r.high ? (int)strlen(r.high->whole) : from > free ? from + 1 : free;
    const int low_part = (int)strlen(r.low->part), high_part = r.high ? (int)strlen(r.high->part) : 0;
    const int needed = (low_part > high_part ? low_part : high_part) + 1;
    phrase *any = phrase_list(r.b, PHRASE_CHOICE);
    for (r.length = from; r.length <= to; r.length++) {
        r.part_max = FREE_DIGITS - r.length > needed ? FREE_DIGITS - r.length : needed;
        phrase_add(r.b, any, whole_from(&r, 0, (tight){r.length == from, r.high && r.length == to}));
    }
    return any;
}

/* The nearest whole number within the bound, as digits. */
static void whole_bound(decimal *d, number_bound *x, bool is_low)
{
    if (x->exact) {
        if (!x->open || (is_low ? x->whole == INT64_MAX : x->whole == INT64_MIN)) {
            decimal_of_int(d, x->whole);
            return;
        }
        decimal_of_int(d, x->whole + (is_low ? 1 : -1));
    } else {
        double v = is_low ? ceil(x->value) : floor(x->value);
        if (x->open && v == x->value) v += is_low ? 1 : -1;
        if (fabs(v) < 9e18) {
            decimal_of_int(d, (int64_t)v);
        } else {
            *d = (decimal){.negative = v < 0};
            snprintf(d->whole, sizeof d->whole, "%.0f", fabs(v));
        }
    }
    x->open = false;
}

phrase *number_between(grammar_builder *b, number_bound low, number_bound high, bool whole)
{
    static const decimal zero = {.whole = "0"};
    decimal from = zero, to = zero;
    for (int i = 0; i < 2; i++) {
        number_bound *x = i ? &high : &low;
        decimal *d = i ? &to : &from;
        if (!x->given) continue;
        if (whole) whole_bound(d, x, !i);
        else if (x->exact) decimal_of_int(d, x->whole);
        else decimal_of_double(d, x->value);
    }
    const bool no_low = !low.given, no_high = !high.given;
    phrase *below = NULL, *above = NULL;
    if (no_low || from.negative) { /* below zero: magnitudes from the upper bound to the lower */
        const bool reaches_zero = no_high || !to.negative;
        range r = {b, reaches_zero ? &zero : &to, no_low ? NULL : &from, reaches_zero || high.open, low.open, whole, 0,
                   0};
        below = numbers_between(r);
    }
    if (no_high || !to.negative) {
        const bool reaches_zero = no_low || from.negative;
        range r = {
            b, reaches_zero ? &zero : &from, no_high ? NULL : &to, !reaches_zero && low.open, high.open, whole, 0, 0};
        above = numbers_between(r);
    }
    if (below) below = phrase_both(b, phrase_string(b, "-"), below);
    return below && above ? phrase_either(b, below, above) : below ? below : above;
}
