/* t_io_importance.c - importance of columns: llama.cpp's two forms, refusals, and from a text to better codes. */
#include "copied_model.h"

#include "core/weight_fill.h"
#include "engine/engine_state.h"
#include "measure/evaluate_state.h"
#include "measure/importance_collect.h"
#include "io/importance.h"
#include "io/write_gguf.h"

#include <malloc.h>
#include <math.h>
#include <unistd.h>

static void put_int(buf *b, int32_t v) { buf_add(b, &v, sizeof v); }
static void put_float(buf *b, float v) { buf_add(b, &v, sizeof v); }

static void put_entry(buf *b, const char *name, int calls, int n, const float *v)
{
    put_int(b, (int)strlen(name));
    buf_add(b, name, strlen(name));
    put_int(b, calls);
    put_int(b, n);
    for (int i = 0; i < n; i++) put_float(b, v[i]);
}

/* The only set of a matrix of so many columns. */
static const float *columns_of(const importance *m, const char *name, int64_t cols)
{
    fit_importance v = importance_find(m, name, 8, cols, 1);
    assert_int_equal(v.rows, 0);
    return v.value;
}

static int open_buf(importance **m, const buf *b, err *e)
{
    *e = (err){0};
    return importance_open_bytes(m, buf_span(b), "test", e);
}

static void the_older_form_is_read(void **unused)
{
    (void)unused;
    buf b = {0};
    put_int(&b, 2);
    put_entry(&b, "blk.3.attn_q.weight", 4, 3, (const float[]){4, 8, 0});
    put_entry(&b, "output.weight", 1, 2, (const float[]){1, 2});
    put_int(&b, 17); /* chunk, name of the text */
    put_int(&b, 0);
    importance *m;
    err e;
    assert_ok(open_buf(&m, &b, &e), &e);
    const float *v = columns_of(m, "blk.3.attn_q.weight", 3);
    assert_true(v && v[0] == 1 && v[1] == 2 && v[2] == 0);
    v = columns_of(m, "output.weight", 2);
    assert_true(v && v[1] == 2);
    assert_null(columns_of(m, "blk.3.attn_q.weight", 4));
    assert_null(columns_of(m, "blk.2.attn_q.weight", 3));
    importance_close(m);
    size_t whole = b.n - 8; /* what follows the entries may be missing */
    for (size_t n = 0; n < b.n; n++) {
        buf cut = {.p = b.p, .n = n};
        int rc = open_buf(&m, &cut, &e);
        assert_int_equal(rc == OK, n >= whole);
        if (rc) assert_true(e.msg[0] && !m);
        importance_close(rc ? NULL : m);
    }
    buf_free(&b);
}

static void bad_numbers_are_refused(void **unused)
{
    (void)unused;
    static const float bad[] = {-1, NAN, INFINITY};
    importance *m;
    err e;
    for (int i = 0; i < 3; i++) {
        buf b = {0};
        put_int(&b, 1);
        put_entry(&b, "x", 1, 1, &bad[i]);
        assert_int_equal(open_buf(&m, &b, &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, "\"x\""));
        buf_free(&b);
    }
    static const int32_t hostile[][4] = {
        {-1, 1, 1, 1}, {0, 0, 0, 0}, {1 << 30, 1, 1, 1}, {1, -5, 1, 1}, {1, 1 << 30, 1, 1}};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        buf b = {0};
        buf_add(&b, hostile[i], sizeof hostile[i]);
        assert_int_equal(open_buf(&m, &b, &e), ERR_FORMAT);
        buf_free(&b);
    }
    /* names are text, whatever stands in them */
    assert_int_equal(importance_open_bytes(&m, (span){0}, "100%sure%n", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "100%sure%n"));

    buf gguf = {0};
    gguf_pairs p = {0};
    gguf_add_text(&p, "general.type", "model");
    assert_ok(write_gguf_header(&gguf, &p, NULL, 0, &e), &e);
    assert_int_equal(open_buf(&m, &gguf, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "\"model\""));
    gguf_pairs_free(&p);
    buf_free(&gguf);
}

static void what_is_written_is_read(void **unused)
{
    (void)unused;
    const char *path = temp_path("importance.gguf");
    const importance_sums s[] = {{"blk.0.ffn_down.weight", (const double[]){2, 4, 6}, (const int64_t[]){2}, 3, 1},
                                 {"odd.name", (const double[]){5}, (const int64_t[]){5}, 1, 1}};
    err e = {0};
    importance *m;
    assert_ok(importance_write(path, s, 2, &e), &e);
    assert_ok(importance_open(&m, path, &e), &e);
    const float *v = columns_of(m, "blk.0.ffn_down.weight", 3);
    assert_true(v && v[0] == 1 && v[1] == 2 && v[2] == 3);
    v = columns_of(m, "odd.name", 1);
    assert_true(v && v[0] == 1);
    importance_close(m);
    ckpt *c; /* llama.cpp refuses files without these */
    assert_ok(ckpt_open(&c, path, &e), &e);
    assert_int_equal(json_int(json_get(ckpt_config(c), "imatrix.chunk_count"), 0), 1);
    assert_int_equal(json_int(json_get(ckpt_config(c), "imatrix.chunk_size"), 0), 5);
    assert_int_equal(json_count(json_get(ckpt_config(c), "imatrix.datasets")), 1);
    ckpt_close(c);
    unlink(path);
}

static bool same_three(const float *v, float a, float b, float c) { return v && v[0] == a && v[1] == b && v[2] == c; }

static bool near_three(const float *v, float a, float b, float c)
{
    return fabsf(v[0] - a) < 1e-3f && fabsf(v[1] - b) < 1e-3f && fabsf(v[2] - c) < 1e-3f;
}

/* Three experts of 2 rows: 64 rows of activations reached the first, with means 1 2 3, very many the second, with 6 0
 * 6, none the third. As many rows as the first has weigh as much as the average of all at its size, which is 3 0 3. */
static void experts_are_apart(void **unused)
{
    (void)unused;
    const char *path = temp_path("experts.gguf");
    const importance_sums s = {"blk.1.ffn_gate_exps.weight", (const double[]){64, 128, 192, 6e7, 0, 6e7, 0, 0, 0},
                               (const int64_t[]){64, 10000000, 0}, 3, 3};
    err e = {0};
    importance *m;
    assert_ok(importance_write(path, &s, 1, &e), &e);
    ckpt *c; /* as llama.cpp's imatrix lays them out */
    assert_ok(ckpt_open(&c, path, &e), &e);
    const ckpt_entry *sums = ckpt_find(c, "blk.1.ffn_gate_exps.weight.in_sum2"),
                     *counts = ckpt_find(c, "blk.1.ffn_gate_exps.weight.counts");
    assert_true(sums && sums->dims.rank == 2 && sums->dims.dim[0] == 3 && sums->dims.dim[1] == 3);
    assert_true(counts && counts->dims.rank == 2 && counts->dims.dim[0] == 3 && counts->dims.dim[1] == 1);
    ckpt_close(c);
    assert_ok(importance_open(&m, path, &e), &e);
    static const char gates[] = "blk.1.ffn_gate_exps.weight", ups[] = "blk.1.ffn_up_exps.weight";
    fit_importance v = importance_find(m, gates, 6, 3, 3);
    assert_int_equal(v.rows, 2);
    assert_true(near_three(fit_importance_of(v, 0, 3), 2, 1, 3) && near_three(fit_importance_of(v, 1, 3), 2, 1, 3));
    assert_true(near_three(fit_importance_of(v, 2, 3), 6, 0, 6) && near_three(fit_importance_of(v, 5, 3), 6, 0, 6));
    assert_null(importance_find(m, gates, 6, 3, 2).value);
    assert_null(importance_find(m, gates, 2, 3, 1).value);
    importance_close(m);
    unlink(path);

    buf b = {0}; /* the older form: means times calls, experts one after the other */
    put_int(&b, 2);
    put_entry(&b, "blk.1.ffn_gate_exps.weight", 2, 9, (const float[]){2, 4, 6, 4, 0, 6, 2, 2, 2});
    put_entry(&b, "blk.1.ffn_up_exps.weight", 1, 3, (const float[]){7, 8, 9});
    assert_ok(open_buf(&m, &b, &e), &e);
    v = importance_find(m, gates, 6, 3, 3);
    assert_true(same_three(fit_importance_of(v, 1, 3), 1, 2, 3) && same_three(fit_importance_of(v, 3, 3), 2, 0, 3));
    v = importance_find(m, ups, 6, 3, 3); /* one set, for all experts */
    assert_true(same_three(fit_importance_of(v, 0, 3), 7, 8, 9) && same_three(fit_importance_of(v, 5, 3), 7, 8, 9));
    importance_close(m);
    buf_free(&b);
}

static void counts_have_to_fit(void **unused)
{
    (void)unused;
    const char *path = temp_path("counts.gguf");
    static const float sum[6] = {1, 2, 3, 4, 5, 6}, count[4] = {1, 1, 1, 1};
    for (int n = 0; n < 5; n++) { /* so many counts; 4 do not divide 6 */
        gguf_pairs p = {0};
        gguf_add_text(&p, "general.type", "imatrix");
        const write_tensor t[] = {{"x.in_sum2", DTYPE_F32, {2, {1, 6}}, .raw = sum},
                                  {"x.counts", DTYPE_F32, {1, {n}}, .raw = count}};
        err e = {0};
        importance *m;
        assert_ok(write_gguf(path, &p, t, n ? 2 : 1, 1, &e), &e);
        assert_int_equal(importance_open(&m, path, &e), n && 6 % n == 0 ? OK : ERR_FORMAT);
        if (m) assert_int_equal(importance_find(m, "x", 12, 6 / n, n).rows, n > 1 ? 12 / n : 0);
        else assert_non_null(strstr(e.msg, "counts"));
        importance_close(m);
        gguf_pairs_free(&p);
    }
    unlink(path);
}

/* Rows of float weights 1, and of a matrix of two experts. */
static int ramp_row(void *self, uint64_t n, float *to, err *e)
{
    (void)self, (void)e;
    for (int i = 0; i < 64; i++) to[i] = (float)((i * 37 + (int)n * 11) % 64) / 64;
    return OK;
}

/* What a file is quantized with: each expert's rows by its own columns. */
static void rows_are_encoded_by_their_expert(void **unused)
{
    (void)unused;
    enum { COLS = 64, ROWS = 6 };
    const char *path = temp_path("stack.gguf");
    float set[2][COLS], row[COLS];
    for (int i = 0; i < COLS; i++) {
        set[0][i] = i < 32 ? 100 : 0.01f;
        set[1][i] = i % 2 ? 100 : 0.01f;
    }
    const write_tensor t = {
        "stack", DTYPE_Q2_0, {3, {2, ROWS / 2, COLS}}, .row = ramp_row, .importance = {set[0], ROWS / 2}};
    gguf_pairs p = {0};
    err e = {0};
    ckpt *c;
    assert_ok(write_gguf(path, &p, &t, 1, 1, &e), &e);
    assert_ok(ckpt_open(&c, path, &e), &e);
    const ckpt_entry *got = ckpt_find(c, "stack");
    assert_non_null(got);
    uint64_t bytes = dtype_row_bytes(DTYPE_Q2_0, COLS);
    piece of = {
        .type = DTYPE_F32, .src_rows = ROWS, .src_cols = COLS, .rows = ROWS, .block = ROWS, .stride = ROWS, .mul = 1};
    float all[ROWS][COLS];
    of.data = (const uint8_t *)all;
    const weight w = {.name = "stack", .rows = ROWS, .cols = COLS, .pieces = &of, .n_piece = 1, .parts = 2};
    for (int n = 0; n < ROWS; n++) ramp_row(NULL, (uint64_t)n, all[n], &e);
    weight_fill f;
    uint8_t held[ROWS * 18];
    assert_ok(weight_fill_plan(&f, &w, DTYPE_Q2_0, false, &e), &e);
    assert_int_equal(sizeof held, ROWS * bytes);
    f.importance = t.importance;
    f.out = held;
    assert_ok(weight_fill_run(&f, 1, 2, &e), &e);
    for (int n = 0; n < ROWS; n++) {
        uint8_t mine[64], other[64];
        ramp_row(NULL, (uint64_t)n, row, &e);
        quant_fit(DTYPE_Q2_0, row, COLS, set[n / 3], mine);
        quant_fit(DTYPE_Q2_0, row, COLS, set[1 - n / 3], other);
        assert_memory_equal(got->data + (uint64_t)n * bytes, mine, bytes);
        assert_memory_equal(held + (uint64_t)n * bytes, mine, bytes);
        assert_memory_not_equal(mine, other, bytes);
    }
    ckpt_close(c);
    gguf_pairs_free(&p);
    unlink(path);
}

/* Sums for a model's experts from the router's choice and the rows before it, not from the sorted rows. */
typedef struct by_hand {
    const float *x; /* kept when the router speaks of it */
    int used, experts, cols;
    double square[16][64];
    int64_t count[16];
} by_hand;

static void add_by_hand(void *self, const float *route, int64_t rows)
{
    by_hand *h = self;
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < h->used; k++) {
            int expert = (int)route[r * 2 * h->used + k];
            h->count[expert]++;
            for (int i = 0; i < h->cols; i++) h->square[expert][i] += pow(h->x[r * h->cols + i], 2);
        }
}

static void experts_get_their_own_rows(void **unused)
{
    (void)unused;
    const char *path = temp_path("experts.gguf");
    const engine_options o = {
        .model = "tests/vectors/models/mixtral", .act = "f32", .kv = "f32", .ctx = 64, .max_batch = 1};
    static by_hand hand;
    engine *g;
    err e = {0};
    importance_sum *s;
    importance *m;
    int32_t ids[30];
    for (int i = 0; i < 30; i++) ids[i] = 1 + i * 7 % 40;
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_ok(importance_sum_open(&s, g, &e), &e);
    assert_ok(importance_sum_add(s, ids, 30, 0, &e), &e);
    assert_ok(importance_sum_add(s, ids, 11, 0, &e), &e);
    assert_ok(importance_sum_write(s, path, &e), &e);
    importance_sum_close(s);

    const program *p = g->prog;
    tap taps[2] = {0};
    const op *up = NULL;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *at = &p->ops[i];
        if (at->kind == OP_ROUTE && at->layer == 1) taps[0].what = at->out;
        if (at->kind == OP_GATHER && at->layer == 1) taps[1].what = at->in[0];
        if (at->kind == OP_MATMUL_EXP && strcmp(p->tensors[at->in[1]].name, "dec.1.ffn.up") == 0) up = at;
    }
    assert_true(taps[0].what && taps[1].what && up);
    const weight *w = &p->weights[p->tensors[up->in[1]].weight];
    hand.used = p->n_used;
    hand.experts = (int)w->parts;
    hand.cols = (int)w->cols;
    assert_true(hand.experts <= 16 && hand.cols <= 64);
    float *x = mem_array(64, (uint64_t)hand.cols * sizeof *x);
    taps[0].take = add_by_hand;
    taps[0].self = &hand;
    hand.x = taps[1].to = x;
    assert_ok(engine_watch(g, ids, 30, taps, 2, &e), &e);
    assert_ok(engine_watch(g, ids, 11, taps, 2, &e), &e);

    ckpt *c;
    assert_ok(ckpt_open(&c, path, &e), &e);
    const ckpt_entry *sums = ckpt_find(c, "blk.1.ffn_up_exps.weight.in_sum2"),
                     *counts = ckpt_find(c, "blk.1.ffn_up_exps.weight.counts");
    assert_true(sums && counts && sums->bytes == (uint64_t)(hand.experts * hand.cols) * sizeof(float));
    int64_t rows = 0;
    for (int k = 0; k < hand.experts; k++) {
        const float *of = (const float *)(const void *)sums->data + k * hand.cols;
        rows += hand.count[k];
        assert_true(((const float *)(const void *)counts->data)[k] == (float)hand.count[k]);
        for (int i = 0; i < hand.cols; i++)
            if (!(fabs((double)of[i] - hand.square[k][i]) <= 1e-5 * hand.square[k][i]))
                fail_msg("expert %d, column %d: %g, by hand %g", k, i, (double)of[i], hand.square[k][i]);
    }
    ckpt_close(c);
    assert_ok(importance_open(&m, path, &e), &e);
    assert_int_equal(rows, 41 * hand.used);
    fit_importance down = importance_find(m, "blk.1.ffn_down_exps.weight", w->cols * hand.experts,
                                          w->rows / hand.experts, hand.experts);
    assert_true(down.value && down.rows == w->cols);
    importance_close(m);
    mem_free(x);
    engine_close(g);
    unlink(path);
}

/* Matrices are called as in GGUF, by whatever name the family has for them; those of one tensor there are one entry. */
static void entries_have_names_of_gguf(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *names[9];
    } cases[] = {
        {"llama", {"attn_q", "attn_output", "ffn_gate", "ffn_down"}},
        {"gpt2", {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}},
        {"phi3", {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}},
        {"deepseek3",
         {"attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", "attn_output", "ffn_gate_inp", "ffn_up_exps",
          "ffn_down_shexp"}},
        {"deepseek2-lite", {"attn_q", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", "attn_output"}},
    };
    const char *path = temp_path("names.gguf");
    int32_t ids[30];
    for (int i = 0; i < 30; i++) ids[i] = 1 + i * 7 % 40;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[200], name[100];
        snprintf(folder, sizeof folder, "tests/vectors/models/%s", cases[i].model);
        const engine_options o = {.model = folder, .act = "f32", .kv = "f32", .ctx = 64, .max_batch = 1};
        engine *g;
        ckpt *c;
        err e = {0};
        importance_sum *s;
        assert_ok(engine_open(&g, &o, &e), &e);
        assert_ok(importance_sum_open(&s, g, &e), &e);
        assert_ok(importance_sum_add(s, ids, 30, 0, &e), &e);
        assert_ok(importance_sum_write(s, path, &e), &e);
        importance_sum_close(s);
        engine_close(g);
        assert_ok(ckpt_open(&c, path, &e), &e);
        for (int k = 0; k < 9 && cases[i].names[k]; k++) {
            snprintf(name, sizeof name, "blk.1.%s.weight.in_sum2", cases[i].names[k]);
            if (!ckpt_find(c, name)) fail_msg("%s: no %s", folder, name);
        }
        for (uint32_t k = 0; k < ckpt_count(c); k++)
            if (strncmp(ckpt_at(c, k)->name, "dec.", 4) == 0) fail_msg("%s: %s", folder, ckpt_at(c, k)->name);
        ckpt_close(c);
    }
    unlink(path);
}

/* Sums take two numbers for each column, however many rows a step has; C libraries without accounts are trusted. */
static void no_rows_are_held(void **unused)
{
    (void)unused;
    const engine_options o = {.model = "tests/vectors/models/mixtral", .act = "f32", .kv = "f32", .max_batch = 1};
    engine *g;
    err e = {0};
    importance_sum *s;
    assert_ok(engine_open(&g, &o, &e), &e);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_ok(importance_sum_open(&s, g, &e), &e);
    size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before, sums = 0;
    const program *p = g->prog;
    for (uint32_t i = 0; i < p->n_weight; i++)
        sums += (size_t)((p->weights[i].parts ? p->weights[i].parts : 1) * p->weights[i].cols) * sizeof(double);
    size_t tables = (size_t)(p->n_layer * p->n_used * g->chunk) * DISPATCH_COLS * sizeof(int32_t);
    if (taken > sums + tables + (size_t)p->n_op * 256) fail_msg("%zu bytes for %zu of sums", taken, sums);
    importance_sum_close(s);
    engine_close(g);
}

/* Sums of the built-in model: of the rows after the first norm, which q, k and v share, and of the head. */
static void a_text_gives_sums(void **unused)
{
    (void)unused;
    const char *path = temp_path("sums.gguf");
    const engine_options o = {.model = "builtin", .act = "f32", .kv = "f32", .ctx = 64, .max_batch = 1};
    engine *g;
    err e = {0};
    importance_sum *s;
    importance *m;
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 5 + i * 7;
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_ok(importance_sum_open(&s, g, &e), &e);
    assert_int_equal(importance_sum_write(s, path, &e), ERR_USAGE);
    e = (err){0};
    assert_ok(importance_sum_add(s, ids, 40, 0, &e), &e);
    assert_ok(importance_sum_add(s, ids, 17, 0, &e), &e);
    assert_ok(importance_sum_write(s, path, &e), &e);
    importance_sum_close(s);
    engine_close(g);
    assert_ok(importance_open(&m, path, &e), &e);
    const float *q = columns_of(m, "blk.0.attn_q.weight", 256), *v = columns_of(m, "blk.0.attn_v.weight", 256);
    const float *head = columns_of(m, "output.weight", 256), *down = columns_of(m, "blk.5.ffn_down.weight", 704);
    assert_true(q && v && down);
    assert_memory_equal(q, v, 256 * sizeof *q);
    double sum = 0;
    for (int i = 0; i < 256; i++) sum += q[i];
    assert_true(sum > 0 && (!head || head[0] >= 0));
    importance_close(m);
    unlink(path);
}

/* A folder with the same model, whose weights are NaN if `bad`. */
static void copy_bare(const char *to, bool bad)
{
    static const char *const from = "tests/vectors/encoders/bert-bare";
    static const char *const files[] = {"config.json", "model.safetensors"};
    err e = {0};
    mkdir(to, 0700);
    for (int i = 0; i < 2; i++) {
        char name[200];
        buf text = {0};
        uint64_t header;
        snprintf(name, sizeof name, "%s/%s", from, files[i]);
        assert_ok(file_read(&text, name, 1 << 24, &e), &e);
        memcpy(&header, text.p, sizeof header);
        if (bad && i == 1) memset(text.p + 8 + header, 0xff, text.n - 8 - header);
        put_in(to, files[i], &text);
        buf_free(&text);
    }
}

/* A model whose result is vectors of texts, without logits, has matrices too; and sums of NaN are not written. */
static void models_without_a_head(void **unused)
{
    (void)unused;
    static const char *const folder = "build/tests/importance-bare", *const path = "build/tests/importance-bare.gguf";
    const int32_t ids[] = {5, 6, 7, 8, 9};
    for (int bad = 0; bad < 2; bad++) {
        engine *g;
        err e = {0};
        importance_sum *s;
        ckpt *c;
        copy_bare(folder, bad);
        const engine_options o = {.model = folder, .act = "f32", .kv = "f32", .ctx = 64};
        assert_ok(engine_open(&g, &o, &e), &e);
        assert_ok(importance_sum_open(&s, g, &e), &e);
        assert_ok(importance_sum_add(s, ids, 5, 0, &e), &e);
        assert_int_equal(importance_sum_write(s, path, &e), bad ? ERR_FORMAT : OK);
        importance_sum_close(s);
        engine_close(g);
        if (bad) {
            assert_non_null(strstr(e.msg, "is not finite"));
            continue;
        }
        assert_ok(ckpt_open(&c, path, &e), &e);
        const ckpt_entry *counts = ckpt_find(c, "blk.0.ffn_up.weight.counts");
        assert_true(counts && *(const float *)(const void *)counts->data == 5);
        ckpt_close(c);
        unlink(path);
    }
    drop_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_older_form_is_read),     cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(what_is_written_is_read),    cmocka_unit_test(experts_are_apart),
        cmocka_unit_test(counts_have_to_fit),         cmocka_unit_test(rows_are_encoded_by_their_expert),
        cmocka_unit_test(experts_get_their_own_rows), cmocka_unit_test(a_text_gives_sums),
        cmocka_unit_test(no_rows_are_held),           cmocka_unit_test(entries_have_names_of_gguf),
        cmocka_unit_test(models_without_a_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
