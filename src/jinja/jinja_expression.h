/* jinja_expression.h - the state of a parse, its tools, and expressions: the lower half of jinja_parse.c. */
#pragma once
#include "jinja/jinja_lex.h"
#include "jinja/jinja_node.h"

typedef struct jparse_name {
    struct jparse_name *next;
    const char *name;
} jparse_name;

typedef struct parser {
    jinja_run *r;
    jinja_token *at;
    bool soft;           /* inside `if`: an unknown filter or test fails when it is reached */
    const char *unknown; /* the first one seen elsewhere, unless a condition follows */
    const char *unknown_kind;
    jparse_name *names[64];
    const char *uses[JN_USES]; /* seen since the body of the innermost macro or loop began */
} jparser;

/* The tree. */
jinja_node *jparse_new_node(jparser *p, jinja_node_kind kind);
void jparse_add_node(jparser *p, jinja_nodes *l, jinja_node *n);
const char *jparse_intern(jparser *p, jstr s); /* one address for equal names */
void jparse_enter(jparser *p);                 /* one level deeper; leave by p->r->depth-- */

/* The current token. take_: goes on if it is what is named; expect_: fails if it is not. */
void jparse_next(jparser *p);
bool jparse_is_op(const jparser *p, const char *op);
bool jparse_is_word(const jparser *p, const char *w);
bool jparse_take_op(jparser *p, const char *op);
bool jparse_take_word(jparser *p, const char *w);
void jparse_expect_op(jparser *p, const char *op);
const char *jparse_expect_name(jparser *p);
_Noreturn void jparse_unexpected(jparser *p, const char *wanted);

/* Expressions. */
jinja_node *jparse_expression(jparser *p);
jinja_node *jparse_open_tuple(jparser *p, bool conditions); /* or several, without parentheses */
jinja_node *jparse_filter(jparser *p, jinja_node *of);      /* behind its | */
bool jparse_constant(jstr s, jval *out);                    /* true, false, none */
