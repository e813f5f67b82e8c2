/* text_until.c - see text_until.h. Both are the automaton of Knuth, Morris and Pratt (1977): a rule for each beginning
 * of the literal that the text may end with. Where characters are counted there is such a row of rules for each number
 * that may still come; rows are shared by all texts of a grammar. */
#include "sample/text_until.h"

#include <string.h>

enum {
    TRIGGER_BYTES_MAX = 200,
    COUNTED_MAX = 10000, /* characters of a text whose length is bounded above */
    COUNTED_STATES = 2   /* beginnings of the literal that are told apart where characters are counted */
};

/* How much of the literal the text ends with after a byte, where it ended with `have` bytes of it. */
static size_t after_byte(span literal, size_t have, uint8_t byte)
{
    for (size_t n = have + 1; n > 0; n--) /* the longest beginning that literal[0 … have) and the byte end with */
        if (literal.p[n - 1] == byte && memcmp(literal.p, literal.p + have + 1 - n, n - 1) == 0) return n;
    return 0;
}

phrase *text_until(grammar_builder *b, span trigger, phrase *then, bool required)
{
    uint32_t rule[TRIGGER_BYTES_MAX];
    if (trigger.n > TRIGGER_BYTES_MAX) err_set(b->e, ERR_LIMIT, "a trigger of more than %d bytes", TRIGGER_BYTES_MAX);
    for (size_t i = 0; i < trigger.n && grammar_builder_good(b, 0); i++)
        rule[i] = grammar_rule_new(b, span_str("text before a call"), NULL);
    for (size_t i = 0; i < trigger.n && grammar_builder_good(b, 0); i++) {
        phrase *any = phrase_list(b, PHRASE_CHOICE);
        byte_set to[TRIGGER_BYTES_MAX + 1];
        memset(to, 0, sizeof to);
        for (unsigned byte = 0; byte < 256; byte++) {
            byte_set *s = &to[after_byte(trigger, i, (uint8_t)byte)];
            byte_set_add(s, byte, byte);
        }
        for (size_t k = 0; k <= i + 1; k++) {
            if (!(to[k].bit[0] | to[k].bit[1] | to[k].bit[2] | to[k].bit[3])) continue;
            phrase *next = k == trigger.n ? then : phrase_rule(b, rule[k]);
            phrase_add(b, any, phrase_both(b, phrase_set(b, to[k]), next));
        }
        if (!required) phrase_add(b, any, phrase_string(b, ""));
        if (!b->e->code) b->rule[rule[i]].body = any;
    }
    return b->e->code ? NULL : phrase_rule(b, rule[0]);
}

/* A character but NUL and two others. */
static phrase *phrase_all_but(grammar_builder *b, uint32_t one, uint32_t two)
{
    char_class c = {0};
    const bool ok = char_class_add(b, &c, 0, 0) && char_class_add(b, &c, one, one) && char_class_add(b, &c, two, two) &&
                    char_class_close(b, &c, true);
    return phrase_rule(b, grammar_rule_new(b, span_str("a character of a text"), ok ? phrase_class(b, &c) : NULL));
}

/* A row of rules: rule k of them is what may follow where the text ends with k bytes of stop. A character leads to row
 * `next` (NULL: to the row itself); not more: none may come. */
static uint32_t new_row(stop_rules *t, size_t states, const uint32_t *next, bool more, bool may_end)
{
    grammar_builder *b = t->b;
    const uint32_t first = (uint32_t)b->n_rule, to = next ? *next : first;
    for (size_t k = 0; k < states; k++) grammar_rule_new(b, span_str("a text"), NULL);
    for (size_t k = 0; k < states && grammar_builder_good(b, 0); k++) {
        phrase *any = phrase_list(b, PHRASE_CHOICE);
        if (more) {
            phrase *begin = phrase_range(b, t->stop.p[0], t->stop.p[0]);
            phrase_add(b, any, phrase_both(b, t->other[k], phrase_rule(b, to)));
            phrase_add(b, any, phrase_both(b, begin, phrase_rule(b, to + 1)));
        }
        if (more && k && k + 1 < states) {
            phrase *on = phrase_range(b, t->stop.p[k], t->stop.p[k]);
            phrase_add(b, any, phrase_both(b, on, phrase_rule(b, to + (uint32_t)k + 1)));
        }
        if (may_end) phrase_add(b, any, phrase_string(b, ""));
        if (!b->e->code) b->rule[first + k].body = any;
    }
    return first;
}

void stop_rules_open(stop_rules *t, grammar_builder *b, span stop)
{
    *t = (stop_rules){.b = b, .stop = stop, .other = arena_array(&b->mem, stop.n + 1, sizeof *t->other)};
    bool good = stop.n >= COUNTED_STATES && stop.n <= TRIGGER_BYTES_MAX;
    for (size_t k = 0; k < stop.n && good; k++) good = stop.p[k] && stop.p[k] < 0x80 && (!k || stop.p[k] != stop.p[0]);
    if (!good)
        err_set(b->e, ERR_USAGE, "a text cannot be written before \"%.*s\"", (int)(stop.n < 40 ? stop.n : 40),
                (const char *)stop.p);
    if (!t->other) err_memory(b->e, "a grammar");
    for (size_t k = 0; k < stop.n && !b->e->code; k++) t->other[k] = phrase_all_but(b, stop.p[0], stop.p[k]);
    if (!b->e->code) t->loop = new_row(t, stop.n, NULL, true, true);
}

/* The row where at most n characters may follow. */
static uint32_t row_left(stop_rules *t, size_t n)
{
    if (!t->left) t->left = arena_array(&t->b->mem, COUNTED_MAX + 1, sizeof *t->left);
    if (!t->left) err_memory(t->b->e, "a grammar");
    for (; t->n_left <= n && grammar_builder_good(t->b, 0); t->n_left++) {
        const uint32_t *next = t->n_left ? &t->left[t->n_left - 1] : NULL;
        t->left[t->n_left] = new_row(t, COUNTED_STATES, next, next != NULL, true);
    }
    return t->b->e->code ? 0 : t->left[n];
}

phrase *text_without(stop_rules *t, int64_t min, int64_t max)
{
    if (t->b->e->code) return NULL;
    if (max >= 0 && max < min) return phrase_never(t->b);
    const int64_t more = max - min < COUNTED_MAX ? max - min : COUNTED_MAX;
    uint32_t row = max < 0 ? t->loop : row_left(t, (size_t)more);
    for (int64_t i = 0; i < min && grammar_builder_good(t->b, 0); i++)
        row = new_row(t, COUNTED_STATES, &row, true, false);
    return phrase_rule(t->b, row);
}

phrase *text_rest(stop_rules *t, bool begun) { return phrase_rule(t->b, t->loop + begun); }
