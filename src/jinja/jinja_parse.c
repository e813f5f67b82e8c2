/* jinja_parse.c - see jinja_parse.h. Recursive descent: statements here, expressions in jinja_expression.c.
 *
 * As jinja2 does, a filter or test that does not exist is an error here, but inside `if` only when it is reached. */
#include "jinja/jinja_parse.h"

#include "jinja/jinja_expression.h"

#include <string.h>

typedef jinja_node node;

static void parse_body(jparser *p, jinja_nodes *out, const char *ends);

/* name, name.attr (`set` only) or a tuple of names. */
static node *parse_one_target(jparser *p, bool members)
{
    if (jparse_take_op(p, "(") || jparse_take_op(p, "[")) {
        bool square = jstr_is(p->at[-1].text, "[");
        node *n = jparse_new_node(p, JN_TUPLE);
        jparse_enter(p);
        while (!jparse_is_op(p, square ? "]" : ")")) {
            jparse_add_node(p, &n->list, parse_one_target(p, false));
            if (!jparse_is_op(p, square ? "]" : ")")) jparse_expect_op(p, ",");
        }
        jparse_next(p);
        p->r->depth--;
        return n;
    }
    jval constant;
    if (p->at->kind == JT_NAME && jparse_constant(p->at->text, &constant)) jparse_unexpected(p, "a name to assign to");
    node *n = jparse_new_node(p, JN_NAME);
    n->name = jparse_expect_name(p);
    if (members && jparse_take_op(p, ".")) {
        n->kind = JN_MEMBER;
        n->attr = jparse_expect_name(p);
    }
    return n;
}

static node *parse_target(jparser *p, bool members)
{
    node *first = parse_one_target(p, members);
    if (!jparse_is_op(p, ",")) return first;
    node *n = jparse_new_node(p, JN_TUPLE);
    jparse_add_node(p, &n->list, first);
    while (jparse_take_op(p, ",")) {
        if (p->at->kind != JT_NAME && !jparse_is_op(p, "(")) break;
        jparse_add_node(p, &n->list, parse_one_target(p, members));
    }
    return n;
}

static void expect_block_end(jparser *p)
{
    if (p->at->kind != JT_BLOCK_END) jparse_unexpected(p, "the end of the tag");
    jparse_next(p);
}

/* The body of a statement up to the tag `ends` ("endfor|else"), whose word is current then. A body of its own is no
 * part of the condition around it. */
static void parse_inner(jparser *p, jinja_nodes *out, const char *ends, bool soft)
{
    bool was = p->soft;
    p->soft = soft;
    expect_block_end(p);
    parse_body(p, out, ends);
    p->soft = was;
}

/* The body of a macro or loop, which notes what it uses. */
static void parse_noted(jparser *p, node *n, const char *ends)
{
    const char *outer[JN_USES];
    memcpy(outer, p->uses, sizeof outer);
    memset(p->uses, 0, sizeof p->uses);
    parse_inner(p, &n->list, ends, false);
    memcpy(n->uses, p->uses, sizeof n->uses);
    for (int i = 0; i < JN_USES; i++)
        if (outer[i]) p->uses[i] = outer[i];
}

static node *parse_if(jparser *p)
{
    node *n = jparse_new_node(p, JN_IF);
    bool was = p->soft;
    for (;;) {
        node *branch = jparse_new_node(p, JN_BRANCH);
        bool last = jparse_take_word(p, "else");
        if (!last) {
            jparse_next(p); /* if, elif */
            p->soft = true;
            branch->a = jparse_open_tuple(p, false);
        }
        parse_inner(p, &branch->list, last ? "endif" : "elif|else|endif", true);
        jparse_add_node(p, &n->list, branch);
        if (jparse_take_word(p, "endif")) break;
    }
    p->soft = was;
    return n;
}

static node *parse_for(jparser *p)
{
    node *n = jparse_new_node(p, JN_FOR);
    jparse_next(p);
    n->a = parse_target(p, false);
    if (!jparse_take_word(p, "in")) jparse_unexpected(p, "in");
    n->b = jparse_open_tuple(p, false);
    if (jparse_take_word(p, "if")) n->c = jparse_expression(p);
    n->recursive = jparse_take_word(p, "recursive");
    parse_noted(p, n, "endfor|else");
    if (jparse_take_word(p, "else")) parse_inner(p, &n->more, "endfor", false);
    jparse_next(p);
    return n;
}

/* | filter | filter of a block. */
static node *parse_block_filters(jparser *p)
{
    node *n = NULL;
    while (jparse_take_op(p, "|")) n = jparse_filter(p, n);
    return n;
}

static node *parse_set(jparser *p)
{
    node *n = jparse_new_node(p, JN_SET);
    jparse_next(p);
    n->a = parse_target(p, true);
    if (jparse_take_op(p, "=")) {
        n->b = jparse_open_tuple(p, true);
        return n;
    }
    n->kind = JN_SET_BLOCK;
    n->b = parse_block_filters(p);
    parse_inner(p, &n->list, "endset", false);
    jparse_next(p);
    return n;
}

static void parse_parameters(jparser *p, node *macro)
{
    jparse_expect_op(p, "(");
    while (!jparse_is_op(p, ")")) {
        node *param = jparse_new_node(p, JN_NAMED);
        param->name = jparse_expect_name(p);
        if (jparse_take_op(p, "=")) param->a = jparse_expression(p);
        else if (macro->more.n && macro->more.v[macro->more.n - 1]->a)
            jinja_fail(p->r, "a parameter without default follows one with a default");
        jparse_add_node(p, &macro->more, param);
        if (!jparse_is_op(p, ")")) jparse_expect_op(p, ",");
    }
    jparse_next(p);
}

static node *parse_macro(jparser *p)
{
    node *n = jparse_new_node(p, JN_MACRO);
    jparse_next(p);
    n->name = jparse_expect_name(p);
    parse_parameters(p, n);
    parse_noted(p, n, "endmacro");
    jparse_next(p);
    return n;
}

static node *parse_call_block(jparser *p)
{
    node *n = jparse_new_node(p, JN_CALL_BLOCK);
    jparse_next(p);
    n->b = jparse_new_node(p, JN_MACRO);
    n->b->name = jparse_intern(p, jval_text("caller").s);
    if (jparse_is_op(p, "(")) parse_parameters(p, n->b);
    n->a = jparse_expression(p);
    if (n->a->kind != JN_CALL) jinja_fail(p->r, "expected call");
    parse_noted(p, n->b, "endcall");
    jparse_next(p);
    return n;
}

static node *parse_filter_block(jparser *p)
{
    node *n = jparse_new_node(p, JN_FILTER_BLOCK);
    jparse_next(p);
    n->b = jparse_filter(p, NULL);
    while (jparse_take_op(p, "|")) n->b = jparse_filter(p, n->b);
    parse_inner(p, &n->list, "endfilter", false);
    jparse_next(p);
    return n;
}

static node *parse_with(jparser *p)
{
    node *n = jparse_new_node(p, JN_WITH);
    jparse_next(p);
    while (p->at->kind != JT_BLOCK_END) {
        node *set = jparse_new_node(p, JN_SET);
        set->a = parse_one_target(p, false);
        jparse_expect_op(p, "=");
        set->b = jparse_expression(p);
        jparse_add_node(p, &n->more, set);
        if (p->at->kind != JT_BLOCK_END) jparse_expect_op(p, ",");
    }
    parse_inner(p, &n->list, "endwith", false);
    jparse_next(p);
    return n;
}

static node *parse_generation(jparser *p)
{
    node *n = jparse_new_node(p, JN_WITH); /* a scope of its own, as in transformers */
    jparse_next(p);
    parse_inner(p, &n->list, "endgeneration", false);
    jparse_next(p);
    return n;
}

static node *parse_print(jparser *p)
{
    node *n = jparse_new_node(p, JN_OUTPUT);
    jparse_next(p);
    while (p->at->kind != JT_BLOCK_END) {
        jparse_add_node(p, &n->list, jparse_expression(p));
        if (p->at->kind != JT_BLOCK_END) jparse_expect_op(p, ",");
    }
    return n;
}

static node *parse_jump(jparser *p)
{
    node *n = jparse_new_node(p, jparse_is_word(p, "break") ? JN_BREAK : JN_CONTINUE);
    jparse_next(p);
    return n;
}

/* A new kind of statement is one row. */
static const struct {
    const char *word;
    node *(*parse)(jparser *p);
} statements[] = {
    {"if", parse_if},           {"for", parse_for},
    {"set", parse_set},         {"macro", parse_macro},
    {"call", parse_call_block}, {"filter", parse_filter_block},
    {"with", parse_with},       {"generation", parse_generation},
    {"print", parse_print},     {"break", parse_jump},
    {"continue", parse_jump},
};

static node *parse_statement(jparser *p)
{
    jparse_enter(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!jparse_is_word(p, statements[i].word)) continue;
        node *n = statements[i].parse(p);
        expect_block_end(p);
        p->r->depth--;
        return n;
    }
    if (p->at->kind != JT_NAME) jparse_unexpected(p, "a statement");
    jinja_fail(p->r, "unknown statement '%.*s'", (int)(p->at->text.n < 60 ? p->at->text.n : 60), p->at->text.p);
}

/* Whether the current word is one of "a|b|c". */
static bool at_one_of(const jparser *p, const char *ends)
{
    for (const char *w = ends; w && *w;) {
        const char *bar = strchr(w, '|');
        size_t n = bar ? (size_t)(bar - w) : strlen(w);
        if (p->at->kind == JT_NAME && p->at->text.n == n && memcmp(p->at->text.p, w, n) == 0) return true;
        w = bar ? bar + 1 : NULL;
    }
    return false;
}

static void parse_body(jparser *p, jinja_nodes *out, const char *ends)
{
    for (;;) {
        node *n;
        switch (p->at->kind) {
        case JT_END:
            if (ends) jinja_fail(p->r, "the template ends before %s", ends);
            return;
        case JT_DATA:
            n = jparse_new_node(p, JN_TEXT);
            n->value = jval_str(p->at->text);
            jparse_next(p);
            break;
        case JT_OUTPUT_BEGIN:
            jparse_next(p);
            n = jparse_new_node(p, JN_OUTPUT);
            jparse_add_node(p, &n->list, jparse_open_tuple(p, true));
            if (p->at->kind != JT_OUTPUT_END) jparse_unexpected(p, "the end of the tag");
            jparse_next(p);
            break;
        default:
            jparse_next(p); /* the beginning of a block */
            if (ends && at_one_of(p, ends)) return;
            n = parse_statement(p);
            break;
        }
        if (p->unknown) jinja_fail(p->r, "No %s named '%s'.", p->unknown_kind, p->unknown);
        jparse_add_node(p, out, n);
    }
}

jinja_node *jinja_parse(jinja_run *r, span source)
{
    jinja_tokens tokens = {0};
    jinja_lex(r, source, &tokens);
    jparser p = {.r = r, .at = tokens.v};
    r->line = tokens.v->line;
    node *n = jparse_new_node(&p, JN_GROUP);
    parse_body(&p, &n->list, NULL);
    return n;
}
