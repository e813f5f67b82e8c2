/* jinja_parse.h - the tokens of a template become a tree. */
#pragma once
#include "jinja/jinja_node.h"

/* A JN_GROUP with the whole template. Fails as jinja_value.h says. */
jinja_node *jinja_parse(jinja_run *r, span source);
