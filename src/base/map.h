/* map.h - hash map from byte strings to uint32, open addressing, insertion only.
 *
 * Keys are not copied: they must outlive the map. The hash is seeded per process so that outside data (tensor names,
 * vocabulary, JSON keys) cannot be chosen to collide. */
#pragma once
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct map_slot map_slot;
typedef struct map {
    map_slot *slot; /* {0} is a valid empty map */
    size_t n, cap;  /* cap: power of two */
} map;

enum { MAP_NONE = UINT32_MAX };

bool map_reserve(map *m, size_t n);             /* room for n keys without growing */
bool map_put(map *m, span key, uint32_t value); /* replaces; false: out of memory */
uint32_t map_get(const map *m, span key);       /* MAP_NONE when absent */
static inline uint32_t map_get_str(const map *m, const char *s) { return map_get(m, span_str(s)); }
void map_free(map *m);

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed); /* 64-bit non-cryptographic hash, stable across machines */
