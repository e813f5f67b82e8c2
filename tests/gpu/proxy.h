/* proxy.h - what threads store in shared memory for the tensor instructions and copies that read it by another way, the
 * asynchronous proxy: between lies a fence.proxy.async of the thread that has stored.
 *
 * Stores of a block are noted from its first wgmma on, so kernels that have none take no time for it. */
#pragma once
#include "tests/gpu/machine.h"

typedef struct proxy proxy;
void proxy_free(proxy *x);

/* at: an offset in the shared memory of the block. Lane l stores; or a copy does, which is of that proxy itself. */
void proxy_store(warp *w, int l, uint64_t at, unsigned bytes);
void proxy_copy(block *b, uint64_t at, unsigned bytes);
void proxy_fence(warp *w, uint32_t mask);
/* wgmma reads: a fault where it may miss what a thread has stored. */
void proxy_read(warp *w, uint64_t at, unsigned bytes);
