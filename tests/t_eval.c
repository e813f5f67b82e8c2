/* t_eval.c - the commands eval and plan from outside, on a committed model. The losses are those that transformers gives for the same
 * windows: mean over -log_softmax(model(ids[b:e]).logits)[i][ids[i + 1]] of tests/vectors/models/qwen2. */
#include "base/file.h"
#include "base/json.h"

#include "test.h"

#include <math.h>
#include <sys/wait.h>

static const char *const model = "tests/vectors/models/qwen2";
enum { VOCAB = 53, N = 150 };

static buf out;

/* Standard output and error of one call into `out`; its exit status. */
static int call(const char *fmt, ...)
{
    char line[4096], part[4096];
    const char *binary = getenv("INFERFLOW_BIN");
    int at = snprintf(line, sizeof line, "%s ", binary ? binary : "build/inferflow");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + at, sizeof line - (size_t)at, fmt, ap);
    va_end(ap);
    strcat(line, " 2>&1");
    out.n = 0;
    FILE *f = popen(line, "r");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) buf_add(&out, part, n);
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

static void expect_loss(const char *flags, double nll, int tokens)
{
    json *j;
    err e = {0};
    const char *ids = ids_file();
    assert_int_equal(call("eval perplexity --model %s --ids %s --json %s", model, ids, flags), 0);
    assert_ok(json_parse(&j, buf_span(&out), "output", &e), &e);
    assert_true(fabs(json_num(json_get(j, "nll"), 0) - nll) < 1e-5);
    assert_true(fabs(json_num(json_get(j, "perplexity"), 0) / exp(nll) - 1) < 1e-5);
    assert_int_equal(json_int(json_get(j, "tokens"), 0), tokens);
    assert_true(json_num(json_get(j, "seconds"), -1) >= 0);
    json_free(j);
    unlink(ids + 1);
}

static void perplexity(void **unused)
{
    (void)unused;
    expect_loss("--ctx 60", 7.199305978251917, 58);
    expect_loss("--ctx 60 --stride 25", 8.255446012546873, 149);
    assert_int_equal(call("eval perplexity --model %s --ids 1,2,3", model), 2);
    assert_non_null(strstr(buf_cstr(&out), "3 tokens, one window needs"));
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
        {"eval nothing --ids 1 -o x.npy", "logits, hidden and perplexity"},
        {"eval hidden --layer 99 --ids 1 -o x.npy", "--layer 99"},
        {"eval logits --ids 99 -o x.npy", "99 is outside the vocabulary of 53"},
        {"eval logits --ids 1 --prompt a -o x.npy", "one of --ids"},
        {"eval logits --prompt a -o x.npy", "no tokenizer"},
        {"eval logits --ids 1 -o x.npy --kv q4", "--kv: 'q4' is not one of f32|f16"},
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
    assert_int_equal(call("plan --model %s --devices 'cpu&cpu'", model), 2);
    assert_non_null(strstr(buf_cstr(&out), "by heads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(perplexity), cmocka_unit_test(npy_files),
                                       cmocka_unit_test(plan_text)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&out);
    return failed;
}
