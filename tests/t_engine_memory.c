/* t_engine_memory.c - what a model keeps in memory: packed weights of a GGUF file once, and no pages of the file they
 * came from; of a file that is packed already, nothing but its pages. What the ranks of a group have together.
 *
 * Each model is opened in a process of its own, without huge pages. What tokenizer, buffers and cache take is the same
 * for both files: it cancels out where one is compared with the other. */
#include "measure/evaluate.h"
#include "app/app.h"
#include "base/json.h"
#include "io/ckpt.h"
#include "rows_rig.h"
#include "tensor/panel.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef struct memory {
    long anonymous, file; /* KiB; of the model's file: what is mapped of the program itself differs by what it does */
} memory;

/* The number behind a name in a line of /proc, added to *to. */
static void add_kib(const char *line, const char *name, long *to)
{
    if (!strncmp(line, name, strlen(name))) *to += strtol(line + strlen(name), NULL, 10);
}

static memory memory_now(const char *path)
{
    memory m = {0};
    char line[4096];
    bool mine = false;
    FILE *status = fopen("/proc/self/status", "r"), *maps = fopen("/proc/self/smaps", "r");
    assert_true(status && maps);
    while (fgets(line, sizeof line, status)) add_kib(line, "RssAnon:", &m.anonymous);
    while (fgets(line, sizeof line, maps)) {
        if (strspn(line, "0123456789abcdef") > 7) mine = strstr(line, path) != NULL; /* a mapping begins */
        if (mine) add_kib(line, "Rss:", &m.file);
    }
    fclose(status);
    fclose(maps);
    return m;
}

/* What opening the file and reading a few tokens adds. */
static memory memory_of(const char *path)
{
    int ends[2];
    memory m = {-1, -1};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static const int32_t ids[] = {1, 20, 300, 4, 1000, 60, 7};
        err e = {0};
        engine *g;
        bool fine = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
        memory before = memory_now(path);
        const engine_options o = {.model = path, .devices = "cpu", .ctx = 64, .threads = 2, .max_batch = 1};
        fine = fine && engine_open(&g, &o, &e) == 0;
        table t = table_new(fine ? engine_describe(g)->n_vocab : 1, 7);
        fine = fine && engine_eval(g, ids, 7, -1, keep_rows, &t, &e) == 0;
        m = memory_now(path);
        m.anonymous -= before.anonymous;
        m.file -= before.file;
        fine = fine && write(ends[1], &m, sizeof m) == (ssize_t)sizeof m;
        _exit(!fine);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &m, sizeof m), sizeof m);
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return m;
}

/* KiB that the matrices take when they are packed (all, the head is that of the tokens), and how many there are. */
static double packed_kib(const char *path, int *matrices)
{
    err e = {0};
    ckpt *c;
    double sum = 0;
    assert_ok(ckpt_open(&c, path, &e), &e);
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        if (t->dims.rank != 2) continue;
        sum += (double)((t->dims.dim[0] + PANEL_ROWS - 1) / PANEL_ROWS) * (double)panel_bytes(t->type, t->dims.dim[1]) /
               1024;
        ++*matrices;
    }
    ckpt_close(c);
    return sum;
}

static double file_kib(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (double)s.st_size / 1024;
}

/* By one thread: OpenMP's others would not outlive the fork. */
static void quantize(const char *type, const char *out)
{
    char *argv[] = {"inferflow", "quantize",   "--threads", "1",         "--log-level", "error",
                    "--format",  (char *)type, "-o",        (char *)out, NULL};
    assert_int_equal(app_main(10, argv), 0);
}

static void weights_are_held_once(void **unused)
{
    (void)unused;
#if defined(SANITIZED)
    skip_msg("a sanitizer has memory of its own");
    return;
#endif
    static const char *const types[] = {"q8_0", "q4_k", "q4_0"};
    for (int i = 0; i < 3; i++) {
        const char *gguf = temp_path("held.gguf"), *own = temp_path("held.safetensors");
        quantize(types[i], gguf);
        quantize(types[i], own);
        memory packed = memory_of(gguf), mapped = memory_of(own);
        int matrices = 0;
        double size = packed_kib(gguf, &matrices), pages = matrices * sysconf(_SC_PAGESIZE) / 1024.0,
               more = (double)(packed.anonymous - mapped.anonymous), less = (double)(mapped.file - packed.file);
        if (more > 1.05 * size + pages || more < 0.95 * size)
            fail_msg("%s: packing %.0f KiB takes %.0f", types[i], size, more);
        if (less < 0.5 * file_kib(gguf))
            fail_msg("%s: of a file of %.0f KiB all but %.0f stay", types[i], file_kib(gguf), less);
        if ((double)mapped.anonymous > 0.2 * file_kib(own) + 192)
            fail_msg("%s: a file of %.0f KiB takes %ld beside it", types[i], file_kib(own), mapped.anonymous);
        unlink(gguf), unlink(own);
    }
}

/* ---- ranks */

static json *plan_of(const char *path, const char *devices)
{
    err e = {0};
    engine *g;
    const engine_options o = {.model = path, .devices = devices, .ctx = 64, .max_batch = 1};
    assert_ok(engine_open(&g, &o, &e), &e);
    json *built = json_new_object(), *root;
    buf text = {0};
    assert_ok(engine_plan_json(g, NULL, built, &e), &e);
    assert_true(json_print(&text, built, false));
    assert_ok(json_parse(&root, buf_span(&text), "the plan", &e), &e);
    buf_free(&text);
    json_free(built);
    engine_close(g);
    return root;
}

static int64_t number_of(const json *rank, const char *key)
{
    const int64_t n = json_int(json_get(rank, key), -1);
    assert_true(n >= 0);
    return n;
}

/* Where run `key` of a rank ends; it begins where that of the rank before ends, or before that if ranks may share. */
static int64_t run_after(const json *rank, const char *key, int64_t from, bool shared)
{
    const json *run = json_get(rank, key);
    const int64_t a = json_int(json_at(run, 0), -1), b = json_int(json_at(run, 1), -1);
    if (shared ? a > from : a != from) fail_msg("%s begins at %lld, not at %lld", key, (long long)a, (long long)from);
    assert_true(b >= a);
    return b;
}

/* Bytes of a head of keys and values in all layers of the built-in model. */
enum { HEAD = 2 * 6 * 64 * 272 };

/* The ranks of `devices` have each row of weights once, but for copies of vectors and of heads that they share. */
static void expect_divided(const char *path, const char *devices, const json *whole, bool packed)
{
    static const char *const runs[] = {"heads", "kv_heads", "ffn", "vocab"};
    json *root = plan_of(path, devices);
    const json *all = json_at(json_get(whole, "ranks"), 0);
    int64_t end[4] = {0}, sum = 0, kv_heads = 0;
    for (const json *r = json_first(json_get(root, "ranks")); r; r = json_next(r)) {
        for (int k = 0; k < 4; k++) end[k] = run_after(r, runs[k], end[k], k == 1);
        sum += number_of(r, "weight_bytes");
        kv_heads += end[1] - json_int(json_at(json_get(r, "kv_heads"), 0), -1);
        assert_true(number_of(r, "kv_bytes") == number_of(r, "kv_page_bytes") * number_of(r, "pages"));
        assert_true(number_of(r, "kv_bytes") <= number_of(all, "kv_bytes"));
        if (packed) assert_int_equal(number_of(r, "own_bytes"), 0);
        else assert_true(number_of(r, "own_bytes") < number_of(all, "own_bytes"));
    }
    for (int k = 0; k < 4; k++) assert_int_equal(end[k], run_after(all, runs[k], 0, false));
    const double copies = (double)((kv_heads - end[1]) * HEAD),
                 more = ((double)sum - copies) / (double)number_of(all, "weight_bytes");
    if (more > 1.05) fail_msg("%s, %s: ranks have %.3f times the weights", path, devices, more);
    const json *first = json_at(json_get(root, "edges"), 0);
    assert_string_equal(json_str(json_get(first, "kind"), ""), "gather");
    assert_true(number_of(first, "bytes_per_row") > 0 && number_of(first, "hops") == 1);
    json_free(root);
}

static void ranks_divide_weights(void **unused)
{
    (void)unused;
    const char *own = temp_path("ranks.safetensors");
    quantize("q8_0", own);
    const char *const models[] = {"builtin", own};
    for (int i = 0; i < 2; i++) {
        json *whole = plan_of(models[i], "cpu:1");
        assert_true(json_at(json_get(whole, "edges"), 0) == NULL);
        expect_divided(models[i], "cpu:1&cpu:1", whole, i == 1);
        expect_divided(models[i], "cpu:1*2&cpu:1*3&cpu:1", whole, i == 1);
        expect_divided(models[i], "cpu:1&cpu:1&cpu:1&cpu:1", whole, i == 1);
        json_free(whole);
    }
    unlink(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_held_once), cmocka_unit_test(ranks_divide_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
