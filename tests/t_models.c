/* t_models.c - every family and form against transformers: the tiny models of tests/vectors/models (tools/oracle.py vectors).
 *
 * Each folder is opened as --model does, without a spec. Checked are the logits of some rows of one forward; the same logits in bits
 * over two segments, other chunks and threads, by the spec that `spec show` prints; and 32 greedy tokens. */
#include "base/buf.h"
#include "base/json.h"
#include "engine/engine.h"

#include "test.h"

#include <dirent.h>
#include <math.h>

enum { IDS_MAX = 96, GREEDY = 32, FAMILIES_MIN = 61 };
static const char *const root = "tests/vectors/models";

typedef struct expected {
    json *file;
    const json *rows, *logits; /* position; list of floats each */
    int32_t ids[IDS_MAX], greedy[GREEDY];
    size_t n_ids, n_prompt;
    double tolerance;
} expected;

static size_t read_ids(const json *list, int32_t *to, size_t cap)
{
    size_t n = 0;
    for (const json *j = json_first(list); j; j = json_next(j)) {
        assert_true(n < cap);
        to[n++] = (int32_t)json_int(j, -1);
    }
    return n;
}

static void expected_read(expected *x, const char *folder)
{
    char path[512];
    err e = {0};
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&x->file, path, 1 << 20, &e), &e);
    x->n_ids = read_ids(json_get(x->file, "ids"), x->ids, IDS_MAX);
    assert_int_equal(read_ids(json_get(x->file, "greedy"), x->greedy, GREEDY), GREEDY);
    x->n_prompt = (size_t)json_int(json_get(x->file, "prompt"), 0);
    x->rows = json_get(x->file, "rows");
    x->logits = json_get(x->file, "logits");
    x->tolerance = json_num(json_get(x->file, "tolerance"), 0);
    assert_true(x->n_ids >= 64 && x->n_prompt > 0 && x->tolerance > 0);
}

typedef struct table {
    float *at; /* [IDS_MAX, n_vocab] */
    int64_t n_vocab, rows;
} table;

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    table *t = ctx;
    (void)e;
    assert_true(first == t->rows && first + n <= IDS_MAX);
    memcpy(t->at + first * t->n_vocab, rows, (size_t)(n * t->n_vocab) * sizeof *rows);
    t->rows += n;
    return OK;
}

static engine *open_model(engine_options o)
{
    err e = {0};
    engine *g = NULL;
    o.kv = "f32";
    o.exact = true;
    o.ctx = IDS_MAX; /* dynamic NTK has fewer positions of its own */
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* All logits of the test sequence; free .at. Closes the engine. */
static table logits_of(engine *g, const expected *x)
{
    err e = {0};
    table t = {.n_vocab = engine_describe(g)->n_vocab};
    t.at = calloc((size_t)(IDS_MAX * t.n_vocab), sizeof *t.at);
    assert_non_null(t.at);
    assert_ok(engine_eval(g, x->ids, x->n_ids, -1, keep_rows, &t, &e), &e);
    assert_int_equal(t.rows, x->n_ids);
    engine_close(g);
    return t;
}

static double worst_difference(const expected *x, const table *t)
{
    double worst = 0;
    const json *row = json_first(x->rows), *values = json_first(x->logits);
    for (; row && values; row = json_next(row), values = json_next(values)) {
        const float *got = t->at + json_int(row, 0) * t->n_vocab;
        assert_int_equal(json_count(values), t->n_vocab);
        for (const json *v = json_first(values); v; v = json_next(v), got++) {
            double d = fabs((double)*got - json_num(v, NAN));
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    return worst;
}

static bool same_bits(const table *a, const table *b)
{
    return a->n_vocab == b->n_vocab && a->rows == b->rows &&
           !memcmp(a->at, b->at, (size_t)(a->rows * a->n_vocab) * sizeof *a->at);
}

/* Opens the spec that `spec show` prints for the folder. */
static engine *open_shown(const char *folder)
{
    err e = {0};
    buf text = {0};
    const char *path = temp_path("shown.ini");
    engine *g = open_model((engine_options){.model = folder, .threads = 1});
    assert_ok(engine_spec_text(g, &text, &e), &e);
    engine_close(g);
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text.p, 1, text.n, f) == text.n && fclose(f) == 0);
    buf_free(&text);
    g = open_model((engine_options){.spec = path, .threads = 1});
    unlink(path);
    return g;
}

typedef struct generated {
    int32_t ids[GREEDY];
    int n;
    bool done;
} generated;

static bool on_token(void *ctx, const token_event *ev)
{
    generated *out = ctx;
    if (ev->finish != FINISH_NONE) out->done = true;
    if (ev->token >= 0 && out->n < GREEDY) out->ids[out->n++] = ev->token;
    return true;
}

static bool greedy_agrees(const char *folder, const expected *x)
{
    err e = {0};
    engine *g = open_model((engine_options){.model = folder, .threads = 1});
    generated out = {.n = 0};
    query q = {.ids = x->ids,
               .n_ids = x->n_prompt,
               .max_tokens = GREEDY,
               .ignore_eos = true,
               .sample = {.top_p = 1, .repetition_penalty = 1},
               .n_logprobs = -1,
               .on_token = on_token,
               .ctx = &out};
    uint64_t id;
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    for (bool more = true; more && !out.done;) assert_ok(engine_infer(g, &more, &e), &e);
    engine_close(g);
    return out.n == GREEDY && !memcmp(out.ids, x->greedy, sizeof out.ids);
}

/* Prints what is wrong with a model; true when nothing is. */
static bool check_model(const char *name)
{
    char folder[400];
    expected x = {0};
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    expected_read(&x, folder);
    table all = logits_of(open_model((engine_options){.model = folder, .threads = 1}), &x);
    table cut = logits_of(open_model((engine_options){.model = folder, .devices = "cpu;cpu", .chunk = 5, .threads = 2}),
                          &x);
    table shown = logits_of(open_shown(folder), &x);
    double off = worst_difference(&x, &all);
    bool near = off <= x.tolerance, same = same_bits(&all, &cut), loads = same_bits(&all, &shown);
    bool greedy = greedy_agrees(folder, &x);
    if (!near) printf("%s: logits are off by %.2g, %.2g is allowed\n", name, off, x.tolerance);
    if (!same) printf("%s: other bits in chunks of 5 over two segments and two threads\n", name);
    if (!loads) printf("%s: other bits by the spec that is shown\n", name);
    if (!greedy) printf("%s: other greedy tokens\n", name);
    free(all.at);
    free(cut.at);
    free(shown.at);
    json_free(x.file);
    return near && same && loads && greedy;
}

static void test_families(void **state)
{
    (void)state;
    int seen = 0, wrong = 0;
    DIR *d = opendir(root);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (f->d_name[0] == '.' || strchr(f->d_name, '.')) continue;
        seen++;
        wrong += !check_model(f->d_name);
    }
    closedir(d);
    assert_true(seen >= FAMILIES_MIN);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
