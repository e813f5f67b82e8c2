/* jinja_filters.c - the filters of jinja2, with transformers' own tojson: one function and one row each. */
#include "jinja/jinja_arith.h"
#include "jinja/jinja_format.h"
#include "jinja/jinja_json.h"
#include "jinja/jinja_rows.h"

#include "base/utf8.h"
#include "jinja/jinja_string.h"
#include "text/tk_unicode.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static jval filter_##name(jinja_run *r, jval self, const jval *a, const jargs *all)
#define UNUSED       (void)r, (void)self, (void)a, (void)all

static jval or_else(jval v, jval otherwise) { return jval_given(v) ? v : otherwise; }
static jval text_of(jinja_run *r, jval v) { return v.kind == J_STRING ? v : jval_str(jval_string(r, v)); }

FILTER(abs)
{
    UNUSED;
    jval_need(r, self);
    if (!jval_is_number(self)) jinja_fail(r, "bad operand type for abs(): '%s'", jval_type(self));
    if (self.kind == J_FLOAT) return jval_float(fabs(self.f));
    int64_t i = jval_index(r, self, "abs");
    return i < 0 ? jinja_binary(r, "-", jval_int(0), self) : jval_int(i);
}

FILTER(attr)
{
    UNUSED;
    return jinja_attr(r, self, jstr_c(r, jval_as_str(r, a[0], "attr")));
}

FILTER(length)
{
    UNUSED;
    return jval_int((int64_t)jval_length(r, self));
}

FILTER(default)
{
    UNUSED;
    bool boolean = jval_given(a[1]) && jval_true(a[1]);
    if (self.kind == J_UNDEFINED || (boolean && !jval_true(self))) return or_else(a[0], jval_text(""));
    return self;
}

FILTER(escape)
{
    UNUSED;
    jtext t = {0};
    if (self.kind == J_STRING && self.safe) return self;
    jinja_escape(r, &t, jval_string(r, self));
    jval v = jval_str(jtext_get(&t));
    v.safe = true;
    return v;
}

FILTER(safe)
{
    UNUSED;
    jval v = text_of(r, self);
    v.safe = true;
    return v;
}

FILTER(string)
{
    UNUSED;
    return text_of(r, self);
}

FILTER(first)
{
    UNUSED;
    const jlist *l = jval_elements(r, self);
    return l->n ? l->v[0] : jval_undefined("first item of an empty sequence", NULL);
}

FILTER(last)
{
    UNUSED;
    if (self.kind == J_ITER) jinja_fail(r, "'%s' object is not reversible", jval_type(self));
    const jlist *l = jval_elements(r, self);
    return l->n ? l->v[l->n - 1] : jval_undefined("last item of an empty sequence", NULL);
}

/* White space and digits with single underscores: what int() and float() take. */
static bool number_text(jstr s, char out[64], bool whole)
{
    size_t from = 0, to = s.n, n = 0;
    while (from < to && isspace(s.p[from])) from++;
    while (to > from && isspace(s.p[to - 1])) to--;
    for (size_t i = from; i < to; i++) {
        if (n >= 63) return false;
        if (s.p[i] == '_' && i > from && i + 1 < to && isdigit(s.p[i - 1]) && isdigit(s.p[i + 1])) continue;
        if (!isdigit(s.p[i]) && !strchr(whole ? "+-" : "+-.eEinfatyINFATY", s.p[i])) return false;
        out[n++] = (char)s.p[i];
    }
    out[n] = 0;
    return n > 0;
}

static bool read_float(jval v, double *out)
{
    char text[64], *end;
    if (jval_is_number(v)) {
        *out = jval_number(v);
        return true;
    }
    if (v.kind != J_STRING || !number_text(v.s, text, false)) return false;
    *out = strtod(text, &end);
    return !*end && end != text;
}

static bool read_int(jinja_run *r, jval v, int base, int64_t *out)
{
    char text[64], *end;
    double d;
    if (v.kind == J_INT || v.kind == J_BOOL) {
        *out = jval_index(r, v, "int");
        return true;
    }
    errno = 0;
    if (v.kind == J_STRING && base != 10 && v.s.n < sizeof text) {
        memcpy(text, v.s.p, v.s.n);
        text[v.s.n] = 0;
        bool prefix = text[0] == '0' && strchr("xXbBoO", text[1]) && text[1];
        *out = strtoll(text + (prefix ? 2 : 0), &end, base);
        return !errno && !*end && end != text + (prefix ? 2 : 0);
    }
    if (v.kind == J_STRING && number_text(v.s, text, true)) {
        *out = strtoll(text, &end, 10);
        if (!errno && !*end && end != text) return true;
    }
    if (!read_float(v, &d) || !(fabs(d) < 0x1p63)) return false;
    *out = (int64_t)d;
    return true;
}

FILTER(int)
{
    UNUSED;
    int64_t v, base = jval_given(a[1]) ? jval_index(r, a[1], "base") : 10;
    jval_need(r, self);
    if (base < 2 || base > 36) base = 10;
    return read_int(r, self, (int)base, &v) ? jval_int(v) : or_else(a[0], jval_int(0));
}

FILTER(float)
{
    UNUSED;
    double d;
    jval_need(r, self);
    return read_float(self, &d) ? jval_float(d) : or_else(a[0], jval_float(0));
}

FILTER(round)
{
    UNUSED;
    jval_need(r, self);
    if (!jval_is_number(self)) jinja_fail(r, "type %s doesn't define __round__ method", jval_type(self));
    int64_t places = jval_given(a[0]) ? jval_index(r, a[0], "precision") : 0;
    jstr method = jval_given(a[1]) ? jval_as_str(r, a[1], "method") : jval_text("common").s;
    double d = jval_number(self), unit = pow(10, (double)places);
    if (places < -30 || places > 300) jinja_fail(r, "round: a precision of %lld", (long long)places);
    if (jstr_is(method, "ceil")) return jval_float(ceil(d * unit) / unit);
    if (jstr_is(method, "floor")) return jval_float(floor(d * unit) / unit);
    if (!jstr_is(method, "common")) jinja_fail(r, "method must be common, ceil or floor");
    if (self.kind != J_FLOAT && places >= 0) return jval_int(jval_index(r, self, "round"));
    if (self.kind != J_FLOAT) return jval_int((int64_t)(nearbyint(d * unit) / unit));
    if (places < 0) return jval_float(nearbyint(d * unit) / unit);
    jtext t = {0}; /* correctly rounded, as Python does it: by digits */
    jargs args = {&self, 1, NULL, 0};
    jtext form = {0};
    jtext_put(r, &form, "{:.");
    jtext_show(r, &form, jval_int(places), false);
    jtext_put(r, &form, "f}");
    jtext_add(r, &t, jinja_format(r, jval_str(jtext_get(&form)), &args).s);
    return jval_float(strtod(jstr_c(r, jtext_get(&t)), NULL));
}

FILTER(upper)
{
    UNUSED;
    return jstring_case(r, text_of(r, self), JSTRING_UPPER);
}

FILTER(lower)
{
    UNUSED;
    return jstring_case(r, text_of(r, self), JSTRING_LOWER);
}

FILTER(capitalize)
{
    UNUSED;
    return jstring_case(r, text_of(r, self), JSTRING_CAPITALIZE);
}

/* Words begin after blanks and - ( { [ <. */
FILTER(title)
{
    UNUSED;
    return jstring_case(r, text_of(r, self), JSTRING_WORDS);
}

FILTER(trim)
{
    UNUSED;
    return jstring_strip(r, text_of(r, self), or_else(a[0], jval_none()), true, true);
}

FILTER(center)
{
    UNUSED;
    return jstring_pad(r, text_of(r, self), jval_given(a[0]) ? jval_index(r, a[0], "width") : 80, ' ', '^');
}

FILTER(replace)
{
    UNUSED;
    int64_t count = jval_given(a[2]) && a[2].kind != J_NONE ? jval_index(r, a[2], "count") : -1;
    jval text = text_of(r, self);
    text.safe = false;
    return jstring_replace(r, text, jval_string(r, a[0]), jval_string(r, a[1]), count);
}

FILTER(format)
{
    UNUSED;
    if (all->n && all->n_named) jinja_fail(r, "can't handle positional and keyword arguments at the same time");
    jlist *l = jlist_new(r, all->n);
    jdict *d = jdict_new(r);
    for (size_t i = 0; i < all->n; i++) jlist_add(r, l, all->v[i]);
    for (size_t i = 0; i < all->n_named; i++) jdict_put(r, d, all->named[i].key, all->named[i].value);
    return jinja_percent(r, text_of(r, self), all->n_named ? jval_dict(d) : jval_list(J_TUPLE, l));
}

FILTER(indent)
{
    UNUSED;
    jval_need(r, self);
    jstr s = jval_as_str(r, self, "indent");
    bool first = jval_given(a[1]) && jval_true(a[1]), blank = jval_given(a[2]) && jval_true(a[2]);
    jval by = or_else(a[0], jval_int(4));
    jtext t = {0};
    if (by.kind != J_STRING) by = jstring_pad(r, jval_text(""), jval_index(r, by, "width"), ' ', '<');
    const jlist *lines = jstring_lines(r, jinja_join_text(r, jval_str(s), jval_text("\n")).s, false);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) jtext_put(r, &t, "\n");
        if (i ? blank || lines->v[i].s.n : first) jtext_add(r, &t, by.s);
        jtext_add(r, &t, lines->v[i].s);
    }
    return jval_str(jtext_get(&t));
}

FILTER(wordcount)
{
    UNUSED;
    const jstr s = jval_string(r, self);
    int64_t n = 0;
    bool in_word = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        bool word = c == '_' || uc_is_word(c);
        n += word && !in_word;
        in_word = word;
    }
    return jval_int(n);
}

FILTER(tojson)
{
    UNUSED;
    json_form f = {.comma = jval_text(", ").s, .colon = jval_text(": ").s};
    jtext t = {0};
    f.ascii = jval_given(a[0]) && jval_true(a[0]);
    f.sort = jval_given(a[3]) && jval_true(a[3]);
    if (jval_given(a[1]) && a[1].kind != J_NONE) {
        jval by = a[1];
        if (by.kind != J_STRING) by = jstring_pad(r, jval_text(""), jval_index(r, by, "indent"), ' ', '<');
        f.indent = jstr_c(r, by.s);
        f.comma = jval_text(",").s;
    }
    if (jval_given(a[2]) && a[2].kind != J_NONE) {
        const jlist *l = jval_elements(r, a[2]);
        if (l->n != 2) jinja_fail(r, "separators: expected two texts");
        f.comma = jval_as_str(r, l->v[0], "separators");
        f.colon = jval_as_str(r, l->v[1], "separators");
    }
    jinja_write_json(r, &t, self, &f);
    return jval_str(jtext_get(&t));
}

/* ---- sequences ---- */

/* The attribute "a.b.0" of an element; J_ABSENT and none: the element itself. Of several, "a,b": a list. */
static jval attribute(jinja_run *r, jval v, jval path, jval otherwise)
{
    if (!jval_given(path) || path.kind == J_NONE) return v;
    if (path.kind != J_STRING) return jinja_item(r, v, path);
    for (size_t from = 0, to; from <= path.s.n; from = to + 1) {
        for (to = from; to < path.s.n && path.s.p[to] != '.';) to++;
        const char *part = jstr_c(r, jstr_cut(path.s, from, to));
        bool number = *part && strspn(part, "0123456789") == strlen(part);
        v = jinja_item(r, v, number ? jval_int(strtoll(part, NULL, 10)) : jval_text(part));
        if (jval_given(otherwise) && v.kind == J_UNDEFINED) v = otherwise;
    }
    return v;
}

static jval without_case(jinja_run *r, jval v, bool keep)
{
    return v.kind == J_STRING && !keep ? jstring_case(r, v, JSTRING_LOWER) : v;
}

static jval sort_key(jinja_run *r, jval v, jval path, bool keep_case)
{
    if (path.kind != J_STRING || !memchr(path.s.p, ',', path.s.n))
        return without_case(r, attribute(r, v, path, (jval){0}), keep_case);
    jlist *keys = jlist_new(r, 2);
    for (size_t from = 0, to; from <= path.s.n; from = to + 1) {
        for (to = from; to < path.s.n && path.s.p[to] != ',';) to++;
        jlist_add(r, keys,
                  without_case(r, attribute(r, v, jval_str(jstr_cut(path.s, from, to)), (jval){0}), keep_case));
    }
    return jval_list(J_LIST, keys);
}

/* Python's sorted(): stable; it asks for < alone, so that one element never fails. By merging. */
static void sort_elements(jinja_run *r, jpair *v, jpair *other, size_t n, bool reverse)
{
    if (n < 2) return;
    size_t half = n / 2, i = 0, k = half;
    sort_elements(r, v, other, half, reverse);
    sort_elements(r, v + half, other + half, n - half, reverse);
    for (size_t o = 0; o < n; o++) {
        bool second = i == half;
        if (i < half && k < n)
            second = reverse ? jval_order(r, v[i].key, v[k].key, "<") < 0 : jval_order(r, v[k].key, v[i].key, "<") < 0;
        other[o] = second ? v[k++] : v[i++];
    }
    memcpy(v, other, n * sizeof *v);
}

static jval sorted(jinja_run *r, jpair *pairs, size_t n, bool reverse)
{
    jlist *l = jlist_new(r, n);
    bool same = true; /* None and the like have no order, but a list of them alone needs none */
    for (size_t i = 1; i < n && same; i++) same = jval_equal(r, pairs[0].key, pairs[i].key);
    if (!same) sort_elements(r, pairs, jinja_alloc(r, n, sizeof *pairs), n, reverse);
    for (size_t i = 0; i < n; i++) jlist_add(r, l, pairs[i].value);
    return jval_list(J_LIST, l);
}

FILTER(sort)
{
    UNUSED;
    const jlist *from = jval_elements(r, self);
    jpair *pairs = jinja_alloc(r, from->n, sizeof *pairs);
    bool keep = jval_given(a[1]) && jval_true(a[1]);
    for (size_t i = 0; i < from->n; i++) pairs[i] = (jpair){sort_key(r, from->v[i], a[2], keep), from->v[i]};
    return sorted(r, pairs, from->n, jval_given(a[0]) && jval_true(a[0]));
}

static jval pair_of(jinja_run *r, jval key, jval value)
{
    jlist *l = jlist_new(r, 2);
    jlist_add(r, l, key);
    jlist_add(r, l, value);
    return jval_list(J_TUPLE, l);
}

FILTER(dictsort)
{
    UNUSED;
    jval_need(r, self);
    if (self.kind != J_DICT) jinja_fail(r, "'%s' object has no attribute 'items'", jval_type(self));
    jstr by = jval_given(a[1]) ? jval_as_str(r, a[1], "by") : jval_text("key").s;
    if (!jstr_is(by, "key") && !jstr_is(by, "value")) jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    jpair *pairs = jinja_alloc(r, self.dict->n, sizeof *pairs);
    bool keep = jval_given(a[0]) && jval_true(a[0]);
    for (size_t i = 0; i < self.dict->n; i++) {
        const jpair *p = &self.dict->v[i];
        pairs[i] = (jpair){without_case(r, jstr_is(by, "key") ? p->key : p->value, keep), pair_of(r, p->key, p->value)};
    }
    return sorted(r, pairs, self.dict->n, jval_given(a[2]) && jval_true(a[2]));
}

static jval generator(jlist *l)
{
    l->shown = "generator";
    return jval_list(J_ITER, l);
}

FILTER(items)
{
    UNUSED;
    jlist *l = jlist_new(r, 0);
    if (self.kind != J_UNDEFINED && self.kind != J_DICT) jinja_fail(r, "Can only get item pairs from a mapping.");
    for (size_t i = 0; self.kind == J_DICT && i < self.dict->n; i++)
        jlist_add(r, l, pair_of(r, self.dict->v[i].key, self.dict->v[i].value));
    return generator(l);
}

FILTER(list)
{
    UNUSED;
    jlist *l = jlist_new(r, 0);
    const jlist *from = jval_elements(r, self);
    for (size_t i = 0; i < from->n; i++) jlist_add(r, l, from->v[i]);
    return jval_list(J_LIST, l);
}

FILTER(join)
{
    UNUSED;
    const jlist *l = jval_elements(r, self);
    jstr between = jval_given(a[0]) ? jval_string(r, a[0]) : jval_text("").s;
    jtext t = {0};
    for (size_t i = 0; i < l->n; i++) {
        if (i) jtext_add(r, &t, between);
        jtext_show(r, &t, attribute(r, l->v[i], a[1], (jval){0}), false);
    }
    return jval_str(jtext_get(&t));
}

FILTER(reverse)
{
    UNUSED;
    if (self.kind == J_STRING) return jinja_slice(r, self, (jval){0}, (jval){0}, jval_int(-1));
    jval_need(r, self);
    const jlist *from = jval_elements(r, self);
    jlist *l = jlist_new(r, from->n);
    for (size_t i = from->n; i-- > 0;) jlist_add(r, l, from->v[i]);
    l->shown = "list_reverseiterator";
    return jval_list(J_ITER, l);
}

FILTER(unique)
{
    UNUSED;
    const jlist *from = jval_elements(r, self);
    jlist *l = jlist_new(r, 0);
    jdict *seen = jdict_new(r);
    bool keep = jval_given(a[0]) && jval_true(a[0]);
    for (size_t i = 0; i < from->n; i++) {
        jval key = without_case(r, attribute(r, from->v[i], a[1], (jval){0}), keep);
        if (jdict_find(r, seen, key)) continue;
        jdict_put(r, seen, key, jval_none());
        jlist_add(r, l, from->v[i]);
    }
    return generator(l);
}

static jval find_extreme(jinja_run *r, jval self, const jval *a, int sign)
{
    const jlist *l = jval_elements(r, self);
    bool keep = jval_given(a[0]) && jval_true(a[0]);
    jval best = jval_undefined("item of an empty sequence", NULL), key = best;
    for (size_t i = 0; i < l->n; i++) {
        jval k = without_case(r, attribute(r, l->v[i], a[1], (jval){0}), keep);
        if (i && jval_order(r, k, key, sign < 0 ? "<" : ">") != sign) continue;
        best = l->v[i];
        key = k;
    }
    return best;
}

FILTER(min)
{
    UNUSED;
    return find_extreme(r, self, a, -1);
}

FILTER(max)
{
    UNUSED;
    return find_extreme(r, self, a, 1);
}

FILTER(sum)
{
    UNUSED;
    const jlist *l = jval_elements(r, self);
    jval v = or_else(a[1], jval_int(0));
    for (size_t i = 0; i < l->n; i++) v = jinja_binary(r, "+", v, attribute(r, l->v[i], a[0], (jval){0}));
    return v;
}

FILTER(batch)
{
    UNUSED;
    const jlist *l = jval_elements(r, self);
    int64_t n = jval_index(r, a[0], "linecount");
    jlist *out = jlist_new(r, 0), *row = NULL;
    if (n < 1) jinja_fail(r, "batch: at least 1 element a row");
    for (size_t i = 0; i < l->n; i++) {
        if (!row || (int64_t)row->n == n) jlist_add(r, out, jval_list(J_LIST, row = jlist_new(r, 4)));
        jlist_add(r, row, l->v[i]);
    }
    while (row && jval_given(a[1]) && a[1].kind != J_NONE && (int64_t)row->n < n) jlist_add(r, row, a[1]);
    return generator(out);
}

FILTER(slice)
{
    UNUSED;
    const jlist *l = jval_elements(r, self);
    int64_t n = jval_index(r, a[0], "slices");
    jlist *out = jlist_new(r, 0);
    if (n < 1) jinja_fail(r, "slice: at least 1 slice");
    for (int64_t i = 0, at = 0; i < n; i++) {
        int64_t size = (int64_t)l->n / n, more = (int64_t)l->n % n;
        jlist *row = jlist_new(r, 4);
        for (int64_t k = 0; k < size + (i < more); k++) jlist_add(r, row, l->v[at++]);
        if (i >= more && jval_given(a[1]) && a[1].kind != J_NONE) jlist_add(r, row, a[1]);
        jlist_add(r, out, jval_list(J_LIST, row));
    }
    return generator(out);
}

FILTER(groupby)
{
    UNUSED;
    const jlist *from = jval_elements(r, self);
    jpair *pairs = jinja_alloc(r, from->n, sizeof *pairs);
    bool keep = jval_given(a[2]) && jval_true(a[2]);
    jlist *out = jlist_new(r, 0), *group = NULL;
    jval last = {0};
    for (size_t i = 0; i < from->n; i++)
        pairs[i] = (jpair){without_case(r, attribute(r, from->v[i], a[0], a[1]), keep), from->v[i]};
    sort_elements(r, pairs, jinja_alloc(r, from->n, sizeof *pairs), from->n, false);
    for (size_t i = 0; i < from->n; i++) {
        if (!group || !jval_equal(r, last, pairs[i].key)) {
            group = jlist_new(r, 4);
            jlist_add(r, out, pair_of(r, attribute(r, pairs[i].value, a[0], a[1]), jval_list(J_LIST, group)));
        }
        last = pairs[i].key;
        jlist_add(r, group, pairs[i].value);
    }
    return jval_list(J_LIST, out);
}

/* ---- filters and tests by name ---- */

/* The arguments behind the first `skip`. */
static jargs rest_of(const jargs *all, size_t skip)
{
    return (jargs){all->v + skip, all->n - skip, all->named, all->n_named};
}

FILTER(map)
{
    UNUSED;
    jlist *l = jlist_new(r, 0);
    jval path = {0}, otherwise = {0};
    const jinja_row *row = NULL;
    if (!jval_true(self)) return generator(l);
    for (size_t i = 0; i < all->n_named && !all->n; i++) {
        bool is_path = jstr_is(all->named[i].key.s, "attribute");
        if (!is_path && !jstr_is(all->named[i].key.s, "default"))
            jinja_fail(r, "Unexpected keyword argument '%s'", jstr_c(r, all->named[i].key.s));
        *(is_path ? &path : &otherwise) = all->named[i].value;
    }
    if (!jval_given(path)) {
        if (!all->n) jinja_fail(r, "map requires a filter argument");
        const char *name = jstr_c(r, jval_as_str(r, all->v[0], "map"));
        row = jinja_row_find(jinja_filters, name);
        if (!row) jinja_fail(r, "No filter named '%s'.", name);
    }
    const jlist *from = jval_elements(r, self);
    for (size_t i = 0; i < from->n; i++) {
        jargs rest = row ? rest_of(all, 1) : (jargs){0};
        jlist_add(r, l, row ? jinja_row_call(r, row, from->v[i], &rest) : attribute(r, from->v[i], path, otherwise));
    }
    return generator(l);
}

static jval select_or_reject(jinja_run *r, jval self, const jargs *all, bool wanted, bool by_attribute)
{
    jlist *l = jlist_new(r, 0);
    const jinja_row *row = NULL;
    size_t skip = by_attribute;
    if (!jval_true(self)) return generator(l);
    if (all->n < skip) jinja_fail(r, "Missing parameter for attribute name");
    if (all->n > skip) {
        const char *name = jstr_c(r, jval_as_str(r, all->v[skip], "select"));
        row = jinja_row_find(jinja_tests, name);
        if (!row) jinja_fail(r, "No test named '%s'.", name);
    }
    const jlist *from = jval_elements(r, self);
    for (size_t i = 0; i < from->n; i++) {
        jval v = by_attribute ? attribute(r, from->v[i], all->v[0], (jval){0}) : from->v[i];
        jargs rest = row ? rest_of(all, skip + 1) : (jargs){0};
        if (jval_true(row ? jinja_row_call(r, row, v, &rest) : v) == wanted) jlist_add(r, l, from->v[i]);
    }
    return generator(l);
}

FILTER(select)
{
    UNUSED;
    return select_or_reject(r, self, all, true, false);
}

FILTER(reject)
{
    UNUSED;
    return select_or_reject(r, self, all, false, false);
}

FILTER(selectattr)
{
    UNUSED;
    return select_or_reject(r, self, all, true, true);
}

FILTER(rejectattr)
{
    UNUSED;
    return select_or_reject(r, self, all, false, true);
}

const jinja_row jinja_filters[] = {
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"capitalize", "", 0, filter_capitalize},
    {"center", "width", 0, filter_center},
    {"count", "", 0, filter_length},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"first", "", 0, filter_first},
    {"float", "default", 0, filter_float},
    {"format", "*", 0, filter_format},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"indent", "width first blank", 0, filter_indent},
    {"int", "default base", 0, filter_int},
    {"items", "", 0, filter_items},
    {"join", "d attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"length", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"lower", "", 0, filter_lower},
    {"map", "*", 0, filter_map},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"reject", "*", 0, filter_reject},
    {"rejectattr", "*", 0, filter_rejectattr},
    {"replace", "old new count", 2, filter_replace},
    {"reverse", "", 0, filter_reverse},
    {"round", "precision method", 0, filter_round},
    {"safe", "", 0, filter_safe},
    {"select", "*", 0, filter_select},
    {"selectattr", "*", 0, filter_selectattr},
    {"slice", "slices fill_with", 1, filter_slice},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"string", "", 0, filter_string},
    {"sum", "attribute start", 0, filter_sum},
    {"title", "", 0, filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"upper", "", 0, filter_upper},
    {"wordcount", "", 0, filter_wordcount},
    {NULL},
};
