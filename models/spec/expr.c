/* expr.c - see expr.h. Recursive descent; the depth of the text bounds the depth of the stack. */
#include "models/spec/expr.h"

#include "base/mem.h"
#include "io/ckpt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    arena *mem;
    const char *text, *at, *where;
    int depth, nodes;
    err *e;
    int rc;
} parser;

static const expr *parse_value(parser *p);

static const expr *fail_parse(parser *p, const char *what)
{
    if (!p->rc) {
        int rest = (int)strnlen(p->at, 24);
        p->rc = *p->at ? err_set(p->e, ERR_SPEC, "%s: %s at '%.*s' (character %zu)", p->where, what, rest, p->at,
                                 (size_t)(p->at - p->text) + 1)
                       : err_set(p->e, ERR_SPEC, "%s: %s at the end", p->where, what);
    }
    return NULL;
}

static void *room(parser *p, size_t n, size_t size)
{
    void *m = arena_array(p->mem, n, size);
    if (!m && !p->rc) p->rc = err_memory(p->e, p->where);
    return m;
}

static void skip(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static bool eat(parser *p, char c)
{
    skip(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* A keyword, not followed by a letter. */
static bool eat_word(parser *p, const char *w)
{
    skip(p);
    size_t n = strlen(w);
    if (strncmp(p->at, w, n) != 0 || word_byte(p->at[n]) || p->at[n] == '.') return false;
    p->at += n;
    return true;
}

static expr *node(parser *p, expr_kind kind, size_t n_arg)
{
    if (++p->nodes > EXPR_NODES_MAX) {
        fail_parse(p, "more than 16384 terms");
        return NULL;
    }
    expr *x = room(p, 1, sizeof *x);
    if (!x) return NULL;
    x->kind = kind;
    x->n_arg = n_arg;
    if (n_arg && !(x->arg = room(p, n_arg, sizeof *x->arg))) return NULL;
    return x;
}

static const expr *new_binary(parser *p, expr_kind kind, char op, const expr *a, const expr *b)
{
    expr *x = a && b ? node(p, kind, 2) : NULL;
    if (!x) return NULL;
    x->op = op;
    x->arg[0] = a;
    x->arg[1] = b;
    return x;
}

bool expr_is_source(const char *s, size_t n)
{
    span name = span_of(s, n);
    return span_is(name, "generation") || ckpt_is_source(name);
}

/* The extent of a name at p->at; 0 when there is none. */
static size_t name_length(const char *s)
{
    size_t n = 0;
    if (!isalpha((unsigned char)s[0]) && s[0] != '_') return 0;
    while (word_byte(s[n]) || (s[n] == '.' && word_byte(s[n + 1]))) n++;
    if (s[n] == ':' && word_byte(s[n + 1]) && expr_is_source(s, n)) {
        n++;
        while (word_byte(s[n]) || (s[n] == '.' && word_byte(s[n + 1]))) n++;
    }
    return n;
}

/* value { "," value } up to `close`; the opening bracket is eaten already. */
static const expr *list_of(parser *p, expr *x, char close)
{
    size_t n = 0, cap = 0;
    const expr **items = NULL;
    if (!eat(p, close)) {
        do {
            const expr *v = parse_value(p);
            if (v && !mem_grow((void **)&items, &cap, n + 1, sizeof *items)) room(p, SIZE_MAX, 2);
            if (p->rc) break;
            items[n++] = v;
        } while (eat(p, ','));
        if (!p->rc && !eat(p, close)) fail_parse(p, close == ')' ? "expected ',' or ')'" : "expected ',' or ']'");
    }
    if (!p->rc && n && (x->arg = room(p, n, sizeof *x->arg))) memcpy(x->arg, items, n * sizeof *items);
    x->n_arg = n;
    mem_free(items);
    return p->rc ? NULL : x;
}

static const expr *quoted(parser *p)
{
    const char *end = strchr(p->at + 1, *p->at);
    if (!end) return fail_parse(p, "text without closing quote");
    expr *x = node(p, EXPR_TEXT, 0);
    if (x && !(x->text = arena_strn(p->mem, p->at + 1, (size_t)(end - p->at - 1)))) room(p, SIZE_MAX, 2);
    p->at = end + 1;
    return p->rc ? NULL : x;
}

static const expr *parse_number(parser *p)
{
    char *end;
    double v = strtod(p->at, &end);
    if (!isfinite(v) || word_byte(*end)) return fail_parse(p, "not a number");
    expr *x = node(p, EXPR_NUMBER, 0);
    if (x) x->number = v;
    p->at = end;
    return x;
}

static const expr *primary(parser *p)
{
    skip(p);
    if (isdigit((unsigned char)*p->at) || (*p->at == '.' && isdigit((unsigned char)p->at[1]))) return parse_number(p);
    if (*p->at == '"' || *p->at == '\'') return quoted(p);
    if (eat(p, '(')) {
        const expr *x = parse_value(p);
        if (x && !eat(p, ')')) return fail_parse(p, "expected ')'");
        return x;
    }
    if (eat(p, '[')) {
        expr *x = node(p, EXPR_LIST, 0);
        return x ? list_of(p, x, ']') : NULL;
    }
    if (eat_word(p, "true") || eat_word(p, "false")) {
        expr *x = node(p, EXPR_BOOL, 0);
        if (x) x->number = p->at[-2] == 'u';
        return x;
    }
    size_t n = name_length(p->at);
    if (!n) return fail_parse(p, "expected a value");
    expr *x = node(p, EXPR_NAME, 0);
    if (x && !(x->text = arena_strn(p->mem, p->at, n))) room(p, SIZE_MAX, 2);
    p->at += n;
    if (p->rc || !eat(p, '(')) return p->rc ? NULL : x;
    x->kind = EXPR_CALL;
    return list_of(p, x, ')');
}

/* A word of a translation table: bare or in quotes. */
static const char *parse_word(parser *p)
{
    skip(p);
    if (*p->at == '"' || *p->at == '\'') {
        const expr *q = quoted(p);
        return q ? q->text : NULL;
    }
    size_t n = 0;
    while (word_byte(p->at[n]) || p->at[n] == '.' || p->at[n] == '-') n++;
    if (!n) {
        fail_parse(p, "expected a word");
        return NULL;
    }
    const char *w = arena_strn(p->mem, p->at, n);
    if (!w) room(p, SIZE_MAX, 2);
    p->at += n;
    return w;
}

static const expr *translate(parser *p, const expr *from)
{
    const char *pairs[2 * 64];
    size_t n = 0;
    do {
        if (n == 64) return fail_parse(p, "more than 64 translations");
        if (!(pairs[2 * n] = parse_word(p))) return NULL;
        if (!eat(p, ':')) return fail_parse(p, "expected ':'");
        if (!(pairs[2 * n + 1] = parse_word(p))) return NULL;
        n++;
    } while (eat(p, ','));
    if (!eat(p, '}')) return fail_parse(p, "expected ',' or '}'");
    expr *x = node(p, EXPR_TRANSLATE, 1);
    const char **w = x ? room(p, 2 * n, sizeof *w) : NULL;
    if (!w) return NULL;
    memcpy(w, pairs, 2 * n * sizeof *w);
    x->arg[0] = from;
    x->words = w;
    x->n_words = n;
    return x;
}

static const expr *postfix(parser *p)
{
    const expr *x = primary(p);
    while (x) {
        if (eat(p, '[')) {
            const expr *at = parse_value(p);
            if (at && !eat(p, ']')) return fail_parse(p, "expected ']'");
            x = new_binary(p, EXPR_INDEX, '[', x, at);
        } else if (eat(p, '{')) {
            x = translate(p, x);
        } else {
            break;
        }
    }
    return x;
}

static const expr *sign(parser *p)
{
    if (++p->depth > EXPR_DEPTH_MAX) return fail_parse(p, "nested too deeply");
    const expr *x;
    if (eat(p, '-')) {
        const expr *a = sign(p);
        expr *n = a ? node(p, EXPR_NEGATE, 1) : NULL;
        if (n) n->arg[0] = a;
        x = n;
    } else {
        x = postfix(p);
        if (x && eat(p, '^')) x = new_binary(p, EXPR_BINARY, '^', x, sign(p));
    }
    p->depth--;
    return x;
}

static const expr *term(parser *p)
{
    const expr *x = sign(p);
    for (;;) {
        char op = eat(p, '*') ? '*' : eat(p, '/') ? '/' : eat(p, '%') ? '%' : 0;
        if (!x || !op) return x;
        x = new_binary(p, EXPR_BINARY, op, x, sign(p));
    }
}

static const expr *parse_sum(parser *p)
{
    const expr *x = term(p);
    for (;;) {
        char op = eat(p, '+') ? '+' : eat(p, '-') ? '-' : 0;
        if (!x || !op) return x;
        x = new_binary(p, EXPR_BINARY, op, x, term(p));
    }
}

static char comparison(parser *p)
{
    static const struct {
        const char *text;
        char op;
    } ops[] = {{"==", BINOP_EQ}, {"!=", BINOP_NE}, {"<=", BINOP_LE}, {">=", BINOP_GE}, {"<", '<'}, {">", '>'}};
    skip(p);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strncmp(p->at, ops[i].text, strlen(ops[i].text)) == 0) {
            p->at += strlen(ops[i].text);
            return ops[i].op;
        }
    return 0;
}

static const expr *parse_comparison(parser *p)
{
    const expr *x = parse_sum(p);
    char op = x ? comparison(p) : 0;
    return op ? new_binary(p, EXPR_BINARY, op, x, parse_sum(p)) : x;
}

static const expr *negation(parser *p)
{
    if (!eat_word(p, "not")) return parse_comparison(p);
    const expr *a = parse_comparison(p);
    expr *x = a ? node(p, EXPR_NOT, 1) : NULL;
    if (x) x->arg[0] = a;
    return x;
}

static const expr *conjunction(parser *p)
{
    const expr *x = negation(p);
    while (x && eat_word(p, "and")) x = new_binary(p, EXPR_BINARY, BINOP_AND, x, negation(p));
    return x;
}

static const expr *disjunction(parser *p)
{
    const expr *x = conjunction(p);
    while (x && eat_word(p, "or")) x = new_binary(p, EXPR_BINARY, BINOP_OR, x, conjunction(p));
    return x;
}

static const expr *choice(parser *p)
{
    if (++p->depth > EXPR_DEPTH_MAX) return fail_parse(p, "nested too deeply");
    const expr *x = disjunction(p);
    if (x && eat(p, '?')) {
        const expr *yes = parse_value(p);
        if (yes && !eat(p, ':')) return fail_parse(p, "expected ':' of '?'");
        const expr *no = yes ? choice(p) : NULL;
        expr *c = no ? node(p, EXPR_CHOOSE, 3) : NULL;
        if (c) c->arg[0] = x, c->arg[1] = yes, c->arg[2] = no;
        x = c;
    }
    p->depth--;
    return x;
}

static const expr *parse_value(parser *p)
{
    const expr *x = choice(p);
    while (x && eat(p, '|')) x = new_binary(p, EXPR_ELSE, '|', x, choice(p));
    return x;
}

static int start_parser(parser *p, arena *a, const char *text, const char *where, err *e)
{
    *p = (parser){.mem = a, .text = text, .at = text, .where = where, .e = e};
    if (strnlen(text, EXPR_TEXT_MAX) == EXPR_TEXT_MAX)
        return err_set(e, ERR_SPEC, "%s: more than %d characters", where, EXPR_TEXT_MAX);
    return OK;
}

int expr_parse(const expr **out, arena *a, const char *text, const char *where, err *e)
{
    parser p;
    int rc = start_parser(&p, a, text, where, e);
    if (rc) return rc;
    *out = parse_value(&p);
    skip(&p);
    if (!p.rc && *p.at) fail_parse(&p, "unexpected text");
    return p.rc;
}

bool formula_has_statements(const char *text)
{
    while (*text == ' ' || *text == '\n' || *text == '\t') text++;
    const size_t n = name_length(text);
    const char *after = text + n;
    while (*after == ' ' || *after == '\n' || *after == '\t') after++;
    return n && after[0] == '=' && after[1] != '=';
}

int formula_parse(formula *out, arena *a, const char *text, const char *where, err *e)
{
    parser p;
    statement list[FORMULA_MAX];
    size_t n = 0;
    int rc = start_parser(&p, a, text, where, e);
    if (rc) return rc;
    do {
        skip(&p);
        if (!*p.at && n) break; /* a semicolon after the last statement */
        size_t len = name_length(p.at);
        if (n == FORMULA_MAX) fail_parse(&p, "more than 64 statements");
        else if (!len) fail_parse(&p, "expected 'name = ...'");
        if (p.rc) return p.rc;
        list[n].name = arena_strn(a, p.at, len);
        p.at += len;
        if (!list[n].name) return err_memory(e, where);
        if (!eat(&p, '=')) fail_parse(&p, "expected '='");
        if (p.rc || !(list[n].value = parse_value(&p))) return p.rc;
        n++;
    } while (eat(&p, ';'));
    if (*p.at) fail_parse(&p, "unexpected text");
    if (p.rc) return p.rc;
    out->n = n;
    out->at = room(&p, n, sizeof *out->at);
    if (out->at) memcpy(out->at, list, n * sizeof *list);
    return p.rc;
}
