/* attn.cuh - attention over a paged cache, in the bits of ops/def_attn.c, which says what is computed.
 *
 * A block of threads has one row and head. Its warps take ranges of 512 keys, one each, tile by tile; then the ranges
 * are merged in ascending order. Within a tile a lane has two keys for scores and weights, and every 32nd element for
 * values: scores and elements are chains of their own, and what is summed over keys are integers or sixteen lanes. */
#pragma once
#include "cuda/cuda_args.h"

extern "C" {
#include "src/ops/def_attn.c"
}

/* Shared memory of a warp, and of the block. */
typedef struct warp_space {
    float p[PAGE_TOKENS];       /* scores, then exponentials */
    int32_t share[PAGE_TOKENS]; /* weights times scales of values */
    int32_t weight[PAGE_TOKENS];
    float max, sum;
} warp_space;

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int half = 16; half; half /= 2) x = fm_max(__shfl_xor_sync(~0u, x, half), x);
    return x;
}
__device__ __forceinline__ int warp_add(int x)
{
#pragma unroll
    for (int half = 16; half; half /= 2) x += __shfl_xor_sync(~0u, x, half);
    return x;
}

/* kv_query_encode, by one warp. */
__device__ void query_encode(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q, int lane)
{
    float most = 0;
    bool odd = false;
    for (int64_t i = lane; i < dim; i += 32) {
        most = fm_max(fabsf(x[i]), most);
        odd = odd || !(fabsf(x[i]) < INFINITY);
    }
    most = warp_max(most);
    const bool bad = __any_sync(~0u, odd), tiny = !(most >= KV_TINY);
    const float inverse = bad || tiny ? 0 : (float)f->query / most;
    for (int64_t i = lane; i < f->padded; i += 32) {
        const float v = i < dim && !bad ? x[i] : 0;
        if (f->bits == 16) q.word[i] = (int16_t)kv_int(v, inverse);
        else q.code[i] = (int8_t)rintf(v * inverse);
    }
    if (lane == 0) *q.scale = (bad ? NAN : tiny ? 0 : most / f->query_unit) * by;
    __syncwarp();
    for (int64_t b = lane; b < f->blocks && f->bits < 16; b += 32) {
        int sum = 0;
        for (int i = 0; i < kv_block_codes(f, b); i++) sum += q.code[b * f->block + i];
        q.sum[b] = (float)sum;
    }
}

/* def_attn.c's dot, of a cache of i16: a word has two elements of a key. */
__device__ __forceinline__ float dot_words(const tile *t, int at)
{
    const uint32_t *key = (const uint32_t *)t->keys + at, *query = (const uint32_t *)t->codes.word;
    int32_t n = 0;
    const int pairs = (int)(t->kf.padded / 2), dim = t->s->k_dim;
#pragma unroll 8
    for (int i = 0; i < pairs; i++) {
        const uint32_t k = __ldg(key + i * PAGE_TOKENS), q = query[i];
        n += (int16_t)k * (int16_t)q;
        if (2 * i + 1 < dim) n += (int16_t)(k >> 16) * (int16_t)(q >> 16);
    }
    return (float)n * half_float(kv_scales(&t->kf, t->keys)[at]);
}

/* def_attn.c's dot and a sum of values, of a cache of floats: chains whose loads come early. */
template <int TYPE> __device__ __forceinline__ float cache_float(const uint8_t *from, int at)
{
    if constexpr (TYPE == DTYPE_F16) return half_float(__ldg((const uint16_t *)from + at));
    return __ldg((const float *)from + at);
}
template <int TYPE> __device__ float dot_floats(const tile *t, int at)
{
    float sum = 0;
    const int dim = t->s->k_dim;
#pragma unroll 16
    for (int d = 0; d < dim; d++) sum = fmaf(t->q[d], cache_float<TYPE>(t->keys, d * PAGE_TOKENS + at), sum);
    return sum;
}
template <int TYPE> __device__ float value_floats(const tile *t, const float *p, int from, int to, int d)
{
    float sum = 0;
    const int dim = t->s->v_dim;
#pragma unroll 16
    for (int j = from; j < to; j++) sum = fmaf(p[j], cache_float<TYPE>(t->values, j * dim + d), sum);
    return sum;
}

/* Sum of shares times the codes of element d. */
__device__ __forceinline__ int32_t value_sum(const tile *t, const kv_codes *f, const int32_t *share, int from, int to,
                                             int64_t d)
{
    int32_t n = 0;
    if (f->bits == 16) {
        const uint32_t *word = (const uint32_t *)t->values + d;
#pragma unroll 8
        for (int i = from / 2 * 2; i < to; i += 2) {
            const uint32_t v = __ldg(word + i / 2 * f->padded);
            n += share[i] * (int16_t)v + share[i + 1] * (int16_t)(v >> 16);
        }
        return n;
    }
    for (int i = from; i < to; i++) n += share[i] * kv_code_get(f, t->values, true, d, i);
    return n;
}

/* add_coded of def_attn.c. */
__device__ void add_values_coded(const tile *t, warp_space *w, int from, int to, float keep, float take, float *acc,
                                 int lane)
{
    const kv_codes *f = &t->vf;
    for (int64_t block = 0; block < f->blocks; block++) {
        const uint16_t *scale = kv_scales(f, t->values) + block * PAGE_TOKENS,
                       *base = kv_bases(f, t->values) + block * PAGE_TOKENS;
        float most = 0, most_base = 0;
        bool odd = false;
        for (int i = lane; i < PAGE_TOKENS; i += 32) {
            if (i < from || i >= to) continue;
            const float s = half_float(scale[i]);
            most = fm_max(s, most);
            odd = odd || !(fabsf(s) < INFINITY);
            if (f->base) most_base = fm_max(fabsf(half_float(base[i])), most_base);
        }
        most = warp_max(most);
        most_base = warp_max(most_base);
        const bool bad = __any_sync(~0u, odd);
        const float up = most > 0 && !bad ? (float)f->weight_top / most : 0,
                    each = (bad ? NAN : most / f->weight_unit) * take,
                    base_up = most_base > 0 && !bad ? BASE_TOP / most_base : 0;
        int bases = 0;
        __syncwarp();
        for (int i = lane; i < PAGE_TOKENS; i += 32) {
            const bool there = i >= from && i < to;
            const int of = there ? w->weight[i] : 0, by = bad || !there ? 0 : (int)rintf(half_float(scale[i]) * up);
            w->share[i] = !there ? 0 : f->bits == 16 ? kv_weight_word(of, by) : kv_weight_byte(of, by);
            if (f->base && !bad && there) bases += of * (int)rintf(half_float(base[i]) * base_up);
        }
        bases = warp_add(bases);
        __syncwarp();
        const float offset = (float)bases * (most_base * (0x1p-15f / BASE_TOP) * take);
        const int64_t d0 = block * f->block, d1 = d0 + kv_block_size(f, t->s->v_dim, block);
        for (int64_t d = d0 + lane; d < d1; d += 32) {
            const int32_t n = value_sum(t, f, w->share, from, to, d);
            acc[d] = fmaf((float)n, each, acc[d] * keep);
            if (f->base) acc[d] = acc[d] + offset;
        }
    }
}

/* tile_add of def_attn.c: the keys [from, to) of a tile, counted from its first. */
__device__ void add_tile(const tile *k, const attn_mask *mask, const op *o, int from, int to, warp_space *w, float *acc,
                         int lane)
{
    const kv_store *s = k->s;
    const bool coded = kv_is_codes(s->v_type), query = kv_is_codes(s->k_type), plain = attn_is_plain(o);
    float most = -INFINITY, by = WEIGHT_UNITS, p[2], odd = 0;
    if (query && coded && plain) by = *k->codes.scale * WEIGHT_UNITS;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int j = lane + 32 * h;
        p[h] = -INFINITY;
        if (j < from || j >= to) continue;
        p[h] = !query                ? s->k_type == DTYPE_F16 ? dot_floats<DTYPE_F16>(k, j) : dot_floats<DTYPE_F32>(k, j)
               : k->kf.bits == 16 ? dot_words(k, j)
                                  : dot(k, j);
        if (query && !(coded && plain)) p[h] = p[h] * *k->codes.scale;
        if (!(query && plain))
            p[h] = score(mask, o, p[h], attn_product_scale(o, s->k_type), k->head, k->slope, k->first + j, k->own);
        most = fm_max(p[h], most);
        odd = fmaf(p[h], 0, odd);
    }
    most = warp_max(most);
    const bool bad = __any_sync(~0u, !(odd == 0));
    const float steps = most * by;
    float keep, take, sum;
    if (coded) most = steps * WEIGHT_UNIT;
    soft now = {w->max, 0, NULL};
    soft_join(&now, most, &keep, &take);
    __syncwarp();
    if (coded) {
        int all = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int j = lane + 32 * h;
            const int of = j < from || j >= to ? 0 : kv_weight(fmaf(p[h], -by, kv_weight_from(steps)));
            w->weight[j] = of;
            all += of;
        }
        all = warp_add(all);
        sum = fmaf((float)all, 0x1p-15f, fmaf(steps, 0, bad ? NAN : 0));
        add_values_coded(k, w, from, to, keep, take, acc, lane);
    } else {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int j = lane + 32 * h;
            if (j >= from && j < to) w->p[j] = fm_exp(fm_max(FM_BELOW_MIN, p[h] - most));
        }
        __syncwarp();
        float part = 0;
        for (int j = lane % 16; j < to; j += 16)
            if (j >= from) part += w->p[j];
#pragma unroll
        for (int half = 8; half; half /= 2) part = part + __shfl_xor_sync(~0u, part, half);
        sum = part;
        for (int d = lane; d < s->v_dim; d += 32) {
            const float of = s->v_type == DTYPE_F16 ? value_floats<DTYPE_F16>(k, w->p, from, to, d)
                                                    : value_floats<DTYPE_F32>(k, w->p, from, to, d);
            acc[d] = fmaf(of, take, acc[d] * keep);
        }
    }
    __syncwarp();
    if (lane == 0) {
        w->sum = fmaf(sum, take, w->sum * keep);
        w->max = now.max;
    }
    __syncwarp();
}

/* The tiles of one range of keys, into the sums of a warp. */
__device__ void add_range(tile *t, const attn_args &a, const attn_mask *mask, int range, int first_key, int last_key,
                          int seq, int kv, warp_space *w, float *acc, int lane)
{
    for (int d = lane; d < a.kv.v_dim; d += 32) acc[d] = 0;
    if (lane == 0) {
        w->max = -INFINITY;
        w->sum = 0;
    }
    __syncwarp();
    for (int first = range; first < range + ATTN_RANGE && first <= last_key; first += PAGE_TOKENS) {
        const int from = first > first_key ? first : first_key,
                  to = first + PAGE_TOKENS < last_key + 1 ? first + PAGE_TOKENS : last_key + 1;
        const int32_t page = step_page(a.st, a.group, seq, first / PAGE_TOKENS);
        if (from >= to || page < 0) continue;
        t->keys = kv_tile(&a.kv, false, page, kv);
        t->values = kv_tile(&a.kv, true, page, kv);
        t->first = first;
        add_tile(t, mask, &a.o, from - first, to - first, w, acc, lane);
    }
}

/* soft_merge of def_attn.c by all threads: a part with this maximum and sum into `all`; parts NULL: a sink. */
__device__ void merge_part(float *max, float *sum, float *all, float part_max, float part_sum, const float *part, int n)
{
    soft now = {*max, 0, NULL};
    float keep, take;
    soft_join(&now, part_max, &keep, &take);
    *max = now.max;
    *sum = fmaf(part_sum, take, *sum * keep);
    for (int d = (int)threadIdx.x; d < n; d += ATTN_THREADS)
        all[d] = fmaf(part ? part[d] : 0, take, all[d] * keep);
}

extern "C" __global__ void __launch_bounds__(ATTN_THREADS) cuda_attn(const attn_args a)
{
    extern __shared__ float dynamic[];
    __shared__ warp_space space[ATTN_WARPS];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, heads = a.o.u.attn.heads, n = a.kv.v_dim;
    const int64_t u = blockIdx.x, row = u / heads, head = u % heads, kv = (a.o.u.attn.head0 + head) / a.per_kv;
    if (row >= a.st->n[a.axis]) return;
    float *all = dynamic, *parts = all + n, *q = parts + ATTN_WARPS * n;
    attn_mask mask = {step_rows_of(a.st, a.axis), step_rows_of(a.st, a.key_axis), a.o.u.attn.window, a.o.u.attn.ahead,
                      a.o.u.attn.chunk, a.o.u.attn.bias == BIAS_BUCKETS ? a.bias : NULL, a.table, heads, a.reach};
    const int seq = mask.rows->seq[row], own = mask.rows->pos[row], first_key = attn_first(&mask, own),
              last_key = attn_last(&mask, seq, own);
    tile t = {.s = &a.kv};
    t.kf = kv_codes_of(a.kv.k_type, a.kv.k_dim, false);
    t.vf = kv_codes_of(a.kv.v_type, n, true);
    t.codes = kv_query_at(&t.kf, (uint8_t *)(q + a.kv.k_dim));
    t.head = (int)head;
    t.own = own;
    t.slope = a.bias && a.o.u.attn.bias != BIAS_BUCKETS ? a.bias[head] : 0;
    t.q = q;
    for (int d = (int)threadIdx.x; d < a.kv.k_dim; d += ATTN_THREADS) q[d] = a.q[u * a.kv.k_dim + d];
    for (int d = (int)threadIdx.x; d < n; d += ATTN_THREADS) all[d] = 0;
    __syncthreads();
    if (warp == 0 && kv_is_codes(a.kv.k_type))
        query_encode(&t.kf, q, a.kv.k_dim, attn_query_scale(&a.o, a.kv.k_type), t.codes, lane);
    __syncthreads();
    float max = -INFINITY, sum = 0;
    const int begin = first_key / ATTN_RANGE * ATTN_RANGE;
    for (int round = begin; round <= last_key; round += ATTN_RANGE * ATTN_WARPS) {
        const int mine = round + warp * ATTN_RANGE;
        if (mine <= last_key)
            add_range(&t, a, &mask, mine, first_key, last_key, seq, (int)kv, &space[warp], parts + warp * n, lane);
        __syncthreads();
        for (int i = 0; i < ATTN_WARPS && round + i * ATTN_RANGE <= last_key; i++)
            merge_part(&max, &sum, all, space[i].max, space[i].sum, parts + i * n, n);
        __syncthreads();
    }
    if (a.sinks) merge_part(&max, &sum, all, a.sinks[head], 1, NULL, n);
    for (int d = (int)threadIdx.x; d < n; d += ATTN_THREADS) a.out[u * n + d] = all[d] / sum;
}
