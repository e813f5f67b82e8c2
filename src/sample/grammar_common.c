/* grammar_common.c - see grammar_common.h. A pair gets its number when the walk finds it, so mostly before its
 * successors: marking alive pairs from the last to the first takes few passes. */
#include "sample/grammar_common.h"

#include "base/mem.h"

typedef struct walk {
    common_nodes *c;
    grammar_builder *by;
    const grammar_nodes *g;
} walk;

static size_t slot_of(const common_nodes *c, uint32_t a, uint32_t b)
{
    const uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 32) & (c->slots - 1);
    while (c->slot[i] && (c->node[c->slot[i] - 1].a != a || c->node[c->slot[i] - 1].b != b))
        i = (i + 1) & (c->slots - 1);
    return i;
}

static bool more_slots(common_nodes *c)
{
    uint32_t *old = c->slot;
    const size_t slots = c->slots ? 2 * c->slots : 1024;
    uint32_t *slot = mem_zero(slots, sizeof *slot);
    if (!slot) return false;
    c->slot = slot;
    c->slots = slots;
    for (size_t i = 0; i < c->n; i++) slot[slot_of(c, c->node[i].a, c->node[i].b)] = (uint32_t)i + 1;
    mem_free(old);
    return true;
}

/* The common node of two nodes, which is made if there is none. */
static uint32_t pair_of(walk *w, uint32_t a, uint32_t b)
{
    common_nodes *c = w->c;
    void *p = c->node;
    if (!grammar_builder_good(w->by, c->cap * sizeof *c->node + c->slots * sizeof *c->slot)) return 0;
    if ((c->n >= c->slots / 2 && !more_slots(c)) || !mem_grow(&p, &c->cap, c->n + 1, sizeof *c->node)) {
        err_memory(w->by->e, "a grammar");
        return 0;
    }
    c->node = p;
    uint32_t *slot = &c->slot[slot_of(c, a, b)];
    if (*slot) return *slot - 1;
    c->node[c->n] = (common_node){.a = a, .b = b, .kind = NODE_DEAD};
    *slot = (uint32_t)++c->n;
    return *slot - 1;
}

/* Where the pair goes on. */
static common_node follow_node(walk *w, common_node x)
{
    const grammar_node *a = &w->g->node[x.a], *b = &w->g->node[x.b];
    if (a->kind == NODE_DEAD || b->kind == NODE_DEAD) return x;
    if (a->kind == NODE_SPLIT || b->kind == NODE_SPLIT) {
        const bool first = a->kind == NODE_SPLIT;
        x.kind = NODE_SPLIT;
        x.next = first ? pair_of(w, a->next, x.b) : pair_of(w, x.a, b->next);
        x.arg = first ? pair_of(w, a->arg, x.b) : pair_of(w, x.a, b->arg);
    } else if (a->kind == NODE_END && b->kind == NODE_END) {
        x.kind = NODE_END;
        x.alive = true;
    } else if (a->kind == NODE_SET && b->kind == NODE_SET) {
        uint64_t some = 0;
        for (int i = 0; i < 4; i++) some |= x.set.bit[i] = w->g->set[a->arg].bit[i] & w->g->set[b->arg].bit[i];
        if (!some) return x;
        x.kind = NODE_SET;
        x.next = pair_of(w, a->next, b->next);
    }
    return x;
}

static void mark_alive(walk *w)
{
    common_nodes *c = w->c;
    for (bool changed = true; changed && grammar_builder_good(w->by, 0);) {
        changed = false;
        for (size_t i = c->n; i-- > 0;) {
            common_node *x = &c->node[i];
            const bool goes_on = (x->kind == NODE_SET || x->kind == NODE_SPLIT) && c->node[x->next].alive;
            if (x->alive || (!goes_on && (x->kind != NODE_SPLIT || !c->node[x->arg].alive))) continue;
            x->alive = changed = true;
        }
    }
}

int common_nodes_make(common_nodes *out, grammar_builder *by, const grammar_nodes *g, uint32_t a, uint32_t b)
{
    *out = (common_nodes){0};
    walk w = {out, by, g};
    if (!by->e->code) pair_of(&w, a, b);
    for (size_t i = 0; i < out->n && !by->e->code; i++) {
        const common_node x = follow_node(&w, out->node[i]); /* the array may have moved */
        out->node[i] = x;
    }
    if (!by->e->code) mark_alive(&w);
    return by->e->code;
}

void common_nodes_free(common_nodes *c)
{
    mem_free(c->node);
    mem_free(c->slot);
    *c = (common_nodes){0};
}
