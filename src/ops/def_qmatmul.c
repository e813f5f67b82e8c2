/* def_qmatmul.c - reference of MATMUL where activations are int8 and weights packed (tensor/panel.h).
 *
 * Part (a) of the arithmetic contract: sums in int32 are exact in any order; floats are one chain of fused
 * multiply-adds over k, ascending. One level: per block, levels (with the zero) times codes summed in int32, times the
 * product of both scales; then base times the scaled sum of the block's activations. Two levels, per 64 k: the same
 * sums times sub-scales are added in int32; the total is multiplied by the product of d and the activations' scale.
 * With minima: d times the total, minus dmin times the sum of minima times sums of activations, times the activations'
 * scale. A bias comes last. */
#include "ops/quant_rows.h"

#include "tensor/act_q8.h"

#include <math.h>
#include <string.h>

/* Codes of 64 k of one row of activations. */
GPU_CODE static void gather(act_part x, int tile_rows, int64_t at, int64_t k, int8_t code[PANEL_K])
{
    for (int g = 0; g < PANEL_K; g += 4) memcpy(code + g, x.code + ((k + g) / 4 * tile_rows + at) * 4, 4);
}

/* Continues the chain y over 64 k: tile `t` of the span, activations of row `at` of their tile of rows from k on. */
GPU_CODE static float dot_tile(const panel_format *f, const panel_strip *w, int t, act_part x, int tile_rows,
                               int64_t at, int64_t k, float y)
{
    int8_t code[PANEL_K];
    int32_t products = 0, minima = 0;
    const bool two = panel_two_levels(f->scale);
    const int apart = f->block < f->act ? f->block : f->act;
    int64_t xb = 0;
    gather(x, tile_rows, at, k, code);
    for (int i = 0; i < PANEL_K; i += apart) {
        int b = (t * PANEL_K + i) / f->block;
        int32_t sum = 0, of_x = 0;
        for (int j = i; j < i + apart; j++) {
            sum += panel_level(f, w->code[t * PANEL_K + j]) * code[j];
            of_x += code[j];
        }
        xb = (k + i) / f->act * tile_rows + at;
        products += w->sub[b] * sum;
        minima += w->minimum[b] * of_x;
        if (two) continue;
        y = fmaf((float)sum, w->scale[b] * x.scale[xb], y);
        if (f->base) y = fmaf(w->base[b], x.scale[xb] * (float)of_x, y);
    }
    if (!two) return y;
    if (f->base) return fmaf(fmaf(-w->dmin, (float)minima, w->d * (float)products), x.scale[xb], y);
    return fmaf((float)products, w->d * x.scale[xb], y);
}

GPU_CODE void def_qoutput(const held_weight *w, int64_t n, const act_rows *x, const float *bias, float *y, int64_t ldy)
{
    const panel_format *f = panel_format_of(w->type);
    const uint8_t *at = w->data + (uint64_t)(n / PANEL_ROWS) * w->stride;
    int64_t k = act_padded(w->cols);
    for (int64_t m = 0; m < x->rows; m++) y[m * ldy] = 0;
    for (int64_t k0 = 0; k0 < k; k0 += f->span) {
        int tiles = (int)((k - k0 < f->span ? k - k0 : f->span) / PANEL_K);
        panel_strip strip = {.d = 0};
        panel_strip_get(f, at, (int)(n % PANEL_ROWS), tiles, &strip);
        at += (tiles * f->code_lines + f->tail_lines) * PANEL_LINE;
        for (int64_t m = 0; m < x->rows; m++) {
            row_tile of = row_tile_at(x->rows, row_tile_of(x->rows, m));
            act_part p = act_part_of(x, of);
            for (int t = 0; t < tiles; t++)
                y[m * ldy] = dot_tile(f, &strip, t, p, of.rows, m - of.row0, k0 + t * PANEL_K, y[m * ldy]);
        }
    }
    for (int64_t m = 0; m < x->rows && bias; m++) y[m * ldy] += *bias;
}

GPU_CODE void def_qmatmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *bias = arg_at(r, o->in[2]);
    float *y = arg_at(r, o->out);
    act_rows x = act_rows_at(r, o->in[0]);
    int64_t from, to;
    run_share(w->rows, 1, worker, workers, &from, &to);
    for (int64_t n = from; n < to; n++) def_qoutput(w, n, &x, bias ? bias + n : NULL, y + n, w->rows);
}
