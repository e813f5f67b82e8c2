/* t_cpu_fuse.c - the fuse table: every fused run on every instruction set against its ops one by one in plain C, bit
 * for bit; where a run is found and where not; and that a plan says so. */
#include "random_model.h"

#include "tensor/act_q8.h"

enum { RUN_MAX = 5 };

/* A run of ops on a rig, as one segment. */
typedef struct fuse_case {
    rig g;
    op ops[RUN_MAX];
    int row; /* of the fuse table */
    int max_rows[AXIS_COUNT];
    uint8_t *panels[2];
} fuse_case;

static void case_open(fuse_case *c, int row, int rows)
{
    int last[] = {rows - 1};
    memset(c, 0, sizeof *c);
    rig_open(&c->g, 8 << 20);
    rig_sequences(&c->g, 1, &rows, last);
    c->row = row;
    c->g.p.ops = c->ops;
    c->g.p.n_op = fuse_rows[row].n;
    for (int k = 0; k < AXIS_COUNT; k++) c->max_rows[k] = rows;
}

static void case_close(fuse_case *c)
{
    for (int i = 0; i < 2; i++) mem_free(c->panels[i]);
    rig_close(&c->g);
}

/* Op i of the run: in0, in1, in2; returns its result of `dim` elements, int8 in blocks if asked for. */
static ref add(fuse_case *c, int i, ref a, ref b, ref d, int64_t dim, int block)
{
    ref out = rig_act(&c->g, dim);
    c->g.t[out].block = (uint8_t)block;
    c->ops[i].kind = fuse_rows[c->row].kind[i];
    c->ops[i].in[0] = a, c->ops[i].in[1] = b, c->ops[i].in[2] = d;
    c->ops[i].out = out;
    return out;
}

typedef struct one_worker {
    fuse_case *c;
    bool fused;
} one_worker;

static void work(void *arg, int worker, int workers)
{
    const one_worker *w = arg;
    rig *g = &w->c->g;
    int n = fuse_rows[w->c->row].n;
    if (w->fused) g->set.table->fused[w->c->row](&g->r, w->c->ops, worker, workers);
    for (int i = 0; i < n && !w->fused; i++)
        cpu_kernel(g->set.table, w->c->ops[i].kind)(&g->r, &w->c->ops[i], worker, workers);
}

static void run_case(fuse_case *c, const cpu_table *table, int workers, bool fused)
{
    err e = {0};
    one_worker w = {c, fused};
    c->g.set.table = table;
    assert_ok(pool_open(&c->g.set.team, workers, &e), &e);
    assert_ok(cpu_work_open(&c->g.d.work, &c->g.p, c->g.d.max_rows, &c->g.d.cache, workers, &e), &e);
    c->g.r = cpu_run_of(&c->g.d, &c->g.p, &c->g.st, c->g.act);
    pool_run(c->g.set.team, work, &w);
    cpu_work_close(&c->g.d.work);
    pool_close(c->g.set.team);
}

/* All that the last op puts out, and nothing in front of it or behind it. */
static void same(fuse_case *c, const char *what)
{
    rig *g = &c->g;
    ref out = c->ops[fuse_rows[c->row].n - 1].out;
    const uint64_t bytes = tensor_row_bytes(&g->t[out]) * (uint64_t)g->st.n[AXIS_TOK] + 2 * RIG_GAP;
    uint8_t *at = g->act + g->t[out].off - RIG_GAP, *before = mem_alloc(bytes), *want = mem_alloc(bytes);
    assert_true(before && want);
    assert_int_equal(fuse_find(&g->seg, c->max_rows, 0), c->row);
    memcpy(before, at, bytes);
    run_case(c, cpu_kernels_named("c"), 1, false);
    memcpy(want, at, bytes);
    assert_memory_not_equal(before, want, bytes);
    for (int i = 0; cpu_tables[i]; i++)
        for (int workers = 1; workers <= 3; workers++) {
            const cpu_table *table = cpu_tables[i];
            if (!cpu_kernels_named(table->isa) || !table->fused[c->row]) continue;
            memcpy(at, before, bytes);
            run_case(c, table, workers, true);
            if (memcmp(at, want, bytes)) fail_msg("%s: %s with %d workers differs", what, table->isa, workers);
        }
    mem_free(before);
    mem_free(want);
}

static void norms(void **unused)
{
    (void)unused;
    for (int form = 0; form < 32; form++) {
        fuse_case c;
        char what[80];
        int dim = (int[]){96, 200, 64, 1100}[form % 4], rows = (int[]){1, 5, 7, 33}[form / 4 % 4], kind = form % 3;
        case_open(&c, FUSE_NORM_QUANT, rows);
        ref gain = form & 1 ? rig_const(&c.g, dim) : 0, bias = form & 8 ? rig_const(&c.g, dim) : 0;
        c.ops[0].u.norm.eps = 1e-5f, c.ops[0].u.norm.kind = kind, c.ops[0].u.norm.width = dim;
        ref x = rig_act(&c.g, dim);
        if (form == 31) rig_at(&c.g, x)[70] = INFINITY;
        add(&c, 1, add(&c, 0, x, gain, bias, dim, 0), 0, 0, dim, form & 16 ? 32 : 64);
        snprintf(what, sizeof what, "norm and quant, form %d", form);
        same(&c, what);
        if (dim % 2 == 0 && kind == NORM_L2) { /* heads apart: not what the kernel does */
            c.ops[0].u.norm.width = dim / 2;
            assert_int_equal(fuse_find(&c.g.seg, c.max_rows, 0), -1);
        }
        case_close(&c);
    }
}

static void gates(void **unused)
{
    (void)unused;
    for (int form = 0; form < 3 * ACT_COUNT; form++) {
        fuse_case c;
        char what[80];
        int dim = (int[]){96, 200, 704}[form % 3], rows = (int[]){1, 6, 20}[form / 3 % 3];
        case_open(&c, FUSE_ACT_MUL_QUANT, rows);
        ref x = rig_act(&c.g, dim), y = rig_act(&c.g, dim);
        c.ops[0].u.act.fn = form / 3;
        ref a = add(&c, 0, x, 0, 0, dim, 0);
        add(&c, 2, form % 2 ? add(&c, 1, a, y, 0, dim, 0) : add(&c, 1, y, a, 0, dim, 0), 0, 0, dim, form % 2 ? 32 : 64);
        snprintf(what, sizeof what, "act, mul and quant, form %d", form);
        same(&c, what);
        case_close(&c);
    }
}

static ref packed_weight(fuse_case *c, int i, dtype t, int64_t rows, int64_t cols)
{
    uint64_t row = dtype_row_bytes(t, (uint64_t)cols), panel = panel_bytes(t, cols);
    uint8_t *blocks = random_blocks(t, rows, cols, false), *to = mem_alloc((uint64_t)rows / PANEL_ROWS * panel);
    assert_non_null(to);
    for (int64_t n = 0; n < rows; n += PANEL_ROWS) {
        const uint8_t *from[PANEL_ROWS];
        for (int r = 0; r < PANEL_ROWS; r++) from[r] = blocks + (uint64_t)(n + r) * row;
        panel_pack(t, from, cols, to + (uint64_t)(n / PANEL_ROWS) * panel);
    }
    mem_free(blocks);
    c->panels[i] = to;
    ref r = rig_weight(&c->g, DTYPE_F32, 1, 1, 0);
    c->g.t[r].dim[0] = rows, c->g.t[r].dim[1] = cols;
    c->g.w[i].packed = true;
    c->g.held[i] = (held_weight){.data = to, .type = t, .stride = panel, .packed = true, .rows = rows, .cols = cols};
    return r;
}

static void layers(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_Q4_B64, DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q4_T};
    static const int counts[] = {1, 2, 5, 6, 20, 134};
    for (int form = 0; form < 24; form++) {
        fuse_case c;
        char what[80];
        int rows = counts[form % 6], cols = form % 4 == 3 ? 200 : 256, n = form % 2 ? 128 : 192;
        dtype t = types[form / 6];
        int block = panel_format_of(t)->act;
        case_open(&c, FUSE_GATE_UP, rows);
        ref x = rig_act(&c.g, cols), q = rig_act(&c.g, cols);
        c.g.t[q].block = (uint8_t)block;
        op first = {.kind = OP_QUANT, .in = {x}, .out = q};
        c.g.set.table = cpu_kernels_named("c");
        cpu_kernel(c.g.set.table, OP_QUANT)(&c.g.r, &first, 0, 1);
        ref w0 = packed_weight(&c, 0, t, n, cols), w1 = packed_weight(&c, 1, t, n, cols);
        ref gate = add(&c, 0, q, w0, form % 5 ? 0 : rig_const(&c.g, n), n, 0), up = add(&c, 1, q, w1, 0, n, 0);
        c.ops[2].u.act.fn = ACT_SILU;
        ref act = add(&c, 2, form % 3 ? gate : up, 0, 0, n, 0), mul = add(&c, 3, act, form % 3 ? up : gate, 0, n, 0);
        add(&c, 4, mul, 0, 0, n, form % 2 ? 32 : 64);
        snprintf(what, sizeof what, "gate and up of %s, %d rows, form %d", dtype_info[t].name, rows, form);
        same(&c, what);
        if (form == 0) {
            ref out = c.ops[4].out;
            c.g.t[out].off = c.g.t[q].off; /* over what is still read */
            assert_int_equal(fuse_find(&c.g.seg, c.max_rows, 0), -1);
            c.ops[4].out = out;
            c.g.t[out].off = c.g.t[mul].off + (64 << 10);
            c.g.out[0] = up; /* wanted outside */
            c.g.seg.n_out = 1;
            assert_int_equal(fuse_find(&c.g.seg, c.max_rows, 0), -1);
        }
        case_close(&c);
    }
}

/* The plan of a model of quantized weights names its fused runs; a model of floats, and plain C kernels, have none. */
static void plans_say_what_is_one(void **unused)
{
    (void)unused;
    for (int form = 0; form < 3; form++) {
        model_shape m = {.layers = 2,
                         .dim = 128,
                         .heads = 2,
                         .kv_heads = 2,
                         .head_dim = 64,
                         .ffn = 192,
                         .vocab = 50,
                         .ctx = 32,
                         .rope_dims = 64,
                         .gated = true,
                         .type = form ? DTYPE_Q4_B64 : DTYPE_F32};
        const cpu_table *best = cpu_kernels(cpu_features(), false);
        program *p = random_model(&m, 3);
        plan_case c = {.devices = "cpu:1", .rows = 4, .pages = 1, .cpu.isa = form == 1 ? "c" : best->isa};
        plan *l = rig_plan(p, c);
        err e = {0};
        buf text = {0};
        assert_ok(plan_text(l, true, &text, &e), &e);
        bool some = form == 2 && best->fused[FUSE_NORM_QUANT];
        assert_int_equal(strstr(buf_cstr(&text), "are one: norm+quant") != NULL, some);
        assert_int_equal(strstr(buf_cstr(&text), "are one: matmul,matmul,act*mul+quant") != NULL, some);
        buf_free(&text);
        plan_close(l);
        program_free(p);
    }
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

/* The memory plan keeps results apart from what their runs read, whatever the widths, in an arena of the same size as
 * without. */
static void every_width_is_one(void **unused)
{
    (void)unused;
    const cpu_table *best = cpu_kernels(cpu_features(), false);
    backend alone = cpu_backend;
    alone.fuse = NULL;
    for (int ffn = 64; ffn <= 1024; ffn += 64) {
        model_shape m = {.layers = 2,
                         .dim = 192,
                         .heads = 3,
                         .kv_heads = 3,
                         .head_dim = 64,
                         .ffn = ffn,
                         .vocab = 50,
                         .ctx = 32,
                         .rope_dims = 64,
                         .gated = true,
                         .type = DTYPE_Q4_B64};
        uint64_t bytes[2];
        for (int joined = 0; joined < 2; joined++) {
            const backend_use backends[] = {{joined ? &cpu_backend : &alone, NULL}, {0}};
            program *p = random_model(&m, 3);
            plan *l = rig_plan(p, (plan_case){.devices = "cpu:1", .backends = backends, .rows = 64, .pages = 1});
            err e = {0};
            buf text = {0};
            assert_ok(plan_text(l, true, &text, &e), &e);
            const char *at = strstr(buf_cstr(&text), "arena of ");
            assert_non_null(at);
            bytes[joined] = strtoull(at + strlen("arena of "), NULL, 10);
            int gates = count(buf_cstr(&text), "are one: matmul,matmul,act*mul+quant");
            if (joined && best->fused[FUSE_GATE_UP] && gates != m.layers) fail_msg("width %d: %d of 2", ffn, gates);
            buf_free(&text);
            plan_close(l);
            program_free(p);
        }
        assert_int_equal(bytes[0], bytes[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),
        cmocka_unit_test(gates),
        cmocka_unit_test(layers),
        cmocka_unit_test(plans_say_what_is_one),
        cmocka_unit_test(every_width_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
