/* t_plan_partition.c - the partition notation, the memory plan, cutting by layers, and what happens when memory is
 * short. */
#include "core/place.h"
#include "cpu/cpu.h"
#include "models/model.h"
#include "plan/devices.h"
#include "random_model.h"

static const backend_use backends[] = {{&cpu_backend, NULL}, {0}};

static const model_shape small = {.layers = 4,
                                  .dim = 24,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 6,
                                  .ffn = 32,
                                  .vocab = 31,
                                  .ctx = 64,
                                  .rope_dims = 6,
                                  .gated = true,
                                  .type = DTYPE_F32};

static void notation(void **unused)
{
    (void)unused;
    err e = {0};
    device_list l;
    assert_ok(device_list_parse(&l, NULL, backends, &e), &e);
    const device_entry *d = l.all;
    assert_true(l.n == 1 && d[0].be == &cpu_backend && d[0].number == -1 && d[0].share == 1);
    device_list_close(&l);
    assert_ok(device_list_parse(&l, "a:7071/cuda:1&[::1]:70/cpu*2;cpu&cpu:1", backends, &e), &e);
    d = l.all;
    assert_int_equal(l.n, 4);
    assert_true(!strcmp(d[0].node, "a:7071") && !d[0].be && !strcmp(d[0].name, "cuda") && d[0].number == 1);
    assert_true(!strcmp(d[1].node, "[::1]:70") && d[1].be == &cpu_backend && d[1].share == 2 && d[1].group == 0);
    assert_true(!d[2].node[0] && d[2].group == 1 && d[3].group == 1 && d[3].number == 1);
    device_list_close(&l);
    assert_ok(device_list_parse(&l, "cpu:2*3; cpu ;auto*0.5", backends, &e), &e);
    d = l.all;
    assert_int_equal(l.n, 3);
    assert_true(d[0].number == 2 && d[0].share == 3 && d[1].number == -1 && d[2].share == 0.5 &&
                d[2].be == &cpu_backend);
    device_list_close(&l);
}

/* A place has the alternative that is chosen; the text is of these, as it was written but for blanks. */
static void alternatives(void **unused)
{
    (void)unused;
    err e = {0};
    device_list l;
    buf text = {0};
    assert_ok(device_list_parse(&l, "a:1/cpu*02|b:1/cpu | cpu:3;cpu &c:1/cpu|a:1/cpu", backends, &e), &e);
    assert_int_equal(l.n, 3);
    assert_true(device_alternatives(&l, 0) == 3 && device_alternatives(&l, 1) == 1 && device_alternatives(&l, 2) == 2);
    assert_true(device_list_text(&l, &text));
    assert_string_equal(buf_cstr(&text), "a:1/cpu*02;cpu&c:1/cpu");
    l.chosen[0] = 2, l.chosen[2] = 1;
    text.n = 0;
    assert_true(device_list_text(&l, &text));
    assert_string_equal(buf_cstr(&text), "cpu:3;cpu&a:1/cpu");
    assert_true(device_at(&l, 0)->number == 3 && device_at(&l, 2)->group == 1);
    buf_free(&text);
    device_list_close(&l);
    for (int n = DEVICES_MAX; n <= DEVICES_MAX + 1; n++) { /* and no more */
        e = (err){0};
        for (int i = 0; i < n; i++) buf_str(&text, i ? "&cpu|cpu" : "cpu");
        assert_int_equal(device_list_parse(&l, buf_cstr(&text), backends, &e), n > DEVICES_MAX ? ERR_USAGE : OK);
        buf_free(&text);
        device_list_close(&l);
    }
}

static void bad_notation(void **unused)
{
    (void)unused;
    static const char *const bad[][2] = {
        {"gpu", "no device \"gpu\""},
        {"cpu&", "\"cpu&\": an empty device"},
        {"cpu;", "empty device"},
        {";cpu", "empty device"},
        {"cpu*x", "positive"},
        {"cpu*-1", "positive"},
        {"cpu:x", "number"},
        {"cpu:", "number"},
        {"cpu:-1", "number"},
        {"cuda:0;cuda:1", "cuda"},
        {"host:7000", "number"},
        {"host/cpu", "host:port"},
        {"h:0/cpu", "host:port"},
        {"::1:70/cpu", "host:port"},
        {"h:70/", "no device"},
        {"cpu:1:2", "number"},
        {"cpu*nan", "positive"},
        {"cpu*1e999", "positive"},
        {"cpu:99999999999999999999", "number"},
        {"cpu||cpu", "empty device"},
        {"a:1/cpu|gpu;cpu", "no device \"gpu\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        device_list l;
        assert_int_equal(device_list_parse(&l, bad[i][0], backends, &e), ERR_USAGE);
        device_list_close(&l);
        if (!strstr(e.msg, bad[i][1])) fail_msg("%s: %s", bad[i][0], e.msg);
    }
    err e = {0};
    device_list l;
    device_list_parse(&l, "tpu", backends, &e);
    device_list_close(&l);
    assert_non_null(strstr(e.msg, "available: cpu, cpu:N"));
}

static void lent_devices(void **unused)
{
    (void)unused;
    static const struct {
        const char *lent, *asked, *why; /* NULL: it is lent */
    } cases[] = {
        {NULL, "a:1/cpu:3", NULL},
        {"cpu:1", "a:1/cpu:1", NULL},
        {"cpu:1", "a:1/cpu", NULL},
        {"cpu:1,cpu:4,cpu:2", "a:1/cpu", NULL},
        {"cpu", "a:1/cpu:2", "it lends cpu, not cpu:2"},
        {"cpu, cpu:2", "a:1/cpu:2", NULL},
        {"cpu,cpu:2", "a:1/cpu", NULL},
        {"cpu,cpu:2", "a:1/tpu:1", "it lends cpu, cpu:2, not tpu:1"},
        {NULL, "a:1/tpu", "there is no device \"tpu\" here"},
    };
    static const char *const bad[][2] = {
        {"", "empty"},      {"cpu,", "empty"},         {"cpu;cpu", "no device"}, {"cpu&cpu", "no device"},
        {"gpu", "\"gpu\""}, {"a:1/cpu", "only names"}, {"cpu*2", "only names"},  {"cpu:x", "number"},
    };
    device_entry d[DEVICES_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        device_list l;
        assert_ok(device_list_parse(&l, cases[i].asked, backends, &e), &e);
        d[0] = l.all[0];
        device_list_close(&l);
        int rc = devices_find_lent(cases[i].lent, backends, d, &e);
        assert_int_equal(rc, cases[i].why ? ERR_USAGE : OK);
        if (cases[i].why) assert_string_equal(e.msg, cases[i].why);
        if (i == 3) assert_int_equal(d[0].number, 4); /* the largest */
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_int_equal(devices_lent(bad[i][0], backends, d, &e), ERR_USAGE);
        if (!strstr(e.msg, bad[i][1])) fail_msg("%s: %s", bad[i][0], e.msg);
    }
}

/* No op writes over a tensor that a later op reads, but for the operand that dies with it; everything is inside the
 * arena. */
static void check_places(const segment *s, int rows)
{
    const program *p = s->p;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const tensor *out = &p->tensors[p->ops[i].out];
        if (!p->ops[i].out) continue;
        uint64_t a0 = out->off, a1 = a0 + (uint64_t)(tensor_count(out) * rows) * 4;
        assert_true(a0 % 64 == 0 && a1 <= s->act_bytes);
        for (uint32_t w = 0; w < i + s->n_in; w++) { /* alive: written before or an input, and read at or after i */
            ref t = w < i ? p->ops[w].out : s->in[w - i].t;
            const tensor *x = &p->tensors[t];
            if (!t || t == p->ops[i].out) continue;
            uint64_t b0 = x->off, b1 = b0 + (uint64_t)(tensor_count(x) * rows) * 4;
            for (uint32_t r = i; r < p->n_op; r++)
                for (int k = 0; k < 4; k++)
                    if (p->ops[r].in[k] == t && a0 < b1 && b0 < a1 &&
                        !(r == i && k == 0 && a0 == b0 && p->ops[i].kind != OP_MATMUL))
                        fail_msg("op %u writes over %s, which op %u reads", i, x->name, r);
        }
    }
}

static void places(void **unused)
{
    (void)unused;
    model_shape other = small;
    other.parallel = true;
    other.gated = false;
    other.rope_dims = 0;
    other.bias = BIAS_ALIBI;
    const model_shape *shapes[] = {&small, &other};
    for (int i = 0; i < 2; i++)
        for (int n = 1; n <= 4; n++) {
            program *p = random_model(shapes[i], 1);
            plan *l = rig_plan(p, (plan_case){.devices = n == 1   ? "cpu:1"
                                                         : n == 2 ? "cpu:1;cpu:1"
                                                         : n == 3 ? "cpu:1;cpu:1*2;cpu:1"
                                                                  : "cpu:1;cpu:1;cpu:1;cpu:1",
                                              .rows = 7,
                                              .pages = 1});
            assert_int_equal(plan_segments(l), n);
            uint32_t ops = 0;
            for (int k = 0; k < n; k++) {
                const segment *s = plan_segment(l, k);
                ops += s->p->n_op;
                assert_int_equal(s->n_in, k > 0);
                assert_int_equal(s->n_out, 1);
                assert_true(k == 0 || (s->in[0].t == plan_segment(l, k - 1)->out[0] && s->in[0].from == k - 1));
                check_places(s, 7);
            }
            assert_int_equal(ops, p->n_op);
            buf text = {0};
            err e = {0};
            assert_ok(plan_text(l, true, &text, &e), &e);
            assert_non_null(strstr(buf_cstr(&text), "cpu:1"));
            assert_non_null(strstr(buf_cstr(&text), "segment 0 on cpu:1: ops 0-"));
            buf_free(&text);
            plan_close(l);
            program_free(p);
        }
}

static void shares(void **unused)
{
    (void)unused;
    err e = {0};
    program *p = random_model(&small, 1);
    plan_case c = {.devices = "cpu:1*3;cpu:1*1", .rows = 1, .pages = 1};
    plan *l = rig_plan(p, c);
    assert_int_equal(plan_segment(l, 1)->p->ops[0].layer, 3);
    plan_close(l);
    c.devices = "cpu:1;cpu:1;cpu:1;cpu:1;cpu:1";
    assert_int_equal(rig_plan_open(&l, p, &c, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "5 groups of devices for a model of 4 layers"));
    program_free(p);
}

/* Layers stay with those whose keys they read: groups end where they would, or as near as that allows. */
static void layers_that_share_keys(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *devices, *why; /* why: it is refused */
        int layers[3];
    } cases[] = {
        {"gemma4", "cpu:1;cpu:1", NULL, {1, 4}},
        {"gemma4", "cpu:1*9;cpu:1", NULL, {1, 4}},
        {"gemma4-narrow", "cpu:1*2;cpu:1;cpu:1*9", NULL, {1, 1, 3}},
        {"gemma4", "cpu:1;cpu:1;cpu:1",
         "--devices: 3 groups of devices: this model can be divided only before layers 1: later layers read keys and "
         "values of earlier ones"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[100];
        model *m;
        plan *l;
        err e = {0};
        const plan_case c = {.devices = cases[i].devices, .rows = 1, .pages = 1};
        snprintf(folder, sizeof folder, "tests/vectors/models/%s", cases[i].model);
        assert_ok(model_open(&m, &(model_options){.model_path = folder}, &e), &e);
        const int rc = rig_plan_open(&l, m->prog, &c, &e);
        assert_int_equal(rc, cases[i].why ? ERR_USAGE : OK);
        if (rc) assert_string_equal(e.msg, cases[i].why);
        for (int k = 0; !rc && k < plan_devices(l); k++) assert_int_equal(plan_layers_of(l, k), cases[i].layers[k]);
        plan_close(l);
        model_close(m);
    }
}

/* The first group and the last may have no layers, but the tables or the head. */
static void groups_without_layers(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices, *why; /* why: it is refused */
        int layers[3];
    } cases[] = {{"cpu:1*0;cpu:1;cpu:1*0", NULL, {0, 4, 0}},       {"cpu:1;cpu:1*0", NULL, {4, 0}},
                 {"cpu:1*0&cpu:1*0;cpu:1;cpu:1", NULL, {0, 0, 2}}, {"cpu:1*0", "a share of 0", {0}},
                 {"cpu:1;cpu:1*0;cpu:1", "a share of 0", {0}},     {"cpu:1*0&cpu:1;cpu:1", "a share of 0", {0}},
                 {"cpu:1*0;cpu:1*0", "no device has layers", {0}}};
    program *p = random_model(&small, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        plan *l;
        const plan_case c = {.devices = cases[i].devices, .rows = 1, .pages = 1};
        const int rc = rig_plan_open(&l, p, &c, &e);
        if (rc != (cases[i].why ? ERR_USAGE : OK)) fail_msg("%s: %s", cases[i].devices, e.msg);
        if (rc) assert_non_null(strstr(e.msg, cases[i].why));
        for (int k = 0; !rc && k < 3 && k < plan_devices(l); k++)
            assert_int_equal(plan_layers_of(l, k), cases[i].layers[k]);
        plan_close(l);
    }
    program_free(p);
}

static void short_of_memory(void **unused)
{
    (void)unused;
    program *p = random_model(&small, 1);
    const plan_case c = {.devices = "cpu:1;cpu:1", .rows = 4, .pages = 1};
    int n = 1;
    for (bool fired = true; fired; n++) {
        err e = {0};
        plan *l;
        mem_fail_at(n);
        int rc = rig_plan_open(&l, p, &c, &e);
        fired = mem_fail_at(0);
        if (fired) {
            assert_int_equal(rc, ERR_MEMORY);
            assert_null(l);
        } else {
            assert_ok(rc, &e);
            plan_close(l);
        }
    }
    assert_true(n > 20);
    program_free(p);
}

/* Weights that are not as the file has them: gathered, transposed, re-encoded, stacked rows equal weight_decode_row. */
static void held_weights(void **unused)
{
    (void)unused;
    enum { N = 70, K = 64 };
    static uint16_t file[3 * N * K];
    static uint8_t plain[N * K * 4 + 1];
    for (int i = 0; i < 3 * N * K; i++) file[i] = f32_to_f16(test_random());
    piece f16 = {.data = (const uint8_t *)file,
                 .type = DTYPE_F16,
                 .src_rows = 3 * N,
                 .src_cols = K,
                 .rows = N,
                 .block = N,
                 .stride = N,
                 .mul = 1};
    piece transposed = f16, pairs = f16, blocks = f16, offset = f16, twice[2] = {f16, f16}, mixed[2] = {f16, f16},
          odd = f16;
    transposed.transpose = true, transposed.src_rows = K, transposed.src_cols = 3 * N, transposed.row0 = 3;
    pairs.pairs = pairs.rotated = 10;
    blocks.block = 7, blocks.stride = 21;
    offset.add = 1;
    twice[0].rows = twice[0].block = 30, twice[1].rows = twice[1].block = 40, twice[1].row0 = 100;
    mixed[0].rows = mixed[0].block = 30, mixed[1].rows = mixed[1].block = 40;
    mixed[1].type = DTYPE_F32, mixed[1].data = plain, mixed[1].src_rows = N;
    odd.row0 = 5;
    const struct {
        const piece *pieces;
        uint32_t n;
        dtype want, held;
        bool own;
    } cases[] = {
        {&f16, 1, DTYPE_NONE, DTYPE_F16, false},    {&transposed, 1, DTYPE_NONE, DTYPE_F16, true},
        {&pairs, 1, DTYPE_NONE, DTYPE_F16, true},   {&blocks, 1, DTYPE_F32, DTYPE_F32, true},
        {&offset, 1, DTYPE_NONE, DTYPE_F32, true},  {twice, 2, DTYPE_NONE, DTYPE_F16, true},
        {mixed, 2, DTYPE_NONE, DTYPE_F32, true},    {&odd, 1, DTYPE_F16, DTYPE_F16, false},
        {&blocks, 1, DTYPE_BF16, DTYPE_BF16, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        program *p = program_new(&e);
        weight w = {.name = "w",
                    .pieces = (piece *)cases[i].pieces,
                    .n_piece = cases[i].n,
                    .rows = N,
                    .cols = K,
                    .want = cases[i].want};
        assert_int_equal(program_weight(p, &w, &e), 0);
        weight_set *d;
        assert_ok(cpu_backend.weights_open(&d, p, &(bool){true}, &(weight_options){.number = 2}, &e), &e);
        assert_ok(cpu_backend.weights_read(d, &e), &e);
        assert_int_equal(d->held[0].type, cases[i].held);
        assert_true((d->held[0].own != NULL) == cases[i].own);
        for (int64_t n = 0; n < N; n++) {
            float want[K], got[K];
            weight_decode_row(&p->weights[0], n, want);
            held_row(&d->held[0], n, got);
            for (int k = 0; k < K && cases[i].held == DTYPE_BF16; k++) want[k] = bf16_to_f32(f32_to_bf16(want[k]));
            assert_memory_equal(want, got, sizeof want);
        }
        cpu_backend.weights_close(d);
        program_free(p);
    }
}

/* Of a model with experts a row reads those it uses; many rows read all. */
static void experts_cost_what_is_used(void **unused)
{
    (void)unused;
    err e = {0};
    model *m;
    plan *l;
    assert_ok(model_open(&m, &(model_options){.model_path = "tests/vectors/models/mixtral"}, &e), &e);
    const program *p = m->prog;
    l = rig_plan(p, (plan_case){.cpu.threads = 1, .rows = 4, .pages = 1});
    uint64_t dense = 0, experts = 0, numbers, many;
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4 && p->ops[i].kind != OP_EMBED; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (!p->ops[i].in[k] || t->kind != TENSOR_WEIGHT) continue;
            const weight *w = &p->weights[t->weight];
            *(w->parts ? &experts : &dense) += w->vector ? 4 * (uint64_t)w->rows : weight_file_bytes(w);
        }
    assert_true(p->n_used == 3 && experts > dense);
    assert_true(plan_weight_bytes(l, 1, &numbers) == dense + experts * 3 / 7);
    many = plan_weight_bytes(l, 4, NULL);
    assert_true(many > dense + experts * 3 / 7 && many < dense + experts);
    assert_true(plan_weight_bytes(l, 1000, NULL) == dense + experts);
    plan_close(l);
    model_close(m);
}

/* A process that has one rank of several knows what the others have. */
static void devices_elsewhere(void **unused)
{
    (void)unused;
    program *p = random_model(&small, 1);
    device_list devices;
    err e = {0};
    assert_ok(device_list_parse(&devices, "a:7071/cpu&b:7071/cpu;c:7071/cuda:1", backends, &e), &e);
    const plan_options o = {.devices = &devices,
                            .backends = backends,
                            .max_rows = {[AXIS_TOK] = 3, [AXIS_OUT] = 3, [AXIS_ENC] = 3, [AXIS_SEQ] = 3},
                            .rank = 2};
    plan *l;
    assert_ok(plan_open(&l, p, &o, &e), &e);
    device_list_close(&devices);
    buf text = {0};
    assert_ok(plan_text(l, false, &text, &e), &e);
    const char *s = buf_cstr(&text);
    static const char *const lines[] = {
        "\n0   cpu               0       -       -       -           -          0-30 ",
        "\n2   b:7071/cpu        1     0-2     2-3     1-1       16-31             - ",
        "\n3   c:7071/cuda:1     2     3-3     0-3     0-1        0-31             - ",
        "\n4   cpu               3       -       -       -           -          0-30 ",
        "\ngroup 1: 2 ranks; gathers in a step: ",
        "\ngroup 2 -> 3: ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(s, lines[i])) fail_msg("no line %s in\n%s", lines[i], s);
    buf_free(&text);
    plan_close(l);
    program_free(p);
}

/* Of a plan whose ends are on nodes: nothing of the model is at the leader, and results go there. */
static void ends_away(void **unused)
{
    (void)unused;
    program *p = random_model(&small, 1);
    device_list devices;
    err e = {0};
    assert_ok(device_list_parse(&devices, "a:7071/cpu&b:7071/cpu;c:7071/cpu", backends, &e), &e);
    const plan_options o = {.devices = &devices,
                            .backends = backends,
                            .max_rows = {[AXIS_TOK] = 3, [AXIS_OUT] = 3, [AXIS_ENC] = 3, [AXIS_SEQ] = 3},
                            .choices = {.ends = ENDS_AWAY, .wire = WIRE_INT8},
                            .rank = 3};
    plan *l;
    assert_ok(plan_open(&l, p, &o, &e), &e);
    device_list_close(&devices);
    assert_int_equal(plan_segment(l, 2)->p->ops[plan_segment(l, 2)->p->n_op - 1].out, p->entries[ENTRY_HEAD].out);
    buf text = {0};
    assert_ok(plan_text(l, false, &text, &e), &e);
    const char *s = buf_cstr(&text);
    static const char *const lines[] = {
        "\n0   a:7071/cpu     0     0-2     0-1     0-0        0-15          0-30 ",
        "\n1   b:7071/cpu     0     0-2     2-3     1-1       16-31          0-30 ",
        "\n2   c:7071/cpu     1     3-3     0-3     0-1        0-31          0-30 ",
        "\ngroup 0 -> 1: t, int8, 30 bytes a row\n",
        "\ngroup 1 -> leader: t, f32, 124 bytes a row\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(s, lines[i])) fail_msg("no line %s in\n%s", lines[i], s);
    assert_null(strstr(s, "\n3 "));
    buf_free(&text);
    plan_close(l);
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(notation),
                                       cmocka_unit_test(bad_notation),
                                       cmocka_unit_test(alternatives),
                                       cmocka_unit_test(lent_devices),
                                       cmocka_unit_test(places),
                                       cmocka_unit_test(shares),
                                       cmocka_unit_test(layers_that_share_keys),
                                       cmocka_unit_test(groups_without_layers),
                                       cmocka_unit_test(short_of_memory),
                                       cmocka_unit_test(devices_elsewhere),
                                       cmocka_unit_test(ends_away),
                                       cmocka_unit_test(held_weights),
                                       cmocka_unit_test(experts_cost_what_is_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
