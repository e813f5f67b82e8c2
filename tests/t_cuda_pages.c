/* t_cuda_pages.c - pages between the CPU and the CUDA backend (programs here, tests/gpu), both ways in mid-text;
 * activations that cross; plans of one program at the same time; pages and snapshots on disk; guesses with slots. */
#include "cuda_rig.h"
#include "pages_rig.h"
#include "text_rig.h"

#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"

static const backend_use cuda = {&cuda_backend, NULL};

static void pages_of_cuda(void **unused)
{
    (void)unused;
    pages_move("cuda:0", cuda, 0);
    pages_move("cuda:0", cuda, 50); /* two layers of three have theirs on the host */
}

static void streams_of_cuda(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cuda:0;cpu", "cpu;cuda:0;cpu", "cuda:0;cuda:1;cuda:0"};
    streams_cross(devices, 3, cuda);
}

static void plans_of_cuda(void **unused)
{
    (void)unused;
    plans_at_once((const char *[]){"cpu:1", "cuda:0", "cuda:0;cpu:1"}, cuda);
}

static engine *open_llama(const char *devices, int kv_host)
{
    engine *g;
    err e = {0};
    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = devices,
                              .kv_host = kv_host,
                              .ctx = 256,
                              .threads = 1,
                              .max_batch = 1};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static void run_text(engine *g, text *t)
{
    text_make(t, 0, 0, 150, 6);
    for (int i = 0; i < 150; i++) t->ids[i] %= engine_describe(g)->n_vocab;
    t->q.sample.repetition_penalty = 1;
    text_add(g, t);
    text_run(g);
}

/* A text goes on from pages in a file, wherever the device that wrote them had them, and the one that reads them. */
static void pages_on_disk(void **unused)
{
    (void)unused;
    static const int kv_host[] = {0, 50, 100, 0};
    static text want, got;
    const char *path = temp_path("session");
    engine *g = open_llama("cpu", 0);
    run_text(g, &want);
    engine_close(g);
    unlink(path);
    for (int i = 0; i < 4; i++) {
        err e = {0};
        g = open_llama("cuda:0", kv_host[i]);
        assert_ok(engine_keep_file(g, path, &e), &e);
        run_text(g, &got);
        assert_int_equal(got.cached, i ? 2 * PAGE_TOKENS : 0);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.token, want.token, (size_t)got.n * sizeof *got.token);
        assert_ok(engine_session_save(g, path, &e), &e);
        engine_close(g);
    }
    unlink(path);
}

/* A model with convolutions, or recurrences; of no file: its contents count as hashed. */
static engine *open_slots(const char *devices, const char *guess, int recur)
{
    model_shape of = text_shape(640);
    err e = {0};
    of.taps = recur ? 0 : 5;
    of.recur = recur;
    engine *g = text_engine(rig_model(&of, 7, 640),
                            (engine_options){.devices = devices, .max_batch = 1, .draft = guess});
    if (guess) assert_ok(draft_open(&g->guesses, g, &e), &e);
    g->harm.held.tensor = mem_zero(1, sizeof *g->harm.held.tensor);
    assert_non_null(g->harm.held.tensor);
    return g;
}

/* Likewise from snapshots in a file; rows of guesses are kept apart beside them. */
static void check_snapshots(int recur)
{
    static text want, got;
    const char *path = temp_path("session");
    engine *g = open_slots("cpu", NULL, recur);
    text_make(&want, 0, 0, 300, 30);
    text_add(g, &want);
    text_run(g);
    engine_close(g);
    unlink(path);
    for (int i = 0; i < 3; i++) {
        err e = {0};
        g = open_slots("cuda:0", i ? "ngram" : NULL, recur);
        assert_ok(engine_keep_file(g, path, &e), &e);
        text_make(&got, 0, 0, 300, 30);
        text_add(g, &got);
        text_run(g);
        assert_int_equal(got.cached, i ? 256 : 0);
        text_same(&want, &got);
        assert_ok(engine_session_save(g, path, &e), &e);
        engine_close(g);
    }
    unlink(path);
}

static void snapshots_on_disk(void **unused)
{
    (void)unused;
    check_snapshots(RECURS_NOT);
    check_snapshots(RECURS_GROUPED);
}
#endif

int main(void)
{
    if (!cuda_rig_open()) return 0;
#ifdef HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_of_cuda), cmocka_unit_test(streams_of_cuda),
                                       cmocka_unit_test(plans_of_cuda), cmocka_unit_test(pages_on_disk),
                                       cmocka_unit_test(snapshots_on_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
