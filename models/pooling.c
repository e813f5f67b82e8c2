/* pooling.c - see pooling.h. */
#include "models/pooling.h"

#include "base/buf.h"
#include "base/span.h"
#include "models/spec/spec_load.h"
#include "models/spec/spec_slot.h"

#include <stdio.h>
#include <string.h>

/* The word for a pooling config: one of three modes, else NULL. Version 5 names the mode, earlier ones have flags. */
static const char *mode_of(const json *config)
{
    static const struct {
        const char *flag, *name, *how;
    } modes[] = {{"pooling_mode_cls_token", "cls", "cls"},
                 {"pooling_mode_mean_tokens", "mean", "mean"},
                 {"pooling_mode_lasttoken", "lasttoken", "last"}};
    const char *named = json_str(json_get(config, "pooling_mode"), NULL), *how = NULL;
    int on = 0;
    for (const json *m = json_first(config); m; m = json_next(m))
        on += strncmp(json_key(m), "pooling_mode_", 13) == 0 && json_bool(m, false);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (named ? strcmp(named, modes[i].name) == 0 : json_bool(json_get(config, modes[i].flag), false))
            how = modes[i].how;
    return named || on == 1 ? how : NULL;
}

static int read_pooling(pooling *p, ckpt *c, const char *folder, err *e)
{
    char name[300];
    snprintf(name, sizeof name, "%.250s/config.json", folder);
    const json *config = ckpt_side_json(c, name, e);
    if (e->code) return e->code;
    p->how = mode_of(config);
    p->pools = true;
    if (!p->how) p->unsupported_module = "a pooling that is neither cls, mean nor lasttoken";
    return OK;
}

/* What a GGUF file says, in words: llama.cpp numbers them. 0: nothing, and 4: a head scores texts (heads.c). */
static void read_own(pooling *p, const ckpt *c)
{
    static const char *const how[] = {NULL, "mean", "cls", "last", NULL};
    char key[160];
    snprintf(key, sizeof key, "%.120s.pooling_type", ckpt_arch(c));
    const int64_t type = json_int(json_get(ckpt_config(c), key), 0);
    if (type >= 0 && type < (int64_t)(sizeof how / sizeof *how)) p->how = how[type];
    else p->unsupported_module = "a pooling_type that is none of 0 to 4";
}

/* The activation of a Dense module by its class in torch; NULL: it has none here. */
static const char *activation_of(const json *config)
{
    static const char *const known[][2] = {{"Identity", "none"}, {"Tanh", "tanh"},       {"ReLU", "relu"},
                                           {"GELU", "gelu"},     {"Sigmoid", "sigmoid"}, {"SiLU", "silu"}};
    const char *class = json_str(json_get(config, "activation_function"), ".Tanh"), *dot = strrchr(class, '.');
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dot ? dot + 1 : class, known[i][0]) == 0) return known[i][1];
    return NULL;
}

/* A Dense module: its weights join those of the model. */
static int read_dense(pooling *p, ckpt *c, const char *folder, err *e)
{
    char name[300];
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (!*folder || strspn(folder, plain) != strlen(folder))
        return err_set(e, ERR_FORMAT, "modules.json: the Dense module's path \"%.80s\" is no name of a folder", folder);
    snprintf(name, sizeof name, "%.250s/config.json", folder);
    const json *config = ckpt_side_json(c, name, e);
    const char *act = activation_of(config),
               *input = json_str(json_get(config, "module_input_name"), "sentence_embedding");
    if (e->code) return e->code;
    if (!act || strcmp(input, "sentence_embedding") != 0 || !p->pools || p->n_dense == POOLING_DENSE_MAX) {
        p->unsupported_module = !act        ? "a Dense module whose activation_function is not one of this program's"
                                : !p->pools ? "a Dense module in front of the pooling"
                                            : "a Dense module that is not for the vectors of texts, or more than 8";
        return OK;
    }
    const int rc = ckpt_own_spec(c) ? OK : ckpt_add_part(c, folder, e); /* its spec names them */
    if (rc == ERR_NOT_FOUND) {
        *e = (err){0};
        p->unsupported_module = "a Dense module whose weights are not beside the model";
        return OK;
    }
    p->dense[p->n_dense++] = (pooling_dense){folder, act};
    p->normalize = false; /* what counts is the end */
    return rc;
}

static int read_side(pooling *p, ckpt *c, err *e)
{
    const json *j = ckpt_side_json(c, "sentence_bert_config.json", e);
    if (e->code) return e->code;
    int64_t length = json_int(json_get(j, "max_seq_length"), 0);
    p->max_tokens = length > 0 ? length : 0;
    j = ckpt_side_json(c, "config_sentence_transformers.json", e);
    const char *name = json_str(json_get(j, "default_prompt_name"), NULL);
    if (name) p->prompt = json_str(json_get(json_get(j, "prompts"), name), NULL);
    return e->code;
}

int pooling_read(pooling *out, ckpt *c, err *e)
{
    err own = {0};
    *out = (pooling){0};
    if (ckpt_describes_itself(c) && ckpt_keys_have_arch(c)) read_own(out, c);
    const json *modules = ckpt_side_json(c, "modules.json", &own);
    out->found = json_type(modules) == JSON_ARRAY;
    for (const json *m = out->found ? json_first(modules) : NULL; m && !own.code; m = json_next(m)) {
        const char *type = json_str(json_get(m, "type"), ""), *path = json_str(json_get(m, "path"), "");
        if (str_ends(type, ".Transformer")) continue;
        if (str_ends(type, ".Normalize")) out->normalize = true;
        else if (str_ends(type, ".Pooling")) read_pooling(out, c, path, &own);
        else if (str_ends(type, ".Dense")) read_dense(out, c, path, &own);
        else out->unsupported_module = type;
    }
    if (out->found && !own.code) read_side(out, c, &own);
    return err_copy(e, &own);
}

/* Gives a name of [config] a word, unless the user's spec file has the name and this source is weaker. A spec without a
 * folder is built in, not the user's. */
static int put_key(spec *s, const char *key, const char *text, bool strong, err *e)
{
    const spec_row *r = spec_find(s, "config", key);
    bool users = r && r->depth == 0 && *s->dir;
    return users && !strong ? OK : spec_put(s, "config", key, text, e);
}

/* The formula: the pooled row through the Dense modules, each a slot with the tensors of its folder. */
static int put_pooled(spec *s, const pooling *p, err *e)
{
    buf row = {0}, all = {0};
    int rc = OK;
    buf_str(&row, "pool(x)");
    for (int i = 0; i < p->n_dense && !rc; i++) {
        buf_str(&all, buf_cstr(&row));
        row.n = 0;
        buf_printf(&row, "linear.dense%d(%s)", i, buf_cstr(&all));
        all.n = 0;
        const char *slot = arena_printf(&s->mem, "linear.dense%d", i);
        const char *line = arena_printf(&s->mem, "out = -1, activation = %s", p->dense[i].activation);
        const char *tensor = arena_printf(&s->mem, "%s.linear", p->dense[i].folder);
        if (!slot || !line || !tensor) rc = err_memory(e, "a spec");
        if (!rc) rc = spec_slot_merge(s, "network", slot, line, s->file, false, e);
        if (!rc) rc = spec_put(s, "tensors", slot, tensor, e);
    }
    buf_printf(&all, "normalize ? l2(%s) : %s", buf_cstr(&row), buf_cstr(&row));
    if (!rc && (row.bad || all.bad)) rc = err_memory(e, "a spec");
    if (!rc) rc = spec_put(s, "network", "pooled", buf_cstr(&all), e);
    buf_free(&row);
    buf_free(&all);
    return rc;
}

int pooling_apply(spec *s, const pooling *p, const char *how, const char *normalize, err *e)
{
    const char *type = spec_text(s, "network", "type");
    bool encoder = type && strcmp(type, "encoder_only") == 0;
    const char *output = spec_text(s, "network", "output");
    const bool pair = type && strcmp(type, "encoder_decoder") == 0;
    /* a class that makes no text is there for its states, too */
    const bool bare = output && (strcmp(output, "states") == 0 || (strcmp(output, "labels") == 0 && !pair));
    bool said = bare || how || normalize || p->how || spec_find(s, "config", "pooling") ||
                spec_find(s, "network", "pooled");
    int rc = OK;
    if (!encoder && !said) return OK;
    if (how || p->how) rc = put_key(s, "pooling", how ? how : p->how, how != NULL, e);
    else if (!spec_find(s, "config", "pooling"))
        rc = put_key(s, "pooling", encoder ? "mean" : "(causal | true) ? last : mean", false, e);
    if (!rc && normalize) rc = put_key(s, "normalize", strcmp(normalize, "on") == 0 ? "true" : "false", true, e);
    else if (!rc && p->found) rc = put_key(s, "normalize", p->normalize ? "true" : "false", false, e);
    else if (!rc && !spec_find(s, "config", "normalize")) rc = put_key(s, "normalize", "true", false, e);
    if (rc || spec_find(s, "network", "pooled")) return rc;
    return put_pooled(s, p, e);
}
