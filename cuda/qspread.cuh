/* qspread.cuh - one row of activations, and stages of four tiles or eight: the row is spread over the eight columns of B,
 * which else would be copies of each other.
 *
 * A column is that of one tile, or of some sums of it; in lanes that do not have words of it B is zero. So tiles go into
 * one accumulator one after another without mixing, and each lane ends with sums of its own: it has the floats of one
 * tile or two, where else each lane would have those of all. The chain goes through the four lanes of an output in the
 * order of their tiles.
 *
 * As sums are exact, codes may be multiplied as they lie: bits that are masked in place give sums times a power of two,
 * an accumulator for each power (1 bit); pairs of 11 levels are not taken apart, as low is pair - 11 high. */
#pragma once
#include "cuda/qtile.cuh"

/* 2 a + b */
__device__ __forceinline__ int qtwice(int a, int b)
{
    int to;
    asm("mad.lo.s32 %0, %1, 2, %2;" : "=r"(to) : "r"(a), "r"(b));
    return to;
}

/* Of a lane, where one row is spread over the columns of B: what it knows of a round besides the tile at hand. */
template <class K> struct qspread {
    typedef qshape<K, 1> Z;
    int tail, rest;          /* offsets in a stage: the tail of its first tile, and the tile's part behind picks */
    int end, there;          /* the last stage, if it is not whole, else -1: tiles there are from the lane's first on, */
    int missing, less;       /* by how much offsets of tails are less there; in this stage, */
    int missing_rest, less_rest; /* and behind picks */
    int before;              /* the lane that has the tiles before */
    uint32_t codes, zeros;   /* shared memory: of its column in the round; zeros */
    uint32_t mine[Z::spread ? Z::round : 1]; /* all ones where it has column g for tile t */

    __device__ __forceinline__ void begin(int lane, int tiles, const void *none)
    {
        const int g = lane / 4, q = lane % 4, first = q * Z::own, in = first % K::tiles;
        constexpr int picked = 8 * K::pick_weights, skipped = K::picks ? (K::tiles * PANEL_K + picked - 1) / picked : 0;
        const int in_tail = Z::halves ? q / 2 * 2 * K::sums * PANEL_ROWS + q % 2 * 2 * PANEL_ROWS
                  : K::two  ? in * K::sums * PANEL_ROWS
                            : in * PANEL_K / K::block * PANEL_ROWS * K::scale_bytes;
        tail = kept(first / K::tiles * Z::span_bytes + K::tiles * K::lines * PANEL_LINE);
        rest = kept(tail + skipped * PANEL_LINE + in_tail);
        const int of_last = (int)((unsigned)tiles % Z::tiles), here = of_last - first / K::tiles * K::tiles;
        end = kept(of_last ? (int)((unsigned)tiles / Z::tiles) : -1);
        const bool part = here < K::tiles && here > 0;
        there = kept(of_last - first);
        missing = kept(part ? (K::tiles - here) * K::lines * PANEL_LINE : 0);
        if constexpr (K::picks)
            missing_rest = kept(part ? missing + (skipped - (here * PANEL_K + picked - 1) / picked) * PANEL_LINE : 0);
        before = kept((lane & 28) | ((lane + 3) & 3));
        zeros = kept((int)__cvta_generic_to_shared(none));
#pragma unroll
        for (int t = 0; t < Z::round; t++)
            mine[t] = (uint32_t)kept(-(Z::spans_once ? g == t / 2 * 2 + q / 2
                                        : Z::own == 2 ? g == t
                                        : Z::halves   ? g / 4 == t / 2 && g % 4 == q
                                                      : g / 2 == t && (Z::turns || g % 2 == (Z::rows ? q / 2 : 0))));
    }
    __device__ __forceinline__ void stage(const uint8_t *x, bool ends)
    {
        codes = (uint32_t)__cvta_generic_to_shared(x);
        less = ends ? missing : 0;
        if constexpr (K::picks) less_rest = ends ? missing_rest : 0;
    }
};

/* Four words AT bytes behind an address in shared memory. */
template <int AT> __device__ __forceinline__ uint4 shared_words(uint32_t at)
{
    uint4 to;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                 : "r"(at), "n"(AT)
                 : "memory");
    return to;
}

/* A stage of a warp, spread or not. */
template <class K, int ROWS> struct qspread_work : qwork<K, ROWS> {
    typedef qshape<K, ROWS> Z;
    bool ends; /* a last stage that is not whole */

    using qwork<K, ROWS>::lines;
    using qwork<K, ROWS>::tails;
    using qwork<K, ROWS>::word;
    using qwork<K, ROWS>::d;
    using qwork<K, ROWS>::dmin;

    /* Tile round + own q + o, as if it were number o of a span. */
    __device__ __forceinline__ qtile<K, ROWS> own_tile(int round, int o, const qspread<K> &at) const
    {
        const int span = round / K::tiles * Z::span_bytes;
        const uint32_t *of = word + (round + o) * Z::row_words;
        const int less = K::tiles == 1 ? 0 : at.less, less_rest = K::picks ? at.less_rest : less;
        const int tail = at.tail + span - less, rest = (K::two ? at.rest : 0) + span - less_rest; /* else tails has it */
        return {qdecode_shared + (lines + tail), qdecode_shared + (tails + rest), of, d, dmin, o};
    }
    /* Tiles round … round + Z::round - 1: what is summed of them, four numbers of a lane in each of sum[]. */
    __device__ __forceinline__ void multiply(int round, const qspread<K> &at, int sum[4][4]) const
    {
        const uint32_t codes = at.codes + round * Z::codes_bytes;
#pragma unroll
        for (int t = 0; t < Z::round; t++) {
            qfragment<K, true> w;
            this->take(round + t, w);
            const uint32_t from = qlop<0xca>(at.mine[t], codes, at.zeros);
            const uint4 x = Z::halves && t % 2 ? shared_words<Z::codes_bytes>(from) : shared_words<0>(from);
            if constexpr (K::bits == 0) { /* pairs times low, high times high, high times low */
                qmma32<false>(sum[0], w.slot[0], w.slot[2], x.x, x.z, sum[0]);
                qmma32<false>(sum[1], w.slot[1], w.slot[3], x.y, x.w, sum[1]);
                qmma32<false>(sum[2], w.slot[1], w.slot[3], x.x, x.z, sum[2]);
                continue;
            }
            if constexpr (K::planes > 1) {
#pragma unroll
                for (int p = 0; p < K::planes; p++) {
                    const uint2 *slot = w.slot + Z::O::slots * p;
                    qmma32<false>(sum[p], slot[0], slot[1], x.x, x.y, sum[p]);
                    qmma32<false>(sum[p], slot[2], slot[3], x.z, x.w, sum[p]);
                }
                continue;
            }
            int *first = sum[Z::halves ? t % 2 : 0], *second = sum[Z::halves ? t % 2 : K::sums == 4];
            qmma32<K::looks>(first, w.slot[0], w.slot[1], x.x, x.y, first);
            qmma32<K::looks>(second, w.slot[2], w.slot[3], x.z, x.w, second);
        }
    }
    /* The same of 1 bit, span by span: lane q has line q, bits i of both halves of a byte times their words of the row. */
    __device__ __forceinline__ void multiply_bits(int round, const qspread<K> &at, int sum[4][4]) const
    {
        const uint32_t codes = at.codes + round * Z::codes_bytes;
#pragma unroll
        for (int t = 0; t < Z::round; t += 2) {
            const uint2 v = *(const uint2 *)(qdecode_shared + lines + (round + t) / 2 * Z::span_bytes);
            const uint2 w = make_uint2(v.x >> 4, v.y >> 4);
            const uint32_t from = qlop<0xca>(at.mine[t], codes, at.zeros);
            const uint4 x = shared_words<0>(from), y = shared_words<16>(from);
            const uint32_t low[4] = {x.x, x.y, x.z, x.w}, high[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t bit = 0x01010101u << i;
                qmma32<false>(sum[i], make_uint2(v.x & bit, v.y & bit), make_uint2(w.x & bit, w.y & bit), low[i],
                              high[i], sum[i]);
            }
        }
    }
    /* Halves of the totals of two tiles, which neighbours exchange. */
    static __device__ __forceinline__ void halves_add(const qtile<K, ROWS> &tile, const int sum[4][4], float *to)
    {
        const bool odd = threadIdx.x % 2;
        int total[2][2];
#pragma unroll
        for (int p = 0; p < 2; p++) {
            const uint32_t v = *(const uint32_t *)(tile.rest + 2 * PANEL_ROWS + p * K::sums * PANEL_ROWS);
            total[p][0] = (int)qbytes<0x8880>(v, v) * sum[p][0] + (int)qbytes<0x9991>(v, v) * sum[p][1];
            total[p][1] = (int)qbytes<0xaaa2>(v, v) * sum[p][2] + (int)qbytes<0xbbb3>(v, v) * sum[p][3];
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int other;
            asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(other) : "r"(odd ? total[0][r] : total[1][r]));
            to[2 * r] = (float)((odd ? total[1][r] : total[0][r]) + other);
        }
    }
    /* Tiles from the lane's number n on add nothing: -0. What they have as a base is multiplied by sums of 0. */
    static __device__ __forceinline__ void leave_out(int n, float to[][1][Z::sums][4], qfactor<K, ROWS> f[][Z::sums])
    {
#pragma unroll
        for (int o = 0; o < Z::own; o++)
            if (o >= n)
#pragma unroll
                for (int i = 0; i < Z::sums; i++)
#pragma unroll
                    for (int c = 0; c < 4; c += 2) {
                        to[o][0][i][c] = 0, f[o][i].by[c] = -0.0f;
                        if constexpr (Z::has_base) f[o][i].base = make_float2(-0.0f, -0.0f), f[o][i].scaled = make_uint2(0, 0);
                    }
    }
    /* The sums of the lane's tiles and their factors. */
    __device__ __forceinline__ void spread_sums(int round, const qspread<K> &at, float to[][1][Z::sums][4],
                                                qfactor<K, ROWS> f[][Z::sums]) const
    {
        constexpr int first = K::two ? 1 : Z::blocks; /* word of the first zero */
        qtile<K, ROWS> own[Z::own];
#pragma unroll
        for (int o = 0; o < Z::own; o++) own[o] = own_tile(round, o, at);
        uint32_t words[4]; /* of the lane's tiles */
        if constexpr (Z::own * Z::words == 4) {
            const uint4 of = *(const uint4 *)own[0].word;
            words[0] = of.x, words[1] = of.y, words[2] = of.z, words[3] = of.w;
#pragma unroll
            for (int o = 0; o < Z::own; o++) own[o].word = words + o * Z::words;
        }
        int sum[4][4] = {}; /* sum i in [i / 2][i % 2], of two tiles in [0][o]; of the second output 2 further on */
#pragma unroll
        for (int i = 0; i < (K::planes > 1 ? 2 : 4) && Z::has_zero; i++) {
            const int o = Z::own == 2 ? i % 2 : 0, j = Z::own == 2 ? 0 : i < K::sums ? i : 0;
            int *to = sum[Z::spans_once ? 3 : i / 2] + i % 2;
            to[0] = to[2] = (int)own[o].word[first + j];
        }
        if constexpr (Z::spans_once) multiply_bits(round, at, sum);
        else multiply(round, at, sum);
#pragma unroll
        for (int o = 0; o < Z::own; o++) {
            const qtile<K, ROWS> &tile = own[o];
            int of[K::sums][4];
#pragma unroll
            for (int i = 0; i < K::sums; i++)
#pragma unroll
                for (int c = 0; c < 4; c += 2) {
                    const int k = c + (Z::own == 2 ? o : i % 2);
                    of[i][c] = sum[i / 2][k];
                    if constexpr (K::planes > 1) of[i][c] = qe4m3_sum(sum[0][k], sum[1][k], sum[2][k], sum[3][k]);
                    if constexpr (K::bits == 0) of[i][c] = sum[0][k] + ((sum[1][k] - 11 * sum[2][k]) >> 4);
                    if constexpr (Z::spans_once) /* a code is a bit, twice */
                        of[i][c] = qtwice(qtwice(qtwice(sum[0][k], sum[1][k]), sum[2][k]), sum[3][k]) >> 2;
                }
            if constexpr (Z::halves) halves_add(tile, sum, to[o][0][0]);
            else if constexpr (K::two) tile.totals(of, 0, to[o][0][0]);
#pragma unroll
            for (int i = 0; i < Z::sums; i++) {
                f[o][i] = tile.factor_of(i, 0, this->factor);
#pragma unroll
                for (int c = 0; c < 4; c += 2)
                    if constexpr (!K::two) to[o][0][i][c] = (float)of[i][c];
            }
        }
        if constexpr (K::tiles > 1) /* where a span is a tile zeros follow the last */
            if (ends) leave_out(at.there - round, to, f);
    }
    /* The chain goes from lane to lane of a row. */
    static __device__ __forceinline__ void spread_chain(const float sum[][1][Z::sums][4],
                                                        const qfactor<K, ROWS> f[][Z::sums], int before, float *y)
    {
#pragma unroll
        for (int step = 0; step < 4; step++) {
#pragma unroll
            for (int o = 0; o < Z::own; o++)
#pragma unroll
                for (int i = 0; i < Z::sums; i++) f[o][i].add(sum[o][0][i], y);
#pragma unroll
            for (int c = 0; c < 2; c++)
                asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=f"(y[c]) : "f"(y[c]), "r"(before));
        }
    }
};
