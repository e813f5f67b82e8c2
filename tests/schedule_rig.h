/* schedule_rig.h - for tests: queries that come, go, wait and are cancelled at random, from the engine's thread and
 * from another, while several steps are under way.
 *
 * Every query ends exactly once. Its tokens are those that it has alone on the CPU, up to where it was stopped. At the
 * end all pages are back. What hangs ends by the time limit of tools/run_tests.sh. */
#pragma once
#include "engine/engine_state.h"
#include "measure/evaluate.h"
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

static int schedule_kv_host; /* engine_options.kv_host */

/* `folder` NULL: a random model whose rotation depends on the length that a sequence is admitted with. */
static inline int engine_try(engine **g, const char *folder, const char *devices, int in_flight,
                             const backend_use *more, err *e)
{
    const engine_options o = {.model = folder,
                              .devices = devices,
                              .kv = "f32",
                              .ctx = folder ? 96 : CTX,
                              .threads = 1,
                              .chunk = 24,
                              .max_batch = 6,
                              .kv_host = schedule_kv_host,
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

static inline engine *engine_made(const char *folder, const char *devices, int in_flight, const backend_use *more)
{
    err e = {0};
    engine *g;
    assert_ok(engine_try(&g, folder, devices, in_flight, more, &e), &e);
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

static inline bool keep_token(void *ctx, const token_event *ev)
{
    wanted *w = ctx;
    if (ev->token >= 0) w->token[w->n++] = ev->token;
    w->finish = ev->finish;
    return true;
}

static inline void run_all(engine *g)
{
    err e = {0};
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
}

/* Queries of all kinds, with prompts of up to `longest` and at most `most` new tokens: greedy, drawn, with
 * log-probabilities, beams. */
static inline void make_queries(const char *folder, int longest, int most)
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

static inline uint64_t chance(schedule *s, uint64_t n) { return rng_bits(s->seed, 200, s->turn++) % n; }

static inline bool on_token(void *ctx, const token_event *ev)
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

static inline void ask(schedule *s, int which, int leave_at)
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

static inline void act(schedule *s)
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

static inline void *act_apart(void *of)
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

static inline void check_ends(const schedule *s)
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

static inline void run_schedule(engine *g, uint64_t seed, bool apart)
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

/* n schedules on an engine, which is closed then. pages: of each group; 0: as many as six texts need. */
static inline void run_schedules_on(engine *g, uint64_t seed, int n, int pages)
{
    for (uint32_t i = 0; i < g->prog->n_group && pages; i++) {
        assert_true(pages < g->kv.pages[i].total);
        g->kv.pages[i].total = g->kv.pages[i].n_free = pages;
    }
    for (int i = 0; i < n; i++) run_schedule(g, seed + (uint64_t)i, i % 2);
    engine_close(g);
}

/* What run_schedules_on asks for, of a folder; NULL: of the random model. */
static inline void make_schedule_queries(const char *folder)
{
    make_queries(folder, folder ? 50 : CTX - TOKENS - 1, TOKENS - 1);
}

/* An engine of the random model that is closed while steps are under way, after k of them, ends its queries. */
static inline void close_at_work(engine *g, int k)
{
    bool more;
    err e = {0};
    schedule s = {.g = g};
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_lock(&s.lock);
    for (int i = 0; i < 6; i++) ask(&s, i, 0);
    pthread_mutex_unlock(&s.lock);
    for (int i = 0; i < k; i++) assert_ok(engine_infer(g, &more, &e), &e);
    engine_close(g);
    for (int i = 0; i < 6; i++) assert_int_equal(s.of[i].ends, 1);
    pthread_mutex_destroy(&s.lock);
}
