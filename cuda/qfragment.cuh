/* qfragment.cuh - codes of a tile of a panel as operands of integer tensor instructions, and activations to match.
 *
 * Of the matrix A of m16n8k32 lane 4 g + q holds rows g and g + 8, words q and 4 + q of each; of B words q and 4 + q of
 * column g. A's rows are the panel's rows 2 g and 2 g + 1, which lie side by side in each line and in each list of
 * scales. The sum is exact, so a word may be any four columns, as long as both operands have the same ones: a lane takes
 * what it can cut out of few lines. A slot is such a word of A for both rows, two slots are an instruction. Orders of
 * columns, of the words X0 … X3 (four columns each) of a quarter j of a tile:
 *
 *     HALVES      slots 2 h, 2 h + 1 of lane q: words 2 q, 2 q + 1 of half h (8, 5, 4 bits, pairs; 3 and 2 bits in
 *                 blocks of 32)
 *     QUARTERS    slot j of lane q: word q of quarter j (blocks of 16)
 *     ROW         slots of lane q: quarter q (blocks of 64 of 2 bits; picks)
 *     SIX         slot 2 j of lane q < 3: word q of quarter j; slot 2 j + 1: its word 3, times the two bits of the codes
 *                 there that lane q holds, as 4^q of them; lane 3 has zeros (6 bits)
 *
 * Levels are looked up by prmt, whose selector is four neighbouring nibbles: of two words, bytes come out as columns
 * 0 of both, 1 of both; then 2 and 3 of both. So the activations of such kinds are interleaved likewise. */
#pragma once
#include "cuda/qkind.cuh"

enum { ORDER_HALVES, ORDER_QUARTERS, ORDER_ROW, ORDER_SIX };
enum { WEAVE_NONE, WEAVE_NEXT, WEAVE_OTHER }; /* words 0 with 1, 2 with 3; 0 with 2, 1 with 3 */

/* ALONE: of one row of activations, whose sums are apart without instructions of their own (qdecode.cuh). */
template <class K, bool ALONE> struct qorder {
    static constexpr bool table3 = K::looks && K::bits == 3 && !K::picks; /* one table of eight */
    static constexpr int of = K::bits == 6                                       ? ORDER_SIX
                              : ALONE && table3                                  ? ORDER_ROW
                              : K::apart == 16                                   ? ORDER_QUARTERS
                              : K::picks || (K::apart == 64 && K::bits && K::bits <= 2) ? ORDER_ROW
                                                                                 : ORDER_HALVES;
    static constexpr bool other = (K::picks && (K::bits == 2 || (K::bits == 3 && K::pick_weights == 16))) ||
                                  (table3 && (ALONE || K::apart == 16));
    static constexpr int weave = !K::looks ? WEAVE_NONE : other ? WEAVE_OTHER : WEAVE_NEXT;
    static constexpr int slots = of == ORDER_SIX ? 8 : 4;
    static constexpr int row_bytes = 16 * slots; /* of a row of activations in shared memory, a tile */
    static constexpr int lane_line = of == ORDER_HALVES && K::bits == 4 ? PANEL_LINE : 0; /* times q: the lane's first line */
};

/* Any function of three bits, for each of 32: that of the table LUT, of 0xf0, 0xcc and 0xaa. */
template <int LUT> __device__ __forceinline__ uint32_t qlop(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t to;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(to) : "r"(a), "r"(b), "r"(c), "n"(LUT));
    return to;
}
__device__ __forceinline__ uint32_t qand_or(uint32_t a, uint32_t mask, uint32_t b) { return qlop<0xea>(a, mask, b); }

/* Bytes of both words by the selector's four nibbles; the top bit of one gives the sign of the byte. */
__device__ __forceinline__ uint32_t qbytes(uint32_t a, uint32_t b, uint32_t by)
{
    uint32_t to;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "r"(by));
    return to;
}

/* The same by a selector that is known. */
template <int BY> __device__ __forceinline__ uint32_t qbytes(uint32_t a, uint32_t b)
{
    uint32_t to;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "n"(BY));
    return to;
}

/* Where the words of quarter j of a tile of a row begin, in bytes; qorder_put: 16 columns to their places from there. */
template <class O> __device__ __forceinline__ int qorder_at(int j)
{
    constexpr int of = O::of;
    return 4 * (of == ORDER_HALVES ? 8 * (j % 2) + 2 * (j / 2) : of == ORDER_ROW ? 4 * j : of == ORDER_QUARTERS ? j : 2 * j);
}
template <class O> __device__ __forceinline__ void qorder_put(uint2 low, uint2 high, uint8_t *at)
{
    uint32_t x[4] = {low.x, low.y, high.x, high.y};
    if constexpr (O::weave != WEAVE_NONE) {
        constexpr int next = O::weave == WEAVE_NEXT ? 1 : 2, second = 3 - next;
        const uint32_t w[4] = {x[0], x[1], x[2], x[3]};
        x[0] = qbytes(w[0], w[next], 0x5140), x[1] = qbytes(w[0], w[next], 0x7362);
        x[2] = qbytes(w[second], w[3], 0x5140), x[3] = qbytes(w[second], w[3], 0x7362);
        if constexpr (O::of == ORDER_QUARTERS && next == 2) { /* as lanes shift: by 0, 2, 16, 18 bits */
            const uint32_t y = x[1];
            x[1] = x[2], x[2] = y;
        }
    }
    uint32_t *to = (uint32_t *)at;
    if constexpr (O::of == ORDER_HALVES) {
        *(uint2 *)to = make_uint2(x[0], x[1]);
        *(uint2 *)(to + 4) = make_uint2(x[2], x[3]);
    } else if constexpr (O::of == ORDER_ROW) {
        *(uint4 *)to = make_uint4(x[0], x[1], x[2], x[3]);
    } else if constexpr (O::of == ORDER_QUARTERS) {
#pragma unroll
        for (int q = 0; q < 4; q++) to[4 * q] = x[q];
    } else {
#pragma unroll
        for (int q = 0; q < 4; q++) *(uint2 *)(to + 8 * q) = make_uint2(x[q], x[3]);
    }
}

/* Levels of sixteen by the four low nibbles, or of eight. */
__device__ __forceinline__ uint32_t qlook16(const uint32_t *level, uint32_t nibbles)
{
    const uint32_t at = nibbles & 0x77777777u, upper = qand_or(nibbles >> 1, 0x44444444u, 0x32103210u);
    return qbytes(qbytes(level[0], level[1], at), qbytes(level[2], level[3], at), upper);
}

__device__ __forceinline__ void qlook16_both(const uint32_t *level, uint32_t nibbles, uint32_t &low, uint32_t &high)
{
    const uint32_t at = nibbles & 0x77777777u, upper = qand_or(nibbles >> 1, 0x44444444u, 0x32103210u);
    low = qbytes(qbytes(level[0], level[1], at), qbytes(level[2], level[3], at), upper);
    high = qbytes(qbytes(level[0], level[1], at >> 16), qbytes(level[2], level[3], at >> 16), upper >> 16);
}

/* Pairs of 11 levels, p = low + 11 high, below 128: sixteen times what is high. */
__device__ __forceinline__ uint32_t qpair_high(uint32_t p)
{
    const uint32_t even = (p & 0x007f007fu) * 373u, odd = (p >> 8 & 0x007f007fu) * 373u; /* 4096 p / 11, as exactly as needed */
    return qbytes<0x7351>(even, odd) & 0xf0f0f0f0u;
}

/* Both codes of pairs of 11 levels. */
__device__ __forceinline__ void qpair(uint32_t p, uint32_t &low, uint32_t &high)
{
    const uint32_t even = ((p & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu, /* p / 11 up to 120 */
        odd = ((p >> 8 & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu;
    high = even | odd << 8;
    low = p - 11u * high;
}

/* A lane's words of a tile: slots of rows 2 g (x) and 2 g + 1 (y), plane after plane. */
template <class K, bool ALONE> struct qfragment {
    typedef qorder<K, ALONE> O;
    uint2 slot[O::slots * K::planes];

    /* tile: of the lane's rows in its first line; of the lane's first line (lane_line). */
    static __device__ __forceinline__ uint2 line(const uint8_t *tile, int j) { return *(const uint2 *)(tile + j * PANEL_LINE); }
    template <class F> static __device__ __forceinline__ uint2 both(uint2 w, F f) { return make_uint2(f(w.x), f(w.y)); }

    __device__ __forceinline__ void take_pairs(const uint8_t *tile, int q)
    {
        uint2 p[2] = {line(tile, q), line(tile, q < 3 ? 4 + q : 0)};
        uint2 last = make_uint2((p[0].x >> 7 & 0x01010101u) << q, (p[0].y >> 7 & 0x01010101u) << q);
        if (q < 3) {
            last.x |= (p[1].x >> 7 & 0x01010101u) << (4 + q);
            last.y |= (p[1].y >> 7 & 0x01010101u) << (4 + q);
        }
#pragma unroll
        for (int far = 1; far < 4; far *= 2) {
            last.x |= __shfl_xor_sync(~0u, last.x, far);
            last.y |= __shfl_xor_sync(~0u, last.y, far);
        }
        p[0] = both(p[0], [](uint32_t w) { return w & 0x7f7f7f7fu; });
        p[1] = q < 3 ? both(p[1], [](uint32_t w) { return w & 0x7f7f7f7fu; }) : last;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if constexpr (ALONE) { /* the pairs themselves */
                slot[2 * h] = p[h], slot[2 * h + 1] = both(p[h], qpair_high);
                continue;
            }
            qpair(p[h].x, slot[2 * h].x, slot[2 * h + 1].x);
            qpair(p[h].y, slot[2 * h].y, slot[2 * h + 1].y);
        }
    }
    __device__ __forceinline__ void take_six(const uint8_t *tile, int q)
    {
        const uint32_t low = q < 3 ? 0x3f3f3f3fu : 0, top = q < 3 ? 0x03030303u << 2 * q : 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint2 w = line(tile, 3 * j + (q < 3 ? q : 0));
            slot[2 * j] = both(w, [=](uint32_t v) { return v & low; });
            slot[2 * j + 1] = both(w, [=](uint32_t v) { return __funnelshift_r(v, v, 6 - 2 * q) & top; });
        }
    }
    __device__ __forceinline__ void take_e4m3(const uint8_t *tile, int q)
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint2 w = line(tile, 8 * (i / 2) + 2 * q + i % 2);
            uint32_t x[K::planes], y[K::planes];
            qe4m3_planes(w.x, x), qe4m3_planes(w.y, y);
#pragma unroll
            for (int p = 0; p < K::planes; p++) slot[O::slots * p + i] = make_uint2(x[p], y[p]);
        }
    }
    /* Nibbles of two words side by side, as a line of 4 bits has them, in the order of the tile. */
    __device__ __forceinline__ void take_four(const uint8_t *tile, const uint32_t *level)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint2 w = line(tile, 4 * h);
            if constexpr (K::looks) {
                qlook16_both(level, w.x, slot[2 * h].x, slot[2 * h + 1].x);
                qlook16_both(level, w.y, slot[2 * h].y, slot[2 * h + 1].y);
            } else {
                slot[2 * h] = both(w, [](uint32_t v) { return v & 0x0f0f0f0fu; });
                slot[2 * h + 1] = both(w, [](uint32_t v) { return v >> 4 & 0x0f0f0f0fu; });
            }
        }
    }
    __device__ __forceinline__ void take_five(const uint8_t *tile, int q)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint2 w = line(tile, 4 * h + q), fifth = line(tile, 8 + h);
            auto join = [=](uint32_t v, uint32_t f) { /* bit 2 q comes to bit 4 */
                const uint32_t at = __funnelshift_l(f, f, 4 - 2 * q);
                return make_uint2(qand_or(at, 0x10101010u, v & 0x0f0f0f0fu), qand_or(at >> 1, 0x10101010u, v >> 4 & 0x0f0f0f0fu));
            };
            const uint2 x = join(w.x, fifth.x), y = join(w.y, fifth.y);
            slot[2 * h] = make_uint2(x.x, y.x), slot[2 * h + 1] = make_uint2(x.y, y.y);
        }
    }
    /* 2 and 3 bits, sums of 32. */
    __device__ __forceinline__ void take_few(const uint8_t *tile, int q, const uint32_t *level)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint2 w = line(tile, 2 * h + q / 2);
            const uint2 third = K::bits == 3 ? line(tile, 4 + h) : make_uint2(0, 0);
            auto cut = [=](uint32_t v, uint32_t t) {
                const uint32_t at = v >> 4 * (q % 2), up = K::bits == 3 ? t >> 2 * q : 0;
                if constexpr (K::looks) {
                    const uint32_t by = qand_or((up & 0x03030303u) * 36u, 0x44444444u, /* bits 0 and 1 come to 2 and 6 */
                                                qand_or(at << 2, 0x30303030u, at & 0x03030303u));
                    return make_uint2(qbytes(level[0], level[1], by), qbytes(level[0], level[1], by >> 16));
                }
                const uint32_t low = at & 0x03030303u, high = at >> 2 & 0x03030303u;
                if constexpr (K::bits == 2) return make_uint2(low, high);
                return make_uint2(qand_or(up << 2, 0x04040404u, low), qand_or(up << 1, 0x04040404u, high));
            };
            const uint2 x = cut(w.x, third.x), y = cut(w.y, third.y);
            slot[2 * h] = make_uint2(x.x, y.x), slot[2 * h + 1] = make_uint2(x.y, y.y);
        }
    }
    /* Sums of 16: 2, 3 and 4 bits. */
    __device__ __forceinline__ void take_quarters(const uint8_t *tile, int q, const uint32_t *level)
    {
        const int by = K::bits == 4 ? q % 2 * 16 : K::looks ? q % 2 * 2 + q / 2 * 16 : 2 * q;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint2 w = line(tile, K::bits == 4 ? 2 * j + q / 2 : j);
            const uint2 third = K::bits == 3 ? line(tile, 4 + j / 2) : make_uint2(0, 0);
            slot[j] = make_uint2(quarter(w.x >> by, third.x, q, j, level), quarter(w.y >> by, third.y, q, j, level));
        }
    }
    static __device__ __forceinline__ uint32_t quarter(uint32_t v, uint32_t third, int q, int j, const uint32_t *level)
    {
        if constexpr (K::bits == 4) return qlook16(level, v);
        if constexpr (K::bits == 2) return v & 0x03030303u;
        if constexpr (!K::looks) {
            const uint32_t at = third >> q;
            return qand_or(j % 2 ? at >> 2 : at << 2, 0x04040404u, v & 0x03030303u);
        } /* bits 0 and 2 of each byte come to 2 and 6 */
        const uint32_t at = third >> (q % 2 + q / 2 * 16), bits = at >> j % 2 * 4 & 0x0505u;
        return qbytes(level[0], level[1], qand_or(bits * 20u, 0x4444u, v & 0x3333u));
    }
    /* One line, or two of 4 bits: 16 columns side by side. */
    __device__ __forceinline__ void take_row(const uint8_t *tile, int q)
    {
        const uint2 w = line(tile, K::bits == 1 ? q / 2 : q);
#pragma unroll
        for (int i = 0; i < 4; i++)
            slot[i] = both(w, [=](uint32_t v) {
                if constexpr (K::bits == 1) {
                    const uint32_t at = v >> q % 2 * 4;
                    return (i ? at >> (i - 1) : at << 1) & 0x02020202u;
                }
                return v >> 2 * i & 0x03030303u;
            });
    }
    /* Of words i and i + 2 of a row what prmt takes: of their third bits 0 and 2 come to 2 and 6. */
    static __device__ __forceinline__ uint32_t of_eight(uint32_t w, uint32_t third, int i)
    {
        return qand_or((third >> i & 0x05050505u) * 20u, 0x44444444u, w >> 2 * i & 0x33333333u);
    }
    /* One line and bits of another, by a table of eight. */
    __device__ __forceinline__ void take_eight(const uint8_t *tile, int q, const uint32_t *level)
    {
        const uint2 w = line(tile, q), more = line(tile, 4 + q / 2);
        const uint2 third = make_uint2(more.x >> q % 2 * 4, more.y >> q % 2 * 4);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t x = of_eight(w.x, third.x, i), y = of_eight(w.y, third.y, i);
            slot[2 * i] = make_uint2(qbytes(level[0], level[1], x), qbytes(level[0], level[1], y));
            slot[2 * i + 1] = make_uint2(qbytes(level[0], level[1], x >> 16), qbytes(level[0], level[1], y >> 16));
        }
    }
    /* As take_row, by the tables that were picked: pick has the words of both rows, table is in shared memory. */
    __device__ __forceinline__ void take_picked(const uint8_t *tile, int q, uint2 pick, const uint32_t *table)
    {
        uint2 w = line(tile, K::bits == 4 ? 2 * q : q), w1 = make_uint2(0, 0);
        if constexpr (K::bits == 4) w1 = line(tile, 2 * q + 1);
        if constexpr (K::bits == 3) w1 = line(tile, 4 + q / 2);
        uint32_t x[4], y[4];
        picked(w.x, w1.x, q, pick.x, table, x);
        picked(w.y, w1.y, q, pick.y, table, y);
#pragma unroll
        for (int i = 0; i < 4; i++) slot[i] = make_uint2(x[i], y[i]);
    }
    static __device__ __forceinline__ void picked(uint32_t w, uint32_t w1, int q, uint32_t pick, const uint32_t *table,
                                                  uint32_t *to)
    {
        if constexpr (K::bits == 4) {
            const uint4 t = *(const uint4 *)(table + 4 * (pick & 7));
            const uint32_t level[4] = {t.x, t.y, t.z, t.w};
            qlook16_both(level, w, to[0], to[1]);
            qlook16_both(level, w1, to[2], to[3]);
        } else if constexpr (K::bits == 2) {
            const uint32_t a = table[pick & 15], b = table[pick >> 4 & 15];
#pragma unroll
            for (int i = 0; i < 2; i++) { /* words 2 and 3 pick the second table */
                const uint32_t by = qand_or(w >> 2 * i, 0x33333333u, 0x40404040u);
                to[2 * i] = qbytes(a, b, by), to[2 * i + 1] = qbytes(a, b, by >> 16);
            }
        } else {
            const uint32_t third = w1 >> q % 2 * 4;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint2 t = *(const uint2 *)(table + 2 * (pick >> (K::pick_weights == 8 ? 4 * i : 0) & 15));
                uint32_t by;
                if constexpr (K::pick_weights == 8) { /* words 2 i and 2 i + 1: bits 0 and 1 come to 2 and 6 */
                    const uint32_t at = w >> 4 * i;
                    by = qand_or((third >> 2 * i & 0x03030303u) * 36u, 0x44444444u,
                                 qand_or(at << 2, 0x30303030u, at & 0x03030303u));
                } else by = of_eight(w, third, i);
                to[2 * i] = qbytes(t.x, t.y, by), to[2 * i + 1] = qbytes(t.x, t.y, by >> 16);
            }
        }
    }
    /* level: a table of sixteen in registers; with picks all tables, in shared memory, and the words of picks. */
    __device__ __forceinline__ void take(const uint8_t *tile, int q, const uint32_t *level, uint2 pick)
    {
        if constexpr (K::planes > 1) take_e4m3(tile, q);
        else if constexpr (K::bits == 8) {
#pragma unroll
            for (int i = 0; i < 4; i++) slot[i] = line(tile, 8 * (i / 2) + 2 * q + i % 2);
        } else if constexpr (K::bits == 0) take_pairs(tile, q);
        else if constexpr (K::bits == 6) take_six(tile, q);
        else if constexpr (ALONE && O::table3) take_eight(tile, q, level);
        else if constexpr (K::apart == 16) take_quarters(tile, q, level);
        else if constexpr (K::picks) take_picked(tile, q, pick, level);
        else if constexpr (K::bits == 5) take_five(tile, q);
        else if constexpr (K::bits == 4) take_four(tile, level);
        else if constexpr (O::of == ORDER_ROW) take_row(tile, q);
        else take_few(tile, q, level);
    }
};
