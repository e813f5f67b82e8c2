/* vocab_scan.h - passes over a row of the vocabulary: the maximum, exponentials and their sum, counts of values above a
 * level. Their order is fixed, so every backend that has its own gets the same bits.
 *
 * Sums: element i of a block of SCAN_BLOCK belongs to lane i mod 16; each lane adds in float, in order; the lanes are
 * folded by halves (8, 4, 2, 1); blocks are added in double, in order. Columns are padded to a multiple of SCAN_LANES,
 * keys with -inf and weights with 0; `take` and `keep` write the padding. */
#pragma once
#include "core/best_logit.h"

#include <stdint.h>

enum { SCAN_LANES = 16, SCAN_BLOCK = 1024, SCAN_LEVELS = 8 };

/* Room for the columns of n elements. */
static inline int64_t scan_room(int64_t n) { return (n + SCAN_BLOCK - 1) / SCAN_BLOCK * SCAN_BLOCK; }

typedef struct scan_columns {
    float *key, *weight;
    int32_t *id;
} scan_columns;

typedef struct scan_ops {
    /* logits_best, of any n. */
    best_logit (*best)(const float *x, int64_t n);
    /* Copies n values; NaN becomes -inf. Returns the maximum. */
    float (*take)(const float *from, int64_t n, float *to);
    /* Where the bit of an element is not set, key becomes -inf. */
    void (*mask)(const uint64_t *allowed, int64_t n, float *key);
    /* key = (key - top) * scale, weight = fm_exp of that; sums[block] of the weights. The total. */
    double (*weigh)(float *key, int64_t n, float top, float scale, float *weight, float *sums);
    /* The sum of weights; with `by`, each times `by`, which counts as -105 below that. */
    double (*sum)(const float *weight, const float *by, int64_t n, float *sums);
    /* For each level: how many keys are at least that, and the sum of their weights. */
    void (*above)(const float *key, const float *weight, int64_t n, const float level[SCAN_LEVELS],
                  double mass[SCAN_LEVELS], int64_t count[SCAN_LEVELS]);
    /* Where by < low, key becomes -inf and the weight 0; sums[block] of the weights. The total. */
    double (*erase)(const float *by, int64_t n, float low, float *key, float *weight, float *sums);
    /* Copies the columns where low <= by < high, in order; returns how many. `to` may be `from`. */
    int64_t (*keep)(const float *by, int64_t n, float low, float high, const scan_columns *from,
                    const scan_columns *to);
    /* to = |(x[i] - x[i+1]) - (x[i+1] - x[i+2])| for i < n; there are n + 2 values. */
    void (*bends)(const float *x, int64_t n, float *to);
    /* to = -|key - from|. */
    void (*distance)(const float *key, int64_t n, float from, float *to);
} scan_ops;

extern const scan_ops scan_reference;
