/* v_attn_ints.h - ATTN over a cache of i16 on sixteen lanes; definition: cpu_attn.c, layout and bounds: kv_codes.h.
 *
 * Both products are sums of pairs: two elements of a key side by side, the next key in the next lane; two keys' values of an element side
 * by side, the next element in the next lane. The rest is what v_attn_codes.h does.
 *
 * Cost of a line and 64 keys of 64 elements, two multiplications of 512 bits a cycle: 128 cycles of products, 12 of multiplications of
 * scores and sums, about as many of softmax; floats take 256 for products. */
#ifndef CPU_V_ATTN_INTS_H
#define CPU_V_ATTN_INTS_H
#include "cpu/simd/v_attn_codes.h"

/* out[line][w]: sixteen lanes of sums over `steps` pairs, those of a at each of `wide` vectors times those of a line of b. Strides in bytes:
 * from pair to pair of a, from line to line of b. Half as much of `ahead` is fetched, and what is due (or NULL) done meanwhile. */
#if defined(__aarch64__)
INLINE void int_sums(int lines, int wide, const uint8_t *a, int64_t a_stride, int64_t steps, const uint8_t *b,
                     int64_t b_stride, const uint8_t *ahead, code_due *due, v16 (*out)[4])
{
    for (int w = 0; w < 2 * wide; w++) { /* eight lanes */
        const uint8_t *at = a + 32 * w, *next = ahead + 16 * w;
        int32x4_t sum[CODE_LINES][4];
        UNROLL for (int l = 0; l < lines; l++) { UNROLL for (int i = 0; i < 4; i++) sum[l][i] = vdupq_n_s32(0); }
        if (due && w % 2) due_turn(16, due);
        for (int64_t g = 0; g < steps; g++, at += a_stride, next += a_stride / 2) {
            if (w % 4 == 0) prefetch_near(next);
            int16x8_t x = vld1q_s16((const int16_t *)(const void *)at),
                      y = vld1q_s16((const int16_t *)(const void *)at + 8);
            UNROLL for (int l = 0; l < lines; l++)
            {
                int16x8_t p = vreinterpretq_s16_s32(vdupq_n_s32(code_four(b + l * b_stride + 4 * g)));
                sum[l][0] = vmlal_s16(sum[l][0], vget_low_s16(x), vget_low_s16(p));
                sum[l][1] = vmlal_high_s16(sum[l][1], x, p);
                sum[l][2] = vmlal_s16(sum[l][2], vget_low_s16(y), vget_low_s16(p));
                sum[l][3] = vmlal_high_s16(sum[l][3], y, p);
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            float *to = (float *)&out[l][w / 2] + 8 * (w % 2);
            vst1q_f32(to, vcvtq_f32_s32(vpaddq_s32(sum[l][0], sum[l][1])));
            vst1q_f32(to + 4, vcvtq_f32_s32(vpaddq_s32(sum[l][2], sum[l][3])));
        }
    }
}
#elif defined(__AVX512F__)
INLINE void int_sums(int lines, int wide, const uint8_t *a, int64_t a_stride, int64_t steps, const uint8_t *b,
                     int64_t b_stride, const uint8_t *ahead, code_due *due, v16 (*out)[4])
{
    __m512i sum[CODE_LINES][4];
    UNROLL for (int l = 0; l < lines; l++) { UNROLL for (int w = 0; w < wide; w++) sum[l][w] = _mm512_setzero_si512(); }
    int64_t g = 0;
    while (g < steps) {
        weight_steps r;
        for (int64_t stop = due && g + 4 < steps ? g + 4 : steps; g < stop; g++, a += a_stride, ahead += a_stride / 2) {
            fetch(ahead, 32 * wide);
            code_group(16, lines, wide, a, b + 4 * g, b_stride, sum, 0, NULL, NULL);
        }
        if (!due || due->at >= due->n || g + 4 > steps) continue;
        UNROLL for (int n = 0; n < 4; n++, g++, a += a_stride, ahead += a_stride / 2)
        {
            fetch(ahead, 32 * wide);
            code_group(16, lines, wide, a, b + 4 * g, b_stride, sum, n * lines * wide, &r, due);
        }
        due->at++;
    }
    UNROLL for (int l = 0; l < lines; l++)
    {
        UNROLL for (int w = 0; w < wide; w++) out[l][w] = _mm512_cvtepi32_ps(sum[l][w]);
    }
}
#else
/* As one step: the compiler would multiply by all lines before it adds, and lacks registers for that. */
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
INLINE void int_sums(int lines, int wide, const uint8_t *a, int64_t a_stride, int64_t steps, const uint8_t *b,
                     int64_t b_stride, const uint8_t *ahead, code_due *due, v16 (*out)[4])
{
    for (int w = 0; w < wide; w++) {
        const uint8_t *at = a + 64 * w, *next = ahead + 32 * w;
        __m256i sum[CODE_LINES][2];
        if (due) due_turn(16, due);
        UNROLL for (int l = 0; l < lines; l++) sum[l][0] = sum[l][1] = _mm256_setzero_si256();
        for (int64_t g = 0; g < steps; g++, at += a_stride, next += a_stride / 2) {
            if (w % 2 == 0) prefetch_near(next);
            __m256i x = CODE_LOAD(at), y = CODE_LOAD(at + 32);
            UNROLL for (int l = 0; l < lines; l++)
            {
                __m256i p = _mm256_set1_epi32(code_four(b + l * b_stride + 4 * g));
                sum[l][0] = int_mad(sum[l][0], x, p);
                sum[l][1] = int_mad(sum[l][1], y, p);
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
            out[l][w] = V16(_mm256_cvtepi32_ps(sum[l][0]), _mm256_cvtepi32_ps(sum[l][1]));
    }
}
#endif

/* dots[line][key] of 64 keys. */
INLINE void int_dots(int lines, const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due, float *dots)
{
    enum { WIDE = PAGE_TOKENS / LANES };
    v16 sum[CODE_LINES][4], most[CODE_LINES];
    int_sums(lines, WIDE, t->code, PAGE_TOKENS * 4, t->f->padded / 2, q, (int64_t)kv_query_bytes(t->f), ahead, due,
             sum);
    UNROLL for (int w = 0; w < WIDE; w++)
    {
        v16 scale = v16_load(t->scale + w * LANES);
        UNROLL for (int l = 0; l < lines; l++)
        {
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
INLINE void int_values(int lines, int wide, const uint8_t *ints, int64_t stride, const code_batch *w, int l0,
                       const uint8_t *ahead, float *acc, int64_t acc_stride)
{
    v16 sum[CODE_LINES][4];
    int_sums(lines, wide, ints, stride, PAGE_TOKENS / 2, (const uint8_t *)w->weight[l0], sizeof w->weight[0], ahead,
             NULL, sum);
    UNROLL for (int l = 0; l < lines; l++)
    {
        UNROLL for (int i = 0; i < wide; i++)
        {
            float *to = acc + l * acc_stride + i * LANES;
            v16 old = v16_mul(v16_load(to), v16_all(w->keep[l0 + l]));
            v16_store(to, v16_fma(sum[l][i], v16_all(w->scale[l0 + l]), old));
        }
    }
}

#define INT_VALUES(lines, wide)                                                                                        \
    static void int_values_##lines##_##wide(const uint8_t *ints, int64_t stride, const code_batch *w, int l0,          \
                                            const uint8_t *ahead, float *acc, int64_t acc_stride)                      \
    {                                                                                                                  \
        int_values(lines, wide, ints, stride, w, l0, ahead, acc, acc_stride);                                          \
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

/* acc = acc * keep + weights times the values of block `block`, for n <= CODE_LINES lines of a batch, from l on. Half as much of the tile
 * `ahead` is fetched meanwhile. */
static void code_add(const kv_codes *f, const uint8_t *tile, int64_t block, int l, int n, const code_batch *w,
                     const uint8_t *ahead, float *acc, int64_t padded)
{
    const code_values_fn *values = (f->bits == 16  ? int_values_of
                                    : f->bits == 8 ? code_values_8
                                                   : code_values_4)[n - 1];
    const int64_t element = f->bits == 4 ? 2 : 4, stride = f->padded * element; /* bytes of a pair, or of four */
    int64_t d = block * f->block, end = d + f->block < padded ? d + f->block : padded;
    while (d < end) {
        int vectors = (int)((end - d) / LANES), wide = vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
        values[wide / 2](tile + d * element, stride, w, l, ahead + d * element / 2, acc + d, padded);
        d += wide * LANES;
    }
}

/* kv_query_encode of i16. */
static void query_ints(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    float top = dim % LANES ? NAN : v16_greatest(x, (int)dim);
    if (!(top < INFINITY)) {
        kv_query_encode(f, x, dim, by, q);
        return;
    }
    v16 inverse = v16_all(top >= KV_TINY ? (float)f->query / top : 0);
    *q.scale = (top >= KV_TINY ? top / f->query_unit : 0) * by;
    for (int64_t i = 0; i < dim; i += LANES)
        v16_store_int(q.word + i, v16_fma(v16_load(x + i), inverse, v16_all(FM_ROUND)));
}

#endif
