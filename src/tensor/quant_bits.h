/* quant_bits.h - codes of a few bits in bytes, lowest first, and codes cut in two: all their upper bits first, then all the lower
 * ones. What the formats of this project share (quant_linear.c, quant_two.c). */
#ifndef TENSOR_QUANT_BITS_H
#define TENSOR_QUANT_BITS_H
#include <stdint.h>

/* Code i of codes of `bits` (1, 2, 4 or 8) bits. */
static inline uint8_t bits_get(const uint8_t *from, int i, int bits)
{
    return (uint8_t)(from[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1));
}

/* `to` comes zeroed: bits are or-ed in. */
static inline void bits_put(uint8_t *to, int i, int bits, int v) { to[i * bits / 8] |= (uint8_t)(v << i * bits % 8); }

/* n codes of low + high bits (high 0: there are no upper ones). */
static inline void split_get(const uint8_t *from, uint8_t *q, int n, int low, int high)
{
    const uint8_t *rest = from + n * high / 8;
    for (int i = 0; i < n; i++) {
        q[i] = bits_get(rest, i, low);
        if (high) q[i] = (uint8_t)(q[i] | bits_get(from, i, high) << low);
    }
}

static inline void split_put(uint8_t *to, const uint8_t *q, int n, int low, int high)
{
    uint8_t *rest = to + n * high / 8;
    for (int i = 0; i < n; i++) {
        bits_put(rest, i, low, q[i] & ((1 << low) - 1));
        if (high) bits_put(to, i, high, q[i] >> low);
    }
}

#endif
