/* kv_codes.h - a cache of codes (core/kv_type.h): what a block becomes, and where codes and scales lie in a tile.
 *
 * A tile holds PAGE_TOKENS tokens of one head so that the multiplier of bytes in groups of four needs no horizontal sum. Keys: four
 * elements of a key side by side, then the next key; sixteen keys are one vector. Values: four tokens of an element side by side, then the
 * next element. In q4 the high nibble holds the next vector of elements: 4 elements on for keys, 16 for values. Behind the codes
 * are scales [block][token], then bases, as f16. */
#ifndef CPU_KV_CODES_H
#define CPU_KV_CODES_H
#include "cpu/cpu.h"

#include "base/fmath.h"
#include "base/half.h"
#include "core/kv_type.h"

#include <math.h>

typedef struct kv_codes {
    int bits, block;
    bool base;      /* element = code * scale + base, codes from 0; else codes are signed */
    int64_t blocks; /* of a head */
    int64_t padded; /* elements of a head that have codes */
    int64_t bytes;  /* of codes in a tile */
} kv_codes;

static inline kv_codes kv_codes_of(dtype t, int64_t dim, bool values)
{
    kv_codes f = {.bits = t == DTYPE_Q8_B64 ? 8 : 4, .block = kv_block(t), .blocks = kv_blocks(t, dim)};
    f.base = f.bits == 4 || !values;
    f.bytes = (int64_t)kv_code_bytes(t, dim, values);
    f.padded = f.bytes / PAGE_TOKENS * (8 / f.bits);
    return f;
}

/* Elements of block b. */
static inline int kv_block_size(const kv_codes *f, int64_t dim, int64_t b)
{
    return dim - b * f->block < f->block ? (int)(dim - b * f->block) : f->block;
}

static inline uint16_t *kv_scales(const kv_codes *f, uint8_t *tile) { return (uint16_t *)(void *)(tile + f->bytes); }
static inline uint16_t *kv_bases(const kv_codes *f, uint8_t *tile)
{
    return kv_scales(f, tile) + f->blocks * PAGE_TOKENS;
}

/* Where element d of a token lies: the byte, and how far up in it. */
static inline int64_t kv_key_at(const kv_codes *f, int64_t d, int token, int *shift)
{
    int64_t group = d / 4;
    *shift = f->bits == 4 ? (int)(group % 2) * 4 : 0;
    return ((f->bits == 4 ? group / 2 : group) * PAGE_TOKENS + token) * 4 + d % 4;
}
static inline int64_t kv_value_at(const kv_codes *f, int64_t d, int token, int *shift)
{
    int64_t vector = d / 16, width = f->bits == 4 ? f->padded / 2 : f->padded;
    *shift = f->bits == 4 ? (int)(vector % 2) * 4 : 0;
    return (token / 4 * width + (f->bits == 4 ? vector / 2 : vector) * 16 + d % 16) * 4 + token % 4;
}

static inline void kv_code_put(const kv_codes *f, uint8_t *tile, bool values, int64_t d, int token, uint8_t code)
{
    int shift;
    uint8_t *at = tile + (values ? kv_value_at : kv_key_at)(f, d, token, &shift);
    *at = f->bits == 8 ? code : (uint8_t)((*at & 15 << (4 - shift)) | code << shift);
}
static inline int kv_code_get(const kv_codes *f, const uint8_t *tile, bool values, int64_t d, int token)
{
    int shift;
    uint8_t byte = tile[(values ? kv_value_at : kv_key_at)(f, d, token, &shift)];
    return f->bits == 4 ? byte >> shift & 15 : f->base ? byte : (int8_t)byte;
}

/* The definition of a block: n elements as codes, a scale and a base. What is not finite, or too large for an f16 scale, makes the scale
 * NaN, so that the result says so. */
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

/* One head of one token into a tile. */
static inline void kv_token_put(const kv_codes *f, uint8_t *tile, bool values, const float *x, int64_t dim, int token)
{
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

/* ---- attention over codes: definitions (part (d) of the arithmetic contract, see cpu_attn.c) */

/* A query as codes: int8 with one scale, which includes what scores are multiplied by. */
typedef struct kv_query {
    int8_t *code; /* [padded] */
    float *scale;
    float *sum; /* [blocks of the keys] of the block's codes */
} kv_query;

static inline uint64_t kv_query_bytes(const kv_codes *f) { return (uint64_t)(f->padded + 4 + f->blocks * 4); }
static inline kv_query kv_query_at(const kv_codes *f, uint8_t *memory)
{
    float *scale = (float *)(void *)(memory + f->padded);
    return (kv_query){(int8_t *)memory, scale, scale + 1};
}

/* Codes of block b, with those that pad it. */
static inline int kv_block_codes(const kv_codes *f, int64_t b) { return kv_block_size(f, f->padded, b); }

/* The definition of a query x of `dim` elements; the scale times `by`. A tiny one is 0; one that is not finite has scale NaN. */
#define KV_TINY 0x1p-100f
static inline void kv_query_encode(const kv_codes *f, const float *x, int64_t dim, float by, kv_query q)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < dim; i++) {
        most = fm_max(fabsf(x[i]), most);
        odd = fmaf(x[i], 0, odd);
    }
    bool bad = odd != 0, tiny = !(most >= KV_TINY);
    float inverse = bad || tiny ? 0 : 127 / most;
    for (int64_t i = 0; i < f->padded; i++) q.code[i] = i < dim && !bad ? (int8_t)rintf(x[i] * inverse) : 0;
    *q.scale = (bad ? NAN : tiny ? 0 : most / 127) * by;
    for (int64_t b = 0; b < f->blocks; b++) {
        int sum = 0;
        for (int i = 0; i < kv_block_codes(f, b); i++) sum += q.code[b * f->block + i];
        q.sum[b] = (float)sum;
    }
}

/* The weight of a key, 2^-15 each: 2^-(n / WEIGHT_STEPS), n steps of score below the greatest of the tile. 2^-f is a parabola, to 1.1e-3
 * of its value (root mean square). Anything that is no distance, or too far, weighs nothing. */
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

/* The steps of the greatest score, from which those of others are taken: `top` a little up, so that no rounding of large ones makes a
 * distance negative. */
static inline float kv_weight_from(float top) { return fmaf(fabsf(top), 0x1p-22f, top); }

/* Weights times scales of values become bytes: WEIGHT_TOP is the greatest scale in 15 bits, which makes 255 of weight 1. Bases of values
 * are numbers of BASE_TOP for the greatest: sums of 64 fit 32 bits. */
enum { WEIGHT_TOP = 32640, BASE_TOP = 1023 };
static inline int kv_weight_byte(int of, int scale)
{
    int scaled = (of * scale + (1 << 14)) >> 15;
    return (scaled + 64) >> 7;
}

#endif
