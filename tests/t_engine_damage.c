/* t_engine_damage.c - files of weights that change while an engine uses them, alone and on nodes: a text is the one of
 * the whole file, or ends with an error that names the file; nothing is kept of what was computed meanwhile; and when
 * the file is whole again the engine goes on, without a restart. */
#define _GNU_SOURCE
#include "copied_model.h"

#include "base/clock.h"
#include "engine/engine_state.h"
#include "measure/auto_open.h"
#include "measure/evaluate.h"
#include "engine/fingerprint.h"
#include "node_rig.h"

#include <fcntl.h>
#include <signal.h>

enum { PROMPT = 70, NEW = 20, CTX = 128 };

typedef struct answer {
    int n, ended;
    int32_t ids[NEW];
    char error[ERR_MSG_MAX];
} answer;

static bool hear(void *ctx, const token_event *ev)
{
    answer *a = ctx;
    if (ev->token >= 0 && a->n < NEW) a->ids[a->n++] = ev->token;
    a->ended += ev->finish != FINISH_NONE;
    if (ev->finish == FINISH_ERROR) snprintf(a->error, sizeof a->error, "%s", ev->error);
    return true;
}

static int ask(engine *g, int which, answer *a, err *e)
{
    static int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + (i * 7 + which * 31) % 40;
    const query q = {.ids = ids,
                     .n_ids = PROMPT,
                     .max_tokens = NEW,
                     .ignore_eos = true,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .n_logprobs = -1,
                     .on_token = hear,
                     .ctx = a};
    *a = (answer){.n = 0};
    return engine_add_query(g, &q, NULL, e);
}

static void finish(engine *g)
{
    err e = {0};
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
}

static void answer_one(engine *g, int which, answer *a)
{
    err e = {0};
    assert_ok(ask(g, which, a, &e), &e);
    finish(g);
    assert_int_equal(a->ended, 1);
}

static void expect_text(engine *g, int which, const answer *want, const char *when)
{
    answer a;
    answer_one(g, which, &a);
    if (a.error[0]) fail_msg("%s: %s", when, a.error);
    assert_int_equal(a.n, NEW);
    if (memcmp(a.ids, want->ids, sizeof a.ids) != 0) fail_msg("%s: another text", when);
}

/* The engine says no more than that within a time in which it could have been mended. */
static void expect_state(engine *g, bool unavailable, const char *path)
{
    err why = {0}, e = {0};
    const double until = clock_now() + 60;
    for (bool more; engine_unavailable(g, NULL) != unavailable && clock_now() < until; usleep(10000))
        assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(engine_unavailable(g, &why), unavailable);
    if (unavailable && !strstr(why.msg, path)) fail_msg("%s", why.msg);
}

/* ---- what happens to a file */

static buf whole;
static char dir[300], path[400];

static void write_at(off_t at, const void *p, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, p, n, at) == (ssize_t)n);
    close(fd);
}

/* Its own bytes, where it is. */
static void write_again(void)
{
    assert_int_equal(truncate(path, 0), 0);
    write_at(0, whole.p, whole.n);
}

static void replace(void)
{
    char next[420];
    snprintf(next, sizeof next, "%s.next", path);
    put(next, whole.p, whole.n);
    assert_int_equal(rename(next, path), 0);
}

static void cut_half(void) { assert_int_equal(truncate(path, (off_t)whole.n / 2), 0); }
static void cut_all(void) { assert_int_equal(truncate(path, 0), 0); }
static void cut_little(void) { assert_int_equal(truncate(path, (off_t)whole.n - 100), 0); } /* within a page */
static void write_others(void)
{
    uint8_t bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (uint8_t)(whole.p[whole.n - 64 + (size_t)i] ^ 1);
    write_at((off_t)whole.n - 64, bytes, sizeof bytes);
}

/* With the times of before, as `cp -p` sets them. */
static void write_others_in_secret(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    write_others();
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
}

static void set_times(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
}

static void remove_it(void) { assert_int_equal(unlink(path), 0); }
static void lock_it(void) { assert_int_equal(chmod(path, 0400), 0); }

static struct sigaction on_sigbus; /* the program's: cmocka puts its own there for each test */

static void setup_model(void)
{
    err e = {0};
    sigaction(SIGBUS, &on_sigbus, NULL);
    snprintf(dir, sizeof dir, "%s", temp_path("damage"));
    write_model(dir, &(layout){.shards = 1});
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(file_read(&whole, path, 1 << 20, &e), &e);
}

static void drop_model(void)
{
    drop_folder(dir);
    buf_free(&whole);
    whole = (buf){0};
}

/* ---- */

static engine *open_engine(const char *devices, bool digests)
{
    engine *g;
    err e = {0};
    fingerprint f;
    const engine_options o = {.model = dir, .devices = devices, .ctx = CTX, .threads = 1, .chunk = 32};
    assert_ok(engine_open(&g, &o, &e), &e);
    if (digests) assert_ok(engine_fingerprint(g, &f, &e), &e);
    return g;
}

/* An engine on one device that has answered the first question. */
static engine *open_answered(answer *to)
{
    setup_model();
    engine *g = open_engine(NULL, true);
    answer_one(g, 0, to);
    return g;
}

static const struct {
    const char *name;
    void (*harm)(void), (*mend)(void);
} harms[] = {{"half", cut_half, write_again},
             {"nothing left", cut_all, write_again},
             {"a few bytes less", cut_little, write_again},
             {"other bytes", write_others, write_again},
             {"half, then replaced", cut_half, replace},
             {"other bytes, then replaced", write_others, replace},
             {"deleted after it was cut, then put back", cut_half, replace}};

static void test_harms(void **unused)
{
    (void)unused;
    static const char *const ways[] = {NULL, "cpu:1;cpu:1", "cpu:1&cpu:1"};
    answer want[2], a;
    setup_model();
    for (int w = 0; w < 3; w++) {
        engine *g = open_engine(ways[w], true);
        for (int k = 0; k < 2; k++) answer_one(g, k, &want[k]);
        assert_int_equal(want[0].n, NEW);
        for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
            err e = {0};
            expect_text(g, 0, &want[0], harms[i].name);
            assert_ok(ask(g, 1, &a, &e), &e); /* under way when it happens */
            bool more = true;
            for (int s = 0; s < 6; s++) assert_ok(engine_infer(g, &more, &e), &e);
            harms[i].harm();
            finish(g);
            assert_int_equal(a.ended, 1);
            if (!strstr(a.error, path)) fail_msg("%s: %d tokens, \"%s\"", harms[i].name, a.n, a.error);
            assert_memory_equal(a.ids, want[1].ids, (size_t)a.n * sizeof *a.ids);
            assert_int_equal(ask(g, 0, &a, &e), ERR_UNAVAILABLE);
            assert_non_null(strstr(e.msg, path));
            harms[i].mend();
            expect_state(g, false, path);
            for (int k = 0; k < 2; k++) expect_text(g, k, &want[k], harms[i].name);
        }
        engine_close(g);
    }
    drop_model();
}

/* What nobody can be harmed by. */
static void test_harmless(void **unused)
{
    (void)unused;
    static void (*const what[])(void) = {lock_it, set_times, replace, remove_it};
    answer want;
    engine *g = open_answered(&want);
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        what[i]();
        expect_text(g, 0, &want, "harmless");
        for (int k = 0; k < 20; k++, usleep(5000)) expect_text(g, 0, &want, "harmless, later");
    }
    engine_close(g);
    drop_model();
}

/* While the engine is idle, and where times say nothing. */
static void test_noticed(void **unused)
{
    (void)unused;
    static void (*const what[])(void) = {cut_half, cut_little, write_others_in_secret};
    answer want;
    engine *g = open_answered(&want);
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        what[i]();
        expect_state(g, true, path);
        write_again();
        expect_state(g, false, path);
        expect_text(g, 0, &want, "noticed");
    }
    engine_close(g);
    drop_model();
}

static int ignore_rows(void *self, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)self, (void)rows, (void)first, (void)n, (void)e;
    return OK;
}

/* Without digests of before there is nothing to compare with. */
static void test_for_good(void **unused)
{
    (void)unused;
    const int32_t ids[] = {5, 6, 7};
    answer a;
    err e = {0};
    setup_model();
    engine *g = open_engine(NULL, false);
    answer_one(g, 0, &a);
    cut_half();
    assert_int_equal(engine_eval(g, ids, 3, -1, ignore_rows, NULL, &e), ERR_UNAVAILABLE);
    assert_non_null(strstr(e.msg, path));
    answer_one(g, 0, &a);
    assert_non_null(strstr(a.error, path));
    write_again();
    finish(g);
    assert_true(engine_unavailable(g, NULL));
    engine_close(g);
    drop_model();
}

static int count_files(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *f; d && (f = readdir(d));) n += f->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* Pages that were computed from what was not there are nowhere, on disk neither. */
static void test_pages(void **unused)
{
    (void)unused;
    answer want[3], a;
    err e = {0};
    setup_model();
    char *pages = mem_str(temp_path("damage-pages"));
    engine *g = open_engine(NULL, true);
    for (int k = 0; k < 3; k++) answer_one(g, k, &want[k]);
    engine_close(g);
    g = open_engine(NULL, true);
    assert_ok(engine_keep_folder(g, pages, 1 << 26, &e), &e);
    expect_text(g, 0, &want[0], "before");
    assert_ok(ask(g, 1, &a, &e), &e);
    cut_all();
    finish(g);
    assert_true(a.error[0]);
    engine_close(g);
    assert_true(count_files(pages) <= 1);
    write_again();
    for (int turn = 0; turn < 2; turn++) {
        g = open_engine(NULL, true);
        assert_ok(engine_keep_folder(g, pages, 1 << 26, &e), &e);
        for (int k = 0; k < 3; k++) expect_text(g, k, &want[k], "after");
        engine_close(g);
    }
    drop_folder(pages);
    mem_free(pages);
    drop_model();
}

/* A node with a copy that is torn never gives rows of it: its leader says why, and goes on when it is whole. */
static void test_nodes(void **unused)
{
    (void)unused;
    static const char *const lists[] = {"A/cpu", "A/cpu;cpu", "cpu&A/cpu", "A/cpu;B/cpu"};
    answer want, a;
    nodes n;
    err e = {0};
    engine *g;
    setup_model();
    nodes_open(&n, dir, NULL);
    assert_ok(engine_open(&g, &(engine_options){.model = model_source, .threads = 1, .ctx = CTX}, &e), &e);
    answer_one(g, 0, &want);
    engine_close(g);
    for (int i = 0; i < 4; i++) {
        const engine_options o = {.model = model_source,
                                  .devices = list_of(&n, lists[i]),
                                  .threads = 1,
                                  .ctx = CTX,
                                  .peer_wait = 60,
                                  .key_file = n.key};
        assert_ok(engine_open(&g, &o, &e), &e);
        expect_text(g, 0, &want, lists[i]);
        assert_ok(ask(g, 0, &a, &e), &e);
        bool more = true;
        for (int s = 0; s < 5; s++) assert_ok(engine_infer(g, &more, &e), &e);
        harms[i].harm();
        finish(g);
        assert_int_equal(a.ended, 1);
        if (!strstr(a.error, dir)) fail_msg("%s: %d tokens, \"%s\"", lists[i], a.n, a.error);
        assert_memory_equal(a.ids, want.ids, (size_t)a.n * sizeof *a.ids);
        harms[i].mend();
        for (int k = 0; k < 100; k++, usleep(100000)) { /* until the node lends it again */
            answer_one(g, 0, &a);
            if (!a.error[0]) break;
        }
        if (a.error[0]) fail_msg("%s: %s", lists[i], a.error);
        assert_memory_equal(a.ids, want.ids, sizeof a.ids);
        engine_close(g);
    }
    nodes_close(&n);
    drop_model();
}

/* A draft whose file is torn guesses nothing; the text is the same. */
static void test_draft(void **unused)
{
    (void)unused;
    answer want;
    err e = {0};
    engine *g;
    fingerprint f;
    setup_model();
    const engine_options o = {.model = model_source, .draft = dir, .threads = 1, .ctx = CTX};
    assert_ok(auto_open(&g, &o, &e), &e);
    assert_ok(engine_fingerprint(g, &f, &e), &e);
    answer_one(g, 0, &want);
    cut_half();
    expect_text(g, 0, &want, "torn draft");
    write_again();
    expect_text(g, 0, &want, "whole draft");
    assert_false(engine_unavailable(g, NULL));
    engine_close(g);
    drop_model();
}

int main(void)
{
    file_mapping *m;
    if (file_map(&m, "tests/vectors/models/llama/config.json", NULL)) return 1;
    file_unmap(m);
    sigaction(SIGBUS, NULL, &on_sigbus);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_harms),    cmocka_unit_test(test_harmless), cmocka_unit_test(test_noticed),
        cmocka_unit_test(test_for_good), cmocka_unit_test(test_pages),    cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
