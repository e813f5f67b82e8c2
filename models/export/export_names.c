/* export_names.c - the names of weights in another container: the alternative on their line that has their form. */
#include "models/compile/bind.h"
#include "models/export/export_state.h"
#include "models/spec/spec_split.h"

#include <stdio.h>
#include <string.h>

/* "dec.3.attn.q.bias" -> layer 3, slot "attn.q", bias; "enc.3.attn.q" -> layer ENCODER + 3, slot "enc.attn.q". */
void export_split_name(const char *name, int *layer, char slot[EXPORT_SLOT], bool *bias)
{
    const char *p = strchr(name, '.');
    int used = 0;
    p = p ? p + 1 : name;
    *layer = OUTSIDE;
    const bool enc = strncmp(name, "enc.", 4) == 0;
    if (sscanf(p, "%d.%n", layer, &used) == 1 && used) p += used;
    else *layer = OUTSIDE;
    if (enc && *layer != OUTSIDE) *layer += ENCODER;
    snprintf(slot, EXPORT_SLOT, "%s%s", enc ? "enc." : "", p);
    size_t n = strlen(slot);
    *bias = n > 5 && str_ends(slot, ".bias");
    if (*bias) slot[n - 5] = 0;
}

/* Whether an alternative is for this container and (unless any_form) has the form of the weight: names of stacks (a
 * range; GGUF's "_exps") are for stacks of matrices. */
static bool name_fits(const exporter *x, const recipe *how, bool stack, bool any_form)
{
    bool gguf = strcmp(how->source, "gguf") == 0, hf = !*how->source || strcmp(how->source, "hf") == 0;
    bool of_stack = how->tail || (gguf && str_ends(how->name, "_exps"));
    return (x->kind == EXPORT_GGUF ? gguf : hf) && (stack || any_form || !of_stack) && !how->through && !how->kernel;
}

int export_first_name(exporter *x, const spec_row *row, int layer, bool stack, recipe *out, bool *any)
{
    *any = false;
    for (int any_form = 0; any_form < 2 && !*any; any_form++) {
        span rest = span_str(row->text), part;
        while (!*any && split_next(&rest, '|', &part)) {
            if (part.n == 0) continue;
            int rc = recipe_parse(out, x->values, &x->mem, part, layer, row->where, x->e);
            if (rc) return rc;
            *any = name_fits(x, out, stack, any_form);
        }
    }
    return OK;
}

const char *export_full_name(exporter *x, const out_name *name, int64_t k)
{
    const recipe *how = &name->how;
    const char *prefix = spec_text(x->names, "tensors", "prefix"), *end = name->bias ? ".bias" : ".weight",
               *full = how->name;
    span first = {0}, rest = prefix ? span_str(prefix) : (span){0};
    if (how->tail) full = arena_printf(&x->mem, "%s%lld%s", how->name, (long long)(how->from + k), how->tail);
    if (!full) return NULL;
    if (x->kind == EXPORT_HF && !*how->source && strcmp(name->slot, "head") != 0) split_next(&rest, '|', &first);
    size_t n = strlen(full);
    bool of_weight = name->bias && !name->own_line; /* the line is the weight's */
    if (of_weight && str_ends(full, ".weight")) n -= strlen(".weight");
    if (!of_weight && (name->own_line || how->bare || str_ends(full, ".weight") || str_ends(full, ".bias"))) end = "";
    return arena_printf(&x->mem, "%.*s%.*s%s", (int)first.n, first.n ? (const char *)first.p : "", (int)n, full, end);
}

/* How many tensors hold the weight, and how many matrices each. */
static int count_tensors(exporter *x, const weight *w, const char *key, out_name *out)
{
    const recipe *how = &out->how;
    int64_t range = how->tail ? how->to - how->from : 0, parts = w->parts ? w->parts : range ? range : 1;
    if ((range && range != parts) || w->rows % parts)
        return err_set(x->e, ERR_SPEC, "%s: %s: %lld rows in %lld parts do not fill the tensors that the line names",
                       x->names->file, key, (long long)w->rows, (long long)parts);
    out->tensors = range ? range : 1;
    out->matrices = parts / out->tensors;
    out->stacked = !how->tail && w->parts && !how->flat;
    return OK;
}

int export_find_name(exporter *x, const weight *w, out_name *out)
{
    int layer;
    bool any = false;
    char key[160], slot[EXPORT_SLOT];
    export_split_name(w->name, &layer, slot, &out->bias);
    bind_key(key, sizeof key, slot, layer, NULL);
    size_t n = strlen(key);
    snprintf(key + n, sizeof key - n, ".bias");
    const spec_row *row = out->bias ? spec_find(x->names, "tensors", key) : NULL;
    out->own_line = row != NULL;
    key[n] = 0;
    if (!row) row = spec_find(x->names, "tensors", key);
    int rc = row ? export_first_name(x, row, layer, w->parts > 0, &out->how, &any) : OK;
    if (rc) return rc;
    if (!any)
        return err_set(x->e, ERR_SPEC,
                       "%s: [tensors] has no %s name for %s, so the model cannot be written in that form; %s",
                       x->names->file, export_source(x), key, export_hint(x->m, x->kind));
    if (out->bias && !out->own_line)
        out->how.transpose = out->how.exponential = false, out->how.mul = 1, out->how.add = 0, out->how.cols = 0;
    if ((float)out->how.mul == 0)
        return err_set(x->e, ERR_SPEC, "%s: %s: what was multiplied by 0 cannot be written back", x->names->file, key);
    if (!(out->slot = arena_str(&x->mem, slot))) return export_oom(x);
    return count_tensors(x, w, key, out);
}
