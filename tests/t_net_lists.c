/* t_net_lists.c - lists of tensors that a node keeps, so that none is sent twice, whatever their length. */
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine_state.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"
#include "net/catalogue.h"
#include "net/leader.h"
#include "net/lease_msg.h"
#include "net/lists.h"
#include "node_rig.h"

#include <dirent.h>
#include <sys/stat.h>

static const char folder[] = "build/t_net_lists.folder";

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

/* ---- on their way */

static uint64_t sent_with(const nodes *n, engine **g)
{
    leader_node at[4];
    err e = {0};
    const engine_options o = {
        .model = n->model, .devices = list_of(n, "A/cpu;cpu"), .threads = 1, .ctx = 32, .key_file = n->key};
    assert_ok(engine_open(g, &o, &e), &e);
    assert_int_equal(leader_nodes((*g)->leader, at, 4), 1);
    assert_true(at[0].hashed_at > 0 && at[0].hashed_at <= contents_clock());
    assert_true(contents_clock() - at[0].hashed_at < (int64_t)600 * 1000000000); /* by this process */
    return at[0].bytes.sent[USE_WEIGHT];
}

/* By a node with a copy, which fetches nothing else; a second leader and a recovery are told the digest alone. */
static void a_list_is_sent_once(void **unused)
{
    (void)unused;
    engine *g[2];
    nodes n;
    nodes_open(&n, "tests/vectors/models/llama", NULL);
    const uint64_t first = sent_with(&n, &g[0]);
    assert_true(first > 1000);
    assert_int_equal(first, g[0]->told.text.n + sizeof(frame_head));
    assert_int_equal(sent_with(&n, &g[1]), 0);
    engine_close(g[0]);
    engine_close(g[1]);
    nodes_close(&n);
}

/* ---- 100 000 tensors, in an order of their own */

enum { MANY = 100000, WIDE = 6 };

static ckpt *many_tensors(const char *path, uint32_t stride)
{
    ckpt *c;
    err e = {0};
    assert_ok(ckpt_begin_listed(&c, path, "many", "safetensors", &e), &e);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        const uint32_t k = (uint32_t)((uint64_t)i * stride % MANY);
        const shape dims = {.rank = 1, .dim = {WIDE}};
        snprintf(name, sizeof name, "experts.%u.weight", k);
        assert_ok(ckpt_add(c, 0, span_str(name), DTYPE_F32, &dims, (uint64_t)k * WIDE * 4, WIDE * 4, &e), &e);
    }
    assert_ok(ckpt_finish_listed(c, &e), &e);
    return c;
}

static void many_tensors_are_told_by_a_digest(void **unused)
{
    (void)unused;
    static const uint32_t strides[] = {1, 77773};
    static uint32_t order[MANY];
    const char *path = temp_path("many");
    catalogue told[2];
    buf text[2] = {{0}, {0}};
    program p = {0};
    err e = {0};
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (uint32_t i = 0; i < MANY * WIDE; i++) {
        const uint32_t x = (uint32_t)rng_bits(1, 2, i);
        fwrite(&x, sizeof x, 1, f);
    }
    fclose(f);
    for (int i = 0; i < 2; i++) {
        contents_roots held;
        ckpt *c = many_tensors(path, strides[i]);
        p.n_weight = 0;
        assert_ok(contents_roots_some(&held, c, NULL, NULL, 0, 2, &e), &e);
        assert_true(catalogue_write(&text[i], order, c, &held, &p));
        assert_ok(catalogue_read(&told[i], buf_span(&text[i]), &e), &e);
        assert_int_equal(told[i].n, MANY);
        for (uint32_t k = 0; k < MANY; k += 991)
            assert_string_equal(told[i].tensor[k].t.name, ckpt_at(c, order[k])->name);
        contents_roots_free(&held);
        ckpt_close(c);
    }
    assert_memory_equal(told[0].identity, told[1].identity, SHA256_BYTES);
    assert_true(span_eq(buf_span(&text[0]), buf_span(&text[1])));
    assert_true(text[0].n > LEASE_BYTES_MAX && text[0].n < LIST_BYTES_MAX);
    lease_ask a = {.ranks = 2, .devices = span_str("cpu;a:1/cpu"), .list_bytes = (uint32_t)text[0].n};
    buf message = {0};
    assert_true(lease_ask_write(&message, &a, PROTOCOL_MAX));
    assert_true(message.n < 1000);
    buf_free(&message);
    for (int i = 0; i < 2; i++) {
        catalogue_free(&told[i]);
        buf_free(&text[i]);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ones_are_kept),
        cmocka_unit_test(more_are_kept_in_a_folder),
        cmocka_unit_test(a_list_is_sent_once),
        cmocka_unit_test(many_tensors_are_told_by_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
