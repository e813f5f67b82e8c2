/* t_base_param.c - option rows: reading text, ranges, nearest keys, help. */
#include "test.h"

#include "base/param.h"

#define PACE_LIST(X) X(WALK, "walk") X(TROT, "trot") X(GALLOP, "gallop")
#define X(id, ...)   PACE_##id,
typedef enum { PACE_LIST(X) } pace_choice;
#undef X

typedef struct options {
    int64_t top_k, memory;
    double top_p;
    bool exact;
    const char *file, *kv;
    pace_choice pace;
} options;

static const param rows[] = {
    {"top_k", PARAM_INT, offsetof(options, top_k), "40", 0, 1000, NULL, "keep the k best", "k"},
    {"top_p", PARAM_FLOAT, offsetof(options, top_p), "0.9", 0, 1, NULL, "keep the nucleus", NULL},
    {"exact", PARAM_BOOL, offsetof(options, exact), "true", 0, 0, "on|off", "batch invariant", NULL},
    {"file", PARAM_TEXT, offsetof(options, file), NULL, 0, 0, "FILE", "where from", "input"},
    {"kv", PARAM_WORD, offsetof(options, kv), "f16", 0, 0, "f32|f16|q8", "cache type", NULL},
    {"pace", PARAM_CHOICE, offsetof(options, pace), "trot", 0, 0, CHOICE_WORDS(PACE_LIST), "how fast", NULL},
};
enum { N = sizeof rows / sizeof *rows };

static void defaults_and_values(void **state)
{
    (void)state;
    options o;
    err e = {0};
    param_defaults(rows, N, &o);
    assert_int_equal(o.top_k, 40);
    assert_true(o.top_p == 0.9 && o.exact && !o.file);
    assert_string_equal(o.kv, "f16");
    assert_int_equal(o.pace, PACE_TROT);
    assert_ok(param_set(param_find(rows, N, "top-k"), &o, "7", "--top-k", &e), &e);
    assert_ok(param_set(param_find(rows, N, "k"), &o, "8", "-k", &e), &e);
    assert_ok(param_set(param_find(rows, N, "exact"), &o, "off", "--exact", &e), &e);
    assert_ok(param_set(param_find(rows, N, "input"), &o, "a", "--input", &e), &e);
    assert_ok(param_set(param_find(rows, N, "kv"), &o, "q8", "--kv", &e), &e);
    assert_ok(param_set(param_find(rows, N, "pace"), &o, "gallop", "--pace", &e), &e);
    assert_ok(param_set_number(param_find(rows, N, "top_p"), &o, 0.5, "top_p", &e), &e);
    assert_true(o.top_k == 8 && o.top_p == 0.5 && !o.exact);
    assert_string_equal(o.kv, "q8");
    assert_int_equal(o.pace, PACE_GALLOP);
    assert_null(param_find(rows, N, "top"));
}

static void as_json(void **state)
{
    (void)state;
    options o;
    buf b = {0};
    param_defaults(rows, N, &o);
    o.top_k = INT64_MAX;
    json *j = json_new_object();
    param_json(rows, N, &o, j);
    assert_true(json_print(&b, j, false));
    assert_string_equal(buf_cstr(&b),
                        "{\"top_k\":9223372036854775807,\"top_p\":0.9,\"exact\":true,\"file\":null,\"kv\":\"f16\","
                        "\"pace\":\"trot\"}");
    json_free(j);
    buf_free(&b);
}

static void bytes(void **state)
{
    (void)state;
    static const param row[] = {{"memory", PARAM_BYTES, offsetof(options, memory), NULL, 1, 1e15, "BYTES", "so many"}};
    static const struct {
        const char *text;
        int64_t n; /* 0: refused */
    } cases[] = {{"1", 1},
                 {"8K", 8192},
                 {"3M", 3 << 20},
                 {"8G", (int64_t)8 << 30},
                 {"", 0},
                 {"K", 0},
                 {"0", 0},
                 {"8k", 0},
                 {"8KB", 0},
                 {"-1", 0},
                 {"1.5G", 0},
                 {"9999999G", 0},
                 {"99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options o;
        err e = {0};
        param_defaults(row, 1, &o);
        assert_int_equal(param_set(row, &o, cases[i].text, "--memory", &e), cases[i].n ? OK : ERR_USAGE);
        assert_int_equal(o.memory, cases[i].n);
    }
}

static void refusals(void **state)
{
    (void)state;
    options o;
    param_defaults(rows, N, &o);
    static const struct {
        const char *key, *text, *msg;
    } bad[] = {
        {"top_k", "4x", "here: '4x' is not a whole number"},
        {"top_k", "", "here: '' is not a whole number"},
        {"top_k", "99999999999999999999", "here: '99999999999999999999' is not a whole number"},
        {"top_k", "1001", "here: 1001 is out of range: 0 to 1000"},
        {"top_p", "nan", "here: 'nan' is not a number"},
        {"top_p", "1.5", "here: 1.5 is out of range: 0 to 1"},
        {"exact", "maybe", "here: 'maybe' is not true or false"},
        {"kv", "f3", "here: 'f3' is not one of f32|f16|q8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_int_equal(param_set(param_find(rows, N, bad[i].key), &o, bad[i].text, "here", &e), ERR_USAGE);
        assert_string_equal(e.msg, bad[i].msg);
    }
    err e = {0};
    assert_int_equal(param_set_number(&rows[0], &o, 1.5, "here", &e), ERR_USAGE);
    assert_int_equal(param_set_number(&rows[3], &o, 1.5, "here", NULL), ERR_USAGE);
    assert_int_equal(o.top_k, 40);
}

static void nearest_key(void **state)
{
    (void)state;
    assert_int_equal(edit_distance("abcd", "abdc"), 1);
    assert_int_equal(edit_distance("", "abc"), 3);
    assert_int_equal(edit_distance("kitten", "sitting"), 3);
    assert_string_equal(param_nearest(rows, N, "topk"), "top_k");
    assert_string_equal(param_nearest(rows, N, "exatc"), "exact");
    assert_string_equal(param_nearest(rows, N, "inputs"), "input");
    assert_null(param_nearest(rows, N, "flies"));
    assert_null(param_nearest(rows, N, "temperature"));
}

static void help_lines(void **state)
{
    (void)state;
    buf b = {0};
    assert_int_equal(param_help(rows, N, true, 100, &b), 0);
    assert_non_null(strstr(buf_cstr(&b), "  -k, --top-k N              keep the k best (default 40)\n"));
    assert_non_null(strstr(buf_cstr(&b), "  --file, --input FILE       where from\n"));
    buf_free(&b);
}

static void wrapped_lines(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"one two three", "one two\nthree"},
        {"  indented words go on there\nshort", "  indented\n  words go\n  on there\nshort"},
        {"ab  a second column hangs", "ab  a\n    second\n    column\n    hangs"},
        {"unbreakableword x\n\n", "unbreakableword\nx\n\n"},
        {"\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9",
         "\xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9\xc3\xa9\xc3\xa9 \xc3\xa9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf b = {0};
        param_wrap(cases[i][0], 10, &b);
        assert_string_equal(buf_cstr(&b), cases[i][1]);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_values),
        cmocka_unit_test(as_json),
        cmocka_unit_test(bytes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(nearest_key),
        cmocka_unit_test(help_lines),
        cmocka_unit_test(wrapped_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
