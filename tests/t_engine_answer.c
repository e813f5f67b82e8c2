/* t_engine_answer.c - a text on its way: what is shown of it, where it ends, and why. A token is a byte. */
#include "fake_engine.h"
#include "test.h"

#include "engine/answer.h"
#include "text/stop_text.h"

static answer said;
static int64_t heard;

static void open_answer(const answer_rules *rules, const char *prompt, bool shown)
{
    err e = {0};
    heard = 0;
    assert_ok(answer_open(&said, &fake_tokenizer, rules, &e), &e);
    for (const char *p = prompt; *p; p++) {
        const int32_t id = 3 + (uint8_t)*p;
        assert_ok(answer_read(&said, &id, 1, &e), &e);
    }
    if (!shown) assert_ok(answer_show(&said, (span){0}, &e), &e);
}

static int take(token_event ev)
{
    err e = {0};
    ev.index = heard++;
    return answer_take(&said, &ev, &e);
}

/* One token a byte; the bytes that are certain after the last one. */
static void generate(const char *text, size_t certain)
{
    for (; *text; text++) assert_int_equal(take((token_event){.token = 3 + (uint8_t)*text, .cached_tokens = 5}), OK);
    assert_int_equal(answer_certain(&said), certain);
}

static void expect(const char *text, finish_reason why)
{
    assert_string_equal(buf_cstr(&said.text), text);
    assert_int_equal(said.finish, why);
    assert_int_equal(answer_certain(&said), said.text.n);
    answer_close(&said);
}

static void text_ends_at_a_stop_string(void **state)
{
    static const char *const stop[] = {"abcdef", "cd"};
    answer_rules rules = {.stop = stop, .n_stop = 2};
    (void)state;
    open_answer(&rules, "xab", true); /* stop strings are not looked for in the prompt */
    generate("cz ab", 6);
    generate("c", 6);
    generate("d", 8); /* "cd" is complete first */
    assert_string_equal(said.stop_word, "cd");
    assert_int_equal(said.n_tokens, 7);
    assert_int_equal(said.cached, 5);
    expect("xabcz ab", FINISH_STOP);
    rules.shows_stop = true;
    open_answer(&rules, "x", false);
    generate("zabcd", 5);
    expect("zabcd", FINISH_STOP);
    rules.min_tokens = 5;
    open_answer(&rules, "", false);
    generate("cdcdc", 4);
    generate("d", 6);
    expect("cdcdcd", FINISH_STOP);
    open_answer(&rules, "", false);
    assert_true(answer_would_stop(&said, (int32_t[]){102, 103, 102, 103, 3}, 5));
    assert_false(answer_would_stop(&said, (int32_t[]){102, 103, 102, 103}, 4)); /* too short */
    answer_close(&said);
}

/* What may be the beginning of a stop string, and half a character, come with the end. */
static void end_shows_what_was_held_back(void **state)
{
    static const char *const stop[] = {"cd"};
    const answer_rules rules = {.stop = stop, .n_stop = 1};
    (void)state;
    open_answer(&rules, "", false);
    generate("abc", 2);
    assert_int_equal(take((token_event){.token = 3 + 0xc3, .finish = FINISH_LENGTH}), OK);
    expect("abc\xef\xbf\xbd", FINISH_LENGTH);
}

static bool wants_x(const void *ctx, span special) { return span_is(special, ctx); }

static void special_tokens_are_text_where_they_are_wanted(void **state)
{
    const answer_rules wanting = {.wants = wants_x, .ctx = "<|x|>", .keeps_ids = true, .shows_stop = true}, plain = {0};
    (void)state;
    open_answer(&wanting, "", false);
    assert_int_equal(take((token_event){.token = 2}), OK);
    assert_int_equal(take((token_event){.token = 0}), OK);
    assert_int_equal(take((token_event){.token = -1, .ends = true, .end_token = 3 + '.', .finish = FINISH_STOP}), OK);
    assert_true(said.end_token);
    assert_int_equal(said.ids.n, 2);
    expect("<|x|>.", FINISH_STOP);
    open_answer(&plain, "", false);
    assert_int_equal(take((token_event){.token = 2}), OK);
    assert_int_equal(said.ids.n, 0);
    assert_int_equal(take((token_event){.token = -1, .ends = true, .end_token = 3 + '.', .finish = FINISH_STOP}), OK);
    expect("", FINISH_STOP);
}

static void failure_ends_an_answer(void **state)
{
    const answer_rules plain = {0};
    (void)state;
    open_answer(&plain, "", false);
    generate("ab", 2);
    assert_int_equal(take((token_event){.token = -1, .finish = FINISH_ERROR, .error = "lost"}), ERR_IO);
    expect("ab", FINISH_ERROR);
}

static void stop_strings_in_pieces(void **state)
{
    const char *stop[] = {"abcdef", "cd"};
    size_t cut;
    (void)state;
    assert_true(stop_find(stop, 2, "xxabcdef", 0, 0, 8, false, &cut)); /* "cd" is complete first, in pieces or whole */
    assert_int_equal(cut, 4);
    assert_int_equal(stop_certain(stop, 2, "xxabc", 0, 5), 2);
    assert_int_equal(stop_certain(stop, 2, "xxabc", 4, 5), 4);
    assert_int_equal(stop_certain(stop, 2, "xx", 0, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_ends_at_a_stop_string),
        cmocka_unit_test(end_shows_what_was_held_back),
        cmocka_unit_test(special_tokens_are_text_where_they_are_wanted),
        cmocka_unit_test(failure_ends_an_answer),
        cmocka_unit_test(stop_strings_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
