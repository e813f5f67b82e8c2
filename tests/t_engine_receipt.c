/* t_engine_receipt.c - receipts: what one engine wrote, in a full batch, another one draws again from its receipt, with
 * other chunks, threads, devices; a changed id, seed or parameter is found; another model or arithmetic is named. */
#include "engine/receipt.h"
#include "measure/replay.h"
#include "command.h"
#include "test.h"

#include "base/mem.h"

#include <math.h>

enum { QUERIES = 6, TOKENS = 40, PROMPT = 7 };

typedef struct written {
    query q;
    int32_t prompt[PROMPT], enc[PROMPT], ids[TOKENS];
    size_t n;
    finish_reason finish;
} written;

static const logit_bias bias[] = {{5, 2.5f}, {17, -3.25f}};

static const int32_t stops[] = {20}, bad[] = {1, 7, 2, 8, 9};
static uint64_t evens[1 << 10];

/* Most parameters have a value of their own in one of them. */
static sample_params params_of(int i)
{
    static const char *const asked[QUERIES][8] = {
        {"temperature", "0"},
        {"seed", "9223372036854775807"},
        {"temperature", "0.7", "top_k", "20", "top_p", "0.9", "repetition_penalty", "1.3"},
        {"temperature", "1.5", "min_p", "0.05", "mirostat", "2", "mirostat_tau", "4"},
        {"top_p", "0.5", "presence_penalty", "1.5", "typical_p", "0.95", "tfs_z", "0.99"},
        {"fsd_k", "6", "frequency_penalty", "0.7", "fsd_steps", "5"},
    };
    sample_params p;
    err e = {0};
    param_defaults(sample_param_rows, sample_param_count, &p);
    p.seed = i;
    p.choice = i == 3 ? 3 : 0;
    for (int k = 0; k < 8 && asked[i][k]; k += 2)
        assert_ok(param_set(param_find(sample_param_rows, sample_param_count, asked[i][k]), &p, asked[i][k + 1],
                            "params_of", &e),
                  &e);
    return p;
}

static engine *engine_made(const char *model, const char *devices, int chunk, const char *kv)
{
    engine *g;
    err e = {0};
    const engine_options o = {
        .model = model, .devices = devices, .chunk = chunk, .kv = kv, .ctx = 80, .threads = 1, .max_batch = QUERIES};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static bool keep(void *ctx, const token_event *ev)
{
    written *w = ctx;
    if (ev->token >= 0) w->ids[w->n++] = ev->token;
    w->finish = ev->finish;
    return true;
}

/* All at once. */
static void write_texts(engine *g, written out[QUERIES])
{
    const engine_info *info = engine_describe(g);
    bool more = true;
    err e = {0};
    memset(evens, 0x55, sizeof evens);
    for (int i = 0; i < QUERIES; i++) {
        written *w = &out[i];
        *w = (written){0};
        for (int k = 0; k < PROMPT; k++) w->prompt[k] = (i * 31 + k * 7 + 3) % info->n_vocab;
        for (int k = 0; k < PROMPT; k++) w->enc[k] = (i * 11 + k * 3 + 1) % (info->n_enc_vocab ? info->n_enc_vocab : 1);
        w->q = (query){.ids = w->prompt,
                       .n_ids = PROMPT,
                       .enc_ids = w->enc,
                       .n_enc = info->n_enc_vocab ? PROMPT : 0,
                       .max_tokens = TOKENS,
                       .min_tokens = i == 4 ? 12 : 0,
                       .ignore_eos = i == 1,
                       .sample = params_of(i),
                       .n_logprobs = i == 3 ? 2 : -1,
                       .stop_ids = stops,
                       .n_stop_ids = i == 3 ? 1 : 0,
                       .bad = bad,
                       .n_bad = i == 2 ? 5 : 0,
                       .allowed = i == 4 ? evens : NULL,
                       .n_allowed = i == 4 ? (info->n_vocab + 63) / 64 : 0,
                       .bias = bias,
                       .n_bias = i == 5 ? 2 : 0,
                       .on_token = keep,
                       .ctx = w};
        assert_ok(engine_add_query(g, &w->q, NULL, &e), &e);
    }
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
}

/* The receipt as its reader gets it: as text. */
static json *receipt_of(engine *g, const written *w)
{
    fingerprint f;
    err e = {0};
    buf text = {0};
    json *to = json_new_object(), *back;
    assert_ok(engine_fingerprint(g, &f, &e), &e);
    receipt_write(to, g, &f, &w->q, w->ids, w->n, w->finish == FINISH_LENGTH ? RECEIPT_LENGTH : RECEIPT_END_TOKEN);
    assert_true(json_print(&text, to, false));
    assert_ok(json_parse(&back, buf_span(&text), "receipt", &e), &e);
    buf_free(&text);
    json_free(to);
    return back;
}

static replay check(engine *g, const receipt *r)
{
    replay found;
    err e = {0};
    assert_ok(engine_replay(g, &r->q, r->ids.id, r->ids.n, r->ended, &found, &e), &e);
    return found;
}

/* What was written is drawn again; one id less, more or other is not. */
static void check_receipt(engine *g, const json *from)
{
    fingerprint f;
    receipt r;
    err e = {0};
    assert_ok(engine_fingerprint(g, &f, &e), &e);
    assert_ok(receipt_read(&r, from, &f, g, &e), &e);
    assert_int_equal(check(g, &r).at, -1);
    if (!r.ids.n) {
        receipt_free(&r);
        return;
    }
    const size_t at = r.ids.n / 2;
    const int32_t was = r.ids.id[at];
    r.ids.id[at] = was == 9 ? 10 : 9;
    const replay found = check(g, &r);
    assert_int_equal(found.at, at);
    assert_int_equal(found.given, r.ids.id[at]);
    assert_int_equal(found.drawn, was);
    assert_true(found.drawn_logprob <= 0 && isfinite(found.drawn_logprob));
    r.ids.id[at] = was;
    if (r.ended) { /* it did not end before its end */
        r.ids.n--;
        assert_int_equal(check(g, &r).at, r.ids.n);
        r.ids.n++;
    }
    r.q.sample.seed ^= 1;
    const bool drawn = r.q.sample.temperature == 1 && r.q.sample.top_p == 1 && !r.q.sample.fsd_k && r.ids.n > 20;
    if (drawn) assert_true(check(g, &r).at >= 0);
    receipt_free(&r);
}

static void check_model(const char *model, const char *const devices[])
{
    written texts[QUERIES];
    json *receipts[QUERIES];
    engine *g = engine_made(model, "cpu", 24, NULL);
    write_texts(g, texts);
    for (int i = 0; i < QUERIES; i++) receipts[i] = receipt_of(g, &texts[i]);
    engine_close(g);
    for (int d = 0; devices[d]; d++) {
        g = engine_made(model, devices[d], d ? 5 : 64, NULL);
        for (int i = 0; i < QUERIES; i++) check_receipt(g, receipts[i]);
        engine_close(g);
    }
    for (int i = 0; i < QUERIES; i++) json_free(receipts[i]);
}

static void test_builtin(void **state)
{
    (void)state;
    check_model(NULL, (const char *const[]){"cpu", "cpu:1;cpu:1", "cpu:1&cpu:1", NULL});
}

/* Rotations that depend on the length that a text may reach; an encoder. */
static void test_models(void **state)
{
    (void)state;
    check_model("tests/vectors/models/llama-dynamic", (const char *const[]){"cpu", NULL});
    check_model("tests/vectors/models/phi3-long", (const char *const[]){"cpu", NULL});
    check_model("tests/vectors/models/bart", (const char *const[]){"cpu", NULL});
}

static void expect_refusal(const char *text, const fingerprint *f, const char *message)
{
    receipt r;
    err e = {0};
    json *from;
    assert_ok(json_parse(&from, span_str(text), "receipt", &e), &e);
    assert_int_equal(receipt_read(&r, from, f, NULL, &e), ERR_FORMAT);
    if (!strstr(e.msg, message)) fail_msg("\"%s\" does not say \"%s\"", e.msg, message);
    json_free(from);
}

static void test_refusals(void **state)
{
    (void)state;
    const fingerprint f = {.model = "aa", .kv = "i16", .arithmetic = "bb"};
#define HEAD "{\"version\":1,\"model\":\"aa\",\"arithmetic\":\"bb\""
    expect_refusal("[]", &f, "no receipt of version 1");
    expect_refusal("{\"version\":2}", &f, "no receipt of version 1");
    expect_refusal("{\"version\":1,\"model\":\"ab\"}", &f, "another model: the receipt is of ab, this is aa");
    expect_refusal("{\"version\":1,\"model\":\"aa\",\"arithmetic\":\"b\"}", &f, "other arithmetic");
    expect_refusal("{\"version\":1,\"model\":\"aa\",\"arithmetic\":\"b\",\"kv\":\"q8\"}", &f, "--kv q8");
    expect_refusal(HEAD "}", &f, "prompt_ids");
    expect_refusal(HEAD ",\"prompt_ids\":[1,-2]}", &f, "element 1 is no token id");
    expect_refusal(HEAD ",\"prompt_ids\":[1],\"ids\":[2]}", &f, "params: an object is missing");
    expect_refusal(HEAD ",\"prompt_ids\":[1],\"ids\":[2],\"params\":{\"x\":1}}", &f, "\"x\" is not known");
    expect_refusal(HEAD ",\"prompt_ids\":[1],\"ids\":[2],\"params\":{\"top_p\":7}}", &f, "top_p");
    expect_refusal(HEAD ",\"prompt_ids\":[1],\"ids\":[2],\"params\":{\"logit_bias\":{\"y\":1}}}", &f, "\"y\"");
    expect_refusal(HEAD ",\"prompt_ids\":[1],\"ids\":[2],\"params\":{}}", &f, "finish_reason");
}

/* Ids and lengths that a model cannot have are errors, not accesses. */
static void test_outside(void **state)
{
    (void)state;
    engine *g = engine_made(NULL, "cpu", 24, NULL);
    const int32_t ids[] = {3, 4, INT32_MAX};
    replay found;
    err e = {0};
    query q = {.ids = ids, .n_ids = 2, .max_tokens = 3, .beams = 1, .n_logprobs = -1, .sample = params_of(0)};
    assert_int_equal(engine_replay(g, &q, ids, 3, false, &found, &e), ERR_FORMAT);
    e = (err){0};
    q.max_tokens = 2;
    assert_int_equal(engine_replay(g, &q, ids, 3, false, &found, &e), ERR_FORMAT);
    e = (err){0};
    q.max_tokens = 79;
    assert_int_equal(engine_replay(g, &q, ids, 1, false, &found, &e), ERR_LIMIT);
    e = (err){0};
    q.ids = ids + 2, q.n_ids = 1, q.max_tokens = 3;
    assert_int_equal(engine_replay(g, &q, ids, 1, false, &found, &e), ERR_USAGE);
    e = (err){0};
    q.ids = ids, q.max_tokens = 0;
    assert_ok(engine_replay(g, &q, NULL, 0, false, &found, &e), &e); /* a text of no token, as -n 0 writes it */
    assert_int_equal(found.at, -1);
    engine_close(g);
}

/* Digests are those of the model and of what its bits depend on, not of where and how it runs. */
static void test_fingerprints(void **state)
{
    (void)state;
    fingerprint f[5];
    err e = {0};
    const struct {
        const char *model, *devices, *kv;
    } of[5] = {{NULL, "cpu", NULL},
               {NULL, "cpu:1&cpu:1", NULL},
               {NULL, "cpu", "f32"},
               {"tests/vectors/models/llama", "cpu", "f32"},
               {"tests/vectors/models/qwen2", "cpu", "f32"}};
    for (int i = 0; i < 5; i++) {
        engine *g = engine_made(of[i].model, of[i].devices, 16, of[i].kv);
        assert_ok(engine_fingerprint(g, &f[i], &e), &e);
        engine_close(g);
    }
    assert_string_equal(f[0].model, f[1].model);
    assert_string_equal(f[0].arithmetic, f[1].arithmetic);
    assert_string_equal(f[0].model, f[2].model);
    assert_string_not_equal(f[0].arithmetic, f[2].arithmetic);
    assert_string_not_equal(f[2].model, f[3].model);
    assert_string_not_equal(f[3].model, f[4].model);
    assert_string_equal(f[3].arithmetic, f[4].arithmetic);
}

/* Where ranks round what they exchange, the digest has who rounds and how; and a text is drawn again. */
static void test_rounded_sums(void **state)
{
    (void)state;
    static const engine_options of[] = {{.devices = "cpu:1&cpu:1"},
                                        {.devices = "cpu:1&cpu:1", .choices.reduce = REDUCE_INT8},
                                        {.devices = "cpu:1&cpu:1", .choices.reduce = REDUCE_INT4},
                                        {.devices = "cpu:1*3&cpu:1", .choices.reduce = REDUCE_INT4},
                                        {.devices = "cpu:1;cpu:1", .choices.wire = WIRE_INT8}};
    enum { N = sizeof of / sizeof *of };
    static written texts[QUERIES];
    fingerprint f[N];
    err e = {0};
    for (int i = 0; i < N; i++) {
        engine_options o = of[i];
        engine *g;
        o.ctx = 512;
        assert_ok(engine_open(&g, &o, &e), &e);
        assert_ok(engine_fingerprint(g, &f[i], &e), &e);
        for (int k = 0; k < i; k++) assert_string_not_equal(f[k].arithmetic, f[i].arithmetic);
        write_texts(g, texts);
        json *from = receipt_of(g, &texts[0]);
        check_receipt(g, from);
        json_free(from);
        engine_close(g);
    }
}

/* A file of `text`, in which each # stands for a receipt of the command and each ? for one with another id. */
static int replay_of(const char *text, const char *good, const char *changed, buf *out, buf *errors)
{
    const char *path = temp_path("reply");
    char args[400];
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (const char *p = text; *p; p++) {
        if (*p == '#' || *p == '?') fputs(*p == '#' ? good : changed, f);
        else fputc(*p, f);
    }
    fclose(f);
    snprintf(args, sizeof args, "replay %s", path);
    const int status = command_run(NULL, args, out, errors);
    unlink(path);
    return status;
}

/* Receipts stand in replies as the server writes them, whole or as events. */
static void test_replies(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* says: in what is printed */
        int status;
    } cases[] = {
        {"#", "4 tokens, all equal\n", 0},
        {"#\n\n#\n", "line 3: 4 tokens, all equal\n", 0},
        {"{\"id\":\"x\",\"choices\":[{\"text\":\"a\",\"receipt\":#},{\"text\":\"b\",\"receipt\":#}]}",
         "equal\n4 tokens", 0},
        {"{\"choices\":[{\"receipt\":#},{\"receipt\":?}]}", "token 1 is", 1},
        {"data: {\"choices\":[{\"text\":\" a\"}]}\r\n\r\ndata: {\"choices\":[{\"receipt\":#}]}\n\ndata: [DONE]\n\n",
         "line 3: 4 tokens, all equal\n", 0},
        {"event: x\n: note\ndata:{\"choices\":[{\"receipt\":?}]}\n", "line 3: token 1 is", 1},
        {"{\"choices\":[{\"text\":\"a\"}]}", "there is no receipt in it", 1},
        {"data: {\"a\":\n", "reply:1", 1},
        {"data: [DONE]\n", "there is no receipt in it", 1},
    };
    const char *path = temp_path("receipt");
    char args[400];
    buf out = {0}, errors = {0}, good = {0}, changed = {0};
    err e = {0};
    json *from;
    snprintf(args, sizeof args, "run -p Once -n 4 --seed 5 --receipt %s", path);
    assert_int_equal(command_run(NULL, args, &out, &errors), 0);
    assert_ok(json_read(&from, path, 1 << 20, &e), &e);
    assert_true(json_print(&good, from, false));
    unlink(path);
    const char *ids = strstr(buf_cstr(&good), "\"ids\":["), *second = strchr(ids, ',') + 1;
    buf_add(&changed, good.p, (size_t)(second - buf_cstr(&good)));
    buf_str(&changed, "7");
    buf_str(&changed, strpbrk(second, ",]"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int status = replay_of(cases[i].text, buf_cstr(&good), buf_cstr(&changed), &out, &errors);
        if (status != cases[i].status ||
            !(strstr(buf_cstr(&out), cases[i].says) || strstr(buf_cstr(&errors), cases[i].says)))
            fail_msg("%s: %d, \"%s\", \"%s\"", cases[i].text, status, buf_cstr(&out), buf_cstr(&errors));
    }
    json_free(from);
    buf_free(&out);
    buf_free(&errors);
    buf_free(&good);
    buf_free(&changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounded_sums), cmocka_unit_test(test_replies),  cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_models),       cmocka_unit_test(test_refusals), cmocka_unit_test(test_outside),
        cmocka_unit_test(test_fingerprints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
