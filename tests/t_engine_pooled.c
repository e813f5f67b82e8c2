/* t_engine_pooled.c - queries that want one vector for a text: the same bits alone and in any company, for encoders and
 * decoders; what encoders refuse; logits of every row of an encoder, however many fit a step. */
#include "measure/evaluate.h"
#include "engine/engine_state.h"
#include "measure/perplexity.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 300, VOCAB = 61, DIM = 32, SCORES = 3, TEXTS = 14 };

static const model_shape encoder = {.layers = 3,
                                    .dim = DIM,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 10,
                                    .ffn = 40,
                                    .vocab = VOCAB,
                                    .ctx = CTX,
                                    .window = 40,
                                    .rope_dims = 10,
                                    .gated = true,
                                    .full = true,
                                    .pooled = true,
                                    .type = DTYPE_F32};

static engine *open_engine(const model_shape *of, const engine_options *o)
{
    err e = {0};
    engine *g;
    assert_ok(engine_of_model(&g, rig_model(of, 11, CTX), rig_model_drop, o, &e), &e);
    return g;
}

typedef struct result {
    float vector[DIM], scores[SCORES];
    int events, tokens;
    finish_reason finish;
} result;

static bool on_event(void *ctx, const token_event *ev)
{
    result *r = ctx;
    r->events++;
    r->tokens += ev->token >= 0;
    r->finish = ev->finish;
    if (ev->pooled) memcpy(r->vector, ev->pooled, sizeof r->vector);
    if (ev->scores) memcpy(r->scores, ev->scores, sizeof r->scores);
    return true;
}

static const int lengths[TEXTS] = {1, 2, 63, 64, 65, 130, 7, 300, 31, 150, 3, 90, 1, 299};
static int32_t texts[TEXTS][CTX];

static query text_query(int k, result *r)
{
    for (int i = 0; i < lengths[k]; i++) texts[k][i] = (int32_t)(rng_bits(3, (uint64_t)k, (uint64_t)i) % VOCAB);
    *r = (result){0};
    return (query){
        .ids = texts[k], .n_ids = (size_t)lengths[k], .pooled = true, .n_logprobs = -1, .on_token = on_event, .ctx = r};
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

static void check_company(const model_shape *of)
{
    static result alone[TEXTS], got[TEXTS];
    static const engine_options ways[] = {{.threads = 2, .kv = "f32"},
                                          {.threads = 3, .kv = "f32", .max_batch = 5, .chunk = 32},
                                          {.kv = "f32", .devices = "cpu:1;cpu:2"}};
    err e = {0};
    engine *g = open_engine(of, &(engine_options){.threads = 1, .kv = "f32"});
    for (int k = 0; k < TEXTS; k++) {
        query q = text_query(k, &alone[k]);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        run_all(g);
        double length = 0;
        for (int i = 0; i < DIM; i++) length += (double)alone[k].vector[i] * alone[k].vector[i];
        assert_true(fabs(length - 1) < 1e-5 && alone[k].finish == FINISH_STOP);
        assert_true(k == 0 || memcmp(alone[k].vector, alone[k - 1].vector, sizeof alone[k].vector) != 0);
    }
    engine_close(g);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        g = open_engine(of, &ways[w]);
        for (int k = TEXTS; k-- > 0;) {
            query q = text_query(k, &got[k]);
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        }
        run_all(g);
        engine_close(g);
        for (int k = 0; k < TEXTS; k++) {
            assert_true(got[k].events == 1 && got[k].tokens == 0);
            assert_memory_equal(got[k].vector, alone[k].vector, sizeof got[k].vector);
            assert_memory_equal(got[k].scores, alone[k].scores, sizeof got[k].scores);
        }
    }
}

static void in_company(void **unused)
{
    (void)unused;
    model_shape decoder = encoder;
    decoder.full = false;
    check_company(&encoder);
    check_company(&decoder);
}

/* A decoder that pools some texts while it generates others: neither notices. */
static bool keep_token(void *ctx, const token_event *ev)
{
    int32_t *ids = ctx;
    if (ev->token >= 0) ids[ev->index] = ev->token;
    return true;
}

static void beside_generation(void **unused)
{
    (void)unused;
    model_shape decoder = encoder;
    decoder.full = false;
    result r[TEXTS], alone;
    int32_t ids[2][20] = {{0}};
    for (int pass = 0; pass < 2; pass++) {
        err e = {0};
        engine *g = open_engine(&decoder, &(engine_options){.threads = 1, .kv = "f32"});
        query t = text_query(2, &alone);
        t.pooled = false;
        t.max_tokens = 20;
        t.ignore_eos = true;
        t.sample = (sample_params){.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1};
        t.on_token = keep_token;
        t.ctx = ids[pass];
        assert_ok(engine_add_query(g, &t, NULL, &e), &e);
        for (int k = 0; pass && k < TEXTS; k++) {
            query q = text_query(k, &r[k]);
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        }
        run_all(g);
        engine_close(g);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    for (int k = 0; k < TEXTS; k++) assert_int_equal(r[k].finish, FINISH_STOP);
}

static void refusals(void **unused)
{
    (void)unused;
    result r;
    err e = {0};
    engine *g = open_engine(&encoder, &(engine_options){.threads = 1});
    query q = text_query(3, &r);
    assert_int_equal(engine_describe(g)->n_pooled, DIM);
    assert_int_equal(engine_describe(g)->n_score, SCORES);
    q.pooled = false;
    assert_int_equal(engine_add_query(g, &q, NULL, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "does not generate"));
    e = (err){0};
    perplexity_result ppl;
    assert_int_equal(perplexity_measure(g, q.ids, q.n_ids, &(windows){.window = 8, .bos = -1}, &ppl, &e), ERR_USAGE);
    engine_close(g);
    model_shape decoder = encoder;
    decoder.full = decoder.pooled = false;
    g = open_engine(&decoder, &(engine_options){.threads = 1});
    q.pooled = true;
    e = (err){0};
    assert_int_equal(engine_add_query(g, &q, NULL, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "no embeddings"));
    engine_close(g);
}

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

/* More rows than a step gives logits of: as if the whole text came again. The head is NORM and MATMUL of the last
 * hidden state, so rows of a text that begins alike differ: every row sees the end. */
static void all_rows(void **unused)
{
    (void)unused;
    static float whole[CTX * VOCAB], part[CTX * VOCAB], hidden[CTX * DIM];
    result r;
    err e = {0};
    engine *g = open_engine(&encoder, &(engine_options){.threads = 2, .kv = "f32"});
    query q = text_query(7, &r);
    assert_true(q.n_ids > SCORE_ROWS);
    rows_seen s = {.to = whole, .width = VOCAB}, h = {.to = hidden, .width = DIM}, t = {.to = part, .width = VOCAB};
    assert_ok(engine_eval(g, q.ids, q.n_ids, -1, on_rows, &s, &e), &e);
    assert_ok(engine_eval(g, q.ids, q.n_ids, 3, on_rows, &h, &e), &e);
    assert_ok(engine_eval(g, q.ids, q.n_ids - 1, -1, on_rows, &t, &e), &e);
    assert_true(s.next == (int64_t)q.n_ids && h.next == s.next && t.next == s.next - 1);
    assert_memory_not_equal(whole, part, VOCAB * sizeof *whole);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_company), cmocka_unit_test(beside_generation),
                                       cmocka_unit_test(refusals), cmocka_unit_test(all_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
