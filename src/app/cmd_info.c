/* cmd_info.c - `inferflow info`: this machine and what this build uses of it; the tensors and metadata of a model. */
#include "app/app.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/version.h"
#include "cpu/cpu.h"
#include "engine/engine.h"
#include "models/model.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static const size_t n_rows = 1; /* --model */
static const flag_group flags[] = {{"Model", engine_param_rows, &n_rows, 0}, {0}};

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

/* The instruction set of the kernel chosen for each op; "c": the reference. */
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
    json_add_int(m, "available_bytes", (int64_t)mem_available());
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

static void describe_checkpoint(json *parent, const ckpt *c)
{
    json *to = json_add_object(parent, "model");
    const char *config = ckpt_describes_itself(c) ? "metadata" : "config";
    json_add_str(to, "path", ckpt_path(c));
    json_add_str(to, "format", ckpt_format(c));
    if (ckpt_metadata(c)) json_add_copy(to, "metadata", ckpt_metadata(c));
    if (ckpt_config(c)) json_add_copy(to, config, ckpt_config(c));
    json *list = json_add_array(to, "tensors");
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        json *one = json_add_object(list, NULL);
        json_add_str(one, "name", t->name);
        json_add_str(one, "type", dtype_info[t->type].name);
        json *dims = json_add_array(one, "shape");
        for (int d = 0; d < t->dims.rank; d++) json_add_int(dims, NULL, t->dims.dim[d]);
        json_add_int(one, "bytes", (int64_t)t->bytes);
    }
}

/* Prints text of a file, cut, without control characters. */
static void print_safe(const char *text, int width)
{
    enum { LONGEST = 200 };
    int n = 0;
    for (; text[n] && n < LONGEST; n++) putchar((unsigned char)text[n] < 32 || text[n] == 127 ? '?' : text[n]);
    if (text[n]) n += printf("… (%zu bytes)", strlen(text));
    if (n < width) printf("%*s", width - n, "");
}

/* The same tree as text: one "group key  value" line per leaf. */
static void print_tree(const json *j, const char *path)
{
    for (const json *m = json_first(j); m; m = json_next(m)) {
        char name[400];
        snprintf(name, sizeof name, "%s%s%s", path, *path ? " " : "", json_key(m));
        if (json_type(m) == JSON_OBJECT) {
            print_tree(m, name);
            continue;
        }
        buf b = {0};
        if (json_type(m) == JSON_STRING) buf_str(&b, json_str(m, ""));
        else json_print(&b, m, false);
        print_safe(name, 26);
        putchar(' ');
        print_safe(buf_cstr(&b), 0);
        putchar('\n');
        buf_free(&b);
    }
}

static void print_checkpoint(const ckpt *c)
{
    uint64_t bytes = 0;
    printf("%-26s %s\n%-26s %s\n", "path", ckpt_path(c), "format", ckpt_format(c));
    print_tree(ckpt_metadata(c), "metadata");
    print_tree(ckpt_config(c), ckpt_describes_itself(c) ? "metadata" : "config");
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        char dims[100] = "[";
        for (int d = 0, n = 1; d < t->dims.rank; d++)
            n += snprintf(dims + n, sizeof dims - (size_t)n, "%s%lld", d ? ", " : "", (long long)t->dims.dim[d]);
        print_safe(t->name, 56);
        printf(" %-8s %s] %llu bytes\n", dtype_info[t->type].name, dims, (unsigned long long)t->bytes);
        bytes += t->bytes;
    }
    printf("%u tensors, %llu bytes\n", ckpt_count(c), (unsigned long long)bytes);
}

static int run_info(const invocation *v, err *e)
{
    const engine_options *o = v->options;
    ckpt *c = NULL;
    int rc = o->model ? model_weights(&c, o->model, e) : OK;
    if (rc) return rc;
    json *root = json_new_object();
    json_add_str(root, "version", inferflow_version);
    describe_cpu(root);
    describe_kernels(root);
    describe_memory(root);
    json_add_array(root, "gpus");
    describe_build(root);
    if (c && v->json) describe_checkpoint(root, c);
    if (v->json) rc = app_print_json(root, e);
    else if (c) print_checkpoint(c);
    else print_tree(root, "");
    json_free(root);
    ckpt_close(c);
    return rc;
}

const command command_info = {
    .name = "info",
    .summary = "CPU features and the kernels chosen, GPUs, build options, memory; tensors of a model",
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(engine_options),
    .notes = "With --model: the tensors (name, type, shape, bytes) and the metadata of a checkpoint.\n",
    .run = run_info,
};
