/* cuda_device.c - see cuda_state.h: memory, copies and launches on one device. */
#include "cuda/cuda_state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { CARDS = 256 };

/* Devices of the driver that have not ended their work in time. Calls that wait for one, such as freeing its memory,
 * would never return. */
static atomic_bool hung[CARDS];

void cuda_hang(cuda_queue *q)
{
    q->bad = true;
    atomic_store(&hung[(unsigned)q->device % CARDS], true);
}

bool cuda_hangs(int device) { return atomic_load(&hung[(unsigned)device % CARDS]); }

cuda_device *cuda_device_of(dev *of)
{
    cuda_device *d = (cuda_device *)(void *)of;
    if (d->q.context) d->q.cu->cuCtxSetCurrent(d->q.context);
    return d;
}

int cuda_find_capability(const cuda_driver *cu, int device, int *capability)
{
    int major = 0, minor = 0;
    int code = cu->cuDeviceGetAttribute(&major, CU_MAJOR, device);
    if (!code) code = cu->cuDeviceGetAttribute(&minor, CU_MINOR, device);
    *capability = 10 * major + minor;
    return code;
}

static bool is_lost(const cuda_queue *q) { return q->bad || cuda_hangs(q->device); }

static int lost(const cuda_queue *q, err *e)
{
    return cuda_hangs(q->device) ? err_set(e, ERR_IO, "the CUDA device hangs: it has not ended its work in time")
                                 : err_set(e, ERR_IO, "the CUDA device is lost: an earlier call has failed");
}

int cuda_queue_open(cuda_queue *q, const cuda_driver *cu, int ordinal, err *e)
{
    int version = 0;
    *q = (cuda_queue){.cu = cu, .timeout = CUDA_TIMEOUT};
    int rc = cuda_done(q, cu->cuDeviceGet(&q->device, ordinal), "opening it", e);
    if (!rc && cuda_hangs(q->device)) rc = lost(q, e);
    if (!rc) rc = cuda_done(q, cuda_find_capability(cu, q->device, &q->capability), "asking for its kind", e);
    if (!rc) rc = cuda_done(q, cu->cuDevicePrimaryCtxRetain(&q->context, q->device), "opening it", e);
    if (!rc) rc = cuda_done(q, cu->cuCtxSetCurrent(q->context), "opening it", e);
    if (!rc) rc = cuda_done(q, cu->cuDriverGetVersion(&version), "asking for the driver's version", e);
    q->may_depend = version >= CU_DEPENDENT_VERSION && q->capability >= CU_DEPENDENT_CAPABILITY;
    if (!rc) rc = cuda_done(q, cu->cuStreamCreate(&q->stream, CU_STREAM_APART), "opening a stream", e);
    return rc;
}

void cuda_queue_close(cuda_queue *q)
{
    if (cuda_hangs(q->device)) return;
    if (q->stream) q->cu->cuStreamDestroy_v2(q->stream);
    if (q->context) q->cu->cuDevicePrimaryCtxRelease_v2(q->device);
}

int cuda_done(cuda_queue *q, int code, const char *what, err *e)
{
    if (code == CU_SUCCESS) return OK;
    if (code != CU_OUT_OF_MEMORY) q->bad = true;
    return cuda_check(q->cu, code, what, e);
}

int cuda_take(cuda_queue *q, uint64_t bytes, const char *what, cu_address *at, err *e)
{
    *at = 0;
    if (is_lost(q)) return lost(q, e);
    const int code = q->cu->cuMemAlloc_v2(at, bytes ? bytes : 1);
    if (code == CU_OUT_OF_MEMORY)
        return err_set(e, ERR_MEMORY, "the CUDA device has no memory left for %s (%" PRIu64 " bytes)", what, bytes);
    if (!code) q->held += bytes;
    return cuda_done(q, code, "taking memory", e);
}

void cuda_give(cuda_queue *q, cu_address *at, uint64_t bytes)
{
    if (*at) {
        if (!cuda_hangs(q->device)) q->cu->cuMemFree_v2(*at);
        q->held -= bytes;
    }
    *at = 0;
}

int cuda_pin(cuda_queue *q, uint64_t bytes, const char *what, cuda_pinned *to, err *e)
{
    *to = (cuda_pinned){0};
    if (is_lost(q)) return lost(q, e);
    if (!bytes) return OK;
    const int code = bytes > mem_available()
                         ? CU_OUT_OF_MEMORY
                         : q->cu->cuMemHostAlloc((void **)&to->host, bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED);
    if (code == CU_OUT_OF_MEMORY)
        return err_set(e, ERR_MEMORY,
                       "the machine has no memory left for %s that the CUDA device reads there (%" PRIu64 " bytes)",
                       what, bytes);
    int rc = cuda_done(q, code, "taking memory of the host", e);
    if (rc) return rc;
    q->hosted += to->bytes = bytes;
    return cuda_done(q, q->cu->cuMemHostGetDevicePointer_v2(&to->at, to->host, 0), "taking memory of the host", e);
}

void cuda_free_host(const cuda_queue *q, void *memory)
{
    if (memory && !cuda_hangs(q->device)) q->cu->cuMemFreeHost(memory);
}

void cuda_unpin(cuda_queue *q, cuda_pinned *p)
{
    cuda_free_host(q, p->host);
    q->hosted -= p->bytes;
    *p = (cuda_pinned){0};
}

void cuda_block_free(cuda_queue *q, cuda_block *b)
{
    cuda_give(q, &b->at, b->bytes);
    cuda_free_host(q, b->host);
    *b = (cuda_block){0};
}

int cuda_block_grow(cuda_queue *q, cuda_block *b, uint64_t bytes, const char *what, err *e)
{
    if (bytes <= b->bytes) return OK;
    int rc = b->at ? cuda_wait(q, e) : OK;
    if (rc) return rc;
    bytes = bytes < 2 * b->bytes ? 2 * b->bytes : bytes;
    cuda_block_free(q, b);
    rc = cuda_take(q, bytes, what, &b->at, e);
    if (rc) return rc;
    b->bytes = bytes;
    rc = cuda_done(q, q->cu->cuMemHostAlloc((void **)&b->host, bytes, 0), "taking memory of the host", e);
    if (rc) cuda_block_free(q, b);
    return rc;
}

/* Between two looks: short while a step may end at any moment, then a part of what was waited. */
static void pause_after(double waited)
{
    enum { PART = 256 };
    const double at_once = 0.02, most = 1e-3, next = waited / PART;
    const struct timespec t = clock_timespec(next < most ? next : most);
    if (waited < at_once) sched_yield();
    else nanosleep(&t, NULL);
}

int cuda_wait(cuda_queue *q, err *e)
{
    const double start = clock_now(), parts = (double)q->rows / CUDA_TIMEOUT_ROWS,
                 limit = q->timeout * (parts > 1 ? parts : 1);
    double waited = 0;
    int code = CU_NOT_READY;
    if (is_lost(q)) return lost(q, e);
    while (!cuda_hangs(q->device) && (code = q->cu->cuStreamQuery(q->stream)) == CU_NOT_READY && waited <= limit) {
        pause_after(waited);
        waited = clock_now() - start;
    }
    if (code != CU_NOT_READY) return cuda_done(q, code, "waiting for a step", e);
    const bool known = cuda_hangs(q->device);
    cuda_hang(q);
    if (known) return lost(q, e);
    return err_set(e, ERR_IO, "the CUDA device hangs: it has not ended its work in %.0f s (--device-timeout)", waited);
}

bool cuda_is_lost(const dev *of) { return is_lost(&cuda_device_at(of)->q); }

int cuda_send(cuda_queue *q, cu_address to, const void *from, uint64_t bytes, err *e)
{
    if (is_lost(q)) return lost(q, e);
    if (!bytes) return OK;
    return cuda_done(q, q->cu->cuMemcpyHtoDAsync_v2(to, from, bytes, cuda_stream_of(q)), "copying to the device", e);
}

/* The driver copies to memory that is not pinned at once, behind all that the stream has: it would wait without end. */
int cuda_fetch(cuda_queue *q, void *to, cu_address from, uint64_t bytes, err *e)
{
    int rc = cuda_wait(q, e);
    if (!rc)
        rc = cuda_done(q, q->cu->cuMemcpyDtoHAsync_v2(to, from, bytes, cuda_stream_of(q)), "copying from the device",
                       e);
    return rc ? rc : cuda_wait(q, e);
}

int cuda_copy(cuda_queue *q, cu_address to, cu_context context, cu_address from, uint64_t bytes, err *e)
{
    if (is_lost(q)) return lost(q, e);
    const int code = context == q->context
                         ? q->cu->cuMemcpyDtoDAsync_v2(to, from, bytes, cuda_stream_of(q))
                         : q->cu->cuMemcpyPeerAsync(to, q->context, from, context, bytes, cuda_stream_of(q));
    return cuda_done(q, code, "copying between devices", e);
}

int cuda_launch_grid(cuda_queue *q, cu_function f, cuda_grid g, void **parameters, err *e)
{
    if (is_lost(q)) return lost(q, e);
    q->follows = true;
    return cuda_done(q,
                     q->cu->cuLaunchKernel(f, (unsigned)g.x, (unsigned)g.y, 1, (unsigned)g.block, 1, 1,
                                           (unsigned)g.shared_bytes, q->stream, parameters, NULL),
                     "starting a kernel", e);
}

int cuda_launch_fast(cuda_queue *q, cu_function f, cuda_grid g, void **parameters, err *e)
{
    if (!q->may_depend || !q->follows) return cuda_launch_grid(q, f, g, parameters, e);
    if (is_lost(q)) return lost(q, e);
    cu_launch_attribute depends = {.id = CU_DEPENDENT, .value.allowed = 1};
    const cu_launch how = {.grid_x = (unsigned)g.x,
                           .grid_y = (unsigned)g.y,
                           .grid_z = 1,
                           .block_x = (unsigned)g.block,
                           .block_y = 1,
                           .block_z = 1,
                           .shared_bytes = (unsigned)g.shared_bytes,
                           .stream = q->stream,
                           .attributes = &depends,
                           .n_attributes = 1};
    return cuda_done(q, q->cu->cuLaunchKernelEx(&how, f, parameters, NULL), "starting a kernel", e);
}

int cuda_launch(cuda_queue *q, cu_function f, int64_t threads, int block, void **parameters, err *e)
{
    const int64_t blocks = (threads + block - 1) / block;
    return cuda_launch_grid(q, f, (cuda_grid){blocks ? blocks : 1, 1, block, 0}, parameters, e);
}
