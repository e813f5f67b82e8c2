/* t_base_ini.c - INI text: long lines, continuation, semicolons in values, duplicate keys, exact refusals. */
#include "test.h"

#include "base/buf.h"
#include "base/ini.h"
#include "base/mem.h"

static int parse(ini *i, const char *text, err *e) { return ini_read(i, span_str(text), "t.ini", e); }

static void rows_and_lines(void **state)
{
    (void)state;
    ini i;
    err e = {0};
    assert_ok(parse(&i,
                    "\xef\xbb\xbf# comment = 1\n; another\n\n[a b]\r\nx = x + f(y) ; x = x\r\n"
                    "{i}.q: = p | q # no\nempty =\n[c]\nlong = 1,\n    2,\n    # aside\n\t3\nlast=4",
                    &e),
              &e);
    assert_int_equal(i.n, 7);
    assert_string_equal(i.rows[0].section, "a b");
    assert_string_equal(i.rows[0].key, "");
    assert_int_equal(i.rows[0].line, 4);
    assert_string_equal(i.rows[1].section, "a b");
    assert_string_equal(i.rows[1].value, "x + f(y) ; x = x");
    assert_int_equal(i.rows[1].line, 5);
    assert_string_equal(i.rows[2].value, "p | q # no");
    assert_string_equal(i.rows[3].value, "");
    assert_string_equal(i.rows[4].section, "c");
    assert_string_equal(i.rows[5].section, "c");
    assert_string_equal(i.rows[5].value, "1, 2, 3");
    assert_string_equal(i.rows[6].key, "last");
    assert_int_equal(i.rows[6].line, 13);
    ini_free(&i);
}

static void lines_of_any_length(void **state)
{
    (void)state;
    buf b = {0};
    buf_str(&b, "# ");
    for (int k = 0; k < 3000; k++) buf_str(&b, "comment ");
    buf_str(&b, "\n[s]\nk = ");
    for (int k = 0; k < 5000; k++) buf_byte(&b, (uint8_t)('a' + k % 26));
    buf_str(&b, "\nz = 1\n");
    ini i;
    err e = {0};
    assert_ok(ini_read(&i, buf_span(&b), "t.ini", &e), &e);
    assert_int_equal(i.n, 3);
    assert_int_equal(strlen(i.rows[1].value), 5000);
    assert_int_equal(i.rows[2].line, 4);
    ini_free(&i);
    buf_free(&b);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"k = 1\n", "t.ini:1: 'k' stands before the first [section]"},
        {"[s]\nk = 1\nj = 2\nk = 3\n", "t.ini:4: [s] k is already given in line 2"},
        {"[s]\nk 1\n", "t.ini:2: expected '[section]' or 'key = value'"},
        {"[s\nk = 1\n", "t.ini:1: '[' without ']'"},
        {"[s]\n = 1\n", "t.ini:2: an indented line continues nothing"},
        {"[s]\nk = 1\n[t]\n  2\n", "t.ini:4: an indented line continues nothing"},
        {"[s]\n= 1\n", "t.ini:2: a key is missing before '='"},
        {"  k = 1\n", "t.ini:1: an indented line continues nothing"},
        {"[s]\nk = \x01\n", "t.ini:2: control character 0x01"},
        {"[s]\nk = \xff\n", "t.ini:2: not UTF-8"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        ini i;
        err e = {0};
        assert_true(parse(&i, bad[k][0], &e) < 0);
        assert_string_equal(e.msg, bad[k][1]);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    for (long n = 1; n < 100; n++) {
        ini i;
        mem_fail_at(n);
        int rc = parse(&i, "[s]\na = 1\nb = 2\n", NULL);
        bool fired = mem_fail_at(0);
        assert_int_equal(rc, fired ? ERR_MEMORY : OK);
        if (!rc) ini_free(&i);
        if (!fired) return;
    }
    fail_msg("no end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_lines),
        cmocka_unit_test(lines_of_any_length),
        cmocka_unit_test(refusals),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
