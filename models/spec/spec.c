/* spec.c - see spec.h: asking the tree. */
#include "models/spec/spec.h"

#include "base/file.h"
#include "base/mem.h"
#include "models/spec/spec_keys.h"

#include <stdio.h>
#include <string.h>

const spec_row *spec_find(const spec *s, const char *section, const char *key)
{
    char both[256];
    size_t a = strlen(section), b = strlen(key);
    if (a + b + 1 > sizeof both) return NULL;
    memcpy(both, section, a + 1);
    memcpy(both + a + 1, key, b);
    uint32_t i = map_get(&s->by_key, span_of(both, a + 1 + b));
    return i == MAP_NONE ? NULL : &s->rows[i];
}

const char *spec_text(const spec *s, const char *section, const char *key)
{
    const spec_row *r = spec_find(s, section, key);
    return r ? r->text : NULL;
}

static spec_row *use(spec *s, const char *section, const char *key)
{
    const spec_row *found = spec_find(s, section, key);
    spec_row *r = found ? &s->rows[found - s->rows] : NULL;
    if (r) r->used = true;
    return r;
}

const spec_row *spec_use(spec *s, const char *section, const char *key) { return use(s, section, key); }

int spec_value(spec *s, const char *section, const char *key, const spec_row **row, err *e)
{
    spec_row *r = use(s, section, key);
    *row = r;
    if (!r || r->value) return OK;
    char *where = arena_printf(&s->mem, "%s: %s", r->where, key);
    return where ? expr_parse(&r->value, &s->mem, r->text, where, e) : err_memory(e, "a spec");
}

int spec_path(spec *s, const char *section, const char *key, const char **out, err *e)
{
    const char *p = *out = spec_text(s, section, key);
    if (!p || !*s->dir || strcmp(s->dir, ".") == 0 || strcmp(p, "builtin") == 0) return OK;
    char *joined = file_join(s->dir, p);
    *out = joined ? arena_str(&s->mem, joined) : NULL;
    mem_free(joined);
    return *out ? OK : err_memory(e, "a spec");
}

int spec_settings(spec *s, const char *section, const param *rows, size_t n, void *into, err *e)
{
    size_t n_own;
    const param *own = spec_section_rows(section, &n_own);
    for (size_t i = 0; i < s->n; i++) {
        const spec_row *r = &s->rows[i];
        if (strcmp(r->section, section) != 0 || (own && param_find(own, n_own, r->key))) continue;
        const param *p = param_find(rows, n, r->key);
        char where[300];
        snprintf(where, sizeof where, "%s: [%s] %s", r->where, section, r->key);
        const char *near = p ? NULL : param_nearest(rows, n, r->key), *text = r->text;
        int rc = p ? OK
                   : err_set(e, ERR_SPEC, "%s: unknown key%s%s%s", where, near ? ": did you mean '" : "",
                             near ? near : "", near ? "'?" : "");
        if (p && p->path) rc = spec_path(s, section, r->key, &text, e);
        if (p && !rc) rc = param_set(p, into, text, where, e);
        if ((rc = mistake_noted(s->noted, rc, e))) return rc;
    }
    return OK;
}

void spec_free(spec *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_slot; i++) mem_free(s->slots[i].options);
    mem_free(s->slots);
    mem_free(s->classes);
    mem_free(s->rows);
    buf_free(&s->replaced);
    map_free(&s->by_key);
    arena_free(&s->mem);
    mem_free(s);
}
