/* nccl_standin.c - a libnccl.so.2 for the software GPU: the calls of cuda/nccl.h, with one kernel behind them.
 *
 *   SOFT_NCCL_FAIL=ncclAllReduce   this call answers that it has failed
 *   SOFT_NCCL_TRACE=FILE           gets the names of all calls in their order, a line each; at the end of the process
 *                                  how many communicators are left
 *   SOFT_NCCL_WRONG=1              the last rank's sums leave out a rank
 *
 * What would hang or be undefined there is an error here: a sum outside a group, by other ranks than all, of other
 * sizes, into what it reads, on a stream of another device. */
#include "cuda/nccl.h"

#include "cuda/cuda_driver.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE, CUDA_FAILED, SYSTEM_FAILED, INTERNAL, BAD_ARGUMENT, BAD_USAGE };
enum { RANKS = 16, THREADS = 64, HALF = 6, FLOAT = 7 };

/* A communicator; those of one call know each other. */
struct nccl_comm {
    int rank, ranks;
    cu_context context;
    cu_module module;
    cu_function sum;
    cu_event came;
    nccl_comm **all; /* [ranks] the last one frees it */
};

typedef struct waiting {
    nccl_comm *comm;
    const void *from;
    void *to;
    size_t n;
    int type;
    cu_stream stream;
} waiting;

static bool in_group;
static waiting calls[RANKS];
static int n_call, left;

#define X(name, parameters) int name parameters;
CU_CALLS(X)
#undef X
#define X(type, name, parameters) type name parameters;
NCCL_CALLS(X)
#undef X

extern const char standin_ptx[]; /* with NUL */
__asm__(".section .rodata\nstandin_ptx:\n.incbin \"" STANDIN_PTX "\"\n.byte 0\n.previous\n");

static void trace(const char *line)
{
    const char *path = getenv("SOFT_NCCL_TRACE");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) fprintf(f, "%s\n", line), fclose(f);
}

static void tell_left(void)
{
    char line[40];
    snprintf(line, sizeof line, "left %d", left);
    trace(line);
}

/* Whether the call is to fail. */
static bool fails(const char *name)
{
    static bool first = true;
    const char *which = getenv("SOFT_NCCL_FAIL");
    if (first) atexit(tell_left);
    first = false;
    trace(name);
    return which && !strcmp(which, name);
}

const char *ncclGetErrorString(int code)
{
    return code == BAD_USAGE ? "invalid usage" : code == SYSTEM_FAILED ? "unhandled system error" : "unhandled error";
}

int ncclGetVersion(int *version)
{
    *version = 22809;
    return fails("ncclGetVersion") ? SYSTEM_FAILED : DONE;
}

static bool open_rank(nccl_comm *c, int number)
{
    int device;
    return !cuDeviceGet(&device, number) && !cuDevicePrimaryCtxRetain(&c->context, device) &&
           !cuCtxSetCurrent(c->context) && !cuModuleLoadData(&c->module, standin_ptx) &&
           !cuModuleGetFunction(&c->sum, c->module, "sum") && !cuEventCreate(&c->came, CU_EVENT_UNTIMED);
}

int ncclCommInitAll(nccl_comm **to, int ranks, const int *device)
{
    if (fails("ncclCommInitAll")) return SYSTEM_FAILED;
    if (ranks < 1 || ranks > RANKS) return BAD_ARGUMENT;
    for (int r = 0; r < ranks; r++)
        for (int o = 0; o < r; o++)
            if (device[r] == device[o]) return BAD_USAGE;
    nccl_comm **all = calloc((size_t)ranks, sizeof *all);
    for (int r = 0; r < ranks; r++) {
        nccl_comm *c = to[r] = all[r] = calloc(1, sizeof *c);
        *c = (nccl_comm){.rank = r, .ranks = ranks, .all = all};
        if (!open_rank(c, device[r])) return CUDA_FAILED;
        left++;
    }
    for (int r = 0; r < ranks; r++)
        for (int o = 0; o < ranks; o++) {
            cuCtxSetCurrent(all[r]->context);
            const int code = r == o ? CU_SUCCESS : cuCtxEnablePeerAccess(all[o]->context, 0);
            if (code != CU_SUCCESS && code != CU_PEER_ACCESS_ALREADY) return CUDA_FAILED;
        }
    return DONE;
}

int ncclGroupStart(void)
{
    if (fails("ncclGroupStart")) return SYSTEM_FAILED;
    if (in_group) return BAD_USAGE;
    in_group = true;
    n_call = 0;
    return DONE;
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int how, nccl_comm *comm, void *stream)
{
    if (fails("ncclAllReduce")) return SYSTEM_FAILED;
    if (!in_group || n_call == RANKS || from == to) return BAD_USAGE;
    if (!from || !to || how || (type != HALF && type != FLOAT)) return BAD_ARGUMENT;
    calls[n_call++] = (waiting){comm, from, to, n, type, stream};
    return DONE;
}

/* Streams go on behind where all of them are. */
static bool meet(void)
{
    bool ok = true;
    for (int i = 0; i < n_call; i++) {
        cuCtxSetCurrent(calls[i].comm->context);
        ok = ok && !cuEventRecord(calls[i].comm->came, calls[i].stream);
    }
    for (int i = 0; i < n_call; i++)
        for (int o = 0; o < n_call && ok; o++) {
            cuCtxSetCurrent(calls[i].comm->context);
            ok = o == i || !cuStreamWaitEvent(calls[i].stream, calls[o].comm->came, 0);
        }
    return ok;
}

static bool are_all(void)
{
    const waiting *w = calls;
    bool ok = n_call && n_call == w->comm->ranks;
    for (int i = 0; i < n_call && ok; i++)
        ok = calls[i].comm == w->comm->all[i] && calls[i].n == w->n && calls[i].type == w->type;
    return ok;
}

int ncclGroupEnd(void)
{
    if (fails("ncclGroupEnd")) return in_group = false, SYSTEM_FAILED;
    if (!in_group) return BAD_USAGE;
    in_group = false;
    if (!are_all()) return BAD_USAGE;
    const void *from[RANKS] = {0};
    for (int i = 0; i < n_call; i++) from[i] = calls[i].from;
    bool ok = meet();
    for (int i = 0; i < n_call && ok; i++) {
        waiting *w = &calls[i];
        long long n = (long long)w->n;
        int count = n_call - (i && i == n_call - 1 && getenv("SOFT_NCCL_WRONG")), half = w->type == HALF;
        cuCtxSetCurrent(w->comm->context);
        ok = !cuLaunchKernel(w->comm->sum, (unsigned)((n + THREADS - 1) / THREADS), 1, 1, THREADS, 1, 1, 0, w->stream,
                             (void *[]){from, &w->to, &n, &count, &half}, NULL);
    }
    return ok && meet() ? DONE : CUDA_FAILED;
}

static void close_rank(nccl_comm *c)
{
    cuCtxSetCurrent(c->context);
    cuEventDestroy_v2(c->came);
    cuModuleUnload(c->module);
    c->all[c->rank] = NULL;
    left--;
    bool last = true;
    for (int r = 0; r < c->ranks; r++) last = last && !c->all[r];
    if (last) free((void *)c->all);
    free(c);
}

int ncclCommDestroy(nccl_comm *c)
{
    const bool failed = fails("ncclCommDestroy");
    close_rank(c);
    return failed ? SYSTEM_FAILED : DONE;
}

int ncclCommAbort(nccl_comm *c)
{
    const bool failed = fails("ncclCommAbort");
    close_rank(c);
    return failed ? SYSTEM_FAILED : DONE;
}
