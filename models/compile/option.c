/* option.c - see option.h. */
#include "models/compile/option.h"

#include <stdio.h>
#include <string.h>

static int check_known(const option_slot *o, const char *path, err *e)
{
    for (int i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->from[i]->n; k++) {
            const slot_option *p = &o->from[i]->options[k];
            if (param_find(o->mod->params, o->mod->n_params, p->key)) continue;
            const char *near = param_nearest(o->mod->params, o->mod->n_params, p->key);
            return err_set(e, ERR_SPEC, "%s: %s: %s has no option '%s'%s%s%s", p->where, path, o->mod->name, p->key,
                           near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
    return OK;
}

static bool is_list(const param *row) { return row->words && strcmp(row->words, MODULE_LIST_OPTION) == 0; }

int option_value(const option_slot *o, config_eval *values, const param *row, int layer, value *out, const char **where,
                 err *e)
{
    const char *words = row->type == PARAM_WORD ? row->words : NULL;
    for (int i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->from[i]->n; k++) {
            const slot_option *p = &o->from[i]->options[k];
            if (strcmp(p->key, row->key) != 0) continue;
            char place[400];
            snprintf(place, sizeof place, "%s: %s.%s", p->where, o->from[i]->name, p->key);
            *where = p->where;
            return config_value(values, p->value, layer, words, place, out, e);
        }
    *where = o->where;
    return config_name(values, row->key, layer, out, e);
}

static int set(const param *row, const value *v, void *into, const char *place, err *e)
{
    if (v->kind == VALUE_TEXT) return param_set(row, into, v->text, place, e);
    if (v->kind == VALUE_BOOL && row->type == PARAM_WORD)
        return param_set(row, into, v->number != 0 ? "true" : "false", place, e);
    if (v->kind == VALUE_BOOL || v->kind == VALUE_NUMBER) return param_set_number(row, into, v->number, place, e);
    return err_set(e, ERR_SPEC, "%s: a list or object does not fit here", place);
}

/* The option where a slot gives it; NULL where none does. */
static const slot_option *given_as(const option_slot *o, const param *row)
{
    for (int i = 0; i < o->n; i++)
        for (size_t k = 0; k < o->from[i]->n; k++)
            if (strcmp(o->from[i]->options[k].key, row->key) == 0) return &o->from[i]->options[k];
    return NULL;
}

static bool required(const param *row)
{
    return !row->otherwise && (row->type == PARAM_INT || row->type == PARAM_FLOAT);
}

int option_fill(const option_slot *o, config_eval *values, const char *path, int layer, void *into, err *e)
{
    int rc = check_known(o, path, e);
    if (rc) return rc;
    param_defaults(o->mod->params, o->mod->n_params, into);
    for (size_t i = 0; i < o->mod->n_params; i++) {
        const param *row = &o->mod->params[i];
        const char *where;
        value v;
        if (is_list(row)) continue;
        if ((rc = option_value(o, values, row, layer, &v, &where, e))) return rc;
        char place[600];
        int at = snprintf(place, sizeof place, "%.300s: %.60s.%s", where, path, row->key);
        const slot_option *given = given_as(o, row);
        const bool named = !given || strstr(given->text, row->key); /* attn = scale = 2 * scale */
        const spec_row *name = named ? config_definition(values, row->key, layer) : NULL;
        if (name)
            snprintf(place + at, sizeof place - (size_t)at, " (%.100s: %s = %.120s)", name->where, name->key,
                     name->text);
        if (v.kind != VALUE_NONE) rc = set(row, &v, into, place, e);
        else if (row->type == PARAM_WORD && given) /* a misspelt word is a name without value */
            rc = err_set(e, ERR_SPEC,
                         "%s has no value: it is one of %s, or a name that may be absent and then '| WORD'", place,
                         row->words);
        else if (required(row))
            rc = err_set(e, ERR_SPEC,
                         "%s has no value: give it here or as a name in [config]; the model's configuration "
                         "has none of the keys that were asked for",
                         place);
        if (rc && named) config_blame(values, row->key, layer, e);
        if (rc) return rc == ERR_USAGE && e ? (e->code = ERR_SPEC) : rc;
    }
    return OK;
}
