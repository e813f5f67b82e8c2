/* number_multiple.c - see number_multiple.h. A number is scaled to a whole one, S; a phrase for what follows a prefix
 * of its digits depends on the prefix only by its remainder, unless it is still equal to a bound. Phrases for
 * remainders are rules, made once. */
#include "sample/number_multiple.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 15, PLACES_MAX = 9, STEP_MAX = 400 };
#define MOST INT64_C(999999999999999) /* of DIGITS digits */

static int64_t power(int n)
{
    int64_t p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

bool multiple_of(multiple *m, double of, bool whole)
{
    char text[40];
    *m = (multiple){.step = 0};
    snprintf(text, sizeof text, "%.14e", of); /* "d.dddde+xx" */
    m->places = 14 - atoi(strchr(text, 'e') + 1);
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.') m->step = 10 * m->step + (*c - '0');
    while (m->places > 0 && m->step % 10 == 0) m->step /= 10, m->places--;
    if (m->places < -DIGITS || m->places > PLACES_MAX) return false;
    if (whole && m->places > 0) { /* the least whole multiple */
        m->step /= common_divisor(m->step, power(m->places));
        m->places = 0;
    }
    m->zeros = m->places < 0 ? -m->places : 0;
    if (m->places < 0) m->places = 0;
    while (!m->places && m->step % 10 == 0) m->step /= 10, m->zeros++;
    return m->step > 0 && m->step <= STEP_MAX && m->zeros < DIGITS - 3;
}

bool multiple_fits(double of, double value)
{
    const double times = value / of;
    return fabs(times - nearbyint(times)) <= 1e-9 * (fabs(times) > 1 ? fabs(times) : 1);
}

/* ---- phrases */

typedef struct walk {
    grammar_builder *b;
    const multiple *m;
    int64_t low, high;                   /* of S, which is not negative */
    uint32_t rule[DIGITS + 1][STEP_MAX]; /* and one: what may follow, by digits left and remainder; 0: not made */
} walk;

static phrase *follow_digits(walk *w, int64_t prefix, int left);

/* Whether a multiple lies between the bounds and has this prefix. */
static bool leads_anywhere(const walk *w, int64_t prefix, int left)
{
    const int64_t from = prefix * power(left), to = from + power(left) - 1, step = w->m->step;
    const int64_t low = from > w->low ? from : w->low, high = to < w->high ? to : w->high;
    return low <= high && (low + step - 1) / step * step <= high;
}

/* `digit` after `prefix`, and what may follow; NULL: nothing that leads to a multiple. */
static phrase *next_digit(walk *w, int64_t prefix, int left, int digit)
{
    const char text[] = {'.', (char)('0' + digit), 0};
    if (!leads_anywhere(w, prefix * 10 + digit, left - 1)) return NULL;
    const bool point = left == w->m->places;
    return phrase_both(w->b, phrase_string(w->b, text + !point), follow_digits(w, prefix * 10 + digit, left - 1));
}

/* What follows the digits of `prefix`, where at most `left` digits of S are left. */
static phrase *follow_digits(walk *w, int64_t prefix, int left)
{
    const int64_t from = prefix * power(left), to = from + power(left) - 1, rest = prefix % w->m->step;
    const bool free = from >= w->low && to <= w->high;
    if (free && w->rule[left][rest]) return phrase_rule(w->b, w->rule[left][rest] - 1);
    phrase *any = phrase_list(w->b, PHRASE_CHOICE);
    if (left <= w->m->places && from >= w->low && from <= w->high && from % w->m->step == 0)
        phrase_add(w->b, any, phrase_string(w->b, ""));
    for (int digit = 0; digit < 10 && left > 0 && grammar_builder_good(w->b, 0); digit++) {
        phrase *one = next_digit(w, prefix, left, digit);
        if (one) phrase_add(w->b, any, one);
    }
    if (!free) return any;
    const uint32_t rule = grammar_rule_new(w->b, span_str("multipleOf"), any);
    w->rule[left][rest] = rule + 1;
    return phrase_rule(w->b, rule);
}

/* S from low to high, neither negative. */
static phrase *magnitudes_between(walk *w, int64_t low, int64_t high)
{
    grammar_builder *b = w->b;
    phrase *any = phrase_list(b, PHRASE_CHOICE), *zeros = NULL;
    w->low = low > 0 ? low : 0;
    w->high = high;
    memset(w->rule, 0, sizeof w->rule);
    if (w->m->zeros) zeros = phrase_repeat(b, phrase_string(b, "0"), w->m->zeros, w->m->zeros);
    if (w->low == 0 && high >= 0) phrase_add(b, any, phrase_string(b, "0"));
    const bool fraction = w->m->places > 0;
    for (int n = 1; n + w->m->places <= DIGITS && grammar_builder_good(b, 0); n++)
        for (int digit = n == 1 && fraction ? 0 : 1; digit < 10; digit++) {
            const int left = n - 1 + w->m->places;
            const char text[] = {(char)('0' + digit), 0};
            if (!leads_anywhere(w, digit, left)) continue;
            phrase *one = phrase_both(b, phrase_string(b, text), follow_digits(w, digit, left));
            phrase_add(b, any, zeros ? phrase_both(b, one, zeros) : one);
        }
    return any && any->n ? any : NULL;
}

/* The least S at or above a bound, or above it; an upper one is turned round. */
static int64_t scaled(const multiple *m, number_bound at, bool low)
{
    if (!at.given) return MOST;
    const long double v = at.exact ? (long double)at.whole : (long double)at.value, by = powl(10, m->places - m->zeros);
    long double s = (low ? v : -v) * by, near = nearbyintl(s);
    if (fabsl(s - near) <= 1e-12L * (fabsl(s) > 1 ? fabsl(s) : 1)) s = near;
    s = at.open && s == floorl(s) ? s + 1 : ceill(s);
    return s > MOST ? MOST + 1 : s < -MOST ? -MOST : (int64_t)s;
}

phrase *multiples_between(grammar_builder *b, const multiple *m, number_bound low, number_bound high)
{
    walk *w = arena_array(&b->mem, 1, sizeof *w);
    if (!w) {
        err_memory(b->e, "a schema");
        return NULL;
    }
    *w = (walk){.b = b, .m = m};
    const int64_t from = low.given ? scaled(m, low, true) : -MOST, to = high.given ? -scaled(m, high, false) : MOST;
    if (from > to || from > MOST || to < -MOST) return NULL;
    phrase *up = to >= 0 ? magnitudes_between(w, from, to) : NULL, *down = NULL;
    if (from < 0) down = magnitudes_between(w, to < 0 ? -to : 1, -from);
    if (down) down = phrase_both(b, phrase_string(b, "-"), down);
    return up && down ? phrase_either(b, up, down) : up ? up : down;
}
