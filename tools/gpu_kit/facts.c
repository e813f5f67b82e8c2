/* facts.c - measures a card: read peak, the bus, the time between launches, the rate of int8 tensor instructions.
 * Shares of a peak are shares of these numbers, of the same run.
 *
 * Usage: gpu_facts [MIB]: reads so much memory (default: 8192, or half of what is free). Writes one line of JSON. */
#include "base/clock.h"
#include "cuda/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 5, LAUNCHES = 500, BLOCK = 256, TURNS = 2000, WARP_OPS = 8 * 2 * 16 * 8 * 32 };
enum { MULTIPROCESSORS = 16 /* attribute of a device */, THREADS_EACH = 1024, BUS_BYTES = 256 << 20 };

extern const char facts_ptx[]; /* with NUL */
__asm__(".section .rodata\nfacts_ptx:\n.incbin \"" FACTS_PTX "\"\n.byte 0\n.previous\n");

static const cuda_driver *cu;
static cu_stream stream;

static void must(int code, const char *what)
{
    err e = {0};
    if (cuda_check(cu, code, what, &e) == OK) return;
    fprintf(stderr, "gpu_facts: %s\n", e.msg);
    exit(1);
}

static cu_function find(cu_module m, const char *name)
{
    cu_function f;
    must(cu->cuModuleGetFunction(&f, m, name), name);
    return f;
}

static void wait_all(void) { must(cu->cuStreamSynchronize(stream), "waiting"); }

static void launch(cu_function f, unsigned blocks, unsigned block, void **parameters)
{
    must(cu->cuLaunchKernel(f, blocks, 1, 1, block, 1, 1, 0, stream, parameters, NULL), "starting a kernel");
}

/* The shortest time of a kernel. */
static double kernel_seconds(cu_function f, unsigned blocks, void **parameters)
{
    double best = 1e9;
    for (int i = 0; i <= REPEATS; i++) {
        const double from = clock_now();
        launch(f, blocks, BLOCK, parameters);
        wait_all();
        const double took = clock_now() - from;
        if (i && took < best) best = took;
    }
    return best;
}

/* Seconds of a launch among many, one by one and in a graph. */
static double launch_seconds(cu_function f, bool in_graph)
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    double best = 1e9;
    if (in_graph) {
        must(cu->cuStreamBeginCapture_v2(stream, CU_CAPTURE_THREAD), "capturing");
        for (int i = 0; i < LAUNCHES; i++) launch(f, 1, 32, NULL);
        must(cu->cuStreamEndCapture(stream, &graph), "capturing");
        must(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), "preparing a graph");
    }
    for (int i = 0; i <= REPEATS; i++) {
        const double from = clock_now();
        if (exec) must(cu->cuGraphLaunch(exec, stream), "starting a graph");
        for (int k = 0; k < LAUNCHES && !exec; k++) launch(f, 1, 32, NULL);
        wait_all();
        const double took = clock_now() - from;
        if (i && took < best) best = took;
    }
    if (exec) cu->cuGraphExecDestroy(exec);
    if (graph) cu->cuGraphDestroy(graph);
    return best / LAUNCHES;
}

static double bus_seconds(cu_address at, void *host, size_t bytes, bool back)
{
    double best = 1e9;
    for (int i = 0; i <= REPEATS; i++) {
        const double from = clock_now();
        must(back ? cu->cuMemcpyDtoHAsync_v2(host, at, bytes, stream)
                  : cu->cuMemcpyHtoDAsync_v2(at, host, bytes, stream),
             "copying");
        wait_all();
        const double took = clock_now() - from;
        if (i && took < best) best = took;
    }
    return best;
}

int main(int argc, char **argv)
{
    const char *why;
    char name[128];
    int device, version, many, major, minor;
    size_t available, total, bytes = (size_t)(argc > 1 ? atol(argv[1]) : 8192) << 20;
    cu_context context;
    cu_module module;
    cu_address at;
    void *host;
    cu = cuda_driver_open(&why);
    if (!cu) return fprintf(stderr, "gpu_facts: %s\n", why), 1;
    must(cu->cuDeviceGet(&device, 0), "finding a device");
    must(cu->cuDeviceGetName(name, sizeof name, device), "asking for its name");
    must(cu->cuDriverGetVersion(&version), "asking for the driver's version");
    must(cu->cuDeviceGetAttribute(&many, MULTIPROCESSORS, device), "asking for its multiprocessors");
    must(cu->cuDeviceGetAttribute(&major, CU_MAJOR, device), "asking for its kind");
    must(cu->cuDeviceGetAttribute(&minor, CU_MINOR, device), "asking for its kind");
    must(cu->cuDevicePrimaryCtxRetain(&context, device), "opening it");
    must(cu->cuCtxSetCurrent(context), "opening it");
    must(cu->cuStreamCreate(&stream, CU_STREAM_APART), "opening a stream");
    must(cu->cuModuleLoadData(&module, facts_ptx), "loading kernels");
    must(cu->cuMemGetInfo_v2(&available, &total), "asking for its memory");
    if (bytes > available / 2) bytes = available / 2;
    const size_t bus = bytes < BUS_BYTES ? bytes : BUS_BYTES;
    must(cu->cuMemAlloc_v2(&at, bytes), "taking memory");
    must(cu->cuMemHostAlloc(&host, bus, 0), "taking memory of the host");
    uint64_t words = bytes / 16;
    uint32_t turns = argc > 1 ? 2 : TURNS;
    const unsigned blocks = (unsigned)many * (THREADS_EACH / BLOCK);
    const double reads = kernel_seconds(find(module, "read_all"), blocks, (void *[]){&at, &words, &at});
    const double sums = kernel_seconds(find(module, "multiply"), blocks, (void *[]){&turns, &at});
    cu_function nothing = find(module, "nothing");
    printf(
        "{\"name\":\"%s\",\"sm\":%d,\"driver\":%d,\"multiprocessors\":%d,\"memory_bytes\":%zu,\"read_tb_per_s\":%.3f,"
        "\"mma_s8_top_per_s\":%.1f,\"launch_us\":%.3f,\"graph_launch_us\":%.3f,\"to_device_gb_per_s\":%.1f,"
        "\"to_host_gb_per_s\":%.1f,\"small_copy_to_device_us\":%.2f,\"small_copy_to_host_us\":%.2f}\n",
        name, major * 10 + minor, version, many, total, (double)bytes / reads / 1e12,
        (double)blocks * (BLOCK / 32) * turns * WARP_OPS / sums / 1e12, 1e6 * launch_seconds(nothing, false),
        1e6 * launch_seconds(nothing, true), (double)bus / bus_seconds(at, host, bus, false) / 1e9,
        (double)bus / bus_seconds(at, host, bus, true) / 1e9, 1e6 * bus_seconds(at, host, 4096, false),
        1e6 * bus_seconds(at, host, 64, true));
    return 0;
}
