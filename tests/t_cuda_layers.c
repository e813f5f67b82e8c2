/* t_cuda_layers.c - a GPU that is too small for the model has the last layers and the head, as many as fit; or as many
 * as --gpu-layers says; a draft model takes its memory before pages are counted. On software GPUs of little memory:
 * texts are those of the CPU, and what a device holds is what `plan` says. */
#include "gpu_path.h"
#include "test.h"

#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"
#include "engine/engine_state.h"
#include "measure/auto_open.h"
#include "plan/plan_show.h"
#include "plan/plan_state.h"

#include <dlfcn.h>
#include <stdio.h>

enum { MEMORY = 64 /* MiB of a card: not all layers of the built-in model fit */, TOKENS = 6, CTX = 256 };

typedef struct text {
    int32_t ids[TOKENS];
    int n;
} text;

static bool take_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (ev->token >= 0 && t->n < TOKENS) t->ids[t->n++] = ev->token;
    return true;
}

static text run_text(engine *g)
{
    static const int32_t prompt[] = {40, 50, 60, 70, 80};
    text t = {.n = 0};
    err e = {0};
    bool more = true;
    const query q = {.ids = prompt,
                     .n_ids = 5,
                     .max_tokens = TOKENS,
                     .ignore_eos = true,
                     .sample = {.repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .n_logprobs = -1,
                     .on_token = take_token,
                     .ctx = &t};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(t.n, TOKENS);
    return t;
}

static engine *open_on(engine_options o)
{
    engine *g;
    err e = {0};
    o.model = "builtin";
    o.ctx = CTX;
    o.threads = 1;
    assert_ok(auto_open(&g, &o, &e), &e);
    return g;
}

static void same_text_as_the_cpu(engine *g)
{
    static text want;
    if (!want.n) {
        engine *cpu = open_on((engine_options){.no_gpu = true});
        assert_string_equal(cpu->info.devices, "cpu");
        want = run_text(cpu);
        engine_close(cpu);
    }
    const text got = run_text(g);
    assert_memory_equal(&want, &got, sizeof want);
}

/* What lies on the card, beside what the plan says of its ranks there. */
static void holds_what_the_plan_says(const engine *g)
{
    json *made = json_new_object(), *root;
    buf printed = {0};
    err e = {0};
    double said = 0, holds = 0;
    assert_ok(plan_json(g->plan, NULL, made, &e), &e);
    json_print(&printed, made, false);
    assert_ok(json_parse(&root, buf_span(&printed), "the plan", &e), &e);
    for (const json *r = json_first(json_get(root, "ranks")); r; r = json_next(r))
        if (!strncmp(json_str(json_get(r, "device"), ""), "cuda", 4))
            said += (double)json_int(json_get(r, "own_bytes"), 0) + (double)json_int(json_get(r, "kv_bytes"), 0) +
                    (double)json_int(json_get(r, "step_bytes"), 0);
    for (int i = 0; i < g->plan->n && !(holds > 0); i++)
        if (g->plan->ranks[i].seg.be == &cuda_backend)
            holds = (MEMORY << 20) - (double)cuda_backend.budget(g->plan->ranks[i].weights->set);
    json_free(root);
    json_free(made);
    buf_free(&printed);
    if (said < 0.95 * holds || said > 1.05 * holds)
        fail_msg("the plan says %.0f bytes, the card has %.0f", said, holds);
}

static void as_many_as_fit(void **unused)
{
    (void)unused;
    int first, last;
    err e = {0};
    engine *g = open_on((engine_options){.devices = NULL}), *more;
    if (sscanf(g->info.devices, "cpu*%d;cuda:0*%d", &first, &last) != 2) fail_msg("%s", g->info.devices);
    assert_true(first > 0 && last > 0 && first + last == g->prog->n_layer);
    holds_what_the_plan_says(g);
    same_text_as_the_cpu(g);
    holds_what_the_plan_says(g);
    engine_close(g);
    /* With one layer more there is no room for a text. */
    char n[12];
    snprintf(n, sizeof n, "%d", last + 1);
    const engine_options o = {.model = "builtin", .ctx = CTX, .threads = 1, .gpu_layers = n};
    assert_int_equal(auto_open(&more, &o, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "--ctx 256"));
}

static void as_many_as_asked_for(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {{"0", "cpu"}, {"1", "cpu*5;cuda:0*1"}, {"3", "cpu*3;cuda:0*3"}};
    for (int i = 0; i < 3; i++) {
        engine *g = open_on((engine_options){.gpu_layers = rows[i][0]});
        assert_string_equal(g->info.devices, rows[i][1]);
        if (i) holds_what_the_plan_says(g);
        same_text_as_the_cpu(g);
        engine_close(g);
    }
}

static void refuses(engine_options o, const char *says)
{
    engine *g;
    err e = {0};
    o.model = "builtin";
    assert_int_equal(auto_open(&g, &o, &e), ERR_USAGE);
    if (!strstr(e.msg, says)) fail_msg("%s", e.msg);
}

static void refused(void **unused)
{
    (void)unused;
    refuses((engine_options){.gpu_layers = "many"}, "--gpu-layers many: a number of layers, or all");
    refuses((engine_options){.gpu_layers = "-1"}, "--gpu-layers -1: a number of layers, or all");
    refuses((engine_options){.gpu_layers = "2", .devices = "cpu"}, "--gpu-layers: --devices names devices");
    refuses((engine_options){.no_gpu = true, .devices = "cpu"}, "--no-gpu: --devices names devices");
    refuses((engine_options){.no_gpu = true, .gpu_layers = "2"}, "give one of both");
    refuses((engine_options){.gpu_layers = "2", .peers = "localhost:1"}, "give one of both");
}

int main(void)
{
    char folder[1024], path[1100], memory[16];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    snprintf(memory, sizeof memory, "%d", MEMORY);
    setenv("SOFT_GPU_MEMORY", memory, 1);
    if (!dlopen(path, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_many_as_fit), cmocka_unit_test(as_many_as_asked_for),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
