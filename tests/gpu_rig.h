/* gpu_rig.h - the software GPU's driver in a process of its own: what a test calls, and what it has said on stderr.
 *
 * A fault breaks a context for good and settings are read once, so each case forks. */
#pragma once
#include "gpu_path.h"
#include "test.h"
#include "tests/gpu/cuda_abi.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>

#define DRIVER_LIST(X)                                                                                                 \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDeviceGetCount, (int *))                                                                                       \
    X(cuDeviceGet, (CUdevice *, int))                                                                                  \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                                                    \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                               \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                                        \
    X(cuCtxSetCurrent, (CUcontext))                                                                                    \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                    \
    X(cuModuleLoadData, (CUmodule *, const void *))                                                                    \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                     \
    X(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *))                                         \
    X(cuModuleUnload, (CUmodule))                                                                                      \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    X(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))                                                 \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                            \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                                  \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                             \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                                   \
    X(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t))                                                                 \
    X(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))                                                     \
    X(cuStreamCreate, (CUstream *, unsigned))                                                                          \
    X(cuStreamSynchronize, (CUstream))                                                                                 \
    X(cuStreamQuery, (CUstream))                                                                                       \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                                \
    X(cuStreamBeginCapture_v2, (CUstream, int))                                                                        \
    X(cuStreamEndCapture, (CUstream, CUgraph *))                                                                       \
    X(cuEventCreate, (CUevent *, unsigned))                                                                            \
    X(cuEventRecord, (CUevent, CUstream))                                                                              \
    X(cuEventDestroy_v2, (CUevent))                                                                                    \
    X(cuEventSynchronize, (CUevent))                                                                                   \
    X(cuEventQuery, (CUevent))                                                                                         \
    X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                                       \
    X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                          \
    X(cuGraphDestroy, (CUgraph))                                                                                       \
    X(cuGraphExecDestroy, (CUgraphExec))                                                                               \
    X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                                        \
    X(cuGetErrorName, (CUresult, const char **))

typedef CUresult launch_fn(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                           void **, void **);

/* The driver's functions by their names, and a context with the module of tests/gpu/kernels.ptx. */
static struct gpu_rig {
#define X(name, params) CUresult(*name) params;
    DRIVER_LIST(X)
#undef X
    launch_fn *launch;
    CUcontext cx;
    CUmodule kernels;
} gpu;

/* In a child: a case is a function that tells 0, or the line where it went wrong. */
#define WANT(x)                                                                                                        \
    do {                                                                                                               \
        if (!(x)) return __LINE__;                                                                                     \
    } while (0)

static inline int gpu_load_driver(void)
{
    char folder[1024], path[1100];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib) fprintf(stderr, "%s\n", dlerror());
    WANT(lib);
#define X(name, params) WANT(gpu.name = (CUresult(*) params)dlsym(lib, #name));
    DRIVER_LIST(X)
#undef X
    WANT(gpu.launch = (launch_fn *)dlsym(lib, "cuLaunchKernel"));
    return 0;
}

/* The text of a file, NUL-terminated, to be freed; NULL where there is none. */
static inline char *gpu_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    const size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    if (text) text[fread(text, 1, n, f)] = 0;
    fclose(f);
    return text;
}

static inline int gpu_open(void)
{
    CUdevice d;
    const int bad = gpu_load_driver();
    if (bad) return bad;
    char *text = gpu_text("tests/gpu/kernels.ptx");
    WANT(text && !gpu.cuInit(0) && !gpu.cuDeviceGet(&d, 0) && !gpu.cuDevicePrimaryCtxRetain(&gpu.cx, d));
    WANT(!gpu.cuCtxSetCurrent(gpu.cx) && !gpu.cuModuleLoadData(&gpu.kernels, text));
    free(text);
    return 0;
}

/* Launches a kernel of blocks times threads on a stream; params as cuLaunchKernel takes them. */
static inline CUresult gpu_go(const char *kernel, unsigned blocks, unsigned threads, unsigned shared, CUstream s,
                              void **params)
{
    CUfunction f;
    const CUresult r = gpu.cuModuleGetFunction(&f, gpu.kernels, kernel);
    return r ? r : gpu.launch(f, blocks, 1, 1, threads, 1, 1, shared, s, params, NULL);
}
/* Launches a kernel of one block, which may begin before the previous kernel has ended. */
static inline CUresult gpu_go_early(const char *kernel, unsigned threads, CUstream s, void **params)
{
    CUfunction f;
    const CUresult r = gpu.cuModuleGetFunction(&f, gpu.kernels, kernel);
    CUlaunchAttribute depends = {.id = 6, .value = {1}};
    const CUlaunchConfig how = {1, 1, 1, threads, 1, 1, 0, s, &depends, 1};
    return r ? r : gpu.cuLaunchKernelEx(&how, f, params, NULL);
}
#define PARAMS(...) ((void *[]){__VA_ARGS__})

/* Runs a case in a child with settings "NAME=value NAME=value" and fails where it does; said has what it wrote to
 * stderr. */
static inline void gpu_case(int (*body)(void), const char *settings, char *said, size_t room)
{
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path("gpu"));
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char copy[256], *save = NULL;
        const int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (out < 0 || dup2(out, 2) < 0) _exit(2);
        snprintf(copy, sizeof copy, "%s", settings);
        for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) putenv(strdup(s));
        const int opened = gpu_open(), line = opened ? opened : body();
        if (line) fprintf(stderr, "failed at line %d\n", line);
        exit(line != 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    said[fread(said, 1, room - 1, f)] = 0;
    fclose(f);
    unlink(path);
    if (status) fail_msg("status %#x: %s", (unsigned)status, said);
}
