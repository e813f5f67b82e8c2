/* t_engine_queries.c - the engine over a random model: the same tokens whatever runs beside them, admission, windows,
 * pauses, cancelling, lengths, log-probabilities, errors of one query, memory. */
#include "measure/evaluate.h"
#include "engine/engine_state.h"
#include "measure/perplexity.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 400, VOCAB = 61, TOKENS_MAX = 256 };

/* One layer that sees all, one with a window, one with a convolution. */
static const model_shape shape_of_each = {.layers = 3,
                                          .dim = 32,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 10,
                                          .ffn = 40,
                                          .vocab = VOCAB,
                                          .ctx = CTX,
                                          .window = 70,
                                          .taps = 3,
                                          .rope_dims = 10,
                                          .gated = true,
                                          .type = DTYPE_F32};

static model *new_model(void)
{
    model *m = rig_model(&shape_of_each, 7, CTX);
    m->arch = "Random";
    m->eos[0] = 5;
    m->n_eos = 1;
    return m;
}

static engine *open_with(model *m, const engine_options *o)
{
    err e = {0};
    engine *g;
    assert_ok(engine_of_model(&g, m, rig_model_drop, o, &e), &e);
    return g;
}

static engine *open_engine(const engine_options *o) { return open_with(new_model(), o); }

/* What a query produced. */
typedef struct result {
    int32_t token[TOKENS_MAX];
    float logprob[TOKENS_MAX];
    int n, scored, ends;
    finish_reason finish;
    char error[128];
    int stop_after; /* 0: never */
    engine *g;
    uint64_t id, cancel;
} result;

static bool on_token(void *ctx, const token_event *ev)
{
    result *r = ctx;
    assert_int_equal(r->ends, 0);
    if (ev->index < 0) {
        r->scored++;
    } else if (ev->token >= 0) {
        assert_int_equal(ev->index, r->n);
        r->logprob[r->n] = ev->logprob;
        r->token[r->n++] = ev->token;
    }
    if (ev->finish != FINISH_NONE) {
        r->finish = ev->finish;
        r->ends++;
        if (ev->error) snprintf(r->error, sizeof r->error, "%s", ev->error);
    }
    if (r->cancel && r->n == 3) engine_cancel(r->g, r->cancel);
    if (r->stop_after && r->n == r->stop_after) {
        r->ends++;
        return false;
    }
    return true;
}

static int32_t prompts[32][TOKENS_MAX];

static query make_query(int k, int n, int max_tokens, result *r)
{
    for (int i = 0; i < n; i++) prompts[k][i] = (int32_t)(rng_bits(1, (uint64_t)k, (uint64_t)i) % VOCAB);
    *r = (result){0};
    query q = {.ids = prompts[k],
               .n_ids = (size_t)n,
               .max_tokens = max_tokens,
               .n_logprobs = 2,
               .ignore_eos = true,
               .on_token = on_token,
               .ctx = r};
    q.sample = (sample_params){.temperature = k % 2 ? 0.9 : 0,
                               .top_p = 0.95,
                               .repetition_penalty = 1.1,
                               .typical_p = 1,
                               .tfs_z = 1,
                               .fsd_n = 1,
                               .seed = k};
    return q;
}

static void run_all(engine *g)
{
    bool more = true;
    err e = {0};
    for (int steps = 0; more; steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 5000);
    }
}

static void same_result(const result *a, const result *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->token, b->token, sizeof a->token);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->ends, 1);
    assert_int_equal(b->ends, 1);
}

enum { QUERIES = 12 };
static const int lengths[QUERIES] = {1, 2, 63, 64, 65, 130, 7, 100, 31, 150, 3, 90};
static const int makes[QUERIES] = {40, 9, 70, 5, 64, 30, 90, 1, 20, 45, 66, 17};

/* One after another, then all together in many ways: the same tokens and log-probabilities. */
static void together(void **unused)
{
    (void)unused;
    static result alone[QUERIES], got[QUERIES];
    err e = {0};
    engine_options plain = {.threads = 1, .kv = "f32"};
    engine *g = open_engine(&plain);
    for (int k = 0; k < QUERIES; k++) {
        query q = make_query(k, lengths[k], makes[k], &alone[k]);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        run_all(g);
        assert_int_equal(alone[k].n, makes[k]);
        assert_int_equal(alone[k].finish, FINISH_LENGTH);
    }
    engine_stats st;
    engine_get_stats(g, &st);
    assert_true(st.kv_usage == 0 && st.running == 0 && st.waiting == 0);
    engine_close(g);
    static const engine_options many[] = {
        {.threads = 2, .kv = "f32"},
        {.threads = 1, .kv = "f32", .chunk = 5, .max_batch = 7},
        {.threads = 2, .kv = "f32", .chunk = 64, .max_batch = 2},
        {.threads = 1, .kv = "f32", .chunk = 33, .max_batch = 16, .devices = "cpu:1;cpu:2"},
        {.threads = 1, .kv = "f32", .chunk = 1, .max_batch = 3},
    };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        g = open_engine(&many[i]);
        uint64_t id[QUERIES], tokens = 0;
        for (int k = 0; k < QUERIES; k++) {
            query q = make_query(k, lengths[k], makes[k], &got[k]);
            assert_ok(engine_add_query(g, &q, &id[k], &e), &e);
            bool more;
            if (k % 3 == 0) assert_ok(engine_infer(g, &more, &e), &e); /* some join later */
            tokens += (uint64_t)lengths[k];
        }
        run_all(g);
        for (int k = 0; k < QUERIES; k++) same_result(&alone[k], &got[k]);
        engine_get_stats(g, &st);
        assert_true(st.kv_usage == 0 && st.prompt_tokens == tokens);
        engine_close(g);
    }
}

/* Pages or slots for one sequence only: others wait, paused ones lose their cache and compute it again. */
static void check_pauses(bool slots)
{
    static result alone[4], got[4];
    err e = {0};
    bool more;
    engine_options o = {.threads = 1, .kv = "f32", .chunk = 50};
    engine *g = open_engine(&o);
    for (int k = 0; k < 4; k++) {
        query q = make_query(k, 100, 80, &alone[k]);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    run_all(g);
    tree_clear(&g->kv.tree); /* leave pages for one sequence: 3 of the unlimited group */
    for (int i = 0; i < 2 && !slots; i++) g->kv.pages[i].total = g->kv.pages[i].n_free = 3;
    if (slots) g->kv.slots.total = g->kv.slots.n_free = 2;
    uint64_t id[4];
    for (int k = 0; k < 4; k++) {
        query q = make_query(k, 100, 80, &got[k]);
        assert_ok(engine_add_query(g, &q, &id[k], &e), &e);
    }
    for (int i = 0; i < 20; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_true(got[0].n > 0 && got[1].n == 0);
    engine_pause(g, id[0], true);
    engine_pause(g, id[2], true);
    int held = got[0].n;
    run_all(g); /* the second and fourth run; the first lost its pages, the third never started */
    assert_int_equal(got[0].n, held);
    assert_int_equal(got[1].n, 80);
    assert_int_equal(got[2].n, 0);
    assert_int_equal(got[3].n, 80);
    engine_pause(g, id[0], false);
    engine_pause(g, id[2], false);
    run_all(g);
    for (int k = 0; k < 4; k++) same_result(&alone[k], &got[k]);
    assert_true(g->kv.slots.n_free + g->kv.slots.n_kept == g->kv.slots.total);
    engine_close(g);
}

static void pauses(void **unused)
{
    (void)unused;
    check_pauses(false);
    check_pauses(true);
}

static void ends(void **unused)
{
    (void)unused;
    static result r[6];
    err e = {0};
    engine_options o = {.threads = 1, .chunk = 300}; /* all prompts in one step */
    engine *g = open_engine(&o);
    query q[6];
    uint64_t id[6];
    for (int k = 0; k < 6; k++) q[k] = make_query(k, 20, 30, &r[k]);
    r[0].stop_after = 4;                     /* the callback had enough */
    q[1] = make_query(1, 180, 10000, &r[1]); /* until the context is full */
    q[2].max_tokens = 0;                     /* the prompt only, with log-probabilities */
    q[2].prompt_logprobs = true;
    logit_bias end = {.id = 5, .bias = 1000};
    q[3].bias = &end, q[3].n_bias = 1, q[3].ignore_eos = false; /* ends at once, but for min_tokens */
    q[3].min_tokens = 6;
    q[4].ignore_eos = false, q[4].bias = &end, q[4].n_bias = 1;
    for (int k = 0; k < 6; k++) assert_ok(engine_add_query(g, &q[k], &id[k], &e), &e);
    r[0].g = g;
    r[0].cancel = id[5];
    run_all(g);
    assert_int_equal(r[0].n, 4);
    assert_int_equal(r[1].n, CTX - 180);
    assert_int_equal(r[1].finish, FINISH_LENGTH);
    assert_true(r[2].n == 0 && r[2].scored == 19 && r[2].finish == FINISH_LENGTH);
    assert_true(r[3].n == 6 && r[3].finish == FINISH_STOP);
    assert_true(r[4].n == 0 && r[4].finish == FINISH_STOP);
    assert_true(r[5].n >= 2 && r[5].n <= 3 && r[5].finish == FINISH_CANCELLED);
    engine_close(g);
}

static void refused(void **unused)
{
    (void)unused;
    static result r;
    engine_options o = {.threads = 1};
    engine *g = open_engine(&o);
    query q = make_query(0, 100, 10, &r);
    static int32_t many[CTX + 1];
    const struct {
        const int32_t *ids;
        size_t n;
        int code;
        const char *says;
    } bad[] = {
        {many, 0, ERR_USAGE, "empty"},
        {many, CTX + 1, ERR_LIMIT, "401 tokens, the context holds 400"},
        {many, CTX, ERR_LIMIT, "no room"},
        {(int32_t[]){1, VOCAB}, 2, ERR_USAGE, "61 is outside the vocabulary of 61"},
        {(int32_t[]){-1}, 1, ERR_USAGE, "-1 is outside"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        q.ids = bad[i].ids;
        q.n_ids = bad[i].n;
        assert_int_equal(engine_add_query(g, &q, NULL, &e), bad[i].code);
        if (!strstr(e.msg, bad[i].says)) fail_msg("%s", e.msg);
    }
    int rc = 0, n = 0;
    err e = {0};
    q = make_query(0, 1, 1, &r);
    q.on_token = NULL;
    for (; !rc; n++) rc = engine_add_query(g, &q, NULL, &e);
    assert_int_equal(rc, ERR_BUSY);
    assert_int_equal(n, QUEUE_MAX + engine_describe(g)->max_batch + 1); /* places are free */
    engine_close(g);
}

/* Rows of logits and hidden states, whatever the chunk. */
typedef struct rows_seen {
    float *to;
    int64_t width, next;
} rows_seen;

static int on_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    rows_seen *s = ctx;
    assert_int_equal(first, s->next);
    memcpy(s->to + first * s->width, rows, (size_t)(n * s->width) * sizeof *rows);
    s->next += n;
    return 0;
}

static void evaluation(void **unused)
{
    (void)unused;
    enum { N = 350 };
    static float want[2][N * VOCAB], got[N * VOCAB];
    static int32_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * i + 3) % VOCAB;
    for (int layer = -1; layer <= 3; layer++)
        for (int i = 0; i < 3; i++) {
            err e = {0};
            engine_options o = {.threads = 1 + i % 2,
                                .chunk = i == 0   ? 512
                                         : i == 1 ? 7
                                                  : 300,
                                .kv = "f32",
                                .devices = i == 2 ? "cpu:1;cpu:1" : NULL};
            engine *g = open_engine(&o);
            rows_seen s = {.to = i ? got : want[0], .width = layer < 0 ? VOCAB : 32};
            assert_ok(engine_eval(g, ids, N, layer, on_rows, &s, &e), &e);
            assert_int_equal(s.next, N);
            if (i) assert_memory_equal(want[0], got, (size_t)(N * s.width) * sizeof *got);
            assert_int_equal(engine_eval(g, ids, CTX + 1, layer, on_rows, &s, &e), ERR_LIMIT);
            engine_close(g);
        }
}

/* Both methods against sums over rows of logits, in double with libm. */
static double row_loss(const float *l, int32_t id)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += exp((double)l[i] - (double)l[id]);
    return log(sum);
}

static void perplexity(void **unused)
{
    (void)unused;
    enum { N = 230, W = 100 };
    static float rows[W * VOCAB];
    static int32_t ids[N], window[W];
    err e = {0};
    engine *g = open_engine(&(engine_options){.threads = 2, .kv = "f32"});
    for (int i = 0; i < N; i++) ids[i] = (i * i + 3) % VOCAB;
    for (int method = 0; method < 3; method++) {
        const windows o = {.window = W, .stride = method == 2 ? 60 : 0, .bos = method == 1 ? 1 : -1};
        double sum = 0;
        int64_t count = 0;
        for (int begin = 0, scored = 1; method == 2 ? scored < N : begin + W <= N; begin += method == 2 ? 60 : W) {
            int end = begin + W < N ? begin + W : N;
            memcpy(window, ids + begin, (size_t)(end - begin) * sizeof *ids);
            if (method == 1) window[0] = 1;
            rows_seen s = {.to = rows, .width = VOCAB};
            assert_ok(engine_eval(g, window, (size_t)(end - begin), -1, on_rows, &s, &e), &e);
            for (int i = begin + (method == 2 ? 1 : W / 2 + 1); i < end; i++) {
                if (method == 2 && i < scored) continue;
                sum += row_loss(rows + (i - 1 - begin) * VOCAB, ids[i]);
                count++;
            }
            scored = end;
        }
        perplexity_result r;
        assert_ok(perplexity_measure(g, ids, N, &o, &r, &e), &e);
        assert_int_equal(r.tokens, count);
        assert_true(fabs(r.nll - sum / (double)count) < 1e-6);
        assert_int_equal(count, method == 2 ? N - 1 : 2 * 49);
    }
    perplexity_result r;
    assert_int_equal(perplexity_measure(g, ids, W - 1, &(windows){.window = W, .bos = -1}, &r, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "99 tokens, one window needs 100"));
    engine_close(g);
}

/* A weight with a NaN in one row of the embedding table ends the queries that use it, and no other. */
static void one_bad_query(void **unused)
{
    (void)unused;
    static result r[2];
    err e = {0};
    engine_options o = {.threads = 1};
    model *m = new_model();
    float *table = (float *)m->prog->weights[0].pieces[0].data;
    table[9 * 32 + 3] = NAN; /* before it is opened: a device has bytes of its own */
    engine *g = open_with(m, &o);
    query a = make_query(0, 20, 10, &r[0]), b = make_query(2, 20, 10, &r[1]);
    for (int i = 0; i < 20; i++) prompts[0][i] = 8, prompts[2][i] = i == 3 ? 9 : 8;
    assert_ok(engine_add_query(g, &b, NULL, &e), &e);
    assert_ok(engine_add_query(g, &a, NULL, &e), &e);
    run_all(g);
    assert_true(r[0].finish == FINISH_LENGTH || r[0].finish == FINISH_ERROR);
    assert_int_equal(r[1].finish, FINISH_ERROR);
    assert_non_null(strstr(r[1].error, "no finite logit"));
    assert_int_equal(r[0].n, 10);
    engine_close(g);
}

static void short_of_memory(void **unused)
{
    (void)unused;
    int n = 1;
    for (bool fired = true; fired; n++) {
        err e = {0};
        engine *g;
        model *m = rig_model(&shape_of_each, 7, CTX);
        mem_fail_at(n);
        int rc = engine_of_model(&g, m, rig_model_drop, &(engine_options){.threads = 2}, &e);
        fired = mem_fail_at(0);
        assert_int_equal(rc, fired ? ERR_MEMORY : 0);
        engine_close(g);
    }
    assert_true(n > 30);
    engine *g = open_engine(&(engine_options){.threads = 1});
    n = 1;
    for (bool fired = true; fired; n++) {
        err e = {0};
        static result r;
        query q = make_query(0, 10, 10, &r);
        mem_fail_at(n);
        int rc = engine_add_query(g, &q, NULL, &e);
        fired = mem_fail_at(0);
        assert_int_equal(rc, fired ? ERR_MEMORY : 0);
    }
    run_all(g);
    engine_close(g);
}

/* No thread allocates while queries run: the first allocation would fail. */
static void steps_allocate_nothing(void **unused)
{
    (void)unused;
    static result r[3];
    err e = {0};
    engine *g = open_engine(&(engine_options){.threads = 2, .chunk = 40, .devices = "cpu:1;cpu:1"});
    for (int k = 0; k < 3; k++) {
        query q = make_query(k, 70 + k, 20, &r[k]);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    mem_fail_at(1);
    run_all(g);
    assert_false(mem_fail_at(0));
    for (int k = 0; k < 3; k++) assert_int_equal(r[k].n, 20);
    engine_close(g);
}

/* Two threads add, pause and cancel while the engine runs (for `make tsan`). */
static void *add_many(void *arg)
{
    engine *g = arg;
    static result r[2][20];
    static int turn;
    int me = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
    static int32_t ids[3] = {1, 2, 3};
    for (int i = 0; i < 20; i++) {
        err e = {0};
        uint64_t id;
        query q = {.ids = ids,
                   .n_ids = 3,
                   .max_tokens = 5,
                   .n_logprobs = -1,
                   .ignore_eos = true,
                   .on_token = on_token,
                   .ctx = &r[me][i]};
        assert_ok(engine_add_query(g, &q, &id, &e), &e);
        engine_pause(g, id, true);
        engine_stats st;
        engine_slot slots[8];
        engine_get_stats(g, &st);
        int n = engine_slots(g, slots, 8);
        assert_true(n <= 8 && (n == 0 || slots[0].prompt_tokens == 3));
        engine_pause(g, id, false);
        if (i % 4 == 0) engine_cancel(g, id);
    }
    return NULL;
}

static void slots_tell_how_far_queries_are(void **unused)
{
    (void)unused;
    static result r[3];
    engine *g = open_engine(&(engine_options){.threads = 1, .max_batch = 1});
    engine_slot slots[4];
    uint64_t id[2];
    err e = {0};
    bool more;
    for (int i = 0; i < 2; i++) {
        query q = make_query(i, 10 + i, 20, &r[i]);
        assert_ok(engine_add_query(g, &q, &id[i], &e), &e);
    }
    assert_int_equal(engine_slots(g, slots, 1), 1);
    assert_int_equal(engine_slots(g, slots, 4), 2);
    assert_true(slots[0].id == id[1] && slots[0].state == ENGINE_SLOT_WAITING && slots[0].prompt_tokens == 11);
    for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(engine_slots(g, slots, 4), 2);
    assert_true(slots[1].id == id[0] && slots[1].state == ENGINE_SLOT_RUNNING && slots[0].state == ENGINE_SLOT_WAITING);
    assert_int_equal(slots[1].generated, r[0].n);
    assert_int_equal(slots[1].past, 10 + r[0].n - 1);
    engine_pause(g, id[0], true);
    assert_int_equal(engine_slots(g, slots, 4), 2);
    assert_int_equal(slots[1].state, ENGINE_SLOT_PAUSED);
    engine_pause(g, id[0], false);
    run_all(g);
    assert_int_equal(engine_slots(g, slots, 4), 0);
    engine_close(g);
}

typedef struct reading {
    int64_t read;
    int told, made;
} reading;

static bool on_reading(void *ctx, const token_event *ev)
{
    reading *r = ctx;
    if (ev->prompt_read) {
        assert_true(ev->token < 0 && !ev->finish && !r->made && ev->prompt_read > r->read);
        r->read = ev->prompt_read;
        r->told++;
    } else if (ev->token >= 0) {
        r->made++;
    }
    return true;
}

/* A prompt of several steps tells each part that was read but the last, if asked to. */
static void reading_of_a_prompt_is_told(void **unused)
{
    (void)unused;
    static result unseen;
    engine *g = open_engine(&(engine_options){.threads = 1, .max_batch = 2, .chunk = 32});
    for (int i = 0; i < 2; i++) {
        uint64_t id;
        err e = {0};
        reading r = {0};
        query q = make_query(0, 150, 3, &unseen);
        q.tells_reading = i;
        q.on_token = on_reading;
        q.ctx = &r;
        assert_ok(engine_add_query(g, &q, &id, &e), &e);
        run_all(g);
        assert_int_equal(r.made, 3);
        assert_int_equal(r.told, i ? 4 : 0);
        assert_int_equal(r.read, i ? 128 : 0);
    }
    engine_close(g);
}

static void threads(void **unused)
{
    (void)unused;
    engine *g = open_engine(&(engine_options){.threads = 2, .max_batch = 4});
    pthread_t t[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, add_many, g), 0);
    bool more = true;
    err e = {0};
    for (int i = 0; i < 200; i++) {
        if (!more) engine_wait(g, 1);
        assert_ok(engine_infer(g, &more, &e), &e);
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    run_all(g);
    engine_stats st;
    engine_get_stats(g, &st);
    assert_true(st.running == 0 && st.waiting == 0 && st.kv_usage == 0);
    engine_wake(g);
    engine_wait(g, -1);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(together),
                                       cmocka_unit_test(pauses),
                                       cmocka_unit_test(ends),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(evaluation),
                                       cmocka_unit_test(perplexity),
                                       cmocka_unit_test(one_bad_query),
                                       cmocka_unit_test(short_of_memory),
                                       cmocka_unit_test(steps_allocate_nothing),
                                       cmocka_unit_test(slots_tell_how_far_queries_are),
                                       cmocka_unit_test(reading_of_a_prompt_is_told),
                                       cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
