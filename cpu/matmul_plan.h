/* matmul_plan.h - blocking of the matmul of many rows (v_matmul.h) and its share of the scratch space. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* MATMUL_BLOCK_K: k of float32; bfloat16 takes as many bytes. */
enum { MATMUL_BLOCK_M = 192, MATMUL_BLOCK_K = 384, MATMUL_PANEL_N = 12, MATMUL_TILE_N = 4 };
typedef struct matmul_space {
    float *x;       /* packed activations */
    float *w;       /* widened weights of one panel and block of k */
    float *acc;     /* partial sums of one panel, 16 per output */
    float *decoded; /* whole rows of one panel, for block types */
} matmul_space;
static inline matmul_space matmul_space_of(float *scratch, int64_t rows, int64_t k)
{
    int64_t padded = (k + 15) / 16 * 16;
    float *w = scratch + rows * padded, *acc = w + MATMUL_PANEL_N * MATMUL_BLOCK_K;
    return (matmul_space){scratch, w, acc, acc + rows * MATMUL_PANEL_N * 16};
}
static inline uint64_t matmul_space_floats(int64_t rows, int64_t k, bool decode)
{
    uint64_t r = (uint64_t)rows, padded = ((uint64_t)k + 15) / 16 * 16;
    return r * padded + MATMUL_PANEL_N * MATMUL_BLOCK_K + r * MATMUL_PANEL_N * 16 +
           (decode ? MATMUL_PANEL_N * padded : 0);
}
/* Rows of the block that starts at row m: blocks of about equal size. */
static inline int64_t matmul_block_rows(int64_t rows, int64_t m)
{
    int64_t blocks = (rows + MATMUL_BLOCK_M - 1) / MATMUL_BLOCK_M, each = (rows + blocks - 1) / blocks;
    return rows - m < each ? rows - m : each;
}
