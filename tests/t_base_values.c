/* t_base_values.c - errors, memory, spans, maps, JSON strictness, UTF-8, half floats, files that shrink under a
 * mapping. */
#include "test.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"
#include "base/half.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>

static void err_first_message_wins(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(err_set(&e, ERR_IO, "a\n%d", 1), ERR_IO);
    assert_int_equal(err_set(&e, ERR_SPEC, "b"), ERR_IO);
    err_wrap(&e, "file %s", "x");
    assert_string_equal(e.msg, "file x: a?1");
    err other = {0};
    assert_int_equal(err_copy(&other, &(err){0}), OK);
    assert_int_equal(err_copy(NULL, &e), ERR_IO);
    assert_int_equal(err_copy(&other, &e), ERR_IO);
    assert_string_equal(other.msg, e.msg);
    assert_int_equal(err_http(ERR_NOT_FOUND), 404);
}

/* Whom an error is about is told, and known without reading what is told. */
static void errors_know_who(void **state)
{
    (void)state;
    err e = {0}, copy = {0};
    assert_int_equal(err_of(&e, "a:1"), OK);
    assert_int_equal(err_also(&e, "a:1"), OK);
    err_set(&e, ERR_IO, "the ranks cannot reach each other");
    err_also(&e, "b:1");
    assert_true(err_is_of(&e, "b:1"));
    assert_int_equal(err_of(&e, "a:1"), ERR_IO);
    assert_string_equal(e.msg, "a:1: the ranks cannot reach each other");
    assert_string_equal(err_own(&e), "the ranks cannot reach each other");
    assert_string_equal(e.who, "a:1 b:1");
    assert_true(err_is_of(&e, "a:1") && !err_is_of(&e, "b:1") && !err_is_of(&e, "a:11") && !err_is_of(&e, "a:"));
    assert_int_equal(err_copy(&copy, &e), ERR_IO);
    assert_string_equal(copy.who, e.who);
    assert_string_equal(err_own(&copy), err_own(&e));
    err_wrap(&e, "model");
    assert_string_equal(err_own(&e), "model: a:1: the ranks cannot reach each other");
    assert_true(err_is_of(&e, "a:1"));
    err_rename(&e, "a:1", "node a");
    assert_string_equal(e.msg, "model: node a: the ranks cannot reach each other");
    char name[ERR_WHO_MAX];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    err_of(&e, name); /* cut, never beyond its ends */
    assert_true(strlen(e.who) < ERR_WHO_MAX && strlen(e.msg) < ERR_MSG_MAX && strlen(err_own(&e)) < ERR_MSG_MAX);
}

static void mem_refuses_overflow(void **state)
{
    (void)state;
    assert_null(mem_array(SIZE_MAX / 2, 4));
    assert_null(mem_zero(SIZE_MAX, 2));
    mem_fail_at(1);
    assert_null(mem_alloc(1));
    assert_true(mem_fail_at(0));
    arena a = {0};
    assert_null(arena_array(&a, SIZE_MAX / 2, 8));
    char *s = arena_printf(&a, "%s-%d", "layer", 7);
    assert_string_equal(s, "layer-7");
    arena_free(&a);
}

static void map_finds_what_was_put(void **state)
{
    (void)state;
    map m = {0};
    static char keys[5000][8];
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        assert_true(map_put(&m, span_str(keys[i]), (uint32_t)i));
    }
    for (int i = 0; i < 5000; i++) assert_int_equal(map_get_str(&m, keys[i]), i);
    assert_int_equal(map_get_str(&m, "absent"), MAP_NONE);
    map_free(&m);
}

static void cursor_cannot_leave(void **state)
{
    (void)state;
    cursor c = cursor_of(span_of("\x01\x02\x03", 3));
    assert_int_equal(cursor_u16(&c), 0x0201);
    assert_true(cursor_has(&c, 1, 1));
    assert_false(cursor_has(&c, UINT64_MAX, 2));
    assert_int_equal(cursor_u32(&c), 0);
    assert_true(c.bad);
    assert_int_equal(cursor_u8(&c), 0);
}

static void json_is_strict(void **state)
{
    (void)state;
    static const char *const refused[] = {"",
                                          "{",
                                          "[1,]",
                                          "{\"a\":1,}",
                                          "01",
                                          "1.",
                                          "-",
                                          "1e400",
                                          "NaN",
                                          "\"a\nb\"",
                                          "\"\xff\"",
                                          "\"\\u0000\"",
                                          "1 2",
                                          "[1}",
                                          "{\"a\" 1}",
                                          "\"\\x\"",
                                          "\"\\ud800\"",
                                          "tru",
                                          "{\"a\":1,\"a\":2}",
                                          "{\"b\":[{\"a\":1,\"a\":2}]}",
                                          "\"\xed\xa0\x80\"",
                                          "+1",
                                          ".5",
                                          "[1 2]",
                                          "{1:2}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json *j;
        err e = {0};
        if (!json_parse(&j, span_str(refused[i]), "t", &e)) fail_msg("accepted: %s", refused[i]);
        assert_null(j);
    }
    json *j;
    err e = {0};
    assert_ok(
        json_parse(&j, span_str(" {\"a\":[1,-2.5e3,true,null,\"\\u00e9\\ud83d\\ude00\"],\"b.c\":{\"d\":7}} "), "t", &e),
        &e);
    assert_int_equal(json_count(json_get(j, "a")), 5);
    assert_string_equal(json_str(json_at(json_get(j, "a"), 4), ""), "\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(json_int(json_path(json_get(j, "b.c"), "d"), 0), 7);
    assert_null(json_get(j, "A"));
    json_free(j);
    static const struct {
        const char *text;
        int64_t value;
        bool exact;
    } whole[] = {{"[1.5, [9007199254740993], 7]", 9007199254740993, true},
                 {"[{\"a\":0,\"b\":3},[9223372036854775807],9223372036854775806]", INT64_MAX, true},
                 {"[99999999999999999999,[-9223372036854775808]]", INT64_MIN, true},
                 {"[0,[9223372036854775808]]", 0, false},
                 {"[0,[1e18]]", 0, false},
                 {"[0,[1.5]]", 0, false},
                 {"[0,[-1]]", -1, true}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        int64_t v = 0;
        e = (err){0};
        assert_ok(json_parse(&j, span_str(whole[i].text), "t", &e), &e);
        assert_int_equal(json_int64(json_at(json_at(j, 1), 0), &v), whole[i].exact);
        if (whole[i].exact && v != whole[i].value) fail_msg("%s: %lld", whole[i].text, (long long)v);
        json_free(j);
    }
    enum { MANY = (1 << 23) + 10 };
    char *many = mem_alloc(2 * MANY);
    for (int i = 0; i < MANY; i++) many[2 * i] = '0', many[2 * i + 1] = ',';
    many[0] = '[';
    many[1] = ' ';
    many[2 * MANY - 1] = ']';
    assert_int_not_equal(json_parse(&j, span_of(many, 2 * MANY), "t", &e), OK);
    assert_non_null(strstr(e.msg, "2^23"));
    mem_free(many);
    char deep[600];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_not_equal(json_parse(&j, span_str(deep), "t", &e), OK);
}

static void json_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } read[] = {
        {"Infinity", "{\"__float__\":\"Infinity\"}"},
        {"\xef\xbb\xbf[0.0, -Infinity, 1]", "[0.0,{\"__float__\":\"-Infinity\"},1]"},
        {"{\"NaN\": NaN, \"a\\\"Infinity\": \"NaN\"}", "{\"NaN\":{\"__float__\":\"NaN\"},\"a\\\"Infinity\":\"NaN\"}"},
        {"[1, \"-Infinity\", 2]", "[1,\"-Infinity\",2]"}};
    static const char *const refused[] = {"[-NaN]",   "[Infinit]",  "[NaNs]",  "[+Infinity]",    "[1Infinity]",
                                          "{NaN: 1}", "\"Infinity", "\"NaN\\", "[\"\xff\", NaN]"};
    json *j;
    err e = {0};
    buf b = {0};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        assert_ok(json_parse_python(&j, span_str(read[i].text), "t", &e), &e);
        b.n = 0;
        json_print(&b, j, false);
        assert_string_equal(buf_cstr(&b), read[i].printed);
        json_free(j);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        e = (err){0};
        if (!json_parse_python(&j, span_str(refused[i]), "t", &e)) fail_msg("accepted: %s", refused[i]);
        assert_null(j);
    }
    assert_non_null(strstr(e.msg, "t: "));
    buf_free(&b);
}

static void json_prints_exactly(void **state)
{
    (void)state;
    json *j = json_new_object();
    json_add_int(j, "n", INT64_MAX);
    json_add_str(j, "s", "a\"b");
    buf b = {0};
    json_print(&b, j, false);
    assert_string_equal(buf_cstr(&b), "{\"n\":9223372036854775807,\"s\":\"a\\\"b\"}");
    buf_free(&b);
    json_free(j);
    json_quote(&b, span_of("\x01\xff\n", 3));
    assert_string_equal(buf_cstr(&b), "\"\\u0001\xef\xbf\xbd\\n\"");
    buf_free(&b);
    static const char numbers[] = "{\"a\":[1.0,-0.0,1e3,1,0.1,12345678901234567890,{\"b\":2.50}],\"c\":-3.00}";
    err e = {0};
    assert_ok(json_parse(&j, span_str(numbers), "numbers", &e), &e);
    assert_true(json_is_int(json_at(json_get(j, "a"), 0)) && json_int(json_at(json_get(j, "a"), 2), 0) == 1000);
    json_print(&b, j, false);
    assert_string_equal(buf_cstr(&b), "{\"a\":[1.0,-0.0,1e3,1,0.1,12345678901234567890,{\"b\":2.5}],\"c\":-3.00}");
    json_free(j);
    buf_free(&b);
}

static void marks_are_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n, left;
        bool wide;
    } cases[] = {{"\xef\xbb\xbf{}", 5, 2, false},
                 {"\xef\xbb\xbf", 3, 0, false},
                 {"\xef\xbb", 2, 2, false},
                 {"", 0, 0, false},
                 {"{}", 2, 2, false},
                 {"\xff\xfe{\0", 4, 4, true},
                 {"\xfe\xff\0{", 4, 4, true}};
    const char *path = temp_path("marked");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        span s = span_of(cases[i].bytes, cases[i].n);
        buf b = {0};
        err e = {0};
        assert_int_equal(utf8_unmark(&s, "F", &e), cases[i].wide ? ERR_FORMAT : OK);
        if (cases[i].wide) assert_non_null(strstr(e.msg, "F: a byte order mark says that this is UTF-16"));
        assert_int_equal(s.n, cases[i].left);
        FILE *f = fopen(path, "wb");
        assert_true(f && fwrite(cases[i].bytes, 1, cases[i].n, f) == cases[i].n && fclose(f) == 0);
        assert_int_equal(file_read_text(&b, path, 100, &e), cases[i].wide ? ERR_FORMAT : OK);
        if (!cases[i].wide) assert_true(span_eq(buf_span(&b), span_of(cases[i].bytes + cases[i].n - s.n, s.n)));
        buf_free(&b);
    }
    unlink(path);
}

static void utf8_is_strict(void **state)
{
    (void)state;
    assert_int_equal(utf8_valid_length((const uint8_t *)"\xc0\x80", 2), 0);
    assert_int_equal(utf8_valid_length((const uint8_t *)"\xf4\x90\x80\x80", 4), 0);
    for (uint32_t c = 1; c < 0x110000; c = c * 5 / 4 + 1) {
        if (c >= 0xd800 && c < 0xe000) continue;
        uint8_t b[4];
        size_t n = utf8_encode(c, b), len;
        assert_int_equal(utf8_decode(b, n, &len), c);
        assert_int_equal(len, n);
        for (size_t k = 1; k < n; k++) assert_int_equal(utf8_incomplete_tail(span_of(b, k)), k);
        assert_int_equal(utf8_incomplete_tail(span_of(b, n)), 0);
    }
}

static void halves_round_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h), g = bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(f32_to_f16(f), h);
        if (!isnan(g)) assert_int_equal(f32_to_bf16(g), h);
    }
    assert_int_equal(f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.f), 0x7c00);
    assert_int_equal(f32_to_f16(1.f + 0x1p-11f), 0x3c00); /* tie to even */
    assert_int_equal(f32_to_f16(1.f + 3 * 0x1p-11f), 0x3c02);
    assert_int_equal(f32_to_f16(0x1p-25f), 0);
    assert_int_equal(f32_to_f16(0x1.8p-25f), 1);
}

static void shrinking_file_is_survived(void **state)
{
    (void)state;
    const char *path = temp_path("shrink");
    err e = {0};
    file_out *f;
    char block[4096] = {1};
    assert_ok(file_create(&f, path, &e), &e);
    for (int i = 0; i < 8; i++) assert_ok(file_write(f, block, sizeof block, &e), &e);
    assert_ok(file_commit(f, &e), &e);
    file_mapping *m;
    assert_ok(file_map(&m, path, &e), &e);
    assert_int_equal(file_bytes(m).n, 8 * sizeof block);
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(((volatile const uint8_t *)file_bytes(m).p)[5 * 4096], 0);
    assert_true(file_torn(m));
    file_unmap(m);
    unlink(path);
    assert_int_equal(file_map(&m, path, &e), ERR_NOT_FOUND);
}

static void released_pages_leave_memory_and_come_back(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20, PAGES = BYTES / 4096 };
    const char *path = temp_path("release");
    err e = {0};
    file_out *f;
    file_mapping *m;
    uint8_t *block = mem_alloc(BYTES);
    for (int i = 0; i < BYTES; i++) block[i] = (uint8_t)(i * 7 + i / 4096);
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, block, BYTES, &e), &e);
    assert_ok(file_commit(f, &e), &e);
    assert_ok(file_map(&m, path, &e), &e);
    long before = shared_pages();
    assert_memory_equal(file_bytes(m).p, block, BYTES);
    assert_true(shared_pages() - before > PAGES / 2);
    file_release(file_bytes(m).p + 1, 2 * (size_t)BYTES); /* beyond the end: what is there */
    assert_true(shared_pages() - before < PAGES / 8);
    assert_memory_equal(file_bytes(m).p, block, BYTES);
    file_release(block, BYTES); /* not of a file */
    assert_memory_equal(file_bytes(m).p, block, BYTES);
    file_unmap(m);
    unlink(path);
    mem_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_first_message_wins),
        cmocka_unit_test(errors_know_who),
        cmocka_unit_test(mem_refuses_overflow),
        cmocka_unit_test(map_finds_what_was_put),
        cmocka_unit_test(cursor_cannot_leave),
        cmocka_unit_test(json_is_strict),
        cmocka_unit_test(json_of_python),
        cmocka_unit_test(json_prints_exactly),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(marks_are_left_out),
        cmocka_unit_test(halves_round_to_even),
        cmocka_unit_test(shrinking_file_is_survived),
        cmocka_unit_test(released_pages_leave_memory_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
