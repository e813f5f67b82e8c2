/* cuda_device.c - see cuda_state.h: memory, copies and launches on one device. */
#include "cuda/cuda_state.h"

#include "base/embed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

cuda_device *cuda_device_of(dev *of)
{
    cuda_device *d = (cuda_device *)(void *)of;
    if (d->context) d->cu->cuCtxSetCurrent(d->context);
    return d;
}

int cuda_done(cuda_device *d, int code, const char *what, err *e)
{
    if (code == CU_SUCCESS) return OK;
    if (code != CU_OUT_OF_MEMORY) d->bad = true;
    return cuda_check(d->cu, code, what, e);
}

static int lost(err *e) { return err_set(e, ERR_IO, "the CUDA device is lost: an earlier call has failed"); }

int cuda_take(cuda_device *d, uint64_t bytes, const char *what, cu_address *at, err *e)
{
    *at = 0;
    if (d->bad) return lost(e);
    const int code = d->cu->cuMemAlloc_v2(at, bytes ? bytes : 1);
    if (code == CU_OUT_OF_MEMORY)
        return err_set(e, ERR_MEMORY, "the CUDA device has no memory left for %s (%" PRIu64 " bytes)", what, bytes);
    if (!code) d->held += bytes;
    return cuda_done(d, code, "taking memory", e);
}

void cuda_give(cuda_device *d, cu_address *at, uint64_t bytes)
{
    if (*at) {
        d->cu->cuMemFree_v2(*at);
        d->held -= bytes;
    }
    *at = 0;
}

void cuda_block_free(cuda_device *d, cuda_block *b)
{
    cuda_give(d, &b->at, b->bytes);
    if (b->host) d->cu->cuMemFreeHost(b->host);
    *b = (cuda_block){0};
}

int cuda_block_grow(cuda_device *d, cuda_block *b, uint64_t bytes, const char *what, err *e)
{
    if (bytes <= b->bytes) return OK;
    int rc = b->at ? cuda_wait(d, e) : OK;
    if (rc) return rc;
    bytes = bytes < 2 * b->bytes ? 2 * b->bytes : bytes;
    cuda_block_free(d, b);
    rc = cuda_take(d, bytes, what, &b->at, e);
    if (rc) return rc;
    b->bytes = bytes;
    rc = cuda_done(d, d->cu->cuMemHostAlloc((void **)&b->host, bytes, 0), "taking memory of the host", e);
    if (rc) cuda_block_free(d, b);
    return rc;
}

int cuda_wait(cuda_device *d, err *e)
{
    return d->bad ? lost(e) : cuda_done(d, d->cu->cuStreamSynchronize(d->stream), "waiting for a step", e);
}

int cuda_send(cuda_device *d, cu_address to, const void *from, uint64_t bytes, err *e)
{
    if (d->bad) return lost(e);
    if (!bytes) return OK;
    return cuda_done(d, d->cu->cuMemcpyHtoDAsync_v2(to, from, bytes, d->stream), "copying to the device", e);
}

int cuda_fetch(cuda_device *d, void *to, cu_address from, uint64_t bytes, err *e)
{
    if (d->bad) return lost(e);
    int rc = cuda_done(d, d->cu->cuMemcpyDtoHAsync_v2(to, from, bytes, d->stream), "copying from the device", e);
    return rc ? rc : cuda_wait(d, e);
}

int cuda_launch_grid(cuda_device *d, cu_function f, cuda_grid g, void **parameters, err *e)
{
    if (d->bad) return lost(e);
    return cuda_done(d,
                     d->cu->cuLaunchKernel(f, (unsigned)g.x, (unsigned)g.y, 1, (unsigned)g.block, 1, 1,
                                           (unsigned)g.shared_bytes, d->stream, parameters, NULL),
                     "starting a kernel", e);
}

int cuda_launch(cuda_device *d, cu_function f, int64_t threads, int block, void **parameters, err *e)
{
    const int64_t blocks = (threads + block - 1) / block;
    return cuda_launch_grid(d, f, (cuda_grid){blocks ? blocks : 1, 1, block, 0}, parameters, e);
}

int cuda_load_image(cuda_device *d, const char *name, cu_module *to, err *e)
{
    static const char *const kinds[] = {"sm_90a.cubin", "sm_80.cubin", "ptx"};
    char file[64];
    int code = CU_SUCCESS;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !*to; i++) {
        snprintf(file, sizeof file, "%s.%s", name, kinds[i]);
        const span image = embedded_find(file);
        code = image.p ? d->cu->cuModuleLoadData(to, image.p) : code;
        if (code) *to = NULL;
    }
    if (!*to && !code) return err_set(e, ERR_USAGE, "this build has no kernels for CUDA devices");
    return cuda_done(d, code, "loading kernels", e);
}

int cuda_find(cuda_device *d, cu_module image, const char *name, cu_function *to, err *e)
{
    return cuda_done(d, d->cu->cuModuleGetFunction(to, image, name), "finding a kernel", e);
}
