/* route.cuh - ROUTE and DISPATCH (cuda_args.h), in the bits of core/route_pick.h and ops/def_moe.c. A row is a warp:
 * what is a maximum is found by all lanes, sums are chains of one. A block sorts all rows by expert: a thread takes an
 * expert, and walks over the rows in order. */
#pragma once
#include "cuda/cuda_args.h"

#include "core/route_pick.h"

/* The best element so far, and its number; -1: none. route_best: NaN is never better, of equals the first is taken. */
typedef struct route_choice {
    float x;
    int id;
} route_choice;

__device__ __forceinline__ bool route_better(route_choice a, route_choice b)
{
    if (a.id < 0 || b.id < 0) return a.id >= 0;
    const bool odd = a.x != a.x, other = b.x != b.x;
    if (odd != other) return other;
    return a.x > b.x || ((a.x == b.x || odd) && a.id < b.id);
}

/* route_best over [0, n), by a warp. */
__device__ __forceinline__ int route_best_warp(const float *x, const uint8_t *gone, int n, int lane)
{
    route_choice best = {0, -1};
    for (int i = lane; i < n; i += 32) {
        const route_choice now = {x[i], i};
        if (!gone[i] && route_better(now, best)) best = now;
    }
#pragma unroll
    for (int half = 16; half; half /= 2) {
        const route_choice other = {__shfl_xor_sync(~0u, best.x, half), __shfl_xor_sync(~0u, best.id, half)};
        if (route_better(other, best)) best = other;
    }
    return best.id;
}

/* Shared memory of a warp: scores for weights and for the pick, worth of groups; experts and groups that are gone. */
typedef struct route_space {
    float *score, *choice, *worth;
    uint8_t *gone, *taken;
} route_space;

__device__ __forceinline__ route_space route_space_at(uint8_t *at, int n, int groups)
{
    float *f = (float *)at;
    uint8_t *b = (uint8_t *)(f + 2 * n + groups);
    return (route_space){f, f + n, f + 2 * n, b, b + n};
}

/* route_score. */
__device__ __forceinline__ void route_score_warp(const route_args &a, const float *logits, const route_space &w, int lane)
{
    const int n = a.n, score = a.o.u.route.score;
    float most = logits[0];
    for (int i = lane; i < n; i += 32) most = fm_max(logits[i], most);
#pragma unroll
    for (int half = 16; half; half /= 2) most = fm_max(__shfl_xor_sync(~0u, most, half), most);
    for (int i = lane; i < n; i += 32) {
        const float x = logits[i];
        w.score[i] = score == SCORE_SOFTMAX ? fm_exp(x - most) : score == SCORE_SIGMOID ? fm_sigmoid(x) : x;
        w.gone[i] = false;
    }
    __syncwarp();
    float sum = 0;
    for (int i = 0; i < n && score == SCORE_SOFTMAX; i++) sum += w.score[i];
    __syncwarp();
    for (int i = lane; i < n; i += 32) {
        if (score == SCORE_SOFTMAX) w.score[i] = w.score[i] / sum;
        w.choice[i] = a.bias ? w.score[i] + a.bias[i] : w.score[i];
    }
    __syncwarp();
}

/* route_limit: a lane looks for the best of a group. */
__device__ __forceinline__ void route_limit_warp(const route_args &a, const route_space &w, int lane)
{
    const int groups = a.o.u.route.groups, size = a.n / groups;
    for (int g = lane; g < groups; g += 32) {
        w.taken[g] = false;
        route_choice best = {0, -1}, second = {0, -1};
        for (int i = g * size; i < (g + 1) * size; i++) {
            const route_choice now = {w.choice[i], i};
            if (route_better(now, best)) second = best, best = now;
            else if (route_better(now, second)) second = now;
        }
        w.worth[g] = a.o.u.route.group_best == 1 ? best.x : best.x + second.x;
    }
    __syncwarp();
    for (int k = 0; k < a.o.u.route.groups_used; k++) {
        const int best = route_best_warp(w.worth, w.taken, groups, lane);
        __syncwarp();
        if (lane == 0) w.taken[best] = true;
        __syncwarp();
    }
    for (int i = lane; i < a.n; i += 32) w.gone[i] = !w.taken[i / size];
    __syncwarp();
}

/* route_mix, by each lane. */
__device__ __forceinline__ float route_mix_lane(const route_args &a, const route_space &w, int best)
{
    const float most = w.choice[best];
    float sum = 0;
    for (int i = 0; i < a.n; i++) {
        const float x = w.choice[i], size = fm_max(most, fabsf(x));
        if (!w.gone[i] && !((most - x) / size > a.o.u.route.near)) sum += fm_exp(x - most);
    }
    return 1.0f / sum;
}

/* route_pick. */
__device__ __forceinline__ void route_row_warp(const route_args &a, int64_t row, const route_space &w, int lane)
{
    const int used = a.o.u.route.used, score = a.o.u.route.score;
    float *out = a.y + row * 2 * used, *share = out + used, sum = 0, most = 0;
    route_score_warp(a, a.x + row * a.n, w, lane);
    if (a.o.u.route.groups) route_limit_warp(a, w, lane);
    for (int k = 0; k < used; k++) {
        const int id = route_best_warp(w.choice, w.gone, a.n, lane);
        const float of = score == SCORE_MIXER ? route_mix_lane(a, w, id) : w.score[id];
        __syncwarp();
        if (lane == 0) {
            out[k] = (float)id;
            share[k] = of;
            w.gone[id] = true;
        }
        most = k ? fm_max(of, most) : of;
        __syncwarp();
    }
    if (lane) return;
    for (int k = 0; k < used; k++) {
        if (score == SCORE_PICKED) share[k] = fm_exp(share[k] - most);
        sum += share[k];
    }
    for (int k = 0; k < used; k++) {
        float by = share[k];
        if (a.o.u.route.renorm || score == SCORE_PICKED) by = by / (sum + 1e-20f);
        by *= a.o.u.route.factor;
        share[k] = a.scale ? by * a.scale[(int)out[k]] : by;
    }
}

/* def_dispatch, by a block. */
__device__ __forceinline__ void dispatch_block(const route_args &a)
{
    __shared__ int16_t place[DISPATCH_PART];
    __shared__ int32_t start[EXPERTS_MAX + 2];
    const int experts = a.experts, used = a.o.u.route.used, n = *a.live * used, each = (int)blockDim.x;
    for (int pass = 0; pass < 2; pass++) {
        for (int from = 0; from < n; from += DISPATCH_PART) {
            const int here = n - from < DISPATCH_PART ? n - from : DISPATCH_PART;
            __syncthreads();
            for (int i = (int)threadIdx.x; i < here; i += each) {
                const int at = (int)a.y[(int64_t)(from + i) / used * 2 * used + (from + i) % used] - a.first;
                place[i] = (int16_t)(at >= 0 && at < experts ? at : experts);
            }
            __syncthreads();
            for (int e = (int)threadIdx.x; e <= experts; e += each) {
                int32_t slot = from || pass ? start[e] : 0;
                for (int i = 0; i < here; i++) {
                    if (place[i] != e) continue;
                    if (pass) {
                        a.table[(int64_t)slot * DISPATCH_COLS + DISPATCH_ROW] = (from + i) / used;
                        a.table[(int64_t)slot * DISPATCH_COLS + DISPATCH_EXPERT] = e < experts ? e : -1;
                        a.table[(int64_t)(from + i) * DISPATCH_COLS + DISPATCH_SLOT] = slot;
                    }
                    slot++;
                }
                start[e] = slot;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0 && !pass) { /* numbers of rows become first rows */
            int32_t sum = 0;
            for (int e = 0; e <= experts; e++) {
                const int32_t rows = start[e];
                start[e] = sum;
                sum += rows;
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(ROUTE_THREADS, 1) cuda_route(const __grid_constant__ route_args a)
{
    extern __shared__ float run_slots[];
    begin_in_turn();
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32, lane = (int)threadIdx.x % 32;
    const route_space w = route_space_at((uint8_t *)run_slots + (uint64_t)warp * a.space, a.n, a.o.u.route.groups);
    for (int64_t row = (int64_t)blockIdx.x * warps + warp; a.routes && row < *a.live; row += (int64_t)gridDim.x * warps)
        route_row_warp(a, row, w, lane);
    __syncthreads();
    if (a.table) dispatch_block(a);
}
