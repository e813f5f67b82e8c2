/* t_cuda_host.c - what a GPU reads in memory of the host: tables of embeddings. On software GPUs, whose own addresses
 * lie 2^48 above memory: where things are, and what is told of it. */
#include "cuda_rig.h"

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
        const bool table = !is_read(w->p, i, false);
        assert_true(table == ((uintptr_t)h->data < DEVICE_MEMORY));
        if (table) bytes += cuda_aligned((uint64_t)(h->packed ? h->rows / PANEL_ROWS : h->rows) * h->stride);
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
        snprintf(path, sizeof path, "tests/vectors/models/%s", rows[i].model);
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
#endif

int main(void)
{
    if (!cuda_rig_open()) return 0;
#ifdef HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_on_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
