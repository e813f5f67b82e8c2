/* t_snapshot.c - texts of models with states of fixed size share prefixes up to the last snapshot: tokens and
 * log-probabilities are those of a fresh engine, bit for bit, and what was found is what was not computed; with pages
 * besides, with windows, and with slots alone; one after another, at once, when the one that computes leaves, for
 * choices and beams, with guesses, when slots, names and pages are short, on several devices, when one fails. */
#include "engine/engine_state.h"
#include "fake/fake_backend.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 1280, VOCAB = 61, TOKENS = 24, QUERIES = 6, COMMON = 1000, STOP = SNAPSHOT_TOKENS };

static fake_log done;
static const fake_options fake_of_each = {.log = &done, .delay = 20};
static const backend_use more_backends[] = {{&fake_backend, &fake_of_each}, {0}};

/* What the layers are: convolutions and attention; and attention in a window; convolutions alone. */
enum { HYBRID, WINDOWED, ALONE, KINDS };

static engine *open_engine(engine_options o, int kind)
{
    err e = {0};
    engine *g;
    const model_shape of = {.layers = kind == ALONE ? 3 : 4,
                            .dim = 32,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 10,
                            .ffn = 40,
                            .vocab = VOCAB,
                            .ctx = CTX,
                            .window = kind == WINDOWED ? 70 : 0,
                            .taps = 100,
                            .only_taps = kind == ALONE,
                            .rope_dims = 10,
                            .gated = true,
                            .type = DTYPE_F32};
    o.threads = 1;
    o.kv = "f32";
    o.more_backends = more_backends;
    assert_ok(engine_of_model(&g, rig_model(&of, 7, CTX), rig_model_drop, &o, &e), &e);
    if (o.draft) assert_ok(draft_open(&g->guesses, g, &e), &e);
    return g;
}

typedef struct text {
    int32_t ids[CTX], token[TOKENS];
    float logprob[TOKENS];
    query q;
    uint64_t id;
    int n, ends;
    int64_t cached;
    finish_reason finish;
} text;

static bool on_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    assert_int_equal(t->ends, 0);
    if (ev->error && !done.fail_at) fail_msg("%s", ev->error);
    if (ev->index >= 0) t->cached = ev->cached_tokens;
    if (ev->token >= 0 && ev->index >= 0) t->logprob[t->n] = ev->logprob, t->token[t->n++] = ev->token;
    t->ends = ev->finish != FINISH_NONE;
    t->finish = ev->finish;
    return true;
}

/* Text k: `common` ids that all have, then its own. The third of each is a search with beams. */
static void make_text(text *t, int k, int common, int n, int most)
{
    *t = (text){.n = 0};
    for (int i = 0; i < n; i++)
        t->ids[i] = (int32_t)(rng_bits(3, i < common ? 0 : (uint64_t)k + 1, (uint64_t)i) % VOCAB);
    t->q = (query){.ids = t->ids,
                   .n_ids = (size_t)n,
                   .max_tokens = most,
                   .ignore_eos = true,
                   .sample = {.temperature = k % 2 ? 0.9 : 0,
                              .top_p = 0.9,
                              .repetition_penalty = 1.1,
                              .typical_p = 1,
                              .tfs_z = 1,
                              .fsd_n = 1,
                              .seed = k},
                   .beams = k % 3 == 2 ? 3 : 1,
                   .length_penalty = 1,
                   .n_logprobs = k % 3 == 1 ? 2 : -1,
                   .on_token = on_token,
                   .ctx = t};
}

static void add(engine *g, text *t)
{
    err e = {0};
    assert_ok(engine_add_query(g, &t->q, &t->id, &e), &e);
}

static void run_all(engine *g)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more; steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 50000);
    }
}

static void same(const text *a, const text *b)
{
    assert_int_equal(b->ends, 1);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->token, b->token, sizeof a->token);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
}

static void run_alone(text *t, int kind)
{
    engine *g = open_engine((engine_options){.max_batch = 4}, kind);
    add(g, t);
    run_all(g);
    assert_int_equal(t->cached, 0);
    engine_close(g);
}

static void all_given_back(engine *g)
{
    engine_stats st;
    engine_get_stats(g, &st);
    assert_true(st.kv_usage == 0 && st.pages_used == 0 && g->preemptions == st.preemptions);
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        assert_int_equal(g->pages[i].n_free + g->pages[i].n_kept, g->pages[i].total);
    assert_int_equal(g->slots.n_free + g->slots.n_kept, g->slots.total);
    for (int32_t i = 0; i < g->names.n; i++) assert_null(g->names.name[i].filler);
    tree_clear(&g->names);
    assert_int_equal(g->slots.n_free, g->slots.total);
    int unused = 0;
    for (int32_t i = g->names.free; i >= 0; i = g->names.name[i].next) unused++;
    assert_int_equal(unused, g->names.n);
}

static const struct {
    const char *devices;
    int in_flight, chunk, max_batch;
} ways[] = {{NULL, 0, 0, 32},
            {NULL, 0, 100, 6},
            {"cpu:1&cpu:1", 2, 300, 32},
            {"cpu&fake;fake", 4, 77, 32},
            {"fake;fake", 5, 256, 9}};
enum { WAYS = sizeof ways / sizeof *ways };

static engine *open_way(int i, int kind, const char *guess)
{
    return open_engine((engine_options){.devices = ways[i].devices,
                                        .in_flight = ways[i].in_flight,
                                        .chunk = ways[i].chunk,
                                        .max_batch = ways[i].max_batch,
                                        .draft = guess},
                       kind);
}

/* One after another: the first 768 of 1 000 common tokens are found, then the whole stops of each prompt. */
static void one_after_another(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_text(&alone[k], k, COMMON, COMMON + 3 + 21 * k, TOKENS);
            run_alone(&alone[k], kind);
        }
        for (int w = kind % 2; w < WAYS; w += kind ? 2 : 1) {
            engine *g = open_way(w, kind, NULL);
            engine_stats st;
            uint64_t all = 0, cached = 0;
            for (int turn = 0; turn < 2; turn++)
                for (int k = 0; k < QUERIES; k++) {
                    make_text(&got[k], k, COMMON, COMMON + 3 + 21 * k, TOKENS);
                    add(g, &got[k]);
                    run_all(g);
                    same(&alone[k], &got[k]);
                    const int64_t stops = (got[k].q.n_ids - 1) / STOP * STOP;
                    assert_int_equal(got[k].cached, turn ? stops : k ? COMMON / STOP * STOP : 0);
                    all += got[k].q.n_ids;
                    cached += (uint64_t)got[k].cached;
                }
            engine_get_stats(g, &st);
            assert_true(st.prompt_tokens == all && st.cached_tokens == cached && st.recomputed_tokens == 0);
            all_given_back(g);
            engine_close(g);
        }
    }
}

/* All at once, from nothing: the first computes what is common, the others wait for its snapshots. */
static void at_once(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_text(&alone[k], k, k == 4 ? 600 : COMMON, COMMON + 32, 20);
            run_alone(&alone[k], kind);
        }
        for (int w = kind % 2; w < WAYS; w += kind ? 2 : 1)
            for (int leaves = 0; leaves < 2; leaves++) {
                engine *g = open_way(w, kind, NULL);
                err e = {0};
                bool more;
                for (int k = 0; k < QUERIES; k++) {
                    make_text(&got[k], k, k == 4 ? 600 : COMMON, COMMON + 32, 20);
                    add(g, &got[k]);
                }
                for (int i = 0; i < 4 && leaves; i++) assert_ok(engine_infer(g, &more, &e), &e);
                if (leaves && w == 1) engine_pause(g, got[0].id, true);
                else if (leaves) engine_cancel(g, got[0].id);
                run_all(g);
                engine_pause(g, got[0].id, false);
                run_all(g);
                for (int k = 0; k < QUERIES; k++) {
                    if (got[k].finish == FINISH_CANCELLED) continue;
                    same(&alone[k], &got[k]);
                    if (!leaves && k) assert_int_equal(got[k].cached, (k == 4 ? 600 : COMMON) / STOP * STOP);
                }
                all_given_back(g);
                engine_close(g);
            }
    }
}

/* Choices of one prompt: it is read once, and all have their first token at once. */
static void choices(void **unused)
{
    (void)unused;
    enum { CHOICES = 4 };
    static text alone[CHOICES], got[CHOICES];
    for (int kind = 0; kind < KINDS; kind++)
        for (int prompt = 500; prompt <= 512; prompt += 12) { /* 512: the slot where they part is a snapshot */
            for (int k = 0; k < CHOICES; k++) {
                make_text(&alone[k], 1, 0, prompt, TOKENS);
                alone[k].q.sample.choice = k;
                alone[k].q.sample.temperature = 1.2;
                run_alone(&alone[k], kind);
            }
            for (int w = kind; w < 2 * WAYS; w += kind ? 5 : 1) {
                engine *g = open_way(w / 2, kind, w % 2 ? "ngram" : NULL);
                err e = {0};
                bool more;
                engine_stats st;
                for (int k = 0; k < CHOICES; k++) {
                    make_text(&got[k], 1, 0, prompt, TOKENS);
                    got[k].q.sample = alone[k].q.sample;
                    got[k].q.like = k ? got[0].id : 0;
                    add(g, &got[k]);
                }
                while (!got[0].n) assert_ok(engine_infer(g, &more, &e), &e);
                for (int k = 0; k < CHOICES; k++) assert_true(got[k].n == 1 && got[k].cached == 0);
                run_all(g);
                for (int k = 0; k < CHOICES; k++) same(&alone[k], &got[k]);
                engine_get_stats(g, &st);
                assert_true(st.prompt_tokens == (uint64_t)prompt && st.recomputed_tokens == 0);
                all_given_back(g);
                engine_close(g);
            }
        }
}

/* A text goes on: what it has generated is found too; with guesses, which are not kept where they fail. */
static void goes_on(void **unused)
{
    (void)unused;
    static text first, next, alone;
    for (int kind = 0; kind < KINDS; kind++)
        for (int w = kind; w < 2 * WAYS; w += kind ? 5 : 1)
            for (int k = 0; k < 2; k++) {
                engine *g = open_way(w / 2, kind, w % 2 ? "ngram" : NULL);
                make_text(&first, k, 0, 500, TOKENS);
                add(g, &first);
                run_all(g);
                make_text(&next, k, 0, 500, TOKENS);
                memcpy(next.ids + 500, first.token, sizeof first.token);
                next.q.n_ids = 500 + TOKENS;
                alone = next;
                alone.q.ids = alone.ids;
                alone.q.ctx = &alone;
                add(g, &next);
                run_all(g);
                assert_int_equal(next.cached, 512);
                run_alone(&alone, kind);
                same(&alone, &next);
                all_given_back(g);
                engine_close(g);
            }
}

/* Few slots, names and pages: snapshots make room, the oldest first, and no text is changed. */
static void short_of_slots(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[2 * QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_text(&alone[k], k, 300 * (k % 3), 300 + 90 * k, TOKENS);
            run_alone(&alone[k], kind);
        }
        for (int w = kind; w < 3 * WAYS; w += 4) {
            engine *g = open_way(w / 3, kind, w % 2 ? "ngram" : NULL);
            g->slots.total = g->slots.n_free = 6 + w % 3; /* beams take six */
            if (w % 3 == 1) g->names.cap = 70;
            for (uint32_t i = 0; i < g->prog->n_group && w % 3 == 2; i++) {
                const int64_t rows = g->chunk * g->steps.in_flight;
                g->pages[i].total = g->pages[i].n_free = 3 * pages_needed(1000, g->prog->group_window[i], rows) + 2;
            }
            for (int k = 0; k < 2 * QUERIES; k++) {
                const int of = (int)(rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES);
                make_text(&got[k], of, 300 * (of % 3), 300 + 90 * of, TOKENS);
                add(g, &got[k]);
                if (k % 5 == 4) run_all(g);
            }
            run_all(g);
            for (int k = 0; k < 2 * QUERIES; k++)
                same(&alone[rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES], &got[k]);
            all_given_back(g);
            engine_close(g);
        }
    }
}

/* Of three snapshots for which there is room the one that was used last stays. */
static void oldest_goes_first(void **unused)
{
    (void)unused;
    static text t;
    static const int order[] = {0, 1, 2, 0, 3, 0, 1}, found[] = {0, 0, 0, 256, 0, 256, 0};
    engine *g = open_engine((engine_options){.max_batch = 1}, HYBRID);
    g->slots.total = g->slots.n_free = 5;
    for (int i = 0; i < 7; i++) {
        make_text(&t, 3 * order[i], 0, 300, 5);
        add(g, &t);
        run_all(g);
        assert_int_equal(t.cached, found[i]);
    }
    all_given_back(g);
    engine_close(g);
}

/* A step fails, with a snapshot or without: texts that have no rows in it go on, and so does one that comes after. */
static void faults(void **unused)
{
    (void)unused;
    enum { TEXTS = 4 };
    static text alone[TEXTS], got[TEXTS];
    for (int k = 0; k < TEXTS; k++) {
        make_text(&alone[k], k, 530, 550, 6);
        run_alone(&alone[k], HYBRID);
    }
    int failed = 0;
    bool reached = true;
    for (unsigned at = 1; reached; at += 5) {
        engine *g = open_way(4, HYBRID, NULL);
        done.fail_at = atomic_load(&done.all) + at;
        for (int k = 0; k < TEXTS; k++) {
            make_text(&got[k], k, 530, 550, 6);
            add(g, &got[k]);
            if (k >= TEXTS - 2) run_all(g);
            if (k == TEXTS - 2) reached = atomic_load(&done.all) >= done.fail_at;
        }
        for (int k = 0; k < TEXTS; k++) {
            assert_int_equal(got[k].ends, 1);
            if (got[k].finish != FINISH_ERROR) same(&alone[k], &got[k]);
            else failed++;
        }
        if (reached) assert_int_equal(got[TEXTS - 1].n, 6);
        all_given_back(g);
        engine_close(g);
        done.fail_at = 0;
    }
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_another),
                                       cmocka_unit_test(at_once),
                                       cmocka_unit_test(choices),
                                       cmocka_unit_test(goes_on),
                                       cmocka_unit_test(short_of_slots),
                                       cmocka_unit_test(oldest_goes_first),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
