/* t_base_fmath.c - accuracy of the own exp, tanh, erf, sigmoid, sin, cos against double and long double libm, and their
 * special values. */
#include "test.h"

#include "base/fmath.h"

static double ulps(float y, double want)
{
    float f = fabsf((float)want);
    if (f < 0x1p-126f) f = 0x1p-126f;
    return fabs((double)y - want) / ((double)nextafterf(f, INFINITY) - (double)f);
}

static double sigmoid_double(double x) { return 1 / (1 + exp(-x)); }

static double softplus_double(double x) { return x > 40 ? x : log1p(exp(x)); }

/* Every 2003rd float of the range. */
static double worst(float (*f)(float), double (*want)(double), float least, float most)
{
    double w = 0;
    for (uint64_t b = 0; b < 0x100000000ull; b += 2003) {
        float x = bits_float((uint32_t)b);
        if (!(x >= least && x <= most)) continue;
        double d = ulps(f(x), want(x));
        if (!(d <= w)) w = d;
    }
    return w;
}

static void floats_are_within_the_stated_ulp(void **state)
{
    (void)state;
    double e = worst(fm_exp, exp, -104, 88.7f), t = worst(fm_tanh, tanh, -1e30f, 1e30f),
           r = worst(fm_erf, erf, -1e30f, 1e30f), s = worst(fm_sigmoid, sigmoid_double, -87, 1e30f),
           p = worst(fm_softplus, softplus_double, -87, 1e30f);
    printf("exp %.2f tanh %.2f erf %.2f sigmoid %.2f softplus %.2f ulp\n", e, t, r, s, p);
    assert_true(e <= 1.0 && t <= 1.4 && r <= 1.2 && s <= 2.4 && p <= 2.5);
}

static void specials(void **state)
{
    (void)state;
    assert_true(fm_exp(INFINITY) == INFINITY && fm_exp(1000) == INFINITY && fm_exp(-INFINITY) == 0 &&
                fm_exp(-1000) == 0);
    assert_true(fm_exp(0) == 1 && isnan(fm_exp(NAN)));
    assert_true(fm_tanh(INFINITY) == 1 && fm_tanh(-INFINITY) == -1 && isnan(fm_tanh(NAN)) && signbit(fm_tanh(-0.0f)));
    assert_true(fm_erf(INFINITY) == 1 && fm_erf(-4) == -1 && isnan(fm_erf(NAN)) && signbit(fm_erf(-0.0f)));
    assert_true(fm_sigmoid(-INFINITY) == 0 && fm_sigmoid(INFINITY) == 1);
    assert_true(fm_softplus(-INFINITY) == 0 && fm_softplus(INFINITY) == INFINITY && isnan(fm_softplus(NAN)));
}

static void angles(void **state)
{
    (void)state;
    double worst_angle = 0;
    for (double x = -20; x < 1048576; x = x < 2000 ? x + 0.0137 : x * 1.00002) {
        double s, c;
        fm_sincos(x, &s, &c);
        double a = (double)fabsl((long double)s - sinl(x)), b = (double)fabsl((long double)c - cosl(x));
        if (a > worst_angle) worst_angle = a;
        if (b > worst_angle) worst_angle = b;
    }
    assert_true(worst_angle <= 1.8e-16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_within_the_stated_ulp),
        cmocka_unit_test(specials),
        cmocka_unit_test(angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
