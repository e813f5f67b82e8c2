/* buf.h - a growable byte buffer. A failed append sets `bad` and keeps what was there: check once at the end. */
#pragma once
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct buf {
    uint8_t *p; /* {0} is a valid empty buffer */
    size_t n, cap;
    bool bad;
} buf;

bool buf_grow_add(buf *b, const void *p, size_t n); /* buf_add where there is no room yet */
static inline bool buf_add(buf *b, const void *p, size_t n)
{
    if (n == 0 || n > b->cap - b->n || b->bad) return buf_grow_add(b, p, n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}
bool buf_str(buf *b, const char *s);
static inline bool buf_byte(buf *b, uint8_t c) { return buf_add(b, &c, 1); }
bool buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_uint(buf *b, uint64_t v, int bytes); /* little-endian */
char *buf_cstr(buf *b);                       /* NUL-terminated view (the NUL is not counted); "" when empty or bad */
static inline span buf_span(const buf *b) { return span_of(b->p, b->n); }
void buf_free(buf *b);
