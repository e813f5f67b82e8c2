/* jinja_node.h - a parsed template as a tree. One struct for all nodes: which members a kind uses stands beside it. */
#pragma once
#include "jinja/jinja_value.h"

typedef enum {
    /* expressions */
    JN_CONST,   /* value */
    JN_NAME,    /* name */
    JN_LIST,    /* list */
    JN_TUPLE,   /* list */
    JN_DICT,    /* list: keys, more: values */
    JN_ATTR,    /* a.name */
    JN_ITEM,    /* a[b] */
    JN_SLICE,   /* a:b:c, as the b of JN_ITEM */
    JN_CALL,    /* a(list, more: named, *b, **c) */
    JN_FILTER,  /* a | name(list, more, *b, **c); a NULL: the text of the block around it */
    JN_TEST,    /* a is name(list, more, *b, **c) */
    JN_NOT,     /* a */
    JN_SIGN,    /* op a */
    JN_AND,     /* a and b */
    JN_OR,      /* a or b */
    JN_BINARY,  /* a op b */
    JN_CONCAT,  /* list, joined */
    JN_COMPARE, /* a, then list of JN_OPERAND */
    JN_OPERAND, /* op a */
    JN_COND,    /* b if a else c; c NULL: undefined */
    JN_NAMED,   /* name = a: an argument, a parameter (a NULL: no default) */
    JN_MEMBER,  /* name.attr: what `set` assigns to */
    /* statements */
    JN_TEXT,         /* value */
    JN_OUTPUT,       /* list */
    JN_IF,           /* list of JN_BRANCH */
    JN_BRANCH,       /* a: its condition, NULL: else; list: body */
    JN_FOR,          /* for a in b if c: list, else: more; recursive */
    JN_SET,          /* a = b */
    JN_SET_BLOCK,    /* a = list through the filters b */
    JN_MACRO,        /* name(more): list */
    JN_CALL_BLOCK,   /* a: the call, b: the block as a macro */
    JN_FILTER_BLOCK, /* b: the filters, list */
    JN_WITH,         /* more: JN_SET, list */
    JN_GROUP,        /* list */
    JN_BREAK,
    JN_CONTINUE
} jinja_node_kind;

typedef struct jinja_nodes {
    jinja_node **v;
    size_t n, cap;
} jinja_nodes;

/* Names that macros and loops give their bodies. */
typedef enum { JN_VARARGS, JN_KWARGS, JN_CALLER, JN_LOOP, JN_USES } jinja_use;

struct jinja_node {
    jinja_node_kind kind;
    int line;
    char op[4];       /* "+", "in", "not" (not in) */
    bool recursive;   /* JN_FOR */
    const char *name; /* one address for equal names */
    const char *attr;
    const char *uses[JN_USES]; /* JN_MACRO, JN_FOR: those that the body has */
    const jinja_row *row;      /* JN_FILTER, JN_TEST; NULL: there is none of this name */
    jval value;
    jinja_node *a, *b, *c;
    jinja_nodes list, more;
};
