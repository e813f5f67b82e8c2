/* t_engine_in_flight.c - several steps under way on devices that are slow and may fail (fake/fake_backend.h): schedules
 * of queries (schedule_rig.h); and a device that fails at its k-th call, for every k. */
#include "fake/fake_backend.h"
#include "schedule_rig.h"

#include "measure/forecast.h"

static int open_fake(engine **g, const char *folder, const char *devices, int in_flight, const fake_options *fake,
                     err *e)
{
    const backend_use more[] = {{&fake_backend, fake}, {0}};
    return engine_try(g, folder, devices, in_flight, more, e);
}

static engine *fake_made(const char *folder, const char *devices, int in_flight, const fake_options *fake)
{
    const backend_use more[] = {{&fake_backend, fake}, {0}};
    return engine_made(folder, devices, in_flight, more);
}

/* pages: of each group; 0: as many as six texts need. */
static void run_short_schedules(const char *folder, const char *devices, uint64_t seed, int n, int pages)
{
    fake_log log = {0};
    const fake_options fake = {.log = &log, .delay = 80, .seed = (uint32_t)seed};
    make_schedule_queries(folder);
    run_schedules_on(fake_made(folder, devices, IN_FLIGHT, &fake), seed, n, pages);
    assert_true((log.returns > 0) == (strchr(devices, '&') != NULL));
}

static void run_schedules(const char *folder, const char *devices, uint64_t seed, int n)
{
    run_short_schedules(folder, devices, seed, n, 0);
}

/* Beams of the longest text need twelve. */
static void schedules_short_of_pages(void **unused)
{
    (void)unused;
    run_short_schedules(NULL, "cpu;fake", 9000, 40, 13);
    run_short_schedules(NULL, "fake&fake", 9500, 20, 13);
    run_short_schedules("tests/vectors/models/lfm2", "fake;cpu", 9700, 20, 6);
    run_short_schedules("tests/vectors/models/t5", "cpu;fake", 9800, 20, 6);
}

static void schedules_of_windows(void **unused)
{
    (void)unused;
    run_schedules(NULL, "cpu;fake", 1000, 60);
    run_schedules(NULL, "fake;fake", 2000, 60);
}

static void schedules_of_slots(void **unused)
{
    (void)unused;
    run_schedules("tests/vectors/models/lfm2", "fake;cpu", 3000, 40);
}

static void schedules_of_encoders(void **unused)
{
    (void)unused;
    run_schedules("tests/vectors/models/t5", "cpu;fake", 4000, 40);
}

/* Ranks of a group: while rows of a step pass between them, a device works on the next one. */
static void schedules_of_ranks(void **unused)
{
    (void)unused;
    run_schedules(NULL, "fake&fake", 5000, 40);
    run_schedules(NULL, "fake&fake;cpu&fake", 6000, 20);
    run_schedules("tests/vectors/models/lfm2", "fake&fake", 7000, 20);
    run_schedules("tests/vectors/models/t5", "fake&fake", 8000, 20);
}

static void closed_at_work(void **unused)
{
    (void)unused;
    const fake_options fake = {.delay = 200};
    make_queries(NULL, 100, TOKENS - 1);
    for (int k = 1; k < 8; k++) close_at_work(fake_made(NULL, "fake;fake", IN_FLIGHT, &fake), k);
}

/* ---- faults */

static void check_after_fault(const schedule *s, bool lost)
{
    engine_stats stats;
    for (int i = 0; i < s->n; i++) {
        const asked *a = &s->of[i];
        assert_int_equal(a->ends, 1);
        if (a->finish == FINISH_ERROR) assert_non_null(strstr(a->error, "the fake device is "));
        else assert_int_equal(a->n, a->of->n);
        if (i == s->n - 1) assert_true((a->finish == FINISH_ERROR) == lost);
    }
    engine_get_stats(s->g, &stats);
    assert_true(stats.kv_usage == 0);
    assert_int_equal(s->g->kv.slots.n_free + s->g->kv.slots.n_kept, s->g->kv.slots.total);
}

/* Three queries at once, then one more, where call k fails; false: it was not reached. */
static bool run_with_fault(const char *folder, const char *devices, int in_flight, unsigned long long k, bool lost)
{
    fake_log log = {.fail_at = k, .lost = lost};
    const fake_options fake = {.log = &log};
    err e = {0};
    schedule s = {.n = 0};
    int rc = open_fake(&s.g, folder, devices, in_flight, &fake, &e);
    if (rc) {
        assert_non_null(strstr(e.msg, "the fake device is "));
        return true;
    }
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_lock(&s.lock);
    static const int first[] = {1, 0, 6}; /* 6 has beams */
    for (int i = 0; i < 3; i++) ask(&s, first[i], 0);
    pthread_mutex_unlock(&s.lock);
    run_all(s.g);
    const bool reached = atomic_load(&log.all) >= k;
    if (reached) {
        pthread_mutex_lock(&s.lock);
        ask(&s, 2, 0);
        pthread_mutex_unlock(&s.lock);
        run_all(s.g);
        check_after_fault(&s, lost);
    }
    engine_close(s.g);
    pthread_mutex_destroy(&s.lock);
    return reached;
}

static void run_with_faults(const char *folder, const char *devices, int in_flight)
{
    make_queries(folder, 40, 4); /* each call is a run */
    for (int lost = 0; lost < 2; lost++) {
        unsigned long long k = 1;
        while (run_with_fault(folder, devices, in_flight, k, lost)) k++;
        assert_true(k > 10); /* 4 to open it, then steps */
    }
}

static void faults(void **unused)
{
    (void)unused;
    run_with_faults(NULL, "fake", 1);
    run_with_faults(NULL, "cpu;fake", 3);
    run_with_faults(NULL, "fake;fake", 4);
    run_with_faults(NULL, "cpu&fake", 2);
}

static void faults_with_slots(void **unused)
{
    (void)unused;
    run_with_faults("tests/vectors/models/lfm2", "fake;cpu", 3);
}

/* Pages of beams are copied before a step that has another query's rows alone, and that step fails: the beams do not go
 * on without them. */
static void copies_in_a_step_of_others(void **unused)
{
    (void)unused;
    fake_log log = {0};
    const fake_options fake = {.log = &log};
    bool more = true;
    err e = {0};
    int other = 0;
    make_queries(NULL, 40, TOKENS - 1);
    while (queries[other].n < 10 || queries[other].q.beams > 1) other++;
    schedule s = {.g = fake_made(NULL, "fake", 2, &fake)};
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_lock(&s.lock);
    ask(&s, other, 0);
    ask(&s, 6, 0);
    pthread_mutex_unlock(&s.lock);
    while (!s.of[0].n) assert_ok(engine_infer(s.g, &more, &e), &e);
    engine_pause(s.g, s.of[0].id, true);
    while (!s.g->kv.n_copy || steps_under_way(&s.g->steps)) {
        assert_true(more);
        assert_ok(engine_infer(s.g, &more, &e), &e);
    }
    log.fail_at = atomic_load(&log.all) + 1;
    engine_pause(s.g, s.of[0].id, false);
    run_all(s.g);
    for (int i = 0; i < 2; i++) assert_true(s.of[i].ends == 1 && s.of[i].finish == FINISH_ERROR);
    engine_close(s.g);
    pthread_mutex_destroy(&s.lock);
}

typedef struct evaluated {
    float at[60 * 61];
    int64_t rows;
} evaluated;

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    evaluated *to = ctx;
    (void)e;
    assert_int_equal(first, to->rows);
    memcpy(to->at + first * 61, rows, (size_t)(n * 61) * sizeof *rows);
    to->rows += n;
    return OK;
}

/* A text in three chunks at once: all of its rows, or an error; after a fault that passes, the rows. */
static void faults_of_evaluation(void **unused)
{
    (void)unused;
    static evaluated want, got;
    const wanted *w = &queries[0];
    err e = {0};
    engine *g = fake_made(NULL, "cpu", 1, NULL);
    assert_ok(engine_eval(g, w->ids, 60, -1, keep_rows, &want, &e), &e);
    engine_close(g);
    bool reached = true;
    for (unsigned long long k = 1; reached; k++) {
        fake_log log = {.fail_at = k};
        const fake_options fake = {.log = &log};
        err first = {0}, again = {0};
        if (open_fake(&g, NULL, "fake;fake", 3, &fake, &first)) continue;
        got.rows = 0;
        int rc = engine_eval(g, w->ids, 60, -1, keep_rows, &got, &first);
        reached = log.all >= k;
        assert_true((rc != OK) == reached);
        if (reached) assert_non_null(strstr(first.msg, "the fake device is "));
        if (reached) got.rows = 0;
        if (reached) assert_ok(engine_eval(g, w->ids, 60, -1, keep_rows, &got, &again), &again);
        assert_memory_equal(&want, &got, sizeof want);
        engine_close(g);
    }
}

/* What the time of a text is tried on says what has failed. */
static void faults_of_forecasts(void **unused)
{
    (void)unused;
    for (unsigned long long k = 0; k < 60; k++) {
        fake_log log = {.fail_at = k};
        const fake_options fake = {.log = &log};
        engine *g;
        forecast f;
        err e = {0};
        if (open_fake(&g, NULL, "fake;fake", 3, &fake, &e)) continue;
        assert_true((forecast_make(&f, g, 40, &e) != OK) == (k > 0));
        if (k) assert_non_null(strstr(e.msg, "the fake device is "));
        else forecast_free(&f);
        engine_close(g);
    }
}

/* Steps of an engine until a prompt of so many tokens is read. */
static int64_t steps_of_prompt(const char *devices, int in_flight, size_t prompt)
{
    const fake_options fake = {.delay = 0};
    const backend_use more[] = {{&fake_backend, &fake}, {0}};
    const engine_options o = {.devices = devices,
                              .ctx = CTX,
                              .threads = 1,
                              .chunk = 160,
                              .choices.in_flight = in_flight,
                              .more_backends = more};
    err e = {0};
    int32_t ids[CTX];
    engine *g;
    engine_stats stats;
    for (int i = 0; i < CTX; i++) ids[i] = i % 61;
    assert_ok(engine_of_model(&g, rig_model(&shape_of_each, 7, CTX), rig_model_drop, &o, &e), &e);
    const query q = {.ids = ids, .n_ids = prompt, .max_tokens = 1, .n_logprobs = -1};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    run_all(g);
    engine_get_stats(g, &stats);
    engine_close(g);
    return (int64_t)stats.steps;
}

/* A prompt that one step could read is divided where several steps can be worked on at once, if it is long enough. */
static void prompts_are_divided(void **unused)
{
    (void)unused;
    assert_int_equal(steps_of_prompt("fake", 2, 150), 1);
    assert_int_equal(steps_of_prompt("fake&fake", 1, 150), 1);
    assert_int_equal(steps_of_prompt("fake;fake", 1, 150), 1);
    assert_int_equal(steps_of_prompt("fake&fake", 2, 150), 2);
    assert_int_equal(steps_of_prompt("fake&fake", 2, 64), 1);
    assert_int_equal(steps_of_prompt("fake;fake", 3, 150), 2);
    assert_int_equal(steps_of_prompt("fake&fake;fake&fake", 3, 199), 3);
    assert_int_equal(steps_of_prompt("fake;fake", 3, 199), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_of_windows),
                                       cmocka_unit_test(schedules_short_of_pages),
                                       cmocka_unit_test(schedules_of_slots),
                                       cmocka_unit_test(schedules_of_encoders),
                                       cmocka_unit_test(schedules_of_ranks),
                                       cmocka_unit_test(closed_at_work),
                                       cmocka_unit_test(faults),
                                       cmocka_unit_test(faults_with_slots),
                                       cmocka_unit_test(copies_in_a_step_of_others),
                                       cmocka_unit_test(faults_of_evaluation),
                                       cmocka_unit_test(faults_of_forecasts),
                                       cmocka_unit_test(prompts_are_divided)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
