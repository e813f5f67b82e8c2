/* t_io_oom.c - opening each kind of checkpoint with the n-th allocation failing, n = 1, 2, ... until none fails: an
 * error that says so, nothing lost (the leak checker of `make asan` looks), nothing crashes. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/ckpt.h"

#include <dirent.h>
#include <sys/stat.h>

/* Tries `open` until no allocation fails any more. */
typedef int open_function(ckpt **c, const void *what, err *e);

static void fail_each(open_function *open, const void *what, const char *name)
{
    for (long n = 1; n < 100000; n++) {
        ckpt *c = NULL;
        err e = {0};
        mem_fail_at(n);
        int rc = open(&c, what, &e);
        bool fired = mem_fail_at(0);
        if (!fired) {
            if (rc) fail_msg("%s: %s", name, e.msg);
            ckpt_close(c);
            assert_true(n > 5);
            return;
        }
        if (rc != ERR_MEMORY) fail_msg("%s: allocation %ld failed, the result is %d (%s)", name, n, rc, e.msg);
        assert_null(c);
    }
    fail_msg("%s: allocations without end", name);
}

static int open_in_memory(ckpt **c, const void *what, err *e)
{
    return ckpt_open_bytes(c, *(const span *)what, "memory", e);
}

static int open_path(ckpt **c, const void *what, err *e)
{
    int rc = ckpt_open(c, what, e);
    if (!rc) ckpt_side_json(*c, "config.json", e);
    if (!rc && e->code) {
        ckpt_close(*c);
        *c = NULL;
        rc = e->code;
    }
    return rc;
}

/* The fuzzers' seeds are small correct files of each format. */
static void each_format_survives(void **state)
{
    (void)state;
    static const char *const folders[] = {"tests/fuzz/seeds/safetensors", "tests/fuzz/seeds/gguf",
                                          "tests/fuzz/seeds/llama2c", "tests/vectors/pickles"};
    int tried = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        DIR *d = opendir(folders[i]);
        if (!d) fail_msg("%s: run from the root of the project", folders[i]);
        for (struct dirent *f; (f = readdir(d));) {
            bool pickles = i == 3;
            if (f->d_name[0] == '.' || (pickles && strncmp(f->d_name, "good", 4) != 0)) continue;
            char *path = file_join(folders[i], f->d_name);
            buf b = {0};
            err e = {0};
            assert_ok(file_read(&b, path, 1 << 20, &e), &e);
            span s = buf_span(&b);
            fail_each(open_in_memory, &s, path);
            buf_free(&b);
            mem_free(path);
            tried++;
        }
        closedir(d);
    }
    assert_true(tried > 15);
}

static void folders_survive(void **state)
{
    (void)state;
    const char *dir = temp_path("oom");
    static const struct {
        const char *name, *text;
    } files[] = {
        {"config.json", "{\"a\":[1,2]}"},
        {"model.safetensors.index.json", "{\"weight_map\":{\"x\":\"m.safetensors\",\"y\":\"m.safetensors\"}}"}};
    assert_int_equal(mkdir(dir, 0700), 0);
    buf b = {0};
    err e = {0};
    assert_ok(file_read(&b, "tests/fuzz/seeds/safetensors/two", 1 << 20, &e), &e);
    char path[3][400];
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", dir, i < 2 ? files[i].name : "m.safetensors");
        file_out *f;
        assert_ok(file_create(&f, path[i], &e), &e);
        assert_ok(i < 2 ? file_write(f, files[i].text, strlen(files[i].text), &e) : file_write(f, b.p, b.n, &e), &e);
        assert_ok(file_commit(f, &e), &e);
    }
    fail_each(open_path, dir, "folder with an index");
    unlink(path[1]);
    fail_each(open_path, dir, "folder without");
    fail_each(open_path, path[2], "file");
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(dir);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_format_survives), cmocka_unit_test(folders_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
