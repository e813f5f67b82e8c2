/* tk_regex_syntax.c - see tk_regex_syntax.h.
 *
 * Rewritten, because PCRE2 gives them another meaning:
 *   \s \w \d \h \p{L}  and their negations: PCRE2's \s has U+180E, its \w has no marks, \h is a hexadecimal digit in
 *                      Oniguruma, and PCRE2 10.42 has Unicode 14 where the others have 16
 *   \b \B              go by that \w
 *   [:space:]          the other libraries' set; most POSIX names are refused
 *   [a[bc]] [a&&b]     classes in classes: here an expression that matches one character
 *   X{n,m}+            Oniguruma: a repeated repetition; PCRE2: possessive
 *   ^ $                Oniguruma: of lines
 * Everything else is passed on; PCRE2 refuses what it does not know. */
#define _GNU_SOURCE
#include "text/tk_regex_syntax.h"

#include "base/utf8.h"
#include "text/tk_unicode_table.h"

#include <string.h>

#define SPACES "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define HEX    "0-9a-fA-F"

enum { NEST_MAX = 32 };

typedef struct scan {
    span in;
    size_t at;
    buf *out;
    regex_flavour from;
    int depth;
    err *e;
} scan;

static int peek_char(const scan *s, size_t ahead) { return s->at + ahead < s->in.n ? s->in.p[s->at + ahead] : -1; }

static int refuse_regex(const scan *s, const char *why)
{
    return err_set(s->e, ERR_FORMAT, "pattern \"%.*s\": %s at byte %zu", (int)(s->in.n < 200 ? s->in.n : 200),
                   (const char *)s->in.p, why, s->at);
}

/* A property as members of a class: PCRE2's, and the characters that are newer than PCRE2. */
static void put_property(buf *out, span name)
{
    buf_str(out, "\\p{");
    buf_add(out, name.p, name.n);
    buf_byte(out, '}');
    for (const uc_category_range *r = uc_newer; r->to && name.n <= 2; r++)
        if (memcmp(r->category, name.p, name.n) == 0) buf_printf(out, "\\x{%x}-\\x{%x}", r->from, r->to);
    for (const uc_range *r = uc_newer_han; r->to && span_is(name, "Han"); r++)
        buf_printf(out, "\\x{%x}-\\x{%x}", r->from, r->to);
}

static void put_word_set(buf *out, regex_flavour from)
{
    static const char *const properties[] = {"L", "M", "Nl", "Nd", "Pc"};
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) put_property(out, span_str(properties[i]));
    /* Other_Alphabetic that is neither letter nor mark: circled letters */
    buf_str(out, "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
    if (from == REGEX_FANCY) buf_str(out, "\\x{200c}\\x{200d}");
}

/* Oniguruma's \w and \b outside of classes know six more characters of Latin-1, the superscripts and fractions. */
static void put_bare_word_set(buf *out, regex_flavour from)
{
    put_word_set(out, from);
    if (from == REGEX_ONIGURUMA) buf_str(out, "\\xb2\\xb3\\xb9\\xbc-\\xbe");
}

static void put_boundary(buf *out, regex_flavour from, bool negated)
{
    buf set = {0};
    buf_byte(&set, '[');
    put_bare_word_set(&set, from);
    buf_byte(&set, ']');
    const char *w = buf_cstr(&set);
    buf_printf(out, negated ? "(?:(?<=%s)(?=%s)|(?<!%s)(?!%s))" : "(?:(?<=%s)(?!%s)|(?<!%s)(?=%s))", w, w, w, w);
    if (set.bad) out->bad = true;
    buf_free(&set);
}

/* An escape at s->at that stands for a set: \p{X} \pX \s \w \d \h and the negations. Puts its members into *out and
 * steps over it. False: another kind of escape. */
static bool put_set(scan *s, buf *out, bool *negated)
{
    int c = peek_char(s, 1), low = c | 32;
    size_t n = 2;
    *negated = c != low;
    if (c < 'A' || c > 'z') return false;
    if (low == 'p') {
        if (peek_char(s, 2) == '{')
            while (peek_char(s, n) >= 0 && peek_char(s, n) != '}') n++;
        if (peek_char(s, n) < 0) return false;
        bool braces = peek_char(s, 2) == '{';
        span name = span_of(s->in.p + s->at + 2 + braces, n - 2 + !braces - braces);
        if (name.n && name.p[0] == '^') {
            *negated = !*negated;
            name = span_of(name.p + 1, name.n - 1);
        }
        if (!name.n) return false;
        put_property(out, name);
        n++;
    } else if (low == 's') {
        buf_str(out,
                "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}");
    } else if (low == 'w') {
        put_word_set(out, s->from);
    } else if (low == 'd') {
        put_property(out, span_str("Nd"));
    } else if (low == 'h' && s->from == REGEX_ONIGURUMA) {
        buf_str(out, HEX);
    } else {
        return false;
    }
    s->at += n;
    return true;
}

/* Any other escape, copied as it is: \x{..}, \n, \.; \u0041 is \x{0041}. */
static int copy_escape(scan *s)
{
    int c = peek_char(s, 1);
    size_t n = 2;
    if (c < 0) return refuse_regex(s, "ends in a backslash");
    if (c == 'u') {
        if (s->in.n - s->at < 6) return refuse_regex(s, "\\u needs four digits");
        buf_printf(s->out, "\\x{%.4s}", (const char *)s->in.p + s->at + 2);
        s->at += 6;
        return OK;
    }
    if (c == 'x' && peek_char(s, 2) == '{') {
        while (peek_char(s, n) >= 0 && peek_char(s, n) != '}') n++;
        if (peek_char(s, n) != '}') return refuse_regex(s, "brace without end");
        n++;
    } else if (c >= 0x80) {
        utf8_decode(s->in.p + s->at + 1, s->in.n - s->at - 1, &n);
        n++;
    }
    buf_add(s->out, s->in.p + s->at, n);
    s->at += n;
    return OK;
}

static int class_expression(scan *s);

/* [:space:] at s->at */
static int put_posix(scan *s, buf *out)
{
    static const struct {
        const char *name, *set;
    } rows[] = {{"[:space:]", SPACES}, {"[:xdigit:]", HEX}};
    span here = span_of(s->in.p + s->at, s->in.n - s->at);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!span_starts(here, rows[i].name)) continue;
        s->at += strlen(rows[i].name);
        buf_str(out, rows[i].set);
        return OK;
    }
    if (span_starts(here, "[:word:]")) {
        put_word_set(out, s->from);
        s->at += 8;
    } else if (span_starts(here, "[:digit:]")) {
        put_property(out, span_str("Nd"));
        s->at += 9;
    } else {
        return refuse_regex(s, "POSIX class that is not supported");
    }
    return OK;
}

/* Whether a translated class is one class, not negated, without others in it. */
static bool one_class(const buf *b)
{
    bool one = b->n > 2 && b->p[0] == '[' && b->p[1] != '^' && b->p[b->n - 1] == ']';
    for (size_t i = 1; i + 1 < b->n && one; i++) {
        if (b->p[i] == '\\') i++;
        else if (b->p[i] == ']') one = false;
    }
    return one;
}

/* One operand of a class, up to ']' or "&&": plain members form one class, nested and negated ones are alternatives. */
static int class_operand(scan *s)
{
    buf *out = s->out, plain = {0}, nested = {0};
    int rc = OK, c, parts = 0;
    bool negated;
    while (!rc && (c = peek_char(s, 0)) != ']' && !(c == '&' && peek_char(s, 1) == '&')) {
        buf set = {0};
        if (c < 0) {
            rc = refuse_regex(s, "class without end");
        } else if (c == '[' && peek_char(s, 1) == ':') {
            rc = put_posix(s, &plain);
        } else if (c == '[') {
            s->out = &set;
            rc = class_expression(s);
            s->out = out;
            if (one_class(&set)) {
                buf_add(&plain, set.p + 1, set.n - 2);
            } else {
                if (parts++) buf_byte(&nested, '|');
                buf_add(&nested, set.p, set.n);
            }
        } else if (c == '\\' && put_set(s, &set, &negated)) {
            if (negated) buf_str(&nested, parts++ ? "|[^" : "[^");
            buf_add(negated ? &nested : &plain, set.p, set.n);
            if (negated) buf_byte(&nested, ']');
            if (peek_char(s, 0) == '-') { /* not a range */
                buf_str(&plain, "\\-");
                s->at++;
            }
        } else if (c == '\\') {
            s->out = &plain;
            rc = copy_escape(s);
            s->out = out;
        } else {
            if (c == '^' && !plain.n) buf_byte(&plain, '\\');
            buf_byte(&plain, (uint8_t)c);
            s->at++;
        }
        if (set.bad) plain.bad = true;
        buf_free(&set);
    }
    bool group = (plain.n && nested.n) || parts > 1;
    if (group) buf_str(out, "(?:");
    if (plain.n) {
        buf_byte(out, '[');
        buf_add(out, plain.p, plain.n);
        buf_str(out, nested.n ? "]|" : "]");
    }
    buf_add(out, nested.p, nested.n);
    if (group) buf_byte(out, ')');
    if (!rc && !plain.n && !nested.n) rc = refuse_regex(s, "empty class");
    if (plain.bad || nested.bad) out->bad = true;
    buf_free(&plain);
    buf_free(&nested);
    return rc;
}

/* The operands of a class after '[' and '^'; A&&B becomes (?=A)B. */
static int class_body(scan *s)
{
    buf *out = s->out;
    int rc = OK;
    if (peek_char(s, 0) == ']') { /* first: a plain character, as PCRE2 has it too */
        buf_str(out, "[\\]");
        for (s->at++; !rc && peek_char(s, 0) >= 0 && peek_char(s, 0) != ']';) {
            if (peek_char(s, 0) == '[' || peek_char(s, 0) == '&')
                rc = refuse_regex(s, "class that begins with ] and nests");
            else if (peek_char(s, 0) == '\\') rc = copy_escape(s);
            else buf_byte(out, s->in.p[s->at++]);
        }
        buf_byte(out, ']');
        return rc;
    }
    for (bool grouped = false;;) {
        buf operand = {0};
        s->out = &operand;
        rc = class_operand(s);
        s->out = out;
        bool more = !rc && peek_char(s, 0) == '&';
        if (more) buf_str(out, grouped ? "(?=" : "(?:(?=");
        buf_add(out, operand.p, operand.n);
        if (more || grouped) buf_byte(out, ')');
        if (operand.bad) out->bad = true;
        buf_free(&operand);
        if (!more) return rc;
        grouped = true;
        s->at += 2;
    }
}

/* A class at '[': an expression that matches one character. */
static int class_expression(scan *s)
{
    if (++s->depth > NEST_MAX) return refuse_regex(s, "nested too deeply");
    s->at++;
    bool negated = peek_char(s, 0) == '^';
    if (negated) s->at++;
    buf *out = s->out, body = {0};
    s->out = &body;
    int rc = class_body(s);
    s->out = out;
    if (!rc && peek_char(s, 0) != ']') rc = refuse_regex(s, "class without end");
    s->at++;
    if (negated && one_class(&body)) { /* else a look-ahead negates it */
        buf_str(out, "[^");
        buf_add(out, body.p + 1, body.n - 1);
    } else {
        if (negated) buf_str(out, "(?:(?!");
        buf_add(out, body.p, body.n);
        if (negated) buf_str(out, ")(?s:.))");
    }
    if (body.bad) out->bad = true;
    buf_free(&body);
    s->depth--;
    return rc;
}

/* A quantifier {n}, {n,}, {,m}, {n,m} at s->at: its length, 0 when the brace is a plain character. */
static size_t braces_at(const scan *s)
{
    size_t n = 1;
    while (peek_char(s, n) == ',' || (peek_char(s, n) >= '0' && peek_char(s, n) <= '9')) n++;
    return n > 1 && peek_char(s, n) == '}' ? n + 1 : 0;
}

/* Copies a quantifier in braces that follows out->p[atom..]. */
static int copy_braces(scan *s, size_t n, size_t atom)
{
    buf *out = s->out;
    if (out->n <= atom) return refuse_regex(s, "nothing to repeat");
    bool repeated = peek_char(s, n) == '+' && s->from == REGEX_ONIGURUMA;
    if (repeated) { /* (?:atom{n,m})+ */
        buf copy = {0};
        buf_add(&copy, out->p + atom, out->n - atom);
        out->n = atom;
        buf_str(out, "(?:");
        buf_add(out, copy.p, copy.n);
        if (copy.bad) out->bad = true;
        buf_free(&copy);
    }
    size_t skip = peek_char(s, 1) == ',' ? 1 : 0;
    if (skip) buf_str(out, "{0");
    buf_add(out, s->in.p + s->at + skip, n - skip);
    if (repeated) buf_str(out, ")+");
    s->at += n + repeated;
    return OK;
}

int regex_translate(span pattern, regex_flavour from, buf *out, err *e)
{
    scan s = {pattern, 0, out, from, 0, e};
    size_t atom = out->n, group[NEST_MAX], n; /* where the last atom began; where each open group began */
    int groups = 0, rc = OK;
    while (!rc && s.at < pattern.n) {
        int c = peek_char(&s, 0);
        if (c == '[') {
            atom = out->n;
            rc = class_expression(&s);
        } else if (c == '\\') {
            buf set = {0};
            bool negated;
            atom = out->n;
            int k = peek_char(&s, 1);
            if (k == 'b' || k == 'B') {
                put_boundary(out, from, k == 'B');
                s.at += 2;
            } else if (k == 'w' || k == 'W') {
                buf_str(out, k == 'W' ? "[^" : "[");
                put_bare_word_set(out, from);
                buf_byte(out, ']');
                s.at += 2;
            } else if (put_set(&s, &set, &negated)) {
                buf_str(out, negated ? "[^" : "[");
                buf_add(out, set.p, set.n);
                buf_byte(out, ']');
            } else {
                rc = copy_escape(&s);
            }
            if (set.bad) out->bad = true;
            buf_free(&set);
        } else if (c == '(') {
            if (groups == NEST_MAX) return refuse_regex(&s, "groups nested too deeply");
            group[groups++] = out->n;
            buf_byte(out, '(');
            s.at++;
        } else if (c == ')') {
            if (groups) atom = group[--groups];
            buf_byte(out, ')');
            s.at++;
        } else if (c == '{' && (n = braces_at(&s))) {
            rc = copy_braces(&s, n, atom);
        } else if ((c == '^' || c == '$') && from == REGEX_ONIGURUMA) {
            atom = out->n;
            buf_str(out, c == '^' ? "(?m:^)" : "(?m:$)");
            s.at++;
        } else {
            if (c != '*' && c != '+' && c != '?') atom = out->n;
            utf8_decode(pattern.p + s.at, pattern.n - s.at, &n);
            buf_add(out, pattern.p + s.at, n);
            s.at += n;
        }
    }
    if (!rc && out->bad) rc = err_memory(e, "a pattern");
    return rc;
}
