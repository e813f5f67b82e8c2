/* t_io_pickle.c - files of torch.save: good ones by value, hostile ones (tests/vectors/pickles.py), damage, zip64. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "io/pickle_torch.h"
#include "io/zip.h"
#include "tensor/quant.h"

static const char corpus[] = "tests/vectors/pickles";

static void hostile_corpus_is_refused(void **state)
{
    (void)state;
    char line[300], path[200];
    int n = 0;
    snprintf(path, sizeof path, "%s/EXPECT", corpus);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s: run from the root of the project", path);
    unlink("RAN");
    while (fgets(line, sizeof line, f)) {
        char *says = strchr(line, '\t');
        assert_non_null(says);
        *says++ = 0;
        says[strcspn(says, "\n")] = 0;
        snprintf(path, sizeof path, "%s/%.150s", corpus, line);
        ckpt *c;
        err e = {0};
        int rc = ckpt_open(&c, path, &e);
        if (strcmp(says, "ok") == 0) {
            if (rc) fail_msg("%s: %s", line, e.msg);
            ckpt_close(c);
        } else if (rc == OK || !strstr(e.msg, says)) {
            fail_msg("%s: \"%s\" does not say \"%s\"", line, rc ? e.msg : "accepted", says);
        } else {
            assert_true(rc == ERR_FORMAT || rc == ERR_LIMIT);
        }
        n++;
    }
    fclose(f);
    assert_true(n > 150);
    assert_int_not_equal(access("RAN", F_OK), 0);
}

static void tensors_have_their_values(void **state)
{
    (void)state;
    for (int proto = 2; proto <= 5; proto++)
        for (int zipped = 0; zipped < 2; zipped++) {
            char path[200];
            snprintf(path, sizeof path, "%s/good-torch-%s-%d.pt", corpus, zipped ? "zip" : "legacy", proto);
            ckpt *c;
            err e = {0};
            assert_ok(ckpt_open(&c, path, &e), &e);
            assert_string_equal(ckpt_format(c), "pickle");
            assert_int_equal(ckpt_count(c), 5);
            const ckpt_entry *w = ckpt_find(c, "w"), *t = ckpt_find(c, "t"), *row = ckpt_find(c, "row"),
                             *h = ckpt_find(c, "h");
            float v[6];
            quant_decode(w->type, w->data, v, 6);
            for (int i = 0; i < 6; i++) assert_true(v[i] == (float)i);
            assert_int_equal(t->dims.dim[0], 3);
            assert_false(ckpt_entry_mapped(c, t)); /* transposed */
            quant_decode(t->type, t->data, v, 6);
            for (int i = 0; i < 6; i++) assert_true(v[i] == (float)(i / 2 + i % 2 * 3));
            assert_ptr_equal(row->data, w->data + 12); /* a view shares its storage */
            assert_int_equal(h->type, DTYPE_F16);
            assert_ptr_equal(ckpt_find(c, "p")->data, w->data);
            ckpt_close(c);
        }
}

static void wrappers_come_off(void **state)
{
    (void)state;
    const char *path = shared_path("models/stories260K/stories260K.pt"),
               *v0 = shared_path("models/stories260K/stories260K.bin");
    if (!path || !v0) {
        skip_msg("stories260K.pt is not there");
        return;
    }
    ckpt *c, *b;
    err e = {0};
    assert_ok(ckpt_open(&c, path, &e), &e);
    assert_ok(ckpt_open(&b, v0, &e), &e);
    assert_int_equal(json_int(json_path(ckpt_config(c), "model_args.dim"), 0), 64);
    const ckpt_entry *x = ckpt_find(c, "layers.3.feed_forward.w2.weight"), *y = ckpt_find(b, "layers.3.w2");
    assert_non_null(x);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
    ckpt_close(c);
    ckpt_close(b);
}

static void damage_is_survived(void **state)
{
    (void)state;
    static const char *const names[] = {"good-torch-zip-2.pt", "good-torch-legacy-4.pt"};
    for (int k = 0; k < 2; k++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", corpus, names[k]);
        buf b = {0};
        err e = {0};
        ckpt *c;
        assert_ok(file_read(&b, path, 1 << 20, &e), &e);
        for (size_t n = b.n; n-- > 0;) {
            uint8_t *exact = mem_alloc(n);
            memcpy(exact, b.p, n);
            e = (err){0};
            if (ckpt_open_bytes(&c, span_of(exact, n), "cut", &e) == OK)
                fail_msg("%s: accepted when cut to %zu bytes", path, n);
            mem_free(exact);
        }
        for (size_t i = 0; i < b.n; i++) {
            uint8_t old = b.p[i];
            for (int turn = 0; turn < 3; turn++) {
                b.p[i] = (const uint8_t[]){0xff, 0x00, (uint8_t)(old ^ 1)}[turn];
                e = (err){0};
                if (ckpt_open_bytes(&c, buf_span(&b), "changed", &e) == OK) ckpt_close(c);
                else assert_true(e.msg[0]);
            }
            b.p[i] = old;
        }
        buf_free(&b);
    }
}

/* A pickle of `n` copies of one opcode: memory stays within the limits that pickle.h states. */
static void bombs_end_at_a_limit(void **state)
{
    (void)state;
    static const uint8_t one[] = {'(', 'N', ']', '2'};
    for (size_t k = 0; k < sizeof one; k++) {
        size_t n = 6u << 20;
        uint8_t *p = mem_alloc(n);
        memset(p, one[k], n);
        p[0] = 'N';
        torch_world w = {0};
        pickle machine = {0};
        torch_host(&w, &machine.host);
        cursor in = cursor_of(span_of(p, n));
        pv root;
        err e = {0};
        assert_int_equal(pickle_load(&machine, &in, &root, &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, one[k] == '(' ? "marks" : "deep"));
        pickle_free(&machine);
        torch_world_free(&w);
        mem_free(p);
    }
    size_t n = 12u << 20; /* values without a growing stack */
    uint8_t *p = mem_alloc(n);
    for (size_t i = 0; i < n; i += 2) p[i] = ']', p[i + 1] = '0';
    torch_world w = {0};
    pickle machine = {0};
    torch_host(&w, &machine.host);
    cursor in = cursor_of(span_of(p, n));
    pv root;
    err e = {0};
    assert_int_equal(pickle_load(&machine, &in, &root, &e), ERR_LIMIT);
    pickle_free(&machine);
    torch_world_free(&w);
    mem_free(p);
}

/* ---- ZIP with 64-bit fields */

static void add_record(buf *b, uint32_t sign, bool central, uint32_t size, uint64_t real, uint64_t header)
{
    buf_uint(b, sign, 4);
    if (central) buf_uint(b, 45, 2);
    buf_uint(b, 45, 2), buf_uint(b, 0, 2), buf_uint(b, 0, 2), buf_uint(b, 0, 4), buf_uint(b, 0, 4);
    buf_uint(b, size, 4), buf_uint(b, size, 4), buf_uint(b, 1, 2);
    buf_uint(b, 4 + (central ? 24 : 16), 2);
    if (central) buf_uint(b, 0, 2), buf_uint(b, 0, 2), buf_uint(b, 0, 2), buf_uint(b, 0, 4), buf_uint(b, UINT32_MAX, 4);
    buf_byte(b, 'x');
    buf_uint(b, 1, 2), buf_uint(b, central ? 24 : 16, 2), buf_uint(b, real, 8), buf_uint(b, real, 8);
    if (central) buf_uint(b, header, 8);
}

static void zip64_file(buf *b, uint64_t said)
{
    b->n = 0;
    add_record(b, 0x04034b50, false, UINT32_MAX, 5, 0);
    buf_add(b, "hello", 5);
    size_t directory = b->n;
    add_record(b, 0x02014b50, true, UINT32_MAX, said, 0);
    size_t size = b->n - directory, end = b->n;
    buf_uint(b, 0x06064b50, 4), buf_uint(b, 44, 8), buf_uint(b, 45, 2), buf_uint(b, 45, 2), buf_uint(b, 0, 4),
        buf_uint(b, 0, 4);
    buf_uint(b, 1, 8), buf_uint(b, 1, 8), buf_uint(b, size, 8), buf_uint(b, directory, 8);
    buf_uint(b, 0x07064b50, 4), buf_uint(b, 0, 4), buf_uint(b, end, 8), buf_uint(b, 1, 4);
    buf_uint(b, 0x06054b50, 4), buf_uint(b, 0, 4), buf_uint(b, UINT32_MAX, 4), buf_uint(b, UINT32_MAX, 4),
        buf_uint(b, UINT32_MAX, 4);
    buf_uint(b, 3, 2), buf_str(b, "end");
}

static void zip64_is_read(void **state)
{
    (void)state;
    buf b = {0};
    zip z;
    err e = {0};
    zip64_file(&b, 5);
    assert_ok(zip_list(&z, buf_span(&b), &e), &e);
    const zip_entry *x = zip_find(&z, span_str("x"));
    assert_non_null(x);
    assert_true(span_is(span_of(b.p + x->offset, x->bytes), "hello"));
    assert_null(zip_find(&z, span_str("y")));
    zip_free(&z);
    static const uint64_t wrong[] = {1 << 20, UINT64_MAX, UINT64_MAX - 4};
    for (int i = 0; i < 3; i++) {
        zip64_file(&b, wrong[i]);
        e = (err){0};
        assert_int_equal(zip_list(&z, buf_span(&b), &e), ERR_FORMAT);
        zip_free(&z);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_corpus_is_refused), cmocka_unit_test(tensors_have_their_values),
        cmocka_unit_test(wrappers_come_off),         cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(bombs_end_at_a_limit),      cmocka_unit_test(zip64_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
