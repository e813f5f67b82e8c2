/* jinja_format.c - see jinja_format.h: '%s is %d' % values, and '{} is {x}'.format(…). */
#include "jinja/jinja_format.h"

#include "jinja/jinja_arith.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 100000, PRECISION_MAX = 400 };

/* [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct number_form {
    jstr fill;
    char align, sign, type;
    bool zero, alternate;
    char group;           /* ',' or '_'; 0: none */
    int width, precision; /* -1: not given */
} number_form;

/* Digits at s[*at]; -1: none. */
static int read_count(jinja_run *r, jstr s, size_t *at, int most)
{
    int v = -1;
    for (; *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9'; ++*at) {
        v = (v < 0 ? 0 : v) * 10 + s.p[*at] - '0';
        if (v > most) jinja_fail(r, "a format wider than %d", most);
    }
    return v;
}

static void put_padded(jinja_run *r, jtext *t, jstr s, const number_form *f, char otherwise)
{
    size_t n = jstr_chars(s), pad = f->width > 0 && (size_t)f->width > n ? (size_t)f->width - n : 0, before = 0;
    char align = f->align ? f->align : otherwise;
    if (align == '>') before = pad;
    if (align == '^') before = pad / 2;
    for (size_t i = 0; i < before; i++) jtext_add(r, t, f->fill);
    jtext_add(r, t, s);
    for (size_t i = before; i < pad; i++) jtext_add(r, t, f->fill);
}

/* "1234567" as "1,234,567": digits up to the first other character. */
static void group_digits(jinja_run *r, jtext *t, const char *digits, char sign)
{
    size_t n = strspn(digits, "0123456789");
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) jtext_bytes(r, t, &sign, 1);
        jtext_bytes(r, t, digits + i, 1);
    }
    jtext_put(r, t, digits + n);
}

static void number_digits(jinja_run *r, jtext *t, jval v, const number_form *f)
{
    char text[PRECISION_MAX + 400];
    double d = fabs(jval_number(v));
    int64_t i = v.kind == J_BOOL ? v.b : v.i;
    unsigned long long u = i < 0 ? 0ULL - (unsigned long long)i : (unsigned long long)i;
    int places = f->precision < 0 ? 6 : f->precision;
    switch (f->type) {
    case 'x': snprintf(text, sizeof text, f->alternate ? "0x%llx" : "%llx", u); break;
    case 'X': snprintf(text, sizeof text, f->alternate ? "0X%llX" : "%llX", u); break;
    case 'o': snprintf(text, sizeof text, f->alternate ? "0o%llo" : "%llo", u); break;
    case 'e':
    case 'E': snprintf(text, sizeof text, f->type == 'e' ? "%.*e" : "%.*E", places, d); break;
    case 'g':
    case 'G': snprintf(text, sizeof text, "%.*g", places ? places : 1, d); break;
    case 'f':
    case 'F': snprintf(text, sizeof text, "%.*f", places, d); break;
    case '%': snprintf(text, sizeof text, "%.*f%%", places, d * 100); break;
    default:
        if (v.kind != J_FLOAT) {
            snprintf(text, sizeof text, "%llu", u);
        } else if (f->precision >= 0) {
            snprintf(text, sizeof text, "%.*g", f->precision ? f->precision : 1, d);
        } else {
            jtext_float(r, t, d);
            return;
        }
    }
    if (f->group) group_digits(r, t, text, f->group);
    else jtext_put(r, t, text);
}

static void put_number(jinja_run *r, jtext *t, jval v, number_form *f)
{
    bool whole = v.kind != J_FLOAT, negative = jval_number(v) < 0 || (!whole && signbit(v.f));
    if (strchr("dxXo", f->type) && f->type && !whole)
        jinja_fail(r, "format code '%c' for an object of type 'float'", f->type);
    jtext digits = {0}, all = {0};
    const char *sign = negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    number_digits(r, &digits, v, f);
    if (f->zero && !f->align) {
        size_t used = digits.n + strlen(sign);
        jtext_put(r, &all, sign);
        for (; (size_t)(f->width > 0 ? f->width : 0) > used; used++) jtext_put(r, &all, "0");
    } else {
        jtext_put(r, &all, sign);
    }
    jtext_add(r, &all, jtext_get(&digits));
    put_padded(r, t, jtext_get(&all), f, '>');
}

static void put_text(jinja_run *r, jtext *t, jstr s, const number_form *f, char otherwise)
{
    if (f->precision >= 0) s = jstr_cut(s, 0, jstr_offset(s, 0, (size_t)f->precision));
    put_padded(r, t, s, f, otherwise);
}

/* ---- % ---- */

/* Feeds the values of a % format: a tuple one by one, a mapping by name, anything else once. */
typedef struct feed {
    jval values;
    size_t used;
} feed;

static jval next_value(jinja_run *r, feed *f)
{
    bool many = f->values.kind == J_TUPLE;
    if (f->used >= (many ? f->values.list->n : 1)) jinja_fail(r, "not enough arguments for format string");
    return many ? f->values.list->v[f->used++] : (f->used++, f->values);
}

static jval named_value(jinja_run *r, feed *f, jstr name)
{
    const jval *v = f->values.kind == J_DICT ? jdict_find(r, f->values.dict, jval_str(name)) : NULL;
    if (!v)
        jinja_fail(r, f->values.kind == J_DICT ? "KeyError: '%s'" : "format requires a mapping, for '%s'",
                   jstr_c(r, name));
    f->used = 1;
    return *v;
}

/* One directive behind its '%' at s.p[at]; returns where it ends. */
static size_t put_directive(jinja_run *r, jtext *t, jstr s, size_t at, feed *from)
{
    number_form f = {.fill = {(const uint8_t *)" ", NULL, 1}, .width = -1, .precision = -1};
    jval v = {0};
    if (at < s.n && s.p[at] == '(') {
        size_t end = at + 1;
        while (end < s.n && s.p[end] != ')') end++;
        if (end >= s.n) jinja_fail(r, "incomplete format key");
        v = named_value(r, from, jstr_cut(s, at + 1, end));
        at = end + 1;
    }
    for (; at < s.n && s.p[at] && strchr("-+ #0", s.p[at]); at++) {
        if (s.p[at] == '-') f.align = '<';
        else if (s.p[at] == '0') f.zero = true;
        else if (s.p[at] == '#') f.alternate = true;
        else f.sign = (char)s.p[at];
    }
    f.width = read_count(r, s, &at, WIDTH_MAX);
    if (at < s.n && s.p[at] == '.') {
        at++;
        f.precision = read_count(r, s, &at, PRECISION_MAX);
        if (f.precision < 0) f.precision = 0;
    }
    if (at >= s.n) jinja_fail(r, "incomplete format");
    char type = (char)s.p[at];
    if (type == '%') {
        jtext_put(r, t, "%");
        return at + 1;
    }
    if (!jval_given(v)) v = next_value(r, from);
    if (type == 's' || type == 'r') {
        jtext shown = {0};
        jtext_show(r, &shown, v, type == 'r');
        put_text(r, t, jtext_get(&shown), &f, '>');
    } else if (type && strchr("diuxXoeEfFgG", type)) {
        jval_need(r, v);
        if (!jval_is_number(v)) jinja_fail(r, "%%%c format: a real number is required, not %s", type, jval_type(v));
        f.type = type == 'i' || type == 'u' ? 'd' : type;
        if (v.kind == J_FLOAT && f.type == 'd' && v.digits) {
            put_text(r, t, jval_text(v.digits).s, &f, '>');
            return at + 1;
        }
        if (v.kind == J_FLOAT && f.type == 'd' && fabs(v.f) < 0x1p63) v = jval_int((int64_t)v.f);
        else if (v.kind == J_FLOAT && f.type == 'd') f.type = 'f', f.precision = 0; /* all of its digits */
        put_number(r, t, v, &f);
    } else {
        jinja_fail(r, "unsupported format character '%c'", type >= 0x20 && type < 0x7f ? type : '?');
    }
    return at + 1;
}

jval jinja_percent(jinja_run *r, jval text, jval values)
{
    jstr s = text.s;
    jtext t = {0};
    feed from = {values, 0};
    for (size_t i = 0; i < s.n;) {
        size_t plain = i;
        while (plain < s.n && s.p[plain] != '%') plain++;
        jtext_add(r, &t, jstr_cut(s, i, plain));
        i = plain < s.n ? put_directive(r, &t, s, plain + 1, &from) : plain;
    }
    bool left = values.kind == J_TUPLE ? from.used < values.list->n : !from.used && values.kind != J_DICT;
    if (left) jinja_fail(r, "not all arguments converted during string formatting");
    return jval_str(jtext_get(&t));
}

/* ---- format ---- */

static void read_form(jinja_run *r, jstr s, number_form *f)
{
    size_t at = 0, first = jstr_offset(s, 0, 1);
    *f = (number_form){.fill = {(const uint8_t *)" ", NULL, 1}, .width = -1, .precision = -1};
    if (first < s.n && strchr("<>^", s.p[first]) && s.p[first]) {
        f->fill = jstr_cut(s, 0, first);
        at = first;
    }
    if (at < s.n && s.p[at] && strchr("<>^", s.p[at])) f->align = (char)s.p[at++];
    if (at < s.n && s.p[at] && strchr("+- ", s.p[at])) f->sign = (char)s.p[at++];
    if (at < s.n && s.p[at] == '#') {
        f->alternate = true;
        at++;
    }
    if (at < s.n && s.p[at] == '0') {
        f->zero = true;
        at++;
    }
    f->width = read_count(r, s, &at, WIDTH_MAX);
    if (at < s.n && (s.p[at] == ',' || s.p[at] == '_')) f->group = (char)s.p[at++];
    if (at < s.n && s.p[at] == '.') {
        at++;
        f->precision = read_count(r, s, &at, PRECISION_MAX);
    }
    if (at < s.n) f->type = (char)s.p[at++];
    if (at < s.n) jinja_fail(r, "Invalid format specifier '%s'", jstr_c(r, s));
}

static void put_formatted(jinja_run *r, jtext *t, jval v, jstr spec)
{
    number_form f;
    if (!spec.n) {
        jtext_show(r, t, v, false);
        return;
    }
    read_form(r, spec, &f);
    if (jval_is_number(v) && !(v.kind == J_BOOL && !f.type)) {
        if (f.type && !strchr("dxXoeEfFgG%", f.type))
            jinja_fail(r, "Unknown format code '%c' for object of type '%s'", f.type, jval_type(v));
        put_number(r, t, v, &f);
        return;
    }
    if (v.kind != J_STRING && v.kind != J_BOOL)
        jinja_fail(r, "unsupported format string passed to %s.__format__", jval_type(v));
    if (f.type && f.type != 's')
        jinja_fail(r, "Unknown format code '%c' for object of type '%s'", f.type, jval_type(v));
    put_text(r, t, jval_string(r, v), &f, '<');
}

/* The value that "0.name[key]" in braces names; *next counts fields without a name. */
static jval field_value(jinja_run *r, jstr s, const jargs *args, size_t *next)
{
    size_t end = 0;
    while (end < s.n && s.p[end] != '.' && s.p[end] != '[') end++;
    const char *name = jstr_c(r, jstr_cut(s, 0, end));
    char *rest;
    long i = strtol(name, &rest, 10);
    jval v = {0};
    if (!*name) i = (long)(*next)++;
    if (!*name || (*name >= '0' && *name <= '9' && !*rest)) {
        if (i < 0 || (size_t)i >= args->n)
            jinja_fail(r, "Replacement index %ld out of range for positional args tuple", i);
        v = args->v[i];
    } else {
        for (size_t k = 0; k < args->n_named; k++)
            if (jstr_is(args->named[k].key.s, name)) v = args->named[k].value;
        if (!jval_given(v)) jinja_fail(r, "KeyError: '%s'", name);
    }
    while (end < s.n) {
        bool dot = s.p[end] == '.';
        size_t from = ++end;
        while (end < s.n && (dot ? s.p[end] != '.' && s.p[end] != '[' : s.p[end] != ']')) end++;
        const char *key = jstr_c(r, jstr_cut(s, from, end));
        i = strtol(key, &rest, 10);
        v = dot ? jinja_attr(r, v, key) : jinja_item(r, v, *key && !*rest ? jval_int(i) : jval_text(key));
        if (!dot) end++;
    }
    return v;
}

jval jinja_format(jinja_run *r, jval text, const jargs *args)
{
    jstr s = text.s;
    jtext t = {0};
    size_t next = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '{' && s.p[i] != '}') {
            jtext_add(r, &t, jstr_cut(s, i, i + 1));
            continue;
        }
        if (i + 1 < s.n && s.p[i + 1] == s.p[i]) {
            jtext_add(r, &t, jstr_cut(s, i, i + 1));
            i++;
            continue;
        }
        size_t end = i + 1;
        while (s.p[i] == '{' && end < s.n && s.p[end] != '}') end++;
        if (s.p[i] == '}' || end >= s.n) jinja_fail(r, "Single '%c' encountered in format string", s.p[i]);
        size_t name = i + 1, stop = name;
        while (stop < end && s.p[stop] != '!' && s.p[stop] != ':') stop++;
        jval v = field_value(r, jstr_cut(s, name, stop), args, &next);
        jval_need(r, v);
        if (stop < end && s.p[stop] == '!') {
            jtext shown = {0};
            jtext_show(r, &shown, v, stop + 1 < end && s.p[stop + 1] == 'r');
            v = jval_str(jtext_get(&shown));
            stop += 2;
        }
        put_formatted(r, &t, v, stop < end ? jstr_cut(s, stop + 1, end) : (jstr){s.p, NULL, 0});
        i = end;
    }
    return jval_str(jtext_get(&t));
}
