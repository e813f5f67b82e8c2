/* t_app_settings.c - a spec's [runtime], [serve] and [generate] reach the options of a command, and the command line
 * wins; under both, the model's generation_config.json. */
#include "test.h"

#include "app/flags.h"
#include "app/settings.h"
#include "base/file.h"
#include "engine/engine.h"
#include "serve/server.h"
#include "models/spec/spec_load.h"

#include <sys/stat.h>

typedef struct options {
    engine_options model;
    serve_options serve;
    sample_params sample;
} options;

static const flag_group groups[] = {MODEL_FLAGS(options, model),
                                    {"Server", serve_param_rows, &serve_param_count, offsetof(options, serve)},
                                    {"Sampling", sample_param_rows, &sample_param_count, offsetof(options, sample)},
                                    {0}};
static const command cmd = {.name = "test", .flags = groups, .options_size = sizeof(options), .operand_max = 1};

static const char *write_spec(const char *text)
{
    const char *path = temp_path("settings.ini");
    file_out *f;
    err e = {0};
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, text, strlen(text), &e), &e);
    assert_ok(file_commit(f, &e), &e);
    return path;
}

static int parse(options *o, spec **over, invocation *v, int argc, char **argv, err *e)
{
    common_flags common;
    *v = (invocation){.cmd = &cmd, .options = o};
    return flags_parse(v, &common, argc, argv, over, e);
}

static void spec_then_flags(void **state)
{
    (void)state;
    char *path = (char *)write_spec("[model]\nbase = llama\n[runtime]\nctx = 77\nthreads = 3\nexact = off\nkv = f16\n"
                                    "[serve]\nport = 9\nalias = stories\n[generate]\ntemperature = 0.5\ntop_k = 7\n");
    char *argv[] = {"--ctx", "5", "word", "--spec", path, "--top-k=9", "--exact", "on"};
    options o = {0};
    spec *over;
    invocation v;
    err e = {0};
    assert_ok(parse(&o, &over, &v, 8, argv, &e), &e);
    assert_int_equal(o.model.ctx, 5);
    assert_int_equal(o.model.threads, 3);
    assert_int_equal(o.model.choices.exact, EXACT_ON);
    assert_string_equal(o.model.kv, "f16");
    assert_string_equal(o.model.spec, path);
    assert_int_equal(o.serve.port, 9);
    assert_string_equal(o.serve.host, "127.0.0.1");
    assert_string_equal(o.serve.alias, "stories");
    assert_true(o.sample.temperature == 0.5);
    assert_int_equal(o.sample.top_k, 9);
    assert_int_equal(v.n_operand, 1);
    assert_string_equal(v.operand[0], "word");
    spec_free(over);
    unlink(path);
}

/* Sampling of a model whose folder has this generation_config.json, under flags. */
static sample_params sampled(const char *file, int argc, char **flags)
{
    static const char *const parts[] = {"config.json", "model.safetensors", "generation_config.json"};
    char *dir = (char *)temp_path("generation"), path[3][400], *argv[8] = {"--model", dir};
    assert_int_equal(mkdir(dir, 0755), 0);
    for (int i = 0; i < 3; i++) {
        char target[100];
        snprintf(path[i], sizeof path[i], "%s/%s", dir, parts[i]);
        snprintf(target, sizeof target, "tests/vectors/models/llama/%s", parts[i]);
        char *real = i < 2 ? realpath(target, NULL) : NULL;
        assert_int_equal(i < 2 ? symlink(real, path[i]) : 0, 0);
        free(real);
    }
    FILE *f = fopen(path[2], "w");
    assert_non_null(f);
    fputs(file, f);
    fclose(f);
    if (argc) memcpy(argv + 2, flags, (size_t)argc * sizeof *flags);
    options o = {0};
    spec *over;
    invocation v;
    err e = {0};
    assert_ok(parse(&o, &over, &v, 2 + argc, argv, &e), &e);
    spec_free(over);
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(dir);
    return o.sample;
}

static void model_under_spec_and_flags(void **state)
{
    (void)state;
    static const char all[] = "{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.9, "
                              "\"repetition_penalty\": 1.1, \"min_p\": null}";
    sample_params s = sampled(all, 0, NULL);
    assert_true(s.temperature == 0.6 && s.top_k == 20 && s.top_p == 0.9 && s.repetition_penalty == 1.1 && s.min_p == 0);
    s = sampled(all, 2, (char *[]){"--temp", "0.2"});
    assert_true(s.temperature == 0.2 && s.top_k == 20);
    char *path = (char *)write_spec("[model]\nbase = llama\n[generate]\ntop_k = 7\ntop_p = 0.8\n");
    s = sampled(all, 4, (char *[]){"--spec", path, "--top-p", "0.7"});
    assert_true(s.temperature == 0.6 && s.top_k == 7 && s.top_p == 0.7);
    unlink(path);
    s = sampled("{\"do_sample\": true, \"typical_p\": 0.8, \"top_k\": 50}", 0, NULL);
    assert_true(s.typical_p == 0.8 && s.top_k == 50);
    /* a strategy is other defaults of its place: what is said there counts, before or behind it; what was below not */
    s = sampled(all, 4, (char *[]){"--top-k", "3", "--strategy", "top_p"});
    assert_true(s.temperature == 0.6 && s.top_k == 3 && s.top_p == 0.9 && s.repetition_penalty == 1.1);
    path = (char *)write_spec("[model]\nbase = llama\n[generate]\nfsd_k = 4\nstrategy = random_fsd\n");
    s = sampled(all, 4, (char *[]){"--spec", path, "--fsd-steps", "2"});
    assert_true(s.fsd_k == 4 && s.fsd_steps == 2 && s.top_k == 0 && s.top_p == 1 && s.temperature == 0.6);
    s = sampled(all, 4, (char *[]){"--spec", path, "--strategy", "sample.greedy"});
    assert_true(s.fsd_k == 0 && s.temperature == 0 && s.top_k == 1);
    unlink(path);
    /* as in transformers: filters belong to sampling, penalties do not */
    s = sampled("{\"do_sample\": false, \"temperature\": 0.6, \"repetition_penalty\": 1.2}", 0, NULL);
    assert_true(s.temperature == 0 && s.repetition_penalty == 1.2);
    s = sampled("{\"temperature\": 0.6, \"top_k\": 3}", 0, NULL);
    assert_true(s.temperature == 1 && s.top_k == 0);
    s = sampled("{\"do_sample\": true, \"temperature\": 1e9, \"top_k\": 2.5, \"top_p\": \"x\"}", 0, NULL);
    assert_true(s.temperature == 1 && s.top_k == 0 && s.top_p == 1);
    s = sampled("{\"do_sample\": tru", 0, NULL);
    assert_true(s.temperature == 1);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"[runtime]\nthread = 3\n", ":2: [runtime] thread: unknown key: did you mean 'threads'?"},
        {"[runtime]\nctx = many\n", ":2: [runtime] ctx: 'many' is not a whole number"},
        {"[runtime]\nkv = f8\n", ":2: [runtime] kv: 'f8' is not one of f32|f16|i16|q8|q4"},
        {"[runtime]\nmodel = x\n", ":2: [runtime] model: say it as [model] path"},
        {"[serve]\nport = 70000\n", ":2: [serve] port: 70000 is out of range: 0 to 65535"},
        {"[generate]\ntemprature = 1\n", ":2: [generate] temprature: unknown key: did you mean 'temperature'?"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *path = (char *)write_spec(bad[i][0]), want[400], *argv[] = {"--spec", path};
        snprintf(want, sizeof want, "%s%s", path, bad[i][1]);
        options o = {0};
        spec *over, *s;
        invocation v;
        err e = {0}, again = {0};
        assert_int_equal(parse(&o, &over, &v, 2, argv, &e), ERR_SPEC);
        assert_string_equal(e.msg, want);
        spec_free(over);
        assert_ok(spec_load(&s, path, NULL, &again), &again);
        assert_true(settings_check(s, &again) != 0);
        assert_string_equal(again.msg, want);
        spec_free(s);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_then_flags),
        cmocka_unit_test(model_under_spec_and_flags),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
