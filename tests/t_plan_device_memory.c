/* t_plan_device_memory.c - what moves between host and devices, and what lies there: bytes of a decode step, pages that
 * go from one device to another, activations that cross in more than one stream, plans of one program at the same time,
 * memory of devices that have their own. */
#include "core/kv_type.h"
#include "engine/engine_state.h"
#include "fake/fake_backend.h"
#include "model_rig.h"
#include "plan/plan_memory.h"
#include "plan/plan_pages.h"

#include <pthread.h>

enum { ROWS = 64, PAGES = 8, CAP = 4, CTX = 256 };

static const model_shape windows = {.layers = 3,
                                    .dim = 32,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 10,
                                    .ffn = 40,
                                    .vocab = 61,
                                    .ctx = CTX,
                                    .window = 70,
                                    .rope_dims = 10,
                                    .gated = true,
                                    .type = DTYPE_F32};

static plan *open_on(const program *p, const char *devices, dtype kv, int in_flight, const fake_options *fake)
{
    const backend_use list[] = {{&cpu_backend, NULL}, {&fake_backend, fake}, {0}};
    return rig_plan(
        p, (plan_case){
               .devices = devices, .backends = list, .rows = ROWS, .pages = PAGES, .kv = kv, .in_flight = in_flight});
}

/* Rows pos0 … pos0 + n - 1 of one sequence, whose page k of group g is page `first` + k + g. */
typedef struct rows {
    int32_t token[ROWS], pos[ROWS], seq[ROWS], out[ROWS], len, row[2], variant[8], page[GROUP_MAX * CAP];
    step st;
} rows;

static const step *rows_of(rows *r, const program *p, int pos0, int n, int first)
{
    *r = (rows){.len = pos0 + n, .row = {0, n}};
    for (int i = 0; i < n; i++) {
        r->token[i] = (7 * (pos0 + i) + 3) % (int)p->vocab;
        r->pos[i] = pos0 + i;
        r->out[i] = i;
    }
    for (uint32_t i = 0; i < p->n_group * CAP; i++) r->page[i] = first + (int32_t)(i % CAP + i / CAP);
    r->st = (step){.tok = {r->token, r->seq, r->pos, r->seq, &r->len, r->row},
                   .out = r->out,
                   .n_seq = 1,
                   .seq_rope = r->variant,
                   .page = r->page,
                   .page_cap = CAP};
    r->st.n[AXIS_TOK] = r->st.n[AXIS_OUT] = n;
    return &r->st;
}

static void run_rows(plan *l, const program *p, int pos0, int n, int first, float *logits)
{
    rows r;
    rig_plan_step(l, rows_of(&r, p, pos0, n, first));
    if (logits) memcpy(logits, plan_result(l, ENTRY_HEAD), (size_t)(n * p->vocab) * sizeof *logits);
}

/* ---- pages */

/* Moves page k of each group to page k + 1 of another device. */
static void move_pages(const segment *from, const segment *to, dtype kv)
{
    static uint8_t bytes[1 << 16], again[1 << 16];
    err e = {0};
    for (uint32_t g = 0; g < from->p->n_group; g++)
        for (int k = (int)g; k < (int)g + CAP; k++) {
            uint64_t n = 0;
            for (uint32_t i = 0; i < from->p->n_state; i++)
                if (from->p->states[i].group == g) n += kv_page_bytes(&from->p->states[i], kv, kv);
            assert_true(n > 0 && n < sizeof bytes);
            assert_ok(from->be->page_get(from->on, (int)g, k, bytes, &e), &e);
            assert_ok(to->be->page_put(to->on, (int)g, k + 1, bytes, &e), &e);
            assert_ok(to->be->page_get(to->on, (int)g, k + 1, again, &e), &e);
            assert_memory_equal(bytes, again, n);
        }
}

static void pages_move(void **unused)
{
    (void)unused;
    static const dtype kinds[] = {DTYPE_F32, DTYPE_F16, DTYPE_I16, DTYPE_Q8_B64, DTYPE_Q4_B32};
    static const char *const names[] = {"cpu", "fake"};
    static float want[ROWS * 61], got[ROWS * 61];
    program *p = random_model(&windows, 5);
    for (int k = 0; k < 5; k++)
        for (int way = 0; way < 4; way++) {
            plan *a = open_on(p, names[way % 2], kinds[k], 1, NULL), *b = open_on(p, names[way / 2], kinds[k], 1, NULL);
            run_rows(a, p, 0, 60, 0, NULL);
            run_rows(a, p, 60, 50, 0, NULL);
            move_pages(plan_segment(a, 0), plan_segment(b, 0), kinds[k]);
            run_rows(a, p, 110, 40, 0, want);
            run_rows(b, p, 110, 40, 1, got);
            assert_memory_equal(want, got, (size_t)(40 * p->vocab) * sizeof *want);
            plan_close(a);
            plan_close(b);
        }
    program_free(p);
}

/* ---- several streams */

/* Two streams that each layer adds to from the other: both live at every border. */
static program *two_streams(void)
{
    err e = {0};
    test_random_state = 3;
    model_builder b = {.p = program_new(&e), .m = &windows, .layer = -1};
    program *p = b.p;
    const int dim = windows.dim;
    p->hidden = arena_array(&p->mem, (size_t)windows.layers + 1, sizeof *p->hidden);
    p->dim = dim;
    p->vocab = windows.vocab;
    p->n_layer = windows.layers;
    ref x = test_op(&b, (op){.kind = OP_EMBED, .in = {test_weight(&b, "embed", p->vocab, dim, false, 0, 1)}}, AXIS_TOK,
                    dim);
    ref y = test_linear(&b, x, dim, dim, AXIS_TOK);
    p->hidden[0] = x;
    for (b.layer = 0; b.layer < windows.layers; b.layer++) {
        x = test_sum(&b, x, test_linear(&b, test_norm(&b, y, dim, dim, AXIS_TOK), dim, dim, AXIS_TOK));
        y = test_sum(&b, y, test_linear(&b, test_norm(&b, x, dim, dim, AXIS_TOK), dim, dim, AXIS_TOK));
        p->hidden[b.layer + 1] = x;
    }
    b.layer = -1;
    p->entries[ENTRY_DEC].op1 = p->entries[ENTRY_HEAD].op0 = p->n_op;
    x = test_op(&b, (op){.kind = OP_TAKE_OUT, .in = {test_sum(&b, x, y)}}, AXIS_OUT, dim);
    p->entries[ENTRY_HEAD].out = test_linear(&b, x, dim, p->vocab, AXIS_OUT);
    p->entries[ENTRY_HEAD].op1 = p->n_op;
    assert_ok(program_finish(p, &e), &e);
    return p;
}

static void streams_cross(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cpu;cpu", "fake;cpu", "cpu;fake;cpu", "fake;fake;fake"};
    static float want[ROWS * 61], got[ROWS * 61];
    program *p = two_streams();
    plan *l = open_on(p, "cpu", DTYPE_F32, 1, NULL);
    run_rows(l, p, 0, 30, 0, want);
    plan_close(l);
    for (int k = 0; k < 8; k++) {
        l = open_on(p, devices[k / 2], DTYPE_F32, k % 2 ? 4 : 1, NULL);
        assert_int_equal(plan_segment(l, 0)->n_out, 2);
        assert_int_equal(plan_segment(l, 1)->n_in, 2);
        run_rows(l, p, 0, 30, 0, got);
        assert_memory_equal(want, got, (size_t)(30 * p->vocab) * sizeof *want);
        plan_close(l);
    }
    program_free(p);
}

/* ---- plans of one program at the same time */

typedef struct runner {
    plan *l;
    const program *p;
    float *logits;
} runner;

static void *run_steps(void *of)
{
    const runner *r = of;
    for (int i = 0; i < 120; i += 8) run_rows(r->l, r->p, i, 8, 0, r->logits + i * r->p->vocab);
    return NULL;
}

static void plans_at_once(void **unused)
{
    (void)unused;
    static const char *const devices[] = {"cpu:1", "fake", "fake;cpu:1"};
    static float logits[3][120 * 61];
    const fake_options fake = {.delay = 50};
    program *p = random_model(&windows, 5);
    pthread_t thread[3];
    runner r[3];
    for (int i = 0; i < 3; i++) r[i] = (runner){open_on(p, devices[i], DTYPE_F16, 2, &fake), p, logits[i]};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, run_steps, &r[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) plan_close(r[i].l);
    for (int i = 1; i < 3; i++) assert_memory_equal(logits[0], logits[i], sizeof logits[0]);
    program_free(p);
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
    plan *l = open_on(p, "cpu;fake;cpu", DTYPE_F32, 1, &fake);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_move),    cmocka_unit_test(streams_cross),
                                       cmocka_unit_test(plans_at_once), cmocka_unit_test(bytes_of_a_step),
                                       cmocka_unit_test(least_memory),  cmocka_unit_test(all_of_its_memory),
                                       cmocka_unit_test(memories),      cmocka_unit_test(op_that_is_lacking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
