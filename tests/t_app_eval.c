/* t_app_eval.c - the commands eval and plan from outside, on a committed model. The losses are those that transformers
 * gives for the same windows: mean over -log_softmax(model(ids[b:e]).logits)[i][ids[i + 1]] of
 * tests/vectors/models/qwen2. */
#include "base/file.h"
#include "base/json.h"
#include "base/span.h"

#include "command.h"

#include <math.h>

static const char *const model = "tests/vectors/models/qwen2";
enum { VOCAB = 53, N = 150 };

static buf out, errors;

/* Standard output of one call into `out`, of one that fails its standard error behind it; its exit status. */
__attribute__((format(printf, 1, 2))) static int call(const char *fmt, ...)
{
    char args[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    const int status = command_run(NULL, args, &out, &errors);
    if (status) buf_add(&out, errors.p, errors.n);
    return status;
}

static const char *ids_file(void)
{
    static char arg[300];
    const char *path = temp_path("eval-ids");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < N; i++) fprintf(f, "%d ", (i * i + 3) % VOCAB);
    fclose(f);
    snprintf(arg, sizeof arg, "@%s", path);
    return arg;
}

/* error: of the mean, numpy's std(ddof=1) / sqrt(tokens) of the same losses. */
static void expect_loss(const char *flags, double nll, double error, int tokens)
{
    json *j;
    err e = {0};
    const char *ids = ids_file();
    assert_int_equal(call("eval perplexity --model %s --ids %s --json %s", model, ids, flags), 0);
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    assert_true(fabs(json_num(json_get(j, "nll"), 0) - nll) < 1e-5);
    assert_true(fabs(json_num(json_get(j, "perplexity"), 0) / exp(nll) - 1) < 1e-5);
    if (error > 0) assert_true(fabs(json_num(json_get(j, "perplexity_error"), 0) / (exp(nll) * error) - 1) < 1e-5);
    assert_int_equal(json_int(json_get(j, "tokens"), 0), tokens);
    assert_true(json_num(json_get(j, "seconds"), -1) >= 0);
    json_free(j);
    unlink(ids + 1);
}

static void perplexity(void **unused)
{
    (void)unused;
    expect_loss("--ctx 60", 7.199305978251917, 0.429072991411983, 58);
    expect_loss("--ctx 60 --stride 25", 8.255446012546873, 0, 149);
    assert_int_equal(call("eval perplexity --model %s --ids 1,2,3", model), 2);
    assert_non_null(strstr(buf_cstr(&out), "3 tokens, one window needs"));
    assert_int_equal(call("eval perplexity --model %s --ids 1,2,3 --ctx 2", model), 2);
    assert_non_null(strstr(buf_cstr(&out), "no token is scored: windows of 2"));
    assert_int_equal(call("eval perplexity --model %s --ids 1,2,3 --ctx 3", model), 0);
    assert_int_equal(call("eval importance -f /dev/null -o x.gguf"), 2);
    assert_non_null(strstr(buf_cstr(&out), "the text is empty"));
}

/* A number or null of the output, as the golden file has it. */
static void expect_number(const json *got, const json *expect, const char *key)
{
    const json *a = json_get(got, key), *b = json_get(expect, key);
    assert_non_null(a);
    assert_int_equal(json_type(a), json_type(b));
    double x = json_num(a, 0), y = json_num(b, 0);
    if (fabs(x - y) > 1e-9 + 1e-7 * fabs(y)) fail_msg("%s: %.12g, numpy has %.12g", key, x, y);
}

static void compare_with_numpy(const json *c)
{
    static const char *const keys[] = {"kl_mean", "kl_p99", "top1_agreement", "perplexity", "perplexity_reference",
                                       "tokens"};
    buf ids = {0};
    json *j;
    err e = {0};
    for (const json *id = json_first(json_get(c, "ids")); id; id = json_next(id))
        buf_printf(&ids, "%s%d", ids.n ? "," : "", (int)json_int(id, 0));
    buf stride = {0};
    if (json_int(json_get(c, "stride"), 0)) buf_printf(&stride, "--stride %d", (int)json_int(json_get(c, "stride"), 0));
    assert_int_equal(
        call("eval divergence --model tests/vectors/%s --against tests/vectors/%s --ids %s --ctx %d --json %s",
             json_str(json_get(c, "model"), ""), json_str(json_get(c, "against"), ""), buf_cstr(&ids),
             (int)json_int(json_get(c, "window"), 0), buf_cstr(&stride)),
        0);
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) expect_number(j, json_get(c, "expect"), keys[i]);
    json_free(j);
    buf_free(&stride);
    buf_free(&ids);
}

/* The golden file is written by tools/oracle/oracle_divergence.py. */
static void divergence(void **unused)
{
    (void)unused;
    json *all;
    err e = {0};
    int n = 0;
    assert_ok(json_read(&all, "tests/vectors/divergence.json", 1 << 20, &e), &e);
    for (const json *c = json_first(all); c; c = json_next(c), n++) compare_with_numpy(c);
    assert_int_equal(n, 4);
    json_free(all);
    static const char *const wrong[][2] = {
        {"--against tests/vectors/models/llama --ids @", "different vocabularies: 53 tokens, the reference 47"},
        {"--against tests/vectors/encoders/gte --ids @", "one model is an encoder"},
        {"--against tests/vectors/models/t5 --ids @", "divergence is of models with one input"},
        {"--against tests/vectors/models/none --ids @", "--against"},
        {"--ids @", "--against PATH says"},
        {"--against tests/vectors/models/qwen2 --ids 1,2,3", "3 tokens, one window needs"},
        {"--against tests/vectors/models/qwen2 --ids 1 -o x.npy", "-o means nothing"},
    };
    char path[300];
    snprintf(path, sizeof path, "%s", ids_file() + 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *ids = str_ends(wrong[i][0], "@") ? path : "";
        assert_int_not_equal(call("eval divergence --ctx 60 --model %s %s%s", model, wrong[i][0], ids), 0);
        if (!strstr(buf_cstr(&out), wrong[i][1])) fail_msg("%s: %s", wrong[i][0], buf_cstr(&out));
    }
    unlink(path);
}

static json *output(void)
{
    json *j;
    err e = {0};
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    return j;
}

/* Against itself nothing differs, and a spec names a model as well as its file does. */
static void divergence_from_itself(void **unused)
{
    (void)unused;
    char spec[300];
    snprintf(spec, sizeof spec, "%s.ini", temp_path("spec"));
    assert_int_equal(call("spec show --model builtin > %s", spec), 0);
    for (int i = 0; i < 2; i++) {
        const char *reference = i ? spec : "builtin";
        assert_int_equal(
            call("eval divergence --model builtin --act f32 --against %s -f README.md --ctx 256 --json", reference), 0);
        json *j = output();
        assert_true(json_num(json_get(j, "kl_mean"), 1) == 0 && json_num(json_get(j, "kl_p99"), 1) == 0);
        assert_true(json_num(json_get(j, "top1_agreement"), 0) == 1);
        assert_true(json_num(json_get(j, "perplexity"), 0) == json_num(json_get(j, "perplexity_reference"), 1));
        json_free(j);
    }
    unlink(spec);
}

/* Encoders read a file line by line: [CLS] a b [SEP] and [CLS] b [SEP] are seven rows. */
static void divergence_of_lines(void **unused)
{
    (void)unused;
    char vocab[300], text[300];
    snprintf(vocab, sizeof vocab, "%s.vocab.txt", temp_path("vocab"));
    snprintf(text, sizeof text, "%s", temp_path("lines"));
    FILE *f = fopen(vocab, "w");
    assert_non_null(f);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n", f);
    fclose(f);
    f = fopen(text, "w");
    assert_non_null(f);
    fputs("a b\n\nb", f);
    fclose(f);
    assert_int_equal(call("eval divergence --model tests/vectors/encoders/bert --against tests/vectors/encoders/bert "
                          "--weights bf16 --tokenizer %s -f %s --json",
                          vocab, text),
                     0);
    json *j = output();
    assert_int_equal(json_int(json_get(j, "tokens"), 0), 7);
    assert_true(json_num(json_get(j, "kl_mean"), 0) > 0 && json_num(json_get(j, "kl_mean"), 1) < 1e-2);
    assert_int_equal(json_type(json_get(j, "perplexity")), JSON_NULL);
    json_free(j);
    assert_int_equal(call("eval divergence --model tests/vectors/encoders/bert --against tests/vectors/encoders/bert "
                          "--stride 2 --ids 1,2"),
                     2);
    assert_non_null(strstr(buf_cstr(&out), "--stride is for models that continue a text"));
    unlink(vocab);
    unlink(text);
}

static void npy_files(void **unused)
{
    (void)unused;
    err e = {0};
    buf a = {0};
    char path[300];
    snprintf(path, sizeof path, "%s", temp_path("eval.npy"));
    assert_int_equal(call("eval logits --model %s --ids 1,2,3,4,5 -o %s", model, path), 0);
    assert_ok(file_read(&a, path, 1 << 20, &e), &e);
    assert_int_equal(a.n, 128 + 5 * VOCAB * 4);
    assert_non_null(strstr((const char *)a.p + 10, "(5, 53)"));
    buf_free(&a);
    assert_int_equal(call("eval hidden --layer 1 --model %s --ids 1,2,3,4,5 -o %s", model, path), 0);
    assert_ok(file_read(&a, path, 1 << 20, &e), &e);
    assert_int_equal(a.n % (5 * 4), 128 % 20);
    buf_free(&a);
    unlink(path);
    static const char *const wrong[][2] = {
        {"eval logits --ids 1", "-o F.npy"},
        {"eval logits -o x.npy", "one of --ids"},
        {"eval nothing --ids 1 -o x.npy", "one of logits, hidden, perplexity, divergence and importance"},
        {"eval hidden --layer 99 --ids 1 -o x.npy", "--layer 99"},
        {"eval logits --ids 99 -o x.npy", "99 is outside the vocabulary of 53"},
        {"eval logits --ids 1 --prompt a -o x.npy", "one of --ids"},
        {"eval logits --prompt a -o x.npy", "no tokenizer"},
        {"eval logits --ids 1 -o x.npy --kv q5", "--kv: 'q5' is not one of f32|f16|i16|q8|q4"},
        {"eval logits --ids 1 -o x.npy --devices gpu", "no device \"gpu\""},
        {"eval logits --ids 1 -o x.npy --weights z", "weights can be held as f32"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(call("%s --model %s", wrong[i][0], model), 2);
        if (!strstr(buf_cstr(&out), wrong[i][1])) fail_msg("%s: %s", wrong[i][0], buf_cstr(&out));
        assert_int_not_equal(access("x.npy", F_OK), 0); /* nothing is left behind */
    }
}

static void plan_text(void **unused)
{
    (void)unused;
    assert_int_equal(call("plan --model %s --devices 'cpu:1;cpu:2' --dump", model), 0);
    const char *s = buf_cstr(&out);
    assert_non_null(strstr(s, "segment 0 on cpu:1: ops 0-"));
    assert_non_null(strstr(s, "segment 1 on cpu:2: "));
    assert_non_null(strstr(s, "dec.0.attn.q [tok, "));
    assert_non_null(strstr(s, " [out, 53] = "));
    assert_int_equal(call("plan --model %s --devices 'cpu&cpu'", model), 0);
    assert_non_null(strstr(buf_cstr(&out), "\n1   cpu        0     0-")); /* both have all layers */
    assert_non_null(strstr(buf_cstr(&out), "\ngroup 0: 2 ranks; gathers in a step: "));
    assert_int_equal(call("plan --model %s --devices 'cpu&cpu' --reduce int4 --json", model), 0);
    assert_non_null(strstr(buf_cstr(&out), "\"reduce\":\"int4\",\"wire\":\"f32\","));
    assert_non_null(strstr(buf_cstr(&out), "\"kind\":\"reduce\",\"codec\":\"int4\",\"algorithm\":\"one_shot\","));
    assert_int_equal(call("plan --model %s --devices 'cpu&'", model), 2);
    assert_non_null(strstr(buf_cstr(&out), "an empty device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity),          cmocka_unit_test(divergence), cmocka_unit_test(divergence_from_itself),
        cmocka_unit_test(divergence_of_lines), cmocka_unit_test(npy_files),  cmocka_unit_test(plan_text)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&out);
    buf_free(&errors);
    return failed;
}
