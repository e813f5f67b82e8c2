/* t_tensor_wire.c - codecs of activations: bytes worked out by hand, bounds of the error, what cannot be coded, vectors
 * against the definition byte for byte, and the order of errors that Flash Communication (table 5) reports. */
#include "test.h"

#include "base/half.h"
#include "base/rng.h"
#include "cpu/cpu.h"
#include "tensor/act_q8.h"
#include "tensor/wire.h"

#include <math.h>

enum { N_MAX = 4096 + 100 };

static float gauss(uint64_t seed, uint64_t i)
{
    double u = rng_uniform(seed, 0, i), v = rng_uniform(seed, 1, i);
    return (float)(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
}

/* ---- by hand */

static void bytes_are_as_documented(void **unused)
{
    (void)unused;
    /* Range -1 … 2.75 is 15 steps of 0.25 (f16 0x3400), zero point 4. Eight elements: byte i holds i and 4 + i. */
    const float x[8] = {-1, 0, 0.25f, 2.75f, 0.5f, 1, -0.5f, 0.6f};
    const uint8_t want4[] = {0x00, 0x34, 4, 0x60, 0x84, 0x25, 0x6f};
    uint8_t to[64];
    float back[8], sum[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(wire_bytes(WIRE_INT4, 32, 8), sizeof want4);
    wire_reference.encode(WIRE_INT4, 32, x, 8, to);
    assert_memory_equal(to, want4, sizeof want4);
    wire_reference.decode(WIRE_INT4, 32, to, 8, back);
    wire_reference.add(WIRE_INT4, 32, to, 8, sum);
    for (int i = 0; i < 7; i++) assert_true(back[i] == x[i] && sum[i] == 1 + x[i]);
    assert_true(back[7] == 0.5f);
    /* Range -1.5 … 62.25 is 255 steps of 0.25, zero point 6. */
    const float y[3] = {-1.5f, 62.25f, 1};
    const uint8_t want8[] = {0x00, 0x34, 6, 0, 255, 10};
    wire_reference.encode(WIRE_INT8, 32, y, 3, to);
    assert_memory_equal(to, want8, sizeof want8);
    /* Symmetric: 7 steps of 0.5 (0x3800), codes around 8; the first of three elements with the third above it. */
    const float z[3] = {-3.5f, 3.5f, 1};
    const uint8_t want4s[] = {0x00, 0x38, 0xa1, 0x0f};
    wire_reference.encode(WIRE_INT4S, 32, z, 3, to);
    assert_memory_equal(to, want4s, sizeof want4s);
    assert_int_equal(wire_bytes(WIRE_INT8, 128, 128), 131);
    assert_int_equal(wire_bytes(WIRE_INT4, 128, 128), 67);
    assert_int_equal(wire_bytes(WIRE_INT8, 128, 4096 + 5), 32 * 131 + 8);
    assert_int_equal(wire_bytes(WIRE_F16, 128, 4096 + 5), 2 * 4101);
    assert_int_equal(wire_bytes(WIRE_Q8, 128, 4096), 64 * 68);
}

/* The engine's own codes are those of a step. */
static void q8_is_the_code_of_activations(void **unused)
{
    (void)unused;
    float x[100];
    uint8_t to[200];
    act_block b;
    for (int i = 0; i < 100; i++) x[i] = gauss(3, (uint64_t)i);
    wire_reference.encode(WIRE_Q8, 128, x, 100, to);
    act_encode(x + 64, 36, 64, &b);
    assert_int_equal(wire_bytes(WIRE_Q8, 128, 100), 68 + 40);
    assert_memory_equal(to + 68, &b.scale, 4);
    assert_memory_equal(to + 72, b.code, 36);
}

/* ---- properties */

/* Rows with what breaks codecs: outliers, one sign only, tiny and huge values, zeros, NaN. */
static void fill(float *x, int64_t n, int kind)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 65504, 65519, 65520, -0.0f, 1e-8f, 3e38f, -3e38f, 6e-8f};
    for (int64_t i = 0; i < n; i++) {
        const float g = gauss(10 + (uint64_t)kind, (uint64_t)i);
        switch (kind) {
        case 0: x[i] = g; break;
        case 1: x[i] = fabsf(g) + 1; break;
        case 2: x[i] = -fabsf(g) * 1e-6f; break;
        case 3: x[i] = i % 4096 % 700 == 77 ? 40 * g : g; break;
        case 4: x[i] = i / 64 % 2 ? 0 : g * 1e4f; break;
        case 5: x[i] = g * 2e-7f; break;
        case 6: x[i] = i % 97 ? g : odd[i / 97 % (int)(sizeof odd / sizeof *odd)]; break;
        default: x[i] = g * 1e7f; break;
        }
    }
}
enum { KINDS = 8 };

static const int groups[] = {32, 64, 96, 100, 128, 256, 2048, 4096};
enum { GROUPS = sizeof groups / sizeof *groups };

static void errors_are_half_a_step(void **unused)
{
    (void)unused;
    static float x[N_MAX], y[N_MAX];
    static uint8_t bytes[8 * N_MAX];
    for (int kind = 0; kind < 6; kind++)
        for (int t = WIRE_INT8; t < WIRE_Q8; t++)
            for (int g = 0; g < GROUPS; g++) {
                fill(x, N_MAX, kind);
                x[5] = 0;
                wire_reference.encode((wire_type)t, groups[g], x, N_MAX, bytes);
                wire_reference.decode((wire_type)t, groups[g], bytes, N_MAX, y);
                assert_true(y[5] == 0);
                for (int64_t i = 0; i < N_MAX; i += groups[g]) {
                    const int64_t n = N_MAX - i < groups[g] ? N_MAX - i : groups[g];
                    float lo = 0, hi = 0;
                    for (int64_t k = i; k < i + n; k++) lo = fminf(lo, x[k]), hi = fmaxf(hi, x[k]);
                    const int limit = wire_limit((wire_type)t);
                    double size = wire_symmetric((wire_type)t) ? fmax(hi, -lo) / (limit / 2)
                                                               : (hi - (double)lo) / limit;
                    size = size * (1 + 0x1p-10) + 0x1p-24; /* as f16, rounded up */
                    for (int64_t k = i; k < i + n; k++) assert_true(fabs(y[k] - (double)x[k]) <= 0.5001 * size);
                }
            }
}

static void what_cannot_be_coded_is_nan(void **unused)
{
    (void)unused;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3.4e38f};
    float x[256] = {0}, y[256];
    uint8_t bytes[1024];
    for (int b = 0; b < 4; b++)
        for (int t = WIRE_INT8; t < WIRE_COUNT; t++) {
            if (t == WIRE_Q8 && isfinite(bad[b])) continue;
            x[130] = bad[b];
            x[1] = 1;
            wire_reference.encode((wire_type)t, 128, x, 256, bytes);
            wire_reference.decode((wire_type)t, 128, bytes, 256, y);
            for (int i = 0; i < 128; i++) assert_true(fabsf(y[i] - x[i]) < 1e-2f);
            for (int i = 128; i < 192; i++) assert_true(isnan(y[i]));
        }
}

/* A row's bytes do not depend on what follows its groups: coded from any border on they are the same. */
static void groups_stand_alone(void **unused)
{
    (void)unused;
    static float x[N_MAX];
    static uint8_t all[8 * N_MAX], part[8 * N_MAX];
    fill(x, N_MAX, 3);
    for (int t = 0; t < WIRE_COUNT; t++) {
        wire_reference.encode((wire_type)t, 128, x, N_MAX, all);
        for (int64_t from = 0; from < N_MAX; from += 128 * 7) {
            const int64_t n = N_MAX - from < 128 * 9 ? N_MAX - from : 128 * 9;
            wire_reference.encode((wire_type)t, 128, x + from, n, part);
            assert_memory_equal(part, all + wire_bytes((wire_type)t, 128, from), wire_bytes((wire_type)t, 128, n));
        }
    }
}

/* ---- vectors */

static void vectors_equal_the_definition(void **unused)
{
    (void)unused;
    static float x[N_MAX], want[N_MAX + 1], got[N_MAX + 1];
    static uint8_t want_bytes[8 * N_MAX + 1], got_bytes[8 * N_MAX + 1];
    static const int64_t sizes[] = {N_MAX, 4096, 128, 1, 33, 700};
    for (int k = 0; cpu_tables[k]; k++) {
        const cpu_table *table = cpu_kernels_named(cpu_tables[k]->isa);
        if (!table) continue;
        for (int kind = 0; kind < KINDS; kind++)
            for (int t = 0; t < WIRE_COUNT; t++)
                for (int g = 0; g < GROUPS; g++)
                    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                        const wire_type type = (wire_type)t;
                        const int64_t n = sizes[s], bytes = wire_bytes(type, groups[g], n);
                        fill(x, n, kind);
                        got_bytes[bytes] = 0xa5;
                        got[n] = want[n] = 7;
                        wire_reference.encode(type, groups[g], x, n, want_bytes);
                        table->wire->encode(type, groups[g], x, n, got_bytes);
                        if (memcmp(want_bytes, got_bytes, (size_t)bytes) || got_bytes[bytes] != 0xa5)
                            fail_msg("%s: encode %s by %d, rows of kind %d, %d elements", table->isa,
                                     wire_infos[t].name, groups[g], kind, (int)n);
                        wire_reference.decode(type, groups[g], want_bytes, n, want);
                        table->wire->decode(type, groups[g], want_bytes, n, got);
                        if (memcmp(want, got, (size_t)(n + 1) * 4))
                            fail_msg("%s: decode %s by %d, rows of kind %d, %d elements", table->isa,
                                     wire_infos[t].name, groups[g], kind, (int)n);
                        if (kind == 6) continue; /* which of two NaN a sum keeps is not defined */
                        fill(want, n, 1);
                        memcpy(got, want, (size_t)n * 4);
                        wire_reference.add(type, groups[g], want_bytes, n, want);
                        table->wire->add(type, groups[g], want_bytes, n, got);
                        if (memcmp(want, got, (size_t)(n + 1) * 4))
                            fail_msg("%s: add %s by %d, rows of kind %d, %d elements", table->isa, wire_infos[t].name,
                                     groups[g], kind, (int)n);
                    }
    }
}

/* ---- the paper's order: partial sums of four ranks, rows of 4096 of which six channels are 40 times the rest */

static double error_of(wire_type t, int64_t group)
{
    enum { RANKS = 4, ROWS = 64, COLS = 4096 };
    static const int outlier[6] = {77, 800, 1415, 2001, 2533, 3900};
    static float x[COLS], sum[COLS], y[COLS];
    static uint8_t bytes[8 * COLS];
    double squares = 0, errors = 0;
    for (int row = 0; row < ROWS; row++) {
        double exact[COLS] = {0};
        for (int r = 0; r < RANKS; r++) {
            for (int i = 0; i < COLS; i++) x[i] = gauss((uint64_t)(row * RANKS + r), (uint64_t)i);
            for (int k = 0; k < 6; k++) x[outlier[k]] *= 40;
            for (int i = 0; i < COLS; i++) exact[i] += x[i];
            wire_reference.encode(t, group, x, COLS, bytes);
            (r ? wire_reference.add : wire_reference.decode)(t, group, bytes, COLS, sum);
        }
        wire_reference.encode(t, group, sum, COLS, bytes);
        wire_reference.decode(t, group, bytes, COLS, y);
        for (int i = 0; i < COLS; i++) {
            squares += exact[i] * exact[i];
            errors += (y[i] - exact[i]) * (y[i] - exact[i]);
        }
    }
    return sqrt(errors / squares);
}

static void errors_grow_with_groups_as_published(void **unused)
{
    (void)unused;
    const double at128 = error_of(WIRE_INT4, 128), at2048 = error_of(WIRE_INT4, 2048),
                 at4096 = error_of(WIRE_INT4, 4096);
    const double symmetric = error_of(WIRE_INT4S, 128), at64 = error_of(WIRE_INT4, 64), at8 = error_of(WIRE_INT8, 128);
    print_message("relative error: int4 by 64, 128, 2048, 4096: %.3f %.3f %.3f %.3f; int4s: %.3f, int8: %.4f by 128\n",
                  at64, at128, at2048, at4096, symmetric, at8);
    assert_true(at128 <= 0.25);
    assert_true(at2048 >= 2 * at128);
    assert_true(at4096 >= 2.4 * at128);
    assert_true(at64 < at128 && at128 < symmetric && at8 < at128 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(q8_is_the_code_of_activations),
        cmocka_unit_test(errors_are_half_a_step),
        cmocka_unit_test(what_cannot_be_coded_is_nan),
        cmocka_unit_test(groups_stand_alone),
        cmocka_unit_test(vectors_equal_the_definition),
        cmocka_unit_test(errors_grow_with_groups_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
