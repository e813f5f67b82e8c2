/* mem.h - every allocation of the program: checked sizes, a guard against allocation in the token loop, and a test
 * hook that makes the n-th allocation fail.
 *
 * All functions return NULL when memory is short or a size overflows; nothing here aborts in release builds. Memory
 * is released with mem_free. Debug builds (-DINFERFLOW_DEBUG) abort on an allocation between mem_guard and
 * mem_unguard on the guarded thread: "no allocation in the token loop" is executable. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a * b, or false when it does not fit. */
static inline bool mem_mul(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool mem_add(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

void *mem_alloc(size_t n);                            /* n bytes, not cleared; n = 0 gives a valid pointer */
void *mem_zero(size_t count, size_t size);            /* count * size bytes, cleared */
void *mem_array(size_t count, size_t size);           /* count * size bytes, not cleared */
void *mem_resize(void *p, size_t count, size_t size); /* like realloc; on failure p stays valid */
char *mem_str(const char *s);                         /* copy of a C string; NULL gives NULL */
char *mem_strn(const char *s, size_t n);              /* copy of n bytes with a NUL added */
void mem_free(void *p);

/* Large, page aligned, zeroed memory that asks for huge pages (weights, KV pages, activations). */
void *mem_map(size_t n);
void mem_unmap(void *p, size_t n);

/* Gives the system what has been freed: a process whose work has ended keeps it else, by as many threads as it had. */
void mem_trim(void);

/* Bytes that this process could still take without harm: free memory of the machine, and what control groups leave
 * (cgroup.h). */
uint64_t mem_available(void);

/* Grows *p (elements of `size` bytes, *cap of them) so that it holds at least `need`; doubles. Returns false on
 * failure. */
bool mem_grow(void **p, size_t *cap, size_t need, size_t size);

void mem_guard(const char *why); /* from here this thread must not allocate */
void mem_unguard(void);

/* Tests: the n-th allocation from now (1 = the next) fails, once; 0 switches it off. Returns whether the last one
 * fired. */
bool mem_fail_at(long n);
