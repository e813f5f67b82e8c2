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

enum { CODE_LINES = 6, CODE_GROUPS = PAGE_TOKENS / 4, CODE_FLUSH = 8 /* pairs of products of a nibble that fit */ };

/* What weights of keys a … b - 1 are multiplied by before they become bytes; what a byte is worth. */
INLINE float weights_up(const float *scale, int a, int b, float *up)
{
    v16 x[PAGE_TOKENS / LANES], most = v16_zero(), odd = v16_zero();
    UNROLL for (int c = 0; c < PAGE_TOKENS / LANES; c++)
    {
        x[c] = v16_pick(m16_range(a - c * LANES, b - c * LANES), v16_load(scale + c * LANES), v16_zero());
        most = v16_max(x[c], most);
        odd = v16_fma(x[c], v16_zero(), odd);
    }
    float top = v16_max_lane(most);
    bool bad = v16_fold(odd) != 0;
    float by = top > 0 && !bad ? WEIGHT_TOP / top : 0;
    UNROLL for (int c = 0; c < PAGE_TOKENS / LANES; c++)
        v16_store(up + c * LANES, bad ? v16_zero() : v16_mul(x[c], v16_all(by)));
    return bad ? NAN : top / WEIGHT_TOP;
}

/* One tile, its scales and bases as floats [block][PAGE_TOKENS]. */
typedef struct code_tile {
    const kv_codes *f;
    const uint8_t *code;
    const float *scale, *base;
    const float *up, *each; /* of values: weights_up of each block, for lines that see all keys */
} code_tile;

static code_tile code_tile_open(const kv_codes *f, const uint8_t *tile, bool values, float *space)
{
    const uint8_t *halves = tile + f->bytes;
    int64_t n = f->blocks * PAGE_TOKENS;
    for (int64_t i = 0; i < n * (1 + f->base); i += LANES) v16_store(space + i, v16_load_f16(halves + 2 * i));
    float *up = space + n * (1 + f->base), *each = up + n;
    for (int64_t b = 0; values && b < f->blocks; b++)
        each[b] = weights_up(space + b * PAGE_TOKENS, 0, PAGE_TOKENS, up + b * PAGE_TOKENS);
    return (code_tile){f, tile, space, space + n, up, each};
}

INLINE int32_t code_four(const void *codes) /* four codes as one word */
{
    int32_t v;
    memcpy(&v, codes, 4);
    return v;
}

/* kv_query_block for all blocks. */
static void query_encode(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    for (int64_t b = 0; b < f->blocks; b++) {
        const float *at = x + b * f->block;
        int n = kv_block_size(f, dim, b);
        int8_t *code = q.code + b * f->block;
        v16 most = v16_zero(), odd = v16_zero();
        for (int i = 0; i < n && n % LANES == 0; i += LANES) {
            v16 v = v16_load(at + i);
            most = v16_max(v16_abs(v), most);
            odd = v16_fma(v, v16_zero(), odd);
        }
        if (n % LANES || !(v16_fold(odd) == 0)) {
            kv_query_block(f, x, dim, b, by, q);
        } else {
            float top = v16_max_lane(most), inverse = top >= KV_TINY ? 127 / top : 0;
            v16 total = v16_zero(), round = v16_all(FM_ROUND);
            q.scale[b] = (top >= KV_TINY ? top / 127 : 0) * by;
            for (int i = 0; i < n; i += LANES) {
                v16 v = v16_mul(v16_load(at + i), v16_all(inverse));
                total = v16_add(total, v16_sub(v16_add(v, round), round)); /* whole numbers: exact */
                b16_store(code + i, v16_i8(v));
            }
            q.sum[b] = q.scale[b] * v16_fold(total);
        }
    }
}

/* Weights of all lines as bytes: [PAGE_TOKENS], of AVX2 low nibbles, then high ones; what a byte is worth, and sums of bases. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { WEIGHT_BYTES = 2 * PAGE_TOKENS };
#else
enum { WEIGHT_BYTES = PAGE_TOKENS };
#endif
typedef struct code_weights {
    _Alignas(64) uint8_t code[ATTN_LINES][WEIGHT_BYTES];
    float scale[ATTN_LINES], base[ATTN_LINES];
} code_weights;

INLINE void weights_store(uint8_t *to, v16 v) /* sixteen numbers from 0 to 255, rounded */
{
    b16 bytes = v16_u8(v);
#if defined(__AVX2__) && !defined(__AVX512F__)
    const __m128i nibble = _mm_set1_epi8(15);
    b16_store(to, _mm_and_si128(bytes, nibble));
    b16_store(to + PAGE_TOKENS, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
#else
    b16_store(to, bytes);
#endif
}

/* Exponentials p of n lines to bytes for block `block` of the values; line l sees keys a[l] … b[l] - 1, p is 0 elsewhere (a NULL: all). */
static void lines_weights(const code_tile *t, int64_t block, int n, const float *p, const int *a, const int *b,
                          const float *take, code_weights *w)
{
    const float *scale = t->scale + block * PAGE_TOKENS, *base = t->base + block * PAGE_TOKENS;
    float part[PAGE_TOKENS];
    for (int l = 0; l < n; l++, p += PAGE_TOKENS) {
        const float *up = t->up + block * PAGE_TOKENS;
        const bool whole = !a || (a[l] == 0 && b[l] == PAGE_TOKENS);
        if (!whole) up = part;
        w->scale[l] = (whole ? t->each[block] : weights_up(scale, a[l], b[l], part)) * take[l];
        UNROLL for (int c = 0; c < PAGE_TOKENS; c += LANES)
            weights_store(w->code[l] + c, v16_mul(v16_load(p + c), v16_load(up + c)));
        if (!t->f->base) continue;
        v16 sum = v16_zero();
        UNROLL for (int c = 0; c < PAGE_TOKENS; c += LANES)
        {
            v16 seen = v16_fma(v16_load(p + c), v16_load(base + c), sum);
            sum = whole ? seen : v16_pick(m16_range(a[l] - c, b[l] - c), seen, sum);
        }
        w->base[l] = v16_fold(sum) * take[l];
    }
}

#if defined(__AVX512F__)

#define CODE_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define CODE_LOW(v)  _mm512_and_si512(v, _mm512_set1_epi8(15))
#define CODE_HIGH(v) _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15))

/* a += four products of bytes, u unsigned, s signed. Of the compiler's own, gcc 12 copies every sum before it adds to it. */
INLINE __m512i code_mad(__m512i a, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(u), "v"(s));
    return a;
}

/* dots[line][key] of 64 keys. */
INLINE void code_dots(int bits, int lines, const code_tile *t, const kv_query *q, float *dots)
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
                v16 s = b ? v16_load(to) : v16_zero();
                s = v16_fma(_mm512_cvtepi32_ps(a[l][w]), v16_mul(scale, v16_all(q[l].scale[b])), s);
                s = v16_fma(base, v16_all(q[l].sum[b]), s);
                v16_store(to, s);
            }
        }
    }
}

/* acc[line][element] = acc * keep + weights times codes [+ base] for `wide` vectors of elements; lines from `l0` on. */
INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const code_weights *w,
                        int l0, const float *keep, float *acc, int64_t acc_stride)
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
            v16 s = v16_mul(v16_load(to), v16_all(keep[l0 + l]));
            s = v16_fma(_mm512_cvtepi32_ps(a[l][i]), v16_all(w->scale[l0 + l]), s);
            v16_store(to, bits == 4 ? v16_add(s, v16_all(w->base[l0 + l])) : s);
        }
    }
}

#elif defined(__aarch64__)
#include "cpu/v_attn_codes_neon.h"
#else

#define CODE_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define CODE_LOW(v)  _mm256_and_si256(v, _mm256_set1_epi8(15))
#define CODE_HIGH(v) _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15))

/* Sums of pairs in 16 bits to words. */
INLINE __m256i code_words(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

INLINE void code_dots(int bits, int lines, const code_tile *t, const kv_query *q, float *dots)
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
                s = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), _mm256_mul_ps(scale, _mm256_set1_ps(q[l].scale[b])), s);
                _mm256_storeu_ps(to, _mm256_fmadd_ps(base, _mm256_set1_ps(q[l].sum[b]), s));
            }
        }
    }
}

INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const code_weights *w,
                        int l0, const float *keep, float *acc, int64_t acc_stride)
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
            __m256 s = _mm256_mul_ps(_mm256_loadu_ps(to), _mm256_set1_ps(keep[l0 + l]));
            s = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[l]), _mm256_set1_ps(w->scale[l0 + l]), s);
            _mm256_storeu_ps(to, bits == 4 ? _mm256_add_ps(s, _mm256_set1_ps(w->base[l0 + l])) : s);
        }
    }
}

#endif

typedef void (*code_dots_fn)(const code_tile *t, const kv_query *q, float *dots);
typedef void (*code_values_fn)(const uint8_t *code, int64_t stride, const code_weights *w, int l0, const float *keep,
                               float *acc, int64_t acc_stride);
#define CODE_FNS(bits, lines)                                                                                          \
    static void code_dots_##bits##_##lines(const code_tile *t, const kv_query *q, float *dots)                         \
    {                                                                                                                  \
        code_dots(bits, lines, t, q, dots);                                                                            \
    }                                                                                                                  \
    CODE_VALUES(bits, lines, 1)                                                                                        \
    CODE_VALUES(bits, lines, 2) CODE_VALUES(bits, lines, 4)
#define CODE_VALUES(bits, lines, wide)                                                                                 \
    static void code_values_##bits##_##lines##_##wide(const uint8_t *code, int64_t stride, const code_weights *w,      \
                                                      int l0, const float *keep, float *acc, int64_t acc_stride)       \
    {                                                                                                                  \
        code_values(bits, lines, wide, code, stride, w, l0, keep, acc, acc_stride);                                    \
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

/* Products of n lines with a tile of keys, and the greatest of each lane. */
static void code_products(const code_tile *keys, int n, const kv_query *q, float *dots)
{
    (keys->f->bits == 8 ? code_dots_8 : code_dots_4)[n - 1](keys, q, dots);
}

/* acc = acc * keep + take * (exponentials p times values), for n lines; line i sees keys a[i] … b[i] - 1 (a NULL: all). */
static void code_add(const code_tile *values, int n, const float *p, const int *a, const int *b, const float *keep,
                     const float *take, float *acc, int64_t padded)
{
    const kv_codes *f = values->f;
    int64_t stride = f->bytes / CODE_GROUPS; /* codes of four tokens */
    code_weights w;
    for (int64_t block = 0; block < f->blocks; block++) {
        int64_t first = block * f->block, end = first + f->block < padded ? first + f->block : padded;
        lines_weights(values, block, n, p, a, b, take, &w);
        for (int l = 0, group; l < n; l += group) {
            int groups = (n - l + CODE_LINES - 1) / CODE_LINES;
            group = (n - l + groups - 1) / groups;
            for (int64_t d = first; d < end;) {
                int vectors = (int)((end - d) / LANES), wide = vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
                const code_values_fn *fns = (f->bits == 8 ? code_values_8 : code_values_4)[group - 1];
                fns[wide / 2](values->code + d * (f->bits == 8 ? 4 : 2), stride, &w, l, keep, acc + l * padded + d,
                              padded);
                d += wide * LANES;
            }
        }
    }
}

#endif
