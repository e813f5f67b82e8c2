/* attn.cuh - attention over a paged cache, in the bits of ops/def_attn.c, which says what is computed.
 *
 * A block of threads has rows of one sequence and query heads of one head of keys and values: its units. So keys and
 * values are read once for all of them. Of a range of 512 keys warps take tiles first: scores, weights and what the
 * tile's maximum makes of them do not depend on other tiles. Then warps take elements of values, and go over the tiles
 * in ascending order: that chain is short where sums over keys are there already. Ranges are merged in ascending order
 * too: by the block that has them all, or, where several blocks share them, by the one that ends last. Of few rows keys
 * and values come through rings (attn_ring.cuh).
 *
 * Bound: bytes of keys and values over the read bandwidth for few rows; for many, the softmax. */
#pragma once
#include "cuda/attn_float.cuh"
#include "cuda/attn_ring.cuh"
#include "cuda/attn_tile.cuh"
#include "cuda/dependent.cuh"
#include "cuda/quant.cuh"

enum { ATTN_UNITS = 32 };

/* What a block knows of its units, in shared memory. */
typedef struct attn_units {
    int32_t row[ATTN_UNITS], head[ATTN_UNITS], own[ATTN_UNITS], first[ATTN_UNITS], last[ATTN_UNITS]; /* last < first: none */
    float slope[ATTN_UNITS], scale[ATTN_UNITS];                 /* scale: of the query's codes */
    float max[ATTN_UNITS], sum[ATTN_UNITS];                     /* of the range so far */
    float all_max[ATTN_UNITS], all_sum[ATTN_UNITS];             /* of the ranges so far, */
    float keep[ATTN_UNITS], take[ATTN_UNITS], sink[ATTN_UNITS]; /* their factor and that of the range; of all by a sink */
    int32_t page[ATTN_TILES];                                   /* of the tiles at hand; -1: none */
    int32_t ends;
    attn_work of;
} attn_units;

/* A block's share of an ATTN; the same in all threads but for `warp` and `lane`. */
template <int T> struct attn_block {
    static constexpr bool coded = T != DTYPE_F32 && T != DTYPE_F16;
    static constexpr int bits = T == DTYPE_I16 ? 16 : T == DTYPE_Q8_B64 ? 8 : 4; /* of codes */
    const attn_args *a;
    uint8_t *shared;
    attn_units *u;
    int warp, lane;
};

/* The same, but what follows from warp and lane is computed where it is read: outside of loops it would take registers
 * that there are not. */
template <int T> __device__ __forceinline__ attn_block<T> kept(const attn_block<T> &b)
{
    return {b.a, b.shared + kept(0), b.u, kept(b.warp), kept(b.lane)};
}

template <int T> __device__ __forceinline__ float *floats_at(const attn_block<T> &b, int at) { return (float *)(b.shared + at); }

/* The keys [from, to) of the tile at position `first` that a unit sees, counted from its first. */
template <int T> __device__ __forceinline__ bool unit_sees(const attn_block<T> &b, int u, int first, int *from, int *to)
{
    const int begin = b.u->first[u] - first, end = b.u->last[u] + 1 - first;
    *from = begin > 0 ? begin : 0;
    *to = end < PAGE_TOKENS ? end : PAGE_TOKENS;
    if (*from < *to) return true;
    *from = *to = 0;
    return false;
}
__device__ __forceinline__ attn_mask mask_of(const attn_args *a)
{
    return {step_rows_of(a->st, a->axis), step_rows_of(a->st, a->key_axis), a->o.u.attn.window, a->o.u.attn.ahead,
            a->o.u.attn.chunk, a->buckets, a->table, a->o.u.attn.heads, a->reach, a->own_places, a->key_places, a->places, 0};
}
__device__ __forceinline__ int range_of(int key) { return key / ATTN_RANGE * ATTN_RANGE; }
template <int T> __device__ __forceinline__ bool unit_has_range(const attn_block<T> &b, int u, int range)
{
    return u < b.u->of.n && range >= range_of(b.u->first[u]) && range <= b.u->last[u];
}

/* ---- queries */

/* kv_query_encode, by one warp, into planes of bytes. */
template <int T> __device__ __forceinline__ void encode_query(const attn_block<T> &b, int u, const float *x)
{
    const kv_codes *f = &b.a->kf;
    const int dim = b.a->kv.k_dim, lane = b.lane, plane = b.a->at.query_plane;
    uint8_t *to = b.shared + b.a->at.query + u * b.a->at.query_row;
    float *sums = floats_at(b, b.a->at.query_sums) + u * (int)f->blocks;
    const warp_range of = warp_range_of(x, dim, lane);
    const float most = of.most;
    const bool bad = of.odd, tiny = !(most >= KV_TINY);
    const float inverse = bad || tiny ? 0 : (float)f->query / most;
    int sum = 0;
    for (int i0 = 0; i0 < f->padded; i0 += 32) {
        const int i = i0 + lane;
        const float v = i < dim && !bad ? x[i] : 0;
        const int code = b.bits == 16 ? (int16_t)kv_int(v, inverse) : (int8_t)rintf(v * inverse);
        to[i] = (uint8_t)code;
        if (b.bits == 16) {
            to[i + plane] = (uint8_t)(code >> 8);
            continue;
        }
        sum += __reduce_add_sync(~0u, code);
        if ((i0 + 32) % f->block && i0 + 32 < f->padded) continue;
        if (lane == 0) sums[i0 / f->block] = (float)sum;
        sum = 0;
    }
    if (lane == 0)
        b.u->scale[u] = (bad ? NAN : tiny ? 0 : most / f->query_unit) * attn_query_scale(&b.a->o, (dtype)T);
}

template <int T> __device__ __forceinline__ void take_queries(const attn_block<T> &b)
{
    const attn_args *a = b.a;
    const int dim = a->kv.k_dim, units = a->shape.units;
    for (int u = b.warp; u < units; u += ATTN_WARPS) {
        const float *x = a->q + ((int64_t)b.u->row[u] * a->o.u.attn.heads + b.u->head[u]) * dim;
        if constexpr (b.coded) {
            if (u < b.u->of.n) encode_query(b, u, x);
        } else
            for (int d = b.lane; d < dim; d += 32) floats_at(b, b.a->at.query)[d * units + u] = u < b.u->of.n ? x[d] : 0;
    }
}

/* ---- a tile: scores and their softmax */

template <int T, class S>
__device__ __forceinline__ void tile_scores_get(const attn_block<T> &b, S &source, uint8_t *keys, int u0, tile_scores *s)
{
    const uint8_t *q = b.shared + b.a->at.query + (u0 + b.lane / 4) * b.a->at.query_row;
    const float *sums = floats_at(b, b.a->at.query_sums) + u0 * (int)b.a->kf.blocks;
    if constexpr (b.bits == 16) scores_words(source, &b.a->kf, keys, q, b.a->at.query_plane, b.lane, s);
    else scores_bytes<b.bits>(source, &b.a->kf, keys, q, sums, b.lane, s);
}

/* From products to scores: factors, cap, bias. One by one, the others moving up: the code of all sixteen would be long,
 * and would take more registers than there are. */
template <int T> __device__ __forceinline__ void finish_scores(const attn_block<T> &b, int first, int u, tile_scores *s)
{
    const op *o = &b.a->o;
    const float scale = attn_product_scale(o, (dtype)T);
    if (attn_is_plain(o)) return;
    attn_mask mask = mask_of(b.a);
    float *of = s->of[0];
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        const int v = u + i % 2, key = first + score_key(b.lane, i / 4, i % 4);
        float x = of[0];
        mask.row0 = b.u->row[v] - b.u->own[v];
        if (!b.a->places || key <= b.u->last[v]) /* beyond: no row of the step */
            x = score(&mask, o, x * b.u->scale[v], scale, b.u->head[v], b.u->slope[v], key, b.u->own[v]);
#pragma unroll
        for (int k = 0; k < 15; k++) of[k] = of[k + 1];
        of[15] = x;
    }
}

/* Weights of a tile of the lane's two units, [k][c / 2][i], and which keys [from, to) of it they see. */
typedef struct tile_weights {
    int w[2][2][4], from[2], to[2];
    bool any[2]; /* in some lane */
} tile_weights;

/* Shares of the values of a block, for units u and u + 1. */
template <int T>
__device__ __forceinline__ void put_shares(const attn_block<T> &b, const float scale[2][4], const float base[2][4], int tile,
                                           int block, int u, const tile_weights *of)
{
    constexpr int planes = b.bits == 16 ? 2 : 1;
    const int units = b.a->shape.units, g = b.lane / 4, at = tile * (int)b.a->vf.blocks + block;
#pragma unroll
    for (int k = 0; k < 2; k++, u++) {
        if (!of->any[k]) continue;
        const tile_shares s = shares_of<b.bits>(&b.a->vf, scale, base, of->w[k], of->from[k], of->to[k], b.lane);
        uint8_t *row = b.shared + b.a->at.share + (at * planes * units + u) * SHARE_ROW;
#pragma unroll
        for (int p = 0; p < planes; p++) {
            *(uint32_t *)(row + p * units * SHARE_ROW + g * 4) = s.word[p][0];
            *(uint32_t *)(row + p * units * SHARE_ROW + 32 + g * 4) = s.word[p][1];
        }
        if (g) continue;
        floats_at(b, b.a->at.each)[at * units + u] = s.each;
        floats_at(b, b.a->at.base)[at * units + u] = s.base;
        floats_at(b, b.a->at.offset)[at * units + u] = (float)s.bases;
    }
}

/* Those of all blocks. */
template <int T, class S>
__device__ __forceinline__ void share_tile(const attn_block<T> &b, S &source, uint8_t *values, int tile, int u,
                                           const tile_weights *of)
{
    const kv_codes *f = &b.a->vf;
    for (int first = 0; first < (int)f->blocks; first += ATTN_SCALES) {
        source.take();
#pragma unroll 1
        for (int block = first; block < first + ATTN_SCALES && block < (int)f->blocks; block++) {
            float scale[2][4], base[2][4] = {};
            key_halves(source.value_scales(f, values, block), b.lane, scale);
            if (b.bits == 4) key_halves(source.value_bases(f, values, block), b.lane, base);
            put_shares(b, scale, base, tile, block, u, of);
        }
        source.give();
    }
}

/* Weights of one unit of the lane, k = c % 2, and what the tile alone makes of them; tile_add of def_attn.c. */
template <int T>
__device__ __forceinline__ void weigh_scores(const attn_block<T> &b, int tile, int u, int k, const tile_scores *s,
                                             tile_weights *of)
{
    const int units = b.a->shape.units, lane = b.lane, from = of->from[k], to = of->to[k];
    float most = -INFINITY, odd = 0, sum;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = score_key(lane, i, 2 * h);
            if (key < from || key >= to) continue;
            most = fm_max(s->of[i][2 * h + k], most);
            odd = fmaf(s->of[i][2 * h + k], 0, odd);
        }
    most = keys_max(most);
    const bool bad = keys_any(!(odd == 0), lane);
    const float by = attn_is_plain(&b.a->o) ? b.u->scale[u] * WEIGHT_UNITS : WEIGHT_UNITS, steps = most * by,
                top = kv_weight_from(steps);
    int all = 0;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = score_key(lane, i, 2 * h);
            of->w[k][h][i] = key < from || key >= to ? 0 : kv_weight(fmaf(s->of[i][2 * h + k], -by, top));
            all += of->w[k][h][i];
        }
    all = keys_add(all);
    most = steps * WEIGHT_UNIT;
    sum = fmaf((float)all, 0x1p-15f, fmaf(steps, 0, bad ? NAN : 0));
    if (lane >= 4) return;
    floats_at(b, b.a->at.max)[tile * units + u] = most;
    floats_at(b, b.a->at.sum)[tile * units + u] = sum;
}

/* Which keys of the tile at position `first` units u and u + 1 see; false: none in any lane. */
template <int T> __device__ __forceinline__ bool see_tile(const attn_block<T> &b, int first, int u, tile_weights *of)
{
#pragma unroll
    for (int k = 0; k < 2; k++) of->any[k] = __any_sync(~0u, unit_sees(b, u + k, first, &of->from[k], &of->to[k]));
    return of->any[0] || of->any[1];
}

/* A tile for units u0 … u0 + 7. */
template <int T, class S>
__device__ __forceinline__ void weigh_tile(const attn_block<T> &of_block, S &source, int tile, int first, int u0)
{
    const attn_block<T> b = kept(of_block);
    const int u = u0 + b.lane % 4 * 2;
    const auto in_page = [&](uint8_t *pages, uint64_t bytes) {
        return pages + (uint64_t)b.u->page[tile] * b.a->kv.stride + (uint64_t)b.u->of.kv * bytes;
    };
    tile_weights of;
    if (b.u->page[tile] < 0 || !see_tile(b, first, u, &of)) return source.skip(b.a->pieces.keys + b.a->pieces.scales);
    tile_scores s = {};
    tile_scores_get(b, source, in_page(b.a->kv.k, b.a->k_tile), u0, &s);
    finish_scores(b, first, u, &s);
    see_tile(b, kept(first), u, &of); /* anew: scores take all registers */
#pragma unroll
    for (int k = 0; k < 2; k++)
        if (of.any[k]) weigh_scores(b, tile, u + k, k, &s, &of);
    share_tile(b, source, in_page(b.a->kv.v, b.a->v_tile), tile, u, &of);
}

/* ---- between tiles and elements: factors of each tile in its range, of the range in all */

enum { UNSEEN = -1 }; /* the factor `keep` where a unit does not see a tile */

template <int T> __device__ __forceinline__ void join_tiles(const attn_block<T> &b, int first)
{
    const int units = b.a->shape.units, blocks = b.coded ? (int)b.a->vf.blocks : 0;
    const float *max = floats_at(b, b.a->at.max);
    float *keeps = floats_at(b, b.a->at.keep), *takes = floats_at(b, b.a->at.take);
    for (int i = (int)threadIdx.x; i < b.a->shape.tiles * units; i += ATTN_THREADS) {
        const int tile = i / units, u = i % units;
        int from, to;
        soft now = {b.u->max[u], 0, NULL};
        keeps[i] = UNSEEN;
        if (b.u->page[tile] < 0 || !unit_sees(b, u, first + tile * PAGE_TOKENS, &from, &to)) continue;
        for (int t = 0; t < tile; t++)
            if (b.u->page[t] >= 0 && unit_sees(b, u, first + t * PAGE_TOKENS, &from, &to))
                now.max = fm_max(max[t * units + u], now.max);
        float keep, take;
        soft_join(&now, max[i], &keep, &take);
        keeps[i] = keep;
        takes[i] = take;
        for (int block = 0; block < blocks; block++) {
            const int at = (tile * blocks + block) * units + u;
            floats_at(b, b.a->at.each)[at] = floats_at(b, b.a->at.each)[at] * take;
            floats_at(b, b.a->at.offset)[at] = floats_at(b, b.a->at.offset)[at] * (floats_at(b, b.a->at.base)[at] * take);
        }
    }
}

/* Parts of this block's units, from range 0 on. */
template <int T> __device__ __forceinline__ float *parts_of(const attn_block<T> &b)
{
    return b.a->parts + b.u->of.place * b.a->shape.parts;
}
/* Where a maximum and a sum of each unit and its sums of values over a range go; NULL: the block has all ranges itself. */
template <int T> __device__ __forceinline__ float *part_of(const attn_block<T> &b, int range)
{
    if (b.u->of.step == 1) return NULL;
    return parts_of(b) + (range - range_of(b.u->of.first)) / ATTN_RANGE * b.a->shape.part;
}

/* Thread u: the range so far; at its end, the ranges so far, and the sink. */
template <int T> __device__ __forceinline__ void join_range(const attn_block<T> &b, int range, bool ends)
{
    const int u = (int)threadIdx.x, units = b.a->shape.units;
    if (u >= b.u->of.n) return;
    const float *max = floats_at(b, b.a->at.max), *sum = floats_at(b, b.a->at.sum), *keep = floats_at(b, b.a->at.keep),
                *take = floats_at(b, b.a->at.take);
    float most = b.u->max[u], all = b.u->sum[u];
    for (int i = u; i < b.a->shape.tiles * units; i += units) {
        if (keep[i] == UNSEEN) continue;
        all = fmaf(sum[i], take[i], all * keep[i]);
        most = fm_max(max[i], most);
    }
    b.u->max[u] = ends ? -INFINITY : most;
    b.u->sum[u] = ends ? 0 : all;
    if (!ends || !unit_has_range(b, u, range)) return;
    if (float *part = part_of(b, range)) {
        part[u] = most;
        part[units + u] = all;
        return;
    }
    soft now = {b.u->all_max[u], 0, NULL};
    soft_join(&now, most, &b.u->keep[u], &b.u->take[u]);
    float total = fmaf(all, b.u->take[u], b.u->all_sum[u] * b.u->keep[u]);
    if (b.a->sinks && range + ATTN_RANGE > b.u->last[u]) {
        float by;
        soft_join(&now, b.a->sinks[b.u->head[u]], &b.u->sink[u], &by);
        total = fmaf(1, by, total * b.u->sink[u]);
    }
    b.u->all_max[u] = now.max;
    b.u->all_sum[u] = total;
}

/* The sum of values of one element of a unit over a range, into the result or where parts are. */
template <int T> __device__ __forceinline__ void put_element(const attn_block<T> &b, int range, int u, int d, float x)
{
    if (d >= b.a->kv.v_dim || !unit_has_range(b, u, range)) return;
    if (float *part = part_of(b, range)) {
        part[2 * b.a->shape.units + u * b.a->kv.v_dim + d] = x;
        return;
    }
    float *to = b.a->out + ((int64_t)b.u->row[u] * b.a->o.u.attn.heads + b.u->head[u]) * b.a->kv.v_dim + d;
    const float before = range == range_of(b.u->first[u]) ? 0 : *to;
    x = fmaf(x, b.u->take[u], before * b.u->keep[u]);
    if (range + ATTN_RANGE > b.u->last[u]) {
        if (b.a->sinks) x = fmaf(0, 1, x * b.u->sink[u]);
        x = x / b.u->all_sum[u];
    }
    *to = x;
}

/* ---- values */

/* Where a round of tiles is in its range: whether it is the first, the last. */
typedef struct attn_round {
    int first; /* position of the first tile at hand */
    bool begins, ends;
} attn_round;

template <int T> __device__ __forceinline__ float element_get(const attn_block<T> &b, const attn_round &r, int u, int d)
{
    return r.begins || d >= b.a->kv.v_dim ? 0 : floats_at(b, b.a->at.part)[u * b.a->kv.v_dim + d];
}
template <int T> __device__ __forceinline__ void element_put(const attn_block<T> &b, const attn_round &r, int u, int d, float x)
{
    if (r.ends) put_element(b, range_of(r.first), u, d, x);
    else if (d < b.a->kv.v_dim) floats_at(b, b.a->at.part)[u * b.a->kv.v_dim + d] = x;
}

/* Values that are codes: elements d0 … d0 + 15, of 4 bits 16 more, of units u0 … u0 + 7, over the tiles at hand. */
template <int T, class S>
__device__ __forceinline__ void add_codes(const attn_block<T> &of_block, S &source, const attn_round &r, int d0, int u0)
{
    const attn_block<T> b = kept(of_block);
    constexpr int bits = b.bits, nibbles = bits == 4 ? 2 : 1, planes = bits == 16 ? 2 : 1, together = attn_pieces<T>::tiles;
    const kv_codes *f = &b.a->vf;
    const int units = b.a->shape.units, u = u0 + b.lane % 4 * 2, d = d0 + b.lane / 4 * 2, block = d0 / (int)f->block,
              pitch = kept(source.value_pitch((int)f->padded / nibbles * 4)), plane = units * SHARE_ROW;
    const uint8_t *share = b.shared + b.a->at.share + (u0 + b.lane / 4) * SHARE_ROW;
    float acc[nibbles][4];
#pragma unroll
    for (int i = 0; i < nibbles; i++)
#pragma unroll
        for (int c = 0; c < 4; c++) acc[i][c] = element_get(b, r, u + c % 2, d + 16 * i + c / 2);
#pragma unroll 2
    for (int tile = 0; tile < b.a->shape.tiles; tile++) {
        const int at = tile * (int)f->blocks + block;
        const float2 keep = *(const float2 *)(floats_at(b, b.a->at.keep) + tile * units + u);
        if (tile % together == 0) source.take();
        if (__any_sync(~0u, keep.x != UNSEEN || keep.y != UNSEEN)) {
            const uint8_t *values = b.a->kv.v + (uint64_t)b.u->page[tile] * b.a->kv.stride + (uint64_t)b.u->of.kv * b.a->v_tile;
            const float2 each = *(const float2 *)(floats_at(b, b.a->at.each) + at * units + u),
                         offset = *(const float2 *)(floats_at(b, b.a->at.offset) + at * units + u);
            mma_sums n[2];
            value_sums<bits>(source.value_codes(values, tile, d0), pitch, share + at * planes * plane, plane, b.lane, n);
#pragma unroll
            for (int i = 0; i < nibbles; i++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const float by = c % 2 ? keep.y : keep.x;
                    float x = fmaf((float)n[i].n[c], c % 2 ? each.y : each.x, acc[i][c] * by);
                    if (bits == 4) x = x + (c % 2 ? offset.y : offset.x);
                    if (by != UNSEEN) acc[i][c] = x;
                }
        }
        if (tile % together == together - 1) source.give();
    }
#pragma unroll
    for (int i = 0; i < nibbles; i++)
#pragma unroll
        for (int c = 0; c < 4; c++) element_put(b, r, u + c % 2, d + 16 * i + c / 2, acc[i][c]);
}

template <int T, class S> __device__ __forceinline__ void add_values(const attn_block<T> &b, S &source, const attn_round &r)
{
    const int sets = S::ring ? 1 : (b.u->of.n + 7) / 8;
    for (int i = b.warp; i < b.a->pieces.values * sets; i += ATTN_WARPS)
        add_codes(b, source, r, i / sets * attn_pieces<T>::elements, i % sets * 8);
}

/* ---- floats: a warp has a tile for all units, first its weights, then its sums of values */

/* From products to scores, but for factors of plain ones: of the lane's unit and keys. */
template <int T, class S>
__device__ __forceinline__ void finish_floats(const attn_block<T> &b, int first, int u, int from, int to, float *p)
{
    const op *o = &b.a->o;
    const float scale = attn_product_scale(o, (dtype)T);
    attn_mask mask = mask_of(b.a);
    mask.row0 = b.u->row[u] - b.u->own[u];
#pragma unroll 1
    for (int key = b.lane / S::all; key < to; key += 32 / S::all)
        if (key >= from)
            p[key * S::all + u] =
                score(&mask, o, p[key * S::all + u], scale, b.u->head[u], b.u->slope[u], first + key, b.u->own[u]);
}

template <int T, class S, class M>
__device__ __forceinline__ float_keys weigh_floats(const attn_block<T> &b, M &source, int tile, int first)
{
    const int u = b.lane % S::all;
    int from, to;
    const bool sees = unit_sees(b, u, first, &from, &to);
    const float_keys k = {__reduce_min_sync(~0u, sees ? from : PAGE_TOKENS), __reduce_max_sync(~0u, to),
                          __reduce_max_sync(~0u, from), __reduce_min_sync(~0u, sees ? to : PAGE_TOKENS)};
    if (b.u->page[tile] < 0 || k.end == 0) {
        source.skip(b.a->pieces.keys);
        return {0, 0, 0, 0};
    }
    const uint8_t *keys = b.a->kv.k + (uint64_t)b.u->page[tile] * b.a->kv.stride + (uint64_t)b.u->of.kv * b.a->k_tile;
    float *p = floats_at(b, b.a->at.share) + tile * PAGE_TOKENS * S::all, sum;
    float_products<T, S>(source, keys, b.a->kv.k_dim, floats_at(b, b.a->at.query), b.lane, p);
    __syncwarp();
    const bool plain = attn_is_plain(&b.a->o);
    if (!plain) finish_floats<T, S>(b, first, u, from, to, p);
    const float most =
        float_weights<S::all>(p, plain ? attn_product_scale(&b.a->o, (dtype)T) : 1, from, to, b.lane, &sum);
    if (b.lane < S::all) {
        floats_at(b, b.a->at.max)[tile * S::all + u] = most;
        floats_at(b, b.a->at.sum)[tile * S::all + u] = sum;
    }
    return k;
}

/* Adds the lane's sums of a tile to those of the range, to[unit][width]. */
template <int T, class S>
__device__ __forceinline__ void join_floats(const attn_block<T> &b, int tile, const float sum[S::units][S::elements], float *to)
{
    const int u = b.lane / S::lanes * S::units;
    const float *keep = floats_at(b, b.a->at.keep) + tile * S::all + u, *take = floats_at(b, b.a->at.take) + tile * S::all + u;
    to += u * S::width + b.lane % S::lanes * S::elements;
#pragma unroll
    for (int i = 0; i < S::units; i++) {
        const float k = keep[i], t = take[i];
        if (k == UNSEEN) continue;
        float x[S::elements];
        shared_floats<S::elements>(to + i * S::width, x);
#pragma unroll
        for (int e = 0; e < S::elements; e += 4)
            *(float4 *)(to + i * S::width + e) =
                make_float4(fmaf(sum[i][e], t, x[e] * k), fmaf(sum[i][e + 1], t, x[e + 1] * k),
                            fmaf(sum[i][e + 2], t, x[e + 2] * k), fmaf(sum[i][e + 3], t, x[e + 3] * k));
    }
}

/* Sums of values of a range: each warp those of its tile, which are joined in ascending order. */
template <int T, class S, class M>
__device__ __forceinline__ void add_floats(const attn_block<T> &b, M &source, int range, float_keys k)
{
    const int dim = b.a->kv.v_dim, tile = b.warp, thread = (int)threadIdx.x;
    const uint8_t *values = b.a->kv.v + (uint64_t)(k.end ? b.u->page[tile] : 0) * b.a->kv.stride + (uint64_t)b.u->of.kv * b.a->v_tile;
    const float *p = floats_at(b, b.a->at.share) + tile * PAGE_TOKENS * S::all + b.lane / S::lanes * S::units;
    float *all = floats_at(b, b.a->at.part);
    for (int d0 = 0; d0 < dim; d0 += S::width) {
        float sum[S::units][S::elements] = {};
        if (k.end) float_values<T, S>(source, values, dim, d0 + b.lane % S::lanes * S::elements, p, k, sum);
        else source.skip(PAGE_TOKENS / attn_pieces<T>::values);
        __syncthreads();
        for (int i = thread; i < S::all * S::width; i += ATTN_THREADS) all[i] = 0;
        __syncthreads();
        for (int t = 0; t < ATTN_TILES; t++) {
            if (b.u->page[t] < 0) continue;
            if (t == tile && k.end) join_floats<T, S>(b, tile, sum, all);
            __syncthreads();
        }
        for (int i = thread; i < b.u->of.n * S::width; i += ATTN_THREADS)
            put_element(b, range, i / S::width, d0 + i % S::width, all[i]);
    }
}

/* ---- a range; all of them */

/* Pages of the tiles from position `first` on. */
template <int T> __device__ __forceinline__ void take_pages(const attn_block<T> &b, int first, int tiles)
{
    __syncthreads();
    if ((int)threadIdx.x < tiles) {
        const int at = first + (int)threadIdx.x * PAGE_TOKENS;
        const bool seen = at <= b.u->of.last && at + PAGE_TOKENS > b.u->of.first;
        b.u->page[threadIdx.x] = seen ? step_page(b.a->st, b.a->group, b.u->of.seq, at / PAGE_TOKENS) : -1;
    }
    __syncthreads();
}

/* Factors of the tiles at hand. */
template <int T>
__device__ __forceinline__ void join_weights(const attn_block<T> &b, int range, int first, bool ends)
{
    __syncthreads();
    join_tiles(b, first);
    __syncthreads();
    join_range(b, range, ends);
    __syncthreads();
}

template <int T, class S>
__device__ __forceinline__ void add_range(const attn_block<T> &b, S &source, int range)
{
    const attn_args *a = b.a;
    const int tiles = S::ring ? ATTN_TILES : a->shape.tiles, sets = S::ring ? 1 : (b.u->of.n + 7) / 8;
    for (int t = 0; t < ATTN_TILES; t += tiles) {
        const int first = range + t * PAGE_TOKENS;
        const attn_round r = {first, t == 0, t + tiles >= ATTN_TILES || first + tiles * PAGE_TOKENS > b.u->of.last};
        take_pages(b, first, tiles);
        for (int i = b.warp; i < tiles * sets; i += ATTN_WARPS)
            weigh_tile(b, source, i / sets, first + i / sets * PAGE_TOKENS, i % sets * 8);
        join_weights(b, range, first, r.ends);
        add_values(b, source, r);
        if (r.ends) return;
    }
}

template <int T, class S, class M>
__device__ __forceinline__ void add_range_of_floats(const attn_block<T> &b, M &source, int range)
{
    take_pages(b, range, ATTN_TILES);
    const float_keys k = weigh_floats<T, S>(b, source, b.warp, range + b.warp * PAGE_TOKENS);
    join_weights(b, range, range, true);
    add_floats<T, S>(b, source, range, k);
}

/* The ranges from z on that are this block's. */
template <int T, class S> __device__ __forceinline__ void add_ranges(const attn_block<T> &b, S &source, int z)
{
    for (int range = range_of(b.u->of.first) + z * ATTN_RANGE; range <= b.u->of.last; range += b.u->of.step * ATTN_RANGE) {
        const bool few = b.u->of.n <= 4, narrow = b.a->kv.v_dim <= 64;
        if constexpr (b.coded) {
            add_range(b, source, range);
        } else {
            if constexpr (!S::ring)
                if (b.a->shape.units == 16) {
                    if (narrow) add_range_of_floats<T, float_shape<16, 8, 4, 4>>(b, source, range);
                    else add_range_of_floats<T, float_shape<16, 8, 4, 8>>(b, source, range);
                    continue;
                }
            if (few) add_range_of_floats<T, float_shape<8, 4, 2, 4>>(b, source, range);
            else add_range_of_floats<T, float_shape<8, 8, 2, 4>>(b, source, range);
        }
    }
}

/* Of units that see no key. */
template <int T> __device__ __forceinline__ void put_unseeing(const attn_block<T> &b)
{
    const int dim = b.a->kv.v_dim;
    for (int i = (int)threadIdx.x; i < b.u->of.n * dim; i += ATTN_THREADS) {
        const int u = i / dim;
        if (b.u->last[u] >= range_of(b.u->first[u])) continue;
        b.a->out[((int64_t)b.u->row[u] * b.a->o.u.attn.heads + b.u->head[u]) * dim + i % dim] = b.a->sinks ? 0 : NAN;
    }
}

/* Merges the parts of a unit in ascending order, by one warp: a lane has a range for its factors, then elements. */
template <int T> __device__ __forceinline__ void merge_unit(const attn_block<T> &b, int u, int d0)
{
    const attn_args *a = b.a;
    const float *parts = parts_of(b);
    const int units = a->shape.units, dim = a->kv.v_dim, base = range_of(b.u->of.first), begin = range_of(b.u->first[u]) - base,
              end = b.u->last[u] - base + 1;
    float acc[4] = {}, total = 0, most = -INFINITY;
    for (int first = begin / ATTN_RANGE; first * ATTN_RANGE < end; first += 32) {
        const int mine = first + b.lane;
        const bool there = mine * ATTN_RANGE < end;
        const float *at = parts + mine * a->shape.part;
        const float max = there ? __ldcg(at + u) : -INFINITY, sum = there ? __ldcg(at + units + u) : 0;
        float up = max; /* the maximum up to this range */
#pragma unroll
        for (int apart = 1; apart < 32; apart *= 2) {
            const float x = __shfl_up_sync(~0u, up, apart);
            if (b.lane >= apart) up = fm_max(x, up);
        }
        const float before = __shfl_up_sync(~0u, up, 1);
        soft now = {b.lane ? fm_max(before, most) : most, 0, NULL};
        float keep, take;
        soft_join(&now, max, &keep, &take);
        for (int i = 0; i < 32 && (first + i) * ATTN_RANGE < end; i++) {
            const float k = __shfl_sync(~0u, keep, i), t = __shfl_sync(~0u, take, i), s = __shfl_sync(~0u, sum, i);
            const float *values = parts + (first + i) * a->shape.part + 2 * units + u * dim;
            total = fmaf(s, t, total * k);
            most = __shfl_sync(~0u, now.max, i);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int d = d0 + b.lane + 32 * j;
                if (d < dim) acc[j] = fmaf(__ldcg(values + d), t, acc[j] * k);
            }
        }
    }
    float *to = a->out + ((int64_t)b.u->row[u] * a->o.u.attn.heads + b.u->head[u]) * dim;
    float keep = 1, take;
    soft now = {most, 0, NULL};
    if (a->sinks) {
        soft_join(&now, a->sinks[b.u->head[u]], &keep, &take);
        total = fmaf(1, take, total * keep);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int d = d0 + b.lane + 32 * j;
        if (d < dim) to[d] = (a->sinks ? fmaf(0, 1, acc[j] * keep) : acc[j]) / total;
    }
}

/* Which of the blocks of the same rows this one is, by heads. */
__device__ __forceinline__ int head_block(const attn_args *a) { return (int)blockIdx.y % a->shape.head_blocks; }

/* The last of the blocks that share the ranges merges what all have left; true: this is it. */
template <int T> __device__ __forceinline__ bool merge_parts(const attn_block<T> &b)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned last = (unsigned)b.u->of.step - 1;
        __threadfence();
        b.u->ends = atomicInc(&b.a->turns[b.u->of.place], last) == last;
        __threadfence();
    }
    __syncthreads();
    if (!b.u->ends) return false;
    for (int u = b.warp; u < b.u->of.n; u += ATTN_WARPS)
        for (int d = 0; d < b.a->kv.v_dim && b.u->last[u] >= range_of(b.u->first[u]); d += 128) merge_unit(b, u, d);
    return true;
}

/* QUANT of the units' heads, which this block has written: whole blocks of codes. */
template <int T> __device__ __forceinline__ void code_heads(const attn_block<T> &b)
{
    const int dim = b.a->kv.v_dim;
    const int64_t row_dim = (int64_t)b.a->o.u.attn.heads * dim;
    __syncthreads();
    for (int k = 0; k < b.a->n_codes; k++) {
        const codes_to &to = b.a->codes[k];
        const int blocks = dim / to.block;
        for (int i = b.warp; i < b.u->of.n * blocks; i += ATTN_WARPS) {
            const int u = i / blocks;
            const int64_t row = b.u->row[u], at = (int64_t)b.u->head[u] * dim + i % blocks * to.block;
            const float *x = b.a->out + row * row_dim + at + b.lane;
            quant_lane q = {{x[0], to.block == 64 ? x[32] : 0}};
            quant_put(q, to.block, act_parts(to.y, (row_tile){row, 1}, row_dim, to.block), at / to.block, to.block,
                      to.residual);
        }
    }
}

/* ---- units */

/* The rows [from, to) of this block: of one sequence. */
__device__ __forceinline__ void rows_of(const attn_args *a, const step_rows *rows, int *from, int *to)
{
    const int each = a->shape.rows, x = (int)blockIdx.x, k = x - a->shape.row_blocks, live = a->st->n[a->axis];
    *from = *to = 0;
    if (k >= a->st->n_seq) return;
    const int at = k < 0 ? x * each : rows->seq_row[k];
    if (at >= live || (k >= 0 && (at % each == 0 || rows->seq[at] != k))) return; /* sequence k may have no row */
    const int end = rows->seq_row[rows->seq[at] + 1], next = (at / each + 1) * each;
    *from = at;
    *to = end < next ? end : next;
}

/* What the block has to do with so many units, [begin, end] being the keys that one of them sees. */
__device__ __forceinline__ attn_work work_of(const attn_args *a, int n, int seq, int kv, int begin, int end)
{
    const int ranges = end < range_of(begin) ? 0 : (end - range_of(begin)) / ATTN_RANGE + 1,
              shared = ranges < a->shape.splits ? ranges : a->shape.splits;
    return {n, seq, kv, begin, end, ranges > a->shape.slots || shared < 1 ? 1 : shared, ranges,
            head_block(a) * (int)gridDim.x + (int)blockIdx.x};
}

/* Fills what is known of the units; false: the block has none. */
template <int T> __device__ __forceinline__ bool take_units(const attn_block<T> &b)
{
    const attn_args *a = b.a;
    const int y = head_block(a), each = a->shape.heads, kv = a->shape.first_kv + y / a->shape.chunks;
    int row0, row1;
    const attn_mask mask = mask_of(a);
    rows_of(a, mask.rows, &row0, &row1);
    const int head0 = attn_head_of(&a->o, a->per_kv, kv) + y % a->shape.chunks * each,
              end = attn_head_of(&a->o, a->per_kv, kv + 1), heads = end - head0 < each ? end - head0 : each;
    if (row0 >= row1 || heads <= 0) return false;
    const int u = (int)threadIdx.x, n = (row1 - row0) * heads;
    if (u < ATTN_UNITS) {
        const bool there = u < n;
        const int row = there ? row0 + u / heads : row0, head = head0 + (there ? u % heads : 0),
                  own = mask.rows->pos[row], seq = mask.rows->seq[row0], first = there ? attn_first(&mask, own) : INT32_MAX,
                  last = there ? attn_last(&mask, seq, own) : -1, from = __reduce_min_sync(~0u, first),
                  to = __reduce_max_sync(~0u, last);
        b.u->row[u] = row;
        b.u->head[u] = head;
        b.u->own[u] = own;
        b.u->first[u] = there ? first : INT32_MAX - ATTN_RANGE;
        b.u->last[u] = last;
        b.u->slope[u] = a->slopes ? a->slopes[head] : 0;
        b.u->max[u] = b.u->all_max[u] = -INFINITY;
        b.u->sum[u] = b.u->all_sum[u] = 0;
        if (u == 0) b.u->of = work_of(a, n, seq, kv, from, to);
    }
    __syncthreads();
    return true;
}

template <int T, class S> __device__ __forceinline__ void attention(const attn_args &a)
{
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ attn_units units;
    const attn_block<T> b = {&a, dynamic, &units, (int)threadIdx.x / 32, (int)threadIdx.x % 32};
    begin_in_turn();
    if (!take_units(b)) return;
    const int z = (int)blockIdx.y / a.shape.head_blocks;
    if (z >= units.of.step) return;
    S source(&a, &units.of, dynamic, z);
    take_queries(b);
    add_ranges(b, source, z);
    if (units.of.step > 1 && !merge_parts(b)) return;
    put_unseeing(b);
    if (a.n_codes) code_heads(b);
}

#define ATTN_KERNEL(name, type, source)                                                                                \
    extern "C" __global__ void __launch_bounds__(ATTN_THREADS, 2) name(const __grid_constant__ attn_args a)            \
    {                                                                                                                  \
        attention<type, source<type>>(a);                                                                              \
    }
#define ATTN_KERNELS(name, type)                                                                                       \
    ATTN_KERNEL(cuda_attn_##name, type, attn_memory)                                                                   \
    ATTN_KERNEL(cuda_attn_few_##name, type, attn_ring)
ATTN_TYPES(ATTN_KERNELS)
