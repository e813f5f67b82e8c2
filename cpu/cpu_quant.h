/* cpu_quant.h - the body of QUANT: which blocks a worker takes and where their codes go. How one block is coded comes from the caller: the
 * definition (act_encode), or the same on vectors. */
#ifndef CPU_CPU_QUANT_H
#define CPU_CPU_QUANT_H
#include "cpu/cpu_experts.h"
#include "tensor/act_q8.h"

#include <string.h>

/* All rows of a QUANT; rows of experts: take act_rows_of_run of each run. */
static inline act_rows act_rows_at(const run *r, ref t)
{
    return (act_rows){(uint8_t *)arg_at(r, t), arg_info(r, t)->block, arg_rows(r, t), arg_dim(r, t), 0};
}
static inline act_rows act_rows_of_run(act_rows x, expert_run u)
{
    x.at += (uint64_t)u.row0 * act_row_bytes(x.cols, x.block);
    x.rows = u.rows;
    return x;
}

/* Output n of a packed weight for rows of activations, y[m * ldy]; bias: that of the output, or NULL. The definition. */
void cpu_qoutput(const held_weight *w, int64_t n, const act_rows *x, const float *bias, float *y, int64_t ldy);

typedef void quant_block(const float *x, int64_t n, int block, int8_t *code, float *scale, float *total,
                         int16_t *parts);

/* Units are blocks, those of a row one after another. Rows of experts (in1 is their dispatch) are tiled run by run. */
static inline void quant_rows(const run *r, const op *o, int worker, int workers, quant_block *encode)
{
    const float *x = arg_at(r, o->in[0]);
    uint8_t *out = (uint8_t *)arg_at(r, o->out);
    int block = arg_info(r, o->out)->block;
    int64_t cols = arg_dim(r, o->out), rows = arg_rows(r, o->out), blocks = act_padded(cols) / block, from, to;
    const int32_t *table = o->in[1] ? dispatch_at(r, o->in[1]) : NULL;
    expert_run u = {0, 0, table ? 0 : (int32_t)rows};
    cpu_share(rows * blocks, 1, worker, workers, &from, &to);
    for (int64_t m = from / blocks; m * blocks < to; m++) {
        if (m >= u.row0 + u.rows) u = expert_run_of(table, (int32_t)m, rows);
        act_tile t = act_tile_at(u.rows, act_tile_of(u.rows, m - u.row0));
        t.row0 += u.row0;
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
