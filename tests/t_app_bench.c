/* t_app_bench.c - the bench command end to end on a tiny model: fields of the contract, and a hash that no setting
 * changes. */
#include "test.h"

#include "app/app.h"

#include <math.h>

static const char model_path[] = "tests/vectors/models/gemma2";

/* Runs the command line and gives what it printed, parsed. */
static json *bench_json(int argc, char **argv)
{
    err e = {0};
    json *out = NULL;
    const char *path = temp_path("bench.json");
    fflush(stdout);
    int saved = dup(1);
    assert_non_null(freopen(path, "w", stdout));
    int status = app_main(argc, argv);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    assert_int_equal(status, 0);
    assert_ok(json_read(&out, path, 1 << 20, &e), &e);
    unlink(path);
    return out;
}

static void rows_and_hash(void **state)
{
    (void)state;
    char *one[] = {"inferflow", "bench",  "-m", (char *)model_path, "-p", "20", "-n", "4", "-b",
                   "1,3",       "--reps", "2",  "--json",           "-t", "1"};
    char *two[] = {"inferflow", "bench", "-m", (char *)model_path, "-p", "3", "-n", "0", "--reps", "1",
                   "--json",    "-t",    "2",  "--chunk",          "7"};
    json *a = bench_json(sizeof one / sizeof *one, one), *b = bench_json(sizeof two / sizeof *two, two);
    assert_int_equal(json_count(json_get(a, "rows")), 4);
    assert_int_equal(json_count(json_get(b, "rows")), 1);
    static const char *const fields[] = {"prompt",           "batch",           "tokens_per_s", "tokens_per_s_min",
                                         "tokens_per_s_max", "bytes_per_token", "gb_per_s",     "read_share"};
    for (const json *r = json_first(json_get(a, "rows")); r; r = json_next(r))
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (!(json_num(json_get(r, fields[i]), -1) > 0)) fail_msg("%s is missing or not positive", fields[i]);
    const json *last = json_at(json_get(a, "rows"), 3);
    assert_string_equal(json_str(json_get(last, "test"), ""), "decode");
    assert_true(json_num(json_get(last, "batch"), 0) == 3);
    assert_true(json_num(json_get(a, "read_gb_per_s"), 0) > 0 && json_num(json_get(a, "peak_rss_bytes"), 0) > 1e6);
    assert_int_equal(strlen(json_str(json_get(a, "logits_hash"), "")), 16);
    assert_string_equal(json_str(json_get(a, "logits_hash"), ""), json_str(json_get(b, "logits_hash"), "-"));
    json_free(a);
    json_free(b);
}

/* At a depth each sequence holds whole steps before its prompt; the cache is read in decoding. */
static void depths(void **state)
{
    (void)state;
    char *args[] = {"inferflow", "bench",   "-m", (char *)model_path, "-p", "4",      "-n", "3", "-b", "1,2", "-d",
                    "0,20",      "--chunk", "16", "--reps",           "1",  "--json", "-t", "1"};
    json *a = bench_json(sizeof args / sizeof *args, args);
    static const double want[] = {0, 0, 32, 32, 0, 0, 32, 32};
    assert_int_equal(json_count(json_get(a, "rows")), 8);
    for (int i = 0; i < 8; i++) {
        const json *r = json_at(json_get(a, "rows"), i);
        assert_true(json_num(json_get(r, "depth"), -1) == want[i]);
        assert_true(json_num(json_get(r, "tokens_per_s"), 0) > 0);
    }
    const json *shallow = json_at(json_get(a, "rows"), 1), *deep = json_at(json_get(a, "rows"), 3);
    assert_true(json_num(json_get(deep, "bytes_per_token"), 0) > json_num(json_get(shallow, "bytes_per_token"), 0));
    json_free(a);
}

/* Shares are of the bounds that the result ends with; memory that is read is as large as a step reads, so none is
 * above 1 but by noise. */
static void shares_agree(void **state)
{
    (void)state;
    char *args[] = {"inferflow", "bench", "-p", "16", "-n", "8", "-b", "1,2", "--reps", "3", "--json", "-t", "1"};
    json *a = bench_json(sizeof args / sizeof *args, args);
    const double read = json_num(json_get(a, "read_gb_per_s"), 0);
    assert_int_equal(json_count(json_get(a, "rows")), 4);
    for (const json *r = json_first(json_get(a, "rows")); r; r = json_next(r)) {
        const double share = json_num(json_get(r, "gb_per_s"), 0) / read;
        assert_true(fabs(json_num(json_get(r, "read_share"), 0) - share) < 1e-9 * share);
        assert_true(share < 2);
    }
    json_free(a);
}

/* Without a prompt, and beyond the context that the model was made for. */
static void decode_alone(void **state)
{
    (void)state;
    char *args[] = {"inferflow", "bench",  "-m", (char *)model_path, "-p", "0", "-n",
                    "200",       "--reps", "1",  "--json",           "-t", "1"};
    json *a = bench_json(sizeof args / sizeof *args, args);
    const json *r = json_at(json_get(a, "rows"), 0);
    assert_int_equal(json_count(json_get(a, "rows")), 1);
    assert_string_equal(json_str(json_get(r, "test"), ""), "decode");
    assert_true(json_num(json_get(r, "prompt"), -1) == 0 && json_num(json_get(r, "tokens_per_s"), 0) > 0);
    json_free(a);
}

/* Prompts alone, with a hash of the vector or scores that no setting changes. */
static void encoders(void **state)
{
    (void)state;
    static char *const folder[] = {"tests/vectors/encoders/bert-bare", "tests/vectors/encoders/bert-scores"};
    for (int i = 0; i < 2; i++) {
        char *one[] = {"inferflow", "bench",  "-m", folder[i], "-p", "9", "-b",
                       "1,3",       "--reps", "2",  "--json",  "-t", "1"};
        char *two[] = {"inferflow", "bench", "-m", folder[i], "-p", "4", "--reps", "1", "--json", "-t", "2"};
        json *a = bench_json(sizeof one / sizeof *one, one), *b = bench_json(sizeof two / sizeof *two, two);
        assert_int_equal(json_count(json_get(a, "rows")), 2);
        const json *last = json_at(json_get(a, "rows"), 1);
        assert_string_equal(json_str(json_get(last, "test"), ""), "prefill");
        assert_true(json_num(json_get(last, "batch"), 0) == 3 && json_num(json_get(last, "tokens_per_s"), 0) > 0);
        assert_int_equal(strlen(json_str(json_get(a, "logits_hash"), "")), 16);
        assert_string_equal(json_str(json_get(a, "logits_hash"), ""), json_str(json_get(b, "logits_hash"), "-"));
        json_free(a);
        json_free(b);
        assert_int_equal(app_main(6, (char *[]){"inferflow", "bench", "-m", folder[i], "-p", "0"}), 2);
        assert_int_equal(app_main(6, (char *[]){"inferflow", "bench", "-m", folder[i], "-d", "4"}), 2);
    }
}

static void wrong_usage(void **state)
{
    (void)state;
    assert_int_equal(app_main(3, (char *[]){"inferflow", "bench", "write"}), 2);
    assert_int_equal(app_main(4, (char *[]){"inferflow", "bench", "-b", "1,x"}), 2);
    assert_int_equal(app_main(4, (char *[]){"inferflow", "bench", "-b", "0"}), 2);
    assert_int_equal(app_main(4, (char *[]){"inferflow", "bench", "-d", "-1"}), 2);
    assert_int_equal(app_main(6, (char *[]){"inferflow", "bench", "-p", "0", "-n", "0"}), 2);
    assert_int_equal(app_main(8, (char *[]){"inferflow", "bench", "-p", "60", "-n", "8", "--ctx", "64"}), 2);
}

/* Sums of a group: what each rank sends, and the same bits by both algorithms on every rank and instruction set. */
static void allreduce(void **state)
{
    (void)state;
    char *one[] = {"inferflow",
                   "bench",
                   "allreduce",
                   "--devices",
                   "cpu:1&cpu:1&cpu:1",
                   "--bytes",
                   "600,64K",
                   "--codec",
                   "f16,int6",
                   "--algorithm",
                   "two_step,one_shot,ring,gather",
                   "--reps",
                   "2",
                   "--json"};
    char *two[] = {"inferflow", "bench",   "allreduce", "--devices",   "cpu&cpu&cpu", "--bytes", "64K", "--isa",
                   "c",         "--codec", "int6",      "--algorithm", "two_step",    "--reps",  "1",   "--json"};
    json *a = bench_json(sizeof one / sizeof *one, one), *b = bench_json(sizeof two / sizeof *two, two);
    const json *rows = json_get(a, "rows");
    static const char *const numbers[] = {"seconds", "seconds_min", "seconds_max", "payload_bytes", "hops", "error"};
    assert_true(json_num(json_get(a, "ranks"), 0) == 3);
    assert_int_equal(json_count(rows), 14); /* gather has no int6 */
    for (const json *r = json_first(rows); r; r = json_next(r)) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (!(json_num(json_get(r, numbers[i]), -1) > 0)) fail_msg("%s is missing or not positive", numbers[i]);
        assert_true(json_bool(json_get(r, "equal_on_all_ranks"), false));
        assert_true(json_num(json_get(r, "socket_bytes"), -1) == 0);
    }
    static const double sent[14] = {800,
                                    1200,
                                    800,
                                    400, /* 300 elements */
                                    (159 + 309) * 2 / 3.0,
                                    2 * 159,
                                    (159 + 309) * 2 / 3.0,
                                    87381.333,
                                    131072,
                                    87381.333,
                                    43690.667, /* 8 rows of 32 groups */
                                    256 * 198 * 2 / 3.0,
                                    256 * 67 * 2,
                                    256 * 198 * 2 / 3.0};
    for (int i = 0; i < 14; i++) {
        const double is = json_num(json_get(json_at(rows, i), "payload_bytes"), 0);
        if (fabs(is - sent[i]) > 1e-3) fail_msg("row %d: %f bytes, not %f", i, is, sent[i]);
    }
    const char *hash = json_str(json_get(json_at(rows, 11), "hash"), "");
    assert_int_equal(strlen(hash), 16);
    assert_string_equal(hash, json_str(json_get(json_at(rows, 12), "hash"), "-"));
    assert_string_equal(hash, json_str(json_get(json_at(json_get(b, "rows"), 0), "hash"), "-"));
    json_free(a);
    json_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_hash), cmocka_unit_test(depths),   cmocka_unit_test(shares_agree),
        cmocka_unit_test(decode_alone),  cmocka_unit_test(encoders), cmocka_unit_test(allreduce),
        cmocka_unit_test(wrong_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
