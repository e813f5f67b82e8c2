/* quant_bits.h - codes of a few bits in bytes, lowest first, and split codes: all upper bits, then all lower bits.
 * Shared by quant_linear.c and quant_tables.c. */
#pragma once
#include <stdint.h>
#include <string.h>

/* Writes code i of codes of `bits` (1, 2, 4 or 8) bits; `to` must be zeroed: bits are or-ed in. */
static inline void bits_put(uint8_t *to, int i, int bits, int v) { to[i * bits / 8] |= (uint8_t)(v << i * bits % 8); }

/* Eight fields of one, two or four bits as bytes, lowest first (so for little-endian machines). */
static inline uint64_t bits_spread(int bits)
{
    uint64_t v = (uint64_t)(bits & 255) * 0x0101010101010101u & 0x8040201008040201u;
    return (v + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}
static inline uint64_t pairs_spread(uint16_t fields)
{
    uint64_t v = (fields | (uint64_t)fields << 24) & 0x000000ff000000ffu;
    v = (v | v << 12) & 0x000f000f000f000fu;
    return (v | v << 6) & 0x0303030303030303u;
}
static inline uint64_t nibbles_spread(uint32_t fields)
{
    uint64_t v = (fields | (uint64_t)fields << 16) & 0x0000ffff0000ffffu;
    v = (v | v << 8) & 0x00ff00ff00ff00ffu;
    return (v | v << 4) & 0x0f0f0f0f0f0f0f0fu;
}

/* Codes 8 i … 8 i + 7 of 1, 2, 4 or 8 bits, as bytes. */
static inline __attribute__((always_inline)) uint64_t bits_eight(const uint8_t *from, int i, int bits)
{
    uint64_t v = 0;
    memcpy(&v, from + i * bits, (size_t)bits);
    return bits == 1   ? bits_spread((int)v)
           : bits == 2 ? pairs_spread((uint16_t)v)
           : bits == 4 ? nibbles_spread((uint32_t)v)
                       : v;
}

/* n codes, a multiple of eight, of low + high bits (high 0: there are no upper ones). */
static inline __attribute__((always_inline)) void split_codes(const uint8_t *from, uint8_t *q, int n, int low, int high)
{
    for (int i = 0; i < n / 8; i++) {
        uint64_t v = bits_eight(from + n * high / 8, i, low);
        if (high) v |= bits_eight(from, i, high) << low;
        memcpy(q + 8 * i, &v, 8);
    }
}
static inline void split_get(const uint8_t *from, uint8_t *q, int n, int low, int high)
{
    switch (low << 2 | high) { /* constants, so that loops hold no choice */
    case 8 << 2: memcpy(q, from, (size_t)n); break;
    case 4 << 2: split_codes(from, q, n, 4, 0); break;
    case 4 << 2 | 1: split_codes(from, q, n, 4, 1); break;
    case 4 << 2 | 2: split_codes(from, q, n, 4, 2); break;
    case 2 << 2: split_codes(from, q, n, 2, 0); break;
    default: split_codes(from, q, n, 2, 1);
    }
}

/* The inverses of the spreads: fields of bytes side by side. */
static inline uint64_t bits_gather(uint64_t v) { return (v & 0x0101010101010101u) * 0x0102040810204080u >> 56; }
static inline uint64_t pairs_gather(uint64_t v)
{
    v = (v | v >> 6) & 0x000f000f000f000fu;
    v = (v | v >> 12) & 0x000000ff000000ffu;
    return (v | v >> 24) & 0xffff;
}
static inline uint64_t nibbles_gather(uint64_t v)
{
    v = (v | v >> 4) & 0x00ff00ff00ff00ffu;
    v = (v | v >> 8) & 0x0000ffff0000ffffu;
    return (v | v >> 16) & 0xffffffff;
}
/* Writes eight codes of 1, 2, 4 or 8 bits, given as bytes. */
static inline void bits_put_eight(uint8_t *to, int i, int bits, uint64_t v)
{
    v = bits == 1 ? bits_gather(v) : bits == 2 ? pairs_gather(v) : bits == 4 ? nibbles_gather(v) : v;
    memcpy(to + i * bits, &v, (size_t)bits);
}

/* n codes, a multiple of eight; the inverse of split_get. */
static inline void split_put(uint8_t *to, const uint8_t *q, int n, int low, int high)
{
    uint64_t v, below = 0x0101010101010101u * ((1u << low) - 1);
    for (int i = 0; i < n / 8; i++) {
        memcpy(&v, q + 8 * i, 8);
        if (high) bits_put_eight(to, i, high, (v & ~below) >> low);
        bits_put_eight(to + n * high / 8, i, low, v & below);
    }
}
