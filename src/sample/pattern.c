/* pattern.c - see pattern.h. With each phrase goes how many characters it has at least and at most: where the
 * pattern meets bounds of length anyway, or is one repeated class, nothing has to count them. */
#include "sample/pattern.h"

#include "base/utf8.h"

#include <string.h>

enum { NEST_MAX = 100, REPEAT_MAX = 1 << 20 };

/* A phrase with the number of its characters; most -1: any number. */
typedef struct part {
    phrase *p;
    int64_t least, most;
} part;

typedef struct scan {
    grammar_builder *b;
    span in;
    size_t at;
    int depth;
    bool in_json, within; /* the text is a JSON string; something may stand before and after what is not anchored */
    char without;         /* a character that the text must not have, nor NUL; 0: any may come */
    bool start, end;      /* ^ and $ of the alternative of the whole that was read last */
    part single;          /* the last alternative is this character, repeated; p NULL: it is not */
} scan;

static int peek_char(const scan *s, size_t ahead) { return s->at + ahead < s->in.n ? s->in.p[s->at + ahead] : -1; }
static bool has_failed(const scan *s) { return s->b->e->code != OK; }

static void refuse_pattern(scan *s, const char *what)
{
    err_set(s->b->e, ERR_FORMAT, "\"%.*s\": %s at byte %zu", (int)(s->in.n < 100 ? s->in.n : 100),
            (const char *)s->in.p, what, s->at);
}

static void add_range(scan *s, char_class *c, uint32_t from, uint32_t to) { char_class_add(s->b, c, from, to); }

/* Characters of \d \w \s or a negation. wide: all that some dialect has; else what every dialect has. */
static bool add_set(scan *s, char_class *c, int kind, bool wide)
{
    char_class inner = {0};
    const int low = kind | 32;
    const bool negated = kind != low;
    if (low != 'd' && low != 'w' && low != 's') return false;
    if (low != 's') add_range(s, &inner, '0', '9');
    if (low == 'w') {
        add_range(s, &inner, 'a', 'z');
        add_range(s, &inner, 'A', 'Z');
        add_range(s, &inner, '_', '_');
    }
    if (low != 's' && wide != negated) add_range(s, &inner, 0x80, CHAR_MAX_CODE);
    if (low == 's') {
        static const char_range more[] = {{0x1c, 0x1f},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                          {0x180e, 0x180e}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                          {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
        add_range(s, &inner, '\t', '\r');
        add_range(s, &inner, ' ', ' ');
        for (size_t i = 0; i < sizeof more / sizeof *more && wide != negated; i++)
            add_range(s, &inner, more[i].from, more[i].to);
    }
    if (!char_class_close(s->b, &inner, negated)) return true;
    for (size_t i = 0; i < inner.n; i++) add_range(s, c, inner.p[i].from, inner.p[i].to);
    return true;
}

static uint32_t take_hex(scan *s, int digits)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, s->at++) {
        const int c = peek_char(s, 0), h = c >= '0' && c <= '9'                 ? c - '0'
                                           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                                : -1;
        if (h < 0) refuse_pattern(s, "expected a hexadecimal digit");
        if (h < 0 || v > CHAR_MAX_CODE) return 0;
        v = v << 4 | (uint32_t)h;
    }
    return v;
}

/* \uHHHH, perhaps two that are one character, or \u{H…}; behind the u. */
static uint32_t take_unicode(scan *s)
{
    uint32_t v;
    if (peek_char(s, 0) == '{') {
        const uint8_t *end = memchr(s->in.p + s->at, '}', s->in.n - s->at);
        const size_t n = end ? (size_t)(end - s->in.p) - s->at - 1 : 0;
        s->at++;
        if (n < 1 || n > 6) refuse_pattern(s, "expected hexadecimal digits and a brace");
        v = has_failed(s) ? 0 : take_hex(s, (int)n);
        s->at++;
    } else {
        v = take_hex(s, 4);
        if (v >= 0xd800 && v < 0xdc00 && peek_char(s, 0) == '\\' && peek_char(s, 1) == 'u') {
            s->at += 2;
            const uint32_t low = take_hex(s, 4);
            if (low >= 0xdc00 && low < 0xe000) v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (v > CHAR_MAX_CODE || (v >= 0xd800 && v < 0xe000))
        refuse_pattern(s, "no character is meant by the escape that ends");
    return v;
}

/* An escape that is one character; at the backslash. */
static uint32_t take_escape(scan *s, bool in_class)
{
    static const char known[] = "tnrfv", meant[] = "\t\n\r\f\v";
    const int c = peek_char(s, 1);
    const char *simple = c > 0 ? strchr(known, c) : NULL;
    const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    if (c < 0) refuse_pattern(s, "a backslash ends the pattern");
    else if (c == 'b' && in_class) simple = known; /* below: backspace */
    else if (c == 'b' || c == 'B') refuse_pattern(s, "a word boundary is not supported");
    else if (c == 'p' || c == 'P') refuse_pattern(s, "a Unicode property is not supported");
    else if (digit && c != '0') refuse_pattern(s, "a back reference is not supported");
    else if (c == '0' && peek_char(s, 2) >= '0' && peek_char(s, 2) <= '9')
        refuse_pattern(s, "an octal escape is not supported");
    else if (letter && !simple && c != 'x' && c != 'u') refuse_pattern(s, "an escape that is not known");
    if (has_failed(s)) return 0;
    s->at += 2;
    if (c == 'b') return '\b';
    if (simple) return (uint8_t)meant[simple - known];
    if (c == '0') return 0;
    if (c == 'x') return take_hex(s, 2);
    if (c == 'u') return take_unicode(s);
    s->at--; /* the sign itself, which may have several bytes */
    size_t n;
    const uint32_t v = utf8_decode(s->in.p + s->at, s->in.n - s->at, &n);
    s->at += n;
    return v;
}

static uint32_t take_char(scan *s, bool in_class)
{
    size_t n;
    if (peek_char(s, 0) == '\\') return take_escape(s, in_class);
    const uint32_t c = utf8_decode(s->in.p + s->at, s->in.n - s->at, &n);
    s->at += n;
    return c;
}

/* One character of a class as it stands in the text. */
static part character(scan *s, char_class *c, bool negated)
{
    phrase *p = NULL;
    const uint32_t other = (uint8_t)s->without;
    bool ok = char_class_close(s->b, c, s->without ? !negated : negated);
    if (s->without)
        ok = ok && char_class_add(s->b, c, 0, 0) && char_class_add(s->b, c, other, other) &&
             char_class_close(s->b, c, true);
    if (ok && s->without && !c->n) refuse_pattern(s, "what ends here cannot be written in a text between tags");
    if (ok) p = s->in_json ? json_class(s->b, c) : phrase_class(s->b, c);
    return (part){p, 1, 1};
}

static part take_class(scan *s)
{
    char_class c = {0};
    s->at++;
    const bool negated = peek_char(s, 0) == '^';
    s->at += negated;
    for (bool set; peek_char(s, 0) != ']' && !has_failed(s);) {
        if (peek_char(s, 0) < 0) refuse_pattern(s, "a class does not end");
        if (peek_char(s, 0) == '[' && (peek_char(s, 1) == ':' || peek_char(s, 1) == '['))
            refuse_pattern(s, "a class in a class is not supported");
        if (has_failed(s)) break;
        set = peek_char(s, 0) == '\\' && peek_char(s, 1) > 0 && strchr("dDwWsS", peek_char(s, 1)) &&
              add_set(s, &c, peek_char(s, 1), negated);
        if (set) {
            s->at += 2;
            continue;
        }
        const uint32_t from = take_char(s, true);
        uint32_t to = from;
        if (peek_char(s, 0) == '-' && peek_char(s, 1) >= 0 && peek_char(s, 1) != ']') {
            s->at++;
            if (peek_char(s, 0) == '\\' && peek_char(s, 1) > 0 && strchr("dDwWsS", peek_char(s, 1)))
                refuse_pattern(s, "a range to a set");
            to = has_failed(s) ? from : take_char(s, true);
        }
        if (to < from) refuse_pattern(s, "the range that ends here ends before it begins");
        add_range(s, &c, from, to);
    }
    s->at++;
    return has_failed(s) ? (part){0} : character(s, &c, negated);
}

static part take_choice(scan *s, bool whole);

static part take_group(scan *s)
{
    s->at++;
    if (peek_char(s, 0) == '?') {
        const int c = peek_char(s, 1), d = peek_char(s, 2);
        const bool python = c == 'P' && d == '<', named = python || (c == '<' && d != '=' && d != '!');
        if (c == ':') s->at += 2;
        else if (named)
            while (peek_char(s, 0) >= 0 && s->in.p[s->at++] != '>') continue;
        else if (c == '=' || c == '!' || c == '<') refuse_pattern(s, "look-around is not supported");
        else refuse_pattern(s, "a group of this kind is not supported");
    }
    if (++s->depth > NEST_MAX) refuse_pattern(s, "groups nest too deeply");
    const part x = has_failed(s) ? (part){0} : take_choice(s, false);
    s->depth--;
    if (!has_failed(s) && peek_char(s, 0) != ')') refuse_pattern(s, "expected ')'");
    s->at++;
    return x;
}

/* One item of a sequence; single: it is one character. */
static part take_atom(scan *s, bool *single)
{
    char_class c = {0};
    const int first = peek_char(s, 0);
    *single = first != '(';
    if (first == '(') return take_group(s);
    if (first == '[') return take_class(s);
    if (first == '*' || first == '+' || first == '?') refuse_pattern(s, "nothing stands before the repetition");
    if (first == '^' || first == '$') refuse_pattern(s, "an anchor is supported at the ends of the pattern only");
    if (has_failed(s)) return (part){0};
    if (first == '.') {
        s->at++;
        add_range(s, &c, '\n', '\n');
        add_range(s, &c, '\r', '\r');
        add_range(s, &c, 0x2028, 0x2029);
        return character(s, &c, true);
    }
    if (first == '\\' && peek_char(s, 1) > 0 && strchr("dDwWsS", peek_char(s, 1)) &&
        add_set(s, &c, peek_char(s, 1), false)) {
        s->at += 2;
        return character(s, &c, false);
    }
    const uint32_t one = take_char(s, false);
    add_range(s, &c, one, one);
    return has_failed(s) ? (part){0} : character(s, &c, false);
}

static int64_t take_number(scan *s)
{
    int64_t n = 0;
    while (peek_char(s, 0) >= '0' && peek_char(s, 0) <= '9' && n <= REPEAT_MAX) n = n * 10 + s->in.p[s->at++] - '0';
    if (n > REPEAT_MAX) refuse_pattern(s, "a repetition is too large");
    return n;
}

/* * + ? {m} {m,} {m,n}, lazy or not; false: none follows. */
static bool take_repeat(scan *s, int64_t *min, int64_t *max)
{
    const int c = peek_char(s, 0);
    *min = c == '+';
    *max = c == '?' ? 1 : -1;
    if (c == '{' && peek_char(s, 1) >= '0' && peek_char(s, 1) <= '9') {
        s->at++;
        *max = *min = take_number(s);
        if (peek_char(s, 0) == ',') {
            s->at++;
            *max = peek_char(s, 0) == '}' ? -1 : take_number(s);
        }
        if (peek_char(s, 0) != '}') refuse_pattern(s, "expected '}'");
        if (*max >= 0 && *max < *min) refuse_pattern(s, "the repetition has a maximum below its minimum");
    } else if (c != '*' && c != '+' && c != '?') {
        return false;
    }
    s->at++;
    if (peek_char(s, 0) == '?') s->at++; /* lazy: the same texts */
    else if (peek_char(s, 0) == '+') refuse_pattern(s, "a possessive repetition is not supported");
    return !has_failed(s);
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    if (a == 0 || b == 0) return 0;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

static int64_t add_bounded(int64_t a, int64_t b)
{
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}

static part take_sequence(scan *s, bool whole)
{
    part all = {phrase_list(s->b, PHRASE_SEQUENCE), 0, 0};
    int n = 0;
    s->start = s->end = false;
    s->single = (part){0};
    while (whole && peek_char(s, 0) == '^') s->at++, s->start = true;
    const bool start = s->start;
    bool end = false;
    part one = {0};
    for (int c; (c = peek_char(s, 0)) >= 0 && c != '|' && c != ')' && !has_failed(s); n++) {
        const int after = peek_char(s, 1);
        if (whole && c == '$' && (after < 0 || after == '|' || after == '$')) {
            s->at++;
            end = true;
            continue;
        }
        bool single;
        int64_t min = 1, max = 1;
        part x = take_atom(s, &single);
        one = single && !n ? (part){x.p, 1, 1} : (part){0};
        if (!has_failed(s) && take_repeat(s, &min, &max)) {
            x = (part){phrase_repeat(s->b, x.p, min, max), times(x.least, min), times(x.most, max)};
            one = (part){one.p, min, max};
        }
        all = (part){phrase_add(s->b, all.p, x.p), add_bounded(all.least, x.least), add_bounded(all.most, x.most)};
    }
    s->start = start;
    s->end = end;
    s->single = n - end == 1 ? one : (part){0};
    return all;
}

static phrase *any_character(scan *s)
{
    char_class all = {0};
    add_range(s, &all, 0, CHAR_MAX_CODE);
    return character(s, &all, false).p;
}

static phrase *anything(scan *s) { return phrase_repeat(s->b, any_character(s), 0, -1); }

static part take_choice(scan *s, bool whole)
{
    part any = {phrase_list(s->b, PHRASE_CHOICE), INT64_MAX, 0};
    for (bool more = true, first = true; more && !has_failed(s); first = false) {
        part x = take_sequence(s, whole);
        if (whole && s->within) {
            phrase *p = s->start ? x.p : phrase_both(s->b, anything(s), x.p);
            x.p = s->end ? p : phrase_both(s->b, p, anything(s));
            if (!s->start || !s->end) x.most = -1;
        }
        any.least = x.least < any.least ? x.least : any.least;
        any.most = any.most < 0 || x.most < 0 ? -1 : x.most > any.most ? x.most : any.most;
        phrase_add(s->b, any.p, x.p);
        more = peek_char(s, 0) == '|';
        s->at += more;
        if (!first || more || !s->start || !s->end) s->single = (part){0};
    }
    return any;
}

static part take_whole(scan *s)
{
    const part x = take_choice(s, true);
    if (!has_failed(s) && s->at < s->in.n) refuse_pattern(s, "')' closes nothing");
    return x;
}

/* The pattern as a part of a text of min to max characters. */
static phrase *take_within(scan *s, int64_t min, int64_t max)
{
    const part x = take_whole(s);
    const part one = s->single;
    if (has_failed(s)) return NULL;
    if (x.least >= min && (max < 0 || (x.most >= 0 && x.most <= max))) return x.p;
    if (!one.p) return phrase_common(s->b, x.p, phrase_repeat(s->b, any_character(s), min, max));
    if (one.least > min) min = one.least;
    if (max < 0 || (one.most >= 0 && one.most < max)) max = one.most;
    return max >= 0 && max < min ? phrase_never(s->b) : phrase_repeat(s->b, one.p, min, max);
}

phrase *pattern_in_json(json_phrases *j, const char *pattern, int64_t min, int64_t max)
{
    scan s = {.b = j->b, .in = span_str(pattern), .in_json = true, .within = true};
    return json_quoted(j, take_within(&s, min, max));
}

phrase *pattern_in_raw(grammar_builder *b, const char *pattern, char without, int64_t min, int64_t max)
{
    scan s = {.b = b, .in = span_str(pattern), .within = true, .without = without};
    return take_within(&s, min, max);
}

phrase *pattern_of_text(grammar_builder *b, const char *pattern)
{
    scan s = {.b = b, .in = span_str(pattern)};
    return take_whole(&s).p;
}
