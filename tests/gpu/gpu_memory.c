/* gpu_memory.c - what device addresses mean. Large allocations are views of one page of poison, copied where they are
 * written. */
#define _GNU_SOURCE
#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 256, CHUNK = 4 << 20 };

static struct {
    int n, room;
    gpu_range **list; /* by address */
    size_t taken[GPU_DEVICES];
    bool peer[GPU_DEVICES][GPU_DEVICES];
} memory;

/* The index of the first range beyond the address. */
static int beyond(uint64_t at)
{
    int low = 0, high = memory.n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (memory.list[mid]->at <= at) low = mid + 1;
        else high = mid;
    }
    return low;
}

gpu_range *gpu_range_near(uint64_t at)
{
    const int i = beyond(at);
    return i ? memory.list[i - 1] : NULL;
}

gpu_range *gpu_range_at(uint64_t at)
{
    gpu_range *r = gpu_range_near(at);
    return r && r->at == at && !r->freed ? r : NULL;
}

static gpu_range *add(gpu_range r)
{
    gpu_range *kept = malloc(sizeof *kept);
    if (memory.n == memory.room) {
        memory.room = memory.room ? 2 * memory.room : 64;
        memory.list = realloc(memory.list, sizeof *memory.list * (size_t)memory.room);
    }
    if (!kept || !memory.list) abort();
    *kept = r;
    const int i = beyond(r.at);
    memmove(memory.list + i + 1, memory.list + i, sizeof *memory.list * (size_t)(memory.n - i));
    memory.list[i] = kept;
    memory.n++;
    return kept;
}

/* A chunk of poison, which takes memory once; -1 where the process may not write files of that size (ulimit -f). */
static int poison_file(void)
{
    static int file = -1;
    static bool tried;
    if (tried) return file;
    tried = true;
    file = memfd_create("poison", MFD_CLOEXEC);
    uint8_t *p = file < 0 || ftruncate(file, CHUNK) ? MAP_FAILED : mmap(NULL, CHUNK, PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) return file = -1;
    memset(p, GPU_POISON, CHUNK);
    munmap(p, CHUNK);
    return file;
}

gpu_range *gpu_range_new(int device, size_t size)
{
    const size_t mapped = (GUARD + size + GUARD + 4095) / 4096 * 4096;
    uint8_t *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    if (size < CHUNK || poison_file() < 0) {
        memset(base, GPU_POISON, GUARD + size);
    } else {
        for (size_t at = 0; at < mapped; at += CHUNK) {
            const size_t n = mapped - at < CHUNK ? mapped - at : CHUNK;
            if (mmap(base + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, poison_file(), 0) == MAP_FAILED)
                abort();
        }
    }
    gpu_range r = {.size = size, .host = base + GUARD, .device = device, .mapped = mapped};
    r.at = (uint64_t)(uintptr_t)r.host + (device == GPU_HOST ? 0 : GPU_SHIFT);
    if (device >= 0) memory.taken[device] += size;
    return add(r);
}

gpu_range *gpu_range_pin(void *host, size_t size)
{
    return add((gpu_range){.at = (uint64_t)(uintptr_t)host, .size = size, .host = host, .device = GPU_HOST});
}

void gpu_range_free(gpu_range *r)
{
    r->freed = true;
    race_shadow_free(r->shadow);
    r->shadow = NULL;
    if (r->device >= 0) memory.taken[r->device] -= r->size;
    if (r->mapped) {
        mmap(r->host - GUARD, r->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        return;
    }
    /* Memory of somebody else: it may be given out anew, so nothing is remembered of it. */
    const int i = beyond(r->at) - 1;
    memmove(memory.list + i, memory.list + i + 1, sizeof *memory.list * (size_t)(--memory.n - i));
    free(r);
}

size_t gpu_taken(int device) { return memory.taken[device]; }
void gpu_peer_allow(int device, int other) { memory.peer[device][other] = true; }

bool gpu_may_touch(int device, const gpu_range *r)
{
    return r->device == GPU_HOST || r->device == device || memory.peer[device][r->device];
}

const char *gpu_tell(uint64_t at)
{
    static char text[200];
    const gpu_range *r = gpu_range_near(at);
    if (!r) {
        snprintf(text, sizeof text, "nothing is allocated below it");
    } else if (at - r->at < r->size) {
        snprintf(text, sizeof text, "byte %llu of the %zu at %#llx of %s%.0d%s", (unsigned long long)(at - r->at),
                 r->size, (unsigned long long)r->at, r->device < 0 ? "the host" : "device ",
                 r->device < 0 ? 0 : r->device, r->freed ? ", freed" : "");
    } else {
        snprintf(text, sizeof text, "%llu bytes behind the %zu at %#llx%s", (unsigned long long)(at - r->at - r->size),
                 r->size, (unsigned long long)r->at, r->freed ? ", freed" : "");
    }
    return text;
}
