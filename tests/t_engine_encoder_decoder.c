/* t_engine_encoder_decoder.c - the engine over encoder-decoders: a query gives the same bits alone and among others, in
 * chunks, on two segments and threads; its encoder runs once, or again after it lost its pages; what is refused. The
 * models are tiny ones of tests/vectors/models: buckets of distances, learned positions, two vocabularies. */
#include "base/rng.h"
#include "engine/decoder_prompt.h"

#include "test.h"

enum { CTX = 120, QUERIES = 9, MAKES_MAX = 24, TEXT_MAX = 110 };

static const char *const models[] = {"t5", "bart", "marian-two"};

typedef struct answer {
    int32_t token[MAKES_MAX];
    float logprob[MAKES_MAX];
    int n, ends;
    finish_reason finish;
} answer;

static bool on_token(void *ctx, const token_event *ev)
{
    answer *a = ctx;
    assert_int_equal(a->ends, 0);
    if (ev->token >= 0) {
        a->logprob[a->n] = ev->logprob;
        a->token[a->n++] = ev->token;
    }
    a->finish = ev->finish;
    a->ends = ev->finish != FINISH_NONE;
    return true;
}

static engine *open_model(const char *name, engine_options o)
{
    char path[200];
    err e = {0};
    engine *g;
    snprintf(path, sizeof path, "tests/vectors/models/%s", name);
    o.model = path;
    o.kv = "f32";
    o.ctx = CTX;
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static const int enc_length[QUERIES] = {1, 2, 63, 64, 65, 110, 7, 100, 31};
static const int dec_length[QUERIES] = {1, 40, 2, 64, 1, 5, 70, 1, 3};
static const int makes[QUERIES] = {24, 3, 20, 10, 24, 1, 9, 17, 24};
static int32_t enc_ids[QUERIES][TEXT_MAX], dec_ids[QUERIES][TEXT_MAX];

static query make_query(const engine *g, int k, answer *a)
{
    const engine_info *i = engine_describe(g);
    for (int t = 0; t < TEXT_MAX; t++) {
        enc_ids[k][t] = (int32_t)(rng_bits(1, (uint64_t)k, (uint64_t)t) % (uint64_t)i->n_enc_vocab);
        dec_ids[k][t] = (int32_t)(rng_bits(2, (uint64_t)k, (uint64_t)t) % (uint64_t)i->n_vocab);
    }
    *a = (answer){0};
    return (query){.ids = dec_ids[k],
                   .n_ids = (size_t)dec_length[k],
                   .enc_ids = enc_ids[k],
                   .n_enc = (size_t)enc_length[k],
                   .max_tokens = makes[k],
                   .ignore_eos = true,
                   .n_logprobs = 0,
                   .sample = {.temperature = k % 2 ? 0.9 : 0,
                              .top_p = 0.95,
                              .repetition_penalty = 1.1,
                              .typical_p = 1,
                              .tfs_z = 1,
                              .fsd_n = 1,
                              .seed = k},
                   .on_token = on_token,
                   .ctx = a};
}

static void run_all(engine *g)
{
    bool more = true;
    err e = {0};
    for (int steps = 0; more; steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 2000);
    }
}

static void alone_and_together(void **unused)
{
    (void)unused;
    static const engine_options ways[] = {{.threads = 1},
                                          {.threads = 2, .chunk = 7},
                                          {.threads = 1, .max_batch = 3, .chunk = 20},
                                          {.threads = 2, .devices = "cpu:1;cpu:2", .chunk = 33}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        static answer alone[QUERIES], got[QUERIES];
        err e = {0};
        engine_stats st;
        engine *g = open_model(models[m], (engine_options){.threads = 1});
        for (int k = 0; k < QUERIES; k++) {
            query q = make_query(g, k, &alone[k]);
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
            run_all(g);
            assert_int_equal(alone[k].n, makes[k]);
        }
        engine_close(g);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            g = open_model(models[m], ways[w]);
            for (int k = 0; k < QUERIES; k++) {
                query q = make_query(g, k, &got[k]);
                assert_ok(engine_add_query(g, &q, NULL, &e), &e);
            }
            run_all(g);
            for (int k = 0; k < QUERIES; k++)
                if (memcmp(&alone[k], &got[k], sizeof got[k]) != 0)
                    fail_msg("%s: query %d of way %zu differs from when it runs alone", models[m], k, w);
            engine_get_stats(g, &st);
            assert_int_equal(st.encoder_runs, QUERIES);
            assert_true(st.kv_usage == 0);
            engine_close(g);
        }
    }
}

/* A paused query may lose its pages: the encoder reads its input again, to the same bits. */
static void pages_lost(void **unused)
{
    (void)unused;
    static answer alone, first, others[2];
    err e = {0};
    uint64_t id;
    bool more;
    engine_stats st;
    engine *g = open_model("t5", (engine_options){.threads = 1, .max_batch = 1});
    query q = make_query(g, 8, &alone);
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    run_all(g);
    q = make_query(g, 8, &first);
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
    engine_pause(g, id, true);
    for (int k = 0; k < 2; k++) {
        q = make_query(g, 5 + 2 * k, &others[k]);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    run_all(g);
    assert_true(others[0].ends && others[1].ends && !first.ends);
    engine_pause(g, id, false);
    run_all(g);
    assert_memory_equal(&alone, &first, sizeof first);
    engine_get_stats(g, &st);
    assert_int_equal(st.encoder_runs, 5);
    engine_close(g);
}

static void refused(void **unused)
{
    (void)unused;
    answer a;
    static int32_t many[CTX + 1];
    engine *g = open_model("marian-two", (engine_options){.threads = 1});
    const int32_t outside[] = {1, engine_describe(g)->n_enc_vocab};
    query good = make_query(g, 0, &a), q = good;
    struct {
        const int32_t *ids;
        size_t n;
        int code;
        const char *text;
    } cases[] = {{NULL, 0, ERR_USAGE, "the encoder input is empty"},
                 {outside, 2, ERR_USAGE, "outside the encoder's vocabulary"},
                 {many, CTX + 1, ERR_LIMIT, "the encoder input has 121 tokens, the context holds 120"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        q.enc_ids = cases[i].ids;
        q.n_enc = cases[i].n;
        assert_int_equal(engine_add_query(g, &q, NULL, &e), cases[i].code);
        assert_non_null(strstr(e.msg, cases[i].text));
    }
    engine_close(g);
    err e = {0};
    engine_options builtin = {.threads = 1, .ctx = 64};
    assert_ok(engine_open(&g, &builtin, &e), &e);
    assert_int_equal(engine_add_query(g, &good, NULL, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "no encoder"));
    engine_close(g);
}

/* What the decoder starts from when the caller says nothing: the ids of the configuration. */
static void starts(void **unused)
{
    (void)unused;
    err e = {0};
    token_list ids = {0};
    engine *g = open_model("bart", (engine_options){.threads = 1});
    assert_ok(engine_decoder_ids(g, NULL, &ids, &e), &e);
    assert_true(ids.n == 1 && ids.id[0] == 0);
    assert_int_equal(engine_decoder_ids(g, "text", &ids, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "tokenizer"));
    token_list_free(&ids);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alone_and_together), cmocka_unit_test(pages_lost),
                                       cmocka_unit_test(refused), cmocka_unit_test(starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
