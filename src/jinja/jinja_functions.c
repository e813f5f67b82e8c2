/* jinja_functions.c - the global functions of templates. */
#include "jinja/jinja_rows.h"

#include <string.h>

#define FUNCTION(name) static jval function_##name(jinja_run *r, jval self, const jval *a, const jargs *all)
#define UNUSED         (void)r, (void)self, (void)a, (void)all

enum { RANGE_MAX = 100000, TIME_BYTES = 256 };

FUNCTION(raise_exception)
{
    UNUSED;
    jinja_stop(r, ERR_FORMAT, "%s", jstr_c(r, jval_string(r, a[0])));
}

FUNCTION(strftime_now)
{
    UNUSED;
    struct tm tm;
    char text[TIME_BYTES];
    const char *format = jstr_c(r, jval_as_str(r, a[0], "strftime_now"));
    localtime_r(&r->now, &tm);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    if (!n && *format) jinja_fail(r, "strftime_now: a format of more than %d bytes", TIME_BYTES);
    char *kept = jinja_alloc(r, n + 1, 1);
    memcpy(kept, text, n);
    return jval_text(kept);
}

FUNCTION(range)
{
    UNUSED;
    int64_t from = all->n > 1 ? jval_index(r, a[0], "range") : 0, to = jval_index(r, a[all->n > 1], "range"),
            by = all->n > 2 ? jval_index(r, a[2], "range") : 1;
    jlist *l = jlist_new(r, 0);
    if (!by) jinja_fail(r, "range() arg 3 must not be zero");
    for (int64_t i = from; by > 0 ? i < to : i > to;) {
        if (l->n == RANGE_MAX) jinja_fail(r, "Range too big. The sandbox blocks ranges larger than %d.", RANGE_MAX);
        jlist_add(r, l, jval_int(i));
        if (__builtin_add_overflow(i, by, &i)) break;
    }
    l->range[0] = from;
    l->range[1] = to;
    l->range[2] = by;
    return jval_list(J_RANGE, l);
}

/* A dict of a mapping or pairs, and named values. */
static jdict *dict_of(jinja_run *r, const jargs *all)
{
    jdict *d = jdict_new(r);
    if (all->n > 1) jinja_fail(r, "dict expected at most 1 argument, got %zu", all->n);
    if (all->n && all->v[0].kind == J_DICT) {
        for (size_t i = 0; i < all->v[0].dict->n; i++)
            jdict_put(r, d, all->v[0].dict->v[i].key, all->v[0].dict->v[i].value);
    } else if (all->n) {
        const jlist *l = jval_elements(r, all->v[0]);
        for (size_t i = 0; i < l->n; i++) {
            const jlist *pair = jval_elements(r, l->v[i]);
            if (pair->n != 2)
                jinja_fail(r, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->n);
            jdict_put(r, d, pair->v[0], pair->v[1]);
        }
    }
    for (size_t i = 0; i < all->n_named; i++) jdict_put(r, d, all->named[i].key, all->named[i].value);
    return d;
}

FUNCTION(dict)
{
    UNUSED;
    return jval_dict(dict_of(r, all));
}

FUNCTION(namespace)
{
    UNUSED;
    jdict *d = dict_of(r, all);
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].key.kind == J_STRING && d->v[i].key.s.n && d->v[i].key.s.p[0] == '_')
            jinja_fail(r, "a namespace has no attributes that begin with an underscore");
    return (jval){.kind = J_NAMESPACE, .dict = d};
}

static jval joined(jinja_run *r, jval self, const jval *a, const jargs *all);
static const jinja_row joiner_row = {"joiner", "", 0, joined};

/* joiner(sep): "" the first time, then sep. What it remembers is the `used` of a list that holds the separator. */
static jval joined(jinja_run *r, jval self, const jval *a, const jargs *all)
{
    UNUSED;
    bool first = !self.list->used;
    self.list->used = true;
    return first ? jval_text("") : self.list->v[0];
}

FUNCTION(joiner)
{
    UNUSED;
    jval *kept = jinja_alloc(r, 1, sizeof *kept);
    *kept = jval_list(J_LIST, jlist_new(r, 1));
    jlist_add(r, kept->list, jval_given(a[0]) ? a[0] : jval_text(", "));
    return (jval){.kind = J_FUNCTION, .function = {&joiner_row, kept}};
}

const jinja_row jinja_functions[] = {
    {"dict", "*", 0, function_dict},
    {"joiner", "sep", 0, function_joiner},
    {"namespace", "*", 0, function_namespace},
    {"raise_exception", "message", 1, function_raise_exception},
    {"range", "start stop step", 1, function_range},
    {"strftime_now", "format", 1, function_strftime_now},
    {NULL},
};
