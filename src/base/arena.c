/* arena.c - see arena.h. Chunks double up to 1 MiB; a request larger than a chunk gets one of its own. */
#include "base/arena.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct arena_chunk {
    arena_chunk *next;
    size_t used, cap;
    _Alignas(16) unsigned char data[];
};

void *arena_alloc(arena *a, size_t n)
{
    if (n > SIZE_MAX - 64) return NULL;
    n = (n + 15) & ~(size_t)15;
    arena_chunk *c = a->head;
    if (!c || c->cap - c->used < n) {
        size_t cap = c ? c->cap * 2 : 4096;
        if (cap > (size_t)1 << 20) cap = (size_t)1 << 20;
        if (cap < n) cap = n;
        c = mem_alloc(sizeof *c + cap);
        if (!c) return NULL;
        c->cap = cap;
        c->used = 0;
        c->next = a->head;
        a->head = c;
    }
    void *p = c->data + c->used;
    c->used += n;
    a->total += n;
    return memset(p, 0, n);
}

void *arena_array(arena *a, size_t count, size_t size)
{
    uint64_t n;
    return mem_mul(count, size, &n) ? arena_alloc(a, n) : NULL;
}

char *arena_strn(arena *a, const char *s, size_t n)
{
    char *c = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;
    if (c) memcpy(c, s, n);
    return c;
}

char *arena_str(arena *a, const char *s) { return s ? arena_strn(a, s, strlen(s)) : NULL; }

char *arena_printf(arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *c = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (!c) return NULL;
    va_start(ap, fmt);
    vsnprintf(c, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return c;
}

void arena_free(arena *a)
{
    for (arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    a->head = NULL;
    a->total = 0;
}
