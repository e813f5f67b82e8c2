/* r16.c - see r16.h. */
#include "tensor/r16.h"

#include "base/half.h"
#include "tensor/quant_linear.h"

#include <string.h>

static const r16_format formats[DTYPE_COUNT] = {
#define X(id, bits, block, lines, zero, base) [DTYPE_##id] = {bits, block, lines, zero, base},
    R16_LIST(X)
#undef X
};

const r16_format *r16_of(dtype t) { return formats[t].lines ? &formats[t] : NULL; }

uint64_t r16_panel_bytes(dtype t, int64_t cols)
{
    return (uint64_t)(cols + R16_K - 1) / R16_K * formats[t].lines * R16_LINE;
}

/* ---- lines */

enum { GROUPS = 16 };

/* Each line is a loop over its bytes, which compilers turn into vectors: packing at load goes at the speed of memory. */
#define EACH(n, value)                                                                                                 \
    for (int i = 0; i < R16_LINE; i++) line[R16_LINE * (n) + i] = (uint8_t)(value);

/* Lines of single bits: bit g % 8 of line n + g / 8 is bit `at` of w[g]. */
static void lines_put_bit(uint8_t *line, int n, int at, const uint8_t w[GROUPS][R16_LINE])
{
    for (int j = 0; j < 2; j++) {
        EACH(n + j, 0)
        for (int g = 0; g < 8; g++) EACH(n + j, line[R16_LINE * (n + j) + i] | (w[8 * j + g][i] >> at & 1) << g)
    }
}

/* w: the group vectors. */
static void lines_put(const r16_format *f, uint8_t *restrict line, const uint8_t w[restrict GROUPS][R16_LINE])
{
    switch (f->bits) {
    case 8: memcpy(line, w, GROUPS * R16_LINE); break;
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
    default:
        for (int j = 0; j < 7; j++)
            EACH(j, (w[2 * j][i] + 11 * w[2 * j + 1][i]) | ((w[14][i] + 11 * w[15][i]) >> j & 1) << 7)
    }
}

static void lines_get(const r16_format *f, const uint8_t *line, uint8_t w[GROUPS][R16_LINE])
{
    for (int i = 0; i < R16_LINE; i++) {
        int last = 0;
        switch (f->bits) {
        case 8:
            for (int g = 0; g < GROUPS; g++) w[g][i] = line[R16_LINE * g + i];
            break;
        case 5:
        case 4:
            for (int g = 0; g < GROUPS; g++) {
                w[g][i] = line[R16_LINE * (g / 2) + i] >> g % 2 * 4 & 15;
                if (f->bits == 5) w[g][i] = (uint8_t)(w[g][i] | (line[R16_LINE * (8 + g / 8) + i] >> g % 8 & 1) << 4);
            }
            break;
        case 6:
            for (int j = 0; j < 4; j++) {
                w[4 * j + 3][i] = 0;
                for (int k = 0; k < 3; k++) {
                    uint8_t v = line[R16_LINE * (3 * j + k) + i];
                    w[4 * j + k][i] = v & 63;
                    w[4 * j + 3][i] = (uint8_t)(w[4 * j + 3][i] | v >> 6 << 2 * k);
                }
            }
            break;
        case 3:
        case 2:
            for (int g = 0; g < GROUPS; g++) {
                w[g][i] = line[R16_LINE * (g / 4) + i] >> g % 4 * 2 & 3;
                if (f->bits == 3) w[g][i] = (uint8_t)(w[g][i] | (line[R16_LINE * (4 + g / 8) + i] >> g % 8 & 1) << 2);
            }
            break;
        default:
            for (int j = 0; j < 7; j++) last |= line[R16_LINE * j + i] >> 7 << j;
            for (int j = 0; j < 8; j++) {
                int p = j < 7 ? line[R16_LINE * j + i] & 127 : last;
                w[2 * j][i] = (uint8_t)(p % 11);
                w[2 * j + 1][i] = (uint8_t)(p / 11);
            }
        }
    }
}

/* ---- super-tiles */

static int blocks_of(const r16_format *f) { return R16_K / f->block; }

static uint8_t *scales_of(const r16_format *f, const uint8_t *tile)
{
    return (uint8_t *)tile + f->lines * R16_LINE - blocks_of(f) * R16_ROWS * 2 * (f->has_base ? 2 : 1);
}

void r16_tile_put(const r16_format *f, uint8_t *tile, const r16_tile *from)
{
    uint8_t w[GROUPS][R16_LINE];
    for (int r = 0; r < R16_ROWS; r++)
        for (int g = 0; g < GROUPS; g++) memcpy(&w[g][4 * r], &from->code[r][4 * g], 4);
    lines_put(f, tile, (const uint8_t(*)[R16_LINE])w);
    size_t bytes = (size_t)blocks_of(f) * R16_ROWS * 2;
    memcpy(scales_of(f, tile), from->scale, bytes);
    if (f->has_base) memcpy(scales_of(f, tile) + bytes, from->base, bytes);
}

void r16_tile_get(const r16_format *f, const uint8_t *tile, r16_tile *to)
{
    uint8_t w[GROUPS][R16_LINE];
    lines_get(f, tile, w);
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < R16_LINE; i++) to->code[i / 4][4 * g + i % 4] = w[g][i];
    size_t bytes = (size_t)blocks_of(f) * R16_ROWS * 2;
    memset(to->base, 0, sizeof to->base);
    memcpy(to->scale, scales_of(f, tile), bytes);
    if (f->has_base) memcpy(to->base, scales_of(f, tile) + bytes, bytes);
}

/* ---- blocks of a row: codes without sign, scale, base */
static void block_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, uint16_t *base)
{
    *base = 0;
    if (t == DTYPE_Q8_0) {
        memcpy(scale, block, 2);
        for (int i = 0; i < 32; i++) q[i] = (uint8_t)(block[2 + i] ^ 128); /* signed to 0 … 255 */
    } else if (t == DTYPE_Q4_0) {
        memcpy(scale, block, 2);
        for (int i = 0; i < 16; i++) {
            q[i] = block[2 + i] & 15;
            q[i + 16] = block[2 + i] >> 4;
        }
    } else {
        linear_get(t, block, q, scale, base);
    }
}

void r16_pack(dtype t, const uint8_t *const rows[R16_ROWS], int64_t cols, uint8_t *panel)
{
    const r16_format *f = r16_of(t);
    for (int64_t k = 0; k < cols; k += R16_K, panel += f->lines * R16_LINE) {
        r16_tile tile;
        uint64_t left = (uint64_t)(cols - k < R16_K ? cols - k : R16_K);
        bool whole = rows[R16_ROWS - 1] && cols - k >= R16_K;
        if (!whole) memset(&tile, 0, sizeof tile);
        for (int r = 0; r < R16_ROWS; r++)
            for (int b = 0; rows[r] && b < blocks_of(f) && k + b * f->block < cols; b++)
                block_get(t, rows[r] + (uint64_t)(k / f->block + b) * dtype_info[t].bytes, tile.code[r] + b * f->block,
                          &tile.scale[b][r], &tile.base[b][r]);
        for (int r = 0; r < R16_ROWS && left < R16_K; r++) memset(tile.code[r] + left, 0, R16_K - left);
        r16_tile_put(f, panel, &tile);
    }
}

void r16_row(dtype t, const uint8_t *panel, int r, int64_t cols, float *to)
{
    const r16_format *f = r16_of(t);
    for (int64_t k = 0; k < cols; k += R16_K, panel += f->lines * R16_LINE) {
        r16_tile tile;
        r16_tile_get(f, panel, &tile);
        for (int64_t i = 0; i < R16_K && k + i < cols; i++) {
            int64_t b = i / f->block;
            float d = f16_to_f32(tile.scale[b][r]), q = (float)(tile.code[r][i] + f->zero);
            to[k + i] = f->has_base ? q * d + f16_to_f32(tile.base[b][r]) : d * q;
        }
    }
}
