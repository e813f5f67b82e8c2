/* t_base_cgroup.c - what control groups leave a process, by files as the kernel writes them: versions 1 and 2, nested
 * groups, groups that a container does not see, page cache that can be dropped. */
#include "test.h"

#include "base/cgroup.h"

#include <sys/stat.h>

static char root[300], list[320];
static const cgroup_place here = {root, list};

/* Writes a file below the mount, with the folders before it. */
static void tell(const char *path, const char *text)
{
    char full[700];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root); (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(full, 0700);
    }
    FILE *f = fopen(full, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void begin(const char *groups)
{
    char line[400];
    snprintf(root, sizeof root, "%s", temp_path("cgroup"));
    snprintf(line, sizeof line, "rm -rf %s", root);
    assert_int_equal(system(line), 0);
    snprintf(list, sizeof list, "%s/list", root);
    tell("list", groups);
}

static void memory_of_version_2(void **state)
{
    (void)state;
    begin("0::/a/b\n");
    assert_true(cgroup_memory(&here) == UINT64_MAX);
    tell("a/b/memory.max", "max\n");
    tell("a/memory.max", "1000000\n");
    tell("a/memory.current", "990000\n");
    assert_true(cgroup_memory(&here) == 10000);
    tell("a/memory.stat", "anon 90000\nfile 900000\ninactive_file 300000\nactive_file 200000\nslab 5\n");
    assert_true(cgroup_memory(&here) == 510000);
    tell("a/b/memory.max", "400000\n");
    tell("a/b/memory.current", "300000\n");
    assert_true(cgroup_memory(&here) == 100000);
    tell("a/b/memory.current", "500000\n"); /* beyond its limit */
    assert_true(cgroup_memory(&here) == 0);
}

static void memory_of_version_1(void **state)
{
    (void)state;
    begin("4:memory:/job/7\n1:cpu:/\n0::/\n");
    tell("memory/memory.limit_in_bytes", "9223372036854771712\n");
    tell("memory/memory.usage_in_bytes", "50000000000\n");
    assert_true(cgroup_memory(&here) == UINT64_MAX);
    tell("memory/job/7/memory.limit_in_bytes", "500000\n");
    tell("memory/job/7/memory.usage_in_bytes", "499000\n");
    tell("memory/job/7/memory.stat", "inactive_file 100\nactive_file 0\ntotal_inactive_file 300000\n"
                                     "total_active_file 50000\n");
    assert_true(cgroup_memory(&here) == 351000);
    /* a container shows its group as the root of the mount */
    begin("4:memory:/docker/0123\n");
    tell("memory/memory.limit_in_bytes", "500000\n");
    tell("memory/memory.usage_in_bytes", "100000\n");
    assert_true(cgroup_memory(&here) == 400000);
}

static void cores(void **state)
{
    (void)state;
    begin("0::/a/b\n");
    assert_true(cgroup_cores(&here) == 0);
    tell("a/b/cpu.max", "max 100000\n");
    tell("a/cpu.max", "150000 100000\n");
    tell("a/b/cpu.max", "inf inf\n"); /* not of a kernel */
    assert_true(cgroup_cores(&here) == 1.5);
    static const char *const mounts[] = {"cpu", "cpu,cpuacct"};
    for (int i = 0; i < 2; i++) {
        char path[200];
        begin("5:cpuset:/\n4:cpu,cpuacct:/slice/unit\n0::/\n");
        snprintf(path, sizeof path, "%s/slice/unit/cpu.cfs_quota_us", mounts[i]);
        tell(path, "-1\n");
        snprintf(path, sizeof path, "%s/slice/unit/cpu.cfs_period_us", mounts[i]);
        tell(path, "100000\n");
        assert_true(cgroup_cores(&here) == 0);
        snprintf(path, sizeof path, "%s/slice/cpu.cfs_quota_us", mounts[i]);
        tell(path, "250000\n");
        snprintf(path, sizeof path, "%s/slice/cpu.cfs_period_us", mounts[i]);
        tell(path, "100000\n");
        assert_true(cgroup_cores(&here) == 2.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_version_2),
        cmocka_unit_test(memory_of_version_1),
        cmocka_unit_test(cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
