/* quant_fit_lanes.h - the searches that fitted encoders share, for LANES blocks side by side: one block a lane.
 *
 * Weight i of block b is at [i][b]. Nothing is ever summed across lanes, and each lane decides for itself, so a block's
 * result does not depend on its neighbours; and compilers make vectors of the loops over lanes. */
#pragma once
#include "tensor/quant_fit_row.h"

#include <stdbool.h>

enum { FIT_WEIGHTS = 64 };

/* n weights and their importance of up to LANES blocks; the sums of importance, and times weight. */
typedef struct fit_lanes {
    int n;
    float x[FIT_WEIGHTS][LANES], w[FIT_WEIGHTS][LANES];
    float sw[LANES], sx[LANES];
} fit_lanes;

/* `count` blocks of n weights, `apart` floats from one to the next; lanes without a block are 0. */
void fit_lanes_load(fit_lanes *to, const float *x, const float *w, int n, int count, int apart);

/* Codes 0 … top times a scale plus a base. */
typedef struct affine_lanes {
    float scale[LANES], base[LANES];
    float error[LANES]; /* sum of importance * square */
} affine_lanes;

/* Sums of codes for least squares: of importance times code, code^2 and code * weight. */
typedef struct code_sums {
    float q[LANES], qq[LANES], xq[LANES];
} code_sums;

/* The best scale and base found from several clippings of the range by alternating least squares; f16: both as f16;
 * base_most: the largest base allowed. */
void fit_affine_best(const fit_lanes *l, int top, bool f16, float base_most, affine_lanes *best);
/* The errors of given scales and bases, and the sums of the codes that follow. */
void fit_affine_try(const fit_lanes *l, int top, affine_lanes *f, code_sums *s);
/* The codes under scales and bases: [i][lane]. */
typedef uint8_t lane_codes[FIT_WEIGHTS][LANES];
void fit_affine_codes(const fit_lanes *l, int top, const affine_lanes *f, lane_codes q);

/* The same for signed codes times a scale, which may be negative: low … high, or the levels of IQ4. */
typedef struct code_kind {
    int low, high;
    bool levels;
} code_kind;
typedef struct scale_lanes {
    float scale[LANES], error[LANES];
} scale_lanes;
void fit_scale_best(const fit_lanes *l, const code_kind *kind, bool f16, scale_lanes *best);
void fit_scale_try(const fit_lanes *l, const code_kind *kind, scale_lanes *f, code_sums *s); /* without s->q */
/* Codes minus the lowest; of levels their indices. */
void fit_scale_codes(const fit_lanes *l, const code_kind *kind, const scale_lanes *f, lane_codes q);

/* Lane b of them. */
static inline void lane_of(const lane_codes q, int n, int b, uint8_t *to)
{
    for (int i = 0; i < n; i++) to[i] = q[i][b];
}
