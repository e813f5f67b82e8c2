/* v_attn_codes.h - ATTN over a cache of codes on sixteen lanes; definition: def_attn.c, layout: kv_codes.h.
 *
 * Both products of attention are multiplications of bytes in groups of four: codes of keys (unsigned) times those of a
 * query, and weights (unsigned) times codes of values. A register tile is up to KEY_LINES lines by 64 keys, or
 * CODE_LINES lines by the elements of a block of values. A line's scores become weights between products of other
 * lines (code_due). Without a multiplier of bytes into words (AVX2) the unsigned side is split into two nibbles, whose
 * sums of pairs fit 16 bits. */
#pragma once
#include "cpu/attn_plan.h"
#include "core/kv_codes.h"
#include "cpu/simd/v16.h"

#include <string.h>

enum {
    CODE_LINES = 6,
    KEY_LINES = V16S == 32 ? 4 : 6, /* of products with keys */
    CODE_BATCH = 12,
    CODE_GROUPS = PAGE_TOKENS / 4,
    CODE_FLUSH = 8 /* pairs of products of a nibble that fit */
};

/* Prefetches `bytes` (a compile-time constant) at `at`; bytes beyond a tile are harmless. */
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

INLINE float query_sum(const kv_codes *f, const uint8_t *q, int64_t block) /* kv_query.sum */
{
    float sum;
    memcpy(&sum, q + kv_query_codes(f) + 4 + 4 * block, 4);
    return sum;
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
    float top = dim % LANES ? NAN : v16_max_magnitude(x, (int)dim);
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

/* Scales of values as factors of the weights of keys a … b - 1, and bases as numbers; and the unit of each. */
typedef struct value_scales {
    int16_t up[PAGE_TOKENS], base[PAGE_TOKENS];
    float each, each_base;
} value_scales;

/* Lines between products and values: scores, then weights of 16 bits, then of bytes (of AVX2 low nibbles, then high
 * ones). Of each line: maximum score in steps of weights, start of distances, minus steps in a score, NaN where a
 * score is not finite, factors of old and new sums, unit of a byte, sum of bases. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { WEIGHT_BYTES = 2 * PAGE_TOKENS };
#else
enum { WEIGHT_BYTES = PAGE_TOKENS };
#endif
typedef struct code_batch {
    _Alignas(64) float p[CODE_BATCH][PAGE_TOKENS];
    int16_t weight[CODE_BATCH][PAGE_TOKENS];
    uint8_t code[CODE_BATCH][WEIGHT_BYTES];
    int32_t sums[CODE_BATCH][4], bases[CODE_BATCH][4]; /* of weights, of bases: in four parts */
    float steps[LANES], from[LANES], times[LANES], odd[LANES], keep[LANES], take[LANES], scale[LANES], base[LANES];
    value_scales part[CODE_BATCH];
    const value_scales *of[CODE_BATCH];
} code_batch;

/* Lines l0 … of a batch, and where their products with values are added: line by line, `stride` floats apart. */
typedef struct code_into {
    const code_batch *w;
    int l0;
    float *acc;
    int64_t stride;
} code_into;

/* Work to do along with products of keys and a batch. Meanwhile: scores of lines at … n - 1 of batch w become
 * weights, some or all. Afterwards, if `tops` is not NULL: the maximum score of each of its own lines goes there,
 * from line `top` on; `by`: steps of weights in a score of the first. */
typedef struct code_due {
    code_batch *w, *tops;
    const float *by;
    int at, n, top;
    bool keep; /* the weights are wanted again */
} code_due;
INLINE void due_turn(int bits, code_due *due);
INLINE void due_tops(int lines, const float *dots, const code_due *due);
INLINE void tops_store(int l, v4 top, const code_due *due);

#if defined(__aarch64__)
#include "cpu/simd/v_attn_codes_neon.h"
#elif defined(__AVX512F__)

#define CODE_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define CODE_LOW(v)  _mm512_and_si512(v, _mm512_set1_epi8(15))
#define CODE_HIGH(v) _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15))

/* 32 numbers of 16 bits, in an order of their own: for half of a tile's keys. */
typedef __m512i w32;
INLINE w32 w32_load(const void *p) { return CODE_LOAD(p); }
INLINE void w32_store(void *p, w32 a) { _mm512_storeu_si512(p, a); }
INLINE w32 w32_all(int n) { return _mm512_set1_epi16((short)n); }
INLINE w32 w32_round(v16 a, v16 b) { return _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b)); }
INLINE void w32_store_bytes(uint8_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_byte of 64 keys */
{
    /* shifts and additions cost nothing beside products; one more multiplication by 2^8 would */
    const w32 half = w32_all(64), order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    a = _mm512_srli_epi16(_mm512_add_epi16(_mm512_mulhrs_epi16(a, by_a), half), 7);
    b = _mm512_srli_epi16(_mm512_add_epi16(_mm512_mulhrs_epi16(b, by_b), half), 7);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(a, b)));
}
typedef __m512i w32_sum; /* of pairs of products */
INLINE w32_sum w32_dot(w32 a, w32 b, w32 with_a, w32 with_b)
{
    return _mm512_add_epi32(_mm512_madd_epi16(a, with_a), _mm512_madd_epi16(b, with_b));
}
INLINE s4 w32_fold4(w32_sum a)
{
    __m256i b = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
}

/* a += four products of bytes, u unsigned, s signed. Of the compiler's own, gcc 12 copies every sum before it adds to
 * it. */
INLINE __m512i code_mad(__m512i a, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(u), "v"(s));
    return a;
}

/* line_weights in 16 steps, to stand between products: as one block they would fill the processor's reorder window.
 * Constants come from memory, as sums have the registers. d are scores, n distances, p weights, `to` weights times
 * scales. */
typedef struct weight_steps {
    v16 d[4];
    w32 n[2], p[2], to[2];
    w32_sum sum;
} weight_steps;
typedef struct weight_numbers {
    _Alignas(64) uint16_t a[32], b[32], c[32], half[32];
    uint32_t low[16], bytes[16];
    uint64_t words[8];
} weight_numbers;
#define W32_EIGHT(x) x, x, x, x, x, x, x, x
#define W32_FULL(x)                                                                                                    \
    {                                                                                                                  \
        W32_EIGHT(x), W32_EIGHT(x), W32_EIGHT(x), W32_EIGHT(x)                                                         \
    }
static const weight_numbers weight_constants = {W32_FULL(WEIGHT_A),
                                                W32_FULL(WEIGHT_B),
                                                W32_FULL(WEIGHT_C),
                                                W32_FULL(64),
                                                {W32_EIGHT(0xffff), W32_EIGHT(0xffff)},
                                                {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15},
                                                {0, 2, 4, 6, 1, 3, 5, 7}};
INLINE void weight_step(int bits, int turn, weight_steps *r, int l, bool keep, code_batch *w)
{
    const weight_numbers *k = &weight_constants;
    const value_scales *s = w->of[l];
    const int h = turn % 2; /* half of the keys */
    __asm__("" : "+r"(k));  /* so that constants are not kept in registers */
    switch (turn / 2) {
    case 0:
        UNROLL for (int i = 2 * h; i < 2 * h + 2; i++)
            r->d[i] = v16_fma(v16_load(w->p[l] + i * LANES), v16_all(w->times[l]), v16_all(w->from[l]));
        break;
    case 1: r->n[h] = w32_round(r->d[2 * h], r->d[2 * h + 1]); break;
    case 2:
        r->to[h] = _mm512_slli_epi16(r->n[h], 16 - WEIGHT_BITS);
        r->p[h] = _mm512_sub_epi16(w32_load(k->b), _mm512_mulhi_epu16(r->to[h], w32_load(k->c)));
        break;
    case 3:
        r->p[h] = _mm512_mulhi_epu16(r->to[h], r->p[h]);
        r->n[h] = _mm512_srli_epi16(r->n[h], WEIGHT_BITS);
        break;
    case 4: r->p[h] = _mm512_srlv_epi16(_mm512_sub_epi16(w32_load(k->a), r->p[h]), r->n[h]); break;
    case 5:
        r->to[h] = _mm512_mulhrs_epi16(r->p[h], w32_load(s->up + 32 * h));
        if (h) r->sum = _mm512_add_epi16(r->p[0], r->p[1]); /* less than 2^16 each */
        break;
    case 6:
        if (bits == 16) w32_store(w->weight[l] + 32 * h, _mm512_permutexvar_epi64(w32_load(k->words), r->to[h]));
        else r->to[h] = _mm512_srli_epi16(_mm512_add_epi16(r->to[h], w32_load(k->half)), 7);
        if (h) r->sum = _mm512_add_epi32(_mm512_srli_epi32(r->sum, 16), _mm512_and_si512(r->sum, w32_load(k->low)));
        break;
    case 7:
        if (h == 0) s4_store(w->sums[l], w32_fold4(r->sum));
        if (h == 0 || bits == 16) break;
        w32_store(w->code[l], _mm512_permutexvar_epi32(w32_load(k->bytes), _mm512_packus_epi16(r->to[0], r->to[1])));
        if (bits == 4)
            s4_store(w->bases[l], w32_fold4(w32_dot(r->p[0], r->p[1], w32_load(s->base), w32_load(s->base + 32))));
        if (!keep) break;
        w32_store(w->weight[l], r->p[0]);
        w32_store(w->weight[l] + 32, r->p[1]);
    }
}
/* The steps of the line that is due, one every `each` products; `turn`: products so far. */
INLINE void due_step(int bits, int turn, int each, weight_steps *r, const code_due *due)
{
    if (turn % each == 0) weight_step(bits, turn / each, r, due->at, due->keep, due->w);
}
INLINE void line_weights(int bits, bool keep, int l, code_batch *w) /* as for other processors, below */
{
    weight_steps r;
    _Pragma("GCC unroll 16") for (int turn = 0; turn < 16; turn++) weight_step(bits, turn, &r, l, keep, w);
}

INLINE __m512i int_mad(__m512i sum, __m512i a, __m512i b) /* as code_mad, of pairs of integers of 16 bits */
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

/* Weights computed between products: step by step of the line that is due (NULL: none), after `n` products. */
typedef struct code_turn {
    int n;
    weight_steps *r;
    const code_due *due;
} code_turn;

/* Products of `wide` vectors of codes of 8 or 16 bits with four bytes of each line, added to a sum each; between them
 * steps of weights. */
INLINE void code_group(int bits, int lines, int wide, const uint8_t *code, const uint8_t *line, int64_t stride,
                       __m512i (*sum)[4], code_turn turn)
{
    __m512i k[4];
    UNROLLED (w, wide) k[w] = CODE_LOAD(code + 64 * w);
    UNROLLED (l, lines) {
        __m512i x = _mm512_set1_epi32(code_four(line + l * stride));
        UNROLLED (w, wide) {
            sum[l][w] = bits == 16 ? int_mad(sum[l][w], k[w], x) : code_mad(sum[l][w], k[w], x);
            if (turn.due) due_step(bits, turn.n + l * wide + w, lines, turn.r, turn.due);
        }
    }
}

/* dots[line][key] of 64 keys; queries (kv_query) follow one another. Half as many bytes of `ahead` are prefetched. */
INLINE void code_dots(int bits, int lines, const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due,
                      float *dots)
{
    enum { WIDE = PAGE_TOKENS / LANES };
    const kv_codes *f = t->f;
    const int64_t stride = (int64_t)kv_query_bytes(f);
    const uint8_t *at = t->code;
    for (int64_t b = 0, g = 0; b < f->blocks; b++) {
        __m512i a[CODE_LINES][WIDE], k[WIDE], high[WIDE];
        UNROLLED (l, lines) {
            UNROLLED (w, WIDE) a[l][w] = _mm512_setzero_si512();
        }
        int64_t end = g + kv_block_codes(f, b) / 4;
        while (bits == 8 && g + 4 <= end && due->at < due->n) {
            weight_steps r;
            UNROLL for (int n = 0; n < 4; n++, g++, at += PAGE_TOKENS * 4, ahead += PAGE_TOKENS * 2)
            {
                fetch(ahead, PAGE_TOKENS * 2);
                code_group(8, lines, WIDE, at, q + 4 * g, stride, a, (code_turn){n * lines * WIDE, &r, due});
            }
            due->at++;
        }
        while (g < end) {
            for (int64_t stop = g + 4 < end ? g + 4 : end; g < stop; g += 8 / bits) {
                fetch(ahead, PAGE_TOKENS * 2);
                if (bits == 8) code_group(8, lines, WIDE, at, q + 4 * g, stride, a, (code_turn){0});
                if (bits == 4)
                    UNROLLED (w, WIDE) {
                        k[w] = CODE_LOAD(at + 64 * w);
                        high[w] = CODE_HIGH(k[w]);
                        k[w] = CODE_LOW(k[w]);
                    }
                if (bits == 4)
                    UNROLLED (l, lines) {
                        __m512i x = _mm512_set1_epi32(code_four(q + l * stride + 4 * g));
                        UNROLLED (w, WIDE) a[l][w] = code_mad(a[l][w], k[w], x);
                        x = _mm512_set1_epi32(code_four(q + l * stride + 4 * g + 4));
                        UNROLLED (w, WIDE) a[l][w] = code_mad(a[l][w], high[w], x);
                    }
                at += PAGE_TOKENS * 4;
                ahead += PAGE_TOKENS * 2;
            }
            if (bits == 4) due_turn(4, due);
        }
        v16 most[CODE_LINES];
        UNROLLED (w, WIDE) {
            v16 scale = v16_load(t->scale + b * PAGE_TOKENS + w * LANES),
                base = v16_load(t->base + b * PAGE_TOKENS + w * LANES);
            UNROLLED (l, lines) {
                float *to = dots + l * PAGE_TOKENS + w * LANES;
                v16 s = v16_fma(base, v16_all(query_sum(f, q + l * stride, b)), b ? v16_load(to) : v16_zero());
                s = v16_fma(_mm512_cvtepi32_ps(a[l][w]), scale, s);
                v16_store(to, s);
                most[l] = w ? v16_max(s, most[l]) : s;
            }
        }
        UNROLL for (int l = lines; l < 4; l++) most[l] = most[0];
        if (due->tops && b == f->blocks - 1) tops_store(0, v16_max_four(most[0], most[1], most[2], most[3]), due);
    }
}

/* acc[line][element] = acc * keep + weights times codes [+ base] for `wide` vectors of elements. */
INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const uint8_t *ahead,
                        code_into to)
{
    const code_batch *w = to.w;
    __m512i a[CODE_LINES][4], v[4];
    UNROLLED (l, lines)
        UNROLLED (i, wide) a[l][i] = _mm512_setzero_si512();
    for (int g = 0; g < CODE_GROUPS; g++, code += stride, ahead += stride / 2) {
        fetch(ahead, bits * wide * 4);
        UNROLLED (i, wide) {
            if (bits == 8) v[i] = CODE_LOAD(code + 64 * i);
            else if (i % 2 == 0) v[i] = CODE_LOW(CODE_LOAD(code + 32 * i));
            else v[i] = CODE_HIGH(CODE_LOAD(code + 32 * (i - 1)));
        }
        UNROLLED (l, lines) {
            __m512i p = _mm512_set1_epi32(code_four(w->code[to.l0 + l] + 4 * g));
            UNROLLED (i, wide) a[l][i] = code_mad(a[l][i], p, v[i]);
        }
    }
    UNROLLED (l, lines) {
        UNROLLED (i, wide) {
            float *at_acc = to.acc + l * to.stride + i * LANES;
            v16 s = v16_mul(v16_load(at_acc), v16_all(w->keep[to.l0 + l]));
            s = v16_fma(_mm512_cvtepi32_ps(a[l][i]), v16_all(w->scale[to.l0 + l]), s);
            v16_store(at_acc, bits == 4 ? v16_add(s, v16_all(w->base[to.l0 + l])) : s);
        }
    }
}

#else

#define CODE_LOAD(p)      _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define CODE_LOW(v)       _mm256_and_si256(v, _mm256_set1_epi8(15))
#define CODE_HIGH(v)      _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15))

/* 32 numbers of 16 bits, in an order of their own: for half of a tile's keys. */
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
INLINE s4 w32_fold4(w32_sum a) { return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)); }

/* Sums of pairs in 16 bits to words. */
INLINE __m256i code_words(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

INLINE void code_dots(int bits, int lines, const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due,
                      float *dots)
{
    const kv_codes *f = t->f;
    const int64_t stride = (int64_t)kv_query_bytes(f);
    for (int w = 0; w < PAGE_TOKENS / 8; w++) { /* eight keys */
        if (w % 2) due_turn(bits, due);
        const uint8_t *at = t->code + 32 * w;
        for (int64_t b = 0, g = 0; b < f->blocks; b++) {
            __m256i a[CODE_LINES];
            UNROLLED (l, lines) a[l] = _mm256_setzero_si256();
            for (int64_t end = g + kv_block_codes(f, b) / 4; g < end;) {
                __m256i low[CODE_LINES], high[CODE_LINES];
                UNROLLED (l, lines) low[l] = high[l] = _mm256_setzero_si256();
                for (int n = 0; n < CODE_FLUSH && g < end; n += 8 / bits, g += 8 / bits, at += PAGE_TOKENS * 4) {
                    if (w % 4 == 0) prefetch_near(ahead + (at - t->code) / 2);
                    __m256i k = CODE_LOAD(at), k0 = CODE_LOW(k), k1 = CODE_HIGH(k);
                    UNROLLED (l, lines) {
                        __m256i x = _mm256_set1_epi32(code_four(q + l * stride + 4 * g));
                        low[l] = _mm256_add_epi16(low[l], _mm256_maddubs_epi16(k0, x));
                        if (bits == 4) x = _mm256_set1_epi32(code_four(q + l * stride + 4 * g + 4));
                        high[l] = _mm256_add_epi16(high[l], _mm256_maddubs_epi16(k1, x));
                    }
                }
                UNROLLED (l, lines) {
                    __m256i up = code_words(high[l]);
                    a[l] = _mm256_add_epi32(a[l], code_words(low[l]));
                    a[l] = _mm256_add_epi32(a[l], bits == 8 ? _mm256_slli_epi32(up, 4) : up);
                }
            }
            __m256 scale = _mm256_loadu_ps(t->scale + b * PAGE_TOKENS + w * 8),
                   base = _mm256_loadu_ps(t->base + b * PAGE_TOKENS + w * 8);
            UNROLLED (l, lines) {
                float *to = dots + l * PAGE_TOKENS + w * 8;
                __m256 s = b ? _mm256_loadu_ps(to) : _mm256_setzero_ps();
                s = _mm256_fmadd_ps(base, _mm256_set1_ps(query_sum(f, q + l * stride, b)), s);
                _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), scale, s));
            }
        }
    }
    due_tops(lines, dots, due);
}

INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const uint8_t *ahead,
                        code_into to)
{
    const code_batch *w = to.w;
    for (int i = 0; i < 2 * wide; i++) { /* eight elements */
        const uint8_t *at = code + (bits == 8 ? 32 * i : 64 * (i / 4) + 32 * (i % 2));
        __m256i a[CODE_LINES];
        UNROLLED (l, lines) a[l] = _mm256_setzero_si256();
        for (int g = 0; g < CODE_GROUPS;) {
            __m256i low[CODE_LINES], high[CODE_LINES];
            UNROLLED (l, lines) low[l] = high[l] = _mm256_setzero_si256();
            for (int n = 0; n < CODE_FLUSH; n++, g++, at += stride) {
                if (i % 4 == 0) prefetch_near(ahead + (at - code) / 2);
                __m256i v = CODE_LOAD(at);
                if (bits == 4) v = i / 2 % 2 ? CODE_HIGH(v) : CODE_LOW(v);
                UNROLLED (l, lines) {
                    __m256i p0 = _mm256_set1_epi32(code_four(w->code[to.l0 + l] + 4 * g)),
                            p1 = _mm256_set1_epi32(code_four(w->code[to.l0 + l] + PAGE_TOKENS + 4 * g));
                    low[l] = _mm256_add_epi16(low[l], _mm256_maddubs_epi16(p0, v));
                    high[l] = _mm256_add_epi16(high[l], _mm256_maddubs_epi16(p1, v));
                }
            }
            UNROLLED (l, lines) {
                a[l] = _mm256_add_epi32(a[l], code_words(low[l]));
                a[l] = _mm256_add_epi32(a[l], _mm256_slli_epi32(code_words(high[l]), 4));
            }
        }
        UNROLLED (l, lines) {
            float *at_acc = to.acc + l * to.stride + i * 8;
            __m256 s = _mm256_mul_ps(_mm256_loadu_ps(at_acc), _mm256_set1_ps(w->keep[to.l0 + l]));
            s = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), _mm256_set1_ps(w->scale[to.l0 + l]), s);
            _mm256_storeu_ps(at_acc, bits == 4 ? _mm256_add_ps(s, _mm256_set1_ps(w->base[to.l0 + l])) : s);
        }
    }
}

#endif

typedef void (*code_dots_fn)(const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due, float *dots);
typedef void (*code_values_fn)(const uint8_t *code, int64_t stride, const uint8_t *ahead, code_into to);
#define CODE_FNS(bits, lines)                                                                                          \
    static void code_dots_##bits##_##lines(const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due,   \
                                           float *dots)                                                                \
    {                                                                                                                  \
        code_dots(bits, lines, t, q, ahead, due, dots);                                                                \
    }                                                                                                                  \
    CODE_VALUES(bits, lines, 1)                                                                                        \
    CODE_VALUES(bits, lines, 2) CODE_VALUES(bits, lines, 4)
#define CODE_VALUES(bits, lines, wide)                                                                                 \
    static void code_values_##bits##_##lines##_##wide(const uint8_t *code, int64_t stride, const uint8_t *ahead,       \
                                                      code_into to)                                                    \
    {                                                                                                                  \
        code_values(bits, lines, wide, code, stride, ahead, to);                                                       \
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

/* Scales, or bases (`sign`), of keys a … b - 1 as numbers of 16 bits, `most_code` for the maximum. */
INLINE void scales_up(const uint16_t *half, int a, int b, bool sign, int most_code, int16_t *to, float *top, bool *bad)
{
    v16 x[PAGE_TOKENS / LANES], most = v16_zero(), odd = v16_zero();
    UNROLLED (c, PAGE_TOKENS / LANES) {
        x[c] = v16_pick(m16_range(a - c * LANES, b - c * LANES), v16_load_f16(half + c * LANES), v16_zero());
        most = v16_max(sign ? v16_abs(x[c]) : x[c], most);
        odd = v16_fma(x[c], v16_zero(), odd);
    }
    *top = v16_max_lane(most);
    *bad = *bad || v16_fold(odd) != 0;
    v16 by = v16_all(*top > 0 && !*bad ? (float)most_code / *top : 0);
    UNROLLED (c, PAGE_TOKENS / LANES) x[c] = *bad ? v16_zero() : v16_mul(x[c], by);
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

#if !defined(__AVX512F__)
/* Scores of a line become weights: distances are from + score * times. Also their sum, that of bases, and bytes for
 * the first block of values, whose scales are w->of[line] (i16: words). */
INLINE void line_weights(int bits, bool keep, int l, code_batch *w)
{
    const value_scales *s = w->of[l];
    v16 times = v16_all(w->times[l]), start = v16_all(w->from[l]), d[PAGE_TOKENS / LANES];
    UNROLLED (c, PAGE_TOKENS / LANES) d[c] = v16_fma(v16_load(w->p[l] + c * LANES), times, start);
    w32 a = w32_weight(w32_round(d[0], d[1])), b = w32_weight(w32_round(d[2], d[3]));
    w32 up_a = w32_load(s->up), up_b = w32_load(s->up + PAGE_TOKENS / 2);
    s4_store(w->sums[l], w32_fold4(w32_dot(a, b, w32_all(1), w32_all(1))));
    if (bits == 16) {
        w32_store_words(w->weight[l], a, b, up_a, up_b);
        return;
    }
    w32_store_bytes(w->code[l], a, b, up_a, up_b);
    if (bits == 4)
        s4_store(w->bases[l], w32_fold4(w32_dot(a, b, w32_load(s->base), w32_load(s->base + PAGE_TOKENS / 2))));
    if (!keep) return;
    w32_store(w->weight[l], a);
    w32_store(w->weight[l] + PAGE_TOKENS / 2, b);
}
#endif

/* The maximum of each of four lines of scores; of lines from n on any number. */
INLINE v4 four_top(int n, const float *p)
{
    v16 most[CODE_LINES];
    UNROLLED (i, 4) {
        const float *line = p + (i < n ? i : 0) * PAGE_TOKENS;
        most[i] = v16_all(-INFINITY);
        UNROLLED (c, PAGE_TOKENS / LANES) most[i] = v16_max(v16_load(line + c * LANES), most[i]);
    }
    return v16_max_four(most[0], most[1], most[2], most[3]);
}

/* Maximum scores of four lines in steps of weights, start of distances, minus steps in a score; `l`: counted from
 * due->top. */
INLINE void tops_store(int l, v4 top, const code_due *due)
{
    code_batch *w = due->tops;
    v4 times = v4_load(due->by + l), steps = v4_mul(top, times);
    v4_store(w->steps + due->top + l, steps);
    v4_store(w->from + due->top + l, v4_fma(v4_abs(steps), v4_all(0x1p-22f), steps));
    v4_store(w->times + due->top + l, v4_neg(times));
}
/* Of `lines` lines of scores, if they are wanted. */
INLINE void due_tops(int lines, const float *dots, const code_due *due)
{
    for (int l = 0; l < lines && due->tops; l += 4) tops_store(l, four_top(lines - l, dots + l * PAGE_TOKENS), due);
}

INLINE void due_turn(int bits, code_due *due)
{
    if (due->at >= due->n) return;
    line_weights(bits, due->keep, due->at, due->w);
    due->at++;
}
static void due_turn_of(int bits, code_due *due)
{
    if (bits == 4) due_turn(4, due);
    else if (bits == 8) due_turn(8, due);
    else due_turn(16, due);
}

/* Sums of four lines from parts. */
INLINE v4 fold_parts(const int32_t (*p)[4])
{
    return v4_of_s4(s4_pairs(s4_pairs(s4_load(p[0]), s4_load(p[1])), s4_pairs(s4_load(p[2]), s4_load(p[3]))));
}

/* Weights of n lines to bytes for block `block` of the values, with scales `all`; line l sees keys a[l] … b[l] - 1,
 * weights are 0 elsewhere (a NULL: all). */
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
        w->base[l] = (float)s4_fold(w32_fold4(sum)) * (s->each_base * w->take[l]);
    }
}
