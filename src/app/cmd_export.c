/* cmd_export.c - `inferflow export`: writes the loaded model as a Hugging Face folder or a GGUF file.
 *
 * What models/export.h describes is written here, with the tokenizer beside it or inside it. The result is read back before the
 * command says that it is done: an output whose program differs from the model's is removed again. */
#include "app/app.h"
#include "app/gguf_file.h"
#include "app/side_files.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/span.h"
#include "engine/engine.h"
#include "models/export.h"
#include "text/tokenizer_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct export_flags {
    const char *out;
} export_flags;

typedef struct export_options {
    export_flags own;
    engine_options model;
} export_options;

static const param rows[] = {
    {"output", PARAM_TEXT, offsetof(export_flags, out), NULL, 0, 0, "PATH",
     "a folder, or a file whose name ends in .gguf", "o"},
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Export", rows, &n_rows, offsetof(export_options, own)}, PROGRAM_FLAGS(export_options, model), {0}};

/* Endings of files that other programs keep models in: nobody means a folder by them. */
static const char *const file_endings[] = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".onnx", ".json"};

/* ---- the folder */

static int write_bytes(const char *dir, const char *name, span bytes, err *e)
{
    file_out *f;
    char *path = file_join(dir, name);
    if (!path) return err_set(e, ERR_MEMORY, "out of memory");
    int rc = file_create(&f, path, e);
    if (!rc) {
        rc = file_write(f, bytes.p, bytes.n, e);
        if (rc) file_abandon(f);
        else rc = file_commit(f, e);
    }
    mem_free(path);
    return rc;
}

static int copy_file(const char *from, const char *dir, const char *name, err *e)
{
    file_mapping *m;
    int rc = file_map(&m, from, e);
    if (rc) return rc;
    rc = write_bytes(dir, name, file_bytes(m), e);
    file_unmap(m);
    return rc;
}

/* Under what name a tokenizer file lies in a folder: by its own where that is a usual one, else by its kind. */
static const char *usual_name(const char *path)
{
    const char *name;
    for (size_t i = 0; (name = side_file_name(i)); i++)
        if (str_ends(path, name)) return name;
    return str_ends(path, ".json") ? "tokenizer.json" : str_ends(path, ".bin") ? "tokenizer.bin" : "tokenizer.model";
}

static int copy_from_folder(const char *from, const char *dir, int *copied, err *e)
{
    int rc = OK;
    const char *name;
    for (size_t i = 0; (name = side_file_name(i)) && !rc; i++) {
        char *path = file_join(from, name);
        if (!path) return err_set(e, ERR_MEMORY, "out of memory");
        if (file_exists(path) && !(rc = copy_file(path, dir, name, e))) ++*copied;
        mem_free(path);
    }
    return rc;
}

static int copy_tokenizer(const model *m, const engine_options *o, const char *dir, int *copied, err *e)
{
    const char *given = o->tokenizer ? o->tokenizer : m->tokenizer_path;
    if (given && !file_is_dir(given)) {
        *copied = 1;
        return copy_file(given, dir, usual_name(given), e);
    }
    const char *from = given ? given : ckpt_dir(m->weights);
    bool folder = given || (from[0] && strcmp(ckpt_format(m->weights), "gguf") != 0 &&
                            strcmp(ckpt_format(m->weights), "llama2c") != 0);
    return folder ? copy_from_folder(from, dir, copied, e) : OK;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    bool there = path && file_exists(path);
    mem_free(path);
    return there;
}

/* tokenizer.json of a tokenizer that came from another kind of file. */
static int make_tokenizer(const engine_options *o, const char *dir, bool copied, err *e)
{
    tokenizer *t;
    buf file = {0}, config = {0};
    err why = {0};
    int rc = tokenizer_choose(&t, o, &why);
    if (!rc) {
        rc = tokenizer_to_json(t, &file, &config, &why);
        tokenizer_close(t);
    }
    if (rc == ERR_NOT_FOUND) {
        if (!copied) log_line(LOG_WARN, "the folder will hold no tokenizer: %s", why.msg);
        rc = OK;
    } else if (rc) {
        err_set(e, rc, "%s", why.msg);
    } else {
        rc = write_bytes(dir, "tokenizer.json", buf_span(&file), e);
        if (!rc && !has_file(dir, "tokenizer_config.json"))
            rc = write_bytes(dir, "tokenizer_config.json", buf_span(&config), e);
    }
    buf_free(&file);
    buf_free(&config);
    return rc;
}

static int write_tokenizer(const model *m, const engine_options *o, const char *dir, err *e)
{
    int copied = 0, rc = copy_tokenizer(m, o, dir, &copied, e);
    return rc || has_file(dir, "tokenizer.json") ? rc : make_tokenizer(o, dir, copied, e);
}

/* The folder and those above it that are missing. */
static int make_folder(const char *dir, err *e)
{
    if (mkdir(dir, 0777) == 0 || errno == EEXIST) return OK;
    char *above = errno == ENOENT ? file_dir(dir) : NULL;
    bool has_above = above && strcmp(above, dir) != 0 && strcmp(above, ".") != 0;
    int rc = has_above ? make_folder(above, e) : OK;
    mem_free(above);
    if (rc) return rc;
    return mkdir(dir, 0777) == 0 || errno == EEXIST ? OK : err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
}

/* Copies `folder`/`name` of the model, if it is there; folder "": beside the weights. */
static int copy_side(const model *m, const char *folder, const char *name, const char *dir, err *e)
{
    char *inside = *folder ? file_join(folder, name) : mem_str(name);
    char *from = inside ? file_join(ckpt_dir(m->weights), inside) : NULL, *to = file_join(dir, folder);
    int rc = from && to ? OK : err_set(e, ERR_MEMORY, "out of memory");
    if (!rc && file_exists(from)) {
        if (*folder) rc = make_folder(to, e);
        if (!rc) rc = copy_file(from, dir, inside, e);
    }
    mem_free(inside);
    mem_free(from);
    mem_free(to);
    return rc;
}

/* What says how a text becomes one vector: modules.json, what lies beside it, and the configuration of each module. A module in a
 * folder that is none of the model's is left alone. */
static int copy_modules(const model *m, const char *dir, err *e)
{
    static const char *const files[] = {"modules.json", "sentence_bert_config.json",
                                        "config_sentence_transformers.json"};
    int rc = OK;
    if (!m->texts.found) return OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !rc; i++) rc = copy_side(m, "", files[i], dir, e);
    const json *modules = ckpt_side_json(m->weights, "modules.json", e);
    for (const json *one = json_first(modules); one && !rc; one = json_next(one)) {
        const char *folder = json_str(json_get(one, "path"), "");
        if (*folder && !strchr(folder, '/') && folder[0] != '.') rc = copy_side(m, folder, "config.json", dir, e);
    }
    return rc;
}

static int write_folder(const model *m, const engine_options *o, const exporter *x, const char *dir, err *e)
{
    size_t n;
    buf text = {0};
    const write_tensor *t = export_tensors(x, &n);
    int rc = make_folder(dir, e);
    if (rc) return rc;
    json *metadata = json_new_object();
    char *path = file_join(dir, "model.safetensors");
    rc = path && json_add_str(metadata, "format", "pt") ? OK : err_set(e, ERR_MEMORY, "out of memory");
    if (!rc && !json_print(&text, export_config(x), true)) rc = err_set(e, ERR_MEMORY, "out of memory");
    if (!rc) rc = write_safetensors(path, t, n, metadata, e);
    if (!rc) rc = write_bytes(dir, "config.json", buf_span(&text), e);
    if (!rc) rc = copy_modules(m, dir, e);
    if (!rc) rc = write_tokenizer(m, o, dir, e);
    json_free(metadata);
    mem_free(path);
    buf_free(&text);
    return rc;
}

/* ---- the command */

static void remove_output(const char *path, bool is_file)
{
    static const char *const made[] = {"model.safetensors", "config.json"};
    if (is_file) unlink(path);
    for (size_t i = 0; !is_file && i < sizeof made / sizeof *made; i++) {
        char *full = file_join(path, made[i]);
        if (full) unlink(full);
        mem_free(full);
    }
    if (!is_file) rmdir(path); /* only if nothing else is in it */
}

static int export_model(const model *m, const export_options *o, dtype type, err *e)
{
    exporter *x;
    bool gguf = str_ends(o->own.out, ".gguf");
    int rc = export_open(&x, m, gguf ? EXPORT_GGUF : EXPORT_HF, type, e);
    if (rc) return rc;
    rc = gguf ? gguf_file_write(m, &o->model, x, o->own.out, 0, e) : write_folder(m, &o->model, x, o->own.out, e);
    export_close(x);
    if (!rc) rc = ckpt_check_torn(m->weights, e);
    if (rc) return rc;
    rc = export_check(m, o->own.out, e);
    if (rc) remove_output(o->own.out, gguf);
    return rc;
}

static int run_export(const invocation *v, err *e)
{
    const export_options *o = v->options;
    const model_options mo = {
        .spec_path = o->model.spec, .model_path = o->model.model, .act = "f32", .ctx = (int)o->model.ctx};
    const char *weights = o->model.weights && !strcmp(o->model.weights, "q8") ? "q8_0" : o->model.weights;
    dtype type = weights ? dtype_by_name(weights) : DTYPE_NONE;
    model *m;
    if (!o->own.out)
        return err_set(e, ERR_USAGE, "where to? -o DIR writes a Hugging Face folder, -o FILE.gguf a GGUF file");
    if (weights && type == DTYPE_NONE) return err_set(e, ERR_USAGE, "--weights: there is no type '%s'", weights);
    for (size_t i = 0; i < sizeof file_endings / sizeof *file_endings; i++)
        if (str_ends(o->own.out, file_endings[i]) && !file_is_dir(o->own.out))
            return err_set(e, ERR_USAGE,
                           "-o %s: a file is written for the ending .gguf only; without one, a folder is (with "
                           "model.safetensors, config.json and the tokenizer)",
                           o->own.out);
    int rc = model_open(&m, &mo, e);
    if (rc) return rc;
    if (file_same(o->own.out, ckpt_path(m->weights)) || file_same(o->own.out, ckpt_dir(m->weights)))
        rc = err_set(e, ERR_USAGE, "-o %s: is where the model itself lies", o->own.out);
    else rc = export_model(m, o, type, e);
    model_close(m);
    if (!rc) printf("%s\n", o->own.out);
    return rc;
}

const command command_export = {
    .name = "export",
    .summary = "write the model as a Hugging Face folder or a GGUF file",
    .flags = flags,
    .options_size = sizeof(export_options),
    .notes = "--weights is the type to write: f32, f16, bf16, and for GGUF also q8_0, q5_0, q5_1, q4_0, q4_1, mxfp4.\n"
             "Example: inferflow export --model stories.bin --tokenizer tok512.bin -o stories.gguf --weights q8_0\n",
    .run = run_export,
};
