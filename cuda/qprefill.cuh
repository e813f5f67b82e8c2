/* qprefill.cuh - products of packed weights with many int8 rows, in the bits of ops/def_qmatmul.c.
 *
 * A block of threads has 128 rows and 128 outputs and walks 64 columns at a time. Its threads unpack the codes of eight
 * panels to bytes in shared memory, any kind alike, and copy the rows there, while tensor instructions multiply what
 * was brought before: sums over a block of columns, exact in any order. Each sum goes into the chain of its output at
 * once, so that one lane has an output's chain from the first column to the last.
 *
 * FP8 lies in shared memory as it is. Each warp makes planes of bytes of it (qe4m3.cuh) and multiplies four times.
 *
 * In shared memory 64 bytes of an output or row are four pieces of 16, stored at places that differ between neighbours:
 * what eight lanes read at once lies in different banks. */
#pragma once
#include "cuda/qmany.cuh"

enum { MANY_M = 4, MANY_N = 4 }; /* of a warp: 64 rows, 32 outputs */

/* What a block has of 64 columns. Of two levels scale is d, base is dmin. */
template <class K> struct many_stage {
    uint8_t w[MANY_OUTPUTS * PANEL_K], x[MANY_ROWS * PANEL_K];
    float x_scale[PANEL_K / K::act][MANY_ROWS];
    /* act_part.scaled_sum; of FP8 neg_sum, of two levels neg_subsums */
    uint32_t x_sum[K::two ? 3 : PANEL_K / K::act][MANY_ROWS];
    float scale[K::two ? 1 : K::sums][MANY_OUTPUTS], base[K::two ? 1 : K::sums][MANY_OUTPUTS];
    int8_t sub[K::two ? K::sums : 1][MANY_OUTPUTS];
    uint8_t minimum[K::two ? K::sums : 1][MANY_OUTPUTS];
};

template <bool SIGNED>
__device__ __forceinline__ void many_mma(int32_t c[4], const uint32_t *a, uint32_t b0, uint32_t b1)
{
    if constexpr (SIGNED)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <bool SIGNED> __device__ __forceinline__ void many_mma_half(int32_t c[4], const uint32_t *a, uint32_t b0)
{
    if constexpr (SIGNED)
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(b0));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(b0));
}

/* Asks for the rows' part of tile t. */
template <class K> __device__ __forceinline__ void bring_rows(const many_block &b, int t, many_stage<K> *to)
{
    const int tid = (int)threadIdx.x;
    constexpr int scales = PANEL_K / K::act;
#pragma unroll
    for (int i = 0; i < MANY_ROWS * 16 / MANY_THREADS; i++) {
        const int at = tid + i * MANY_THREADS, r = at / 16, k = at % 16 * 4;
        if (r < b.rows) copy_word(to->x + many_at(r, k), b.x + (uint64_t)r * b.a->x_stride + t * PANEL_K + k);
    }
    const int r = tid % MANY_ROWS;
    if (r >= b.rows) return;
    const float *scale = (const float *)((const uint8_t *)b.x_scale + (uint64_t)r * b.a->x_stride) + t * scales;
    if (tid < MANY_ROWS) {
#pragma unroll
        for (int i = 0; i < scales; i++) copy_word(&to->x_scale[i][r], scale + i);
    } else if constexpr (K::two && K::base) {
        /* behind scales, scaled sums and sums of the whole row, six halves for each 64 columns */
        const float *sums = (const float *)((const uint8_t *)b.x_scale + (uint64_t)r * b.a->x_stride) + 3 * b.blocks + 2 * b.block0;
#pragma unroll
        for (int i = 0; i < 3; i++) copy_word(&to->x_sum[i][r], sums + 3 * t + i);
    } else if constexpr (K::base != 0 || K::planes > 1) {
        constexpr int before = K::planes > 1 ? 2 : 1; /* scales, scaled sums */
#pragma unroll
        for (int i = 0; i < scales; i++) copy_word(&to->x_sum[i][r], scale + before * b.blocks + i);
    }
}

/* Sums of FP8 over 32 columns, of which w has the planes of both words. */
__device__ __forceinline__ void many_planes(int32_t sum[4], const uint32_t *a, const uint32_t w[2][QE4M3_PLANES], const uint32_t neg[2])
{
    static_assert(QE4M3_PLANES == 4);
#pragma unroll
    for (int p = QE4M3_PLANES - 1; p >= 0; p--) { /* the sum of qe4m3_sum, a plane at a time: few registers */
        many_mma<false>(sum, a, w[0][p], w[1][p]);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint32_t excess = p == 1 ? neg[c / 2] * QE4M3_EXCESS : 0;
            sum[c] = (int32_t)((uint32_t)sum[c] * (p % 2 ? 256u : 2u) + excess);
        }
    }
}

/* One warp's part of a tile: its chains go on. y[n][m][c]: row 16 m + g + 8 (c / 2), output 8 n + 2 t + c % 2. */
template <class K>
__device__ __forceinline__ void many_multiply(const many_stage<K> *s, int row0, int out0, int ms, int lane, float y[MANY_N][MANY_M][4])
{
    constexpr bool is_signed = K::looks || K::zero != 0;
    const int g = lane / 4, t = lane % 4;
    uint32_t x[MANY_M][8]; /* [words of k / 32 …]: rows g, g + 8, then 16 columns on */
#pragma unroll
    for (int m = 0; m < MANY_M; m++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int k = i / 4 * 32 + i % 4 / 2 * 16 + t * 4, r = row0 + m * 16 + g + i % 2 * 8;
            x[m][i] = m < ms ? *(const uint32_t *)(s->x + many_at(r, k)) : 0;
        }
#pragma unroll
    for (int n = 0; n < MANY_N; n++) {
        uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) w[i] = *(const uint32_t *)(s->w + many_at(out0 + n * 8 + g, i * 16 + t * 4));
        uint32_t planes[4][QE4M3_PLANES];
#pragma unroll
        for (int i = 0; i < 4 && K::planes > 1; i++) qe4m3_planes(w[i], planes[i]);
        const int out = out0 + n * 8 + t * 2;
#pragma unroll
        for (int m = 0; m < MANY_M; m++) {
            if (m >= ms) continue;
            const int row = row0 + m * 16 + g;
            int32_t products[4] = {}, minima[4] = {};
#pragma unroll
            for (int i = 0; i < K::sums; i++) {
                int32_t sum[4] = {};
                if constexpr (K::planes > 1) {
                    const uint32_t neg[2] = {s->x_sum[i][row], s->x_sum[i][row + 8]};
                    many_planes(sum, x[m] + 4 * i, planes + 2 * i, neg);
                } else if constexpr (K::apart == 16) many_mma_half<is_signed>(sum, x[m] + 2 * i, w[i]);
                else if constexpr (K::apart == 32) many_mma<is_signed>(sum, x[m] + 4 * i, w[2 * i], w[2 * i + 1]);
                else {
                    many_mma<is_signed>(sum, x[m], w[0], w[1]);
                    many_mma<is_signed>(sum, x[m] + 4, w[2], w[3]);
                }
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const int o = out + c % 2, r = row + c / 2 * 8;
                    if constexpr (K::two) {
                        products[c] += s->sub[i][o] * sum[c];
                        if constexpr (K::base) {
                            constexpr int first = K::apart == 32 ? 0 : 2; /* of the six sums of a row's 64 columns */
                            const uint32_t both = s->x_sum[(first + i) / 2][r];
                            const int neg = (int16_t)(both >> (first + i) % 2 * 16);
                            minima[c] -= s->minimum[i][o] * neg;
                        }
                    } else {
                        const int act = i * K::apart / K::act;
                        y[n][m][c] = fmaf((float)sum[c], s->scale[i][o] * s->x_scale[act][r], y[n][m][c]);
                        if constexpr (K::base) y[n][m][c] = fmaf(s->base[i][o], __uint_as_float(s->x_sum[act][r]), y[n][m][c]);
                    }
                }
            }
            if constexpr (K::two)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const int o = out + c % 2;
                    const float xs = s->x_scale[0][row + c / 2 * 8], d = s->scale[0][o];
                    if constexpr (K::base)
                        y[n][m][c] = fmaf(fmaf(-s->base[0][o], (float)minima[c], d * (float)products[c]), xs, y[n][m][c]);
                    else y[n][m][c] = fmaf((float)products[c], d * xs, y[n][m][c]);
                }
        }
    }
}

/* All columns of a block's rows and outputs. */
template <class K>
__device__ __forceinline__ void many_walk(const many_block &b, const int8_t *level, many_stage<K> *stage, int64_t row0, int expert)
{
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32, out = tid % MANY_OUTPUTS, r = out % PANEL_ROWS;
    const int warp_row = warp % 2 * 64, warp_out = warp / 2 * 32, left = b.rows - warp_row;
    const int ms = left <= 0 ? 0 : left >= 64 ? MANY_M : (left + 15) / 16;
    const bool has = b.n0 + out < (b.a->of.n + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS;
    const uint8_t *panel = b.panels + (uint64_t)(out / PANEL_ROWS) * b.a->w_stride;
    float y[MANY_N][MANY_M][4] = {};
    __syncthreads(); /* the stages are free */
    for (int t = -1; t < b.tiles; t++) {
        many_stage<K> *next = stage + (t + 1) % 2;
        const bool more = t + 1 < b.tiles;
        qtile_words<K> w;
        const many_tile<K> at(panel, more ? t + 1 : 0, b.tiles);
        if (more) bring_rows(b, t + 1, next);
        if (more && has) {
            w.load(at.codes, r);
            if (tid < MANY_OUTPUTS) put_scales(at, r, out, b.a->factor, next);
        }
        if (t >= 0) many_multiply<K>(stage + t % 2, warp_row, warp_out, ms, lane, y);
        if (more && has) {
            if (tid < MANY_OUTPUTS) put_codes<K, 0>(w, at, level, r, out, next);
            else put_codes<K, 1>(w, at, level, r, out, next);
        }
        copies_wait();
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < MANY_N; n++)
#pragma unroll
        for (int m = 0; m < MANY_M; m++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int row = warp_row + m * 16 + lane / 4 + c / 2 * 8;
                const int64_t o = b.n0 + warp_out + n * 8 + lane % 4 * 2 + c % 2;
                if (row < b.rows && o < b.a->of.n)
                    b.a->of.y[(row0 + row) * b.a->of.n + o] = many_biased(*b.a, expert, o, y[n][m][c]);
            }
}

/* Rows from blockIdx.x * MANY_ROWS on, outputs from blockIdx.y * MANY_OUTPUTS on. */
template <class K> __device__ __forceinline__ void qprefill(const qmat_args &a)
{
    __shared__ __align__(16) many_stage<K> stage[2];
    __shared__ int8_t level[K::picks ? 256 : 16];
    put_levels<K, MANY_THREADS>((dtype)a.type, level);
    many_runs<K, MANY_ROWS, MANY_OUTPUTS>(a, [&](const many_block &b, int row, int expert) {
        many_walk<K>(b, level, stage, row, expert);
    });
}

#define MANY_KERNELS(name, ...)                                                                                        \
    extern "C" __global__ void __launch_bounds__(MANY_THREADS) cuda_qprefill_##name(const __grid_constant__ qmat_args a) \
    {                                                                                                                  \
        qprefill<qkind<__VA_ARGS__>>(a);                                                                               \
    }
PANEL_KIND_LIST(MANY_KERNELS)
