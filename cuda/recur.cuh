/* recur.cuh - RECUR in the bits of ops/def_recur.c: a linear recurrence over the tokens of a sequence.
 *
 * A warp has 32 columns, a lane the state of one in registers from the first token of the step to the last; chains over
 * the rows of a state are the lane's own. Columns of one head share what a token is for them: of each row key, query,
 * decay, and the key of the next token times its decay. The warp brings that into shared memory one token ahead, a row
 * a lane, so that one pass over the rows gives state, output and what the delta rule of the next token takes off.
 * Columns of several heads read keys and queries where they lie, and each lane has decays of its own.
 *
 * Bound: five instructions for each number of the state and token, one of them a read of shared memory; for one token
 * the bytes of the state. */
#pragma once
#include "base/fmath.h"

extern "C" {
#include "cuda/recur_args.h"
}

/* What a lane has asked for of a token: rows lane, lane + 32 … of its operands, and the value of its column. */
template <int ROWS> struct recur_ahead {
    static constexpr int mine = (ROWS + 31) / 32;
    float q[mine], k[mine], of[mine], v, strength;

    __device__ __forceinline__ void take(const recur_seq &s, int64_t i, int64_t c, int64_t head, int64_t key_head)
    {
        const int lane = (int)threadIdx.x;
        const float *query = recur_query_at(&s, i, key_head), *by = recur_step(&s, i, head);
        const bool one = recur_has_one(&s);
#pragma unroll
        for (int j = 0; j < mine; j++) {
            const int r = lane + 32 * j;
            if (r >= ROWS) continue;
            q[j] = query[r], k[j] = query[ROWS + r];
            if (j == 0 || !one) of[j] = recur_exponent(&s, s.rate + head * s.rates, by, r);
        }
        v = recur_values(&s, i)[c];
        strength = recur_strength(&s, by);
    }
    /* Into shared memory: of the token before, only the decayed keys of this one. */
    __device__ __forceinline__ void put(const recur_seq &s, float4 *to, float4 *before) const
    {
        const bool one = recur_has_one(&s);
        float decay = 0;
#pragma unroll
        for (int j = 0; j < mine; j++) {
            const int r = (int)threadIdx.x + 32 * j;
            if (r >= ROWS) continue;
            if (j == 0 || !one) decay = fm_exp(of[j]);
            to[r].x = k[j], to[r].y = q[j], to[r].z = decay;
            before[r].w = decay * k[j];
        }
    }
};

/* A token: the new state; returns the output. */
template <int ROWS, bool DELTA>
__device__ __forceinline__ float recur_sweep(const float4 *token, float u, float *state, float *seen)
{
    float y = 0, next = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float4 t = token[r];
        state[r] = fmaf(t.x, u, t.z * state[r]);
        y = fmaf(state[r], t.y, y);
        if (DELTA) next = fmaf(state[r], t.w, next);
    }
    *seen = next;
    return y;
}

/* A state whose rows are `next` floats apart. Of columns by themselves that is not known at compile time, and asm keeps
 * the compiler from having the places of all rows in registers. */
template <int ROWS, bool ALONE> __device__ __forceinline__ void recur_state_put(const float *state, float *to, int64_t next)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++, to += ALONE ? next : LANES) {
        *to = state[r];
        if (ALONE) asm volatile("" : "+l"(next));
    }
}
template <int ROWS, bool ALONE> __device__ __forceinline__ void recur_state_get(float *state, const float *from, int64_t next)
{
    if (!from) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) state[r] = 0;
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++, from += ALONE ? next : LANES) {
        state[r] = *from;
        if (ALONE) asm volatile("" : "+l"(next));
    }
}

/* Column c, all columns of the warp being of one head. token: two of ROWS. */
template <int ROWS> __device__ __forceinline__ void recur_of_head(const recur_seq &s, int64_t c, float4 *token)
{
    const int64_t head = (int64_t)((uint32_t)c / (uint32_t)s.width), key_head = recur_key_head(&s, head);
    const int64_t at = recur_place(s.dim, ROWS, 0, c), first = -s.slot.taken;
    float state[ROWS], seen = 0;
    recur_ahead<ROWS> ahead;
    recur_state_get<ROWS, false>(state, s.slot.was ? s.slot.was + at : NULL, LANES);
    if (!recur_is_sure(&s, first)) recur_state_put<ROWS, false>(state, s.slot.kept + at, LANES);
    if (first == s.slot.n) return;
    ahead.take(s, first, c, head, key_head);
    __syncwarp(); /* those of the sequence before have been read */
    ahead.put(s, token, token + ROWS);
    __syncwarp();
    if (s.delta)
#pragma unroll
        for (int r = 0; r < ROWS; r++) seen = fmaf(state[r], token[ROWS + r].w, seen);
    for (int64_t i = first; i < s.slot.n; i++) {
        float4 *now = token + (i - first) % 2 * ROWS, *next = token + (i + 1 - first) % 2 * ROWS;
        const float u = ahead.strength * (s.delta ? ahead.v - seen : ahead.v);
        if (i + 1 < s.slot.n) ahead.take(s, i + 1, c, head, key_head);
        __syncwarp();
        if (i + 1 < s.slot.n) ahead.put(s, next, now);
        __syncwarp();
        const float y = s.delta ? recur_sweep<ROWS, true>(now, u, state, &seen)
                                : recur_sweep<ROWS, false>(now, u, state, &seen);
        if (i >= 0) s.y[i * s.dim + c] = y;
        if (recur_is_sure(&s, i) && !recur_is_sure(&s, i + 1)) recur_state_put<ROWS, false>(state, s.slot.kept + at, LANES);
    }
}

/* Column c of any head. A state of more than 16 rows has one decay (recur_has_one): there is no register for others. */
template <int ROWS> __device__ __forceinline__ void recur_alone(const recur_seq &s, int64_t c)
{
    const int64_t head = (int64_t)((uint32_t)c / (uint32_t)s.width), key_head = recur_key_head(&s, head);
    const int64_t at = recur_place(s.dim, ROWS, 0, c), next = recur_together(s.dim, c);
    const float *rate = s.rate + head * s.rates;
    const bool one = ROWS > RECUR_ALONE_ROWS || recur_has_one(&s);
    float state[ROWS];
    recur_state_get<ROWS, true>(state, s.slot.was ? s.slot.was + at : NULL, next);
    if (!recur_is_sure(&s, -s.slot.taken)) recur_state_put<ROWS, true>(state, s.slot.kept + at, next);
    for (int64_t i = -s.slot.taken; i < s.slot.n; i++) {
        const float *q = recur_query_at(&s, i, key_head), *k = q + ROWS, *by = recur_step(&s, i, head);
        const float v = recur_values(&s, i)[c];
        float decay = fm_exp(recur_exponent(&s, rate, by, 0)), seen = 0, y = 0;
        if (s.delta)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (!one) decay = fm_exp(recur_exponent(&s, rate, by, r));
                seen = fmaf(state[r], decay * k[r], seen);
            }
        const float u = recur_strength(&s, by) * (s.delta ? v - seen : v);
        asm volatile("" : "+l"(k)); /* keys are read again: beside the state there is no register for them */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!one) decay = fm_exp(recur_exponent(&s, rate, by, r));
            state[r] = fmaf(k[r], u, decay * state[r]);
            y = fmaf(state[r], q[r], y);
        }
        if (i >= 0) s.y[i * s.dim + c] = y;
        if (recur_is_sure(&s, i) && !recur_is_sure(&s, i + 1)) recur_state_put<ROWS, true>(state, s.slot.kept + at, next);
    }
}

/* Blocks of one warp: along x columns, along y sequences. */
template <int ROWS, bool ALONE> __device__ __forceinline__ void recur(const recur_args &a)
{
    __shared__ float4 token[ALONE ? 1 : 2 * ROWS];
    begin_in_turn();
    const int worker = (int)(blockIdx.x * RECUR_COLUMNS + threadIdx.x), workers = (int)(gridDim.x * RECUR_COLUMNS);
    for (int seq = (int)blockIdx.y; seq < a.st->n_seq; seq += (int)gridDim.y) {
        recur_seq s = a.s;
        recur_seq_at(&s, a.st, &a.slots, seq);
        if (s.slot.apart) {
            int64_t first, last;
            run_share(s.apart_floats, 1, worker, workers, &first, &last);
            recur_keep_apart(&s, first, last);
        }
        if constexpr (!ALONE) recur_of_head<ROWS>(s, worker, token);
        else if (worker < s.dim) recur_alone<ROWS>(s, worker);
    }
}

#define RECUR_KERNELS(rows)                                                                                            \
    extern "C" __global__ void __launch_bounds__(RECUR_COLUMNS, 1) cuda_recur_##rows(const __grid_constant__ recur_args a) \
    {                                                                                                                  \
        recur<rows, false>(a);                                                                                         \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RECUR_COLUMNS, 1) cuda_recur_alone_##rows(const __grid_constant__ recur_args a) \
    {                                                                                                                  \
        recur<rows, true>(a);                                                                                          \
    }
RECUR_KERNELS(16)
RECUR_KERNELS(32)
RECUR_KERNELS(64)
RECUR_KERNELS(128)
