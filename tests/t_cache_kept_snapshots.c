/* t_cache_kept_snapshots.c - snapshots of states of fixed size that outlive the engine, with pages or alone: in a file
 * (run --session) and in a folder (serve --cache-dir). Texts go on from them with the bits of a fresh engine, on one
 * device and several, with guesses too; files of other models, placements and versions, damaged ones and full disks are
 * refused with one line; two engines share a folder. */
#include "snapshot_rig.h"

#include "base/file.h"

#include <signal.h>
#include <sys/resource.h>

enum { PROMPT = 500 };

/* A random model has no file whose contents could be hashed: that is done already. */
static engine *open_kept(int way, int kind, const char *guess)
{
    engine *g = open_way(way, kind, guess);
    g->harm.held.tensor = mem_zero(1, sizeof *g->harm.held.tensor);
    assert_non_null(g->harm.held.tensor);
    return g;
}

/* Text k, and then what follows it: `part` asks for more after that many tokens of the answer. */
static void make_next(text *to, const text *first, int k, int part)
{
    make_searched(to, k, 0, PROMPT, TOKENS);
    memcpy(to->ids + PROMPT, first->token, (size_t)part * sizeof *to->ids);
    for (int i = 0; i < 40; i++)
        to->ids[PROMPT + part + i] = (int32_t)(rng_bits(5, (uint64_t)k, (uint64_t)i) % TEXT_VOCAB);
    to->q.n_ids = (size_t)(PROMPT + part + 40);
}

static void run_one(engine *g, text *t)
{
    text_add(g, t);
    text_run(g);
}

/* What a text gives in an engine that knows nothing. */
static void expect_alone(const text *got, int kind)
{
    static text alone;
    alone = *got;
    alone.n = alone.ends = 0;
    alone.q.ids = alone.ids;
    alone.q.ctx = &alone;
    memset(alone.token, 0, sizeof alone.token);
    memset(alone.logprob, 0, sizeof alone.logprob);
    run_alone(&alone, kind);
    text_same(&alone, got);
}

static void sessions(void **unused)
{
    (void)unused;
    static text first, next, last;
    char *path = mem_str(temp_path("snapshots.session"));
    err e = {0};
    for (int kind = 0; kind < KINDS; kind++)
        for (int w = kind; w < 2 * WAYS; w += kind ? 3 : 1) {
            const char *guess = w % 2 ? "ngram" : NULL;
            remove(path);
            engine *g = open_kept(w / 2, kind, guess);
            assert_ok(engine_keep_file(g, path, &e), &e);
            make_searched(&first, 1, 0, PROMPT, TOKENS);
            run_one(g, &first);
            assert_ok(engine_session_save(g, path, &e), &e);
            engine_close(g);
            for (int part = 0; part <= TOKENS; part += TOKENS) { /* another answer; the same */
                g = open_kept(w / 2, kind, guess);
                assert_ok(engine_keep_file(g, path, &e), &e);
                make_next(&next, &first, 1, part);
                run_one(g, &next);
                assert_int_equal(next.cached, part ? 512 : 256);
                expect_alone(&next, kind);
                engine_close(g);
            }
            g = open_kept(w / 2, kind, guess);
            assert_ok(engine_keep_file(g, path, &e), &e);
            make_searched(&last, 1, 0, PROMPT, TOKENS); /* the file keeps what memory does not have again */
            run_one(g, &last);
            assert_ok(engine_session_save(g, path, &e), &e);
            engine_close(g);
            g = open_kept(w / 2, kind, guess);
            assert_ok(engine_keep_file(g, path, &e), &e);
            make_next(&last, &first, 1, TOKENS);
            run_one(g, &last);
            assert_int_equal(last.cached, 512);
            text_same(&next, &last);
            engine_close(g);
        }
    remove(path);
    mem_free(path);
}

static void expect_refusal(const char *path, int w, int kind, int code)
{
    err e = {0};
    engine *g = open_kept(w, kind, NULL);
    assert_int_equal(engine_keep_file(g, path, &e), code);
    assert_true(e.msg[0] && !strchr(e.msg, '\n'));
    engine_close(g);
}

static void change_file(const char *path, int64_t at, bool cut)
{
    buf all = {0};
    err e = {0};
    assert_ok(file_read(&all, path, 1 << 26, &e), &e);
    const size_t k = at < 0 ? all.n - 1 : (size_t)at;
    all.p[k] ^= 1;
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(all.p, 1, cut ? k : all.n, f) == (cut ? k : all.n) && fclose(f) == 0);
    buf_free(&all);
}

static void refused(void **unused)
{
    (void)unused;
    static text first;
    char *path = mem_str(temp_path("refused.session"));
    err e = {0};
    engine *g = open_kept(0, HYBRID, NULL);
    assert_ok(engine_keep_file(g, path, &e), &e);
    make_searched(&first, 1, 0, PROMPT, TOKENS);
    run_one(g, &first);
    assert_ok(engine_session_save(g, path, &e), &e);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(engine_session_save(g, path, &e), ERR_IO); /* the disk is full: the file of before stays */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    engine_close(g);
    expect_refusal(path, 0, WINDOWED, ERR_NOT_FOUND);
    expect_refusal(path, 0, ALONE, ERR_NOT_FOUND);
    expect_refusal(path, 2, HYBRID, ERR_NOT_FOUND); /* cut otherwise */
    e = (err){0};
    g = open_kept(0, HYBRID, "ngram"); /* rows apart are not in the file */
    assert_ok(engine_keep_file(g, path, &e), &e);
    engine_close(g);
    change_file(path, -1, false); /* of the last snapshot */
    expect_refusal(path, 0, HYBRID, ERR_FORMAT);
    change_file(path, -1, false);
    change_file(path, 16, false); /* the version */
    expect_refusal(path, 0, HYBRID, ERR_FORMAT);
    change_file(path, 16, false);
    change_file(path, -1, true);
    expect_refusal(path, 0, HYBRID, ERR_FORMAT);
    remove(path);
    mem_free(path);
}

/* Engines one after another, and two at once, with one folder. */
static void folders(void **unused)
{
    (void)unused;
    static text first[3], next;
    char *dir = mem_str(temp_path("snapshots"));
    char remove[400];
    err e = {0};
    snprintf(remove, sizeof remove, "rm -rf %s", dir);
    for (int kind = 0; kind < KINDS; kind++) {
        engine *g = open_kept(0, kind, NULL), *other = open_kept(4, kind, "ngram");
        engine_stats st;
        assert_ok(engine_keep_folder(g, dir, 1 << 28, &e), &e);
        for (int k = 0; k < 3; k++) {
            make_searched(&first[k], 3 * k, 0, PROMPT, TOKENS);
            run_one(g, &first[k]);
        }
        engine_close(g);
        g = open_kept(0, kind, NULL);
        assert_ok(engine_keep_folder(g, dir, 1 << 28, &e), &e);
        assert_ok(engine_keep_folder(other, dir, 1 << 28, &e), &e); /* other devices: other files */
        for (int k = 0; k < 3; k++)
            for (int part = 0; part <= TOKENS; part += TOKENS) {
                make_next(&next, &first[k], 3 * k, part);
                run_one(g, &next);
                assert_int_equal(next.cached, part ? 512 : 256);
                expect_alone(&next, kind);
                make_next(&next, &first[k], 3 * k, part);
                run_one(other, &next);
                expect_alone(&next, kind);
            }
        engine_get_stats(g, &st);
        assert_true(st.disk_read > 0);
        text_all_given_back(g);
        engine_close(g);
        engine_close(other);
        assert_int_equal(system(remove), 0);
    }
    mem_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sessions), cmocka_unit_test(refused),
                                       cmocka_unit_test(folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
