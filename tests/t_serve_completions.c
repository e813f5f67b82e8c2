/* t_serve_completions.c - POST /v1/completions without sockets: every field, every refusal, streams, log-probabilities.
 * */
#include "tests/serve_rig.h"

static void a_reply_has_the_shape_of_the_api(void **state)
{
    (void)state;
    fake.text = "hello";
    assert_int_equal(post(""), 200);
    json *j = parsed();
    assert_string_equal(json_str(json_get(j, "object"), ""), "text_completion");
    assert_string_equal(json_str(json_get(j, "model"), ""), "fake");
    assert_memory_equal(json_str(json_get(j, "id"), ""), "cmpl-", 5);
    assert_true(json_int(json_get(j, "created"), 0) > 1600000000);
    const json *c = json_at(json_get(j, "choices"), 0);
    assert_string_equal(json_str(json_get(c, "text"), ""), "hello");
    assert_string_equal(json_str(json_get(c, "finish_reason"), ""), "stop");
    assert_int_equal(json_type(json_get(c, "logprobs")), JSON_NULL);
    const json *u = json_get(j, "usage");
    assert_int_equal(json_int(json_get(u, "prompt_tokens"), 0), 3);     /* with BOS */
    assert_int_equal(json_int(json_get(u, "completion_tokens"), 0), 5); /* EOS is not counted */
    assert_int_equal(json_int(json_get(u, "total_tokens"), 0), 8);
    assert_int_equal(json_int(json_path(u, "prompt_tokens_details.cached_tokens"), -1), 0);
    json_free(j);
    assert_int_equal(post("\"max_tokens\":3"), 200);
    expect_part("\"text\":\"hel\"");
    expect_part("\"finish_reason\":\"length\"");
    fake.text = NULL;
    assert_int_equal(post(""), 200); /* 16 tokens unless asked otherwise */
    expect_part("\"completion_tokens\":16");
    assert_int_equal(post("\"max_tokens\":1000"), 200); /* ends at the context */
    expect_part("\"completion_tokens\":125");
    expect_part("\"finish_reason\":\"length\"");
}

/* The last forms are found again by kind and source; older ones make room. */
static void forms_are_kept_for_the_next_request(void **state)
{
    (void)state;
    form_cache c;
    grammar *first, *again;
    err e = {0};
    form_cache_open(&c);
    for (int i = 0; i <= FORM_CACHE_SIZE; i++) {
        char text[40];
        grammar *g;
        snprintf(text, sizeof text, "root ::= \"%d\"", i);
        assert_int_equal(form_compile(&g, FORM_GBNF, span_str(text), engine_token_trie(srv.g, &e), &e), OK);
        form_cache_add(&c, g);
        if (i == 1) first = g; /* the cache keeps it */
        grammar_drop(g);
        if (i == FORM_CACHE_SIZE - 1) grammar_drop(form_cache_find(&c, FORM_GBNF, span_str("root ::= \"1\"")));
    }
    again = form_cache_find(&c, FORM_GBNF, span_str("root ::= \"1\""));
    assert_ptr_equal(again, first);
    grammar_drop(again);
    assert_null(form_cache_find(&c, FORM_GBNF, span_str("root ::= \"0\"")));
    assert_null(form_cache_find(&c, FORM_REGEX, span_str("root ::= \"1\"")));
    form_cache_close(&c);
}

static void fields_of_wrong_type_or_range_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"\"temperature\":\"hot\"", "temperature"},
        {"\"temperature\":100.1", "temperature"},
        {"\"temperature\":-0.1", "temperature"},
        {"\"top_p\":1.5", "top_p"},
        {"\"top_p\":[1]", "top_p"},
        {"\"top_k\":1.5", "top_k"},
        {"\"min_p\":-1", "min_p"},
        {"\"n\":0", "n"},
        {"\"n\":129", "n"},
        {"\"n\":true", "n"},
        {"\"max_tokens\":-2", "max_tokens"},
        {"\"max_tokens\":0", "max_tokens"},
        {"\"max_tokens\":\"16\"", "max_tokens"},
        {"\"min_tokens\":20", "min_tokens"},
        {"\"logprobs\":21", "logprobs"},
        {"\"logprobs\":true", "logprobs"},
        {"\"echo\":1", "echo"},
        {"\"stream\":\"yes\"", "stream"},
        {"\"stream_options\":{\"include_usage\":true}", "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", "include_usage"},
        {"\"stream\":true,\"stream_options\":{\"x\":1}", "x"},
        {"\"stream\":true,\"stream_options\":7", "stream_options"},
        {"\"seed\":1.5", "seed"},
        {"\"seed\":1e300", "seed"},
        {"\"seed\":9223372036854775808", "seed"},
        {"\"presence_penalty\":2.5", "presence_penalty"},
        {"\"frequency_penalty\":-2.5", "frequency_penalty"},
        {"\"repetition_penalty\":0", "repetition_penalty"},
        {"\"repetition_penalty\":1.1,\"repeat_penalty\":1.1", "repetition_penalty"},
        {"\"grammar\":5", "grammar"},
        {"\"grammar\":\"root ::= x\"", "grammar"},
        {"\"grammar\":\"root ::= root\"", "grammar"},
        {"\"grammar\":\"root ::= \\\"a\\\"\",\"structured_outputs\":{\"choice\":[\"a\"]}", "grammar"},
        {"\"grammar\":\"root ::= \\\"a\\\"\",\"beams\":2", "grammar"},
        {"\"structured_outputs\":5", "structured_outputs"},
        {"\"structured_outputs\":{}", "structured_outputs"},
        {"\"structured_outputs\":{\"x\":1}", "x"},
        {"\"structured_outputs\":{\"choice\":[]}", "choice"},
        {"\"structured_outputs\":{\"choice\":[1]}", "choice"},
        {"\"structured_outputs\":{\"grammar\":\"root ::= x\"}", "grammar"},
        {"\"json_schema\":{\"type\":\"frob\"}", "json_schema"},
        {"\"json_schema\":false", "json_schema"},
        {"\"json_schema\":{\"enum\":[]}", "json_schema"},
        {"\"json_schema\":{},\"grammar\":\"root ::= \\\"a\\\"\"", "grammar"},
        {"\"response_format\":5", "response_format"},
        {"\"response_format\":{}", "response_format"},
        {"\"response_format\":{\"type\":\"xml\"}", "response_format"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":5}", "json_schema"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}", "response_format"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"not\":{}}}}", "response_format"},
        {"\"response_format\":{\"type\":\"text\",\"frob\":1}", "frob"},
        {"\"response_format\":{\"type\":\"text\",\"json_schema\":{}}", "response_format"},
        {"\"structured_outputs\":{\"json\":{\"type\":5}}", "json"},
        {"\"structured_outputs\":{\"json\":\"{\"}", "json"},
        {"\"structured_outputs\":{\"regex\":\"(\"}", "regex"},
        {"\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}", "structured_outputs"},
        {"\"stop\":5", "stop"},
        {"\"stop\":\"\"", "stop"},
        {"\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\",\"m\",\"n\",\"o\",\"p\","
         "\"q\"]",
         "stop"},
        {"\"stop\":[\"a\",null]", "stop"},
        {"\"logit_bias\":[1]", "logit_bias"},
        {"\"logit_bias\":{\"a\":1}", "logit_bias"},
        {"\"logit_bias\":{\"-1\":1}", "logit_bias"},
        {"\"logit_bias\":{\"259\":1}", "logit_bias"},
        {"\"logit_bias\":{\"99999999999999999999\":1}", "logit_bias"},
        {"\"logit_bias\":{\"5\":101}", "logit_bias"},
        {"\"logit_bias\":{\"5\":\"1\"}", "logit_bias"},
        {"\"best_of\":2,\"n\":3", "best_of"},
        {"\"best_of\":2,\"stream\":true", "best_of"},
        {"\"best_of\":129", "best_of"},
        {"\"strategy\":\"beam\"", "strategy"},
        {"\"strategy\":5", "strategy"},
        {"\"typical_p\":1.5", "typical_p"},
        {"\"mirostat\":3", "mirostat"},
        {"\"fsd_n\":0", "fsd_n"},
        {"\"stop_token_ids\":5", "stop_token_ids"},
        {"\"stop_token_ids\":[259]", "stop_token_ids"},
        {"\"allowed_token_ids\":[]", "allowed_token_ids"},
        {"\"allowed_token_ids\":[-1]", "allowed_token_ids"},
        {"\"allowed_token_ids\":[\"a\"]", "allowed_token_ids"},
        {"\"bad_words\":\"a\"", "bad_words"},
        {"\"bad_words\":[\"\"]", "bad_words"},
        {"\"bad_words\":[5]", "bad_words"},
        {"\"return_token_ids\":1", "return_token_ids"},
        {"\"add_special_tokens\":\"no\"", "add_special_tokens"},
        {"\"parse_special\":0", "parse_special"},
        {"\"include_stop_str_in_output\":1", "include_stop_str_in_output"},
        {"\"suffix\":\"x\"", "suffix"},
        {"\"model\":5", "model"},
        {"\"foo\":1", "foo"},
        {"\"messages\":[]", "messages"},
        {"\"temprature\":1", "temprature"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = post(bad[i][0]);
        if (status != 400) fail_msg("%s gives %d: %s", bad[i][0], status, reply);
        expect_error(400, status, bad[i][1], NULL);
    }
    assert_int_equal(post("\"temprature\":1"), 400);
    expect_part("did you mean \\\"temperature\\\"");
}

/* A flag, a key of [generate] and a field of one name take the same values; all defaults are taken. */
static void sampling_fields_have_the_ranges_of_their_flags(void **state)
{
    (void)state;
    fake.text = "ok";
    for (size_t i = 0; i < sample_param_count; i++) {
        const param *p = &sample_param_rows[i];
        if (p->type == PARAM_TEXT) continue;
        bool bounded = p->min != 0 || p->max != 0;
        const double value[] = {p->min, p->max, p->min - 1, p->max + 1};
        for (int k = 0; k < 4; k++) {
            sample_params into;
            char text[40], body[80];
            snprintf(text, sizeof text, "%.15g", value[k]);
            snprintf(body, sizeof body, "\"%s\":%s", p->key, text);
            assert_int_equal(param_set(p, &into, text, "flag", NULL) == OK, !bounded || k < 2);
            assert_int_equal(param_set_number(p, &into, value[k], "key", NULL) == OK, !bounded || k < 2);
            int status = post(body);
            if (bounded && k >= 2) expect_error(400, status, p->key, "out_of_range");
            else if (status != 200) fail_msg("%s gives %d: %s", body, status, reply);
        }
    }
}

/* A strategy is other defaults: fields override it, before or behind it, and nothing else is left of others. */
static void a_strategy_under_fields(void **state)
{
    (void)state;
    fake.text = "ok";
    assert_int_equal(post("\"top_p\":0.7,\"strategy\":\"sample.top_p\",\"temp\":0.4"), 200);
    const sample_params *p = &fake.last.sample;
    assert_true(p->top_p == 0.7 && p->top_k == 8 && p->temperature == 0.4);
    opt.sample.top_k = 50;
    assert_int_equal(post("\"strategy\":\"random_fsd\",\"fsd_steps\":3"), 200);
    assert_true(p->top_k == 0 && p->fsd_k == 6 && p->fsd_steps == 3 && p->fsd_alpha == 0.5);
    opt.sample.top_k = 0;
}

static void fields_without_effect_are_accepted(void **state)
{
    (void)state;
    fake.text = "ok";
    assert_int_equal(post("\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\","
                          "\"parallel_tool_calls\":true"),
                     200);
    assert_int_equal(
        post("\"temperature\":null,\"stop\":null,\"logprobs\":null,\"n\":null,\"seed\":null,\"model\":null,"
             "\"stream_options\":null,\"logit_bias\":null,\"suffix\":null,\"best_of\":null"),
        200);
    assert_int_equal(post("\"n\":2,\"best_of\":2,\"suffix\":\"\",\"repeat_penalty\":1.2,\"top_k\":-1,\"seed\":-1"),
                     200);
    opt.lenient = true;
    assert_int_equal(post("\"foo\":1"), 200);
    assert_int_equal(post("\"temperature\":\"hot\""), 400);
    opt.lenient = false;
}

static void prompts_of_every_form(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"prompt\":5}",
        "{\"prompt\":null}",
        "{\"prompt\":[]}",
        "{\"prompt\":{}}",
        "{\"prompt\":[5,\"a\"]}",
        "{\"prompt\":[\"a\",5]}",
        "{\"prompt\":[[]],\"n\":1,\"x\":1}",
        "{\"prompt\":[259]}",
        "{\"prompt\":[-1]}",
        "{\"prompt\":[1.5]}",
        "{\"prompt\":[[5],[999]]}",
        "{\"prompt\":[[[5]]]}",
        "{\"prompt\":[true]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = call("POST", "/v1/completions", bad[i]);
        if (status != 400) fail_msg("%s gives %d: %s", bad[i], status, reply);
        expect_error(400, status, NULL, NULL);
    }
    fake.text = "z";
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"ab\",\"echo\":true}"), 200);
    expect_part("\"text\":\"abz\"");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":[100,101],\"echo\":true}"), 200);
    expect_part("\"text\":\"abz\"");
    expect_part("\"prompt_tokens\":2");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":[\"q\",[100,101]],\"echo\":true}"), 200);
    expect_part("\"text\":\"qz\"");
    expect_part("\"text\":\"abz\"");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"\"}"), 200); /* begins from BOS */
    expect_part("\"prompt_tokens\":1");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":[[],[5]]}"), 200);
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"<|x|>\"}"), 200); /* special text counts */
    expect_part("\"prompt_tokens\":2");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"<|x|>\",\"parse_special\":false}"), 200);
    expect_part("\"prompt_tokens\":6");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"ab\",\"add_special_tokens\":false}"), 200);
    expect_part("\"prompt_tokens\":2");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"<s>ab\"}"), 200); /* has its BOS */
    expect_part("\"prompt_tokens\":3");
    /* beyond the context, with both numbers */
    char body[400], text[160];
    memset(text, 'a', sizeof text);
    text[150] = 0;
    snprintf(body, sizeof body, "{\"prompt\":\"%s\"}", text);
    expect_error(400, call("POST", "/v1/completions", body), "prompt", "context_length_exceeded");
    expect_part("151");
    expect_part("128");
    fake.no_tokenizer = true;
    expect_error(400, post(""), "prompt", "no_tokenizer");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":[100,101],\"logprobs\":0}"), 200);
    expect_part("token_id:125");
    fake.no_tokenizer = false;
}

static void choices_are_prompt_major_and_independent(void **state)
{
    (void)state;
    fake.text = NULL;
    assert_int_equal(
        call("POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":3,\"seed\":5,\"max_tokens\":8,\"echo\":true}"),
        200);
    json *many = parsed();
    char first[6][32];
    for (int i = 0; i < 6; i++) {
        const json *c = json_at(json_get(many, "choices"), (size_t)i);
        assert_int_equal(json_int(json_get(c, "index"), -1), i);
        snprintf(first[i], 32, "%s", json_str(json_get(c, "text"), ""));
        assert_int_equal(first[i][0], i < 3 ? 'a' : 'b');
    }
    assert_string_not_equal(first[0] + 1, first[1] + 1);
    assert_string_equal(first[0] + 1, first[3] + 1);
    json_free(many);
    assert_int_equal(
        call("POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":1,\"seed\":5,\"max_tokens\":8,\"echo\":true}"), 200);
    expect_part(first[0]); /* choice 0 of n = 3 is that of n = 1 */
    expect_part("\"prompt_tokens\":2");
    char odd[64]; /* seeds count to the last of their 64 bits */
    assert_int_equal(post("\"seed\":9223372036854775807"), 200);
    json *j = parsed();
    snprintf(odd, sizeof odd, "%s", json_str(json_get(json_at(json_get(j, "choices"), 0), "text"), ""));
    json_free(j);
    assert_int_equal(post("\"seed\":9223372036854775806"), 200);
    j = parsed();
    assert_string_not_equal(odd, json_str(json_get(json_at(json_get(j, "choices"), 0), "text"), ""));
    json_free(j);
}

static void stop_strings(void **state)
{
    (void)state;
    fake.text = "one two three";
    assert_int_equal(post("\"stop\":\"two\",\"max_tokens\":50"), 200);
    expect_part("\"text\":\"one \"");
    expect_part("\"finish_reason\":\"stop\"");
    assert_int_equal(post("\"stop\":[\"three\",\"x\"],\"max_tokens\":50"), 200);
    expect_part("\"text\":\"one two \"");
    assert_int_equal(post("\"stop\":\"threef\",\"max_tokens\":50"), 200); /* a beginning at the end is text */
    expect_part("\"text\":\"one two three\"");
    assert_int_equal(post("\"stop\":\"one\",\"min_tokens\":4,\"max_tokens\":50"), 200);
    expect_part("\"text\":\"one two three\"");
    assert_int_equal(post("\"stop\":\"b\",\"echo\":true,\"max_tokens\":50"), 200); /* the prompt is not searched */
    expect_part("\"text\":\"abone two three\"");
}

static void join_stream(char *text, char *finish, bool *usage)
{
    *text = *finish = 0;
    *usage = false;
    bool done = false;
    char *at = reply;
    while (*at) {
        char *end = strstr(at, "\n\n");
        if (!end) fail_msg("event without end: %s", at);
        *end = 0;
        assert_false(done);
        if (at[0] != ':') {
            assert_memory_equal(at, "data: ", 6);
            if (strcmp(at + 6, "[DONE]") == 0) {
                done = true;
            } else {
                json *j = NULL;
                err e = {0};
                assert_ok(json_parse(&j, span_str(at + 6), "chunk", &e), &e);
                const json *c = json_first(json_get(j, "choices"));
                strcat(text, json_str(json_get(c, "text"), ""));
                strcat(finish, json_str(json_get(c, "finish_reason"), ""));
                *usage |= json_type(json_get(j, "usage")) == JSON_OBJECT;
                json_free(j);
            }
        }
        at = end + 2;
    }
    assert_true(done);
}

static void streams_add_up_to_the_reply(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fields, *expect, *finish;
    } cases[] = {
        {"hello", "", "hello", "stop"},
        {"hello", "\"max_tokens\":3", "hel", "length"},
        {"h\xc3\xa9llo \xe4\xbd\xa0!", "", "h\xc3\xa9llo \xe4\xbd\xa0!", "stop"},
        {"\xe4\xbd\xa0\xe4\xbd\xa0", "\"max_tokens\":4", "\xe4\xbd\xa0\xef\xbf\xbd", "length"},
        {"one two", "\"stop\":\"two\"", "one ", "stop"},
        {"one two", "\"stop\":[\"two three\"]", "one two", "stop"},
        {"aab", "\"stop\":\"ab\"", "a", "stop"},
        {"aaaaab", "\"stop\":\"aab\"", "aaa", "stop"},
        {"q", "\"echo\":true", "abq", "stop"},
        {"q", "\"echo\":true,\"max_tokens\":0", "ab", "length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fields[200], text[400], finish[40], whole[300];
        bool usage;
        fake.text = cases[i].text;
        snprintf(fields, sizeof fields, "%s%s\"stream\":true", cases[i].fields, *cases[i].fields ? "," : "");
        assert_int_equal(post(fields), 200);
        join_stream(text, finish, &usage);
        assert_string_equal(text, cases[i].expect);
        assert_string_equal(finish, cases[i].finish);
        assert_false(usage);
        assert_int_equal(post(cases[i].fields), 200);
        buf quoted = {0};
        json_quote(&quoted, span_str(cases[i].expect));
        snprintf(whole, sizeof whole, "\"text\":%s", buf_cstr(&quoted));
        buf_free(&quoted);
        expect_part(whole);
    }
    fake.text = "hello";
    char text[400], finish[40];
    bool usage;
    assert_int_equal(post("\"stream\":true,\"stream_options\":{\"include_usage\":true}"), 200);
    expect_part("\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,");
    expect_part("\"usage\":null");
    join_stream(text, finish, &usage);
    assert_true(usage);
    /* no chunk ever shows the beginning of a stop string */
    fake.text = "abcabd";
    assert_int_equal(post("\"stream\":true,\"stop\":\"abd\""), 200);
    expect_part("\"text\":\"abc\"");
    assert_null(strstr(reply, "\"text\":\"ab\""));
}

static void logprobs_of_tokens(void **state)
{
    (void)state;
    fake.text = "h\xc3\xa9y";
    assert_int_equal(post("\"logprobs\":2,\"echo\":true"), 200);
    json *j = parsed();
    const json *l = json_get(json_at(json_get(j, "choices"), 0), "logprobs");
    static const char *const tokens[] = {"<s>", "a", "b", "h", "bytes:\\xc3", "bytes:\\xa9", "y", "</s>"};
    static const int offset[] = {0, 0, 1, 2, 3, 3, 4, 5};
    assert_int_equal(json_count(json_get(l, "tokens")), 8);
    assert_int_equal(json_count(json_get(l, "token_logprobs")), 8);
    assert_int_equal(json_count(json_get(l, "top_logprobs")), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_string_equal(json_str(json_at(json_get(l, "tokens"), i), ""), tokens[i]);
        assert_int_equal(json_int(json_at(json_get(l, "text_offset"), i), -1), offset[i]);
    }
    assert_int_equal(json_type(json_at(json_get(l, "token_logprobs"), 0)), JSON_NULL);
    assert_int_equal(json_type(json_at(json_get(l, "top_logprobs"), 0)), JSON_NULL);
    assert_true(json_num(json_at(json_get(l, "token_logprobs"), 2), 0) == -1.0);
    assert_true(json_num(json_at(json_get(l, "token_logprobs"), 3), 0) == -1.5);
    const json *top = json_at(json_get(l, "top_logprobs"), 3); /* the two best and the token itself */
    assert_int_equal(json_count(top), 3);
    assert_true(json_num(json_get(top, "a"), 0) == -0.25);
    assert_true(json_num(json_get(top, "h"), 0) == -1.5);
    json_free(j);
    /* offsets count from the beginning of the prompt, shown or not */
    assert_int_equal(post("\"logprobs\":0"), 200);
    expect_part("\"text_offset\":[2,3,3,4]");
    /* a stop string takes its tokens along */
    fake.text = "one two";
    assert_int_equal(post("\"logprobs\":0,\"stop\":\" tw\""), 200);
    expect_part("\"tokens\":[\"o\",\"n\",\"e\"]");
    expect_part("\"completion_tokens\":6");
    /* streamed records add up as well */
    assert_int_equal(post("\"logprobs\":0,\"stop\":\" tw\",\"stream\":true"), 200);
    expect_part("\"tokens\":[\"o\"],\"token_logprobs\":[-1.5],\"top_logprobs\":[{\"o\":-1.5}],\"text_offset\":[2]");
    expect_part("\"tokens\":[\"e\"],\"token_logprobs\":[-1.5],\"top_logprobs\":[{\"e\":-1.5}],\"text_offset\":[4]");
    assert_null(strstr(reply, "\"tokens\":[\" \""));
    /* prompt_logprobs: a list with null first */
    assert_int_equal(post("\"prompt_logprobs\":1,\"max_tokens\":0"), 200);
    expect_part("\"prompt_logprobs\":[null,{\"100\":{\"logprob\":-0.25,\"rank\":1,\"decoded_token\":\"a\"}},{");
    expect_part("\"logprobs\":null");
}

static void errors_of_the_engine(void **state)
{
    (void)state;
    fake.text = "hello";
    fake.fail_at = 2;
    expect_error(500, post(""), NULL, NULL);
    expect_part("on fire");
    assert_int_equal(post("\"stream\":true"), 200);
    expect_part("\"text\":\"h\"");
    expect_part("data: {\"error\":{\"message\":\"the device is on fire\",\"type\":\"server_error\"");
    expect_part("data: [DONE]");
    assert_int_equal(post("\"n\":3,\"stream\":true"), 200);
    fake.fail_at = 0;
    wait_idle();
    opt.max_queue = 5;
    fake.waiting = fake.max_batch + 4; /* four when all places are taken */
    expect_error(429, post("\"n\":2"), NULL, "queue_full");
    fake.waiting = fake.max_batch + 3;
    assert_int_equal(post("\"n\":2"), 200);
    fake.waiting = 0;
    assert_int_equal(post("\"n\":6"), 200);          /* they find places */
    expect_error(400, post("\"n\":22"), NULL, NULL); /* trying again later would not help */
    expect_part("22 choices in one request are more than 21: all places and the queue of 5");
    opt.max_queue = 1024;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    fake.text = "hello";
    const char *body = "{\"prompt\":[\"ab\",[100,101]],\"n\":2,\"logprobs\":2,\"echo\":true,\"stop\":\"xyz\",\"logit_"
                       "bias\":{\"5\":1}}";
    for (long at = 1;; at++) {
        exchange x = {.method = "POST",
                      .path = "/v1/completions",
                      .content_length = (int64_t)strlen(body),
                      .body = span_str(body)};
        assert_true(exchange_admit(&srv, &x));
        mem_fail_at(at);
        exchange_handle(&srv, &x);
        bool fired = mem_fail_at(0);
        int status = x.status;
        if (x.later) {
            const char *type;
            bool live;
            stream_attach(x.later, &(stream_waiter){NULL, fall_asleep, wake_up});
            while (!stream_ready(x.later, &status, &type, &live)) wait_awake();
        }
        if (status != 200 && status != 500) fail_msg("allocation %ld: status %d", at, status);
        exchange_finish(&srv, &x, status);
        stream_drop(x.later);
        if (!fired) break;
    }
}

/* The prompt of an encoder-decoder goes to its encoder, decoder_prompt behind the start token of its decoder. */
static void encoder_input_and_decoder_prompt(void **state)
{
    (void)state;
    engine *g = atomic_load(&srv.g);
    expect_error(400, call("POST", "/v1/completions", "{\"prompt\":\"ab\",\"decoder_prompt\":\"c\"}"), "decoder_prompt",
                 "unsupported");
    fake.text = "z";
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"ab\",\"decoder_prompt\":null}"), 200);
    assert_string_equal(fake.enc, "");
    g->info.n_enc_vocab = FAKE_VOCAB - 1;
    g->info.start[0] = 2;
    g->info.start[1] = 3 + 'F';
    g->info.n_start = 2;
    static const char *const cases[][3] = {
        {"{\"prompt\":\"ab\"}", "<0>ab", "<2>F"},
        {"{\"prompt\":[100,101],\"decoder_prompt\":\"<|x|>cd\"}", "ab", "<2><2>cd"},
        {"{\"prompt\":\"ab\",\"decoder_prompt\":\"\"}", "<0>ab", "<2>"},
        {"{\"prompt\":\"ab\",\"decoder_prompt\":[1,102]}", "<0>ab", "<1>c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(call("POST", "/v1/completions", cases[i][0]), 200);
        assert_string_equal(fake.enc, cases[i][1]);
        assert_string_equal(fake.dec, cases[i][2]);
    }
    expect_part("\"prompt_tokens\":5");
    expect_part("\"text\":\"z\"");
    assert_int_equal(call("POST", "/v1/completions", "{\"prompt\":\"ab\",\"decoder_prompt\":\"c\",\"echo\":true}"),
                     200);
    expect_part("\"text\":\"cz\"");
    static const char *const bad[][2] = {{"{\"prompt\":[258]}", "prompt"},
                                         {"{\"prompt\":[]}", "prompt"},
                                         {"{\"prompt\":\"a\",\"decoder_prompt\":[259]}", "decoder_prompt"},
                                         {"{\"prompt\":\"a\",\"decoder_prompt\":[\"a\"]}", "decoder_prompt"},
                                         {"{\"prompt\":\"a\",\"decoder_prompt\":5}", "decoder_prompt"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(400, call("POST", "/v1/completions", bad[i][0]), bad[i][1], NULL);
    g->info.n_enc_vocab = 0;
}

static void beams(void **state)
{
    (void)state;
    engine *g = atomic_load(&srv.g);
    static const char *const bad[][2] = {
        {"\"beams\":0", "beams"},
        {"\"beams\":65", "beams"},
        {"\"beams\":17", "beams"},
        {"\"beams\":2,\"stream\":true", "stream"},
        {"\"beams\":2,\"n\":3", "n"},
        {"\"beams\":2,\"best_of\":2", "best_of"},
        {"\"beams\":2,\"bad_words\":[\"a\"]", "bad_words"},
        {"\"beams\":2,\"allowed_token_ids\":[5]", "allowed_token_ids"},
        {"\"beams\":2,\"logprobs\":0", "logprobs"},
        {"\"beams\":2,\"prompt_logprobs\":1", "prompt_logprobs"},
        {"\"beams\":2,\"logit_bias\":{\"5\":1}", "logit_bias"},
        {"\"early_stopping\":1", "early_stopping"},
        {"\"early_stopping\":\"yes\"", "early_stopping"},
        {"\"length_penalty\":\"long\"", "length_penalty"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_error(400, post(bad[i][0]), bad[i][1], NULL);
    assert_int_equal(g->info.max_batch, 16);
    fake.text = "z";
    static const struct {
        const char *fields;
        int beams;
        beam_stop stop;
    } good[] = {{"\"n\":1", 1, BEAM_STOP_BETTER},
                {"\"beams\":4,\"early_stopping\":true", 4, BEAM_STOP_FIRST},
                {"\"beams\":16,\"early_stopping\":\"never\",\"length_penalty\":-2", 16, BEAM_STOP_NEVER},
                {"\"beams\":2,\"early_stopping\":false", 2, BEAM_STOP_BETTER}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(post(good[i].fields), 200);
        assert_true(fake.last.beams == good[i].beams && fake.last.early_stopping == good[i].stop);
        assert_true(fake.last.length_penalty == (i == 2 ? -2 : 1));
    }
    fake.text = "abcd"; /* several texts; each ends by itself */
    assert_int_equal(post("\"beams\":3,\"n\":2,\"stop\":\"d1\""), 200);
    json *j = parsed();
    assert_int_equal(json_count(json_get(j, "choices")), 2);
    assert_string_equal(json_str(json_get(json_at(json_get(j, "choices"), 0), "text"), ""), "abcd0");
    assert_string_equal(json_str(json_get(json_at(json_get(j, "choices"), 1), "text"), ""), "abc");
    json_free(j);
    expect_part("\"completion_tokens\":10");
}

static void the_best_of_several(void **state)
{
    (void)state;
    fake.text = NULL;
    assert_int_equal(post("\"n\":3,\"max_tokens\":4,\"seed\":3"), 200);
    json *all = parsed();
    assert_int_equal(post("\"n\":2,\"best_of\":3,\"max_tokens\":4,\"seed\":3"), 200);
    json *best = parsed();
    assert_int_equal(json_count(json_get(best, "choices")), 2);
    for (size_t i = 0; i < 2; i++) { /* the made engine says that later choices are likelier */
        const json *c = json_at(json_get(best, "choices"), i);
        assert_int_equal(json_int(json_get(c, "index"), -1), (int)i);
        assert_int_equal(json_type(json_get(c, "logprobs")), JSON_NULL);
        assert_string_equal(json_str(json_get(c, "text"), ""),
                            json_str(json_get(json_at(json_get(all, "choices"), 2 - i), "text"), "?"));
    }
    expect_part("\"completion_tokens\":12");
    json_free(all);
    json_free(best);
}

static void ends_and_ids(void **state)
{
    (void)state;
    fake.text = "hey";
    /* the end is the last of the lists where the prompt is shown, also of an answer without a token */
    assert_int_equal(post("\"logprobs\":1,\"echo\":true"), 200);
    expect_part("\"tokens\":[\"<s>\",\"a\",\"b\",\"h\",\"e\",\"y\",\"</s>\"]");
    expect_part("\"text_offset\":[0,0,1,2,3,4,5]");
    expect_part("\"completion_tokens\":3");
    assert_int_equal(post("\"logprobs\":1"), 200);
    expect_part("\"tokens\":[\"h\",\"e\",\"y\"]");
    fake.text = "";
    assert_int_equal(post("\"logprobs\":1,\"echo\":true,\"max_tokens\":1"), 200);
    expect_part("\"tokens\":[\"<s>\",\"a\",\"b\",\"</s>\"],\"token_logprobs\":[null,-0.5,-1,-1.5]");
    fake.text = "hello";
    assert_int_equal(post("\"stop_token_ids\":[111]"), 200);
    expect_part("\"text\":\"he\"");
    expect_part("\"finish_reason\":\"stop\"");
    assert_int_equal(post("\"stop_token_ids\":[111],\"include_stop_str_in_output\":true"), 200);
    expect_part("\"text\":\"hel\"");
    assert_int_equal(post("\"stop\":\"el\",\"include_stop_str_in_output\":true"), 200);
    expect_part("\"text\":\"hel\"");
    assert_int_equal(post("\"receipt\":true,\"max_tokens\":2,\"n\":2,\"seed\":5,\"stop_token_ids\":[9]"), 200);
    expect_part("\"system_fingerprint\":\"aa-bb\"");
    expect_part(
        "\"finish_reason\":\"length\",\"receipt\":{\"version\":1,\"model\":\"aa\",\"arithmetic\":\"bb\",\"kv\":\"f32\","
        "\"prompt_ids\":[0,100,101],\"ids\":[107,104],\"params\":{\"temperature\":1,");
    expect_part(
        "\"seed\":5,\"max_tokens\":2,\"min_tokens\":0,\"ignore_eos\":false,\"choice\":1,\"stop_token_ids\":[9]}");
    assert_int_equal(post("\"receipt\":true,\"max_tokens\":2,\"stream\":true"), 200);
    expect_part("\"ids\":[107,104]");
    expect_part("\"finish_reason\":null}]}");
    assert_int_equal(post("\"receipt\":true,\"beams\":2"), 400);
    expect_error(400, 400, "receipt", "unsupported");
    assert_int_equal(post("\"return_token_ids\":true,\"max_tokens\":2,\"n\":2"), 200);
    expect_part("\"finish_reason\":\"length\",\"prompt_token_ids\":[0,100,101],\"token_ids\":[107,104]},"
                "{\"index\":1,");
    expect_part("\"finish_reason\":\"length\",\"token_ids\":[107,104]}]");
    assert_int_equal(post("\"return_token_ids\":true,\"max_tokens\":2,\"stream\":true"), 200);
    expect_part("\"prompt_token_ids\":[0,100,101],\"token_ids\":[107]}");
    expect_part("\"token_ids\":[104]}");
    assert_int_equal(post("\"return_token_ids\":true,\"max_tokens\":1,\"logprobs\":2"), 200);
    expect_part("\"top_tokens\":[[{\"id\":100,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.25},"
                "{\"id\":101,\"token\":\"b\",\"bytes\":[98],\"logprob\":-0.5}]]}");
    assert_int_equal(post("\"max_tokens\":1,\"logprobs\":2"), 200);
    assert_null(strstr(reply, "top_tokens"));
    assert_int_equal(post("\"allowed_token_ids\":[0,64,70],\"bad_words\":[\" ab\",\"c\"]"), 200);
    assert_int_equal(fake.last.n_allowed, 5);
    assert_int_equal(fake.last.n_bad, 5); /* the blank is a token of its own */
}

static void text_is_filled_in(void **state)
{
    (void)state;
    fake.text = "x";
    expect_error(400, post("\"suffix\":\"c\""), "suffix", "unsupported");
    expect_error(400, call("POST", "/infill", "{\"input_prefix\":\"a\"}"), "input_prefix", "unsupported");
    fake.fills_in = true;
    assert_int_equal(post("\"suffix\":\"c\""), 200);
    assert_string_equal(fake.dec, "<0>PabScM");
    expect_part("\"text\":\"x\"");
    expect_error(400, post("\"suffix\":\"c\",\"echo\":true"), "suffix", "unsupported");
    expect_error(400, call("POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"suffix\":\"c\"}"), "suffix",
                 "unsupported");
    assert_int_equal(call("POST", "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt\":\"c\"}"), 200);
    assert_string_equal(fake.dec, "<0>PaSbMc");
    expect_part("{\"content\":\"x\",\"tokens\":[123],");
    assert_int_equal(call("POST", "/infill", "{\"input_prefix\":\"a\",\"input_extra\":[{\"text\":\"e\"}]}"), 200);
    assert_string_equal(fake.dec + strlen(fake.dec) - 5, "ePaSM");
    expect_error(400, call("POST", "/infill", "{\"input_prefix\":\"a\",\"input_extra\":[5]}"), "input_extra",
                 "invalid_type");
    expect_error(400, call("POST", "/infill", "{\"prompt\":\"a\"}"), "input_prefix", "missing_field");
    fake.fills_in = false;
    fake.text = NULL;
}

/* The reply of llama.cpp's own endpoint, whole and streamed. */
static void native_form(void **state)
{
    (void)state;
    fake.text = "hello";
    assert_int_equal(call("POST", "/completion", "{\"prompt\":\"ab\"}"), 200);
    expect_part(
        "{\"content\":\"hello\",\"tokens\":[107,104,111,111,114],\"index\":0,\"stop\":true,\"stop_type\":\"eos\","
        "\"stopping_word\":\"\",\"tokens_predicted\":5,\"tokens_evaluated\":3,\"tokens_cached\":0,"
        "\"truncated\":false,\"model\":\"fake\",\"prompt\":\"ab\",\"timings\":{\"cache_n\":0,\"prompt_n\":3,");
    expect_part("\"generation_settings\":{\"temperature\":1,");
    json_free(parsed());
    assert_int_equal(call("POST", "/completion", "{\"prompt\":\"ab\",\"n_predict\":2,\"n_probs\":1}"), 200);
    expect_part("\"completion_probabilities\":[{\"id\":107,\"token\":\"h\",\"bytes\":[104],\"logprob\":-1.5,"
                "\"top_logprobs\":[{\"id\":100,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.25}]},{\"id\":104,");
    expect_part("\"stop_type\":\"limit\"");
    json_free(parsed());
    assert_int_equal(call("POST", "/completion", "{\"prompt\":\"ab\",\"n_predict\":-1,\"stop\":[\"x\",\"lo\"]}"), 200);
    expect_part("{\"content\":\"hel\",");
    expect_part("\"stop_type\":\"word\",\"stopping_word\":\"lo\"");
    assert_int_equal(call("POST", "/completion", "{\"prompt\":[\"a\",[100]],\"n_predict\":1}"), 200);
    expect_part("[{\"content\":\"h\",");
    expect_part("},{\"content\":\"h\",\"tokens\":[107],\"index\":1,");
    json_free(parsed());
    assert_int_equal(call("POST", "/completion", "{\"prompt\":\"ab\",\"stream\":true}"), 200);
    expect_part("data: {\"content\":\"h\",\"tokens\":[107],\"index\":0,\"stop\":false,");
    expect_part("\"stop\":true,\"stop_type\":\"eos\"");
    assert_null(strstr(reply, "[DONE]"));
    expect_error(400, call("POST", "/completion", "{\"prompt\":\"a\",\"echo\":true}"), "echo", "unknown_field");
    expect_error(400, call("POST", "/completion", "{\"prompt\":\"a\",\"n_predict\":-2}"), "n_predict", "out_of_range");
    expect_error(400, call("POST", "/completion", "{}"), "prompt", "missing_field");
    fake.text = NULL;
}

/* return_progress: streams say how far the prompt was read; the text is the same, and whole replies are as before. */
static void streams_tell_how_far_the_prompt_is(void **state)
{
    (void)state;
    char text[256], finish[32];
    bool usage;
    fake.text = "hello";
    assert_int_equal(post("\"return_progress\":true,\"stream\":true"), 200);
    expect_part("\"choices\":[],\"prompt_progress\":{\"total\":");
    expect_part(",\"cache\":0,\"processed\":2,\"time_ms\":");
    const char *first = strstr(reply, "prompt_progress");
    assert_true(first && first < strstr(reply, "\"text\":\"h\"") && !strstr(first + 1, "prompt_progress"));
    join_stream(text, finish, &usage);
    assert_string_equal(text, "hello");
    assert_int_equal(post("\"return_progress\":true"), 200);
    assert_null(strstr(reply, "prompt_progress"));
    assert_int_equal(post("\"stream\":true"), 200);
    assert_null(strstr(reply, "prompt_progress"));
    assert_int_equal(call("POST", "/completion", "{\"prompt\":\"abcdef\",\"stream\":true,\"return_progress\":true}"),
                     200);
    expect_part("data: {\"content\":\"\",\"tokens\":[],\"index\":0,\"stop\":false,\"tokens_predicted\":0,"
                "\"tokens_evaluated\":7,\"prompt_progress\":{\"total\":7,\"cache\":4,\"processed\":6,");
    assert_int_equal(post("\"return_progress\":1,\"stream\":true"), 400);
    fake.text = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_kept_for_the_next_request),
        cmocka_unit_test(a_reply_has_the_shape_of_the_api),
        cmocka_unit_test(fields_of_wrong_type_or_range_are_refused),
        cmocka_unit_test(sampling_fields_have_the_ranges_of_their_flags),
        cmocka_unit_test(a_strategy_under_fields),
        cmocka_unit_test(fields_without_effect_are_accepted),
        cmocka_unit_test(prompts_of_every_form),
        cmocka_unit_test(choices_are_prompt_major_and_independent),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(streams_add_up_to_the_reply),
        cmocka_unit_test(logprobs_of_tokens),
        cmocka_unit_test(errors_of_the_engine),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(encoder_input_and_decoder_prompt),
        cmocka_unit_test(beams),
        cmocka_unit_test(the_best_of_several),
        cmocka_unit_test(ends_and_ids),
        cmocka_unit_test(native_form),
        cmocka_unit_test(text_is_filled_in),
        cmocka_unit_test(streams_tell_how_far_the_prompt_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
