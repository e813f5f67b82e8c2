/* cmd_info.c - `inferflow info`: what this machine offers and what this build can use. Reads /proc; needs no model. */
#include "app/app.h"
#include "base/version.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* The value of the first "key : value" line of a /proc file; "" when there is none. */
static void proc_value(const char *path, const char *key, char *out, size_t size)
{
    out[0] = 0;
    FILE *f = fopen(path, "re");
    char line[4096];
    while (f && !out[0] && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0) continue;
        char *v = colon + 1 + strspn(colon + 1, " \t");
        v[strcspn(v, "\n")] = 0;
        snprintf(out, size, "%s", v);
    }
    if (f) fclose(f);
}

static void describe_cpu(json *parent)
{
    char model[256];
    proc_value("/proc/cpuinfo", "model name", model, sizeof model);
    json *cpu = json_add_object(parent, "cpu");
    json_add_str(cpu, "model", model[0] ? model : "unknown");
    json_add_int(cpu, "cores_online", sysconf(_SC_NPROCESSORS_ONLN));
}

static void describe_memory(json *parent)
{
    struct sysinfo si;
    if (sysinfo(&si)) return;
    json *m = json_add_object(parent, "memory");
    char text[64];
    unsigned long long available = 0;
    proc_value("/proc/meminfo", "MemAvailable", text, sizeof text);
    sscanf(text, "%llu", &available);
    json_add_int(m, "total_bytes", (int64_t)si.totalram * si.mem_unit);
    json_add_int(m, "available_bytes", (int64_t)available * 1024);
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
