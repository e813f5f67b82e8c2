/* t_jinja_templates.c - chat templates against Python's jinja2 3.1.6 in transformers' settings: cases of our own
 * (tests/vectors/jinja.json, made by tools/oracle/oracle_jinja.py), and the templates of the shared data; where bytes
 * of a rendering come from; limits. */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "jinja/jinja.h"

static time_t day(const char *text)
{
    struct tm tm = {.tm_hour = 12, .tm_isdst = -1};
    assert_int_equal(sscanf(text, "%d-%d-%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday), 3);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return mktime(&tm);
}

static int render(const char *source, const jinja_input *in, jinja_output *out, err *e)
{
    jinja *t;
    int rc = jinja_open(&t, span_str(source), e);
    if (!rc) rc = jinja_render(t, in, out, e);
    assert_true(rc || out->text.n == out->user.n);
    jinja_close(t);
    return rc;
}

/* expected NULL: an error. Returns whether it is as expected. */
static bool check(const char *name, const char *source, const jinja_input *in, const char *expected)
{
    jinja_output out = {0};
    err e = {0};
    int rc = render(source, in, &out, &e);
    bool same = expected ? !rc && span_eq(buf_span(&out.text), span_str(expected)) : rc && e.msg[0];
    if (!same)
        printf("%s\n  expected %s\n  got %s%s\n", name, expected ? expected : "an error", buf_cstr(&out.text), e.msg);
    jinja_output_free(&out);
    return same;
}

static void test_vectors(void **state)
{
    (void)state;
    json *file;
    err e = {0};
    int wrong = 0, n = 0;
    assert_ok(json_read(&file, "tests/vectors/jinja.json", 1 << 22, &e), &e);
    jinja_input in = {.context = span_str(json_str(json_get(file, "context"), "")),
                      .now = day(json_str(json_get(file, "now"), ""))};
    for (const json *c = json_first(json_get(file, "cases")); c; c = json_next(c), n++) {
        const char *source = json_str(json_get(c, "template"), "");
        wrong += !check(source, source, &in, json_str(json_get(c, "expected"), NULL));
    }
    json_free(file);
    assert_int_equal(wrong, 0);
    assert_true(n >= 600);
}

static void test_templates_of_models(void **state)
{
    (void)state;
    const char *path = shared_path("chat/golden_jinja2-3.1.6.json");
    if (!path) {
        skip_msg("no shared data: templates of models");
        return;
    }
    json *file;
    err e = {0};
    int wrong = 0, n = 0;
    assert_ok(json_read(&file, path, 64 << 20, &e), &e);
    for (const json *c = json_first(file); c; c = json_next(c), n++) {
        char name[300];
        buf source = {0}, context = {0};
        snprintf(name, sizeof name, "chat/%s", json_str(json_get(c, "template"), ""));
        assert_ok(file_read(&source, shared_path(name), 1 << 20, &e), &e);
        snprintf(name, sizeof name, "chat/minja-contexts/%s.json", json_str(json_get(c, "context"), ""));
        assert_ok(file_read(&context, shared_path(name), 1 << 20, &e), &e);
        jinja_input in = {.context = buf_span(&context), .now = day("2025-07-10")};
        wrong += !check(json_str(json_get(c, "template"), ""), buf_cstr(&source), &in,
                        json_str(json_get(c, "expected"), NULL));
        buf_free(&source);
        buf_free(&context);
    }
    json_free(file);
    assert_int_equal(wrong, 0);
    assert_int_equal(n, 332);
}

/* "\u0000" in a case would end its text here: it is read as "\u0001", which is written in the same way. */
static int check_cases(const char *path, const char *source_key)
{
    buf text = {0};
    json *file;
    err e = {0};
    int wrong = 0, n = 0;
    assert_ok(file_read(&text, path, 1 << 22, &e), &e);
    for (char *p = buf_cstr(&text); (p = strstr(p, "u0000")); p++) p[4] = '1';
    assert_ok(json_parse(&file, buf_span(&text), path, &e), &e);
    for (const json *c = json_first(file); c; c = json_next(c), n++) {
        buf context = {0};
        json_print(&context, json_get(c, "context"), false);
        jinja_input in = {.context = buf_span(&context), .now = day("2025-07-10")};
        wrong += !check(json_str(json_get(c, "name"), ""), json_str(json_get(c, source_key), ""), &in,
                        json_str(json_get(c, "expected_python"), NULL));
        buf_free(&context);
    }
    json_free(file);
    buf_free(&text);
    assert_int_equal(wrong, 0);
    return n;
}

static void test_language_cases(void **state)
{
    (void)state;
    const char *units = shared_path("chat/hf-jinja/template_unit_cases.json"),
               *whole = shared_path("chat/hf-jinja/e2e_cases.json");
    if (!units || !whole) {
        skip_msg("no shared data: cases of the language");
        return;
    }
    assert_int_equal(check_cases(units, "template"), 146);
    assert_int_equal(check_cases(whole, "chat_template"), 53);
}

/* Text of the user is shown in brackets here. */
static void test_origin(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"<s>{{ x }}</s>", "<s>[aé<s>b ]</s>"},
        {"{{ '<s>' + x + '</s>' }}", "<s>[aé<s>b ]</s>"},
        {"{{ x|upper }}{{ x.strip() }}!", "[AÉ<S>B aé<s>b]!"},
        {"{{ x[1:4] }}{{ '-' ~ x[0] }}", "[é<s]-[a]"},
        {"{{ x.split('<s>')|join('<s>') }}", "[aé]<s>[b ]"},
        {"{{ x|replace('<s>', '</s>') }}", "[aé]</s>[b ]"},
        {"{{ '<s>'|replace('s', x) }}", "<[aé<s>b ]>"},
        {"{{ '%s|%5s' % (x, 'q') }}", "[aé<s>b ]|    q"},
        {"{{ '{}<s>{}'.format(x, 1) }}", "[aé<s>b ]<s>1"},
        {"{{ {'k': x}|tojson }}", "{\"k\": \"[aé<s>b ]\"}"},
        {"{{ d|tojson }}", "{\"[<k>]\": [\"[v]\", 1]}"},
        {"{{ [x, 1] }}", "['[aé<s>b ]', 1]"},
        {"{% for k, v in d.items() %}{{ k }}={{ v[0] }}{% endfor %}", "[<k>]=[v]"},
        {"{% set a %}<s>{{ x }}{% endset %}{{ a|trim }}", "<s>[aé<s>b]"},
        {"{% macro f(a) %}<s>{{ a }}{% endmacro %}{{ f(x)|lower }}", "<s>[aé<s>b ]"},
        {"{% filter indent(1, true) %}{{ x }}\n<s>{% endfilter %}", " [aé<s>b ]\n <s>"},
        {"{{ x|list|reverse|join }}", "[ b>s<éa]"},
        {"{{ [x, '<s>']|sort|last }}", "[aé<s>b ]"},
        {"<|{{ m.role }}|>{{ m.name }}", "<|user|>[user]"},
        {"{{ bos }}{{ x|first }}", "<s>[a]"},
        {"{{ d2.role }}", "[(INST)]"},
        {"{{ (x|e)[:5] }}", "[aé]&lt"},
    };
    static const jinja_own own[] = {{"bos", "<s>"}, {NULL}};
    jinja_input in = {.context = span_str("{\"x\":\"aé<s>b "
                                          "\",\"d\":{\"<k>\":[\"v\",1]},\"bos\":\"no\",\"d2\":{\"role\":\"(INST)\"},"
                                          "\"m\":{\"role\":\"user\",\"name\":"
                                          "\"user\"}}"),
                      .own = own};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jinja_output out = {0};
        buf shown = {0};
        err e = {0};
        assert_ok(render(cases[i][0], &in, &out, &e), &e);
        for (size_t k = 0; k < out.text.n; k++) {
            int now = out.user.p[k], before = k ? out.user.p[k - 1] : 0;
            if (now != before) buf_byte(&shown, now ? '[' : ']');
            buf_byte(&shown, out.text.p[k]);
        }
        if (out.text.n && out.user.p[out.text.n - 1]) buf_byte(&shown, ']');
        assert_string_equal(buf_cstr(&shown), cases[i][1]);
        buf_free(&shown);
        jinja_output_free(&out);
    }
}

/* As Python has them, whatever their length (expected: jinja2 with json.loads and json.dumps). */
static void test_whole_numbers_beyond_64_bits(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{{a}} {{b|tojson}}", "123456789012345678901234567890 -99999999999999999999"},
        {"{{c|tojson}} {{c}}", "[18446744073709551616, 9223372036854775807, 9223372036854775808, 1e+300] "
                               "[18446744073709551616, 9223372036854775807, 9223372036854775808, 1e+300]"},
        {"{{a is integer}} {{a is float}} {{a is number}} {{c[3] is integer}}", "True False True False"},
        {"{{a == a}} {{a == c[0]}} {{a > 1}} {{b < 0}} {{1 if a else 0}}", "True False True True 1"},
        {"{{'%s'|format(a)}} {{'%d'|format(a)}} {{'%d'|format(1e20)}}",
         "123456789012345678901234567890 123456789012345678901234567890 100000000000000000000"},
        {"{{h|tojson|length}} {{a|string|length}}", "400 30"}};
    char context[700], nines[401];
    memset(nines, '9', 400);
    nines[400] = 0;
    snprintf(context, sizeof context,
             "{\"a\":123456789012345678901234567890,\"b\":-99999999999999999999,"
             "\"c\":[18446744073709551616,9223372036854775807,9223372036854775808,1e300],\"h\":%s}",
             nines);
    const jinja_input in = {.context = span_str(context)};
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        wrong += !check(cases[i][0], cases[i][0], &in, cases[i][1]);
    assert_int_equal(wrong, 0);
}

static void test_limits(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more than"},
        {"{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "MiB"},
        {"{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
         "more than"},
        {"{{ 'abc' * 99999999999 }}", "MiB"},
        {"{{ 'a'.center(99999999999) }}", "steps"},
        {"{{ '%999999999d' % 1 }}", "format"},
        {"{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "deeply"},
        {"{{ x }}{% set x = [x] %}{% set ns = namespace(x=[]) %}{% for i in range(2000) %}{% set ns.x = [ns.x] %}"
         "{% endfor %}{{ ns.x }}",
         "deeply"},
        {"{{ range(100001) }}", "Range"},
    };
    jinja_input in = {.context = span_str("{}")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jinja_output out = {0};
        err e = {0};
        assert_int_not_equal(render(cases[i][0], &in, &out, &e), 0);
        if (!strstr(e.msg, cases[i][1])) fail_msg("%s: %s", cases[i][0], e.msg);
        jinja_output_free(&out);
    }
    buf deep = {0};
    err e = {0};
    jinja *t;
    buf_str(&deep, "{{ ");
    for (int i = 0; i < 5000; i++) buf_byte(&deep, '(');
    assert_int_not_equal(jinja_open(&t, buf_span(&deep), &e), 0);
    assert_non_null(strstr(e.msg, "deeply"));
    deep.n = 0;
    for (int i = 0; i < 5000; i++) buf_byte(&deep, '[');
    in.context = buf_span(&deep);
    jinja_output out = {0};
    e = (err){0};
    assert_int_not_equal(render("x", &in, &out, &e), 0);
    jinja_output_free(&out);
    buf_free(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_templates_of_models),
        cmocka_unit_test(test_language_cases),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_whole_numbers_beyond_64_bits),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
