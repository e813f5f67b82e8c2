/* panel.c - see panel.h: how codes and tails are written. panel_pack.c brings the blocks of every type into them,
 * panel_strip.c reads them. */
#include "tensor/panel_tail.h"

#include <string.h>

uint64_t panel_bytes(dtype t, int64_t cols)
{
    const panel_format *f = panel_format_of(t);
    uint64_t tiles = (uint64_t)(cols + PANEL_K - 1) / PANEL_K, each = f->span / PANEL_K, rest = tiles % each;
    uint64_t tails = tiles / each * f->tail_lines + (rest ? (uint64_t)panel_tail_lines(f, (int)rest) : 0);
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

/* ---- tails */

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

void panel_tail_put(const panel_format *f, const panel_span *from, int tiles, uint8_t *to)
{
    const int blocks = f->span / f->block, bytes = PANEL_SCALE_BYTES(f->scale);
    memset(to, 0, (size_t)panel_tail_lines(f, tiles) * PANEL_LINE);
    memcpy(to, from->picks, (size_t)panel_pick_words(f, tiles) * sizeof from->picks[0]);
    if (panel_picks(f->code) && f->bits == 4) return; /* scales are there too */
    to += panel_pick_words(f, tiles) * PANEL_LINE;
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
            span.code[r][k] = (uint8_t)panel_line_code(f->bits, lines + k / PANEL_K * f->code_lines * PANEL_LINE,
                                                       k % PANEL_K / 4, 4 * r + k % 4);
    panel_span_put(f, &span, tiles, to);
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
    const int blocks = f->span / f->block, bytes = PANEL_SCALE_BYTES(f->scale);
    const bool two = panel_two_levels(f->scale), in_picks = panel_picks(f->code) && f->bits == 4;
    /* Two levels: d, minima's d, sub-scales in pairs, minima in pairs where they are not in the same bytes. */
    const int pairs = 1 + (f->base != 0) + blocks / 2 * (f->base && f->scale != PANEL_SUB4 ? 2 : 1);
    for (int64_t k = 0; k < cols; k += f->span) {
        const int n = cols - k < f->span ? (int)(cols - k) : f->span, tiles = (n + PANEL_K - 1) / PANEL_K;
        const int lines = tiles * f->code_lines + panel_pick_words(f, tiles), at = lines * PANEL_LINE;
        elements_copy(panel, r, to, q, lines, 4);
        if (two) {
            elements_copy(panel + at, r, to + at, q, pairs, 2);
        } else if (!in_picks) {
            const int bases = at + blocks * PANEL_ROWS * bytes;
            elements_copy(panel + at, r, to + at, q, blocks, bytes);
            if (f->base) elements_copy(panel + bases, r, to + bases, q, blocks, 2);
        }
        panel += tiles * f->code_lines * PANEL_LINE + panel_tail_lines(f, tiles) * PANEL_LINE;
        to += tiles * f->code_lines * PANEL_LINE + panel_tail_lines(f, tiles) * PANEL_LINE;
    }
}
