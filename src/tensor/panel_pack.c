/* panel_pack.c - packs rows of blocks into panels (tensor/panel.h): codes, scales and bases of each block type.
 *
 * The decoder of a type (quant_*.c) defines its fields; here they are split without rounding, codes into bytes, many at
 * a time, because packing should run at the speed of memory. Types of very few bits have readers of their own
 * (panel_codebooks.c). */
#include "tensor/block.h"
#include "tensor/quant_bits.h"
#include "base/half.h"
#include "tensor/quant_linear.h"
#include "tensor/quant_stored.h"
#include "tensor/panel_place.h"

#include <string.h>

/* 2 n codes from the low, then the high nibbles of n bytes. */
static void nibbles(uint8_t *restrict to, const uint8_t *restrict from, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = from[i] & 15;
        to[n + i] = from[i] >> 4;
    }
}

/* ---- 32 weights */

static void read_q4_0(const block_q4_0 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    nibbles(place_codes(to), b->qs, 16);
}

static void read_q4_1(const block_q4_1 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    put_base(to, b->m);
    nibbles(place_codes(to), b->qs, 16);
}

static void fifth_bits(uint8_t *restrict q, const uint8_t *restrict high)
{
    for (int j = 0; j < 4; j++) {
        uint64_t v;
        memcpy(&v, q + 8 * j, 8);
        v |= bits_spread(high[j]) << 4;
        memcpy(q + 8 * j, &v, 8);
    }
}

static void read_q5_0(const block_q5_0 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    nibbles(place_codes(to), b->qs, 16);
    fifth_bits(place_codes(to), b->qh);
}

static void read_q5_1(const block_q5_1 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    put_base(to, b->m);
    nibbles(place_codes(to), b->qs, 16);
    fifth_bits(place_codes(to), b->qh);
}

static void signed_bytes(uint8_t *restrict to, const int8_t *restrict from, int n) /* -128 … 127 to 0 … 255 */
{
    for (int i = 0; i < n; i++) to[i] = (uint8_t)(from[i] ^ -128);
}

static void read_q8_0(const block_q8_0 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    signed_bytes(place_codes(to), b->qs, 32);
}

static void read_q8_1(const block_q8_1 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    signed_bytes(place_codes(to), b->qs, 32);
}

static void read_q8_f32(const block_q8_f32 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 4);
    signed_bytes(place_codes(to), b->qs, 32);
}

static void read_iq4_nl(const block_iq4_nl *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 2);
    nibbles(place_codes(to), b->qs, 16);
}

static void read_mxfp4(const block_mxfp4 *b, const panel_place *to)
{
    put_scale(to, 0, &b->e, 1);
    nibbles(place_codes(to), b->qs, 16);
}

/* ---- 64 and 128 weights */

static void read_nvfp4(const block_nvfp4 *b, const panel_place *to)
{
    for (int i = 0; i < 4; i++) {
        uint8_t d = b->d[i] == 0x7f ? 0 : b->d[i] & 0x7f; /* half of 2^(e - 7) is 128 of 2^(e - 15) */
        put_scale(to, i, &d, 1);
        nibbles(place_codes(to) + 16 * i, b->qs + 8 * i, 8);
    }
}

/* ---- 256 weights: linear codes */

/* 32 bytes hold 128 codes of two bits, lowest first. */
static void two_bits(uint8_t *restrict to, const uint8_t *restrict from)
{
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < 32; i++) to[32 * s + i] = from[i] >> 2 * s & 3;
}

/* Bit s of 32 bytes goes to bit `at` of codes 32 s … 32 s + 31, of which there are 8. */
static void one_bit(uint8_t *restrict to, const uint8_t *restrict from, int at)
{
    for (int s = 0; s < 8; s++) {
        const uint8_t bit = (uint8_t)(1 << s), add = (uint8_t)(1 << at);
        for (int i = 0; i < 32; i++) to[32 * s + i] |= from[i] & bit ? add : 0;
    }
}

static void read_q2_k(const block_q2_k *b, const panel_place *to)
{
    put_d(to, b->d, b->dmin);
    for (int j = 0; j < 16; j++) {
        put_sub(to, j, b->scales[j] & 15);
        put_minimum(to, j, b->scales[j] >> 4);
    }
    for (int h = 0; h < 2; h++) two_bits(place_codes(to) + 128 * h, b->qs + 32 * h);
}

static void read_q3_k(const block_q3_k *b, const panel_place *to)
{
    put_d(to, b->d, 0);
    for (int j = 0; j < 16; j++) {
        int low = j < 8 ? b->scales[j] & 15 : b->scales[j - 8] >> 4;
        put_sub(to, j, (low | (b->scales[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32);
    }
    for (int h = 0; h < 2; h++) two_bits(place_codes(to) + 128 * h, b->qs + 32 * h);
    one_bit(place_codes(to), b->hmask, 2);
}

/* Six-bit scales and minima of q4_k and q5_k. */
static void six_bits(const panel_place *to, const uint8_t *s)
{
    for (int j = 0; j < 4; j++) {
        put_sub(to, j, s[j] & 63);
        put_minimum(to, j, s[j + 4] & 63);
        put_sub(to, j + 4, (s[j + 8] & 15) | s[j] >> 6 << 4);
        put_minimum(to, j + 4, s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

static void read_q4_k(const block_q4_k *b, const panel_place *to)
{
    put_d(to, b->d, b->dmin);
    six_bits(to, b->scales);
    for (int h = 0; h < 4; h++) nibbles(place_codes(to) + 64 * h, b->qs + 32 * h, 32);
}

static void read_q5_k(const block_q5_k *b, const panel_place *to)
{
    put_d(to, b->d, b->dmin);
    six_bits(to, b->scales);
    for (int h = 0; h < 4; h++) nibbles(place_codes(to) + 64 * h, b->qs + 32 * h, 32);
    one_bit(place_codes(to), b->qh, 4);
}

static void read_q6_k(const block_q6_k *b, const panel_place *to)
{
    uint8_t high[256], *restrict q = place_codes(to);
    put_d(to, b->d, 0);
    for (int j = 0; j < 16; j++) put_sub(to, j, b->scales[j]);
    for (int h = 0; h < 2; h++) {
        nibbles(q + 128 * h, b->ql + 64 * h, 64);
        two_bits(high + 128 * h, b->qh + 32 * h);
    }
    for (int k = 0; k < 256; k++) q[k] = (uint8_t)(q[k] | high[k] << 4);
}

static void read_q8_k(const block_q8_k *b, const panel_place *to)
{
    for (int j = 0; j < 4; j++) put_scale(to, j, &b->d, 4);
    signed_bytes(place_codes(to), b->qs, 256);
}

static void read_tq2_0(const block_tq2_0 *b, const panel_place *to)
{
    for (int j = 0; j < 4; j++) put_scale(to, j, &b->d, 2);
    for (int h = 0; h < 2; h++) two_bits(place_codes(to) + 128 * h, b->qs + 32 * h);
}

/* Digit `digit` of the base-3 numbers in n bytes. */
static void ternary(uint8_t *restrict to, const uint8_t *restrict from, int n, int digits)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int d = 0; d < digits; d++)
        for (int i = 0; i < n; i++) to[d * n + i] = (uint8_t)((uint8_t)(from[i] * power[d]) * 3 >> 8);
}

static void read_tq1_0(const block_tq1_0 *b, const panel_place *to)
{
    for (int j = 0; j < 4; j++) put_scale(to, j, &b->d, 2);
    ternary(place_codes(to), b->qs, 32, 5);
    ternary(place_codes(to) + 160, b->qs + 32, 16, 5);
    ternary(place_codes(to) + 240, b->qh, 4, 4);
}

static void read_iq4_xs(const block_iq4_xs *b, const panel_place *to)
{
    put_d(to, b->d, 0);
    for (int g = 0; g < 8; g++) {
        put_sub(to, g, ((b->scales_l[g / 2] >> g % 2 * 4 & 15) | (b->scales_h >> 2 * g & 3) << 4) - 32);
        nibbles(place_codes(to) + 32 * g, b->qs + 16 * g, 16);
    }
}

/* ---- what the hub's quantizers store */

static void read_f8_b128(const block_f8_b128 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 4);
    memcpy(place_codes(to), b->qs, sizeof b->qs);
}

static void read_i8_b128(const block_i8_b128 *b, const panel_place *to)
{
    put_scale(to, 0, &b->d, 4);
    signed_bytes(place_codes(to), b->qs, 128);
}

static void read_nvfp4_f32(const block_nvfp4_f32 *b, const panel_place *to)
{
    for (int i = 0; i < 4; i++) {
        put_scale(to, i, &b->d[i], 4);
        nibbles(place_codes(to) + 16 * i, b->qs + 8 * i, 8);
    }
}

static void read_zero(dtype t, const uint8_t *block, const panel_place *to)
{
    uint16_t scale;
    int16_t zero;
    zero_get(t, block, place_codes(to), &scale, &zero);
    put_scale(to, 0, &scale, 2);
    put_base(to, f32_to_f16((float)-zero));
}

/* ---- rows */

PANEL_READER(q4_0)
PANEL_READER(q4_1)
PANEL_READER(q5_0)
PANEL_READER(q5_1)
PANEL_READER(q8_0)
PANEL_READER(q8_1)
PANEL_READER(q8_f32)
PANEL_READER(iq4_nl)
PANEL_READER(mxfp4)
PANEL_READER(nvfp4)
PANEL_READER(q2_k)
PANEL_READER(q3_k)
PANEL_READER(q4_k)
PANEL_READER(q5_k)
PANEL_READER(q6_k)
PANEL_READER(q8_k)
PANEL_READER(iq4_xs)
PANEL_READER(tq1_0)
PANEL_READER(tq2_0)
PANEL_READER(f8_b128)
PANEL_READER(i8_b128)
PANEL_READER(nvfp4_f32)

static panel_reader *const readers[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = copy_q4_0,           [DTYPE_Q4_1] = copy_q4_1,       [DTYPE_Q5_0] = copy_q5_0,
    [DTYPE_Q5_1] = copy_q5_1,           [DTYPE_Q8_0] = copy_q8_0,       [DTYPE_Q8_1] = copy_q8_1,
    [DTYPE_Q8_F32] = copy_q8_f32,       [DTYPE_IQ4_NL] = copy_iq4_nl,   [DTYPE_MXFP4] = copy_mxfp4,
    [DTYPE_NVFP4] = copy_nvfp4,         [DTYPE_Q2_K] = copy_q2_k,       [DTYPE_Q3_K] = copy_q3_k,
    [DTYPE_Q4_K] = copy_q4_k,           [DTYPE_Q5_K] = copy_q5_k,       [DTYPE_Q6_K] = copy_q6_k,
    [DTYPE_Q8_K] = copy_q8_k,           [DTYPE_IQ4_XS] = copy_iq4_xs,   [DTYPE_TQ1_0] = copy_tq1_0,
    [DTYPE_TQ2_0] = copy_tq2_0,         [DTYPE_F8_B128] = copy_f8_b128, [DTYPE_I8_B128] = copy_i8_b128,
    [DTYPE_NVFP4_F32] = copy_nvfp4_f32,
};

static void read_linear(dtype t, const uint8_t *block, const panel_place *to)
{
    uint16_t scale, base;
    linear_get(t, block, place_codes(to), &scale, &base);
    put_scale(to, 0, &scale, 2);
    put_base(to, base);
}

void panel_pack(dtype t, const uint8_t *const rows[PANEL_ROWS], int64_t cols, uint8_t *panel)
{
    const panel_format *f = panel_format_of(t);
    const int weights = dtype_info[t].weights, tile = f->code_lines * PANEL_LINE;
    panel_reader *words = panel_words_reader(t), *reader = words ? words : readers[t];
    panel_span span;
    for (int64_t k = 0; k < cols; k += f->span) {
        int64_t left = cols - k;
        int n = left < f->span ? (int)left : f->span, tiles = (n + PANEL_K - 1) / PANEL_K;
        uint8_t whole[WORDS_LINES * PANEL_LINE], *lines = n % weights ? whole : panel; /* a row may end in a block */
        if (!rows[PANEL_ROWS - 1] || n < f->span) {
            memset(&span, 0, sizeof span);
            if (words) memset(lines, 0, n % weights ? sizeof whole : (size_t)(tiles * tile));
        }
        for (int r = 0; r < PANEL_ROWS; r++)
            for (int i = 0; rows[r] && i < n; i += weights) {
                const uint8_t *block = rows[r] + (uint64_t)((k + i) / weights) * dtype_info[t].bytes;
                panel_place to = {&span, r, i, f->block, lines + i / PANEL_K * tile + 4 * r};
                if (reader) reader(block, &to);
                else if (zero_bits(t)) read_zero(t, block, &to);
                else read_linear(t, block, &to);
            }
        for (int r = 0; r < PANEL_ROWS && n < tiles * PANEL_K; r++)
            memset(span.code[r] + n, 0, (size_t)(tiles * PANEL_K - n));
        if (!words) panel_span_put(f, &span, tiles, panel);
        else if (lines == whole) panel_lines_cut(f, whole, n, tiles, panel);
        panel_tail_put(f, &span, tiles, panel + tiles * tile);
        panel += tiles * tile + f->tail_lines * PANEL_LINE;
    }
}
