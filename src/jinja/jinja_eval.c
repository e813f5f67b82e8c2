/* jinja_eval.c - see jinja_eval.h: a walk over the tree. Scopes follow jinja2: bodies of for, macro, call, with and
 * blocks of set have one of their own, `if` has none, and what a body sets is gone with it. */
#include "jinja/jinja_eval.h"

#include "jinja/jinja_arith.h"
#include "jinja/jinja_format.h"
#include "jinja/jinja_loop.h"
#include "jinja/jinja_rows.h"

#include <string.h>

typedef jinja_node node;
typedef jinja_scope scope;
typedef enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow run_body(jinja_run *r, scope *s, const jinja_nodes *body, jtext *out);
static jval eval_node(jinja_run *r, scope *s, const node *n);

static void enter(jinja_run *r)
{
    jinja_step(r, 1);
    if (++r->depth > JINJA_DEPTH_MAX) jinja_stop(r, ERR_LIMIT, "line %d: macros or loops nest too deeply", r->line);
}

static scope *new_scope(jinja_run *r, scope *outer)
{
    scope *s = jinja_alloc(r, 1, sizeof *s);
    s->outer = outer;
    return s;
}

static void set_name(jinja_run *r, scope *s, const char *name, jval v)
{
    size_t i = 0;
    while (i < s->n && s->v[i].name != name) i++;
    if (i == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        void *p = jinja_alloc(r, cap, sizeof *s->v);
        if (s->n) memcpy(p, s->v, s->n * sizeof *s->v);
        s->v = p;
        s->cap = cap;
    }
    if (i == s->n) s->n++;
    s->v[i].name = name;
    s->v[i].value = v;
}

static jval get_name(jinja_run *r, const scope *s, const char *name)
{
    for (; s; s = s->outer)
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].name == name) return s->v[i].value;
    const jval *v = jdict_find_text(r, r->context.dict, name);
    if (v) return *v;
    const jinja_row *row = jinja_row_find(jinja_functions, name);
    return row ? (jval){.kind = J_FUNCTION, .function = {row, NULL}} : jval_undefined(name, NULL);
}

static void assign_target(jinja_run *r, scope *s, const node *to, jval v)
{
    if (to->kind == JN_NAME) {
        set_name(r, s, to->name, v);
    } else if (to->kind == JN_MEMBER) {
        jval space = get_name(r, s, to->name);
        if (space.kind != J_NAMESPACE) jinja_fail(r, "cannot assign attribute on non-namespace object");
        if (to->attr[0] == '_')
            jinja_fail(r, "a namespace has no attributes that begin with an underscore: %s", to->attr);
        jdict_put(r, space.dict, jval_text(to->attr), v);
    } else {
        jval_need(r, v);
        const jlist *l = jval_elements(r, v);
        if (l->n != to->list.n)
            jinja_fail(r,
                       l->n > to->list.n ? "too many values to unpack (expected %zu)"
                                         : "not enough values to unpack (expected %zu)",
                       to->list.n);
        for (size_t i = 0; i < l->n; i++) assign_target(r, s, to->list.v[i], l->v[i]);
    }
}

/* ---- calls ---- */

/* Evaluates the arguments of a call, filter or test. */
static jargs eval_arguments(jinja_run *r, scope *s, const node *n)
{
    jlist *l = jlist_new(r, n->list.n);
    jdict *named = jdict_new(r);
    for (size_t i = 0; i < n->list.n; i++) jlist_add(r, l, eval_node(r, s, n->list.v[i]));
    for (size_t i = 0; i < n->more.n; i++)
        jdict_put(r, named, jval_text(n->more.v[i]->name), eval_node(r, s, n->more.v[i]->a));
    if (n->b) {
        const jlist *star = jval_elements(r, eval_node(r, s, n->b));
        for (size_t i = 0; i < star->n; i++) jlist_add(r, l, star->v[i]);
    }
    if (n->c) {
        jval star = eval_node(r, s, n->c);
        if (star.kind != J_DICT) jinja_fail(r, "argument after ** must be a mapping, not %s", jval_type(star));
        for (size_t i = 0; i < star.dict->n; i++) {
            if (star.dict->v[i].key.kind != J_STRING) jinja_fail(r, "keywords must be strings");
            jdict_put(r, named, star.dict->v[i].key, star.dict->v[i].value);
        }
    }
    return (jargs){l->v, l->n, named->v, named->n};
}

static const jval *named_argument(const jargs *a, const char *name)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (jstr_is(a->named[i].key.s, name)) return &a->named[i].value;
    return NULL;
}

/* What is left after the parameters: for `varargs`, `kwargs` and `caller`, if the macro uses them. */
static void bind_rest(jinja_run *r, scope *s, const node *def, const jargs *a, const jval *caller)
{
    const char *varargs = def->uses[JN_VARARGS], *kwargs = def->uses[JN_KWARGS], *called = def->uses[JN_CALLER];
    jlist *rest = jlist_new(r, 0);
    jdict *other = jdict_new(r);
    for (size_t i = def->more.n; i < a->n; i++) jlist_add(r, rest, a->v[i]);
    for (size_t i = 0; i < a->n_named; i++) {
        bool known = jstr_is(a->named[i].key.s, "caller");
        for (size_t k = 0; k < def->more.n && !known; k++) known = jstr_is(a->named[i].key.s, def->more.v[k]->name);
        if (!known) jdict_put(r, other, a->named[i].key, a->named[i].value);
    }
    if (rest->n && !varargs) jinja_fail(r, "macro '%s' takes not more than %zu argument(s)", def->name, def->more.n);
    if (other->n && !kwargs)
        jinja_fail(r, "macro '%s' takes no keyword argument '%s'", def->name, jstr_c(r, other->v[0].key.s));
    if (varargs) set_name(r, s, varargs, jval_list(J_TUPLE, rest));
    if (kwargs) set_name(r, s, kwargs, jval_dict(other));
    if (called) set_name(r, s, called, caller ? *caller : jval_undefined("caller", NULL));
    if (caller && !called) jinja_fail(r, "macro '%s' takes no keyword argument 'caller'", def->name);
}

static jval call_macro(jinja_run *r, const node *def, scope *home, const jargs *a)
{
    scope *s = new_scope(r, home);
    int line = r->line;
    enter(r);
    for (size_t i = 0; i < def->more.n; i++) {
        const node *param = def->more.v[i];
        const jval *named = named_argument(a, param->name);
        if (named && i < a->n)
            jinja_fail(r, "macro '%s' got multiple values for argument '%s'", def->name, param->name);
        set_name(r, s, param->name,
                 i < a->n   ? a->v[i]
                 : named    ? *named
                 : param->a ? eval_node(r, s, param->a)
                            : jval_undefined(param->name, NULL));
    }
    bind_rest(r, s, def, a, named_argument(a, "caller"));
    jtext t = {0};
    run_body(r, s, &def->list, &t);
    r->depth--;
    r->line = line;
    return jval_str(jtext_get(&t));
}

static void run_loop(jinja_run *r, jinja_loop *l, jtext *out);

static jval call_loop(jinja_run *r, const jinja_loop *outer, const jargs *a)
{
    if (!outer->def->recursive) jinja_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (a->n != 1) jinja_fail(r, "loop() takes one value");
    jinja_loop l = {
        .def = outer->def, .home = outer->home, .from = jval_elements(r, a->v[0]), .level = outer->level + 1};
    jtext t = {0};
    enter(r);
    run_loop(r, &l, &t);
    r->depth--;
    return jval_str(jtext_get(&t));
}

static jval call_value(jinja_run *r, jval f, const jargs *a)
{
    switch (f.kind) {
    case J_FUNCTION: return jinja_row_call(r, f.function.row, f.function.self ? *f.function.self : jval_none(), a);
    case J_MACRO: return call_macro(r, f.macro.def, f.macro.home, a);
    case J_LOOP: return call_loop(r, f.loop, a);
    default: jval_need(r, f); jinja_fail(r, "'%s' object is not callable", jval_type(f));
    }
}

/* ---- expressions ---- */

/* A filter or test; what it is applied to is its a, or the text of the block around it. */
static jval eval_row(jinja_run *r, scope *s, const node *n)
{
    jval self = n->a ? eval_node(r, s, n->a) : r->pushed;
    if (!n->row) jinja_fail(r, "No %s named '%s' found.", n->kind == JN_FILTER ? "filter" : "test", n->name);
    jargs a = eval_arguments(r, s, n);
    return jinja_row_call(r, n->row, self, &a);
}

static bool compare_values(jinja_run *r, const char *op, jval a, jval b)
{
    if (strcmp(op, "==") == 0) return jval_equal(r, a, b);
    if (strcmp(op, "!=") == 0) return !jval_equal(r, a, b);
    if (strcmp(op, "in") == 0) return jinja_contains(r, b, a);
    if (strcmp(op, "not") == 0) return !jinja_contains(r, b, a);
    bool nan = (a.kind == J_FLOAT && a.f != a.f) || (b.kind == J_FLOAT && b.f != b.f);
    int d = jval_order(r, a, b, op);
    if (nan) return false;
    return op[0] == '<' ? (op[1] ? d <= 0 : d < 0) : op[1] ? d >= 0 : d > 0;
}

static jval eval_compare(jinja_run *r, scope *s, const node *n)
{
    jval a = eval_node(r, s, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        jval b = eval_node(r, s, n->list.v[i]->a);
        if (!compare_values(r, n->list.v[i]->op, a, b)) return jval_bool(false);
        a = b;
    }
    return jval_bool(true);
}

static jval eval_sequence(jinja_run *r, scope *s, const node *n)
{
    jlist *l = jlist_new(r, n->list.n);
    for (size_t i = 0; i < n->list.n; i++) jlist_add(r, l, eval_node(r, s, n->list.v[i]));
    return jval_list(n->kind == JN_LIST ? J_LIST : J_TUPLE, l);
}

static jval eval_dict(jinja_run *r, scope *s, const node *n)
{
    jdict *d = jdict_new(r);
    for (size_t i = 0; i < n->list.n; i++) {
        jval key = eval_node(r, s, n->list.v[i]);
        jdict_put(r, d, key, eval_node(r, s, n->more.v[i]));
    }
    return jval_dict(d);
}

static jval eval_item(jinja_run *r, scope *s, const node *n)
{
    jval v = eval_node(r, s, n->a), absent = {0};
    if (n->b->kind != JN_SLICE) return jinja_item(r, v, eval_node(r, s, n->b));
    return jinja_slice(r, v, n->b->a ? eval_node(r, s, n->b->a) : absent, n->b->b ? eval_node(r, s, n->b->b) : absent,
                       n->b->c ? eval_node(r, s, n->b->c) : absent);
}

static jval eval_sign(jinja_run *r, scope *s, const node *n)
{
    jval v = eval_node(r, s, n->a);
    jval_need(r, v);
    if (!jval_is_number(v)) jinja_fail(r, "bad operand type for unary %s: '%s'", n->op, jval_type(v));
    if (v.kind == J_FLOAT) return jval_float(n->op[0] == '-' ? -v.f : v.f);
    return jinja_binary(r, n->op, jval_int(0), v);
}

static jval eval_concat(jinja_run *r, scope *s, const node *n)
{
    jtext t = {0};
    for (size_t i = 0; i < n->list.n; i++) jtext_show(r, &t, eval_node(r, s, n->list.v[i]), false);
    return jval_str(jtext_get(&t));
}

static jval eval_binary(jinja_run *r, scope *s, const node *n)
{
    jval a = eval_node(r, s, n->a), b = eval_node(r, s, n->b);
    return n->op[0] == '%' && a.kind == J_STRING ? jinja_percent(r, a, b) : jinja_binary(r, n->op, a, b);
}

static jval eval_call(jinja_run *r, scope *s, const node *n)
{
    jval f = eval_node(r, s, n->a);
    jargs a = eval_arguments(r, s, n);
    r->line = n->line;
    return call_value(r, f, &a);
}

static jval eval_kind(jinja_run *r, scope *s, const node *n)
{
    jval v;
    switch (n->kind) {
    case JN_CONST: return n->value;
    case JN_NAME: return get_name(r, s, n->name);
    case JN_LIST:
    case JN_TUPLE: return eval_sequence(r, s, n);
    case JN_DICT: return eval_dict(r, s, n);
    case JN_ATTR: return jinja_attr(r, eval_node(r, s, n->a), n->name);
    case JN_ITEM: return eval_item(r, s, n);
    case JN_CALL: return eval_call(r, s, n);
    case JN_FILTER:
    case JN_TEST: return eval_row(r, s, n);
    case JN_NOT: return jval_bool(!jval_true(eval_node(r, s, n->a)));
    case JN_SIGN: return eval_sign(r, s, n);
    case JN_AND: return jval_true(v = eval_node(r, s, n->a)) ? eval_node(r, s, n->b) : v;
    case JN_OR: return jval_true(v = eval_node(r, s, n->a)) ? v : eval_node(r, s, n->b);
    case JN_BINARY: return eval_binary(r, s, n);
    case JN_CONCAT: return eval_concat(r, s, n);
    case JN_COMPARE: return eval_compare(r, s, n);
    case JN_COND:
        if (jval_true(eval_node(r, s, n->a))) return eval_node(r, s, n->b);
        return n->c ? eval_node(r, s, n->c) : jval_undefined(NULL, NULL);
    default: jinja_fail(r, "no expression");
    }
}

static jval eval_node(jinja_run *r, scope *s, const node *n)
{
    enter(r);
    r->line = n->line;
    jval v = eval_kind(r, s, n);
    r->depth--;
    return v;
}

/* ---- statements ---- */

static bool next_element(jinja_run *r, jinja_loop *l)
{
    if (jval_given(l->ahead)) return true;
    while (!l->ended && l->at < l->from->n) {
        jval v = l->from->v[l->at++];
        bool good = true;
        jinja_step(r, 1);
        if (l->def->c && !l->tested) {
            scope *s = new_scope(r, l->home);
            assign_target(r, s, l->def->a, v);
            good = jval_true(eval_node(r, s, l->def->c));
        }
        if (!good) continue;
        l->ahead = v;
        return true;
    }
    l->ended = true;
    return false;
}

static void run_loop(jinja_run *r, jinja_loop *l, jtext *out)
{
    l->next = next_element;
    l->now = l->before = jval_undefined("loop", NULL);
    l->index0 = -1;
    const char *name = l->def->uses[JN_LOOP];
    for (; next_element(r, l);) {
        scope *s = new_scope(r, l->home);
        l->before = l->now;
        l->now = l->ahead;
        l->ahead = (jval){0};
        l->index0++;
        assign_target(r, s, l->def->a, l->now);
        if (name) set_name(r, s, name, (jval){.kind = J_LOOP, .loop = l});
        if (run_body(r, s, &l->def->list, out) == FLOW_BREAK) break;
    }
    if (l->index0 < 0) run_body(r, new_scope(r, l->home), &l->def->more, out);
}

static void run_for(jinja_run *r, scope *s, const node *n, jtext *out)
{
    jval over = eval_node(r, s, n->b);
    r->line = n->line;
    jinja_loop *l = jinja_alloc(r, 1, sizeof *l); /* a macro of the body may keep it */
    *l = (jinja_loop){.def = n, .home = s, .from = jval_elements(r, over), .level = 1};
    run_loop(r, l, out);
}

static flow run_if(jinja_run *r, scope *s, const node *n, jtext *out)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const node *branch = n->list.v[i];
        if (!branch->a || jval_true(eval_node(r, s, branch->a))) return run_body(r, s, &branch->list, out);
    }
    return FLOW_ON;
}

/* The text of a body in a scope of its own, through filters (NULL: none). */
static jval run_block(jinja_run *r, scope *s, const node *filters, const jinja_nodes *body)
{
    jtext t = {0};
    run_body(r, new_scope(r, s), body, &t);
    jval v = jval_str(jtext_get(&t)), before = r->pushed;
    if (!filters) return v;
    r->pushed = v;
    v = eval_node(r, s, filters);
    r->pushed = before;
    return v;
}

static void run_call_block(jinja_run *r, scope *s, const node *n, jtext *out)
{
    jval f = eval_node(r, s, n->a->a);
    jargs a = eval_arguments(r, s, n->a);
    jdict *named = jdict_new(r);
    for (size_t i = 0; i < a.n_named; i++) jdict_put(r, named, a.named[i].key, a.named[i].value);
    jdict_put(r, named, jval_text("caller"), (jval){.kind = J_MACRO, .macro = {n->b, s}});
    a.named = named->v;
    a.n_named = named->n;
    jtext_show(r, out, call_value(r, f, &a), false);
}

static void run_with(jinja_run *r, scope *s, const node *n, jtext *out)
{
    scope *own = new_scope(r, s);
    for (size_t i = 0; i < n->more.n; i++) assign_target(r, own, n->more.v[i]->a, eval_node(r, s, n->more.v[i]->b));
    run_body(r, own, &n->list, out);
}

static flow run_statement(jinja_run *r, scope *s, const node *n, jtext *out)
{
    switch (n->kind) {
    case JN_TEXT: jtext_add(r, out, n->value.s); break;
    case JN_OUTPUT:
        for (size_t i = 0; i < n->list.n; i++) jtext_show(r, out, eval_node(r, s, n->list.v[i]), false);
        break;
    case JN_IF: return run_if(r, s, n, out);
    case JN_FOR: run_for(r, s, n, out); break;
    case JN_SET: assign_target(r, s, n->a, eval_node(r, s, n->b)); break;
    case JN_SET_BLOCK: assign_target(r, s, n->a, run_block(r, s, n->b, &n->list)); break;
    case JN_MACRO: set_name(r, s, n->name, (jval){.kind = J_MACRO, .macro = {n, s}}); break;
    case JN_CALL_BLOCK: run_call_block(r, s, n, out); break;
    case JN_FILTER_BLOCK: jtext_show(r, out, run_block(r, s, n->b, &n->list), false); break;
    case JN_WITH: run_with(r, s, n, out); break;
    case JN_BREAK: return FLOW_BREAK;
    case JN_CONTINUE: return FLOW_CONTINUE;
    default: jinja_fail(r, "no statement");
    }
    return FLOW_ON;
}

static flow run_body(jinja_run *r, scope *s, const jinja_nodes *body, jtext *out)
{
    for (size_t i = 0; i < body->n; i++) {
        enter(r);
        r->line = body->v[i]->line;
        flow f = run_statement(r, s, body->v[i], out);
        r->depth--;
        if (f != FLOW_ON) return f;
    }
    return FLOW_ON;
}

void jinja_eval(jinja_run *r, const jinja_node *root, jtext *out) { run_body(r, new_scope(r, NULL), &root->list, out); }
