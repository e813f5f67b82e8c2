/* spec_check.c - see spec_check.h. What can be told without the model is told first, all of it; where nothing is wrong
 * with that, the model is opened as always, and its first mistake ends the check. */
#include "app/spec_check.h"

#include "app/settings.h"
#include "models/arch.h"
#include "models/compile/spec_unknown.h"
#include "models/compile/spec_unread.h"
#include "models/compile/spec_unused.h"
#include "models/compile/wrapped.h"
#include "models/model.h"
#include "models/spec/spec_load.h"

#include <string.h>

typedef struct checked {
    spec *s;
    ckpt *weights; /* NULL: no model, or one that cannot be opened */
    json *config;  /* of [model] config */
    mistakes wrong;
} checked;

static const json *config_of(const checked *c)
{
    return c->config ? c->config : c->weights && !ckpt_keys_have_arch(c->weights) ? ckpt_config(c->weights) : NULL;
}

/* Goes into the part of the configuration that the spec reads. */
static int enter_root(checked *c, err *e)
{
    json *text = NULL;
    int rc = c->s ? wrapped_config(&text, c->s, config_of(c), e) : OK;
    if (!text) return rc;
    json_free(c->config);
    c->config = text;
    return OK;
}

/* The file over the built-in spec of its model, where it needs one. */
static int load_spec(checked *c, const char *path, const char *model_path, err *e)
{
    char base[64];
    err ignored = {0}; /* it is told when the model is opened */
    int rc = spec_load_noting(&c->s, path, NULL, &c->wrong, e);
    if (rc) return rc;
    model_sources(&c->weights, &c->config, c->s, model_path, &ignored);
    if (spec_find(c->s, "network", "block") || !c->weights || ckpt_own_spec(c->weights)) return OK;
    if (arch_find(c->weights, c->config, base, sizeof base, &ignored)) return OK;
    spec_free(c->s);
    c->s = NULL;
    c->wrong.n = 0;
    c->wrong.lines.n = 0;
    return spec_load_noting(&c->s, path, base, &c->wrong, e);
}

static int mistakes_error(checked *c, const char *path, buf *out, err *e)
{
    const char *lines = buf_cstr(&c->wrong.lines);
    if (c->wrong.n == 1) return err_set(e, ERR_SPEC, "%.*s", (int)strcspn(lines, "\n"), lines);
    buf_str(out, lines);
    return err_set(e, ERR_SPEC, "%s: %d mistakes", path, c->wrong.n);
}

static int try_model(const char *path, const char *model_path, const char *ignored, buf *out, err *e)
{
    model *m;
    char hash[17];
    model_options o = {.spec_path = path, .model_path = model_path, .ignored_keys = ignored};
    int rc = model_open(&m, &o, e);
    if (rc) return rc;
    sha256_hex(m->prog->hash, 8, hash);
    buf_printf(out, "%s: fits %s: %d layers, %u tensors, %u ops, hash %s\n", path, ckpt_path(m->weights),
               m->prog->n_layer, m->prog->n_weight, m->prog->n_op, hash);
    model_close(m);
    return OK;
}

int spec_check(const char *path, const char *model_path, const char *ignored, buf *out, err *e)
{
    checked c = {0};
    buf unread = {0};
    int rc = load_spec(&c, path, model_path, e);
    if (!rc) rc = enter_root(&c, e);
    if (!rc) rc = settings_check(c.s, e);
    if (!rc && spec_find(c.s, "network", "block")) rc = spec_check_unused(c.s, e);
    bool has_model = c.s && (model_path || spec_text(c.s, "model", "path"));
    if (!rc && c.wrong.n) rc = mistakes_error(&c, path, out, e);
    else if (!rc && has_model) rc = try_model(path, model_path, ignored, out, e);
    else if (!rc) buf_printf(out, "%s: reads well; no model to try it on ([model] path, or --model)\n", path);
    if (c.s) spec_unknown_names(c.s, config_of(&c), out);
    if (!rc && spec_unread_keys(c.s, config_of(&c), &unread))
        buf_printf(out, "keys of its configuration that no line reads: %s\n", buf_cstr(&unread));
    if (!rc && (out->bad || unread.bad)) rc = err_memory(e, NULL);
    buf_free(&unread);
    buf_free(&c.wrong.lines);
    spec_free(c.s);
    ckpt_close(c.weights);
    json_free(c.config);
    return rc;
}
