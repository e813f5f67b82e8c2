/* drv_call.c - what every call of the software driver begins and ends with, and its settings.
 *
 *   SOFT_GPU_DEVICES=4            how many devices
 *   SOFT_GPU_MEMORY=1024          MiB of each
 *   SOFT_GPU_CAPABILITY=8.0       compute capability
 *   SOFT_GPU_VERSION=13000        CUDA that the driver knows: 12.8 is 12080
 *   SOFT_GPU_SEED=1               of the order of streams, blocks and warps
 *   SOFT_GPU_PATIENCE=1073741824  a launch fails of which no block has ended for so many instructions of warps
 *   SOFT_GPU_RACES=0              does not look for races: twice as fast
 *   SOFT_GPU_WHOLE=1              reads all kernels of a module when it is loaded; else each at its first launch
 *   SOFT_GPU_PLANT, SOFT_GPU_DROP, SOFT_GPU_STOP, SOFT_GPU_COVER: faults that a test plants (plant.h)
 *   SOFT_GPU_COUNT=FILE           writes calls, launches, kernels that ran (those of graphs too), copies and bytes,
 *                                 copies of memory of the host that is not pinned, as JSON when the process ends
 *   SOFT_GPU_FAIL=12              the 12th call fails; cuMemAlloc:3: the third call of that function. Allocations
 *                                 answer that memory is out, other calls CUDA_ERROR_UNKNOWN
 *
 * Devices differ from real ones in that every misuse that they notice ends in an error or in a message. */
#define _GNU_SOURCE
#include "tests/gpu/drv_state.h"
#include "tests/gpu/products.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

drv_settings drv_set = {.version = 13000,
                        .devices = 4,
                        .major = 8,
                        .minor = 0,
                        .multiprocessors = 4,
                        .memory = (size_t)1 << 30,
                        .seed = 1,
                        .patience = UINT64_C(1) << 30};
drv_counts drv_count;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool ready;
static const char *count_file;
static char fail_name[64];
static uint64_t fail_at, fail_seen;

static void write_counts(void)
{
    FILE *f = fopen(count_file, "w");
    if (!f) return;
    const drv_counts *c = &drv_count;
#define N(x) (unsigned long long)c->x
    fprintf(f,
            "{\"calls\": %llu, \"launches\": %llu, \"kernels\": %llu, \"early\": %llu, \"graph_launches\": %llu, "
            "\"graphs\": %llu,\n"
            " \"copies_to_device\": %llu, \"bytes_to_device\": %llu, \"copies_to_host\": %llu, \"bytes_to_host\": "
            "%llu, \"copies_on_device\": %llu,\n"
            " \"bytes_on_device\": %llu, \"copies_of_pageable\": %llu, \"sets\": %llu, \"allocations\": %llu, "
            "\"bytes_allocated\": %llu,\n"
            " \"host_allocations\": %llu, \"synchronizations\": %llu, \"warp_instructions\": %llu, \"wgmma\": %llu}\n",
            N(calls), N(launches), N(kernels), N(early), N(graph_launches), N(graphs), N(to_device), N(bytes_to_device),
            N(to_host), N(bytes_to_host), N(on_device), N(bytes_on_device), N(pageable), N(sets), N(allocations),
            N(bytes_allocated), N(host_allocations), N(synchronizations), (unsigned long long)machine_warp_instructions,
            (unsigned long long)products_done);
#undef N
    fclose(f);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    return v ? strtoull(v, NULL, 10) : otherwise;
}

static void read_settings(void)
{
    drv_set.devices = (int)setting("SOFT_GPU_DEVICES", (uint64_t)drv_set.devices);
    if (drv_set.devices > GPU_DEVICES) drv_set.devices = GPU_DEVICES;
    drv_set.memory = (size_t)setting("SOFT_GPU_MEMORY", drv_set.memory >> 20) << 20;
    drv_set.version = (int)setting("SOFT_GPU_VERSION", (uint64_t)drv_set.version);
    drv_set.seed = setting("SOFT_GPU_SEED", drv_set.seed);
    drv_set.patience = setting("SOFT_GPU_PATIENCE", drv_set.patience);
    const char *capability = getenv("SOFT_GPU_CAPABILITY"), *fail = getenv("SOFT_GPU_FAIL");
    if (capability && sscanf(capability, "%d.%d", &drv_set.major, &drv_set.minor) != 2)
        drv_say("SOFT_GPU_CAPABILITY=%s is no capability", capability);
    if (fail) {
        const char *at = strchr(fail, ':');
        if (at && (size_t)(at - fail) < sizeof fail_name) memcpy(fail_name, fail, (size_t)(at - fail));
        fail_at = strtoull(at ? at + 1 : fail, NULL, 10);
    }
    drv_set.whole = setting("SOFT_GPU_WHOLE", getenv("SOFT_GPU_COVER") != NULL);
    count_file = getenv("SOFT_GPU_COUNT");
    if (count_file) atexit(write_counts);
}

void drv_say(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("soft gpu: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static bool fails_now(const char *name)
{
    if (!fail_at || (*fail_name && strcmp(fail_name, name))) return false;
    return ++fail_seen == fail_at;
}

CUresult drv_enter(const char *name, int needs)
{
    pthread_mutex_lock(&gate);
    if (!ready) read_settings();
    ready = true;
    drv_count.calls += !(needs & CALL_AGAIN);
    if (!(needs & CALL_AGAIN) && fails_now(name)) {
        drv_say("%s fails, as SOFT_GPU_FAIL asks for", name);
        return strstr(name, "Alloc") || strstr(name, "Create") || strstr(name, "Instantiate") ? CUDA_ERROR_OUT_OF_MEMORY
                                                                                              : CUDA_ERROR_UNKNOWN;
    }
    if (needs & CALL_CONTEXT) {
        const context *cx = drv_current();
        if (!cx || !cx->alive) return CUDA_ERROR_INVALID_CONTEXT;
        if (cx->broken) return cx->broken;
    }
    return needs & CALL_UNCAPTURED ? capture_forbids() : CUDA_SUCCESS;
}

CUresult drv_leave(CUresult r)
{
    pthread_mutex_unlock(&gate);
    return r;
}

void drv_breathe(void)
{
    pthread_mutex_unlock(&gate);
    sched_yield();
    pthread_mutex_lock(&gate);
}

uint64_t drv_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t drv_sleep(long ns)
{
    const uint64_t start = drv_now();
    pthread_mutex_unlock(&gate);
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    pthread_mutex_lock(&gate);
    return drv_now() - start;
}

CUresult cuGetErrorName(CUresult r, const char **text)
{
#define X(name, number, what)                                                                                          \
    if (r == number) return *text = #name, CUDA_SUCCESS;
    ERROR_LIST(X)
#undef X
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult r, const char **text)
{
#define X(name, number, what)                                                                                          \
    if (r == number) return *text = what, CUDA_SUCCESS;
    ERROR_LIST(X)
#undef X
    return CUDA_ERROR_INVALID_VALUE;
}
