/* t_io_decay.c - files that a disk changes, though nobody writes to them: digests that were kept are compared with what
 * is there, when somebody asks and while there is nothing else to do. Here the digests change, and the files do not. */
#define _GNU_SOURCE
#include "copied_model.h"

#include "base/clock.h"
#include "engine/engine_state.h"
#include "engine/fingerprint.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"
#include "io/contents_disk.h"
#include "net/supply.h"
#include "node_rig.h"

static char dir[256], kept[300];

static void begin(void)
{
    snprintf(dir, sizeof dir, "%s", temp_path("decay"));
    setenv("XDG_CACHE_HOME", temp_path("decay-cache"), 1);
    snprintf(kept, sizeof kept, "%s/inferflow", temp_path("decay-cache"));
    drop_folder(kept);
    drop_folder(dir);
    write_model(dir, &(layout){.shards = 2});
    usleep(1100000); /* what was written within a second is not kept */
}

static void end(void)
{
    drop_folder(kept);
    drop_folder(temp_path("decay-cache"));
    drop_folder(dir);
}

static int hash(int64_t since, uint64_t *bytes, err *e)
{
    ckpt *c;
    contents held;
    assert_ok(ckpt_open(&c, dir, e), e);
    int rc = contents_hash_some(&held, c, NULL, kept, since, 2, e);
    if (!rc) *bytes = held.hashed;
    if (!rc) contents_free(&held);
    ckpt_close(c);
    return rc;
}

/* Changes what is kept of the first file that is known, as if its contents had changed. */
static void change_digest(void)
{
    ckpt *c;
    err e = {0};
    bool done = false;
    assert_ok(ckpt_open(&c, dir, &e), &e);
    for (uint32_t f = 0; f < ckpt_file_count(c) && !done; f++) {
        file_sums s;
        file_id id;
        assert_true(ckpt_file_id(c, f, &id));
        assert_ok(contents_cache_read(&s, kept, &id, &e), &e);
        for (size_t i = 0; i < s.n; i++) s.at[i].digest[7] ^= 4;
        done = s.n > 0;
        if (done) assert_ok(contents_cache_write(&s, kept, &id, &e), &e);
        file_sums_free(&s);
    }
    assert_true(done);
    ckpt_close(c);
}

static void expect_decay(int rc, const err *e)
{
    if (rc != ERR_UNAVAILABLE) fail_msg("%d: %s", rc, e->msg);
    if (!strstr(e->msg, dir) || !strstr(e->msg, ".safetensors: tensor '") || !strstr(e->msg, "its disk changed it"))
        fail_msg("%s", e->msg);
}

static void digests_grow_old(void **unused)
{
    (void)unused;
    err e = {0};
    uint64_t all, again;
    begin();
    assert_ok(hash(0, &all, &e), &e);
    const int64_t now = contents_clock();
    assert_ok(hash(0, &again, &e), &e);
    assert_int_equal(again, 0);
    assert_ok(hash(now, &again, &e), &e);
    assert_int_equal(again, all);
    assert_ok(hash(now, &again, &e), &e); /* they are young now */
    assert_int_equal(again, 0);
    change_digest();
    assert_ok(hash(0, &again, &e), &e);
    assert_int_equal(again, 0);
    for (int i = 0; i < 3; i++) { /* nobody believes it any more */
        e = (err){0};
        expect_decay(hash(i ? 0 : contents_clock(), &again, &e), &e);
    }
    change_digest(); /* whole again */
    e = (err){0};
    assert_ok(hash(0, &again, &e), &e);
    assert_ok(hash(0, &again, &e), &e);
    assert_int_equal(again, 0);
    change_digest();
    drop_folder(dir);
    write_model(dir, &(layout){.shards = 2}); /* copied anew */
    assert_ok(hash(contents_clock(), &again, &e), &e);
    end();
}

static int verify(err *e)
{
    ckpt *c;
    assert_ok(ckpt_open(&c, dir, e), e);
    int rc = contents_verify(c, kept, 2, e);
    ckpt_close(c);
    return rc;
}

static void the_disk_is_read(void **unused)
{
    (void)unused;
    err e = {0};
    uint64_t bytes;
    begin();
    assert_ok(verify(&e), &e); /* nothing is known yet; from now on it is */
    assert_ok(hash(0, &bytes, &e), &e);
    assert_int_equal(bytes, 0);
    const int64_t now = contents_clock();
    assert_ok(verify(&e), &e);
    assert_ok(hash(now, &bytes, &e), &e);
    assert_int_equal(bytes, 0);
    change_digest();
    expect_decay(verify(&e), &e);
    e = (err){0};
    expect_decay(verify(&e), &e);
    end();
}

static void await(engine *g, bool unavailable)
{
    err e = {0};
    const double until = clock_now() + 60;
    for (bool more; engine_unavailable(g, NULL) != unavailable && clock_now() < until; usleep(20000))
        assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(engine_unavailable(g, NULL), unavailable);
}

static void an_idle_engine_looks(void **unused)
{
    (void)unused;
    fingerprint f;
    engine *g;
    err e = {0};
    bool more;
    begin();
    assert_ok(engine_open(&g, &(engine_options){.model = dir, .threads = 1, .ctx = 32, .verify = true}, &e), &e);
    assert_ok(engine_fingerprint(g, &f, &e), &e);
    engine_watch_files(g);
    assert_ok(engine_infer(g, &more, &e), &e);
    g->harm.held.tensor[0][3] ^= 1; /* the engine reads nothing of it before it has been idle for a while */
    await(g, true);
    engine_unavailable(g, &e);
    expect_decay(e.code, &e);
    while (g->harm.hashes) assert_ok(engine_infer(g, &more, &e), &e); /* nobody reads the digests */
    g->harm.held.tensor[0][3] ^= 1;
    await(g, false);
    engine_close(g);
    end();
}

static int open_over(engine **g, const nodes *n, err *e)
{
    const engine_options o = {
        .model = model_source, .devices = list_of(n, "A/cpu;cpu"), .threads = 1, .ctx = 32, .key_file = n->key};
    return engine_open(g, &o, e);
}

static void a_node_looks(void **unused)
{
    (void)unused;
    engine *g;
    err e = {0};
    nodes n;
    begin();
    nodes_open(&n, dir, NULL);
    assert_ok(open_over(&g, &n, &e), &e);
    change_digest();
    const double until = clock_now() + 60;
    while (!node_leases(n.at[0]) && clock_now() < until) usleep(10000);
    while (node_leases(n.at[0]) && clock_now() < until) usleep(10000);
    assert_int_equal(node_leases(n.at[0]), 0); /* it was ended */
    engine_close(g);
    expect_decay(open_over(&g, &n, &e), &e);
    n.o.verify = true;
    e = (err){0};
    node *another;
    expect_decay(node_open(&another, &n.o, &e), &e);
    nodes_close(&n);
    end();
}

/* Digests that an earlier process made are compared with, not believed; weights then come from the leader. */
static void a_node_does_not_believe(void **unused)
{
    (void)unused;
    const char *cache = "build/t_io_decay.cache";
    contents_roots held;
    ckpt *c;
    engine *g;
    err e = {0};
    nodes n;
    begin();
    assert_ok(ckpt_open(&c, dir, &e), &e);
    assert_ok(contents_roots_some(&held, c, NULL, kept, 0, 1, &e), &e);
    contents_roots_free(&held);
    ckpt_close(c);
    change_digest();
    nodes_open(&n, dir, NULL);
    for (int i = 0; i < 2; i++) {
        e = (err){0};
        expect_decay(open_over(&g, &n, &e), &e);
    }
    nodes_close(&n);
    drop_folder(cache);
    nodes_open(&n, dir, cache);
    e = (err){0};
    assert_ok(open_over(&g, &n, &e), &e);
    engine_close(g);
    nodes_close(&n);
    drop_folder(cache);
    end();
}

/* Changes a byte of what a node keeps of a model. */
static void change_cache(const char *cache)
{
    DIR *d = opendir(cache);
    bool done = false;
    assert_non_null(d);
    for (const struct dirent *f; (f = readdir(d));) {
        char path[600];
        if (!str_ends(f->d_name, ".tensors")) continue;
        snprintf(path, sizeof path, "%s/%s", cache, f->d_name);
        FILE *to = fopen(path, "r+b");
        assert_non_null(to);
        for (int c; !done && (c = fgetc(to)) != EOF;) {
            if (!c) continue;
            fseek(to, -1, SEEK_CUR);
            done = fputc(c ^ 1, to) != EOF;
        }
        fclose(to);
    }
    closedir(d);
    assert_true(done);
}

static uint64_t fetched_by(const nodes *n)
{
    const uint64_t before = supply_bytes();
    engine *g;
    err e = {0};
    assert_ok(open_over(&g, n, &e), &e);
    engine_close(g);
    return supply_bytes() - before;
}

/* What the disk changed of a node's cache is fetched anew, and whoever uses it has to end. */
static void a_cache_is_looked_at(void **unused)
{
    (void)unused;
    const char *cache = "build/t_io_decay.cache";
    engine *g;
    err e = {0};
    nodes n;
    begin();
    drop_folder(cache);
    nodes_open(&n, NULL, cache);
    const uint64_t all = fetched_by(&n);
    assert_int_equal(fetched_by(&n), 0);
    assert_ok(open_over(&g, &n, &e), &e);
    change_cache(cache);
    const double until = clock_now() + 60;
    while (node_leases(n.at[0]) && clock_now() < until) usleep(10000);
    assert_int_equal(node_leases(n.at[0]), 0);
    engine_close(g);
    const uint64_t again = fetched_by(&n);
    assert_true(again > 0 && again <= all);
    assert_int_equal(fetched_by(&n), 0);
    nodes_close(&n);
    drop_folder(cache);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_grow_old),        cmocka_unit_test(the_disk_is_read),
        cmocka_unit_test(an_idle_engine_looks),    cmocka_unit_test(a_node_looks),
        cmocka_unit_test(a_node_does_not_believe), cmocka_unit_test(a_cache_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
