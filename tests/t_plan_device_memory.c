/* t_plan_device_memory.c - what moves between host and devices, and what lies there: bytes of a decode step, pages that
 * go from one device to another, activations that cross in more than one stream, plans of one program at the same time,
 * memory of devices that have their own. */
#include "fake/fake_backend.h"
#include "pages_rig.h"
#include "plan/plan_memory.h"
#include "plan/plan_pages.h"

static void pages_of_fakes(void **unused)
{
    (void)unused;
    pages_move("fake", (backend_use){&fake_backend, NULL}, 0);
}

static void streams_of_fakes(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cpu;cpu", "fake;cpu", "cpu;fake;cpu", "fake;fake;fake"};
    streams_cross(devices, 4, (backend_use){&fake_backend, NULL});
}

static void plans_of_fakes(void **unused)
{
    (void)unused;
    const fake_options fake = {.delay = 50};
    plans_at_once((const char *[]){"cpu:1", "fake", "fake;cpu:1"}, (backend_use){&fake_backend, &fake});
}

/* ---- an engine on devices with memory of their own */

static int open_engine(engine **g, const char *devices, int max_batch, const fake_options *fake, err *e)
{
    const backend_use more[] = {{&fake_backend, fake}, {0}};
    const engine_options o = {
        .devices = devices, .kv = "f32", .threads = 1, .max_batch = max_batch, .more_backends = more};
    return engine_of_model(g, rig_model(&windows, 7, CTX), rig_model_drop, &o, e);
}

static bool count_ends(void *ctx, const token_event *ev)
{
    *(int *)ctx += ev->finish != FINISH_NONE;
    return true;
}

/* A step of greedy sequences: at most 4 KiB and 64 bytes a sequence to the device, 16 a sequence back. */
static void bytes_of_a_step(void **unused)
{
    (void)unused;
    static const int counts[] = {1, 8, 32};
    for (int c = 0; c < 3; c++) {
        const int n = counts[c];
        fake_log log = {0};
        const fake_options fake = {.log = &log};
        int32_t ids[20] = {0};
        int ended = 0;
        err e = {0};
        engine *g;
        bool more;
        assert_ok(open_engine(&g, "fake", n, &fake, &e), &e);
        for (int i = 0; i < n; i++) {
            ids[0] = i;
            const query q = {.ids = ids,
                             .n_ids = 20,
                             .max_tokens = 80,
                             .ignore_eos = true,
                             .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                             .n_logprobs = -1,
                             .on_token = count_ends,
                             .ctx = &ended};
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        }
        for (int i = 0; i < 12; i++) assert_ok(engine_infer(g, &more, &e), &e); /* prompts */
        const unsigned long long weights = log.weights;
        for (int i = 0; i < 60; i++) {
            const unsigned long long sent = log.steps + log.puts, got = log.gets;
            assert_ok(engine_infer(g, &more, &e), &e);
            const unsigned long long to = log.steps + log.puts - sent, back = log.gets - got;
            if (to == 0 || to > 4096 + 64 * (unsigned long long)n || back > 16 * (unsigned long long)n)
                fail_msg("a step of %d sequences: %llu bytes to the device, %llu back", n, to, back);
        }
        assert_true(log.weights == weights && log.pages == 0 && ended == 0);
        engine_close(g);
        assert_int_equal(ended, n);
    }
}

/* Pages are as many as the device with the least memory holds. */
static void least_memory(void **unused)
{
    (void)unused;
    const fake_options wide = {.memory = 64 << 20}, narrow = {.memory = 4 << 20}, none = {.memory = 1 << 16};
    err e = {0};
    engine *a, *b, *c;
    assert_ok(open_engine(&a, "cpu;fake", 64, &wide, &e), &e);
    assert_ok(open_engine(&b, "cpu;fake", 64, &narrow, &e), &e);
    assert_true(b->kv.pages[0].total < a->kv.pages[0].total && b->kv.pages[0].total >= CTX / PAGE_TOKENS);
    assert_int_equal(open_engine(&c, "cpu;fake", 8, &none, &e) != OK, 1);
    assert_true(strstr(e.msg, "--ctx") || strstr(e.msg, "no memory left"));
    engine_close(a);
    engine_close(b);
}

/* A device that has its own memory gives all that is left to pages: half of it, as the other half is for tiles. */
static void all_of_its_memory(void **unused)
{
    (void)unused;
    const fake_options fake = {.memory = 4 << 20};
    uint64_t page[GROUP_MAX], all = 0;
    err e = {0};
    engine *g;
    assert_ok(open_engine(&g, "fake", 64, &fake, &e), &e);
    assert_true(plan_page_bytes(g->plan, page));
    for (uint32_t i = 0; i < g->prog->n_group; i++) all += page[i] * (uint64_t)g->kv.pages[i].total;
    assert_true(10 * all > 4 * fake.memory && 2 * all < fake.memory);
    engine_close(g);
}

/* There is no fall-back: the error names device and op. */
static void op_that_is_lacking(void **unused)
{
    (void)unused;
    const fake_options fake = {.lacks = OP_ROPE};
    err e = {0};
    engine *g;
    assert_int_equal(open_engine(&g, "cpu;fake", 1, &fake, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "fake device has no kernel for rope"));
}

/* The CPU's devices are one memory, every other device is one of its own. */
static void memories(void **unused)
{
    (void)unused;
    const fake_options fake = {.memory = 64 << 20};
    uint64_t all[GROUP_MAX] = {0}, sum[GROUP_MAX] = {0};
    plan_room room;
    program *p = random_model(&windows, 5);
    plan *l = open_on(p, "cpu;fake;cpu", DTYPE_F32, 1, (backend_use){&fake_backend, &fake});
    for (uint32_t i = 0; i < p->n_state; i++)
        all[p->states[i].group] += kv_page_bytes(&p->states[i], DTYPE_F16, DTYPE_F16);
    int n = 0;
    for (; plan_memory(l, n, DTYPE_F16, DTYPE_F16, &room); n++) {
        assert_true(room.of_process == !n);
        if (n == 1) assert_true(room.left < 32 << 20 && room.left > 16 << 20);
        for (int g = 0; g < GROUP_MAX; g++) sum[g] += room.page[g];
    }
    assert_int_equal(n, 2);
    assert_memory_equal(all, sum, sizeof all);
    plan_close(l);
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_of_fakes), cmocka_unit_test(streams_of_fakes),
                                       cmocka_unit_test(plans_of_fakes), cmocka_unit_test(bytes_of_a_step),
                                       cmocka_unit_test(least_memory),   cmocka_unit_test(all_of_its_memory),
                                       cmocka_unit_test(memories),       cmocka_unit_test(op_that_is_lacking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
