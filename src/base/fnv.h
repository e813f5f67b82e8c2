/* fnv.h - FNV-1a (Fowler, Noll, Vo), byte by byte: results that people compare, on any machine and in any pieces. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

/* h: FNV_START, or the hash of the bytes before. */
static inline uint64_t fnv_add(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = (const uint8_t *)bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
