/* v_attn.h - ATTN on sixteen lanes; definition: cpu_attn.c.
 *
 * Decoding is bound by reading the cache, prefill by multiply-adds. Keys are stored transposed, so 16 keys are one vector and a score needs no
 * horizontal sum; values are rows, so 16 elements are one vector. The lines of a unit (attn_plan.h) share each tile; up to
 * ATTN_GROUP lines share each register of it. A tile that more than one group of lines reads is widened to float once. Tiles of
 * codes: v_attn_codes.h. */
#ifndef CPU_V_ATTN_H
#define CPU_V_ATTN_H
#include "cpu/attn_plan.h"
#include "cpu/cpu_deal.h"
#include "cpu/v16.h"
#include "cpu/v_attn_codes.h"
#include "cpu/vmath.h"

enum {
    ATTN_GROUP = CODE_LINES,        /* lines per register tile */
    ATTN_WIDE = V16S == 32 ? 4 : 1, /* vectors of 16 per register tile */
    TILE_CHUNKS = PAGE_TOKENS / LANES
};

/* dots[line][key] = q[line] . key for the 64 keys of a tile; chains over the elements of the head, ascending. */
INLINE void tile_dots(dtype t, int lines, const uint8_t *keys, int dim, const float *q, float *dots)
{
    const int bytes = t == DTYPE_F16 ? 2 : 4;
    for (int c = 0; c < TILE_CHUNKS; c += ATTN_WIDE) {
        v16 a[ATTN_GROUP][ATTN_WIDE], k[ATTN_WIDE];
        UNROLL for (int l = 0; l < lines; l++) { UNROLL for (int w = 0; w < ATTN_WIDE; w++) a[l][w] = v16_zero(); }
        const uint8_t *at = keys + c * LANES * bytes;
        for (int d = 0; d < dim; d++, at += PAGE_TOKENS * bytes) {
            UNROLL for (int w = 0; w < ATTN_WIDE; w++) k[w] = v16_load_as(t, at, w * LANES);
            UNROLL for (int l = 0; l < lines; l++)
            {
                v16 b = v16_all(q[l * dim + d]);
                UNROLL for (int w = 0; w < ATTN_WIDE; w++) a[l][w] = v16_fma(b, k[w], a[l][w]);
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            UNROLL for (int w = 0; w < ATTN_WIDE; w++) v16_store(dots + l * PAGE_TOKENS + (c + w) * LANES, a[l][w]);
        }
    }
}

/* acc[line] += sum over keys from … to - 1, ascending, of p[line][key] * value[key]; `wide` vectors of elements from d on. */
INLINE void tile_values(dtype t, int lines, int wide, const uint8_t *values, int64_t dim, const float *p, int from,
                        int to, float *acc, int64_t acc_stride)
{
    v16 a[ATTN_GROUP][ATTN_WIDE], v[ATTN_WIDE];
    UNROLL for (int l = 0; l < lines; l++)
    {
        UNROLL for (int w = 0; w < wide; w++) a[l][w] = v16_load(acc + l * acc_stride + w * LANES);
    }
    const uint8_t *at = values + from * dim * (t == DTYPE_F16 ? 2 : 4);
    for (int j = from; j < to; j++, at += dim * (t == DTYPE_F16 ? 2 : 4)) {
        UNROLL for (int w = 0; w < wide; w++) v[w] = v16_load_as(t, at, w * LANES);
        UNROLL for (int l = 0; l < lines; l++)
        {
            v16 b = v16_all(p[l * PAGE_TOKENS + j]);
            UNROLL for (int w = 0; w < wide; w++) a[l][w] = v16_fma(b, v[w], a[l][w]);
        }
    }
    UNROLL for (int l = 0; l < lines; l++)
    {
        UNROLL for (int w = 0; w < wide; w++) v16_store(acc + l * acc_stride + w * LANES, a[l][w]);
    }
}

typedef void (*dots_fn)(const uint8_t *keys, int dim, const float *q, float *dots);
typedef void (*values_fn)(const uint8_t *values, int64_t dim, const float *p, int from, int to, float *acc,
                          int64_t acc_stride);
#define ATTN_FNS(t, lines)                                                                                             \
    static void dots_##t##_##lines(const uint8_t *keys, int dim, const float *q, float *dots)                          \
    {                                                                                                                  \
        tile_dots(DTYPE_##t, lines, keys, dim, q, dots);                                                               \
    }                                                                                                                  \
    static void values_##t##_##lines(const uint8_t *values, int64_t dim, const float *p, int from, int to, float *acc, \
                                     int64_t acc_stride)                                                               \
    {                                                                                                                  \
        const int bytes = DTYPE_##t == DTYPE_F16 ? 2 : 4;                                                              \
        int64_t d = 0;                                                                                                 \
        for (; d + ATTN_WIDE * LANES <= dim; d += ATTN_WIDE * LANES)                                                   \
            tile_values(DTYPE_##t, lines, ATTN_WIDE, values + d * bytes, dim, p, from, to, acc + d, acc_stride);       \
        for (; d < dim; d += LANES)                                                                                    \
            tile_values(DTYPE_##t, lines, 1, values + d * bytes, dim, p, from, to, acc + d, acc_stride);               \
    }
#define ATTN_TYPE(t) ATTN_FNS(t, 1) ATTN_FNS(t, 2) ATTN_FNS(t, 3) ATTN_FNS(t, 4) ATTN_FNS(t, 5) ATTN_FNS(t, 6)
#define ATTN_NAMES(f, t)                                                                                               \
    {                                                                                                                  \
        f##_##t##_1, f##_##t##_2, f##_##t##_3, f##_##t##_4, f##_##t##_5, f##_##t##_6                                   \
    }
ATTN_TYPE(F32)
ATTN_TYPE(F16)
static const dots_fn dots_f32[] = ATTN_NAMES(dots, F32), dots_f16[] = ATTN_NAMES(dots, F16);
static const values_fn values_f32[] = ATTN_NAMES(values, F32), values_f16[] = ATTN_NAMES(values, F16);

/* All that a worker needs while it works on one op. */
typedef struct attn_job {
    attn_plan plan;
    const run *r;
    const op *o;
    const kv_store *s;
    const float *q, *slopes, *sinks;
    float *out;
    int group;
    int64_t padded; /* v_dim up to a multiple of 16 */
    float scale;    /* of products */
    bool plain;     /* a score is a product times `scale` */
    kv_codes kf, vf;
    attn_space at;
} attn_job;

static void soft_clear(attn_soft t, int lines, int64_t padded)
{
    for (int l = 0; l < lines; l++) {
        t.max[l] = -INFINITY;
        t.sum[l] = 0;
    }
    for (int64_t i = 0; i < lines * padded; i += LANES) v16_store(t.acc + i, v16_zero());
}

/* Products of one line to scores, in place; keys a … b - 1 of the tile are seen, others become -infinity. The greatest of each lane, from
 * `most` on. */
INLINE v16 line_scores(const attn_job *j, float *p, int a, int b, int head, int first, int own, v16 most)
{
    const op *o = j->o;
    const bool whole = a == 0 && b == PAGE_TOKENS;
    if (j->plain && whole) {
        UNROLL for (int c = 0; c < TILE_CHUNKS; c++)
        {
            v16 v = v16_mul(v16_load(p + c * LANES), v16_all(j->scale));
            v16_store(p + c * LANES, v);
            most = v16_max(v, most);
        }
        return most;
    }
    float slope = j->slopes ? j->slopes[head] : 0, added[PAGE_TOKENS];
    if (o->u.attn.bias == BIAS_BUCKETS)
        for (int i = 0; i < PAGE_TOKENS; i++) added[i] = attn_bucket(&j->plan.sees, head, first + i, own);
    for (int c = 0; c < TILE_CHUNKS; c++) {
        v16 v = v16_load(p + c * LANES);
        v16 key = v16_add(v16_iota(), v16_all((float)(c * LANES)));
        if (o->u.attn.bias == BIAS_ALIBI_BF16) {
            v16 position = v16_round_bf16(v16_add(key, v16_all((float)first)));
            v = v16_add(v, v16_round_bf16(v16_mul(v16_round_bf16(v16_all(slope)), position)));
        }
        v = v16_mul(v, v16_all(j->scale));
        if (o->u.attn.softcap != 0) {
            v16 cap = v16_all(o->u.attn.softcap);
            v = v16_mul(cap, v16_tanh(v16_div(v, cap)));
        }
        if (o->u.attn.bias == BIAS_ALIBI)
            v = v16_add(v, v16_mul(v16_all(slope), v16_neg(v16_abs(v16_add(key, v16_all((float)(first - own)))))));
        if (o->u.attn.bias == BIAS_BUCKETS) v = v16_add(v, v16_load(added + c * LANES));
        v = v16_pick(m16_range(a - c * LANES, b - c * LANES), v, v16_all(-INFINITY));
        v16_store(p + c * LANES, v);
        most = v16_max(v, most);
    }
    return most;
}

/* How the lines of a group see the keys of a tile: line i those from a[i] to b[i] - 1, all lines those from a_all to b_all - 1. */
typedef struct group_sees {
    int a[ATTN_GROUP], b[ATTN_GROUP], a_all, b_all;
} group_sees;

/* Products p of lines l … l + n - 1 to scores; top[i] is the greatest of line i, at least from[i]. `products`: the greatest product of
 * each lane, where these are the scores; or NULL. */
static group_sees group_scores(const attn_job *j, const attn_unit *u, int first, int l, int n, float *p,
                               const v16 *products, const float *from, float *top)
{
    const attn_sees *sees = &j->plan.sees;
    int own0 = sees->rows->pos[u->row0];
    group_sees g = {.b_all = PAGE_TOKENS};
    v16 most[ATTN_GROUP];
    for (int i = 0; i < n; i++) {
        int own = own0 + (l + i) / u->heads, least = attn_first(sees, own), last = attn_last(sees, u->seq, own);
        g.a[i] = least > first ? least - first : 0;
        g.b[i] = last - first < PAGE_TOKENS ? last - first + 1 : PAGE_TOKENS;
        if (g.a[i] > g.a_all) g.a_all = g.a[i];
        if (g.b[i] < g.b_all) g.b_all = g.b[i];
        if (products && g.a[i] == 0 && g.b[i] == PAGE_TOKENS) most[i] = v16_max(products[i], v16_all(from[i]));
        else
            most[i] = line_scores(j, p + i * PAGE_TOKENS, g.a[i], g.b[i], u->head0 + (l + i) % u->heads, first, own,
                                  v16_all(from[i]));
    }
    for (int i = 0; i < n; i++) top[i] = v16_max_lane(most[i]);
    if (g.b_all < g.a_all) g.b_all = g.a_all;
    return g;
}

/* Scores of n lines to exponentials, in place, against the greatest score so far; keep[i] is what sums so far are multiplied by. */
static void group_soft(int n, float *p, const float *top, float *max, float *sum, float *keep)
{
    for (int i = 0; i < n; i++, p += PAGE_TOKENS) {
        v16 total = v16_zero();
        keep[i] = fm_exp(max[i] - top[i]);
        UNROLL for (int c = 0; c < TILE_CHUNKS; c++)
        {
            v16 e = v16_exp(v16_sub(v16_load(p + c * LANES), v16_all(top[i])));
            total = v16_add(total, e);
            v16_store(p + c * LANES, e);
        }
        sum[i] = fmaf(sum[i], keep[i], v16_fold(total));
        max[i] = top[i];
    }
}

/* The same against the greatest score of the tile, where values are codes; take[i] is what the tile's sums are multiplied by. */
static void group_soft_tile(int n, float *p, const group_sees *g, const float *top, float *max, float *sum, float *keep,
                            float *take)
{
    float total[LANES] = {0};
    v16 sums[ATTN_GROUP];
    for (int i = 0; i < n; i++, p += PAGE_TOKENS) {
        v16 e[TILE_CHUNKS], add = v16_zero();
        UNROLL for (int c = 0; c < TILE_CHUNKS; c++)
        {
            e[c] = v16_exp_short(v16_sub(v16_load(p + c * LANES), v16_all(top[i])));
            if (g->a[i] > 0 || g->b[i] < PAGE_TOKENS)
                e[c] = v16_pick(m16_range(g->a[i] - c * LANES, g->b[i] - c * LANES), e[c], v16_zero());
            add = v16_add(add, e[c]);
            v16_store(p + c * LANES, e[c]);
        }
        sums[i] = add;
    }
    for (int i = 0; i < n; i += 4) {
        int b = i + 1 < n ? i + 1 : i, c = i + 2 < n ? i + 2 : i, d = i + 3 < n ? i + 3 : i;
        v4_store(total + i, v16_fold_four(sums[i], sums[b], sums[c], sums[d]));
    }
    v16 old = v16_load_part(max, n), here = v16_load_part(top, n), now = v16_max(here, old);
    v16 kept = v16_exp(v16_sub(old, now)), taken = v16_exp(v16_sub(here, now));
    v16_store_part(sum, v16_fma(v16_load(total), taken, v16_mul(v16_load_part(sum, n), kept)), n);
    v16_store_part(max, now, n);
    v16_store_part(keep, kept, n);
    v16_store_part(take, taken, n);
}

/* A tile as floats, rows of `n` elements padded to `padded`. */
static void tile_widen(dtype t, const uint8_t *from, int rows, int64_t n, int64_t padded, float *to)
{
    for (int j = 0; j < rows; j++, from += n * dtype_info[t].bytes, to += padded)
        for (int64_t i = 0; i < n; i += LANES) {
            int left = n - i < LANES ? (int)(n - i) : LANES;
            v16 v = left < LANES     ? v16_load_as_part(t, from, i, left)
                    : t == DTYPE_F16 ? v16_load_f16(from + 2 * i)
                                     : v16_load_as(t, from, i);
            v16_store(to + i, v);
        }
}

/* The codes of line l of the unit in work. */
static kv_query line_query(const attn_job *j, int l)
{
    return kv_query_at(&j->kf, (uint8_t *)j->at.queries + (uint64_t)l * kv_query_bytes(&j->kf));
}

static void tile_prefetch(const uint8_t *tile, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 64) prefetch_near(tile + i);
}

/* acc = acc * keep + p times values of floats. Keys that all lines of the group see together; others one line at a time, so that an
 * unseen key takes no part. */
static void group_values(const attn_job *j, const group_sees *g, int n, const values_fn *sums, const uint8_t *values,
                         int64_t v_dim, const float *p, const float *keep, float *acc)
{
    for (int i = 0; i < n; i++)
        for (int64_t d = 0; d < j->padded; d += LANES)
            v16_store(acc + i * j->padded + d, v16_mul(v16_load(acc + i * j->padded + d), v16_all(keep[i])));
    for (int i = 0; i < n; i++)
        if (g->a[i] < g->a_all)
            sums[0](values, v_dim, p + i * PAGE_TOKENS, g->a[i], g->b[i] < g->a_all ? g->b[i] : g->a_all,
                    acc + i * j->padded, j->padded);
    if (g->a_all < g->b_all) sums[n - 1](values, v_dim, p, g->a_all, g->b_all, acc, j->padded);
    for (int i = 0; i < n; i++) {
        int from = g->a[i] > g->b_all ? g->a[i] : g->b_all;
        if (from < g->b[i]) sums[0](values, v_dim, p + i * PAGE_TOKENS, from, g->b[i], acc + i * j->padded, j->padded);
    }
}

/* Adds one tile to the states of lines l0 … l1 - 1 of a unit: those whose rows see some of its keys. `next_page` comes after it, or -1. */
static void tile_add(const attn_job *j, const attn_unit *u, int first, int32_t page, int32_t next_page, int l0, int l1,
                     attn_soft t)
{
    const kv_store *s = j->s;
    const uint8_t *keys = kv_tile(s, false, page, u->kv), *values = kv_tile(s, true, page, u->kv);
    int groups = (l1 - l0 + ATTN_GROUP - 1) / ATTN_GROUP;
    bool k_codes = kv_is_codes(s->k_type), v_codes = kv_is_codes(s->v_type);
    tile_prefetch(values, s->v_page / (uint64_t)s->heads); /* comes while scores are computed */
    const dots_fn *dots = s->k_type == DTYPE_F16 ? dots_f16 : dots_f32;
    const values_fn *sums = s->v_type == DTYPE_F16 ? values_f16 : values_f32;
    int64_t v_dim = s->v_dim;
    code_tile coded_keys, coded_values;
    if (k_codes) {
        coded_keys = code_tile_open(&j->kf, keys, false, j->at.k_wide);
    } else if (groups > 2 && s->k_type == DTYPE_F16) {
        tile_widen(DTYPE_F16, keys, s->k_dim, PAGE_TOKENS, PAGE_TOKENS, j->at.k_wide);
        keys = (const uint8_t *)j->at.k_wide;
        dots = dots_f32;
    }
    if (v_codes) {
        coded_values = code_tile_open(&j->vf, values, true, j->at.v_wide);
    } else if (v_dim != j->padded || (groups > 2 && s->v_type == DTYPE_F16)) {
        int last = u->last - first; /* no row sees later keys */
        tile_widen(s->v_type, values, last < PAGE_TOKENS ? last + 1 : PAGE_TOKENS, v_dim, j->padded, j->at.v_wide);
        values = (const uint8_t *)j->at.v_wide;
        sums = values_f32;
        v_dim = j->padded;
    }
    for (int l = l0, n; l < l1; l += n, groups--) {
        n = (l1 - l + groups - 1) / groups;
        float *p = j->at.p + l * PAGE_TOKENS, *acc = t.acc + l * j->padded;
        v16 products[ATTN_GROUP];
        bool scored = k_codes && j->plain && j->scale == 1;
        if (k_codes) {
            kv_query q[ATTN_GROUP];
            for (int i = 0; i < n; i++) q[i] = line_query(j, l + i);
            code_products(&coded_keys, n, q, p, products);
        } else {
            dots[n - 1](keys, s->k_dim, j->at.queries + (int64_t)l * s->k_dim, p);
        }
        if (l == l0 && next_page >= 0)
            tile_prefetch(kv_tile(s, false, next_page, u->kv), s->k_page / (uint64_t)s->heads);
        group_sees g;
        float top[ATTN_GROUP];
        if (v_codes) {
            static const float nothing[ATTN_GROUP] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
            code_weights w;
            g = group_scores(j, u, first, l, n, p, scored ? products : NULL, nothing, top);
            group_soft_tile(n, p, &g, top, t.max + l, t.sum + l, w.keep, w.take);
            code_add(&coded_values, n, p, g.a, g.b, &w, acc, j->padded);
        } else {
            float keep[ATTN_GROUP];
            g = group_scores(j, u, first, l, n, p, scored ? products : NULL, t.max + l, top);
            group_soft(n, p, top, t.max + l, t.sum + l, keep);
            group_values(j, &g, n, sums, values, v_dim, p, keep, acc);
        }
    }
}

/* Lines of the unit whose rows see any of the positions first … last. */
static void lines_seeing(const attn_job *j, const attn_unit *u, int first, int last, int *l0, int *l1)
{
    const attn_sees *sees = &j->plan.sees;
    int own0 = sees->rows->pos[u->row0], r0 = 0, r1 = u->rows;
    while (r0 < r1 && attn_last(sees, u->seq, own0 + r0) < first) r0++;
    while (r1 > r0 && attn_first(sees, own0 + r1 - 1) > last) r1--;
    *l0 = r0 * u->heads;
    *l1 = r1 * u->heads;
}

/* The queries of a unit, side by side, or their codes. */
static void unit_queries(const attn_job *j, const attn_unit *u)
{
    const kv_store *s = j->s;
    float by = attn_query_scale(j->o, s);
    for (int l = 0; kv_is_codes(s->k_type) && l < u->rows * u->heads; l++) {
        int64_t row = u->row0 + l / u->heads, head = u->head0 + l % u->heads;
        query_encode(&j->kf, j->q + (row * j->o->u.attn.heads + head) * s->k_dim, s->k_dim, by, line_query(j, l));
    }
    for (int i = 0; !kv_is_codes(s->k_type) && i < u->rows; i++)
        memcpy(j->at.queries + (int64_t)i * u->heads * s->k_dim,
               j->q + ((int64_t)(u->row0 + i) * j->o->u.attn.heads + u->head0) * s->k_dim,
               (size_t)u->heads * (size_t)s->k_dim * sizeof(float));
}

/* The state of a unit's lines over one range of keys, from nothing. */
static void range_soft(const attn_job *j, const attn_unit *u, int range, attn_soft t)
{
    const step *st = j->r->st;
    int last = u->last;
    soft_clear(t, u->rows * u->heads, j->padded);
    for (int first = range * ATTN_RANGE; first < (range + 1) * ATTN_RANGE; first += PAGE_TOKENS) {
        int l0, l1;
        lines_seeing(j, u, first, first + PAGE_TOKENS - 1, &l0, &l1);
        if (l0 == l1) continue;
        int32_t page = step_page(st, j->group, u->seq, first / PAGE_TOKENS);
        int after = first / PAGE_TOKENS + 1;
        int32_t next = after * PAGE_TOKENS <= last ? step_page(st, j->group, u->seq, after) : -1;
        if (page >= 0) tile_add(j, u, first, page, next, l0, l1, t);
    }
}

/* t and the state of a later range become one, for the lines that see some of that range. */
static void soft_merge(const attn_job *j, const attn_unit *u, int range, attn_soft t, attn_soft with)
{
    int l0, l1;
    lines_seeing(j, u, range * ATTN_RANGE, (range + 1) * ATTN_RANGE - 1, &l0, &l1);
    for (int l = l0; l < l1; l++) {
        float max = fm_max(with.max[l], t.max[l]), keep = fm_exp(t.max[l] - max), take = fm_exp(with.max[l] - max);
        t.sum[l] = fmaf(with.sum[l], take, t.sum[l] * keep);
        t.max[l] = max;
        float *a = t.acc + l * j->padded, *b = with.acc + l * j->padded;
        for (int64_t d = 0; d < j->padded; d += LANES)
            v16_store(a + d, v16_fma(v16_load(b + d), v16_all(take), v16_mul(v16_load(a + d), v16_all(keep))));
    }
}

/* A score without a value joins each line: soft_merge with max = the sink, sum = 1, acc = 0. */
static void add_sinks(const attn_job *j, const attn_unit *u, attn_soft t)
{
    for (int l = 0; l < u->rows * u->heads; l++) {
        float sink = j->sinks[u->head0 + l % u->heads], max = fm_max(sink, t.max[l]);
        float keep = fm_exp(t.max[l] - max), take = fm_exp(sink - max), *a = t.acc + l * j->padded;
        t.sum[l] = fmaf(1, take, t.sum[l] * keep);
        t.max[l] = max;
        for (int64_t d = 0; d < j->padded; d += LANES)
            v16_store(a + d, v16_fma(v16_zero(), v16_all(take), v16_mul(v16_load(a + d), v16_all(keep))));
    }
}

static void unit_store(const attn_job *j, const attn_unit *u, attn_soft t)
{
    if (j->sinks) add_sinks(j, u, t);
    int64_t dim = j->s->v_dim;
    for (int l = 0; l < u->rows * u->heads; l++) {
        float *to = j->out + ((int64_t)(u->row0 + l / u->heads) * j->o->u.attn.heads + u->head0 + l % u->heads) * dim;
        for (int64_t d = 0; d < dim; d += LANES)
            v16_store_part(to + d, v16_div(v16_load(t.acc + l * j->padded + d), v16_all(t.sum[l])),
                           dim - d < LANES ? (int)(dim - d) : LANES);
    }
}

static void v_attn(const run *r, const op *o, int worker, int workers)
{
    dev *on = r->seg->on;
    const kv_store *s = &on->kv[o->state];
    attn_job j = {.plan = attn_plan_of(r, o, s),
                  .r = r,
                  .o = o,
                  .s = s,
                  .q = arg_at(r, o->in[ATTN_Q]),
                  .sinks = arg_at(r, o->in[ATTN_SINKS])};
    if (o->u.attn.bias != BIAS_BUCKETS) j.slopes = arg_at(r, o->in[ATTN_BIAS]);
    j.out = arg_at(r, o->out);
    j.group = r->seg->p->states[o->state].group;
    j.padded = (s->v_dim + LANES - 1) / LANES * LANES;
    j.scale = attn_product_scale(o, s);
    j.plain = o->u.attn.bias == BIAS_NONE && o->u.attn.softcap == 0;
    j.kf = kv_codes_of(s->k_type, s->k_dim, false);
    j.vf = kv_codes_of(s->v_type, s->v_dim, true);
    j.at = attn_space_of(arg_scratch(r, worker), s->k_dim, s->v_dim);

    int64_t units = 0, ranges = 0;
    int rows = 0;
    for (attn_unit u = {.seq = -1}; attn_next(&j.plan, &u); units++) {
        ranges += u.range1 - u.range0 + 1;
        if (u.rows > rows) rows = u.rows;
    }
    uint64_t lines = (uint64_t)rows * (uint64_t)j.plan.heads, slot = attn_soft_floats(lines, s->v_dim);
    bool split = units < 4 * workers && workers > 1 && ranges > units &&
                 (uint64_t)ranges * slot <= on->work.shared_floats;

    deal d = deal_start(r, worker, workers, split ? ranges : units, true);
    int64_t i = 0, mine = deal_next(&d);
    for (attn_unit u = {.seq = -1}; mine >= 0 && attn_next(&j.plan, &u);) {
        if (split) {
            for (int range = u.range0; range <= u.range1; range++, i++) {
                if (i != mine) continue;
                unit_queries(&j, &u);
                range_soft(&j, &u, range, attn_soft_at(on->work.shared + (uint64_t)i * slot, lines, s->v_dim));
                mine = deal_next(&d);
            }
        } else if (i++ == mine) {
            unit_queries(&j, &u);
            soft_clear(j.at.all, u.rows * u.heads, j.padded);
            for (int range = u.range0; range <= u.range1; range++) {
                range_soft(&j, &u, range, j.at.part);
                soft_merge(&j, &u, range, j.at.all, j.at.part);
            }
            unit_store(&j, &u, j.at.all);
            mine = deal_next(&d);
        }
    }
    if (!split) return;
    pool_barrier(on->pool, worker);
    i = units = 0;
    for (attn_unit u = {.seq = -1}; attn_next(&j.plan, &u); i += u.range1 - u.range0 + 1) {
        if (units++ % workers != worker) continue;
        soft_clear(j.at.all, u.rows * u.heads, j.padded);
        for (int range = u.range0; range <= u.range1; range++)
            soft_merge(&j, &u, range, j.at.all,
                       attn_soft_at(on->work.shared + (uint64_t)(i + range - u.range0) * slot, lines, s->v_dim));
        unit_store(&j, &u, j.at.all);
    }
}

#endif
