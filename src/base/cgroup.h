/* cgroup.h - what the control groups of a process leave it, of version 1 or 2: of its own group and of all above it. */
#pragma once
#include <stdint.h>

/* Where the kernel tells: the mount of control groups, and the list of those of this process. */
typedef struct cgroup_place {
    const char *mount, *list;
} cgroup_place;
extern const cgroup_place cgroup_here;

/* Bytes of memory that may still be taken; UINT64_MAX: there is no limit. Pages of files that the kernel drops when
 * memory is needed are not taken. */
uint64_t cgroup_memory(const cgroup_place *at);
/* Cores' worth of time; 0: there is no limit. */
double cgroup_cores(const cgroup_place *at);
