/* t_encoders.c - every family of encoders against transformers: the tiny models of tests/vectors/encoders (tools/oracle_encoders.py
 * vectors), and two trained ones where the shared data is.
 *
 * Compared are logits of a masked-language head; or scores of a classifier; or mean-pooled vectors of texts of several lengths and
 * the last hidden states. The same bits come over two segments, one text at a time, and by the spec that `spec show` prints. */
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/embedding.h"

#include "test.h"

#include <dirent.h>
#include <math.h>

enum { IDS_MAX = 96, TEXTS_MAX = 8, FAMILIES_MIN = 32 };
static const char *const root = "tests/vectors/encoders";

typedef struct expected {
    json *file;
    int32_t ids[IDS_MAX], types[IDS_MAX];
    size_t n_ids, lengths[TEXTS_MAX], n_texts;
    bool masked, scored; /* else bare */
    double tolerance;
} expected;

static size_t read_ints(const json *list, int32_t *to, size_t cap)
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
    int32_t lengths[TEXTS_MAX];
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&x->file, path, 1 << 20, &e), &e);
    const char *what = json_str(json_get(x->file, "what"), "");
    x->n_ids = read_ints(json_get(x->file, "ids"), x->ids, IDS_MAX);
    assert_int_equal(read_ints(json_get(x->file, "types"), x->types, IDS_MAX), x->n_ids);
    x->n_texts = read_ints(json_get(x->file, "lengths"), lengths, TEXTS_MAX);
    for (size_t i = 0; i < x->n_texts; i++) x->lengths[i] = (size_t)lengths[i];
    x->masked = strcmp(what, "AutoModelForMaskedLM") == 0;
    x->scored = strcmp(what, "AutoModelForSequenceClassification") == 0;
    x->tolerance = json_num(json_get(x->file, "tolerance"), 0);
    assert_true(x->n_ids >= 64 && x->tolerance > 0);
}

/* A matrix that grows by rows. */
typedef struct table {
    float *at;
    int64_t width, rows;
} table;

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    table *t = ctx;
    (void)e, (void)first;
    memcpy(t->at + t->rows * t->width, rows, (size_t)(n * t->width) * sizeof *rows);
    t->rows += n;
    return OK;
}

static engine *open_model(engine_options o)
{
    err e = {0};
    engine *g = NULL;
    o.kv = "f32";
    o.ctx = IDS_MAX;
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static void run_texts(engine *g, const expected *x, table *t)
{
    err e = {0};
    embedding_job jobs[TEXTS_MAX] = {{0}};
    for (size_t i = 0; i < x->n_texts; i++) {
        jobs[i] = (embedding_job){.ids = x->ids, .types = x->types, .n = x->lengths[i]};
        *(x->scored ? &jobs[i].scores : &jobs[i].vector) = t->at + (int64_t)i * t->width;
    }
    assert_ok(embedding_run(g, jobs, x->n_texts, NULL, NULL, &e), &e);
    t->rows = (int64_t)x->n_texts;
}

/* What is compared; free .at. Closes the engine. */
static table result_of(engine *g, const expected *x)
{
    err e = {0};
    const engine_info *i = engine_describe(g);
    table t = {.width = x->masked ? i->n_vocab : x->scored ? i->n_score : i->n_pooled};
    assert_true(t.width > 0);
    t.at = calloc((size_t)((IDS_MAX + TEXTS_MAX) * t.width), sizeof *t.at);
    assert_non_null(t.at);
    if (!x->masked) run_texts(g, x, &t);
    if (!x->scored) assert_ok(engine_eval(g, x->ids, x->n_ids, x->masked ? -1 : i->n_layer, keep_rows, &t, &e), &e);
    engine_close(g);
    return t;
}

static double worst_difference(const expected *x, const table *t)
{
    double worst = 0;
    const json *row = json_first(json_get(x->file, "rows")), *values = json_first(json_get(x->file, "values"));
    assert_true(row && values);
    for (; row && values; row = json_next(row), values = json_next(values)) {
        int64_t at = json_int(row, -1);
        assert_true(at >= 0 && at < t->rows && (int64_t)json_count(values) == t->width);
        const float *got = t->at + at * t->width;
        for (const json *v = json_first(values); v; v = json_next(v), got++) {
            double d = fabs((double)*got - json_num(v, NAN));
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    return worst;
}

static engine *open_shown(const char *folder)
{
    err e = {0};
    buf text = {0};
    const char *path = temp_path("shown-encoder.ini");
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

/* Prints what is wrong with a model; true when nothing is. */
static bool check_model(const char *name)
{
    char folder[400];
    expected x = {0};
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    expected_read(&x, folder);
    table all = result_of(open_model((engine_options){.model = folder, .threads = 1}), &x);
    table cut = result_of(
        open_model((engine_options){.model = folder, .devices = "cpu;cpu", .max_batch = 1, .threads = 2}), &x);
    table shown = result_of(open_shown(folder), &x);
    size_t bytes = (size_t)(all.rows * all.width) * sizeof *all.at;
    double off = worst_difference(&x, &all);
    bool near = off <= x.tolerance, same = cut.rows == all.rows && !memcmp(all.at, cut.at, bytes),
         loads = shown.rows == all.rows && !memcmp(all.at, shown.at, bytes);
    if (!near) printf("%s: off by %.2g, %.2g is allowed\n", name, off, x.tolerance);
    if (!same) printf("%s: other bits alone, over two segments\n", name);
    if (!loads) printf("%s: other bits by the spec that is shown\n", name);
    free(all.at);
    free(cut.at);
    free(shown.at);
    json_free(x.file);
    return near && same && loads;
}

static void families(void **state)
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

/* ---- trained */

/* rxnmapper: an ALBERT trained on chemical reactions; reference_check.json was computed in float64 by another program. */
static void rxnmapper(void **state)
{
    (void)state;
    enum { N = 128, VOCAB = 1000, DIM = 256 };
    static const char *const files[] = {"models/rxnmapper-albert/model.safetensors",
                                        "models/rxnmapper-albert/pytorch_model.bin"};
    err e = {0};
    json *check;
    char path[600];
    const char *folder = shared_path("models/rxnmapper-albert");
    if (!folder) skip_msg("the shared test data is absent");
    if (!folder) return;
    snprintf(path, sizeof path, "%s/reference_check.json", folder);
    assert_ok(json_read(&check, path, 1 << 20, &e), &e);
    int32_t ids[N], masked[N], truth[N];
    size_t n = read_ints(json_get(check, "input_ids"), ids, N);
    size_t n_masked = read_ints(json_get(check, "masked_positions"), masked, N);
    assert_int_equal(read_ints(json_get(check, "true_ids"), truth, N), n_masked);
    assert_true(n > 8 && n_masked > 0);
    for (int f = 0; f < 2; f++) {
        engine *g = open_model((engine_options){.model = shared_path(files[f]), .threads = 1});
        const engine_info *i = engine_describe(g);
        table logits = {.width = i->n_vocab, .at = calloc((size_t)N * VOCAB, sizeof(float))},
              hidden = {.width = DIM, .at = calloc((size_t)N * DIM, sizeof(float))};
        assert_true(logits.at && hidden.at && i->n_vocab <= VOCAB && engine_width(g, i->n_layer) == DIM);
        assert_ok(engine_eval(g, ids, n, -1, keep_rows, &logits, &e), &e);
        assert_ok(engine_eval(g, ids, n, i->n_layer, keep_rows, &hidden, &e), &e);
        const float *at = hidden.at;
        for (const json *v = json_first(json_get(check, "last_hidden_cls_first8")); v; v = json_next(v), at++)
            assert_true(fabs(*at - json_num(v, NAN)) < 2e-5);
        int right = 0; /* masks that are filled with what was there */
        for (size_t k = 0; k < n_masked; k++) {
            const float *row = logits.at + masked[k] * logits.width;
            int best = 0;
            for (int v = 0; v < i->n_vocab; v++) best = row[v] > row[best] ? v : best;
            right += best == truth[k];
        }
        assert_true(right >= 7 && n_masked == 8);
        const float *row = logits.at + masked[0] * logits.width;
        for (const json *p = json_first(json_get(check, "logits_first_masked_top5")); p; p = json_next(p))
            assert_true(fabs(row[json_int(json_at(p, 1), 0)] - json_num(json_at(p, 0), NAN)) < 2e-4);
        free(logits.at);
        free(hidden.at);
        engine_close(g);
    }
    json_free(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(families), cmocka_unit_test(rxnmapper)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
