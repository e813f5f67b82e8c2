/* v_attn_codes.h - ATTN over a cache of codes on sixteen lanes; definition: cpu_attn.c, layout: kv_codes.h.
 *
 * Both products of attention are multiplications of bytes in groups of four: codes of keys (unsigned) times those of a query, and weights
 * (unsigned) times codes of values. A register tile is up to CODE_LINES lines by 64 keys, or by the elements of a block of values.
 * Without a multiplier of bytes into words (AVX2) the unsigned side is taken as two nibbles, whose sums of pairs fit 16 bits. */
#ifndef CPU_V_ATTN_CODES_H
#define CPU_V_ATTN_CODES_H
#include "cpu/attn_plan.h"
#include "cpu/kv_codes.h"
#include "cpu/v16.h"

#include <string.h>

enum {
    CODE_LINES = 6,
    CODE_BATCH = 12,
    CODE_GROUPS = PAGE_TOKENS / 4,
    CODE_FLUSH = 8 /* pairs of products of a nibble that fit */
};

/* Fetches `bytes` (at compile time) at `at`; those beyond a tile are fetched for nothing. */
INLINE void fetch(const uint8_t *at, int bytes) { UNROLL for (int i = 0; i < bytes; i += 64) prefetch_near(at + i); }

/* One tile of keys, its scales and bases as floats [block][PAGE_TOKENS]. */
typedef struct key_tile {
    const kv_codes *f;
    const uint8_t *code;
    const float *scale, *base;
    bool bad; /* one of them is not finite */
} key_tile;

static key_tile key_tile_open(const kv_codes *f, const uint8_t *tile, float *space)
{
    const uint8_t *halves = tile + f->bytes;
    int64_t n = f->blocks * PAGE_TOKENS, all = f->base ? 2 * n : n;
    v16 odd = v16_zero();
    for (int64_t i = 0; i < all; i += LANES) {
        v16 v = v16_load_f16(halves + 2 * i);
        odd = v16_fma(v, v16_zero(), odd);
        v16_store(space + i, v);
    }
    return (key_tile){f, tile, space, space + n, !(v16_fold(odd) == 0)};
}

INLINE int32_t code_four(const void *codes) /* four codes as one word */
{
    int32_t v;
    memcpy(&v, codes, 4);
    return v;
}

/* kv_query_encode. */
static void query_encode(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    float top = dim % LANES ? NAN : v16_greatest(x, (int)dim);
    if (!(top < INFINITY)) {
        kv_query_encode(f, x, dim, by, q);
        return;
    }
    float inverse = top >= KV_TINY ? 127 / top : 0;
    *q.scale = (top >= KV_TINY ? top / 127 : 0) * by;
    v16 round = v16_all(FM_ROUND);
    for (int64_t b = 0; b < f->blocks; b++) {
        v16 total = v16_zero();
        for (int64_t i = b * f->block, end = i + kv_block_size(f, dim, b); i < end; i += LANES) {
            v16 v = v16_mul(v16_load(x + i), v16_all(inverse));
            total = v16_add(total, v16_sub(v16_add(v, round), round)); /* whole numbers: exact */
            b16_store(q.code + i, v16_i8(v));
        }
        q.sum[b] = v16_fold(total);
    }
}

/* What weights of keys a … b - 1 are multiplied by before they become bytes, and bases as numbers; what each is worth. */
typedef struct value_scales {
    int16_t up[PAGE_TOKENS], base[PAGE_TOKENS];
    float each, each_base;
} value_scales;

/* Lines between products and values: scores, then weights of 16 bits, then of bytes (of AVX2 low nibbles, then high ones). Numbers of each
 * line are kept as vectors, so that they are read as they were written: greatest score, where distances start, sum of weights,
 * what a byte is worth, sum of bases. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { WEIGHT_BYTES = 2 * PAGE_TOKENS };
#else
enum { WEIGHT_BYTES = PAGE_TOKENS };
#endif
typedef struct code_batch {
    _Alignas(64) float p[CODE_BATCH][PAGE_TOKENS];
    int16_t weight[CODE_BATCH][PAGE_TOKENS];
    uint8_t code[CODE_BATCH][WEIGHT_BYTES];
    float steps[LANES], from[LANES], sum[LANES], bases[LANES], odd[LANES], keep[LANES], take[LANES], scale[LANES],
        base[LANES];
    value_scales part[CODE_BATCH];
    const value_scales *of[CODE_BATCH];
} code_batch;

#if defined(__aarch64__)
#include "cpu/v_attn_codes_neon.h"
#elif defined(__AVX512F__)

#define CODE_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define CODE_LOW(v)  _mm512_and_si512(v, _mm512_set1_epi8(15))
#define CODE_HIGH(v) _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15))

/* 32 numbers of 16 bits, in an order of their own: half of what belongs to a tile's keys. */
typedef __m512i w32;
INLINE w32 w32_load(const void *p) { return CODE_LOAD(p); }
INLINE void w32_store(void *p, w32 a) { _mm512_storeu_si512(p, a); }
INLINE w32 w32_all(int n) { return _mm512_set1_epi16((short)n); }
INLINE w32 w32_round(v16 a, v16 b) { return _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b)); }
INLINE w32 w32_weight(w32 n) /* kv_weight of rounded steps */
{
    w32 f = _mm512_slli_epi16(n, 16 - WEIGHT_BITS);
    w32 p = _mm512_sub_epi16(w32_all(WEIGHT_B), _mm512_mulhi_epu16(f, w32_all(WEIGHT_C)));
    p = _mm512_sub_epi16(w32_all(WEIGHT_A), _mm512_mulhi_epu16(f, p));
    return _mm512_srlv_epi16(p, _mm512_srli_epi16(n, WEIGHT_BITS));
}
INLINE void w32_store_bytes(uint8_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_byte of 64 keys */
{
    /* shifts and additions cost nothing beside products; one more multiplication by 2^8 would */
    const w32 half = w32_all(64), order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    a = _mm512_srli_epi16(_mm512_add_epi16(_mm512_mulhrs_epi16(a, by_a), half), 7);
    b = _mm512_srli_epi16(_mm512_add_epi16(_mm512_mulhrs_epi16(b, by_b), half), 7);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(a, b)));
}
INLINE void w32_store_words(int16_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_word of 64 keys */
{
    const w32 order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi64(order, _mm512_mulhrs_epi16(a, by_a)));
    _mm512_storeu_si512(to + 32, _mm512_permutexvar_epi64(order, _mm512_mulhrs_epi16(b, by_b)));
}
typedef __m512i w32_sum; /* of pairs of products */
INLINE w32_sum w32_dot(w32 a, w32 b, w32 with_a, w32 with_b)
{
    return _mm512_add_epi32(_mm512_madd_epi16(a, with_a), _mm512_madd_epi16(b, with_b));
}
INLINE __m256i w32_fold8(w32_sum a)
{
    return _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
}

/* a += four products of bytes, u unsigned, s signed. Of the compiler's own, gcc 12 copies every sum before it adds to it. */
INLINE __m512i code_mad(__m512i a, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(u), "v"(s));
    return a;
}

/* dots[line][key] of 64 keys. */
INLINE void code_dots(int bits, int lines, const key_tile *t, const kv_query *q, float *dots)
{
    enum { WIDE = PAGE_TOKENS / LANES };
    const kv_codes *f = t->f;
    const uint8_t *at = t->code;
    for (int64_t b = 0, g = 0; b < f->blocks; b++) {
        __m512i a[CODE_LINES][WIDE], k[WIDE], high[WIDE];
        UNROLL for (int l = 0; l < lines; l++)
        {
            UNROLL for (int w = 0; w < WIDE; w++) a[l][w] = _mm512_setzero_si512();
        }
        for (int64_t end = g + kv_block_codes(f, b) / 4; g < end; g += 8 / bits, at += PAGE_TOKENS * 4) {
            UNROLL for (int w = 0; w < WIDE; w++)
            {
                k[w] = CODE_LOAD(at + 64 * w);
                if (bits == 8) continue;
                high[w] = CODE_HIGH(k[w]);
                k[w] = CODE_LOW(k[w]);
            }
            UNROLL for (int l = 0; l < lines; l++)
            {
                __m512i x = _mm512_set1_epi32(code_four(q[l].code + 4 * g));
                UNROLL for (int w = 0; w < WIDE; w++) a[l][w] = code_mad(a[l][w], k[w], x);
                if (bits == 8) continue;
                x = _mm512_set1_epi32(code_four(q[l].code + 4 * g + 4));
                UNROLL for (int w = 0; w < WIDE; w++) a[l][w] = code_mad(a[l][w], high[w], x);
            }
        }
        UNROLL for (int w = 0; w < WIDE; w++)
        {
            v16 scale = v16_load(t->scale + b * PAGE_TOKENS + w * LANES),
                base = v16_load(t->base + b * PAGE_TOKENS + w * LANES);
            UNROLL for (int l = 0; l < lines; l++)
            {
                float *to = dots + l * PAGE_TOKENS + w * LANES;
                v16 s = v16_fma(base, v16_all(q[l].sum[b]), b ? v16_load(to) : v16_zero());
                v16_store(to, v16_fma(_mm512_cvtepi32_ps(a[l][w]), scale, s));
            }
        }
    }
}

/* acc[line][element] = acc * keep + weights times codes [+ base] for `wide` vectors of elements. */
INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const code_batch *w, int l0,
                        float *acc, int64_t acc_stride)
{
    __m512i a[CODE_LINES][4], v[4];
    UNROLL for (int l = 0; l < lines; l++) { UNROLL for (int i = 0; i < wide; i++) a[l][i] = _mm512_setzero_si512(); }
    for (int g = 0; g < CODE_GROUPS; g++, code += stride) {
        UNROLL for (int i = 0; i < wide; i++)
        {
            if (bits == 8) v[i] = CODE_LOAD(code + 64 * i);
            else if (i % 2 == 0) v[i] = CODE_LOW(CODE_LOAD(code + 32 * i));
            else v[i] = CODE_HIGH(CODE_LOAD(code + 32 * (i - 1)));
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            __m512i p = _mm512_set1_epi32(code_four(w->code[l0 + l] + 4 * g));
            UNROLL for (int i = 0; i < wide; i++) a[l][i] = code_mad(a[l][i], p, v[i]);
        }
    }
    UNROLL for (int l = 0; l < lines; l++)
    {
        UNROLL for (int i = 0; i < wide; i++)
        {
            float *to = acc + l * acc_stride + i * LANES;
            v16 s = v16_mul(v16_load(to), v16_all(w->keep[l0 + l]));
            s = v16_fma(_mm512_cvtepi32_ps(a[l][i]), v16_all(w->scale[l0 + l]), s);
            v16_store(to, bits == 4 ? v16_add(s, v16_all(w->base[l0 + l])) : s);
        }
    }
}

#else

#define CODE_LOAD(p)      _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define CODE_LOW(v)       _mm256_and_si256(v, _mm256_set1_epi8(15))
#define CODE_HIGH(v)      _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15))

/* 32 numbers of 16 bits, in an order of their own: half of what belongs to a tile's keys. */
typedef struct w32 {
    __m256i lo, hi;
} w32;
#define W32_EACH(f, a, b) ((w32){f((a).lo, (b).lo), f((a).hi, (b).hi)})
INLINE w32 w32_load(const void *p) { return (w32){CODE_LOAD(p), CODE_LOAD((const uint8_t *)p + 32)}; }
INLINE void w32_store(void *p, w32 a)
{
    _mm256_storeu_si256(p, a.lo);
    _mm256_storeu_si256((__m256i *)p + 1, a.hi);
}
INLINE w32 w32_all(int n) { return (w32){_mm256_set1_epi16((short)n), _mm256_set1_epi16((short)n)}; }
INLINE w32 w32_round(v16 a, v16 b)
{
    return (w32){_mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)),
                 _mm256_packs_epi32(_mm256_cvtps_epi32(b.lo), _mm256_cvtps_epi32(b.hi))};
}
INLINE __m256i w32_half_weight(__m256i n)
{
    const __m256i even = _mm256_set1_epi32(0xffff);
    __m256i f = _mm256_slli_epi16(n, 16 - WEIGHT_BITS), count = _mm256_srli_epi16(n, WEIGHT_BITS);
    __m256i p = _mm256_mulhi_epu16(f, _mm256_set1_epi16(WEIGHT_C));
    p = _mm256_mulhi_epu16(f, _mm256_sub_epi16(_mm256_set1_epi16(WEIGHT_B), p));
    p = _mm256_sub_epi16(_mm256_set1_epi16((short)WEIGHT_A), p);
    __m256i low = _mm256_srlv_epi32(_mm256_and_si256(p, even), _mm256_and_si256(count, even));
    __m256i high = _mm256_srlv_epi32(_mm256_srli_epi32(p, 16), _mm256_srli_epi32(count, 16));
    return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}
INLINE w32 w32_weight(w32 n)
{
    return (w32){w32_half_weight(n.lo), w32_half_weight(n.hi)};
} /* kv_weight of rounded steps */
INLINE void w32_half_bytes(uint8_t *to, w32 a, w32 by)
{
    const w32 shift = w32_all(1 << 8), w = W32_EACH(_mm256_mulhrs_epi16, a, by);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const w32 c = W32_EACH(_mm256_mulhrs_epi16, w, shift);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(c.lo, c.hi), order);
    _mm256_storeu_si256((__m256i *)(void *)to, CODE_LOW(bytes));
    _mm256_storeu_si256((__m256i *)(void *)(to + PAGE_TOKENS), CODE_HIGH(bytes));
}
INLINE void w32_store_bytes(uint8_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_byte of 64 keys */
{
    w32_half_bytes(to, a, by_a);
    w32_half_bytes(to + 32, b, by_b);
}
INLINE void w32_half_words(int16_t *to, w32 a, w32 by)
{
    a = W32_EACH(_mm256_mulhrs_epi16, a, by);
    w32_store(to, (w32){_mm256_permute4x64_epi64(a.lo, 0xd8), _mm256_permute4x64_epi64(a.hi, 0xd8)});
}
INLINE void w32_store_words(int16_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_word of 64 keys */
{
    w32_half_words(to, a, by_a);
    w32_half_words(to + 32, b, by_b);
}
typedef __m256i w32_sum; /* of pairs of products */
INLINE w32_sum w32_dot(w32 a, w32 b, w32 with_a, w32 with_b)
{
    w32 x = W32_EACH(_mm256_madd_epi16, a, with_a), y = W32_EACH(_mm256_madd_epi16, b, with_b);
    return _mm256_add_epi32(_mm256_add_epi32(x.lo, x.hi), _mm256_add_epi32(y.lo, y.hi));
}
INLINE __m256i w32_fold8(w32_sum a) { return a; }

/* Sums of pairs in 16 bits to words. */
INLINE __m256i code_words(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

INLINE void code_dots(int bits, int lines, const key_tile *t, const kv_query *q, float *dots)
{
    const kv_codes *f = t->f;
    for (int w = 0; w < PAGE_TOKENS / 8; w++) { /* eight keys */
        const uint8_t *at = t->code + 32 * w;
        for (int64_t b = 0, g = 0; b < f->blocks; b++) {
            __m256i a[CODE_LINES];
            UNROLL for (int l = 0; l < lines; l++) a[l] = _mm256_setzero_si256();
            for (int64_t end = g + kv_block_codes(f, b) / 4; g < end;) {
                __m256i low[CODE_LINES], high[CODE_LINES];
                UNROLL for (int l = 0; l < lines; l++) low[l] = high[l] = _mm256_setzero_si256();
                for (int n = 0; n < CODE_FLUSH && g < end; n += 8 / bits, g += 8 / bits, at += PAGE_TOKENS * 4) {
                    __m256i k = CODE_LOAD(at), k0 = CODE_LOW(k), k1 = CODE_HIGH(k);
                    UNROLL for (int l = 0; l < lines; l++)
                    {
                        __m256i x = _mm256_set1_epi32(code_four(q[l].code + 4 * g));
                        low[l] = _mm256_add_epi16(low[l], _mm256_maddubs_epi16(k0, x));
                        if (bits == 4) x = _mm256_set1_epi32(code_four(q[l].code + 4 * g + 4));
                        high[l] = _mm256_add_epi16(high[l], _mm256_maddubs_epi16(k1, x));
                    }
                }
                UNROLL for (int l = 0; l < lines; l++)
                {
                    __m256i up = code_words(high[l]);
                    a[l] = _mm256_add_epi32(a[l], code_words(low[l]));
                    a[l] = _mm256_add_epi32(a[l], bits == 8 ? _mm256_slli_epi32(up, 4) : up);
                }
            }
            __m256 scale = _mm256_loadu_ps(t->scale + b * PAGE_TOKENS + w * 8),
                   base = _mm256_loadu_ps(t->base + b * PAGE_TOKENS + w * 8);
            UNROLL for (int l = 0; l < lines; l++)
            {
                float *to = dots + l * PAGE_TOKENS + w * 8;
                __m256 s = b ? _mm256_loadu_ps(to) : _mm256_setzero_ps();
                s = _mm256_fmadd_ps(base, _mm256_set1_ps(q[l].sum[b]), s);
                _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), scale, s));
            }
        }
    }
}

INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const code_batch *w, int l0,
                        float *acc, int64_t acc_stride)
{
    for (int i = 0; i < 2 * wide; i++) { /* eight elements */
        const uint8_t *at = code + (bits == 8 ? 32 * i : 64 * (i / 4) + 32 * (i % 2));
        __m256i a[CODE_LINES];
        UNROLL for (int l = 0; l < lines; l++) a[l] = _mm256_setzero_si256();
        for (int g = 0; g < CODE_GROUPS;) {
            __m256i low[CODE_LINES], high[CODE_LINES];
            UNROLL for (int l = 0; l < lines; l++) low[l] = high[l] = _mm256_setzero_si256();
            for (int n = 0; n < CODE_FLUSH; n++, g++, at += stride) {
                __m256i v = CODE_LOAD(at);
                if (bits == 4) v = i / 2 % 2 ? CODE_HIGH(v) : CODE_LOW(v);
                UNROLL for (int l = 0; l < lines; l++)
                {
                    __m256i p0 = _mm256_set1_epi32(code_four(w->code[l0 + l] + 4 * g)),
                            p1 = _mm256_set1_epi32(code_four(w->code[l0 + l] + PAGE_TOKENS + 4 * g));
                    low[l] = _mm256_add_epi16(low[l], _mm256_maddubs_epi16(p0, v));
                    high[l] = _mm256_add_epi16(high[l], _mm256_maddubs_epi16(p1, v));
                }
            }
            UNROLL for (int l = 0; l < lines; l++)
            {
                a[l] = _mm256_add_epi32(a[l], code_words(low[l]));
                a[l] = _mm256_add_epi32(a[l], _mm256_slli_epi32(code_words(high[l]), 4));
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            float *to = acc + l * acc_stride + i * 8;
            __m256 s = _mm256_mul_ps(_mm256_loadu_ps(to), _mm256_set1_ps(w->keep[l0 + l]));
            s = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), _mm256_set1_ps(w->scale[l0 + l]), s);
            _mm256_storeu_ps(to, bits == 4 ? _mm256_add_ps(s, _mm256_set1_ps(w->base[l0 + l])) : s);
        }
    }
}

#endif

#if !defined(__aarch64__)
/* Four sums, in order. */
INLINE v4 w32_fold_four(w32_sum a, w32_sum b, w32_sum c, w32_sum d)
{
    __m256i ab = _mm256_hadd_epi32(w32_fold8(a), w32_fold8(b)), cd = _mm256_hadd_epi32(w32_fold8(c), w32_fold8(d));
    __m256i all = _mm256_hadd_epi32(ab, cd);
    return _mm_cvtepi32_ps(_mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}
#endif

typedef void (*code_dots_fn)(const key_tile *t, const kv_query *q, float *dots);
typedef void (*code_values_fn)(const uint8_t *code, int64_t stride, const code_batch *w, int l0, float *acc,
                               int64_t acc_stride);
#define CODE_FNS(bits, lines)                                                                                          \
    static void code_dots_##bits##_##lines(const key_tile *t, const kv_query *q, float *dots)                          \
    {                                                                                                                  \
        code_dots(bits, lines, t, q, dots);                                                                            \
    }                                                                                                                  \
    CODE_VALUES(bits, lines, 1)                                                                                        \
    CODE_VALUES(bits, lines, 2) CODE_VALUES(bits, lines, 4)
#define CODE_VALUES(bits, lines, wide)                                                                                 \
    static void code_values_##bits##_##lines##_##wide(const uint8_t *code, int64_t stride, const code_batch *w,        \
                                                      int l0, float *acc, int64_t acc_stride)                          \
    {                                                                                                                  \
        code_values(bits, lines, wide, code, stride, w, l0, acc, acc_stride);                                          \
    }
#define CODE_TYPE(bits)                                                                                                \
    CODE_FNS(bits, 1) CODE_FNS(bits, 2) CODE_FNS(bits, 3) CODE_FNS(bits, 4) CODE_FNS(bits, 5) CODE_FNS(bits, 6)
CODE_TYPE(8)
CODE_TYPE(4)
#define CODE_NAMES(bits)                                                                                               \
    {                                                                                                                  \
        code_dots_##bits##_1, code_dots_##bits##_2, code_dots_##bits##_3, code_dots_##bits##_4, code_dots_##bits##_5,  \
            code_dots_##bits##_6                                                                                       \
    }
#define CODE_WIDTHS(bits, lines)                                                                                       \
    {                                                                                                                  \
        code_values_##bits##_##lines##_1, code_values_##bits##_##lines##_2, code_values_##bits##_##lines##_4           \
    }
#define CODE_VALUE_NAMES(bits)                                                                                         \
    {                                                                                                                  \
        CODE_WIDTHS(bits, 1), CODE_WIDTHS(bits, 2), CODE_WIDTHS(bits, 3), CODE_WIDTHS(bits, 4), CODE_WIDTHS(bits, 5),  \
            CODE_WIDTHS(bits, 6)                                                                                       \
    }
static const code_dots_fn code_dots_8[] = CODE_NAMES(8), code_dots_4[] = CODE_NAMES(4);
static const code_values_fn code_values_8[CODE_LINES][3] = CODE_VALUE_NAMES(8),
                            code_values_4[CODE_LINES][3] = CODE_VALUE_NAMES(4);

/* Scales, or bases (`sign`), of keys a … b - 1 as numbers of 16 bits, `most_code` for the greatest. */
INLINE void scales_up(const uint16_t *half, int a, int b, bool sign, int most_code, int16_t *to, float *top, bool *bad)
{
    v16 x[PAGE_TOKENS / LANES], most = v16_zero(), odd = v16_zero();
    UNROLL for (int c = 0; c < PAGE_TOKENS / LANES; c++)
    {
        x[c] = v16_pick(m16_range(a - c * LANES, b - c * LANES), v16_load_f16(half + c * LANES), v16_zero());
        most = v16_max(sign ? v16_abs(x[c]) : x[c], most);
        odd = v16_fma(x[c], v16_zero(), odd);
    }
    *top = v16_max_lane(most);
    *bad = *bad || v16_fold(odd) != 0;
    v16 by = v16_all(*top > 0 && !*bad ? (float)most_code / *top : 0);
    UNROLL for (int c = 0; c < PAGE_TOKENS / LANES; c++) x[c] = *bad ? v16_zero() : v16_mul(x[c], by);
    w32_store(to, w32_round(x[0], x[1]));
    w32_store(to + PAGE_TOKENS / 2, w32_round(x[2], x[3]));
}

static void value_scales_of(const kv_codes *f, uint8_t *tile, int64_t block, int a, int b, value_scales *to)
{
    bool bad = false;
    float top;
    scales_up(kv_scales(f, tile) + block * PAGE_TOKENS, a, b, false, f->weight_top, to->up, &top, &bad);
    to->each = bad ? NAN : top / f->weight_unit;
    if (!f->base) return;
    scales_up(kv_bases(f, tile) + block * PAGE_TOKENS, a, b, true, BASE_TOP, to->base, &top, &bad);
    to->each_base = top * (0x1p-15f / BASE_TOP);
}

/* Scores of four lines (of the first n), from line l0 on, to weights: distances are from - score * by. Their sums, those of bases, and bytes
 * for the first block of the values, whose scales are w->of[line] (`words`: of i16, 16 bits instead). keep: the weights are wanted again. */
INLINE v4 four_weights(bool based, bool keep, bool words, int n, int l0, code_batch *w, const float *by, v4 *bases)
{
    w32_sum sums[4], base[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        const int l = l0 + (i < n ? i : 0);
        v16 times = v16_all(-by[l]), start = v16_all(w->from[l]), d[PAGE_TOKENS / LANES];
        UNROLL for (int c = 0; c < PAGE_TOKENS / LANES; c++)
            d[c] = v16_fma(v16_load(w->p[l] + c * LANES), times, start);
        w32 a = w32_weight(w32_round(d[0], d[1])), b = w32_weight(w32_round(d[2], d[3]));
        sums[i] = w32_dot(a, b, w32_all(1), w32_all(1));
        if (based) base[i] = w32_dot(a, b, w32_load(w->of[l]->base), w32_load(w->of[l]->base + PAGE_TOKENS / 2));
        w32 up_a = w32_load(w->of[l]->up), up_b = w32_load(w->of[l]->up + PAGE_TOKENS / 2);
        if (words) w32_store_words(w->weight[l0 + i], a, b, up_a, up_b);
        else w32_store_bytes(w->code[l0 + i], a, b, up_a, up_b);
        if (!keep || i >= n) continue;
        w32_store(w->weight[l], a);
        w32_store(w->weight[l] + PAGE_TOKENS / 2, b);
    }
    if (based) *bases = w32_fold_four(base[0], base[1], base[2], base[3]);
    return w32_fold_four(sums[0], sums[1], sums[2], sums[3]);
}

/* Weights of n lines to bytes for block `block` of the values, with scales `all`; line l sees keys a[l] … b[l] - 1, weights are 0 elsewhere
 * (a NULL: all). */
static void batch_bytes(const kv_codes *f, uint8_t *tile, int64_t block, const value_scales *all, int n, const int *a,
                        const int *b, code_batch *w)
{
    for (int l = 0; l < n; l++) {
        const value_scales *s = all;
        value_scales part;
        if (a && (a[l] > 0 || b[l] < PAGE_TOKENS)) {
            value_scales_of(f, tile, block, a[l], b[l], &part);
            s = &part;
        }
        w32 low = w32_load(w->weight[l]), high = w32_load(w->weight[l] + PAGE_TOKENS / 2);
        w32_store_bytes(w->code[l], low, high, w32_load(s->up), w32_load(s->up + PAGE_TOKENS / 2));
        w->scale[l] = s->each * w->take[l];
        if (!f->base) continue;
        w32_sum sum = w32_dot(low, high, w32_load(s->base), w32_load(s->base + PAGE_TOKENS / 2));
        float whole[4];
        v4_store(whole, w32_fold_four(sum, sum, sum, sum));
        w->base[l] = whole[0] * (s->each_base * w->take[l]);
    }
}

#endif
