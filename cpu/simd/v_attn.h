/* v_attn.h - ATTN on sixteen lanes; definition: def_attn.c.
 *
 * Decoding is bound by reading the cache, prefill by multiply-adds. Keys are stored transposed, so 16 keys are one
 * vector and a score needs no horizontal sum; values are rows, so 16 elements are one vector. The lines of a unit
 * (attn_plan.h) share each tile; up to ATTN_GROUP lines share each register of it. A tile is processed in passes over
 * all lines (products, scores, exponentials, values), so that no line waits for its own maximum or sum. The next bytes
 * in memory are prefetched between the multiplications, as many as these consume. Tiles of codes: v_attn_codes.h,
 * v_attn_ints.h. */
#pragma once
#include "cpu/attn_plan.h"
#include "cpu/chunk_steal.h"
#include "cpu/simd/v16.h"
#include "cpu/simd/v_attn_ints.h"
#include "cpu/simd/vmath.h"

enum { ATTN_GROUP = V16S == 32 ? 8 : 6 /* lines per register tile */, TILE_CHUNKS = PAGE_TOKENS / LANES };
#define ATTN_WIDE(lines) (V16S < 32 ? 1 : (lines) > 4 ? 2 : 4) /* vectors of 16 per register tile */

/* dots[line][key] = scale * (q[line] . key) for the 64 keys of a tile; chains over the elements of the head,
 * ascending. As many bytes of `ahead` are prefetched. */
INLINE void tile_dots(dtype t, int lines, const uint8_t *keys, int dim, const float *q, float scale,
                      const uint8_t *ahead, float *dots)
{
    const int bytes = t == DTYPE_F16 ? 2 : 4, wide = ATTN_WIDE(lines);
    for (int c = 0; c < TILE_CHUNKS; c += wide) {
        v16 a[8][4], k[4];
        UNROLLED (l, lines)
            UNROLLED (w, wide) a[l][w] = v16_zero();
        int64_t at = c * LANES * bytes;
        for (int d = 0; d < dim; d++, at += PAGE_TOKENS * bytes) {
            fetch(ahead + at, wide * LANES * bytes);
            UNROLLED (w, wide) k[w] = v16_load_as(t, keys + at, w * LANES);
            UNROLLED (l, lines) {
                v16 b = v16_all(q[l * dim + d]);
                UNROLLED (w, wide) a[l][w] = v16_fma(b, k[w], a[l][w]);
            }
        }
        UNROLLED (l, lines) {
            UNROLLED (w, wide) v16_store(dots + l * PAGE_TOKENS + (c + w) * LANES, v16_mul(a[l][w], v16_all(scale)));
        }
    }
}

/* Values of keys from … to - 1 times weights: the sum, in order of keys, of p[line][key] * value[key] goes to
 * acc[line], as acc * keep + sum * take; where keep is NULL acc itself is the sum so far. `ahead` is prefetched
 * meanwhile. */
typedef struct values_job {
    const uint8_t *values, *ahead;
    int64_t dim, acc_stride; /* elements of a value; floats between two lines of acc */
    int from, to;
    const float *p, *keep, *take;
    float *acc;
} values_job;

/* `wide` vectors of elements, from element d on. */
INLINE void tile_values(dtype t, int lines, int wide, const values_job *j, int64_t d)
{
    const int64_t bytes = t == DTYPE_F16 ? 2 : 4, dim = j->dim, acc_stride = j->acc_stride;
    const uint8_t *values = j->values + d * bytes, *ahead = j->ahead + d * bytes;
    const float *p = j->p, *keep = j->keep, *take = j->take;
    const int from = j->from, to = j->to;
    float *acc = j->acc + d;
    v16 a[8][4], v[4];
    UNROLLED (l, lines) {
        UNROLLED (w, wide) a[l][w] = keep ? v16_zero() : v16_load(acc + l * acc_stride + w * LANES);
    }
    int64_t at = from * dim * bytes;
    for (int key = from; key < to; key++, at += dim * bytes) {
        fetch(ahead + at, wide * LANES * (int)bytes);
        UNROLLED (w, wide) v[w] = v16_load_as(t, values + at, w * LANES);
        UNROLLED (l, lines) {
            v16 b = v16_all(p[l * PAGE_TOKENS + key]);
            UNROLLED (w, wide) a[l][w] = v16_fma(b, v[w], a[l][w]);
        }
    }
    UNROLLED (l, lines) {
        UNROLLED (w, wide) {
            float *sum = acc + l * acc_stride + w * LANES;
            if (keep) a[l][w] = v16_fma(a[l][w], v16_all(take[l]), v16_mul(v16_load(sum), v16_all(keep[l])));
            v16_store(sum, a[l][w]);
        }
    }
}

typedef void (*dots_fn)(const uint8_t *keys, int dim, const float *q, float scale, const uint8_t *ahead, float *dots);
typedef void (*values_fn)(const values_job *j);
#define ATTN_FNS(t, lines)                                                                                             \
    static void dots_##t##_##lines(const uint8_t *keys, int dim, const float *q, float scale, const uint8_t *ahead,    \
                                   float *dots)                                                                        \
    {                                                                                                                  \
        tile_dots(DTYPE_##t, lines, keys, dim, q, scale, ahead, dots);                                                 \
    }                                                                                                                  \
    static void values_##t##_##lines(const values_job *j)                                                              \
    {                                                                                                                  \
        const int wide = ATTN_WIDE(lines);                                                                             \
        int64_t d = 0;                                                                                                 \
        for (; d + wide * LANES <= j->dim; d += wide * LANES) tile_values(DTYPE_##t, lines, wide, j, d);               \
        for (; d < j->dim; d += LANES) tile_values(DTYPE_##t, lines, 1, j, d);                                         \
    }
#define ATTN_TYPE(t)                                                                                                   \
    ATTN_FNS(t, 1)                                                                                                     \
    ATTN_FNS(t, 2)                                                                                                     \
    ATTN_FNS(t, 3) ATTN_FNS(t, 4) ATTN_FNS(t, 5) ATTN_FNS(t, 6) ATTN_FNS(t, 7) ATTN_FNS(t, 8)
#define ATTN_NAMES(f, t)                                                                                               \
    {                                                                                                                  \
        f##_##t##_1, f##_##t##_2, f##_##t##_3, f##_##t##_4, f##_##t##_5, f##_##t##_6, f##_##t##_7, f##_##t##_8         \
    }
ATTN_TYPE(F32)
ATTN_TYPE(F16)
static const dots_fn dots_f32[] = ATTN_NAMES(dots, F32), dots_f16[] = ATTN_NAMES(dots, F16);
static const values_fn values_f32[] = ATTN_NAMES(values, F32), values_f16[] = ATTN_NAMES(values, F16);

/* The op and its operands, as each worker sees them. */
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
    bool ready;     /* and nothing has to be done to whole tiles of products */
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

/* How lines see the keys of a tile: line i those from a[i] to b[i] - 1; whole: all lines see all. */
typedef struct tile_mask {
    bool whole;
    int a[ATTN_LINES], b[ATTN_LINES];
} tile_mask;

static void tile_mask_of(tile_mask *to, const attn_job *j, const attn_unit *u, int first, int l0, int l1)
{
    const attn_mask *mask = &j->plan.mask;
    int own0 = mask->rows->pos[u->row0], r0 = l0 / u->heads, r1 = l1 / u->heads;
    to->whole = attn_first(mask, own0 + r1 - 1) <= first &&
                attn_last(mask, u->seq, own0 + r0) >= first + PAGE_TOKENS - 1;
    for (int r = r0, i = 0; r < r1 && !to->whole; r++) {
        int low = attn_first(mask, own0 + r), last = attn_last(mask, u->seq, own0 + r);
        for (int h = 0; h < u->heads; h++, i++) {
            to->a[i] = low > first ? low - first : 0;
            to->b[i] = last - first < PAGE_TOKENS ? last - first + 1 : PAGE_TOKENS;
        }
    }
}

/* One tile, and lines that see it: those from l0 to l1 - 1. */
typedef struct attn_tile {
    const attn_unit *u;
    int first, l0, l1; /* position of its first key */
    uint8_t *keys, *values;
    uint8_t *next, *next_values; /* keys and values that come after these, or these */
    uint64_t k_bytes, v_bytes;
    tile_mask mask;
    attn_soft t; /* of the lines from l0 on */
} attn_tile;

/* The biases by distance (BIAS_BUCKETS, BIAS_PLACES) of keys a … b - 1 of the tile, for one head of one row. */
static void biases_by_distance(const attn_job *j, const attn_tile *k, int row, int head, int a, int b, float *added)
{
    attn_mask mask = j->plan.mask;
    const int own = mask.rows->pos[row];
    mask.row0 = row - own;
    for (int i = 0; i < PAGE_TOKENS; i++) added[i] = 0;
    if (j->o->u.attn.bias == BIAS_BUCKETS)
        for (int i = a; i < b; i++) added[i] = attn_bucket(&mask, head, k->first + i, own);
    if (j->o->u.attn.bias == BIAS_PLACES)
        for (int i = a; i < b; i++) added[i] = attn_places(&mask, head, k->first + i, own);
}

/* Products of line l, counted from l0, times `times` (plain ones of floats have `scale` already), become scores, in
 * place; keys that it does not see become -infinity. Returns 0, or NaN where a score is not finite. */
static float line_scores(const attn_job *j, const attn_tile *k, int l, float *p, float times)
{
    const op *o = j->o;
    const attn_unit *u = k->u;
    const int line = k->l0 + l, row = u->row0 + line / u->heads, head = u->head0 + line % u->heads, first = k->first,
              own = j->plan.mask.rows->pos[row], a = k->mask.whole ? 0 : k->mask.a[l],
              b = k->mask.whole ? PAGE_TOKENS : k->mask.b[l];
    float slope = j->slopes ? j->slopes[head] : 0, added[PAGE_TOKENS];
    if (o->in[ATTN_TABLE]) biases_by_distance(j, k, row, head, a, b, added);
    v16 odd = v16_zero();
    for (int c = 0; c < TILE_CHUNKS; c++) {
        v16 v = v16_mul(v16_load(p + c * LANES), v16_all(times));
        m16 seen = m16_range(a - c * LANES, b - c * LANES);
        if (!j->plain) {
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
            if (o->u.attn.bias == BIAS_PLACES) v = v16_fma(v16_load(added + c * LANES), v16_all(o->u.attn.scale), v);
        }
        odd = v16_fma(v16_pick(seen, v, v16_zero()), v16_zero(), odd);
        v16_store(p + c * LANES, v16_pick(seen, v, v16_all(-INFINITY)));
    }
    return v16_fold(odd);
}

/* Scores of n lines become exponentials, in place, relative to the maximum of the tile; total: sums of each line. */
static void lines_exp(const tile_mask *mask, int n, float *p, const float *top, float *total)
{
    for (int l = 0; l < n; l += 4) {
        v16 sums[4];
        for (int i = 0; i < 4; i++) {
            sums[i] = v16_zero();
            if (l + i >= n) continue;
            float *line = p + (l + i) * PAGE_TOKENS;
            UNROLLED (c, TILE_CHUNKS) {
                v16 e = v16_exp_below(v16_sub(v16_load(line + c * LANES), v16_all(top[l + i])));
                if (!mask->whole)
                    e = v16_pick(m16_range(mask->a[l + i] - c * LANES, mask->b[l + i] - c * LANES), e, v16_zero());
                sums[i] = v16_add(sums[i], e);
                v16_store(line + c * LANES, e);
            }
        }
        v4_store(total + l, v16_fold_four(sums[0], sums[1], sums[2], sums[3]));
    }
}

/* Merges a part with maximum score `here` and sum `total`: keep and take are the factors of the sums so far and of its
 * own. */
INLINE void soft_join(v16 here, v16 total, v16 *max, v16 *sum, v16 *keep, v16 *take)
{
    m16 rises = v16_less(*max, here);
    v16 less = v16_exp_below(v16_neg(v16_abs(v16_sub(*max, here))));
    *keep = v16_pick(rises, less, v16_all(1));
    *take = v16_pick(rises, v16_all(1), less);
    *max = v16_pick(rises, here, *max);
    *sum = v16_fma(total, *take, v16_mul(*sum, *keep));
}

/* The same for n lines. */
static void lines_join(int n, const float *top, const float *total, float *max, float *sum, float *keep, float *take)
{
    for (int l = 0; l < n; l += LANES) {
        int part = n - l < LANES ? n - l : LANES;
        v16 most = v16_load_part(max + l, part), all = v16_load_part(sum + l, part), kept, taken;
        soft_join(v16_load_part(top + l, part), v16_load_part(total + l, part), &most, &all, &kept, &taken);
        v16_store_part(max + l, most, part);
        v16_store_part(sum + l, all, part);
        v16_store_part(keep + l, kept, part);
        v16_store_part(take + l, taken, part);
    }
}

/* Values of `rows` keys as floats, rows of `n` elements padded to `padded`. */
static void values_widen(dtype t, const uint8_t *from, int rows, int64_t n, int64_t padded, float *to)
{
    for (int j = 0; j < rows; j++, from += n * dtype_info[t].bytes, to += padded)
        for (int64_t i = 0; i < n; i += LANES) {
            int left = n - i < LANES ? (int)(n - i) : LANES;
            v16_store(to + i, left < LANES ? v16_load_as_part(t, from, i, left) : v16_load_as(t, from, i));
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

/* The job v for n lines that do not all see all keys: line i sees a[i] … b[i] - 1. Keys that all lines see are summed
 * together, others line by line, so that an unseen key is skipped. */
static void edge_values(const attn_job *j, const int *a, const int *b, int n, const values_fn *sums, values_job v)
{
    int a_all = 0, b_all = PAGE_TOKENS;
    float *sum = j->at.edge;
    for (int i = 0; i < n; i++) {
        if (a[i] > a_all) a_all = a[i];
        if (b[i] < b_all) b_all = b[i];
    }
    if (b_all < a_all) b_all = a_all;
    for (int64_t d = 0; d < n * j->padded; d += LANES) v16_store(sum + d, v16_zero());
    values_job all = v, one;
    all.ahead = v.values;
    all.keep = all.take = NULL;
    all.acc = sum;
    for (int part = 0; part < 3; part++) {
        all.from = a_all;
        all.to = b_all;
        if (part == 1 && a_all < b_all) sums[n - 1](&all);
        for (int i = 0; i < n && part != 1; i++) {
            one = all;
            one.p += i * PAGE_TOKENS;
            one.acc += i * j->padded;
            one.from = part == 0 ? a[i] : a[i] > b_all ? a[i] : b_all;
            one.to = part == 2 ? b[i] : b[i] < a_all ? b[i] : a_all;
            if (one.from < one.to) sums[0](&one);
        }
    }
    for (int i = 0; i < n; i++)
        for (int64_t d = 0; d < j->padded; d += LANES) {
            float *to = v.acc + i * j->padded + d;
            v16 old = v16_mul(v16_load(to), v16_all(v.keep[i]));
            v16_store(to, v16_fma(v16_load(sum + i * j->padded + d), v16_all(v.take[i]), old));
        }
}

/* Products of n lines from l on with float keys. `ahead` is prefetched meanwhile. */
static void float_products(const attn_job *j, const uint8_t *keys, int l, int n, const uint8_t *ahead, float *p)
{
    const dots_fn *dots = j->s->k_type == DTYPE_F16 ? dots_f16 : dots_f32;
    int64_t dim = j->s->k_dim;
    for (int i = 0, group; i < n; i += group, ahead = keys) {
        group = group_lines(i, n, ATTN_GROUP);
        dots[group - 1](keys, (int)dim, j->at.queries + (l + i) * dim, j->plain ? j->scale : 1, ahead,
                        p + i * PAGE_TOKENS);
    }
}

/* The same with keys of codes; two calls of products prefetch `ahead`. Weights that are due are computed meanwhile.
 * Where `tops` is not NULL products are scores, and the maximum of each line goes there. */
static void code_products(const attn_job *j, const key_tile *keys, int l, int n, const uint8_t *ahead, code_due *due,
                          code_batch *tops, float *p)
{
    const uint8_t *q = (const uint8_t *)j->at.queries;
    const uint64_t bytes = kv_query_bytes(&j->kf);
    const code_dots_fn *dots = j->kf.bits == 16 ? int_dots_of : j->kf.bits == 8 ? code_dots_8 : code_dots_4;
    for (int i = 0, group; i < n; i += group) {
        group = group_lines(i, n, KEY_LINES);
        due->tops = tops;
        due->by = j->at.by + l + i;
        due->top = i;
        dots[group - 1](keys, q + (uint64_t)(l + i) * bytes, ahead, due, p + i * PAGE_TOKENS);
        ahead = i ? keys->code : ahead + keys->f->bytes / 2;
    }
}

/* The job v for all keys of a tile and n lines; no row sees more than `seen` keys. */
static void tile_add_values(const attn_job *j, const tile_mask *mask, int n, int seen, values_job v)
{
    const kv_store *s = j->s;
    const values_fn *sums = s->v_type == DTYPE_F16 ? values_f16 : values_f32;
    v.dim = s->v_dim;
    v.acc_stride = j->padded;
    v.to = PAGE_TOKENS;
    if (v.dim != j->padded) {
        values_widen(s->v_type, v.values, seen, v.dim, j->padded, j->at.v_wide);
        v.values = (const uint8_t *)j->at.v_wide;
        sums = values_f32;
        v.dim = j->padded;
    }
    for (int l = 0, group; l < n; l += group, v.ahead = v.values) {
        group = group_lines(l, n, ATTN_GROUP);
        if (mask->whole) sums[group - 1](&v);
        else edge_values(j, mask->a + l, mask->b + l, group, sums, v);
        v.p += group * PAGE_TOKENS;
        v.keep += group;
        v.take += group;
        v.acc += group * j->padded;
    }
}

/* line_scores of n lines from `l` on. */
static void tile_scores(const attn_job *j, const attn_tile *k, int l, int n, float *p, float *odd)
{
    for (int i = 0; i < n; i++) {
        float times = kv_is_codes(j->s->k_type) && !j->ready ? *line_query(j, k->l0 + l + i).scale : 1;
        odd[i] = line_scores(j, k, l + i, p + i * PAGE_TOKENS, times);
    }
}

/* A tile whose values are floats, in passes over all lines. */
static void tile_add_floats(const attn_job *j, const attn_tile *k)
{
    int n = k->l1 - k->l0, seen = k->u->last - k->first < PAGE_TOKENS ? k->u->last - k->first + 1 : PAGE_TOKENS;
    float *p = j->at.p, top[ATTN_LINES + 4], total[ATTN_LINES + 4], keep[ATTN_LINES], take[ATTN_LINES];
    if (kv_is_codes(j->s->k_type)) {
        key_tile keys = key_tile_open(&j->kf, k->keys, j->at.k_codes);
        tile_prefetch(k->values, k->v_bytes);
        code_due none = {0};
        code_products(j, &keys, k->l0, n, keys.code, &none, NULL, p);
    } else {
        if (k->v_bytes > k->k_bytes) tile_prefetch(k->values + k->k_bytes, k->v_bytes - k->k_bytes);
        float_products(j, k->keys, k->l0, n, k->values, p);
    }
    if (k->k_bytes > k->v_bytes) tile_prefetch(k->next + k->v_bytes, k->k_bytes - k->v_bytes);
    if (!(k->mask.whole && j->ready)) tile_scores(j, k, 0, n, p, total);
    for (int l = 0; l < n; l += 4) v4_store(top + l, four_top(n - l, p + l * PAGE_TOKENS));
    lines_exp(&k->mask, n, p, top, total);
    lines_join(n, top, total, k->t.max, k->t.sum, keep, take);
    values_job v = {.values = k->values, .ahead = k->next, .p = p, .keep = keep, .take = take, .acc = k->t.acc};
    tile_add_values(j, &k->mask, n, seen, v);
}

/* A tile whose values are codes, in progress. */
typedef struct code_work {
    attn_tile k;
    key_tile keys;
    value_scales *scales; /* [blocks of values] for lines that see all keys */
    bool check;           /* whatever the lines see */
} code_work;

/* Tiles of one range, whose values are codes, as a stream of batches of lines. Two are in progress: the weights of one
 * batch are computed between the products of the next, because they are a chain of dependent operations that hardly
 * needs the multiplier. The values of the first batch follow. */
typedef struct code_stream {
    const attn_job *j;
    code_work work[2]; /* the current tile and the one before it */
    code_batch batch[2];
    int tiles, batches;
    bool ready;            /* products of the current tile are scores */
    const code_work *last; /* tile of the batch before, and its lines */
    int last_l, last_n;
} code_stream;

/* Products w->p of n <= CODE_BATCH lines from `l` on become scores; scales of values that each line sees. */
static void batch_scores(const attn_job *j, const code_work *c, int l, int n, code_batch *w)
{
    const tile_mask *mask = &c->k.mask;
    v16_store(w->odd, v16_zero());
    UNROLLED (i, CODE_BATCH) w->of[i] = c->scales;
    if (c->check) tile_scores(j, &c->k, l, n, w->p[0], w->odd);
    for (int i = 0; i < n && !mask->whole; i++) {
        value_scales_of(&j->vf, c->k.values, 0, mask->a[l + i], mask->b[l + i], &w->part[i]);
        w->of[i] = &w->part[i];
    }
}

/* Merges sums of weights, and maximum scores, of lines l … l + n - 1 into those so far. */
static void batch_join(const attn_job *j, const code_work *c, int l, int n, code_batch *w)
{
    const attn_soft *t = &c->k.t;
    const bool based = j->vf.base, whole = c->k.mask.whole;
    v16 steps = v16_load(w->steps), max = v16_load_part(t->max + l, n), sum = v16_load_part(t->sum + l, n), keep, take;
    v4 last = fold_parts(w->sums + 8);
    v16 sums = v16_of_fours(fold_parts(w->sums), fold_parts(w->sums + 4), last, last);
    v16 total = v16_fma(sums, v16_all(0x1p-15f), v16_fma(steps, v16_zero(), v16_load(w->odd)));
    soft_join(v16_mul(steps, v16_all(WEIGHT_UNIT)), total, &max, &sum, &keep, &take);
    v16_store_part(t->max + l, max, n);
    v16_store_part(t->sum + l, sum, n);
    v16_store(w->keep, keep);
    v16_store(w->take, take);
    if (whole) v16_store(w->scale, v16_mul(v16_all(c->scales->each), take));
    if (based) {
        last = fold_parts(w->bases + 8);
        v16 bases = v16_of_fours(fold_parts(w->bases), fold_parts(w->bases + 4), last, last);
        v16_store(w->base, whole ? v16_mul(bases, v16_mul(v16_all(c->scales->each_base), take)) : bases);
    }
    for (int i = 0; i < n && !whole; i++) {
        w->scale[i] = w->part[i].each * w->take[i];
        if (based) w->base[i] = w->base[i] * (w->part[i].each_base * w->take[i]);
    }
}

/* The address to prefetch during products, for lines from l on of the batch that begins at `first`: the next tile,
 * half of it in each call. */
static const uint8_t *ahead_of(int first, int l, const uint8_t *tile, const uint8_t *next, const kv_codes *f)
{
    return first ? tile : l ? next + f->bytes / 2 : next;
}

/* Values for lines l … l1 - 1 of a batch that begins at `first`: those of the first block. */
static void batch_values(const attn_job *j, const code_work *c, int first, int l, int l1, const code_batch *w)
{
    const uint8_t *ahead = ahead_of(first, l, c->k.values, c->k.next_values, &j->vf);
    code_into to = {w, l, c->k.t.acc + (first + l) * j->padded, j->padded};
    if (l < l1) code_add(&j->vf, c->k.values, 0, l1 - l, ahead, to);
}

/* The other blocks of values, if any. */
static void batch_blocks(const attn_job *j, const code_work *c, int first, int n, code_batch *w)
{
    const tile_mask *mask = &c->k.mask;
    for (int64_t block = 1; block < j->vf.blocks; block++) {
        batch_bytes(&j->vf, c->k.values, block, c->scales + block, n, mask->whole ? NULL : mask->a + first,
                    mask->b + first, w);
        for (int l = 0, group; l < n; l += group) {
            group = group_lines(l, n, CODE_LINES);
            code_into to = {w, l, c->k.t.acc + (first + l) * j->padded, j->padded};
            code_add(&j->vf, c->k.values, block, group, ahead_of(first, l, c->k.values, c->k.next_values, &j->vf), to);
        }
    }
}

/* Prefetches the rest of the next tile after n lines: scales, and the second half where there was one call only. */
static void fetch_rest(const attn_job *j, const attn_tile *k, int n)
{
    const kv_codes *kf = &j->kf, *vf = &j->vf;
    uint64_t keys = kv_is_codes(j->s->k_type) ? (uint64_t)(n <= KEY_LINES ? kf->bytes / 2 : kf->bytes) : 0;
    uint64_t values = (uint64_t)(n <= CODE_LINES ? vf->bytes / 2 : vf->bytes);
    tile_prefetch(k->next + keys, k->k_bytes - keys);
    tile_prefetch(k->next_values + values, k->v_bytes - values);
}

/* Products of n lines from l on (n = 0: none), weights and values of the batch before. */
static void stream_step(code_stream *s, const code_work *c, int l, int n)
{
    const attn_job *j = s->j;
    const code_work *before = s->last;
    int first = s->last_l, softs = s->last_n, half = softs ? group_lines(0, softs, CODE_LINES) : 0;
    code_batch *dot = &s->batch[s->batches % 2], *soft = &s->batch[(s->batches + 1) % 2];
    code_due due = {.w = soft, .n = softs, .keep = j->vf.blocks > 1}, none = {0};
    if (n && l == 0) fetch_rest(j, &c->k, c->k.l1 - c->k.l0);
    if (n && kv_is_codes(j->s->k_type))
        code_products(j, &c->keys, c->k.l0 + l, n, ahead_of(l, 0, c->k.keys, c->k.next, &j->kf),
                      j->kf.bits == j->vf.bits ? &due : &none, s->ready ? dot : NULL, dot->p[0]);
    else if (n) float_products(j, c->k.keys, c->k.l0 + l, n, c->k.keys, dot->p[0]);
    while (due.at < due.n) due_turn_of(j->vf.bits, &due);
    if (softs) {
        batch_join(j, before, first, softs, soft);
        batch_values(j, before, first, 0, half, soft);
    }
    if (n) {
        for (int64_t b = 0; l == 0 && b < j->vf.blocks; b++)
            value_scales_of(&j->vf, c->k.values, b, 0, PAGE_TOKENS, &c->scales[b]);
        batch_scores(j, c, l, n, dot);
        if (!s->ready) due_tops(n, dot->p[0], &(code_due){.tops = dot, .by = j->at.by + c->k.l0 + l});
    }
    if (softs) {
        batch_values(j, before, first, half, softs, soft);
        batch_blocks(j, before, first, softs, soft);
    }
    s->batches++;
    s->last = c;
    s->last_l = l;
    s->last_n = n;
}

static void stream_open(code_stream *s, const attn_job *j)
{
    s->j = j;
    s->tiles = s->batches = s->last_n = 0;
    s->last = NULL;
    s->last_l = 0;
    for (int i = 0; i < 2; i++) s->work[i].scales = (value_scales *)(void *)j->at.v_wide + i * j->vf.blocks;
}

/* The tile for the caller to fill in (tile_open) before stream_add. */
static attn_tile *stream_tile(code_stream *s) { return &s->work[s->tiles % 2].k; }

static void stream_add(code_stream *s)
{
    const attn_job *j = s->j;
    code_work *c = &s->work[s->tiles++ % 2];
    const attn_tile *k = &c->k;
    int n = k->l1 - k->l0;
    const bool k_codes = kv_is_codes(j->s->k_type);
    c->check = !(k->mask.whole && j->ready && k_codes);
    if (k_codes) {
        c->keys = key_tile_open(&j->kf, k->keys, j->at.k_codes);
        c->check = c->check || c->keys.bad;
    }
    s->ready = !c->check && j->kf.bits == j->vf.bits;
    for (int l = 0, part; l < n; l += part) {
        part = group_lines(l, n, CODE_BATCH);
        stream_step(s, c, l, part);
    }
    if (n <= CODE_BATCH)
        stream_step(s, NULL, 0, 0); /* few lines are bound by memory, and slower when two tiles are open */
}

static void stream_end(code_stream *s) { stream_step(s, NULL, 0, 0); }

/* The rest of a tile whose unit, position and lines are known. `next_page` comes after it, or -1; t: of all lines of
 * the unit. */
static void tile_open(attn_tile *k, const attn_job *j, int32_t page, int32_t next_page, attn_soft t)
{
    const kv_store *s = j->s;
    const attn_unit *u = k->u;
    k->keys = kv_tile(s, false, page, u->kv);
    k->values = kv_tile(s, true, page, u->kv);
    k->next = next_page < 0 ? k->keys : kv_tile(s, false, next_page, u->kv);
    k->next_values = next_page < 0 ? k->values : kv_tile(s, true, next_page, u->kv);
    k->k_bytes = s->k_page / (uint64_t)s->heads;
    k->v_bytes = s->v_page / (uint64_t)s->heads;
    k->t = (attn_soft){.max = t.max + k->l0, .sum = t.sum + k->l0, .acc = t.acc + k->l0 * j->padded};
    tile_mask_of(&k->mask, j, u, k->first, k->l0, k->l1);
}

/* Lines of the unit whose rows see any of the positions first … last. */
static void lines_seeing(const attn_job *j, const attn_unit *u, int first, int last, int *l0, int *l1)
{
    const attn_mask *mask = &j->plan.mask;
    int own0 = mask->rows->pos[u->row0], r0 = 0, r1 = u->rows;
    while (r0 < r1 && attn_last(mask, u->seq, own0 + r0) < first) r0++;
    while (r1 > r0 && attn_first(mask, own0 + r1 - 1) > last) r1--;
    *l0 = r0 * u->heads;
    *l1 = r1 * u->heads;
}

/* The queries of a unit, or their codes; and the factors from products to steps of weights. */
static void unit_queries(const attn_job *j, const attn_unit *u)
{
    const kv_store *s = j->s;
    float by = attn_query_scale(j->o, s->k_type);
    for (int l = 0; l < u->rows * u->heads; l++) {
        j->at.by[l] = WEIGHT_UNITS;
        if (!kv_is_codes(s->k_type)) continue;
        int64_t row = u->row0 + l / u->heads, head = u->head0 + l % u->heads;
        kv_query q = line_query(j, l);
        (j->kf.bits == 16 ? query_ints : query_encode)(&j->kf, j->q + (row * j->o->u.attn.heads + head) * s->k_dim,
                                                       s->k_dim, by, q);
        if (j->ready) j->at.by[l] = *q.scale * WEIGHT_UNITS;
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
    const bool codes = kv_is_codes(j->s->v_type);
    int last = u->last;
    code_stream stream;
    attn_tile tile, *k = &tile;
    soft_clear(t, u->rows * u->heads, j->padded);
    if (codes) stream_open(&stream, j);
    for (int first = range * ATTN_RANGE; first < (range + 1) * ATTN_RANGE; first += PAGE_TOKENS) {
        int l0, l1;
        lines_seeing(j, u, first, first + PAGE_TOKENS - 1, &l0, &l1);
        if (l0 == l1) continue;
        int32_t page = step_page(st, j->group, u->seq, first / PAGE_TOKENS);
        int after = first / PAGE_TOKENS + 1;
        int32_t next = after * PAGE_TOKENS <= last ? step_page(st, j->group, u->seq, after) : -1;
        if (page < 0) continue;
        if (codes) k = stream_tile(&stream);
        k->u = u;
        k->first = first;
        k->l0 = l0;
        k->l1 = l1;
        tile_open(k, j, page, next, t);
        if (codes) stream_add(&stream);
        else tile_add_floats(j, k);
    }
    if (codes) stream_end(&stream);
}

/* t and the state of a later range become one, for the lines that see some of that range. */
static void soft_merge(const attn_job *j, const attn_unit *u, int range, attn_soft t, attn_soft with)
{
    int l0, l1;
    float keep[ATTN_LINES], take[ATTN_LINES];
    lines_seeing(j, u, range * ATTN_RANGE, (range + 1) * ATTN_RANGE - 1, &l0, &l1);
    lines_join(l1 - l0, with.max + l0, with.sum + l0, t.max + l0, t.sum + l0, keep, take);
    for (int l = l0; l < l1; l++) {
        float *a = t.acc + l * j->padded, *b = with.acc + l * j->padded;
        v16 kept = v16_all(keep[l - l0]), taken = v16_all(take[l - l0]);
        for (int64_t d = 0; d < j->padded; d += LANES)
            v16_store(a + d, v16_fma(v16_load(b + d), taken, v16_mul(v16_load(a + d), kept)));
    }
}

/* Merges a score without a value into each line: soft_merge with max = the sink, sum = 1, acc = 0. */
static void add_sinks(const attn_job *j, const attn_unit *u, attn_soft t)
{
    const int n = u->rows * u->heads;
    float sink[ATTN_LINES] = {0}, one[ATTN_LINES] = {0}, keep[ATTN_LINES], take[ATTN_LINES];
    for (int l = 0; l < n; l++) sink[l] = j->sinks[u->head0 + l % u->heads], one[l] = 1;
    lines_join(n, sink, one, t.max, t.sum, keep, take);
    for (int l = 0; l < n; l++) {
        float *a = t.acc + l * j->padded;
        for (int64_t d = 0; d < j->padded; d += LANES)
            v16_store(a + d, v16_fma(v16_zero(), v16_all(take[l]), v16_mul(v16_load(a + d), v16_all(keep[l]))));
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
    dev *on = r->on;
    const kv_store *s = &on->kv[o->state];
    attn_job j = {.plan = attn_plan_of(r, o, s),
                  .r = r,
                  .o = o,
                  .s = s,
                  .q = arg_at(r, o->in[ATTN_Q]),
                  .slopes = attn_slopes(r, o),
                  .sinks = attn_sinks(r, o)};
    j.out = arg_at(r, o->out);
    j.group = r->p->states[o->state].group;
    j.padded = (s->v_dim + LANES - 1) / LANES * LANES;
    j.scale = attn_product_scale(o, s->k_type);
    j.plain = attn_is_plain(o);
    j.ready = j.plain && kv_is_codes(s->k_type) == kv_is_codes(s->v_type);
    j.kf = kv_codes_of(s->k_type, s->k_dim, false);
    j.vf = kv_codes_of(s->v_type, s->v_dim, true);
    j.at = attn_space_of(arg_scratch(r, worker), s->k_dim, s->v_dim);

    int64_t units = 0, ranges = 0;
    uint64_t lines = 0;
    for (attn_unit u = {.seq = -1}; attn_next(&j.plan, &u); units++) {
        ranges += u.range1 - u.range0 + 1;
        if ((uint64_t)(u.rows * u.heads) > lines) lines = (uint64_t)(u.rows * u.heads);
    }
    const uint64_t slot = attn_soft_floats(lines, s->v_dim);
    bool split = units < 4 * workers && workers > 1 && ranges > units &&
                 (uint64_t)ranges * slot <= on->work.shared_floats;

    chunk_steal d = steal_start(r, worker, workers, split ? ranges : units, true);
    int64_t i = 0, mine = steal_next(&d);
    for (attn_unit u = {.seq = -1}; mine >= 0 && attn_next(&j.plan, &u);) {
        if (split) {
            for (int range = u.range0; range <= u.range1; range++, i++) {
                if (i != mine) continue;
                unit_queries(&j, &u);
                range_soft(&j, &u, range, attn_soft_at(on->work.shared + (uint64_t)i * slot, lines, s->v_dim));
                mine = steal_next(&d);
            }
        } else if (i++ == mine) {
            unit_queries(&j, &u);
            soft_clear(j.at.all, u.rows * u.heads, j.padded);
            for (int range = u.range0; range <= u.range1; range++) {
                range_soft(&j, &u, range, j.at.part);
                soft_merge(&j, &u, range, j.at.all, j.at.part);
            }
            unit_store(&j, &u, j.at.all);
            mine = steal_next(&d);
        }
    }
    if (!split) return;
    pool_barrier(on->w->team, worker);
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
