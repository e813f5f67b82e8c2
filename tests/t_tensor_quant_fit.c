/* t_tensor_quant_fit.c - fitted encoders (tensor/quant_fit.h): never worse than the plain ones, exact where that is
 * possible, the better for importance, and as good on normal weights as the table of quant_tables.c says. */
#include "test.h"

#include "base/mem.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"
#include "tensor/quant_linear.h"
#include "tensor/quant_tables.h"

#include <math.h>

enum { N = 4096 };

static uint64_t seed;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) * 0x1p-53;
}
static float normal(void) { return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform())); }

/* Rows as weights come: normal; with a few large ones; skewed; wide in one part and narrow in another; nearly constant.
 * */
static void make_row(float *x, int n, int kind)
{
    seed = (uint64_t)kind * 77 + 5;
    for (int i = 0; i < n; i++) {
        x[i] = 0.02f * normal();
        if (kind == 1 && i % 97 == 5) x[i] *= 20;
        if (kind == 2) x[i] = x[i] > 0 ? 3 * x[i] : x[i];
        if (kind == 3) x[i] *= i % 512 < 256 ? 1 : 0.05f;
        if (kind == 4) x[i] = 1 + 1e-3f * x[i];
    }
}
enum { KINDS = 5 };

static double error_of(dtype t, const float *x, const float *importance, const void *blocks, int n)
{
    float *y = mem_array((uint64_t)n, sizeof *y);
    double e = 0;
    quant_decode_row(t, blocks, y, (uint64_t)n);
    for (int i = 0; i < n; i++) e += (importance ? importance[i] : 1) * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    mem_free(y);
    return e;
}

static bool fitted(dtype t) { return dtype_is_block(t) && quant_can_encode(t); }

static void fitted_is_not_worse_than_plain(void **state)
{
    (void)state;
    static float x[N];
    static uint8_t plain[N * 2], fit[N * 2], again[N * 2];
    for (int kind = 0; kind < KINDS; kind++) {
        make_row(x, N, kind);
        for (int t = 1; t < DTYPE_COUNT; t++) {
            if (!fitted((dtype)t)) continue;
            uint64_t bytes;
            assert_true(dtype_bytes((dtype)t, N, &bytes));
            quant_encode((dtype)t, x, plain, N);
            quant_fit((dtype)t, x, N, NULL, fit);
            quant_fit((dtype)t, x, N, NULL, again);
            assert_memory_equal(fit, again, bytes);
            double a = error_of((dtype)t, x, NULL, plain, N), b = error_of((dtype)t, x, NULL, fit, N);
            if (!(b <= a * (1 + 1e-6))) fail_msg("%s, row %d: %g, plain %g", dtype_info[t].name, kind, b, a);
            bool coarse = linear_top((dtype)t) && linear_top((dtype)t) < 16;
            if (coarse && kind != 4 && !(b < a * 0.97))
                fail_msg("%s, row %d: %g, plain %g: not better", dtype_info[t].name, kind, b, a);
        }
    }
}

/* What a type decodes to from blocks whose codes reach both ends is a row that it can hold: encoding finds it again. */
static void representable_rows_come_back(void **state)
{
    (void)state;
    uint8_t block[512] = {0}, out[512];
    float x[DTYPE_WEIGHTS_MAX], y[DTYPE_WEIGHTS_MAX];
    for (int t = 1; t < DTYPE_COUNT; t++) {
        int n = dtype_info[t].weights;
        if (linear_top((dtype)t)) {
            uint8_t q[64];
            for (int i = 0; i < n; i++) q[i] = (uint8_t)(i * 7 % (linear_top((dtype)t) + 1));
            q[0] = 0;
            q[1] = (uint8_t)linear_top((dtype)t);
            linear_put((dtype)t, block, q, 0x2a66, 0xb123);
        } else if (tables_format_of((dtype)t)) {
            const tables_format *f = tables_format_of((dtype)t);
            uint8_t code[TABLES_WEIGHTS], choice[TABLES_SUBS];
            for (int i = 0; i < TABLES_WEIGHTS; i++) code[i] = (uint8_t)(i * 5 % (1 << f->bits));
            for (int i = 0; i < TABLES_SUBS; i++) choice[i] = (uint8_t)(i * 3 % (1 << f->choice));
            tables_put((dtype)t, block, code, choice, 0x66);
            uint8_t code2[TABLES_WEIGHTS], choice2[TABLES_SUBS], scale;
            tables_get((dtype)t, block, code2, choice2, &scale);
            assert_memory_equal(code, code2, sizeof code);
            assert_memory_equal(choice, choice2, (size_t)(TABLES_WEIGHTS / f->sub));
            assert_int_equal(scale, 0x66);
        } else {
            continue;
        }
        quant_decode((dtype)t, block, x, (uint64_t)n);
        quant_fit((dtype)t, x, (uint64_t)n, NULL, out);
        quant_decode((dtype)t, out, y, (uint64_t)n);
        if (memcmp(x, y, (size_t)n * sizeof *x) != 0) fail_msg("%s does not come back", dtype_info[t].name);
    }
}

static void importance_lowers_the_weighted_error(void **state)
{
    (void)state;
    static float x[N], w[N], one[N];
    static uint8_t plain[N * 2], fit[N * 2];
    make_row(x, N, 0);
    seed = 3;
    for (int i = 0; i < N; i++) {
        w[i] = (float)exp(3 * normal()) * 1e-6f;
        one[i] = 7e8f;
    }
    for (int t = 1; t < DTYPE_COUNT; t++) {
        if (!linear_top((dtype)t) && !tables_format_of((dtype)t)) continue;
        quant_fit((dtype)t, x, N, NULL, plain);
        quant_fit((dtype)t, x, N, w, fit);
        double a = error_of((dtype)t, x, w, plain, N), b = error_of((dtype)t, x, w, fit, N);
        if (!(b < (linear_top((dtype)t) > 100 ? 0.99 : 0.8) * a))
            fail_msg("%s: %g, without importance %g", dtype_info[t].name, b, a);
        quant_fit((dtype)t, x, N, one, fit); /* the same everywhere is none */
        uint64_t bytes;
        assert_true(dtype_bytes((dtype)t, N, &bytes));
        assert_memory_equal(fit, plain, bytes);
    }
}

/* Signal to noise in dB on normal weights. What llama.cpp's own encoders reach with the K types: 10.5, 16.4, 22.9,
 * 28.8, 35.0; IQ4_XS 22.3; those of books, IQ3_S to IQ1_S, 17.3, 14.8, 12.1, 10.5, 9.3, 6.9, 6.3; Q8_0 45.4, NVFP4
 * 19.7, MXFP4 18.8, Q2_0 2.9, TQ1_0 and TQ2_0 1.8, Q1_0 4.4. */
static void errors_are_as_small_as_stated(void **state)
{
    (void)state;
    static float x[N * 4];
    static uint8_t blocks[N * 5];
    static const struct {
        dtype type;
        double least;
    } want[] = {{DTYPE_Q4_T, 22.9},    {DTYPE_Q3H_T, 19.0},  {DTYPE_Q3_T, 17.6},   {DTYPE_Q2_T, 12.8},
                {DTYPE_Q2_K, 11.5},    {DTYPE_Q3_K, 16.6},   {DTYPE_Q4_K, 22.9},   {DTYPE_Q5_K, 29},
                {DTYPE_Q6_K, 35.1},    {DTYPE_IQ4_XS, 22.4}, {DTYPE_IQ4_NL, 22.5}, {DTYPE_IQ3_S, 17.6},
                {DTYPE_IQ3_XXS, 14.9}, {DTYPE_IQ2_S, 12.3},  {DTYPE_IQ2_XS, 10.8}, {DTYPE_IQ2_XXS, 9.5},
                {DTYPE_IQ1_M, 7.5},    {DTYPE_IQ1_S, 6.9},   {DTYPE_Q8_F32, 46},   {DTYPE_Q8_0, 46},
                {DTYPE_NVFP4, 20.9},   {DTYPE_MXFP4, 18.8},  {DTYPE_Q2_0, 9},      {DTYPE_TQ1_0, 7.1},
                {DTYPE_TQ2_0, 7.1},    {DTYPE_Q1_0, 4.4}};
    make_row(x, N * 4, 0);
    double power = 0;
    for (int i = 0; i < N * 4; i++) power += (double)x[i] * x[i];
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        quant_fit(want[k].type, x, N * 4, NULL, blocks);
        double db = 10 * log10(power / error_of(want[k].type, x, NULL, blocks, N * 4));
        if (!(db >= want[k].least)) fail_msg("%s: %.2f dB", dtype_info[want[k].type].name, db);
        for (float unit = tables_format_of(want[k].type) ? 0x1p-12f : 1; unit < 0x1p13f;
             unit *= 0x1p8f) { /* weights of any size */
            static float scaled[N];
            for (int i = 0; i < N; i++) scaled[i] = x[i] * unit * 50;
            quant_fit(want[k].type, scaled, N, NULL, blocks);
            double q = 0;
            for (int i = 0; i < N; i++) q += (double)scaled[i] * scaled[i];
            db = 10 * log10(q / error_of(want[k].type, scaled, NULL, blocks, N));
            if (!(db >= want[k].least - 0.3))
                fail_msg("%s of size %g: %.2f dB", dtype_info[want[k].type].name, (double)unit, db);
        }
    }
}

static void odd_rows_are_encoded(void **state)
{
    (void)state;
    float x[300], w[300];
    uint8_t out[4096];
    for (int t = 1; t < DTYPE_COUNT; t++) {
        if (!fitted((dtype)t)) continue;
        for (int k = 0; k < 8; k++) {
            for (int i = 0; i < 300; i++) {
                x[i] = i % 5 ? 0.5f : (const float[]){NAN, INFINITY, -INFINITY, 3e38f, 1e-38f, 0, 1, -1}[k];
                w[i] = i % 3 ? 1 : (const float[]){NAN, INFINITY, -1, 3e38f, 0, 1e-30f, 1, 2}[k];
            }
            static const int length[] = {1, 31, 64, 129, 172, 300};
            for (int n = 0; n < 6; n++) {
                uint64_t bytes = dtype_row_bytes((dtype)t, (uint64_t)length[n]);
                memset(out, 0xa5, sizeof out);
                quant_fit((dtype)t, x, (uint64_t)length[n], k % 2 ? w : NULL, out);
                for (uint64_t i = bytes; i < sizeof out; i++) assert_int_equal(out[i], 0xa5);
                float y[300];
                quant_decode_row((dtype)t, out, y, (uint64_t)length[n]);
            }
        }
        memset(x, 0, sizeof x);
        quant_fit((dtype)t, x, 300, NULL, out);
        float y[300];
        quant_decode_row((dtype)t, out, y, 300);
        for (int i = 0; i < 300; i++) assert_true(y[i] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitted_is_not_worse_than_plain),
        cmocka_unit_test(representable_rows_come_back),
        cmocka_unit_test(importance_lowers_the_weighted_error),
        cmocka_unit_test(errors_are_as_small_as_stated),
        cmocka_unit_test(odd_rows_are_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
