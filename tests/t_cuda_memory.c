/* t_cuda_memory.c - what GPUs have for pages and which device is preferred, on software GPUs of little memory: memory
 * is that of a card, however many devices are on it; pages take what steps leave, and no more. */
#include "core/kv_type.h"
#include "cuda/cuda_backend.h"
#include "engine/engine_state.h"
#include "gpu_path.h"
#include "measure/auto_open.h"
#include "model_rig.h"
#include "net/key_file.h"
#include "net/node.h"
#include "plan/plan_memory.h"
#include "plan/plan_state.h"

#include <dlfcn.h>
#include <stdio.h>

#ifdef HAVE_CUDA
enum { MEMORY = 192 /* MiB of a card */, CTX = 256 };

static const model_shape small = {.layers = 4,
                                  .dim = 64,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .ffn = 96,
                                  .vocab = 61,
                                  .ctx = CTX,
                                  .rope_dims = 16,
                                  .gated = true,
                                  .type = DTYPE_F32};

static const backend_use backends[] = {{&cuda_backend, NULL}, {&cpu_backend, NULL}, {0}};

static plan *place(const program *p, const char *devices, int in_flight)
{
    plan *l;
    err e = {0};
    const plan_case c = {.devices = devices, .backends = backends, .rows = 64, .in_flight = in_flight};
    assert_ok(rig_plan_place(&l, p, &c, &e), &e);
    return l;
}

static uint64_t pages_of(const plan_room *r)
{
    uint64_t sum = 0;
    for (int g = 0; g < GROUP_MAX; g++) sum += r->page[g];
    return sum;
}

static void memory_is_the_cards(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices;
        int n, layers[3]; /* memories; of a fourth of all layers, those whose pages lie there */
    } rows[] = {{"cuda:0;cuda:0", 1, {4}},
                {"cuda:0;cuda:1", 2, {2, 2}},
                {"cuda;cuda:0", 1, {4}},
                {"cpu;cuda:1;cpu:1", 2, {2, 2}},
                {"cuda:1;cuda:0;cuda:1;cpu", 3, {2, 1, 1}}};
    program *p = random_model(&small, 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plan *l = place(p, rows[i].devices, 1);
        plan_room room;
        int n = 0;
        for (; plan_memory(l, n, DTYPE_F16, DTYPE_F16, &room); n++) {
            const uint64_t layer = kv_page_bytes(&p->states[0], DTYPE_F16, DTYPE_F16);
            if (pages_of(&room) != (uint64_t)rows[i].layers[n] * layer)
                fail_msg("%s: memory %d has pages of %llu bytes", rows[i].devices, n,
                         (unsigned long long)pages_of(&room));
        }
        assert_int_equal(n, rows[i].n);
        plan_close(l);
    }
    program_free(p);
}

/* What is left for pages is what is free, less the activations of all steps under way and what kernels need: with pages
 * of that size the devices open, and nothing is left. */
static void pages_take_the_rest(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cuda:0", "cuda:0;cuda:0", "cuda:0&cuda:0"};
    program *p = random_model(&small, 5);
    for (int k = 0; k < 6; k++) {
        plan *l = place(p, devices[k / 2], k % 2 ? 3 : 1);
        plan_room room;
        err e = {0};
        cache_options cache = {.k_type = DTYPE_F16, .v_type = DTYPE_F16};
        assert_true(plan_memory(l, 0, DTYPE_F16, DTYPE_F16, &room) && !room.of_process);
        cache.n_page[0] = (int)(room.left / pages_of(&room));
        assert_ok(plan_ready(l, &cache, NULL, &e), &e);
        uint64_t kept = 0;
        for (int i = 0; i < l->n; i++)
            kept += cuda_backend.overhead(l->ranks[i].weights->set, l->ranks[i].seg.p, l->ranks[i].n_lane);
        const uint64_t left = cuda_backend.budget(l->ranks[0].weights->set);
        if (left > kept + pages_of(&room) + (1 << 20))
            fail_msg("%s: %llu bytes are left", devices[k / 2], (unsigned long long)left);
        plan_close(l);
    }
    program_free(p);
}

static void the_first_usable_device_is_preferred(void **unused)
{
    (void)unused;
    static const backend_use cpu_first[] = {{&cpu_backend, NULL}, {&cuda_backend, NULL}, {0}};
    static const char *const rows[][2] = {{NULL, "cuda:0"}, {"auto*3;cpu", "cuda:0*3;cpu"}, {"cpu", "cpu"}};
    device_list list;
    device_here here[8];
    err e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf text = {0};
        assert_ok(device_list_parse(&list, rows[i][0], backends, &e), &e);
        assert_true(device_list_text(&list, &text));
        assert_string_equal(buf_cstr(&text), rows[i][1]);
        device_list_close(&list);
        buf_free(&text);
    }
    assert_string_equal(devices_preferred(cpu_first).name, "cpu");
    assert_int_equal(devices_here(backends, here, 8), 5);
    assert_string_equal(here[3].name, "cuda:3");
    assert_string_equal(here[4].name, "cpu");
    assert_true(here[0].info.software && here[0].info.total_bytes == MEMORY << 20);
}

/* Rows that pass between devices are coded by the best instructions of the process, also for a device that has no
 * codecs. */
static void codecs_are_the_process(void **unused)
{
    (void)unused;
    program *p = random_model(&small, 5);
    plan *l = place(p, "cuda:0;cuda:1", 1);
    assert_ptr_equal(l->codecs, cpu_backend.wire());
    plan_close(l);
    program_free(p);
}

/* A node lends every device that can be used, or those that it was told to. */
static void a_node_lends_all(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices, *lent[5];
    } rows[] = {{NULL, {"cuda:0", "cuda:1", "cuda:2", "cuda:3", "cpu"}}, {"cpu:2,cuda:3", {"cpu:2", "cuda:3"}}};
    char key[256];
    err e = {0};
    snprintf(key, sizeof key, "%s", temp_path("key"));
    unlink(key);
    assert_ok(key_file_write(key, &e), &e);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const node_options o = {
            .key_file = key, .at = {"127.0.0.1", 0}, .backends = backends, .devices = rows[i].devices};
        node *n;
        uint32_t count = 0;
        assert_ok(node_open(&n, &o, &e), &e);
        for (; count < 5 && rows[i].lent[count]; count++)
            assert_string_equal(node_says(n)->device[count].name, rows[i].lent[count]);
        assert_int_equal(node_says(n)->n_device, count);
        node_close(n);
    }
}

/* A draft model is on the device that has the head, and opens before pages are counted: with half of the layers there
 * neither has more than twice as many as the other. */
static void a_draft_model_is_beside_the_head(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {{"cpu;cuda:1", "cuda:1"}, {"cuda:1;cpu:1", "cpu:1"}, {NULL, "cuda:3"}};
    for (int i = 0; i < 3; i++) {
        const engine_options o = {
            .model = "builtin", .devices = rows[i][0], .draft = "builtin", .ctx = 1024, .threads = 1, .max_batch = 200};
        engine *g;
        err e = {0};
        assert_ok(auto_open(&g, &o, &e), &e);
        const engine *guesser = g->guesses.self;
        assert_string_equal(guesser->info.devices, rows[i][1]);
        const int32_t own = g->kv.pages[0].total, its = guesser->kv.pages[0].total;
        if (i == 0 && (own < its / 2 || its < own / 2)) fail_msg("%d pages, of the draft model %d", own, its);
        engine_close(g);
    }
}

/* More on a GPU than on a CPU, as far as there is room: a step of 2048 rows would take more than an eighth of it. */
static void steps_have_rows_as_devices_and_memory_suit(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices;
        int rows;
    } rows[] = {{"cpu", 512}, {"cuda:0", 1024}, {"cuda:0;cpu", 512}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const engine_options o = {
            .model = "builtin", .devices = rows[i].devices, .ctx = 2048, .threads = 1, .max_batch = 1};
        engine *g;
        err e = {0};
        assert_ok(engine_open(&g, &o, &e), &e);
        if (g->chunk != rows[i].rows) fail_msg("%s: steps of %d rows, not %d", o.devices, (int)g->chunk, rows[i].rows);
        engine_close(g);
    }
}

int main(void)
{
    char folder[1024], path[1100], memory[16];
    gpu_folder(folder);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    snprintf(memory, sizeof memory, "%d", MEMORY);
    setenv("SOFT_GPU_MEMORY", memory, 1);
    if (!dlopen(path, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_the_cards),
                                       cmocka_unit_test(pages_take_the_rest),
                                       cmocka_unit_test(the_first_usable_device_is_preferred),
                                       cmocka_unit_test(codecs_are_the_process),
                                       cmocka_unit_test(steps_have_rows_as_devices_and_memory_suit),
                                       cmocka_unit_test(a_node_lends_all),
                                       cmocka_unit_test(a_draft_model_is_beside_the_head)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
