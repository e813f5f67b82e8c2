/* prefix_tree.c - see prefix_tree.h. */
#include "cache/prefix_tree.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

int tree_open(prefix_tree *t, page_pool *pool, int n_group, page_pool *slots, err *e)
{
    int64_t cap = 256; /* nodes whose pages are gone stay while nodes after them have some */
    *t = (prefix_tree){.n_group = n_group + (slots->total > 0), .free = -1, .slots = slots->total ? n_group : -1};
    for (int g = 0; g < n_group; g++) t->pool[g] = &pool[g], cap += 2 * (int64_t)pool[g].total;
    if (t->slots >= 0) t->pool[t->slots] = slots, cap += 2 * SNAPSHOT_PAGES * (int64_t)slots->total;
    t->cap = (int32_t)(cap > INT32_MAX / 2 ? INT32_MAX / 2 : cap);
    t->node = mem_array((size_t)cap, sizeof *t->node);
    t->bucket = mem_array((size_t)cap, sizeof *t->bucket);
    if (!t->node || !t->bucket) {
        tree_close(t);
        return err_memory(e, "names of KV pages");
    }
    for (int32_t i = 0; i < t->cap; i++) t->bucket[i] = -1;
    return OK;
}

void tree_close(prefix_tree *t)
{
    mem_free(t->node);
    mem_free(t->bucket);
    *t = (prefix_tree){0};
}

void tree_digest(const uint8_t *parent, const int32_t ids[PAGE_TOKENS], uint8_t digest[SHA256_BYTES])
{
    sha256 s;
    sha256_init(&s);
    if (parent) sha256_add(&s, parent, SHA256_BYTES);
    sha256_add(&s, ids, PAGE_TOKENS * sizeof *ids);
    sha256_end(&s, digest);
}

static int32_t *bucket_of(const prefix_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    uint64_t h = (uint64_t)parent;
    for (int i = 0; i < PAGE_TOKENS; i += 2) h = rng_mix(h ^ ((uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1]));
    return &t->bucket[h % (uint64_t)t->cap];
}

int32_t tree_find(const prefix_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    int32_t i = *bucket_of(t, parent, ids);
    while (i >= 0 && (t->node[i].parent != parent || memcmp(t->node[i].ids, ids, sizeof t->node[i].ids) != 0))
        i = t->node[i].next;
    return i;
}

void tree_forget(prefix_tree *t, int group, int32_t page)
{
    page_pool *p = t->pool[group];
    const int32_t node = p->use[page].node;
    p->use[page].node = -1;
    pages_drop(p, page);
    t->node[node].page[group] = -1;
    t->node[node].users++;
    tree_drop(t, node);
}

/* A kept page of the group makes room. */
static void forget_one(prefix_tree *t, int group)
{
    tree_forget(t, group, group == t->slots ? t->least_slot(t) : t->pool[group]->oldest);
}

/* A node that is free; where there is none, pages lose theirs. */
static int32_t take_node(prefix_tree *t)
{
    for (int g = 0; t->free < 0 && t->n == t->cap && g < t->n_group; g++)
        while (t->free < 0 && t->pool[g]->n_kept) forget_one(t, g);
    const int32_t i = t->free;
    if (i < 0) return t->n < t->cap ? t->n++ : -1;
    t->free = t->node[i].next;
    return i;
}

int32_t tree_use(prefix_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    int32_t i = tree_find(t, parent, ids);
    if (i < 0) {
        if (parent >= 0) tree_hold(t, parent); /* it does not go to make room */
        i = take_node(t);
        if (i < 0) {
            if (parent >= 0) tree_drop(t, parent);
            return -1;
        }
        prefix_node *m = &t->node[i];
        int32_t *bucket = bucket_of(t, parent, ids);
        *m = (prefix_node){.parent = parent, .next = *bucket};
        if (parent >= 0) m->depth = t->node[parent].depth + 1, t->node[parent].after++;
        for (int g = 0; g <= GROUP_MAX; g++) m->page[g] = -1;
        memcpy(m->ids, ids, sizeof m->ids);
        tree_digest(parent < 0 ? NULL : t->node[parent].digest, ids, m->digest);
        *bucket = i;
    }
    t->node[i].users++;
    return i;
}

void tree_hold(prefix_tree *t, int32_t node) { t->node[node].users++; }

static bool has_page(const prefix_tree *t, int32_t node)
{
    int g = 0;
    while (g < t->n_group && t->node[node].page[g] < 0) g++;
    return g < t->n_group;
}

void tree_drop(prefix_tree *t, int32_t node)
{
    while (node >= 0 && --t->node[node].users == 0 && !has_page(t, node)) {
        prefix_node *m = &t->node[node];
        int32_t *at = bucket_of(t, m->parent, m->ids);
        while (*at != node) at = &t->node[*at].next;
        *at = m->next;
        m->next = t->free;
        m->depth = -1;
        t->free = node;
        node = m->parent;
        if (node >= 0) t->node[node].after--;
    }
}

uint32_t tree_groups(const prefix_tree *t, int32_t node)
{
    uint32_t groups = 0;
    for (int i = 0; i < t->n_group; i++) groups |= (uint32_t)(t->node[node].page[i] >= 0) << i;
    return groups;
}

void tree_put(prefix_tree *t, int32_t node, int group, int32_t page)
{
    page_use *u = &t->pool[group]->use[page];
    if (t->node[node].page[group] >= 0 || u->node >= 0) return;
    t->node[node].page[group] = page;
    u->node = node;
}

int32_t tree_take(prefix_tree *t, int group)
{
    page_pool *p = t->pool[group];
    if (!p->n_free && !p->n_kept) return -1;
    if (!p->n_free) forget_one(t, group);
    return pages_take(p);
}

void tree_clear(prefix_tree *t)
{
    for (int g = 0; g < t->n_group; g++)
        while (t->pool[g]->n_kept) tree_forget(t, g, t->pool[g]->oldest);
}
