/* t_sample_grammar.c - GBNF: what it accepts and refuses by cases worked by hand; random grammars against a recogniser
 * that tries everything; masks; bounds. */
#include "tests/grammar_rig.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "sample/gbnf.h"

#include <stdarg.h>

static grammar *gbnf(const char *text)
{
    grammar *g;
    err e = {0};
    assert_ok(gbnf_compile(&g, span_str(text), rig_trie(), &e), &e);
    return g;
}

static rig_answer match(const char *text, const char *input)
{
    grammar *g = gbnf(text);
    const rig_answer a = rig_match(g, span_str(input));
    grammar_drop(g);
    return a;
}

static void cases_worked_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *input;
        rig_answer answer;
    } cases[] = {
        {"root ::= \"hello\"", "hello", RIG_WHOLE},
        {"root ::= \"hello\"", "hell", RIG_PART},
        {"root ::= \"hello\"", "hellp", RIG_NEVER},
        {"root ::= \"hello\"", "helloo", RIG_NEVER},
        {"root ::= \"\"", "", RIG_WHOLE},
        {"root ::= [a-c]+ \"-\" [0-9]{2}", "abca-42", RIG_WHOLE},
        {"root ::= [a-c]+ \"-\" [0-9]{2}", "abca-4", RIG_PART},
        {"root ::= [a-c]+ \"-\" [0-9]{2}", "-42", RIG_NEVER},
        {"root ::= [^a-c\\n]", "\xc3\xa9", RIG_WHOLE},
        {"root ::= [^a-c\\n]", "\xc3", RIG_PART},
        {"root ::= [^a-c\\n]", "\xff", RIG_NEVER},
        {"root ::= [^a-c\\n]", "b", RIG_NEVER},
        {"root ::= [^a-c\\n]", "\n", RIG_NEVER},
        {"root ::= .", "\xf0\x9f\x98\x80", RIG_WHOLE},
        {"root ::= .", "\xed\xa0\x80", RIG_NEVER},
        {"root ::= [\\u00e0-\\u00ef]", "\xc3\xa9", RIG_WHOLE},
        {"root ::= [\\u00e0-\\u00ef]", "\xc3\xb0", RIG_NEVER},
        {"root ::= [\\U0001F600-\\U0001F64F]", "\xf0\x9f\x98\x80", RIG_WHOLE},
        {"root ::= \"\\x41\\u00e9\\\"\\\\\\n\"", "A\xc3\xa9\"\\\n", RIG_WHOLE},
        {"root ::= [\\]\\[^-]", "]", RIG_WHOLE},
        {"root ::= [\\]\\[^-]", "-", RIG_WHOLE},
        {"root ::= [a-]", "-", RIG_WHOLE},
        {"root ::= (\"a\" | \"b\")*", "abba", RIG_WHOLE},
        {"root ::= (\"a\" |\n # words\n \"b\"\n)* # end\n", "abba", RIG_WHOLE},
        {"root ::= \"a\" |\n \"b\"\n\n# nothing\n", "b", RIG_WHOLE},
        {"root ::= \"ab\"{2}", "abab", RIG_WHOLE},
        {"root ::= \"ab\"{2}", "ababab", RIG_NEVER},
        {"root ::= \"ab\"{1,}", "ababab", RIG_WHOLE},
        {"root ::= \"ab\"{1,}", "", RIG_PART},
        {"root ::= \"ab\"{0,2} \"c\"", "c", RIG_WHOLE},
        {"root ::= \"ab\"{0,2} \"c\"", "ababc", RIG_WHOLE},
        {"root ::= \"ab\"{0,2} \"c\"", "abababc", RIG_NEVER},
        {"root ::= [ab]{3}{2}", "ababab", RIG_WHOLE},
        {"root ::= \"a\"?\"b\"", "b", RIG_WHOLE},
        {"root ::= (\"a\"*)* \"b\"", "aaab", RIG_WHOLE},
        {"root ::= (\"a\"? \"b\"?)+ \"c\"", "bac", RIG_WHOLE},
        {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"x\" | \"(\" e \")\"", "((x+x)+x)", RIG_WHOLE},
        {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"x\" | \"(\" e \")\"", "((x+x)+x", RIG_PART},
        {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"x\" | \"(\" e \")\"", "x)", RIG_NEVER},
        {"root ::= \"a\" root \"b\" | \"\"", "aaabbb", RIG_WHOLE},
        {"root ::= \"a\" root \"b\" | \"\"", "aaabbbb", RIG_NEVER},
        {"root ::= \"a\" root | \"b\"", "aaaaaaaaaaaaab", RIG_WHOLE},
        {"root ::= good | bad\ngood ::= \"a\"\nbad ::= \"b\" bad", "b", RIG_NEVER}, /* it could not end */
        {"root ::= good | bad\ngood ::= \"a\"\nbad ::= \"b\" bad", "a", RIG_WHOLE},
        {"ws_1 ::= [ \\t]*\nroot ::= ws_1 \"a\"", " \ta", RIG_WHOLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (match(cases[i].grammar, cases[i].input) != cases[i].answer)
            fail_msg("%s: \"%s\" should give %d", cases[i].grammar, cases[i].input, cases[i].answer);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "no rule 'root'"},
        {"x ::= \"a\"", "no rule 'root'"},
        {"root ::= missing", "rule 'missing' is not defined"},
        {"root ::= root \"a\" | \"b\"", "'root' begins with itself"},
        {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "begins with itself"},
        {"root ::= \"a\" root", "'root' derives no text"},
        {"root ::= []", "'root' derives no text"},
        {"root ::= \"a", "line 1, column 12: a literal does not end"},
        {"root ::= [a", "a class does not end"},
        {"root ::= \"\\q\"", "line 1, column 12: expected an escape"},
        {"root ::= \"\\x4\"", "hexadecimal"},
        {"root ::= \"\\ud800\"", "no character"},
        {"root ::= [z-a]", "ends before it begins"},
        {"root ::= (\"a\"", "expected ')'"},
        {"root ::= \"a\")", "expected the end of the rule"},
        {"root ::= \"a\"{2,1}", "maximum below its minimum"},
        {"root ::= \"a\"{", "expected a number"},
        {"root ::= \"a\"{1", "expected '}'"},
        {"root ::= \"a\"{99999999999}", "too large"},
        {"root := \"a\"", "expected '::='"},
        {"root ::= \"a\"\n| \"b\"", "line 2, column 1: expected the name of a rule"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: a rule is defined twice"},
        {"root ::= *", "expected the end of the rule"},
        {"root ::= \"\xff\"", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        grammar *g;
        err e = {0};
        assert_int_not_equal(gbnf_compile(&g, span_str(bad[i][0]), rig_trie(), &e), OK);
        assert_null(g);
        if (!strstr(e.msg, bad[i][1])) fail_msg("%s: \"%s\" is not in \"%s\"", bad[i][0], bad[i][1], e.msg);
    }
}

/* Grammars that would be large or slow are refused in time. */
static void compiling_is_bounded(void **state)
{
    (void)state;
    buf deep = {0}, many = {0};
    buf_str(&deep, "root ::= ");
    for (int i = 0; i < 5000; i++) buf_byte(&deep, '(');
    buf_str(&many, "root ::= (\"a\" | \"b\"){1000000}{1000000}");
    const char *const text[] = {"root ::= (\"abcdefghijklmnop\" [a-z]){1000000}", "root ::= \"\"{1000000}{1000000}",
                                "root ::= [a-z]{1048576} [a-z]{1048576} [a-z]{1048576} [a-z]{1048576} [a-z]{1048576} "
                                "[a-z]{1048576} [a-z]{1048576}",
                                buf_cstr(&deep), buf_cstr(&many)};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        grammar *g;
        err e = {0};
        const double begun = clock_now();
        gbnf_compile(&g, span_str(text[i]), rig_trie(), &e);
        assert_true(clock_now() - begun < 2.5 * test_slowness());
        assert_true(!g == (e.code != OK));
        grammar_drop(g);
    }
    buf_free(&deep);
    buf_free(&many);
}

/* ---- random grammars against a recogniser that tries everything */

enum { TREE_MAX = 64, RULES = 3 };
typedef enum { LETTER, CLASS, SEQUENCE, CHOICE, REPEAT, CALL } tree_kind;
typedef struct tree {
    tree_kind kind;
    int a, b; /* letter; children; bounds stand in min, max */
    int min, max;
} tree;
static tree node[TREE_MAX];
static int n_node, rule_of[RULES];
static uint64_t chance;

static int pick(int n)
{
    chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((chance >> 33) % (uint64_t)n);
}

/* Rules call later ones in front, so that none begins with itself; any behind a letter. */
static int grow(int depth, int rule)
{
    const int at = n_node++;
    tree t = {.kind = depth <= 0 || n_node > TREE_MAX - 12 ? (tree_kind)pick(2) : (tree_kind)pick(6)};
    if (t.kind == CALL && rule == RULES - 1) t.kind = LETTER;
    if (t.kind == LETTER) t.a = pick(3);
    if (t.kind == CLASS) t.a = 1 + pick(7);
    if (t.kind == CALL) t.a = rule + 1 + pick(RULES - rule - 1);
    if (t.kind == SEQUENCE || t.kind == CHOICE) {
        t.a = grow(depth - 1, rule);
        t.b = grow(depth - 1, rule);
    }
    if (t.kind == REPEAT) {
        t.a = grow(depth - 1, rule);
        t.min = pick(3);
        t.max = pick(2) ? -1 : t.min + pick(3);
    }
    node[at] = t;
    return at;
}

static void print(buf *out, int at)
{
    const tree *t = &node[at];
    switch (t->kind) {
    case LETTER: buf_printf(out, "\"%c\"", 'a' + t->a); break;
    case CLASS:
        buf_str(out, "[");
        for (int i = 0; i < 3; i++)
            if (t->a >> i & 1) buf_byte(out, (uint8_t)('a' + i));
        buf_str(out, "]");
        break;
    case CALL: buf_printf(out, "r%d", t->a); break;
    default:
        buf_str(out, "(");
        print(out, t->a);
        if (t->kind != REPEAT) buf_str(out, t->kind == CHOICE ? " | " : " ");
        if (t->kind != REPEAT) print(out, t->b);
        buf_str(out, ")");
        if (t->kind == REPEAT && t->max < 0) buf_printf(out, "{%d,}", t->min);
        if (t->kind == REPEAT && t->max >= 0) buf_printf(out, "{%d,%d}", t->min, t->max);
    }
}

/* Sets of places in a text, as bits: where the node can end if it begins at one of `from`. `partial` is set where the
 * text ends within it. */
static uint32_t reach(int at, uint32_t from, const char *text, bool *partial)
{
    const tree *t = &node[at];
    const size_t n = strlen(text);
    uint32_t to = 0, last = from;
    switch (t->kind) {
    case LETTER:
    case CLASS:
        for (size_t i = 0; i <= n; i++) {
            if (!(from >> i & 1)) continue;
            if (i == n) *partial = true;
            else if (t->kind == LETTER ? text[i] == 'a' + t->a : t->a >> (text[i] - 'a') & 1) to |= 1u << (i + 1);
        }
        return to;
    case CALL: return from ? reach(rule_of[t->a], from, text, partial) : 0;
    case SEQUENCE: return reach(t->b, reach(t->a, from, text, partial), text, partial);
    case CHOICE: return reach(t->a, from, text, partial) | reach(t->b, from, text, partial);
    case REPEAT:
        for (int i = 0; i < t->min; i++) last = reach(t->a, last, text, partial);
        to = last;
        for (int i = t->min; t->max < 0 ? i < t->min + 40 : i < t->max; i++)
            to |= last = reach(t->a, last, text, partial);
        return to;
    }
    return to;
}

static void random_grammars_agree_with_one_that_tries_everything(void **state)
{
    (void)state;
    int seen[3] = {0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        buf text = {0};
        chance = seed;
        n_node = 0;
        for (int r = RULES - 1; r >= 0; r--) rule_of[r] = grow(3, r);
        for (int r = 0; r < RULES; r++) {
            if (r) buf_printf(&text, "\nr%d ::= ", r);
            else buf_str(&text, "root ::= ");
            print(&text, rule_of[r]);
        }
        grammar *g = gbnf(buf_cstr(&text));
        for (int k = 0; k < 60; k++) {
            char input[10];
            const int n = pick(9);
            for (int i = 0; i < n; i++) input[i] = (char)('a' + pick(3));
            input[n] = 0;
            bool partial = false;
            const bool whole = reach(rule_of[0], 1, input, &partial) >> n & 1;
            const rig_answer expected = whole ? RIG_WHOLE : partial ? RIG_PART : RIG_NEVER;
            const rig_answer got = rig_match(g, span_str(input));
            if (got != expected) fail_msg("%s\n\"%s\": %d, not %d", buf_cstr(&text), input, got, expected);
            seen[expected]++;
        }
        grammar_drop(g);
        buf_free(&text);
    }
    for (int i = 0; i < 3; i++) assert_true(seen[i] > 1000);
}

/* ---- masks and places */

static void masks_agree_with_every_token_by_itself(void **state)
{
    (void)state;
    static const char *const text[] = {"root ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\"",
                                       "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]{0,20} \"\\\"\"",
                                       "root ::= (\"ab\" | [a-h]{2,9} | .{3})+",
                                       "root ::= [a-z]{1,6} [a-e]{1,3} \" \"{0,2} [^h]{2,4} \"x\"",
                                       "root ::= (.{1,2} \"\\n\")+",
                                       "root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | \"null\" | \"true\" | [0-9]+"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        grammar *g = gbnf(text[i]);
        for (uint64_t seed = 0; seed < 10; seed++) {
            buf out = {0};
            const bool ended = rig_draw(g, seed, 60, &out);
            assert_int_equal(rig_match(g, buf_span(&out)), ended ? RIG_WHOLE : rig_match(g, buf_span(&out)));
            assert_int_not_equal(rig_match(g, buf_span(&out)), RIG_NEVER);
            buf_free(&out);
        }
        grammar_drop(g);
    }
}

/* A place follows from the ids alone, also after the tables were full. */
static void places_come_back(void **state)
{
    (void)state;
    enum { N = 30000 };
    grammar *g = gbnf("root ::= ([a-z]{50000} | [a-m]{40000}) \"end\"");
    int32_t *ids = mem_array(N, sizeof *ids);
    uint64_t first[8], again[8];
    grammar_place at = {0}, early = {0}, fresh = {0};
    grammar_next next;
    err e = {0};
    for (int i = 0; i < N; i++) ids[i] = 'a' + i % 26;
    for (int i = 0; i <= N; i += 10) {
        assert_ok(grammar_follow(g, &at, ids, i, true, first, &next, &e), &e);
        if (i == 100) early = at;
    }
    assert_ok(grammar_follow(g, &fresh, ids, N, true, again, &next, &e), &e);
    assert_memory_equal(first, again, sizeof(uint64_t) * ((RIG_VOCAB + 63) / 64));
    assert_ok(grammar_follow(g, &early, ids, 50, true, again, &next, &e), &e); /* back */
    assert_int_equal(early.n, 50);
    mem_free(ids);
    grammar_drop(g);
}

/* A grammar that would need ever more alternatives ends with an error. */
static void ambiguity_is_bounded(void **state)
{
    (void)state;
    grammar *g = gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root \"d\" | \"\"");
    int32_t ids[64];
    grammar_place at = {0};
    grammar_next next;
    err e = {0};
    for (int i = 0; i < 64; i++) ids[i] = 'a';
    assert_int_equal(grammar_follow(g, &at, ids, 64, true, NULL, &next, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "too ambiguous"));
    grammar_drop(g);
}

/* Special tokens stand in the trie between marks that no text has. */
static void no_text_allows_marks(void **state)
{
    (void)state;
    assert_int_equal(match("root ::= .*", "\xff"), RIG_NEVER);
    assert_int_equal(match("root ::= [^a]", "\xff"), RIG_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_worked_by_hand),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(compiling_is_bounded),
        cmocka_unit_test(random_grammars_agree_with_one_that_tries_everything),
        cmocka_unit_test(masks_agree_with_every_token_by_itself),
        cmocka_unit_test(places_come_back),
        cmocka_unit_test(ambiguity_is_bounded),
        cmocka_unit_test(no_text_allows_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
