/* jinja_loop.h - `loop`: where a for statement is, and what comes next. Elements are tested against the loop's own
 * condition as late as jinja2 does it: when the loop, or loop.last, asks for them. */
#pragma once
#include "jinja/jinja_node.h"

struct jinja_loop {
    bool (*next)(jinja_run *r, jinja_loop *l); /* makes `ahead` the next element; false: there is none */
    const jinja_node *def;
    jinja_scope *home; /* the scope around the loop */
    const jlist *from; /* what is looped over */
    size_t at;         /* the next of it */
    jval now, before;  /* J_UNDEFINED: none */
    jval ahead;        /* J_ABSENT: not asked for yet */
    bool ended;
    bool tested;    /* `from` is what is left, and has passed the condition */
    int64_t passed; /* ... and how many there are in all */
    int64_t index0;
    int64_t level; /* of recursion, from 1 */
    jval changed;  /* what loop.changed was last given; J_ABSENT: nothing */
};

jval jinja_loop_attr(jinja_run *r, jinja_loop *l, const char *name);
