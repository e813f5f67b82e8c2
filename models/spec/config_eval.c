/* config_eval.c - see config_eval.h. A walk over the parsed expression; names are looked up when used, in any order. */
#include "models/spec/config_eval.h"

#include "base/mem.h"
#include "models/spec/spec_split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 4096, NAMES_DEEP = 24, STEPS_MAX = 200000 };

struct config_eval {
    spec *s;
    config_sources from;
    arena mem;
    int layers;
    uint8_t *in_class; /* [class][layer]; NULL while `where` is evaluated: classes do not see each other */
    const spec_row *open[NAMES_DEEP]; /* definitions being evaluated, outermost first */
    int n_open;
    long steps;
};

typedef struct scope {
    config_eval *values;
    const char *words; /* bare names that are values here: "neox|interleaved|none"; NULL = none */
    int layer;
    const char *where;
    err *e;
} scope;

static int eval_expr(scope *c, const expr *x, value *out);

static int refuse_expr(scope *c, const char *what, const char *detail)
{
    return err_set(c->e, ERR_SPEC, "%s: %s%s", c->where, what, detail);
}

static value number_of(double v) { return (value){.kind = VALUE_NUMBER, .number = v}; }
static value truth_of(bool v) { return (value){.kind = VALUE_BOOL, .number = v}; }
static bool is_number(const value *v) { return v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL; }

static int want_number(scope *c, const value *v, const char *what)
{
    if (is_number(v)) return OK;
    if (v->kind == VALUE_TEXT)
        return err_set(c->e, ERR_SPEC, "%s: %s needs a number, got \"%.60s\"", c->where, what, v->text);
    return err_set(c->e, ERR_SPEC, "%s: %s needs a number, got a list or object", c->where, what);
}

static int result(scope *c, double v, value *out)
{
    const spec_row *of = c->values->n_open ? c->values->open[c->values->n_open - 1] : NULL;
    if (!isfinite(v))
        return refuse_expr(c, of ? "the result is not a finite number: " : "the result is not a finite number",
                           of ? of->text : "");
    *out = number_of(v);
    return OK;
}

/* ---- names */

static bool is_open(const config_eval *values, const spec_row *r)
{
    for (int i = 0; i < values->n_open; i++)
        if (values->open[i] == r) return true;
    return false;
}

bool config_in_class(const config_eval *values, size_t class, int layer)
{
    return values->in_class && layer >= 0 && layer < values->layers &&
           values->in_class[class * (size_t)values->layers + (size_t)layer];
}

/* The nearest definition of a name at this layer that is not being evaluated: of a class, of [config], or NULL. */
static const char *section_of(const config_eval *values, const char *name, int layer)
{
    for (size_t k = values->s->n_class; k-- > 0;) {
        if (!config_in_class(values, k, layer)) continue;
        const spec_row *r = spec_find(values->s, values->s->classes[k].section, name);
        if (r && !is_open(values, r)) return r->section;
    }
    const spec_row *r = spec_find(values->s, "config", name);
    return r && !is_open(values, r) ? r->section : NULL;
}

const spec_row *config_definition(const config_eval *values, const char *name, int layer)
{
    const char *section = section_of(values, name, layer);
    return section ? spec_find(values->s, section, name) : NULL;
}

bool config_knows(const config_eval *values, const char *name) { return spec_find(values->s, "config", name) != NULL; }

/* In the definition of a name spelt like an option, that option's words need no quotes. */
static const char *words_of(const config_eval *values, const char *name)
{
    const param *p = values->from.option ? values->from.option(name, PARAM_WORD) : NULL;
    return p ? p->words : NULL;
}

static int eval_row(scope *c, const char *section, const char *name, value *out)
{
    config_eval *values = c->values;
    const spec_row *r;
    int rc = spec_value(values->s, section, name, &r, c->e);
    if (rc) return rc;
    if (values->n_open == NAMES_DEEP) return refuse_expr(c, "names refer to each other too deeply: ", name);
    values->open[values->n_open++] = r;
    char where[300];
    snprintf(where, sizeof where, "%s: %s", r->where, name);
    scope inner = {values, words_of(values, name), c->layer, where, c->e};
    rc = eval_expr(&inner, r->value, out);
    values->n_open--;
    return rc;
}

/* The metadata that a source names; NULL for that of another format than the checkpoint's. */
static const json *source_root(const config_sources *from, span source)
{
    const struct {
        const char *name;
        const json *root;
    } known[] = {{"", from->hf}, {"hf", from->hf}, {"generation", from->generation}, {from->source, from->own}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].name && span_is(source, known[i].name)) return known[i].root;
    return NULL;
}

/* The node a name means in its source; *there says whether the key exists at all (it may be null). */
static const json *source_node(config_eval *values, const char *name, bool *there, scope *c, int *rc)
{
    const config_sources *from = &values->from;
    const char *colon = strchr(name, ':'), *key = colon ? colon + 1 : name;
    const json *root = source_root(from, span_of(name, colon ? (size_t)(colon - name) : 0)), *j = NULL;
    if (root && root == from->own && from->arch) {
        char full[256];
        int len = snprintf(full, sizeof full, "%s.%s", from->arch, key);
        if (len < 0 || (size_t)len >= sizeof full) *rc = refuse_expr(c, "name too long: ", name);
        else j = json_get(root, full);
    }
    if (!j) j = json_get(root, key);
    if (!j && strchr(key, '.')) j = json_path(root, key);
    *there = j != NULL;
    return j;
}

/* Follows ".member.member" from an object. */
static int eval_member(scope *c, const value *object, const char *path, value *out)
{
    *out = (value){0};
    if (object->kind == VALUE_NONE) return OK;
    if (object->kind != VALUE_NODE || json_type(object->node) != JSON_OBJECT)
        return refuse_expr(c, "is not an object, it has no member ", path);
    *out = value_of_json(json_path(object->node, path));
    return OK;
}

bool config_is_word(const config_eval *values, const char *own, const char *word)
{
    return strcmp(word, "null") == 0 || param_words_have(words_of(values, own), span_str(word));
}

static int eval_name(scope *c, const char *name, value *out)
{
    config_eval *values = c->values;
    int rc = OK;
    bool there;
    *out = (value){0};
    if (c->words && param_words_have(c->words, span_str(name))) {
        *out = (value){.kind = VALUE_TEXT, .text = name};
        return OK;
    }
    if (strcmp(name, "null") == 0) return OK;
    if (strcmp(name, "i") == 0) {
        if (c->layer >= 0) *out = number_of(c->layer >= ENCODER ? c->layer - ENCODER : c->layer);
        return OK;
    }
    if (!strchr(name, ':')) {
        char head[128];
        size_t n = strcspn(name, ".");
        if (n >= sizeof head) return refuse_expr(c, "name too long: ", name);
        memcpy(head, name, n);
        head[n] = 0;
        const char *section = section_of(values, head, c->layer);
        if (section && !name[n]) return eval_row(c, section, head, out);
        if (section) {
            value object;
            rc = eval_row(c, section, head, &object);
            return rc ? rc : eval_member(c, &object, name + n + 1, out);
        }
    }
    const json *j = source_node(values, name, &there, c, &rc);
    *out = value_of_json(j);
    return rc;
}

/* ---- where a value comes from */

enum { BLAME_DEEP = 8 };

typedef struct blame {
    config_eval *values;
    int layer;
    char keys[160];
} blame;

static void blame_key(blame *b, const char *key)
{
    const size_t n = strlen(b->keys);
    if (!strstr(b->keys, key)) snprintf(b->keys + n, sizeof b->keys - n, "%s%s", n ? ", " : "", key);
}

/* The keys that x names and the model's files have, also by way of names of [config]. */
static void blame_expr(blame *b, const expr *x, int deep)
{
    for (size_t i = 0; i < x->n_arg && deep < BLAME_DEEP; i++) {
        const size_t n = strlen(b->keys);
        blame_expr(b, x->arg[i], deep + 1);
        if (x->kind == EXPR_ELSE && strlen(b->keys) > n) break; /* the first that has a value */
    }
    if (x->kind != EXPR_NAME || deep == BLAME_DEEP) return;
    const size_t n = strcspn(x->text, ".");
    char head[128];
    snprintf(head, sizeof head, "%.*s", (int)n, x->text);
    const spec_row *r = strchr(x->text, ':') ? NULL : config_definition(b->values, head, b->layer);
    bool there = false;
    int rc = OK;
    scope c = {.values = b->values, .layer = b->layer, .where = ""};
    if (!r) source_node(b->values, x->text, &there, &c, &rc);
    if (r && x->text[n]) blame_key(b, x->text + n + 1); /* a member of an object that the name chooses */
    else if (there) blame_key(b, x->text);
    else if (r && r->value && b->values->n_open < NAMES_DEEP) {
        b->values->open[b->values->n_open++] = r; /* in its own definition the name is the one further out */
        blame_expr(b, r->value, deep + 1);
        b->values->n_open--;
    }
}

int config_blame(config_eval *values, const char *name, int layer, err *e)
{
    blame b = {.values = values, .layer = layer};
    const expr x = {.kind = EXPR_NAME, .text = name};
    blame_expr(&b, &x, 0);
    return *b.keys ? err_more(e, " (from %s)", b.keys) : e ? e->code : ERR_SPEC;
}

/* ---- functions */

static int call_given(scope *c, const expr *x, value *out)
{
    if (x->n_arg != 1 || x->arg[0]->kind != EXPR_NAME) return refuse_expr(c, "given() takes one name", "");
    const char *name = x->arg[0]->text;
    int rc = OK;
    bool there = false;
    if (!strchr(name, ':') && section_of(c->values, name, c->layer)) {
        value v;
        rc = eval_name(c, name, &v);
        there = v.kind != VALUE_NONE;
    } else {
        source_node(c->values, name, &there, c, &rc);
    }
    *out = truth_of(there);
    return rc;
}

static bool values_equal(const value *a, const value *b)
{
    if (is_number(a) && is_number(b)) return a->number == b->number;
    return a->kind == VALUE_TEXT && b->kind == VALUE_TEXT && strcmp(a->text, b->text) == 0;
}

static int call_contains(scope *c, const expr *x, value *out)
{
    value list, wanted;
    if (x->n_arg != 2) return refuse_expr(c, "contains() takes a list and a value", "");
    int rc = eval_expr(c, x->arg[0], &list);
    if (!rc) rc = eval_expr(c, x->arg[1], &wanted);
    if (rc) return rc;
    *out = (value){0};
    if (list.kind == VALUE_NONE || wanted.kind == VALUE_NONE) return OK;
    bool found = false;
    for (size_t i = 0, n = value_count(&list); i < n && !found; i++) {
        value item = value_at(&list, i);
        found = values_equal(&item, &wanted);
    }
    *out = truth_of(found);
    return OK;
}

static int call_has(scope *c, const expr *x, value *out)
{
    if (x->n_arg != 1 || x->arg[0]->kind != EXPR_TEXT) return refuse_expr(c, "has() takes a tensor name in quotes", "");
    *out = truth_of(c->values->from.weights && ckpt_find(c->values->from.weights, x->arg[0]->text));
    return OK;
}

/* The first dimension of a tensor: how long a table is. */
static int call_rows(scope *c, const expr *x, value *out)
{
    if (x->n_arg != 1 || x->arg[0]->kind != EXPR_TEXT)
        return refuse_expr(c, "rows() takes a tensor name in quotes", "");
    const ckpt_entry *t = c->values->from.weights ? ckpt_find(c->values->from.weights, x->arg[0]->text) : NULL;
    *out = t && t->dims.rank > 0 ? number_of((double)t->dims.dim[0]) : (value){0};
    return OK;
}

static int call_len(scope *c, const expr *x, value *out)
{
    value v;
    if (x->n_arg != 1) return refuse_expr(c, "len() takes one list", "");
    int rc = eval_expr(c, x->arg[0], &v);
    if (!rc) *out = v.kind == VALUE_NONE ? v : number_of((double)value_count(&v));
    return rc;
}

/* The words of a text that a key has instead of a list, "p2c|c2p": a list of them in lower case. A list is left as it
 * is. */
static int call_words(scope *c, const expr *x, value *out)
{
    if (x->n_arg != 1) return refuse_expr(c, "words() takes one text or list", "");
    int rc = eval_expr(c, x->arg[0], out);
    if (rc || out->kind != VALUE_TEXT) return rc;
    size_t n = 1;
    for (const char *p = out->text; *p; p++) n += *p == '|';
    value *items = arena_array(&c->values->mem, n, sizeof *items);
    char *lower = arena_str(&c->values->mem, out->text);
    if (!items || !lower) return err_memory(c->e, c->where);
    for (char *p = lower; *p; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p + ('a' - 'A'));
    span rest = span_str(lower), part;
    for (n = 0; split_next(&rest, '|', &part);) {
        const char *word = arena_strn(&c->values->mem, (const char *)part.p, part.n);
        if (!word) return err_memory(c->e, c->where);
        items[n++] = (value){.kind = VALUE_TEXT, .text = word};
    }
    *out = (value){.kind = VALUE_LIST, .items = items, .n = n};
    return OK;
}

/* The letters of a text that a key has instead of a list, "M*-M": a list of them. A list is left as it is. */
static int call_letters(scope *c, const expr *x, value *out)
{
    if (x->n_arg != 1) return refuse_expr(c, "letters() takes one text or list", "");
    int rc = eval_expr(c, x->arg[0], out);
    if (rc || out->kind != VALUE_TEXT) return rc;
    const char *text = out->text;
    const size_t n = strlen(text);
    value *items = arena_array(&c->values->mem, n + 1, sizeof *items);
    if (!items) return err_memory(c->e, c->where);
    for (size_t i = 0; i < n; i++) {
        const char *letter = arena_strn(&c->values->mem, text + i, 1);
        if (!letter) return err_memory(c->e, c->where);
        items[i] = (value){.kind = VALUE_TEXT, .text = letter};
    }
    *out = (value){.kind = VALUE_LIST, .items = items, .n = n};
    return OK;
}

/* min and max over arguments and the elements of lists among them. */
static int call_extreme(scope *c, const expr *x, value *out)
{
    const bool want_max = strcmp(x->text, "max") == 0;
    bool any = false;
    double best = 0;
    for (size_t k = 0; k < x->n_arg; k++) {
        value v;
        int rc = eval_expr(c, x->arg[k], &v);
        if (rc) return rc;
        *out = (value){0};
        if (v.kind == VALUE_NONE) return OK;
        for (size_t i = 0, n = value_count(&v); i < n; i++) {
            value item = value_at(&v, i);
            if ((rc = want_number(c, &item, x->text))) return rc;
            if (!any || (want_max ? item.number > best : item.number < best)) best = item.number;
            any = true;
        }
    }
    if (!any) return refuse_expr(c, "nothing to compare in ", x->text);
    *out = number_of(best);
    return OK;
}

/* Below it lies the share p of a normal distribution. */
static double probit(double p)
{
    double low = -40, high = 40;
    if (!(p > 0 && p < 1)) return p <= 0 ? -INFINITY : p >= 1 ? INFINITY : NAN;
    for (int i = 0; i < 100; i++) {
        const double x = (low + high) / 2;
        if (0.5 * erfc(-x / sqrt(2)) < p) low = x;
        else high = x;
    }
    return (low + high) / 2;
}

/* The functions: `of` takes one number; `asks`: about the checkpoint, so formulas may not call it. */
typedef struct function {
    const char *name;
    double (*of)(double);
    int (*call)(scope *c, const expr *x, value *out);
    bool asks;
} function;

static const function *function_of(const char *name)
{
    static const function all[] = {{"sqrt", sqrt, NULL, false},
                                   {"log", log, NULL, false},
                                   {"exp", exp, NULL, false},
                                   {"floor", floor, NULL, false},
                                   {"ceil", ceil, NULL, false},
                                   {"abs", fabs, NULL, false},
                                   {"probit", probit, NULL, false},
                                   {"min", NULL, call_extreme, false},
                                   {"max", NULL, call_extreme, false},
                                   {"len", NULL, call_len, false},
                                   {"contains", NULL, call_contains, false},
                                   {"words", NULL, call_words, false},
                                   {"letters", NULL, call_letters, false},
                                   {"given", NULL, call_given, true},
                                   {"has", NULL, call_has, true},
                                   {"rows", NULL, call_rows, true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0) return &all[i];
    return NULL;
}

bool config_is_function(const char *name)
{
    const function *f = function_of(name);
    return f && !f->asks;
}

static int call_math(scope *c, const expr *x, double (*fn)(double), value *out)
{
    value v;
    if (x->n_arg != 1) return refuse_expr(c, "takes one number: ", x->text);
    int rc = eval_expr(c, x->arg[0], &v);
    *out = (value){0};
    if (rc || v.kind == VALUE_NONE) return rc;
    rc = want_number(c, &v, x->text);
    return rc ? rc : result(c, fn(v.number), out);
}

static int eval_call(scope *c, const expr *x, value *out)
{
    const function *f = function_of(x->text);
    if (!f) return refuse_expr(c, "there is no function ", x->text);
    return f->of ? call_math(c, x, f->of, out) : f->call(c, x, out);
}

const char *config_unknown_name(const config_eval *values, const expr *x)
{
    if (x->kind == EXPR_NAME) {
        char head[64];
        size_t n = strcspn(x->text, ".");
        if (n >= sizeof head || strchr(x->text, ':')) return x->text;
        memcpy(head, x->text, n);
        head[n] = 0;
        if (strcmp(head, "i") != 0 && !config_knows(values, head)) return x->text;
    }
    const function *f = x->kind == EXPR_CALL ? function_of(x->text) : NULL;
    if (f && f->asks) return x->text;
    for (size_t i = 0; i < x->n_arg; i++) {
        const char *name = config_unknown_name(values, x->arg[i]);
        if (name) return name;
    }
    return NULL;
}

/* ---- operators */

static int eval_comparison(scope *c, char sign, const value *a, const value *b, value *out)
{
    if (sign == BINOP_EQ || sign == BINOP_NE) {
        if (a->kind >= VALUE_NODE || b->kind >= VALUE_NODE)
            return refuse_expr(c, "lists and objects cannot be compared", "");
        *out = truth_of(values_equal(a, b) == (sign == BINOP_EQ));
        return OK;
    }
    int rc = want_number(c, a, "a comparison");
    if (!rc) rc = want_number(c, b, "a comparison");
    if (rc) return rc;
    double p = a->number, q = b->number;
    *out = truth_of(sign == '<' ? p < q : sign == '>' ? p > q : sign == BINOP_LE ? p <= q : p >= q);
    return OK;
}

static int arithmetic(scope *c, char sign, double a, double b, value *out)
{
    if ((sign == '/' || sign == '%') && b == 0) return refuse_expr(c, "divided by zero", "");
    switch (sign) {
    case '+': return result(c, a + b, out);
    case '-': return result(c, a - b, out);
    case '*': return result(c, a * b, out);
    case '/': return result(c, a / b, out);
    case '%': return result(c, fmod(a, b), out);
    default: return result(c, pow(a, b), out);
    }
}

static int eval_logic(scope *c, const expr *x, value *out)
{
    value v;
    for (int k = 0; k < 2; k++) {
        int rc = eval_expr(c, x->arg[k], &v);
        *out = v;
        if (rc || v.kind == VALUE_NONE) return rc;
        if ((rc = want_number(c, &v, x->op == BINOP_AND ? "'and'" : "'or'"))) return rc;
        *out = truth_of(v.number != 0);
        if ((v.number != 0) == (x->op == BINOP_OR)) return OK;
    }
    return OK;
}

static int eval_binary(scope *c, const expr *x, value *out)
{
    if (x->op == BINOP_AND || x->op == BINOP_OR) return eval_logic(c, x, out);
    value a, b;
    int rc = eval_expr(c, x->arg[0], &a);
    if (!rc) rc = eval_expr(c, x->arg[1], &b);
    *out = (value){0};
    if (rc || a.kind == VALUE_NONE || b.kind == VALUE_NONE) return rc;
    if (strchr("engl<>", x->op)) return eval_comparison(c, x->op, &a, &b, out);
    char what[16];
    snprintf(what, sizeof what, "'%c'", x->op);
    if ((rc = want_number(c, &a, what)) || (rc = want_number(c, &b, what))) return rc;
    return arithmetic(c, x->op, a.number, b.number, out);
}

/* The member that is called by a number, with or without zeros in front: "5", "05". */
static const json *member_numbered(const json *object, double number)
{
    for (const json *m = json_first(object); m; m = json_next(m)) {
        const char *key = json_key(m);
        if (*key && key[strspn(key, "0123456789")] == 0 && strtod(key, NULL) == number) return m;
    }
    return NULL;
}

static int eval_index(scope *c, const expr *x, value *out)
{
    value list = {0}, at;
    const expr *from = x->arg[0];
    int rc = eval_expr(c, x->arg[1], &at);
    if (!rc && from->kind != EXPR_LIST) rc = eval_expr(c, from, &list);
    *out = (value){0};
    if (rc || at.kind == VALUE_NONE || (from->kind != EXPR_LIST && list.kind == VALUE_NONE)) return rc;
    if ((rc = want_number(c, &at, "an index"))) return rc;
    if (list.kind == VALUE_NODE && json_type(list.node) == JSON_OBJECT)
        return *out = value_of_json(member_numbered(list.node, at.number)), OK;
    bool many = from->kind == EXPR_LIST || list.kind == VALUE_LIST ||
                (list.kind == VALUE_NODE && json_type(list.node) == JSON_ARRAY);
    if (!many) return refuse_expr(c, "only lists have elements", "");
    size_t n = from->kind == EXPR_LIST ? from->n_arg : value_count(&list);
    if (!(at.number >= 0 && at.number < (double)n) || at.number != floor(at.number))
        return err_set(c->e, ERR_SPEC, "%s: element %g of a list of %zu", c->where, at.number, n);
    if (from->kind == EXPR_LIST)
        return eval_expr(c, from->arg[(size_t)at.number], out); /* the others are not evaluated */
    *out = value_at(&list, (size_t)at.number);
    return OK;
}

/* Elements without value are left out. */
static int eval_list(scope *c, const expr *x, value *out)
{
    value *items = arena_array(&c->values->mem, x->n_arg, sizeof *items);
    size_t n = 0;
    if (!items) return err_memory(c->e, c->where);
    for (size_t i = 0; i < x->n_arg; i++) {
        int rc = eval_expr(c, x->arg[i], &items[n]);
        if (rc) return rc;
        if (items[n].kind == VALUE_LIST || items[n].kind == VALUE_NODE)
            return refuse_expr(c, "a list inside a list", "");
        n += items[n].kind != VALUE_NONE;
    }
    *out = (value){.kind = VALUE_LIST, .items = items, .n = n};
    return OK;
}

static value word_value(const char *w)
{
    char *end;
    double v = strtod(w, &end);
    if (strcmp(w, "true") == 0 || strcmp(w, "false") == 0) return truth_of(*w == 't');
    return end != w && !*end && isfinite(v) ? number_of(v) : (value){.kind = VALUE_TEXT, .text = w};
}

static int eval_translate(scope *c, const expr *x, value *out)
{
    int rc = eval_expr(c, x->arg[0], out);
    if (rc || out->kind == VALUE_NONE) return rc;
    if (out->kind >= VALUE_NODE) return refuse_expr(c, "only words are translated", "");
    for (size_t i = 0; i < x->n_words; i++) {
        value from = word_value(x->words[2 * i]);
        bool text = out->kind == VALUE_TEXT && strcmp(out->text, x->words[2 * i]) == 0;
        if (text || (out->kind != VALUE_TEXT && from.kind == out->kind && from.number == out->number)) {
            *out = word_value(x->words[2 * i + 1]);
            return OK;
        }
    }
    return OK;
}

static int eval_unary(scope *c, const expr *x, value *out)
{
    int rc = eval_expr(c, x->arg[0], out);
    if (rc || out->kind == VALUE_NONE) return rc;
    if ((rc = want_number(c, out, x->kind == EXPR_NOT ? "'not'" : "'-'"))) return rc;
    *out = x->kind == EXPR_NOT ? truth_of(out->number == 0) : number_of(-out->number);
    return OK;
}

static int eval_expr(scope *c, const expr *x, value *out)
{
    int rc;
    *out = (value){0};
    if (++c->values->steps > STEPS_MAX) return refuse_expr(c, "takes too many steps to evaluate", "");
    switch (x->kind) {
    case EXPR_NUMBER: *out = number_of(x->number); return OK;
    case EXPR_BOOL: *out = truth_of(x->number != 0); return OK;
    case EXPR_TEXT: *out = (value){.kind = VALUE_TEXT, .text = x->text}; return OK;
    case EXPR_NAME: return eval_name(c, x->text, out);
    case EXPR_CALL: return eval_call(c, x, out);
    case EXPR_LIST: return eval_list(c, x, out);
    case EXPR_INDEX: return eval_index(c, x, out);
    case EXPR_TRANSLATE: return eval_translate(c, x, out);
    case EXPR_NEGATE:
    case EXPR_NOT: return eval_unary(c, x, out);
    case EXPR_BINARY: return eval_binary(c, x, out);
    case EXPR_CHOOSE:
        rc = eval_expr(c, x->arg[0], out);
        if (rc || out->kind == VALUE_NONE) return rc;
        if ((rc = want_number(c, out, "'?'"))) return rc;
        return eval_expr(c, x->arg[out->number != 0 ? 1 : 2], out);
    case EXPR_ELSE:
        rc = eval_expr(c, x->arg[0], out);
        return rc || out->kind != VALUE_NONE ? rc : eval_expr(c, x->arg[1], out);
    }
    return refuse_expr(c, "not an expression", "");
}

/* ---- doors */

int config_value(config_eval *values, const expr *x, int layer, const char *words, const char *where, value *out,
                 err *e)
{
    scope c = {values, words, layer, where, e};
    values->steps = 0;
    values->n_open = 0;
    return eval_expr(&c, x, out);
}

int config_name(config_eval *values, const char *name, int layer, value *out, err *e)
{
    scope c = {values, NULL, layer, name, e};
    values->steps = 0;
    values->n_open = 0;
    *out = (value){0};
    const char *section = section_of(values, name, layer);
    return section ? eval_row(&c, section, name, out) : OK;
}

static int count_layers(config_eval *values, err *e)
{
    value v;
    const spec_row *r;
    int rc = spec_value(values->s, "network", "layers", &r, e);
    if (rc) return rc;
    if (r) rc = config_value(values, r->value, OUTSIDE, NULL, r->where, &v, e);
    else rc = config_name(values, "layers", OUTSIDE, &v, e);
    if (rc) return rc;
    if (v.kind == VALUE_NONE)
        return err_set(e, ERR_SPEC,
                       "%s: layers has no value: the model's configuration does not say how many there are",
                       values->s->file);
    if (!is_number(&v) || v.number < 0 || v.number > LAYERS_MAX || v.number != floor(v.number))
        return err_set(e, ERR_SPEC, "%s: layers is %g: expected a whole number from 0 to %d", values->s->file, v.number,
                       LAYERS_MAX),
               config_blame(values, "layers", OUTSIDE, e);
    values->layers = (int)v.number;
    return OK;
}

static int fill_classes(config_eval *values, err *e)
{
    spec *s = values->s;
    uint8_t *table = arena_array(&values->mem, s->n_class * (size_t)values->layers + 1, 1);
    if (!table) return err_memory(e, "a spec");
    for (size_t k = 0; k < s->n_class; k++) {
        const spec_row *r;
        int rc = spec_value(s, s->classes[k].section, "where", &r, e);
        if (rc) return rc;
        for (int i = 0; r && i < values->layers; i++) {
            value v;
            char where[300];
            snprintf(where, sizeof where, "%s: where", r->where);
            if ((rc = config_value(values, r->value, i, NULL, where, &v, e))) return rc;
            if (v.kind != VALUE_NONE && !is_number(&v)) return err_set(e, ERR_SPEC, "%s is not true or false", where);
            table[k * (size_t)values->layers + (size_t)i] = v.kind != VALUE_NONE && v.number != 0;
        }
    }
    values->in_class = table;
    return OK;
}

int config_open(config_eval **out, spec *s, const config_sources *from, err *e)
{
    config_eval *values = mem_zero(1, sizeof *values);
    if (!values) return err_memory(e, "a spec");
    values->s = s;
    values->from = *from;
    int rc = count_layers(values, e);
    if (!rc) rc = fill_classes(values, e);
    if (rc) {
        config_close(values);
        return rc;
    }
    *out = values;
    return OK;
}

void config_close(config_eval *values)
{
    if (!values) return;
    arena_free(&values->mem);
    mem_free(values);
}

int config_layers(const config_eval *values) { return values->layers; }
