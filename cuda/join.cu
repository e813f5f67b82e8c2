/* join.cu - what the ranks of a group hand over at a COLL (core/op.h), on their devices: each rank leaves its rows, or
 * their codes, in memory that the others read by peer access, and makes the result for itself.
 *
 * Sums are those of comm/coll_two_step.c and coll_one_shot.c: of each element in the order of ranks, coded before and
 * after by the definition of the codec (tensor/wire.c). */
#include "cuda/prelude.cuh"

extern "C" {
#include "src/tensor/act_q8.c"
#include "src/tensor/wire.c"
}
#include "cuda/join_args.h"

static __device__ int64_t thread_number() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ int64_t all_threads() { return (int64_t)gridDim.x * blockDim.x; }

/* The rank whose range holds x; -1: none. */
static __device__ int rank_of(const join_args *a, int64_t x)
{
    for (int r = 0; r < a->ranks; r++)
        if (x >= a->begin[r] && x < a->end[r]) return r;
    return -1;
}

/* A group of elements of a reduction. */
typedef struct group_place {
    int64_t row, col, n; /* n elements from there on */
    uint64_t at;         /* of its codes */
} group_place;

static __device__ int64_t groups_of_row(const join_args *a) { return (a->cols + a->group - 1) / a->group; }

static __device__ group_place place_of(const join_args *a, int64_t g)
{
    const int64_t groups = groups_of_row(a), row = g / groups, k = g % groups, left = a->cols - k * a->group;
    const uint64_t at = (uint64_t)(row * wire_bytes((wire_type)a->type, a->group, a->cols) +
                                   k * wire_group_bytes((wire_type)a->type, a->group));
    return (group_place){row, k * a->group, left < a->group ? left : a->group, at};
}

static __device__ int64_t chunk_begin(const join_args *a, int64_t all, int rank)
{
    return a->chunked ? all * rank / a->ranks : 0;
}
static __device__ int64_t chunk_end(const join_args *a, int64_t all, int rank)
{
    return a->chunked ? all * (rank + 1) / a->ranks : all;
}

static __device__ bool is_finite(float x) { return (float_bits(x) & 0x7f800000) != 0x7f800000; }

extern "C" {
/* Columns of float rows. */
__global__ void join_columns(join_args a)
{
    const int64_t n = a.st->n[a.axis] * a.cols;
    for (int64_t i = thread_number(); i < n; i += all_threads()) {
        const int64_t row = i / a.cols, col = i % a.cols;
        const int r = rank_of(&a, col);
        a.y[i] = ((const float *)a.from[r])[row * (a.end[r] - a.begin[r]) + col - a.begin[r]];
    }
}

/* The same of int8 activations, one row a tile (act_q8.h): a thread has 64 columns. */
__global__ void join_codes(join_args a)
{
    const int64_t units = act_padded(a.cols) / PANEL_K, n = a.st->n[a.axis] * units, each = PANEL_K / a.block;
    for (int64_t i = thread_number(); i < n; i += all_threads()) {
        const int64_t row = i / units, col = i % units * PANEL_K;
        const int r = rank_of(&a, col);
        const int64_t own = a.end[r] - a.begin[r], c = col - a.begin[r];
        const act_part to = act_parts((uint8_t *)a.y, (row_tile){row, 1}, a.cols, a.block);
        const act_part from = act_parts((uint8_t *)a.from[r], (row_tile){row, 1}, own, a.block);
        for (int k = 0; k < PANEL_K; k += 4)
            *(uint32_t *)(to.code + col + k) = *(const uint32_t *)(from.code + c + k);
        for (int64_t k = 0; k < each; k++) {
            const int64_t b = col / a.block + k, f = c / a.block + k;
            to.scale[b] = from.scale[f];
            to.scaled_sum[b] = from.scaled_sum[f];
            to.neg_sum[b] = from.neg_sum[f];
            for (int s = 0; to.neg_subsums && s < ACT_SUBSUMS; s++)
                to.neg_subsums[b * ACT_SUBSUMS + s] = from.neg_subsums[f * ACT_SUBSUMS + s];
        }
    }
}

/* Rows of a table, each from the rank that has it; rows that none has are given, or 0. */
__global__ void join_rows(join_args a)
{
    const int32_t *token = step_rows_of(a.st, a.axis)->token;
    const int64_t n = a.st->n[a.axis] * a.cols;
    for (int64_t i = thread_number(); i < n; i += all_threads()) {
        const int64_t row = i / a.cols, col = i % a.cols;
        const int32_t id = token[row];
        const int r = id < 0 ? -1 : rank_of(&a, (int64_t)id + a.offset);
        const float *x = id < 0 ? a.st->vec + ~(int64_t)id * a.cols : r < 0 ? NULL : (const float *)a.from[r] + row * a.cols;
        a.y[i] = x ? x[col] : 0;
    }
}

/* Codes of y, or of the rank's chunk of it: a thread has a group. */
__global__ void join_encode(join_args a)
{
    const int64_t all = a.st->n[a.axis] * groups_of_row(&a), end = chunk_end(&a, all, a.rank);
    for (int64_t g = chunk_begin(&a, all, a.rank) + thread_number(); g < end; g += all_threads()) {
        const group_place p = place_of(&a, g);
        const float *x = a.y + p.row * a.cols + p.col;
        group_encode((wire_type)a.type, x, p.n, a.to + p.at);
        for (int64_t i = 0; a.odd && i < p.n; i++)
            if (!is_finite(x[i])) atomicOr(a.odd, 1u);
    }
}

/* Sums of what all ranks have coded, or of the chunk: a thread has an element. */
__global__ void join_sum(join_args a)
{
    const int64_t all = a.st->n[a.axis] * groups_of_row(&a), begin = chunk_begin(&a, all, a.rank);
    const int64_t n = (chunk_end(&a, all, a.rank) - begin) * a.group;
    for (int64_t i = thread_number(); i < n; i += all_threads()) {
        const group_place p = place_of(&a, begin + i / a.group);
        const int64_t k = i % a.group;
        if (k >= p.n) continue;
        float sum = element((wire_type)a.type, a.from[0] + p.at, p.n, k);
        for (int r = 1; r < a.ranks; r++) sum += element((wire_type)a.type, a.from[r] + p.at, p.n, k);
        a.y[p.row * a.cols + p.col + k] = sum;
    }
}

/* y of the codes of the sums, each chunk from the rank that has it. */
__global__ void join_decode(join_args a)
{
    const int64_t all = a.st->n[a.axis] * groups_of_row(&a), n = all * a.group;
    for (int64_t i = thread_number(); i < n; i += all_threads()) {
        const int64_t g = i / a.group, k = i % a.group;
        const group_place p = place_of(&a, g);
        if (k >= p.n) continue;
        int r = a.chunked ? 0 : a.rank;
        while (a.chunked && g >= chunk_end(&a, all, r)) r++;
        const float x = element((wire_type)a.type, a.from[r] + p.at, p.n, k);
        if (a.odd && !is_finite(x)) atomicOr(a.odd, 1u);
        a.y[p.row * a.cols + p.col + k] = x;
    }
}
}
