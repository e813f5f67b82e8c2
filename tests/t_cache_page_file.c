/* t_cache_page_file.c - pages on disk: a text goes on after them as after those in memory, with the same tokens; in a
 * folder and in a file, under windows, on several devices with several steps under way, with salts and rope tables of
 * their own; what is damaged, foreign, of another model or of another cache is neither read nor touched; a folder stays
 * within its bytes; two engines share one. */
#include "tests/command.h"
#include "text_rig.h"

#include "base/json.h"
#include "base/log.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CTX = 400, TOKENS = 40, PROMPT = 330, WHOLE = (PROMPT - 1) / PAGE_TOKENS * PAGE_TOKENS };
static const char *const models[] = {"llama", "llama-dynamic", "gemma3"};

static const fake_options fake_of_each = {.delay = 20};
static const backend_use more_backends[] = {{&fake_backend, &fake_of_each}, {0}};

static engine *open_model(const char *name, engine_options o)
{
    err e = {0};
    engine *g;
    char path[200];
    snprintf(path, sizeof path, "tests/vectors/models/%s", name);
    o.model = path;
    o.ctx = CTX;
    o.threads = 1;
    o.more_backends = more_backends;
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* A prompt of n tokens, drawn by the seed. */
static void add(engine *g, text *t, int seed, int n, const uint8_t *salt)
{
    text_make(t, seed, 0, n, TOKENS);
    for (int i = 0; i < n; i++) t->ids[i] %= engine_describe(g)->n_vocab;
    t->q.salt = salt;
    t->q.sample.temperature = 0.9;
    t->q.sample.repetition_penalty = 1;
    text_add(g, t);
}

static void run_one(engine *g, text *t, int seed, const uint8_t *salt)
{
    add(g, t, seed, PROMPT, salt);
    text_run(g);
    assert_int_equal(t->n, TOKENS);
}

/* ---- the form of files */

/* Every changed byte, every other length and every other model is seen. */
static void check_heads(uint64_t slot)
{
    const page_shape own = {.made_for = {7}, .bytes = {64, 128, [GROUP_MAX] = slot}};
    const page_record r[3] = {
        {.name = {1}, .groups = 1}, {.name = {2}, .groups = 3}, {.name = {3}, .groups = slot ? PAGE_SLOT : 2}};
    const uint64_t pages = 64 + 192 + (slot ? slot : 128);
    page_record got[3];
    page_shape other = own;
    uint32_t n;
    err e = {0};
    buf file = {0};
    page_file_add_head(&file, &own, r, 3);
    const size_t head = file.n;
    assert_ok(page_file_read_head(buf_span(&file), head + pages, &own, got, 3, &n, &e), &e);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) assert_true(got[i].groups == r[i].groups && got[i].name[0] == i + 1);
    assert_true(got[0].offset == head && got[1].offset == head + 64 && got[2].offset == head + 256);
    for (size_t i = 0; i < head; i++) {
        file.p[i] ^= 1 << i % 8;
        assert_int_equal(page_file_read_head(buf_span(&file), head + pages, &own, got, 3, &n, NULL), ERR_FORMAT);
        file.p[i] ^= 1 << i % 8;
        assert_int_equal(page_file_read_head(span_of(file.p, i), i, &own, got, 3, &n, NULL), ERR_FORMAT);
    }
    for (uint64_t size = head; size < head + pages + 3; size++)
        assert_int_equal(page_file_read_head(buf_span(&file), size, &own, got, 3, &n, NULL),
                         size == head + pages ? OK : ERR_FORMAT);
    other.made_for[31] = 1;
    assert_int_equal(page_file_read_head(buf_span(&file), head + pages, &other, got, 3, &n, NULL), ERR_NOT_FOUND);
    other = own;
    other.bytes[GROUP_MAX] = slot ? 0 : 32; /* a model without slots, or with them */
    assert_int_equal(page_file_read_head(buf_span(&file), head + pages, &other, got, 3, &n, NULL), ERR_NOT_FOUND);
    buf_free(&file);
}

static void heads_are_checked(void **unused)
{
    (void)unused;
    check_heads(0);
    check_heads(32);
}

/* ---- folders */

static const char *empty_folder(void)
{
    static char path[300];
    char line[400];
    snprintf(path, sizeof path, "%s", temp_path("pages"));
    snprintf(line, sizeof line, "rm -rf %s", path);
    assert_int_equal(system(line), 0);
    return path;
}

static void keep(engine *g, const char *dir, int64_t bytes)
{
    err e = {0};
    assert_ok(engine_keep_folder(g, dir, bytes, &e), &e);
}

/* Calls each file; returns their number. */
static int each_file(const char *dir, void (*visit)(const char *path, void *ctx), void *ctx)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char path[600];
        if (f->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (visit) visit(path, ctx);
        n++;
    }
    closedir(d);
    return n;
}

static void add_size(const char *path, void *sum)
{
    struct stat st;
    if (stat(path, &st) == 0) *(int64_t *)sum += st.st_size; /* a store may have removed it just now */
}

static int64_t folder_bytes(const char *dir)
{
    int64_t sum = 0;
    each_file(dir, add_size, &sum);
    return sum;
}

static const struct {
    const char *devices;
    int in_flight, chunk, max_batch;
} ways[] = {{NULL, 0, 0, 8},
            {NULL, 0, 24, 1}, /* under a window only what it sees is still there at the end */
            {"cpu:1;cpu:1", 0, 100, 8},
            {"cpu:1&cpu:1", 2, 64, 8},
            {"cpu&fake;fake", 4, 50, 8},
            {"fake;fake", 5, 7, 3}};
enum { WAYS = sizeof ways / sizeof *ways };

static engine *open_way(const char *name, int i)
{
    return open_model(name, (engine_options){.devices = ways[i].devices,
                                             .choices.in_flight = ways[i].in_flight,
                                             .chunk = ways[i].chunk,
                                             .max_batch = ways[i].max_batch});
}

/* An engine that ends, and another one: the text is the same, and its prompt is found as far as pages are whole. Then
 * beside others, which are at work. */
static void goes_on(void **unused)
{
    (void)unused;
    static text want, other_want, got, other;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        engine *g = open_model(models[m], (engine_options){0});
        run_one(g, &want, 1, NULL);
        run_one(g, &other_want, 2, NULL);
        engine_close(g);
        for (int w = 0; w < WAYS; w++) {
            const char *dir = empty_folder();
            for (int turn = 0; turn < 3; turn++) {
                g = open_way(models[m], w);
                keep(g, dir, 1 << 30);
                if (turn == 2) {
                    add(g, &other, 2, PROMPT, NULL);
                    for (int i = 0; i < 3; i++) assert_int_equal(engine_infer(g, &(bool){false}, NULL), OK);
                }
                run_one(g, &got, 1, NULL);
                text_same(&want, &got);
                assert_int_equal(got.cached, turn ? WHOLE : 0);
                if (turn == 2) text_same(&other_want, &other);
                engine_close(g);
            }
            if (ways[w].max_batch > 1) /* there was memory for both */
                assert_int_equal(each_file(dir, NULL, NULL), 2 * ((PROMPT + TOKENS - 1) / PAGE_TOKENS));
        }
    }
}

/* Pages of one salt are not those of another, and no file has a salt or an id in it. */
static void salts_are_kept(void **unused)
{
    (void)unused;
    static const uint8_t salt[2][SALT_BYTES] = {{"a key of somebody"}, {"a key of somebody else"}};
    static text t;
    const char *dir = empty_folder();
    for (int turn = 0; turn < 3; turn++) {
        engine *g = open_model("llama", (engine_options){0});
        keep(g, dir, 1 << 30);
        run_one(g, &t, 1, salt[turn == 2]);
        assert_int_equal(t.cached, turn == 1 ? WHOLE : 0);
        engine_close(g);
    }
    char line[500];
    snprintf(line, sizeof line, "grep -rq 'a key of' %s", dir);
    assert_int_not_equal(system(line), 0);
}

/* ---- what is not read */

static void change(const char *path, long at, int by)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    const int c = fgetc(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    fputc(c ^ by, f);
    fclose(f);
}

static void damage_head(const char *path, void *unused) { (void)unused, change(path, 60, 1); }
static void damage_sum(const char *path, void *unused) { (void)unused, change(path, 130, 1); }
static void damage_page(const char *path, void *unused) { (void)unused, change(path, -7, 4); }
static void cut_off(const char *path, void *unused) { (void)unused, assert_int_equal(truncate(path, 500), 0); }
static void make_empty(const char *path, void *unused) { (void)unused, assert_int_equal(truncate(path, 0), 0); }
static void make_foreign(const char *path, void *unused)
{
    (void)unused;
    FILE *f = fopen(path, "wb");
    fputs("these are the notes of somebody, and no pages at all, though they are called so", f);
    fclose(f);
}

/* The SHA-256 of what a folder holds. */
static void add_contents(const char *path, void *sum)
{
    buf all = {0};
    uint8_t one[SHA256_BYTES];
    assert_int_equal(file_read(&all, path, 1 << 24, NULL), OK);
    buf_str(&all, path);
    sha256_of(all.p, all.n, one);
    for (int i = 0; i < SHA256_BYTES; i++) ((uint8_t *)sum)[i] ^= one[i]; /* in any order */
    buf_free(&all);
}

/* Every file is damaged in one way: none is read, none is changed, the text is the same. */
static void damaged_files_stay(void **unused)
{
    (void)unused;
    static void (*const how[])(const char *path, void *ctx) = {damage_head, damage_sum, damage_page,
                                                               cut_off,     make_empty, make_foreign};
    static text want, got;
    engine *g = open_model("llama", (engine_options){0});
    run_one(g, &want, 1, NULL);
    engine_close(g);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *dir = empty_folder();
        uint8_t before[SHA256_BYTES] = {0}, after[SHA256_BYTES] = {0};
        g = open_model("llama", (engine_options){0});
        keep(g, dir, 1 << 30);
        run_one(g, &got, 1, NULL);
        engine_close(g);
        const int n = each_file(dir, how[i], NULL);
        char notes[400];
        snprintf(notes, sizeof notes, "%s/notes.txt", dir);
        make_foreign(notes, NULL);
        each_file(dir, add_contents, before);
        for (int turn = 0; turn < 2; turn++) {
            g = open_model("llama", (engine_options){0});
            keep(g, dir, turn ? 1 << 20 : 1 << 30);
            run_one(g, &got, 1, NULL);
            assert_int_equal(got.cached, 0);
            text_same(&want, &got);
            engine_close(g);
        }
        assert_int_equal(each_file(dir, add_contents, after), n + 1);
        assert_memory_equal(before, after, sizeof before);
    }
}

/* Pages of another model, of another cache, of another division over devices are not taken, and all keep theirs. */
static void others_are_kept_apart(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *kv, *devices;
    } other[] = {{"llama", NULL, NULL}, {"llama", "q8", NULL}, {"llama", NULL, "cpu:1&cpu:1"}, {"qwen3", NULL, NULL}};
    static text t;
    const char *dir = empty_folder();
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
            engine *g = open_model(other[i].model, (engine_options){.kv = other[i].kv, .devices = other[i].devices});
            keep(g, dir, 1 << 30);
            run_one(g, &t, 1, NULL);
            assert_int_equal(t.cached, turn ? WHOLE : 0);
            engine_close(g);
        }
}

/* ---- bounds */

static void stays_within_bytes(void **unused)
{
    (void)unused;
    enum { TEXTS = 40, MOST = 1 << 20, EACH = (PROMPT + TOKENS - 1) / PAGE_TOKENS };
    static text t;
    const char *dir = empty_folder();
    engine *g = open_model("llama", (engine_options){0});
    keep(g, dir, MOST);
    for (int k = 0; k < TEXTS; k++) {
        run_one(g, &t, k, NULL);
        engine_stats st = {0};
        for (int i = 0; i < 5000 && st.disk_written < EACH * (uint64_t)(k + 1); i++) { /* idle */
            engine_wait(g, 5);
            text_run(g);
            engine_get_stats(g, &st);
        }
        assert_true(folder_bytes(dir) <= MOST);
    }
    engine_close(g);
    assert_true(folder_bytes(dir) <= MOST && folder_bytes(dir) > MOST / 2);
    g = open_model("llama", (engine_options){0});
    keep(g, dir, MOST);
    run_one(g, &t, TEXTS - 1, NULL);
    assert_int_equal(t.cached, WHOLE);
    run_one(g, &t, 0, NULL);
    assert_int_equal(t.cached, 0);
    engine_close(g);
}

/* Two engines at once; then one whose pages are too few for all it finds. */
static void engines_share(void **unused)
{
    (void)unused;
    static text a, b;
    const char *dir = empty_folder();
    engine *g = open_model("gemma3", (engine_options){0}), *h = open_model("gemma3", (engine_options){0});
    keep(g, dir, 1 << 30);
    keep(h, dir, 1 << 30);
    for (int k = 0; k < 4; k++) {
        add(g, &a, k, PROMPT, NULL);
        add(h, &b, k, PROMPT, NULL);
        for (bool more = true, other = true; more || other;) {
            assert_int_equal(engine_infer(g, &more, NULL), OK);
            assert_int_equal(engine_infer(h, &other, NULL), OK);
        }
        text_same(&a, &b);
    }
    engine_close(g);
    engine_close(h);
    g = open_model("gemma3", (engine_options){.max_batch = 1});
    keep(g, dir, 1 << 30);
    for (int k = 0; k < 4; k++) {
        run_one(g, &a, k, NULL);
        assert_int_equal(a.cached, WHOLE);
    }
    text_same(&b, &a);
    engine_close(g);
}

/* ---- a file of one text */

static int open_file(engine **g, const char *name, const char *path, err *e)
{
    *g = open_model(name, (engine_options){.max_batch = 1});
    return engine_keep_file(*g, path, e);
}

static void a_text_in_a_file(void **unused)
{
    (void)unused;
    static text want, got;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const char *path = temp_path("session");
        engine *g = open_model(models[m], (engine_options){0});
        err e = {0};
        buf before = {0}, after = {0};
        run_one(g, &want, 1, NULL);
        engine_close(g);
        unlink(path);
        for (int turn = 0; turn < 3; turn++) {
            assert_ok(open_file(&g, models[m], path, &e), &e);
            run_one(g, &got, 1, NULL);
            assert_int_equal(got.cached, turn ? WHOLE : 0);
            text_same(&want, &got);
            assert_ok(engine_session_save(g, path, &e), &e);
            engine_close(g);
            assert_ok(file_read(turn ? &after : &before, path, 1 << 24, &e), &e);
        }
        assert_int_equal(after.n, 2 * before.n); /* read twice, and written anew alike */
        assert_memory_equal(before.p, after.p, before.n);
        assert_memory_equal(before.p, after.p + before.n, before.n);
        assert_int_equal(open_file(&g, "qwen3", path, &e), ERR_NOT_FOUND);
        engine_close(g);
        for (size_t at = 0; at < before.n; at += before.n / 23) {
            change(path, (long)at, 8);
            e = (err){0};
            const int rc = open_file(&g, models[m], path, &e);
            assert_true(rc == ERR_FORMAT && strstr(e.msg, path));
            engine_close(g);
            change(path, (long)at, 8);
        }
        assert_int_equal(truncate(path, (off_t)before.n - 1), 0);
        assert_int_equal(open_file(&g, models[m], path, &e), ERR_FORMAT);
        engine_close(g);
        unlink(path);
        buf_free(&before);
        buf_free(&after);
    }
}

/* Continues ids on the built-in model; the ids that were made, and how many tokens of the prompt were not computed. */
static int64_t continue_ids(const char *ids, int n, const char *flag, buf *made)
{
    char args[4000];
    buf out = {0}, errors = {0};
    json *root;
    err e = {0};
    snprintf(args, sizeof args, "run --json --seed 3 -n %d --ids %s %s", n, ids, flag);
    if (command_run(NULL, args, &out, &errors)) fail_msg("%s", buf_cstr(&errors));
    assert_ok(json_parse(&root, buf_span(&out), "output", &e), &e);
    made->n = 0;
    assert_true(json_print(made, json_get(root, "ids"), false));
    const int64_t cached = json_int(json_get(root, "cached_tokens"), -1);
    json_free(root);
    buf_free(&out);
    buf_free(&errors);
    return cached;
}

/* run --session: the same text with and without; a prompt that goes on after an answer finds the answer too. */
static void run_with_a_session(void **unused)
{
    (void)unused;
    char flag[400], notes[400], ids[3000] = "1", args[1000], path[300], other[300];
    buf want = {0}, got = {0}, errors = {0};
    for (int i = 1; i < 300; i++) snprintf(ids + strlen(ids), 10, ",%d", 3 + i * i % 401);
    snprintf(path, sizeof path, "%s", temp_path("session"));
    snprintf(other, sizeof other, "%s", temp_path("notes"));
    snprintf(flag, sizeof flag, "--session %s", path);
    unlink(path);
    assert_int_equal(continue_ids(ids, 200, "", &want), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(continue_ids(ids, 200, flag, &got), turn ? 256 : 0);
        assert_string_equal(buf_cstr(&want), buf_cstr(&got));
    }
    snprintf(ids + strlen(ids), 1200, ",%.*s", (int)want.n - 2, buf_cstr(&want) + 1);
    assert_int_equal(continue_ids(ids, 20, "", &want), 0);
    assert_int_equal(continue_ids(ids, 20, flag, &got), 448);
    assert_string_equal(buf_cstr(&want), buf_cstr(&got));
    make_foreign(other, NULL);
    snprintf(notes, sizeof notes, "run -p x -n 1 --session %s", other);
    snprintf(args, sizeof args, "run -p x -n 1 --session %s --kv q8", path);
    for (int i = 0; i < 2; i++) {
        uint8_t before[SHA256_BYTES] = {0}, after[SHA256_BYTES] = {0};
        add_contents(i ? path : other, before);
        assert_int_equal(command_run(NULL, i ? args : notes, &got, &errors), 1);
        assert_non_null(strstr(buf_cstr(&errors), i ? "inferflow: error: /" : "no file of pages"));
        add_contents(i ? path : other, after);
        assert_memory_equal(before, after, sizeof before);
    }
    unlink(path);
    unlink(other);
    buf_free(&want);
    buf_free(&got);
    buf_free(&errors);
}

int main(void)
{
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_checked),     cmocka_unit_test(goes_on),
        cmocka_unit_test(salts_are_kept),        cmocka_unit_test(damaged_files_stay),
        cmocka_unit_test(others_are_kept_apart), cmocka_unit_test(stays_within_bytes),
        cmocka_unit_test(engines_share),         cmocka_unit_test(a_text_in_a_file),
        cmocka_unit_test(run_with_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
