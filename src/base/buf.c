/* buf.c - see buf.h. */
#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve_bytes(buf *b, size_t more)
{
    size_t need;
    if (b->bad || __builtin_add_overflow(b->n, more, &need) || !mem_grow((void **)&b->p, &b->cap, need, 1))
        b->bad = true;
    return !b->bad;
}

bool buf_grow_add(buf *b, const void *p, size_t n)
{
    if (!n) return !b->bad;
    if (!reserve_bytes(b, n)) return false;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}

bool buf_str(buf *b, const char *s) { return buf_add(b, s, strlen(s)); }

bool buf_uint(buf *b, uint64_t v, int bytes)
{
    uint8_t t[8];
    for (int i = 0; i < 8; i++) t[i] = (uint8_t)(v >> (8 * i));
    return buf_add(b, t, (size_t)bytes);
}

bool buf_printf(buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve_bytes(b, (size_t)n + 1)) return false;
    va_start(ap, fmt);
    vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
    return true;
}

char *buf_cstr(buf *b)
{
    static char empty[1];
    if (!reserve_bytes(b, 1)) return empty;
    b->p[b->n] = 0;
    return (char *)b->p;
}

void buf_free(buf *b)
{
    mem_free(b->p);
    *b = (buf){0};
}
