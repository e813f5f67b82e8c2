/* t_devices.c - the same bits on any devices: every model of tests/vectors on the CPU, on several, and on devices that
 * are nobody's (fake/fake_backend.h), with 1, 2 and 4 steps in flight, in chunks of 1, 7 and 128 rows, over every type
 * of cache and packed weights.
 *
 * What is compared with one step after the other on the CPU: logits and hidden states of all rows, texts drawn for
 * three queries at once with log-probabilities, a beam search, vectors and scores. Each model takes some of the
 * combinations, all of them with DEVICES=all (make test-devices) or DEVICES=the model's name; WAY=LIST: each model on
 * these devices, ENDS=away: with tables and head on nodes. */
#include "cpu/cpu_backend.h"
#include "fake/fake_backend.h"
#include "sites.h"
#include "transcript_rig.h"

#include <malloc.h>

enum { NEW_TOKENS = 9 };

typedef struct way {
    const char *devices;
    int in_flight, chunk;
    ends_choice ends;
} way;

static bool take_token(void *ctx, const token_event *ev)
{
    const reader *r = ctx;
    add(r->to, &ev->token, sizeof ev->token);
    add(r->to, &ev->logprob, sizeof ev->logprob);
    add(r->to, &ev->score, sizeof ev->score);
    add(r->to, &ev->finish, sizeof ev->finish);
    for (int32_t i = 0; i < ev->n_top; i++) add(r->to, &ev->top[i].id, sizeof ev->top[i].id);
    return add_vectors(r, ev);
}

static void run_all(engine *g, const inputs *x, transcript *t)
{
    const engine_info *i = engine_describe(g);
    const bool pooled = i->n_pooled || i->n_score;
    query q[QUERIES_MAX];
    for (int k = 0; k < QUERIES_MAX; k++)
        q[k] = (query){.pooled = pooled,
                       .max_tokens = NEW_TOKENS,
                       .sample = {.temperature = k == 1 ? 0.9 : 0,
                                  .top_p = 0.9,
                                  .repetition_penalty = 1,
                                  .typical_p = 1,
                                  .tfs_z = 1,
                                  .fsd_n = 1,
                                  .seed = 7},
                       .beams = k == 3 && !pooled ? 3 : 1,
                       .length_penalty = 1,
                       .n_logprobs = k == 2 ? 2 : -1,
                       .prompt_logprobs = k == 2 && !pooled,
                       .on_token = take_token};
    run_queries(g, x, q, QUERIES_MAX, t);
    engine_stats s;
    engine_get_stats(g, &s);
    assert_true(s.kv_usage == 0);
}

/* False: the model has fewer layers than devices. */
static bool transcribe(const char *folder, const inputs *x, const char *kv, const char *weights, const way *w,
                       transcript *t)
{
    const fake_options fake = {.delay = 60, .seed = 3};
    const backend_use more[] = {{&fake_backend, &fake}, {0}};
    const cpu_options one = {.threads = 1};
    const backend_use there[] = {{&cpu_backend, &one}, {&fake_backend, &fake}, {0}};
    sites nodes;
    const plan_far far = sites_of(&nodes, there);
    const engine_options o = {.model = folder,
                              .devices = w->devices,
                              .weights = weights,
                              .kv = kv,
                              .ctx = IDS_MAX,
                              .threads = 1,
                              .chunk = w->chunk,
                              .max_batch = 8,
                              .choices = {.in_flight = w->in_flight, .ends = w->ends},
                              .far = &far,
                              .more_backends = more};
    err e = {0};
    engine *g = open_cut(&o);
    if (!g) return false;
    *t = (transcript){.ended = 0};
    const engine_info *i = engine_describe(g);
    const query q = inputs_query(x);
    rows_to states = {&t->of[0], engine_width(g, 1)};
    add_logits(g, &q, &t->of[0]);
    assert_ok(engine_eval_query(g, &q, 1, add_rows, &states, &e), &e); /* by a tap */
    if (i->generates || i->n_pooled || i->n_score) run_all(g, x, t);
    engine_close(g);
    return true;
}

static const char *const kinds[] = {"f32", "f16", "i16", "q8", "q4"};
static const char *const types[] = {NULL, "q8_b64", NULL, "q4_b64", "q8_0", NULL, "q4_t", "q4_k", NULL, "q3h_t"};
static const way ways[] = {{"fake", 1, 7},
                           {"cpu;fake", 4, 128},
                           {"fake;cpu", 2, 1},
                           {"fake;fake", 4, 7},
                           {"cpu;cpu;cpu", 4, 7},
                           {"fake", 4, 128},
                           {"cpu;cpu", 2, 7},
                           {"cpu;fake", 2, 7},
                           {"fake;cpu", 4, 128},
                           {"cpu;cpu", 4, 1},
                           {"cpu", 4, 7},
                           {"cpu;fake;fake", 4, 7},
                           {"fake", 2, 1},
                           {"cpu&cpu", 1, 7},
                           {"cpu&cpu&cpu", 1, 128},
                           {"cpu*3&cpu", 2, 7},
                           {"fake&cpu", 1, 1},
                           {"cpu&cpu;cpu&fake", 4, 7},
                           {"cpu&cpu;cpu", 2, 128},
                           {"cpu&cpu&cpu&cpu&cpu", 1, 7},
                           {"a:1/cpu", 1, 7},
                           {"a:1/cpu;cpu;b:1/cpu", 4, 128},
                           {"a:1/cpu&b:1/cpu", 2, 7},
                           {"cpu&a:1/fake&cpu;b:1/cpu", 3, 7},
                           {"a:1/cpu&a:1/cpu;a:1/cpu&cpu", 1, 1},
                           {"cpu&cpu", 2, 7},
                           {"cpu&cpu;fake&cpu", 3, 7},
                           {"a:1/cpu&b:1/fake&c:1/cpu", 4, 1},
                           {"cpu&a:1/cpu", 3, 7},
                           {"a:1/cpu", 1, 7, ENDS_AWAY},
                           {"cpu;a:1/fake", 3, 1, ENDS_AWAY},
                           {"a:1/cpu;b:1/cpu", 4, 128, ENDS_AWAY},
                           {"a:1/fake;cpu", 2, 7, ENDS_AWAY},
                           {"a:1/cpu&b:1/cpu", 2, 7, ENDS_AWAY},
                           {"cpu&a:1/fake&cpu;b:1/cpu", 3, 7, ENDS_AWAY},
                           {"a:1/cpu;cpu&b:1/cpu*2&b:1/fake", 3, 128, ENDS_AWAY}};
enum { KINDS = sizeof kinds / sizeof *kinds, TYPES = sizeof types / sizeof *types, WAYS = sizeof ways / sizeof *ways };

static int compared;

/* Number of ways that give other bits. */
static int compare(const char *folder, const inputs *x, const char *kv, const char *weights, const way *w, int n)
{
    static const way plain = {"cpu", 1, 128};
    transcript want, got;
    int wrong = 0;
    assert_true(transcribe(folder, x, kv, weights, &plain, &want));
    for (; n--; w++) {
        if (!transcribe(folder, x, kv, weights, w, &got)) continue;
        compared++;
        const char *ends = w->ends ? "away" : "home";
        for (int k = 0; k < 5; k++)
            if (!same_bytes(&want.of[k], &got.of[k])) {
                printf("%s, cache %s, weights %s: %s %d differ on %s, ends %s, with %d in flight, chunk %d\n", folder,
                       kv, weights ? weights : "as stored", k ? "tokens of query" : "rows", k, w->devices, ends,
                       w->in_flight, w->chunk);
                wrong++;
            }
        transcript_free(&got);
    }
    transcript_free(&want);
    return wrong;
}

static int compare_all(const char *folder, const inputs *x)
{
    static const char *const devices[] = {"cpu",         "cpu;cpu",           "cpu;cpu;cpu", "fake",
                                          "cpu;fake",    "fake;cpu",          "fake;fake",   "cpu&cpu",
                                          "cpu&cpu&cpu", "cpu&fake&cpu&fake", "cpu*3&cpu",   "cpu&fake;fake&cpu"};
    static const int in_flight[] = {1, 2, 4}, chunk[] = {1, 7, 128};
    way all[108];
    int wrong = 0, n = 0;
    for (int d = 0; d < 12; d++)
        for (int i = 0; i < 9; i++) all[n++] = (way){devices[d], in_flight[i / 3], chunk[i % 3], ENDS_HOME};
    for (int k = 0; k < KINDS; k++) wrong += compare(folder, x, kinds[k], NULL, all, n);
    for (int t = 0; t < TYPES; t++)
        if (types[t]) wrong += compare(folder, x, "i16", types[t], all, n);
    return wrong;
}

static int compare_folder(const char *folder, const char *name, int turn)
{
    way chosen[3];
    const char *all = getenv("DEVICES");
    if (all && strcmp(all, "all") && strcmp(all, name)) return 0;
    const inputs x = inputs_read(folder);
    const way only = {getenv("WAY"), 1, 7, getenv("ENDS") ? ENDS_AWAY : ENDS_HOME};
    if (only.devices) return compare(folder, &x, kinds[turn % KINDS], types[turn / KINDS % TYPES], &only, 1);
    if (all) return compare_all(folder, &x);
    for (int i = 0; i < 3; i++) chosen[i] = ways[(turn + 4 * i) % WAYS];
    return compare(folder, &x, kinds[turn % KINDS], types[turn / KINDS % TYPES], chosen, 3);
}

static void decoders(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
    assert_true(compared > 200 || getenv("DEVICES") || getenv("WAY"));
}

static void encoders(void **unused)
{
    (void)unused;
    check_models("tests/vectors/encoders", compare_folder);
}

int main(void)
{
    mallopt(M_PERTURB, 0x5a); /* what nobody wrote is never what another run left */
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoders), cmocka_unit_test(encoders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
