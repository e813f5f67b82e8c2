/* t_plan_shares_of_experts.c - experts with shares of their own: who has what, and the bits of one device, with several
 * steps in flight, beams, draft tokens, pages kept on disk, ranks on nodes. Every model of tests/vectors with experts
 * takes some of the lists, all with DEVICES=all. */
#include "ways_rig.h"

#include "base/mem.h"
#include "core/op.h"
#include "engine/engine_state.h"
#include "engine/fingerprint.h"
#include "plan/plan_part.h"

#include <stdlib.h>

static const way ways[] = {{"cpu*1,0&cpu*0,1", 1, 7},           {"cpu*0,1&cpu*1,0", 2, 1},
                           {"cpu*2,0&cpu*1,0&cpu*0,1", 1, 128}, {"fake*1,0&cpu*0,1", 4, 7},
                           {"cpu*1,0&fake*0,1;cpu", 3, 7},      {"cpu*1,1&cpu*0,3", 2, 7},
                           {"cpu*0,2&fake&cpu*0,1", 1, 7},      {"cpu;cpu*1,0&fake*0,2&cpu*0,1", 4, 128},
                           {"cpu*1,0&a:1/cpu*0,1", 2, 7},       {"a:1/cpu*0,1&b:1/cpu*1,0", 1, 7, ENDS_AWAY}};
enum { WAYS = sizeof ways / sizeof *ways };

static bool has_experts(const char *folder)
{
    err e = {0};
    model *m;
    assert_ok(engine_open_model(&m, &(engine_options){.model = folder}, &e), &e);
    const bool has = m->prog->n_used > 0;
    model_close(m);
    return has;
}

static int models;

static int compare_folder(const char *folder, const char *name, int turn)
{
    static const char *const kinds[] = {"f32", "i16", "q8", "f16"}, *const types[] = {NULL, "q4_b64", "q8_0"};
    (void)name;
    (void)turn;
    if (!has_experts(folder)) return 0;
    const inputs x = inputs_read(folder);
    const int at = models++;
    const char *kv = kinds[at % 4], *weights = types[at % 3], *all = getenv("DEVICES");
    if (all) return compare(folder, &x, kv, weights, ways, WAYS);
    const way chosen[] = {ways[at % WAYS], ways[(at + 4) % WAYS], ways[(at + 7) % WAYS]};
    return compare(folder, &x, kv, weights, chosen, 3);
}

static void as_on_one_device(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
    assert_true(models > 10 && compared > 2 * models);
}

/* ---- who has what */

static engine *open_on(const char *name, const char *devices, const char *guesses)
{
    static char folder[128];
    err e = {0};
    engine *g;
    snprintf(folder, sizeof folder, "%s/%s", vectors, name);
    const engine_options o = {.model = folder,
                              .devices = devices,
                              .draft = guesses,
                              .draft_max = 4,
                              .ctx = 192,
                              .threads = 1,
                              .max_batch = 2};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static bool is_of_experts(const program *p, const op *o)
{
    const bool router = o->kind == OP_MATMUL && o->out && strstr(p->tensors[o->out].name, "router");
    return router || o->kind == OP_ROUTE || o->kind == OP_SCATTER || p->tensors[o->out].axis == AXIS_EXP;
}

/* Collectives apart. */
static int count_ops(const program *p, bool of_experts)
{
    int n = 0;
    for (uint32_t i = 0; i < p->n_op; i++) n += p->ops[i].kind != OP_COLL && is_of_experts(p, &p->ops[i]) == of_experts;
    return n;
}

static bool is_read(const program *p, ref t)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) any = any || p->ops[i].in[k] == t;
    return any;
}

static void ranks_have_what_they_do(void **unused)
{
    (void)unused;
    static const char *const names[] = {"mixtral", "qwen2-moe", "deepseek2", "gpt-oss"};
    for (int i = 0; i < 4; i++) {
        err e = {0};
        plan_part *parts;
        engine *g = open_on(names[i], "cpu*1,0&cpu*0,1", NULL), *one = open_on(names[i], "cpu", NULL);
        const program *all = plan_segment(g->plan, 0)->p, *experts = plan_segment(g->plan, 1)->p,
                      *uncut = plan_segment(one->plan, 0)->p;
        assert_int_equal(count_ops(all, true), 0);
        assert_int_equal(count_ops(all, false), count_ops(uncut, false));
        assert_int_equal(count_ops(experts, false), 0);
        assert_int_equal(count_ops(experts, true), count_ops(uncut, true));
        int layers = 0, colls = 0;
        for (uint32_t k = 0; k < uncut->n_op; k++) layers += uncut->ops[k].kind == OP_ROUTE;
        for (uint32_t k = 0; k < all->n_op; k++) {
            const op *o = &all->ops[k];
            if (o->kind != OP_COLL) continue;
            colls++;
            assert_true(!o->u.coll.left == is_read(all, o->out));
        }
        assert_true(layers > 0);
        assert_int_equal(colls, 2 * layers); /* to the experts, and back */
        assert_ok(plan_parts(g->plan, &parts, &e), &e);
        assert_true(parts[0].heads.from == 0 && parts[0].heads.to > 0 && parts[1].heads.from == parts[1].heads.to);
        assert_true(parts[0].page_bytes > 0 && parts[1].page_bytes == 0);
        assert_true(parts[1].ffn.from == 0 && parts[1].ffn.to > 0);
        mem_free(parts);
        plan_part *whole;
        assert_ok(plan_parts(one->plan, &whole, &e), &e);
        assert_ok(plan_parts(g->plan, &parts, &e), &e);
        assert_int_equal(parts[0].weight_bytes + parts[1].weight_bytes, whole->weight_bytes);
        mem_free(parts);
        mem_free(whole);
        engine_close(g);
        engine_close(one);
    }
}

/* ---- sessions */

typedef struct text {
    int32_t ids[24];
    int n;
} text;

static bool add_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (ev->token >= 0) t->ids[t->n++] = ev->token;
    return true;
}

static text run_text(engine *g)
{
    enum { PROMPT = 140 };
    int32_t ids[PROMPT];
    text t = {.n = 0};
    err e = {0};
    bool more = true;
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i % 7;
    const query q = {.ids = ids,
                     .n_ids = PROMPT,
                     .max_tokens = 24,
                     .ignore_eos = true,
                     .sample = {.repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .n_logprobs = -1,
                     .on_token = add_token,
                     .ctx = &t};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(t.n, 24);
    return t;
}

static void texts_go_on(void **unused)
{
    (void)unused;
    char dir[300];
    err e = {0};
    fingerprint plain, own;
    engine_stats s;
    engine *g = open_on("mixtral", "cpu", NULL);
    const text want = run_text(g);
    assert_ok(engine_fingerprint(g, &plain, &e), &e);
    engine_close(g);
    snprintf(dir, sizeof dir, "%s", temp_path("experts"));
    for (int i = 0; i < 2; i++) { /* the second finds the pages of the first */
        g = open_on("mixtral", "cpu*1,0&cpu*0,1", "ngram");
        assert_ok(engine_keep_folder(g, dir, 1 << 26, &e), &e);
        const text got = run_text(g);
        assert_memory_equal(&got, &want, sizeof want);
        engine_get_stats(g, &s);
        assert_true(i ? s.disk_read > 0 : s.disk_written > 0);
        assert_true(s.draft_tokens > 0);
        assert_ok(engine_fingerprint(g, &own, &e), &e);
        assert_memory_equal(&own, &plain, sizeof own);
        engine_close(g);
    }
    char remove[340];
    snprintf(remove, sizeof remove, "rm -r %s", dir);
    assert_int_equal(system(remove), 0);
}

/* ---- errors */

static void refuses(engine_options o, const char *name, const char *says)
{
    char folder[128];
    engine *g;
    err e = {0};
    snprintf(folder, sizeof folder, "%s/%s", vectors, name);
    o.model = folder;
    assert_int_equal(engine_open(&g, &o, &e), ERR_USAGE);
    if (!strstr(e.msg, says)) fail_msg("%s", e.msg);
}

static void refused(void **unused)
{
    (void)unused;
    refuses((engine_options){.devices = "cpu*1,0&cpu*0,1"}, "llama", "a model that has none");
    refuses((engine_options){.devices = "cpu*1,0&cpu*0,0"}, "mixtral", "experts without a device");
    refuses((engine_options){.devices = "cpu*0,1&cpu*0,1"}, "mixtral", "a share of 0");
    refuses((engine_options){.devices = "cpu*1,1&cpu*0"}, "mixtral", "a share of 0");
    refuses((engine_options){.devices = "cpu*1,-1&cpu"}, "mixtral", "\"cpu*1,-1\"");
    refuses((engine_options){.devices = "cpu*1,&cpu"}, "mixtral", "behind a comma may stand that of experts");
    refuses((engine_options){.devices = "cpu*1,0&cpu*0,1", .choices.reduce = REDUCE_INT8}, "mixtral", "--reduce");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_one_device), cmocka_unit_test(ranks_have_what_they_do),
                                       cmocka_unit_test(texts_go_on), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
