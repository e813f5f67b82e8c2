/* nccl.c - see nccl.h. One thread calls for all ranks. A call of one rank waits for the calls of the others,
 * so calls of all ranks stand between ncclGroupStart and ncclGroupEnd. */
#include "cuda/nccl.h"

#include "base/mem.h"
#include "core/link.h"
#include "cuda/cuda_library.h"
#include "cuda/cuda_state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Its numbers: ncclDataType_t, ncclRedOp_t. */
enum { HALF = 6, FLOAT = 7, SUM = 0 };

typedef struct nccl_calls {
#define X(type, name, parameters) type(*name) parameters;
    NCCL_CALLS(X)
#undef X
} nccl_calls;

static struct {
    pthread_mutex_t lock;
    bool there;
    nccl_calls calls;
    char version[32];
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct nccl_rank {
    dev *on;
    nccl_comm *comm;
    cu_address x, y;
} nccl_rank;

struct library_sum {
    int ranks;
    int64_t n;
    wire_type type;
    bool failed; /* a call of a group has: ranks may wait for each other */
    nccl_rank rank[LINK_RANKS_MAX];
};

static int check(int code, const char *what, err *e)
{
    return code ? err_set(e, ERR_IO, "%s: %s", what, library.calls.ncclGetErrorString(code)) : OK;
}

/* ---- the library */

/* The name of a function that the library lacks; NULL: it has all. */
static const char *find_calls(void *from)
{
    static const char *const names[] = {
#define X(type, name, parameters) #name,
        NCCL_CALLS(X)
#undef X
    };
    void *found[sizeof names / sizeof *names];
    const char *lacks = cuda_library_find(from, names, sizeof names / sizeof *names, found);
    if (lacks) return lacks;
    size_t i = 0;
#define X(type, name, parameters) *(void **)&library.calls.name = found[i++];
    NCCL_CALLS(X)
#undef X
    return NULL;
}

static int find_library(const char *path, err *e)
{
    const char *name = path ? path : "libnccl.so.2";
    void *from = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int v = 0;
    if (!from && path) return err_set(e, ERR_UNAVAILABLE, "--nccl: %s", dlerror());
    if (!from) return err_set(e, ERR_UNAVAILABLE, "it is not there (libnccl.so.2): install it, or give --nccl FILE");
    const char *lacks = find_calls(from);
    if (lacks) return err_set(e, ERR_UNAVAILABLE, "%s has no %s", name, lacks);
    const int rc = check(library.calls.ncclGetVersion(&v), "ncclGetVersion", e);
    if (rc) return rc;
    snprintf(library.version, sizeof library.version, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    library.there = true;
    return OK;
}

static int find(const char *path, const char **version, err *e)
{
    pthread_mutex_lock(&library.lock);
    const int rc = library.there ? OK : find_library(path, e);
    pthread_mutex_unlock(&library.lock);
    *version = library.version;
    return rc;
}

/* ---- a sum */

static cuda_queue *queue_of(const library_sum *s, int rank) { return &cuda_device_of(s->rank[rank].on)->q; }

static uint64_t bytes_of(const library_sum *s) { return (uint64_t)wire_bytes(s->type, s->n, s->n); }

static void close_sum(library_sum *s)
{
    if (!s) return;
    for (int r = 0; r < s->ranks; r++) {
        nccl_rank *k = &s->rank[r];
        cuda_queue *q = queue_of(s, r);
        if (cuda_hangs(q->device)) continue;
        if (k->comm && s->failed) library.calls.ncclCommAbort(k->comm);
        else if (k->comm) library.calls.ncclCommDestroy(k->comm);
        cuda_device_of(k->on); /* NCCL may have left another one current */
        cuda_give(q, &k->x, bytes_of(s));
        cuda_give(q, &k->y, bytes_of(s));
    }
    mem_free(s);
}

static int open_ranks(library_sum *s, err *e)
{
    nccl_comm *comm[LINK_RANKS_MAX] = {NULL};
    int device[LINK_RANKS_MAX], rc = OK;
    for (int r = 0; r < s->ranks && !rc; r++) {
        nccl_rank *k = &s->rank[r];
        cuda_queue *q = queue_of(s, r);
        device[r] = cuda_device_of(k->on)->w->ordinal;
        rc = cuda_take(q, bytes_of(s), "a sum", &k->x, e);
        if (!rc) rc = cuda_take(q, bytes_of(s), "a sum", &k->y, e);
    }
    if (!rc) rc = check(library.calls.ncclCommInitAll(comm, s->ranks, device), "ncclCommInitAll", e);
    for (int r = 0; r < s->ranks && !rc; r++) s->rank[r].comm = comm[r];
    return rc;
}

static int open_sum(library_sum **out, dev *const *on, int ranks, wire_type type, int64_t n, err *e)
{
    library_sum *s = *out = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, "a sum");
    *s = (library_sum){.ranks = ranks, .n = n, .type = type};
    for (int r = 0; r < ranks; r++) s->rank[r].on = on[r];
    const int rc = open_ranks(s, e);
    if (!rc) return OK;
    close_sum(s);
    *out = NULL;
    return rc;
}

static int put(library_sum *s, int rank, const void *x, err *e)
{
    cuda_queue *q = queue_of(s, rank);
    const int rc = cuda_send(q, s->rank[rank].x, x, bytes_of(s), e);
    return rc ? rc : cuda_wait(q, e);
}

static int start_all(library_sum *s, err *e)
{
    int rc = check(library.calls.ncclGroupStart(), "ncclGroupStart", e);
    if (rc) return rc;
    for (int r = 0; r < s->ranks && !rc; r++) {
        const nccl_rank *k = &s->rank[r];
        rc = check(library.calls.ncclAllReduce((const void *)(uintptr_t)k->x, (void *)(uintptr_t)k->y, (size_t)s->n,
                                               s->type == WIRE_F16 ? HALF : FLOAT, SUM, k->comm,
                                               cuda_stream_of(queue_of(s, r))),
                   "ncclAllReduce", e);
    }
    const int end = library.calls.ncclGroupEnd();
    return rc ? rc : check(end, "ncclGroupEnd", e);
}

static int add_up(library_sum *s, err *e)
{
    int rc = start_all(s, e);
    for (int r = 0; r < s->ranks && !rc; r++) rc = cuda_wait(queue_of(s, r), e);
    s->failed = s->failed || rc;
    return rc;
}

static int get(library_sum *s, int rank, void *y, err *e)
{
    return cuda_fetch(queue_of(s, rank), y, s->rank[rank].y, bytes_of(s), e);
}

const library_ways nccl_ways = {
    .find = find, .open = open_sum, .put = put, .add_up = add_up, .get = get, .close = close_sum};
