/* t_io_contents.c - what the tensors of a checkpoint hold: digests of each and of all, however they are divided among
 * files; what is believed of those kept on disk. */
#define _GNU_SOURCE
#include "tests/copied_model.h"

#include "io/contents.h"
#include "io/contents_cache.h"

#include <fcntl.h>

static char model_dir[256], cache_dir[320];

static void digests_are_of_each_tensor(void **unused)
{
    (void)unused;
    err e = {0};
    ckpt *c;
    contents held;
    assert_ok(ckpt_open(&c, model_source, &e), &e);
    uint64_t bytes = 0;
    for (int threads = 1; threads <= 4; threads += 3) {
        assert_ok(contents_hash(&held, c, NULL, threads, &e), &e);
        for (uint32_t i = bytes = 0; i < ckpt_count(c); i++) {
            uint8_t digest[SHA256_BYTES];
            sha256_of(ckpt_at(c, i)->data, ckpt_at(c, i)->bytes, digest);
            assert_memory_equal(held.tensor[i], digest, sizeof digest);
            bytes += ckpt_at(c, i)->bytes;
        }
        assert_int_equal(held.hashed, bytes);
        contents_free(&held);
    }
    long n = 1;
    for (bool fired = true; fired; n++) {
        e = (err){0};
        mem_fail_at(n);
        int rc = contents_hash(&held, c, temp_path("no-folder"), 1, &e);
        fired = mem_fail_at(0);
        if (rc && rc != ERR_MEMORY) fail_msg("%s", e.msg);
        if (!rc) contents_free(&held);
    }
    drop_folder(temp_path("no-folder"));
    ckpt_close(c);
}

/* ---- what is kept on disk */

/* Hashes the model with the cache; expects the digest, and that everything or nothing had to be read. */
static void expect_hash(const uint8_t *want, bool all, const char *what)
{
    err e = {0};
    ckpt *c;
    contents held;
    uint64_t bytes = 0;
    assert_ok(ckpt_open(&c, model_dir, &e), &e);
    for (uint32_t i = 0; i < ckpt_count(c); i++) bytes += ckpt_at(c, i)->bytes;
    assert_ok(contents_hash(&held, c, cache_dir, 1, &e), &e);
    if (memcmp(held.all, want, SHA256_BYTES) != 0) fail_msg("%s: other contents", what);
    if (held.hashed != (all ? bytes : 0)) fail_msg("%s: %llu bytes hashed", what, (unsigned long long)held.hashed);
    contents_free(&held);
    ckpt_close(c);
}

static void hash_without_cache(uint8_t out[SHA256_BYTES])
{
    err e = {0};
    ckpt *c;
    contents held;
    assert_ok(ckpt_open(&c, model_dir, &e), &e);
    assert_ok(contents_hash(&held, c, NULL, 2, &e), &e);
    memcpy(out, held.all, sizeof held.all);
    contents_free(&held);
    ckpt_close(c);
}

static void files_do_not_matter(void **unused)
{
    (void)unused;
    static const layout as[] = {
        {.shards = 1}, {.shards = 1, .turned = true}, {.shards = 2}, {.shards = 5, .turned = true}};
    uint8_t first[SHA256_BYTES], other[SHA256_BYTES];
    snprintf(model_dir, sizeof model_dir, "%s", model_source);
    hash_without_cache(first);
    snprintf(model_dir, sizeof model_dir, "%s", temp_path("shards"));
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
        write_model(model_dir, &as[i]);
        hash_without_cache(other);
        assert_memory_equal(first, other, sizeof first);
        drop_folder(model_dir);
    }
}

/* The one file in the cache. */
static char *kept_file(void)
{
    char *path = NULL;
    DIR *d = opendir(cache_dir);
    assert_non_null(d);
    for (const struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.') {
            assert_null(path);
            path = file_join(cache_dir, f->d_name);
        }
    closedir(d);
    assert_non_null(path);
    return path;
}

static void sign(buf *b) { sha256_of(b->p, b->n - SHA256_BYTES, b->p + b->n - SHA256_BYTES); }

static void kept_digests_are_not_trusted(const uint8_t *want)
{
    enum { COUNT_AT = 21 + 5 * 8 };
    err e = {0};
    buf kept = {0}, bad = {0};
    char *path = kept_file();
    assert_ok(file_read(&kept, path, 1 << 20, &e), &e);
    for (size_t n = 0; n < kept.n; n += 1 + n / 8) {
        put(path, kept.p, n);
        expect_hash(want, true, "cut short");
    }
    for (size_t at = 0; at < kept.n; at += 1 + at / 16) {
        bad.n = 0;
        buf_add(&bad, kept.p, kept.n);
        bad.p[at] ^= 0x40;
        put(path, bad.p, bad.n);
        expect_hash(want, true, "a bit changed");
    }
    for (size_t at = 21; at < COUNT_AT + 8; at += 8) { /* of another file; of another number of sums */
        for (int byte = 0; byte < 8; byte += 7) {
            bad.n = 0;
            buf_add(&bad, kept.p, kept.n);
            bad.p[at + (size_t)byte] ^= 0x10;
            sign(&bad);
            put(path, bad.p, bad.n);
            expect_hash(want, true, "of another file");
        }
    }
    put(path, kept.p, kept.n);
    expect_hash(want, false, "as it was kept");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK); /* or a writer waits for one */
    expect_hash(want, true, "a pipe");
    close(reader);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_hash(want, true, "a folder");
    rmdir(path);
    expect_hash(want, true, "removed");
    expect_hash(want, false, "kept again");
    mem_free(path);
    buf_free(&kept);
    buf_free(&bad);
}

static void what_was_hashed_is_remembered(void **unused)
{
    (void)unused;
    char file[300];
    struct stat before;
    uint8_t byte, was[SHA256_BYTES], now[SHA256_BYTES];
    snprintf(model_dir, sizeof model_dir, "%s", temp_path("contents"));
    snprintf(cache_dir, sizeof cache_dir, "%s/kept", temp_path("contents-cache"));
    snprintf(file, sizeof file, "%s/model.safetensors", model_dir);
    write_model(model_dir, &(layout){.shards = 1});
    hash_without_cache(was);
    expect_hash(was, true, "new");
    expect_hash(was, true, "written within this second");
    usleep(1100000);
    expect_hash(was, true, "not kept yet");
    expect_hash(was, false, "kept");
    kept_digests_are_not_trusted(was);

    /* another byte in place, with the old time put back */
    assert_int_equal(stat(file, &before), 0);
    int f = open(file, O_RDWR);
    assert_int_equal(pread(f, &byte, 1, before.st_size - 1), 1);
    byte ^= 1;
    assert_int_equal(pwrite(f, &byte, 1, before.st_size - 1), 1);
    assert_int_equal(futimens(f, (struct timespec[]){before.st_atim, before.st_mtim}), 0);
    close(f);
    hash_without_cache(now);
    assert_memory_not_equal(was, now, sizeof was);
    expect_hash(now, true, "a byte in place");

    snprintf(file, sizeof file, "%s/config.json", model_dir);
    snprintf(cache_dir, sizeof cache_dir, "%s/below", file);
    expect_hash(now, true, "a cache that cannot be");
    drop_folder(model_dir);
    snprintf(cache_dir, sizeof cache_dir, "%s/kept", temp_path("contents-cache"));
    drop_folder(cache_dir);
    drop_folder(temp_path("contents-cache"));
}

static void cache_has_its_folder(void **unused)
{
    (void)unused;
    static const char *const where[][3] = {{"/x/y", "/home/z", "/x/y/inferflow"},
                                           {"relative", "/home/z", "/home/z/.cache/inferflow"},
                                           {"", "/home/z", "/home/z/.cache/inferflow"},
                                           {"", "", NULL}};
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        setenv("XDG_CACHE_HOME", where[i][0], 1);
        setenv("HOME", where[i][1], 1);
        char *dir = contents_cache_folder();
        if (where[i][2]) assert_string_equal(dir, where[i][2]);
        else assert_null(dir);
        mem_free(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_of_each_tensor),
        cmocka_unit_test(files_do_not_matter),
        cmocka_unit_test(what_was_hashed_is_remembered),
        cmocka_unit_test(cache_has_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
