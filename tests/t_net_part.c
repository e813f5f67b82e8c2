/* t_net_part.c - leaders of one model on one node have one part of it: the same texts as alone, its weights counted
 * once, whoever comes or leaves first; what differs in anything that weights or their use depend on is another part; a
 * file that changes on the disk ends all that read it. */
#include "copied_model.h"
#include "node_rig.h"

#include "engine/engine_state.h"

#include <fcntl.h>

enum { NEW = 24, CTX = 256, LEADERS = 3 };

typedef struct text {
    int n, ended;
    int32_t ids[NEW];
    char error[ERR_MSG_MAX];
} text;

/* One that leads, on a thread of its own. */
typedef struct leader_case {
    engine_options o;
    engine *g;
    text got;
    pthread_t thread;
} leader_case;

static bool hear(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (ev->token >= 0 && t->n < NEW) t->ids[t->n++] = ev->token;
    t->ended += ev->finish != FINISH_NONE;
    if (ev->finish == FINISH_ERROR) snprintf(t->error, sizeof t->error, "%s", ev->error);
    return true;
}

static void ask(engine *g, text *to)
{
    static const int32_t ids[] = {5, 6, 7, 9, 11, 40, 41};
    err e = {0};
    const query q = {.ids = ids,
                     .n_ids = 7,
                     .max_tokens = NEW,
                     .ignore_eos = true,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .n_logprobs = -1,
                     .on_token = hear,
                     .ctx = to};
    *to = (text){.n = 0};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
}

static void finish(engine *g)
{
    err e = {0};
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
}

static void *open_and_answer(void *arg)
{
    leader_case *c = arg;
    err e = {0};
    if (!c->g) assert_ok(engine_open(&c->g, &c->o, &e), &e);
    ask(c->g, &c->got);
    finish(c->g);
    return NULL;
}

static void answer_at_once(leader_case *all, int n)
{
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, open_and_answer, &all[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(all[i].thread, NULL);
}

/* What it says in this process alone. */
static text said_here(engine_options o)
{
    leader_case c = {.o = o};
    o.devices = NULL;
    c.o.devices = "cpu";
    c.o.key_file = NULL;
    open_and_answer(&c);
    engine_close(c.g);
    assert_true(c.got.n == NEW && !c.got.error[0]);
    return c.got;
}

static void expect_text(const leader_case *c, const text *want)
{
    if (c->got.error[0]) fail_msg("%s: %s", c->o.devices, c->got.error);
    assert_int_equal(c->got.n, want->n);
    assert_memory_equal(c->got.ids, want->ids, sizeof want->ids);
}

/* Waits until so many leaders are left there, and less memory is lent; then what it does. */
static node_report report_below(const nodes *n, int leases, uint64_t lent)
{
    node_report r = {.leases = -1};
    for (int k = 0; k < 2000 && (r.leases != leases || r.memory_lent >= lent); k++, usleep(5000))
        node_look(n->at[0], &r);
    assert_int_equal(r.leases, leases);
    assert_true(r.memory_lent < lent);
    return r;
}

static engine_options options_of(const nodes *n, char *devices, const char *form)
{
    strcpy(devices, list_of(n, form));
    return (engine_options){
        .devices = devices, .threads = 1, .ctx = CTX, .chunk = 64, .max_batch = 2, .peer_wait = 60, .key_file = n->key};
}

/* Both open at the same time, so that one waits for the other. */
static void weights_count_once(void **unused)
{
    (void)unused;
    const int64_t mib = 1 << 20;
    char devices[400];
    nodes n;
    nodes_open(&n, NULL, NULL);
    n.o.memory = 1 << 30;
    nodes_again(&n);
    const engine_options o = options_of(&n, devices, "A/cpu");
    const text want = said_here(o);
    for (int first = 0; first < 2; first++) { /* to leave */
        leader_case both[2] = {{.o = o}, {.o = o}};
        answer_at_once(both, 2);
        for (int i = 0; i < 2; i++) expect_text(&both[i], &want);
        const node_report two = report_below(&n, 2, UINT64_MAX);
        const int64_t pages[] = {nodes_page_bytes(both[0].g), nodes_page_bytes(both[1].g)};
        engine_close(both[first].g);
        const node_report one = report_below(&n, 1, two.memory_lent);
        answer_at_once(&both[!first], 1);
        expect_text(&both[!first], &want);
        engine_close(both[!first].g);
        const node_report none = report_below(&n, 0, 1);
        const int64_t own = (int64_t)(two.memory_lent - one.memory_lent) - pages[first];
        const int64_t weights = (int64_t)one.memory_lent - pages[!first] - own;
        assert_true(own > mib / 4 && own < 4 * mib && weights > 3 * mib); /* 4.5 MiB */
        assert_true(two.parts == 1 && one.parts == 1 && none.parts == 0);
    }
    nodes_close(&n);
}

static void others_have_their_own(void **unused)
{
    (void)unused;
    static const struct {
        const char *form;
        int parts; /* on the node, with that of "A/cpu" */
        const char *act, *weights;
    } other[] = {{"A/cpu", 1, NULL, NULL},   {"A/cpu", 2, "f32", NULL},    {"A/cpu", 2, NULL, "q4"},
                 {"A/cpu:2", 2, NULL, NULL}, {"A/cpu&cpu", 2, NULL, NULL}, {"A/cpu&A/cpu", 3, NULL, NULL}};
    char plain[400], devices[400];
    nodes n;
    nodes_open(&n, NULL, NULL);
    leader_case c = {.o = options_of(&n, plain, "A/cpu")};
    open_and_answer(&c);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        leader_case d = {.o = options_of(&n, devices, other[i].form)};
        d.o.act = other[i].act;
        d.o.weights = other[i].weights;
        const text want = said_here(d.o);
        open_and_answer(&d);
        expect_text(&d, &want);
        node_report r;
        node_look(n.at[0], &r);
        if (r.parts != other[i].parts) fail_msg("%s: %d parts", other[i].form, r.parts);
        engine_close(d.g);
        report_below(&n, 1, r.memory_lent);
    }
    engine_close(c.g);
    nodes_close(&n);
}

/* A node without a copy: leaders of the same contents, in other files, have one; other contents are another. */
static void fetched_parts_go_by_contents(void **unused)
{
    (void)unused;
    const char *const changed = "model.layers.1.mlp.up_proj.weight";
    char dir[LEADERS][300], devices[400];
    leader_case all[LEADERS];
    text want[LEADERS];
    nodes n;
    nodes_open(&n, NULL, NULL);
    const engine_options o = options_of(&n, devices, "A/cpu");
    for (int i = 0; i < LEADERS; i++) {
        char name[20];
        snprintf(name, sizeof name, "part-%d", i);
        snprintf(dir[i], sizeof dir[i], "%s", temp_path(name));
        write_model(dir[i], &(layout){.shards = 1 + i % 2, .other_byte = i == 2 ? changed : NULL});
        all[i] = (leader_case){.o = o};
        all[i].o.model = dir[i];
        want[i] = said_here(all[i].o);
    }
    answer_at_once(all, LEADERS);
    for (int i = 0; i < LEADERS; i++) expect_text(&all[i], &want[i]);
    assert_int_equal(report_below(&n, LEADERS, UINT64_MAX).parts, 2);
    for (int i = 0; i < LEADERS; i++) engine_close(all[i].g);
    for (int i = 0; i < LEADERS; i++) drop_folder(dir[i]);
    nodes_close(&n);
}

static void write_at_end(const char *path, const uint8_t *bytes, size_t n)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, bytes, n, st.st_size - (off_t)n) == (ssize_t)n);
    close(fd);
}

/* Both texts end with an error that names the node's file, or had ended; when it is whole again both go on. */
static void a_changed_file_ends_both(void **unused)
{
    (void)unused;
    char dir[300], devices[400], *path;
    uint8_t end[64], other[64];
    buf whole = {0};
    err e = {0};
    nodes n;
    snprintf(dir, sizeof dir, "%s", temp_path("part-changed"));
    write_model(dir, &(layout){.shards = 1});
    path = file_join(dir, "model.safetensors");
    assert_ok(file_read(&whole, path, 1 << 20, &e), &e);
    for (int i = 0; i < 64; i++) end[i] = whole.p[whole.n - 64 + (size_t)i], other[i] = end[i] ^ 1;
    nodes_open(&n, dir, NULL);
    leader_case both[2];
    for (int i = 0; i < 2; i++) {
        both[i] = (leader_case){.o = options_of(&n, devices, "A/cpu")};
        both[i].o.model = model_source;
    }
    const text want = said_here(both[0].o);
    answer_at_once(both, 2);
    assert_int_equal(report_below(&n, 2, UINT64_MAX).parts, 1);
    bool more;
    for (int i = 0; i < 2; i++) {
        ask(both[i].g, &both[i].got);
        for (int k = 0; k < 4; k++) assert_ok(engine_infer(both[i].g, &more, &e), &e);
    }
    write_at_end(path, other, sizeof other);
    for (int i = 0; i < 2; i++) {
        finish(both[i].g);
        assert_int_equal(both[i].got.ended, 1);
        if (!strstr(both[i].got.error, dir)) fail_msg("%d tokens, \"%s\"", both[i].got.n, both[i].got.error);
        assert_memory_equal(both[i].got.ids, want.ids, (size_t)both[i].got.n * sizeof *want.ids);
    }
    write_at_end(path, end, sizeof end);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 100; k++, usleep(100000)) { /* until the node lends it again */
            open_and_answer(&both[i]);
            if (!both[i].got.error[0]) break;
        }
        expect_text(&both[i], &want);
    }
    assert_int_equal(report_below(&n, 2, UINT64_MAX).parts, 1);
    for (int i = 0; i < 2; i++) engine_close(both[i].g);
    nodes_close(&n);
    mem_free(path);
    buf_free(&whole);
    drop_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_count_once), cmocka_unit_test(others_have_their_own),
                                       cmocka_unit_test(fetched_parts_go_by_contents),
                                       cmocka_unit_test(a_changed_file_ends_both)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
