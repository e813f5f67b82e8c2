/* settings.c - see settings.h. A flag group is known by its rows. The section of a command that takes only some of
 * the rows is not read: its other keys are for other commands. */
#include "app/settings.h"

#include "engine/engine.h"
#include "sample/sample.h"
#include "serve/server.h"
#include "models/spec/spec_load.h"

static const struct {
    const char *section;
    const param *rows;
    const size_t *n;
} speaks_for[] = {{"runtime", engine_param_rows, &engine_param_count},
                  {"serve", serve_param_rows, &serve_param_count},
                  {"generate", sample_param_rows, &sample_param_count}};

static const char *section_of(const flag_group *g)
{
    for (size_t i = 0; i < sizeof speaks_for / sizeof *speaks_for; i++)
        if (speaks_for[i].rows == g->rows && speaks_for[i].n == g->n) return speaks_for[i].section;
    return NULL;
}

int settings_open(spec **out, const invocation *v, err *e)
{
    *out = NULL;
    for (const flag_group *g = v->cmd->flags; g && g->title; g++) {
        if (g->rows != engine_param_rows) continue;
        const engine_options *o = (const void *)((const char *)v->options + g->offset);
        if (o->spec) return spec_load(out, o->spec, NULL, e);
    }
    return OK;
}

/* Refuses keys of [runtime] that have a place in another section. */
static int check_place(const spec *s, err *e)
{
    static const char *const elsewhere[][2] = {{"model", "[model] path"},
                                               {"spec", "[model] base"},
                                               {"tokenizer", "[tokenizer] path"},
                                               {"pre", "[tokenizer] pre"}};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        const spec_row *r = spec_find(s, "runtime", elsewhere[i][0]);
        if (r) return err_set(e, ERR_SPEC, "%s: [runtime] %s: say it as %s", r->where, r->key, elsewhere[i][1]);
    }
    return OK;
}

int settings_apply(spec *s, const invocation *v, err *e)
{
    int rc = check_place(s, e);
    for (const flag_group *g = v->cmd->flags; g && g->title && !rc; g++) {
        const char *section = section_of(g);
        if (section) rc = spec_settings(s, section, g->rows, *g->n, (char *)v->options + g->offset, e);
    }
    return rc == ERR_USAGE && e ? (e->code = ERR_SPEC) : rc;
}

int settings_check(spec *s, err *e)
{
    engine_options run;
    serve_options serve;
    sample_params sample;
    int rc = mistake_noted(s->noted, check_place(s, e), e);
    if (!rc) rc = spec_settings(s, "runtime", engine_param_rows, engine_param_count, &run, e);
    if (!rc) rc = spec_settings(s, "serve", serve_param_rows, serve_param_count, &serve, e);
    if (!rc) rc = spec_settings(s, "generate", sample_param_rows, sample_param_count, &sample, e);
    return rc == ERR_USAGE && e ? (e->code = ERR_SPEC) : rc;
}
