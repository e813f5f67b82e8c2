/* drv_memory.c - allocations, copies, sets. */
#include "tests/gpu/drv_state.h"

#include <stdlib.h>
#include <string.h>

CUresult cuMemGetInfo_v2(size_t *left, size_t *all)
{
    CUresult r = drv_enter("cuMemGetInfo", CALL_CONTEXT);
    if (r) return drv_leave(r);
    *all = drv_set.memory;
    *left = drv_set.memory - gpu_taken(drv_current()->device);
    return drv_leave(r);
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
    CUresult r = drv_enter("cuMemAlloc", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r && !bytes) r = CUDA_ERROR_INVALID_VALUE;
    if (r) return drv_leave(r);
    const int device = drv_current()->device;
    const gpu_range *range = bytes > drv_set.memory - gpu_taken(device) ? NULL : gpu_range_new(device, bytes);
    if (!range) return drv_leave(CUDA_ERROR_OUT_OF_MEMORY);
    drv_count.allocations++;
    drv_count.bytes_allocated += bytes;
    *at = range->at;
    return drv_leave(r);
}

/* Waits for all work, as the real one does, then frees. */
static CUresult free_range(uint64_t at, bool host)
{
    if (!at) return CUDA_SUCCESS;
    gpu_range *range = gpu_range_at(at);
    if (!range || (range->device == GPU_HOST) != host || !range->mapped) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = stream_run_context(drv_current());
    if (!r) gpu_range_free(range);
    return r;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    CUresult r = drv_enter("cuMemFree", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r) r = free_range(at, false);
    return drv_leave(r);
}

static CUresult host_alloc(void **p, size_t bytes)
{
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    const gpu_range *range = gpu_range_new(GPU_HOST, bytes);
    if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
    drv_count.host_allocations++;
    *p = range->host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    CUresult r = drv_enter("cuMemHostAlloc", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r && flags > 7) r = CUDA_ERROR_INVALID_VALUE;
    if (!r) r = host_alloc(p, bytes);
    return drv_leave(r);
}

CUresult cuMemAllocHost_v2(void **p, size_t bytes)
{
    CUresult r = drv_enter("cuMemAllocHost", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r) r = host_alloc(p, bytes);
    return drv_leave(r);
}

CUresult cuMemFreeHost(void *p)
{
    CUresult r = drv_enter("cuMemFreeHost", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r) r = free_range((uint64_t)(uintptr_t)p, true);
    return drv_leave(r);
}

/* The pinned range that host memory lies in, or NULL. */
static gpu_range *pinned(const void *p, size_t bytes)
{
    gpu_range *r = gpu_range_near((uint64_t)(uintptr_t)p);
    return gpu_range_holds(r, (uint64_t)(uintptr_t)p, bytes) && r->device == GPU_HOST ? r : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *at, void *p, unsigned int flags)
{
    CUresult r = drv_enter("cuMemHostGetDevicePointer", CALL_CONTEXT);
    if (!r && (flags || !pinned(p, 1))) r = CUDA_ERROR_INVALID_VALUE;
    if (!r) *at = (uint64_t)(uintptr_t)p;
    return drv_leave(r);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    (void)flags;
    CUresult r = drv_enter("cuMemHostRegister", CALL_CONTEXT | CALL_UNCAPTURED);
    if (!r && (!p || !bytes)) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (pinned(p, 1) || pinned((char *)p + bytes - 1, 1))) r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!r) gpu_range_pin(p, bytes);
    return drv_leave(r);
}

CUresult cuMemHostUnregister(void *p)
{
    CUresult r = drv_enter("cuMemHostUnregister", CALL_CONTEXT | CALL_UNCAPTURED);
    gpu_range *range = r ? NULL : gpu_range_at((uint64_t)(uintptr_t)p);
    if (!r && (!range || range->mapped || range->device != GPU_HOST)) r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (!r) r = stream_run_context(drv_current());
    if (!r) gpu_range_free(range);
    return drv_leave(r);
}

/* ---- copies ---- */

/* Both ends as the caller named them: a device address has to be one now already. */
typedef struct copy {
    uint64_t to, from;
    bool to_host, from_host;
    size_t bytes;
} copy;

static CUresult check_end(uint64_t at, size_t bytes, bool host)
{
    const gpu_range *r = gpu_range_near(at);
    return host || gpu_range_holds(r, at, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void count_copy(copy c)
{
    if (c.from_host) drv_count.to_device++, drv_count.bytes_to_device += c.bytes;
    else if (c.to_host) drv_count.to_host++, drv_count.bytes_to_host += c.bytes;
    else drv_count.on_device++, drv_count.bytes_on_device += c.bytes;
}

/* Pageable memory is read at the call, and written before the call is back; pinned memory when the stream comes to it.
 * wait: the call comes back when the copy is done. */
static CUresult copy_on(stream *s, copy c, bool wait)
{
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!c.bytes) return CUDA_SUCCESS;
    if (check_end(c.to, c.bytes, c.to_host) || check_end(c.from, c.bytes, c.from_host)) {
        drv_say("a copy of %zu bytes from %#llx to %#llx leaves what is allocated", c.bytes, (unsigned long long)c.from,
                (unsigned long long)c.to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const bool staged = c.from_host && !pinned((void *)(uintptr_t)c.from, c.bytes) && !s->capture;
    wait |= c.to_host && !pinned((void *)(uintptr_t)c.to, c.bytes) && !s->capture;
    drv_count.pageable += (c.from_host && !pinned((void *)(uintptr_t)c.from, c.bytes)) ||
                          (c.to_host && !pinned((void *)(uintptr_t)c.to, c.bytes));
    op *o = op_new(OP_COPY, s->cx);
    o->to = c.to, o->from = c.from, o->to_host = c.to_host, o->from_host = c.from_host, o->bytes = c.bytes;
    if (staged) {
        o->staged = malloc(c.bytes);
        if (!o->staged) abort();
        memcpy(o->staged, (void *)(uintptr_t)c.from, c.bytes);
    }
    count_copy(c);
    const CUresult r = stream_add(s, o);
    return r || !wait ? r : stream_run_until(s, s->queued);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
    CUresult r = drv_enter("cuMemcpyHtoD", CALL_CONTEXT);
    const copy c = {.to = to, .from = (uint64_t)(uintptr_t)from, .from_host = true, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(NULL), c, true));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
    CUresult r = drv_enter("cuMemcpyDtoH", CALL_CONTEXT);
    const copy c = {.to = (uint64_t)(uintptr_t)to, .from = from, .to_host = true, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(NULL), c, true));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    CUresult r = drv_enter("cuMemcpyDtoD", CALL_CONTEXT);
    const copy c = {.to = to, .from = from, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(NULL), c, false)); /* the real one does not wait either */
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemcpyHtoDAsync", CALL_CONTEXT);
    const copy c = {.to = to, .from = (uint64_t)(uintptr_t)from, .from_host = true, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(s), c, false));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemcpyDtoHAsync", CALL_CONTEXT);
    const copy c = {.to = (uint64_t)(uintptr_t)to, .from = from, .to_host = true, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(s), c, false));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemcpyDtoDAsync", CALL_CONTEXT);
    const copy c = {.to = to, .from = from, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(s), c, false));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_cx, CUdeviceptr from, CUcontext from_cx, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemcpyPeerAsync", CALL_CONTEXT);
    if (!r && (!to_cx || !from_cx || !to_cx->alive || !from_cx->alive)) r = CUDA_ERROR_INVALID_CONTEXT;
    const copy c = {.to = to, .from = from, .bytes = n};
    return drv_leave(r ? r : copy_on(stream_of(s), c, false));
}

static CUresult set_on(stream *s, uint64_t to, uint32_t value, int unit, size_t n)
{
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!n) return CUDA_SUCCESS;
    const size_t bytes = n * (size_t)unit;
    if (to % (uint64_t)unit || check_end(to, bytes, false)) {
        drv_say("a set of %zu bytes at %#llx leaves what is allocated", bytes, (unsigned long long)to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    op *o = op_new(OP_SET, s->cx);
    o->to = to, o->value = value, o->unit = unit, o->bytes = bytes;
    drv_count.sets++;
    return stream_add(s, o);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
    CUresult r = drv_enter("cuMemsetD8", CALL_CONTEXT);
    return drv_leave(r ? r : set_on(stream_of(NULL), to, value, 1, n));
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n)
{
    CUresult r = drv_enter("cuMemsetD32", CALL_CONTEXT);
    return drv_leave(r ? r : set_on(stream_of(NULL), to, value, 4, n));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemsetD8Async", CALL_CONTEXT);
    return drv_leave(r ? r : set_on(stream_of(s), to, value, 1, n));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream s)
{
    CUresult r = drv_enter("cuMemsetD32Async", CALL_CONTEXT);
    return drv_leave(r ? r : set_on(stream_of(s), to, value, 4, n));
}
