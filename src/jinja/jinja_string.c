/* jinja_string.c - see jinja_string.h. */
#define _GNU_SOURCE
#include "jinja/jinja_string.h"

#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <string.h>

static jval string_like(jval v, jstr s)
{
    jval out = jval_str(s);
    out.safe = v.safe;
    return out;
}

static void put_lower(jinja_run *r, jtext *t, uint32_t c, bool user)
{
    uint32_t low[2];
    int n = uc_lower(c, low);
    for (int i = 0; i < n; i++) jtext_char(r, t, low[i], user);
}

static void put_upper(jinja_run *r, jtext *t, uint32_t c, bool user)
{
    jtext_char(r, t, c == 0xdf ? 'S' : uc_upper(c), user);
    if (c == 0xdf) jtext_char(r, t, 'S', user);
}

jval jstring_case(jinja_run *r, jval v, jstring_case_kind kind)
{
    jtext t = {0};
    jstr s = v.s;
    bool starts = true; /* a word begins here */
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        bool user = s.user && s.user[i];
        bool up = kind == JSTRING_UPPER || (kind == JSTRING_SWAP ? uc_is_lower(c) : kind != JSTRING_LOWER && starts);
        if (up) put_upper(r, &t, c, user);
        else put_lower(r, &t, c, user);
        if (kind == JSTRING_TITLE) starts = !uc_is_letter(c);
        else if (kind == JSTRING_WORDS) starts = jchar_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
        else starts = false;
        jinja_step(r, i % 64 == 0);
    }
    return string_like(v, jtext_get(&t));
}

static bool in_set(jstr s, uint32_t c)
{
    for (size_t i = 0, len; i < s.n; i += len)
        if (utf8_decode(s.p + i, s.n - i, &len) == c) return true;
    return false;
}

jval jstring_strip(jinja_run *r, jval v, jval chars, bool left, bool right)
{
    jstr s = v.s;
    size_t from = 0, to = s.n, len;
    bool space = chars.kind == J_NONE || !jval_given(chars);
    jstr set = space ? (jstr){0} : jval_as_str(r, chars, "strip");
    while (left && from < to) {
        uint32_t c = utf8_decode(s.p + from, to - from, &len);
        if (!(space ? jchar_is_space(c) : in_set(set, c))) break;
        from += len;
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && (s.p[at] & 0xc0) == 0x80) at--;
        uint32_t c = utf8_decode(s.p + at, to - at, &len);
        if (!(space ? jchar_is_space(c) : in_set(set, c))) break;
        to = at;
    }
    jinja_step(r, (s.n - (to - from)) / 16);
    return string_like(v, jstr_cut(s, from, to));
}

jval jstring_pad(jinja_run *r, jval v, int64_t width, uint32_t with, char align)
{
    int64_t n = (int64_t)jstr_chars(v.s), pad = width > n ? width - n : 0;
    int64_t before = align == '>' ? pad : align == '^' ? pad / 2 + (pad & width & 1) : 0;
    jtext t = {0};
    jinja_step(r, (uint64_t)pad);
    for (int64_t i = 0; i < before; i++) jtext_char(r, &t, with, false);
    jtext_add(r, &t, v.s);
    for (int64_t i = before; i < pad; i++) jtext_char(r, &t, with, false);
    return string_like(v, jtext_get(&t));
}

size_t jstring_find(jstr s, jstr what, size_t from, bool last)
{
    size_t found = s.n + 1;
    while (from <= s.n) {
        const uint8_t *p = what.n ? memmem(s.p + from, s.n - from, what.p, what.n) : s.p + from;
        if (!p) break;
        found = (size_t)(p - s.p);
        if (!last) break;
        from = found + 1;
    }
    return found;
}

jval jstring_replace(jinja_run *r, jval v, jstr from, jstr to, int64_t count)
{
    jtext t = {0};
    jstr s = v.s;
    size_t at = 0;
    while (count && at <= s.n) {
        size_t next = jstring_find(s, from, at, false), skip = from.n;
        if (next > s.n) break;
        jinja_step(r, 1);
        jtext_add(r, &t, jstr_cut(s, at, next));
        jtext_add(r, &t, to);
        if (!from.n) { /* between all characters */
            skip = next < s.n ? jstr_offset(s, next, 1) - next : 1;
            if (next < s.n) jtext_add(r, &t, jstr_cut(s, next, next + skip));
        }
        at = next + skip;
        count -= count > 0;
    }
    if (at < s.n) jtext_add(r, &t, jstr_cut(s, at, s.n));
    return string_like(v, jtext_get(&t));
}

jlist *jstring_lines(jinja_run *r, jstr s, bool keep_ends)
{
    jlist *l = jlist_new(r, 0);
    size_t from = 0;
    for (size_t i = 0, len; i < s.n;) {
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        bool end = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
        size_t stop = i;
        i += len;
        if (!end) continue;
        if (c == '\r' && i < s.n && s.p[i] == '\n') i++;
        jlist_add(r, l, jval_str(jstr_cut(s, from, keep_ends ? i : stop)));
        from = i;
    }
    if (from < s.n) jlist_add(r, l, jval_str(jstr_cut(s, from, s.n)));
    return l;
}

/* Words between white space. */
static void split_words(jinja_run *r, jstr s, int64_t count, jlist *l)
{
    for (size_t i = 0, len; i < s.n;) {
        size_t from = i;
        while (i < s.n && jchar_is_space(utf8_decode(s.p + i, s.n - i, &len))) i += len;
        if (i >= s.n) return;
        from = i;
        if (count >= 0 && (int64_t)l->n == count) {
            jlist_add(r, l, jstring_strip(r, jval_str(jstr_cut(s, from, s.n)), jval_none(), false, true));
            if (jval_true(l->v[l->n - 1])) l->v[l->n - 1] = jval_str(jstr_cut(s, from, s.n));
            return;
        }
        while (i < s.n && !jchar_is_space(utf8_decode(s.p + i, s.n - i, &len))) i += len;
        jlist_add(r, l, jval_str(jstr_cut(s, from, i)));
    }
}

/* The same from the right: the words come in reverse. */
static void split_words_right(jinja_run *r, jstr s, int64_t count, jlist *l)
{
    size_t end = s.n;
    for (;;) {
        jstr rest = jstring_strip(r, jval_str(jstr_cut(s, 0, end)), jval_none(), false, true).s;
        size_t at = rest.n, len;
        if (!rest.n) return;
        if (count >= 0 && (int64_t)l->n == count) {
            jlist_add(r, l, jval_str(rest));
            return;
        }
        while (at) {
            size_t before = at - 1;
            while (before && (rest.p[before] & 0xc0) == 0x80) before--;
            if (jchar_is_space(utf8_decode(rest.p + before, rest.n - before, &len))) break;
            at = before;
        }
        jlist_add(r, l, jval_str(jstr_cut(rest, at, rest.n)));
        end = at;
    }
}

static void reverse_list(jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        jval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

jlist *jstring_split(jinja_run *r, jval v, jval separator, int64_t count, bool right)
{
    jlist *l = jlist_new(r, 0);
    jstr s = v.s;
    if (!jval_given(separator) || separator.kind == J_NONE) {
        if (right) split_words_right(r, s, count, l);
        else split_words(r, s, count, l);
        if (right) reverse_list(l);
        return l;
    }
    jstr by = jval_as_str(r, separator, "split");
    if (!by.n) jinja_fail(r, "empty separator");
    if (right && count >= 0) {
        size_t end = s.n;
        for (; count > 0; count--) {
            const uint8_t *p = NULL;
            for (size_t i = end + 1; i-- > by.n && !p;)
                if (memcmp(s.p + i - by.n, by.p, by.n) == 0) p = s.p + i - by.n;
            if (!p) break;
            jlist_add(r, l, jval_str(jstr_cut(s, (size_t)(p - s.p) + by.n, end)));
            end = (size_t)(p - s.p);
        }
        jlist_add(r, l, jval_str(jstr_cut(s, 0, end)));
        reverse_list(l);
        return l;
    }
    size_t at = 0;
    for (; count; count -= count > 0) {
        size_t next = jstring_find(s, by, at, false);
        if (next > s.n) break;
        jlist_add(r, l, jval_str(jstr_cut(s, at, next)));
        at = next + by.n;
    }
    jlist_add(r, l, jval_str(jstr_cut(s, at, s.n)));
    return l;
}
