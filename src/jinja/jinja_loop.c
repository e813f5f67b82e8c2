/* jinja_loop.c - see jinja_loop.h. */
#include "jinja/jinja_loop.h"

#include "jinja/jinja_rows.h"

#include <string.h>

/* How many elements the loop has in all: those that its condition lets pass, which are tested now. */
static int64_t loop_length(jinja_run *r, jinja_loop *l)
{
    if (!l->def->c) return (int64_t)l->from->n;
    if (l->tested) return l->passed;
    jlist *rest = jlist_new(r, 0);
    while (l->next(r, l)) {
        jlist_add(r, rest, l->ahead);
        l->ahead = (jval){0};
    }
    l->ended = false;
    l->from = rest;
    l->at = 0;
    l->tested = true;
    return l->passed = l->index0 + 1 + (int64_t)rest->n;
}

jval jinja_loop_attr(jinja_run *r, jinja_loop *l, const char *name)
{
    if (strcmp(name, "index") == 0) return jval_int(l->index0 + 1);
    if (strcmp(name, "index0") == 0) return jval_int(l->index0);
    if (strcmp(name, "first") == 0) return jval_bool(l->index0 == 0);
    if (strcmp(name, "last") == 0) return jval_bool(!l->next(r, l));
    if (strcmp(name, "length") == 0) return jval_int(loop_length(r, l));
    if (strcmp(name, "revindex") == 0) return jval_int(loop_length(r, l) - l->index0);
    if (strcmp(name, "revindex0") == 0) return jval_int(loop_length(r, l) - l->index0 - 1);
    if (strcmp(name, "previtem") == 0) return l->before;
    if (strcmp(name, "nextitem") == 0) return l->next(r, l) ? l->ahead : jval_undefined("nextitem", "LoopContext");
    if (strcmp(name, "depth") == 0) return jval_int(l->level);
    if (strcmp(name, "depth0") == 0) return jval_int(l->level - 1);
    return jval_undefined(name, "LoopContext");
}

static jval loop_cycle(jinja_run *r, jval self, const jval *a, const jargs *all)
{
    (void)a;
    if (!all->n) jinja_fail(r, "no items for cycling given");
    return all->v[(size_t)self.loop->index0 % all->n];
}

static jval loop_changed(jinja_run *r, jval self, const jval *a, const jargs *all)
{
    jlist *l = jlist_new(r, all->n);
    (void)a;
    for (size_t i = 0; i < all->n; i++) jlist_add(r, l, all->v[i]);
    jval now = jval_list(J_TUPLE, l);
    bool changed = !jval_given(self.loop->changed) || !jval_equal(r, self.loop->changed, now);
    self.loop->changed = now;
    return jval_bool(changed);
}

const jinja_row jinja_loop_methods[] = {{"cycle", "*", 0, loop_cycle}, {"changed", "*", 0, loop_changed}, {NULL}};
