/* act_move.h - rows of an activation on their way in and out of an arena where they lie as the CPU has them: floats row
 * by row, codes in row tiles (tensor/act_q8.h). What backend.act_put and act_get mean, for such devices. */
#pragma once
#include "core/program.h"
#include "tensor/act_q8.h"

/* Bytes of `cols` columns of a row outside the arena. */
static inline uint64_t act_move_bytes(const tensor *t, int64_t cols)
{
    return t->block ? act_wire_bytes(cols, t->block) : (uint64_t)cols * sizeof(float);
}

/* Writes columns of rows 0 … rows-1 of t, which lies at `at`. */
static inline void act_move_in(const tensor *t, uint8_t *at, int64_t col0, int64_t cols, int64_t rows, const void *from)
{
    const int64_t all = tensor_count(t);
    const act_rows codes = {at, t->block, rows, all, 0};
    const float *row = (const float *)from;
    if (t->block) act_wire_put(&codes, col0, cols, from);
    else if (cols == all) memcpy(at, from, (size_t)(rows * all) * sizeof *row);
    else
        for (int64_t i = 0; i < rows; i++, row += cols)
            memcpy((float *)(void *)at + i * all + col0, row, (size_t)cols * sizeof *row);
}

/* Reads rows row0 … row0+rows-1; of codes: all rows of the step. */
static inline void act_move_out(const tensor *t, uint8_t *at, int64_t row0, int64_t rows, void *to)
{
    const int64_t all = tensor_count(t);
    const act_rows codes = {at, t->block, rows, all, 0};
    if (t->block) act_wire_get(&codes, to);
    else memcpy(to, (float *)(void *)at + row0 * all, (size_t)(rows * all) * sizeof(float));
}
