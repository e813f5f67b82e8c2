/* rng.h - random numbers as a function of three counters: no state, so a draw never depends on what was drawn
 * before.
 *
 * Three rounds of the splitmix64 finaliser (Steele, Lea, Flood 2014), one per key: seed, stream (the choice of a
 * request), and counter (the position in the sequence). */
#pragma once
#include <stdint.h>

static inline uint64_t rng_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t rng_bits(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return rng_mix(rng_mix(rng_mix(seed) ^ stream) ^ counter);
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_uniform(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return (double)(rng_bits(seed, stream, counter) >> 11) * 0x1p-53;
}
