/* rows.cuh - runs of ops on rows (cuda_args.h): norms, activations as int8, elementwise ops, rows that are brought from
 * elsewhere; and the best logit. In the bits of their definitions: what is a maximum or a sum of integers may be taken in
 * any order, what is a sum of floats keeps its sixteen lanes.
 *
 * A thread has the same elements in every step of a run but norms and codes, so that steps need no barrier in between. */
#pragma once
#include "cuda/quant.cuh"

#include "core/act_value.h"

/* What a block of threads has: `n` elements of a row from column `column` on. */
typedef struct run_place {
    int64_t row, column, dim;
    int n;
} run_place;

/* The second operand of an element. */
__device__ __forceinline__ float run_second(const run_step &s, const run_place &at, const float *slot, int i)
{
    return s.second >= 0 ? slot[i] : s.b[at.row * s.b_row + (at.column + i) * s.b_column];
}

template <int KIND> __device__ __forceinline__ float run_value(const run_step &s, float x, float b)
{
    if constexpr (KIND == OP_ADD) return x + b;
    if constexpr (KIND == OP_MUL) return x * b;
    if constexpr (KIND == OP_SCALE) return x * s.f;
    if constexpr (KIND == OP_ACT) return act_value(s.i[0], x);
    if constexpr (KIND == OP_SOFTCAP) return s.f * fm_tanh(x / s.f);
    const float min = s.i[0] ? -INFINITY : -s.f;
    return x > s.f ? s.f : x < min ? min : x;
}

/* An elementwise op. */
template <int KIND, int AHEAD>
__device__ __forceinline__ void run_each(const run_step &s, const run_place &at, const float *from, const float *second,
                                         float *to)
{
    constexpr bool two = KIND == OP_ADD || KIND == OP_MUL;
    const float *x = s.from >= 0 ? from : s.x + at.row * s.x_dim + at.column;
    float *y = s.y ? (float *)s.y + at.row * at.dim + at.column : NULL;
    const int each = (int)blockDim.x;
    int i = (int)threadIdx.x;
    for (; i + (AHEAD - 1) * each < at.n; i += AHEAD * each) {
        float a[AHEAD], b[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            a[k] = x[i + k * each];
            b[k] = two ? run_second(s, at, second, i + k * each) : 0;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const float v = run_value<KIND>(s, a[k], b[k]);
            to[i + k * each] = v;
            if (y) y[i + k * each] = v;
        }
    }
    for (; AHEAD > 1 && i < at.n; i += each) {
        const float v = run_value<KIND>(s, x[i], two ? run_second(s, at, second, i) : 0);
        to[i] = v;
        if (y) y[i] = v;
    }
}

/* Rows from where they lie, times a weight: COLUMNS, TAKE_OUT, GATHER. */
__device__ __forceinline__ void run_bring(const run_step &s, const run_place &at, const step *st, float *to)
{
    int64_t row = at.row;
    float by = 1;
    if (s.kind == OP_TAKE_OUT) row = st->out[row];
    if (s.kind == OP_GATHER) {
        row = s.table[at.row * DISPATCH_COLS + DISPATCH_ROW];
        const int64_t used = s.i[0];
        int64_t k = 0; /* its place among the experts of the row */
        while (s.c && k < used - 1 && s.table[(row * used + k) * DISPATCH_COLS + DISPATCH_SLOT] != at.row) k++;
        if (s.c) by = s.c[row * 2 * used + used + k];
    }
    const float *x = s.x + row * s.x_dim + s.from_column + at.column;
    float *y = s.y ? (float *)s.y + at.row * at.dim + at.column : NULL;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < at.n; i += (int)blockDim.x) {
        const float v = s.c ? x[i] * by : x[i];
        to[i] = v;
        if (y) y[i] = v;
    }
}

/* SCATTER: sums over the experts of a row, the best first. */
__device__ __forceinline__ void run_scatter(const run_step &s, const run_place &at, float *to)
{
    __shared__ int32_t slot[RUN_USED];
    __shared__ float weight[RUN_USED];
    const int used = s.i[0], k = (int)threadIdx.x;
    __syncthreads();
    if (k < used) {
        const int32_t to_slot = s.table[(at.row * used + k) * DISPATCH_COLS + DISPATCH_SLOT];
        slot[k] = s.table[(int64_t)to_slot * DISPATCH_COLS + DISPATCH_EXPERT] < 0 ? -1 : to_slot;
        weight[k] = s.c ? s.c[at.row * 2 * used + used + k] : 1;
    }
    __syncthreads();
    float *y = s.y ? (float *)s.y + at.row * at.dim + at.column : NULL;
    for (int i = k; i < at.n; i += (int)blockDim.x) {
        float sum = 0;
#pragma unroll 4
        for (int e = 0; e < used; e++)
            if (slot[e] >= 0) sum = fmaf(weight[e], s.x[slot[e] * s.x_dim + at.column + i], sum);
        to[i] = sum;
        if (y) y[i] = sum;
    }
}

/* Sixteen sums over x - mean or its square, folded, by each half of a warp for its own x; all its lanes get the result. */
template <bool SQUARES> __device__ __forceinline__ float norm_sum(const float *x, int width, float mean, int lane)
{
    float sum = 0;
    int i = lane;
    for (; i + 15 * 16 < width; i += 16 * 16) {
        float part[16];
#pragma unroll
        for (int k = 0; k < 16; k++) part[k] = x[i + 16 * k];
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const float d = part[k] - mean;
            sum = SQUARES ? fmaf(d, d, sum) : sum + part[k];
        }
    }
    for (; i < width; i += 16) {
        const float d = x[i] - mean;
        sum = SQUARES ? fmaf(d, d, sum) : sum + x[i];
    }
#pragma unroll
    for (int half = 8; half; half /= 2) sum = sum + __shfl_xor_sync(~0u, sum, half);
    return sum;
}

/* The mean of a group, and what its elements are multiplied by. */
__device__ __forceinline__ float2 norm_of(const float *x, int width, int kind, float eps, int lane)
{
    float mean = 0;
    if (kind == NORM_LAYER || kind == NORM_ABOVE) mean = norm_sum<false>(x, width, 0, lane) / (float)width;
    const float sum = norm_sum<true>(x, width, mean, lane), size = sqrtf(sum / (float)width);
    if (kind == NORM_SIZE) return make_float2(0, size);
    if (kind == NORM_ABOVE) return make_float2(mean + size * eps, 1);
    return make_float2(mean, kind == NORM_L2 ? 1.0f / fmaxf(sqrtf(sum), eps) : 1.0f / sqrtf(sum / (float)width + eps));
}

/* NORM of a whole row: groups go to half warps; a single one is scaled by all threads. */
__device__ __forceinline__ void run_norm(const run_step &s, const run_place &at, const float *from, float *to)
{
    __shared__ float2 single;
    const int width = s.i[1], groups = at.n / width, lane = (int)threadIdx.x % 16;
    float *y = (float *)s.y;
    __syncthreads();
    for (int first = (int)threadIdx.x / 32 * 2; first < groups; first += (int)blockDim.x / 16) {
        const int own = first + (int)threadIdx.x / 16 % 2, g = own < groups ? own : first;
        /* half a warp without a group reads nothing: the other half may write the row where it lies */
        const float2 by = norm_of(from + g * width, own < groups ? width : 0, s.i[0], s.f, lane);
        if (groups == 1 && threadIdx.x == 0) single = by;
        if (groups == 1 || own >= groups) continue;
        const float *gain = s.b ? s.b + (int64_t)g * width % s.gain_n : NULL,
                    *bias = s.c ? s.c + (int64_t)g * width % s.bias_n : NULL;
        for (int i = lane; i < width; i += 16) {
            float v = s.i[0] == NORM_SIZE ? by.y : (from[g * width + i] - by.x) * by.y;
            if (gain) v = v * gain[i];
            if (bias) v = v + bias[i];
            to[g * width + i] = v;
            if (y) y[at.row * at.dim + g * width + i] = v;
        }
    }
    __syncthreads();
    if (groups > 1) return;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x) {
        float v = s.i[0] == NORM_SIZE ? single.y : (from[i] - single.x) * single.y;
        if (s.b) v = v * s.b[i];
        if (s.c) v = v + s.c[i];
        to[i] = v;
        if (y) y[at.row * at.dim + i] = v;
    }
}

/* QUANT: a warp has a block of codes. */
__device__ __forceinline__ void run_quant(const run_step &s, const run_place &at, const float *from)
{
    const int lane = (int)threadIdx.x % 32, block = s.i[0];
    const act_part p = act_parts((uint8_t *)s.y, (row_tile){at.row, 1}, at.dim, block);
    const int blocks = (int)((act_padded(at.column + at.n) - at.column) / block);
    __syncthreads();
    for (int u = (int)threadIdx.x / 32; u < blocks; u += (int)blockDim.x / 32) {
        const int k = u * block, left = at.n - k, n = left < 0 ? 0 : left < block ? left : block;
        quant_lane q;
#pragma unroll
        for (int i = 0; i < 2; i++) q.x[i] = lane + 32 * i < n ? from[k + lane + 32 * i] : 0;
        quant_put(q, n, p, at.column / block + u, block, s.i[1]);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(RUN_THREADS) cuda_rows(const __grid_constant__ run_args a)
{
    extern __shared__ float run_slots[];
    begin_in_turn();
    run_place at = {blockIdx.x, (int64_t)blockIdx.y * a.padded, a.dim, a.padded};
    if (at.row >= *a.live) return;
    if (a.dim - at.column < at.n) at.n = (int)(a.dim - at.column);
    for (int i = 0; i < a.n; i++) {
        const run_step &s = a.steps[i];
        const float *from = run_slots + s.from * a.padded, *second = run_slots + s.second * a.padded;
        float *to = run_slots + s.to * a.padded;
        switch (s.kind) {
        case OP_NORM: run_norm(s, at, from, to); break;
        case OP_QUANT: run_quant(s, at, from); break;
        case OP_ADD: run_each<OP_ADD, 4>(s, at, from, second, to); break;
        case OP_MUL: run_each<OP_MUL, 4>(s, at, from, second, to); break;
        case OP_SCALE: run_each<OP_SCALE, 1>(s, at, from, second, to); break;
        case OP_ACT: run_each<OP_ACT, 1>(s, at, from, second, to); break;
        case OP_SOFTCAP: run_each<OP_SOFTCAP, 1>(s, at, from, second, to); break;
        case OP_CLAMP: run_each<OP_CLAMP, 1>(s, at, from, second, to); break;
        case OP_SCATTER: run_scatter(s, at, to); break;
        default: run_bring(s, at, a.st, to);
        }
    }
}

/* ---- the best logits of a row, by a block (core/best_logit.h) */

/* Of a row with a NaN: {0, NaN}, then none. */
static __device__ void pick_none(int32_t k, best_logit *to)
{
    for (int i = (int)threadIdx.x; i < k; i += PICK_THREADS)
        to[i] = i ? (best_logit){-1, -INFINITY} : (best_logit){0, NAN};
}

/* One, of equals the first. */
static __device__ void pick_one(const float *row, int64_t n, best_logit *to)
{
    __shared__ best_logit best[PICK_THREADS];
    best_logit mine = {0, -INFINITY};
    int odd = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < n; i += PICK_THREADS) {
        const float x = row[i];
        odd |= x != x;
        if (x > mine.value) mine = (best_logit){(int32_t)i, x};
    }
    if (__syncthreads_or(odd)) return pick_none(1, to);
    best[threadIdx.x] = mine;
    for (unsigned half = PICK_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        const best_logit one = best[threadIdx.x], two = best[threadIdx.x + half];
        if (two.value > one.value || (two.value == one.value && two.id < one.id)) best[threadIdx.x] = two;
    }
    if (threadIdx.x == 0) *to = best[0];
}

/* A number that is greater for a greater logit, and of equals for the one that comes first. */
static __device__ uint64_t pick_order(float x, int64_t id)
{
    const uint32_t bits = x == 0 ? 0 : __float_as_uint(x);
    return (uint64_t)(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | (uint32_t)~(uint32_t)id;
}

typedef struct pick_state {
    int count[256]; /* of logits by the digit that is looked at */
    uint64_t least; /* the digits that are known of the last one that is taken */
    int need, n;    /* of those that share these digits; taken so far */
    bool known;     /* all that share these digits are taken */
    best_logit list[BEST_MAX];
} pick_state;

/* The digit of the last one that is taken: of those with greater ones all are. */
static __device__ void pick_digit(pick_state *s, int shift)
{
    int d = 255;
    for (; d > 0 && s->count[d] < s->need; d--) s->need -= s->count[d];
    s->least |= (uint64_t)d << shift;
    s->known = s->count[d] <= s->need;
}

/* k of them: which is the last is found digit by digit (a radix select), the first of them of value, then of id. */
static __device__ void pick_list(const float *row, int64_t n, int32_t k, best_logit *to)
{
    __shared__ pick_state s;
    int odd = 0;
    if (threadIdx.x == 0) s.least = 0, s.need = k, s.n = 0, s.known = false;
    for (int shift = 56; shift >= 0; shift -= 8) {
        for (int i = (int)threadIdx.x; i < 256; i += PICK_THREADS) s.count[i] = 0;
        __syncthreads();
        const uint64_t least = s.least;
        if (s.known) break;
        for (int64_t i = threadIdx.x; i < n; i += PICK_THREADS) {
            const uint64_t x = pick_order(row[i], i);
            const bool same = shift == 56 || x >> (shift + 8) == least >> (shift + 8);
            odd |= row[i] != row[i];
            if (same && row[i] > -INFINITY) atomicAdd(&s.count[x >> shift & 255], 1);
        }
        if (__syncthreads_or(odd)) return pick_none(k, to);
        if (threadIdx.x == 0) pick_digit(&s, shift);
        __syncthreads();
    }
    const uint64_t least = s.least;
    for (int64_t i = threadIdx.x; i < n; i += PICK_THREADS)
        if (row[i] > -INFINITY && pick_order(row[i], i) >= least)
            s.list[atomicAdd(&s.n, 1)] = (best_logit){(int32_t)i, row[i]};
    __syncthreads();
    for (int i = (int)threadIdx.x; i < k; i += PICK_THREADS) {
        int at = 0;
        for (int j = 0; j < s.n && i < s.n; j++) at += s.list[j].id < s.list[i].id;
        if (i < s.n) to[at] = s.list[i];
        else to[i] = (best_logit){-1, -INFINITY};
    }
}

extern "C" __global__ void __launch_bounds__(PICK_THREADS) cuda_pick(const pick_args a)
{
    begin_in_turn();
    const int row = (int)blockIdx.x;
    if (a.st && row >= a.st->n[AXIS_OUT]) return;
    const int32_t k = a.st ? a.st->best[row] : a.k;
    int64_t at = a.st ? 0 : (int64_t)row * k;
    for (int i = 0; a.st && i < row; i++) at += a.st->best[i];
    if (!k) return;
    const float *logits = a.logits + (int64_t)row * a.n;
    if (k == 1) pick_one(logits, a.n, a.to + at);
    else pick_list(logits, a.n, k, a.to + at);
}

/* The changes that follow a step, into its page tables. */
extern "C" __global__ void __launch_bounds__(CHANGE_THREADS) cuda_pages(const step *st, const page_change *change, int n)
{
    int32_t *table = (int32_t *)st->page;
    for (int i = (int)threadIdx.x; i < n; i += CHANGE_THREADS) table[change[i].at] = change[i].page;
}
