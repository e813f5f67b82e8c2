/* cgroup.c - see cgroup.h. A group that the mount does not show (a container may see its own as the root) is left out:
 * those above it are asked all the same. */
#include "base/cgroup.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const cgroup_place cgroup_here = {"/sys/fs/cgroup", "/proc/self/cgroup"};

enum { PATH = 4096 };

/* Opens a file of a group. */
static FILE *open_file(const cgroup_place *at, const char *hierarchy, const char *group, const char *name)
{
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s%s%s/%s", at->mount, hierarchy, strcmp(group, "/") ? group : "", name);
    return fopen(path, "re");
}

/* The first number of a file; `otherwise` where it cannot be read, or says "max". */
static uint64_t number_of(const cgroup_place *at, const char *hierarchy, const char *group, const char *name,
                          uint64_t otherwise)
{
    unsigned long long v;
    FILE *f = open_file(at, hierarchy, group, name);
    const bool ok = f && fscanf(f, "%llu", &v) == 1;
    if (f) fclose(f);
    return ok ? v : otherwise;
}

/* Whether a list of names split by ',' has this one. */
static bool has_name(const char *list, size_t n, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list, *end = list + n; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const size_t own = (size_t)((comma ? comma : end) - p);
        if (own == length && !memcmp(p, name, length)) return true;
        p += own + 1;
    }
    return false;
}

/* The group of the hierarchy that has a controller; of version 2 with controller NULL. False: there is none. */
static bool find_group(const cgroup_place *at, const char *controller, char group[PATH])
{
    char line[PATH];
    bool found = false;
    FILE *f = fopen(at->list, "re");
    while (f && !found && fgets(line, sizeof line, f)) { /* "4:cpu,cpuacct:/a/b" */
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        line[strcspn(line, "\n")] = 0;
        if (!path) continue;
        const size_t n = (size_t)(path - names - 1);
        found = controller ? has_name(names + 1, n, controller) : n == 0;
        if (found) snprintf(group, PATH, "%s", path + 1);
    }
    if (f) fclose(f);
    return found;
}

/* The group above; false: that was the last. */
static bool go_up(char *group)
{
    char *slash = strrchr(group, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Bytes of pages of files; version 1 counts those of groups below apart. */
static uint64_t file_pages(const cgroup_place *at, const char *hierarchy, const char *group)
{
    char line[200], name[100];
    unsigned long long v, own = 0, all = 0;
    FILE *f = open_file(at, hierarchy, group, "memory.stat");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%99s %llu", name, &v) != 2) continue;
        if (!strcmp(name, "inactive_file") || !strcmp(name, "active_file")) own += v;
        if (!strcmp(name, "total_inactive_file") || !strcmp(name, "total_active_file")) all += v;
    }
    if (f) fclose(f);
    return all > own ? all : own;
}

static uint64_t memory_left(const cgroup_place *at, const char *hierarchy, char *group, const char *limit,
                            const char *usage)
{
    uint64_t least = UINT64_MAX;
    do {
        const uint64_t most = number_of(at, hierarchy, group, limit, UINT64_MAX);
        if (most >= INT64_MAX / 2) continue; /* version 1 has a large number where there is no limit */
        const uint64_t taken = number_of(at, hierarchy, group, usage, 0), files = file_pages(at, hierarchy, group);
        const uint64_t used = taken > files ? taken - files : 0, left = used < most ? most - used : 0;
        if (left < least) least = left;
    } while (go_up(group));
    return least;
}

uint64_t cgroup_memory(const cgroup_place *at)
{
    char group[PATH];
    uint64_t least = UINT64_MAX, left;
    if (find_group(at, NULL, group)) least = memory_left(at, "", group, "memory.max", "memory.current");
    if (!find_group(at, "memory", group)) return least;
    left = memory_left(at, "/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
    return left < least ? left : least;
}

static void take_cores(double *least, double quota, double period)
{
    const double cores = quota > 0 && period > 0 ? quota / period : 0;
    if (cores > 0 && isfinite(cores) && (*least == 0 || cores < *least)) *least = cores;
}

double cgroup_cores(const cgroup_place *at)
{
    static const char *const v1[] = {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"};
    char group[PATH];
    double least = 0;
    if (find_group(at, NULL, group)) do {
            double quota, period;
            FILE *f = open_file(at, "", group, "cpu.max"); /* "quota period", or "max period" */
            if (f && fscanf(f, "%lf %lf", &quota, &period) == 2) take_cores(&least, quota, period);
            if (f) fclose(f);
        } while (go_up(group));
    for (size_t i = 0; i < sizeof v1 / sizeof *v1; i++) {
        if (!find_group(at, "cpu", group)) break;
        do { /* a quota of -1 is none */
            const uint64_t quota = number_of(at, v1[i], group, "cpu.cfs_quota_us", 0);
            const uint64_t period = number_of(at, v1[i], group, "cpu.cfs_period_us", 0);
            if (quota < INT64_MAX) take_cores(&least, (double)quota, (double)period);
        } while (go_up(group));
    }
    return least;
}
