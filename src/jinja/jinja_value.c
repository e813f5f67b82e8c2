/* jinja_value.c - see jinja_value.h. */
#include "jinja/jinja_value.h"

#include "base/map.h"
#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jinja_stop(jinja_run *r, int code, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    err_set(r->e, code, "%s", msg);
    longjmp(r->out, 1);
}

void jinja_fail(jinja_run *r, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    jinja_stop(r, ERR_FORMAT, "line %d: %s", r->line, msg);
}

void *jinja_alloc(jinja_run *r, size_t count, size_t size)
{
    if (size && count > (JINJA_MEMORY_MAX - r->mem.total) / size)
        jinja_stop(r, ERR_LIMIT, "line %d: the template takes more than %d MiB", r->line, JINJA_MEMORY_MAX >> 20);
    void *p = arena_array(&r->mem, count ? count : 1, size);
    if (!p) jinja_stop(r, ERR_MEMORY, "out of memory for the template");
    return p;
}

void jinja_step(jinja_run *r, uint64_t n)
{
    r->steps += n;
    if (r->steps > JINJA_STEPS_MAX)
        jinja_stop(r, ERR_LIMIT, "line %d: the template takes more than %d steps", r->line, JINJA_STEPS_MAX);
}

/* ---- text ---- */

static void text_room(jinja_run *r, jtext *t, size_t more, bool user)
{
    if (more > JINJA_OUTPUT_MAX - t->n)
        jinja_stop(r, ERR_LIMIT, "line %d: a text of more than %d MiB", r->line, JINJA_OUTPUT_MAX >> 20);
    if (t->n + more > t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        while (cap < t->n + more) cap *= 2;
        uint8_t *p = jinja_alloc(r, cap, 1);
        if (t->n) memcpy(p, t->p, t->n);
        t->p = p;
        if (t->user) {
            p = jinja_alloc(r, cap, 1);
            memcpy(p, t->user, t->n);
            t->user = p;
        }
        t->cap = cap;
    }
    if (user && !t->user) t->user = jinja_alloc(r, t->cap, 1);
}

void jtext_add(jinja_run *r, jtext *t, jstr s)
{
    if (!s.n) return;
    jinja_step(r, s.n / 64);
    text_room(r, t, s.n, s.user != NULL);
    memcpy(t->p + t->n, s.p, s.n);
    if (s.user) memcpy(t->user + t->n, s.user, s.n);
    t->n += s.n;
}

void jtext_bytes(jinja_run *r, jtext *t, const void *p, size_t n) { jtext_add(r, t, (jstr){p, NULL, n}); }
void jtext_put(jinja_run *r, jtext *t, const char *s) { jtext_bytes(r, t, s, strlen(s)); }

void jtext_char(jinja_run *r, jtext *t, uint32_t c, bool user)
{
    static const uint8_t ones[4] = {1, 1, 1, 1};
    uint8_t bytes[4];
    jtext_add(r, t, (jstr){bytes, user ? ones : NULL, utf8_encode(c, bytes)});
}

jstr jtext_get(const jtext *t) { return (jstr){t->p ? t->p : (const uint8_t *)"", t->user, t->n}; }

/* The shortest digits that read back as the same number; an exponent below 1e-4 and from 1e16 on. */
void jtext_float(jinja_run *r, jtext *t, double f)
{
    char digits[40], shown[64];
    if (isnan(f) || isinf(f)) {
        jtext_put(r, t, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, f);
    while (strtod(digits, NULL) != f && ++precision < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int places = precision - exponent;
        snprintf(shown, sizeof shown, "%.*f", places > 0 ? places : 0, f);
        jtext_put(r, t, shown);
        if (places <= 0) jtext_put(r, t, ".0");
    } else {
        *strchr(digits, 'e') = 0;
        snprintf(shown, sizeof shown, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
        jtext_put(r, t, shown);
    }
}

static bool is_printable(uint32_t c) { return c == ' ' || (c >= 0x20 && !uc_bert_control(c) && !uc_is_space(c)); }

static void show_quoted(jinja_run *r, jtext *t, jstr s)
{
    bool single = memchr(s.p, '\'', s.n) != NULL, both = single && memchr(s.p, '"', s.n);
    uint32_t quote = single && !both ? '"' : '\'';
    jtext_char(r, t, quote, false);
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        bool user = s.user && s.user[i];
        char escape[16];
        if (c == quote || c == '\\') {
            jtext_char(r, t, '\\', user);
            jtext_char(r, t, c, user);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            jtext_put(r, t, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (is_printable(c)) {
            jtext_add(r, t, jstr_cut(s, i, i + len));
        } else {
            snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
            jtext_put(r, t, escape);
        }
    }
    jtext_char(r, t, quote, false);
}

static void show_list(jinja_run *r, jtext *t, const jlist *l, const char *open, const char *close)
{
    jtext_put(r, t, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i) jtext_put(r, t, ", ");
        jtext_show(r, t, l->v[i], true);
    }
    jtext_put(r, t, close);
}

static void show_dict(jinja_run *r, jtext *t, const jdict *d)
{
    jtext_put(r, t, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) jtext_put(r, t, ", ");
        jtext_show(r, t, d->v[i].key, true);
        jtext_put(r, t, ": ");
        jtext_show(r, t, d->v[i].value, true);
    }
    jtext_put(r, t, "}");
}

static void show_range(jinja_run *r, jtext *t, const int64_t range[3])
{
    char text[80];
    if (range[2] == 1) snprintf(text, sizeof text, "range(%lld, %lld)", (long long)range[0], (long long)range[1]);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)range[0], (long long)range[1],
                 (long long)range[2]);
    jtext_put(r, t, text);
}

void jtext_show(jinja_run *r, jtext *t, jval v, bool repr)
{
    char text[32];
    jinja_step(r, 1);
    if (++r->depth > JINJA_DEPTH_MAX) jinja_stop(r, ERR_LIMIT, "line %d: nested too deeply", r->line);
    switch (v.kind) {
    case J_ABSENT:
    case J_UNDEFINED: jtext_put(r, t, repr ? "Undefined" : ""); break;
    case J_NONE: jtext_put(r, t, "None"); break;
    case J_BOOL: jtext_put(r, t, v.b ? "True" : "False"); break;
    case J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        jtext_put(r, t, text);
        break;
    case J_FLOAT:
        if (v.digits) jtext_put(r, t, v.digits);
        else jtext_float(r, t, v.f);
        break;
    case J_STRING:
        if (repr && v.safe) jtext_put(r, t, "Markup(");
        if (repr) show_quoted(r, t, v.s);
        else jtext_add(r, t, v.s);
        if (repr && v.safe) jtext_put(r, t, ")");
        break;
    case J_LIST: show_list(r, t, v.list, "[", "]"); break;
    case J_TUPLE: show_list(r, t, v.list, "(", v.list->n == 1 ? ",)" : ")"); break;
    case J_VIEW:
        jtext_put(r, t, v.list->shown);
        show_list(r, t, v.list, "([", "])");
        break;
    case J_RANGE: show_range(r, t, v.list->range); break;
    case J_DICT: show_dict(r, t, v.dict); break;
    case J_NAMESPACE:
        jtext_put(r, t, "<Namespace ");
        show_dict(r, t, v.dict);
        jtext_put(r, t, ">");
        break;
    case J_ITER:
    case J_MACRO:
    case J_FUNCTION:
    case J_LOOP:
        jtext_put(r, t, "<");
        jtext_put(r, t, jval_type(v));
        jtext_put(r, t, " object>");
        break;
    }
    r->depth--;
}

/* ---- strings ---- */

bool jchar_is_space(uint32_t c) { return uc_is_space(c) || (c >= 0x1c && c <= 0x1f); }

size_t jstr_chars(jstr s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += (s.p[i] & 0xc0) != 0x80;
    return n;
}

size_t jstr_offset(jstr s, size_t from, size_t chars)
{
    for (; from < s.n && chars; chars--)
        for (from++; from < s.n && (s.p[from] & 0xc0) == 0x80;) from++;
    return from;
}

const char *jstr_c(jinja_run *r, jstr s)
{
    char *c = jinja_alloc(r, s.n + 1, 1);
    if (s.n) memcpy(c, s.p, s.n);
    return c;
}

jstr jval_string(jinja_run *r, jval v)
{
    if (v.kind == J_STRING) return v.s;
    jtext t = {0};
    jtext_show(r, &t, v, false);
    return jtext_get(&t);
}

jstr jval_as_str(jinja_run *r, jval v, const char *what)
{
    jval_need(r, v);
    if (v.kind != J_STRING) jinja_fail(r, "%s: expected a string, got %s", what, jval_type(v));
    return v.s;
}

/* ---- types ---- */

const char *jval_type(jval v)
{
    switch (v.kind) {
    case J_ABSENT:
    case J_UNDEFINED: return "Undefined";
    case J_NONE: return "NoneType";
    case J_BOOL: return "bool";
    case J_INT: return "int";
    case J_FLOAT: return v.digits ? "int" : "float";
    case J_STRING: return v.safe ? "Markup" : "str";
    case J_LIST: return "list";
    case J_TUPLE: return "tuple";
    case J_ITER:
    case J_VIEW: return v.list->shown;
    case J_RANGE: return "range";
    case J_DICT: return "dict";
    case J_NAMESPACE: return "Namespace";
    case J_MACRO: return "Macro";
    case J_FUNCTION: return "function";
    case J_LOOP: return "LoopContext";
    }
    return "object";
}

bool jval_true(jval v)
{
    switch (v.kind) {
    case J_ABSENT:
    case J_UNDEFINED:
    case J_NONE: return false;
    case J_BOOL: return v.b;
    case J_INT: return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STRING: return v.s.n != 0;
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
    case J_RANGE: return v.list->n != 0;
    case J_DICT: return v.dict->n != 0;
    default: return true;
    }
}

double jval_number(jval v) { return v.kind == J_FLOAT ? v.f : v.kind == J_BOOL ? v.b : (double)v.i; }

static int64_t whole_part(jval v) { return v.kind == J_BOOL ? v.b : v.i; }

void jval_need(jinja_run *r, jval v)
{
    if (v.kind != J_UNDEFINED) return;
    if (!v.missing.name) jinja_fail(r, "the value is undefined");
    if (v.missing.of) jinja_fail(r, "'%s object' has no attribute '%s'", v.missing.of, v.missing.name);
    jinja_fail(r, "'%s' is undefined", v.missing.name);
}

bool jval_equal(jinja_run *r, jval a, jval b)
{
    jinja_step(r, 1);
    if (jval_is_number(a) && jval_is_number(b)) {
        if (a.kind == J_FLOAT && b.kind == J_FLOAT && a.digits && b.digits) return strcmp(a.digits, b.digits) == 0;
        if (a.kind == J_FLOAT || b.kind == J_FLOAT) return jval_number(a) == jval_number(b);
        return whole_part(a) == whole_part(b);
    }
    if (a.kind != b.kind) return false;
    bool same = true;
    if (++r->depth > JINJA_DEPTH_MAX) jinja_stop(r, ERR_LIMIT, "line %d: nested too deeply", r->line);
    switch (a.kind) {
    case J_STRING: same = span_eq(jstr_span(a.s), jstr_span(b.s)); break;
    case J_LIST:
    case J_TUPLE:
    case J_RANGE:
        same = a.list->n == b.list->n;
        for (size_t i = 0; i < a.list->n && same; i++) same = jval_equal(r, a.list->v[i], b.list->v[i]);
        break;
    case J_DICT:
        same = a.dict->n == b.dict->n;
        for (size_t i = 0; i < a.dict->n && same; i++) {
            const jval *other = jdict_find(r, b.dict, a.dict->v[i].key);
            same = other && jval_equal(r, a.dict->v[i].value, *other);
        }
        break;
    case J_ITER:
    case J_VIEW: same = a.list == b.list; break;
    case J_NAMESPACE: same = a.dict == b.dict; break;
    case J_LOOP: same = a.loop == b.loop; break;
    case J_MACRO: same = a.macro.def == b.macro.def; break;
    case J_FUNCTION: same = a.function.row == b.function.row && a.function.self == b.function.self; break;
    default: break;
    }
    r->depth--;
    return same;
}

int jval_order(jinja_run *r, jval a, jval b, const char *sign)
{
    jinja_step(r, 1);
    if (jval_is_number(a) && jval_is_number(b)) {
        if (a.kind == J_FLOAT || b.kind == J_FLOAT) {
            double x = jval_number(a), y = jval_number(b);
            return x < y ? -1 : x > y;
        }
        int64_t x = whole_part(a), y = whole_part(b);
        return x < y ? -1 : x > y;
    }
    if (a.kind == J_STRING && b.kind == J_STRING) {
        size_t n = a.s.n < b.s.n ? a.s.n : b.s.n;
        int d = n ? memcmp(a.s.p, b.s.p, n) : 0;
        return d ? (d < 0 ? -1 : 1) : a.s.n < b.s.n ? -1 : a.s.n > b.s.n;
    }
    if (a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE)) {
        size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
        for (size_t i = 0; i < n; i++)
            if (!jval_equal(r, a.list->v[i], b.list->v[i])) return jval_order(r, a.list->v[i], b.list->v[i], sign);
        return a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
    }
    jval_need(r, a);
    jval_need(r, b);
    jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign, jval_type(a), jval_type(b));
}

jlist *jval_elements(jinja_run *r, jval v)
{
    jlist *l;
    switch (v.kind) {
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
    case J_RANGE: return v.list;
    case J_ITER:
        l = v.list->used ? jlist_new(r, 0) : v.list;
        if (!v.list->used) {
            l = jlist_new(r, 0);
            *l = *v.list;
        }
        v.list->used = true;
        return l;
    case J_UNDEFINED: return jlist_new(r, 0);
    case J_STRING:
        l = jlist_new(r, jstr_chars(v.s));
        for (size_t i = 0, next; i < v.s.n; i = next) {
            next = jstr_offset(v.s, i, 1);
            jlist_add(r, l, jval_str(jstr_cut(v.s, i, next)));
        }
        return l;
    case J_DICT:
        l = jlist_new(r, v.dict->n);
        for (size_t i = 0; i < v.dict->n; i++) jlist_add(r, l, v.dict->v[i].key);
        return l;
    default: jinja_fail(r, "'%s' object is not iterable", jval_type(v));
    }
}

size_t jval_length(jinja_run *r, jval v)
{
    switch (v.kind) {
    case J_UNDEFINED: return 0;
    case J_STRING: return jstr_chars(v.s);
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
    case J_RANGE: return v.list->n;
    case J_DICT: return v.dict->n;
    default: jinja_fail(r, "object of type '%s' has no len()", jval_type(v));
    }
}

int64_t jval_index(jinja_run *r, jval v, const char *what)
{
    jval_need(r, v);
    if (v.kind != J_INT && v.kind != J_BOOL)
        jinja_fail(r, "%s: '%s' object cannot be interpreted as an integer", what, jval_type(v));
    return whole_part(v);
}

/* ---- containers ---- */

jlist *jlist_new(jinja_run *r, size_t cap)
{
    jlist *l = jinja_alloc(r, 1, sizeof *l);
    l->v = jinja_alloc(r, cap, sizeof *l->v);
    l->cap = cap;
    return l;
}

void jlist_add(jinja_run *r, jlist *l, jval v)
{
    jinja_step(r, 1);
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        jval *p = jinja_alloc(r, cap, sizeof *p);
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

enum { DICT_LINEAR = 8 };

jdict *jdict_new(jinja_run *r) { return jinja_alloc(r, 1, sizeof(jdict)); }

static uint64_t hash_of(jinja_run *r, jval v)
{
    uint64_t seed = (uintptr_t)r; /* differs from rendering to rendering: keys cannot be chosen to collide */
    if (v.kind == J_STRING) return hash_bytes(v.s.p, v.s.n, seed);
    if (jval_is_number(v)) {
        double d = jval_number(v);
        if (d == 0) d = 0; /* -0.0 */
        return hash_bytes(&d, sizeof d, seed);
    }
    if (v.kind == J_TUPLE) {
        uint64_t h = seed;
        for (size_t i = 0; i < v.list->n; i++) h = h * 31 + hash_of(r, v.list->v[i]);
        return h;
    }
    if (v.kind == J_LIST || v.kind == J_DICT) jinja_fail(r, "unhashable type: '%s'", jval_type(v));
    return v.kind;
}

static void index_pair(jinja_run *r, jdict *d, size_t i)
{
    size_t at = hash_of(r, d->v[i].key) & (d->slots - 1);
    while (d->slot[at]) at = (at + 1) & (d->slots - 1);
    d->slot[at] = (uint32_t)i + 1;
}

const jval *jdict_find(jinja_run *r, const jdict *d, jval key)
{
    jinja_step(r, 1);
    if (!d->slots) {
        if (key.kind == J_LIST || key.kind == J_DICT) hash_of(r, key);
        for (size_t i = 0; i < d->n; i++)
            if (jval_equal(r, d->v[i].key, key)) return &d->v[i].value;
        return NULL;
    }
    for (size_t at = hash_of(r, key) & (d->slots - 1); d->slot[at]; at = (at + 1) & (d->slots - 1)) {
        const jpair *p = &d->v[d->slot[at] - 1];
        if (jval_equal(r, p->key, key)) return &p->value;
    }
    return NULL;
}

const jval *jdict_find_text(jinja_run *r, const jdict *d, const char *key) { return jdict_find(r, d, jval_text(key)); }

void jdict_put(jinja_run *r, jdict *d, jval key, jval value)
{
    jval *there = (jval *)jdict_find(r, d, key); /* in d's own memory */
    if (there) {
        *there = value;
        return;
    }
    if (d->n == UINT32_MAX - 1) jinja_stop(r, ERR_LIMIT, "a dict of too many keys");
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        jpair *p = jinja_alloc(r, cap, sizeof *p);
        if (d->n) memcpy(p, d->v, d->n * sizeof *p);
        d->v = p;
        d->cap = cap;
    }
    d->v[d->n++] = (jpair){key, value};
    if (d->n > DICT_LINEAR && d->n * 2 > d->slots) {
        d->slots = d->slots ? d->slots * 2 : 64;
        d->slot = jinja_alloc(r, d->slots, sizeof *d->slot);
        for (size_t i = 0; i < d->n; i++) index_pair(r, d, i);
    } else if (d->slots) {
        index_pair(r, d, d->n - 1);
    }
}
