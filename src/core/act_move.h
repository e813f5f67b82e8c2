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

/* Writes columns col0 … col0+cols-1 of rows 0 … rows-1 of t, an activation in the arena at `base`. */
GPU_CODE void act_move_in(const program *p, uint8_t *base, ref t, int64_t col0, int64_t cols, int64_t rows,
                          const void *from);

/* Reads rows row0 … row0+rows-1; of codes: all rows of the step. */
GPU_CODE void act_move_out(const program *p, uint8_t *base, ref t, int64_t row0, int64_t rows, void *to);
