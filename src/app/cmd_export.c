/* cmd_export.c - `inferflow export`: writes the loaded model as a Hugging Face folder or a GGUF file.
 *
 * models/export describes the tensors and metadata; the tokenizer goes beside them (app/export_folder.h) or inside.
 * The result is read back before it takes its place: an output whose program differs from the model's is removed. */
#include "app/app.h"
#include "app/checked_file.h"
#include "app/export_folder.h"
#include "app/gguf_file.h"
#include "base/file.h"
#include "base/log.h"
#include "base/span.h"

#include <stdio.h>
#include <string.h>

typedef struct export_flags {
    const char *out;
} export_flags;

typedef struct export_options {
    export_flags own;
    engine_options model;
} export_options;

static const param rows[] = {
    {"output", PARAM_TEXT, offsetof(export_flags, out), NULL, 0, 0, "PATH",
     "a folder, or a file whose name ends in .gguf", "o", PATH_EXPORT},
};
static const size_t n_rows = sizeof rows / sizeof *rows;

static const flag_group flags[] = {
    {"Export", rows, &n_rows, offsetof(export_options, own)}, PROGRAM_FLAGS(export_options, model), {0}};

/* Endings of model files that this command does not write; a folder is hardly meant by them. */
static const char *const file_endings[] = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".onnx", ".json"};

static int write_file(const model *m, const export_options *o, exporter *x, err *e)
{
    char *name = checked_file_name(o->own.out);
    int rc = name ? gguf_file_write(m, &o->model, x, name, 0, e) : err_memory(e, NULL);
    if (!rc) rc = ckpt_check_torn(m->weights, e);
    if (!rc) rc = export_check(m, name, e);
    return checked_file_end(name, o->own.out, rc, e);
}

/* Says that quantized tensors became f32. */
static void say_widened(const exporter *x, const char *path)
{
    if (export_widens(x))
        log_line(
            LOG_INFO,
            "%s: what was quantized is written as f32, which holds it exactly; with --weights f16 or bf16 it takes "
            "half the space",
            path);
}

static void say_of_folder(const exporter *x, const char *dir)
{
    const char *class = export_class_apart(x);
    if (class)
        log_line(LOG_WARN,
                 "%s: transformers has no class %s of its own: it needs the Python files of the family in the folder, "
                 "named under auto_map in config.json",
                 dir, class);
}

static int export_model(const model *m, const export_options *o, dtype type, err *e)
{
    exporter *x;
    bool gguf = str_ends(o->own.out, ".gguf");
    int rc = export_open(&x, m, gguf ? EXPORT_GGUF : EXPORT_HF, type, e);
    if (rc) return rc;
    rc = gguf ? write_file(m, o, x, e) : export_folder_write(m, &o->model, x, o->own.out, e);
    if (!rc) say_widened(x, o->own.out);
    if (!rc && !gguf) say_of_folder(x, o->own.out);
    export_close(x);
    return rc;
}

static int run_export(const invocation *v, err *e)
{
    const export_options *o = v->options;
    const model_options mo = {.spec_path = o->model.spec,
                              .model_path = o->model.model,
                              .act = "f32",
                              .written = true,
                              .ctx = (int)o->model.ctx,
                              .ignored_keys = o->model.ignore_key};
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
    rc = export_model(m, o, type, e);
    model_close(m);
    if (!rc) printf("%s\n", o->own.out);
    return rc;
}

const command command_export = {
    .name = "export",
    .summary = "write the model as a Hugging Face folder or a GGUF file",
    .flags = flags,
    .options_size = sizeof(export_options),
    .notes = "--weights is the type to write: f32, f16, bf16, and for GGUF also block types such as q8_0. Without\n"
             "it types stay, but quantized tensors that the form has no type for become f32, which holds them\n"
             "exactly: f16 or bf16 take half the space. A folder that holds another model is left alone; one\n"
             "that an export wrote is replaced once the new one is right.\n"
             "\n"
             "  inferflow export --model stories.bin --tokenizer tok512.bin -o stories.gguf --weights q8_0\n",
    .run = run_export,
};
