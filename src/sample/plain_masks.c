/* plain_masks.c - see plain_masks.h. */
#include "sample/plain_masks.h"

#include "base/mem.h"

int plain_masks_open(plain_masks *m, const token_trie *t, err *e)
{
    *m = (plain_masks){.t = t, .mask = mem_array(PLAIN_MASKS * t->n_word, sizeof *m->mask)};
    return m->mask ? OK : err_memory(e, "the masks of a grammar");
}

void plain_masks_close(plain_masks *m) { mem_free(m->mask); }

int plain_level(const plain_masks *m, int chars)
{
    int level = PLAIN_EXACT;
    if (chars >= m->t->most_chars) return m->t->most_chars;
    if (chars <= PLAIN_EXACT) return chars;
    while (2 * level <= chars) level *= 2;
    return level;
}

const uint64_t *plain_mask(plain_masks *m, uint64_t buckets, int chars)
{
    const token_trie *t = m->t;
    for (int k = 0; k < PLAIN_MASKS; k++)
        if (m->of[k].chars == chars && m->of[k].buckets == buckets) return m->mask + (size_t)k * t->n_word;
    uint64_t *mask = m->mask + (size_t)m->next * t->n_word;
    m->of[m->next].buckets = buckets;
    m->of[m->next].chars = chars;
    m->next = (m->next + 1) % PLAIN_MASKS;
    for (int32_t id = 0; id < t->n_vocab; id += 64) {
        const int32_t end = id + 64 < t->n_vocab ? id + 64 : t->n_vocab;
        uint64_t word = 0;
        for (int32_t k = id; k < end; k++)
            word |= (uint64_t)(!(t->buckets[k] & ~buckets) && t->chars[k] <= chars) << (k - id);
        mask[id / 64] = word;
    }
    return mask;
}
