/* jinja_tests.c - the tests of jinja2 (`x is name`): one function and one row each. */
#include "jinja/jinja_arith.h"
#include "jinja/jinja_rows.h"

#include "base/utf8.h"
#include "text/tk_unicode.h"

#include <string.h>

#define TEST(name, condition)                                                                                          \
    static jval test_##name(jinja_run *r, jval self, const jval *a, const jargs *all)                                  \
    {                                                                                                                  \
        (void)r, (void)self, (void)a, (void)all;                                                                       \
        return jval_bool(condition);                                                                                   \
    }

static int64_t modulo(jinja_run *r, jval v, jval by)
{
    jval m = jinja_binary(r, "%", v, by);
    return m.kind == J_FLOAT ? (m.f != 0) : jval_index(r, m, "%");
}

static bool cased(jinja_run *r, jval v, bool upper)
{
    jstr s = jval_string(r, v);
    bool some = false;
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t c = utf8_decode(s.p + i, s.n - i, &len);
        if (upper ? uc_is_lower(c) : uc_is_upper(c)) return false;
        some |= upper ? uc_is_upper(c) : uc_is_lower(c);
    }
    return some;
}

static bool same_object(jinja_run *r, jval v, jval other)
{
    if (v.kind != other.kind) return false;
    if (v.kind == J_LIST || v.kind == J_TUPLE) return v.list == other.list;
    if (v.kind == J_DICT || v.kind == J_NAMESPACE) return v.dict == other.dict;
    return jval_equal(r, v, other);
}

static bool is_iterable(jval v)
{
    return v.kind == J_UNDEFINED || v.kind == J_STRING || (v.kind >= J_LIST && v.kind <= J_DICT) || v.kind == J_LOOP;
}

static bool is_sequence(jval v)
{
    return v.kind == J_UNDEFINED || v.kind == J_STRING || v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_RANGE ||
           v.kind == J_DICT;
}

TEST(odd, modulo(r, self, jval_int(2)) == 1)
TEST(even, modulo(r, self, jval_int(2)) == 0)
TEST(divisibleby, modulo(r, self, a[0]) == 0)
TEST(defined, self.kind != J_UNDEFINED)
TEST(undefined, self.kind == J_UNDEFINED)
TEST(filter, self.kind == J_STRING && jinja_row_find(jinja_filters, jstr_c(r, self.s)))
TEST(test, self.kind == J_STRING && jinja_row_find(jinja_tests, jstr_c(r, self.s)))
TEST(none, self.kind == J_NONE)
TEST(boolean, self.kind == J_BOOL)
TEST(false, self.kind == J_BOOL && !self.b)
TEST(true, self.kind == J_BOOL && self.b)
TEST(integer, self.kind == J_INT || (self.kind == J_FLOAT && self.digits))
TEST(float, self.kind == J_FLOAT && !self.digits)
TEST(lower, cased(r, self, false))
TEST(upper, cased(r, self, true))
TEST(string, self.kind == J_STRING)
TEST(mapping, self.kind == J_DICT)
TEST(number, jval_is_number(self))
TEST(sequence, is_sequence(self))
TEST(iterable, is_iterable(self))
TEST(callable, self.kind == J_MACRO || self.kind == J_FUNCTION || self.kind == J_LOOP || self.kind == J_UNDEFINED)
TEST(sameas, same_object(r, self, a[0]))
TEST(escaped, self.kind == J_STRING && self.safe)
TEST(in, jinja_contains(r, a[0], self))
TEST(eq, jval_equal(r, self, a[0]))
TEST(ne, !jval_equal(r, self, a[0]))
TEST(gt, jval_order(r, self, a[0], ">") > 0)
TEST(ge, jval_order(r, self, a[0], ">=") >= 0)
TEST(lt, jval_order(r, self, a[0], "<") < 0)
TEST(le, jval_order(r, self, a[0], "<=") <= 0)

const jinja_row jinja_tests[] = {
    {"odd", "", 0, test_odd},
    {"even", "", 0, test_even},
    {"divisibleby", "num", 1, test_divisibleby},
    {"defined", "", 0, test_defined},
    {"undefined", "", 0, test_undefined},
    {"filter", "", 0, test_filter},
    {"test", "", 0, test_test},
    {"none", "", 0, test_none},
    {"boolean", "", 0, test_boolean},
    {"false", "", 0, test_false},
    {"true", "", 0, test_true},
    {"integer", "", 0, test_integer},
    {"float", "", 0, test_float},
    {"lower", "", 0, test_lower},
    {"upper", "", 0, test_upper},
    {"string", "", 0, test_string},
    {"mapping", "", 0, test_mapping},
    {"number", "", 0, test_number},
    {"sequence", "", 0, test_sequence},
    {"iterable", "", 0, test_iterable},
    {"callable", "", 0, test_callable},
    {"sameas", "other", 1, test_sameas},
    {"escaped", "", 0, test_escaped},
    {"in", "seq", 1, test_in},
    {"==", "b", 1, test_eq},
    {"eq", "b", 1, test_eq},
    {"equalto", "b", 1, test_eq},
    {"!=", "b", 1, test_ne},
    {"ne", "b", 1, test_ne},
    {">", "b", 1, test_gt},
    {"gt", "b", 1, test_gt},
    {"greaterthan", "b", 1, test_gt},
    {">=", "b", 1, test_ge},
    {"ge", "b", 1, test_ge},
    {"<", "b", 1, test_lt},
    {"lt", "b", 1, test_lt},
    {"lessthan", "b", 1, test_lt},
    {"<=", "b", 1, test_le},
    {"le", "b", 1, test_le},
    {NULL},
};
