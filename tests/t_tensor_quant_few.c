/* t_tensor_quant_few.c - encoders whose scales are the best there are: no scale that the type can write, tried one by
 * one, gives less error. */
#include "test.h"

#include "base/half.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"

#include <math.h>

enum { N = 512 };

static uint64_t seed;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) * 0x1p-53;
}
static float normal(void) { return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform())); }

/* Normal; with outliers; of one sign; few values; nothing; and what counts of each. */
enum { KINDS = 6 };
static void make_row(float *x, float *w, int kind)
{
    seed = (uint64_t)kind * 31 + 7;
    for (int i = 0; i < N; i++) {
        x[i] = 0.4f * normal();
        if (kind == 1 && i % 61 == 7) x[i] *= 12;
        if (kind == 2) x[i] = fabsf(x[i]) - (i % 7 == 0);
        if (kind == 3) x[i] = (float)(i * 5 % 4 - 1) * 0.75f;
        if (kind == 4) x[i] = 0;
        if (kind == 5) x[i] *= 0.03f; /* scales of nvfp4 without a bit to spare */
        w[i] = (float)exp(2 * normal());
    }
}

static double error_of(const float *x, const float *y, const float *w, int n)
{
    double e = 0;
    for (int i = 0; i < n; i++) e += (w ? w[i] : 1) * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return e;
}

/* The least error under a scale: each weight takes the nearest level. */
static double error_under(double scale, const double *level, int levels, const float *x, const float *w, int n)
{
    double e = 0;
    for (int i = 0; i < n; i++) {
        double least = INFINITY;
        for (int c = 0; c < levels; c++) least = fmin(least, fabs(x[i] - scale * level[c]));
        e += (w ? w[i] : 1) * least * least;
    }
    return e;
}

static const struct few {
    dtype type;
    int share, levels; /* weights that share a scale */
    double level[15];
} few[] = {
    {DTYPE_Q1_0, 128, 2, {-1, 1}},
    {DTYPE_Q2_0, 64, 4, {-1, 0, 1, 2}},
    {DTYPE_TQ1_0, 256, 3, {-1, 0, 1}},
    {DTYPE_TQ2_0, 256, 3, {-1, 0, 1}},
    {DTYPE_MXFP4, 32, 15, {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6}},
    {DTYPE_NVFP4, 16, 15, {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6}},
};

/* Scales that the type can write, as OCP's papers and f16 define them; false after the last. */
static bool next_scale(dtype t, int number, double *scale)
{
    if (t == DTYPE_MXFP4) {
        *scale = ldexp(1, number - 127);
        return number < 255;
    }
    if (t == DTYPE_NVFP4) { /* unsigned E4M3 */
        *scale = number < 8 ? ldexp(number, -9) : ldexp(8 + number % 8, number / 8 - 10);
        return number < 127;
    }
    *scale = f16_to_f32((uint16_t)((number & 1) << 15 | (0x2000 + (number >> 1)))); /* 2^-7 to 2^4 */
    return number < 2 * (0x4c00 - 0x2000);
}

static void no_other_scale_is_better(void **state)
{
    (void)state;
    static float x[N], w[N], y[N];
    static uint8_t out[N];
    for (size_t k = 0; k < sizeof few / sizeof *few; k++)
        for (int kind = 0; kind < 2 * KINDS; kind++) {
            const struct few *f = &few[k];
            make_row(x, w, kind / 2);
            const float *counts = kind % 2 ? w : NULL;
            quant_fit(f->type, x, N, counts, out);
            quant_decode(f->type, out, y, N);
            for (int at = 0; at < N; at += 2 * f->share) {
                double e = error_of(x + at, y + at, counts ? counts + at : NULL, f->share), least = INFINITY, scale,
                       best = 0;
                for (int s = 0; next_scale(f->type, s, &scale); s++) {
                    double other = error_under(scale, f->level, f->levels, x + at, counts ? counts + at : NULL,
                                               f->share);
                    if (other < least) best = scale;
                    least = fmin(least, other);
                }
                if (!(e <= least * (1 + 1e-5) + 1e-12))
                    fail_msg("%s, row %d at %d: %.9g, of scale %g %.9g", dtype_info[f->type].name, kind, at, e, best,
                             least);
            }
        }
}

/* What a type can hold comes back as it was. */
static void rows_of_levels_come_back(void **state)
{
    (void)state;
    static float x[N], y[N];
    static uint8_t out[N];
    for (size_t k = 0; k < sizeof few / sizeof *few; k++)
        for (int sign = -1; sign < 2; sign += 2) {
            const struct few *f = &few[k];
            for (int i = 0; i < N; i++)
                x[i] = (float)(sign * 0.75 * f->level[i * 7 % f->levels]) * (f->type == DTYPE_MXFP4 ? 1 / 1.5f : 1);
            quant_fit(f->type, x, N, NULL, out);
            quant_decode(f->type, out, y, N);
            for (int i = 0; i < N; i++)
                if (x[i] != y[i]) fail_msg("%s: %g became %g", dtype_info[f->type].name, (double)x[i], (double)y[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_scale_is_better),
        cmocka_unit_test(rows_of_levels_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
