/* qdecode.cuh - products of packed weights with few rows of int8 activations, in the bits of ops/def_qmatmul.c, at the
 * rate at which memory gives weights.
 *
 * A warp takes a panel, or `share` warps take one by turns, a stage of some tiles each. Stages stream into a ring of
 * shared memory that each warp has for itself (cp.async); no warp waits for another one's. Integer tensor instructions
 * sum blocks exactly: 16 outputs are m, up to 8 rows of activations n (qfragment.cuh). The chain of fused multiply-adds
 * over k is in registers, a lane has two outputs of two rows; where warps share a panel the chain passes from one to the
 * next by shared memory and a barrier of the two, after the sums of the stage are there. Activations lie in shared memory
 * in the order of operands, as many columns at a time as fit.
 *
 * Bound: bytes of weights over the read bandwidth; of kinds with few bits or small blocks, instructions (counted:
 * tests/t_cuda_budget.c).
 *
 * Tried and dropped: a test for each tile whether it is there, where a span is one tile (zeros behind the last one do
 * the same at no cost); copies of a stage with an address and a test for each 16 bytes (a third of what the copy cost);
 * addresses that follow from the number of the stage, which the compiler computes again for each tile. */
#pragma once
#include "cuda/qfragment.cuh"
#include "cuda/gated.cuh"

/* Sizes that follow from a kind and from the rows that a block takes along. */
template <class K, int ROWS> struct qshape {
    static constexpr int n_tiles = (ROWS + 7) / 8, columns = ROWS == 1 ? 1 : 2; /* of 8 rows; rows that a lane has of one */
    static constexpr int sums = K::two ? 1 : K::sums;                           /* floats of a tile and output */
    static constexpr int span_bytes = (K::tiles * K::lines + K::tail) * PANEL_LINE;
    static constexpr int fit = QDECODE_STAGE / span_bytes, most = 8 / K::tiles;
    static constexpr int spans = fit < 1 ? 1 : fit < most ? fit : most; /* of a stage: up to eight tiles */
    static constexpr int tiles = spans * K::tiles, stage = spans * span_bytes;
    static constexpr int depth = QDECODE_RING / stage > 8 ? 8 : QDECODE_RING / stage < 2 ? 2 : QDECODE_RING / stage;
    /* Tiles whose sums are in registers at a time. */
    static constexpr int held = (ROWS > 8 ? 64 : 24) / (sums * n_tiles * 4), batch = held < 1 ? 1 : held > 4 ? 4 : held;
    /* Of a row and tile, words beside codes: scales; scaled sums, or zero times sums; sums of parts. */
    static constexpr int blocks = PANEL_K / K::act, has_base = K::base == PANEL_BASE, has_zero = !K::looks && K::zero;
    static constexpr int parts = !K::two              ? 0
                                 : K::base            ? (K::apart == 32 ? 1 : 2) /* pairs of int16 */
                                 : has_zero           ? PANEL_K / K::apart
                                                      : 0;
    static constexpr int words = K::two ? 1 + parts : blocks * (1 + has_base + has_zero);
    static constexpr int codes_bytes = ROWS * qorder<K>::row_bytes, row_words = ROWS * words; /* of a tile */
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

template <int STAGES> __device__ __forceinline__ void qcopy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES) : "memory");
}

/* Rows of activations that a block computes: their number, 0 for none; of which expert. */
struct qrows {
    int row0, rows, expert;
};

/* A block for each sorted row: that of every ROWS-th row of an expert takes them. */
template <int ROWS> __device__ __forceinline__ qrows qrows_of_expert(const int32_t *table, int live)
{
    const int at = (int)blockIdx.x, lane = (int)threadIdx.x % 32;
    if (at >= live) return {0, 0, 0};
    const int expert = table[at * DISPATCH_COLS + DISPATCH_EXPERT];
    if (expert < 0) return {0, 0, 0};
    int before = 0;
    uint32_t others = 0;
    while (!others) {
        const int i = at - 1 - before - lane;
        others = __ballot_sync(~0u, i < 0 || table[i * DISPATCH_COLS + DISPATCH_EXPERT] != expert);
        before += others ? __ffs((int)others) - 1 : 32;
    }
    if (before % ROWS) return {0, 0, 0};
    const int i = at + lane;
    const bool mine = lane < ROWS && i < live && table[i * DISPATCH_COLS + DISPATCH_EXPERT] == expert;
    return {at, __popc(__ballot_sync(~0u, mine)), expert};
}

/* The words of a tile of a row beside its codes, to[i * ROWS]. */
template <class K, int ROWS>
__device__ __forceinline__ void qwords_put(const uint32_t *scale, const uint32_t *scaled, const uint32_t *negative,
                                           const uint32_t *part, uint32_t *to)
{
    typedef qshape<K, ROWS> Z;
    if constexpr (K::two) {
        to[0] = __ldg(scale);
#pragma unroll
        for (int j = 0; j < Z::parts; j++) {
            if constexpr (K::base) { /* the negative of both halves */
                const uint32_t pair = __ldg(part + (K::apart == 32 ? 0 : 1 + j));
                to[(1 + j) * ROWS] = (uint32_t)(uint16_t)(0 - (pair & 0xffffu)) | (0 - (pair >> 16)) << 16;
            } else {
                const int16_t sum = (int16_t)(__ldg(part + 1 + j / 2) >> j % 2 * 16);
                to[(1 + j) * ROWS] = (uint32_t)(-K::zero * sum);
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < Z::blocks; j++) {
            to[j * ROWS] = __ldg(scale + j);
            if constexpr (Z::has_base) to[(Z::blocks + j) * ROWS] = __ldg(scaled + j);
            if constexpr (Z::has_zero) to[(Z::blocks + j) * ROWS] = (uint32_t)(-K::zero * (int)__ldg(negative + j));
        }
    }
}

/* Tiles of the rows from column k0 on into shared memory. */
template <class K, int ROWS>
__device__ __forceinline__ void qfill(const qdecode_args &a, qrows r, int64_t k0, int tiles, uint8_t *codes,
                                      uint32_t *word)
{
    typedef qshape<K, ROWS> Z;
    const int warps = (int)blockDim.x / 32, by = ROWS < warps ? warps / ROWS : 1; /* warps of a row */
    const int warp = (int)threadIdx.x / 32, at = warp % by * 32 + (int)threadIdx.x % 32;
    const int64_t padded = act_padded(a.x_cols), blocks = padded / K::act, b0 = k0 / K::act;
    for (int m = warp / by; m < r.rows; m += warps / by) {
        const uint8_t *x = a.x + (uint64_t)(r.row0 + m) * a.x_stride;
        const uint2 *from = (const uint2 *)(x + k0 + 16 * at);
        uint8_t *to = codes + at / 4 * Z::codes_bytes + m * qorder<K>::row_bytes + qorder_at<K>(at % 4);
        for (int i = at; i < 4 * tiles; i += 32 * by, from += 64 * by, to += 8 * by * Z::codes_bytes)
            qorder_put<K>(__ldg(from), __ldg(from + 1), to);
        const uint32_t *scale = (const uint32_t *)(x + padded), *part = scale + 3 * blocks + k0 / PANEL_K * 3 + 3 * at;
        uint32_t *words = word + at * Z::row_words + m;
        scale += b0 + at * Z::blocks;
        int i = at;
        for (; i < tiles; i += 32 * by, words += 32 * by * Z::row_words, scale += 32 * by * Z::blocks, part += 96 * by)
            qwords_put<K, ROWS>(scale, scale + blocks, scale + 2 * blocks, part, words);
        for (; i < (tiles + Z::tiles - 1) / Z::tiles * Z::tiles; i += 32 * by, words += 32 * by * Z::row_words)
#pragma unroll
            for (int j = 0; j < Z::words; j++) words[j * ROWS] = 0; /* weights there are zero */
    }
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

/* One warp's work on a tile. */
template <class K, int ROWS> struct qtile {
    typedef qshape<K, ROWS> Z;
    const uint8_t *tail, *rest; /* of its span: with picks, without; of the lane's rows */
    const uint32_t *word;       /* of the activations: of the lane's columns */
    float2 d, dmin;             /* two levels: of the span, rows 2 g and 2 g + 1 */
    int in_span;

    /* Exact sums over `apart` columns for n tile t, 16 outputs and 8 rows. */
    __device__ __forceinline__ void sums(const qfragment<K> &w, const uint8_t *codes, int t, int sum[][4]) const
    {
        typedef qorder<K> O;
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
            if constexpr (each == 1) qmma16<K::looks>(sum[i], w.slot[i], x[i], first);
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
            const uint32_t sub[4] = {qbytes(v, 0, 0x8880), qbytes(v, 0, 0x9991), qbytes(v, 0, 0xaaa2), qbytes(v, 0, 0xbbb3)};
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
    /* The chain y over the tile. */
    __device__ __forceinline__ void chain(const float sum[][4], int t, float factor, float *y) const
    {
        if constexpr (K::two) {
            const uint2 scale = qwords<ROWS>(word, 0, t);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                if (ROWS == 1 && c % 2) continue;
                const float x = __uint_as_float(c % 2 ? scale.y : scale.x);
                float &to = y[c / 2 * Z::columns + c % 2];
                to = fmaf(sum[0][c], K::base ? x : (c / 2 ? d.y : d.x) * x, to);
            }
        } else {
#pragma unroll
            for (int i = 0; i < K::sums; i++) {
                const int b = (in_span * PANEL_K + i * K::apart) / K::block;
                constexpr int blocks = K::span / K::block;
                float2 w = qscales<K>(tail, rest, b), base = make_float2(0, 0);
                if constexpr (K::scale == PANEL_E5M3) w.x *= factor, w.y *= factor;
                if constexpr (Z::has_base)
                    base = qhalves(rest + blocks * PANEL_ROWS * K::scale_bytes + b * PANEL_ROWS * 2);
                const uint2 scale = qwords<ROWS>(word, i * K::apart / K::act, t);
                uint2 scaled = make_uint2(0, 0);
                if constexpr (Z::has_base) scaled = qwords<ROWS>(word, Z::blocks + i, t);
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    if (ROWS == 1 && c % 2) continue;
                    float &to = y[c / 2 * Z::columns + c % 2];
                    to = fmaf(sum[i][c], (c / 2 ? w.y : w.x) * __uint_as_float(c % 2 ? scale.y : scale.x), to);
                    if constexpr (Z::has_base)
                        to = fmaf(c / 2 ? base.y : base.x, __uint_as_float(c % 2 ? scaled.y : scaled.x), to);
                }
            }
        }
    }
};

/* A number that is computed once: without it the compiler does so again for each tile. */
__device__ __forceinline__ int qkept(int n)
{
    asm volatile("" : "+r"(n));
    return n;
}

/* A stage of a warp. */
template <class K, int ROWS> struct qwork {
    typedef qshape<K, ROWS> Z;
    const uint8_t *lines, *tails; /* the stage: where the lane's rows are in lines, in scales */
    const uint8_t *codes;         /* of its first tile's activations, where the lane's are; word too */
    const uint32_t *word, *level;
    float factor;
    int tiles, rows, q;
    float2 d, dmin; /* two levels: of its span */

    /* A stage of two levels is a span. */
    __device__ __forceinline__ void take_scales()
    {
        static_assert(!K::two || Z::spans == 1);
        const uint8_t *at = tails + (tiles < K::tiles ? tiles : K::tiles) * K::lines * PANEL_LINE;
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
        return {lines + tail, tails + tail + skipped * PANEL_LINE, word + t * Z::row_words, d, dmin, t % K::tiles};
    }
    __device__ __forceinline__ void sums(int t, float to[][Z::sums][4]) const
    {
        const qtile<K, ROWS> tile = tile_at(t);
        uint2 pick = make_uint2(0, 0);
        if constexpr (K::picks) {
            const int first = tile.in_span * (PANEL_K / K::pick_weights); /* pick of the span */
            pick = *(const uint2 *)(tile.tail + first / 8 * PANEL_LINE);
            const int down = (first % 8 + (K::pick_weights == 8 ? 2 : 1) * q) * K::pick_bits;
            pick.x >>= down, pick.y >>= down;
        }
        qfragment<K> w;
        w.take(lines + t / K::tiles * Z::span_bytes + t % K::tiles * K::lines * PANEL_LINE, q, level, pick);
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

template <int AT, int STAGE> __device__ __forceinline__ void qcopy_whole(const uint8_t *from, uint32_t to)
{
    if (AT + 512 <= STAGE || AT + (int)threadIdx.x % 32 * 16 < STAGE)
        asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to), "l"(from), "n"(AT) : "memory");
    if constexpr (AT + 512 < STAGE) qcopy_whole<AT + 512, STAGE>(from, to);
}

/* Asks for a stage of which so many bytes are left; where fewer are than a stage has, zeros follow. An empty group where
 * none is. */
template <int STAGE> __device__ __forceinline__ void qcopy(const uint8_t *from, int left, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32;
    if (left >= STAGE) {
        qcopy_whole<0, STAGE>(from, to);
    } else if (left > 0) {
        for (int i = 0; i + lane * 16 < STAGE; i += 512) {
            const int size = i + lane * 16 < left ? 16 : 0;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i), "l"(size ? from + i : from), "r"(size)
                         : "memory");
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern __shared__ __align__(16) uint8_t qdecode_shared[];

template <class K, int ROWS> __device__ __forceinline__ void qdecode(const qdecode_args &a)
{
    typedef qshape<K, ROWS> Z;
    __shared__ __align__(16) int8_t level[256];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    const int live = *a.live, turn = warp % a.share, warps = (int)blockDim.x / 32;
    const int panel = (int)blockIdx.y * (warps / a.share) + warp / a.share;
    const int left = live - (int)blockIdx.x * ROWS;
    const qrows r = a.table ? qrows_of_expert<ROWS>(a.table, live)
                            : qrows{(int)blockIdx.x * ROWS, left < ROWS ? left : ROWS, 0};
    if (r.rows <= 0) return;
    product_part of = a.part[0];
#pragma unroll
    for (int i = 1; i < PRODUCT_PARTS; i++)
        if (i < a.parts && panel >= a.part[i].panel0) of = a.part[i];
    int own = panel - of.panel0;
    if (a.end.n) {
        of = a.part[panel % GATED_PANELS / (GATED_PANELS / 2)];
        own = panel / GATED_PANELS * (GATED_PANELS / 2) + panel % (GATED_PANELS / 2);
    }
    const int64_t n0 = (int64_t)own * PANEL_ROWS;
    const uint64_t number = (uint64_t)r.expert * (uint64_t)(of.n / PANEL_ROWS) + (uint64_t)own;
    const int tiles = (int)((a.cols + PANEL_K - 1) / PANEL_K), stages = (tiles + Z::tiles - 1) / Z::tiles;
    const int last = panel < a.panels ? stages : 0; /* stages of this warp's panel */
    float *carry = (float *)(qdecode_shared + warps * Z::depth * Z::stage); /* [warp][carried][lane] */
    const int chunk = (int)(a.shared - warps * Z::warp_bytes) / Z::stage_bytes; /* stages of activations */
    uint8_t *codes = (uint8_t *)(carry + warps * Z::carried * 32);
    uint32_t *word = (uint32_t *)(codes + chunk * Z::tiles * Z::codes_bytes);
    /* The next stage to ask for, and what is left of the panel from there on. */
    const uint8_t *from = of.w + number * of.stride + turn * Z::stage + lane * 16;
    const int step = a.share * Z::stage;
    int left_bytes = last ? (int)of.stride - turn * Z::stage : 0;
    const uint32_t ring = (uint32_t)__cvta_generic_to_shared(qdecode_shared) + warp * Z::depth * Z::stage + lane * 16;
    for (int i = 0; i < Z::depth; i++, from += step, left_bytes -= step) qcopy<Z::stage>(from, left_bytes, ring + i * Z::stage);
    const uint32_t *levels = (const uint32_t *)level;
    uint32_t table[4];
    if constexpr (K::looks) {
        const int8_t *from = panel_format_of((dtype)a.type)->level;
        for (int i = (int)threadIdx.x; i < (K::picks ? 1 << (K::bits + K::pick_bits) : 16); i += (int)blockDim.x)
            level[i] = from[i];
        __syncthreads();
        if constexpr (!K::picks) {
#pragma unroll
            for (int i = 0; i < 4; i++) table[i] = levels[i];
            levels = table;
        }
    }
    const int64_t k0 = (int64_t)blockIdx.y * (warps / a.share) * PANEL_ROWS / a.head_rows * a.cols;
    float y[Z::n_tiles][Z::columns * 2] = {};
    /* Where a lane's part is; bytes from one stage of the warp to its next. */
    constexpr int of_scales = K::two ? 4 : 2 * K::scale_bytes;
    const uint8_t *const lines = qdecode_shared + qkept(warp * Z::depth * Z::stage + 8 * g);
    const uint8_t *const tails = qdecode_shared + qkept(warp * Z::depth * Z::stage + of_scales * g);
    const int codes_step = a.share * Z::tiles * Z::codes_bytes, word_step = a.share * Z::tiles * Z::row_words;
    const int codes_lane = (ROWS == 1 ? 0 : g * qorder<K>::row_bytes) + q * qorder<K>::slots * 4;
    int slot = 0, s = turn;
    for (int c0 = 0; c0 < stages; c0 += chunk) {
        const int end = c0 + chunk < last ? c0 + chunk : last, t0 = c0 * Z::tiles;
        const int filled = tiles - t0 < chunk * Z::tiles ? tiles - t0 : chunk * Z::tiles;
        if (c0) __syncthreads();
        qfill<K, ROWS>(a, r, k0 + (int64_t)t0 * PANEL_K, filled, codes, word);
        __syncthreads();
        const uint8_t *x = codes + qkept((s - c0) * Z::tiles * Z::codes_bytes + codes_lane);
        const uint32_t *x_word = word + qkept((s - c0) * Z::tiles * Z::row_words + (ROWS == 1 ? 0 : 2 * q));
        for (; s < end; s += a.share, x += codes_step, x_word += word_step) {
            qwork<K, ROWS> work = {lines + slot, tails + slot, x, x_word, levels, a.factor, 0, r.rows, q};
            if constexpr (K::tiles > 1) work.tiles = qkept(tiles - s * Z::tiles);
            qcopy_wait<Z::depth - 1>();
            __syncwarp();
            if constexpr (K::two) work.take_scales();
#pragma unroll
            for (int b = 0; b < Z::tiles; b += Z::batch) {
                float sum[Z::batch][Z::n_tiles][Z::sums][4];
#pragma unroll
                for (int t = b; t < b + Z::batch && t < Z::tiles; t++) work.sums(t, sum[t - b]);
                if (b == 0 && a.share > 1 && s > 0) {
                    asm volatile("bar.sync %0, 64;" ::"r"(1 + warp) : "memory");
#pragma unroll
                    for (int i = 0; i < Z::carried; i++)
                        y[i / (Z::columns * 2)][i % (Z::columns * 2)] = carry[(warp * Z::carried + i) * 32 + lane];
                }
#pragma unroll
                for (int t = b; t < b + Z::batch && t < Z::tiles; t++)
                    if (K::tiles == 1 || t < work.tiles) work.chain(t, sum[t - b], y); /* zeros follow the last tile */
            }
            if (a.share > 1 && s + 1 < last) {
                const int next = turn + 1 < a.share ? warp + 1 : warp - turn;
#pragma unroll
                for (int i = 0; i < Z::carried; i++)
                    carry[(next * Z::carried + i) * 32 + lane] = y[i / (Z::columns * 2)][i % (Z::columns * 2)];
                asm volatile("bar.arrive %0, 64;" ::"r"(1 + next) : "memory");
            }
            __syncwarp();
            qcopy<Z::stage>(from, left_bytes, ring + slot);
            from += step, left_bytes -= step;
            slot = slot + Z::stage < Z::depth * Z::stage ? slot + Z::stage : 0;
        }
    }
    if (last && (last - 1) % a.share == turn && (ROWS > 1 || q == 0))
#pragma unroll
        for (int n = 0; n < Z::n_tiles; n++)
#pragma unroll
            for (int c = 0; c < Z::columns * 2; c++) {
                const int m = ROWS == 1 ? 0 : n * 8 + 2 * q + c % 2;
                const int64_t i = n0 + 2 * g + c / Z::columns;
                if (m >= r.rows || i >= of.n) continue;
                of.y[(r.row0 + m) * of.n + i] = of.bias ? y[n][c] + of.bias[(int64_t)r.expert * of.n + i] : y[n][c];
            }
    if (a.end.n) gated_codes(a, r.row0, r.rows);
}

#define QDECODE_KERNEL(name, rows, blocks, ...)                                                                        \
    extern "C" __global__ void __launch_bounds__(QDECODE_WARPS * 32, blocks)                                              \
        cuda_qdecode_##name##_##rows(const __grid_constant__ qdecode_args a)                                           \
    {                                                                                                                  \
        qdecode<qkind<__VA_ARGS__>, rows>(a);                                                                          \
    }
#define QDECODE_KERNELS(name, ...)                                                                                     \
    QDECODE_KERNEL(name, 1, 2, __VA_ARGS__)                                                                            \
    QDECODE_KERNEL(name, 8, 2, __VA_ARGS__)                                                                            \
    QDECODE_KERNEL(name, 32, 1, __VA_ARGS__)
#ifndef QDECODE_LIST
#define QDECODE_LIST PANEL_KIND_LIST
#endif
QDECODE_LIST(QDECODE_KERNELS)
