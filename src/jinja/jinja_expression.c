/* jinja_expression.c - see jinja_expression.h. Precedences are those of jinja2: filters and tests bind closer
 * than operators, `a ** b ** c` goes from left to right, and a sign takes the filters behind its operand. */
#include "jinja/jinja_expression.h"

#include "jinja/jinja_rows.h"

#include <stdio.h>
#include <string.h>

enum { PARSE_DEPTH_MAX = 200, NAME_MAX_BYTES = 200 };

typedef jinja_node node;

static node *parse_unary(jparser *p, bool filters);

void jparse_enter(jparser *p)
{
    if (++p->r->depth > PARSE_DEPTH_MAX) jinja_fail(p->r, "nested too deeply");
}

node *jparse_new_node(jparser *p, jinja_node_kind kind)
{
    node *n = jinja_alloc(p->r, 1, sizeof *n);
    n->kind = kind;
    n->line = p->at->line;
    return n;
}

void jparse_add_node(jparser *p, jinja_nodes *l, node *n)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        node **v = jinja_alloc(p->r, cap, sizeof *v);
        if (l->n) memcpy(v, l->v, l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = n;
}

const char *jparse_intern(jparser *p, jstr s)
{
    if (s.n > NAME_MAX_BYTES) jinja_fail(p->r, "a name of more than %d bytes", NAME_MAX_BYTES);
    unsigned h = 0;
    for (size_t i = 0; i < s.n; i++) h = h * 31 + s.p[i];
    jparse_name **at = &p->names[h & 63];
    for (; *at; at = &(*at)->next)
        if (jstr_is(s, (*at)->name)) return (*at)->name;
    *at = jinja_alloc(p->r, 1, sizeof **at);
    (*at)->name = jstr_c(p->r, s);
    return (*at)->name;
}

void jparse_next(jparser *p)
{
    if (p->at->kind != JT_END) p->at++;
    p->r->line = p->at->line;
}

bool jparse_is_op(const jparser *p, const char *op) { return p->at->kind == JT_OPERATOR && jstr_is(p->at->text, op); }
bool jparse_is_word(const jparser *p, const char *w) { return p->at->kind == JT_NAME && jstr_is(p->at->text, w); }

bool jparse_take_op(jparser *p, const char *op)
{
    bool there = jparse_is_op(p, op);
    if (there) jparse_next(p);
    return there;
}

bool jparse_take_word(jparser *p, const char *w)
{
    bool there = jparse_is_word(p, w);
    if (there) jparse_next(p);
    return there;
}

_Noreturn void jparse_unexpected(jparser *p, const char *wanted)
{
    const jinja_token *t = p->at;
    char shown[48] = "the end of the template";
    if (t->kind == JT_BLOCK_END || t->kind == JT_OUTPUT_END) strcpy(shown, "the end of the tag");
    else if (t->kind == JT_INT || t->kind == JT_FLOAT) strcpy(shown, "a number");
    else if (t->kind != JT_END)
        snprintf(shown, sizeof shown, "'%.*s'", (int)(t->text.n < 40 ? t->text.n : 40), t->text.p);
    jinja_fail(p->r, "expected %s, got %s", wanted, shown);
}

void jparse_expect_op(jparser *p, const char *op)
{
    if (!jparse_take_op(p, op)) jparse_unexpected(p, op);
}

const char *jparse_expect_name(jparser *p)
{
    if (p->at->kind != JT_NAME) jparse_unexpected(p, "a name");
    const char *name = jparse_intern(p, p->at->text);
    jparse_next(p);
    return name;
}

/* ---- expressions ---- */

static void parse_arguments(jparser *p, node *call)
{
    for (bool first = true; !jparse_take_op(p, ")"); first = false) {
        if (!first) {
            jparse_expect_op(p, ",");
            if (jparse_take_op(p, ")")) return;
        }
        if (jparse_take_op(p, "*")) {
            if (call->b || call->c) jinja_fail(p->r, "a second *argument");
            call->b = jparse_expression(p);
        } else if (jparse_take_op(p, "**")) {
            if (call->c) jinja_fail(p->r, "a second **argument");
            call->c = jparse_expression(p);
        } else if (p->at->kind == JT_NAME && p->at[1].kind == JT_OPERATOR && jstr_is(p->at[1].text, "=")) {
            node *named = jparse_new_node(p, JN_NAMED);
            named->name = jparse_expect_name(p);
            jparse_next(p);
            named->a = jparse_expression(p);
            jparse_add_node(p, &call->more, named);
        } else {
            if (call->more.n || call->c) jinja_fail(p->r, "an argument without name follows one with a name");
            jparse_add_node(p, &call->list, jparse_expression(p));
        }
    }
}

static node *parse_slice(jparser *p)
{
    node *n = jparse_new_node(p, JN_SLICE), **part[3] = {&n->a, &n->b, &n->c};
    if (!jparse_is_op(p, ":")) {
        node *index = jparse_expression(p);
        if (!jparse_is_op(p, ":")) return index;
        n->a = index;
    }
    for (int i = 1; i < 3 && jparse_take_op(p, ":"); i++)
        if (!jparse_is_op(p, ":") && !jparse_is_op(p, "]") && !jparse_is_op(p, ",")) *part[i] = jparse_expression(p);
    return n;
}

static node *parse_item(jparser *p, node *of)
{
    node *n = jparse_new_node(p, JN_ITEM), *index = parse_slice(p);
    n->a = of;
    n->b = index;
    if (jparse_is_op(p, ",")) {
        n->b = jparse_new_node(p, JN_TUPLE);
        jparse_add_node(p, &n->b->list, index);
        while (jparse_take_op(p, ",")) jparse_add_node(p, &n->b->list, parse_slice(p));
    }
    jparse_expect_op(p, "]");
    return n;
}

static node *parse_dot(jparser *p, node *of)
{
    node *n = jparse_new_node(p, JN_ATTR);
    n->a = of;
    if (p->at->kind == JT_INT) {
        n->kind = JN_ITEM;
        n->b = jparse_new_node(p, JN_CONST);
        n->b->value = p->at->value;
        jparse_next(p);
    } else {
        n->name = jparse_expect_name(p);
    }
    return n;
}

static node *parse_call(jparser *p, node *of)
{
    node *n = jparse_new_node(p, JN_CALL);
    n->a = of;
    jparse_next(p);
    parse_arguments(p, n);
    return n;
}

static node *parse_postfix(jparser *p, node *n)
{
    for (;;) {
        if (jparse_take_op(p, ".")) n = parse_dot(p, n);
        else if (jparse_take_op(p, "[")) n = parse_item(p, n);
        else if (jparse_is_op(p, "(")) n = parse_call(p, n);
        else return n;
    }
}

static const char *dotted_name(jparser *p)
{
    const char *name = jparse_expect_name(p);
    while (jparse_take_op(p, ".")) {
        const char *more = jparse_expect_name(p);
        jtext t = {0};
        jtext_put(p->r, &t, name);
        jtext_put(p->r, &t, ".");
        jtext_put(p->r, &t, more);
        name = jparse_intern(p, jtext_get(&t));
    }
    return name;
}

static void look_up(jparser *p, node *n, const jinja_row *rows, const char *what)
{
    n->row = jinja_row_find(rows, n->name);
    if (n->row || p->soft || p->unknown) return;
    p->unknown = n->name;
    p->unknown_kind = what;
}

node *jparse_filter(jparser *p, node *of)
{
    node *n = jparse_new_node(p, JN_FILTER);
    n->a = of;
    n->name = dotted_name(p);
    look_up(p, n, jinja_filters, "filter");
    if (jparse_take_op(p, "(")) parse_arguments(p, n);
    return n;
}

static node *parse_primary(jparser *p);

static node *parse_test(jparser *p, node *of)
{
    bool negated = jparse_take_word(p, "not");
    node *n = jparse_new_node(p, JN_TEST);
    n->a = of;
    n->name = dotted_name(p);
    look_up(p, n, jinja_tests, "test");
    jinja_token_kind k = p->at->kind;
    if (jparse_take_op(p, "(")) {
        parse_arguments(p, n);
    } else if (k == JT_STRING || k == JT_INT || k == JT_FLOAT || jparse_is_op(p, "[") || jparse_is_op(p, "{") ||
               (k == JT_NAME && !jparse_is_word(p, "else") && !jparse_is_word(p, "or") && !jparse_is_word(p, "and"))) {
        if (jparse_is_word(p, "is")) jinja_fail(p->r, "tests cannot be chained with is");
        jparse_add_node(p, &n->list, parse_postfix(p, parse_primary(p)));
    }
    if (!negated) return n;
    node *not = jparse_new_node(p, JN_NOT);
    not ->a = n;
    return not ;
}

static node *parse_filters(jparser *p, node *n)
{
    for (;;) {
        if (jparse_take_op(p, "|")) n = jparse_filter(p, n);
        else if (jparse_take_word(p, "is")) n = parse_test(p, n);
        else if (jparse_is_op(p, "(")) n = parse_call(p, n);
        else return n;
    }
}

/* Elements up to `close` (not taken), behind the first one if it is given. */
static node *parse_elements(jparser *p, jinja_node_kind kind, const char *close)
{
    node *n = jparse_new_node(p, kind);
    while (!jparse_is_op(p, close)) {
        jparse_add_node(p, &n->list, jparse_expression(p));
        if (!jparse_is_op(p, close)) jparse_expect_op(p, ",");
    }
    jparse_next(p);
    return n;
}

static node *parse_dict(jparser *p)
{
    node *n = jparse_new_node(p, JN_DICT);
    while (!jparse_is_op(p, "}")) {
        jparse_add_node(p, &n->list, jparse_expression(p));
        jparse_expect_op(p, ":");
        jparse_add_node(p, &n->more, jparse_expression(p));
        if (!jparse_is_op(p, "}")) jparse_expect_op(p, ",");
    }
    jparse_next(p);
    return n;
}

static node *parse_parenthesis(jparser *p)
{
    if (jparse_is_op(p, ")")) return parse_elements(p, JN_TUPLE, ")");
    node *first = jparse_expression(p);
    if (jparse_take_op(p, ")")) return first;
    jparse_expect_op(p, ",");
    node *n = parse_elements(p, JN_TUPLE, ")");
    jinja_nodes all = {0};
    jparse_add_node(p, &all, first);
    for (size_t i = 0; i < n->list.n; i++) jparse_add_node(p, &all, n->list.v[i]);
    n->list = all;
    return n;
}

static node *parse_strings(jparser *p)
{
    node *n = jparse_new_node(p, JN_CONST);
    n->value = jval_str(p->at->text);
    jparse_next(p);
    if (p->at->kind != JT_STRING) return n;
    jtext t = {0};
    jtext_add(p->r, &t, n->value.s);
    for (; p->at->kind == JT_STRING; jparse_next(p)) jtext_add(p->r, &t, p->at->text);
    n->value = jval_str(jtext_get(&t));
    return n;
}

static void note_use(jparser *p, const char *name)
{
    static const char *const special[JN_USES] = {"varargs", "kwargs", "caller", "loop"};
    for (int i = 0; i < JN_USES; i++)
        if (strcmp(name, special[i]) == 0) p->uses[i] = name;
}

bool jparse_constant(jstr s, jval *out)
{
    if (jstr_is(s, "true") || jstr_is(s, "True")) *out = jval_bool(true);
    else if (jstr_is(s, "false") || jstr_is(s, "False")) *out = jval_bool(false);
    else if (jstr_is(s, "none") || jstr_is(s, "None")) *out = jval_none();
    else return false;
    return true;
}

static node *parse_primary(jparser *p)
{
    node *n;
    switch (p->at->kind) {
    case JT_NAME:
        n = jparse_new_node(p, JN_NAME);
        if (jparse_constant(p->at->text, &n->value)) n->kind = JN_CONST;
        n->name = jparse_expect_name(p);
        note_use(p, n->name);
        return n;
    case JT_STRING: return parse_strings(p);
    case JT_INT:
    case JT_FLOAT:
        n = jparse_new_node(p, JN_CONST);
        n->value = p->at->value;
        jparse_next(p);
        return n;
    default: break;
    }
    if (jparse_take_op(p, "(")) return parse_parenthesis(p);
    if (jparse_take_op(p, "[")) return parse_elements(p, JN_LIST, "]");
    if (jparse_take_op(p, "{")) return parse_dict(p);
    jparse_unexpected(p, "an expression");
}

static node *parse_unary(jparser *p, bool filters)
{
    node *n;
    jparse_enter(p);
    if (jparse_is_op(p, "-") || jparse_is_op(p, "+")) {
        n = jparse_new_node(p, JN_SIGN);
        n->op[0] = (char)p->at->text.p[0];
        jparse_next(p);
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (filters) n = parse_filters(p, n);
    p->r->depth--;
    return n;
}

static node *new_binary(jparser *p, node *a, const char *op, node *b)
{
    node *n = jparse_new_node(p, JN_BINARY);
    strcpy(n->op, op);
    n->a = a;
    n->b = b;
    return n;
}

static node *parse_power(jparser *p)
{
    node *n = parse_unary(p, true);
    while (jparse_take_op(p, "**")) n = new_binary(p, n, "**", parse_unary(p, true));
    return n;
}

static node *parse_product(jparser *p)
{
    static const char *const ops[] = {"*", "/", "//", "%"};
    node *n = parse_power(p);
    for (size_t i = 0; i < 4; i++)
        if (jparse_take_op(p, ops[i])) {
            n = new_binary(p, n, ops[i], parse_power(p));
            i = (size_t)-1; /* from the first again */
        }
    return n;
}

static node *parse_concat(jparser *p)
{
    node *first = parse_product(p);
    if (!jparse_is_op(p, "~")) return first;
    node *n = jparse_new_node(p, JN_CONCAT);
    jparse_add_node(p, &n->list, first);
    while (jparse_take_op(p, "~")) jparse_add_node(p, &n->list, parse_product(p));
    return n;
}

static node *parse_sum(jparser *p)
{
    node *n = parse_concat(p);
    for (;;) {
        if (jparse_take_op(p, "+")) n = new_binary(p, n, "+", parse_concat(p));
        else if (jparse_take_op(p, "-")) n = new_binary(p, n, "-", parse_concat(p));
        else return n;
    }
}

/* The comparison at hand in op; false: none. */
static bool take_comparison(jparser *p, char op[4])
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jparse_take_op(p, ops[i])) {
            strcpy(op, ops[i]);
            return true;
        }
    if (jparse_take_word(p, "in")) {
        strcpy(op, "in");
        return true;
    }
    if (!jparse_is_word(p, "not") || p->at[1].kind != JT_NAME || !jstr_is(p->at[1].text, "in")) return false;
    jparse_next(p);
    jparse_next(p);
    strcpy(op, "not");
    return true;
}

static node *parse_compare(jparser *p)
{
    node *first = parse_sum(p), *n = NULL;
    char op[4] = "";
    while (take_comparison(p, op)) {
        if (!n) {
            n = jparse_new_node(p, JN_COMPARE);
            n->a = first;
        }
        node *other = jparse_new_node(p, JN_OPERAND);
        memcpy(other->op, op, sizeof op);
        other->a = parse_sum(p);
        jparse_add_node(p, &n->list, other);
    }
    return n ? n : first;
}

static node *parse_not(jparser *p)
{
    if (!jparse_is_word(p, "not")) return parse_compare(p);
    jparse_enter(p);
    node *n = jparse_new_node(p, JN_NOT);
    jparse_next(p);
    n->a = parse_not(p);
    p->r->depth--;
    return n;
}

static node *pair(jparser *p, jinja_node_kind kind, node *a, node *b)
{
    node *n = jparse_new_node(p, kind);
    n->a = a;
    n->b = b;
    return n;
}

static node *parse_and(jparser *p)
{
    node *n = parse_not(p);
    while (jparse_take_word(p, "and")) n = pair(p, JN_AND, n, parse_not(p));
    return n;
}

static node *parse_or(jparser *p)
{
    node *n = parse_and(p);
    while (jparse_take_word(p, "or")) n = pair(p, JN_OR, n, parse_and(p));
    return n;
}

node *jparse_expression(jparser *p)
{
    jparse_enter(p);
    bool soft = p->soft;
    const char *unknown = p->unknown;
    node *n = parse_or(p);
    while (jparse_take_word(p, "if")) {
        node *c = jparse_new_node(p, JN_COND);
        p->unknown = unknown;
        p->soft = true;
        c->b = n;
        c->a = parse_or(p);
        if (jparse_take_word(p, "else")) c->c = jparse_expression(p);
        n = c;
    }
    p->soft = soft;
    p->r->depth--;
    return n;
}

/* An expression, or a tuple without parentheses. */
node *jparse_open_tuple(jparser *p, bool conditions)
{
    node *first = conditions ? jparse_expression(p) : parse_or(p);
    if (!jparse_is_op(p, ",")) return first;
    node *n = jparse_new_node(p, JN_TUPLE);
    jparse_add_node(p, &n->list, first);
    while (jparse_take_op(p, ",")) {
        if (p->at->kind == JT_BLOCK_END || p->at->kind == JT_OUTPUT_END || jparse_is_op(p, "=") ||
            jparse_is_word(p, "recursive"))
            break;
        jparse_add_node(p, &n->list, conditions ? jparse_expression(p) : parse_or(p));
    }
    return n;
}
