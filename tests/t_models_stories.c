/* t_models_stories.c - the 200 greedy tokens of stories260K, from every container it comes in, through the engine and
 * the tokenizer. */
#include "base/file.h"
#include "base/mem.h"
#include "measure/evaluate.h"

#include "test.h"

#include <math.h>

enum { TOKENS = 200 };

typedef struct story {
    const tokenizer *t;
    int32_t id[TOKENS];
    int n;
} story;

static bool on_token(void *ctx, const token_event *ev)
{
    story *s = ctx;
    if (ev->token >= 0) s->id[s->n++] = ev->token;
    return true;
}

/* vocab NULL: the model carries its own. */
static void tell_file(const char *path, const char *vocab)
{
    const char *want = shared_path("models/stories260K/expected_greedy_200.txt");
    err e = {0};
    engine *g;
    story s = {0};
    buf text = {0}, expected = {0};
    bool more = true;
    int32_t bos = 1;
    assert_ok(engine_open(&g, &(engine_options){.model = path, .tokenizer = vocab}, &e), &e);
    query q = {.ids = &bos, .n_ids = 1, .max_tokens = TOKENS, .n_logprobs = -1, .on_token = on_token, .ctx = &s};
    q.sample = (sample_params){.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
    assert_ok(tokenizer_decode(engine_tokenizer(g), s.id, (size_t)s.n, DETOKENIZE_SKIP_SPECIAL, &text, &e), &e);
    assert_ok(file_read(&expected, want, 1 << 16, &e), &e);
    assert_int_equal(s.n, TOKENS);
    while (expected.n && expected.p[expected.n - 1] == '\n') expected.n--;
    const char *got = buf_cstr(&text);
    while (*got == ' ') got++;
    assert_string_equal(got, buf_cstr(&expected));
    buf_free(&text);
    buf_free(&expected);
    engine_close(g);
}

static void tell(const char *name)
{
    const char *path = shared_path(name), *vocab = shared_path("models/stories260K/tok512.bin");
    if (path && vocab) tell_file(path, vocab);
    else skip_msg("%s is not there", name);
}

/* ---- caches of codes: how far the model's predictions of its own story move */

enum { VOCAB = 512 };

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    memcpy((float *)ctx + first * VOCAB, rows, (size_t)(n * VOCAB) * sizeof(float));
    return 0;
}

/* Logits of the story with a cache of this type; the story is told first when s->n is 0. */
static void predict(const char *path, const char *vocab, const char *kv, story *s, float *logits)
{
    err e = {0};
    engine *g;
    bool more = true;
    int32_t bos = 1;
    assert_ok(engine_open(&g, &(engine_options){.model = path, .tokenizer = vocab, .kv = kv}, &e), &e);
    query q = {.ids = &bos, .n_ids = 1, .max_tokens = TOKENS, .n_logprobs = -1, .on_token = on_token, .ctx = s};
    q.sample = (sample_params){.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1};
    if (s->n == 0) {
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        while (more) assert_ok(engine_infer(g, &more, &e), &e);
    }
    assert_int_equal(engine_describe(g)->n_vocab, VOCAB);
    assert_ok(engine_eval(g, s->id, (size_t)s->n, -1, keep_rows, logits, &e), &e);
    engine_close(g);
}

static double log_sum(const float *x)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += exp((double)x[i]);
    return log(sum);
}

static double mean_kl(const float *a, const float *b, int rows)
{
    double sum = 0;
    for (int r = 0; r < rows; r++, a += VOCAB, b += VOCAB) {
        double za = log_sum(a), zb = log_sum(b);
        for (int i = 0; i < VOCAB; i++) sum += exp((double)a[i] - za) * ((double)a[i] - za - ((double)b[i] - zb));
    }
    return sum / rows;
}

static void cache_types(void **unused)
{
    (void)unused;
    const char *path = shared_path("models/stories260K/stories260K.bin"),
               *vocab = shared_path("models/stories260K/tok512.bin");
    if (!path || !vocab) {
        skip_msg("stories260K is not there");
        return;
    }
    static const char *const kv[] = {"f16", "i16", "q8", "q4"};
    static const double most[] = {2e-5, 2e-5, 1e-3, 0.5}; /* heads of eight elements: hard for four bits */
    story s = {0};
    float *want = mem_array(TOKENS * VOCAB, sizeof *want), *got = mem_array(TOKENS * VOCAB, sizeof *got);
    assert_true(want && got);
    predict(path, vocab, "f32", &s, want);
    double last = 0;
    for (int i = 0; i < 4; i++) {
        predict(path, vocab, kv[i], &s, got);
        double kl = mean_kl(want, got, s.n);
        print_message("--kv %s: mean KL %.2e\n", kv[i], kl);
        assert_true(kl > last && kl < most[i]);
        last = kl;
    }
    mem_free(want);
    mem_free(got);
}

static void version_0(void **unused) { (void)unused, tell("models/stories260K/stories260K.bin"); }
static void version_1(void **unused) { (void)unused, tell("models/stories260K/stories260K-v1.bin"); }
static void training_pickle(void **unused) { (void)unused, tell("models/stories260K/stories260K.pt"); }

static void run_export(const char *model, const char *vocab, const char *out)
{
    const char *binary = getenv("INFERFLOW_BIN");
    char command[4096];
    snprintf(command, sizeof command, "%s export --model '%s' %s%s -o '%s' > /dev/null",
             binary ? binary : "build/inferflow", model, vocab ? "--tokenizer " : "", vocab ? vocab : "", out);
    if (system(command) != 0) fail_msg("failed: %s", command);
}

/* llama2.c -> folder -> GGUF -> folder in a folder that is made, the vocabulary with it. */
static void exported(void **unused)
{
    (void)unused;
    const char *path = shared_path("models/stories260K/stories260K.bin"),
               *vocab = shared_path("models/stories260K/tok512.bin");
    const char *out[] = {temp_path("stories"), temp_path("stories.gguf"), temp_path("stories-made/again")};
    char remove[4096];
    if (!path || !vocab) {
        skip_msg("stories260K is not there");
        return;
    }
    for (int i = 0; i < 3; i++) {
        run_export(i ? out[i - 1] : path, i ? NULL : vocab, out[i]);
        tell_file(out[i], NULL);
    }
    snprintf(remove, sizeof remove, "rm -r '%s' '%s' '%s'", out[0], out[1], temp_path("stories-made"));
    assert_int_equal(system(remove), 0);
}

/* Opening fails cleanly whichever allocation does (a sample of them: there are hundreds). */
static void short_of_memory(void **unused)
{
    (void)unused;
    const char *path = shared_path("models/stories260K/stories260K.bin"),
               *vocab = shared_path("models/stories260K/tok512.bin");
    if (!path || !vocab) {
        skip_msg("stories260K is not there");
        return;
    }
    int failed = 0;
    bool fired = true;
    for (long n = 1; fired; n += 1 + n / 24, failed++) {
        err e = {0};
        engine *g;
        mem_fail_at(n);
        int rc = engine_open(&g, &(engine_options){.model = path, .tokenizer = vocab, .threads = 1}, &e);
        fired = mem_fail_at(0);
        if (fired && rc) assert_true(g == NULL && e.msg[0]);
        else assert_ok(rc, &e); /* what is optional may be done without */
        engine_close(g);
    }
    assert_true(failed > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cache_types), cmocka_unit_test(version_0),
                                       cmocka_unit_test(version_1),   cmocka_unit_test(training_pickle),
                                       cmocka_unit_test(exported),    cmocka_unit_test(short_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
