/* qpanel.cuh - packed weights (tensor/panel.h) as kernels of many rows read them: the codes of a row of a tile, scales. */
#pragma once
#include "cuda/half_float.cuh"
#include "cuda/qkind.cuh"

/* The words of one row in the lines of a tile, and the four codes of group g. */
template <class K> struct qtile_words {
    uint32_t line[K::lines];

    __device__ __forceinline__ void load(const uint8_t *tile, int r)
    {
#pragma unroll
        for (int i = 0; i < K::lines; i++) line[i] = __ldg((const uint32_t *)(tile + i * PANEL_LINE) + r);
    }
    __device__ __forceinline__ uint32_t seventh() const /* the pairs whose bits are spread over the lines */
    {
        uint32_t p = 0;
#pragma unroll
        for (int j = 0; j < 7 && j < K::lines; j++) p |= (line[j] >> 7 & 0x01010101u) << j;
        return p;
    }
    __device__ __forceinline__ uint32_t codes(int g) const
    {
        if constexpr (K::bits == 8) return line[g];
        if constexpr (K::bits == 4) return line[g / 2] >> g % 2 * 4 & 0x0f0f0f0fu;
        if constexpr (K::bits == 5)
            return (line[g / 2] >> g % 2 * 4 & 0x0f0f0f0fu) | (line[8 + g / 8] >> g % 8 & 0x01010101u) << 4;
        if constexpr (K::bits == 6) {
            if (g % 4 < 3) return line[g / 4 * 3 + g % 4] & 0x3f3f3f3fu;
            uint32_t p = 0;
#pragma unroll
            for (int k = 0; k < 3; k++) p |= (line[g / 4 * 3 + k] >> 6 & 0x03030303u) << 2 * k;
            return p;
        }
        if constexpr (K::bits == 3)
            return (line[g / 4] >> g % 4 * 2 & 0x03030303u) | (line[4 + g / 8] >> g % 8 & 0x01010101u) << 2;
        if constexpr (K::bits == 2) return line[g / 4] >> g % 4 * 2 & 0x03030303u;
        if constexpr (K::bits == 1) return (line[g / 8] >> g % 8 & 0x01010101u) << 1;
        const uint32_t p = g < 14 ? line[g / 2] & 0x7f7f7f7fu : seventh();
        /* p / 11 of each byte up to 120, two at a time */
        const uint32_t even = ((p & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu,
                       odd = ((p >> 8 & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu;
        const uint32_t high = even | odd << 8;
        return g % 2 ? high : p - 11u * high;
    }
};

__device__ __forceinline__ float half_of(const uint8_t *at)
{
    return half_float(*(const uint16_t *)at);
}

/* Scale of block b of the span, one level: as panel_strip.c reads it. */
template <class K> __device__ __forceinline__ float qscale(const uint8_t *scales, const uint8_t *tail, int b, int r)
{
    if constexpr (K::scale_in_word) return half_float((uint16_t)(tail[(b * PANEL_ROWS + r) * 4 + 3] << 7));
    const uint8_t *at = scales + (b * PANEL_ROWS + r) * K::scale_bytes;
    if constexpr (K::scale == PANEL_F16) return half_of(at);
    if constexpr (K::scale == PANEL_E8M0) return ldexpf(1, *at - 128);
    if constexpr (K::scale == PANEL_E5M3) return half_float((uint16_t)(*at << 7));
    return *(const float *)at;
}
