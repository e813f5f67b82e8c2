/* t_io_files.c - files as they may be found: FIFOs and devices in place of a model's, file systems without shared
 * mappings, who may read what was written, and mapped files that change while they are used. */
#define _GNU_SOURCE
#include "test.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool refuses_shared;
static atomic_int umasks;

/* In place of the library's: a file system without shared mappings, as 9p without a cache. */
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    if (refuses_shared && fd >= 0 && (flags & MAP_TYPE) == MAP_SHARED) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, from);
}

/* It is of the process: another thread would create its files with what is set here for a moment. */
mode_t umask(mode_t mask)
{
    umasks++;
    return (mode_t)syscall(SYS_umask, mask);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Each ends with one line, at once. */
static void test_no_file(void **state)
{
    (void)state;
    char *dir = mem_str(temp_path("files-odd")), *path = file_join(dir, "config.json");
    const file_folder folder = {.path = dir};
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int kind = 0; kind < 4; kind++) {
        err e = {0};
        buf text = {0};
        json *root = NULL;
        file_mapping *m;
        unlink(path);
        rmdir(path);
        if (kind == 0) assert_int_equal(mkfifo(path, 0600), 0);
        if (kind == 1) assert_int_equal(symlink("/dev/zero", path), 0);
        if (kind == 2) assert_int_equal(mkdir(path, 0700), 0);
        if (kind == 3) assert_int_equal(symlink("config.json", path), 0);
        alarm(20);
        assert_int_equal(json_read(&root, path, 1 << 20, &e), ERR_IO);
        assert_non_null(strstr(e.msg, path));
        assert_int_equal(file_read_regular(&text, path, 1 << 20, NULL), ERR_IO);
        assert_int_equal(file_map(&m, path, NULL), ERR_IO);
        assert_int_not_equal(folder_json(&root, &folder, "config.json", 1 << 20, NULL), OK);
        alarm(0);
    }
    unlink(path);
    mem_free(path);
    /* the cache of a hub, in which a name is asked for */
    path = file_join(dir, "refs");
    assert_int_equal(mkdir(path, 0700), 0);
    char *main_ref = file_join(path, "main"), *all = file_join(dir, "snapshots");
    assert_int_equal(mkfifo(main_ref, 0600), 0);
    assert_int_equal(mkdir(all, 0700), 0);
    alarm(20);
    mem_free(folder_of_model(dir));
    alarm(0);
    unlink(main_ref);
    rmdir(path);
    rmdir(all);
    rmdir(dir);
    mem_free(main_ref);
    mem_free(all);
    mem_free(path);
    mem_free(dir);
}

static void test_private_mapping(void **state)
{
    (void)state;
    const char *path = temp_path("files-private");
    file_mapping *m;
    err e = {0};
    write_file(path, "all that is in it");
    refuses_shared = true;
    assert_ok(file_map(&m, path, &e), &e);
    refuses_shared = false;
    assert_true(span_eq(file_bytes(m), span_str("all that is in it")));
    file_unmap(m);
    unlink(path);
}

static int mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void test_modes(void **state)
{
    (void)state;
    static int (*const make[])(file_out **, const char *, err *) = {file_create, file_create_private};
    static const int want[] = {0640, 0600};
    const char *path = temp_path("files-mode");
    umask(027);
    for (int i = 0; i < 2; i++) {
        file_out *f;
        err e = {0};
        const int before = umasks;
        unlink(path);
        assert_ok(make[i](&f, path, &e), &e);
        assert_ok(file_write(f, "x", 1, &e), &e);
        assert_ok(file_commit(f, &e), &e);
        assert_int_equal(umasks, before);
        assert_int_equal(mode_of(path), want[i]);
    }
    umask(022);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_private_mapping),
        cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
