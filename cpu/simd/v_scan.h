/* v_scan.h - passes over a row of the vocabulary on sixteen lanes; definition: core/vocab_scan.c. */
#pragma once
#include "core/vocab_scan.h"
#include "cpu/simd/vmath.h"

#if defined(__AVX512F__)
INLINE unsigned m16_bits(m16 m) { return m; } /* a bit a lane */
INLINE m16 v16_at_least(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
INLINE v16 v16_add_where(m16 m, v16 a, v16 b) { return _mm512_mask_add_ps(a, m, a, b); }
#elif defined(__x86_64__)
INLINE unsigned m16_bits(m16 m) { return (unsigned)(_mm256_movemask_ps(m.lo) | _mm256_movemask_ps(m.hi) << 8); }
INLINE m16 v16_at_least(v16 a, v16 b)
{
    return V16(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ));
}
INLINE v16 v16_add_where(m16 m, v16 a, v16 b) { return v16_add(a, V16_EACH(_mm256_and_ps, m, b)); }
#else
INLINE unsigned m4_bits(uint32x4_t m) { return vaddvq_u32(vandq_u32(m, (uint32x4_t){1, 2, 4, 8})); }
INLINE unsigned m16_bits(m16 m) { return m4_bits(m.a) | m4_bits(m.b) << 4 | m4_bits(m.c) << 8 | m4_bits(m.d) << 12; }
INLINE m16 v16_at_least(v16 x, v16 y)
{
    return (m16){vcgeq_f32(x.a, y.a), vcgeq_f32(x.b, y.b), vcgeq_f32(x.c, y.c), vcgeq_f32(x.d, y.d)};
}
INLINE v16 v16_add_where(m16 m, v16 a, v16 b) { return v16_add(a, v16_pick(m, b, v16_zero())); }
#endif

INLINE int64_t scan_end(int64_t begin, int64_t n)
{
    return n - begin < SCAN_BLOCK ? (n + SCAN_LANES - 1) / SCAN_LANES * SCAN_LANES : begin + SCAN_BLOCK;
}

INLINE float v16_most(v16 a)
{
    float all[SCAN_LANES], most = -INFINITY;
    v16_store(all, a);
    for (int k = 0; k < SCAN_LANES; k++) most = fm_max(all[k], most);
    return most;
}

/* The maximum of whole vectors up to n, in four chains. */
static float scan_max(const float *x, int64_t n)
{
    v16 m[4];
    UNROLLED (k, 4) m[k] = v16_all(-INFINITY);
    int64_t i = 0;
    for (; i + 4 * SCAN_LANES <= n; i += 4 * SCAN_LANES)
        UNROLLED (k, 4) m[k] = v16_max(v16_load(x + i + k * SCAN_LANES), m[k]);
    for (; i < n; i += SCAN_LANES) m[0] = v16_max(v16_load(x + i), m[0]);
    return v16_most(v16_max(v16_max(m[0], m[1]), v16_max(m[2], m[3])));
}

static best_logit v_scan_best(const float *x, int64_t n)
{
    best_logit best = {0, -INFINITY};
    int64_t at = 0, whole = n / SCAN_LANES * SCAN_LANES;
    for (int64_t b = 0; b < whole; b += SCAN_BLOCK) {
        const float most = scan_max(x + b, whole - b < SCAN_BLOCK ? whole - b : SCAN_BLOCK);
        if (!(most > best.value)) continue;
        best.value = most;
        at = b;
    }
    if (best.value > -INFINITY) {
        while (x[at] != best.value) at++;
        best.id = (int32_t)at;
    }
    for (int64_t i = whole; i < n; i++)
        if (x[i] > best.value) best = (best_logit){(int32_t)i, x[i]};
    return best;
}

static float v_scan_take(const float *from, int64_t n, float *to)
{
    const v16 none = v16_all(-INFINITY);
    v16 most = none;
    int64_t i = 0;
    for (; i + SCAN_LANES <= n; i += SCAN_LANES) {
        const v16 x = v16_max(v16_load(from + i), none);
        v16_store(to + i, x);
        most = v16_max(x, most);
    }
    if (i < n) {
        const int rest = (int)(n - i);
        const v16 x = v16_pick(m16_range(0, rest), v16_max(v16_load_part(from + i, rest), none), none);
        v16_store(to + i, x);
        most = v16_max(x, most);
    }
    return v16_most(most);
}

static void v_scan_mask(const uint64_t *allowed, int64_t n, float *key)
{
    const v16 none = v16_all(-INFINITY);
    int64_t i = 0;
    for (; i + SCAN_LANES <= n; i += SCAN_LANES) {
        const unsigned bits = allowed[i / 64] >> i % 64 & 0xffff;
        if (bits == 0xffff) continue;
#if defined(__AVX512F__)
        v16_store(key + i, v16_pick((m16)bits, v16_load(key + i), none));
#else
        if (!bits) v16_store(key + i, none);
        for (int k = 0; k < SCAN_LANES && bits; k++)
            if (!(bits >> k & 1)) key[i + k] = -INFINITY;
#endif
    }
    for (; i < n; i++)
        if (!(allowed[i / 64] >> i % 64 & 1)) key[i] = -INFINITY;
}

static double v_scan_erase(const float *by, int64_t n, float low, float *key, float *w, float *sums)
{
    const v16 l = v16_all(low), none = v16_all(-INFINITY);
    double total = 0;
    for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
        v16 lane = v16_zero();
        for (int64_t i = b; i < scan_end(b, n); i += SCAN_LANES) {
            const m16 goes = v16_less(v16_load(by + i), l);
            const v16 left = v16_pick(goes, v16_zero(), v16_load(w + i));
            v16_store(key + i, v16_pick(goes, none, v16_load(key + i)));
            v16_store(w + i, left);
            lane = v16_add(lane, left);
        }
        total += (double)(sums[b / SCAN_BLOCK] = v16_fold(lane));
    }
    return total;
}

static double v_scan_weigh(float *key, int64_t n, float top, float scale, float *w, float *sums)
{
    const v16 t = v16_all(top), s = v16_all(scale);
    double total = 0;
    for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
        v16 lane = v16_zero();
        for (int64_t i = b; i < scan_end(b, n); i += SCAN_LANES) {
            v16 x = v16_mul(v16_sub(v16_load(key + i), t), s), e = v16_exp(x);
            v16_store(key + i, x);
            v16_store(w + i, e);
            lane = v16_add(lane, e);
        }
        total += (double)(sums[b / SCAN_BLOCK] = v16_fold(lane));
    }
    return total;
}

static double v_scan_sum(const float *w, const float *by, int64_t n, float *sums)
{
    const v16 least = v16_all(FM_EXP_MIN);
    double total = 0;
    for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
        v16 lane = v16_zero();
        for (int64_t i = b; i < scan_end(b, n); i += SCAN_LANES)
            lane = by ? v16_fma(v16_load(w + i), v16_max(v16_load(by + i), least), lane)
                      : v16_add(lane, v16_load(w + i));
        total += (double)(sums[b / SCAN_BLOCK] = v16_fold(lane));
    }
    return total;
}

static void v_scan_above(const float *key, const float *w, int64_t n, const float level[SCAN_LEVELS],
                         double mass[SCAN_LEVELS], int64_t count[SCAN_LEVELS])
{
    v16 l[SCAN_LEVELS];
    UNROLLED (k, SCAN_LEVELS) {
        l[k] = v16_all(level[k]);
        mass[k] = 0;
        count[k] = 0;
    }
    for (int64_t b = 0; b < n; b += SCAN_BLOCK) {
        v16 m[SCAN_LEVELS];
        UNROLLED (k, SCAN_LEVELS) m[k] = v16_zero();
        for (int64_t i = b; i < scan_end(b, n); i += SCAN_LANES) {
            v16 x = v16_load(key + i), y = v16_load(w + i);
            UNROLLED (k, SCAN_LEVELS) {
                const m16 is = v16_at_least(x, l[k]);
                m[k] = v16_add_where(is, m[k], y);
                count[k] += __builtin_popcount(m16_bits(is));
            }
        }
        UNROLLED (k, SCAN_LEVELS) mass[k] += (double)v16_fold(m[k]);
    }
}

/* The lanes of `bits` of row i, to place `held`: sixteen elements may be written. */
INLINE void scan_put(const scan_columns *from, int64_t i, unsigned bits, const scan_columns *to, int64_t held)
{
#if defined(__AVX512F__)
    const __mmask16 m = (__mmask16)bits;
    const __m512i id = _mm512_loadu_si512(from->id + i);
    const v16 key = v16_load(from->key + i), w = v16_load(from->weight + i);
    v16_store(to->key + held, _mm512_maskz_compress_ps(m, key));
    v16_store(to->weight + held, _mm512_maskz_compress_ps(m, w));
    _mm512_storeu_si512(to->id + held, _mm512_maskz_compress_epi32(m, id));
#else
    for (; bits; bits &= bits - 1, held++) {
        const int64_t at = i + __builtin_ctz(bits);
        to->key[held] = from->key[at];
        to->weight[held] = from->weight[at];
        to->id[held] = from->id[at];
    }
#endif
}

static int64_t v_scan_keep(const float *by, int64_t n, float low, float high, const scan_columns *from,
                           const scan_columns *to)
{
    const v16 l = v16_all(low), h = v16_all(high);
    int64_t held = 0;
    for (int64_t i = 0; i < n; i += SCAN_LANES) {
        const v16 x = v16_load(by + i);
        unsigned bits = m16_bits(v16_at_least(x, l)) & m16_bits(v16_less(x, h));
        if (n - i < SCAN_LANES) bits &= (1u << (n - i)) - 1;
        if (!bits) continue;
        scan_put(from, i, bits, to, held);
        held += __builtin_popcount(bits);
    }
    for (int64_t i = held; i % SCAN_LANES; i++) {
        to->key[i] = -INFINITY;
        to->weight[i] = 0;
        to->id[i] = 0;
    }
    return held;
}

static void v_scan_bends(const float *x, int64_t n, float *to)
{
    const int64_t whole = n / SCAN_LANES * SCAN_LANES;
    for (int64_t i = 0; i < whole; i += SCAN_LANES) {
        const v16 a = v16_load(x + i), b = v16_load(x + i + 1), c = v16_load(x + i + 2);
        v16_store(to + i, v16_abs(v16_sub(v16_sub(a, b), v16_sub(b, c))));
    }
    scan_reference.bends(x + whole, n - whole, to + whole);
}

static void v_scan_distance(const float *key, int64_t n, float from, float *to)
{
    const v16 f = v16_all(from);
    for (int64_t i = 0; i < n; i += SCAN_LANES) v16_store(to + i, v16_neg(v16_abs(v16_sub(v16_load(key + i), f))));
}

static const scan_ops v_scan = {v_scan_best,  v_scan_take,  v_scan_mask, v_scan_weigh, v_scan_sum,
                                v_scan_above, v_scan_erase, v_scan_keep, v_scan_bends, v_scan_distance};
