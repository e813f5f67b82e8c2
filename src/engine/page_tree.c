/* page_tree.c - see page_tree.h. */
#include "engine/page_tree.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

int tree_open(page_tree *t, page_pool *pool, int n_group, page_pool *slots, err *e)
{
    int64_t cap = 256; /* names whose pages are gone stay while names after them have some */
    *t = (page_tree){.n_group = n_group + (slots->total > 0), .free = -1, .slots = slots->total ? n_group : -1};
    for (int g = 0; g < n_group; g++) t->pool[g] = &pool[g], cap += 2 * (int64_t)pool[g].total;
    if (t->slots >= 0) t->pool[t->slots] = slots, cap += 2 * SNAPSHOT_PAGES * (int64_t)slots->total;
    t->cap = (int32_t)(cap > INT32_MAX / 2 ? INT32_MAX / 2 : cap);
    t->name = mem_array((size_t)cap, sizeof *t->name);
    t->bucket = mem_array((size_t)cap, sizeof *t->bucket);
    if (!t->name || !t->bucket) {
        tree_close(t);
        return err_set(e, ERR_MEMORY, "out of memory for names of KV pages");
    }
    for (int32_t i = 0; i < t->cap; i++) t->bucket[i] = -1;
    return OK;
}

void tree_close(page_tree *t)
{
    mem_free(t->name);
    mem_free(t->bucket);
    *t = (page_tree){0};
}

void tree_digest(const uint8_t *parent, const int32_t ids[PAGE_TOKENS], uint8_t digest[SHA256_BYTES])
{
    sha256 s;
    sha256_init(&s);
    if (parent) sha256_add(&s, parent, SHA256_BYTES);
    sha256_add(&s, ids, PAGE_TOKENS * sizeof *ids);
    sha256_end(&s, digest);
}

static int32_t *bucket_of(const page_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    uint64_t h = (uint64_t)parent;
    for (int i = 0; i < PAGE_TOKENS; i += 2) h = rng_mix(h ^ ((uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1]));
    return &t->bucket[h % (uint64_t)t->cap];
}

int32_t tree_find(const page_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    int32_t i = *bucket_of(t, parent, ids);
    while (i >= 0 && (t->name[i].parent != parent || memcmp(t->name[i].ids, ids, sizeof t->name[i].ids) != 0))
        i = t->name[i].next;
    return i;
}

/* Takes its name from the oldest page that is kept in a group. */
static void forget_oldest(page_tree *t, int group)
{
    page_pool *p = t->pool[group];
    page_use *u = &p->use[p->oldest];
    const int32_t name = u->name;
    u->name = -1;
    pages_drop(p);
    t->name[name].page[group] = -1;
    t->name[name].users++;
    tree_drop(t, name);
}

/* A name that is free; where there is none, pages lose theirs. */
static int32_t take_name(page_tree *t)
{
    for (int g = 0; t->free < 0 && t->n == t->cap && g < t->n_group; g++)
        while (t->free < 0 && t->pool[g]->n_kept) forget_oldest(t, g);
    const int32_t i = t->free;
    if (i < 0) return t->n < t->cap ? t->n++ : -1;
    t->free = t->name[i].next;
    return i;
}

int32_t tree_use(page_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS])
{
    int32_t i = tree_find(t, parent, ids);
    if (i < 0) {
        if (parent >= 0) tree_hold(t, parent); /* it does not go to make room */
        i = take_name(t);
        if (i < 0) {
            if (parent >= 0) tree_drop(t, parent);
            return -1;
        }
        page_name *m = &t->name[i];
        int32_t *bucket = bucket_of(t, parent, ids);
        *m = (page_name){.parent = parent, .next = *bucket};
        for (int g = 0; g <= GROUP_MAX; g++) m->page[g] = -1;
        memcpy(m->ids, ids, sizeof m->ids);
        tree_digest(parent < 0 ? NULL : t->name[parent].digest, ids, m->digest);
        *bucket = i;
    }
    t->name[i].users++;
    return i;
}

void tree_hold(page_tree *t, int32_t name) { t->name[name].users++; }

static bool has_page(const page_tree *t, int32_t name)
{
    int g = 0;
    while (g < t->n_group && t->name[name].page[g] < 0) g++;
    return g < t->n_group;
}

void tree_drop(page_tree *t, int32_t name)
{
    while (name >= 0 && --t->name[name].users == 0 && !has_page(t, name)) {
        page_name *m = &t->name[name];
        int32_t *at = bucket_of(t, m->parent, m->ids);
        while (*at != name) at = &t->name[*at].next;
        *at = m->next;
        m->next = t->free;
        t->free = name;
        name = m->parent;
    }
}

uint32_t tree_groups(const page_tree *t, int32_t name)
{
    uint32_t groups = 0;
    for (int i = 0; i < t->n_group; i++) groups |= (uint32_t)(t->name[name].page[i] >= 0) << i;
    return groups;
}

void tree_put(page_tree *t, int32_t name, int group, int32_t page)
{
    page_use *u = &t->pool[group]->use[page];
    if (t->name[name].page[group] >= 0 || u->name >= 0) return;
    t->name[name].page[group] = page;
    u->name = name;
}

int32_t tree_take(page_tree *t, int group)
{
    page_pool *p = t->pool[group];
    if (!p->n_free && !p->n_kept) return -1;
    if (!p->n_free) forget_oldest(t, group);
    return pages_take(p);
}

void tree_clear(page_tree *t)
{
    for (int g = 0; g < t->n_group; g++)
        while (t->pool[g]->n_kept) forget_oldest(t, g);
}
