/* t_app_generation_config.c - a model's generation_config.json: what is read, what is told, and that forbidden tokens
 * do not come, whatever draws them. */
#include "test.h"

#include "app/generation_config.h"
#include "base/mem.h"
#include "engine/engine.h"

#include <fcntl.h>

typedef struct reading {
    sample_params sample;
    token_list bans;
    char said[2000]; /* on standard error */
} reading;

static void read_file(const char *text, reading *r)
{
    json *file;
    err e = {0};
    const char *log = temp_path("said");
    *r = (reading){.said = ""};
    param_defaults(sample_param_rows, sample_param_count, &r->sample);
    assert_ok(json_parse(&file, span_str(text), "generation_config.json", &e), &e);
    int old = dup(2), fd = open(log, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_true(old >= 0 && fd >= 0 && dup2(fd, 2) == 2);
    generation_config_read(file, "F", &r->sample, &r->bans);
    dup2(old, 2);
    ssize_t n = pread(fd, r->said, sizeof r->said - 1, 0);
    r->said[n > 0 ? n : 0] = 0;
    close(old);
    close(fd);
    unlink(log);
    json_free(file);
}

static void keys_are_read_harmless_or_told(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said; /* NULL: nothing */
        int numbers;             /* of bans */
    } cases[] = {
        {"{}", NULL, 0},
        {"{\"bos_token_id\": 1, \"eos_token_id\": [2, 3], \"pad_token_id\": 0, \"transformers_version\": \"5.0\"}",
         NULL, 0},
        {"{\"max_length\": 20, \"use_cache\": true, \"_from_model_config\": true, \"output_scores\": true}", NULL, 0},
        {"{\"num_beams\": 1, \"length_penalty\": 1.0, \"no_repeat_ngram_size\": 0, \"early_stopping\": false}", NULL,
         0},
        {"{\"num_beams\": null, \"sequence_bias\": null, \"forced_eos_token_id\": null, \"stop_strings\": []}", NULL,
         0},
        {"{\"bad_words_ids\": [[5]], \"suppress_tokens\": null}", NULL, 2},
        {"{\"bad_words_ids\": [[5], [6, 7]], \"suppress_tokens\": [8, 9]}", NULL, 2 + 3 + 4},
        {"{\"suppress_tokens\": []}", NULL, 0},
        {"{\"bad_words_ids\": 5}", "out of range, ignored: bad_words_ids", 0},
        {"{\"bad_words_ids\": [[\"a\"], [4]]}", "ignored: bad_words_ids", 2},
        {"{\"bad_words_ids\": [[]]}", "ignored: bad_words_ids", 0},
        {"{\"bad_words_ids\": [[1e99]]}", "ignored: bad_words_ids", 0},
        {"{\"suppress_tokens\": {\"a\": 1}}", "ignored: suppress_tokens", 0},
        {"{\"do_sample\": true, \"temperature\": 1e9, \"top_p\": \"x\"}", "ignored: temperature, top_p", 0},
        {"{\"begin_suppress_tokens\": [1, 2]}", "not followed: begin_suppress_tokens", 0},
        {"{\"no_repeat_ngram_size\": 3, \"num_beams\": 4}", "not followed: no_repeat_ngram_size, num_beams", 0},
        {"{\"length_penalty\": 2.0, \"early_stopping\": true, \"min_length\": 56}",
         "not followed: length_penalty, early_stopping, min_length", 0},
        {"{\"forced_eos_token_id\": 2}", "not followed: forced_eos_token_id", 0},
        {"{\"stop_strings\": [\"x\"], \"sequence_bias\": [[[1], 2.0]]}", "not followed: stop_strings, sequence_bias",
         0},
        {"{\"epsilon_cutoff\": 0.01, \"renormalize_logits\": true}", "not followed: epsilon_cutoff, renormalize_logits",
         0},
        {"{\"of_tomorrow\": 1}", "not followed: of_tomorrow", 0},
        {"{\"of_tomorrow\": false}", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reading r;
        read_file(cases[i].text, &r);
        if (cases[i].said ? !strstr(r.said, cases[i].said) : *r.said != 0) fail_msg("%s: %s", cases[i].text, r.said);
        if ((int)r.bans.n != cases[i].numbers) fail_msg("%s: %zu numbers", cases[i].text, r.bans.n);
        mem_free(r.bans.id);
    }
}

enum { TOKENS = 30 };

typedef struct text {
    int32_t ids[TOKENS];
    int n;
} text;

static bool keep(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (ev->token >= 0 && t->n < TOKENS) t->ids[t->n++] = ev->token;
    return true;
}

static text written(const int32_t *bans, int32_t n_bans, const char *draft, double temperature, int beams)
{
    static const int32_t prompt[] = {5, 6, 7, 8};
    text t = {.n = 0};
    bool more = true;
    err e = {0};
    engine *g;
    query q = {.ids = prompt,
               .n_ids = 4,
               .max_tokens = TOKENS,
               .ignore_eos = beams < 2,
               .n_logprobs = -1,
               .beams = beams,
               .n_best = 1,
               .length_penalty = 1,
               .on_token = keep,
               .ctx = &t};
    param_defaults(sample_param_rows, sample_param_count, &q.sample);
    q.sample.temperature = temperature;
    q.sample.seed = 3;
    assert_ok(
        engine_open(&g, &(engine_options){.bans = bans, .n_bans = n_bans, .draft = draft, .draft_max = 16, .ctx = 256},
                    &e),
        &e);
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
    engine_close(g);
    return t;
}

static void forbidden_tokens_do_not_come(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const double temperature = kind == 1 ? 0.8 : 0;
        const int beams = kind == 2 ? 3 : 1;
        const char *draft = kind == 3 ? "ngram" : NULL;
        const text free = written(NULL, 0, draft, temperature, beams);
        assert_true(free.n > 4);
        /* the first token; the third behind the second; what the vocabulary does not have */
        const int32_t bans[] = {1, free.ids[0], 2, free.ids[1], free.ids[2], 1, 1 << 30, 1, -5};
        const text bound = written(bans, sizeof bans / sizeof *bans, draft, temperature, beams);
        assert_true(bound.n > 0);
        for (int i = 0; i < bound.n; i++) {
            assert_int_not_equal(bound.ids[i], free.ids[0]);
            if (i) assert_false(bound.ids[i - 1] == free.ids[1] && bound.ids[i] == free.ids[2]);
        }
        if (kind == 3) {
            const text plain = written(bans, sizeof bans / sizeof *bans, NULL, temperature, beams);
            assert_memory_equal(plain.ids, bound.ids, sizeof plain.ids);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_read_harmless_or_told),
                                       cmocka_unit_test(forbidden_tokens_do_not_come)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
