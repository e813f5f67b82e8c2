/* jinja_lex.c - see jinja_lex.h. The rules are those of jinja2's lexer.py: ends of tags count only where brackets are
 * balanced; one line end after a block or comment goes away, and so do blanks before it at the beginning of a line. */
#define _GNU_SOURCE
#include "jinja/jinja_lex.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BRACKETS_MAX = 256 };

typedef struct lexer {
    jinja_run *r;
    jinja_tokens *out;
    const uint8_t *p; /* the source, line ends made \n, the last one left out */
    size_t n, at;
    bool line_starts; /* the last tag took the end of its line */
} lexer;

static void put_token(lexer *x, jinja_token t)
{
    jinja_tokens *o = x->out;
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 256;
        jinja_token *v = jinja_alloc(x->r, cap, sizeof *v);
        if (o->n) memcpy(v, o->v, o->n * sizeof *v);
        o->v = v;
        o->cap = cap;
    }
    t.line = x->r->line;
    o->v[o->n++] = t;
}

static void put_text(lexer *x, jinja_token_kind kind, size_t from, size_t to)
{
    put_token(x, (jinja_token){.kind = kind, .text = {x->p + from, NULL, to - from}});
}

static bool starts(const lexer *x, size_t at, const char *s)
{
    size_t n = strlen(s);
    return x->n - at >= n && memcmp(x->p + at, s, n) == 0;
}

static int peek_byte(const lexer *x, size_t at) { return at < x->n ? x->p[at] : -1; }

static size_t skip_space(const lexer *x, size_t at)
{
    for (size_t len; at < x->n && jchar_is_space(utf8_decode(x->p + at, x->n - at, &len)); at += len) continue;
    return at;
}

/* Moves on, counting lines. */
static void go_to(lexer *x, size_t at)
{
    for (; x->at < at; x->at++) x->r->line += x->p[x->at] == '\n';
}

/* Where the white space begins that ends at `end`, not before `from`. */
static size_t space_start(const lexer *x, size_t from, size_t end)
{
    while (end > from) {
        size_t at = end - 1, len;
        while (at > from && (x->p[at] & 0xc0) == 0x80) at--;
        if (!jchar_is_space(utf8_decode(x->p + at, end - at, &len))) break;
        end = at;
    }
    return end;
}

/* Emits the text before a tag at `end`; `sign` is the tag's first character, `block`: it is no output. */
static void put_data(lexer *x, size_t end, int sign, bool block)
{
    size_t from = x->at, stop = end;
    if (sign == '-') {
        stop = space_start(x, from, end);
    } else if (sign != '+' && block) {
        size_t line = end;
        while (line > from && x->p[line - 1] != '\n') line--;
        if ((line > from || x->line_starts) && space_start(x, line, end) == line) stop = line;
    }
    if (stop > from) put_text(x, JT_DATA, from, stop);
    go_to(x, end);
}

/* Goes behind the end of a tag of `n` characters at x->at: `sign` before it, `trims`: a line end after it goes too. */
static void close_tag(lexer *x, size_t n, int sign, bool trims)
{
    size_t to = x->at + n;
    if (sign == '-') to = skip_space(x, to);
    else if (trims && sign != '+' && peek_byte(x, to) == '\n') to++;
    go_to(x, to);
    x->line_starts = x->p[to - 1] == '\n';
}

static void lex_comment(lexer *x)
{
    const uint8_t *end = memmem(x->p + x->at, x->n - x->at, "#}", 2);
    if (!end) jinja_fail(x->r, "a comment without end");
    size_t at = (size_t)(end - x->p);
    int sign = at > x->at ? x->p[at - 1] : 0;
    go_to(x, at);
    close_tag(x, 2, sign, true);
}

/* The word of a tag behind its opening, from `at` on: where it ends, or 0. */
static size_t tag_word(const lexer *x, size_t at, const char *word)
{
    if (peek_byte(x, at) == '-' || peek_byte(x, at) == '+') at++;
    at = skip_space(x, at);
    if (!starts(x, at, word)) return 0;
    return skip_space(x, at + strlen(word));
}

/* {% raw %} … {% endraw %}; x->at is at the end of the opening tag. */
static void lex_raw(lexer *x)
{
    if (peek_byte(x, x->at) == '-') {
        go_to(x, x->at + 1);
        close_tag(x, 2, '-', false);
    } else {
        close_tag(x, 2, 0, false); /* jinja2 trims nothing here */
    }
    for (size_t at = x->at; at + 2 <= x->n; at++) {
        size_t end = starts(x, at, "{%") ? tag_word(x, at + 2, "endraw") : 0;
        int sign = end ? peek_byte(x, end) : 0;
        if (!end) continue;
        if (sign == '-' || sign == '+') end++;
        else sign = 0;
        if (!starts(x, end, "%}")) continue;
        put_data(x, at, peek_byte(x, at + 2), true);
        go_to(x, end);
        close_tag(x, 2, sign, true);
        return;
    }
    jinja_fail(x->r, "{%% raw %%} without {%% endraw %%}");
}

static bool lex_hex(const uint8_t *p, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int c = p[i], d = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* An escape at p[0] (after the backslash) of n bytes: its character in *c and its length; 0: none, the backslash
 * stays. */
static size_t lex_escape(jinja_run *r, const uint8_t *p, size_t n, uint32_t *c)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = *p ? strchr(from, *p) : NULL;
    size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0, used = 0;
    if (found) {
        *c = (uint8_t)to[found - from];
        return 1;
    }
    if (digits) {
        if (n <= digits || !lex_hex(p + 1, digits, c) || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
            jinja_fail(r, "a string with a wrong \\%c escape", *p);
        return digits + 1;
    }
    for (*c = 0; used < 3 && used < n && p[used] >= '0' && p[used] <= '7'; used++) *c = *c * 8 + p[used] - '0';
    return used;
}

static void lex_string(lexer *x)
{
    size_t from = x->at + 1, end = from;
    while (end < x->n && x->p[end] != x->p[x->at]) end += x->p[end] == '\\' ? 2 : 1;
    if (end >= x->n) jinja_fail(x->r, "a string without end");
    jtext t = {0};
    for (size_t i = from; i < end;) {
        size_t plain = i;
        uint32_t c;
        while (plain < end && x->p[plain] != '\\') plain++;
        jtext_bytes(x->r, &t, x->p + i, plain - i);
        i = plain;
        if (i >= end) break;
        size_t used = lex_escape(x->r, x->p + i + 1, end - i - 1, &c);
        if (used) jtext_char(x->r, &t, c, false);
        else if (x->p[i + 1] == '\n') used = 1;
        else jtext_put(x->r, &t, "\\");
        i += 1 + used;
    }
    put_token(x, (jinja_token){.kind = JT_STRING, .text = jtext_get(&t)});
    go_to(x, end + 1);
}

static size_t digits_end(const lexer *x, size_t at)
{
    while (at < x->n && ((x->p[at] >= '0' && x->p[at] <= '9') ||
                         (x->p[at] == '_' && peek_byte(x, at + 1) >= '0' && peek_byte(x, at + 1) <= '9')))
        at++;
    return at;
}

static void lex_number(lexer *x)
{
    char text[64];
    size_t from = x->at, end = digits_end(x, from), n = 0, more;
    bool is_float = false;
    int base = 10;
    bool after_dot = from && x->p[from - 1] == '.'; /* a.0.1 are two indices */
    if (x->p[from] == '0' && (peek_byte(x, from + 1) | 32) == 'x') {
        for (end = from + 2, base = 16; (peek_byte(x, end) >= '0' && peek_byte(x, end) <= '9') ||
                                        ((peek_byte(x, end) | 32) >= 'a' && (peek_byte(x, end) | 32) <= 'f');)
            end++;
    } else if (!after_dot) {
        if (peek_byte(x, end) == '.' && (more = digits_end(x, end + 1)) > end + 1) {
            end = more;
            is_float = true;
        }
        size_t sign = end + 1 + (peek_byte(x, end + 1) == '-' || peek_byte(x, end + 1) == '+');
        if ((peek_byte(x, end) | 32) == 'e' && peek_byte(x, end) > 0 && (more = digits_end(x, sign)) > sign) {
            end = more;
            is_float = true;
        }
    }
    for (size_t i = from; i < end && n + 1 < sizeof text; i++)
        if (x->p[i] != '_') text[n++] = (char)x->p[i];
    text[n] = 0;
    errno = 0;
    jval v = is_float ? jval_float(strtod(text, NULL)) : jval_int(strtoll(text, NULL, base));
    if (n + 1 >= sizeof text || (errno && !is_float)) jinja_fail(x->r, "a number that is too large");
    put_token(x, (jinja_token){.kind = is_float ? JT_FLOAT : JT_INT, .value = v});
    go_to(x, end);
}

/* An operator at x->at: its length, 0: none. */
static size_t operator_length(const lexer *x)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (starts(x, x->at, two[i])) return 2;
    return x->p[x->at] && strchr("+-/*%~[](){}><=.:|,;", x->p[x->at]) ? 1 : 0;
}

/* Everything from the opening of a tag to its end `close`. */
static void lex_tag(lexer *x, const char *close, jinja_token_kind end_kind)
{
    char open[BRACKETS_MAX];
    size_t depth = 0;
    bool block = end_kind == JT_BLOCK_END;
    for (;;) {
        go_to(x, skip_space(x, x->at));
        if (x->at >= x->n) jinja_fail(x->r, "a tag without %s", close);
        int c = x->p[x->at], sign = c == '-' || (block && c == '+') ? c : 0;
        if (!depth && starts(x, x->at + (sign != 0), close)) {
            put_token(x, (jinja_token){.kind = end_kind});
            go_to(x, x->at + (sign != 0));
            close_tag(x, 2, sign, block);
            return;
        }
        size_t len, end = x->at;
        while (end < x->n) {
            uint32_t u = utf8_decode(x->p + end, x->n - end, &len);
            if (u != '_' && !uc_is_word(u)) break;
            end += len;
        }
        if (c >= '0' && c <= '9') {
            lex_number(x);
        } else if (end > x->at) {
            put_text(x, JT_NAME, x->at, end);
            go_to(x, end);
        } else if (c == '"' || c == '\'') {
            lex_string(x);
        } else if ((len = operator_length(x))) {
            if (strchr("([{", c)) {
                if (depth == BRACKETS_MAX) jinja_fail(x->r, "brackets nested too deeply");
                open[depth++] = c == '(' ? ')' : (char)(c + 2);
            } else if (strchr(")]}", c) && (!depth || open[--depth] != c)) {
                jinja_fail(x->r, "unexpected '%c'", c);
            }
            put_text(x, JT_OPERATOR, x->at, x->at + len);
            go_to(x, x->at + len);
        } else {
            jinja_fail(x->r, "unexpected character '%c'", c < 0x80 && c >= 0x20 ? c : '?');
        }
    }
}

/* \r\n and \r become \n; one line end at the very end goes. */
static void normalize_lines(lexer *x, span source)
{
    uint8_t *p = jinja_alloc(x->r, source.n + 1, 1);
    for (size_t i = 0; i < source.n; i++) {
        if (source.p[i] == '\r' && i + 1 < source.n && source.p[i + 1] == '\n') continue;
        p[x->n++] = source.p[i] == '\r' ? '\n' : source.p[i];
    }
    if (x->n && p[x->n - 1] == '\n') x->n--;
    x->p = p;
}

void jinja_lex(jinja_run *r, span source, jinja_tokens *out)
{
    lexer x = {.r = r, .out = out, .line_starts = true};
    r->line = 1;
    normalize_lines(&x, source);
    while (x.at < x.n) {
        size_t at = x.at;
        while (at < x.n && !(x.p[at] == '{' && at + 1 < x.n && strchr("{%#", x.p[at + 1]) && x.p[at + 1])) at++;
        if (at >= x.n) {
            put_text(&x, JT_DATA, x.at, x.n);
            break;
        }
        int kind = x.p[at + 1], sign = peek_byte(&x, at + 2);
        bool has_sign = sign == '-' || sign == '+';
        size_t raw = kind == '%' ? tag_word(&x, at + 2, "raw") : 0;
        if (raw && !starts(&x, raw, "%}") && !starts(&x, raw, "-%}")) raw = 0;
        put_data(&x, at, sign, kind != '{');
        if (raw) {
            go_to(&x, raw);
            lex_raw(&x);
            continue;
        }
        go_to(&x, at + 2 + has_sign);
        if (kind == '#') {
            lex_comment(&x);
            continue;
        }
        put_token(&x, (jinja_token){.kind = kind == '{' ? JT_OUTPUT_BEGIN : JT_BLOCK_BEGIN});
        lex_tag(&x, kind == '{' ? "}}" : "%}", kind == '{' ? JT_OUTPUT_END : JT_BLOCK_END);
    }
    put_token(&x, (jinja_token){.kind = JT_END});
}
