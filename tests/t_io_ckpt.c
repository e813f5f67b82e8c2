/* t_io_ckpt.c - opening checkpoints: llama2.c and safetensors, single and sharded, and what is refused. */
#include "test.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "io/ckpt_build.h"
#include "io/format_list.h"
#include "models/spec/expr.h"
#include "tensor/quant.h"

#include <math.h>
#include <sys/stat.h>

#define X(name) extern const ckpt_reader format_##name;
FORMAT_LIST(X)
#undef X

/* ---- building little files */

static void add_u32(buf *b, uint32_t v) { buf_uint(b, v, 4); }

static void add_floats(buf *b, int n, float first)
{
    for (int i = 0; i < n; i++) add_u32(b, float_bits(first + (float)i));
}

enum { DIM = 4, HIDDEN = 6, LAYERS = 2, HEADS = 2, KV = 1, VOCAB = 5, SEQ = 3 };

static void llama2c_v0(buf *b, bool shared)
{
    const int32_t header[] = {DIM, HIDDEN, LAYERS, HEADS, KV, shared ? VOCAB : -VOCAB, SEQ};
    for (int i = 0; i < 7; i++) add_u32(b, (uint32_t)header[i]);
    add_floats(b, VOCAB * DIM, 100);
    add_floats(b, LAYERS * DIM, 200);
    add_floats(b, LAYERS * DIM * DIM, 300);
    add_floats(b, LAYERS * DIM / 2 * DIM, 400);
    add_floats(b, LAYERS * DIM / 2 * DIM, 500);
    add_floats(b, LAYERS * DIM * DIM, 600);
    add_floats(b, LAYERS * DIM, 700);
    for (int k = 0; k < 3; k++) add_floats(b, LAYERS * HIDDEN * DIM, 800 + 100.f * (float)k);
    add_floats(b, DIM, 1100);
    add_floats(b, SEQ * DIM / HEADS, 0);
    if (!shared) add_floats(b, VOCAB * DIM, 1200);
}

static int open_bytes(ckpt **c, const buf *b, err *e)
{
    *e = (err){0};
    return ckpt_open_bytes(c, buf_span(b), "test", e);
}

static float first_of(const ckpt *c, const char *name)
{
    const ckpt_entry *t = ckpt_find(c, name);
    float v[512];
    uint64_t n;
    if (!t || !shape_count(&t->dims, &n) || n > 512) return NAN;
    quant_decode(t->type, t->data, v, n);
    return v[0];
}

static void llama2c_v0_is_listed(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        buf b = {0};
        llama2c_v0(&b, shared);
        ckpt *c;
        err e;
        assert_ok(open_bytes(&c, &b, &e), &e);
        assert_string_equal(ckpt_format(c), "llama2c");
        assert_int_equal(ckpt_count(c), 2 + LAYERS * 9 + !shared);
        assert_true(first_of(c, "token_embedding_table") == 100);
        assert_true(first_of(c, "layers.1.rms_att_weight") == 204);
        assert_true(first_of(c, "layers.1.wq") == 316);
        assert_true(first_of(c, "layers.1.wk") == 408);
        assert_true(first_of(c, "layers.0.w2") == 900);
        assert_true(first_of(c, "layers.1.w3") == 1024);
        assert_true(first_of(c, "rms_final_weight") == 1100);
        if (!shared) assert_true(first_of(c, "wcls") == 1200);
        const ckpt_entry *w2 = ckpt_find(c, "layers.0.w2");
        assert_int_equal(w2->dims.dim[0], DIM);
        assert_int_equal(w2->dims.dim[1], HIDDEN);
        assert_int_equal(json_int(json_get(ckpt_config(c), "n_kv_heads"), 0), KV);
        assert_true(json_bool(json_get(ckpt_config(c), "shared_classifier"), !shared) == shared);
        assert_true(ckpt_entry_mapped(c, w2));
        ckpt_close(c);
        b.n -= 1; /* one byte short: no other format takes it, and none crashes */
        assert_int_equal(open_bytes(&c, &b, &e), ERR_FORMAT);
        assert_null(c);
        buf_free(&b);
    }
}

/* Version 2: group 32 in rows of 64 becomes q8_f32; values are int8 * scale, exactly. */
static void llama2c_v2_keeps_values(void **state)
{
    (void)state;
    for (int group = 32; group >= 16; group -= 16) {
        buf b = {0};
        const uint32_t header[] = {0x616b3432, 2, 64, 64, 1, 2, 2, 3, 8};
        for (int i = 0; i < 9; i++) add_u32(&b, header[i]);
        buf_byte(&b, 1);
        add_u32(&b, (uint32_t)group);
        while (b.n < 256) buf_byte(&b, 0);
        add_floats(&b, 3 * 64, 1);
        const int rows[] = {3, 64, 64, 64, 64, 64, 64, 64};
        for (int k = 0; k < 8; k++) {
            for (int i = 0; i < rows[k] * 64; i++) buf_byte(&b, (uint8_t)(i * 7 + k));
            for (int i = 0; i < rows[k] * 64 / group; i++) add_u32(&b, float_bits(0.01f * (float)(i + 1)));
        }
        ckpt *c;
        err e;
        assert_ok(open_bytes(&c, &b, &e), &e);
        const ckpt_entry *t = ckpt_find(c, "layers.0.w2");
        assert_int_equal(t->type, group == 32 ? DTYPE_Q8_F32 : DTYPE_F32);
        assert_false(ckpt_entry_mapped(c, t));
        float v[64 * 64];
        quant_decode(t->type, t->data, v, 64 * 64);
        for (int i = 0; i < 64 * 64; i++) {
            float want = (float)(int8_t)(uint8_t)(i * 7 + 6) * (0.01f * (float)(i / group + 1));
            assert_true(v[i] == want);
        }
        ckpt_close(c);
        buf_free(&b);
    }
}

static void safetensors_bytes(buf *b, const char *header, const void *data, size_t n)
{
    b->n = 0;
    buf_uint(b, strlen(header), 8);
    buf_str(b, header);
    buf_add(b, data, n);
}

static void safetensors_is_listed(void **state)
{
    (void)state;
    buf b = {0};
    static const char data[24] = {1, 0, 2, 0, 3, 0, 4, 0};
    safetensors_bytes(
        &b,
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[16,16]},"
        "\"c\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]}}  ",
        data, sizeof data);
    ckpt *c;
    err e;
    assert_ok(open_bytes(&c, &b, &e), &e);
    assert_int_equal(ckpt_count(c), 4);
    float v[4];
    const ckpt_entry *t = ckpt_find(c, "a");
    quant_decode(t->type, t->data, v, 4);
    assert_true(v[0] == 1 && v[3] == 4);
    assert_int_equal(ckpt_find(c, "b")->dims.rank, 0);
    assert_null(ckpt_find(c, "__metadata__"));
    assert_string_equal(json_str(json_get(ckpt_metadata(c), "format"), ""), "pt");
    assert_null(ckpt_config(c));
    ckpt_close(c);
    buf_free(&b);
}

static void safetensors_faults_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *says;
    } bad[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[8,16]}}",
         "twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[3],"
         "\"data_offsets\":[4,16]}}",
         "20 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[8,12]}}",
         "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}", "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "12 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,16]}}", "needs 20"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,16]}}", "dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,16]}}", "impossible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "dimensions"},
        {"{\"a\":{\"dtype\":\"C64\",\"shape\":[2],\"data_offsets\":[0,16]}}", "C64"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,9007199254740993]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "missing"},
        {"{\"a\":[1]}", "missing"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "empty name"},
        {"{\"__metadata__\":{\"a\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
         "__metadata__"},
        {"{}", "tensors"},
        {"{\"a\":", "JSON"},
    };
    static const char data[16];
    buf b = {0};
    ckpt *c;
    err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        safetensors_bytes(&b, bad[i].header, data, sizeof data);
        if (open_bytes(&c, &b, &e) == OK) fail_msg("accepted: %s", bad[i].header);
        if (!strstr(e.msg, bad[i].says)) fail_msg("%s: message is \"%s\"", bad[i].header, e.msg);
    }
    const char *good = "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}";
    safetensors_bytes(&b, good, data, sizeof data);
    for (size_t n = b.n; n-- > 0;) { /* every truncation is refused */
        buf cut = {b.p, n, 0, false};
        assert_int_not_equal(open_bytes(&c, &cut, &e), OK);
    }
    buf_uint(&b, 0, 1); /* and a byte too many */
    assert_int_equal(open_bytes(&c, &b, &e), ERR_FORMAT);
    b.n = 0;
    buf_uint(&b, UINT64_MAX, 8);
    buf_str(&b, "{}");
    assert_int_equal(open_bytes(&c, &b, &e), ERR_FORMAT);
    buf_free(&b);
}

/* ---- folders */

static void write_file(const char *dir, const char *name, const void *p, size_t n)
{
    err e = {0};
    char *path = file_join(dir, name);
    file_out *f;
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, p, n, &e), &e);
    assert_ok(file_commit(f, &e), &e);
    mem_free(path);
}

static void remove_file(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    unlink(path);
    mem_free(path);
}

static void write_shard(const char *dir, const char *file, const char *first, const char *second, float value)
{
    char header[300];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
             "\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
             first, second);
    buf b = {0};
    float data[2] = {value, value + 1};
    safetensors_bytes(&b, header, data, sizeof data);
    write_file(dir, file, b.p, b.n);
    buf_free(&b);
}

/* Downloads that did not end: which shard is missing, and what of it was begun. */
static void missing_shards_are_named(void **state)
{
    (void)state;
    const char *dir = temp_path("part");
    ckpt *c;
    err e = {0};
    assert_int_equal(mkdir(dir, 0700), 0);
    write_shard(dir, "model-00001-of-00002.safetensors", "a", "b", 1);
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "shard 2 of 2 is missing: model-00002-of-00002.safetensors"));
    write_file(dir, "model-00002-of-00002.safetensors.incomplete", "x", 1);
    e = (err){0};
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "its download did not end: "));
    const char *index = "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":"
                        "\"model-00002-of-00002.safetensors\"}}";
    write_file(dir, "model.safetensors.index.json", index, strlen(index));
    e = (err){0};
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "shard 2 of 2 is missing: model-00002-of-00002.safetensors"));
    remove_file(dir, "model.safetensors.index.json");
    remove_file(dir, "model-00001-of-00002.safetensors");
    e = (err){0};
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "no weights here; their download did not end: "));
    assert_non_null(strstr(e.msg, "safetensors.incomplete"));
    remove_file(dir, "model-00002-of-00002.safetensors.incomplete");
    rmdir(dir);
}

static void shards_are_joined_by_their_index(void **state)
{
    (void)state;
    const char *dir = temp_path("shards");
    assert_int_equal(mkdir(dir, 0700), 0);
    write_shard(dir, "m-1-of-2.safetensors", "a", "both", 1);
    write_shard(dir, "m-2-of-2.safetensors", "b", "both", 3);
    ckpt *c;
    err e = {0};
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_FORMAT); /* without an index "both" is there twice */
    assert_non_null(strstr(e.msg, "twice"));
    const char *index = "{\"weight_map\":{\"a\":\"m-1-of-2.safetensors\",\"b\":\"m-2-of-2.safetensors\",\"both\":\"m-2-"
                        "of-2.safetensors\"}}";
    write_file(dir, "model.safetensors.index.json", index, strlen(index));
    write_file(dir, "config.json", "{\"hidden_size\":7}", 17);
    write_file(dir, "broken.json", "{", 1);
    e = (err){0};
    assert_ok(ckpt_open(&c, dir, &e), &e);
    assert_int_equal(ckpt_count(c), 3);
    assert_true(first_of(c, "both") == 4);
    assert_int_equal(json_int(json_get(ckpt_config(c), "hidden_size"), 0), 7);
    assert_string_equal(ckpt_dir(c), dir);
    assert_null(ckpt_side_json(c, "absent.json", &e));
    assert_int_equal(e.code, OK);
    assert_null(ckpt_side_json(c, "broken.json", &e));
    assert_int_equal(e.code, ERR_FORMAT);
    assert_ptr_equal(ckpt_side_json(c, "config.json", NULL), ckpt_side_json(c, "config.json", NULL));
    assert_ok(ckpt_check_torn(c, &e), &(err){0});
    ckpt_close(c);
    char *one = file_join(dir, "m-1-of-2.safetensors"); /* a shard stands for its model */
    e = (err){0};
    assert_ok(ckpt_open(&c, one, &e), &e);
    assert_int_equal(ckpt_count(c), 3);
    ckpt_close(c);
    mem_free(one);
    static const char *const bad[] = {"{\"weight_map\":{\"a\":\"../m-1-of-2.safetensors\"}}",
                                      "{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
                                      "{\"weight_map\":{\"a\":\"m-3.safetensors\"}}",
                                      "{\"weight_map\":{\"absent\":\"m-1-of-2.safetensors\"}}",
                                      "{\"weight_map\":{\"a\":7}}",
                                      "{\"weight_map\":{}}",
                                      "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(dir, "model.safetensors.index.json", bad[i], strlen(bad[i]));
        e = (err){0};
        if (ckpt_open(&c, dir, &e) == OK) fail_msg("accepted: %s", bad[i]);
        assert_true(e.msg[0]);
    }
    static const char *const made[] = {"m-1-of-2.safetensors", "m-2-of-2.safetensors", "config.json", "broken.json",
                                       "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) remove_file(dir, made[i]);
    e = (err){0};
    assert_int_equal(ckpt_open(&c, dir, &e), ERR_NOT_FOUND);
    rmdir(dir);
}

/* A file that loses its end after it was opened: reading goes on, and the check says so. */
static void shrinking_file_is_noticed(void **state)
{
    (void)state;
    const char *path = temp_path("torn.safetensors");
    enum { FLOATS = 8192 };
    char header[100];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", FLOATS,
             FLOATS * 4);
    buf b = {0};
    static float data[FLOATS];
    for (int i = 0; i < FLOATS; i++) data[i] = 1;
    safetensors_bytes(&b, header, data, sizeof data);
    FILE *f = fopen(path, "w");
    fwrite(b.p, 1, b.n, f);
    fclose(f);
    ckpt *c;
    err e = {0};
    assert_ok(ckpt_open(&c, path, &e), &e);
    assert_ok(ckpt_check_torn(c, &e), &e);
    assert_int_equal(truncate(path, 4096), 0);
    const ckpt_entry *t = ckpt_find(c, "a");
    quant_decode(t->type, t->data, data, FLOATS);
    assert_true(data[0] == 1 && data[FLOATS - 1] == 0);
    assert_int_equal(ckpt_check_torn(c, &e), ERR_UNAVAILABLE);
    assert_non_null(strstr(e.msg, "shorter"));
    ckpt_close(c);
    unlink(path);
    buf_free(&b);
}

/* ---- real files */

static void stories_in_three_versions_agree(void **state)
{
    (void)state;
    const char *v0 = shared_path("models/stories260K/stories260K.bin");
    const char *v1 = shared_path("models/stories260K/stories260K-v1.bin");
    const char *v2 = shared_path("models/stories260K/stories260K-q8.bin");
    if (!v0 || !v1 || !v2) {
        skip_msg("stories260K is not there");
        return;
    }
    ckpt *a, *b, *q;
    err e = {0};
    assert_ok(ckpt_open(&a, v0, &e), &e);
    assert_ok(ckpt_open(&b, v1, &e), &e);
    assert_ok(ckpt_open(&q, v2, &e), &e);
    assert_int_equal(ckpt_count(a), 47);
    assert_int_equal(ckpt_count(b), 47);
    assert_int_equal(ckpt_count(q), 47);
    for (uint32_t i = 0; i < ckpt_count(a); i++) {
        const ckpt_entry *x = ckpt_at(a, i), *y = ckpt_find(b, x->name), *z = ckpt_find(q, x->name);
        assert_non_null(y);
        assert_non_null(z);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
        uint64_t n;
        shape_count(&x->dims, &n);
        float *fx = mem_array(n, 4), *fz = mem_array(n, 4), worst = 0;
        quant_decode(x->type, x->data, fx, n);
        quant_decode(z->type, z->data, fz, n);
        for (uint64_t k = 0; k < n; k++) worst = fmaxf(worst, fabsf(fx[k] - fz[k]));
        assert_true(worst < 0.02f);
        mem_free(fx);
        mem_free(fz);
    }
    ckpt_close(a);
    ckpt_close(b);
    ckpt_close(q);
}

/* No format takes foreign bytes for a model, and each names a source that the spec language knows. */
static void every_format_keeps_the_rules(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const ckpt_reader *r;
    } all[] = {
#define X(name) {#name, &format_##name},
        FORMAT_LIST(X)
#undef X
    };
    const size_t n = sizeof all / sizeof *all;
    uint8_t junk[512];
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        const ckpt_reader *r = all[i].r;
        assert_string_equal(r->name, all[i].name);
        assert_true(r->probe && r->list && r->probe(span_of(junk, 0)) == 0);
        if (r->source) {
            assert_true(expr_is_source(r->source, strlen(r->source)) && ckpt_is_source(span_str(r->source)));
            assert_true(r->arch || r->arch_key);
        }
    }
    assert_false(ckpt_is_source(span_str("generation")) || expr_is_source("layers", 6));
    for (int round = 0; round < 2000; round++) {
        size_t size = (size_t)round % sizeof junk;
        for (size_t k = 0; k < size; k++)
            junk[k] = round % 3 ? (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24) : 0;
        ckpt *c;
        err e = {0};
        for (size_t i = 0; i < n; i++) {
            int sure = all[i].r->probe(span_of(junk, size));
            if (sure < 0 || sure > 50) fail_msg("%s takes garbage (round %d): %d", all[i].name, round, sure);
        }
        assert_int_not_equal(ckpt_open_bytes(&c, span_of(junk, size), "junk", &e), OK);
        assert_non_null(strstr(e.msg, "junk"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinking_file_is_noticed), /* first: cmocka puts its own handlers in front of ours */
        cmocka_unit_test(llama2c_v0_is_listed),
        cmocka_unit_test(llama2c_v2_keeps_values),
        cmocka_unit_test(safetensors_is_listed),
        cmocka_unit_test(safetensors_faults_are_refused),
        cmocka_unit_test(missing_shards_are_named),
        cmocka_unit_test(shards_are_joined_by_their_index),
        cmocka_unit_test(stories_in_three_versions_agree),
        cmocka_unit_test(every_format_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
