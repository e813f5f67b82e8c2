/* tk_word_cache.h - words seen before and their ids: most text is words seen before.
 *
 * One slot per hash value, 64 bytes each; a new word takes the slot of an old one. Long words and words of many ids are
 * not kept. Belongs to one thread. */
#pragma once
#include "base/map.h"
#include "base/mem.h"
#include "text/token_list.h"

#include <string.h>

enum { WORD_CACHE_SLOTS = 1 << 15, WORD_CACHE_BYTES = 22, WORD_CACHE_IDS = 10 };

typedef struct word_slot {
    uint8_t n, ids; /* n = 0: empty */
    uint8_t key[WORD_CACHE_BYTES];
    int32_t id[WORD_CACHE_IDS];
} word_slot;

typedef struct word_cache {
    word_slot *slot; /* {0} is a valid empty cache */
} word_cache;

/* The slot of a word; NULL when it is too long to be kept, or memory is short. */
static inline word_slot *word_cache_slot(word_cache *c, span word)
{
    if (word.n == 0 || word.n > WORD_CACHE_BYTES) return NULL;
    if (!c->slot && !(c->slot = (word_slot *)mem_zero(WORD_CACHE_SLOTS, sizeof *c->slot))) return NULL;
    return &c->slot[hash_bytes(word.p, word.n, 0) & (WORD_CACHE_SLOTS - 1)];
}

static inline bool word_cache_hit(const word_slot *s, span word)
{
    return s && s->n == word.n && memcmp(s->key, word.p, word.n) == 0;
}

/* Keeps the ids that a word was given: out->id[first..]. */
static inline void word_cache_keep(word_slot *s, span word, const token_list *out, size_t first)
{
    size_t n = out->n - first;
    if (!s || n > WORD_CACHE_IDS) return;
    s->n = (uint8_t)word.n;
    s->ids = (uint8_t)n;
    memcpy(s->key, word.p, word.n);
    if (n) memcpy(s->id, out->id + first, n * sizeof *s->id);
}

static inline bool word_cache_give(const word_slot *s, token_list *out)
{
    for (int i = 0; i < s->ids; i++)
        if (!token_list_add(out, s->id[i])) return false;
    return true;
}

static inline void word_cache_free(word_cache *c)
{
    mem_free(c->slot);
    c->slot = NULL;
}
