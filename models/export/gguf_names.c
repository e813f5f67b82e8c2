/* gguf_names.c - see gguf_names.h: in a GGUF file the tensor of the weight, then the names with gguf: in [tensors]. */
#include "models/export/gguf_names.h"

#include "base/mem.h"
#include "models/compile/bind.h"
#include "models/export/export_state.h"
#include "models/spec/spec_split.h"

#include <string.h>

struct gguf_names {
    exporter *x;
};

int gguf_names_open(gguf_names **out, const model *m, err *e)
{
    err none = {0}; /* a family without names in GGUF is no error here */
    gguf_names *g = mem_zero(1, sizeof *g);
    *out = NULL;
    if (g) g->x = mem_zero(1, sizeof *g->x);
    if (!g || !g->x) {
        mem_free(g);
        return err_memory(e, NULL);
    }
    *g->x = (exporter){.m = m, .s = m->resolved, .values = model_values(m), .kind = EXPORT_GGUF, .e = &none};
    int rc = export_find_names(g->x);
    g->x->e = NULL;
    if (rc == ERR_MEMORY) {
        gguf_names_close(g);
        return err_memory(e, NULL);
    }
    if (rc) g->x->names = NULL;
    *out = g;
    return OK;
}

void gguf_names_close(gguf_names *g)
{
    if (!g) return;
    export_close(g->x);
    mem_free(g);
}

/* Appends a name that is not there yet; false: no memory. */
static bool add_name(gguf_names *g, const char *name, const char **out, size_t *n)
{
    bool whole = str_ends(name, ".weight");
    const char *full = arena_printf(&g->x->mem, "%s%s", name, whole ? "" : ".weight");
    if (!full) return false;
    for (size_t i = 0; i < *n; i++)
        if (strcmp(out[i], full) == 0) return true;
    if (*n + 1 < GGUF_NAMES_MAX) out[(*n)++] = full;
    return true;
}

int gguf_names_of(gguf_names *g, const weight *w, const char *out[GGUF_NAMES_MAX], err *e)
{
    exporter *x = g->x;
    int layer;
    bool bias, kept = true;
    char slot[EXPORT_SLOT], key[160];
    size_t n = 0;
    if (strcmp(ckpt_source(x->m->weights), export_source(x)) == 0)
        kept = add_name(g, ckpt_at(x->m->weights, w->pieces[0].entry)->name, out, &n);
    export_split_name(w->name, &layer, slot, &bias);
    bind_key(key, sizeof key, slot, layer, NULL);
    const spec_row *row = x->names ? spec_find(x->names, "tensors", key) : NULL;
    span rest = row ? span_str(row->text) : (span){0}, part;
    while (kept && split_next(&rest, '|', &part)) {
        recipe how;
        int rc = part.n ? recipe_parse(&how, x->values, &x->mem, part, layer, row->where, e) : OK;
        if (rc) return rc;
        bool of_stack = part.n && str_ends(how.name, "_exps"), fits = !of_stack || w->parts > 1;
        if (part.n && strcmp(how.source, "gguf") == 0 && !how.tail && fits) kept = add_name(g, how.name, out, &n);
    }
    out[n] = NULL;
    return kept ? OK : err_memory(e, NULL);
}
