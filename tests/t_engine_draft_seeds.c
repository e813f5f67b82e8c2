/* t_engine_draft_seeds.c - texts drawn at temperature 1 are the same with guesses and without: of 16 seeds, or of as
 * many as the environment's SEEDS says (64 at most); free, under a GBNF grammar and a JSON schema, with chains of
 * samplers, stops, min_tokens; each alone without guesses, and in batches of 1, 4 and 16 with guesses of n-grams and of
 * models; on several devices, and with too few pages. The models: the built-in one with its first two layers as draft,
 * random ones with windows and with states of fixed size. */
#include "engine/draft_model.h"
#include "engine/engine_state.h"
#include "model_rig.h"
#include "tests/grammar_vocab.h"

#include "sample/form_source.h"

enum { SEEDS = 64, FORMS = 3, TEXTS = SEEDS * FORMS, TOKENS = 32, PROMPT = 170, CTX = 256, SOURCE = 40, TOP = 2 };

static grammar *forms[FORMS]; /* [0]: none */
static int32_t source[SOURCE], n_source;
static int seeds;

typedef struct text {
    query q;
    int32_t prompt[PROMPT], ids[TOKENS], end_token;
    float logprob[TOKENS];
    top_logprob top[TOKENS][TOP];
    int n, ends;
    finish_reason finish;
} text;

static bool on_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    assert_int_equal(t->ends, 0);
    if (ev->error) fail_msg("%s", ev->error);
    if (ev->token >= 0) {
        assert_int_equal(ev->index, t->n);
        t->ids[t->n] = ev->token;
        t->logprob[t->n] = ev->logprob;
        for (int i = 0; i < ev->n_top; i++) t->top[t->n][i] = ev->top[i];
        t->n++;
    }
    t->ends = ev->finish != FINISH_NONE;
    t->finish = ev->finish;
    t->end_token = ev->ends ? ev->end_token : -1;
    return true;
}

static int longest, n_vocab; /* prompt of the model that is tried */
static uint64_t few[64];     /* the tokens of its prompts, a bit each */

/* Text k: of seed k / FORMS. Prompts turn one source, so that they share pages and repeat themselves. */
static void make_text(text *t, int k)
{
    static const int32_t stop = 97; /* no grammar needs it */
    const int seed = k / FORMS, form = k % FORMS;
    const bool chain = seed & 1, late = seed & 2;
    *t = (text){.q = {.n_ids = (size_t)(8 + 5 * seed % longest),
                      .max_tokens = TOKENS,
                      .min_tokens = late ? 12 : 0,
                      .stop_ids = form ? &stop : &source[5],
                      .n_stop_ids = late,
                      .allowed = few,
                      .n_allowed = !form && seed % 4 < 2 ? (n_vocab + 63) / 64 : 0,
                      .beams = 1,
                      .n_logprobs = seed & 4 ? TOP : -1,
                      .constraint = forms[form],
                      .on_token = on_token}};
    param_defaults(sample_param_rows, sample_param_count, &t->q.sample);
    t->q.sample.seed = 1000 + seed;
    if (chain) t->q.sample.top_p = 0.95, t->q.sample.repetition_penalty = 1.1;
    if (!form && seed % 8 == 7) t->q.sample.mirostat = 2;
    for (size_t i = 0; i < t->q.n_ids; i++) t->prompt[i] = source[(i + (size_t)(seed % 4) * 3) % (size_t)n_source];
}

static void add(engine *g, text *t)
{
    err e = {0};
    t->q.ids = t->prompt;
    t->q.ctx = t;
    assert_ok(engine_add_query(g, &t->q, NULL, &e), &e);
}

/* Guesses are made whether or not they have held. hopes: for short texts, in vain: pages are given out too early. */
static void run_all(engine *g, bool hopes)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more; steps++) {
        for (session *s = g->running; s; s = s->next)
            s->draft.acceptance = 0.99f, s->draft.known = true, s->draft.backoff_left = 0;
        if (hopes) g->used_room = 0;
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 50000);
    }
}

/* ---- models */

enum { BUILTIN, WINDOWED, STATES, MODELS };
enum { NO_GUESSES, NGRAM, TWO_LAYERS, ITSELF };

static const struct {
    const char *devices;
    int batch, in_flight, chunk;
    bool few_pages;
} ways[] = {
    {"cpu", 1, 0, 0, false},           {"cpu", 4, 0, 40, false}, {"cpu", 16, 0, 0, false},
    {"cpu:1;cpu:1", 16, 3, 64, false}, {"cpu", 16, 0, 40, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

static engine *open_builtin(engine_options o, bool two)
{
    static const char lines[] = "[model]\nbase = llama\npath = builtin\n[config]\nlayers = 2\n"
                                "[tensors]\nignore = blk.2.* | blk.3.* | blk.4.* | blk.5.*\n";
    engine *g;
    err e = {0};
    if (two) {
        o.spec = temp_path("two.ini");
        FILE *f = fopen(o.spec, "w");
        assert_non_null(f);
        assert_true(fputs(lines, f) >= 0 && fclose(f) == 0);
    }
    const int rc = engine_open(&g, &o, &e);
    if (two) unlink(o.spec);
    assert_ok(rc, &e);
    return g;
}

static engine *open_random(engine_options o, int kind, bool two)
{
    engine *g;
    err e = {0};
    const model_shape of = {.layers = two ? 2 : 4,
                            .dim = 32,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 10,
                            .ffn = 40,
                            .vocab = two ? RIG_VOCAB - 4 : RIG_VOCAB,
                            .ctx = CTX,
                            .window = 70,
                            .taps = kind == STATES ? 5 : 0,
                            .rope_dims = 10,
                            .gated = true,
                            .type = DTYPE_F32};
    model *m = rig_model(&of, two ? 8 : 7, CTX);
    m->eos[0] = RIG_END;
    m->n_eos = 1;
    assert_ok(engine_of_model(&g, m, rig_model_drop, &o, &e), &e);
    if (o.draft || !two) assert_ok(draft_open(&g->guesses, g, &e), &e);
    return g;
}

static engine *open_engine(int kind, const engine_options *o, bool two)
{
    return kind == BUILTIN ? open_builtin(*o, two) : open_random(*o, two ? WINDOWED : kind, two);
}

/* Of each group, pages for the longest text and little more. */
static void cut_pages(engine *g)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        const int64_t rows = g->chunk * g->steps.in_flight, each = pages_needed(CTX, g->prog->group_window[i], rows);
        g->kv.pages[i].total = g->kv.pages[i].n_free = (int32_t)(each + 2);
    }
}

static engine *open_way(int kind, int w, int from)
{
    engine_options o = {.devices = ways[w].devices,
                        .max_batch = ways[w].batch,
                        .choices.in_flight = ways[w].in_flight,
                        .chunk = ways[w].chunk,
                        .ctx = CTX,
                        .threads = 1,
                        .draft = from == NGRAM || (from > NGRAM && w % 2) ? "ngram" : NULL, /* rows are kept apart */
                        .draft_max = 4};
    engine *g = open_engine(kind, &o, false);
    if (from >= TWO_LAYERS) {
        const engine_options small = {.max_batch = ways[w].batch, .ctx = CTX, .threads = 1, .guesses = w != 2};
        g->guesses.kind = &draft_model;
        g->guesses.self = open_engine(kind, &small, from == TWO_LAYERS);
        if (ways[w].few_pages) cut_pages(g->guesses.self);
    }
    if (ways[w].few_pages) cut_pages(g);
    return g;
}

/* ---- what is tried */

static void compare(const text *a, const text *b, int kind, int w, int from, int k)
{
    const bool same = a->finish == b->finish && a->end_token == b->end_token && a->n == b->n &&
                      !memcmp(a->ids, b->ids, sizeof a->ids) && !memcmp(a->logprob, b->logprob, sizeof a->logprob) &&
                      !memcmp(a->top, b->top, sizeof a->top);
    if (!same)
        fail_msg("model %d, way %d, guesses %d, seed %d, form %d: another text", kind, w, from, k / FORMS, k % FORMS);
    assert_int_equal(b->ends, 1);
}

static void check_way(int kind, int w, int from, const text *alone)
{
    static text got[TEXTS];
    engine *g = open_way(kind, w, from);
    engine_stats st;
    for (int k = 0; k < seeds * FORMS; k++) {
        make_text(&got[k], k);
        add(g, &got[k]);
    }
    run_all(g, ways[w].few_pages);
    for (int k = 0; k < seeds * FORMS; k++) compare(&alone[k], &got[k], kind, w, from, k);
    engine_get_stats(g, &st);
    assert_true(st.pages_used == 0 && st.draft_accepted >= (uint64_t)seeds);
    if (from == ITSELF) assert_true(st.draft_accepted * 100 >= st.draft_tokens * 95); /* under grammars too */
    engine_close(g);
}

static void set_source(const engine *g)
{
    static const char said[] = "hello abc, hello ab; 12, 0.5, name";
    token_list ids = {0};
    err e = {0};
    n_vocab = engine_describe(g)->n_vocab;
    if (engine_tokenizer(g)) assert_ok(tokenizer_encode(engine_tokenizer(g), span_str(said), 0, &ids, &e), &e);
    n_source = ids.n ? (int)ids.n : (int)strlen(said);
    longest = ids.n ? 60 : PROMPT - 8;
    assert_in_range(n_source, 1, SOURCE);
    memset(few, 0, sizeof few);
    for (int i = 0; i < n_source; i++) {
        source[i] = ids.n ? ids.id[i] : said[i];
        few[source[i] >> 6] |= UINT64_C(1) << (source[i] & 63);
    }
    token_list_free(&ids);
}

static void check_model(int kind)
{
    static const char gbnf[] = "root ::= (item \" \")+ \".\"\nitem ::= \"ab\" | \"abc\" | [0-9]{1,3} \",\" | \"hello\"";
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":10,\"maximum\":99},\"who\":"
        "{\"type\":\"string\",\"maxLength\":12},\"list\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"blue\"]},"
        "\"minItems\":1,\"maxItems\":6}},\"required\":[\"id\",\"list\"]}";
    static text alone[TEXTS];
    err e = {0};
    engine *g = open_way(kind, 0, NO_GUESSES); /* its vocabulary serves the grammars of all engines */
    const token_trie *t = kind == BUILTIN ? engine_token_trie(g, &e) : rig_trie();
    assert_non_null(t);
    set_source(g);
    assert_ok(form_compile(&forms[1], FORM_GBNF, span_str(gbnf), t, &e), &e);
    assert_ok(form_compile(&forms[2], FORM_SCHEMA, span_str(schema), t, &e), &e);
    int stopped = 0;
    for (int k = 0; k < seeds * FORMS; k++) {
        make_text(&alone[k], k);
        alone[k].q.unshared = true;
        add(g, &alone[k]);
        run_all(g, false);
        stopped += alone[k].finish == FINISH_STOP;
    }
    assert_in_range(stopped, seeds * FORMS / 20, seeds * FORMS * 19 / 20);
    for (int from = NGRAM; from <= ITSELF; from++)
        for (int w = 0; w < WAYS; w++)
            if (kind != BUILTIN || from != ITSELF) check_way(kind, w, from, alone);
    for (int i = 1; i < FORMS; i++) grammar_drop(forms[i]);
    engine_close(g);
}

static void builtin_model(void **unused)
{
    (void)unused;
    check_model(BUILTIN);
}

static void model_with_windows(void **unused)
{
    (void)unused;
    check_model(WINDOWED);
}

static void model_with_states(void **unused)
{
    (void)unused;
    check_model(STATES);
}

int main(void)
{
    const char *asked = getenv("SEEDS");
    seeds = asked ? atoi(asked) : 16;
    if (seeds < 1 || seeds > SEEDS) seeds = SEEDS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_with_windows),
        cmocka_unit_test(model_with_states),
        cmocka_unit_test(builtin_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
