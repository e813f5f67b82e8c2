/* t_plan_window_models.c - models of which every weight is a window of a larger one: the same logits, on the CPU and on
 * the device that is nobody's, with weights as in the files, converted and in panels. */
#include "engine/engine_state.h"
#include "fake/fake_backend.h"
#include "tensor/panel.h"
#include "vector_rig.h"

/* Makes w a window of itself with rows before and after it; of a stack, with a part before and after. */
static void surround(program *p, weight *w)
{
    err e = {0};
    const int64_t rows = w->parts ? w->rows / w->parts : PANEL_ROWS;
    const uint32_t n = w->n_piece;
    piece other = w->pieces[0], *all = arena_array(&p->mem, n + 2, sizeof *all);
    weight *of = arena_array(&p->mem, 1, sizeof *of);
    assert_true(all && of);
    other.rows = rows, other.block = 1, other.stride = 0, other.pairs = 0;
    all[0] = all[n + 1] = other;
    memcpy(all + 1, w->pieces, n * sizeof *all);
    *of = *w;
    of->pieces = all;
    of->n_piece = n + 2;
    of->rows += 2 * rows;
    of->parts += w->parts ? 2 : 0;
    weight window = {.rows = w->rows, .row0 = rows, .parts = w->parts};
    assert_ok(weight_window(&window, of, &e), &e);
    *w = window;
}

static table logits_by(const char *folder, const expected *x, const char *weights, const char *devices, bool windows)
{
    const backend_use more[] = {{&fake_backend, NULL}, {0}};
    const engine_options o = {.devices = devices, .ctx = IDS_MAX, .threads = 1, .chunk = 32, .more_backends = more};
    err e = {0};
    model *m;
    engine *g;
    assert_ok(model_open(&m, &(model_options){.model_path = folder, .weights = weights, .ctx = IDS_MAX}, &e), &e);
    for (uint32_t i = 0; windows && i < m->prog->n_weight; i++) surround(m->prog, &m->prog->weights[i]);
    assert_ok(engine_of_model(&g, m, model_close, &o, &e), &e);
    return logits_of(g, x);
}

static void every_weight_is_a_window(void **unused)
{
    (void)unused;
    static const char *const models[] = {"llama", "mixtral", "deepseek2", "gpt2",          "bloom",
                                         "bart",  "lfm2",    "qwen2-moe", "cohere-qknorm", "qwen3.5"};
    static const char *const types[] = {NULL, "q4_b64", "f16"};
    static const char *const devices[] = {"cpu", "fake"};
    for (size_t i = 0; i < 3 * sizeof models / sizeof *models; i++) {
        const char *type = types[i % 3];
        char folder[200];
        expected x;
        snprintf(folder, sizeof folder, "%s/%s", vectors, models[i / 3]);
        expected_read(&x, folder);
        table want = logits_by(folder, &x, type, "cpu", false);
        for (int d = 0; d < 2; d++) {
            table got = logits_by(folder, &x, type, devices[d], true);
            if (!same_bits(&want, &got))
                fail_msg("%s, weights %s, on %s: other logits", folder, type ? type : "as stored", devices[d]);
            free(got.at);
        }
        free(want.at);
        json_free(x.file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_weight_is_a_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
