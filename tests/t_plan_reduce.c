/* t_plan_reduce.c - groups that reduce (--reduce), and rows that pass between groups coded (--wire), over every model
 * of tests/vectors.
 *
 * With f32 and float activations logits and vectors are those of the uncut model but for the order of sums: within 1e-4
 * of the largest, and greedy texts are equal. With every codec they are the same bits for any chunk, any steps in
 * flight, in company or alone, by two_step and by one_shot, on the CPU and on devices that are nobody's. Each model
 * takes some of the combinations, all of them with REDUCE=all or REDUCE=its name. */
#include "fake/fake_backend.h"
#include "model_rig.h"
#include "transcript_rig.h"

#include <math.h>

enum { NEW_TOKENS = 6, QUERIES = 3 };

typedef struct way {
    const char *devices;
    reduce_choice reduce;
    collective_choice collective;
    const char *weights;
    experts_choice experts;
    int in_flight, chunk, group;
    wire_type wire;
} way;

static bool take_token(void *ctx, const token_event *ev)
{
    const reader *r = ctx;
    add(r->to, &ev->token, sizeof ev->token);
    add(r->to, &ev->logprob, sizeof ev->logprob);
    return add_vectors(r, ev);
}

static void run_all(engine *g, const inputs *x, transcript *t, bool logprobs)
{
    const engine_info *i = engine_describe(g);
    query q[QUERIES];
    for (int k = 0; k < QUERIES; k++)
        q[k] = (query){.pooled = i->n_pooled || i->n_score,
                       .max_tokens = NEW_TOKENS,
                       .sample = {.repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                       .beams = 1,
                       .n_logprobs = logprobs && k == 2 ? 1 : -1,
                       .on_token = take_token};
    run_queries(g, x, q, QUERIES, t);
}

/* Rows: logits or, without a head, states of layer 1. False: the model has fewer layers than groups. */
static bool transcribe(const char *folder, const inputs *x, const char *act, const way *w, transcript *t)
{
    const fake_options fake = {.seed = 3};
    const backend_use more[] = {{&fake_backend, &fake}, {0}};
    const engine_options o = {.model = folder,
                              .devices = w->devices,
                              .weights = w->weights,
                              .act = act,
                              .choices = {.reduce = w->reduce,
                                          .collective = w->collective,
                                          .wire = w->wire,
                                          .codec_group = w->group,
                                          .experts = w->experts,
                                          .in_flight = w->in_flight},
                              .kv = "f32",
                              .ctx = IDS_MAX,
                              .threads = 1,
                              .chunk = w->chunk,
                              .max_batch = 8,
                              .more_backends = more};
    err e = {0};
    engine *g = open_cut(&o);
    if (!g) return false;
    const engine_info *i = engine_describe(g);
    *t = (transcript){.has_experts = g->prog->n_used > 0, .numbers = i->n_pooled || i->n_score};
    const query q = inputs_query(x);
    rows_to states = {&t->of[0], engine_width(g, 1)};
    if (!add_logits(g, &q, &t->of[0])) assert_ok(engine_eval_query(g, &q, 1, add_rows, &states, &e), &e);
    if (i->generates || i->n_pooled || i->n_score) run_all(g, x, t, act == NULL);
    engine_close(g);
    return true;
}

static int compared;

/* Largest difference of two lists of floats over the largest of the first. */
static double apart(const buf *a, const buf *b)
{
    const float *x = (const float *)(const void *)a->p, *y = (const float *)(const void *)b->p;
    double most = 0, off = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n / sizeof *x; i++) {
        most = fmax(most, fabs((double)x[i]));
        off = fmax(off, fabs((double)x[i] - y[i]));
    }
    return most > 0 ? off / most : off;
}

/* f32 sums beside the uncut model, float activations. */
static int compare_cut(const char *folder, const inputs *x, const way *w, const transcript *want)
{
    transcript got;
    int wrong = 0;
    if (!transcribe(folder, x, "f32", w, &got)) return 0;
    const double off = apart(&want->of[0], &got.of[0]);
    compared++;
    wrong = !(off <= 1e-4);
    for (int k = 1; k <= QUERIES; k++) {
        const buf *a = &want->of[k], *b = &got.of[k];
        wrong += want->numbers ? !(apart(a, b) <= 1e-4) : !same_bytes(a, b);
    }
    if (wrong) printf("%s on %s: %g from the uncut model, %d differences\n", folder, w->devices, off, wrong);
    transcript_free(&got);
    return wrong;
}

static int compare_uncut(const char *folder, const inputs *x, const char *devices)
{
    const way plain = {.devices = "cpu", .chunk = 128};
    way cut = {.devices = devices, .reduce = REDUCE_F32, .chunk = 128};
    transcript want;
    assert_true(transcribe(folder, x, "f32", &plain, &want));
    int wrong = compare_cut(folder, x, &cut, &want);
    cut.experts = EXPERTS_WHOLE;
    if (want.has_experts) wrong += compare_cut(folder, x, &cut, &want);
    transcript_free(&want);
    return wrong;
}

/* Other chunks, algorithms and companies beside the first way. */
static int compare_ways(const char *folder, const inputs *x, const way *w, int n)
{
    transcript want, got;
    int wrong = 0;
    if (!transcribe(folder, x, NULL, &w[0], &want)) return 0;
    for (int i = 1; i < n; i++) {
        assert_true(transcribe(folder, x, NULL, &w[i], &got));
        bool differs = false;
        for (int k = 0; k <= QUERIES; k++) differs = differs || !same_bytes(&want.of[k], &got.of[k]);
        if (differs)
            printf("%s on %s: %s by %d, wire %s, in chunks of %d is not %s by %d in chunks of %d\n", folder,
                   w[i].devices, reduce_words[w[i].reduce], w[i].collective, wire_infos[w[i].wire].name, w[i].chunk,
                   reduce_words[w[0].reduce], w[0].collective, w[0].chunk);
        wrong += differs;
        compared++;
        transcript_free(&got);
    }
    transcript_free(&want);
    return wrong;
}

static const reduce_choice codecs[] = {REDUCE_INT8, REDUCE_INT4, REDUCE_F16, REDUCE_INT6, REDUCE_F32};
static const char *const places[] = {"cpu&cpu", "cpu&cpu&cpu", "cpu&cpu&cpu&cpu", "cpu*3&cpu", "cpu&cpu;cpu&cpu"};
static const char *const others[] = {"fake&cpu", "cpu&fake&cpu", "fake&cpu&cpu&fake", "cpu*3&fake",
                                     "fake&cpu;cpu&fake"};
static const char *const types[] = {NULL, "q8_b64", NULL, "q4_b64", NULL, "q8_0", NULL};
enum { CODECS = 5, PLACES = 5, TYPES = 7 };

static int compare_codec(const char *folder, const inputs *x, reduce_choice codec, int place, int turn)
{
    const char *devices = places[place];
    const int group = turn % 3 ? 128 : 32;
    const char *weights = types[turn % TYPES], *other = turn % 3 ? devices : others[place];
    const experts_choice experts = turn % 2 ? EXPERTS_WHOLE : EXPERTS_COLUMN;
    const collective_choice by = turn % 4 < 2 ? COLLECTIVE_TWO_STEP : COLLECTIVE_AUTO;
    const way w[] = {{devices, codec, COLLECTIVE_TWO_STEP, weights, experts, 1, 128, group, WIRE_F32},
                     {devices, codec, COLLECTIVE_ONE_SHOT, weights, experts, 2, 7, group, WIRE_F32},
                     {other, codec, by, weights, experts, 1, 1, group, WIRE_F32}};
    return compare_ways(folder, x, w, 3);
}

/* Groups that hand each other coded rows; f32 is that of one device. */
static int compare_wire(const char *folder, const inputs *x, wire_type wire, int turn)
{
    static const char *const lists[][2] = {
        {"cpu;cpu", "fake;cpu"}, {"cpu;cpu&cpu", "cpu;cpu&fake"}, {"cpu&cpu*3;cpu", "fake&cpu*3;fake"}};
    const char *const *list = lists[turn % 3], *weights = types[turn % TYPES];
    const bool plain = wire == WIRE_F32;
    const int group = turn % 2 ? 128 : 32;
    const way w[] = {
        {.devices = plain ? "cpu" : list[0], .weights = weights, .chunk = 128, .group = group, .wire = wire},
        {.devices = list[0], .weights = weights, .in_flight = 2, .chunk = 7, .group = group, .wire = wire},
        {.devices = list[1], .weights = weights, .chunk = 1, .group = group, .wire = wire}};
    return compare_ways(folder, x, w, 3);
}

static int compare_folder(const char *folder, const char *name, int turn)
{
    static const wire_type wires[] = {WIRE_INT8, WIRE_F16, WIRE_INT4, WIRE_F32};
    const char *all = getenv("REDUCE");
    if (all && strcmp(all, "all") && strcmp(all, name)) return 0;
    const inputs x = inputs_read(folder);
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        if (all || i == turn % 4) wrong += compare_wire(folder, &x, wires[i], turn / 4);
    for (int p = 0; p < PLACES; p++) {
        if (all || p == turn % PLACES) wrong += compare_uncut(folder, &x, places[p]);
        for (int c = 0; c < CODECS; c++)
            if (all || (p == (turn + 1) % PLACES && c == turn / PLACES % CODECS))
                wrong += compare_codec(folder, &x, codecs[c], p, turn);
    }
    return wrong;
}

static void decoders(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
    assert_true(compared > 200 || getenv("REDUCE"));
}

static void encoders(void **unused)
{
    (void)unused;
    check_models("tests/vectors/encoders", compare_folder);
}

/* ---- what a codec cannot hold */

enum { LOUD = 9, QUIET = 8, CHANNEL = 3, DIM = 32, LENGTH = 20 };

static const model_shape small = {.layers = 2,
                                  .dim = DIM,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .head_dim = 8,
                                  .ffn = 48,
                                  .vocab = 40,
                                  .ctx = 64,
                                  .rope_dims = 8,
                                  .gated = true,
                                  .type = DTYPE_F32};

/* A model whose values are a million times as large where a text has token LOUD: it alone has something in a channel
 * that they read so. */
static model *loud_model(void)
{
    model *m = rig_model(&small, 5, 64);
    float *rows = (float *)m->prog->weights[0].pieces[0].data;
    for (int i = 0; i < small.vocab; i++) rows[i * DIM + CHANNEL] = i == LOUD ? 8 : 0;
    for (uint32_t i = 0; i < m->prog->n_op; i++) {
        const op *o = &m->prog->ops[i];
        if (o->kind != OP_KV_PUT) continue;
        const ref v = o->in[1];
        for (uint32_t k = 0; k < i; k++) {
            const tensor *t = &m->prog->tensors[m->prog->ops[k].in[1]];
            float *w = (float *)m->prog->weights[t->weight].pieces[0].data;
            if (m->prog->ops[k].out == v)
                for (int n = 0; n < DIM; n++) w[n * DIM + CHANNEL] = 1e6f;
        }
        break; /* of the first layer alone */
    }
    return m;
}

typedef struct ending {
    int32_t tokens[NEW_TOKENS];
    int n, finish;
    char error[256];
} ending;

static bool take_ending(void *ctx, const token_event *ev)
{
    ending *x = ctx;
    if (ev->token >= 0 && x->n < NEW_TOKENS) x->tokens[x->n++] = ev->token;
    if (ev->finish) x->finish = ev->finish;
    snprintf(x->error, sizeof x->error, "%s", ev->error ? ev->error : "");
    return true;
}

/* A quiet text, and a loud one beside it. */
static void run_texts(reduce_choice reduce, wire_type wire, ending *quiet, ending *loud)
{
    const engine_options o = {.devices = wire ? "cpu;cpu" : "cpu&cpu",
                              .choices = {.reduce = reduce, .wire = wire},
                              .threads = 1,
                              .kv = "f32"};
    int32_t ids[2][LENGTH];
    ending *to[] = {quiet, loud};
    err e = {0};
    engine *g;
    assert_ok(engine_of_model(&g, loud_model(), rig_model_drop, &o, &e), &e);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < LENGTH; i++) ids[k][i] = k && i == 4 ? LOUD : QUIET;
        *to[k] = (ending){.n = 0};
        const query q = {.ids = ids[k],
                         .n_ids = LENGTH,
                         .max_tokens = NEW_TOKENS,
                         .ignore_eos = true,
                         .sample = {.repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                         .beams = 1,
                         .n_logprobs = -1,
                         .on_token = take_ending,
                         .ctx = to[k]};
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
    engine_close(g);
}

static void rows_that_a_codec_cannot_hold(void **unused)
{
    (void)unused;
    static const struct {
        reduce_choice reduce;
        wire_type wire;
    } pair[] = {{REDUCE_EXACT, WIRE_F32}, {REDUCE_F32, WIRE_F32},  {REDUCE_INT8, WIRE_F32},  {REDUCE_EXACT, WIRE_INT8},
                {REDUCE_F16, WIRE_F32},   {REDUCE_INT4, WIRE_F32}, {REDUCE_EXACT, WIRE_F16}, {REDUCE_EXACT, WIRE_INT4}};
    for (int i = 0; i < 8; i++) {
        const reduce_choice reduce = pair[i].reduce;
        const wire_type wire = pair[i].wire;
        ending quiet, loud;
        char want[100];
        run_texts(reduce, wire, &quiet, &loud);
        assert_int_equal(quiet.finish, FINISH_LENGTH);
        assert_int_equal(quiet.n, NEW_TOKENS);
        assert_int_equal(loud.finish, i < 4 ? FINISH_LENGTH : FINISH_ERROR);
        snprintf(want, sizeof want, "--%s %s cannot hold a row of token 4 (id 9) in layer 0: use f32",
                 wire ? "wire" : "reduce", wire ? wire_infos[wire].name : reduce_words[reduce]);
        if (i >= 4 && !strstr(loud.error, want)) fail_msg("%s: %s", want, loud.error);
    }
}

/* One logit that is NaN, of a token that nobody would draw: there is no text, whatever draws. */
static void a_logit_that_is_none(void **unused)
{
    (void)unused;
    static const char *const devices[] = {NULL, "cpu&cpu", "fake;fake", "cpu&fake"};
    const fake_options fake = {.seed = 3};
    const backend_use more[] = {{&fake_backend, &fake}, {0}};
    const int32_t ids[] = {5, 6, 7};
    for (int w = 0; w < 4; w++) {
        const engine_options o = {.devices = devices[w], .threads = 1, .kv = "f32", .more_backends = more};
        model *m = rig_model(&small, 5, 64);
        const op *head = &m->prog->ops[m->prog->n_op - 1];
        assert_int_equal(head->out, m->prog->entries[ENTRY_HEAD].out);
        float *rows = (float *)m->prog->weights[m->prog->tensors[head->in[1]].weight].pieces[0].data;
        rows[(small.vocab - 1) * DIM] = NAN;
        err e = {0};
        engine *g;
        assert_ok(engine_of_model(&g, m, rig_model_drop, &o, &e), &e);
        for (int k = 0; k < 5; k++) {
            ending x = {.n = 0};
            query q = {.ids = ids,
                       .n_ids = 3,
                       .max_tokens = NEW_TOKENS,
                       .sample = {.repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1, .top_p = 1},
                       .beams = k == 3 ? 2 : 1,
                       .length_penalty = 1,
                       .n_logprobs = k == 2 || k == 4 ? 1 : -1,
                       .prompt_logprobs = k == 4,
                       .on_token = take_ending,
                       .ctx = &x};
            if (k == 1) q.sample.temperature = 1;
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
            for (bool on = true; on;) assert_ok(engine_infer(g, &on, &e), &e);
            assert_int_equal(x.finish, FINISH_ERROR);
            assert_int_equal(x.n, 0);
            assert_non_null(strstr(x.error, "no finite logit"));
        }
        engine_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoders), cmocka_unit_test(encoders),
                                       cmocka_unit_test(rows_that_a_codec_cannot_hold),
                                       cmocka_unit_test(a_logit_that_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
