/* t_core_weight_fill.c - weights as they are held: rows of any length in every type that can be encoded, as rows of
 * blocks and as panels, whatever run of units is filled at once. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "core/weight_fill.h"
#include "tensor/quant.h"
#include "tensor/quant_fit.h"
#include "tensor/panel.h"

#include <math.h>

enum { ROWS = 37, COLS_MAX = 300 };

static float source[ROWS * COLS_MAX];

static weight weight_of(piece *c, int64_t cols)
{
    *c = (piece){.data = (const uint8_t *)source,
                 .type = DTYPE_F32,
                 .src_rows = ROWS,
                 .src_cols = cols,
                 .rows = ROWS,
                 .block = ROWS,
                 .stride = ROWS,
                 .mul = 1};
    return (weight){.name = "w", .pieces = c, .n_piece = 1, .rows = ROWS, .cols = cols};
}

/* Filled `step` units at a time. */
static uint8_t *filled(weight_fill f, int64_t step)
{
    uint8_t *out = f.out = mem_zero((size_t)f.units, f.unit_bytes);
    err e = {0};
    for (f.from = 0; f.from < f.units; f.from = f.to, f.out = out + (uint64_t)f.from * f.unit_bytes) {
        f.to = f.from + step < f.units ? f.from + step : f.units;
        assert_ok(weight_fill_run(&f, 1, step == 1 ? 1 : 3, &e), &e);
    }
    return out;
}

/* Row n as it comes out of what was filled. */
static void read_row(const weight_fill *f, const uint8_t *held, int64_t n, float *to)
{
    int64_t cols = f->w->cols;
    if (f->packed)
        panel_row(f->type, held + (uint64_t)(n / PANEL_ROWS) * f->unit_bytes, (int)(n % PANEL_ROWS), cols, to);
    else quant_decode_row(f->type, held + (uint64_t)n * f->unit_bytes, to, (uint64_t)cols);
}

static void check_form(dtype t, int64_t cols, bool packed)
{
    piece c;
    weight w = weight_of(&c, cols);
    weight_fill f;
    err e = {0};
    assert_ok(weight_fill_plan(&f, &w, t, packed, &e), &e);
    uint8_t *one = filled(f, 1), *all = filled(f, f.units), block[8 * COLS_MAX + 512];
    assert_memory_equal(one, all, (size_t)f.units * f.unit_bytes);
    for (int64_t n = 0; n < ROWS; n++) {
        float got[COLS_MAX], wanted[COLS_MAX], range = 0;
        const float *row = source + n * cols;
        quant_fit(t, row, (uint64_t)cols, NULL, block);
        quant_decode_row(t, block, wanted, (uint64_t)cols);
        read_row(&f, one, n, got);
        assert_memory_equal(got, wanted, (size_t)cols * sizeof *got);
        float far = 8 * dtype_info[t].bytes < 2 * dtype_info[t].weights
                        ? 1.3f
                        : 0.7f; /* below two bits a book has few signs */
        for (int64_t k = 0; k < cols; k++) range = fmaxf(range, fabsf(row[k]));
        for (int64_t k = 0; k < cols; k++)
            if (!(fabsf(got[k] - row[k]) <= range * far))
                fail_msg("%s, %d columns: %g became %g", dtype_info[t].name, (int)cols, (double)row[k], (double)got[k]);
    }
    mem_free(one);
    mem_free(all);
}

static void rows_of_any_length(void **unused)
{
    (void)unused;
    static const int64_t cols[] = {1, 31, 64, 100, 288};
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        for (size_t i = 0; quant_can_encode((dtype)t) && i < sizeof cols / sizeof *cols; i++) {
            check_form((dtype)t, cols[i], false);
            if (panel_format_of((dtype)t)) check_form((dtype)t, cols[i], true);
        }
}

/* Elements that are not there have code 0, rows that are not there too. */
static void padding_is_zero(void **unused)
{
    (void)unused;
    piece c;
    weight w = weight_of(&c, 100);
    weight_fill f;
    err e = {0};
    assert_ok(weight_fill_plan(&f, &w, DTYPE_Q4_B64, true, &e), &e);
    uint8_t *held = filled(f, 1);
    const panel_format *q4 = panel_format_of(DTYPE_Q4_B64);
    const uint8_t *last = held + (uint64_t)(f.units - 1) * f.unit_bytes;
    static const uint8_t none[PANEL_K];
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < PANEL_ROWS; r++) {
            bool there = r < ROWS % PANEL_ROWS;
            int n = !there ? 0 : k ? 100 - PANEL_K : PANEL_K;
            panel_strip strip;
            panel_strip_get(q4, last + k * (q4->code_lines + q4->tail_lines) * PANEL_LINE, r, 1, &strip);
            assert_memory_equal(strip.code + n, none, (size_t)(PANEL_K - n));
            assert_int_equal(strip.scale[0] != 0, there);
        }
    mem_free(held);
}

/* What fills a block up is not its zero: one weight far from zero comes back as it was. */
static void tails_keep_their_range(void **unused)
{
    (void)unused;
    float row[65], got[65];
    uint8_t block[200];
    for (int i = 0; i < 65; i++) row[i] = 100 + (float)i / 64;
    quant_fit(DTYPE_Q2_B32, row, 65, NULL, block);
    quant_decode_row(DTYPE_Q2_B32, block, got, 65);
    assert_true(fabsf(got[64] - row[64]) < 0.05f);
}

/* What has been packed does not stay in memory as the file has it. */
static void pages_of_the_file_are_let_go(void **unused)
{
    (void)unused;
    enum { WIDE = 4096, HIGH = 2048, BYTES = WIDE / 32 * 34 * HIGH };
    const char *path = temp_path("fill");
    err e = {0};
    file_out *to;
    file_mapping *m;
    uint8_t *zero = mem_zero(1, BYTES);
    assert_ok(file_create(&to, path, &e), &e);
    assert_ok(file_write(to, zero, BYTES, &e), &e);
    assert_ok(file_commit(to, &e), &e);
    assert_ok(file_map(&m, path, &e), &e);
    piece c = {.data = file_bytes(m).p,
               .type = DTYPE_Q8_0,
               .src_rows = HIGH,
               .src_cols = WIDE,
               .rows = HIGH,
               .block = HIGH,
               .stride = HIGH,
               .mul = 1};
    const weight w = {.name = "w", .pieces = &c, .n_piece = 1, .rows = HIGH, .cols = WIDE};
    weight columns = {.rows = HIGH, .cols = WIDE / 2}, rows = {.run = 4, .stride = 8, .rows = HIGH / 2};
    assert_ok(weight_window(&columns, &w, &e), &e);
    assert_ok(weight_window(&rows, &w, &e), &e);
    const weight *const all[] = {&w, &columns, &rows};
    for (int i = 0; i < 3; i++) {
        weight_fill f;
        assert_ok(weight_fill_plan(&f, all[i], DTYPE_Q8_0, true, &e), &e);
        long before = shared_pages();
        mem_free(filled(f, f.units));
        assert_true(shared_pages() - before < BYTES / 4096 / 4);
    }
    file_unmap(m);
    unlink(path);
    mem_free(zero);
}

int main(void)
{
    for (int i = 0; i < ROWS * COLS_MAX; i++) source[i] = sinf((float)i * 0.7f) + 0.3f * sinf((float)(i * i));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length),
        cmocka_unit_test(padding_is_zero),
        cmocka_unit_test(tails_keep_their_range),
        cmocka_unit_test(pages_of_the_file_are_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
