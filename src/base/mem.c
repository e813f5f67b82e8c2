/* mem.c - see mem.h. */
#include "base/mem.h"

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

/* First number of a small file of the kernel; `otherwise` when it cannot be read ("max" too). */
static uint64_t file_number(const char *folder, const char *name, uint64_t otherwise)
{
    char path[700];
    unsigned long long v;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f) return otherwise;
    bool ok = fscanf(f, "%llu", &v) == 1;
    fclose(f);
    return ok ? v : otherwise;
}

/* What one control group and those above it leave, at most `least`. */
static uint64_t group_leaves(char *group, const char *limit, const char *usage, uint64_t least)
{
    for (char *slash;; *slash = 0) {
        uint64_t most = file_number(group, limit, UINT64_MAX), used = file_number(group, usage, 0);
        uint64_t left = used < most ? most - used : 0;
        if (most != UINT64_MAX && left < least) least = left;
        slash = strrchr(group, '/');
        if (!slash) return least;
    }
}

void mem_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

uint64_t mem_available(void)
{
    char line[512], v2[512] = "", v1[520] = "";
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *memory = strstr(line, ":memory:");
        if (strncmp(line, "0::", 3) == 0) snprintf(v2, sizeof v2, "%s", line + 3);
        else if (memory) snprintf(v1, sizeof v1, "/memory%s", memory + 8);
    }
    if (f) fclose(f);
    uint64_t least = kib ? (uint64_t)kib << 10 : (uint64_t)1 << 30; /* unknown: a cautious guess */
    least = group_leaves(v2, "memory.max", "memory.current", least);
    return group_leaves(v1, "memory.limit_in_bytes", "memory.usage_in_bytes", least);
}

void mem_guard(const char *why) { guarded = why; }
void mem_unguard(void) { guarded = NULL; }

bool mem_fail_at(long n)
{
    atomic_store(&fail_countdown, n);
    return atomic_exchange(&fail_fired, false);
}
