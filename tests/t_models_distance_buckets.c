/* t_models_distance_buckets.c - buckets of relative positions against T5Attention._relative_position_bucket of
 * transformers 5.23: every distance of ten settings through a sum (h = 31 h + bucket, from -farthest - 2 to farthest +
 * 2), the usual setting edge by edge; and places against make_log_bucket_position of its DeBERTa v2 (to farthest + 40).
 */
#include "models/compile/distance_buckets.h"

#include "test.h"

#include <stdint.h>

static void every_distance(void **unused)
{
    (void)unused;
    static const struct {
        int n, farthest;
        bool both_ways;
        uint32_t sum;
    } cases[] = {
        {32, 128, true, 0xc17cfd92},  {32, 128, false, 0x47ade90c}, {32, 20, true, 0xb8e5878e},
        {32, 20, false, 0x8f874b6f},  {10, 24, true, 0x940be9a2},   {10, 24, false, 0x219e37c4},
        {12, 100, true, 0x982581c6},  {12, 100, false, 0x57faba46}, {6, 2048, true, 0x59c74be2},
        {6, 2048, false, 0x25e4df41},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t sum = 0;
        assert_null(buckets_check(cases[i].n, cases[i].farthest, cases[i].both_ways));
        for (int d = -cases[i].farthest - 2; d <= cases[i].farthest + 2; d++)
            sum = sum * 31 + (uint32_t)bucket_of(d, cases[i].n, cases[i].farthest, cases[i].both_ways);
        assert_int_equal(sum, cases[i].sum);
    }
}

static void every_place(void **unused)
{
    (void)unused;
    static const struct {
        int n, farthest;
        uint32_t sum;
    } cases[] = {
        {256, 512, 0xbb853e80},  {10, 61, 0x31e8bac0},   {16, 160, 0x6afa38c0},  {9, 40, 0x41bd6dc0},
        {2, 3, 0x4ca3cd80},      {50, 2048, 0xaf50b4c0}, {128, 512, 0x46977940}, {64, 65, 0x019d7d80},
        {320, 4096, 0x8e1b2b00}, {3, 7, 0xb6292600},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t sum = 0;
        const int n = cases[i].n, farthest = cases[i].farthest;
        assert_null(log_places_check(n, farthest));
        for (int d = -farthest - 40; d <= farthest + 40; d++) sum = sum * 31 + (uint32_t)log_place_of(d, n, farthest);
        if (sum != cases[i].sum) fail_msg("%d places up to %d: %08x", n, farthest, sum);
    }
    assert_int_equal(log_place_of(128, 256, 512), 128);
    assert_int_equal(log_place_of(-511, 256, 512), -255);
    assert_non_null(log_places_check(1, 512));
    assert_non_null(log_places_check(256, 129));
    assert_null(log_places_check(256, 130));
}

static void edges(void **unused)
{
    (void)unused;
    static const int ahead[][2] = {{0, 0},   {1, 17},  {7, 23},  {8, 24},  {11, 24}, {12, 25}, {15, 25}, {16, 26},
                                   {23, 27}, {31, 27}, {32, 28}, {46, 29}, {64, 30}, {90, 30}, {91, 31}, {9999, 31}};
    for (size_t i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        assert_int_equal(bucket_of(ahead[i][0], 32, 128, true), ahead[i][1]);
        assert_int_equal(bucket_of(ahead[i][0], 32, 128, false), 0);
        assert_int_equal(bucket_of(-ahead[i][0], 32, 128, true), ahead[i][1] ? ahead[i][1] - 16 : 0);
    }
    assert_int_equal(bucket_of(-15, 32, 128, false), 15);
    assert_int_equal(bucket_of(-18, 32, 128, false), 16);
    assert_int_equal(bucket_of(-19, 32, 128, false), 17);
}

static void refused(void **unused)
{
    (void)unused;
    assert_non_null(buckets_check(1, 128, false));
    assert_non_null(buckets_check(3, 128, true));
    assert_non_null(buckets_check(33, 128, true));
    assert_non_null(buckets_check(32, 8, true));
    assert_non_null(buckets_check(32, 16, false));
    assert_null(buckets_check(32, 9, true));
    assert_null(buckets_check(3, 2, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_distance), cmocka_unit_test(every_place),
                                       cmocka_unit_test(edges), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
