/* quant_fit_lanes.c - see quant_fit_lanes.h.
 *
 * Given codes, the best scale and base are a least-squares line; given scale and base, the best codes are the nearest.
 * So both alternate, starting from the full range and from ranges clipped a little at one or both ends (with few bits
 * this gains most: a level that one outlier needs is lost to all others), each step with scale and base as stored. The
 * best is kept; the plain encoding is one of the candidates. */
#include "tensor/quant_fit_lanes.h"

#include "base/half.h"
#include "tensor/quant_grids.h"

#include <math.h>
#include <string.h>

#define EACH for (int j = 0; j < LANES; j++)

FIT_LOOPS
static void add_up(fit_lanes *l)
{
    EACH l->sw[j] = l->sx[j] = 0;
    for (int i = 0; i < l->n; i++) EACH
        {
            l->sw[j] += l->w[i][j];
            l->sx[j] += l->w[i][j] * l->x[i][j];
        }
}

void fit_lanes_load(fit_lanes *to, const float *x, const float *w, int n, int count, int apart)
{
    to->n = n;
    for (int b = 0; b < LANES; b++)
        for (int i = 0; i < n; i++) {
            to->x[i][b] = b < count ? x[b * apart + i] : 0;
            to->w[i][b] = b < count ? w[b * apart + i] : 0;
        }
    add_up(to);
}

/* To the nearest f16 but never to infinity: below 2^-14 f16 are multiples of 2^-24, above they have eleven bits. */
static inline float as_f16(float x)
{
    uint32_t u = float_bits(x), a = u & 0x7fffffff;
    float fine = bits_float(a) + 0.5f - 0.5f;
    uint32_t wide = (a + 0xfff + (a >> 13 & 1)) & 0xffffe000;
    a = a < 0x38800000 ? float_bits(fine) : wide < 0x477fe000 ? wide : 0x477fe000;
    return bits_float(a | (u & 0x80000000));
}

static void as_f16_lanes(float *x) { EACH x[j] = as_f16(x[j]); }

/* ---- codes 0 … top, scale and base */

FIT_LOOPS
void fit_affine_try(const fit_lanes *l, int top, affine_lanes *f, code_sums *s)
{
    float e[LANES] = {0}, q[LANES] = {0}, qq[LANES] = {0}, xq[LANES] = {0}, scale[LANES], base[LANES], inverse[LANES];
    float most = (float)top;
    EACH
    {
        scale[j] = f->scale[j];
        base[j] = f->base[j];
        inverse[j] = scale[j] != 0 ? 1 / scale[j] : 0;
    }
    for (int i = 0; i < l->n; i++) EACH
        {
            float x = l->x[i][j], w = l->w[i][j], v = (x - base[j]) * inverse[j];
            v = v > 0 ? v : 0;
            v = v < most ? v : most;
            v = (v + FIT_ROUND) - FIT_ROUND;
            float d = x - (v * scale[j] + base[j]), wv = w * v;
            e[j] += w * d * d;
            q[j] += wv;
            qq[j] += wv * v;
            xq[j] += wv * x;
        }
    memcpy(f->error, e, sizeof e);
    memcpy(s->q, q, sizeof q);
    memcpy(s->qq, qq, sizeof qq);
    memcpy(s->xq, xq, sizeof xq);
}

FIT_LOOPS
void fit_affine_codes(const fit_lanes *l, int top, const affine_lanes *f, lane_codes q)
{
    float base[LANES], inverse[LANES], most = (float)top;
    EACH
    {
        base[j] = f->base[j];
        inverse[j] = f->scale[j] != 0 ? 1 / f->scale[j] : 0;
    }
    for (int i = 0; i < l->n; i++) EACH
        {
            float v = (l->x[i][j] - base[j]) * inverse[j];
            v = v > 0 ? v : 0;
            v = v < most ? v : most;
            q[i][j] = (uint8_t)(int)((v + FIT_ROUND) - FIT_ROUND);
        }
}

/* Keeps improvements; false when no lane improved on its last step. */
FIT_LOOPS
static bool keep_affine(affine_lanes *best, const affine_lanes *f, float *last)
{
    int better = 0;
    EACH
    {
        bool b = f->error[j] < best->error[j];
        best->scale[j] = b ? f->scale[j] : best->scale[j];
        best->base[j] = b ? f->base[j] : best->base[j];
        best->error[j] = b ? f->error[j] : best->error[j];
        better |= f->error[j] < last[j];
        last[j] = f->error[j];
    }
    return better;
}

/* The line through codes and weights; lanes without one stay. */
FIT_LOOPS
static void solve_affine(const fit_lanes *l, affine_lanes *f, const code_sums *s, float base_most)
{
    EACH
    {
        float of = l->sw[j] * s->qq[j] - s->q[j] * s->q[j];
        float scale = (l->sw[j] * s->xq[j] - s->q[j] * l->sx[j]) / of, base = (l->sx[j] - scale * s->q[j]) / l->sw[j];
        float bound = (s->xq[j] - base_most * s->q[j]) / s->qq[j];
        bool above = base > base_most, line = of > 0;
        scale = above ? bound : scale;
        base = above ? base_most : base;
        f->scale[j] = line ? scale : f->scale[j];
        f->base[j] = line ? base : f->base[j];
    }
}

FIT_LOOPS
static void ranges(const fit_lanes *l, float *low, float *high)
{
    EACH low[j] = high[j] = l->x[0][j];
    for (int i = 0; i < l->n; i++) EACH
        {
            float x = l->x[i][j];
            low[j] = x < low[j] ? x : low[j];
            high[j] = x > high[j] ? x : high[j];
        }
}

static bool all_exact(const float *error)
{
    float most = 0;
    EACH most = error[j] > most ? error[j] : most;
    return most == 0;
}

void fit_affine_best(const fit_lanes *l, int top, bool f16, float base_most, affine_lanes *best)
{
    /* parts of the range left out at the lower and upper end */
    static const float cut[][2] = {{0, 0}, {0.04f, 0.04f}, {0.09f, 0.09f}, {0, 0.1f}, {0.1f, 0}, {0.15f, 0.15f}};
    int cuts = top > 100 ? 1 : top > 20 ? 3 : 6;
    float low[LANES], high[LANES], last[LANES];
    affine_lanes f;
    code_sums s;
    ranges(l, low, high);
    EACH best->error[j] = INFINITY;
    for (int c = 0; c < cuts && !all_exact(best->error); c++) {
        EACH
        {
            float range = high[j] - low[j], from = low[j] + cut[c][0] * range, to = high[j] - cut[c][1] * range;
            from = from < base_most ? from : base_most;
            f.scale[j] = (to - from) / (float)top;
            f.base[j] = from;
            last[j] = INFINITY;
        }
        for (int turn = 0; turn < 4; turn++) {
            if (f16) as_f16_lanes(f.scale), as_f16_lanes(f.base);
            fit_affine_try(l, top, &f, &s);
            if (!keep_affine(best, &f, last)) break;
            solve_affine(l, &f, &s, base_most);
        }
    }
}

/* ---- signed codes and a scale */

/* Boundaries between the levels of IQ4, and the gain of crossing each: exact in float32. */
enum { IQ4_STEPS = 15 };
typedef struct level_steps {
    float at[IQ4_STEPS], rise[IQ4_STEPS];
} level_steps;

static level_steps steps_of_iq4(void)
{
    level_steps s;
    for (int c = 0; c < IQ4_STEPS; c++) {
        s.at[c] = (quant_level_iq4[c] + quant_level_iq4[c + 1]) * 0.5f;
        s.rise[c] = quant_level_iq4[c + 1] - quant_level_iq4[c];
    }
    return s;
}

/* The nearest levels of eight numbers. */
enum { WIDE = 8 };
typedef float floats __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(WIDE * sizeof(float))));
static inline __attribute__((always_inline)) void nearest_levels(const level_steps *s, const floats *u, floats *level)
{
    floats v = (floats){0} + quant_level_iq4[0];
    for (int c = 0; c < IQ4_STEPS; c++) v += (floats)((masks)((floats){0} + s->rise[c]) & (*u > s->at[c]));
    *level = v;
}

FIT_LOOPS
static void try_levels(const fit_lanes *l, scale_lanes *f, code_sums *s)
{
    const level_steps step = steps_of_iq4();
    for (int j = 0; j < LANES; j += WIDE) {
        floats e = {0}, qq = {0}, xq = {0}, scale, inverse;
        memcpy(&scale, f->scale + j, sizeof scale);
        for (int k = 0; k < WIDE; k++) inverse[k] = scale[k] != 0 ? 1 / scale[k] : 0;
        for (int i = 0; i < l->n; i++) {
            floats x, w, v;
            memcpy(&x, l->x[i] + j, sizeof x);
            memcpy(&w, l->w[i] + j, sizeof w);
            floats u = x * inverse;
            nearest_levels(&step, &u, &v);
            floats d = x - v * scale, wv = w * v;
            e += w * d * d;
            qq += wv * v;
            xq += wv * x;
        }
        memcpy(f->error + j, &e, sizeof e);
        memcpy(s->qq + j, &qq, sizeof qq);
        memcpy(s->xq + j, &xq, sizeof xq);
    }
}

FIT_LOOPS
static void try_codes(const fit_lanes *l, const code_kind *kind, scale_lanes *f, code_sums *s)
{
    float e[LANES] = {0}, qq[LANES] = {0}, xq[LANES] = {0}, scale[LANES], inverse[LANES];
    float least = (float)kind->low, most = (float)kind->high;
    EACH
    {
        scale[j] = f->scale[j];
        inverse[j] = scale[j] != 0 ? 1 / scale[j] : 0;
    }
    for (int i = 0; i < l->n; i++) EACH
        {
            float x = l->x[i][j], w = l->w[i][j], v = x * inverse[j];
            v = v > least ? v : least;
            v = v < most ? v : most;
            v = (v + FIT_ROUND) - FIT_ROUND;
            float d = x - v * scale[j], wv = w * v;
            e[j] += w * d * d;
            qq[j] += wv * v;
            xq[j] += wv * x;
        }
    memcpy(f->error, e, sizeof e);
    memcpy(s->qq, qq, sizeof qq);
    memcpy(s->xq, xq, sizeof xq);
}

void fit_scale_try(const fit_lanes *l, const code_kind *kind, scale_lanes *f, code_sums *s)
{
    if (kind->levels) try_levels(l, f, s);
    else try_codes(l, kind, f, s);
}

FIT_LOOPS
static void number_levels(const fit_lanes *l, const scale_lanes *f, lane_codes q)
{
    const level_steps step = steps_of_iq4();
    for (int i = 0; i < l->n; i++) {
        float u[LANES];
        int n[LANES] = {0};
        EACH u[j] = f->scale[j] != 0 ? l->x[i][j] * (1 / f->scale[j]) : 0;
        for (int c = 0; c < IQ4_STEPS; c++) EACH n[j] += u[j] > step.at[c];
        EACH q[i][j] = (uint8_t)n[j];
    }
}

FIT_LOOPS
void fit_scale_codes(const fit_lanes *l, const code_kind *kind, const scale_lanes *f, lane_codes q)
{
    float inverse[LANES], least = (float)kind->low, most = (float)kind->high;
    if (kind->levels) {
        number_levels(l, f, q);
        return;
    }
    EACH inverse[j] = f->scale[j] != 0 ? 1 / f->scale[j] : 0;
    for (int i = 0; i < l->n; i++) EACH
        {
            float v = l->x[i][j] * inverse[j];
            v = v > least ? v : least;
            v = v < most ? v : most;
            q[i][j] = (uint8_t)(int)((v + FIT_ROUND) - FIT_ROUND - least);
        }
}

FIT_LOOPS
static bool keep_scale(scale_lanes *best, const scale_lanes *f, float *last)
{
    int better = 0;
    EACH
    {
        bool b = f->error[j] < best->error[j];
        best->scale[j] = b ? f->scale[j] : best->scale[j];
        best->error[j] = b ? f->error[j] : best->error[j];
        better |= f->error[j] < last[j];
        last[j] = f->error[j];
    }
    return better;
}

FIT_LOOPS
static void max_size(const fit_lanes *l, float *most)
{
    EACH most[j] = 0;
    for (int i = 0; i < l->n; i++) EACH most[j] = fabsf(l->x[i][j]) > fabsf(most[j]) ? l->x[i][j] : most[j];
}

/* Targets of the largest weight: the end of the longer side, or of the other; then codes beyond that end, which clip
 * it. */
static float end_of(const code_kind *kind, int c)
{
    int starts = kind->high > 10 ? 4 : 9, at = c / 2;
    if (kind->levels) return c % 2 ? 113 + 9.f * (float)(at - 2) : -127 - 9.f * (float)(at - 2);
    return (float)(c % 2 ? kind->high : kind->low) + (c % 2 ? 1 : -1) * 0.3f * (float)(at - (starts > 4));
}

void fit_scale_best(const fit_lanes *l, const code_kind *kind, bool f16, scale_lanes *best)
{
    int starts = kind->levels ? 7 : kind->high > 10 ? 4 : 9, turns = kind->levels ? 2 : 3;
    float most[LANES], last[LANES];
    scale_lanes f;
    code_sums s;
    max_size(l, most);
    EACH best->error[j] = INFINITY;
    for (int c = 0; c < 2 * starts && !all_exact(best->error); c++) {
        float end = end_of(kind, c);
        EACH
        {
            f.scale[j] = most[j] / end;
            last[j] = INFINITY;
        }
        for (int turn = 0; turn < turns; turn++) {
            if (f16) as_f16_lanes(f.scale);
            fit_scale_try(l, kind, &f, &s);
            if (!keep_scale(best, &f, last)) break;
            EACH f.scale[j] = s.qq[j] > 0 ? s.xq[j] / s.qq[j] : f.scale[j];
        }
    }
}
