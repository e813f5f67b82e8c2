/* t_tensor_quant_range.c - weights that a type cannot hold are told from those that it can, by every way into a file.
 * */
#include "base/file.h"
#include "io/write_gguf.h"
#include "tensor/quant.h"
#include "tensor/quant_range.h"

#include "command.h"

#include <math.h>

enum { COLS = 96, N = 3 * COLS };

/* A spread of weights about 0 whose greatest is 1. */
static void fill(float *x, float unit)
{
    for (int i = 0; i < N; i++) x[i] = unit * (float)((i * 131) % 201 - 100) / 100;
}

static void every_type(void **unused)
{
    (void)unused;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        float x[N];
        const dtype type = (dtype)t;
        if (!quant_can_encode(type)) continue;
        const bool block = dtype_is_block(type), wide = !block && type != DTYPE_F16;
        const float held[] = {0, 1e-42f, 1e-9f, 0.03f, 1, 300, 1000};
        for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
            fill(x, held[i]);
            assert_int_equal(quant_range_of(type, x, N), RANGE_HELD);
        }
        fill(x, 1e29f);
        assert_int_equal(quant_range_of(type, x, N), wide ? RANGE_HELD : RANGE_TOO_LARGE);
        const float odd[] = {INFINITY, -INFINITY, NAN};
        for (int i = 0; i < 3; i++) {
            fill(x, 1);
            x[N - 1] = odd[i];
            assert_int_equal(quant_range_of(type, x, N), block ? RANGE_NOT_FINITE : RANGE_HELD);
        }
    }
}

/* One great number in an ordinary row, at the border of what f16 scales hold. */
static void borders(void **unused)
{
    (void)unused;
    float x[N];
    const struct {
        dtype type;
        float held, beyond;
    } rows[] = {{DTYPE_F16, 65519, 65520}, {DTYPE_Q8_0, 1e6f, 1e7f},  {DTYPE_Q4_B64, 60000, 1e8f},
                {DTYPE_Q4_T, 8000, 20000}, {DTYPE_Q4_K, 1e6f, 1e12f}, {DTYPE_NVFP4, 2000, 4000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fill(x, 0.1f);
        x[70] = rows[i].held;
        assert_int_equal(quant_range_of(rows[i].type, x, N), RANGE_HELD);
        x[70] = rows[i].beyond;
        assert_int_equal(quant_range_of(rows[i].type, x, N), RANGE_TOO_LARGE);
    }
}

/* A writer says which tensor, which row and what of it, and leaves nothing behind. */
static int row_of(void *self, uint64_t n, float *to, err *e)
{
    (void)e;
    memcpy(to, (const float *)self + n * (COLS), COLS * sizeof *to);
    return OK;
}

static void writers_refuse(void **unused)
{
    (void)unused;
    float x[N];
    fill(x, 1);
    x[COLS + 7] = NAN;
    const char *path = temp_path("range.gguf");
    gguf_pairs p = {0};
    err e = {0};
    write_tensor t = {.name = "a.weight", .type = DTYPE_Q5_0, .dims = {2, {3, COLS}}, .row = row_of, .self = x};
    gguf_add_text(&p, "general.architecture", "llama");
    assert_int_equal(write_gguf(path, &p, &t, 1, 2, &e), ERR_SPEC);
    assert_non_null(strstr(e.msg, "a.weight: row 1 has infinities or NaN, which q5_0 cannot hold"));
    assert_int_not_equal(access(path, F_OK), 0);
    gguf_pairs_free(&p);
}

/* A model of floats with a NaN in the middle of its tensors: read as it is, refused where matrices are encoded. */
static void models_are_refused(void **unused)
{
    (void)unused;
    static const char folder[] = "tests/vectors/models/llama";
    const char *dir = temp_path("range-model"), *out = temp_path("range.safetensors");
    char line[1200];
    buf bytes = {0}, said = {0}, errors = {0};
    err e = {0};
    uint64_t header;
    const float nan_there = NAN;
    snprintf(line, sizeof line, "mkdir -p %s && cp %s/config.json %s/", dir, folder, dir);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "%s/model.safetensors", folder);
    assert_ok(file_read(&bytes, line, 1 << 24, &e), &e);
    memcpy(&header, bytes.p, sizeof header);
    memcpy(bytes.p + 8 + header + (bytes.n - 8 - header) / 8 * 4, &nan_there, sizeof nan_there);
    snprintf(line, sizeof line, "%s/model.safetensors", dir);
    FILE *f = fopen(line, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
    static const char *const refused[] = {"quantize --bits 4", "eval logits --ids 1,2 --weights q8_0"};
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s -o %s --model %s", refused[i], out, dir);
        assert_int_equal(command_run(NULL, line, &said, &errors), 1);
        assert_non_null(strstr(buf_cstr(&errors), "has infinities or NaN, which"));
    }
    snprintf(line, sizeof line, "eval logits --ids 1,2 -o %s --model %s", out, dir);
    assert_int_equal(command_run(NULL, line, &said, &errors), 1);
    assert_non_null(strstr(buf_cstr(&errors), "no finite"));
    snprintf(line, sizeof line, "rm -rf %s %s", dir, out);
    assert_int_equal(system(line), 0);
    buf_free(&bytes), buf_free(&said), buf_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(borders),
        cmocka_unit_test(writers_refuse),
        cmocka_unit_test(models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
