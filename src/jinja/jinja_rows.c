/* jinja_rows.c - see jinja_rows.h. */
#include "jinja/jinja_rows.h"

#include <string.h>

const jinja_row *jinja_row_find(const jinja_row *rows, const char *name)
{
    for (; rows->name; rows++)
        if (strcmp(rows->name, name) == 0) return rows;
    return NULL;
}

/* Which parameter of "a b c" a name is; -1: none. */
static int parameter(const char *params, jstr name)
{
    int i = 0;
    for (const char *p = params; *p; i++) {
        size_t n = strcspn(p, " ");
        if (name.n == n && memcmp(name.p, p, n) == 0) return i;
        p += n + (p[n] == ' ');
    }
    return -1;
}

jval jinja_row_call(jinja_run *r, const jinja_row *row, jval self, const jargs *given)
{
    jval a[JINJA_PARAMS_MAX] = {{0}};
    int n = *row->params != 0;
    jinja_step(r, 1);
    if (*row->params == '*') return row->call(r, self, a, given);
    for (const char *p = row->params; *p; p++) n += *p == ' ';
    if (given->n > (size_t)n) jinja_fail(r, "%s() takes at most %d argument(s), %zu given", row->name, n, given->n);
    for (size_t i = 0; i < given->n; i++) a[i] = given->v[i];
    for (size_t i = 0; i < given->n_named; i++) {
        int at = parameter(row->params, given->named[i].key.s);
        if (at < 0)
            jinja_fail(r, "%s() got an unexpected keyword argument '%s'", row->name, jstr_c(r, given->named[i].key.s));
        if (jval_given(a[at])) jinja_fail(r, "%s() got multiple values for an argument", row->name);
        a[at] = given->named[i].value;
    }
    for (int i = 0; i < row->needed; i++)
        if (!jval_given(a[i])) jinja_fail(r, "%s() misses argument %d", row->name, i + 1);
    return row->call(r, self, a, given);
}
