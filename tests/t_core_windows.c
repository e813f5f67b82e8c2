/* t_core_windows.c - windows of weights (core/program.h): of every type, however the file holds it and however it is
 * held, the values of a window are those of the same rows and columns of the whole, and products with it have the same
 * bits; rows and panels that lie in the file as they are needed are used there. */
#include "ops/expert_rows.h"
#include "random_blocks.h"
#include "tensor/panel.h"

enum { PARTS = 3, EACH = 32, ROWS = PARTS * EACH, COLS_MAX = 2048, BATCH = 3 };

/* ---- wholes: of one type, from files of several kinds */

enum { FILE_BLOCKS, FILE_PANELS, FILE_F16, FILE_OTHER_PANELS, FILE_TRANSPOSED, FILE_PIECES, FILES };
static const char *const file_name[] = {"blocks", "panels", "f16", "panels of q8_0", "transposed f32", "f32 in pieces"};

typedef struct whole {
    weight w;
    piece c[2];
    uint8_t *own;
} whole;

/* Where panels begin in memory that has room for one line more. */
static uint8_t *line_of(uint8_t *own) { return own + (PANEL_LINE - (uintptr_t)own % PANEL_LINE) % PANEL_LINE; }

static uint8_t *panels_of(dtype t, uint8_t *blocks, int64_t cols)
{
    const uint64_t row = dtype_row_bytes(t, (uint64_t)cols), panel = panel_bytes(t, cols);
    uint8_t *own = mem_alloc(panel * (ROWS / PANEL_ROWS) + PANEL_LINE), *to = line_of(own);
    assert_non_null(own);
    for (int p = 0; p < ROWS / PANEL_ROWS; p++) {
        const uint8_t *from[PANEL_ROWS];
        for (int r = 0; r < PANEL_ROWS; r++) from[r] = blocks + (uint64_t)(p * PANEL_ROWS + r) * row;
        panel_pack(t, from, cols, to + (uint64_t)p * panel);
    }
    mem_free(blocks);
    return own;
}

/* Finite numbers of a plain type. */
static uint8_t *numbers(dtype t, int64_t n)
{
    const int64_t size = dtype_info[t].bytes;
    uint8_t *to = mem_array((size_t)n, (size_t)size);
    assert_non_null(to);
    for (int64_t i = 0; i < n; i++) {
        float v = rig_normal();
        if (quant_can_encode(t)) quant_encode(t, &v, to + i * size, 1);
        else memset(to + i * size, (int)(rig_random() & 0x2f), (size_t)size);
    }
    return to;
}

/* false: there is no such file of this type. */
static bool whole_open(whole *o, dtype t, int file)
{
    static const dtype types[] = {DTYPE_NONE, DTYPE_NONE, DTYPE_F16, DTYPE_Q8_0, DTYPE_F32, DTYPE_F32};
    const dtype have = types[file] ? types[file] : t;
    const bool blocks = dtype_is_block(have), panels = file == FILE_PANELS || file == FILE_OTHER_PANELS;
    const int64_t cols = file < FILE_F16 ? 3 * 512 + 256 + (blocks && dtype_info[t].weights < 256 ? 128 : 0)
                         : panels        ? 608
                                         : 601;
    if ((panels && !panel_format_of(have)) || (file >= FILE_F16 && (!quant_can_encode(t) || t == have))) return false;
    memset(o, 0, sizeof *o);
    o->own = blocks ? random_blocks(have, ROWS, cols, false) : numbers(have, ROWS * cols);
    if (panels) o->own = panels_of(have, o->own, cols);
    o->c[0] = (piece){.data = panels ? line_of(o->own) : o->own,
                      .type = have,
                      .packed = panels,
                      .src_rows = ROWS,
                      .src_cols = cols,
                      .rows = ROWS,
                      .block = ROWS,
                      .stride = ROWS,
                      .mul = 1};
    if (file == FILE_TRANSPOSED) {
        o->c[0].transpose = true;
        o->c[0].src_rows = cols;
        o->c[0].src_cols = ROWS;
    }
    if (file == FILE_PIECES) { /* the later rows first; normalised, in pairs, scaled */
        o->c[1] = o->c[0];
        o->c[0].rows = o->c[0].row0 = 40;
        o->c[0].block = 8, o->c[0].stride = 11;
        o->c[0].normalize_rows = true;
        o->c[1].rows = o->c[1].block = o->c[1].stride = ROWS - 40;
        o->c[1].pairs = 14, o->c[1].rotated = 8;
        o->c[1].mul = 0.5f, o->c[1].add = 0.25f;
    }
    o->w = (weight){.name = "w",
                    .pieces = o->c,
                    .n_piece = file == FILE_PIECES ? 2 : 1,
                    .rows = ROWS,
                    .cols = cols,
                    .parts = PARTS,
                    .want = file < FILE_F16 ? DTYPE_NONE : t,
                    .packed = file == FILE_PANELS};
    return true;
}

/* ---- windows */

enum { PANELS_ALONE, ANY_ROWS, STRIDED, IN_PARTS, SOME_PARTS, COLUMNS, COLUMNS_OF_PARTS, WINDOWS };

static int64_t below(int64_t n) { return (int64_t)(rig_random() % (unsigned)n); }

static weight window_of(const weight *w, int kind)
{
    const int64_t grain = weight_column_grain(w), grains = (w->cols + grain - 1) / grain;
    int64_t row0 = below(ROWS / 2), length = 1 + below(8), col = below(grains), cols = 1 + below(grains - col);
    weight at[WINDOWS] = {
        [PANELS_ALONE] = {.row0 = below(5) * PANEL_ROWS, .rows = PANEL_ROWS},
        [ANY_ROWS] = {.row0 = row0, .rows = 1 + below(ROWS - row0)},
        [STRIDED] = {.row0 = row0, .run = length, .stride = length + below(length + 1), .rows = 1 + below(ROWS / 4)},
        [IN_PARTS] = {.row0 = below(2) * 16, .run = 16, .stride = EACH, .rows = PARTS * 16, .parts = PARTS},
        [SOME_PARTS] = {.row0 = below(2) * EACH, .rows = 2 * EACH, .parts = 2},
        [COLUMNS] = {.row0 = row0, .rows = 1 + below(ROWS - row0)},
        [COLUMNS_OF_PARTS] = {.rows = ROWS, .parts = PARTS},
    };
    if (kind == COLUMNS || kind == COLUMNS_OF_PARTS) {
        at[kind].col0 = col * grain;
        at[kind].cols = col + cols == grains ? 0 : cols * grain;
    }
    err e = {0};
    assert_ok(weight_window(&at[kind], w, &e), &e);
    return at[kind];
}

/* A program whose weight 0 is whole and whose others are windows of that; and the device that holds them. */
typedef struct device {
    program *all, *cut;
    weight_set *d;
} device;

static void device_open(device *h, const whole *o, bool packed)
{
    err e = {0};
    bool reads[WINDOWS + 1];
    h->all = program_new(&e);
    for (int i = 0; i <= WINDOWS; i++) assert_int_equal(program_weight(h->all, &o->w, &e), i);
    h->cut = program_slice(h->all, &e);
    assert_non_null(h->cut);
    for (int i = 0; i < WINDOWS; i++) h->cut->weights[i + 1] = window_of(&h->all->weights[0], i);
    for (uint32_t i = 0; i <= WINDOWS; i++) {
        h->cut->weights[i].packed = packed;
        reads[i] = true;
    }
    assert_ok(cpu_backend.weights_open(&h->d, h->cut, reads, &(weight_options){.number = 1}, &e), &e);
    assert_ok(cpu_backend.weights_read(h->d, &e), &e);
}

static void device_close(device *h)
{
    cpu_backend.weights_close(h->d);
    program_free(h->cut);
    program_free(h->all);
}

/* Row n of a weight as it is held. */
static void row_of(const device *h, uint32_t index, int64_t n, float *to)
{
    const held_weight *w = &h->d->held[index];
    const int64_t rows = w->part ? w->rows / h->cut->weights[index].parts : w->rows;
    const held_weight part = held_part(w, n / rows, rows);
    held_row(w->part ? &part : w, n % rows, to);
}

static char what[200];

static void check_values(dtype t, int file, const whole *o, const device *h, bool packed)
{
    static float got[COLS_MAX], wanted[COLS_MAX];
    for (uint32_t i = 1; i <= WINDOWS; i++) {
        const weight *w = &h->cut->weights[i];
        const held_weight *held = &h->d->held[i];
        const size_t bytes = (size_t)w->cols * sizeof(float);
        assert_true(weight_held_type(w) == t && held->type == t && held->rows == w->rows && held->cols == w->cols);
        for (int64_t n = 0; n < w->rows; n++) {
            weight_decode_row(&o->w, weight_whole_row(w, n), wanted);
            weight_decode_row(w, n, got);
            if (memcmp(got, wanted + w->col0, bytes)) fail_msg("%s: values of row %d of window %u", what, (int)n, i);
            row_of(h, 0, weight_whole_row(w, n), wanted);
            row_of(h, i, n, got);
            if (memcmp(got, wanted + w->col0, bytes)) fail_msg("%s: row %d of window %u as held", what, (int)n, i);
        }
        const bool as_held = file == (packed ? FILE_PANELS : FILE_BLOCKS), rows = w->cols == o->w.cols;
        const bool lies_there = as_held && rows && (i - 1 == PANELS_ALONE || i - 1 == IN_PARTS || i - 1 == SOME_PARTS);
        if (lies_there && held->own) fail_msg("%s: window %u is not used in the file", what, i);
    }
}

/* ---- products */

/* An op by the whole, and the same by a window of it. Activations of the window are those of the whole. */
typedef struct products {
    rig g;
    ref w[2], y[2];
} products;

static ref weight_tensor(rig *g, const device *h, uint32_t index)
{
    ref t = g->p.n_tensor++;
    uint32_t i = g->p.n_weight++;
    const weight *w = &h->cut->weights[index];
    g->w[i] = *w;
    g->held[i] = h->d->held[index];
    g->t[t] = (tensor){.kind = TENSOR_WEIGHT, .rank = 2, .dim = {w->rows, w->cols}, .weight = i};
    return t;
}

static void run_op(rig *g, const op *o) { rig_run(g, cpu_kernels(cpu_features(), false), 2, o); }

/* x, or its codes where the weight multiplies those. */
static ref input_of(rig *g, ref x, ref table, const weight *w)
{
    if (!w->packed) return x;
    ref codes = rig_act_of(g, g->t[x].axis, g->st.n[g->t[x].axis], g->t[x].dim[0]);
    g->t[codes].block = panel_format_of(weight_held_type(w))->act;
    run_op(g, &(op){.kind = OP_QUANT, .in = {x, table}, .out = codes});
    return codes;
}

/* Output i of row m by the window is output place[i] by the whole. */
static void expect_same(products *s, const int64_t *place)
{
    rig *g = &s->g;
    const int64_t n = g->t[s->y[1]].dim[0], all = g->t[s->y[0]].dim[0];
    for (int m = 0; m < g->st.n[g->t[s->y[1]].axis]; m++)
        for (int64_t i = 0; i < n; i++)
            if (memcmp(rig_at(g, s->y[1]) + m * n + i, rig_at(g, s->y[0]) + m * all + place[i], sizeof(float)))
                fail_msg("%s: output %d of row %d", what, (int)i, m);
}

static void by_rows(const device *h, uint32_t index)
{
    products s;
    const weight *w = &h->cut->weights[index];
    int64_t place[ROWS];
    rig_open(&s.g, BATCH * 4 * (2 * COLS_MAX + 2 * ROWS));
    s.g.st.n[AXIS_TOK] = BATCH;
    ref x = rig_act(&s.g, w->cols);
    for (int i = 0; i < 2; i++) s.w[i] = weight_tensor(&s.g, h, i ? index : 0);
    x = input_of(&s.g, x, 0, w);
    for (int i = 0; i < 2; i++) {
        s.y[i] = rig_act(&s.g, s.g.t[s.w[i]].dim[0]);
        run_op(&s.g, &(op){.kind = OP_MATMUL, .in = {x, s.w[i]}, .out = s.y[i]});
    }
    for (int64_t n = 0; n < w->rows; n++) place[n] = weight_whole_row(w, n);
    expect_same(&s, place);
    rig_close(&s.g);
}

static void by_experts(const device *h)
{
    products s;
    const weight *w = &h->cut->weights[IN_PARTS + 1];
    int64_t place[EACH];
    rig_open(&s.g, PARTS * 4 * (2 * COLS_MAX + 2 * ROWS));
    ref table = rig_act_of(&s.g, AXIS_EXP, PARTS, DISPATCH_COLS), x = rig_act_of(&s.g, AXIS_EXP, PARTS, w->cols);
    int32_t *rows = (int32_t *)(void *)rig_at(&s.g, table);
    for (int i = 0; i < PARTS; i++)
        rows[i * DISPATCH_COLS + DISPATCH_ROW] = rows[i * DISPATCH_COLS + DISPATCH_EXPERT] = i;
    for (int i = 0; i < 2; i++) s.w[i] = weight_tensor(&s.g, h, i ? IN_PARTS + 1 : 0);
    x = input_of(&s.g, x, table, w);
    for (int i = 0; i < 2; i++) {
        s.y[i] = rig_act_of(&s.g, AXIS_EXP, PARTS, s.g.t[s.w[i]].dim[0] / PARTS);
        run_op(&s.g, &(op){.kind = OP_MATMUL_EXP, .in = {x, s.w[i], 0, table}, .out = s.y[i]});
    }
    for (int64_t n = 0; n < w->rows / PARTS; n++) place[n] = w->row0 + n;
    expect_same(&s, place);
    rig_close(&s.g);
}

static void by_heads(const device *h)
{
    products s;
    const weight *w = &h->cut->weights[SOME_PARTS + 1];
    const int64_t head = w->row0 / EACH, k = w->cols;
    int64_t place[ROWS];
    rig_open(&s.g, PARTS * BATCH * 4 * (4 * COLS_MAX + 2 * ROWS));
    s.g.st.n[AXIS_TOK] = BATCH;
    ref x[2] = {rig_act(&s.g, PARTS * k), rig_act(&s.g, 2 * k)};
    for (int m = 0; m < BATCH; m++)
        memcpy(rig_at(&s.g, x[1]) + m * 2 * k, rig_at(&s.g, x[0]) + (m * PARTS + head) * k, (size_t)(2 * k) * 4);
    for (int i = 0; i < 2; i++) s.w[i] = weight_tensor(&s.g, h, i ? SOME_PARTS + 1 : 0);
    for (int i = 0; i < 2; i++) {
        ref codes = input_of(&s.g, x[i], 0, w);
        s.y[i] = rig_act(&s.g, s.g.t[s.w[i]].dim[0]);
        run_op(&s.g, &(op){.kind = OP_MATMUL_HEADS, .in = {codes, s.w[i]}, .out = s.y[i]});
    }
    for (int64_t n = 0; n < w->rows; n++) place[n] = w->row0 + n;
    expect_same(&s, place);
    rig_close(&s.g);
}

/* Id i of the window's table is id row0 + i of the whole's. */
static void by_table(const device *h)
{
    products s;
    const weight *w = &h->cut->weights[PANELS_ALONE + 1];
    int64_t place[COLS_MAX];
    for (int64_t k = 0; k < w->cols; k++) place[k] = k;
    rig_open(&s.g, BATCH * 4 * 2 * COLS_MAX);
    rig_sequences(&s.g, 1, (int[]){BATCH}, (int[]){BATCH - 1});
    for (int i = 0; i < 2; i++) s.w[i] = weight_tensor(&s.g, h, i ? PANELS_ALONE + 1 : 0);
    for (int i = 0; i < 2; i++) {
        for (int m = 0; m < BATCH; m++) s.g.token[m] = (int32_t)((i ? 0 : w->row0) + (5 * m + 3) % PANEL_ROWS);
        s.y[i] = rig_act(&s.g, w->cols);
        run_op(&s.g, &(op){.kind = OP_EMBED, .in = {s.w[i]}, .out = s.y[i]});
    }
    expect_same(&s, place);
    rig_close(&s.g);
}

static void check_products(const whole *o, const device *h, bool packed)
{
    for (uint32_t i = 1 + PANELS_ALONE; i <= 1 + STRIDED; i++) by_rows(h, i);
    by_experts(h);
    if (!packed || o->w.cols % PANEL_K == 0) by_heads(h);
    by_table(h);
}

/* Every type of every file, held as blocks and as panels; but a type that was converted once is held as any other. */
static void each_type(void **unused)
{
    (void)unused;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        for (int file = 0; file < FILES; file++)
            for (int packed = file == FILE_PANELS; packed < 2; packed++) {
                whole o;
                device h;
                const bool often = t == DTYPE_F16 || t == DTYPE_Q8_0 || t == DTYPE_Q4_B64;
                rig_seed = 99 + (uint64_t)(t * FILES + file);
                if ((packed && !panel_format_of((dtype)t)) || (file > FILE_F16 && !often) ||
                    !whole_open(&o, (dtype)t, file))
                    continue;
                snprintf(what, sizeof what, "%s from %s, held as %s", dtype_info[t].name, file_name[file],
                         packed ? "panels" : "blocks");
                device_open(&h, &o, packed);
                check_values((dtype)t, file, &o, &h, packed);
                check_products(&o, &h, packed);
                device_close(&h);
                mem_free(o.own);
            }
}

/* ---- vectors, counts, mistakes */

/* Always floats in one run: in the file where they are, else made. */
static void vectors(void **unused)
{
    (void)unused;
    static float in[ROWS];
    const struct {
        weight at;
        bool own;
    } cases[] = {{{.row0 = 5, .rows = 20}, false},
                 {{.row0 = 3, .run = 4, .stride = EACH, .rows = 12, .parts = PARTS}, true},
                 {{.row0 = 1, .run = 1, .stride = 7, .rows = 11}, true}};
    for (int i = 0; i < ROWS; i++) in[i] = (float)i;
    piece c = {.data = (const uint8_t *)in,
               .type = DTYPE_F32,
               .src_rows = ROWS,
               .src_cols = 1,
               .rows = ROWS,
               .block = ROWS,
               .stride = ROWS,
               .mul = 1};
    const weight all = {
        .name = "b", .pieces = &c, .n_piece = 1, .rows = ROWS, .cols = 1, .vector = true, .parts = PARTS};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        weight w = cases[i].at;
        held_weight held[1] = {0};
        assert_ok(weight_window(&w, &all, &e), &e);
        program p = {.weights = &w, .n_weight = 1};
        weight_set d = {.p = &p, .held = held, .threads = 1};
        assert_ok(cpu_weight_put(&d, 0, &e), &e);
        assert_ok(cpu_weights_read(&d, &e), &e);
        assert_true((held[0].own != NULL) == cases[i].own);
        const float *got = (const float *)(const void *)held[0].data;
        for (int64_t n = 0; n < w.rows; n++) assert_true(got[n] == (float)weight_whole_row(&w, n));
        cpu_weight_drop(&held[0]);
    }
}

/* Windows that share a weight read its bytes once: rows, parts, columns; panels that two share are read by both. */
static void bytes_of_files(void **unused)
{
    (void)unused;
    for (int file = 0; file <= FILE_PANELS; file++) {
        err e = {0};
        whole o;
        assert_true(whole_open(&o, DTYPE_Q4_K, file));
        const uint64_t all = weight_file_bytes(&o.w);
        weight rows[2] = {{.rows = 32}, {.row0 = 32, .rows = 64}};
        weight parts[2] = {{.run = 16, .stride = EACH, .rows = PARTS * 16, .parts = PARTS},
                           {.row0 = 16, .run = 16, .stride = EACH, .rows = PARTS * 16, .parts = PARTS}};
        weight columns[2] = {{.rows = ROWS, .cols = 512}, {.rows = ROWS, .col0 = 512}};
        weight odd[2] = {{.rows = 40}, {.row0 = 40, .rows = ROWS - 40}};
        weight *both[] = {rows, parts, columns, odd};
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 2; k++) assert_ok(weight_window(&both[i][k], &o.w, &e), &e);
            const uint64_t sum = weight_file_bytes(&both[i][0]) + weight_file_bytes(&both[i][1]);
            assert_true(sum == all + (i == 3 && file == FILE_PANELS ? all / (ROWS / PANEL_ROWS) : 0));
        }
        mem_free(o.own);
    }
}

static void mistakes(void **unused)
{
    (void)unused;
    whole o, panels, floats;
    weight part = {.rows = 16};
    err e = {0};
    assert_true(whole_open(&o, DTYPE_Q4_K, FILE_BLOCKS) && whole_open(&panels, DTYPE_Q8_K, FILE_PANELS));
    assert_true(whole_open(&floats, DTYPE_F32, FILE_BLOCKS));
    assert_ok(weight_window(&part, &o.w, &e), &e);
    const struct {
        const weight *of;
        weight at;
        const char *why;
    } bad[] = {
        {&part, {.rows = 1}, "of a window"},
        {&o.w, {.rows = 0}, "rows"},
        {&o.w, {.rows = ROWS + 1}, "rows"},
        {&o.w, {.row0 = -1, .rows = 2}, "rows"},
        {&o.w, {.row0 = INT64_MAX, .rows = 2}, "rows"},
        {&o.w, {.row0 = ROWS - 1, .rows = 2}, "rows"},
        {&o.w, {.run = 4, .stride = 3, .rows = 8}, "rows"},
        {&o.w, {.run = 4, .stride = INT64_MAX, .rows = 8}, "rows"},
        {&o.w, {.run = 4, .stride = 47, .rows = 12}, "rows"},
        {&o.w, {.run = -1, .stride = 47, .rows = 12}, "rows"},
        {&o.w, {.rows = 1, .col0 = INT64_MIN}, "columns"},
        {&o.w, {.rows = 1, .col0 = 4096}, "columns"},
        {&o.w, {.rows = 1, .col0 = 256, .cols = INT64_MAX}, "columns"},
        {&o.w, {.rows = 1, .col0 = 128}, "block"},
        {&o.w, {.rows = 1, .cols = 128}, "block"},
        {&panels.w, {.rows = 1, .col0 = 128}, "span"},
        {&o.w, {.rows = 32, .parts = 3}, "unequal"},
        {&o.w, {.rows = 32, .parts = -1}, "unequal"},
        {&o.w, {.run = 8, .stride = EACH, .rows = 24, .parts = 3}, "panels"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weight at = bad[i].at;
        err why = {0};
        if (weight_window(&at, bad[i].of, &why) != ERR_SPEC || !strstr(why.msg, bad[i].why))
            fail_msg("mistake %zu: %s", i, why.msg);
    }
    assert_true(weight_row_grain(&o.w) == PANEL_ROWS && weight_row_grain(&floats.w) == 1);
    assert_true(weight_column_grain(&o.w) == 256 && weight_column_grain(&floats.w) == 1);
    o.w.rows = 3 * 24; /* parts that are no panels are held as blocks */
    assert_int_equal(weight_row_grain(&o.w), 1);
    mem_free(o.own), mem_free(panels.own), mem_free(floats.own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_type), cmocka_unit_test(vectors),
                                       cmocka_unit_test(bytes_of_files), cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
