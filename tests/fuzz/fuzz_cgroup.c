/* fuzz_cgroup.c - what a kernel, or whoever stands between, says of control groups: the list of groups and the files of
 * the outermost one, split by bytes 0xff. */
#include "base/cgroup.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/inferflow-fuzz-XXXXXX";

static void write_file(const char *name, const uint8_t *p, size_t n)
{
    char path[sizeof root + 64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "we");
    if (!f || fwrite(p, 1, n, f) != n) abort();
    fclose(f);
}

static void end(void)
{
    char line[sizeof root + 16];
    snprintf(line, sizeof line, "rm -rf %s", root);
    if (system(line)) return;
}

static void begin(void)
{
    static const char *const folders[] = {"memory", "cpu"};
    static bool once;
    if (once) return;
    once = true;
    if (!mkdtemp(root) || atexit(end)) abort();
    for (int i = 0; i < 2; i++) {
        char path[sizeof root + 64];
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        if (mkdir(path, 0700)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"list",
                                        "memory.max",
                                        "memory.current",
                                        "memory.stat",
                                        "cpu.max",
                                        "memory/memory.limit_in_bytes",
                                        "memory/memory.usage_in_bytes",
                                        "memory/memory.stat",
                                        "cpu/cpu.cfs_quota_us",
                                        "cpu/cpu.cfs_period_us"};
    char list[sizeof root + 8];
    const uint8_t *at = data, *stop = data + n;
    begin();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint8_t *to = at < stop ? memchr(at, 0xff, (size_t)(stop - at)) : NULL;
        write_file(names[i], at, (size_t)((to ? to : stop) - at));
        at = to ? to + 1 : stop;
    }
    snprintf(list, sizeof list, "%s/list", root);
    const cgroup_place here = {root, list};
    const double cores = cgroup_cores(&here);
    if (!(cores >= 0) || !isfinite(cores)) abort();
    cgroup_memory(&here);
    return 0;
}
