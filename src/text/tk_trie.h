/* tk_trie.h - a set of byte strings, walked a byte at a time: all prefixes of a text that are keys, in one walk.
 *
 * While keys are added, edges live in one hash table ((node, byte) -> node): no sorting, and hostile keys cost their
 * length. trie_seal then packs the edges into a double array (Aoe 1989, with xor as in Darts-clone) of a third of the
 * size: a step reads 8 bytes, and walks through a large vocabulary wait for memory. */
#pragma once
#include "base/err.h"
#include "base/span.h"

#include <stddef.h>
#include <stdint.h>

enum { TRIE_NODES_MAX = 1 << 24 };

typedef struct trie_edge {
    uint32_t key;  /* node << 8 | byte */
    uint32_t node; /* 0 = empty slot */
} trie_edge;

typedef struct trie_unit {
    uint32_t base;  /* the child by a byte is unit base ^ byte ... */
    uint32_t check; /* ... if its check is this unit's number */
} trie_unit;

typedef struct trie {
    trie_edge *edge; /* {0} is a valid empty trie; NULL again when sealed */
    size_t cap;      /* power of two */
    trie_unit *unit; /* sealed: nodes are numbers of units; node 0 is the root either way */
    size_t units;
    int32_t *value; /* by node that is a key; read by trie_value */
    uint8_t *key;   /* a bit per node: it is a key (small enough to stay in the cache, unlike value) */
    size_t value_cap, key_cap;
    uint32_t nodes;
    uint32_t root[256]; /* first step */
} trie;

/* Adds a key (not empty); a key that is there gets the new value. value >= 0. Not after trie_seal. */
int trie_put(trie *t, span key, int32_t value, err *e);
/* Packs the trie: no more keys, faster walks. Keys that do not pack (hostile ones) stay as they are. */
int trie_seal(trie *t, err *e);
void trie_free(trie *t);

static inline size_t trie_slot(const trie *t, uint32_t key) { return (key * 0x9e3779b1u >> 7) & (t->cap - 1); }

/* The node after one more byte, 0 when no key goes on so. */
static inline uint32_t trie_step(const trie *t, uint32_t node, uint8_t byte)
{
    if (node == 0) return t->root[byte];
    if (t->unit) {
        uint32_t child = t->unit[node].base ^ byte;
        return t->unit[child].check == node ? child : 0;
    }
    uint32_t key = node << 8 | byte;
    for (size_t i = trie_slot(t, key);; i = (i + 1) & (t->cap - 1)) {
        if (t->edge[i].node == 0) return 0;
        if (t->edge[i].key == key) return t->edge[i].node;
    }
}

/* The value of a node, -1 when it is not a key. */
static inline int32_t trie_value(const trie *t, uint32_t node)
{
    return t->key[node >> 3] >> (node & 7) & 1 ? t->value[node] : -1;
}

/* Value of the longest key that is a prefix of s and its length in *n; -1 when there is none. */
static inline int32_t trie_longest(const trie *t, span s, size_t *n)
{
    int32_t found = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < s.n && (node = trie_step(t, node, s.p[i])); i++) {
        int32_t value = trie_value(t, node);
        if (value < 0) continue;
        found = value;
        *n = i + 1;
    }
    return found;
}
