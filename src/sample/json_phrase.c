/* json_phrase.c - see json_phrase.h. */
#include "sample/json_phrase.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 512 };

static phrase *rule_of(json_phrases *j, const char *name, phrase *body)
{
    return phrase_rule(j->b, grammar_rule_new(j->b, span_str(name), body));
}

static phrase *one_of(grammar_builder *b, const char *bytes)
{
    byte_set s = {0};
    for (; *bytes; bytes++) byte_set_add(&s, (uint8_t)*bytes, (uint8_t)*bytes);
    return phrase_set(b, s);
}

static phrase *hex(grammar_builder *b) { return one_of(b, "0123456789abcdefABCDEF"); }

/* A hexadecimal number of four digits whose first and second are among these. */
static phrase *hex4_phrase(grammar_builder *b, const char *first, const char *second)
{
    return phrase_both(b, phrase_both(b, one_of(b, first), one_of(b, second)), phrase_repeat(b, hex(b), 2, 2));
}

/* What follows the backslash: all but surrogates by themselves and NUL. */
static phrase *escape(grammar_builder *b)
{
    phrase *u = phrase_list(b, PHRASE_CHOICE), *low, *zero;
    phrase_add(b, u, hex4_phrase(b, "123456789abcefABCEF", "0123456789abcdefABCDEF"));
    phrase_add(b, u, hex4_phrase(b, "0", "123456789abcdefABCDEF"));
    zero = phrase_either(b, phrase_both(b, one_of(b, "123456789abcdefABCDEF"), hex(b)),
                         phrase_both(b, phrase_string(b, "0"), one_of(b, "123456789abcdefABCDEF")));
    phrase_add(b, u, phrase_both(b, phrase_string(b, "00"), zero));
    phrase_add(b, u, hex4_phrase(b, "dD", "01234567"));
    low = phrase_both(b, phrase_string(b, "\\u"), hex4_phrase(b, "dD", "cdefCDEF"));
    phrase_add(b, u, phrase_both(b, hex4_phrase(b, "dD", "89abAB"), low));
    return phrase_either(b, one_of(b, "\"\\/bfnrt"), phrase_both(b, phrase_string(b, "u"), u));
}

static phrase *plain_character(grammar_builder *b)
{
    char_class c = {0};
    const bool ok = char_class_add(b, &c, 0, 0x1f) && char_class_add(b, &c, '"', '"') &&
                    char_class_add(b, &c, '\\', '\\') && char_class_close(b, &c, true);
    return ok ? phrase_class(b, &c) : NULL;
}

static phrase *digits(grammar_builder *b, int64_t min, int64_t max)
{
    return phrase_repeat(b, phrase_range(b, '0', '9'), min, max);
}

/* With blanks within; inside is not empty. */
static phrase *bracketed(json_phrases *j, char open, phrase *inside, char close)
{
    const char first[] = {open, 0}, last[] = {close, 0};
    phrase *within = phrase_both(j->b, j->space, phrase_both(j->b, inside, j->space));
    return phrase_both(j->b, phrase_string(j->b, first), phrase_both(j->b, within, phrase_string(j->b, last)));
}

/* Values of any content, which contain each other: the rule of values is known before it has a body. */
static void open_values(json_phrases *j)
{
    grammar_builder *b = j->b;
    const uint32_t value = grammar_rule_new(b, span_str("a JSON value"), NULL);
    j->value = phrase_rule(b, value);
    phrase *pair = phrase_both(b, phrase_both(b, j->string, phrase_string(b, ":")), phrase_both(b, j->space, j->value));
    phrase *pairs = phrase_both(b, pair, phrase_repeat(b, phrase_both(b, json_comma(j), pair), 0, -1));
    phrase *items = phrase_both(b, j->value, phrase_repeat(b, phrase_both(b, json_comma(j), j->value), 0, -1));
    phrase *none = phrase_both(b, phrase_string(b, "{"), phrase_both(b, j->space, phrase_string(b, "}")));
    j->object = rule_of(j, "a JSON object", phrase_either(b, none, bracketed(j, '{', pairs, '}')));
    none = phrase_both(b, phrase_string(b, "["), phrase_both(b, j->space, phrase_string(b, "]")));
    j->array = rule_of(j, "a JSON array", phrase_either(b, none, bracketed(j, '[', items, ']')));
    phrase *any = phrase_list(b, PHRASE_CHOICE), *const all[] = {j->object, j->array, j->string, j->number};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) phrase_add(b, any, all[i]);
    phrase_add(b, any, phrase_string(b, "true"));
    phrase_add(b, any, phrase_string(b, "false"));
    phrase_add(b, any, phrase_string(b, "null"));
    if (grammar_builder_good(b, 0)) b->rule[value].body = any;
}

void json_phrases_open(json_phrases *j, grammar_builder *b)
{
    *j = (json_phrases){.b = b};
    phrase *line = phrase_both(b, phrase_string(b, "\n"), phrase_repeat(b, one_of(b, " \t"), 0, 8));
    j->space = rule_of(j, "blanks", phrase_repeat(b, phrase_either(b, phrase_string(b, " "), line), 0, 1));
    j->plain = rule_of(j, "a character", plain_character(b));
    phrase *escaped = phrase_both(b, phrase_string(b, "\\"), escape(b));
    j->character = rule_of(j, "a character of a string", phrase_either(b, plain_character(b), escaped));
    j->string = rule_of(j, "a JSON string", json_quoted(j, phrase_repeat(b, j->character, 0, -1)));
    phrase *whole = phrase_either(b, phrase_string(b, "0"),
                                  phrase_both(b, phrase_range(b, '1', '9'), digits(b, 0, 15)));
    j->integer = rule_of(j, "a whole number", phrase_both(b, phrase_repeat(b, phrase_string(b, "-"), 0, 1), whole));
    phrase *fraction = phrase_both(b, phrase_string(b, "."), digits(b, 1, 16));
    phrase *exponent = phrase_both(b, one_of(b, "eE"),
                                   phrase_both(b, phrase_repeat(b, one_of(b, "+-"), 0, 1), digits(b, 1, 2)));
    phrase *rest = phrase_both(b, phrase_repeat(b, fraction, 0, 1), phrase_repeat(b, exponent, 0, 1));
    j->number = rule_of(j, "a JSON number", phrase_both(b, j->integer, rest));
    open_values(j);
}

phrase *json_literal(json_phrases *j, const json *value)
{
    buf text = {0};
    if (!json_print(&text, value, false)) err_memory(j->b->e, "a schema");
    phrase *p = phrase_text(j->b, buf_span(&text));
    buf_free(&text);
    return p;
}

phrase *json_named_key(json_phrases *j, const char *name)
{
    buf text = {0};
    if (!json_quote(&text, span_str(name)) || !buf_byte(&text, ':')) err_memory(j->b->e, "a schema");
    phrase *p = phrase_text(j->b, buf_span(&text));
    buf_free(&text);
    return phrase_both(j->b, p, j->space);
}

phrase *json_quoted(json_phrases *j, phrase *inside)
{
    return phrase_both(j->b, phrase_string(j->b, "\""), phrase_both(j->b, inside, phrase_string(j->b, "\"")));
}

phrase *json_comma(json_phrases *j) { return phrase_both(j->b, phrase_string(j->b, ","), j->space); }

/* ---- keys that are not among some names */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The characters that no such key has, in strings or tags. */
static bool add_signs(grammar_builder *b, char_class *c, bool in_tag)
{
    return char_class_add(b, c, 0, in_tag ? ' ' : 0x1f) && char_class_add(b, c, '"', '"') &&
           char_class_add(b, c, '\\', '\\') &&
           (!in_tag || (char_class_add(b, c, '<', '<') && char_class_add(b, c, '>', '>')));
}

static bool is_sign(uint32_t c, bool in_tag)
{
    return c < 0x20 || c == '"' || c == '\\' || (in_tag && (c == ' ' || c == '<' || c == '>'));
}

/* What may follow the first `at` bytes of names[0 … n), which are the same in all, and sorted: any text that makes none
 * of the names whole. plain: one of its characters. */
static phrase *other_than(grammar_builder *b, phrase *plain, bool in_tag, const char *const *names, size_t n, size_t at)
{
    char_class none = {0};
    phrase *any = phrase_list(b, PHRASE_CHOICE);
    bool whole = in_tag && !at, ok = add_signs(b, &none, in_tag);
    if (!grammar_builder_good(b, 0)) return NULL;
    for (size_t i = 0, same; i < n && ok; i += same) {
        size_t length = 1;
        const uint8_t *text = (const uint8_t *)names[i] + at;
        same = 1;
        if (!*text) {
            whole = true;
            continue;
        }
        const uint32_t c = utf8_decode(text, strlen(names[i]) - at, &length);
        while (i + same < n && !strncmp(names[i + same], names[i], at + length)) same++;
        ok = char_class_add(b, &none, c, c);
        if (is_sign(c, in_tag)) continue; /* not without an escape */
        phrase *rest = other_than(b, plain, in_tag, names + i, same, at + length);
        phrase_add(b, any, phrase_both(b, phrase_text(b, span_of(text, length)), rest));
    }
    if (!ok || !char_class_close(b, &none, true)) return NULL;
    phrase_add(b, any, phrase_both(b, phrase_class(b, &none), phrase_repeat(b, plain, 0, -1)));
    if (!whole) phrase_add(b, any, phrase_string(b, ""));
    return any;
}

static phrase *other_name(json_phrases *j, phrase *plain, bool in_tag, const char *const *names, size_t n)
{
    grammar_builder *b = j->b;
    const char **sorted = arena_array(&b->mem, n + 1, sizeof *sorted);
    if (!sorted) {
        err_memory(b->e, "a schema");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) > NAME_BYTES_MAX)
            err_set(b->e, ERR_LIMIT, "additionalProperties: beside names of more than %d bytes", NAME_BYTES_MAX);
        sorted[i] = names[i];
    }
    qsort(sorted, n, sizeof *sorted, by_text);
    return other_than(b, plain, in_tag, sorted, n, 0);
}

phrase *json_other_key(json_phrases *j, const char *const *names, size_t n)
{
    grammar_builder *b = j->b;
    phrase *key = json_quoted(j, other_name(j, j->plain, false, names, n));
    return phrase_both(b, key, phrase_both(b, phrase_string(b, ":"), j->space));
}

phrase *json_other_tag(json_phrases *j, const char *const *names, size_t n)
{
    char_class c = {0};
    const bool ok = add_signs(j->b, &c, true) && char_class_close(j->b, &c, true);
    return other_name(j, rule_of(j, "a character of a tag", ok ? phrase_class(j->b, &c) : NULL), true, names, n);
}

phrase *json_class(grammar_builder *b, const char_class *c)
{
    static const char shorts[] = "\b\f\n\r\t\"\\", spelled[] = "bfnrt\"\\";
    phrase *any = phrase_list(b, PHRASE_CHOICE);
    char_class raw = {0};
    bool ok = true;
    for (size_t i = 0; i < c->n && ok; i++) {
        for (uint32_t from = c->p[i].from; from <= c->p[i].to && ok;) { /* runs between those that need escapes */
            char text[8];
            const char *s = from && from < 0x80 ? strchr(shorts, (int)from) : NULL;
            if (from < 0x20 || s) {
                if (s) snprintf(text, sizeof text, "\\%c", spelled[s - shorts]);
                else snprintf(text, sizeof text, "\\u%04x", from);
                if (from) phrase_add(b, any, phrase_string(b, text));
                from++;
                continue;
            }
            uint32_t to = from < '"' ? '"' - 1 : from < '\\' ? '\\' - 1 : CHAR_MAX_CODE;
            if (to > c->p[i].to) to = c->p[i].to;
            ok = char_class_add(b, &raw, from, to);
            from = to + 1;
        }
    }
    return ok && char_class_close(b, &raw, false) ? phrase_add(b, any, phrase_class(b, &raw)) : NULL;
}
