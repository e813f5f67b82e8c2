/* v_attn_ints.h - ATTN over a cache of i16 on sixteen lanes; definition: def_attn.c, layout and bounds: kv_codes.h.
 *
 * Both products are sums of pairs: two elements of a key side by side, the next key in the next lane; two keys' values
 * of an element side by side, the next element in the next lane. The rest is as in v_attn_codes.h.
 *
 * Cost of a line and 64 keys of 64 elements, two multiplications of 512 bits a cycle: 128 cycles of products, 12 of
 * multiplications of scores and sums, about as many of softmax; floats take 256 for products. */
#pragma once
#include "cpu/simd/v_attn_codes.h"

/* `steps` pairs of a times those of each line of b. Strides in bytes: from pair to pair of a, from line to line of b.
 * Half as many bytes of `ahead` as of a are prefetched meanwhile. */
typedef struct int_pairs {
    const uint8_t *a, *b, *ahead;
    int64_t a_stride, b_stride, steps;
} int_pairs;

/* out[line][w]: sixteen lanes of sums, for each of `wide` vectors of a. Weights that are due (or NULL) are computed
 * meanwhile. */
#if defined(__aarch64__)
INLINE void int_sums(int lines, int wide, int_pairs j, code_due *due, v16 (*out)[4])
{
    for (int w = 0; w < 2 * wide; w++) { /* eight lanes */
        const uint8_t *at = j.a + 32 * w, *next = j.ahead + 16 * w;
        int32x4_t sum[CODE_LINES][4];
        UNROLLED (l, lines)
            UNROLLED (i, 4) sum[l][i] = vdupq_n_s32(0);
        if (due && w % 2) due_turn(16, due);
        for (int64_t g = 0; g < j.steps; g++, at += j.a_stride, next += j.a_stride / 2) {
            if (w % 4 == 0) prefetch_near(next);
            int16x8_t x = vld1q_s16((const int16_t *)(const void *)at),
                      y = vld1q_s16((const int16_t *)(const void *)at + 8);
            UNROLLED (l, lines) {
                int16x8_t p = vreinterpretq_s16_s32(vdupq_n_s32(code_four(j.b + l * j.b_stride + 4 * g)));
                sum[l][0] = vmlal_s16(sum[l][0], vget_low_s16(x), vget_low_s16(p));
                sum[l][1] = vmlal_high_s16(sum[l][1], x, p);
                sum[l][2] = vmlal_s16(sum[l][2], vget_low_s16(y), vget_low_s16(p));
                sum[l][3] = vmlal_high_s16(sum[l][3], y, p);
            }
        }
        UNROLLED (l, lines) {
            float *to = (float *)&out[l][w / 2] + 8 * (w % 2);
            vst1q_f32(to, vcvtq_f32_s32(vpaddq_s32(sum[l][0], sum[l][1])));
            vst1q_f32(to + 4, vcvtq_f32_s32(vpaddq_s32(sum[l][2], sum[l][3])));
        }
    }
}
#elif defined(__AVX512F__)
INLINE void int_sums(int lines, int wide, int_pairs p, code_due *due, v16 (*out)[4])
{
    __m512i sum[CODE_LINES][4];
    UNROLLED (l, lines)
        UNROLLED (w, wide) sum[l][w] = _mm512_setzero_si512();
    int64_t g = 0;
    while (g < p.steps) {
        weight_steps r;
        for (int64_t stop = due && g + 4 < p.steps ? g + 4 : p.steps; g < stop;
             g++, p.a += p.a_stride, p.ahead += p.a_stride / 2) {
            fetch(p.ahead, 32 * wide);
            code_group(16, lines, wide, p.a, p.b + 4 * g, p.b_stride, sum, (code_turn){0});
        }
        if (!due || due->at >= due->n || g + 4 > p.steps) continue;
        UNROLL for (int n = 0; n < 4; n++, g++, p.a += p.a_stride, p.ahead += p.a_stride / 2)
        {
            fetch(p.ahead, 32 * wide);
            code_group(16, lines, wide, p.a, p.b + 4 * g, p.b_stride, sum, (code_turn){n * lines * wide, &r, due});
        }
        due->at++;
    }
    UNROLLED (l, lines) {
        UNROLLED (w, wide) out[l][w] = _mm512_cvtepi32_ps(sum[l][w]);
    }
}
#else
/* In one step: the compiler would multiply by all lines before it adds, and spill. */
INLINE __m256i int_mad(__m256i sum, __m256i a, __m256i b)
{
#if defined(__AVXVNNI__)
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
    __m256i pairs;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(pairs) : "x"(a), "x"(b));
#endif
    return sum;
}
INLINE void int_sums(int lines, int wide, int_pairs j, code_due *due, v16 (*out)[4])
{
    for (int w = 0; w < wide; w++) {
        const uint8_t *at = j.a + 64 * w, *next = j.ahead + 32 * w;
        __m256i sum[CODE_LINES][2];
        if (due) due_turn(16, due);
        UNROLLED (l, lines) sum[l][0] = sum[l][1] = _mm256_setzero_si256();
        for (int64_t g = 0; g < j.steps; g++, at += j.a_stride, next += j.a_stride / 2) {
            if (w % 2 == 0) prefetch_near(next);
            __m256i x = CODE_LOAD(at), y = CODE_LOAD(at + 32);
            UNROLLED (l, lines) {
                __m256i p = _mm256_set1_epi32(code_four(j.b + l * j.b_stride + 4 * g));
                sum[l][0] = int_mad(sum[l][0], x, p);
                sum[l][1] = int_mad(sum[l][1], y, p);
            }
        }
        UNROLLED (l, lines) out[l][w] = V16(_mm256_cvtepi32_ps(sum[l][0]), _mm256_cvtepi32_ps(sum[l][1]));
    }
}
#endif

/* dots[line][key] of 64 keys. */
INLINE void int_dots(int lines, const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due, float *dots)
{
    enum { WIDE = PAGE_TOKENS / LANES };
    v16 sum[CODE_LINES][4], most[CODE_LINES];
    int_sums(lines, WIDE,
             (int_pairs){t->code, q, ahead, PAGE_TOKENS * 4, (int64_t)kv_query_bytes(t->f), t->f->padded / 2}, due,
             sum);
    UNROLLED (w, WIDE) {
        v16 scale = v16_load(t->scale + w * LANES);
        UNROLLED (l, lines) {
            v16 s = v16_mul(sum[l][w], scale);
            v16_store(dots + l * PAGE_TOKENS + w * LANES, s);
            most[l] = w ? v16_max(s, most[l]) : s;
        }
    }
    UNROLL for (int l = lines; l < 4; l++) most[l] = most[0];
    if (lines > 4) due_tops(lines, dots, due);
    else if (due->tops) tops_store(0, v16_max_four(most[0], most[1], most[2], most[3]), due);
}

/* acc[line][element] = acc * keep + weights times integers for `wide` vectors of elements. */
INLINE void int_values(int lines, int wide, const uint8_t *ints, int64_t stride, const uint8_t *ahead, code_into to)
{
    const code_batch *w = to.w;
    v16 sum[CODE_LINES][4];
    const int_pairs p = {ints, (const uint8_t *)w->weight[to.l0], ahead, stride, sizeof w->weight[0], PAGE_TOKENS / 2};
    int_sums(lines, wide, p, NULL, sum);
    UNROLLED (l, lines) {
        UNROLLED (i, wide) {
            float *acc = to.acc + l * to.stride + i * LANES;
            v16 old = v16_mul(v16_load(acc), v16_all(w->keep[to.l0 + l]));
            v16_store(acc, v16_fma(sum[l][i], v16_all(w->scale[to.l0 + l]), old));
        }
    }
}

#define INT_VALUES(lines, wide)                                                                                        \
    static void int_values_##lines##_##wide(const uint8_t *ints, int64_t stride, const uint8_t *ahead, code_into to)   \
    {                                                                                                                  \
        int_values(lines, wide, ints, stride, ahead, to);                                                              \
    }
#define INT_FNS(lines)                                                                                                 \
    static void int_dots_##lines(const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due,             \
                                 float *dots)                                                                          \
    {                                                                                                                  \
        int_dots(lines, t, q, ahead, due, dots);                                                                       \
    }                                                                                                                  \
    INT_VALUES(lines, 1)                                                                                               \
    INT_VALUES(lines, 2) INT_VALUES(lines, 4)
#define INT_EACH INT_FNS(1) INT_FNS(2) INT_FNS(3) INT_FNS(4) INT_FNS(5) INT_FNS(6)
INT_EACH
#define INT_WIDTHS(lines)                                                                                              \
    {                                                                                                                  \
        int_values_##lines##_1, int_values_##lines##_2, int_values_##lines##_4                                         \
    }
static const code_dots_fn int_dots_of[] = {int_dots_1, int_dots_2, int_dots_3, int_dots_4, int_dots_5, int_dots_6};
static const code_values_fn int_values_of[CODE_LINES][3] = {INT_WIDTHS(1), INT_WIDTHS(2), INT_WIDTHS(3),
                                                            INT_WIDTHS(4), INT_WIDTHS(5), INT_WIDTHS(6)};

/* acc = acc * keep + weights times the values of block `block`, for n <= CODE_LINES lines. Half as much of the tile
 * `ahead` is prefetched meanwhile. */
static void code_add(const kv_codes *f, const uint8_t *tile, int64_t block, int n, const uint8_t *ahead, code_into to)
{
    const code_values_fn *values = (f->bits == 16  ? int_values_of
                                    : f->bits == 8 ? code_values_8
                                                   : code_values_4)[n - 1];
    const int64_t element = f->bits == 4 ? 2 : 4, stride = f->padded * element; /* bytes of a pair, or of four */
    int64_t d = block * f->block, end = d + f->block < to.stride ? d + f->block : to.stride;
    to.acc += d;
    for (int wide; d < end; d += wide * LANES, to.acc += wide * LANES) {
        int vectors = (int)((end - d) / LANES);
        wide = vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
        values[wide / 2](tile + d * element, stride, ahead + d * element / 2, to);
    }
}

/* kv_query_encode of i16. */
static void query_ints(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    float top = dim % LANES ? NAN : v16_max_magnitude(x, (int)dim);
    if (!(top < INFINITY)) {
        kv_query_encode(f, x, dim, by, q);
        return;
    }
    v16 inverse = v16_all(top >= KV_TINY ? (float)f->query / top : 0);
    *q.scale = (top >= KV_TINY ? top / f->query_unit : 0) * by;
    for (int64_t i = 0; i < dim; i += LANES)
        v16_store_int(q.word + i, v16_fma(v16_load(x + i), inverse, v16_all(FM_ROUND)));
}
