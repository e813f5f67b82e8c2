/* cmd_spec.c - `inferflow spec`: shows, checks and lists specs, and prints what they can say. The texts are made in models/. */
#include "app/app.h"
#include "app/settings.h"
#include "engine/engine.h"
#include "models/model.h"
#include "models/spec_text.h"

#include <stdio.h>
#include <string.h>

typedef struct spec_options {
    engine_options model;
} spec_options;

static const flag_group flags[] = {PROGRAM_FLAGS(spec_options, model), {NULL, NULL, NULL, 0}};

static int show(const engine_options *o, const char *path, buf *out, err *e)
{
    model *m;
    model_options mo = {.spec_path = o->spec, .model_path = o->model, .weights = o->weights, .ctx = (int)o->ctx};
    if (path) mo.spec_path = path;
    int rc = model_open(&m, &mo, e);
    if (rc) return rc;
    rc = model_spec_text(m, out, e);
    model_close(m);
    return rc;
}

static int check(const engine_options *o, const char *path, buf *out, err *e)
{
    spec *s;
    if (!path) return err_set(e, ERR_USAGE, "spec check: which file?");
    int rc = spec_load(&s, path, NULL, e);
    if (rc) return rc;
    rc = settings_check(s, e);
    spec_free(s);
    return rc ? rc : spec_text_check(path, o->model, out, e);
}

static int make_text(const invocation *v, buf *out, err *e)
{
    const engine_options *o = &((const spec_options *)v->options)->model;
    const char *what = v->operand[0], *path = v->n_operand > 1 ? v->operand[1] : NULL;
    if (strcmp(what, "show") == 0) return show(o, path, out, e);
    if (strcmp(what, "check") == 0) return check(o, path ? path : o->spec, out, e);
    if (path) return err_set(e, ERR_USAGE, "spec %s takes no file", what);
    if (strcmp(what, "derive") == 0) return spec_text_derive(o->model, out, e);
    if (strcmp(what, "list") == 0) return spec_text_list(out, e);
    if (strcmp(what, "modules") != 0)
        return err_set(e, ERR_USAGE, "spec: '%s' is not one of show, derive, check, list, modules", what);
    return spec_text_modules(out) ? OK : err_set(e, ERR_MEMORY, "out of memory");
}

static int run(const invocation *v, err *e)
{
    buf out = {0};
    int rc = make_text(v, &out, e);
    if (!rc) fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    return rc;
}

const command command_spec = {
    .name = "spec",
    .summary = "show, check and list the specs that describe models",
    .operands = "show [FILE]|derive|check FILE|list|modules",
    .operand_min = 1,
    .operand_max = 2,
    .flags = flags,
    .options_size = sizeof(spec_options),
    .notes = "spec show     the spec of a model with every value resolved; it loads again\n"
             "spec derive   the short spec of --model: its family and its path, to start a file of your own\n"
             "spec check    a spec file, against its model when it names one or --model does\n"
             "spec list     the built-in specs and the architectures they are for\n"
             "spec modules  what slots can be: modules, options, weights\n",
    .run = run,
};
