/* qwgmma.cuh - products of packed weights with many int8 rows by the tensor instructions of a warpgroup (wgmma, sm_90a
 * alone), in the bits of ops/def_qmatmul.c.
 *
 * A block of threads has 192 outputs and 128 rows, or 64 rows of two levels, whose sums take more registers, and walks
 * 64 columns at a time. Four warps produce: they unpack the codes of twelve panels to bytes in shared memory, any kind
 * alike, and copy the rows there, up to WG_STAGES times ahead. Three warpgroups, of 64 outputs each, consume: wgmma sums
 * a block of columns, exact in any order, and each sum goes into the chain of its output at once, so that one lane has
 * an output's chain from the first column to the last. They come by turns: while one walks its chains, the tensor core
 * multiplies for the others.
 *
 * A tensor instruction takes 32 columns, all of one sum. So kinds with blocks of 16 columns have no kernel here
 * (WG_FITS); those of qprefill.cuh cut 32 columns in two. FP8 has none either: as four planes of bytes (qe4m3.cuh) its
 * stages would be 48 KB each. */
#pragma once
#include "cuda/qmany.cuh"

enum { WG_CONSUMERS = 3, WG_PRODUCERS = 128, WG_STAGES = 4, WG_AHEAD = 2, WG_RAWS = 4, WG_LOTS = WG_OUTPUTS / 64 };

/* What a block has of 64 columns. Of two levels scale is d, base is dmin. Of rows r and r + 1 (r even) a pair is both
 * scales, then act_part.scaled_sum, or of two levels both of the neg_subsums of 32 columns. */
template <class K> struct wg_stage {
    static constexpr int rows = WG_ROWS(K::two);
    static constexpr int pair_words = K::base ? 4 : 2;
    uint8_t w[WG_OUTPUTS * PANEL_K], x[rows * PANEL_K];
    uint32_t pair[PANEL_K / K::act][rows / 2][pair_words];
    float scale[K::two ? 1 : K::sums][WG_OUTPUTS], base[K::two || !K::base ? 1 : K::sums][WG_OUTPUTS];
    int8_t sub[K::two ? K::sums : 1][WG_OUTPUTS];
    uint8_t minimum[K::two ? K::sums : 1][WG_OUTPUTS];
};

/* Lines of a tile that half of its columns need, and which the first, second … of them is. */
template <class K> constexpr int wg_lines = K::bits ? K::bits : K::lines;
template <class K> __device__ constexpr int wg_line(int half, int i)
{
    constexpr int whole = K::bits == 5 ? 4 : K::bits == 3 ? 2 : K::bits; /* lines of codes without their last bit */
    return !K::bits ? i : i < whole ? half * whole + i : 2 * whole + half;
}

/* What a producer brings of a tile before it is unpacked: words of each thread, and the tail of each panel. */
template <class K> struct wg_raw {
    uint32_t code[WG_LOTS][wg_lines<K>][WG_PRODUCERS];
    uint8_t tail[WG_LOTS][WG_PRODUCERS / PANEL_ROWS][K::tail * PANEL_LINE];
};

/* Of a swizzle of 64 bytes eight lines of 64 are a unit. */
template <class K> struct wg_room {
    struct __align__(512) { wg_stage<K> at; } stage[WG_STAGES];
    wg_raw<K> raw[WG_RAWS];
    uint64_t full[WG_STAGES], empty[WG_STAGES]; /* barriers */
    int8_t level[K::picks ? 256 : 16];
};

/* Tiles in order: the stage of each, and the parity of its turn. */
__device__ __forceinline__ uint32_t wg_parity(uint32_t tile) { return tile / WG_STAGES & 1; }

__device__ __forceinline__ uint32_t wg_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void wg_begin(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(wg_address(barrier)), "r"(arrivals) : "memory");
}
/* Once a warp: what its lanes have done is known to those that wait. */
__device__ __forceinline__ void wg_arrive(uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(wg_address(barrier)) : "memory");
}
/* Until the turn of that parity is over. */
__device__ __forceinline__ void wg_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(wg_address(barrier)), "r"(parity)
                     : "memory");
    } while (!done);
    __syncwarp();
}

/* ---- producers */

/* threadIdx.x, asked anew: what follows from it is not kept in registers in the meantime. */
__device__ __forceinline__ int wg_thread()
{
    int tid;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
    return tid;
}

/* Of a producer, likewise: its number; its output of the first lot. */
__device__ __forceinline__ int wg_producer() { return wg_thread() - WG_CONSUMERS * 128; }
__device__ __forceinline__ int wg_output(int tid) { return tid / 64 * 32 + tid % 32; }

/* What a producer has of a run of rows: its piece of the first row, and its scale. */
struct wg_rows {
    const uint8_t *x;
    const float *scale;
    int n, sums;        /* sums: where these begin */
};

/* Copies of 16 bytes; of 8 where rows do not begin at multiples of 16. */
__device__ __forceinline__ bool wg_wide(const qmat_args &a) { return (((uintptr_t)a.x | a.x_stride) & 15) == 0; }
template <int BYTES> __device__ __forceinline__ void wg_copy(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
template <int BYTES, int ROWS> __device__ __forceinline__ void wg_copy_rows(const wg_rows &b, uint64_t stride, int tid, uint8_t *to)
{
    constexpr int pieces = PANEL_K / BYTES, step = WG_PRODUCERS / pieces; /* a multiple of 8 rows: at the same place there */
    const uint32_t place = wg_address(to + many_at(tid / pieces, tid % pieces * BYTES));
    const uint8_t *x = b.x;
#pragma unroll(BYTES == 16 ? ROWS / step : 1)
    for (int i = 0; i < ROWS / step; i++, x += step * stride)
        if (tid / pieces + step * i < b.n) wg_copy<BYTES>(place + step * i * PANEL_K, x);
}

/* Asks for the rows' part of a tile, and goes on to the next. */
template <class K, int HALF> __device__ __forceinline__ void wg_bring_rows(wg_rows &b, const qmat_args &a, wg_stage<K> *to)
{
    const int tid = wg_producer();
    constexpr int scales = PANEL_K / K::act;
    if (wg_wide(a)) wg_copy_rows<16, wg_stage<K>::rows>(b, a.x_stride, tid, to->x);
    else wg_copy_rows<8, wg_stage<K>::rows>(b, a.x_stride, tid, to->x);
    b.x += PANEL_K;
    if constexpr (HALF == 1) { /* the other warps have scales of outputs */
        const float *scale = b.scale;
#pragma unroll 1
        for (int r = wg_output(tid); r < b.n; r += 64, scale += 16 * a.x_stride) {
#pragma unroll
            for (int act = 0; act < scales; act++) {
                uint32_t *pair = &to->pair[act][r / 2][r % 2];
                copy_word(pair, scale + act);
                if constexpr (K::base != 0) copy_word(pair + 2, scale + b.sums + act);
            }
        }
        b.scale += scales;
        if constexpr (K::two && K::base) b.sums += 2; /* three words a tile, the first of which is of 32 columns */
    }
}

/* What a warp has: half of the columns of some outputs, one of each lot for a lane. */
struct wg_part {
    const uint8_t *panel; /* of the first lot */
    int lots;             /* that have a panel */
};

/* Asks for the outputs' part of tile t; stride: from panel to panel. */
template <class K, int HALF> __device__ __forceinline__ void wg_bring_outputs(const wg_part &p, uint64_t stride, int t, int tiles, wg_raw<K> *to)
{
    const many_tile<K> at(p.panel, t, tiles);
    const int tid = wg_producer(), r = tid % PANEL_ROWS;
    const uint8_t *codes = at.codes + r * 4;
    const int tail = (int)(at.tail - at.codes), n_tail = K::picks ? K::tail - K::words + (int)(at.rest - at.tail) / PANEL_LINE : K::tail;
#pragma unroll 1
    for (int i = 0; i < p.lots; i++, codes += 4 * stride) {
#pragma unroll
        for (int l = 0; l < wg_lines<K>; l++) copy_word(&to->code[i][l][tid], codes + wg_line<K>(HALF, l) * PANEL_LINE);
        uint8_t *tail_to = to->tail[i][tid / PANEL_ROWS] + r * 4;
        if (HALF == 0 || K::picks)
#pragma unroll(K::picks ? 1 : K::tail)
            for (int l = 0; l < n_tail; l++) copy_word(tail_to + l * PANEL_LINE, codes + tail + l * PANEL_LINE);
    }
}

/* Unpacks it. */
template <class K, int HALF>
__device__ __forceinline__ void wg_unpack(const wg_part &p, int t, int tiles, float factor, const wg_raw<K> *from, const int8_t *level, wg_stage<K> *to)
{
    many_tile<K> at(p.panel, t, tiles);
    const int tid = wg_producer(), r = tid % PANEL_ROWS, picks = (int)(at.rest - at.tail);
#pragma unroll 1
    for (int i = 0; i < p.lots; i++) {
        qtile_words<K> w;
#pragma unroll
        for (int l = 0; l < wg_lines<K>; l++) w.line[wg_line<K>(HALF, l)] = from->code[i][l][tid];
        at.tail = from->tail[i][tid / PANEL_ROWS];
        at.rest = at.tail + picks;
        put_codes<K, HALF>(w, at, level, r, wg_output(tid) + 64 * i, to);
        if constexpr (HALF == 0) put_scales(at, r, wg_output(tid) + 64 * i, factor, to);
    }
}

/* The stage is whole: also for tensor instructions, which read shared memory in a way of their own. */
__device__ __forceinline__ void wg_hand_over(uint64_t *barrier)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    wg_arrive(barrier);
}

/* Copies of a tile's rows come with those of outputs of a tile WG_AHEAD further on, as one group; when a group is there
 * the stage of its rows is handed over. */
template <class K, int HALF> __device__ __forceinline__ void wg_produce(const qmat_args &a, wg_room<K> *room)
{
    const int64_t outputs = (a.of.n + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS;
    uint32_t tile = 0;
    many_runs<K, wg_stage<K>::rows, WG_OUTPUTS>(a, [&](const many_block &b, int, int) {
        const int tid = wg_producer(), first = wg_output(tid);
        const int piece = wg_wide(a) ? 16 : 8, pieces = PANEL_K / piece;
        wg_rows rows = {.x = b.x + (uint64_t)(tid / pieces) * a.x_stride + tid % pieces * piece,
                        .scale = (const float *)((const uint8_t *)b.x_scale + (uint64_t)first * a.x_stride),
                        .n = b.rows,
                        .sums = (int)(K::two ? 3 * b.blocks + 2 * b.block0 : b.blocks)};
        const int tiles = b.tiles;
        const int64_t left = outputs - b.n0 - first;
        wg_part p = {.panel = b.panels + (uint64_t)(first / PANEL_ROWS) * a.w_stride};
        p.lots = left >= WG_OUTPUTS ? WG_LOTS : left <= 0 ? 0 : min((int)(left + 63) / 64, (int)WG_LOTS);
        for (int t = -WG_AHEAD; t < tiles + WG_AHEAD; t++) {
            wg_raw<K> *raw = room->raw + (t + WG_AHEAD) % WG_RAWS;
            if (t >= 0 && t < tiles) {
                wg_wait(&room->empty[tile % WG_STAGES], wg_parity(tile) ^ 1); /* at first there is no turn before */
                wg_bring_rows<K, HALF>(rows, a, &room->stage[tile % WG_STAGES].at);
            }
            __syncwarp(); /* tails are of the whole warp: all have unpacked the one before */
            if (t + WG_AHEAD < tiles) wg_bring_outputs<K, HALF>(p, a.w_stride, t + WG_AHEAD, tiles, raw);
            asm volatile("cp.async.commit_group;" ::: "memory");
            asm volatile("cp.async.wait_group %0;" ::"n"((int)WG_AHEAD) : "memory");
            if (t >= WG_AHEAD) wg_hand_over(&room->full[(tile - WG_AHEAD + (t < tiles ? 0 : t - tiles)) % WG_STAGES]);
            if (t < 0 || t >= tiles) continue;
            __syncwarp(); /* and see what all have brought */
            wg_unpack<K, HALF>(p, t, tiles, a.factor, room->raw + t % WG_RAWS, room->level, &room->stage[tile++ % WG_STAGES].at);
        }
    });
}

/* ---- consumers */

/* Lines of 64 bytes from here on. */
__device__ __forceinline__ uint64_t wg_matrix(const uint8_t *lines)
{
    return (uint64_t)(wg_address(lines) & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(512 >> 4) << 32 | (uint64_t)2 << 62;
}

/* Sums of 64 outputs and N rows over 32 columns, added to what is there, or not. */
#define WG_REGISTERS(i) \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
#define WG_MMA_64(types) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k32.s32." types ".s8 {" \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31" \
                 "}, %32, %33, p; }" \
                 : WG_REGISTERS(0), WG_REGISTERS(8), WG_REGISTERS(16), WG_REGISTERS(24) \
                 : "l"(w), "l"(x), "r"(adds))
#define WG_MMA_128(types) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.s32." types ".s8 {" \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63" \
                 "}, %64, %65, p; }" \
                 : WG_REGISTERS(0), WG_REGISTERS(8), WG_REGISTERS(16), WG_REGISTERS(24), WG_REGISTERS(32), WG_REGISTERS(40), WG_REGISTERS(48), WG_REGISTERS(56) \
                 : "l"(w), "l"(x), "r"(adds))
template <int N, bool SIGNED> __device__ __forceinline__ void wg_mma(int32_t d[N / 2], uint64_t w, uint64_t x, int adds)
{
    if constexpr (N == 64 && SIGNED) WG_MMA_64("s8");
    else if constexpr (N == 64) WG_MMA_64("u8");
    else if constexpr (SIGNED) WG_MMA_128("s8");
    else WG_MMA_128("u8");
}

/* d[4 n + c]: output g + 8 (c / 2) of the warp's, row 8 n + 2 t + c % 2; g, t: lane / 4, lane % 4. */
template <class K> __device__ __forceinline__ void wg_sum(const wg_stage<K> *s, int group, int i, int32_t *d)
{
    constexpr bool is_signed = K::looks || K::zero != 0;
    constexpr int apart = K::apart, steps = apart / 32;
    const uint64_t w = wg_matrix(s->w + group * 64 * PANEL_K) + i * (apart / 16), x = wg_matrix(s->x) + i * (apart / 16);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < steps; k++) wg_mma<wg_stage<K>::rows, is_signed>(d, w + 2 * k, x + 2 * k, k > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* One level: the chains of 64 columns. out: the lane's first output. */
template <class K> __device__ __forceinline__ void wg_chain(const wg_stage<K> *s, int group, int out, int t, int32_t *d, float *y)
{
#pragma unroll 1
    for (int i = 0; i < K::sums; i++) {
        wg_sum<K>(s, group, i, d);
        const int act = i * K::apart / K::act;
        const float scale[2] = {s->scale[i][out], s->scale[i][out + 8]};
#pragma unroll
        for (int n = 0; n < wg_stage<K>::rows / 8; n++) {
            const float2 x = *(const float2 *)s->pair[act][n * 4 + t];
#pragma unroll
            for (int c = 0; c < 4; c++) y[n * 4 + c] = fmaf((float)d[n * 4 + c], scale[c / 2] * (c % 2 ? x.y : x.x), y[n * 4 + c]);
        }
        if constexpr (K::base == 0) continue;
        const float base[2] = {s->base[i][out], s->base[i][out + 8]};
#pragma unroll
        for (int n = 0; n < wg_stage<K>::rows / 8; n++) {
            const float2 x = *(const float2 *)(s->pair[act][n * 4 + t] + 2);
#pragma unroll
            for (int c = 0; c < 4; c++) y[n * 4 + c] = fmaf(base[c / 2], c % 2 ? x.y : x.x, y[n * 4 + c]);
        }
    }
}

/* Two levels. */
template <class K> __device__ __forceinline__ void wg_chain_two(const wg_stage<K> *s, int group, int out, int t, int32_t *d, float *y)
{
    constexpr int rows = wg_stage<K>::rows;
    int32_t products[rows / 2] = {};
#pragma unroll
    for (int i = 0; i < K::sums; i++) {
        wg_sum<K>(s, group, i, d);
        const int sub[2] = {s->sub[i][out], s->sub[i][out + 8]};
#pragma unroll
        for (int c = 0; c < rows / 2; c++) products[c] += sub[c / 2 % 2] * d[c];
    }
    const float scale[2] = {s->scale[0][out], s->scale[0][out + 8]}, base[2] = {s->base[0][out], s->base[0][out + 8]};
    int minimum[2][2];
#pragma unroll
    for (int i = 0; i < 2; i++) minimum[i][0] = s->minimum[i][out], minimum[i][1] = s->minimum[i][out + 8];
#pragma unroll
    for (int c = 0; c < rows / 2; c++) {
        const uint32_t *p = s->pair[0][c / 4 * 4 + t];
        const float xs = __uint_as_float(p[c % 2]);
        if constexpr (K::base) {
            const uint32_t both = p[2 + c % 2];
            const int minima = -minimum[0][c / 2 % 2] * (int)(int16_t)both - minimum[1][c / 2 % 2] * (int)(int16_t)(both >> 16);
            y[c] = fmaf(fmaf(-base[c / 2 % 2], (float)minima, scale[c / 2 % 2] * (float)products[c]), xs, y[c]);
        } else y[c] = fmaf((float)products[c], scale[c / 2 % 2] * xs, y[c]);
    }
}

template <class K> __device__ __forceinline__ void wg_consume(const qmat_args &a, wg_room<K> *room)
{
    constexpr int rows = wg_stage<K>::rows;
    const int tid = (int)threadIdx.x, group = tid / 128, g = tid % 32 / 4, t = tid % 4, out = tid / 32 * 16 + g;
    uint32_t tile = 0;
    many_runs<K, rows, WG_OUTPUTS>(a, [&](const many_block &b, int row0, int expert) {
        int32_t d[rows / 2] = {};
        float y[rows / 2] = {};
        for (int left = b.tiles; left; left--, tile++) {
            const wg_stage<K> *s = &room->stage[tile % WG_STAGES].at;
            wg_wait(&room->full[tile % WG_STAGES], wg_parity(tile));
            if constexpr (K::two) wg_chain_two(s, group, out, t, d, y);
            else wg_chain(s, group, out, t, d, y);
            wg_arrive(&room->empty[tile % WG_STAGES]);
        }
        const int again = wg_thread(), first = again % 4 * 2;
        const int64_t n = a.of.n, o = b.n0 + again / 32 * 16 + again % 32 / 4;
        const bool has[2] = {o < n, o + 8 < n}, biased = a.of.bias != NULL;
        float bias[2] = {}, *to = a.of.y + (row0 + first) * n + o;
        for (int i = 0; i < 2; i++)
            if (biased && has[i]) bias[i] = a.of.bias[expert * n + o + 8 * i];
#pragma unroll
        for (int c = 0; c < rows / 2; c++) {
            const int row = c / 4 * 8 + c % 2;
            const float v = y[c];
            if (first + row < b.rows && has[c / 2 % 2]) to[row * n + c / 2 % 2 * 8] = biased ? v + bias[c / 2 % 2] : v;
        }
    });
}

/* Rows from blockIdx.x * WG_ROWS on, outputs from blockIdx.y * WG_OUTPUTS on. Registers of 512 threads, 128 each, are
 * shared out anew: those that chain have more. */
template <class K> __device__ __forceinline__ void qwgmma(const qmat_args &a)
{
    extern __shared__ __align__(1024) uint8_t wg_shared[];
    wg_room<K> *room = (wg_room<K> *)wg_shared;
    static_assert(sizeof *room <= WG_SHARED);
    put_levels<K, WG_THREADS>((dtype)a.type, room->level);
    if (threadIdx.x == 0)
        for (int i = 0; i < WG_STAGES; i++) {
            wg_begin(&room->full[i], WG_PRODUCERS / 32);
            wg_begin(&room->empty[i], WG_CONSUMERS * 4);
        }
    __syncthreads();
    if (threadIdx.x >= WG_CONSUMERS * 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (threadIdx.x / 32 % 2) wg_produce<K, 1>(a, room);
        else wg_produce<K, 0>(a, room);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
        wg_consume(a, room);
    }
}

#define WG_KERNEL(name, ...)                                                                                          \
    extern "C" __global__ void __launch_bounds__(WG_THREADS, 1) cuda_qwgmma_##name(const __grid_constant__ qmat_args a) \
    {                                                                                                                  \
        qwgmma<qkind<__VA_ARGS__>>(a);                                                                                 \
    }
#define WG_KERNEL_32(...)  WG_KERNEL(__VA_ARGS__)
#define WG_KERNEL_64(...)  WG_KERNEL(__VA_ARGS__)
#define WG_KERNEL_128(...) WG_KERNEL(__VA_ARGS__)
#define WG_KERNEL_16(...)
#define WG_CODE_PANEL_CODE(block, ...)   WG_KERNEL_##block(__VA_ARGS__)
#define WG_CODE_PANEL_LOOK(block, ...)   WG_KERNEL_##block(__VA_ARGS__)
#define WG_CODE_PANEL_PICK8(block, ...)  WG_KERNEL_##block(__VA_ARGS__)
#define WG_CODE_PANEL_PICK16(block, ...) WG_KERNEL_##block(__VA_ARGS__)
#define WG_CODE_PANEL_E4M3(...)
#define WG_KERNELS(name, bits, block, span, scale, base, code, zero) \
    WG_CODE_##code(block, name, bits, block, span, scale, base, code, zero)
PANEL_KIND_LIST(WG_KERNELS)
