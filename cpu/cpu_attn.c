/* cpu_attn.c - reference of ATTN: causal attention over a paged cache, with online softmax (Milakov & Gimelshein 2018, arXiv
 * 1805.02867; tiles as in FlashAttention, arXiv 2205.14135).
 *
 * Part (d) of the arithmetic contract. A row sees keys at positions max(0, own - window + 1) … own. Tiles of 64 keys and ranges of
 * ATTN_RANGE keys are aligned to absolute position; tiles are merged ascending within a range, ranges ascending into the result: what
 * a row gets does not depend on chunks, batch or threads. A score is one chain of fused multiply-adds over the
 * elements of the head, times `scale`, soft-capped, plus bias. ALiBi (Press et al. 2021, arXiv 2108.12409) adds slope * (key
 * position - own position), equal to slope * key position under softmax and more exact. BIAS_ALIBI_BF16 adds
 * bf16(slope * bf16(key position)) before scaling. Keys that a row does not see take no part at all. Head h of the queries reads
 * key/value head h / (heads / kv heads). */
#include "cpu/cpu.h"

#include "base/fmath.h"

/* Softmax state of one row and head over some keys: greatest score, sum of exponentials, weighted sum of values. */
typedef struct soft {
    float max, sum, *acc;
} soft;

static float get(const uint8_t *from, dtype type, int64_t at)
{
    return type == DTYPE_F16 ? f16_to_f32(((const uint16_t *)from)[at]) : ((const float *)from)[at];
}

static float score(const op *o, float dot, float slope, int key, int own)
{
    float s = dot;
    if (o->u.attn.bias == BIAS_ALIBI_BF16)
        s = s + bf16_to_f32(f32_to_bf16(bf16_to_f32(f32_to_bf16(slope)) * bf16_to_f32(f32_to_bf16((float)key))));
    s = s * o->u.attn.scale;
    if (o->u.attn.softcap != 0) s = o->u.attn.softcap * fm_tanh(s / o->u.attn.softcap);
    if (o->u.attn.bias == BIAS_ALIBI) s = s + slope * (float)(key - own);
    return s;
}

/* Adds the keys [from, to) of one tile; `first` is the position of the tile. */
static void tile_add(soft *t, const op *o, const kv_store *s, const uint8_t *keys, const uint8_t *values,
                     const float *q, float slope, int first, int from, int to, int own)
{
    float p[PAGE_TOKENS], lanes[LANES] = {0}, max = t->max;
    for (int j = from; j < to; j++) {
        float dot = 0;
        for (int d = 0; d < s->k_dim; d++)
            dot = fmaf(q[d], get(keys, s->k_type, (int64_t)d * PAGE_TOKENS + j - first), dot);
        p[j - first] = score(o, dot, slope, j, own);
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
    const float *q = arg_at(r, o->in[0]), *slopes = arg_at(r, o->in[1]);
    int group = r->seg->p->states[o->state].group, heads = o->u.attn.heads, per_kv = heads / s->heads,
        window = o->u.attn.window;
    float *out = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    soft all = {.acc = scratch}, part = {.acc = scratch + s->v_dim};
    int64_t from, to;
    cpu_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t row = u / heads, head = u % heads, kv = head / per_kv;
        int own = st->pos[row], least = window && own >= window ? own - window + 1 : 0;
        soft_clear(&all, s->v_dim);
        for (int range = least / ATTN_RANGE * ATTN_RANGE; range <= own; range += ATTN_RANGE) {
            soft_clear(&part, s->v_dim);
            for (int first = range; first < range + ATTN_RANGE && first <= own; first += PAGE_TOKENS) {
                int a = first > least ? first : least,
                    b = first + PAGE_TOKENS < own + 1 ? first + PAGE_TOKENS : own + 1;
                int32_t page = step_page(st, group, st->seq[row], first / PAGE_TOKENS);
                if (a >= b || page < 0) continue;
                const uint8_t *keys = s->k + (uint64_t)page * s->k_page +
                                      (uint64_t)kv * (s->k_page / (uint64_t)s->heads);
                const uint8_t *values = s->v + (uint64_t)page * s->v_page +
                                        (uint64_t)kv * (s->v_page / (uint64_t)s->heads);
                tile_add(&part, o, s, keys, values, q + u * s->k_dim, slopes ? slopes[head] : 0, first, a, b, own);
            }
            soft_merge(&all, &part, s->v_dim);
        }
        for (int d = 0; d < s->v_dim; d++) out[u * s->v_dim + d] = all.acc[d] / all.sum;
    }
}
