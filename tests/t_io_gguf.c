/* t_io_gguf.c - GGUF: values, arrays, tensors, split files; every rule of the reader with a file that breaks it. */
#include "test.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "io/gguf.h"
#include "tensor/quant.h"

#include <math.h>
#include <sys/stat.h>

/* ---- a writer of bytes, so that anything can be wrong */

static void text(buf *b, const char *s)
{
    buf_uint(b, strlen(s), 8);
    buf_str(b, s);
}

static void header(buf *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    b->n = 0;
    buf_str(b, "GGUF");
    buf_uint(b, version, 4);
    buf_uint(b, tensors, 8);
    buf_uint(b, keys, 8);
}

static void key(buf *b, const char *name, uint32_t type)
{
    text(b, name);
    buf_uint(b, type, 4);
}

static void key_int(buf *b, const char *name, uint32_t type, uint64_t v, int bytes)
{
    key(b, name, type);
    buf_uint(b, v, bytes);
}

static void tensor(buf *b, const char *name, int rank, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    text(b, name);
    buf_uint(b, (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++) buf_uint(b, dims[i], 8);
    buf_uint(b, type, 4);
    buf_uint(b, offset, 8);
}

static void pad(buf *b, size_t align)
{
    while (b->n % align) buf_byte(b, 0);
}

static int open_bytes(ckpt **c, const buf *b, err *e)
{
    *e = (err){0};
    return ckpt_open_bytes(c, buf_span(b), "test", e);
}

/* A correct file with a value of every type, arrays, and two tensors. */
static void good_file(buf *b)
{
    header(b, 3, 2, 16);
    key(b, "general.architecture", GGUF_STRING), text(b, "llama");
    key_int(b, "u8", GGUF_U8, 255, 1);
    key_int(b, "i8", GGUF_I8, 255, 1);
    key_int(b, "u16", GGUF_U16, 65535, 2);
    key_int(b, "i16", GGUF_I16, 65535, 2);
    key_int(b, "u32", GGUF_U32, UINT32_MAX, 4);
    key_int(b, "i32", GGUF_I32, UINT32_MAX, 4);
    key_int(b, "f32", GGUF_F32, float_bits(1.5f), 4);
    key_int(b, "bool", GGUF_BOOL, 1, 1);
    key_int(b, "u64", GGUF_U64, 1ull << 40, 8);
    key_int(b, "i64", GGUF_I64, UINT64_MAX, 8);
    key_int(b, "f64", GGUF_F64, 0x3fb999999999999aull, 8);
    key(b, "strings", GGUF_ARRAY), buf_uint(b, GGUF_STRING, 4), buf_uint(b, 2, 8), text(b, "a"), text(b, "\xff");
    key(b, "ints", GGUF_ARRAY), buf_uint(b, GGUF_I16, 4), buf_uint(b, 2, 8), buf_uint(b, 0xfffe0007, 4);
    key(b, "scores", GGUF_ARRAY), buf_uint(b, GGUF_F32, 4), buf_uint(b, 1025, 8);
    for (int i = 0; i < 1025; i++) buf_uint(b, float_bits((float)i), 4);
    key_int(b, "general.alignment", GGUF_U32, 64, 4);
    tensor(b, "x", 2, (const uint64_t[]){32, 3}, 8, 0);
    tensor(b, "y", 1, (const uint64_t[]){5}, 0, 128);
    pad(b, 64);
    for (int i = 0; i < 3; i++) {
        buf_uint(b, f32_to_f16(0.5f), 2);
        for (int k = 0; k < 32; k++) buf_byte(b, (uint8_t)(i + k));
    }
    pad(b, 64);
    for (int i = 0; i < 5; i++) buf_uint(b, float_bits((float)i), 4);
}

static void values_and_tensors_are_read(void **state)
{
    (void)state;
    buf b = {0};
    ckpt *c;
    err e;
    good_file(&b);
    assert_ok(open_bytes(&c, &b, &e), &e);
    const json *j = ckpt_config(c);
    assert_string_equal(ckpt_format(c), "gguf");
    assert_string_equal(json_str(json_get(j, "general.architecture"), ""), "llama");
    static const struct {
        const char *key;
        double value;
    } number[] = {{"u8", 255}, {"i8", -1},      {"u16", 65535}, {"i16", -1},  {"u32", 4294967295.},
                  {"i32", -1}, {"u64", 0x1p40}, {"i64", -1},    {"f32", 1.5}, {"f64", 0.1}};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        assert_true(json_num(json_get(j, number[i].key), NAN) == number[i].value);
    assert_true(json_bool(json_get(j, "bool"), false));
    assert_int_equal(json_int(json_at(json_get(j, "ints"), 1), 0), -2);
    assert_string_equal(json_str(json_at(json_get(j, "strings"), 0), ""), "a");
    assert_null(json_get(j, "scores")); /* more than 1024: only as an array */
    ckpt_array a;
    assert_true(ckpt_meta_array(c, "scores", &a));
    assert_int_equal(a.count, 1025);
    assert_int_equal(a.kind, META_FLOAT);
    assert_true(ckpt_array_float(&a, 1024) == 1024 && ckpt_array_float(&a, 1025) == 0);
    assert_true(ckpt_meta_array(c, "ints", &a));
    assert_int_equal(ckpt_array_int(&a, 1), -2);
    assert_true(ckpt_meta_array(c, "strings", &a));
    uint64_t at = 0;
    assert_true(span_is(ckpt_array_string(&a, &at), "a"));
    assert_true(span_is(ckpt_array_string(&a, &at), "\xff"));
    assert_int_equal(ckpt_array_string(&a, &at).n, 0);
    assert_false(ckpt_meta_array(c, "absent", &a));
    const ckpt_entry *x = ckpt_find(c, "x");
    assert_int_equal(x->dims.rank, 2);
    assert_int_equal(x->dims.dim[0], 3);
    assert_int_equal(x->dims.dim[1], 32);
    float v[96];
    quant_decode(x->type, x->data, v, 96);
    assert_true(v[0] == 0 && v[33] == 1 && v[95] == 16.5f);
    quant_decode(DTYPE_F32, ckpt_find(c, "y")->data, v, 5);
    assert_true(v[4] == 4);
    ckpt_close(c);
    buf_free(&b);
}

/* Each truncation is refused; each changed byte gives an answer, whatever it is. */
static void damage_is_survived(void **state)
{
    (void)state;
    buf b = {0};
    ckpt *c;
    err e;
    good_file(&b);
    for (size_t n = b.n; n-- > 0;) {
        uint8_t *exact = mem_alloc(n); /* so that a sanitizer sees the first byte beyond */
        memcpy(exact, b.p, n);
        buf cut = {exact, n, 0, false};
        if (open_bytes(&c, &cut, &e) == OK) fail_msg("accepted when cut to %zu bytes", n);
        mem_free(exact);
    }
    for (size_t i = 0; i < b.n; i++) {
        if (i > 700 && i < b.n - 600) continue; /* the inside of the long array */
        for (int k = 0; k < 3; k++) {
            uint8_t old = b.p[i];
            b.p[i] = (const uint8_t[]){0xff, 0x00, (uint8_t)(old ^ 0x80)}[k];
            if (open_bytes(&c, &b, &e) == OK) ckpt_close(c);
            else assert_true(e.msg[0]);
            b.p[i] = old;
        }
    }
    buf_free(&b);
}

/* One broken file per rule: `build` makes it, the message must hold `says`. */
static void version_1(buf *b) { header(b, 1, 0, 0); }
static void version_4(buf *b) { header(b, 4, 0, 0); }
static void big_endian(buf *b) { header(b, 3u << 24, 0, 0); }
static void many_keys(buf *b) { header(b, 3, 0, UINT64_MAX); }
static void many_tensors(buf *b) { header(b, 3, UINT64_MAX / 2, 0); }
static void fewer_keys_than_said(buf *b) { header(b, 3, 0, 1), buf_uint(b, 0, 8), buf_uint(b, 0, 8); }
static void long_key(buf *b) { header(b, 3, 0, 1), buf_uint(b, UINT64_MAX, 8), buf_uint(b, 0, 8); }
static void empty_key(buf *b) { header(b, 3, 0, 1), key_int(b, "", GGUF_U64, 1, 8); }
static void nul_in_key(buf *b) { header(b, 3, 0, 1), buf_uint(b, 3, 8), buf_add(b, "a\0b", 3), buf_uint(b, 0, 8); }
static void unknown_value(buf *b) { header(b, 3, 0, 1), key_int(b, "k", 13, 1, 8); }
static void bad_bool(buf *b) { header(b, 3, 0, 1), key_int(b, "k", GGUF_BOOL, 2, 1); }
static void nan_value(buf *b) { header(b, 3, 0, 1), key_int(b, "k", GGUF_F32, 0x7fc00000, 4); }
static void bad_text(buf *b) { header(b, 3, 0, 1), key(b, "k", GGUF_STRING), text(b, "\xff"); }
static void long_text(buf *b) { header(b, 3, 0, 1), key(b, "k", GGUF_STRING), buf_uint(b, 1ull << 62, 8); }
static void twice(buf *b) { header(b, 3, 0, 2), key_int(b, "k", GGUF_U8, 1, 1), key_int(b, "k", GGUF_U8, 1, 1); }
static void nested(buf *b)
{
    header(b, 3, 0, 1), key(b, "k", GGUF_ARRAY), buf_uint(b, GGUF_ARRAY, 4), buf_uint(b, 1, 8);
}
static void huge_array(buf *b)
{
    header(b, 3, 0, 1), key(b, "k", GGUF_ARRAY), buf_uint(b, GGUF_U64, 4), buf_uint(b, 1ull << 61, 8);
}
static void huge_strings(buf *b)
{
    header(b, 3, 0, 1), key(b, "k", GGUF_ARRAY), buf_uint(b, GGUF_STRING, 4), buf_uint(b, 1ull << 61, 8);
}
static void align_0(buf *b) { header(b, 3, 0, 1), key_int(b, "general.alignment", GGUF_U32, 0, 4); }
static void align_24(buf *b) { header(b, 3, 0, 1), key_int(b, "general.alignment", GGUF_U32, 24, 4); }
static void align_huge(buf *b) { header(b, 3, 0, 1), key_int(b, "general.alignment", GGUF_U32, 1u << 31, 4); }
static void align_u64(buf *b) { header(b, 3, 0, 1), key_int(b, "general.alignment", GGUF_U64, 32, 8); }

static void one_tensor(buf *b, const char *name, int rank, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    header(b, 3, 1, 0);
    tensor(b, name, rank, dims, type, offset);
    pad(b, 32);
    for (int i = 0; i < 64; i++) buf_byte(b, 0);
}

static void rank_0(buf *b) { one_tensor(b, "t", 0, NULL, 0, 0); }
static void rank_5(buf *b) { one_tensor(b, "t", 5, (const uint64_t[]){1, 1, 1, 1, 1}, 0, 0); }
static void dim_0(buf *b) { one_tensor(b, "t", 2, (const uint64_t[]){0, 1}, 0, 0); }
static void dim_negative(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){UINT64_MAX}, 0, 0); }
static void product_wraps(buf *b) { one_tensor(b, "t", 3, (const uint64_t[]){1ull << 32, 1ull << 32, 4}, 0, 0); }
static void bytes_wrap(buf *b) { one_tensor(b, "t", 2, (const uint64_t[]){1ull << 31, 1ull << 31}, 0, 0); }
static void type_unknown(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){4}, 99, 0); }
static void type_removed(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){4}, 36, 0); }
static void part_of_block(buf *b) { one_tensor(b, "t", 2, (const uint64_t[]){16, 2}, 8, 0); }
static void offset_odd(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){4}, 0, 4); }
static void offset_outside(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){4}, 0, 1 << 20); }
static void offset_wraps(buf *b) { one_tensor(b, "t", 1, (const uint64_t[]){4}, 0, UINT64_MAX - 31); }
static void name_empty(buf *b) { one_tensor(b, "", 1, (const uint64_t[]){4}, 0, 0); }
static void name_not_text(buf *b) { one_tensor(b, "\xc3(", 1, (const uint64_t[]){4}, 0, 0); }
static void names_equal(buf *b)
{
    header(b, 3, 2, 0);
    tensor(b, "t", 1, (const uint64_t[]){4}, 0, 0);
    tensor(b, "t", 1, (const uint64_t[]){4}, 0, 32);
    pad(b, 32);
    for (int i = 0; i < 64; i++) buf_byte(b, 0);
}
static void overlapping(buf *b)
{
    header(b, 3, 2, 0);
    tensor(b, "t", 1, (const uint64_t[]){12}, 0, 0);
    tensor(b, "u", 1, (const uint64_t[]){4}, 0, 32);
    pad(b, 32);
    for (int i = 0; i < 64; i++) buf_byte(b, 0);
}

static void faults_are_refused(void **state)
{
    (void)state;
    static const struct {
        void (*build)(buf *);
        const char *says;
    } bad[] = {{version_1, "version 1"},
               {version_4, "version 4"},
               {big_endian, "big-endian"},
               {many_keys, "more keys"},
               {many_tensors, "more tensors"},
               {fewer_keys_than_said, "empty"},
               {long_key, "too long"},
               {empty_key, "empty"},
               {nul_in_key, "not text"},
               {unknown_value, "unknown type"},
               {bad_bool, "bool"},
               {nan_value, "finite"},
               {bad_text, "UTF-8"},
               {long_text, "too long"},
               {twice, "twice"},
               {nested, "array of arrays"},
               {huge_array, "more elements"},
               {huge_strings, "more elements"},
               {align_0, "alignment"},
               {align_24, "alignment"},
               {align_huge, "alignment"},
               {align_u64, "alignment"},
               {rank_0, "dimensions"},
               {rank_5, "dimensions"},
               {dim_0, "dimension"},
               {dim_negative, "dimension"},
               {product_wraps, "impossible"},
               {bytes_wrap, "impossible"},
               {type_unknown, "type 99"},
               {type_removed, "no longer"},
               {part_of_block, "does not fit"},
               {offset_odd, "multiple"},
               {offset_outside, "outside"},
               {offset_wraps, "multiple"},
               {name_empty, "empty name"},
               {name_not_text, "UTF-8"},
               {names_equal, "twice"},
               {overlapping, "overlap"}};
    buf b = {0};
    ckpt *c;
    err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bad[i].build(&b);
        if (open_bytes(&c, &b, &e) == OK) fail_msg("fault %zu (%s) was accepted", i, bad[i].says);
        if (!strstr(e.msg, bad[i].says)) fail_msg("fault %zu: \"%s\" does not say \"%s\"", i, e.msg, bad[i].says);
    }
    one_tensor(&b, "t", 2, (const uint64_t[]){8, 2}, 0, 0); /* the same maker without a fault */
    assert_ok(open_bytes(&c, &b, &e), &e);
    ckpt_close(c);
    header(&b, 2, 0, 0); /* version 2, no tensors: a vocabulary file may be so */
    assert_ok(open_bytes(&c, &b, &e), &e);
    ckpt_close(c);
    buf_free(&b);
}

/* ---- split files */

static void write_part(const char *dir, const char *name, int no, int count, const char *tensor_name, float value)
{
    buf b = {0};
    header(&b, 3, 1, 4);
    key_int(&b, "split.no", GGUF_U16, (uint64_t)no, 2);
    key_int(&b, "split.count", GGUF_U16, (uint64_t)count, 2);
    key_int(&b, "split.tensors.count", GGUF_I32, 2, 4);
    key_int(&b, "part", GGUF_U8, (uint64_t)no, 1);
    tensor(&b, tensor_name, 1, (const uint64_t[]){1}, 0, 0);
    pad(&b, 32);
    buf_uint(&b, float_bits(value), 4);
    err e = {0};
    char *path = file_join(dir, name);
    file_out *f;
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, b.p, b.n, &e), &e);
    assert_ok(file_commit(f, &e), &e);
    mem_free(path);
    buf_free(&b);
}

static int open_in(ckpt **c, const char *dir, const char *name, err *e)
{
    char *path = file_join(dir, name);
    *e = (err){0};
    int rc = ckpt_open(c, path, e);
    mem_free(path);
    return rc;
}

static void split_files_are_joined(void **state)
{
    (void)state;
    const char *dir = temp_path("split");
    assert_int_equal(mkdir(dir, 0700), 0);
    ckpt *c;
    err e;
    write_part(dir, "m-00001-of-00002.gguf", 0, 2, "a", 1);
    assert_int_equal(open_in(&c, dir, "m-00001-of-00002.gguf", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "m-00002-of-00002.gguf"));
    write_part(dir, "m-00002-of-00002.gguf", 1, 2, "b", 2);
    for (int by_folder = 0; by_folder < 2; by_folder++) {
        assert_ok(by_folder ? ckpt_open(&c, dir, &e) : open_in(&c, dir, "m-00001-of-00002.gguf", &e), &e);
        assert_int_equal(ckpt_count(c), 2);
        assert_int_equal(json_int(json_get(ckpt_config(c), "part"), -1), 0);
        float v;
        quant_decode(DTYPE_F32, ckpt_find(c, "b")->data, &v, 1);
        assert_true(v == 2);
        ckpt_close(c);
    }
    assert_int_equal(open_in(&c, dir, "m-00002-of-00002.gguf", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "first part"));
    write_part(dir, "m-00002-of-00002.gguf", 1, 2, "a", 2);
    assert_int_equal(open_in(&c, dir, "m-00001-of-00002.gguf", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "twice"));
    write_part(dir, "m-00002-of-00002.gguf", 0, 2, "b", 2);
    assert_int_equal(open_in(&c, dir, "m-00001-of-00002.gguf", &e), ERR_FORMAT);
    write_part(dir, "other.gguf", 0, 2, "b", 2);
    assert_int_equal(open_in(&c, dir, "other.gguf", &e), ERR_FORMAT);
    static const char *const made[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "other.gguf"};
    for (int i = 0; i < 3; i++) {
        char *path = file_join(dir, made[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
}

static void real_file_is_listed(void **state)
{
    (void)state;
    const char *path = shared_path("models/llama-2-tiny-random/llama-2-tiny-random.gguf");
    if (!path) {
        skip_msg("llama-2-tiny-random.gguf is not there");
        return;
    }
    ckpt *c;
    err e = {0};
    assert_ok(ckpt_open(&c, path, &e), &e);
    assert_int_equal(ckpt_count(c), 12);
    const ckpt_entry *t = ckpt_find(c, "token_embd.weight");
    assert_int_equal(t->type, DTYPE_F16);
    assert_int_equal(t->dims.dim[0], 32000);
    assert_int_equal(json_int(json_get(ckpt_config(c), "llama.embedding_length"), 0), 8);
    ckpt_array a;
    assert_true(ckpt_meta_array(c, "tokenizer.ggml.tokens", &a));
    assert_int_equal(a.count, 32000);
    uint64_t at = 0;
    for (int i = 0; i < 32000; i++) ckpt_array_string(&a, &at);
    assert_int_equal(at, a.bytes);
    ckpt_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_tensors_are_read), cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(faults_are_refused),          cmocka_unit_test(split_files_are_joined),
        cmocka_unit_test(real_file_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
