/* drv_device.c - devices and contexts. */
#include "tests/gpu/drv_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool initialized;
static context primary[GPU_DEVICES];
static _Thread_local context *stack[16];
static _Thread_local int depth;

context *drv_current(void) { return depth ? stack[depth - 1] : NULL; }

static CUresult check_device(CUdevice d)
{
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    return d < 0 || d >= drv_set.devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    CUresult r = drv_enter("cuInit", 0);
    if (!r && flags) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !drv_set.devices) r = CUDA_ERROR_NO_DEVICE;
    if (!r) initialized = true;
    return drv_leave(r);
}

CUresult cuDriverGetVersion(int *version)
{
    CUresult r = drv_enter("cuDriverGetVersion", 0);
    if (!r) *version = drv_set.version;
    return drv_leave(r);
}

CUresult cuDeviceGetCount(int *n)
{
    CUresult r = drv_enter("cuDeviceGetCount", 0);
    if (!r && !initialized) r = CUDA_ERROR_NOT_INITIALIZED;
    if (!r) *n = drv_set.devices;
    return drv_leave(r);
}

CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
    CUresult r = drv_enter("cuDeviceGet", 0);
    if (!r) r = check_device(ordinal);
    if (!r) *d = ordinal;
    return drv_leave(r);
}

CUresult cuDeviceGetName(char *name, int n, CUdevice d)
{
    CUresult r = drv_enter("cuDeviceGetName", 0);
    if (!r) r = check_device(d);
    if (!r) snprintf(name, (size_t)n, "Software GPU %d.%d", drv_set.major, drv_set.minor);
    return drv_leave(r);
}

static int shared_optin(void) { return drv_set.major >= 9 ? 232448 : drv_set.minor ? 101376 : 166912; }

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice d)
{
    static const int known[][2] = {
        {1, 1024},  {2, 1024},  {3, 1024},     {4, 64},         {5, INT32_MAX}, {6, 65535},    {7, 65535},
        {8, 49152}, {9, 65536}, {10, 32},      {11, INT32_MAX}, {12, 65536},    {13, 1000000}, {14, 512},
        {15, 1},    {17, 0},    {18, 0},       {19, 1},         {20, 0},        {31, 1},       {32, 0},
        {34, 0},    {35, 0},    {36, 1000000}, {37, 256},       {38, 1 << 20},  {39, 2048},    {40, 2},
        {41, 1},    {50, 0},    {78, 1},       {79, 1},         {80, 1},        {81, 167936},  {82, 65536},
        {83, 0},    {84, 0},    {86, 0},       {87, 2},         {88, 0},        {89, 0},       {90, 1},
        {91, 1},    {95, 1},    {99, 1},       {100, 0},        {101, 0},       {106, 32},     {111, 1024},
    };
    CUresult r = drv_enter("cuDeviceGetAttribute", 0);
    if (!r) r = check_device(d);
    if (r) return drv_leave(r);
    switch (attribute) {
    case ATTRIBUTE_MULTIPROCESSORS: *value = drv_set.multiprocessors; return drv_leave(r);
    case ATTRIBUTE_CAPABILITY_MAJOR: *value = drv_set.major; return drv_leave(r);
    case ATTRIBUTE_CAPABILITY_MINOR: *value = drv_set.minor; return drv_leave(r);
    case ATTRIBUTE_SHARED_OPTIN: *value = shared_optin(); return drv_leave(r);
    case ATTRIBUTE_PCI_BUS: *value = d + 1; return drv_leave(r);
    default: break;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) return *value = known[i][1], drv_leave(CUDA_SUCCESS);
    drv_say("attribute %d of a device is not known", attribute);
    return drv_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
    CUresult r = drv_enter("cuDeviceTotalMem", 0);
    if (!r) r = check_device(d);
    if (!r) *bytes = drv_set.memory;
    return drv_leave(r);
}

CUresult cuDeviceGetPCIBusId(char *text, int n, CUdevice d)
{
    CUresult r = drv_enter("cuDeviceGetPCIBusId", 0);
    if (!r) r = check_device(d);
    if (!r) snprintf(text, (size_t)n, "0000:%02x:00.0", (unsigned)d + 1);
    return drv_leave(r);
}

CUresult cuDeviceCanAccessPeer(int *yes, CUdevice d, CUdevice peer)
{
    CUresult r = drv_enter("cuDeviceCanAccessPeer", 0);
    if (!r) r = check_device(d);
    if (!r) r = check_device(peer);
    if (!r) *yes = d != peer;
    return drv_leave(r);
}

/* ---- contexts ---- */

static void begin(context *cx, int device)
{
    cx->device = device;
    cx->alive = true;
    cx->broken = CUDA_SUCCESS;
    cx->null_stream = calloc(1, sizeof *cx->null_stream);
    if (!cx->null_stream) abort();
    *cx->null_stream = (stream){.cx = cx, .blocking = true, .alive = true, .next = cx->streams};
    cx->streams = cx->null_stream;
    stream_know_context(cx);
}

static void finish(context *cx)
{
    if (!cx->broken) stream_run_context(cx);
    cx->alive = false;
    stream_forget_context(cx);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *cx, CUdevice d)
{
    CUresult r = drv_enter("cuDevicePrimaryCtxRetain", 0);
    if (!r) r = check_device(d);
    if (!r && !primary[d].retained++) begin(&primary[d], d);
    if (!r) *cx = &primary[d];
    return drv_leave(r);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
    CUresult r = drv_enter("cuDevicePrimaryCtxRelease", 0);
    if (!r) r = check_device(d);
    if (!r && !primary[d].retained) r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r && !--primary[d].retained) finish(&primary[d]);
    return drv_leave(r);
}

static CUresult push(context *cx)
{
    if (cx && !cx->alive) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == sizeof stack / sizeof *stack) return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = cx;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *cx, unsigned int flags, CUdevice d)
{
    (void)flags;
    CUresult r = drv_enter("cuCtxCreate", 0);
    if (!r) r = check_device(d);
    if (r) return drv_leave(r);
    *cx = calloc(1, sizeof **cx);
    if (!*cx) abort();
    begin(*cx, d);
    return drv_leave(push(*cx));
}

CUresult cuCtxDestroy_v2(CUcontext cx)
{
    CUresult r = drv_enter("cuCtxDestroy", 0);
    if (!r && (!cx || !cx->alive)) r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r) finish(cx);
    if (!r && drv_current() == cx) depth--;
    return drv_leave(r);
}

CUresult cuCtxSetCurrent(CUcontext cx)
{
    CUresult r = drv_enter("cuCtxSetCurrent", 0);
    if (r) return drv_leave(r);
    if (depth) depth--;
    return drv_leave(cx ? push(cx) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *cx)
{
    CUresult r = drv_enter("cuCtxGetCurrent", 0);
    if (!r) *cx = drv_current();
    return drv_leave(r);
}

CUresult cuCtxPushCurrent_v2(CUcontext cx)
{
    CUresult r = drv_enter("cuCtxPushCurrent", 0);
    if (!r) r = cx ? push(cx) : CUDA_ERROR_INVALID_CONTEXT;
    return drv_leave(r);
}

CUresult cuCtxPopCurrent_v2(CUcontext *cx)
{
    CUresult r = drv_enter("cuCtxPopCurrent", 0);
    if (!r && !depth) r = CUDA_ERROR_INVALID_CONTEXT;
    if (r) return drv_leave(r);
    depth--;
    if (cx) *cx = stack[depth];
    return drv_leave(r);
}

CUresult cuCtxSynchronize(void)
{
    CUresult r = drv_enter("cuCtxSynchronize", CALL_CONTEXT | CALL_UNCAPTURED);
    drv_count.synchronizations++;
    if (!r) r = stream_run_context(drv_current());
    return drv_leave(r);
}

static size_t limits[8] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};

CUresult cuCtxSetLimit(int limit, size_t value)
{
    CUresult r = drv_enter("cuCtxSetLimit", CALL_CONTEXT);
    if (!r && (limit < 0 || limit >= 8)) r = CUDA_ERROR_INVALID_VALUE;
    if (!r) limits[limit] = value;
    return drv_leave(r);
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
    CUresult r = drv_enter("cuCtxGetLimit", CALL_CONTEXT);
    if (!r && (limit < 0 || limit >= 8)) r = CUDA_ERROR_INVALID_VALUE;
    if (!r) *value = limits[limit];
    return drv_leave(r);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult r = drv_enter("cuCtxEnablePeerAccess", CALL_CONTEXT);
    if (!r && (!peer || !peer->alive)) r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r && (flags || peer->device == drv_current()->device)) r = CUDA_ERROR_INVALID_DEVICE;
    if (r) return drv_leave(r);
    const gpu_range there = {.device = peer->device};
    if (gpu_may_touch(drv_current()->device, &there)) r = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    gpu_peer_allow(drv_current()->device, peer->device);
    return drv_leave(r);
}
