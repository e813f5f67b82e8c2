/* t_engine_in_flight.c - several steps under way on devices that are slow and may fail (fake/fake_backend.h): queries
 * that come, go, wait and are cancelled at random, from the engine's thread and from another; and a device that fails
 * at its k-th call, for every k.
 *
 * Every query ends exactly once. Its tokens are those that it has alone on the CPU, up to where it was stopped. At the
 * end all pages are back. What hangs ends by the time limit of tools/run_tests.sh. */
#include "engine/engine_state.h"
#include "measure/evaluate.h"
#include "fake/fake_backend.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 200, POOL = 14, TOKENS = 24, ASKED = 9, IN_FLIGHT = 4, SEED = 11 };

static const model_shape shape_of_each = {.layers = 2,
                                          .dim = 32,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 10,
                                          .ffn = 40,
                                          .vocab = 61,
                                          .ctx = CTX,
                                          .window = 70,
                                          .rope_dims = 10,
                                          .gated = true,
                                          .type = DTYPE_F32};

/* `folder` NULL: a random model whose rotation depends on the length that a sequence is admitted with. */
static int engine_try(engine **g, const char *folder, const char *devices, int in_flight, const fake_options *fake,
                      err *e)
{
    const backend_use more[] = {{&fake_backend, fake}, {0}};
    const engine_options o = {.model = folder,
                              .devices = devices,
                              .kv = "f32",
                              .ctx = folder ? 96 : CTX,
                              .threads = 1,
                              .chunk = 24,
                              .max_batch = 6,
                              .choices.in_flight = in_flight,
                              .step_sequences = in_flight == 2  ? 1
                                                : in_flight > 3 ? 2
                                                                : 0,
                              .more_backends = more};
    if (folder) return engine_open(g, &o, e);
    model *m = rig_model(&shape_of_each, 7, CTX);
    m->prog->ropes[0].params = (rope_params){
        .scaling = ROPE_DYNAMIC, .dims = 10, .theta = 500, .factor = 2, .max_positions = 50, .truncate = true};
    return engine_of_model(g, m, rig_model_drop, &o, e);
}

static engine *engine_made(const char *folder, const char *devices, int in_flight, const fake_options *fake)
{
    err e = {0};
    engine *g;
    assert_ok(engine_try(&g, folder, devices, in_flight, fake, &e), &e);
    return g;
}

/* ---- queries, and what they give alone */

typedef struct wanted {
    query q;
    int32_t ids[CTX], enc[CTX], token[TOKENS];
    int n;
    finish_reason finish;
} wanted;

static wanted queries[POOL];

static bool keep_token(void *ctx, const token_event *ev)
{
    wanted *w = ctx;
    if (ev->token >= 0) w->token[w->n++] = ev->token;
    w->finish = ev->finish;
    return true;
}

static void run_all(engine *g)
{
    err e = {0};
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
}

/* Queries of all kinds, with prompts of up to `longest` and at most `most` new tokens: greedy, drawn, with
 * log-probabilities, beams. */
static void make_queries(const char *folder, int longest, int most)
{
    err e = {0};
    engine *g = engine_made(folder, "cpu", 1, NULL);
    const engine_info *i = engine_describe(g);
    for (int k = 0; k < POOL; k++) {
        wanted *w = &queries[k];
        *w = (wanted){.n = 0};
        for (int t = 0; t < i->ctx; t++) {
            w->ids[t] = (int32_t)(rng_bits(SEED, (uint64_t)k, (uint64_t)t) % (uint64_t)i->n_vocab);
            w->enc[t] = i->n_enc_vocab ? w->ids[t] % i->n_enc_vocab : 0;
        }
        w->q = (query){.ids = w->ids,
                       .n_ids = 1 + rng_bits(SEED, 100, (uint64_t)k) % (uint64_t)longest,
                       .enc_ids = w->enc,
                       .n_enc = i->n_enc_vocab ? 1 + rng_bits(SEED, 101, (uint64_t)k) % 40 : 0,
                       .max_tokens = 1 + (int64_t)(rng_bits(SEED, 102, (uint64_t)k) % (uint64_t)most),
                       .ignore_eos = k % 4 != 3,
                       .sample = {.temperature = k % 3 == 1 ? 0.8 : 0,
                                  .top_p = 0.9,
                                  .repetition_penalty = k % 5 ? 1 : 1.1,
                                  .typical_p = 1,
                                  .tfs_z = 1,
                                  .seed = k},
                       .beams = k % 7 == 6 ? 3 : 1,
                       .length_penalty = 1,
                       .n_logprobs = k % 4 == 2 ? 1 : -1,
                       .on_token = keep_token,
                       .ctx = w};
        if (w->q.beams > 1) w->q.n_logprobs = -1;
        assert_ok(engine_add_query(g, &w->q, NULL, &e), &e);
        run_all(g);
        assert_true(w->finish != FINISH_NONE && w->finish != FINISH_ERROR);
    }
    engine_close(g);
}

/* ---- schedules */

typedef struct schedule schedule;
typedef struct asked {
    schedule *in;
    const wanted *of;
    uint64_t id;
    int n, ends, leave_at; /* leave_at: its reader goes after so many tokens; 0: never */
    finish_reason finish;
    char error[200];
} asked;

struct schedule {
    engine *g;
    pthread_mutex_t lock;
    asked of[ASKED];
    int n, acts;
    bool actor_done;
    uint64_t seed, turn;
};

static uint64_t chance(schedule *s, uint64_t n) { return rng_bits(s->seed, 200, s->turn++) % n; }

static bool on_token(void *ctx, const token_event *ev)
{
    asked *a = ctx;
    bool stay = true;
    pthread_mutex_lock(&a->in->lock);
    if (a->ends) fail_msg("an event after the end of a query");
    if (ev->token >= 0) {
        if (a->n >= a->of->n || a->of->token[a->n] != ev->token)
            fail_msg("token %d of query %d is %d", a->n, (int)(a->of - queries), ev->token);
        a->n++;
        stay = a->n != a->leave_at;
    }
    a->finish = ev->finish;
    a->ends += ev->finish != FINISH_NONE || !stay;
    if (ev->error) snprintf(a->error, sizeof a->error, "%s", ev->error);
    pthread_mutex_unlock(&a->in->lock);
    return stay;
}

static void ask(schedule *s, int which, int leave_at)
{
    err e = {0};
    asked *a = &s->of[s->n++];
    query q = queries[which].q;
    *a = (asked){.in = s, .of = &queries[which], .leave_at = leave_at};
    q.on_token = on_token;
    q.ctx = a;
    for (int i = 0; i < s->n - 1; i++)
        if (s->of[i].of == a->of) q.same_prompt_as = s->of[i].id; /* it, or what has come of it, may lead */
    pthread_mutex_unlock(&s->lock); /* the engine's thread may call on_token before this returns */
    uint64_t id;
    int rc = engine_add_query(s->g, &q, &id, &e);
    pthread_mutex_lock(&s->lock);
    a->id = id;
    assert_ok(rc, &e);
}

static void act(schedule *s)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t what = chance(s, 20), which = s->n ? chance(s, (uint64_t)s->n) : 0;
    const asked *a = &s->of[which];
    if (what < 7 && s->n < ASKED)
        ask(s, (int)chance(s, s->seed % 3 ? POOL : 3), chance(s, 4) ? 0 : 1 + (int)chance(s, 12));
    else if (what < 9 && s->n) engine_cancel(s->g, a->id);
    else if (what < 13 && s->n) engine_pause(s->g, a->id, true);
    else if (what < 17 && s->n) engine_pause(s->g, a->id, false);
    if (--s->acts == 0) { /* everyone may end */
        s->actor_done = true;
        for (int i = 0; i < s->n; i++) engine_pause(s->g, s->of[i].id, false);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *act_apart(void *of)
{
    schedule *s = of;
    for (bool done = false; !done;) {
        const struct timespec t = {0, (long)(rng_bits(s->seed, 300, (uint64_t)s->acts) % 300) * 1000};
        nanosleep(&t, NULL);
        act(s);
        pthread_mutex_lock(&s->lock);
        done = s->actor_done;
        pthread_mutex_unlock(&s->lock);
    }
    engine_wake(s->g);
    return NULL;
}

static void check_ends(const schedule *s)
{
    engine_stats stats;
    for (int i = 0; i < s->n; i++) {
        const asked *a = &s->of[i];
        assert_int_equal(a->ends, 1);
        if (a->finish == FINISH_ERROR) fail_msg("a query ended with: %s", a->error);
        if (a->finish == FINISH_STOP || a->finish == FINISH_LENGTH) assert_int_equal(a->n, a->of->n);
    }
    engine_get_stats(s->g, &stats);
    assert_true(stats.kv_usage == 0);
    assert_int_equal(stats.running, 0);
    assert_int_equal(s->g->kv.slots.n_free + s->g->kv.slots.n_kept, s->g->kv.slots.total);
    for (int i = 0; i < GROUP_MAX; i++)
        assert_int_equal(s->g->kv.pages[i].n_free + s->g->kv.pages[i].n_kept, s->g->kv.pages[i].total);
}

static void run_schedule(engine *g, uint64_t seed, bool apart)
{
    schedule s = {.g = g, .seed = seed, .acts = 45};
    pthread_t actor;
    err e = {0};
    pthread_mutex_init(&s.lock, NULL);
    if (apart) assert_int_equal(pthread_create(&actor, NULL, act_apart, &s), 0);
    for (bool more = true, done = false; more || !done;) {
        if (!apart && !done) act(&s);
        pthread_mutex_lock(&s.lock);
        done = s.actor_done;
        pthread_mutex_unlock(&s.lock);
        assert_ok(engine_infer(g, &more, &e), &e);
        if (apart && !more && !done) engine_wait(g, 1);
    }
    if (apart) pthread_join(actor, NULL);
    run_all(g);
    pthread_mutex_destroy(&s.lock);
    check_ends(&s);
}

/* pages: of each group; 0: as many as six texts need. */
static void run_schedules_on(const char *folder, const char *devices, uint64_t seed, int n, int pages)
{
    fake_log log = {0};
    const fake_options fake = {.log = &log, .delay = 80, .seed = (uint32_t)seed};
    make_queries(folder, folder ? 50 : CTX - TOKENS - 1, TOKENS - 1);
    engine *g = engine_made(folder, devices, IN_FLIGHT, &fake);
    for (uint32_t i = 0; i < g->prog->n_group && pages; i++) {
        assert_true(pages < g->kv.pages[i].total);
        g->kv.pages[i].total = g->kv.pages[i].n_free = pages;
    }
    for (int i = 0; i < n; i++) run_schedule(g, seed + (uint64_t)i, i % 2);
    engine_close(g);
    assert_true((log.returns > 0) == (strchr(devices, '&') != NULL));
}

static void run_schedules(const char *folder, const char *devices, uint64_t seed, int n)
{
    run_schedules_on(folder, devices, seed, n, 0);
}

/* Beams of the longest text need twelve. */
static void schedules_short_of_pages(void **unused)
{
    (void)unused;
    run_schedules_on(NULL, "cpu;fake", 9000, 40, 13);
    run_schedules_on(NULL, "fake&fake", 9500, 20, 13);
    run_schedules_on("tests/vectors/models/lfm2", "fake;cpu", 9700, 20, 6);
    run_schedules_on("tests/vectors/models/t5", "cpu;fake", 9800, 20, 6);
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

/* An engine that is closed while steps are under way ends its queries. */
static void closed_at_work(void **unused)
{
    (void)unused;
    const fake_options fake = {.delay = 200};
    make_queries(NULL, 100, TOKENS - 1);
    for (int k = 1; k < 8; k++) {
        bool more;
        err e = {0};
        schedule s = {.g = engine_made(NULL, "fake;fake", IN_FLIGHT, &fake)};
        pthread_mutex_init(&s.lock, NULL);
        pthread_mutex_lock(&s.lock);
        for (int i = 0; i < 6; i++) ask(&s, i, 0);
        pthread_mutex_unlock(&s.lock);
        for (int i = 0; i < k; i++) assert_ok(engine_infer(s.g, &more, &e), &e);
        engine_close(s.g);
        for (int i = 0; i < 6; i++) assert_int_equal(s.of[i].ends, 1);
        pthread_mutex_destroy(&s.lock);
    }
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
    int rc = engine_try(&s.g, folder, devices, in_flight, &fake, &e);
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
    schedule s = {.g = engine_made(NULL, "fake", 2, &fake)};
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
    engine *g = engine_made(NULL, "cpu", 1, NULL);
    assert_ok(engine_eval(g, w->ids, 60, -1, keep_rows, &want, &e), &e);
    engine_close(g);
    bool reached = true;
    for (unsigned long long k = 1; reached; k++) {
        fake_log log = {.fail_at = k};
        const fake_options fake = {.log = &log};
        err first = {0}, again = {0};
        if (engine_try(&g, NULL, "fake;fake", 3, &fake, &first)) continue;
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
                                       cmocka_unit_test(prompts_are_divided)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
