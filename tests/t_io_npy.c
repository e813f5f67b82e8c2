/* t_io_npy.c - .npy files byte for byte as numpy.lib.format.write_array(version=(1, 0)) writes them. */
#include "base/file.h"
#include "base/mem.h"
#include "io/npy.h"

#include "test.h"

static void bytes(void **unused)
{
    (void)unused;
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
                               "                                                          \n";
    err e = {0};
    npy *n;
    buf got = {0};
    const char *path = temp_path("a.npy");
    const float v[6] = {0, 1, 2, 3, 4, 5};
    assert_int_equal(sizeof head - 1, 128);
    assert_ok(npy_create(&n, path, 2, 3, &e), &e);
    assert_ok(npy_write(n, v, 1, &e), &e);
    assert_ok(npy_write(n, v + 3, 1, &e), &e);
    assert_ok(npy_commit(n, &e), &e);
    assert_ok(file_read(&got, path, 1000, &e), &e);
    assert_int_equal(got.n, 128 + sizeof v);
    assert_memory_equal(got.p, head, 128);
    assert_memory_equal(got.p + 128, v, sizeof v);
    buf_free(&got);
    unlink(path);
}

static void wrong_counts(void **unused)
{
    (void)unused;
    err e = {0};
    npy *n;
    const char *path = temp_path("b.npy");
    const float v[4] = {0};
    assert_ok(npy_create(&n, path, 1, 2, &e), &e);
    assert_int_equal(npy_write(n, v, 2, &e), ERR_USAGE);
    e = (err){0};
    assert_int_equal(npy_commit(n, &e), ERR_FORMAT);
    assert_false(file_exists(path));
    e = (err){0};
    assert_int_equal(npy_create(&n, "/nowhere/x.npy", 1, 2, &e), ERR_NOT_FOUND);
    assert_null(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes), cmocka_unit_test(wrong_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
