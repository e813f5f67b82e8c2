/* jinja_eval.h - runs a template's tree. */
#pragma once
#include "jinja/jinja_node.h"

/* The variables of one scope; inner ones see outer ones. */
struct jinja_scope {
    jinja_scope *outer; /* NULL: the context, then the global functions */
    struct {
        const char *name; /* the node's: compared by address */
        jval value;
    } * v;
    size_t n, cap;
};

/* The text of the whole template. */
void jinja_eval(jinja_run *r, const jinja_node *root, jtext *out);
