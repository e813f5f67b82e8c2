/* t_cuda_host.c - what a GPU reads in memory of the host: tables of embeddings, and the cache of the last layers. On
 * software GPUs, whose own addresses lie 2^48 above memory: where things are, what is told of it, the CPU's bits. */
#include "cuda_rig.h"
#include "ways_rig.h"

#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"
#include "cuda/cuda_state.h"
#include "engine/engine_state.h"
#include "plan/plan_show.h"
#include "plan/plan_state.h"

#define DEVICE_MEMORY (UINT64_C(1) << 48)

static engine *open_engine(engine_options o)
{
    engine *g;
    err e = {0};
    o.ctx = 64;
    o.threads = 1;
    o.max_batch = 2;
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* Whether ops read a weight: EMBED, or others. */
static bool is_read(const program *p, uint32_t number, bool by_embed)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            const bool reads = p->ops[i].in[k] && t->kind == TENSOR_WEIGHT && t->weight == number;
            if (reads && by_embed == (p->ops[i].kind == OP_EMBED)) return true;
        }
    return false;
}

/* Bytes of the host that a rank's weights have; each of them lies where it should. */
static uint64_t look_at_weights(const plan_rank *r)
{
    const cuda_weights *w = (const void *)r->weights->set;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < w->p->n_weight; i++) {
        if (!w->wanted[i]) continue;
        const held_weight *h = &w->helds[i];
        const bool there = !is_read(w->p, i, false);
        assert_true(there == ((uintptr_t)h->data < DEVICE_MEMORY));
        if (there) bytes += cuda_aligned((uint64_t)(h->packed ? h->rows / PANEL_ROWS : h->rows) * h->stride);
    }
    return bytes;
}

/* What the plan tells; to be freed. */
static json *tell_plan(const engine *g)
{
    json *made = json_new_object(), *told;
    buf text = {0};
    err e = {0};
    assert_ok(plan_json(g->plan, NULL, made, &e), &e);
    json_print(&text, made, false);
    assert_ok(json_parse(&told, buf_span(&text), "the plan", &e), &e);
    json_free(made);
    buf_free(&text);
    return told;
}

static uint64_t bytes_of(const json *told, int rank, const char *key)
{
    return (uint64_t)json_int(json_get(json_at(json_get(told, "ranks"), (size_t)rank), key), -1);
}

/* Tables lie on the host, but where the head of the same device shares them. */
static void tables_are_on_the_host(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *devices;
        bool host[2]; /* rank by rank: whether there is such a table */
    } rows[] = {{"llama", "cuda:0", {true}},
                {"llama", "cpu;cuda:0", {false, false}},
                {"exaone4-full", "cuda:0", {false}}, /* tied */
                {"exaone4-full", "cuda:0;cuda:1", {true, false}},
                {"gpt2", "cuda:0", {true}}}; /* tied, with a table of positions */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", vectors, rows[i].model);
        engine *g = open_engine((engine_options){.model = path, .devices = rows[i].devices});
        json *told = tell_plan(g);
        for (int k = 0; k < g->plan->n; k++) {
            const plan_rank *r = &g->plan->ranks[k];
            const uint64_t host = r->seg.be == &cuda_backend ? look_at_weights(r) : 0;
            if ((host > 0) != rows[i].host[k]) fail_msg("%s on %s, rank %d", rows[i].model, rows[i].devices, k);
            assert_int_equal(bytes_of(told, k, "host_bytes"), host);
            assert_int_equal(bytes_of(told, k, "own_bytes"), r->weights->bytes - host);
        }
        json_free(told);
        engine_close(g);
    }
}

/* The last layers of each GPU, some of them rounded up, and none of a CPU. */
static void pages_are_on_the_host(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices;
        int percent, host[3]; /* states of each rank whose pages are on the host */
    } rows[] = {{"cuda:0", 0, {0}},
                {"cuda:0", 1, {1}},
                {"cuda:0", 50, {3}},
                {"cuda:0", 100, {6}},
                {"cuda:0;cpu", 100, {3, 0}},
                {"cuda:0;cuda:1", 50, {2, 2}},
                {"cpu;cuda:0&cuda:1", 60, {0, 3, 3}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        engine *g = open_engine(
            (engine_options){.model = "builtin", .devices = rows[i].devices, .kv_host = rows[i].percent});
        json *told = tell_plan(g);
        for (int k = 0; k < g->plan->n; k++) {
            const plan_rank *r = &g->plan->ranks[k];
            const cuda_device *d = (const void *)r->seg.on;
            const uint64_t pages = bytes_of(told, k, "kv_page_bytes") * bytes_of(told, k, "pages"),
                           host = bytes_of(told, k, "host_bytes") - r->weights->host;
            int n = 0, all = 0;
            for (uint32_t s = 0; s < r->seg.p->n_state; s++) all += program_stores(r->seg.p, s);
            for (uint32_t s = 0; s < r->seg.p->n_state && r->seg.be == &cuda_backend; s++)
                n += d->kv[s].k && (uintptr_t)d->kv[s].k < DEVICE_MEMORY;
            if (n != rows[i].host[k]) fail_msg("%s, %d %%: rank %d has %d", rows[i].devices, rows[i].percent, k, n);
            assert_int_equal(host * (uint64_t)all, pages * (uint64_t)n);
            assert_int_equal(bytes_of(told, k, "kv_bytes"), pages - host);
        }
        json_free(told);
        engine_close(g);
    }
}

/* Logits, texts, beams with pages on the host, of every type of cache: models with one and several groups of pages,
 * slots, an encoder. */
static void the_bits_of_the_cpu(void **unused)
{
    (void)unused;
    static const char *const models[] = {"llama", "gemma3", "lfm2", "t5"}, *const kinds[] = {"f16", "i16", "q8", "q4",
                                                                                             "f32"};
    static const way ways[] = {{"cuda:0", 1, 7, .kv_host = 100},       {"cuda:0;cpu", 2, 16, .kv_host = 100},
                               {"cpu;cuda:0", 2, 7, .kv_host = 50},    {"cuda:0;cuda:1", 2, 16, .kv_host = 50},
                               {"cuda:0&cuda:1", 1, 7, .kv_host = 50}, {"cuda:0&cpu", 1, 16, .kv_host = 100}};
    enum { WAYS = sizeof ways / sizeof *ways };
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", vectors, models[i]);
        const inputs x = inputs_read(path);
        for (int k = 0; k < WAYS; k++)
            if (cuda_takes_case(i + k, 4)) wrong += compare(path, &x, kinds[(i + k) % 5], NULL, &ways[k], 1);
    }
    assert_int_equal(wrong, 0);
    assert_true(compared > 4);
}

static void refused(void **unused)
{
    (void)unused;
    engine *g;
    err e = {0};
    const engine_options o = {.model = "builtin", .devices = "cpu", .kv_host = 20, .no_kv_offload = true};
    assert_int_equal(engine_open(&g, &o, &e), ERR_USAGE);
    assert_string_equal(e.msg, "--kv-host, --no-kv-offload: give one of both");
}
#endif

int main(void)
{
    if (!cuda_rig_open()) return 0;
#ifdef HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_on_the_host),
                                       cmocka_unit_test(pages_are_on_the_host), cmocka_unit_test(the_bits_of_the_cpu),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
