/* qe4m3.cuh - FP8 numbers (E4M3) as bytes that integer tensor instructions multiply.
 *
 * A level (tensor/e4m3.h) is even, and half of it has 18 bits and a sign. Four planes of bytes hold it:
 *
 *     level = 2 (plane 0 + 2^8 plane 1 + 2^9 (plane 2 + 2^8 plane 3) - QE4M3_EXCESS)
 *
 * They come from sums of f16, two numbers at a time. The seven bits of a number's size, shifted to the exponent of an
 * f16, are that number times 2^-8, also where it is subnormal. 6 added to it leaves ten bits of the mantissa for the
 * nearest multiple of 2^-8, in two's complement; what is left is exact, has nine bits and a sign, and 1.5 * 2^-7 added
 * to it does the same. Both bytes of both sums are the planes, the upper ones with a known exponent above. */
#pragma once
#include <stdint.h>

enum { QE4M3_PLANES = 4 };
/* The exponents in planes 1 and 3: what a sum has too much, for each unit of the activations' sum. */
constexpr uint32_t QE4M3_EXCESS = (0x22u << 8) + (0x46u << 17);

/* Bits of a where the mask has ones, else of b. */
__device__ __forceinline__ uint32_t qe4m3_choose(uint32_t a, uint32_t mask, uint32_t b)
{
    uint32_t to;
    asm("lop3.b32 %0, %1, %2, %3, 0xe2;" : "=r"(to) : "r"(a), "r"(mask), "r"(b));
    return to;
}

/* Sums of both halves. */
__device__ __forceinline__ uint32_t qe4m3_add(uint32_t a, uint32_t b)
{
    uint32_t to;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(to) : "r"(a), "r"(b));
    return to;
}
__device__ __forceinline__ uint32_t qe4m3_subtract(uint32_t a, uint32_t b)
{
    uint32_t to;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(to) : "r"(a), "r"(b));
    return to;
}
template <int BY> __device__ __forceinline__ uint32_t qe4m3_bytes(uint32_t a, uint32_t b)
{
    uint32_t to;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "n"(BY));
    return to;
}

/* The planes of four numbers. */
__device__ __forceinline__ void qe4m3_planes(uint32_t w, uint32_t to[QE4M3_PLANES])
{
    const uint32_t size = 0x3f803f80u, sign = 0x80008000u;
    const uint32_t h[2] = {qe4m3_choose(w << 7, size, w << 8 & sign), qe4m3_choose(w >> 1, size, w & sign)};
    uint32_t top[2], low[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = qe4m3_add(h[i], 0x46004600u);
        const uint32_t rest = qe4m3_subtract(h[i], qe4m3_add(top[i], 0xc600c600u));
        low[i] = qe4m3_add(rest, 0x22002200u);
    }
    to[0] = qe4m3_bytes<0x6240>(low[0], low[1]), to[1] = qe4m3_bytes<0x7351>(low[0], low[1]);
    to[2] = qe4m3_bytes<0x6240>(top[0], top[1]), to[3] = qe4m3_bytes<0x7351>(top[0], top[1]);
}

/* The sum of levels times activations from those of planes, of which that of plane 0 has begun with the excess times
 * the activations' sum, negative. Modulo 2^32; the result fits. */
__device__ __forceinline__ int qe4m3_sum(int plane0, int plane1, int plane2, int plane3)
{
    const uint32_t top = (uint32_t)plane3 * 256u + (uint32_t)plane2;
    return (int)(((top * 2u + (uint32_t)plane1) * 256u + (uint32_t)plane0) * 2u);
}
