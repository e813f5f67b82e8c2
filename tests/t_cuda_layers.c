/* t_cuda_layers.c - a GPU that is too small for the model has the last layers and the head, as many as fit; or as many
 * as --gpu-layers says; several GPUs share the layers by memory; experts are on the CPU where that is asked for. On
 * software GPUs of little memory: texts are those of the CPU, and what a device holds is what `plan` says. */
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
#include <sys/wait.h>

enum { TOKENS = 6, CTX = 256 };
static int memory; /* MiB of a card */

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
    static const int32_t prompt[] = {4, 15, 16, 27, 38};
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
    o.model = o.model ? o.model : "builtin";
    o.ctx = o.ctx ? o.ctx : CTX;
    o.threads = 1;
    assert_ok(auto_open(&g, &o, &e), &e);
    return g;
}

static void same_text_as_the_cpu(engine *g)
{
    static text texts[2];
    text *of = &texts[g->prog->n_used > 0], want = *of;
    if (!want.n) {
        engine *cpu = open_on((engine_options){.no_gpu = true, .model = g->options.model});
        assert_string_equal(cpu->info.devices, "cpu");
        want = *of = run_text(cpu);
        engine_close(cpu);
    }
    const text got = run_text(g);
    assert_memory_equal(&want, &got, sizeof want);
}

/* What lies on each card, beside what the plan says of its ranks there. */
static void card_holds_what_the_plan_says(const engine *g, int card)
{
    json *made = json_new_object(), *root;
    buf printed = {0};
    err e = {0};
    double said = 0, holds = 0;
    char name[12];
    snprintf(name, sizeof name, "cuda:%d", card);
    assert_ok(plan_json(g->plan, NULL, made, &e), &e);
    json_print(&printed, made, false);
    assert_ok(json_parse(&root, buf_span(&printed), "the plan", &e), &e);
    for (const json *r = json_first(json_get(root, "ranks")); r; r = json_next(r))
        if (!strcmp(json_str(json_get(r, "device"), ""), name))
            said += (double)json_int(json_get(r, "own_bytes"), 0) + (double)json_int(json_get(r, "kv_bytes"), 0) +
                    (double)json_int(json_get(r, "step_bytes"), 0);
    for (int i = 0; i < g->plan->n && !(holds > 0); i++)
        if (g->plan->ranks[i].seg.be == &cuda_backend && g->plan->ranks[i].number == card)
            holds = (memory << 20) - (double)cuda_backend.budget(g->plan->ranks[i].weights->set);
    json_free(root);
    json_free(made);
    buf_free(&printed);
    if (said < 0.95 * holds || said > 1.05 * holds)
        fail_msg("the plan says %.0f bytes, card %d has %.0f", said, card, holds);
}

static void holds_what_the_plan_says(const engine *g)
{
    for (int card = 0; card < 4; card++) card_holds_what_the_plan_says(g, card);
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

static const char mixtral[] = "tests/vectors/models/mixtral";

static void opens_as(engine_options o, const char *devices)
{
    engine *g = open_on(o);
    assert_string_equal(g->info.devices, devices);
    holds_what_the_plan_says(g);
    same_text_as_the_cpu(g);
    engine_close(g);
}

static void experts_on_the_cpu(void **unused)
{
    (void)unused;
    opens_as((engine_options){.model = mixtral, .cpu_moe = true}, "cuda:0*2,0&cpu*0,1");
    opens_as((engine_options){.model = mixtral, .n_cpu_moe = 1}, "cuda:0*1,0&cpu*0,1;cuda:0*1");
    opens_as((engine_options){.model = mixtral, .n_cpu_moe = 2, .gpu_layers = "1"}, "cpu*1;cuda:0*1,0&cpu*0,1");
}

static void several_share(void **unused)
{
    (void)unused;
    opens_as((engine_options){.devices = NULL}, "cuda:0*2;cuda:1*1;cuda:2*2;cuda:3*1");
    opens_as((engine_options){.model = mixtral, .gpu_layers = "1"}, "cpu*1;cuda:0*1");
    opens_as((engine_options){.model = mixtral, .n_cpu_moe = 1}, "cuda:0*1,0&cpu*0,1;cuda:2*1");
}

/* The two cards have no room for the model and a long text. */
static void several_fill(void **unused)
{
    (void)unused;
    int rest, first, last;
    engine *g = open_on((engine_options){.ctx = 8192});
    if (sscanf(g->info.devices, "cpu*%d;cuda:0*%d;cuda:1*%d", &rest, &first, &last) != 3)
        fail_msg("%s", g->info.devices);
    assert_true(rest > 0 && first > 0 && last > 0 && rest + first + last == g->prog->n_layer);
    holds_what_the_plan_says(g);
    same_text_as_the_cpu(g);
    engine_close(g);
}

/* Layers on the card for texts of so many tokens. */
static int layers_of(int ctx, int kv_host)
{
    int first, last;
    engine *g = open_on((engine_options){.ctx = ctx, .kv_host = kv_host});
    if (sscanf(g->info.devices, "cpu*%d;cuda:0*%d", &first, &last) != 2) fail_msg("%s", g->info.devices);
    holds_what_the_plan_says(g);
    same_text_as_the_cpu(g);
    engine_close(g);
    return last;
}

static void more_fit_with_pages_on_the_host(void **unused)
{
    (void)unused;
    enum { LONG = 2048 };
    const int own = layers_of(LONG, 0), host = layers_of(LONG, 100);
    if (own >= host) fail_msg("%d layers, with their pages on the host %d", own, host);
}

static void refuses(engine_options o, const char *says)
{
    engine *g;
    err e = {0};
    o.model = o.model ? o.model : "builtin";
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
    refuses((engine_options){.cpu_moe = true}, "--cpu-moe: the model has no experts");
    refuses((engine_options){.model = mixtral, .n_cpu_moe = 1, .devices = "cpu"},
            "--n-cpu-moe: --devices names devices");
    refuses((engine_options){.model = mixtral, .cpu_moe = true, .peers = "localhost:1"}, "--cpu-moe gives one");
}

static void set_number(const char *name, int n)
{
    char value[16];
    snprintf(value, sizeof value, "%d", n);
    setenv(name, value, 1);
}

/* In a process of its own: a driver counts its devices once. */
static int run_on(int cards, int mebi, const struct CMUnitTest *test, size_t n)
{
    char folder[1024], path[1100];
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child > 0) return waitpid(child, &status, 0) != child || status;
    memory = mebi;
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    set_number("SOFT_GPU_MEMORY", mebi);
    set_number("SOFT_GPU_DEVICES", cards);
    set_number("SOFT_GPU_RACES", 0); /* others look for them */
    if (!dlopen(path, RTLD_NOW)) fprintf(stderr, "%s\n", dlerror()), exit(1);
    exit(_cmocka_run_group_tests("layers", test, n, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest one[] = {cmocka_unit_test(as_many_as_fit), cmocka_unit_test(as_many_as_asked_for),
                                     cmocka_unit_test(more_fit_with_pages_on_the_host), cmocka_unit_test(refused)},
                            experts[] = {cmocka_unit_test(experts_on_the_cpu)},
                            four[] = {cmocka_unit_test(several_share)}, two[] = {cmocka_unit_test(several_fill)};
    if (getenv("SEVERAL")) return run_on(4, 256, four, 1) + run_on(2, 72, two, 1);
    return run_on(1, 64, one, 4) + run_on(1, 256, experts, 1) + run_on(4, 256, four, 1) + run_on(2, 72, two, 1);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
