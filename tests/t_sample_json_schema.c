/* t_sample_json_schema.c - JSON schemas: which texts they allow, by cases worked by hand; numbers between bounds
 * against arithmetic; refusals that name the keyword; drawn texts that keep to their schema; tool calls.
 * tools/oracle/oracle_schemas.py asks Python's jsonschema about many more. */
#include "tests/grammar_rig.h"

#include "base/clock.h"
#include "sample/call_form.h"
#include "sample/form_source.h"
#include "sample/json_schema.h"
#include "sample/pattern.h"

#include <math.h>

static int compile(grammar **g, const char *text, err *e)
{
    json *j;
    assert_ok(json_parse(&j, span_str(text), "schema", e), e);
    const int rc = json_schema_compile(g, j, rig_trie(), e);
    json_free(j);
    return rc;
}

static rig_answer match(const char *schema, const char *text)
{
    grammar *g;
    err e = {0};
    assert_ok(compile(&g, schema, &e), &e);
    const rig_answer a = rig_match(g, span_str(text));
    grammar_drop(g);
    return a;
}

static void texts_that_schemas_allow(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        const char *good[6], *bad[8];
    } cases[] = {
        {"true",
         {"1", "{}", "[ 1,\n  2]", "\"\\u00e9\"", "{\"a\": null}", "-0.5e+7"},
         {" 1", "01", "\"\n\"", "1 ", "[1,]", "{a:1}", "\"\\u0000\"", "\"\\ud800\""}},
        {"{\"type\":\"object\"}", {"{}", "{ }", "{\"x\":[{}]}"}, {"[]", "{\"a\"}", "{\"a\":1,}", "1"}},
        {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
         {"\"a\"", "\"\\n\\n\"", "\"\xc3\xa9\xc3\xa9\"", "\"\\ud83d\\ude00a\""},
         {"\"\"", "\"abc\"", "\"\xff\"", "a"}},
        {"{\"type\":[\"null\",\"boolean\"]}", {"null", "true", "false"}, {"0", "\"\"", "nul "}},
        {"{\"enum\":[1,\"a\",null,{\"b\":[2]}]}", {"1", "\"a\"", "null", "{\"b\":[2]}"}, {"2", "\"b\"", "{}", "11"}},
        {"{\"const\":\"\xc3\xa9\\\"\"}", {"\"\xc3\xa9\\\"\""}, {"\"e\"", "null"}},
        {"{\"type\":\"integer\",\"enum\":[1,2.5,\"a\"]}", {"1"}, {"2.5", "\"a\""}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
         {"[1]", "[1, -2]", "[1,2,3]"},
         {"[]", "[1,2,3,4]", "[1.5]", "[\"a\"]"}},
        {"{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":2,\"maxItems\":2}", {"[1,1]"}, {"[1]", "[1,1,1]"}},
        {"{\"prefixItems\":[{\"type\":\"string\"},{\"const\":1}],\"items\":false}",
         {"[\"a\",1]"},
         {"[1,1]", "[\"a\",1,1]"}},
        {"{\"prefixItems\":[{\"const\":0}],\"items\":{\"const\":1},\"minItems\":3}",
         {"[0,1,1]", "[0,1,1,1]"},
         {"[0,1]", "[1,1,1]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]", "[1"}},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}",
         {"{\"a\":1,\"b\":null}", "{\"b\": null}"},
         {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,\"c\":1}", "{\"a\":\"x\",\"b\":null}"}},
        {"{\"properties\":{\"a\":{},\"b\":{},\"c\":{}}}",
         {"{}", "{\"a\":1}", "{\"b\":1,\"c\":2}", "{\"a\":1,\"c\":[]}"},
         {"{\"c\":1,\"a\":1}", "{,\"a\":1}", "{\"a\":1,}"}},
        {"{\"properties\":{\"ab\":{\"const\":1}},\"required\":[\"ab\"],\"additionalProperties\":{\"type\":\"string\"}}",
         {"{\"ab\":1}", "{\"ab\":1,\"a\":\"\"}", "{\"ab\":1,\"abc\":\"\"}", "{\"ab\":1,\"\":\"\"}",
          "{\"ab\":1,\"\xc3\xa9\":\"x\"}"},
         {"{\"ab\":\"\"}", "{\"ab\":1,\"ab\":\"\"}", "{\"ab\":1,\"\\u0061b\":\"\"}", "{\"ab\":1,\"c\":1}"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":1,\"maxProperties\":2}",
         {"{\"a\":null}", "{\"a\":null,\"b\":null}"},
         {"{}", "{\"a\":null,\"b\":null,\"c\":null}"}},
        {"{\"type\":\"object\",\"required\":[\"z\"]}", {"{\"z\":1}", "{\"z\":{},\"y\":2}"}, {"{}", "{\"y\":1"}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
         {"12", "\"a\""},
         {"\"ab\"", "null", "1.5"}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"12", "\"a\""}, {"null"}},
        {"{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{\"const\":1}},\"required\":["
         "\"k\"]},"
         "{\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}",
         {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\"}"},
         {"{}", "{\"k\":\"b\",\"x\":1}", "{\"k\":\"c\"}"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"number\",\"minimum\":1}},\"required\":[\"a\"]},"
         "{\"properties\":{\"a\":{\"type\":\"integer\",\"maximum\":3},\"b\":{\"const\":0}},\"required\":[\"b\"]}]}",
         {"{\"a\":1,\"b\":0}", "{\"a\":3,\"b\":0}"},
         {"{\"a\":4,\"b\":0}", "{\"a\":0,\"b\":0}", "{\"a\":1.5,\"b\":0}", "{\"a\":1}"}},
        {"{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}}}",
         {"[]", "[[],[[]]]"},
         {"[1]", "{}"}},
        {"{\"properties\":{\"l\":{\"$ref\":\"#\"},\"v\":{\"const\":1}},\"required\":[\"v\"],\"additionalProperties\":"
         "false}",
         {"{\"v\":1}", "{\"l\":{\"v\":1},\"v\":1}"},
         {"{\"l\":{},\"v\":1}", "{}"}},
        {"{\"$ref\":\"#/definitions/a~1b%20c\",\"minimum\":5,\"definitions\":{\"a/b "
         "c\":{\"type\":\"integer\",\"maximum\":6}}}",
         {"5", "6"},
         {"4", "7"}},
        {"{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
        {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"required\":[\"b\"]}],"
         "\"properties\":{\"b\":{\"const\":2}},\"type\":\"object\"}",
         {"{\"a\":1}", "{\"b\":2}"},
         {"{}", "{\"a\":2}"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\",\"maxLength\":3}",
         {"\"abc\"", "\"a\""},
         {"\"\"", "\"abca\"", "\"d\""}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\"", "\"\\nb\""}, {"\"a\"", "\"\""}},
        {"{\"pattern\":\"^(a|b\\\\d{2})$|^\\\\\\\\\\\"$\"}",
         {"\"a\"", "\"b12\"", "\"\\\\\\\"\""},
         {"\"b1\"", "\"c\"", "\"\\\\\""}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-28\"", "\"1999-12-31\""},
         {"\"2024-02-30\"", "\"2024-13-01\"", "\"2024-1-1\""}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}", {"\"01234567-89ab-cdef-0123-456789abcdef\""}, {"\"01234567\""}},
        {"{\"title\":\"x\",\"description\":\"y\",\"default\":1,\"type\":\"integer\"}", {"7"}, {"\"\""}},
        {"{\"patternProperties\":{\"^[a-z]{2}$\":{\"type\":\"null\"}},\"additionalProperties\":false,\"maxProperties\":"
         "2}",
         {"{}", "{\"ab\":null}", "{\"ab\":null,\"cd\":null}"},
         {"{\"a\":null}", "{\"ab\":1}", "{\"ab\":null,\"cd\":null,\"ef\":null}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",3]},\"additionalProperties\":{\"const\":1}}",
         {"{}", "{\"a\":1,\"b\":1}"},
         {"{\"c\":1}", "{3:1}", "{\"a\":2}"}},
        {"{\"propertyNames\":{\"type\":\"string\"},\"properties\":{\"q\":{}}}", {"{\"q\":1}"}, {"{\"p\":1}"}},
        {"{\"propertyNames\":{\"type\":\"string\"},\"x-order\":1}", {"{\"q\":1}"}, {"1"}},
        {"{\"type\":\"string\",\"format\":\"password\",\"maxLength\":2}", {"\"\"", "\"a\\n\""}, {"\"abc\""}},
        {"{\"type\":\"number\",\"format\":\"float\"}", {"1.5"}, {"a"}},
        {"{\"format\":\"date\",\"pattern\":\"^20\"}",
         {"\"2026-11-28\""},
         {"\"1926-11-28\"", "\"20\"", "\"2026-13-01\""}},
        {"{\"format\":\"email\",\"pattern\":\"@example\\\\.(com|org)$\",\"maxLength\":14}",
         {"\"a@example.com\"", "\"ab@example.org\""},
         {"\"abc@example.com\"", "\"a@example.net\"", "\"@example.com\"", "\"a@b.example.co\""}},
        {"{\"pattern\":\"ab+\",\"minLength\":3,\"maxLength\":5}",
         {"\"abb\"", "\"xaby\"", "\"\\n\\nab\\n\"",
          "\"\xc3\xa9\xc3\xa9\xc3\xa9"
          "ab\""},
         {"\"ab\"", "\"xabbby\"", "\"aaaaa\"", "\"abbbbb\""}},
        {"{\"allOf\":[{\"format\":\"ipv4\"},{\"pattern\":\"^10\\\\.\"}]}",
         {"\"10.0.0.1\""},
         {"\"11.0.0.1\"", "\"10.0.0\""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 6 && cases[i].good[k]; k++)
            if (match(cases[i].schema, cases[i].good[k]) != RIG_WHOLE)
                fail_msg("%s should allow %s", cases[i].schema, cases[i].good[k]);
        for (int k = 0; k < 8 && cases[i].bad[k]; k++)
            if (match(cases[i].schema, cases[i].bad[k]) == RIG_WHOLE)
                fail_msg("%s should not allow %s", cases[i].schema, cases[i].bad[k]);
    }
}

static void refusals_name_the_keyword(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"false", "nothing satisfies the schema: #: false"},
        {"5", "#: expected a schema"},
        {"{\"type\":\"frobnicate\"}", "#/type: \"frobnicate\" is no type"},
        {"{\"type\":5}", "#/type"},
        {"{\"enum\":[]}", "#/enum: no value is left"},
        {"{\"type\":\"string\",\"enum\":[1]}", "#/enum: no value is left"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "#/minimum"},
        {"{\"type\":\"integer\",\"minimum\":1.2,\"maximum\":1.8}", "#/minimum: no whole number"},
        {"{\"type\":\"number\",\"exclusiveMinimum\":3,\"maximum\":3}", "#/exclusiveMinimum"},
        {"{\"type\":\"number\",\"exclusiveMinimum\":true}", "#/exclusiveMinimum: expected a number"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "#/minLength"},
        {"{\"type\":\"string\",\"minLength\":-1}", "#/minLength"},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "#/minItems"},
        {"{\"properties\":{\"a\":{\"not\":{}}}}", "#/properties/a/not: this keyword is not supported"},
        {"{\"patternProperties\":{}}", "#/patternProperties"},
        {"{\"patternProperties\":{\"(\":{}}}", "#/patternProperties: \"(\""},
        {"{\"patternProperties\":{\"a\":{}},\"properties\":{\"b\":{}}}", "#/patternProperties"},
        {"{\"propertyNames\":{\"pattern\":\"a\"},\"required\":[\"b\"]}", "#/propertyNames"},
        {"{\"propertyNames\":{\"type\":\"null\"},\"minProperties\":1}", "nothing satisfies"},
        {"{\"propertyNames\":{\"pattern\":\"a\"},\"properties\":{\"b\":{}},\"additionalProperties\":false}",
         "#/propertyNames"},
        {"{\"properties\":{},\"minProperties\":1}", "#/minProperties"},
        {"{\"properties\":{\"a\":{}},\"maxProperties\":0}", "#/maxProperties"},
        {"{\"if\":{}}", "#/if"},
        {"{\"uniqueItems\":true}", "#/uniqueItems"},
        {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
         "#/uniqueItems: not supported but for items of an enum"},
        {"{\"uniqueItems\":true,\"items\":{\"enum\":[1,2,2]},\"minItems\":3}", "#/minItems: more items than there"},
        {"{\"multipleOf\":0}", "#/multipleOf: expected a number above 0"},
        {"{\"multipleOf\":401}", "#/multipleOf: of 401 is not supported"},
        {"{\"multipleOf\":1e-10}", "#/multipleOf"},
        {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":8,\"maximum\":13}",
         "#/multipleOf: no multiple lies between"},
        {"{\"frob\":2}", "#/frob"},
        {"{\"$ref\":\"#/$defs/x\"}", "#/$ref: \"#/$defs/x\" refers to nothing"},
        {"{\"$ref\":\"other.json\"}", "#/$ref"},
        {"{\"$ref\":\"#\"}", "nothing satisfies the schema"},
        {"{\"allOf\":[{\"$ref\":\"#\"}]}", "nests too deeply, or refers to itself"},
        {"{\"pattern\":\"(\"}", "#/pattern: \"(\": expected ')'"},
        {"{\"pattern\":\"a(?=b)\"}", "look-around"},
        {"{\"pattern\":\"(a)\\\\1\"}", "back reference"},
        {"{\"pattern\":\"[z-a]\"}", "ends before it begins"},
        {"{\"pattern\":\"a**\"}", "#/pattern"},
        {"{\"pattern\":\"ab+\",\"maxLength\":1}", "#/pattern: nothing satisfies it between minLength and maxLength"},
        {"{\"items\":{\"format\":\"date\",\"pattern\":\"a\"}}",
         "#/items/pattern: nothing satisfies it as the format is written here"},
        {"{\"pattern\":\"(ab|c)+\",\"maxLength\":100000000}", "64 MiB"},
        {"{\"type\":\"string\",\"format\":\"frob\"}", "#/format: \"frob\" is not supported"},
        {"{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", "#/oneOf: a text may satisfy branches 0 and 1"},
        {"{\"anyOf\":[]}", "#/anyOf"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "nothing satisfies the schema"},
        {"{\"allOf\":[{\"const\":1},{\"const\":2}]}", "nothing satisfies the schema"},
        {"{\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}", "nothing satisfies the schema"},
        {"{\"properties\":{},\"required\":[\"a\"],\"additionalProperties\":false}", "nothing satisfies the schema"},
        {"{\"properties\":5}", "#/properties"},
        {"{\"required\":5}", "#/required"},
        {"{\"required\":[5]}", "#/required"},
        {"{\"properties\":{\"a\":5}}", "#/properties/a: expected a schema"},
        {"{\"items\":5}", "#/items"},
        {"{\"type\":\"string\",\"maxLength\":100000000}", "64 MiB"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        grammar *g;
        err e = {0};
        if (compile(&g, bad[i][0], &e) == OK) fail_msg("%s should be refused", bad[i][0]);
        assert_null(g);
        if (!strstr(e.msg, bad[i][1])) fail_msg("%s: \"%s\" is not in \"%s\"", bad[i][0], bad[i][1], e.msg);
    }
}

/* What holds of several keywords at once holds of each by itself: all texts of up to six signs. */
static void keywords_hold_at_once(void **state)
{
    (void)state;
    static const char *const one[] = {"\"pattern\":\"^(a|bc)*$\"",
                                      "\"pattern\":\"ab|b$\"",
                                      "\"pattern\":\"^(a*b?/)*c\"",
                                      "\"pattern\":\"\\\"|(..){2}\"",
                                      "\"format\":\"byte\"",
                                      "\"format\":\"uri-reference\"",
                                      "\"minLength\":2",
                                      "\"maxLength\":3",
                                      "\"minLength\":4,\"maxLength\":5"};
    enum { N = sizeof one / sizeof *one, SIGNS = 5, LONGEST = 6 };
    static const char *const sign[SIGNS] = {"a", "b", "c", "\\\"", "/"};
    grammar *single[N], *both;
    err e = {0};
    for (int i = 0; i < N; i++) {
        char schema[200];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",%s}", one[i]);
        assert_ok(compile(&single[i], schema, &e), &e);
    }
    for (int i = 0; i < N; i++)
        for (int k = i + 1; k < N; k++) {
            char schema[200];
            if (strncmp(one[i], one[k], 6) == 0 || (strstr(one[i], "Length") && strstr(one[k], "Length"))) continue;
            snprintf(schema, sizeof schema, "{\"type\":\"string\",%s,%s}", one[i], one[k]);
            assert_ok(compile(&both, schema, &e), &e);
            for (int n = 0, count = 1; n <= LONGEST; n++, count *= SIGNS)
                for (int number = 0; number < count; number += n < LONGEST ? 1 : 7) {
                    char text[40] = "\"";
                    for (int at = 0, left = number; at < n; at++, left /= SIGNS) strcat(text, sign[left % SIGNS]);
                    strcat(text, "\"");
                    const bool want = rig_match(single[i], span_str(text)) == RIG_WHOLE &&
                                      rig_match(single[k], span_str(text)) == RIG_WHOLE;
                    const bool got = rig_match(both, span_str(text)) == RIG_WHOLE;
                    if (got != want) fail_msg("%s: %s should be %s", schema, text, want ? "allowed" : "refused");
                }
            grammar_drop(both);
        }
    for (int i = 0; i < N; i++) grammar_drop(single[i]);
}

/* Every number of a grid is allowed exactly if it lies between the bounds. */
static void check_range(const char *keys, double low, bool low_open, double high, bool high_open)
{
    static const char *const parts[] = {"", ".0", ".5", ".25", ".05", ".999", ".001", ".500", ".50001"};
    for (int whole = 0; whole < 2; whole++) {
        char schema[200];
        grammar *g;
        err e = {0};
        snprintf(schema, sizeof schema, "{\"type\":\"%s\",%s}", whole ? "integer" : "number", keys);
        assert_ok(compile(&g, schema, &e), &e);
        for (int n = -1105; n <= 1105; n++)
            for (size_t i = 0; i < (whole ? 1 : sizeof parts / sizeof *parts); i++) {
                char text[40];
                snprintf(text, sizeof text, "%d%s", n, parts[i]);
                const double v = strtod(text, NULL);
                const bool in = (low_open ? v > low : v >= low) && (high_open ? v < high : v <= high);
                const bool got = rig_match(g, span_str(text)) == RIG_WHOLE;
                if (got != in) fail_msg("%s: %s should be %s", schema, text, in ? "allowed" : "refused");
            }
        grammar_drop(g);
    }
}

/* Every number of a grid is allowed exactly if it is a multiple and lies between the bounds; all in hundredths. */
static void check_multiples(const char *keys, int of, int low, int high, bool whole)
{
    char schema[200];
    grammar *g;
    err e = {0};
    snprintf(schema, sizeof schema, "{\"type\":\"%s\",%s}", whole ? "integer" : "number", keys);
    assert_ok(compile(&g, schema, &e), &e);
    const int places = of % 100 == 0 || whole ? 0 : of % 10 == 0 ? 1 : 2;
    for (int n = -120500; n <= 120500; n += n < -3000 || n > 3000 ? 50 : 1)
        for (int digits = 0; digits <= 2; digits++) {
            char text[40];
            if ((digits == 0 && n % 100) || (digits == 1 && n % 10) || (n < 0 && n > -100 && digits == 0)) continue;
            const int m = n < 0 ? -n : n;
            const char *sign = n < 0 ? "-" : "";
            if (digits == 2) snprintf(text, sizeof text, "%s%d.%02d", sign, m / 100, m % 100);
            else if (digits == 1) snprintf(text, sizeof text, "%s%d.%d", sign, m / 100, m % 100 / 10);
            else snprintf(text, sizeof text, "%s%d", sign, m / 100);
            const bool in = n % of == 0 && n >= low && n <= high && digits <= places && (!whole || n % 100 == 0);
            const bool got = rig_match(g, span_str(text)) == RIG_WHOLE;
            if (got != in) fail_msg("%s: %s should be %s", schema, text, in ? "allowed" : "refused");
        }
    grammar_drop(g);
}

static void multiples_are_exact(void **state)
{
    (void)state;
    const int most = 1 << 30;
    check_multiples("\"multipleOf\":1", 100, -most, most, false);
    check_multiples("\"multipleOf\":5", 500, -most, most, true);
    check_multiples("\"multipleOf\":7,\"minimum\":0", 700, 0, most, true);
    check_multiples("\"multipleOf\":60,\"minimum\":-120,\"maximum\":600", 6000, -12000, 60000, true);
    check_multiples("\"multipleOf\":100,\"exclusiveMinimum\":0", 10000, 1, most, true);
    check_multiples("\"multipleOf\":0.01,\"minimum\":0", 1, 0, most, false);
    check_multiples("\"multipleOf\":0.25,\"maximum\":10.5", 25, -most, 1050, false);
    check_multiples("\"multipleOf\":0.1,\"minimum\":0.1,\"maximum\":0.7", 10, 10, 70, false);
    check_multiples("\"multipleOf\":0.05,\"exclusiveMinimum\":-1.05,\"exclusiveMaximum\":1.05", 5, -104, 104, false);
    check_multiples("\"multipleOf\":0.5", 50, -most, most, true);
    check_multiples("\"multipleOf\":1.5,\"minimum\":2", 150, 200, most, false);
    check_multiples("\"multipleOf\":365", 36500, -most, most, true);
    assert_int_equal(match("{\"multipleOf\":1000000}", "-1000000"), RIG_WHOLE);
    assert_int_equal(match("{\"multipleOf\":1e3,\"type\":\"integer\"}", "0"), RIG_WHOLE);
    assert_true(match("{\"multipleOf\":3}", "-0") != RIG_WHOLE);
    assert_int_equal(match("{\"multipleOf\":3}", "999999999999999"), RIG_WHOLE);
    assert_int_equal(match("{\"enum\":[1,2,3,4],\"multipleOf\":2}", "4"), RIG_WHOLE);
    assert_true(match("{\"enum\":[1,2,3,4],\"multipleOf\":2}", "3") != RIG_WHOLE);
}

/* Every list of at most four of three values, against a count. */
static void items_that_differ(void **state)
{
    (void)state;
    static const char *const value[] = {"1", "\"a\"", "null"};
    for (int min = 0; min <= 3; min++)
        for (int max = min < 2 ? 2 : min; max <= 4; max++) {
            char schema[200];
            grammar *g;
            err e = {0};
            snprintf(schema, sizeof schema,
                     "{\"type\":\"array\",\"items\":{\"enum\":[1,\"a\",1.0,null]},\"uniqueItems\":true,\"minItems\":%d%"
                     "s%.0d}",
                     min, max < 4 ? ",\"maxItems\":" : "", max < 4 ? max : 0);
            assert_ok(compile(&g, schema, &e), &e);
            for (int n = 0, all = 1; n <= 4; n++, all *= 3)
                for (int list = 0; list < all; list++) {
                    char text[80] = "[";
                    int used = 0;
                    bool twice = false;
                    for (int i = 0, rest = list; i < n; i++, rest /= 3) {
                        strcat(strcat(text, i ? "," : ""), value[rest % 3]);
                        twice = twice || used >> rest % 3 & 1;
                        used |= 1 << rest % 3;
                    }
                    strcat(text, "]");
                    const bool in = !twice && n >= min && n <= max;
                    const bool got = rig_match(g, span_str(text)) == RIG_WHOLE;
                    if (got != in) fail_msg("%s: %s should be %s", schema, text, in ? "allowed" : "refused");
                }
            grammar_drop(g);
        }
}

static void bounds_of_numbers_are_exact(void **state)
{
    (void)state;
    check_range("\"minimum\":0", 0, false, INFINITY, false);
    check_range("\"minimum\":7,\"maximum\":1049", 7, false, 1049, false);
    check_range("\"exclusiveMinimum\":99,\"exclusiveMaximum\":101", 99, true, 101, true);
    check_range("\"minimum\":-12.5,\"maximum\":0.25", -12.5, false, 0.25, false);
    check_range("\"maximum\":-1.05", -INFINITY, false, -1.05, false);
    check_range("\"exclusiveMinimum\":0.5", 0.5, true, INFINITY, false);
    check_range("\"exclusiveMaximum\":100", -INFINITY, false, 100, true);
    check_range("\"exclusiveMinimum\":-1000.001,\"maximum\":998.999", -1000.001, true, 998.999, false);
    check_range("\"minimum\":-3,\"maximum\":1e300", -3, false, 1e300, false);
    check_range("\"minimum\":1e-300,\"maximum\":5", 1e-300, false, 5, false);
    assert_int_equal(
        match("{\"type\":\"integer\",\"minimum\":9007199254740993,\"maximum\":9007199254740993}", "9007199254740993"),
        RIG_WHOLE);
    assert_int_equal(match("{\"type\":\"integer\",\"minimum\":-9223372036854775808}", "-9223372036854775808"),
                     RIG_WHOLE);
    assert_int_equal(match("{\"type\":\"integer\",\"minimum\":-9223372036854775808}", "-9223372036854775809"),
                     RIG_NEVER);
}

/* Patterns of texts that are not JSON. */
static void patterns_of_texts(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a|bc*", "bccc", "ac"},
        {"^\\d{2,3}$", "123", "1"},
        {"[^\\d]", "x", "5"},
        {"(?:ab){2}", "abab", "ab"},
        {"(?<n>a)b", "ab", "a"},
        {"[\\w-]+", "a-b_1", "a b"},
        {"\\u00e9\\x41\\.",
         "\xc3\xa9"
         "A.",
         "eA."},
        {"a+?b", "aab", "b"},
        {".", "\xf0\x9f\x98\x80", "\n"},
        {"[\\]\\-]", "-", "\\"},
        {"\\S\\s", "a ", "  "},
        {"a{x", "a{x", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grammar *g;
        grammar_builder b;
        err e = {0};
        grammar_builder_open(&b, &e);
        phrase *p = pattern_of_text(&b, cases[i][0]);
        assert_ok(grammar_open(&g, &b, grammar_rule_new(&b, span_str("regex"), p), rig_trie()), &e);
        if (rig_match(g, span_str(cases[i][1])) != RIG_WHOLE) fail_msg("%s: %s", cases[i][0], cases[i][1]);
        if (rig_match(g, span_str(cases[i][2])) == RIG_WHOLE) fail_msg("%s: %s", cases[i][0], cases[i][2]);
        grammar_drop(g);
    }
}

/* Drawn texts are JSON with the members that the schema asks for. */
static void drawn_texts_keep_to_their_schema(void **state)
{
    (void)state;
    grammar *g;
    err e = {0};
    int ended = 0;
    assert_ok(
        compile(&g,
                "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":10,\"maximum\":99},"
                "\"name\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":9},\"on\":{\"type\":\"boolean\"},"
                "\"list\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",null]},\"maxItems\":2}},"
                "\"required\":[\"id\",\"name\"]}",
                &e),
        &e);
    for (uint64_t seed = 0; seed < 40; seed++) {
        buf out = {0};
        json *j;
        if (rig_draw(g, seed, 200, &out)) {
            assert_ok(json_parse(&j, buf_span(&out), "drawn", &e), &e);
            assert_in_range(json_int(json_get(j, "id"), 0), 10, 99);
            assert_int_equal(json_type(json_get(j, "name")), JSON_STRING);
            assert_true(json_count(json_get(j, "list")) <= 2 && json_count(j) <= 4);
            json_free(j);
            ended++;
        }
        buf_free(&out);
    }
    assert_true(ended > 20);
    grammar_drop(g);
}

static int compile_calls(grammar **out, call_forms f, err *e)
{
    buf source = {0};
    assert_true(call_form_print(&source, &f));
    const int rc = form_compile(out, FORM_CALLS, buf_span(&source), rig_trie(), e);
    buf_free(&source);
    return rc;
}

static rig_answer call(call_forms f, const char *text)
{
    grammar *g;
    err e = {0};
    assert_ok(compile_calls(&g, f, &e), &e);
    const rig_answer a = rig_match(g, span_str(text));
    grammar_drop(g);
    return a;
}

static void forms_of_calls_are_checked(void **state)
{
    (void)state;
    buf lengthy = {0};
    buf_str(&lengthy, "{\"form\":[{}],\"special\":\"");
    for (int i = 0; i < 2000; i++) buf_byte(&lengthy, 'x');
    buf_str(&lengthy, "\"}");
    const struct {
        const char *source, *message;
    } wrong[] = {{"[]", "form"},
                 {"{\"form\":{\"a\":1}}", "form"},
                 {"{\"form\":[]}", "form"},
                 {"{\"form\":[{\"before\":1}]}", "before: expected a string"},
                 {"{\"form\":[{}],\"trigger\":[]}", "trigger: expected a string"},
                 {"{\"form\":[{\"schema\":1}]}", "schema"},
                 {"{\"form\":[{}],\"trigger\":\"a\"}", "trigger"},
                 {buf_cstr(&lengthy), "special: more than 1000 bytes"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        grammar *g;
        err e = {0};
        assert_true(form_compile(&g, FORM_CALLS, span_str(wrong[i].source), rig_trie(), &e) != OK);
        assert_null(g);
        if (!strstr(e.msg, wrong[i].message)) fail_msg("\"%s\" does not say \"%s\"", e.msg, wrong[i].message);
    }
    buf_free(&lengthy);
}

/* Calls at once, after free text, with special tokens, one or several. */
static void tool_calls_have_their_form(void **state)
{
    (void)state;
    json *j;
    err e = {0};
    assert_ok(
        json_parse(&j, span_str("{\"properties\":{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]}"), "schema", &e),
        &e);
    const call_form tools[] = {{"<c>{\"f\":", "}</c>", j}, {"<c>{\"g\":", "}</c>", NULL}};
    call_forms f = {.form = tools, .n = 2, .open = "", .between = "\n", .close = ""};
    assert_int_equal(call(f, "<c>{\"f\":{\"x\":1}}</c>"), RIG_WHOLE);
    assert_int_equal(call(f, "<c>{\"g\":{}}</c>"), RIG_WHOLE);
    assert_int_equal(call(f, "<c>{\"f\":{}}</c>"), RIG_NEVER);
    assert_int_equal(call(f, "hello"), RIG_NEVER);
    assert_int_equal(call(f, "<c>{\"g\":{}}</c>\n"), RIG_NEVER);
    f.several = true;
    assert_int_equal(call(f, "<c>{\"g\":{}}</c>\n<c>{\"f\":{\"x\":1}}</c>"), RIG_WHOLE);
    f.trigger = "<c>";
    assert_int_equal(call(f, "hello \xff <c <<c>{\"f\":{\"x\":1}}</c>"), RIG_WHOLE);
    assert_int_equal(call(f, "hello <c> there"), RIG_NEVER);
    assert_int_equal(call(f, "hello <c"), RIG_WHOLE);
    f.required = true;
    assert_int_equal(call(f, "hello <c"), RIG_PART);
    assert_int_equal(call(f, "<c>{\"g\":{}}</c>"), RIG_WHOLE);
    const call_form list[] = {{"{\"f\":", "}", j}};
    f = (call_forms){
        .form = list, .n = 1, .open = "[C][", .between = ",", .close = "]", .several = true, .trigger = "[C]"};
    assert_int_equal(call(f, "so [C][{\"f\":{\"x\":1}},{\"f\":{\"x\":2}}]"), RIG_WHOLE);
    f.special = "<none> [C]";
    assert_int_equal(call(f, "so [C] \xff[C]\xff[{\"f\":{\"x\":1}}]"), RIG_WHOLE);
    assert_int_equal(call(f, "so \xff[C]\xff]"), RIG_NEVER);
    f.trigger = "a";
    grammar *g;
    assert_int_equal(compile_calls(&g, f, &e), ERR_USAGE);
    json_free(j);
}

/* Schemas that grow when they are merged, nest, or are long are refused in time. */
static void compiling_is_bounded(void **state)
{
    (void)state;
    buf text[3] = {{0}};
    buf_str(&text[0], "{\"enum\":[0");
    for (int i = 1; i < 200000; i++) buf_printf(&text[0], ",%d", i);
    buf_str(&text[0], "]}");
    buf_str(&text[1], "{\"allOf\":[true");
    for (int i = 0; i < 3000; i++)
        buf_printf(&text[1], ",{\"properties\":{\"p%d\":{},\"q\":{}},\"required\":[\"p%d\"]}", i, i);
    buf_str(&text[1], "]}");
    buf_str(&text[2], "{\"oneOf\":[{\"const\":0}");
    for (int i = 1; i < 3000; i++) buf_printf(&text[2], ",{\"anyOf\":[{\"const\":%d},{\"const\":-%d}]}", i, i);
    buf_str(&text[2], "]}");
    for (int i = 0; i < 3; i++) {
        json *j;
        grammar *g;
        err e = {0};
        assert_ok(json_parse(&j, buf_span(&text[i]), "schema", &e), &e);
        const double begun = clock_now();
        json_schema_compile(&g, j, rig_trie(), &e);
        assert_true(clock_now() - begun < 2.5 * test_slowness());
        assert_true(!g == (e.code != OK));
        grammar_drop(g);
        json_free(j);
        buf_free(&text[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_schemas_allow),    cmocka_unit_test(refusals_name_the_keyword),
        cmocka_unit_test(bounds_of_numbers_are_exact), cmocka_unit_test(multiples_are_exact),
        cmocka_unit_test(items_that_differ),           cmocka_unit_test(keywords_hold_at_once),
        cmocka_unit_test(patterns_of_texts),           cmocka_unit_test(drawn_texts_keep_to_their_schema),
        cmocka_unit_test(tool_calls_have_their_form),  cmocka_unit_test(forms_of_calls_are_checked),
        cmocka_unit_test(compiling_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
