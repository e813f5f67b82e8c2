/* tk_trie.c - see tk_trie.h. */
#include "text/tk_trie.h"

#include "base/mem.h"

#include <string.h>

static void insert_node(trie *t, uint32_t key, uint32_t node)
{
    size_t i = trie_slot(t, key);
    while (t->edge[i].node) i = (i + 1) & (t->cap - 1);
    t->edge[i] = (trie_edge){key, node};
}

static int grow_trie(trie *t, err *e)
{
    size_t old_cap = t->cap;
    trie_edge *old = t->edge;
    t->cap = old_cap ? old_cap * 2 : 64;
    t->edge = mem_zero(t->cap, sizeof *t->edge);
    if (!t->edge) {
        t->edge = old;
        t->cap = old_cap;
        return err_memory(e, "a trie");
    }
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].node) insert_node(t, old[i].key, old[i].node);
    mem_free(old);
    return OK;
}

static int add_node(trie *t, uint32_t *out, err *e)
{
    if (t->nodes >= TRIE_NODES_MAX) return err_set(e, ERR_LIMIT, "the pieces of the vocabulary are too long in sum");
    void *value = t->value;
    if (!mem_grow(&value, &t->value_cap, (size_t)t->nodes + 1, sizeof *t->value)) return err_memory(e, "a trie");
    t->value = value;
    t->value[t->nodes] = -1;
    if (t->nodes % 8 == 0) {
        void *key = t->key;
        if (!mem_grow(&key, &t->key_cap, t->nodes / 8 + 1, 1)) return err_memory(e, "a trie");
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
    if (!t->cap && (rc = grow_trie(t, e))) return rc;
    for (size_t i = 0; i < key.n; i++, node = next) {
        if ((next = trie_step(t, node, key.p[i]))) continue;
        if (t->cap / 2 < t->nodes && (rc = grow_trie(t, e))) return rc;
        if ((rc = add_node(t, &next, e))) return rc;
        if (node == 0) t->root[key.p[i]] = next;
        else insert_node(t, node << 8 | key.p[i], next);
    }
    if (node) {
        t->value[node] = value;
        t->key[node >> 3] |= (uint8_t)(1u << (node & 7));
    }
    return OK;
}

/* ---- packing ---- */

enum { BLOCK = 256, OPEN_MAX = 12, SLACK_BLOCKS = 16, UNITS_PER_NODE_MAX = 4 };

/* The children of a node lie in one block of 256 units, since their numbers differ in the last byte only. */
typedef struct open_block {
    uint32_t first;   /* unit */
    uint32_t room;    /* free units */
    uint64_t free[4]; /* a bit for each */
} open_block;

typedef struct packing {
    trie_unit *unit;
    size_t blocks, cap;        /* cap in units */
    open_block open[OPEN_MAX]; /* that still have room, the oldest first */
    int n_open;
    size_t blocks_max;
    bool spread; /* the keys do not pack: they would need more blocks than that */
} packing;

static bool add_block(packing *p)
{
    void *unit = p->unit;
    size_t end = (p->blocks + 1) * BLOCK;
    p->spread = p->blocks == p->blocks_max;
    if (p->spread || !mem_grow(&unit, &p->cap, end, sizeof *p->unit)) return false;
    p->unit = unit;
    for (size_t i = p->blocks * BLOCK; i < end; i++) p->unit[i] = (trie_unit){0, UINT32_MAX};
    if (p->n_open == OPEN_MAX) memmove(p->open, p->open + 1, (size_t)--p->n_open * sizeof *p->open);
    p->open[p->n_open++] = (open_block){(uint32_t)(p->blocks++ * BLOCK), BLOCK, {~0ull, ~0ull, ~0ull, ~0ull}};
    return true;
}

static bool is_free(const open_block *b, uint8_t u) { return b->free[u >> 6] >> (u & 63) & 1; }

static void take_byte(open_block *b, uint8_t u)
{
    b->free[u >> 6] &= ~(1ull << (u & 63));
    b->room--;
}

/* A base within the block whose units for these bytes are all free. */
static bool fit(const open_block *b, const uint8_t *byte, size_t n, uint8_t *base)
{
    for (int w = 0; w < 4; w++)
        for (uint64_t left = b->free[w]; left; left &= left - 1) {
            *base = (uint8_t)(w * 64 + __builtin_ctzll(left)) ^ byte[0];
            size_t i = 1;
            while (i < n && is_free(b, *base ^ byte[i])) i++;
            if (i == n) return true;
        }
    return false;
}

static bool place_children(packing *p, const uint8_t *byte, size_t n, uint32_t *base)
{
    uint8_t low = 0;
    int k = 0;
    while (k < p->n_open && (p->open[k].room < n || !fit(&p->open[k], byte, n, &low))) k++;
    if (k == p->n_open) {
        if (!add_block(p)) return false;
        k = p->n_open - 1;
        low = 0;
    }
    open_block *b = &p->open[k];
    for (size_t i = 0; i < n; i++) take_byte(b, low ^ byte[i]);
    *base = b->first + low;
    return true;
}

typedef struct child {
    uint8_t byte;
    uint32_t node;
} child;

/* Edges by parent: list[first[n]] .. list[first[n + 1]] are the children of node n. */
static void sort_edges(const trie *t, uint32_t *first, child *list)
{
    for (size_t i = 0; i < t->cap; i++)
        if (t->edge[i].node) first[(t->edge[i].key >> 8) + 1]++;
    for (int b = 0; b < 256; b++) first[1] += t->root[b] != 0;
    for (uint32_t n = 0; n < t->nodes; n++) first[n + 1] += first[n];
    for (int b = 256; b-- > 0;)
        if (t->root[b]) list[--first[1]] = (child){(uint8_t)b, t->root[b]};
    for (size_t i = 0; i < t->cap; i++)
        if (t->edge[i].node)
            list[--first[(t->edge[i].key >> 8) + 1]] = (child){(uint8_t)t->edge[i].key, t->edge[i].node};
    /* each first[n + 1] now is where the children of n begin: move them down */
    memmove(first, first + 1, t->nodes * sizeof *first);
}

static bool pack_nodes(const trie *t, packing *p, uint32_t *number, const uint32_t *first, const child *list)
{
    uint8_t byte[BLOCK];
    if (!add_block(p)) return false;
    p->unit[0].check = 0; /* the root; number[0] = 0 */
    take_byte(&p->open[0], 0);
    for (uint32_t node = 0; node < t->nodes; node++) { /* parents have smaller numbers than their children */
        size_t n = first[node + 1] - first[node];
        const child *c = list + first[node];
        for (size_t i = 0; i < n; i++) byte[i] = c[i].byte;
        uint32_t base;
        if (!n) continue;
        if (!place_children(p, byte, n, &base)) return false;
        p->unit[number[node]].base = base;
        for (size_t i = 0; i < n; i++) {
            number[c[i].node] = base ^ byte[i];
            p->unit[base ^ byte[i]].check = number[node];
        }
    }
    return true;
}

int trie_seal(trie *t, err *e)
{
    if (!t->nodes || t->unit) return OK;
    packing p = {.blocks_max = (size_t)t->nodes * UNITS_PER_NODE_MAX / BLOCK + SLACK_BLOCKS};
    uint32_t *first = mem_zero((size_t)t->nodes + 2, sizeof *first), *number = mem_zero(t->nodes, sizeof *number);
    child *list = mem_array(t->nodes, sizeof *list);
    int32_t *value = NULL;
    uint8_t *key = NULL;
    bool ok = first && number && list;
    if (ok) {
        sort_edges(t, first, list);
        first[t->nodes] = t->nodes - 1;
        ok = pack_nodes(t, &p, number, first, list);
    }
    if (ok) ok = (value = mem_array(p.blocks * BLOCK, sizeof *value)) && (key = mem_zero(p.blocks * BLOCK / 8, 1));
    for (uint32_t n = 0; ok && n < t->nodes; n++) {
        if (t->value[n] < 0) continue;
        value[number[n]] = t->value[n];
        key[number[n] >> 3] |= (uint8_t)(1u << (number[n] & 7));
    }
    for (int b = 0; ok && b < 256; b++) t->root[b] = t->root[b] ? number[t->root[b]] : 0;
    mem_free(first);
    mem_free(number);
    mem_free(list);
    if (!ok) {
        mem_free(p.unit);
        mem_free(value);
        mem_free(key);
        return p.spread ? OK : err_memory(e, "a trie");
    }
    mem_free(t->edge);
    mem_free(t->value);
    mem_free(t->key);
    t->edge = NULL;
    t->unit = p.unit;
    t->units = p.blocks * BLOCK;
    t->value = value;
    t->key = key;
    return OK;
}

void trie_free(trie *t)
{
    mem_free(t->edge);
    mem_free(t->unit);
    mem_free(t->value);
    mem_free(t->key);
    *t = (trie){0};
}
