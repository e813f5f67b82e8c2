/* cpu_qmatmul.c - references of QUANT, and of MATMUL where activations are int8 and weights packed (tensor/r16.h).
 *
 * Part (a) of the arithmetic contract: per output and block, codes times codes summed in int32 (exact, so in any order), times the product
 * of both scales, one chain of fused multiply-adds over the blocks, ascending; where the format has a base, base times the total
 * of the block's activations follows in the same chain (codes that count from another zero: zero times the scale is their base). A bias comes last. */
#include "cpu/cpu_quant.h"

#include "base/half.h"
#include "tensor/act_q8.h"

#include <math.h>
#include <string.h>

void cpu_quant(const run *r, const op *o, int worker, int workers) { quant_rows(r, o, worker, workers, act_encode); }

/* One output of one row: row `lane` of the panel against row `at` of the tile. */
static float dot(const r16_format *f, const uint8_t *panel, int lane, act_part x, int tile_rows, int64_t at, int64_t k)
{
    float y = 0;
    for (int64_t k0 = 0; k0 < k; k0 += R16_K, panel += f->lines * R16_LINE) {
        r16_tile w;
        r16_tile_get(f, panel, &w);
        for (int b = 0; b < R16_K / f->block; b++) {
            int64_t xb = (k0 / f->block + b) * tile_rows + at;
            int32_t sum = 0;
            for (int i = b * f->block; i < (b + 1) * f->block; i++)
                sum += w.code[lane][i] * x.code[((k0 + i) / 4 * tile_rows + at) * 4 + i % 4];
            float d = f16_to_f32(w.scale[b][lane]),
                  base = f->has_base ? f16_to_f32(w.base[b][lane]) : (float)f->zero * d;
            y = fmaf((float)sum, d * x.scale[xb], y);
            y = fmaf(base, x.total[xb], y);
        }
    }
    return y;
}

void cpu_qmatmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const r16_format *f = r16_of(w->type);
    uint8_t *x = (uint8_t *)arg_at(r, o->in[0]);
    const float *bias = arg_at(r, o->in[2]);
    float *y = arg_at(r, o->out);
    int64_t rows = arg_rows(r, o->out), from, to;
    cpu_share(w->rows, 1, worker, workers, &from, &to);
    for (int64_t m = 0; m < rows; m++) {
        act_tile t = act_tile_at(rows, act_tile_of(rows, m));
        act_part p = act_parts(x, t, w->cols, f->block);
        for (int64_t n = from; n < to; n++) {
            const uint8_t *panel = w->data + (uint64_t)(n / R16_ROWS) * w->stride;
            float v = dot(f, panel, (int)(n % R16_ROWS), p, t.rows, m - t.row0, act_padded(w->cols));
            y[m * w->rows + n] = bias ? v + bias[n] : v;
        }
    }
}
