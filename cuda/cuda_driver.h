/* cuda_driver.h - NVIDIA's driver interface, found at run time: the calls that are used here, as libcuda.so.1 exports
 * them (CUDA Driver API, version 12 and later; names with _v2 are the current forms). No toolkit is needed to build or
 * to run, and without a driver the program is as one without this backend. */
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct cu_context *cu_context;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_graph *cu_graph;
typedef struct cu_graph_exec *cu_graph_exec;
typedef uint64_t cu_address; /* of device memory */

enum { CU_SUCCESS = 0, CU_OUT_OF_MEMORY = 2, CU_NO_BINARY = 209, CU_NOT_READY = 600, CU_PEER_ACCESS_ALREADY = 704 };
/* Attributes of a device and of a kernel; flags of a stream; mode of a capture: of calls of this thread alone; flag of
 * memory of the host: pinned for all contexts, kernels reach it; of an event. */
enum { CU_PROCESSORS = 16, CU_MAJOR = 75, CU_MINOR = 76, CU_SHARED_OPTIN = 97, CU_SHARED_DYNAMIC = 8 };
enum { CU_STREAM_APART = 1, CU_CAPTURE_THREAD = 1, CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2, CU_EVENT_UNTIMED = 2 };

/* A launch with attributes (CUlaunchConfig, CUlaunchAttribute). CU_DEPENDENT: it may begin while the kernel before it
 * in the stream runs; graphs keep that from driver CU_DEPENDENT_VERSION on. */
enum { CU_DEPENDENT = 6, CU_DEPENDENT_VERSION = 12030, CU_DEPENDENT_CAPABILITY = 90 };
typedef struct cu_launch_attribute {
    int id, pad;
    union {
        int allowed;
        char room[64];
    } value;
} cu_launch_attribute;
typedef struct cu_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    cu_stream stream;
    cu_launch_attribute *attributes;
    unsigned n_attributes;
} cu_launch;

/* X(name, parameters); all return a code. */
#define CU_CALLS(X)                                                                                                    \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGet, (int *device, int ordinal))                                                                         \
    X(cuDeviceGetName, (char *name, int size, int device))                                                             \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                   \
    X(cuDevicePrimaryCtxRetain, (cu_context * context, int device))                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                      \
    X(cuCtxSetCurrent, (cu_context context))                                                                           \
    X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                                           \
    X(cuModuleLoadData, (cu_module * module, const void *image))                                                       \
    X(cuModuleUnload, (cu_module module))                                                                              \
    X(cuModuleGetFunction, (cu_function * function, cu_module module, const char *name))                               \
    X(cuFuncSetAttribute, (cu_function function, int attribute, int value))                                            \
    X(cuMemAlloc_v2, (cu_address * address, size_t bytes))                                                             \
    X(cuMemFree_v2, (cu_address address))                                                                              \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                   \
    X(cuMemFreeHost, (void *memory))                                                                                   \
    X(cuMemsetD32Async, (cu_address at, unsigned value, size_t n, cu_stream stream))                                   \
    X(cuCtxEnablePeerAccess, (cu_context peer, unsigned flags))                                                        \
    X(cuMemHostGetDevicePointer_v2, (cu_address * address, void *memory, unsigned flags))                              \
    X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                              \
    X(cuMemHostUnregister, (void *memory))                                                                             \
    X(cuMemcpyHtoDAsync_v2, (cu_address to, const void *from, size_t bytes, cu_stream stream))                         \
    X(cuMemcpyDtoHAsync_v2, (void *to, cu_address from, size_t bytes, cu_stream stream))                               \
    X(cuMemcpyDtoDAsync_v2, (cu_address to, cu_address from, size_t bytes, cu_stream stream))                          \
    X(cuMemcpyPeerAsync, (cu_address to, cu_context to_context, cu_address from, cu_context from_context,              \
                          size_t bytes, cu_stream stream))                                                             \
    X(cuStreamCreate, (cu_stream * stream, unsigned flags))                                                            \
    X(cuStreamDestroy_v2, (cu_stream stream))                                                                          \
    X(cuStreamQuery, (cu_stream stream))                                                                               \
    X(cuStreamSynchronize, (cu_stream stream))                                                                         \
    X(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))                                           \
    X(cuEventCreate, (cu_event * event, unsigned flags))                                                               \
    X(cuEventRecord, (cu_event event, cu_stream stream))                                                               \
    X(cuEventDestroy_v2, (cu_event event))                                                                             \
    X(cuStreamBeginCapture_v2, (cu_stream stream, int mode))                                                           \
    X(cuStreamEndCapture, (cu_stream stream, cu_graph * graph))                                                        \
    X(cuGraphInstantiateWithFlags, (cu_graph_exec * exec, cu_graph graph, unsigned long long flags))                   \
    X(cuGraphLaunch, (cu_graph_exec exec, cu_stream stream))                                                           \
    X(cuGraphExecDestroy, (cu_graph_exec exec))                                                                        \
    X(cuGraphDestroy, (cu_graph graph))                                                                                \
    X(cuGetErrorString, (int code, const char **text))                                                                 \
    X(cuLaunchKernelEx, (const cu_launch *how, cu_function function, void **parameters, void **extra))                 \
    X(cuLaunchKernel,                                                                                                  \
      (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,    \
       unsigned block_z, unsigned shared_bytes, cu_stream stream, void **parameters, void **extra))

typedef struct cuda_driver {
#define X(name, parameters) int(*name) parameters;
    CU_CALLS(X)
#undef X
} cuda_driver;

/* The driver, opened once for the process and never closed. NULL: there is none that can be used; *why gets a static
 * text that says why. Thread-safe. */
const cuda_driver *cuda_driver_open(const char **why);

/* What a call returned, as an error that names what was done; OK for success. */
int cuda_check(const cuda_driver *cu, int code, const char *what, err *e);
