/* def_attn.c - reference of ATTN: attention over a paged cache, with online softmax (Milakov & Gimelshein 2018, arXiv
 * 1805.02867; tiles as in FlashAttention, arXiv 2205.14135).
 *
 * Part (d) of the arithmetic contract. attn_mask.h says which keys a row sees. Tiles of 64 keys and ranges of
 * ATTN_RANGE keys are aligned to absolute position; tiles are merged ascending within a range, ranges ascending into
 * the result: so the result of a row does not depend on chunks, batch or threads. A tile is a softmax of its own,
 * relative to its maximum score; it is merged into those before it by one multiplication of each sum. A score is one
 * chain of fused multiply-adds over the elements of the head, times `scale`, soft-capped, plus bias. ALiBi (Press et
 * al. 2021, arXiv 2108.12409) subtracts slope * distance: under softmax the same as adding slope * key position, and
 * more exact. BIAS_ALIBI_BF16 adds bf16(slope * bf16(key position)) before scaling. BIAS_BUCKETS: learned biases of
 * distances (Raffel et al. 2019, arXiv 1910.10683). BIAS_PLACES: scale times what row and key have for the place of the
 * key (He et al. 2020, arXiv 2006.03654). A sink (Agarwal et al. 2025, arXiv 2508.10925) is a last score
 * without a value. Keys that a row does not see are skipped entirely. Head h of the queries reads key/value head
 * (head0 + h) / per_kv.
 *
 * Over a cache of codes (kv_codes.h) sums of products are integers, exact in any order. Queries become int8, and a
 * score is one chain over the blocks of the key, base times sum of the query's codes, then scale times sum of
 * products; then times the scale of the query. Where values are codes, softmax is in integers: distances to the
 * maximum score of the tile are rounded to steps of 1/2048 power of two, and weights to 15 bits. Their sum is exact.
 * Multiplied by the scale of their value over the maximum scale that the row sees in the tile, they become bytes;
 * bases of values have a sum of their own. A score that is not finite makes the row NaN. Over i16 queries and weights
 * have 16 bits, and a score is one sum, times the scale of the key, times that of the query. */
#include "ops/attn_keys.h"

#include "base/fmath.h"
#include "core/kv_codes.h"

/* Softmax state of one row and head over some keys: maximum score, sum of exponentials, weighted sum of values. */
typedef struct soft {
    float max, sum, *acc;
} soft;

/* The factors of the sums so far and of those of a part whose maximum score is `with`; t gets the maximum of both. */
GPU_CODE static void soft_join(soft *t, float with, float *keep, float *take)
{
    float less = fm_exp(fm_max(FM_BELOW_MIN, -fabsf(t->max - with)));
    *keep = t->max < with ? less : 1;
    *take = t->max < with ? 1 : less;
    t->max = fm_max(with, t->max);
}

GPU_CODE static float get(const uint8_t *from, dtype type, int64_t at)
{
    return type == DTYPE_F16 ? f16_to_f32(((const uint16_t *)(const void *)from)[at])
                             : ((const float *)(const void *)from)[at];
}

/* `scale`: of products and, of coded keys, queries. */
GPU_CODE static float score(const attn_mask *a, const op *o, float dot, float scale, int head, float slope, int key,
                            int own)
{
    float s = dot;
    if (o->u.attn.bias == BIAS_ALIBI_BF16)
        s = s + bf16_to_f32(f32_to_bf16(bf16_to_f32(f32_to_bf16(slope)) * bf16_to_f32(f32_to_bf16((float)key))));
    s = s * scale;
    if (o->u.attn.softcap != 0) s = o->u.attn.softcap * fm_tanh(s / o->u.attn.softcap);
    if (o->u.attn.bias == BIAS_ALIBI) s = s + slope * -fabsf((float)(key - own));
    if (o->u.attn.bias == BIAS_BUCKETS) s = s + attn_bucket(a, head, key, own);
    if (o->u.attn.bias == BIAS_PLACES) s = fmaf(attn_places(a, head, key, own), o->u.attn.scale, s);
    return s;
}

/* One tile of keys and values of a head, and a query to it. */
typedef struct tile {
    const kv_store *s;
    uint8_t *keys, *values;
    int first; /* position of its first key */
    const float *q;
    int head, own; /* of the query: its head, and its position */
    float slope;
    kv_codes kf, vf;
    kv_query codes; /* of q, where keys are codes */
} tile;

/* Of codes: without the scale of the query. */
GPU_CODE static float dot(const tile *t, int at)
{
    float sum = 0;
    if (!kv_is_codes(t->s->k_type)) {
        for (int d = 0; d < t->s->k_dim; d++)
            sum = fmaf(t->q[d], get(t->keys, t->s->k_type, (int64_t)d * PAGE_TOKENS + at), sum);
        return sum;
    }
    if (t->kf.bits == 16) {
        int32_t n = 0;
        for (int64_t d = 0; d < t->s->k_dim; d++) n += kv_code_get(&t->kf, t->keys, false, d, at) * t->codes.word[d];
        return (float)n * f16_to_f32(kv_scales(&t->kf, t->keys)[at]);
    }
    for (int64_t b = 0; b < t->kf.blocks; b++) {
        int32_t n = 0;
        for (int64_t d = b * t->kf.block; d < b * t->kf.block + kv_block_codes(&t->kf, b); d++)
            n += kv_code_get(&t->kf, t->keys, false, d, at) * t->codes.code[d];
        int64_t i = b * PAGE_TOKENS + at;
        sum = fmaf(f16_to_f32(kv_bases(&t->kf, t->keys)[i]), t->codes.sum[b], sum);
        sum = fmaf((float)n, f16_to_f32(kv_scales(&t->kf, t->keys)[i]), sum);
    }
    return sum;
}

/* acc = acc * keep + take * sum of weights times values, keys a … b - 1 of the tile: values are codes. */
GPU_CODE static void add_coded(const tile *t, const int *w, int a, int b, float keep, float take, float *acc)
{
    const kv_codes *f = &t->vf;
    for (int64_t block = 0; block < f->blocks; block++) {
        const uint16_t *scale = kv_scales(f, t->values) + block * PAGE_TOKENS,
                       *base = kv_bases(f, t->values) + block * PAGE_TOKENS;
        float most = 0, most_base = 0, odd = 0;
        for (int i = a; i < b; i++) {
            most = fm_max(f16_to_f32(scale[i]), most);
            if (f->base) most_base = fm_max(fabsf(f16_to_f32(base[i])), most_base);
            odd = fmaf(f16_to_f32(scale[i]), 0, odd);
        }
        bool bad = odd != 0;
        float up = most > 0 && !bad ? (float)f->weight_top / most : 0;
        float each = (bad ? NAN : most / f->weight_unit) * take;
        float base_up = most_base > 0 && !bad ? BASE_TOP / most_base : 0;
        int32_t bases = 0, share[PAGE_TOKENS];
        for (int i = a; i < b; i++) {
            int by = bad ? 0 : (int)rintf(f16_to_f32(scale[i]) * up);
            share[i] = f->bits == 16 ? kv_weight_word(w[i], by) : kv_weight_byte(w[i], by);
            if (f->base && !bad) bases += w[i] * (int)rintf(f16_to_f32(base[i]) * base_up);
        }
        float offset = (float)bases * (most_base * (0x1p-15f / BASE_TOP) * take);
        for (int64_t d = block * f->block; d < block * f->block + kv_block_size(f, t->s->v_dim, block); d++) {
            int32_t n = 0;
            for (int i = a; i < b; i++) n += share[i] * kv_code_get(f, t->values, true, d, i);
            acc[d] = fmaf((float)n, each, acc[d] * keep);
            if (f->base) acc[d] = acc[d] + offset;
        }
    }
}

/* Adds the keys [from, to) of one tile. */
GPU_CODE static void tile_add(soft *t, const attn_mask *a, const op *o, const tile *k, int from, int to)
{
    const kv_store *s = k->s;
    bool coded = kv_is_codes(s->v_type), query = kv_is_codes(s->k_type), plain = attn_is_plain(o);
    float p[PAGE_TOKENS], lanes[LANES] = {0}, most = -INFINITY, odd = 0, by = WEIGHT_UNITS;
    int w[PAGE_TOKENS];
    if (query && coded && plain) by = *k->codes.scale * WEIGHT_UNITS;
    from -= k->first;
    to -= k->first;
    for (int j = from; j < to; j++) {
        p[j] = dot(k, j);
        if (query && !(coded && plain)) p[j] = p[j] * *k->codes.scale;
        if (!(query && plain))
            p[j] = score(a, o, p[j], attn_product_scale(o, s->k_type), k->head, k->slope, k->first + j, k->own);
        most = fm_max(p[j], most);
        odd = fmaf(p[j], 0, odd);
    }
    float steps = most * by, sum = 0;
    if (coded) most = steps * WEIGHT_UNIT;
    float keep, take;
    soft_join(t, most, &keep, &take);
    if (coded) {
        int all = 0;
        for (int j = from; j < to; j++) {
            w[j] = kv_weight(fmaf(p[j], -by, kv_weight_from(steps)));
            all += w[j];
        }
        sum = fmaf((float)all, 0x1p-15f, fmaf(steps, 0, odd));
        add_coded(k, w, from, to, keep, take, t->acc);
    } else {
        for (int j = from; j < to; j++) {
            p[j] = fm_exp(fm_max(FM_BELOW_MIN, p[j] - most));
            lanes[j % LANES] += p[j];
        }
        sum = lanes_fold(lanes);
        for (int d = 0; d < s->v_dim; d++) {
            float of = 0;
            for (int j = from; j < to; j++) of = fmaf(p[j], get(k->values, s->v_type, (int64_t)j * s->v_dim + d), of);
            t->acc[d] = fmaf(of, take, t->acc[d] * keep);
        }
    }
    t->sum = fmaf(sum, take, t->sum * keep);
}

GPU_CODE static void soft_merge(soft *t, const soft *with, int n)
{
    float keep, take;
    soft_join(t, with->max, &keep, &take);
    t->sum = fmaf(with->sum, take, t->sum * keep);
    for (int d = 0; d < n; d++) t->acc[d] = fmaf(with->acc[d], take, t->acc[d] * keep);
}

GPU_CODE static void soft_clear(soft *t, int n)
{
    t->max = -INFINITY;
    t->sum = 0;
    for (int d = 0; d < n; d++) t->acc[d] = 0;
}

GPU_CODE void def_attn(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const kv_store *s = &r->kv[o->state];
    attn_mask mask = attn_mask_of(r, o);
    const float *q = arg_at(r, o->in[ATTN_Q]), *sinks = attn_sinks(r, o), *slopes = attn_slopes(r, o);
    int group = r->p->states[o->state].group, heads = o->u.attn.heads, per_kv = attn_per_kv(o, s->heads);
    float *out = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    soft all = {.acc = scratch}, part = {.acc = scratch + s->v_dim};
    tile t = {.s = s, .kf = kv_codes_of(s->k_type, s->k_dim, false), .vf = kv_codes_of(s->v_type, s->v_dim, true)};
    t.codes = kv_query_at(&t.kf, (uint8_t *)(scratch + 2 * s->v_dim));
    int64_t from, to;
    run_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads, head = u % heads, kv = (o->u.attn.head0 + head) / per_kv;
        int seq = mask.rows->seq[row], own = mask.rows->pos[row], first_key = attn_first(&mask, own),
            last_key = attn_last(&mask, seq, own);
        mask.row0 = (int)row - own;
        soft_clear(&all, s->v_dim);
        t.q = q + u * s->k_dim;
        t.head = (int)head;
        t.own = own;
        t.slope = slopes ? slopes[head] : 0;
        if (kv_is_codes(s->k_type)) kv_query_encode(&t.kf, t.q, s->k_dim, attn_query_scale(o, s->k_type), t.codes);
        for (int range = first_key / ATTN_RANGE * ATTN_RANGE; range <= last_key; range += ATTN_RANGE) {
            soft_clear(&part, s->v_dim);
            for (int first = range; first < range + ATTN_RANGE && first <= last_key; first += PAGE_TOKENS) {
                int a = first > first_key ? first : first_key,
                    b = first + PAGE_TOKENS < last_key + 1 ? first + PAGE_TOKENS : last_key + 1;
                int32_t page = step_page(st, group, seq, first / PAGE_TOKENS);
                if (a >= b || page < 0) continue;
                t.keys = kv_tile(s, false, page, kv);
                t.values = kv_tile(s, true, page, kv);
                t.first = first;
                tile_add(&part, &mask, o, &t, a, b);
            }
            soft_merge(&all, &part, s->v_dim);
        }
        if (sinks) {
            soft_clear(&part, s->v_dim);
            part.max = sinks[head];
            part.sum = 1;
            soft_merge(&all, &part, s->v_dim);
        }
        for (int d = 0; d < s->v_dim; d++) out[u * s->v_dim + d] = all.acc[d] / all.sum;
    }
}
