/* cmd_info.c - `inferflow info`: what this machine offers and what this build can use. Reads /proc; needs no model. */
#include "app/app.h"
#include "base/pool.h"
#include "base/version.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* What programs can still take without swapping; 0 when the kernel does not say. */
static unsigned long long memory_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[256];
    unsigned long long kib = 0;
    while (f && !kib && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %llu", &kib);
    if (f) fclose(f);
    return kib * 1024;
}

static void describe_cpu(json *parent)
{
    static const struct {
        unsigned flag;
        const char *name;
    } sets[] = {{CPU_AVX2, "avx2"}, {CPU_AVXVNNI, "avxvnni"}, {CPU_AVX512, "avx512"}, {CPU_AVX512BF16, "avx512bf16"},
                {CPU_NEON, "neon"}, {CPU_DOTPROD, "dotprod"}};
    json *cpu = json_add_object(parent, "cpu");
    unsigned features = cpu_features();
    json_add_str(cpu, "model", cpu_model());
    json_add_int(cpu, "cores_online", sysconf(_SC_NPROCESSORS_ONLN));
    json_add_int(cpu, "threads_default", pool_default_threads());
    json *list = json_add_array(cpu, "features");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (features & sets[i].flag) json_add_str(list, NULL, sets[i].name);
}

/* Per op, what the kernel that would be used is made for: "c" where the reference serves. */
static void describe_kernels(json *parent)
{
    const cpu_table *best = cpu_kernels(cpu_features(), false);
    json *kernels = json_add_object(parent, "kernels");
    json_add_str(kernels, "isa", best->isa);
    for (int k = 0; k < OP_COUNT; k++)
        json_add_str(kernels, op_info[k].name, best->op[k] ? best->isa : cpu_table_c.isa);
}

static void describe_memory(json *parent)
{
    struct sysinfo si;
    if (sysinfo(&si)) return;
    json *m = json_add_object(parent, "memory");
    json_add_int(m, "total_bytes", (int64_t)si.totalram * si.mem_unit);
    json_add_int(m, "available_bytes", (int64_t)memory_available());
}

static void describe_build(json *parent)
{
    json *b = json_add_object(parent, "build");
    json_add_str(b, "compiler", inferflow_compiler);
    json_add_str(b, "cflags", inferflow_cflags);
#ifdef HAVE_EDIT
    json_add_bool(b, "line_editing", true);
#else
    json_add_bool(b, "line_editing", false);
#endif
}

/* The same tree as text: one "group key  value" line per leaf. */
static void print_tree(const json *j, const char *path)
{
    for (const json *m = json_first(j); m; m = json_next(m)) {
        char name[128];
        snprintf(name, sizeof name, "%s%s%s", path, *path ? " " : "", json_key(m));
        if (json_type(m) == JSON_OBJECT) {
            print_tree(m, name);
            continue;
        }
        buf b = {0};
        if (json_type(m) == JSON_STRING) buf_str(&b, json_str(m, ""));
        else json_print(&b, m, false);
        printf("%-26s %s\n", name, buf_cstr(&b));
        buf_free(&b);
    }
}

static int run_info(const invocation *v, err *e)
{
    json *root = json_new_object();
    json_add_str(root, "version", inferflow_version);
    describe_cpu(root);
    describe_kernels(root);
    describe_memory(root);
    json_add_array(root, "gpus");
    describe_build(root);
    int rc = OK;
    if (v->json) rc = app_print_json(root, e);
    else print_tree(root, "");
    json_free(root);
    return rc;
}

const command command_info = {
    .name = "info",
    .summary = "CPU features and the kernels chosen, GPUs, build options, memory",
    .prints_json = true,
    .run = run_info,
};
