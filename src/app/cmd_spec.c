/* cmd_spec.c - `inferflow spec`: shows, checks, derives, imports and lists specs (spec_text.h). */
#include "app/app.h"
#include "engine/engine.h"
#include "base/file.h"
#include "models/import/import.h"
#include "models/model.h"
#include "app/spec_check.h"
#include "app/spec_text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct import_flags {
    const char *name, *output;
} import_flags;

typedef struct spec_options {
    engine_options model;
    import_flags import;
} spec_options;

#define ROW(field, ...) PARAM_ROW(import_flags, field, PARAM_TEXT, __VA_ARGS__)
static const param import_rows[] = {
    ROW(name, .words = "ID", .doc = "import: which model of a service's configuration"),
    ROW(output, .words = "FILE", .alias = "o", .path = PATH_OUT, .doc = "write there instead of standard output"),
};
static const size_t n_import_rows = sizeof import_rows / sizeof *import_rows;

static const flag_group flags[] = {{"Import", import_rows, &n_import_rows, offsetof(spec_options, import)},
                                   PROGRAM_FLAGS(spec_options, model),
                                   {NULL, NULL, NULL, 0}};

static int show_spec(const engine_options *o, const char *path, buf *out, err *e)
{
    model *m;
    model_options mo = {.spec_path = o->spec,
                        .model_path = o->model,
                        .weights = o->weights,
                        .ctx = (int)o->ctx,
                        .ignored_keys = o->ignore_key};
    if (path) mo.spec_path = path;
    int rc = model_open(&m, &mo, e);
    if (rc) return rc;
    rc = model_spec_text(m, out, e);
    model_close(m);
    return rc;
}

static int check_spec(const engine_options *o, const char *path, buf *out, err *e)
{
    return path ? spec_check(path, o->model, o->ignore_key, out, e) : err_set(e, ERR_USAGE, "spec check: which file?");
}

/* Turns a file of the original Inferflow into a spec. With --model the spec names that path and fits its tensors. */
static int import(const spec_options *o, const char *path, buf *out, err *e)
{
    ckpt *weights = NULL;
    const char *given = o->model.model;
    if (!path) return err_set(e, ERR_USAGE, "spec import: which file?");
    int rc = given ? model_weights(&weights, given, e) : OK;
    char *full = given ? realpath(given, NULL) : NULL;
    if (!rc) rc = import_file(path, o->import.name, full ? full : given, weights, out, e);
    free(full);
    ckpt_close(weights);
    return rc;
}

static int make_text(const invocation *v, buf *out, err *e)
{
    const spec_options *all = v->options;
    const engine_options *o = &all->model;
    const char *what = v->operand[0], *path = v->n_operand > 1 ? v->operand[1] : NULL;
    if (strcmp(what, "show") == 0) return show_spec(o, path, out, e);
    if (strcmp(what, "check") == 0) return check_spec(o, path ? path : o->spec, out, e);
    if (strcmp(what, "import") == 0) return import(all, path, out, e);
    if (path) return err_set(e, ERR_USAGE, "spec %s takes no file", what);
    if (strcmp(what, "derive") == 0) return spec_text_derive(o->model, out, e);
    if (strcmp(what, "list") == 0) return spec_text_list(out, e);
    if (strcmp(what, "modules") != 0)
        return err_set(e, ERR_USAGE, "spec: '%s' is not one of show, derive, check, import, list, modules", what);
    return spec_text_modules(out) ? OK : err_memory(e, NULL);
}

static int write_file(const char *path, const buf *text, err *e)
{
    file_out *f;
    int rc = file_create(&f, path, e);
    if (rc) return rc;
    rc = file_write(f, text->p, text->n, e);
    if (!rc) return file_commit(f, e);
    file_abandon(f);
    return rc;
}

static int run_spec(const invocation *v, err *e)
{
    buf out = {0};
    int rc = make_text(v, &out, e);
    const char *to = ((const spec_options *)v->options)->import.output;
    const bool start = rc == ERR_SPEC && out.n && strcmp(v->operand[0], "derive") == 0; /* better than nothing */
    if (to && (!rc || start)) {
        err own = {0};
        if (write_file(to, &out, &own)) *e = own, rc = own.code;
    } else if (!rc || start || strcmp(v->operand[0], "check") == 0) {
        fwrite(out.p, 1, out.n, stdout);
    }
    buf_free(&out);
    return rc;
}

const command command_spec = {
    .name = "spec",
    .summary = "show, check and list the specs that describe models",
    .operands = "show [FILE]|derive|check FILE|import FILE|list|modules",
    .operand_min = 1,
    .operand_max = 2,
    .first_file = 1,
    .flags = flags,
    .options_size = sizeof(spec_options),
    .notes = "spec show     the spec of a model with every value resolved; it loads again\n"
             "spec derive   a starting spec for --model: its family, or one that fits its tensors, with the\n"
             "              evidence as comments; status 1 where it does not load yet\n"
             "spec check    a spec file, against its model when it names one or --model does\n"
             "spec import   a model_spec.json or inferflow_service.ini of the original Inferflow as a spec\n"
             "spec list     the built-in specs and the architectures they are for\n"
             "spec modules  what slots can be: modules, options, weights\n",
    .run = run_spec,
};
