/* gbnf.c - see gbnf.h. A parser by recursive descent; groups nest at most NEST_MAX deep. */
#include "sample/gbnf.h"

#include "base/utf8.h"

#include <string.h>

enum { NEST_MAX = 200, REPEAT_MAX = 1 << 20 };

typedef struct parser {
    grammar_builder b;
    span in;
    size_t at;
    int depth;
} parser;

static int peek_char(const parser *p) { return p->at < p->in.n ? p->in.p[p->at] : -1; }
static bool has_failed(const parser *p) { return p->b.e->code != OK; }

/* NULL, so that parsers of phrases can return it. */
static phrase *refuse_grammar(parser *p, const char *what)
{
    size_t line = 1, column = 1, n = p->in.n - p->at < 20 ? p->in.n - p->at : 20;
    for (size_t i = 0; i < p->at; i++) {
        column = p->in.p[i] == '\n' ? 1 : column + ((p->in.p[i] & 0xc0) != 0x80);
        line += p->in.p[i] == '\n';
    }
    for (size_t i = 0; i < n; i++)
        if (p->in.p[p->at + i] == '\n') n = i;
    if (n)
        err_set(p->b.e, ERR_FORMAT, "grammar, line %zu, column %zu: %s, found \"%.*s\"", line, column, what, (int)n,
                (const char *)p->in.p + p->at);
    else
        err_set(p->b.e, ERR_FORMAT, "grammar, line %zu, column %zu: %s, found the end of the %s", line, column, what,
                p->at < p->in.n ? "line" : "text");
    return NULL;
}

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Blanks and comments; newlines too where a rule may go on after them. */
static void skip_space(parser *p, bool newlines)
{
    for (int c; (c = peek_char(p)) >= 0;) {
        if (c == '#')
            while (peek_char(p) >= 0 && peek_char(p) != '\n' && peek_char(p) != '\r') p->at++;
        else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) p->at++;
        else return;
    }
}

static span take_name(parser *p)
{
    const size_t from = p->at;
    while (is_name(peek_char(p))) p->at++;
    return span_of(p->in.p + from, p->at - from);
}

static int hex_value(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static bool take_hex(parser *p, int digits, uint32_t *out)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        const int h = hex_value(peek_char(p));
        if (h < 0) {
            refuse_grammar(p, "expected a hexadecimal digit");
            return false;
        }
        v = v << 4 | (uint32_t)h;
    }
    *out = v;
    if (v <= CHAR_MAX_CODE && (v < 0xd800 || v > 0xdfff)) return true;
    refuse_grammar(p, "the escape before is no character");
    return false;
}

/* A character of a literal or class, which ends with `closing`. */
static bool take_char(parser *p, int closing, uint32_t *out)
{
    static const char known[] = "nrt\\\"[]", meant[] = "\n\r\t\\\"[]";
    size_t n;
    const int c = peek_char(p);
    if (c < 0) {
        refuse_grammar(p, closing == '"' ? "a literal does not end" : "a class does not end");
        return false;
    }
    if (c != '\\') {
        *out = utf8_decode(p->in.p + p->at, p->in.n - p->at, &n);
        p->at += n;
        return true;
    }
    p->at++;
    const int kind = peek_char(p);
    const char *simple = kind > 0 ? strchr(known, kind) : NULL;
    if (simple) {
        p->at++;
        *out = (uint8_t)meant[simple - known];
        return true;
    }
    const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits) {
        p->at++;
        return take_hex(p, digits, out);
    }
    refuse_grammar(p, "expected an escape: \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    return false;
}

static phrase *parse_literal(parser *p)
{
    buf text = {0};
    uint32_t c;
    uint8_t bytes[4];
    p->at++;
    while (peek_char(p) != '"' && take_char(p, '"', &c)) buf_add(&text, bytes, utf8_encode(c, bytes));
    p->at++;
    if (text.bad) err_memory(p->b.e, "a grammar");
    phrase *x = has_failed(p) ? NULL : phrase_text(&p->b, buf_span(&text));
    buf_free(&text);
    return x;
}

static phrase *parse_class(parser *p)
{
    char_class c = {0};
    p->at++;
    const bool negated = peek_char(p) == '^';
    p->at += negated;
    while (peek_char(p) != ']') {
        uint32_t from, to;
        if (!take_char(p, ']', &from)) return NULL;
        to = from;
        if (peek_char(p) == '-' && p->at + 1 < p->in.n && p->in.p[p->at + 1] != ']') {
            p->at++;
            if (!take_char(p, ']', &to)) return NULL;
            if (to < from) return refuse_grammar(p, "the range before ends before it begins");
        }
        if (!char_class_add(&p->b, &c, from, to)) return NULL;
    }
    p->at++;
    return char_class_close(&p->b, &c, negated) ? phrase_class(&p->b, &c) : NULL;
}

static phrase *parse_choice(parser *p, bool nested);

static phrase *parse_group(parser *p)
{
    if (++p->depth > NEST_MAX) return refuse_grammar(p, "groups nest too deeply");
    p->at++;
    skip_space(p, true);
    phrase *x = parse_choice(p, true);
    p->depth--;
    if (has_failed(p)) return NULL;
    if (peek_char(p) != ')') return refuse_grammar(p, "expected ')'");
    p->at++;
    return x;
}

static bool take_number(parser *p, int64_t *out)
{
    if (peek_char(p) < '0' || peek_char(p) > '9') {
        refuse_grammar(p, "expected a number");
        return false;
    }
    for (*out = 0; peek_char(p) >= '0' && peek_char(p) <= '9'; p->at++)
        if ((*out = *out * 10 + peek_char(p) - '0') > REPEAT_MAX) {
            refuse_grammar(p, "a repetition is too large");
            return false;
        }
    return true;
}

/* {m} {m,} {m,n}, behind the brace. */
static bool take_bounds(parser *p, bool nested, int64_t *min, int64_t *max)
{
    skip_space(p, nested);
    if (!take_number(p, min)) return false;
    *max = *min;
    skip_space(p, nested);
    if (peek_char(p) == ',') {
        p->at++;
        skip_space(p, nested);
        *max = -1;
        if (peek_char(p) != '}' && !take_number(p, max)) return false;
        skip_space(p, nested);
    }
    if (peek_char(p) != '}') refuse_grammar(p, "expected '}'");
    else if (*max >= 0 && *max < *min) refuse_grammar(p, "the repetition before has a maximum below its minimum");
    p->at++;
    return !has_failed(p);
}

static phrase *parse_repeats(parser *p, phrase *x, bool nested)
{
    while (!has_failed(p)) {
        int64_t min = 0, max = -1;
        skip_space(p, nested);
        const int c = peek_char(p);
        if (c != '*' && c != '+' && c != '?' && c != '{') break;
        p->at++;
        if (c == '+') min = 1;
        if (c == '?') max = 1;
        if (c == '{' && !take_bounds(p, nested, &min, &max)) return NULL;
        x = phrase_repeat(&p->b, x, min, max);
    }
    return x;
}

/* One item, or NULL where none begins. */
static phrase *parse_item(parser *p)
{
    static const char_range any = {0, CHAR_MAX_CODE};
    const int c = peek_char(p);
    if (c == '"') return parse_literal(p);
    if (c == '[') return parse_class(p);
    if (c == '(') return parse_group(p);
    if (is_name(c)) return phrase_rule(&p->b, grammar_rule_named(&p->b, take_name(p)));
    if (c != '.') return NULL;
    char_class all = {0};
    p->at++;
    if (!char_class_add(&p->b, &all, any.from, any.to) || !char_class_close(&p->b, &all, false)) return NULL;
    return phrase_class(&p->b, &all);
}

static phrase *parse_choice(parser *p, bool nested)
{
    phrase *choice = phrase_list(&p->b, PHRASE_CHOICE);
    for (bool more = true; more && !has_failed(p);) {
        phrase *sequence = phrase_list(&p->b, PHRASE_SEQUENCE);
        for (phrase *x; (x = parse_item(p)) && !has_failed(p);)
            phrase_add(&p->b, sequence, parse_repeats(p, x, nested));
        phrase_add(&p->b, choice, sequence);
        more = peek_char(p) == '|';
        p->at += more;
        if (more) skip_space(p, true);
    }
    return choice;
}

static void parse_rule(parser *p)
{
    const size_t at = p->at;
    const span name = take_name(p);
    if (!name.n) {
        refuse_grammar(p, "expected the name of a rule");
        return;
    }
    const uint32_t rule = grammar_rule_named(&p->b, name);
    skip_space(p, false);
    if (p->in.n - p->at < 3 || memcmp(p->in.p + p->at, "::=", 3) != 0) {
        refuse_grammar(p, "expected '::='");
        return;
    }
    p->at += 3;
    skip_space(p, true);
    phrase *body = parse_choice(p, false);
    if (has_failed(p)) return;
    if (peek_char(p) >= 0 && peek_char(p) != '\n' && peek_char(p) != '\r') {
        refuse_grammar(p, "expected the end of the rule");
    } else if (p->b.rule[rule].body) {
        p->at = at;
        refuse_grammar(p, "a rule is defined twice");
    } else {
        p->b.rule[rule].body = body;
        skip_space(p, true);
    }
}

int gbnf_compile(grammar **out, span text, const token_trie *t, err *e)
{
    err own = {0};
    parser p = {.in = text};
    *out = NULL;
    grammar_builder_open(&p.b, &own);
    if (!utf8_is_valid(text)) err_set(&own, ERR_FORMAT, "grammar: the text is not UTF-8");
    skip_space(&p, true);
    while (!has_failed(&p) && p.at < text.n) parse_rule(&p);
    const uint32_t root = map_get_str(&p.b.names, "root");
    if (!has_failed(&p) && root == MAP_NONE) err_set(&own, ERR_FORMAT, "grammar: there is no rule 'root'");
    grammar_open(out, &p.b, root == MAP_NONE ? 0 : root, t);
    return err_copy(e, &own);
}
