/* jinja_methods.c - methods of strings, dicts and lists: those of Python that change nothing. */
#include "jinja/jinja_arith.h"
#include "jinja/jinja_format.h"
#include "jinja/jinja_string.h"
#include "jinja/jinja_rows.h"

#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <string.h>

#define METHOD(name) static jval method_##name(jinja_run *r, jval self, const jval *a, const jargs *all)
#define UNUSED       (void)r, (void)self, (void)a, (void)all
#define CASE_METHOD(name, kind)                                                                                        \
    METHOD(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED;                                                                                                        \
        return jstring_case(r, self, kind);                                                                            \
    }

CASE_METHOD(upper, JSTRING_UPPER)
CASE_METHOD(lower, JSTRING_LOWER)
CASE_METHOD(title, JSTRING_TITLE)
CASE_METHOD(capitalize, JSTRING_CAPITALIZE)
CASE_METHOD(swapcase, JSTRING_SWAP)

static int64_t count_of(jinja_run *r, jval v) { return jval_given(v) ? jval_index(r, v, "count") : -1; }

METHOD(strip)
{
    UNUSED;
    return jstring_strip(r, self, a[0], true, true);
}

METHOD(lstrip)
{
    UNUSED;
    return jstring_strip(r, self, a[0], true, false);
}

METHOD(rstrip)
{
    UNUSED;
    return jstring_strip(r, self, a[0], false, true);
}

METHOD(split)
{
    UNUSED;
    return jval_list(J_LIST, jstring_split(r, self, a[0], count_of(r, a[1]), false));
}

METHOD(rsplit)
{
    UNUSED;
    return jval_list(J_LIST, jstring_split(r, self, a[0], count_of(r, a[1]), true));
}

METHOD(splitlines)
{
    UNUSED;
    return jval_list(J_LIST, jstring_lines(r, self.s, jval_given(a[0]) && jval_true(a[0])));
}

METHOD(replace)
{
    UNUSED;
    return jstring_replace(r, self, jval_as_str(r, a[0], "replace"), jval_as_str(r, a[1], "replace"),
                           count_of(r, a[2]));
}

METHOD(format)
{
    UNUSED;
    return jinja_format(r, self, all);
}

METHOD(join)
{
    UNUSED;
    const jlist *l = jval_elements(r, a[0]);
    jtext t = {0};
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].kind != J_STRING)
            jinja_fail(r, "sequence item %zu: expected str instance, %s found", i, jval_type(l->v[i]));
        if (i) jtext_add(r, &t, self.s);
        jtext_add(r, &t, l->v[i].s);
    }
    return jval_str(jtext_get(&t));
}

static bool has_end(jstr s, jstr end, bool front)
{
    return s.n >= end.n && (!end.n || memcmp(front ? s.p : s.p + s.n - end.n, end.p, end.n) == 0);
}

/* One text, or a tuple of them. */
static jval begins_or_ends(jinja_run *r, jval self, const jval *a, bool front)
{
    jval part = jinja_slice(r, self, a[1], a[2], (jval){0});
    if (a[0].kind != J_TUPLE) return jval_bool(has_end(part.s, jval_as_str(r, a[0], "startswith"), front));
    for (size_t i = 0; i < a[0].list->n; i++)
        if (has_end(part.s, jval_as_str(r, a[0].list->v[i], "startswith"), front)) return jval_bool(true);
    return jval_bool(false);
}

METHOD(startswith)
{
    UNUSED;
    return begins_or_ends(r, self, a, true);
}

METHOD(endswith)
{
    UNUSED;
    return begins_or_ends(r, self, a, false);
}

METHOD(removeprefix)
{
    UNUSED;
    jstr end = jval_as_str(r, a[0], "removeprefix");
    return has_end(self.s, end, true) ? jval_str(jstr_cut(self.s, end.n, self.s.n)) : self;
}

METHOD(removesuffix)
{
    UNUSED;
    jstr end = jval_as_str(r, a[0], "removesuffix");
    return has_end(self.s, end, false) ? jval_str(jstr_cut(self.s, 0, self.s.n - end.n)) : self;
}

/* The index by characters, -1: absent. */
static int64_t find_substring(jinja_run *r, jval self, const jval *a, bool last)
{
    jval part = jinja_slice(r, self, a[1], a[2], (jval){0});
    size_t at = jstring_find(part.s, jval_as_str(r, a[0], "find"), 0, last);
    if (at > part.s.n) return -1;
    return (int64_t)jstr_chars(jstr_cut(self.s, 0, (size_t)(part.s.p - self.s.p) + at));
}

METHOD(find)
{
    UNUSED;
    return jval_int(find_substring(r, self, a, false));
}

METHOD(rfind)
{
    UNUSED;
    return jval_int(find_substring(r, self, a, true));
}

METHOD(index)
{
    UNUSED;
    int64_t i = find_substring(r, self, a, false);
    if (i < 0) jinja_fail(r, "substring not found");
    return jval_int(i);
}

METHOD(count)
{
    UNUSED;
    jstr what = jval_as_str(r, a[0], "count");
    int64_t n = 0;
    if (!what.n) return jval_int((int64_t)jstr_chars(self.s) + 1);
    for (size_t at = 0; (at = jstring_find(self.s, what, at, false)) <= self.s.n; at += what.n) n++;
    return jval_int(n);
}

/* The text before, `by` and the text after it; where it is nowhere, s stands at the front, or at the end if `last`. */
static jval parts_around(jinja_run *r, jstr s, jstr by, bool last)
{
    if (!by.n) jinja_fail(r, "empty separator");
    const size_t at = jstring_find(s, by, 0, last);
    const bool found = at <= s.n;
    jlist *l = jlist_new(r, 3);
    jlist_add(r, l, found ? jval_str(jstr_cut(s, 0, at)) : last ? jval_text("") : jval_str(s));
    jlist_add(r, l, found ? jval_str(by) : jval_text(""));
    jlist_add(r, l, found ? jval_str(jstr_cut(s, at + by.n, s.n)) : last ? jval_str(s) : jval_text(""));
    return jval_list(J_TUPLE, l);
}

METHOD(partition)
{
    UNUSED;
    return parts_around(r, self.s, jval_as_str(r, a[0], "partition"), false);
}

METHOD(rpartition)
{
    UNUSED;
    return parts_around(r, self.s, jval_as_str(r, a[0], "rpartition"), true);
}

static uint32_t fill_of(jinja_run *r, jval v)
{
    size_t len;
    jstr s = jval_given(v) ? jval_as_str(r, v, "fillchar") : jval_text(" ").s;
    if (jstr_chars(s) != 1) jinja_fail(r, "The fill character must be exactly one character long");
    return utf8_decode(s.p, s.n, &len);
}

METHOD(ljust)
{
    UNUSED;
    return jstring_pad(r, self, jval_index(r, a[0], "width"), fill_of(r, a[1]), '<');
}

METHOD(rjust)
{
    UNUSED;
    return jstring_pad(r, self, jval_index(r, a[0], "width"), fill_of(r, a[1]), '>');
}

METHOD(center)
{
    UNUSED;
    return jstring_pad(r, self, jval_index(r, a[0], "width"), fill_of(r, a[1]), '^');
}

METHOD(zfill)
{
    UNUSED;
    bool sign = self.s.n && (self.s.p[0] == '-' || self.s.p[0] == '+');
    jval digits = jval_str(jstr_cut(self.s, sign, self.s.n));
    digits = jstring_pad(r, digits, jval_index(r, a[0], "width") - sign, '0', '>');
    return sign ? jinja_join_text(r, jval_str(jstr_cut(self.s, 0, 1)), digits) : digits;
}

/* Whether there are characters, and all are of a class. */
static jval all_are(jval self, bool (*is)(uint32_t c))
{
    for (size_t i = 0, len; i < self.s.n; i += len)
        if (!is(utf8_decode(self.s.p + i, self.s.n - i, &len))) return jval_bool(false);
    return jval_bool(self.s.n > 0);
}

static bool is_alnum(uint32_t c) { return uc_is_letter(c) || uc_is_numeric(c); }

#define CLASS_METHOD(name, is)                                                                                         \
    METHOD(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED;                                                                                                        \
        return all_are(self, is);                                                                                      \
    }

CLASS_METHOD(isdigit, uc_is_numeric)
CLASS_METHOD(isalpha, uc_is_letter)
CLASS_METHOD(isalnum, is_alnum)
CLASS_METHOD(isspace, jchar_is_space)

METHOD(isupper)
{
    UNUSED;
    return jinja_row_call(r, jinja_row_find(jinja_tests, "upper"), self, &(jargs){0});
}

METHOD(islower)
{
    UNUSED;
    return jinja_row_call(r, jinja_row_find(jinja_tests, "lower"), self, &(jargs){0});
}

const jinja_row jinja_str_methods[] = {
    {"capitalize", "", 0, method_capitalize},
    {"casefold", "", 0, method_lower},
    {"center", "width fillchar", 1, method_center},
    {"count", "sub", 1, method_count},
    {"endswith", "suffix start end", 1, method_endswith},
    {"find", "sub start end", 1, method_find},
    {"format", "*", 0, method_format},
    {"index", "sub start end", 1, method_index},
    {"isalnum", "", 0, method_isalnum},
    {"isalpha", "", 0, method_isalpha},
    {"isdecimal", "", 0, method_isdigit},
    {"isdigit", "", 0, method_isdigit},
    {"islower", "", 0, method_islower},
    {"isnumeric", "", 0, method_isdigit},
    {"isspace", "", 0, method_isspace},
    {"isupper", "", 0, method_isupper},
    {"join", "iterable", 1, method_join},
    {"ljust", "width fillchar", 1, method_ljust},
    {"lower", "", 0, method_lower},
    {"lstrip", "chars", 0, method_lstrip},
    {"partition", "sep", 1, method_partition},
    {"removeprefix", "prefix", 1, method_removeprefix},
    {"removesuffix", "suffix", 1, method_removesuffix},
    {"replace", "old new count", 2, method_replace},
    {"rfind", "sub start end", 1, method_rfind},
    {"rjust", "width fillchar", 1, method_rjust},
    {"rpartition", "sep", 1, method_rpartition},
    {"rsplit", "sep maxsplit", 0, method_rsplit},
    {"rstrip", "chars", 0, method_rstrip},
    {"split", "sep maxsplit", 0, method_split},
    {"splitlines", "keepends", 0, method_splitlines},
    {"startswith", "prefix start end", 1, method_startswith},
    {"strip", "chars", 0, method_strip},
    {"swapcase", "", 0, method_swapcase},
    {"title", "", 0, method_title},
    {"upper", "", 0, method_upper},
    {"zfill", "width", 1, method_zfill},
    {NULL},
};

/* ---- dicts ---- */

METHOD(get)
{
    UNUSED;
    const jval *v = jdict_find(r, self.dict, a[0]);
    return v ? *v : jval_given(a[1]) ? a[1] : jval_none();
}

typedef enum { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view_kind;

static jval view(jinja_run *r, const jdict *d, view_kind kind)
{
    static const char *const shown[] = {"dict_keys", "dict_values", "dict_items"};
    jlist *l = jlist_new(r, d->n);
    for (size_t i = 0; i < d->n; i++) {
        if (kind != VIEW_ITEMS) {
            jlist_add(r, l, kind == VIEW_KEYS ? d->v[i].key : d->v[i].value);
            continue;
        }
        jlist *pair = jlist_new(r, 2);
        jlist_add(r, pair, d->v[i].key);
        jlist_add(r, pair, d->v[i].value);
        jlist_add(r, l, jval_list(J_TUPLE, pair));
    }
    l->shown = shown[kind];
    return jval_list(J_VIEW, l);
}

METHOD(keys)
{
    UNUSED;
    return view(r, self.dict, VIEW_KEYS);
}

METHOD(values)
{
    UNUSED;
    return view(r, self.dict, VIEW_VALUES);
}

METHOD(items)
{
    UNUSED;
    return view(r, self.dict, VIEW_ITEMS);
}

METHOD(copy)
{
    UNUSED;
    return self;
}

const jinja_row jinja_dict_methods[] = {
    {"copy", "", 0, method_copy}, {"get", "key default", 1, method_get}, {"items", "", 0, method_items},
    {"keys", "", 0, method_keys}, {"values", "", 0, method_values},      {NULL},
};

/* ---- lists ---- */

METHOD(position)
{
    UNUSED;
    for (size_t i = 0; i < self.list->n; i++)
        if (jval_equal(r, self.list->v[i], a[0])) return jval_int((int64_t)i);
    jinja_fail(r, "the value is not in the list");
}

METHOD(occurrences)
{
    UNUSED;
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) n += jval_equal(r, self.list->v[i], a[0]);
    return jval_int(n);
}

const jinja_row jinja_list_methods[] = {
    {"copy", "", 0, method_copy},
    {"count", "value", 1, method_occurrences},
    {"index", "value", 1, method_position},
    {NULL},
};
