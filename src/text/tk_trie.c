/* tk_trie.c - see tk_trie.h. */
#include "text/tk_trie.h"

#include "base/mem.h"

#include <string.h>

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory building a trie"); }

static void insert(trie *t, uint32_t key, uint32_t node)
{
    size_t i = trie_slot(t, key);
    while (t->edge[i].node) i = (i + 1) & (t->cap - 1);
    t->edge[i] = (trie_edge){key, node};
}

static int grow(trie *t, err *e)
{
    size_t old_cap = t->cap;
    trie_edge *old = t->edge;
    t->cap = old_cap ? old_cap * 2 : 64;
    t->edge = mem_zero(t->cap, sizeof *t->edge);
    if (!t->edge) {
        t->edge = old;
        t->cap = old_cap;
        return no_memory(e);
    }
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].node) insert(t, old[i].key, old[i].node);
    mem_free(old);
    return OK;
}

static int add_node(trie *t, uint32_t *out, err *e)
{
    if (t->nodes >= TRIE_NODES_MAX) return err_set(e, ERR_LIMIT, "the pieces of the vocabulary are too long in sum");
    void *value = t->value;
    if (!mem_grow(&value, &t->value_cap, (size_t)t->nodes + 1, sizeof *t->value)) return no_memory(e);
    t->value = value;
    t->value[t->nodes] = -1;
    if (t->nodes % 8 == 0) {
        void *key = t->key;
        if (!mem_grow(&key, &t->key_cap, t->nodes / 8 + 1, 1)) return no_memory(e);
        t->key = key;
        t->key[t->nodes / 8] = 0;
    }
    *out = t->nodes++;
    return OK;
}

int trie_put(trie *t, span key, int32_t value, err *e)
{
    uint32_t node = 0, next;
    int rc;
    if (t->nodes == 0 && (rc = add_node(t, &next, e))) return rc;
    if (!t->cap && (rc = grow(t, e))) return rc;
    for (size_t i = 0; i < key.n; i++, node = next) {
        if ((next = trie_step(t, node, key.p[i]))) continue;
        if (t->cap / 2 < t->nodes && (rc = grow(t, e))) return rc;
        if ((rc = add_node(t, &next, e))) return rc;
        if (node == 0) t->root[key.p[i]] = next;
        else insert(t, node << 8 | key.p[i], next);
    }
    if (node) {
        t->value[node] = value;
        t->key[node >> 3] |= (uint8_t)(1u << (node & 7));
    }
    if (key.n > t->longest) t->longest = key.n;
    return OK;
}

void trie_free(trie *t)
{
    mem_free(t->edge);
    mem_free(t->value);
    mem_free(t->key);
    *t = (trie){0};
}
