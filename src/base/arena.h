/* arena.h - one lifetime per allocation: memory that is released all at once.
 *
 * Error paths free an arena, not a list of pointers. Pointers stay valid until arena_free. */
#pragma once
#include <stdarg.h>
#include <stddef.h>

typedef struct arena_chunk arena_chunk;
typedef struct arena {
    arena_chunk *head; /* {NULL} is a valid empty arena */
    size_t total;      /* bytes handed out */
} arena;

void *arena_alloc(arena *a, size_t n);                  /* 16-byte aligned, cleared; NULL when memory is short */
void *arena_array(arena *a, size_t count, size_t size); /* checked product */
char *arena_str(arena *a, const char *s);
char *arena_strn(arena *a, const char *s, size_t n);
char *arena_printf(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_free(arena *a);
