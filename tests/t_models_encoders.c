/* t_models_encoders.c - every family of encoders against transformers: the tiny models of tests/vectors/encoders
 * (tools/oracle/oracle.py vectors), and two trained ones where the shared data is.
 *
 * Compared are logits of a masked-language head, labels of tokens, or starts and ends of answers; or scores of a
 * classifier; or pooled vectors of texts of several lengths and the last hidden states. The same bits
 * come over two segments, one text at a time, and by the spec that `spec show` prints. */
#include "engine/decoder_prompt.h"
#include "measure/evaluate.h"
#include "measure/embedding.h"

#include "rows_rig.h"

enum { TEXTS_MAX = 8, FAMILIES_MIN = 73 };
static const char *const root = "tests/vectors/encoders";

typedef struct expected {
    json *file;
    int32_t ids[IDS_MAX], types[IDS_MAX];
    size_t n_ids, lengths[TEXTS_MAX], n_texts;
    bool masked, scored; /* rows of tokens; of texts; else bare */
    double tolerance;
} expected;

static void expected_read(expected *x, const char *folder)
{
    char path[512];
    err e = {0};
    int32_t lengths[TEXTS_MAX];
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&x->file, path, 1 << 20, &e), &e);
    const char *what = json_str(json_get(x->file, "what"), "");
    x->n_ids = read_ids(json_get(x->file, "ids"), x->ids, IDS_MAX);
    assert_int_equal(read_ids(json_get(x->file, "types"), x->types, IDS_MAX), x->n_ids);
    x->n_texts = read_ids(json_get(x->file, "lengths"), lengths, TEXTS_MAX);
    for (size_t i = 0; i < x->n_texts; i++) x->lengths[i] = (size_t)lengths[i];
    x->masked = strcmp(what, "AutoModelForMaskedLM") == 0 || strcmp(what, "AutoModelForTokenClassification") == 0 ||
                strcmp(what, "AutoModelForQuestionAnswering") == 0 || strcmp(what, "AutoModelForCausalLM") == 0;
    x->scored = strcmp(what, "AutoModelForSequenceClassification") == 0;
    x->tolerance = json_num(json_get(x->file, "tolerance"), 0);
    assert_true(x->n_ids >= 64 && x->tolerance > 0);
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
    table t = table_new(x->masked ? engine_width(g, -1) : x->scored ? i->n_score : i->n_pooled, IDS_MAX + TEXTS_MAX);
    if (!x->masked) run_texts(g, x, &t);
    token_list shifted = {0};
    query q = {.ids = x->ids, .n_ids = x->n_ids};
    if (i->n_label && i->n_enc_vocab) { /* both parts read the text */
        assert_ok(engine_shifted_ids(g, x->ids, x->n_ids, false, &shifted, &e), &e);
        q = (query){.ids = shifted.id, .n_ids = shifted.n, .enc_ids = x->ids, .n_enc = x->n_ids};
    }
    if (!x->scored) assert_ok(engine_eval_query(g, &q, x->masked ? -1 : i->n_layer, keep_rows, &t, &e), &e);
    token_list_free(&shifted);
    engine_close(g);
    return t;
}

/* Prints what is wrong with a model. */
static int faults(const char *folder, const char *name, int turn)
{
    expected x = {0};
    (void)turn;
    expected_read(&x, folder);
    table all = result_of(open_model((engine_options){.model = folder, .threads = 1}), &x);
    table cut = result_of(
        open_model((engine_options){.model = folder, .devices = "cpu;cpu", .max_batch = 1, .threads = 2}), &x);
    table shown = result_of(open_shown(folder), &x);
    double off = farthest(&all, json_get(x.file, "rows"), json_get(x.file, "values"));
    bool near = off <= x.tolerance, same = same_bits(&all, &cut), loads = same_bits(&all, &shown);
    if (!near) printf("%s: off by %.2g, %.2g is allowed\n", name, off, x.tolerance);
    if (!same) printf("%s: other bits alone, over two segments\n", name);
    if (!loads) printf("%s: other bits by the spec that is shown\n", name);
    free(all.at);
    free(cut.at);
    free(shown.at);
    json_free(x.file);
    return !near + !same + !loads;
}

static void families(void **unused)
{
    (void)unused;
    assert_true(check_models(root, faults) >= FAMILIES_MIN);
}

/* ---- trained */

/* rxnmapper: an ALBERT trained on chemical reactions; reference_check.json was computed in float64 by another program.
 * */
static void rxnmapper(void **unused)
{
    (void)unused;
    enum { N = 128, DIM = 256 };
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
    size_t n = read_ids(json_get(check, "input_ids"), ids, N);
    size_t n_masked = read_ids(json_get(check, "masked_positions"), masked, N);
    assert_int_equal(read_ids(json_get(check, "true_ids"), truth, N), n_masked);
    assert_true(n > 8 && n_masked > 0);
    for (int f = 0; f < 2; f++) {
        engine *g = open_model((engine_options){.model = shared_path(files[f]), .threads = 1});
        const engine_info *i = engine_describe(g);
        table logits = table_new(i->n_vocab, N), hidden = table_new(DIM, N);
        assert_true(engine_width(g, i->n_layer) == DIM);
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
