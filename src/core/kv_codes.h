/* kv_codes.h - a quantized cache (core/kv_type.h): how a block is quantized, and the layout of codes and scales in a
 * tile.
 *
 * A tile holds PAGE_TOKENS tokens of one head so that the multiplier of bytes in groups of four needs no horizontal
 * sum. Keys: four elements of a key side by side, then the next key; sixteen keys are one vector. Values: four tokens
 * of an element side by side, then the next element. In q4 the high nibble holds the next vector of elements: 4
 * elements on for keys, 16 for values. In i16 there are two of 16 bits side by side instead of four. Scales
 * [block][token] follow the codes, then bases, as f16.
 *
 * No sum overflows. Of i16 a score sums k_dim products of at most KEY_TOP * query, query = (2^31 - 1) / (KEY_TOP *
 * k_dim) or 32767: 8194 for 64 elements, 512 for 1024. A value sums 64 products of at most VALUE_TOP * WORD_TOP, in
 * all 2^31 - 2^17. */
#pragma once
#include "base/fmath.h"
#include "base/half.h"
#include "core/kv_type.h"

#include <math.h>
#include <string.h>

/* The maximum codes of i16. Weights times scales of values become bytes or words of 16 bits: at the maximum scale, a
 * number of 15 bits, weight 1 becomes 255, or half of that number. Bases of values are scaled so that the maximum is
 * BASE_TOP: sums of 64 fit 32 bits. */
enum { KEY_TOP = 4095, VALUE_TOP = 2047, BYTE_TOP = 32640, WORD_TOP = 16383, BASE_TOP = 1023 };

typedef struct kv_codes {
    int bits;
    bool base;         /* element = code * scale + base, codes from 0; else codes are signed */
    int64_t block;     /* elements */
    int64_t blocks;    /* of a head */
    int64_t padded;    /* elements of a head that have codes */
    int64_t bytes;     /* of codes in a tile */
    int top;           /* i16: the code of an element that equals its scale */
    int query;         /* keys: the maximum code of a query, */
    float query_unit;  /* and products of codes in a product of maximum query and scale */
    int weight_top;    /* values: the number that stands for the maximum scale, */
    float weight_unit; /* and products of codes in a product of weight 1 and maximum scale */
} kv_codes;

static inline kv_codes kv_codes_of(dtype t, int64_t dim, bool values)
{
    kv_codes f = {.bits = kv_bits(t), .block = kv_block(t, dim), .blocks = kv_blocks(t, dim)};
    f.base = f.bits == 4 || (f.bits == 8 && !values);
    f.bytes = (int64_t)kv_code_bytes(t, dim, values);
    f.padded = kv_padded(t, dim, values);
    f.query = 127;
    f.query_unit = 127;
    f.weight_top = BYTE_TOP;
    f.weight_unit = 255;
    if (f.bits < 16) return f;
    int64_t most = INT32_MAX / (KEY_TOP * dim); /* of a query's codes */
    f.top = values ? VALUE_TOP : KEY_TOP;
    f.query = most < INT16_MAX ? (int)most : INT16_MAX;
    f.query_unit = (float)f.query * KEY_TOP;
    f.weight_top = WORD_TOP;
    f.weight_unit = (float)WORD_TOP * VALUE_TOP;
    return f;
}

/* Elements of block b. */
static inline int kv_block_size(const kv_codes *f, int64_t dim, int64_t b)
{
    return (int)(dim - b * f->block < f->block ? dim - b * f->block : f->block);
}

static inline uint16_t *kv_scales(const kv_codes *f, uint8_t *tile) { return (uint16_t *)(void *)(tile + f->bytes); }
static inline uint16_t *kv_bases(const kv_codes *f, uint8_t *tile)
{
    return kv_scales(f, tile) + f->blocks * PAGE_TOKENS;
}

/* The byte that holds element d of a token, and the shift within it. */
static inline int64_t kv_key_at(const kv_codes *f, int64_t d, int token, int *shift)
{
    int64_t group = d / 4;
    if (f->bits == 16) return *shift = 0, (d / 2 * PAGE_TOKENS + token) * 4 + d % 2 * 2;
    *shift = f->bits == 4 ? (int)(group % 2) * 4 : 0;
    return ((f->bits == 4 ? group / 2 : group) * PAGE_TOKENS + token) * 4 + d % 4;
}
static inline int64_t kv_value_at(const kv_codes *f, int64_t d, int token, int *shift)
{
    if (f->bits == 16) return *shift = 0, (token / 2 * f->padded + d) * 4 + token % 2 * 2;
    int64_t vector = d / 16, width = f->bits == 4 ? f->padded / 2 : f->padded;
    *shift = f->bits == 4 ? (int)(vector % 2) * 4 : 0;
    return (token / 4 * width + (f->bits == 4 ? vector / 2 : vector) * 16 + d % 16) * 4 + token % 4;
}

static inline void kv_code_put(const kv_codes *f, uint8_t *tile, bool values, int64_t d, int token, int code)
{
    int shift;
    uint8_t *at = tile + (values ? kv_value_at : kv_key_at)(f, d, token, &shift);
    int16_t word = (int16_t)code;
    if (f->bits == 16) memcpy(at, &word, 2);
    else *at = f->bits == 8 ? (uint8_t)code : (uint8_t)((*at & 15 << (4 - shift)) | code << shift);
}
static inline int kv_code_get(const kv_codes *f, const uint8_t *tile, bool values, int64_t d, int token)
{
    int shift;
    const uint8_t *at = tile + (values ? kv_value_at : kv_key_at)(f, d, token, &shift);
    int16_t word;
    if (f->bits == 16) return memcpy(&word, at, 2), word;
    uint8_t byte = *at;
    return f->bits == 4 ? byte >> shift & 15 : f->base ? byte : (int8_t)byte;
}

/* The definition of a block: n elements as codes, a scale and a base. An element that is not finite, or too large for
 * an f16 scale, makes the scale NaN, so that the result is NaN. */
static inline void kv_block_encode(const kv_codes *f, const float *x, int n, uint8_t *code, uint16_t *scale,
                                   uint16_t *base)
{
    float low = x[0], high = x[0], odd = 0, top = f->bits == 8 ? 255 : 15;
    for (int i = 0; i < n; i++) {
        low = fm_min(x[i], low);
        high = fm_max(x[i], high);
        odd = fmaf(x[i], 0, odd);
    }
    low = low + 0.0f; /* zeros without sign, in any order */
    high = high + 0.0f;
    if (!f->base) {
        high = fm_max(high, -low) + 0.0f;
        low = 0;
        top = 127;
    }
    *scale = f32_to_f16((high - low) / top);
    *base = f32_to_f16(low);
    float d = f16_to_f32(*scale), m = f16_to_f32(*base), inverse = d > 0 ? 1 / d : 0;
    bool bad = !(odd == 0 && d * 0 == 0 && m * 0 == 0);
    if (bad) *scale = 0x7e00;
    for (int i = 0; i < n; i++) {
        float c = bad ? 0 : rintf((x[i] - m) * inverse);
        c = fm_min(top, fm_max(f->base ? 0 : -top, c));
        code[i] = (uint8_t)(int)c;
    }
}

/* The same of i16: the scale is the maximum magnitude, rounded up; returns the factor from elements to codes, 0 where
 * all codes are 0. */
static inline float kv_int_scale(const kv_codes *f, const float *x, int64_t n, uint16_t *scale)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fm_max(fabsf(x[i]), most);
        odd = fmaf(x[i], 0, odd);
    }
    *scale = odd == 0 ? f32_to_f16(most) : 0x7e00;
    if (f16_to_f32(*scale) < most) ++*scale;
    float d = f16_to_f32(*scale);
    return d > 0 && d * 0 == 0 ? (float)f->top / d : 0;
}
static inline int kv_int(float x, float by) { return by > 0 ? (int)(fmaf(x, by, FM_ROUND) - FM_ROUND) : 0; }

/* One head of one token into a tile. */
static inline void kv_token_put(const kv_codes *f, uint8_t *tile, bool values, const float *x, int64_t dim, int token)
{
    if (f->bits == 16) {
        float by = kv_int_scale(f, x, dim, &kv_scales(f, tile)[token]);
        for (int64_t i = 0; i < dim; i++) kv_code_put(f, tile, values, i, token, kv_int(x[i], by));
        return;
    }
    for (int64_t b = 0; b < f->blocks; b++) {
        uint8_t code[64];
        uint16_t base;
        int n = kv_block_size(f, dim, b);
        kv_block_encode(f, x + b * f->block, n, code, &kv_scales(f, tile)[b * PAGE_TOKENS + token], &base);
        if (f->base) kv_bases(f, tile)[b * PAGE_TOKENS + token] = base;
        for (int i = 0; i < n; i++) kv_code_put(f, tile, values, b * f->block + i, token, code[i]);
    }
    for (int64_t d = dim; d < f->padded; d++) kv_code_put(f, tile, values, d, token, 0);
}

/* ---- attention over codes: definitions (part (d) of the arithmetic contract, see def_attn.c) */

/* A query as codes: int8, for i16 int16, with one scale, which includes the scale of scores. */
typedef struct kv_query {
    int8_t *code;  /* [padded] */
    int16_t *word; /* the same place */
    float *scale;
    float *sum; /* [blocks of the keys] of the block's codes; not of i16 */
} kv_query;

/* Bytes of the codes of a query. */
static inline int64_t kv_query_codes(const kv_codes *f) { return f->bits == 16 ? f->padded * 2 : f->padded; }
static inline uint64_t kv_query_bytes(const kv_codes *f) { return (uint64_t)(kv_query_codes(f) + 4 + f->blocks * 4); }
static inline kv_query kv_query_at(const kv_codes *f, uint8_t *memory)
{
    float *scale = (float *)(void *)(memory + kv_query_codes(f));
    return (kv_query){(int8_t *)memory, (int16_t *)(void *)memory, scale, scale + 1};
}

/* Codes of block b, with those that pad it. */
static inline int kv_block_codes(const kv_codes *f, int64_t b) { return kv_block_size(f, f->padded, b); }

/* The definition of a query x of `dim` elements; the scale times `by`. A tiny one is 0; one that is not finite has
 * scale NaN. */
#define KV_TINY 0x1p-100f
static inline void kv_query_encode(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < dim; i++) {
        most = fm_max(fabsf(x[i]), most);
        odd = fmaf(x[i], 0, odd);
    }
    bool bad = odd != 0, tiny = !(most >= KV_TINY);
    float inverse = bad || tiny ? 0 : (float)f->query / most;
    for (int64_t i = 0; i < f->padded; i++) {
        float v = i < dim && !bad ? x[i] : 0;
        if (f->bits == 16) q.word[i] = (int16_t)kv_int(v, inverse);
        else q.code[i] = (int8_t)rintf(v * inverse);
    }
    *q.scale = (bad ? NAN : tiny ? 0 : most / f->query_unit) * by;
    if (f->bits == 16) return;
    for (int64_t b = 0; b < f->blocks; b++) {
        int sum = 0;
        for (int i = 0; i < kv_block_codes(f, b); i++) sum += q.code[b * f->block + i];
        q.sum[b] = (float)sum;
    }
}

/* The weight of a key, 2^-15 each: 2^-(n / WEIGHT_STEPS), n steps of score below the maximum of the tile. 2^-f is a
 * parabola, to 1.1e-3 of its value (root mean square). A distance that is NaN or too large gives weight 0. */
enum { WEIGHT_BITS = 11, WEIGHT_STEPS = 1 << WEIGHT_BITS, WEIGHT_A = 32678, WEIGHT_B = 21749, WEIGHT_C = 5500 };
#define WEIGHT_UNITS (WEIGHT_STEPS * FM_LOG2E)    /* steps in a unit of score */
#define WEIGHT_UNIT  (0.69314718f / WEIGHT_STEPS) /* and the score of a step */
static inline int kv_weight(float steps)
{
    float n = rintf(steps);
    if (!(n >= 0 && n < 2147483648.0f)) return 0;
    uint32_t i = n < 32767 ? (uint32_t)n : 32767, f = i << (16 - WEIGHT_BITS) & 0xffff;
    uint32_t p = WEIGHT_A - (f * (WEIGHT_B - (f * WEIGHT_C >> 16)) >> 16);
    return (int)(p >> (i >> WEIGHT_BITS));
}

/* The steps of the maximum score, from which those of others are subtracted: `top` rounded up a little, so that no
 * distance is negative by rounding. */
static inline float kv_weight_from(float top) { return fmaf(fabsf(top), 0x1p-22f, top); }

/* A weight times the scale of its value, as a word of 16 bits or as a byte. */
static inline int kv_weight_word(int of, int scale) { return (of * scale + (1 << 14)) >> 15; }
static inline int kv_weight_byte(int of, int scale) { return (kv_weight_word(of, scale) + 64) >> 7; }
