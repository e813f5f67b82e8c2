/* spec_validate.c - see spec_validate.h: unknown keys with the nearest known one, expressions and formulas that do not
 * parse, layer classes without `where`. */
#include "models/spec/spec_validate.h"

#include "models/spec/spec_keys.h"

#include <stdio.h>
#include <string.h>

static int check_fixed(const spec_row *r, err *e)
{
    size_t n;
    const param *rows = spec_section_rows(r->section, &n);
    if (!rows || param_find(rows, n, r->key) || strcmp(r->section, "generate") == 0) return OK;
    const char *near = param_nearest(rows, n, r->key);
    return err_set(e, ERR_SPEC, "%s: [%s] unknown key '%s'%s%s%s", r->where, r->section, r->key,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool is_layer(const spec_row *r) { return strncmp(r->section, "layer ", 6) == 0; }

/* Keys of a layer: where, block, a slot (not a row), or a name that [config] defines. */
static int check_layer_key(const spec *s, const spec_row *r, err *e)
{
    if (strcmp(r->key, "where") == 0 || strcmp(r->key, "block") == 0 || spec_find(s, "config", r->key)) return OK;
    if (!spec_find(s, "network", "block")) return OK; /* no base yet: it may know the name */
    const char *near = NULL;
    int best = 3;
    for (size_t i = 0; i < s->n; i++) {
        int d = strcmp(s->rows[i].section, "config") == 0 ? edit_distance(r->key, s->rows[i].key) : 99;
        if (d < best) near = s->rows[i].key, best = d;
    }
    return err_set(e, ERR_SPEC, "%s: [%s] %s: neither a slot of [network] nor a name of [config]%s%s%s", r->where,
                   r->section, r->key, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool is_formula(const spec_row *r)
{
    if (strcmp(r->key, "block") == 0) return strcmp(r->section, "network") == 0 || is_layer(r);
    return strcmp(r->key, "enc.block") == 0 && strcmp(r->section, "network") == 0;
}

static bool is_expression(const spec_row *r)
{
    if (strcmp(r->section, "config") == 0 || strcmp(r->section, "config.json") == 0 ||
        strcmp(r->section, "gguf") == 0 || is_layer(r))
        return true;
    if (strcmp(r->section, "network") == 0) return strcmp(r->key, "type") != 0;
    return strcmp(r->section, "generate") == 0 && (strcmp(r->key, "bos") == 0 || strcmp(r->key, "eos") == 0 ||
                                                   strcmp(r->key, "start") == 0 || strcmp(r->key, "wrap") == 0);
}

/* a | b | 0: what was written where a file names no number. */
static bool ends_in_zero(const expr *v)
{
    const expr *last = v->kind == EXPR_ELSE ? v->arg[v->n_arg - 1] : NULL;
    return last && last->kind == EXPR_NUMBER && last->number == 0;
}

static int check_text(spec *s, spec_row *r, err *e)
{
    char where[300];
    snprintf(where, sizeof where, "%s: %s", r->where, r->key);
    const bool embed = strcmp(r->key, "embed") == 0 && strcmp(r->section, "network") == 0;
    if (is_formula(r) || (embed && formula_has_statements(r->text))) {
        formula f;
        bool sets_x = false;
        int rc = formula_parse(&f, &s->mem, r->text, where, e);
        for (size_t i = 0; !rc && i < f.n; i++) sets_x |= strcmp(f.at[i].name, "x") == 0;
        return rc || sets_x ? rc : err_set(e, ERR_SPEC, "%s: no statement gives x: a layer would be its input", where);
    }
    if (!is_expression(r)) return OK;
    const int rc = expr_parse(&r->value, &s->mem, r->text, where, e);
    if (rc || strcmp(r->key, "rope_dims") != 0 || !ends_in_zero(r->value)) return rc;
    return err_set(e, ERR_SPEC,
                   "%s: 0 says that no dimension rotates (it said all before): end with -1 for all, or leave it out",
                   where);
}

static int check_name(const spec_row *r, err *e)
{
    if (strcmp(r->section, "config") != 0 && !is_layer(r)) return OK;
    bool ok = strcmp(r->key, "i") != 0 && strcmp(r->key, "x") != 0;
    for (const char *c = r->key; *c; c++)
        ok &= (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
              (c > r->key && *c >= '0' && *c <= '9') || (c > r->key && *c == '.' && is_layer(r));
    return ok ? OK
              : err_set(e, ERR_SPEC, "%s: '%s' cannot be a name (letters, digits, '_'; not i or x)", r->where, r->key);
}

int spec_validate(spec *s, err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        spec_row *r = &s->rows[i];
        int rc = check_fixed(r, e);
        if (!rc && is_layer(r)) rc = check_layer_key(s, r, e);
        if (!rc) rc = check_name(r, e);
        if (!rc) rc = check_text(s, r, e);
        if ((rc = mistake_noted(s->noted, rc, e))) return rc;
    }
    for (size_t i = 0; i < s->n_class; i++) {
        if (spec_find(s, s->classes[i].section, "where")) continue;
        int rc = err_set(e, ERR_SPEC, "%s: [%s] needs a key `where` that says for which layers it is", s->file,
                         s->classes[i].section);
        if ((rc = mistake_noted(s->noted, rc, e))) return rc;
    }
    return OK;
}
