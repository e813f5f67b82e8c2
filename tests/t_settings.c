/* t_settings.c - a spec's [runtime], [serve] and [generate] reach the options of a command, and the command line
 * wins. */
#include "test.h"

#include "app/flags.h"
#include "app/settings.h"
#include "base/file.h"
#include "engine/engine.h"
#include "serve/server.h"
#include "models/spec/spec_load.h"

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
    assert_string_equal(o.model.exact, "on");
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
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
