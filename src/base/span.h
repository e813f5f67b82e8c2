/* span.h - a run of bytes that somebody else owns, the items of a list, and a cursor that cannot leave its bytes.
 *
 * Every parser of outside data reads through a cursor: little-endian numbers, byte runs, "is there room for n
 * records of at least m bytes". A read past the end sets `bad`, returns zeros, and stays bad; parsers check once per
 * record. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct span {
    const uint8_t *p;
    size_t n;
} span;

static inline span span_of(const void *p, size_t n) { return (span){(const uint8_t *)p, n}; }
static inline span span_str(const char *s) { return (span){(const uint8_t *)s, strlen(s)}; }
static inline bool span_eq(span a, span b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline bool span_is(span a, const char *s) { return span_eq(a, span_str(s)); }
static inline bool span_starts(span a, const char *s)
{
    size_t n = strlen(s);
    return a.n >= n && memcmp(a.p, s, n) == 0;
}

/* The white space of JSON. */
static inline bool byte_is_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
/* s without those around it. Spaces and tabs only: span_trim of models/spec/spec_split.h. */
static inline span span_without_blanks(span s)
{
    while (s.n && byte_is_blank(s.p[0])) s = span_of(s.p + 1, s.n - 1);
    while (s.n && byte_is_blank(s.p[s.n - 1])) s.n--;
    return s;
}

/* The next item of a list with commas, without the blanks around it; false behind the last. *list moves on, to NULL
 * after the last item; a list of NULL has none, an empty one an empty item. */
static inline bool list_next(const char **list, span *item)
{
    if (!*list) return false;
    const char *from = *list + strspn(*list, " ");
    size_t n = strcspn(from, ",");
    *list = from[n] ? from + n + 1 : NULL;
    while (n && from[n - 1] == ' ') n--;
    *item = span_of(from, n);
    return true;
}

static inline bool str_ends(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && memcmp(s + n - m, end, m) == 0;
}

typedef struct cursor {
    const uint8_t *p;
    size_t n, at;
    bool bad;
} cursor;

static inline cursor cursor_of(span s) { return (cursor){s.p, s.n, 0, false}; }
static inline size_t cursor_left(const cursor *c) { return c->bad ? 0 : c->n - c->at; }

/* The next n bytes, without copying; an empty span and bad when they are not there. */
static inline span cursor_take(cursor *c, uint64_t n)
{
    if (c->bad || n > c->n - c->at) {
        c->bad = true;
        return (span){c->p, 0};
    }
    span s = {c->p + c->at, (size_t)n};
    c->at += (size_t)n;
    return s;
}

static inline uint64_t cursor_uint(cursor *c, int bytes)
{
    span s = cursor_take(c, (uint64_t)bytes);
    uint64_t v = 0;
    for (size_t i = s.n; i-- > 0;) v = v << 8 | s.p[i];
    return v;
}

static inline uint8_t cursor_u8(cursor *c) { return (uint8_t)cursor_uint(c, 1); }
static inline uint16_t cursor_u16(cursor *c) { return (uint16_t)cursor_uint(c, 2); }
static inline uint32_t cursor_u32(cursor *c) { return (uint32_t)cursor_uint(c, 4); }
static inline uint64_t cursor_u64(cursor *c) { return cursor_uint(c, 8); }
static inline float cursor_f32(cursor *c)
{
    uint32_t u = cursor_u32(c);
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Whether `count` records of at least `min_bytes` each can still follow: checked before memory is allocated for
 * them. */
static inline bool cursor_has(const cursor *c, uint64_t count, uint64_t min_bytes)
{
    return !c->bad && (min_bytes == 0 || count <= (c->n - c->at) / min_bytes);
}
