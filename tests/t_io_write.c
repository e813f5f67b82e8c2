/* t_io_write.c - readers read what writers wrote: types, shapes, values, metadata; a failure leaves nothing behind. */
#include "test.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "io/gguf.h"
#include "io/write_gguf.h"
#include "io/write_safetensors.h"
#include "tensor/quant.h"

enum { ROWS = 3, COLS = 64 };

static float value_at(uint64_t row, uint64_t col) { return (float)((int)(row * 31 + col * 7) % 17 - 8) / 8; }

static int give_row(void *self, uint64_t n, float *to, err *e)
{
    (void)e;
    *(uint64_t *)self += 1;
    for (uint64_t i = 0; i < COLS; i++) to[i] = value_at(n, i);
    return OK;
}

static int fail_row(void *self, uint64_t n, float *to, err *e)
{
    (void)self;
    (void)to;
    return n == 2 ? err_set(e, ERR_IO, "row 2 is not there") : OK;
}

static int open_file(ckpt **c, const char *path, err *e)
{
    *e = (err){0};
    return ckpt_open(c, path, e);
}

static void check_values(const ckpt *c, const char *name, dtype type, float tolerance)
{
    const ckpt_entry *t = ckpt_find(c, name);
    assert_non_null(t);
    assert_int_equal(t->type, type);
    assert_int_equal(t->dims.rank, 2);
    assert_int_equal(t->dims.dim[0], ROWS);
    assert_int_equal(t->dims.dim[1], COLS);
    float v[ROWS * COLS];
    quant_decode(t->type, t->data, v, ROWS * COLS);
    for (uint64_t i = 0; i < ROWS * COLS; i++) {
        float off = v[i] - value_at(i / COLS, i % COLS);
        if (off > tolerance || off < -tolerance) fail_msg("%s: element %d is off by %g", name, (int)i, (double)off);
    }
}

static void safetensors_come_back(void **state)
{
    (void)state;
    const char *path = temp_path("w.safetensors");
    uint64_t calls = 0;
    const float raw[2] = {1.5f, -2};
    const write_tensor t[] = {{"b.bf16", DTYPE_BF16, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls},
                              {"a.f16", DTYPE_F16, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls},
                              {"z.f32", DTYPE_F32, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls},
                              {"raw", DTYPE_F32, {1, {2}}, raw, NULL, NULL, NULL},
                              {"empty", DTYPE_F32, {2, {0, 3}}, NULL, NULL, NULL, NULL}};
    json *meta = json_new_object();
    json_add_str(meta, "format", "pt");
    err e = {0};
    ckpt *c;
    assert_ok(write_safetensors(path, t, 5, meta, &e), &e);
    assert_int_equal(calls, 3 * ROWS);
    assert_ok(open_file(&c, path, &e), &e);
    assert_int_equal(ckpt_count(c), 5);
    check_values(c, "z.f32", DTYPE_F32, 0);
    check_values(c, "a.f16", DTYPE_F16, 0);
    check_values(c, "b.bf16", DTYPE_BF16, 0);
    assert_memory_equal(ckpt_find(c, "raw")->data, raw, sizeof raw);
    assert_string_equal(json_str(json_get(ckpt_metadata(c), "format"), ""), "pt");
    for (uint32_t i = 0; i < ckpt_count(c); i++) /* data begins at 64, wide types first: every tensor lies aligned */
        assert_int_equal((uintptr_t)ckpt_at(c, i)->data % dtype_info[ckpt_at(c, i)->type].bytes, 0);
    ckpt_close(c);
    unlink(path);
    json_free(meta);
    const write_tensor block = {"q", DTYPE_Q8_0, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls};
    assert_int_equal(write_safetensors(path, &block, 1, NULL, &e), ERR_USAGE);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void gguf_comes_back(void **state)
{
    (void)state;
    const char *path = temp_path("w.gguf");
    uint64_t calls = 0;
    static const struct {
        dtype type;
        float tolerance;
    } kind[] = {{DTYPE_F32, 0},      {DTYPE_F16, 0},      {DTYPE_BF16, 0},     {DTYPE_Q8_0, 0.01f}, {DTYPE_Q5_0, 0.07f},
                {DTYPE_Q5_1, 0.04f}, {DTYPE_Q4_0, 0.13f}, {DTYPE_Q4_1, 0.14f}, {DTYPE_MXFP4, 0.3f}};
    enum { KINDS = sizeof kind / sizeof *kind };
    write_tensor t[KINDS];
    char name[KINDS][8];
    for (int i = 0; i < KINDS; i++) {
        snprintf(name[i], sizeof name[i], "%s", dtype_info[kind[i].type].name);
        t[i] = (write_tensor){name[i], kind[i].type, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls};
    }
    gguf_pairs p = {0};
    buf words = {0};
    gguf_add_uint(&p, "x.count", GGUF_U32, 7);
    gguf_add_uint(&p, "x.minus", GGUF_I16, (uint64_t)-2);
    gguf_add_uint(&p, "x.yes", GGUF_BOOL, 1);
    gguf_add_float(&p, "x.eps", 1e-5f);
    for (int i = 0; i < 2; i++) buf_uint(&words, 1, 8), buf_byte(&words, (uint8_t)('a' + i));
    gguf_add_array(&p, "x.words", GGUF_STRING, 2, buf_span(&words));
    gguf_add_text(&p, "general.architecture", "llama");
    err e = {0};
    ckpt *c;
    assert_ok(write_gguf(path, &p, t, KINDS, 0, &e), &e);
    assert_ok(open_file(&c, path, &e), &e);
    for (int i = 0; i < KINDS; i++) check_values(c, name[i], kind[i].type, kind[i].tolerance);
    const json *j = ckpt_config(c);
    assert_string_equal(json_key(json_first(j)), "general.architecture");
    assert_int_equal(json_int(json_get(j, "x.count"), 0), 7);
    assert_int_equal(json_int(json_get(j, "x.minus"), 0), -2);
    assert_true(json_bool(json_get(j, "x.yes"), false));
    assert_true((float)json_num(json_get(j, "x.eps"), 0) == 1e-5f);
    assert_string_equal(json_str(json_at(json_get(j, "x.words"), 1), ""), "b");
    const char *key;
    ckpt_array a;
    bool scalar;
    assert_true(ckpt_meta_at(c, 5, &key, &a, &scalar) && !scalar && strcmp(key, "x.words") == 0);
    assert_true(ckpt_meta_at(c, 2, &key, &a, &scalar) && scalar && ckpt_array_int(&a, 0) == -2 && a.type == GGUF_I16);
    assert_false(ckpt_meta_at(c, 6, &key, &a, &scalar));
    ckpt_close(c);
    unlink(path);
    const write_tensor bad[] = {{"r", DTYPE_F32, {5, {1, 1, 1, 1, 1}}, NULL, give_row, NULL, NULL},
                                {"w", DTYPE_U8, {1, {4}}, "abcd", NULL, NULL, NULL},
                                {"q", DTYPE_Q8_0, {2, {2, 16}}, NULL, give_row, NULL, NULL},
                                {"k", DTYPE_Q8_K, {1, {256}}, NULL, give_row, NULL, NULL}};
    for (int i = 0; i < 4; i++) {
        e = (err){0};
        assert_int_not_equal(write_gguf(path, &p, &bad[i], 1, 0, &e), OK);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    gguf_pairs_free(&p);
    buf_free(&words);
}

/* A failure half-way leaves the old file as it was. */
static void failure_keeps_the_old_file(void **state)
{
    (void)state;
    const char *path = temp_path("keep.gguf");
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    const write_tensor t = {"w", DTYPE_F32, {2, {ROWS, COLS}}, NULL, fail_row, NULL, NULL};
    gguf_pairs none = {0};
    err e = {0};
    assert_int_equal(write_gguf(path, &none, &t, 1, 0, &e), ERR_IO);
    assert_string_equal(e.msg, "row 2 is not there");
    e = (err){0};
    assert_int_equal(write_safetensors(path, &t, 1, NULL, &e), ERR_IO);
    for (long n = 1;; n++) {
        e = (err){0};
        uint64_t calls = 0;
        const write_tensor good = {"w", DTYPE_F16, {2, {ROWS, COLS}}, NULL, give_row, NULL, &calls};
        gguf_pairs p = {0};
        mem_fail_at(n);
        gguf_add_text(&p, "general.architecture", "llama");
        int rc = write_gguf(path, &p, &good, 1, 0, &e);
        bool fired = mem_fail_at(0);
        gguf_pairs_free(&p);
        if (!fired) {
            assert_ok(rc, &e);
            break;
        }
        assert_int_equal(rc, ERR_MEMORY);
        buf b = {0};
        assert_ok(file_read(&b, path, 100, &e), &(err){0});
        assert_string_equal(buf_cstr(&b), "old");
        buf_free(&b);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(safetensors_come_back), cmocka_unit_test(gguf_comes_back),
                                       cmocka_unit_test(failure_keeps_the_old_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
