/* settings.c - see settings.h. A flag group is known by its rows. The section of a command that takes only some of
 * the rows is not read: its other keys are for other commands. */
#include "app/settings.h"

#include "app/generation_config.h"
#include "engine/engine.h"
#include "models/model.h"
#include "sample/strategy.h"
#include "serve/server.h"
#include "models/spec/spec_load.h"

#include <stdio.h>

static const struct {
    const char *section;
    const param *rows;
    const size_t *n;
} speaks_for[] = {{"runtime", engine_param_rows, &engine_param_count},
                  {"serve", serve_param_rows, &serve_param_count},
                  {"chat", chat_param_rows, &chat_param_count},
                  {"generate", sample_param_rows, &sample_param_count}};

static const char *section_of(const flag_group *g)
{
    for (size_t i = 0; i < sizeof speaks_for / sizeof *speaks_for; i++)
        if (speaks_for[i].rows == g->rows && speaks_for[i].n == g->n) return speaks_for[i].section;
    return NULL;
}

/* The struct that a group of these rows fills; NULL: the command has none. */
static void *options_of(const invocation *v, const param *rows)
{
    for (const flag_group *g = v->cmd->flags; g && g->title; g++)
        if (g->rows == rows) return (char *)v->options + g->offset;
    return NULL;
}

int settings_open(spec **out, const invocation *v, err *e)
{
    const engine_options *o = options_of(v, engine_param_rows);
    *out = NULL;
    return o && o->spec ? spec_load(out, o->spec, NULL, e) : OK;
}

const char *settings_sampled_model(spec *over, const invocation *v)
{
    const engine_options *o = options_of(v, engine_param_rows);
    const char *path = o ? o->model : NULL;
    err ignored = {0};
    if (!options_of(v, sample_param_rows)) return NULL;
    if (!path && over && spec_path(over, "model", "path", &path, &ignored)) return NULL;
    return path;
}

void settings_of_model(const char *path, invocation *v)
{
    static token_list bans; /* the engine copies them */
    sample_params *to = options_of(v, sample_param_rows);
    engine_options *o = options_of(v, engine_param_rows);
    char where[300];
    ckpt *c;
    err why = {0};
    const sample_params before = *to;
    if (model_weights(&c, path, &why)) return; /* whoever opens the model says so */
    bans.n = 0;
    snprintf(where, sizeof where, "%.250s/generation_config.json", ckpt_dir(c));
    generation_config_read(ckpt_side_json(c, "generation_config.json", &why), where, to, &bans);
    sample_note_source(v->sample_source, "model's file", &before, to);
    o->bans = bans.id;
    o->n_bans = (int32_t)bans.n;
    ckpt_close(c);
}

const char *settings_strategy(const invocation *v)
{
    const sample_params *p = options_of(v, sample_param_rows);
    return p ? p->strategy : NULL;
}

int settings_of_strategy(invocation *v, const char *name, err *e)
{
    sample_params *p = options_of(v, sample_param_rows);
    const sample_params before = *p;
    p->strategy = name;
    int rc = strategy_apply(p, "--strategy", e);
    sample_note_source(v->sample_source, "strategy", &before, p);
    return rc;
}

/* [generate]; its keys override what its strategy says, wherever they stand. */
static int apply_generate(spec *s, sample_params *p, err *e)
{
    int rc = spec_settings(s, "generate", sample_param_rows, sample_param_count, p, e);
    if (rc || !p->strategy) return rc;
    rc = strategy_apply(p, "[generate] strategy", e);
    const char *name = p->strategy;
    if (!rc) rc = spec_settings(s, "generate", sample_param_rows, sample_param_count, p, e);
    p->strategy = name;
    return rc;
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

int settings_apply(spec *s, invocation *v, err *e)
{
    int rc = check_place(s, e);
    for (const flag_group *g = v->cmd->flags; g && g->title && !rc; g++) {
        const char *section = section_of(g);
        void *to = (char *)v->options + g->offset;
        if (section && g->rows == sample_param_rows) {
            const sample_params before = *(sample_params *)to;
            rc = apply_generate(s, to, e);
            sample_note_source(v->sample_source, "spec", &before, to);
        } else if (section) {
            rc = spec_settings(s, section, g->rows, *g->n, to, e);
        }
    }
    return rc == ERR_USAGE && e ? (e->code = ERR_SPEC) : rc;
}

int settings_check(spec *s, err *e)
{
    engine_options run;
    serve_options serve;
    chat_options chat;
    sample_params sample = {0};
    int rc = mistake_noted(s->noted, check_place(s, e), e);
    if (!rc) rc = spec_settings(s, "runtime", engine_param_rows, engine_param_count, &run, e);
    if (!rc) rc = spec_settings(s, "serve", serve_param_rows, serve_param_count, &serve, e);
    if (!rc) rc = spec_settings(s, "chat", chat_param_rows, chat_param_count, &chat, e);
    if (!rc) rc = apply_generate(s, &sample, e);
    return rc == ERR_USAGE && e ? (e->code = ERR_SPEC) : rc;
}
