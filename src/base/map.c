/* map.c - see map.h. Hash: multiply-and-fold over 8-byte words (the wyhash idea: a 64x64->128 product folded by
 * xor). */
#include "base/map.h"

#include "base/mem.h"

#include <string.h>
#include <sys/random.h>

struct map_slot {
    const uint8_t *p;
    uint32_t n, value;
    uint64_t hash; /* 0 = empty slot */
};

static uint64_t fold_product(uint64_t a, uint64_t b)
{
    unsigned __int128 r = (unsigned __int128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static uint64_t read_word(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n < 8 ? n : 8);
    return v;
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const uint8_t *p = data;
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u;
    size_t left = n;
    for (; left >= 16; left -= 16, p += 16)
        h = fold_product(read_word(p, 8) ^ h, read_word(p + 8, 8) ^ 0xd6e8feb86659fd93u);
    uint64_t a = left ? read_word(p, left) : 0, b = left > 8 ? read_word(p + 8, left - 8) : 0;
    return fold_product(fold_product(a ^ h, b ^ 0xa0761d6478bd642fu), n ^ 0xe7037ed1a0b428dbu);
}

static uint64_t process_seed(void)
{
    static uint64_t seed;
    uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED);
    if (!s) {
        uint64_t zero = 0;
        if (getrandom(&s, sizeof s, GRND_NONBLOCK) != sizeof s) s = (uint64_t)(uintptr_t)&zero;
        s |= 1;
        if (!__atomic_compare_exchange_n(&seed, &zero, s, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) s = zero;
    }
    return s;
}

static map_slot *find_slot(const map *m, span key, uint64_t h)
{
    size_t i = h >> 1 & (m->cap - 1); /* the lowest bit is always set */
    for (;; i = (i + 1) & (m->cap - 1)) {
        map_slot *s = &m->slot[i];
        if (!s->hash || (s->hash == h && s->n == key.n && (key.n == 0 || memcmp(s->p, key.p, key.n) == 0))) return s;
    }
}

bool map_reserve(map *m, size_t n)
{
    size_t cap = m->cap ? m->cap : 16;
    while (cap / 2 < n) {
        if (cap > SIZE_MAX / 2) return false;
        cap *= 2;
    }
    if (cap == m->cap) return true;
    map bigger = {mem_zero(cap, sizeof(map_slot)), m->n, cap};
    if (!bigger.slot) return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].hash) *find_slot(&bigger, span_of(m->slot[i].p, m->slot[i].n), m->slot[i].hash) = m->slot[i];
    mem_free(m->slot);
    *m = bigger;
    return true;
}

bool map_put(map *m, span key, uint32_t value)
{
    if (key.n > UINT32_MAX || !map_reserve(m, m->n + 1)) return false;
    uint64_t h = hash_bytes(key.p, key.n, process_seed()) | 1;
    map_slot *s = find_slot(m, key, h);
    if (!s->hash) {
        *s = (map_slot){key.p, (uint32_t)key.n, 0, h};
        m->n++;
    }
    s->value = value;
    return true;
}

uint32_t map_get(const map *m, span key)
{
    if (!m->n) return MAP_NONE;
    const map_slot *s = find_slot(m, key, hash_bytes(key.p, key.n, process_seed()) | 1);
    return s->hash ? s->value : MAP_NONE;
}

void map_free(map *m)
{
    mem_free(m->slot);
    *m = (map){0};
}
