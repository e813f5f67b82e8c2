/* cpu_attn.c - reference of ATTN: attention over a paged cache, with online softmax (Milakov & Gimelshein 2018, arXiv
 * 1805.02867; tiles as in FlashAttention, arXiv 2205.14135).
 *
 * Part (d) of the arithmetic contract. attn_sees.h says which keys a row sees. Tiles of 64 keys and ranges of
 * ATTN_RANGE keys are aligned to absolute position; tiles are merged ascending within a range, ranges ascending into the result: what
 * a row gets does not depend on chunks, batch or threads. A score is one chain of fused multiply-adds over the
 * elements of the head, times `scale`, soft-capped, plus bias. ALiBi (Press et al. 2021, arXiv 2108.12409) takes slope * distance
 * off: under softmax the same as adding slope * key position, and more exact. BIAS_ALIBI_BF16 adds
 * bf16(slope * bf16(key position)) before scaling. BIAS_BUCKETS: learned biases of distances (Raffel et al. 2019, arXiv 1910.10683).
 * A sink (Agarwal et al. 2025, arXiv 2508.10925) is a last score without a value. Keys that a row does not see take no part at all. Head h of the queries reads
 * key/value head h / (heads / kv heads). */
#include "cpu/attn_sees.h"

#include "base/fmath.h"

/* Softmax state of one row and head over some keys: greatest score, sum of exponentials, weighted sum of values. */
typedef struct soft {
    float max, sum, *acc;
} soft;

static float get(const uint8_t *from, dtype type, int64_t at)
{
    return type == DTYPE_F16 ? f16_to_f32(((const uint16_t *)from)[at]) : ((const float *)from)[at];
}

static float score(const attn_sees *a, const op *o, float dot, int head, float slope, int key, int own)
{
    float s = dot;
    if (o->u.attn.bias == BIAS_ALIBI_BF16)
        s = s + bf16_to_f32(f32_to_bf16(bf16_to_f32(f32_to_bf16(slope)) * bf16_to_f32(f32_to_bf16((float)key))));
    s = s * o->u.attn.scale;
    if (o->u.attn.softcap != 0) s = o->u.attn.softcap * fm_tanh(s / o->u.attn.softcap);
    if (o->u.attn.bias == BIAS_ALIBI) s = s + slope * -fabsf((float)(key - own));
    if (o->u.attn.bias == BIAS_BUCKETS) s = s + attn_bucket(a, head, key, own);
    return s;
}

/* Adds the keys [from, to) of one tile; `first` is the position of the tile. */
static void tile_add(soft *t, const attn_sees *a, const op *o, const kv_store *s, const uint8_t *keys,
                     const uint8_t *values, const float *q, int head, float slope, int first, int from, int to, int own)
{
    float p[PAGE_TOKENS], lanes[LANES] = {0}, max = t->max;
    for (int j = from; j < to; j++) {
        float dot = 0;
        for (int d = 0; d < s->k_dim; d++)
            dot = fmaf(q[d], get(keys, s->k_type, (int64_t)d * PAGE_TOKENS + j - first), dot);
        p[j - first] = score(a, o, dot, head, slope, j, own);
        max = fm_max(p[j - first], max);
    }
    float keep = fm_exp(t->max - max);
    for (int d = 0; d < s->v_dim; d++) t->acc[d] = t->acc[d] * keep;
    for (int j = from; j < to; j++) {
        float e = fm_exp(p[j - first] - max);
        lanes[(j - first) % LANES] += e;
        for (int d = 0; d < s->v_dim; d++)
            t->acc[d] = fmaf(e, get(values, s->v_type, (int64_t)(j - first) * s->v_dim + d), t->acc[d]);
    }
    t->sum = fmaf(t->sum, keep, lanes_fold(lanes));
    t->max = max;
}

static void soft_merge(soft *t, const soft *with, int n)
{
    float max = fm_max(with->max, t->max), keep = fm_exp(t->max - max), take = fm_exp(with->max - max);
    t->sum = fmaf(with->sum, take, t->sum * keep);
    for (int d = 0; d < n; d++) t->acc[d] = fmaf(with->acc[d], take, t->acc[d] * keep);
    t->max = max;
}

static void soft_clear(soft *t, int n)
{
    t->max = -INFINITY;
    t->sum = 0;
    for (int d = 0; d < n; d++) t->acc[d] = 0;
}

void cpu_attn(const run *r, const op *o, int worker, int workers)
{
    const step *st = r->st;
    const kv_store *s = &r->seg->on->kv[o->state];
    const attn_sees sees = attn_sees_of(r, o);
    const float *q = arg_at(r, o->in[ATTN_Q]), *sinks = arg_at(r, o->in[ATTN_SINKS]);
    const float *slopes = o->u.attn.bias == BIAS_BUCKETS ? NULL : arg_at(r, o->in[ATTN_BIAS]);
    int group = r->seg->p->states[o->state].group, heads = o->u.attn.heads, per_kv = heads / s->heads;
    float *out = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    soft all = {.acc = scratch}, part = {.acc = scratch + s->v_dim};
    int64_t from, to;
    cpu_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads, head = u % heads, kv = head / per_kv;
        int seq = sees.rows->seq[row], own = sees.rows->pos[row], least = attn_first(&sees, own),
            most = attn_last(&sees, seq, own);
        soft_clear(&all, s->v_dim);
        for (int range = least / ATTN_RANGE * ATTN_RANGE; range <= most; range += ATTN_RANGE) {
            soft_clear(&part, s->v_dim);
            for (int first = range; first < range + ATTN_RANGE && first <= most; first += PAGE_TOKENS) {
                int a = first > least ? first : least,
                    b = first + PAGE_TOKENS < most + 1 ? first + PAGE_TOKENS : most + 1;
                int32_t page = step_page(st, group, seq, first / PAGE_TOKENS);
                if (a >= b || page < 0) continue;
                const uint8_t *keys = s->k + (uint64_t)page * s->k_page +
                                      (uint64_t)kv * (s->k_page / (uint64_t)s->heads);
                const uint8_t *values = s->v + (uint64_t)page * s->v_page +
                                        (uint64_t)kv * (s->v_page / (uint64_t)s->heads);
                tile_add(&part, &sees, o, s, keys, values, q + u * s->k_dim, (int)head, slopes ? slopes[head] : 0,
                         first, a, b, own);
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
