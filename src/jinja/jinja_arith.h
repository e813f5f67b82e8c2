/* jinja_arith.h - what operators, dots and brackets mean. */
#pragma once
#include "jinja/jinja_value.h"

/* value.name and value[key], as the sandbox of jinja2 sees them; undefined where there is none. */
jval jinja_attr(jinja_run *r, jval v, const char *name);
jval jinja_item(jinja_run *r, jval v, jval key);
/* The part of a list or string that a slice takes; J_ABSENT: not given. */
jval jinja_slice(jinja_run *r, jval v, jval from, jval to, jval step);
/* a + b and so on; op: as written. */
jval jinja_binary(jinja_run *r, const char *op, jval a, jval b);
bool jinja_contains(jinja_run *r, jval where, jval what);
/* Both as texts; where one is Markup and the other is not, that is escaped. */
jval jinja_join_text(jinja_run *r, jval a, jval b);
void jinja_escape(jinja_run *r, jtext *t, jstr s); /* & < > " ' as HTML writes them */
