/* qtile.cuh - a stage of a warp of qdecode.cuh: sizes, exact sums of a tile, their part of the chain. */
#pragma once
#include "cuda/qfragment.cuh"
#include "cuda/kept.cuh"

extern __shared__ __align__(16) uint8_t qdecode_shared[];

/* Sizes that follow from a kind and from the rows that a block takes along. */
template <class K, int ROWS> struct qshape {
    static constexpr int n_tiles = (ROWS + 7) / 8, columns = ROWS == 1 ? 1 : 2; /* of 8 rows; rows that a lane has of one */
    static constexpr int sums = K::two ? 1 : K::sums;                           /* floats of a tile and output */
    static constexpr int span_bytes = (K::tiles * K::lines + K::tail) * PANEL_LINE;
    static constexpr int fit = QDECODE_STAGE * (K::planes > 1 ? 2 : 1) / span_bytes, most = 8 / K::tiles;
    static constexpr int spans = fit < 1 ? 1 : fit < most ? fit : most; /* of a stage: up to eight tiles */
    static constexpr int tiles = spans * K::tiles, stage = spans * span_bytes;
    static constexpr int depth = QDECODE_RING / stage > 8 ? 8 : QDECODE_RING / stage < 2 ? 2 : QDECODE_RING / stage;
    /* Tiles whose sums are in registers at a time; beside planes of codes there is no room for many. */
    static constexpr int held = (K::planes > 1 ? 8 : ROWS > 8 ? 64 : 24) / (sums * n_tiles * 4), batch = held < 1 ? 1 : held > 4 ? 4 : held;
    /* Of a row and tile, words beside codes: scales; scaled sums, or zero times sums; sums of parts. */
    static constexpr int blocks = PANEL_K / K::act, has_base = K::base == PANEL_BASE || K::base == PANEL_ZERO, has_zero = K::excess != 0;
    static constexpr int parts = !K::two              ? 0
                                 : K::base            ? (K::apart == 32 ? 1 : 2) /* pairs of int16 */
                                 : has_zero           ? PANEL_K / K::apart
                                                      : 0;
    static constexpr int words = K::two ? 1 + parts : blocks * (1 + has_base + has_zero);
    /* One row, spread over the columns of B (qspread.cuh), of which four tiles have two each, or eight one: tiles of a
     * lane, of a round. Several sums of a tile have columns of their own: as lanes have words of one sum (rows; of four
     * sums a lane gets half of those of two tiles), or as activations lie in two rows, each with zeros in place of the
     * other's (turns). */
    static constexpr bool spread = ROWS == 1 && tiles % 4 == 0 && K::bits != 6;
    typedef qorder<K, spread> O;
    static constexpr bool rows = spread && K::sums > 1 && O::of == ORDER_ROW, halves = rows && K::sums == 4,
                          turns = spread && K::sums > 1 && !rows, spans_once = spread && K::bits == 1;
    static constexpr int own = !spread ? 0 : K::sums == 1 && tiles % 8 == 0 ? 2 : 1, round = 4 * own;
    /* Pieces of activations that a lane reads at a time: six bits with sub-scales have no registers for four. */
    static constexpr int fill = ROWS == 1 && K::bits == 6 && K::two ? 1 : 4;
    static constexpr int codes_bytes = (turns ? 2 : ROWS) * O::row_bytes, row_words = ROWS * words; /* of a tile */
    static constexpr bool paired = ROWS > 1 && !K::two && words == 2 && has_base; /* words of two rows are side by side */
    static constexpr int carried = n_tiles * columns * 2;                                     /* floats of a lane */
    static constexpr int warp_bytes = depth * stage + carried * 32 * (int)sizeof(float); /* of shared memory */
    static constexpr int stage_bytes = tiles * (codes_bytes + row_words * 4);            /* of activations */
    static_assert(warp_bytes <= QDECODE_WARP_BYTES(ROWS) && stage_bytes <= QDECODE_STAGE_BYTES(ROWS));
};

/* sum = A B + with: m16n8k32, or m16n8k16 of half the words. */
template <bool LEVELS>
__device__ __forceinline__ void qmma32(int *sum, uint2 a0, uint2 a1, uint32_t b0, uint32_t b1, const int *with)
{
#define QMMA(type)                                                                                                     \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "         \
        "{%10, %11, %12, %13};"                                                                                        \
        : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])                                                       \
        : "r"(a0.x), "r"(a0.y), "r"(a1.x), "r"(a1.y), "r"(b0), "r"(b1), "r"(with[0]), "r"(with[1]), "r"(with[2]),      \
          "r"(with[3]))
    if constexpr (LEVELS) QMMA("s8");
    else QMMA("u8");
#undef QMMA
}

template <bool LEVELS> __device__ __forceinline__ void qmma16(int *sum, uint2 a, uint32_t b, const int *with)
{
#define QMMA(type)                                                                                                     \
    asm("mma.sync.aligned.m16n8k16.row.col.s32." type ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"   \
        : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])                                                       \
        : "r"(a.x), "r"(a.y), "r"(b), "r"(with[0]), "r"(with[1]), "r"(with[2]), "r"(with[3]))
    if constexpr (LEVELS) QMMA("s8");
    else QMMA("u8");
#undef QMMA
}

/* Sums of int16 pairs times pairs of bytes: the low two of b, the high two. */
__device__ __forceinline__ int qdp2(uint32_t a, uint32_t b, int sum, bool high)
{
    int to;
    if (high) asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "r"(sum));
    else asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(to) : "r"(a), "r"(b), "r"(sum));
    return to;
}

/* Word j of the rows of activations that a lane has of n tile t. */
template <int ROWS> __device__ __forceinline__ uint2 qwords(const uint32_t *word, int j, int t)
{
    if constexpr (ROWS == 1) return make_uint2(word[j], word[j]);
    return *(const uint2 *)(word + j * ROWS + t * 8);
}

/* Two numbers of 16 bits side by side. */
__device__ __forceinline__ float2 qhalves(const uint8_t *at)
{
    const ushort2 v = *(const ushort2 *)at;
    return make_float2(half_float(v.x), half_float(v.y));
}

/* A scale of rows 2 g and 2 g + 1, one level. */
template <class K> __device__ __forceinline__ float2 qscales(const uint8_t *tail, const uint8_t *rest, int b)
{
    auto upper = [](uint32_t v) { return half_float((uint16_t)(v << 7)); };
    if constexpr (K::scale_in_word) {
        const uint2 v = *(const uint2 *)(tail + b * PANEL_LINE);
        return make_float2(upper(v.x >> 24), upper(v.y >> 24));
    } else if constexpr (K::scale == PANEL_F16) {
        return qhalves(rest + b * PANEL_ROWS * 2);
    } else if constexpr (K::scale == PANEL_F32) {
        return *(const float2 *)(rest + b * PANEL_ROWS * 4);
    } else {
        const uint32_t v = *(const uint16_t *)(rest + b * PANEL_ROWS);
        auto power = [](uint32_t e) { return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23); };
        if constexpr (K::scale == PANEL_E8M0) return make_float2(power(v & 255), power(v >> 8));
        return make_float2(upper(v & 255), upper(v >> 8));
    }
}

/* Factors of a sum of a lane: outputs 2 g + c / 2, rows of activations c % 2 of its two; and what is added besides. */
template <class K, int ROWS> struct qfactor {
    typedef qshape<K, ROWS> Z;
    float by[4];
    float2 base;
    uint2 scaled;

    __device__ __forceinline__ void add(const float *sum, float *y) const
    {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (ROWS == 1 && c % 2) continue;
            float &to = y[c / 2 * Z::columns + c % 2];
            to = fmaf(sum[c], by[c], to);
            if constexpr (Z::has_base)
                to = fmaf(c / 2 ? base.y : base.x, __uint_as_float(c % 2 ? scaled.y : scaled.x), to);
        }
    }
};

/* One warp's work on a tile. */
template <class K, int ROWS> struct qtile {
    typedef qshape<K, ROWS> Z;
    const uint8_t *tail, *rest; /* of its span: with picks, without; of the lane's rows */
    const uint32_t *word;       /* of the activations: of the lane's columns */
    float2 d, dmin;             /* two levels: of the span, rows 2 g and 2 g + 1 */
    int in_span;

    /* Sum i of FP8. */
    static __device__ __forceinline__ void sum_planes(const qfragment<K, Z::spread> &w, int i, const uint32_t *x,
                                                      const int *first, int *sum)
    {
        constexpr int slots = Z::O::slots;
        const int none[4] = {0, 0, 0, 0};
        int of[K::planes][4];
#pragma unroll
        for (int p = 0; p < K::planes; p++) {
            const uint2 *slot = w.slot + slots * p + 2 * i;
            qmma32<false>(of[p], slot[0], slot[1], x[2 * i], x[2 * i + 1], p ? none : first);
        }
#pragma unroll
        for (int c = 0; c < 4; c++) sum[c] = qe4m3_sum(of[0][c], of[1][c], of[2][c], of[3][c]);
    }
    /* Exact sums over `apart` columns for n tile t, 16 outputs and 8 rows. */
    __device__ __forceinline__ void sums(const qfragment<K, Z::spread> &w, const uint8_t *codes, int t, int sum[][4]) const
    {
        typedef typename Z::O O;
        uint32_t x[O::slots];
        const uint8_t *at = codes + t * 8 * O::row_bytes;
#pragma unroll
        for (int i = 0; i < O::slots; i += 4) {
            const uint4 v = *(const uint4 *)(at + 4 * i);
            x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            uint2 zero = make_uint2(0, 0);
            if constexpr (Z::has_zero) zero = qwords<ROWS>(word, K::two ? 1 + i : Z::blocks + i, t);
            const int first[4] = {(int)zero.x, (int)zero.y, (int)zero.x, (int)zero.y};
            constexpr int each = O::slots / K::sums; /* slots of a sum */
            if constexpr (K::planes > 1) sum_planes(w, i, x, first, sum[i]);
            else if constexpr (each == 1) qmma16<K::looks>(sum[i], w.slot[i], x[i], first);
            else
#pragma unroll
                for (int s = i * each; s < (i + 1) * each; s += 2)
                    qmma32<K::looks>(sum[i], w.slot[s], w.slot[s + 1], x[s], x[s + 1], s == i * each ? first : sum[i]);
        }
    }
    /* Of two levels: the total of the tile, with the minima of the rows' sums. */
    __device__ __forceinline__ void totals(const int sum[][4], int t, float *to) const
    {
        const uint8_t *subs = rest + (K::base ? 4 : 2) * PANEL_ROWS;
        constexpr int blocks = K::span / K::block;
        int product[4] = {0, 0, 0, 0}, minima[4] = {0, 0, 0, 0};
#pragma unroll
        for (int p = 0; p < K::sums / 2; p++) { /* a pair of blocks */
            const int at = (in_span * (K::sums / 2) + p) * 2 * PANEL_ROWS;
            uint32_t v = *(const uint32_t *)(subs + at), low = 0;
            if constexpr (K::base)
                low = K::scale == PANEL_SUB4 ? v >> 4 & 0x0f0f0f0fu : *(const uint32_t *)(subs + blocks * PANEL_ROWS + at);
            if constexpr (K::scale == PANEL_SUB4) v &= 0x0f0f0f0fu;
            const uint32_t sub[4] = {qbytes<0x8880>(v, v), qbytes<0x9991>(v, v), qbytes<0xaaa2>(v, v),
                                     qbytes<0xbbb3>(v, v)};
#pragma unroll
            for (int c = 0; c < 4; c++) {
                if (ROWS == 1 && c % 2) continue;
                product[c] += (int)sub[c / 2 * 2] * sum[2 * p][c] + (int)sub[c / 2 * 2 + 1] * sum[2 * p + 1][c];
            }
            if constexpr (K::base) {
                const uint2 x = qwords<ROWS>(word, 1 + p, t);
#pragma unroll
                for (int c = 0; c < 4; c++)
                    if (ROWS > 1 || c % 2 == 0) minima[c] = qdp2(c % 2 ? x.y : x.x, low, minima[c], c / 2);
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            to[c] = (float)product[c];
            if constexpr (K::base)
                to[c] = fmaf(-(c / 2 ? dmin.y : dmin.x), (float)minima[c], (c / 2 ? d.y : d.x) * to[c]);
        }
    }
    /* What sum i is multiplied by, n tile t. */
    __device__ __forceinline__ qfactor<K, ROWS> factor_of(int i, int t, float factor) const
    {
        qfactor<K, ROWS> f;
        float2 w = d;
        if constexpr (!K::two) {
            const int b = (in_span * PANEL_K + i * K::apart) / K::block;
            constexpr int blocks = K::span / K::block;
            w = qscales<K>(tail, rest, b);
            if constexpr (K::scales_up) w.x *= factor, w.y *= factor;
            if constexpr (Z::has_base) {
                f.base = qhalves(rest + blocks * PANEL_ROWS * K::scale_bytes + b * PANEL_ROWS * 2);
                if constexpr (K::base == PANEL_ZERO) f.base.x *= w.x, f.base.y *= w.y;
                if constexpr (!Z::paired) f.scaled = qwords<ROWS>(word, Z::blocks + i, t);
            }
        }
        uint2 scale;
        if constexpr (Z::paired) {
            const uint4 both = *(const uint4 *)(word + t * 16);
            scale = make_uint2(both.x, both.y), f.scaled = make_uint2(both.z, both.w);
        } else scale = qwords<ROWS>(word, K::two ? 0 : i * K::apart / K::act, t);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (ROWS == 1 && c % 2) continue;
            const float x = __uint_as_float(c % 2 ? scale.y : scale.x);
            f.by[c] = K::two && K::base ? x : (c / 2 ? w.y : w.x) * x;
        }
        return f;
    }
    /* The chain y over the tile. */
    __device__ __forceinline__ void chain(const float sum[][4], int t, float factor, float *y) const
    {
#pragma unroll
        for (int i = 0; i < Z::sums; i++) factor_of(i, t, factor).add(sum[i], y);
    }
};

/* A stage of a warp. */
template <class K, int ROWS> struct qwork {
    typedef qshape<K, ROWS> Z;
    int lines, tails;             /* the stage, in qdecode_shared: where the lane's rows are in lines, in scales */
    const uint8_t *codes;         /* of its first tile's activations, where the lane's are; word too */
    const uint32_t *word, *level;
    float factor;
    int tiles, rows, q;
    float2 d, dmin; /* two levels: of its span */

    /* A stage of two levels is a span. */
    __device__ __forceinline__ void take_scales()
    {
        static_assert(!K::two || Z::spans == 1);
        const uint8_t *at = qdecode_shared + tails + (tiles < K::tiles ? tiles : K::tiles) * K::lines * PANEL_LINE;
        d = qhalves(at);
        if constexpr (K::base) dmin = qhalves(at + 2 * PANEL_ROWS); /* factor is 1 */
        else d.x *= factor, d.y *= factor;
    }

    __device__ __forceinline__ qtile<K, ROWS> tile_at(int t) const
    {
        const int span = t / K::tiles, left = tiles - span * K::tiles;
        const int here = K::tiles == 1 ? 1 : left < K::tiles ? left : K::tiles;
        const int tail = span * Z::span_bytes + here * K::lines * PANEL_LINE;
        constexpr int picked = 8 * K::pick_weights; /* weights of a word of picks */
        const int skipped = K::picks ? (here * PANEL_K + picked - 1) / picked : 0;
        const uint8_t *rest = qdecode_shared + (tails + tail) + skipped * PANEL_LINE;
        return {qdecode_shared + (lines + tail), rest, word + t * Z::row_words, d, dmin, t % K::tiles};
    }
    /* The codes of tile t. */
    __device__ __forceinline__ void take(int t, qfragment<K, Z::spread> &w) const
    {
        uint2 pick = make_uint2(0, 0);
        if constexpr (K::picks) {
            const qtile<K, ROWS> tile = tile_at(t);
            const int first = tile.in_span * (PANEL_K / K::pick_weights); /* pick of the span */
            pick = *(const uint2 *)(tile.tail + first / 8 * PANEL_LINE);
            const int down = (first % 8 + (K::pick_weights == 8 ? 2 : 1) * q) * K::pick_bits;
            pick.x >>= down, pick.y >>= down;
        }
        const int at = t / K::tiles * Z::span_bytes + t % K::tiles * K::lines * PANEL_LINE;
        w.take(qdecode_shared + lines + at, q, level, pick);
    }
    __device__ __forceinline__ void sums(int t, float to[][Z::sums][4]) const
    {
        const qtile<K, ROWS> tile = tile_at(t);
        qfragment<K, Z::spread> w;
        take(t, w);
#pragma unroll
        for (int n = 0; n < Z::n_tiles; n++) {
            if (ROWS > 8 && n * 8 >= rows) continue;
            int sum[K::sums][4];
            tile.sums(w, codes + t * Z::codes_bytes, n, sum);
            if constexpr (K::two) tile.totals(sum, n, to[n][0]);
            else
#pragma unroll
                for (int i = 0; i < K::sums; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++) to[n][i][c] = (float)sum[i][c];
        }
    }
    __device__ __forceinline__ void chain(int t, const float sum[][Z::sums][4], float y[][Z::columns * 2]) const
    {
        const qtile<K, ROWS> tile = tile_at(t);
#pragma unroll
        for (int n = 0; n < Z::n_tiles; n++)
            if (ROWS <= 8 || n * 8 < rows) tile.chain(sum[n], n, factor, y[n]);
    }
};
