/* quant_fit_row.h - the interface between quant_fit.c and its encoders: up to LANES blocks of a row at a time, weights
 * finite and not above FIT_MOST, importance >= 0 and in no block all 0. */
#pragma once
#include "tensor/dtype.h"

#include <stdint.h>

/* Encodes `blocks` blocks: their weights and importance one block after the other. */
typedef void blocks_fitter(dtype t, const float *x, const float *importance, int blocks, uint8_t *out);

blocks_fitter fit_linear, fit_legacy, fit_tables, fit_k_minimum, fit_k_scale, fit_iq4_nl, fit_iq4_xs, fit_iq_grid,
    fit_few, fit_fp4;

/* Loops run over LANES elements at a time, each lane with its own sum, so that compilers make vectors of them and every
 * instruction set adds in the same order. */
enum { LANES = 16 };

/* Hot functions are compiled for wider vectors too, and chosen at start-up; sums and products stay as written, so do
 * the bits. FIT_LOOPS: those written as loops over lanes, which need the vectorizer. */
#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FIT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define FIT_LOOPS  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define FIT_CLONES
#define FIT_LOOPS
#endif

static inline float lanes_sum(const float *a)
{
    float s[4];
    for (int i = 0; i < 4; i++) s[i] = a[i] + a[i + 4] + (a[i + 8] + a[i + 12]);
    return s[0] + s[1] + (s[2] + s[3]);
}

/* To the nearest integer, ties to even, for |v| < 2^22: vectors without an instruction for it do this as well. */
#define FIT_ROUND 0x1.8p23f
#define FIT_MOST  0x1p20f
