/* quantized_names.c - see quantized_names.h. */
#include "models/export/quantized_names.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* "dec.3.attn.q": the 3 between "dec" and "attn.q". */
typedef struct split {
    bool enc;
    int layer; /* -1: in none */
    const char *slot;
} split;

static split split_name(const char *name)
{
    split s = {.enc = strncmp(name, "enc.", 4) == 0, .layer = -1, .slot = name + 4};
    char *end;
    long n = strtol(s.slot, &end, 10);
    if (end > s.slot && *end == '.') s.layer = (int)n, s.slot = end + 1;
    return s;
}

/* A line: a slot in all layers. */
typedef struct line {
    split from, to; /* of the first layer */
    int32_t *layer; /* [layers]: the layer whose tensor each uses */
    int layers;
    bool moved; /* some use another layer's */
} line;

typedef struct lines {
    line *v;
    size_t n, cap;
    map by_key;
    arena mem;
} lines;

/* NULL: out of memory. */
static line *line_of(lines *l, const program *p, split from, split to)
{
    const char *key = arena_printf(&l->mem, "%c%c%s", from.enc ? 'e' : 'd', from.layer < 0 ? '-' : 'i', from.slot);
    uint32_t at = key ? map_get_str(&l->by_key, key) : MAP_NONE;
    if (at != MAP_NONE) return &l->v[at];
    int layers = from.layer < 0 ? 0 : from.enc ? p->n_enc : p->n_layer;
    if (!key || !mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v) ||
        !map_put(&l->by_key, span_str(key), (uint32_t)l->n))
        return NULL;
    line *new = &l->v[l->n];
    *new = (line){.from = from, .to = to, .layers = layers, .layer = arena_array(&l->mem, (size_t)layers + 1, 4)};
    if (!new->layer) return NULL;
    for (int i = 0; i < layers; i++) new->layer[i] = i;
    l->n++;
    return new;
}

static int add_line(lines *l, const program *p, const bound *b, err *e)
{
    split from = split_name(b->name), to = b->weight ? split_name(p->tensors[b->weight].name) : from;
    line *at = line_of(l, p, from, to);
    if (!at) return err_memory(e, NULL);
    bool alike = to.enc == at->to.enc && strcmp(to.slot, at->to.slot) == 0 && (to.layer < 0) == (at->to.layer < 0);
    if (!alike || from.layer >= at->layers)
        return err_set(e, ERR_SPEC, "%s and %s share a tensor, other layers do not: this cannot be written", b->name,
                       p->tensors[b->weight].name);
    if (from.layer < 0 || to.layer < 0) return OK;
    at->layer[from.layer] = to.layer;
    at->moved |= to.layer != from.layer;
    return OK;
}

static void print(const line *l, buf *out)
{
    const char *side = l->to.enc ? "enc" : "dec";
    buf_printf(out, "%s%s%s = ", l->from.enc ? "enc." : "", l->from.layer < 0 ? "" : "{i}.", l->from.slot);
    if (l->to.layer < 0) {
        buf_printf(out, "%s.%s\n", side, l->to.slot);
    } else if (l->from.layer < 0) {
        buf_printf(out, "%s.%d.%s\n", side, l->to.layer, l->to.slot);
    } else if (!l->moved) {
        buf_printf(out, "%s.{i}.%s\n", side, l->to.slot);
    } else {
        buf_printf(out, "%s.{[", side);
        for (int i = 0; i < l->layers; i++) buf_printf(out, "%s%d", i ? "," : "", l->layer[i]);
        buf_printf(out, "][i]}.%s\n", l->to.slot);
    }
}

int quantized_names(const model *m, buf *out, err *e)
{
    const program *p = m->prog;
    lines l = {0};
    int rc = OK;
    for (uint32_t i = 0; i < p->n_bound && !rc; i++) rc = add_line(&l, p, &p->bounds[i], e);
    for (size_t i = 0; i < l.n && !rc; i++) print(&l.v[i], out);
    if (!rc && out->bad) rc = err_memory(e, NULL);
    mem_free(l.v);
    map_free(&l.by_key);
    arena_free(&l.mem);
    return rc;
}
