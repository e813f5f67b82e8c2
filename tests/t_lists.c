/* t_lists.c - lists of tensors that a node keeps, so that none is sent twice; models of very many tensors on nodes. */
#include "base/mem.h"
#include "net/lists.h"
#include "node_rig.h"

#include <dirent.h>
#include <sys/stat.h>

static const char folder[] = "build/t_lists.folder";

static void drop_all(void)
{
    DIR *d = opendir(folder);
    for (const struct dirent *f; d && (f = readdir(d));) unlinkat(dirfd(d), f->d_name, 0);
    if (d) closedir(d);
    rmdir(folder);
}

static void digest_of(int which, uint8_t digest[SHA256_BYTES], char text[32])
{
    snprintf(text, 32, "list number %d", which);
    sha256_of(text, strlen(text), digest);
}

static void put(lists *l, int which)
{
    uint8_t digest[SHA256_BYTES];
    char text[32];
    digest_of(which, digest, text);
    lists_put(l, digest, span_str(text));
}

static bool has(lists *l, int which)
{
    uint8_t digest[SHA256_BYTES];
    char text[32];
    buf got = {0};
    digest_of(which, digest, text);
    const bool there = lists_get(l, digest, &got);
    if (there) assert_true(span_is(buf_span(&got), text));
    else assert_int_equal(got.n, 0);
    buf_free(&got);
    return there;
}

static void the_last_ones_are_kept(void **unused)
{
    (void)unused;
    lists l;
    lists_open(&l, NULL);
    for (int i = 0; i < LISTS_KEPT; i++) put(&l, i);
    assert_true(has(&l, 0)); /* used now */
    put(&l, LISTS_KEPT);
    assert_true(has(&l, 0));
    assert_false(has(&l, 1));
    for (int i = 2; i <= LISTS_KEPT; i++) assert_true(has(&l, i));
    uint8_t digest[2][SHA256_BYTES] = {{1}, {2}};
    char *large = mem_zero(1 << 26, 1);
    lists_put(&l, digest[0], span_of(large, 1 << 26)); /* alone */
    assert_false(has(&l, LISTS_KEPT));
    buf got = {0};
    assert_true(lists_get(&l, digest[0], &got));
    lists_put(&l, digest[1], span_of(large, 100));
    got.n = 0;
    assert_false(lists_get(&l, digest[0], &got));
    assert_true(lists_get(&l, digest[1], &got));
    buf_free(&got);
    mem_free(large);
    lists_close(&l);
}

static void more_are_kept_in_a_folder(void **unused)
{
    (void)unused;
    lists l;
    drop_all();
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < LISTS_ON_DISK + 3; i++) {
        lists_open(&l, folder);
        put(&l, i);
        lists_close(&l);
        usleep(20000);
    }
    lists_open(&l, folder);
    int kept = 0;
    for (int i = 0; i < LISTS_ON_DISK + 3; i++) kept += has(&l, i);
    assert_int_equal(kept, LISTS_ON_DISK);
    assert_false(has(&l, 0));
    lists_close(&l);
    DIR *d = opendir(folder); /* other bytes are not believed */
    for (const struct dirent *f; (f = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        FILE *to = f->d_name[0] == '.' ? NULL : fopen(path, "r+b");
        if (!to) continue;
        fputc('L', to);
        fclose(to);
    }
    closedir(d);
    lists_open(&l, folder);
    for (int i = 0; i < LISTS_ON_DISK + 3; i++) assert_false(has(&l, i));
    put(&l, 1);
    assert_true(has(&l, 1));
    lists_close(&l);
    drop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ones_are_kept),
        cmocka_unit_test(more_are_kept_in_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
