/* cmd_info.c - `inferflow info`: this machine and what this build uses of it; the tensors and metadata of a model, with
 * --hash its identity (core/program.h) and what its tensors hold (io/contents.h). */
#include "app/app.h"
#include "app/flags.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/version.h"
#include "core/arithmetic.h"
#include "cpu/cpu.h"
#ifdef HAVE_CUDA
#include "cuda/cuda_image.h"
#endif
#include "engine/backend_list.h"
#include "engine/engine.h"
#include "io/contents.h"
#include "io/contents_cache.h"
#include "io/contents_disk.h"
#include "models/model.h"
#include "plan/devices.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

typedef struct info_flags {
    bool hash, verify;
    int64_t threads;
} info_flags;

typedef struct info_options {
    info_flags own;
    engine_options model;
} info_options;

static const param rows[] = {
    PARAM_ROW(info_flags, hash, PARAM_BOOL, .doc = "also the model's identity and the SHA-256 of each tensor"),
    PARAM_ROW(info_flags, verify, PARAM_BOOL,
              .doc = "reads the model's files from the disk, compares them with the digests that were kept of them"),
    PARAM_ROW(info_flags, threads, PARAM_INT, .max = 1024, .alias = "t",
              .doc = "threads that hash (default: the cores this process may use)"),
};
static const size_t n_rows = sizeof rows / sizeof *rows, n_model_rows = 2; /* --model, --spec */
static const flag_group flags[] = {{"Info", rows, &n_rows, offsetof(info_options, own)},
                                   {"Model", engine_param_rows, &n_model_rows, offsetof(info_options, model)},
                                   {0}};

/* A model to describe. */
typedef struct described {
    model *m; /* NULL: only the checkpoint is wanted, or no spec fits it */
    ckpt *own;
    const ckpt *c;
    contents hashes; /* with --hash */
} described;

static void close_described(described *d)
{
    contents_free(&d->hashes);
    model_close(d->m);
    ckpt_close(d->own);
}

static int hash_contents(described *d, const info_options *o, err *e)
{
    char *cache = contents_cache_folder();
    int threads = o->own.threads > 0 ? (int)o->own.threads : pool_default_threads();
    int rc = contents_hash(&d->hashes, d->c, cache, threads, e);
    mem_free(cache);
    return rc;
}

static int verify_files(const described *d, const info_options *o, err *e)
{
    char *cache = contents_cache_folder();
    const int rc = contents_verify(d->c, cache, o->own.threads > 0 ? (int)o->own.threads : pool_default_threads(), e);
    mem_free(cache);
    return rc;
}

/* With --hash a model that no spec fits has no identity, but contents. */
static int open_described(described *d, const info_options *o, err *e)
{
    const model_options wanted = {
        .model_path = o->model.model, .spec_path = o->model.spec, .ignored_keys = o->model.ignore_key};
    const char *path = o->model.model ? o->model.model : "builtin";
    err why = {0};
    int rc = o->own.hash ? model_open(&d->m, &wanted, &why) : OK;
    if (rc && (o->model.spec || why.code == ERR_MEMORY)) return err_copy(e, &why);
    if (!d->m && (rc = model_weights(&d->own, path, e))) return rc;
    d->c = d->m ? d->m->weights : d->own;
    if (why.code) log_line(LOG_WARN, "no identity: %s", why.msg);
    if (o->own.verify && (rc = verify_files(d, o, e))) return rc;
    return o->own.hash ? hash_contents(d, o, e) : OK;
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

/* The instruction set of the kernel chosen for each op; "c": the reference. */
static void describe_kernels(json *parent)
{
    const cpu_table *best = cpu_kernels(cpu_features(), false);
    json *kernels = json_add_object(parent, "kernels");
    json_add_str(kernels, "isa", best->isa);
    for (int k = 0; k < OP_COUNT && cpu_kernel(best, k); k++)
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

#define X(name, options) &name,
static const backend *const backends[] = {BACKEND_LIST(X)};
#undef X

/* What --devices may name. */
static void describe_devices(json *parent)
{
    json *list = json_add_array(parent, "devices");
    for (size_t k = 0; k < sizeof backends / sizeof *backends; k++) {
        const bool numbered = backends[k]->memory(0) != MEMORY_OF_PROCESS;
        device_here d;
        for (int i = numbered ? 0 : -1; device_look(backends[k], i, &d); i++) {
            json *one = json_add_object(list, NULL);
            json_add_str(one, "device", d.name);
            json_add_str(one, "name", d.info.name);
            json_add_int(one, "free_bytes", (int64_t)d.info.free_bytes);
            json_add_bool(one, "usable", !d.info.why);
            if (d.info.why) json_add_str(one, "why", d.info.why);
            if (!numbered) break;
        }
    }
}

/* Those of them that are GPUs: they have a memory of their own. */
static void describe_gpus(json *parent)
{
    json *list = json_add_array(parent, "gpus");
    for (size_t k = 0; k < sizeof backends / sizeof *backends; k++) {
        device_info d;
        for (int i = 0; backends[k]->memory(i) != MEMORY_OF_PROCESS && backends[k]->probe(i, &d); i++) {
            json *one = json_add_object(list, NULL);
            json_add_int(one, "index", i);
            json_add_str(one, "name", d.name);
            json_add_str(one, "sm", d.kind);
            json_add_int(one, "memory_bytes", (int64_t)d.total_bytes);
            json_add_int(one, "free_bytes", (int64_t)d.free_bytes);
            json_add_str(one, "driver", d.driver);
            json_add_bool(one, "software", d.software);
            json_add_bool(one, "usable", !d.why);
            if (d.why) json_add_str(one, "why", d.why);
        }
    }
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
#ifdef HAVE_CUDA
    char kinds[256];
    cuda_tell_build(kinds, sizeof kinds);
    json_add_str(b, "cuda", kinds);
#else
    json_add_str(b, "cuda", "none");
#endif
}

static void add_digest(json *to, const char *key, const uint8_t *digest)
{
    char hex[2 * SHA256_BYTES + 1];
    sha256_hex(digest, SHA256_BYTES, hex);
    json_add_str(to, key, hex);
}

static void describe_checkpoint(json *parent, const described *d)
{
    const ckpt *c = d->c;
    const bool hashed = d->hashes.tensor != NULL;
    json *to = json_add_object(parent, "model");
    const char *config = ckpt_describes_itself(c) ? "metadata" : "config";
    json_add_str(to, "path", ckpt_path(c));
    json_add_str(to, "format", ckpt_format(c));
    if (d->m) add_digest(to, "identity", d->m->prog->hash);
    else if (hashed) json_add_null(to, "identity");
    if (hashed) add_digest(to, "contents", d->hashes.all);
    if (ckpt_metadata(c)) json_add_copy(to, "metadata", ckpt_metadata(c));
    if (ckpt_config(c)) json_add_copy(to, config, ckpt_config(c));
    json *list = json_add_array(to, "tensors");
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        json *one = json_add_object(list, NULL);
        json_add_str(one, "name", t->name);
        json_add_str(one, "type", dtype_info[t->type].name);
        json *dims = json_add_array(one, "shape");
        for (int k = 0; k < t->dims.rank; k++) json_add_int(dims, NULL, t->dims.dim[k]);
        json_add_int(one, "bytes", (int64_t)t->bytes);
        if (hashed) add_digest(one, "sha256", d->hashes.tensor[i]);
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

/* Bytes by type, largest first: "q4_t 71 %, q6_b64 17 %". */
static void print_types(const program *p)
{
    uint64_t bytes[DTYPE_COUNT] = {0}, all = 0;
    for (uint32_t i = 0; i < p->n_weight; i++) {
        const weight *w = &p->weights[i];
        const dtype type = weight_held_type(w);
        const uint64_t n = (uint64_t)w->rows * dtype_row_bytes(type, (uint64_t)w->cols);
        bytes[type] += n;
        all += n;
    }
    for (int shown = 0; shown < 4; shown++) {
        int most = 0;
        for (int t = 1; t < DTYPE_COUNT; t++)
            if (bytes[t] > bytes[most]) most = t;
        if (200 * bytes[most] < all) break; /* it would be 0 % */
        printf("%s %s %.0f %%", shown ? "," : "", dtype_info[most].name, 100 * (double)bytes[most] / (double)all);
        bytes[most] = 0;
    }
}

/* What most people want to know, before the tensors: of a model that some spec fits. */
static void print_summary(const described *d)
{
    const model_options wanted = {.model_path = ckpt_path(d->c)};
    model *own = NULL;
    err why = {0};
    if (!d->m && model_open(&own, &wanted, &why)) {
        printf("%-26s none of the specs fits: %s\n", "model", why.msg);
        return;
    }
    const model *m = d->m ? d->m : own;
    double parameters = 0;
    int64_t vocab = 0;
    int layers = 0, layer;
    uint64_t file = 0;
    for (uint32_t i = 0; i < m->prog->n_weight; i++) {
        const weight *w = &m->prog->weights[i];
        parameters += (double)w->rows * (double)w->cols;
        if (strstr(w->name, ".token")) vocab = w->rows;
        if (sscanf(w->name, "%*[a-z].%d.", &layer) == 1 && layer >= layers) layers = layer + 1;
    }
    for (uint32_t i = 0; i < ckpt_count(d->c); i++) file += ckpt_at(d->c, i)->bytes;
    const char *unit = parameters < 1e6 ? "thousand" : parameters < 1e9 ? "million" : "billion";
    parameters /= parameters < 1e6 ? 1e3 : parameters < 1e9 ? 1e6 : 1e9;
    printf("%-26s %s, %d layers, %.3g %s parameters\n", "model", m->arch, layers, parameters, unit);
    printf("%-26s %.1f MiB:", "weights", (double)file / (1 << 20));
    print_types(m->prog);
    printf("\n%-26s %d tokens, of a vocabulary of %lld\n", "context", m->ctx, (long long)vocab);
    model_close(own);
}

static void print_checkpoint(const described *d)
{
    const ckpt *c = d->c;
    uint64_t bytes = 0;
    char hex[2 * SHA256_BYTES + 1] = "none";
    log_progress_end();
    print_summary(d);
    printf("%-26s %s\n%-26s %s\n", "path", ckpt_path(c), "format", ckpt_format(c));
    if (d->m) sha256_hex(d->m->prog->hash, SHA256_BYTES, hex);
    if (d->hashes.tensor) printf("%-26s %s\n", "identity", hex);
    sha256_hex(d->hashes.all, SHA256_BYTES, hex);
    if (d->hashes.tensor) printf("%-26s %s\n", "contents", hex);
    print_tree(ckpt_metadata(c), "metadata");
    print_tree(ckpt_config(c), ckpt_describes_itself(c) ? "metadata" : "config");
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        char dims[100] = "[";
        for (int k = 0, n = 1; k < t->dims.rank; k++)
            n += snprintf(dims + n, sizeof dims - (size_t)n, "%s%lld", k ? ", " : "", (long long)t->dims.dim[k]);
        print_safe(t->name, 56);
        printf(" %-8s %s] %llu bytes", dtype_info[t->type].name, dims, (unsigned long long)t->bytes);
        if (d->hashes.tensor) sha256_hex(d->hashes.tensor[i], SHA256_BYTES, hex);
        printf("%s%s\n", d->hashes.tensor ? " sha256 " : "", d->hashes.tensor ? hex : "");
        bytes += t->bytes;
    }
    printf("%u tensors, %llu bytes\n", ckpt_count(c), (unsigned long long)bytes);
}

static int run_info(const invocation *v, err *e)
{
    static const char *const alone[] = {"model", "json", NULL}, *const verified[] = {"model", "verify", "threads",
                                                                                     "json", NULL};
    const info_options *o = v->options;
    described d = {0};
    int rc = o->own.hash ? OK : flags_allow_only(v, o->own.verify ? verified : alone, "info without --hash", e);
    if (!rc && (o->own.hash || o->model.model)) rc = open_described(&d, o, e);
    json *root = rc ? NULL : json_new_object();
    if (!rc) {
        json_add_str(root, "version", inferflow_version);
        json_add_int(root, "arithmetic", ARITHMETIC);
        describe_cpu(root);
        describe_kernels(root);
        describe_memory(root);
        describe_devices(root);
        describe_gpus(root);
        describe_build(root);
        if (d.c && v->json) describe_checkpoint(root, &d);
        if (v->json) rc = app_print_json(root, e);
        else if (d.c) print_checkpoint(&d);
        else print_tree(root, "");
    }
    json_free(root);
    close_described(&d);
    return rc;
}

const command command_info = {
    .name = "info",
    .summary = "CPU features and the kernels chosen, build options, memory; tensors of a model",
    .prints_json = true,
    .flags = flags,
    .options_size = sizeof(info_options),
    .notes = "With --model: the tensors (name, type, shape, bytes) and the metadata of a checkpoint.\n"
             "\n"
             "With --hash: what the model is (`identity`: its spec, the names, types and shapes of its tensors\n"
             "and what is made of them, however they are divided among files), and what its tensors hold\n"
             "(`contents`, and a SHA-256 for each). Digests are kept in $XDG_CACHE_HOME/inferflow or\n"
             "~/.cache/inferflow until a file is changed.\n"
             "\n"
             "  inferflow info --model DIR --hash --json\n",
    .run = run_info,
};
