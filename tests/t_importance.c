/* t_importance.c - importance of columns (io/importance.h): llama.cpp's two forms, what is refused, and the way from a text to better codes. */
#include "test.h"

#include "base/buf.h"
#include "engine/importance_collect.h"
#include "io/ckpt.h"
#include "io/importance.h"
#include "io/write.h"

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

static int open_buf(importance **m, const buf *b, err *e)
{
    *e = (err){0};
    return importance_open_bytes(m, buf_span(b), "test", e);
}

static void the_older_form_is_read(void **state)
{
    (void)state;
    buf b = {0};
    put_int(&b, 2);
    put_entry(&b, "blk.3.attn_q.weight", 4, 3, (const float[]){4, 8, 0});
    put_entry(&b, "output.weight", 1, 2, (const float[]){1, 2});
    put_int(&b, 17); /* chunk, name of the text */
    put_int(&b, 0);
    importance *m;
    err e;
    assert_ok(open_buf(&m, &b, &e), &e);
    assert_int_equal(importance_count(m), 2);
    const float *v = importance_find(m, "dec.3.attn.q", 3);
    assert_true(v && v[0] == 1 && v[1] == 2 && v[2] == 0);
    v = importance_find(m, "dec.head", 2);
    assert_true(v && v[1] == 2);
    assert_null(importance_find(m, "dec.3.attn.q", 4));
    assert_null(importance_find(m, "dec.2.attn.q", 3));
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

static void bad_numbers_are_refused(void **state)
{
    (void)state;
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

static void what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = temp_path("importance.gguf");
    const importance_sums s[] = {{"dec.0.ffn.down", (const double[]){2, 4, 6}, 3, 2},
                                 {"odd.name", (const double[]){5}, 1, 5}};
    err e = {0};
    importance *m;
    assert_ok(importance_write(path, s, 2, &e), &e);
    assert_ok(importance_open(&m, path, &e), &e);
    const float *v = importance_find(m, "dec.0.ffn.down", 3);
    assert_true(v && v[0] == 1 && v[1] == 2 && v[2] == 3);
    v = importance_find(m, "odd.name", 1);
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

/* Sums of the built-in model: of the token's vector after its norm, which all of q, k and v take in, and of the head. */
static void a_text_gives_sums(void **state)
{
    (void)state;
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
    const float *q = importance_find(m, "dec.0.attn.q", 256), *v = importance_find(m, "dec.0.attn.v", 256);
    const float *head = importance_find(m, "dec.head", 256), *down = importance_find(m, "dec.5.ffn.down", 704);
    assert_true(q && v && down);
    assert_memory_equal(q, v, 256 * sizeof *q);
    double sum = 0;
    for (int i = 0; i < 256; i++) sum += q[i];
    assert_true(sum > 0 && (!head || head[0] >= 0));
    importance_close(m);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_older_form_is_read),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_text_gives_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
