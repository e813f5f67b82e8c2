/* nccl.h - NCCL, found at run time: its all-reduce between devices of a group, which `bench allreduce` measures beside
 * ours. It sums in an order of its own, which may depend on the number of ranks and of elements, so no answer is made
 * by it. No header and no library is needed to build; the calls are declared here as libnccl exports them (NCCL,
 * version 2). */
#pragma once
#include "core/backend.h"

#include <stddef.h>

typedef struct nccl_comm nccl_comm; /* one rank of a group */

/* X(type, name, parameters); those that return a code return 0 for success. */
#define NCCL_CALLS(X)                                                                                                  \
    X(int, ncclGetVersion, (int *version))                                                                             \
    X(const char *, ncclGetErrorString, (int code))                                                                    \
    X(int, ncclCommInitAll, (nccl_comm * *comm, int ranks, const int *device))                                         \
    X(int, ncclCommDestroy, (nccl_comm * comm))                                                                        \
    X(int, ncclCommAbort, (nccl_comm * comm))                                                                          \
    X(int, ncclGroupStart, (void))                                                                                     \
    X(int, ncclGroupEnd, (void))                                                                                       \
    X(int, ncclAllReduce, (const void *from, void *to, size_t n, int type, int how, nccl_comm *comm, void *stream))

extern const library_ways nccl_ways;
