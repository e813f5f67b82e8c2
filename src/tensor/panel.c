/* panel.c - see panel.h: the layout. panel_pack.c brings the blocks of every type into it. */
#include "tensor/panel.h"

#include "base/half.h"
#include "tensor/quant_tables.h"

#include <math.h>
#include <string.h>

/* ---- formats */

static const int8_t level_IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t level_FP4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t level_IQ3_S[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
static const int8_t level_IQ3_XXS[16] = {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
static const int8_t level_IQ2[16] = {0, -43, -25, -8, 8, 25, 43}; /* the first and eighth are in no entry */
static const int8_t level_IQ1[16] = {-7, 1, 9, 0, -9, -1, 7};     /* 8 times (-1, 0, 1) + 1/8; the same - 1/8 */
#define level_NONE   NULL
#define level_TABLES NULL /* quant_tables.h */

/* Constants of a kind. */
#define SCALE_BYTES(scale)             ((scale) == PANEL_F32 ? 4 : (scale) == PANEL_F16 ? 2 : 1)
#define ROW_BYTES(blocks, scale, base) /* of the tail, for one row, without picks */                                   \
    ((scale) == PANEL_SUB8   ? ((base) != PANEL_NONE ? 4 + 2 * (blocks) : 2 + (blocks))                                \
     : (scale) == PANEL_SUB4 ? 4 + (blocks)                                                                            \
                             : (blocks) * (SCALE_BYTES(scale) + ((base) != PANEL_NONE ? 2 : 0)))
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
                             : (ROW_BYTES((span) / (block), scale, base) * PANEL_ROWS + PANEL_LINE - 1) / PANEL_LINE),
    PANEL_KIND_LIST(X)
#undef X
};

static const panel_format formats[DTYPE_COUNT] = {
#define X(id, name, level, factor)                                                                                     \
    [DTYPE_##id] = {                                                                                                   \
        DTYPE_##id, PANEL_KIND_##name, BITS_##name,       BLOCK_##name, SCALE_##name, BASE_##name,   CODE_##name,      \
        ACT_##name, CODE_LINES_##name, TAIL_LINES_##name, SPAN_##name,  ZERO_##name,  level_##level, factor},
    PANEL_LIST(X)
#undef X
};

const panel_format *panel_format_of(dtype t) { return formats[t].span ? &formats[t] : NULL; }

const int8_t *panel_levels(const panel_format *f)
{
    return panel_picks(f->code) ? tables_format_of(f->type)->level : f->level;
}

/* Picks: weights that have one, bits of one, words of eight in `tiles` tiles. */
static int pick_weights(const panel_format *f) { return f->code == PANEL_PICK8 ? 8 : 16; }
static int pick_bits(const panel_format *f) { return f->bits == 4 ? 3 : 4; }
static int pick_words(const panel_format *f, int tiles)
{
    return panel_picks(f->code) ? (tiles * PANEL_K + 8 * pick_weights(f) - 1) / (8 * pick_weights(f)) : 0;
}

static int tail_lines(const panel_format *f, int tiles)
{
    return f->tail_lines - pick_words(f, f->span / PANEL_K) + pick_words(f, tiles);
}

uint64_t panel_bytes(dtype t, int64_t cols)
{
    const panel_format *f = &formats[t];
    uint64_t tiles = (uint64_t)(cols + PANEL_K - 1) / PANEL_K, each = f->span / PANEL_K, rest = tiles % each;
    uint64_t tails = tiles / each * f->tail_lines + (rest ? (uint64_t)tail_lines(f, (int)rest) : 0);
    return (tiles * f->code_lines + tails) * PANEL_LINE;
}

/* ---- the lines of a tile */

enum { GROUPS = 16 };

/* Each line is a loop over its bytes, which compilers vectorize: packing at load runs at the speed of memory. */
#define EACH(n, value)                                                                                                 \
    for (int i = 0; i < PANEL_LINE; i++) line[PANEL_LINE * (n) + i] = (uint8_t)(value);

/* Lines of single bits: bit g % 8 of line n + g / 8 is bit `at` of w[g]. */
static inline void lines_put_bit(uint8_t *restrict line, int n, int at, const uint8_t w[restrict GROUPS][PANEL_LINE])
{
#define BIT(j, g) ((w[8 * (j) + (g)][i] >> at & 1) << (g))
#define BITS(j)   (BIT(j, 0) | BIT(j, 1) | BIT(j, 2) | BIT(j, 3) | BIT(j, 4) | BIT(j, 5) | BIT(j, 6) | BIT(j, 7))
    EACH(n, BITS(0))
    EACH(n + 1, BITS(1))
#undef BITS
#undef BIT
}

/* w: the group vectors. */
static void lines_put(int bits, uint8_t *restrict line, const uint8_t w[restrict GROUPS][PANEL_LINE])
{
    switch (bits) {
    case 8: memcpy(line, w, GROUPS * PANEL_LINE); break;
    case 5: lines_put_bit(line, 8, 4, w); /* fall through */
    case 4:
        for (int j = 0; j < 8; j++) EACH(j, (w[2 * j][i] & 15) | w[2 * j + 1][i] << 4)
        break;
    case 6:
        for (int j = 0; j < 12; j++) EACH(j, w[j / 3 * 4 + j % 3][i] | (w[j / 3 * 4 + 3][i] >> 2 * (j % 3)) << 6)
        break;
    case 3: lines_put_bit(line, 4, 2, w); /* fall through */
    case 2:
        for (int j = 0; j < 4; j++)
            EACH(j, (w[4 * j][i] & 3) | (w[4 * j + 1][i] & 3) << 2 | (w[4 * j + 2][i] & 3) << 4 | w[4 * j + 3][i] << 6)
        break;
    case 1: lines_put_bit(line, 0, 1, w); break;
    default:
        for (int j = 0; j < 7; j++)
            EACH(j, (w[2 * j][i] + 11 * w[2 * j + 1][i]) | ((w[14][i] + 11 * w[15][i]) >> j & 1) << 7)
    }
}

/* The code of group g at byte i of its vector. */
static int line_code(int bits, const uint8_t *line, int g, int i)
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

/* ---- tails */

/* Offset of the byte of a block and row: two blocks side by side. */
static int pair_at(int b, int r) { return (b / 2 * PANEL_ROWS + r) * 2 + b % 2; }

/* Scales of a block for all rows: the low bytes. */
static void scales_put(int bytes, uint8_t *restrict to, const uint32_t scale[restrict PANEL_ROWS])
{
    if (bytes == 4) memcpy(to, scale, sizeof(uint32_t) * PANEL_ROWS);
    for (int r = 0; bytes == 2 && r < PANEL_ROWS; r++) memcpy(to + 2 * r, &scale[r], 2);
    for (int r = 0; bytes == 1 && r < PANEL_ROWS; r++) to[r] = (uint8_t)scale[r];
}

/* Bytes of two blocks for all rows. */
static void pairs_put(uint8_t *restrict to, const uint8_t *const from[2])
{
    const uint8_t *restrict a = from[0], *restrict b = from[1];
    for (int r = 0; r < PANEL_ROWS; r++) {
        to[2 * r] = a[r];
        to[2 * r + 1] = b[r];
    }
}

/* The same as nibbles, `high` above `low`. */
static void pairs_put_nibbles(uint8_t *restrict to, const uint8_t *const low[2], const uint8_t *const high[2])
{
    uint8_t both[2][PANEL_ROWS];
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < PANEL_ROWS; r++) both[i][r] = (uint8_t)(low[i][r] | high[i][r] << 4);
    pairs_put(to, (const uint8_t *const[]){both[0], both[1]});
}

/* Pick of weight k of row r. */
static int pick_at(const panel_format *f, const uint8_t *tail, int r, int k)
{
    uint32_t word;
    int j = k / pick_weights(f);
    memcpy(&word, tail + (j / 8 * PANEL_ROWS + r) * 4, 4);
    return (int)(word >> pick_bits(f) * (j % 8) & ((1u << pick_bits(f)) - 1));
}

void panel_tail_put(const panel_format *f, const panel_span *from, int tiles, uint8_t *to)
{
    const int blocks = f->span / f->block, bytes = SCALE_BYTES(f->scale);
    memset(to, 0, (size_t)tail_lines(f, tiles) * PANEL_LINE);
    memcpy(to, from->picks, (size_t)pick_words(f, tiles) * sizeof from->picks[0]);
    if (panel_picks(f->code) && f->bits == 4) return; /* scales are there too */
    to += pick_words(f, tiles) * PANEL_LINE;
    if (!panel_two_levels(f->scale)) {
        for (int b = 0; b < blocks; b++) scales_put(bytes, to + b * PANEL_ROWS * bytes, from->scale[b]);
        if (f->base) memcpy(to + blocks * PANEL_ROWS * bytes, from->base, (size_t)blocks * PANEL_ROWS * 2);
        return;
    }
    memcpy(to, from->d, sizeof from->d);
    to += sizeof from->d;
    if (f->base) {
        memcpy(to, from->dmin, sizeof from->dmin);
        to += sizeof from->dmin;
    }
    for (int b = 0; b < blocks; b += 2, to += 2 * PANEL_ROWS) {
        const uint8_t *sub[] = {(const uint8_t *)from->sub[b], (const uint8_t *)from->sub[b + 1]},
                      *minimum[] = {from->minimum[b], from->minimum[b + 1]};
        if (f->scale == PANEL_SUB4) pairs_put_nibbles(to, sub, minimum);
        else pairs_put(to, sub);
        if (f->scale != PANEL_SUB4 && f->base) pairs_put(to + blocks * PANEL_ROWS, minimum);
    }
}

static float half_at(const uint8_t *from, int i)
{
    uint16_t h;
    memcpy(&h, from + 2 * i, 2);
    return f16_to_f32(h);
}

static float scale_at(int kind, const uint8_t *from, int i)
{
    float f;
    if (kind == PANEL_F16) return half_at(from, i);
    if (kind == PANEL_E8M0) return ldexpf(1, from[i] - 128);
    if (kind == PANEL_E5M3) return f16_to_f32((uint16_t)(from[i] << 7));
    memcpy(&f, from + 4 * i, 4);
    return f;
}

static void tail_get(const panel_format *f, const uint8_t *from, int r, int tiles, panel_strip *to)
{
    const int blocks = f->span / f->block, bytes = SCALE_BYTES(f->scale);
    if (panel_picks(f->code) && f->bits == 4) {
        for (int b = 0; b < blocks; b++)
            to->scale[b] = scale_at(f->scale, from, (b * PANEL_ROWS + r) * 4 + 3) * f->factor;
        return;
    }
    from += pick_words(f, tiles) * PANEL_LINE;
    if (!panel_two_levels(f->scale)) {
        for (int b = 0; b < blocks; b++) {
            to->scale[b] = scale_at(f->scale, from, b * PANEL_ROWS + r) * f->factor;
            to->base[b] = f->base ? half_at(from + blocks * PANEL_ROWS * bytes, b * PANEL_ROWS + r) : 0;
        }
        return;
    }
    to->d = half_at(from, r) * f->factor;
    from += 2 * PANEL_ROWS;
    to->dmin = f->base ? half_at(from, r) : 0;
    if (f->base) from += 2 * PANEL_ROWS;
    for (int b = 0; b < blocks; b++) {
        uint8_t v = from[pair_at(b, r)];
        to->sub[b] = f->scale == PANEL_SUB4 ? v & 15 : (int8_t)v;
        to->minimum[b] = !f->base ? 0 : f->scale == PANEL_SUB4 ? v >> 4 : from[blocks * PANEL_ROWS + pair_at(b, r)];
    }
}

/* ---- spans and rows */

void panel_span_put(const panel_format *f, const panel_span *from, int tiles, uint8_t *to)
{
    for (int t = 0; t < tiles; t++, to += f->code_lines * PANEL_LINE) {
        uint8_t w[GROUPS][PANEL_LINE];
        for (int r = 0; r < PANEL_ROWS; r++)
            for (int g = 0; g < GROUPS; g++) memcpy(&w[g][4 * r], &from->code[r][PANEL_K * t + 4 * g], 4);
        lines_put(f->bits, to, (const uint8_t(*)[PANEL_LINE])w);
    }
}

void panel_lines_cut(const panel_format *f, const uint8_t *lines, int n, int tiles, uint8_t *to)
{
    panel_span span = {0};
    for (int r = 0; r < PANEL_ROWS; r++)
        for (int k = 0; k < n; k++)
            span.code[r][k] = (uint8_t)line_code(f->bits, lines + k / PANEL_K * f->code_lines * PANEL_LINE,
                                                 k % PANEL_K / 4, 4 * r + k % 4);
    panel_span_put(f, &span, tiles, to);
}

void panel_strip_get(const panel_format *f, const uint8_t *span, int r, int tiles, panel_strip *to)
{
    const uint8_t *tail = span + tiles * f->code_lines * PANEL_LINE;
    const int8_t *level = panel_levels(f);
    for (int k = 0; k < tiles * PANEL_K; k++) {
        const uint8_t *tile = span + k / PANEL_K * f->code_lines * PANEL_LINE;
        int code = line_code(f->bits, tile, k % PANEL_K / 4, 4 * r + k % 4);
        if (panel_picks(f->code)) code |= pick_at(f, tail, r, k) << f->bits;
        to->code[k] = (uint8_t)(level ? level[code] - f->zero : code);
    }
    tail_get(f, tail, r, tiles, to);
}

void panel_row(dtype t, const uint8_t *panel, int r, int64_t cols, float *to)
{
    const panel_format *f = panel_format_of(t);
    for (int64_t k = 0; k < cols; k += f->span) {
        int64_t left = cols - k;
        int n = left < f->span ? (int)left : f->span, tiles = (n + PANEL_K - 1) / PANEL_K;
        panel_strip s;
        panel_strip_get(f, panel, r, tiles, &s);
        for (int i = 0; i < n; i++) {
            int b = i / f->block;
            float level = (float)(s.code[i] + f->zero);
            if (panel_two_levels(f->scale)) {
                float v = s.d * (float)s.sub[b] * level;
                to[k + i] = f->base ? v - s.dmin * (float)s.minimum[b] : v;
            } else {
                float v = s.scale[b] * level;
                to[k + i] = f->base ? v + s.base[b] : v;
            }
        }
        panel += (tiles * f->code_lines + f->tail_lines) * PANEL_LINE;
    }
}

/* Elements of `size` bytes in the order [n][row]. */
static void elements_copy(const uint8_t *from, int r, uint8_t *to, int q, int n, int size)
{
    for (int i = 0; i < n; i++)
        memcpy(to + (i * PANEL_ROWS + q) * size, from + (i * PANEL_ROWS + r) * size, (size_t)size);
}

/* Whatever lies at bytes 4 r … 4 r + 3 of a line of codes or picks is of row r. */
void panel_row_copy(dtype t, const uint8_t *panel, int r, int64_t cols, uint8_t *to, int q)
{
    const panel_format *f = panel_format_of(t);
    const int blocks = f->span / f->block, bytes = SCALE_BYTES(f->scale);
    const bool two = panel_two_levels(f->scale), in_picks = panel_picks(f->code) && f->bits == 4;
    /* Two levels: d, minima's d, sub-scales in pairs, minima in pairs where they are not in the same bytes. */
    const int pairs = 1 + (f->base != 0) + blocks / 2 * (f->base && f->scale != PANEL_SUB4 ? 2 : 1);
    for (int64_t k = 0; k < cols; k += f->span) {
        const int n = cols - k < f->span ? (int)(cols - k) : f->span, tiles = (n + PANEL_K - 1) / PANEL_K;
        const int lines = tiles * f->code_lines + pick_words(f, tiles), at = lines * PANEL_LINE;
        elements_copy(panel, r, to, q, lines, 4);
        if (two) {
            elements_copy(panel + at, r, to + at, q, pairs, 2);
        } else if (!in_picks) {
            const int bases = at + blocks * PANEL_ROWS * bytes;
            elements_copy(panel + at, r, to + at, q, blocks, bytes);
            if (f->base) elements_copy(panel + bases, r, to + bases, q, blocks, 2);
        }
        panel += tiles * f->code_lines * PANEL_LINE + tail_lines(f, tiles) * PANEL_LINE;
        to += tiles * f->code_lines * PANEL_LINE + tail_lines(f, tiles) * PANEL_LINE;
    }
}
