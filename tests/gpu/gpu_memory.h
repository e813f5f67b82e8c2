/* gpu_memory.h - what device addresses mean: allocations of all devices, and pinned host memory.
 *
 * A device address lies 2^48 above the memory that stands for it, so that a host which follows one faults. Pinned host
 * memory has its own address on every device. What is freed is never given out again, and whoever touches it is told
 * whose it was. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_DEVICES = 16, GPU_HOST = -1, GPU_POISON = 0xff };
#define GPU_SHIFT (UINT64_C(1) << 48)

typedef struct gpu_range {
    uint64_t at; /* device address */
    size_t size;
    uint8_t *host;
    int device; /* GPU_HOST: pinned memory */
    bool freed;
    size_t mapped;             /* bytes to unmap when it is freed; 0: the memory is somebody else's */
    struct gpu_shadow *shadow; /* who touched it: race.c's */
} gpu_range;

/* Memory of a device, or of the host, with every byte poisoned; NULL where there is none. */
gpu_range *gpu_range_new(int device, size_t size);
/* Host memory that is there already. */
gpu_range *gpu_range_pin(void *host, size_t size);
void gpu_range_free(gpu_range *r);
/* The one that begins at the address, NULL for none. */
gpu_range *gpu_range_at(uint64_t at);
/* The one that the address is in, or the last one before it; also one that is freed. NULL for none. */
gpu_range *gpu_range_near(uint64_t at);
static inline bool gpu_range_holds(const gpu_range *r, uint64_t at, uint64_t bytes)
{
    return r && !r->freed && at >= r->at && bytes <= r->size && at - r->at <= r->size - bytes;
}
/* Bytes that a device has given out. */
size_t gpu_taken(int device);
/* Lets kernels of one device touch memory of another. */
void gpu_peer_allow(int device, int other);
bool gpu_may_touch(int device, const gpu_range *r);
/* What lies at an address, for messages; a static buffer. */
const char *gpu_tell(uint64_t at);
