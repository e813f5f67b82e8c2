/* mem.c - see mem.h. */
#include "base/mem.h"

#include "base/cgroup.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static atomic_long fail_countdown; /* 0 = off */
static atomic_bool fail_fired;
static _Thread_local const char *guarded;

static bool may_allocate(void)
{
#ifdef INFERFLOW_DEBUG
    if (guarded) {
        fprintf(stderr, "inferflow: bug: allocation inside %s\n", guarded);
        abort();
    }
#endif
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) > 0 && atomic_fetch_sub(&fail_countdown, 1) == 1) {
        atomic_store(&fail_fired, true);
        return false;
    }
    return true;
}

void *mem_alloc(size_t n) { return may_allocate() ? malloc(n ? n : 1) : NULL; }

void *mem_zero(size_t count, size_t size)
{
    uint64_t n;
    if (!mem_mul(count, size, &n) || !may_allocate()) return NULL;
    return calloc(1, n ? n : 1);
}

void *mem_array(size_t count, size_t size)
{
    uint64_t n;
    return mem_mul(count, size, &n) ? mem_alloc(n) : NULL;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    uint64_t n;
    if (!mem_mul(count, size, &n) || !may_allocate()) return NULL;
    return realloc(p, n ? n : 1);
}

char *mem_strn(const char *s, size_t n)
{
    char *c = n < SIZE_MAX ? mem_alloc(n + 1) : NULL;
    if (!c) return NULL;
    memcpy(c, s, n);
    c[n] = 0;
    return c;
}

char *mem_str(const char *s) { return s ? mem_strn(s, strlen(s)) : NULL; }

void mem_free(void *p) { free(p); }

bool mem_grow(void **p, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    size_t n = *cap ? *cap : 16;
    while (n < need) {
        if (n > SIZE_MAX / 2) return false;
        n *= 2;
    }
    void *q = mem_resize(*p, n, size);
    if (!q) return false;
    *p = q;
    *cap = n;
    return true;
}

void *mem_map(size_t n)
{
    if (!may_allocate()) return NULL;
    void *p = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, n, MADV_HUGEPAGE); /* advice only: failure changes nothing but speed */
    return p;
}

void mem_unmap(void *p, size_t n)
{
    if (p) munmap(p, n ? n : 1);
}

void mem_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

uint64_t mem_available(void)
{
    char line[512];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    const uint64_t free = kib ? (uint64_t)kib << 10 : (uint64_t)1 << 30; /* unknown: a cautious guess */
    const uint64_t left = cgroup_memory(&cgroup_here);
    return left < free ? left : free;
}

void mem_guard(const char *why) { guarded = why; }
void mem_unguard(void) { guarded = NULL; }

bool mem_fail_at(long n)
{
    atomic_store(&fail_countdown, n);
    return atomic_exchange(&fail_fired, false);
}
