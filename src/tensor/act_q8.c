/* act_q8.c - see act_q8.h: the definition of a block of activations, and rows of codes in wire order. */
#include "tensor/act_q8.h"

#include <math.h>

/* The sum of 16 codes; eight bytes of a word are added at once, each 128 higher than its code. */
GPU_CODE static int32_t sum_of_16(const int8_t *code)
{
    const uint64_t even = 0x00ff00ff00ff00ffu, ones = 0x0001000100010001u;
    uint64_t x[2];
    memcpy(x, code, sizeof x);
    x[0] ^= 0x8080808080808080u;
    x[1] ^= 0x8080808080808080u;
    const uint64_t pairs = (x[0] & even) + (x[0] >> 8 & even) + (x[1] & even) + (x[1] >> 8 & even);
    return (int32_t)(pairs * ones >> 48) - 16 * 128;
}

/* What follows from codes and scale. */
GPU_CODE static void add_sums(act_block *to, int block)
{
    int32_t sum[PANEL_K / 16] = {0};
    for (int p = 0; p < block / 16; p++) sum[p] = sum_of_16(to->code + 16 * p);
    to->neg_sum = -(sum[0] + sum[1] + sum[2] + sum[3]);
    to->scaled_sum = to->scale * (float)-to->neg_sum;
    if (block < PANEL_K) return;
    for (int p = 0; p < 4; p++) to->neg_subsums[2 + p] = (int16_t)-sum[p];
    for (int p = 0; p < 2; p++) to->neg_subsums[p] = (int16_t) - (sum[2 * p] + sum[2 * p + 1]);
}

GPU_CODE void act_encode(const float *x, int64_t n, int block, act_block *to)
{
    float most = 0, odd = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        odd = fmaf(x[i], 0, odd);
    }
    bool finite = odd == 0, tiny = !(most >= ACT_TINY);
    float inverse = !finite || tiny ? 0 : 127 / most;
    to->scale = !finite ? NAN : tiny ? 0 : most / 127;
    for (int64_t i = 0; i < block; i++) to->code[i] = i < n && finite ? (int8_t)rintf(x[i] * inverse) : 0;
    add_sums(to, block);
}

/* ---- wire order */

GPU_CODE void act_wire_get(const act_rows *x, void *out)
{
    uint8_t *to = (uint8_t *)out;
    const int block = x->block;
    const int64_t blocks = (x->cols + block - 1) / block;
    for (int64_t m = 0; m < x->rows; m++) {
        const row_tile t = row_tile_at(x->rows, row_tile_of(x->rows, m));
        const act_part p = act_parts(x->at, t, x->cols, block);
        const int8_t *lane = p.code + (m - t.row0) * 4;
        for (int64_t c = 0; c < blocks * block; c += 4, lane += 4 * t.rows, to += 4) memcpy(to, lane, 4);
        for (int64_t b = 0; b < blocks; b++, to += sizeof(float))
            memcpy(to, &p.scale[b * t.rows + m - t.row0], sizeof(float));
    }
}

GPU_CODE void act_wire_put(const act_rows *x, int64_t col0, int64_t cols, const void *in)
{
    const uint8_t *from = (const uint8_t *)in;
    const int block = x->block;
    const act_block none = {.scale = 0};
    const int64_t blocks = (cols + block - 1) / block, rest = act_padded(x->cols) / block - (col0 / block + blocks);
    for (int64_t m = 0; m < x->rows; m++) {
        const row_tile t = row_tile_at(x->rows, row_tile_of(x->rows, m));
        const act_part p = act_parts(x->at, t, x->cols, block);
        const uint8_t *scale = from + blocks * block;
        for (int64_t b = 0; b < blocks; b++, from += block, scale += sizeof(float)) {
            act_block one;
            memcpy(one.code, from, (size_t)block);
            memcpy(&one.scale, scale, sizeof one.scale);
            add_sums(&one, block);
            act_block_put(p, t.rows, m - t.row0, col0 / block + b, block, &one);
        }
        from = scale;
        if (col0 + cols < x->cols) continue;
        for (int64_t b = 0; b < rest; b++)
            act_block_put(p, t.rows, m - t.row0, col0 / block + blocks + b, block, &none);
    }
}
