/* panel_strip.c - see panel.h: the formats, and how one row of a panel is read. It is the definition of the layout, and
 * what GPUs read panels by. */
#include "tensor/panel_tail.h"

#include "base/half.h"
#include "tensor/quant_tables.h"

#include <math.h>
#include <string.h>

static GPU_DATA const int8_t level_IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static GPU_DATA const int8_t level_FP4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static GPU_DATA const int8_t level_IQ3_S[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
static GPU_DATA const int8_t level_IQ3_XXS[16] = {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
static GPU_DATA const int8_t level_IQ2[16] = {0, -43, -25, -8, 8, 25, 43}; /* the first and eighth are in no entry */
static GPU_DATA const int8_t level_IQ1[16] = {-7, 1, 9, 0, -9, -1, 7}; /* 8 times (-1, 0, 1) + 1/8; the same - 1/8 */
#define level_NONE NULL
#define level_Q4   tables_level_q4
#define level_Q3H  tables_level_q3h
#define level_Q3   tables_level_q3
#define level_Q2   tables_level_q2

enum {
#define X(name, bits, block, span, scale, base, code, zero)                                                            \
    BITS_##name = bits, BLOCK_##name = block, SPAN_##name = span, SCALE_##name = scale, BASE_##name = base,            \
    CODE_##name = code, ZERO_##name = zero, ACT_##name = PANEL_ACT(bits, block, scale),                                \
    CODE_LINES_##name = (bits) ? 2 * (bits) : 7,                                                                       \
    WORDS_##name = (code) == PANEL_PICK8    ? (span) / 64                                                              \
                   : (code) == PANEL_PICK16 ? (span) / 128                                                             \
                                            : 0,                                                                       \
    TAIL_LINES_##name = WORDS_##name +                                                                                 \
                        ((bits) == 4 && WORDS_##name > 0                                                               \
                             ? 0                                                                                       \
                             : (PANEL_ROW_BYTES((span) / (block), scale, base) * PANEL_ROWS + PANEL_LINE - 1) /        \
                                   PANEL_LINE),
    PANEL_KIND_LIST(X)
#undef X
};

static GPU_DATA const panel_format formats[] = {
#define X(id, name, level, factor)                                                                                     \
    {DTYPE_##id, PANEL_KIND_##name, BITS_##name,       BLOCK_##name, SCALE_##name, BASE_##name,   CODE_##name,         \
     ACT_##name, CODE_LINES_##name, TAIL_LINES_##name, SPAN_##name,  ZERO_##name,  level_##level, factor},
    PANEL_LIST(X)
#undef X
};
enum {
#define X(id, ...) ROW_##id,
    PANEL_LIST(X)
#undef X
};

GPU_CODE const panel_format *panel_format_of(dtype t)
{
    switch ((int)t) {
#define X(id, ...)                                                                                                     \
    case DTYPE_##id: return &formats[ROW_##id];
        PANEL_LIST(X)
#undef X
    default: return NULL;
    }
}

GPU_CODE int panel_line_code(int bits, const uint8_t *line, int g, int i)
{
    int p = 0;
    line += i;
    switch (bits) {
    case 8: return line[PANEL_LINE * g];
    case 5: return (line[PANEL_LINE * (g / 2)] >> g % 2 * 4 & 15) | (line[PANEL_LINE * (8 + g / 8)] >> g % 8 & 1) << 4;
    case 4: return line[PANEL_LINE * (g / 2)] >> g % 2 * 4 & 15;
    case 6:
        if (g % 4 < 3) return line[PANEL_LINE * (g / 4 * 3 + g % 4)] & 63;
        for (int k = 0; k < 3; k++) p |= line[PANEL_LINE * (g / 4 * 3 + k)] >> 6 << 2 * k;
        return p;
    case 3: return (line[PANEL_LINE * (g / 4)] >> g % 4 * 2 & 3) | (line[PANEL_LINE * (4 + g / 8)] >> g % 8 & 1) << 2;
    case 2: return line[PANEL_LINE * (g / 4)] >> g % 4 * 2 & 3;
    case 1: return (line[PANEL_LINE * (g / 8)] >> g % 8 & 1) * 2;
    default:
        if (g < 14) p = line[PANEL_LINE * (g / 2)] & 127;
        else
            for (int j = 0; j < 7; j++) p |= line[PANEL_LINE * j] >> 7 << j;
        return g % 2 ? p / 11 : p % 11;
    }
}

/* Pick of weight k of row r. */
GPU_CODE static int pick_at(const panel_format *f, const uint8_t *tail, int r, int k)
{
    uint32_t word;
    int j = k / panel_pick_weights(f);
    memcpy(&word, tail + (j / 8 * PANEL_ROWS + r) * 4, 4);
    return (int)(word >> panel_pick_bits(f) * (j % 8) & ((1u << panel_pick_bits(f)) - 1));
}

GPU_CODE static float half_at(const uint8_t *from, int i)
{
    uint16_t h;
    memcpy(&h, from + 2 * i, 2);
    return f16_to_f32(h);
}

GPU_CODE static float scale_at(int kind, const uint8_t *from, int i)
{
    float f;
    if (kind == PANEL_F16) return half_at(from, i);
    if (kind == PANEL_E8M0) return ldexpf(1, from[i] - 128);
    if (kind == PANEL_E5M3) return f16_to_f32((uint16_t)(from[i] << 7));
    memcpy(&f, from + 4 * i, 4);
    return f;
}

GPU_CODE panel_block panel_block_get(const panel_format *f, const uint8_t *span, int r, int tiles, int b)
{
    const uint8_t *from = span + tiles * f->code_lines * PANEL_LINE;
    const int blocks = f->span / f->block, bytes = PANEL_SCALE_BYTES(f->scale);
    panel_block to = {.d = 0};
    if (panel_picks(f->code) && f->bits == 4) {
        to.scale = scale_at(f->scale, from, (b * PANEL_ROWS + r) * 4 + 3) * f->factor;
        return to;
    }
    from += panel_pick_words(f, tiles) * PANEL_LINE;
    if (!panel_two_levels(f->scale)) {
        to.scale = scale_at(f->scale, from, b * PANEL_ROWS + r) * f->factor;
        to.base = f->base ? half_at(from + blocks * PANEL_ROWS * bytes, b * PANEL_ROWS + r) : 0;
        if (f->base == PANEL_ZERO) to.base *= to.scale; /* exact: 11 bits times 9 */
        return to;
    }
    to.d = half_at(from, r) * f->factor;
    from += 2 * PANEL_ROWS;
    to.dmin = f->base ? half_at(from, r) : 0;
    if (f->base) from += 2 * PANEL_ROWS;
    const uint8_t v = from[panel_pair_at(b, r)];
    to.sub = f->scale == PANEL_SUB4 ? v & 15 : (int8_t)v;
    to.minimum = !f->base ? 0 : f->scale == PANEL_SUB4 ? v >> 4 : from[blocks * PANEL_ROWS + panel_pair_at(b, r)];
    return to;
}

/* Code of weight k of the span, as panel_strip has it. */
GPU_CODE static uint8_t code_at(const panel_format *f, const uint8_t *span, int r, int tiles, int k)
{
    const uint8_t *tile = span + k / PANEL_K * f->code_lines * PANEL_LINE;
    int code = panel_line_code(f->bits, tile, k % PANEL_K / 4, 4 * r + k % 4);
    if (panel_picks(f->code)) code |= pick_at(f, span + tiles * f->code_lines * PANEL_LINE, r, k) << f->bits;
    return (uint8_t)(f->level ? f->level[code] - f->zero : code);
}

GPU_CODE void panel_strip_get(const panel_format *f, const uint8_t *span, int r, int tiles, panel_strip *to)
{
    for (int k = 0; k < tiles * PANEL_K; k++) to->code[k] = code_at(f, span, r, tiles, k);
    for (int b = 0; b < f->span / f->block; b++) {
        const panel_block of = panel_block_get(f, span, r, tiles, b);
        to->scale[b] = of.scale;
        to->base[b] = of.base;
        to->d = of.d;
        to->dmin = of.dmin;
        to->sub[b] = of.sub;
        to->minimum[b] = of.minimum;
    }
}

GPU_CODE float panel_weight(const panel_format *f, const uint8_t *span, int r, int tiles, int k, panel_block of)
{
    const float level = (float)panel_level(f, code_at(f, span, r, tiles, k));
    if (panel_two_levels(f->scale)) {
        const float v = of.d * (float)of.sub * level;
        return f->base ? v - of.dmin * (float)of.minimum : v;
    }
    const float v = of.scale * level;
    return f->base ? v + of.base : v;
}

GPU_CODE void panel_row(dtype t, const uint8_t *panel, int r, int64_t cols, float *to)
{
    const panel_format *f = panel_format_of(t);
    for (int64_t k = 0; k < cols; k += f->span) {
        const int64_t left = cols - k;
        const int n = left < f->span ? (int)left : f->span, tiles = (n + PANEL_K - 1) / PANEL_K;
        panel_block of = {.d = 0};
        for (int i = 0; i < n; i++) {
            if (i % f->block == 0) of = panel_block_get(f, panel, r, tiles, i / f->block);
            to[k + i] = panel_weight(f, panel, r, tiles, i, of);
        }
        panel += (tiles * f->code_lines + f->tail_lines) * PANEL_LINE;
    }
}
