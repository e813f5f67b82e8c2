/* jinja_arith.c - see jinja_arith.h. Numbers are Python's, except that whole ones have 64 bits: beyond them a template
 * fails. */
#define _GNU_SOURCE
#include "jinja/jinja_arith.h"

#include "jinja/jinja_loop.h"
#include "jinja/jinja_rows.h"

#include <math.h>
#include <string.h>

static jval bound(jinja_run *r, const jinja_row *row, jval self)
{
    jval *kept = jinja_alloc(r, 1, sizeof *kept);
    *kept = self;
    return (jval){.kind = J_FUNCTION, .function = {row, kept}};
}

static const jinja_row *methods_of(jval v)
{
    switch (v.kind) {
    case J_STRING: return jinja_str_methods;
    case J_DICT: return jinja_dict_methods;
    case J_LIST:
    case J_TUPLE:
    case J_RANGE: return jinja_list_methods;
    case J_LOOP: return jinja_loop_methods;
    default: return NULL;
    }
}

static bool has_method(jinja_run *r, jval v, const char *name, jval *out)
{
    const jinja_row *rows = methods_of(v), *row = rows ? jinja_row_find(rows, name) : NULL;
    if (row) *out = bound(r, row, v);
    return row != NULL;
}

static const char *kept_name(jinja_run *r, jval key) { return key.kind == J_STRING ? jstr_c(r, key.s) : NULL; }

jval jinja_attr(jinja_run *r, jval v, const char *name)
{
    jval found;
    const jval *item = NULL;
    jval_need(r, v);
    if (v.kind == J_LOOP) {
        found = jinja_loop_attr(r, v.loop, name);
        if (found.kind != J_UNDEFINED) return found;
    }
    if (v.kind == J_MACRO && strcmp(name, "name") == 0) return jval_text(v.macro.def->name);
    if (has_method(r, v, name, &found)) return found;
    if (v.kind == J_DICT || v.kind == J_NAMESPACE) item = jdict_find_text(r, v.dict, name);
    return item ? *item : jval_undefined(name, jval_type(v));
}

jval jinja_item(jinja_run *r, jval v, jval key)
{
    jval found;
    jval_need(r, v);
    if (v.kind == J_DICT || v.kind == J_NAMESPACE) {
        const jval *item = jdict_find(r, v.dict, key);
        if (item) return *item;
    } else if ((v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_RANGE) &&
               (key.kind == J_INT || key.kind == J_BOOL)) {
        int64_t n = (int64_t)jval_length(r, v), i = jval_index(r, key, "index");
        if (i < 0) i += n;
        if (i < 0 || i >= n) return jval_undefined("item", jval_type(v));
        if (v.kind != J_STRING) return v.list->v[i];
        size_t from = jstr_offset(v.s, 0, (size_t)i);
        found = jval_str(jstr_cut(v.s, from, jstr_offset(v.s, from, 1)));
        found.safe = v.safe;
        return found;
    }
    if (key.kind != J_STRING) return jval_undefined("item", jval_type(v));
    if (v.kind == J_LOOP) return jinja_attr(r, v, kept_name(r, key));
    if (has_method(r, v, kept_name(r, key), &found)) return found;
    return jval_undefined(kept_name(r, key), jval_type(v));
}

/* A bound of a slice, as Python's slice.indices has it. */
static int64_t slice_bound(jinja_run *r, jval v, int64_t n, int64_t step, int64_t otherwise)
{
    if (!jval_given(v) || v.kind == J_NONE) return otherwise;
    int64_t i = jval_index(r, v, "slice"), low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

jval jinja_slice(jinja_run *r, jval v, jval from, jval to, jval step)
{
    jval_need(r, v);
    if (v.kind != J_STRING && v.kind != J_LIST && v.kind != J_TUPLE && v.kind != J_RANGE)
        return jval_undefined("slice", jval_type(v));
    int64_t n = (int64_t)jval_length(r, v),
            by = jval_given(step) && step.kind != J_NONE ? jval_index(r, step, "step") : 1;
    if (!by) jinja_fail(r, "slice step cannot be zero");
    int64_t start = slice_bound(r, from, n, by, by < 0 ? n - 1 : 0), stop = slice_bound(r, to, n, by, by < 0 ? -1 : n);
    const jlist *l = v.kind == J_STRING && by == 1 ? NULL : jval_elements(r, v);
    if (!l) {
        size_t first = jstr_offset(v.s, 0, (size_t)start);
        jval cut = jval_str(
            jstr_cut(v.s, first, stop > start ? jstr_offset(v.s, first, (size_t)(stop - start)) : first));
        cut.safe = v.safe;
        return cut;
    }
    jlist *out = jlist_new(r, 0);
    jtext t = {0};
    for (int64_t i = start; by < 0 ? i > stop : i < stop;) {
        if (v.kind == J_STRING) jtext_add(r, &t, l->v[i].s);
        else jlist_add(r, out, l->v[i]);
        if (__builtin_add_overflow(i, by, &i)) break;
    }
    if (v.kind == J_STRING) return jval_str(jtext_get(&t));
    return jval_list(v.kind == J_TUPLE ? J_TUPLE : J_LIST, out);
}

bool jinja_contains(jinja_run *r, jval where, jval what)
{
    if (where.kind == J_STRING) {
        jval_need(r, what);
        if (what.kind != J_STRING)
            jinja_fail(r, "'in <string>' requires string as left operand, not %s", jval_type(what));
        jinja_step(r, where.s.n / 64);
        return !what.s.n || memmem(where.s.p, where.s.n, what.s.p, what.s.n) != NULL;
    }
    if (where.kind == J_DICT || where.kind == J_NAMESPACE) return jdict_find(r, where.dict, what) != NULL;
    if (where.kind == J_NONE || jval_is_number(where) || where.kind == J_FUNCTION || where.kind == J_MACRO)
        jinja_fail(r, "argument of type '%s' is not iterable", jval_type(where));
    const jlist *l = jval_elements(r, where);
    for (size_t i = 0; i < l->n; i++)
        if (jval_equal(r, l->v[i], what)) return true;
    return false;
}

void jinja_escape(jinja_run *r, jtext *t, jstr s)
{
    for (size_t i = 0; i < s.n; i++) {
        const char *as = s.p[i] == '&'    ? "&amp;"
                         : s.p[i] == '<'  ? "&lt;"
                         : s.p[i] == '>'  ? "&gt;"
                         : s.p[i] == '"'  ? "&#34;"
                         : s.p[i] == '\'' ? "&#39;"
                                          : NULL;
        if (as) jtext_put(r, t, as);
        else jtext_add(r, t, jstr_cut(s, i, i + 1));
    }
}

jval jinja_join_text(jinja_run *r, jval a, jval b)
{
    jtext t = {0};
    bool safe = a.safe || b.safe;
    if (safe && !a.safe) jinja_escape(r, &t, a.s);
    else jtext_add(r, &t, a.s);
    if (safe && !b.safe) jinja_escape(r, &t, b.s);
    else jtext_add(r, &t, b.s);
    jval v = jval_str(jtext_get(&t));
    v.safe = safe;
    return v;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static jval whole_power(jinja_run *r, int64_t a, int64_t b)
{
    if (b < 0) return jval_float(pow((double)a, (double)b));
    int64_t v = 1;
    if (a == 0 || a == 1) return jval_int(b ? a : 1);
    if (a == -1) return jval_int(b & 1 ? -1 : 1);
    for (int64_t i = 0; i < b; i++)
        if (__builtin_mul_overflow(v, a, &v)) jinja_fail(r, "a number that is too large");
    return jval_int(v);
}

static jval whole_op(jinja_run *r, const char *op, int64_t a, int64_t b)
{
    int64_t v = 0;
    bool over = false;
    if (strcmp(op, "**") == 0) return whole_power(r, a, b);
    if ((*op == '/' || *op == '%') && !b) jinja_fail(r, "division by zero");
    if (strcmp(op, "/") == 0) return jval_float((double)a / (double)b);
    if ((*op == '/' || *op == '%') && b == -1) return whole_op(r, *op == '%' ? "*" : "-", 0, a);
    switch (*op) {
    case '+': over = __builtin_add_overflow(a, b, &v); break;
    case '-': over = __builtin_sub_overflow(a, b, &v); break;
    case '*': over = __builtin_mul_overflow(a, b, &v); break;
    case '/': v = floor_div(a, b); break;
    default: v = a - floor_div(a, b) * b;
    }
    if (over) jinja_fail(r, "a number that is too large");
    return jval_int(v);
}

static jval float_op(jinja_run *r, const char *op, double a, double b)
{
    if ((*op == '/' || *op == '%') && b == 0) jinja_fail(r, "division by zero");
    if (strcmp(op, "**") == 0) {
        if (a == 0 && b < 0) jinja_fail(r, "0.0 cannot be raised to a negative power");
        return jval_float(pow(a, b));
    }
    switch (*op) {
    case '+': return jval_float(a + b);
    case '-': return jval_float(a - b);
    case '*': return jval_float(a * b);
    case '/': return jval_float(op[1] ? floor(a / b) : a / b);
    default: break;
    }
    double m = fmod(a, b);
    return jval_float(m && (m < 0) != (b < 0) ? m + b : m);
}

static jval repeat_value(jinja_run *r, jval v, int64_t times)
{
    if (v.kind == J_STRING) {
        jtext t = {0};
        for (int64_t i = 0; i < times && v.s.n; i++) {
            jinja_step(r, 1);
            jtext_add(r, &t, v.s);
        }
        jval out = jval_str(jtext_get(&t));
        out.safe = v.safe;
        return out;
    }
    jlist *l = jlist_new(r, 0);
    for (int64_t i = 0; i < times && v.list->n; i++)
        for (size_t k = 0; k < v.list->n; k++) jlist_add(r, l, v.list->v[k]);
    return jval_list(v.kind, l);
}

static bool repeats(jval v, jval by)
{
    return (v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE) && (by.kind == J_INT || by.kind == J_BOOL);
}

jval jinja_binary(jinja_run *r, const char *op, jval a, jval b)
{
    jval_need(r, a);
    jval_need(r, b);
    if (jval_is_number(a) && jval_is_number(b)) {
        if (a.kind == J_FLOAT || b.kind == J_FLOAT) return float_op(r, op, jval_number(a), jval_number(b));
        return whole_op(r, op, jval_index(r, a, op), jval_index(r, b, op));
    }
    if (*op == '+' && a.kind == J_STRING && b.kind == J_STRING) return jinja_join_text(r, a, b);
    if (*op == '+' && a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE)) {
        jlist *l = jlist_new(r, a.list->n + b.list->n);
        for (size_t i = 0; i < a.list->n; i++) jlist_add(r, l, a.list->v[i]);
        for (size_t i = 0; i < b.list->n; i++) jlist_add(r, l, b.list->v[i]);
        return jval_list(a.kind, l);
    }
    if (strcmp(op, "*") == 0 && repeats(a, b)) return repeat_value(r, a, jval_index(r, b, op));
    if (strcmp(op, "*") == 0 && repeats(b, a)) return repeat_value(r, b, jval_index(r, a, op));
    if (*op == '+' && a.kind == J_STRING) jinja_fail(r, "can only concatenate str (not \"%s\") to str", jval_type(b));
    jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op, jval_type(a), jval_type(b));
}
