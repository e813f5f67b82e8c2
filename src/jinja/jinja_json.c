/* jinja_json.c - see jinja_json.h. */
#include "jinja/jinja_json.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200, MARKS_MIN = 4096 };

/* ---- reading ---- */

typedef struct reader {
    jinja_run *r;
    const uint8_t *p;
    size_t n, at;
} reader;

static _Noreturn void wrong(reader *x, const char *why)
{
    jinja_stop(x->r, ERR_FORMAT, "context: not valid JSON at byte %zu: %s", x->at, why);
}

static int peek_byte(const reader *x) { return x->at < x->n ? x->p[x->at] : -1; }

static void skip_blanks(reader *x)
{
    while (x->at < x->n && (x->p[x->at] == ' ' || x->p[x->at] == '\t' || x->p[x->at] == '\n' || x->p[x->at] == '\r'))
        x->at++;
}

/* A byte of 1 for each of n: strings share them. */
static const uint8_t *marks(jinja_run *r, size_t n)
{
    if (n > r->n_ones) {
        size_t cap = r->n_ones ? r->n_ones * 2 : MARKS_MIN;
        while (cap < n) cap *= 2;
        uint8_t *p = jinja_alloc(r, cap, 1);
        memset(p, 1, cap);
        r->ones = p;
        r->n_ones = cap;
    }
    return r->ones;
}

static uint32_t read_hex(reader *x)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++, x->at++) {
        int c = peek_byte(x), d = c >= '0' && c <= '9'                 ? c - '0'
                                  : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                       : -1;
        if (c < 0 || d < 0) wrong(x, "\\u needs four hexadecimal digits");
        v = v << 4 | (uint32_t)d;
    }
    return v;
}

static uint32_t read_escape(reader *x)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek_byte(x);
    const char *found = c > 0 ? strchr(from, c) : NULL;
    x->at++;
    if (found) return (uint8_t)to[found - from];
    if (c != 'u') wrong(x, "unknown escape");
    uint32_t u = read_hex(x);
    if (u < 0xd800 || u > 0xdfff) return u;
    if (u > 0xdbff || peek_byte(x) != '\\' || x->at + 1 >= x->n || x->p[x->at + 1] != 'u') wrong(x, "lone surrogate");
    x->at += 2;
    uint32_t low = read_hex(x);
    if (low < 0xdc00 || low > 0xdfff) wrong(x, "lone surrogate");
    return 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
}

static jval read_string(reader *x)
{
    uint8_t *out = NULL;
    size_t from = ++x->at, n = 0;
    while (peek_byte(x) >= 0x20 && peek_byte(x) != '"' && peek_byte(x) != '\\') x->at++;
    if (peek_byte(x) != '"') { /* escapes: what is left of the text bounds the string */
        size_t end = x->at;
        while (end < x->n && x->p[end] != '"') end += x->p[end] == '\\' ? 2 : 1;
        out = jinja_alloc(x->r, (end < x->n ? end : x->n) - from + 1, 1);
        n = x->at - from;
        memcpy(out, x->p + from, n);
        while (peek_byte(x) != '"') {
            if (peek_byte(x) < 0x20)
                wrong(x, peek_byte(x) < 0 ? "string without end" : "raw control character in a string");
            if (peek_byte(x) != '\\') {
                out[n++] = x->p[x->at++];
                continue;
            }
            x->at++;
            n += utf8_encode(read_escape(x), out + n);
        }
    } else {
        n = x->at - from;
        out = jinja_alloc(x->r, n, 1);
        memcpy(out, x->p + from, n);
    }
    x->at++;
    return jval_str((jstr){out, marks(x->r, n), n});
}

static jval read_number(reader *x)
{
    const size_t from = x->at;
    bool whole = true;
    if (peek_byte(x) == '-') x->at++;
    const size_t first = x->at;
    for (int c; (c = peek_byte(x)) >= 0 && ((c >= '0' && c <= '9') || (x->at > first && strchr(".eE+-", c))); x->at++)
        whole = whole && c >= '0' && c <= '9';
    const size_t n = x->at - from;
    char *text = jinja_alloc(x->r, n + 1, 1), *end;
    memcpy(text, x->p + from, n);
    text[n] = 0;
    errno = 0;
    const double d = strtod(text, &end);
    if (x->at == first || *end || end[-1] == '.' || (!whole && !isfinite(d))) wrong(x, "not a number");
    errno = 0;
    const long long i = strtoll(text, NULL, 10);
    if (!whole) return jval_float(d);
    if (!errno) return jval_int(i);
    jval big = jval_float(d);
    big.digits = text;
    return big;
}

static jval read_value(reader *x, int depth);

/* A string of small letters: the name of a role, which is no special token by itself. */
static bool is_word(jval v)
{
    bool word = v.kind == J_STRING;
    for (size_t i = 0; word && i < v.s.n; i++) word = (v.s.p[i] >= 'a' && v.s.p[i] <= 'z') || v.s.p[i] == '_';
    return word;
}

static jval read_object(reader *x, int depth)
{
    jdict *d = jdict_new(x->r);
    x->at++;
    skip_blanks(x);
    while (peek_byte(x) != '}') {
        if (peek_byte(x) != '"') wrong(x, "expected a key");
        jval key = read_string(x);
        skip_blanks(x);
        if (peek_byte(x) != ':') wrong(x, "expected ':'");
        x->at++;
        jval v = read_value(x, depth + 1);
        if (jdict_find(x->r, d, key)) wrong(x, "a key appears twice");
        if (jstr_is(key.s, "role") && is_word(v)) v.s.user = NULL; /* templates make tokens of it */
        jdict_put(x->r, d, key, v);
        skip_blanks(x);
        if (peek_byte(x) == '}') break;
        if (peek_byte(x) != ',') wrong(x, "expected ',' or '}'");
        x->at++;
        skip_blanks(x);
        if (peek_byte(x) == '}') wrong(x, "expected a key");
    }
    x->at++;
    return jval_dict(d);
}

static jval read_array(reader *x, int depth)
{
    jlist *l = jlist_new(x->r, 0);
    x->at++;
    skip_blanks(x);
    while (peek_byte(x) != ']') {
        jlist_add(x->r, l, read_value(x, depth + 1));
        skip_blanks(x);
        if (peek_byte(x) == ']') break;
        if (peek_byte(x) != ',') wrong(x, "expected ',' or ']'");
        x->at++;
        skip_blanks(x);
        if (peek_byte(x) == ']') wrong(x, "expected a value");
    }
    x->at++;
    return jval_list(J_LIST, l);
}

static bool take_word(reader *x, const char *word)
{
    size_t n = strlen(word);
    if (x->n - x->at < n || memcmp(x->p + x->at, word, n) != 0) return false;
    x->at += n;
    return true;
}

static jval read_value(reader *x, int depth)
{
    skip_blanks(x);
    if (depth > DEPTH_MAX) wrong(x, "nested too deeply");
    switch (peek_byte(x)) {
    case '{': return read_object(x, depth);
    case '[': return read_array(x, depth);
    case '"': return read_string(x);
    default: break;
    }
    if (take_word(x, "true")) return jval_bool(true);
    if (take_word(x, "false")) return jval_bool(false);
    if (take_word(x, "null")) return jval_none();
    return read_number(x);
}

jval jinja_read_json(jinja_run *r, span text)
{
    reader x = {r, text.p, text.n, 0};
    if (!utf8_is_valid(text)) jinja_stop(r, ERR_FORMAT, "context: not valid UTF-8");
    jval v = read_value(&x, 0);
    skip_blanks(&x);
    if (x.at < x.n) wrong(&x, "text after the value");
    return v;
}

/* ---- writing ---- */

static void write_string(jinja_run *r, jtext *t, jstr s, bool ascii)
{
    char escape[16];
    jtext_put(r, t, "\"");
    for (size_t i = 0, len, plain; i < s.n; i += len) {
        for (plain = i; plain < s.n && s.p[plain] >= 0x20 && s.p[plain] != '"' && s.p[plain] != '\\' &&
                        (s.p[plain] < 0x7f || !ascii);)
            plain++;
        if (plain > i) {
            jtext_add(r, t, jstr_cut(s, i, plain));
            len = plain - i;
            continue;
        }
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
        const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        if (found) snprintf(escape, sizeof escape, "\\%c", to[found - from]);
        else if (c < 0x10000) snprintf(escape, sizeof escape, "\\u%04x", c);
        else snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        jtext_put(r, t, escape);
    }
    jtext_put(r, t, "\"");
}

static void write_break(jinja_run *r, jtext *t, const json_form *f, int level)
{
    if (!f->indent) return;
    jtext_put(r, t, "\n");
    for (int i = 0; i < level; i++) jtext_put(r, t, f->indent);
}

static void write_value(jinja_run *r, jtext *t, jval v, const json_form *f, int level);

static void write_array(jinja_run *r, jtext *t, const jlist *l, const json_form *f, int level)
{
    jtext_put(r, t, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) jtext_add(r, t, f->comma);
        write_break(r, t, f, level + 1);
        write_value(r, t, l->v[i], f, level + 1);
    }
    if (l->n) write_break(r, t, f, level);
    jtext_put(r, t, "]");
}

static void write_key(jinja_run *r, jtext *t, jval key, const json_form *f)
{
    if (key.kind == J_STRING) {
        write_string(r, t, key.s, f->ascii);
        return;
    }
    if (key.kind != J_NONE && !jval_is_number(key))
        jinja_fail(r, "keys must be str, int, float, bool or None, not %s", jval_type(key));
    jtext_put(r, t, "\"");
    write_value(r, t, key, f, 0);
    jtext_put(r, t, "\"");
}

/* Pairs in the order of their keys: insertion into a sorted list. */
static void sort_pairs(jinja_run *r, jpair *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        jpair p = v[i];
        size_t low = 0, high = i;
        while (low < high) {
            size_t mid = (low + high) / 2;
            if (jval_order(r, p.key, v[mid].key, "<") < 0) high = mid;
            else low = mid + 1;
        }
        memmove(v + low + 1, v + low, (i - low) * sizeof *v);
        v[low] = p;
        jinja_step(r, (i - low) / 16);
    }
}

static void write_object(jinja_run *r, jtext *t, const jdict *d, const json_form *f, int level)
{
    const jpair *v = d->v;
    if (f->sort && d->n) {
        jpair *sorted = jinja_alloc(r, d->n, sizeof *sorted);
        memcpy(sorted, d->v, d->n * sizeof *sorted);
        sort_pairs(r, sorted, d->n);
        v = sorted;
    }
    jtext_put(r, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) jtext_add(r, t, f->comma);
        write_break(r, t, f, level + 1);
        write_key(r, t, v[i].key, f);
        jtext_add(r, t, f->colon);
        write_value(r, t, v[i].value, f, level + 1);
    }
    if (d->n) write_break(r, t, f, level);
    jtext_put(r, t, "}");
}

static void write_value(jinja_run *r, jtext *t, jval v, const json_form *f, int level)
{
    jinja_step(r, 1);
    if (++r->depth > JINJA_DEPTH_MAX) jinja_stop(r, ERR_LIMIT, "line %d: nested too deeply", r->line);
    switch (v.kind) {
    case J_NONE: jtext_put(r, t, "null"); break;
    case J_BOOL: jtext_put(r, t, v.b ? "true" : "false"); break;
    case J_INT: jtext_show(r, t, v, false); break;
    case J_FLOAT:
        if (v.digits) jtext_put(r, t, v.digits);
        else if (isnan(v.f)) jtext_put(r, t, "NaN");
        else if (isinf(v.f)) jtext_put(r, t, v.f < 0 ? "-Infinity" : "Infinity");
        else jtext_float(r, t, v.f);
        break;
    case J_STRING: write_string(r, t, v.s, f->ascii); break;
    case J_LIST:
    case J_TUPLE: write_array(r, t, v.list, f, level); break;
    case J_DICT: write_object(r, t, v.dict, f, level); break;
    default: jinja_fail(r, "Object of type %s is not JSON serializable", jval_type(v));
    }
    r->depth--;
}

void jinja_write_json(jinja_run *r, jtext *t, jval v, const json_form *f) { write_value(r, t, v, f, 0); }
