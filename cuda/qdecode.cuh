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
#include "cuda/dependent.cuh"
#include "cuda/gated.cuh"
#include "cuda/qspread.cuh"

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
        to[0] = *scale;
#pragma unroll
        for (int j = 0; j < Z::parts; j++) {
            if constexpr (K::base) { /* the negative of both halves */
                const uint32_t pair = part[(K::apart == 32 ? 0 : 1 + j)];
                to[(1 + j) * ROWS] = (uint32_t)(uint16_t)(0 - (pair & 0xffffu)) | (0 - (pair >> 16)) << 16;
            } else {
                const int16_t sum = (int16_t)(part[1 + j / 2] >> j % 2 * 16);
                to[(1 + j) * ROWS] = (uint32_t)(-K::zero * sum);
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < Z::blocks; j++) {
            to[j * ROWS] = scale[j];
            if constexpr (Z::has_base) to[Z::paired ? 2 : (Z::blocks + j) * ROWS] = scaled[j];
            if constexpr (Z::has_zero) to[(Z::blocks + j) * ROWS] = K::excess * (Z::spans_once ? 4 : 1) * negative[j];
        }
    }
}

/* Tiles of the rows from column k0 on into shared memory. */
template <class K, int ROWS>
__device__ __forceinline__ void qfill(const qdecode_args &a, qrows r, int64_t k0, int tiles, uint8_t *codes,
                                      uint32_t *word)
{
    typedef qshape<K, ROWS> Z;
    const unsigned warps = blockDim.x / 32, by_warps = ROWS < warps ? warps / ROWS : 1; /* warps of a row */
    const unsigned warp = threadIdx.x / 32, of_row = warp % by_warps * 32 + threadIdx.x % 32;
    const int by = (int)by_warps, at = (int)of_row;
    const int64_t padded = act_padded(a.x_cols), blocks = padded / K::act, b0 = k0 / K::act;
    for (int m = (int)(warp / by_warps); m < r.rows; m += (int)(warps / by_warps)) {
        const uint8_t *x = a.x + (uint64_t)(r.row0 + m) * a.x_stride;
        const uint2 *from = (const uint2 *)(x + k0 + 16 * at);
        uint8_t *to = codes + (int)(of_row / 4) * Z::codes_bytes + m * Z::O::row_bytes + qorder_at<typename Z::O>((int)(of_row % 4));
        if constexpr (Z::turns) to += (int)(K::sums == 4 ? of_row % 2 : of_row % 4 / 2) * Z::O::row_bytes;
#pragma unroll Z::fill
        for (int i = at; i < 4 * tiles; i += 32 * by, from += 64 * by, to += 8 * by * Z::codes_bytes)
            qorder_put<typename Z::O>(*from, from[1], to);
        const uint32_t *scale = (const uint32_t *)(x + padded), *part = scale + 3 * blocks + k0 / PANEL_K * 3 + 3 * at;
        uint32_t *words = word + at * Z::row_words + (Z::paired ? m + (m & ~1) : m);
        scale += b0 + at * Z::blocks;
        int i = at;
        for (; i < tiles; i += 32 * by, words += 32 * by * Z::row_words, scale += 32 * by * Z::blocks, part += 96 * by)
            qwords_put<K, ROWS>(scale, scale + blocks, scale + 2 * blocks, part, words);
        if constexpr (K::tiles == 1) /* tiles behind the last one of a stage are multiplied too: weights there are zero */
            if (i < (tiles + Z::tiles - 1) / Z::tiles * Z::tiles)
#pragma unroll
                for (int j = 0; j < Z::words; j++) words[j * (Z::paired ? 2 : ROWS)] = 0;
    }
}

template <int AT, int STAGE> __device__ __forceinline__ void qcopy_whole(const uint8_t *from, uint32_t to, int lane)
{
    if constexpr (AT + 512 <= STAGE)
        asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(to), "l"(from), "n"(AT) : "memory");
    else
        asm volatile("{\n.reg .pred there;\nsetp.lt.s32 there, %3, %4;\n"
                     "@there cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;\n}" ::"r"(to),
                     "l"(from), "n"(AT), "r"(lane), "n"((STAGE - AT) / 16)
                     : "memory");
    if constexpr (AT + 512 < STAGE) qcopy_whole<AT + 512, STAGE>(from, to, lane);
}

/* Asks for a stage of which so many bytes are left; where fewer are than a stage has, zeros follow. */
template <int STAGE> __device__ __forceinline__ void qcopy(const uint8_t *from, int left, uint32_t to, int lane)
{
    if (left >= STAGE) return qcopy_whole<0, STAGE>(from, to, lane);
#pragma unroll 1
    for (int i = 0; left > 0 && i + lane * 16 < STAGE; i += 512) {
        const int size = i + lane * 16 < left ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i), "l"(size ? from + i : from), "r"(size)
                     : "memory");
    }
}
__device__ __forceinline__ void qcopy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <class K, int ROWS> __device__ __forceinline__ void qdecode(const qdecode_args &a)
{
    typedef qshape<K, ROWS> Z;
    __shared__ __align__(16) int8_t level[256 + 128]; /* and zeros */
    const int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32), g = (int)(threadIdx.x % 32 / 4),
              q = (int)(threadIdx.x % 4), warps = (int)(blockDim.x / 32);
    const int live = *a.live, turn = (int)((unsigned)warp % (unsigned)a.share);
    const int panel = (int)(blockIdx.y * ((unsigned)warps / (unsigned)a.share) + (unsigned)warp / (unsigned)a.share);
    const int left = live - (int)blockIdx.x * ROWS;
    let_next_begin();
    if (a.table) wait_for_last();
    const qrows r = a.table ? qrows_of_expert<ROWS>(a.table, live)
                            : qrows{(int)blockIdx.x * ROWS, left < ROWS ? left : ROWS, 0};
    if (r.rows <= 0) {
        wait_for_last();
        return;
    }
    product_part of = a.part[0];
#pragma unroll
    for (int i = 1; i < PRODUCT_PARTS; i++)
        if (i < a.parts && panel >= a.part[i].first) of = a.part[i];
    int own = panel - of.first;
    if (a.end.n) {
        const unsigned p = (unsigned)panel;
        of = a.part[p % GATED_PANELS / (GATED_PANELS / 2)];
        own = (int)(p / GATED_PANELS * (GATED_PANELS / 2) + p % (GATED_PANELS / 2));
    }
    const int64_t n0 = (int64_t)own * PANEL_ROWS;
    const uint64_t number = (uint64_t)r.expert * ((uint64_t)of.n / PANEL_ROWS) + (uint64_t)own;
    const int tiles = (int)((uint32_t)(a.cols + PANEL_K - 1) / PANEL_K),
              stages = (int)((unsigned)(tiles + Z::tiles - 1) / Z::tiles);
    const int last = panel < a.panels ? stages : 0; /* stages of this warp's panel */
    float *carry = (float *)(qdecode_shared + warps * Z::depth * Z::stage); /* [warp][carried][lane] */
    const int chunk = (int)(a.shared - warps * Z::warp_bytes) / Z::stage_bytes; /* stages of activations */
    uint8_t *codes = (uint8_t *)(carry + warps * Z::carried * 32);
    uint32_t *word = (uint32_t *)(codes + chunk * Z::tiles * Z::codes_bytes);
    /* The next stage to ask for, one ring behind stage s; before stage `whole` it is all there. */
    const uint8_t *from = of.w + number * of.stride + turn * Z::stage + lane * 16;
    const int share = kept(a.share), step = kept(share * Z::stage), first = warp * Z::depth * Z::stage;
    const uint32_t ring = (uint32_t)kept((int)__cvta_generic_to_shared(qdecode_shared) + first + lane * 16);
    const int whole = kept((last ? (int)((uint32_t)of.stride / Z::stage) : 0) - Z::depth * share);
    if (turn - share < whole) {
#pragma unroll
        for (int i = 0; i < Z::depth; i++, from += step) {
            qcopy_whole<0, Z::stage>(from, ring + i * Z::stage, lane);
            qcopy_commit();
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < Z::depth; i++, from += step) {
            const int there = last ? (int)of.stride - (turn + i * share) * Z::stage : 0;
            qcopy<Z::stage>(from, there, ring + i * Z::stage, lane);
            qcopy_commit();
        }
    }
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
    const int64_t row0 = (int64_t)blockIdx.y * (warps / a.share) * PANEL_ROWS;
    const int64_t k0 = a.head_rows < INT64_MAX ? (int64_t)((uint32_t)row0 / (uint32_t)a.head_rows) * a.cols : 0;
    float y[Z::n_tiles][Z::columns * 2] = {};
    /* Where a lane's part is; bytes from one stage of the warp to its next. */
    constexpr int of_scales = K::two ? 4 : 2 * K::scale_bytes;
    const int lines = kept(first + 8 * g + (Z::spans_once ? PANEL_LINE : Z::O::lane_line) * q);
    int tails = kept(first + of_scales * g);
    const int codes_step = kept(share * Z::tiles * Z::codes_bytes), word_step = kept(share * Z::tiles * Z::row_words);
    /* Stages after which the chain comes from another warp; before which it goes to one. */
    const int taken = kept(share > 1 ? 0 : INT32_MAX), given = kept(share > 1 ? last - 1 : 0);
    constexpr int words_lane = Z::spread ? Z::own * Z::row_words : ROWS == 1 ? 0 : Z::paired ? 4 : 2;
    int codes_lane = (ROWS == 1 ? 0 : g * Z::O::row_bytes) + q * Z::O::slots * 4;
    qspread<K> spread;
    if constexpr (Z::spread) {
        codes_lane += (Z::own == 2 ? g : Z::halves ? g / 4 * 2 : g / 2) * Z::codes_bytes;
        if constexpr (Z::turns) codes_lane += g % 2 * Z::O::row_bytes;
        if constexpr (Z::spans_once) codes_lane += q % 2 * 32 - q * Z::O::slots * 4;
        const int all = (chunk < stages ? chunk : stages) * Z::tiles * Z::codes_bytes;
        for (int i = (int)threadIdx.x * 16; Z::turns && i < all; i += (int)blockDim.x * 16)
            *(uint4 *)(codes + i) = make_uint4(0, 0, 0, 0);
        if (threadIdx.x < 32) ((uint32_t *)level)[64 + threadIdx.x] = 0;
        spread.begin(lane, tiles, level + 256);
        if constexpr (!K::two) tails = kept(tails + spread.rest);
        __syncthreads();
    }
    int slot = 0, s = turn;
    wait_for_last();
    for (int c0 = 0; c0 < stages; c0 += chunk) {
        const int end = kept(c0 + chunk < last ? c0 + chunk : last), t0 = c0 * Z::tiles;
        const int filled = tiles - t0 < chunk * Z::tiles ? tiles - t0 : chunk * Z::tiles;
        if (c0) __syncthreads();
        qfill<K, ROWS>(a, r, k0 + (int64_t)t0 * PANEL_K, filled, codes, word);
        __syncthreads();
        const uint8_t *x = codes + kept((s - c0) * Z::tiles * Z::codes_bytes + codes_lane);
        const uint32_t *x_word = word + kept((s - c0) * Z::tiles * Z::row_words + words_lane * q);
        for (; s < end; s += share, x += codes_step, x_word += word_step) {
            qspread_work<K, ROWS> work = {{lines + slot, tails + slot, x, x_word, levels, a.factor, 0, r.rows, q},
                                          Z::spread && s == spread.end};
            if constexpr (Z::spread) spread.stage(x, work.ends);
            if constexpr (K::tiles > 1 && (!Z::spread || K::two || K::picks)) work.tiles = kept(tiles - s * Z::tiles);
            qcopy_wait<Z::depth - 1>();
            __syncwarp();
            if constexpr (K::two) work.take_scales();
            constexpr int batch = Z::spread ? Z::round : Z::batch;
#pragma unroll
            for (int b = 0; b < Z::tiles; b += batch) {
                float sum[Z::spread ? Z::own : Z::batch][Z::n_tiles][Z::sums][4];
                qfactor<K, ROWS> f[Z::spread ? Z::own : 1][Z::sums];
                if constexpr (Z::spread) work.spread_sums(b, spread, sum, f);
                else
#pragma unroll
                    for (int t = b; t < b + batch && t < Z::tiles; t++) work.sums(t, sum[t - b]);
                if (b == 0 && s > taken) {
                    asm volatile("bar.sync %0, 64;" ::"r"(1 + warp) : "memory");
#pragma unroll
                    for (int i = 0; i < Z::carried; i++)
                        y[i / (Z::columns * 2)][i % (Z::columns * 2)] = carry[(warp * Z::carried + i) * 32 + lane];
                }
                if constexpr (Z::spread) work.spread_chain(sum, f, spread.before, y[0]);
                else
#pragma unroll
                    for (int t = b; t < b + batch && t < Z::tiles; t++)
                        if (K::tiles == 1 || t < work.tiles) work.chain(t, sum[t - b], y); /* zeros follow the last tile */
            }
            if (s < given) {
                const int next = turn + 1 < share ? warp + 1 : warp - turn;
#pragma unroll
                for (int i = 0; i < Z::carried; i++)
                    carry[(next * Z::carried + i) * 32 + lane] = y[i / (Z::columns * 2)][i % (Z::columns * 2)];
                asm volatile("bar.arrive %0, 64;" ::"r"(1 + next) : "memory");
            }
            __syncwarp();
            if (__builtin_expect(s < whole, 1)) qcopy_whole<0, Z::stage>(from, ring + slot, lane);
            else qcopy<Z::stage>(from, (int)of.stride - (s + Z::depth * share) * Z::stage, ring + slot, lane);
            qcopy_commit();
            from += step;
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
