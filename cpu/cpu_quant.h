/* cpu_quant.h - the body of QUANT: which blocks a worker takes and where their codes go. How one block is coded comes from the caller: the
 * definition (act_encode), or the same on vectors. */
#ifndef CPU_CPU_QUANT_H
#define CPU_CPU_QUANT_H
#include "cpu/cpu.h"
#include "tensor/act_q8.h"

#include <string.h>

typedef void quant_block(const float *x, int64_t n, int block, int8_t *code, float *scale, float *total,
                         int16_t *parts);

/* Units are blocks, those of a row one after another. */
static inline void quant_rows(const run *r, const op *o, int worker, int workers, quant_block *encode)
{
    const float *x = arg_at(r, o->in[0]);
    uint8_t *out = (uint8_t *)arg_at(r, o->out);
    int block = arg_info(r, o->out)->block;
    int64_t cols = arg_dim(r, o->out), rows = arg_rows(r, o->out), blocks = act_padded(cols) / block, from, to;
    cpu_share(rows * blocks, 1, worker, workers, &from, &to);
    for (int64_t m = from / blocks; m * blocks < to; m++) {
        act_tile t = act_tile_at(rows, act_tile_of(rows, m));
        act_part p = act_parts(out, t, cols, block);
        int64_t at = m - t.row0, b0 = m * blocks > from ? 0 : from - m * blocks,
                b1 = (m + 1) * blocks < to ? blocks : to - m * blocks;
        for (int64_t b = b0; b < b1; b++) {
            int64_t k = b * block, left = cols - k, i = b * t.rows + at;
            int8_t code[R16_K];
            encode(x + m * cols + k,
                   left < 0       ? 0
                   : left < block ? left
                                  : block,
                   block, code, &p.scale[i], &p.total[i], p.parts ? p.parts + i * ACT_PARTS : NULL);
            int8_t *lane = p.code + (k / 4 * t.rows + at) * 4;
            if (t.rows == 1) memcpy(lane, code, (size_t)block);
            else
                for (int c = 0; c < block; c += 4, lane += 4 * t.rows) memcpy(lane, code + c, 4);
        }
    }
}

#endif
