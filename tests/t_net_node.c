/* t_net_node.c - models over nodes: the same bits as on the CPU alone, for layers, columns and both, on nodes of this
 * process that are reached by real connections. What a node refuses, and what is left when somebody goes.
 *
 * A part of the models of tests/vectors, all of them with DEVICES=all or one with DEVICES=its name. */
#include "base/clock.h"
#include "engine/engine_state.h"
#include "node_rig.h"
#include "copied_model.h"
#include "vector_rig.h"

#include <semaphore.h>

/* Devices, what gives the same bits here, how their ranks join, and where tables and head lie. */
static const struct {
    const char *nodes, *here;
    reduce_choice reduce;
    ends_choice ends;
} forms[] = {{"A/cpu", "cpu", REDUCE_EXACT, ENDS_AWAY},
             {"A/cpu;B/cpu", "cpu", REDUCE_EXACT, ENDS_HOME},
             {"A/cpu&B/cpu", "cpu", REDUCE_EXACT, ENDS_AWAY},
             {"cpu&A/cpu", "cpu", REDUCE_EXACT, ENDS_HOME},
             {"A/cpu&B/cpu&C/cpu", "cpu&cpu&cpu", REDUCE_INT4, ENDS_HOME},
             {"cpu&A/cpu;B/cpu&C/cpu", "cpu", REDUCE_EXACT, ENDS_AWAY},
             {"A/cpu*3&B/cpu", "cpu", REDUCE_EXACT, ENDS_HOME},
             {"A/cpu&B/cpu", "cpu&cpu", REDUCE_F16, ENDS_AWAY},
             {"A/cpu;B/cpu&cpu", "cpu", REDUCE_EXACT, ENDS_AWAY}};
enum { FORMS = sizeof forms / sizeof *forms };

static int compare_folder(const char *folder, const char *name, int turn)
{
    const char *which = getenv("DEVICES");
    const int form = (which ? turn : turn / 8) % FORMS;
    int wrong = 0;
    nodes n;
    buf want = {0}, got = {0};
    if (which ? strcmp(which, "all") && strcmp(which, name) : turn % 8) return 0;
    const inputs x = inputs_read(folder);
    engine_options o = {.model = folder, .devices = forms[form].here, .choices.reduce = forms[form].reduce, .chunk = 7};
    if (add_logits_over(o, inputs_query(&x), &want)) {
        nodes_open(&n, folder, NULL);
        o.devices = list_of(&n, forms[form].nodes);
        o.key_file = n.key;
        o.choices.ends = forms[form].ends;
        wrong = add_logits_over(o, inputs_query(&x), &got) && !same_bytes(&want, &got);
        if (wrong) printf("%s: other logits on %s, ends %d\n", folder, forms[form].nodes, forms[form].ends);
        nodes_close(&n);
    }
    buf_free(&want);
    buf_free(&got);
    return wrong;
}

static void models(void **unused)
{
    (void)unused;
    check_models(vectors, compare_folder);
}

/* Rows that pass coded: where groups lie, and in which chunks, changes nothing. */
static void wires(void **unused)
{
    (void)unused;
    static const wire_type codec[] = {WIRE_F16, WIRE_INT8, WIRE_INT4};
    static const char *const form[][2] = {{"cpu;A/cpu;cpu", "cpu;cpu;cpu"},
                                          {"cpu;A/cpu&B/cpu;C/cpu;cpu", "cpu;cpu&cpu;cpu;cpu"},
                                          {"A/cpu;B/cpu&C/cpu", "C/cpu;A/cpu&B/cpu"},
                                          {"A/cpu;B/cpu&C/cpu", "cpu;cpu&cpu"}}; /* ends away */
    int32_t ids[60];
    nodes n;
    for (int i = 0; i < 60; i++) ids[i] = 3 + i * 7 % 200;
    nodes_open(&n, NULL, NULL);
    for (int i = 0; i < 12; i++) {
        buf rows[2] = {{0}, {0}};
        for (int k = 0; k < 2; k++) {
            const engine_options o = {.devices = list_of(&n, form[i % 4][k]),
                                      .key_file = n.key,
                                      .choices = {.ends = i % 4 == 3 ? ENDS_AWAY : ENDS_HOME,
                                                  .wire = codec[i / 4],
                                                  .codec_group = i % 2 ? 32 : 0},
                                      .chunk = (const int[]){1, 7, 128}[(i + k) % 3]};
            assert_true(add_logits_over(o, (query){.ids = ids, .n_ids = 60}, &rows[k]));
        }
        if (!same_bytes(&rows[0], &rows[1]))
            fail_msg("%s: other logits on %s than on %s", wire_infos[codec[i / 4]].name, form[i % 4][0],
                     form[i % 4][1]);
        buf_free(&rows[0]);
        buf_free(&rows[1]);
    }
    nodes_close(&n);
}

/* ---- what is refused */

static void refuses(const char *devices, const char *key, const char *folder, int code, const char *what)
{
    const engine_options o = {.model = folder, .devices = devices, .key_file = key};
    err e = {0};
    engine *g = NULL;
    assert_int_equal(engine_open(&g, &o, &e), code);
    if (!strstr(e.msg, what)) fail_msg("%s: %s", devices, e.msg);
}

static void refusals(void **unused)
{
    (void)unused;
    nodes n;
    const char *other = temp_path("other-key");
    err e = {0};
    nodes_open(&n, NULL, NULL);
    unlink(other);
    assert_ok(key_file_write(other, &e), &e);
    refuses(list_of(&n, "A/cpu"), NULL, NULL, ERR_USAGE, "need --key-file");
    refuses(list_of(&n, "A/cpu"), other, NULL, ERR_FORMAT, "the key is not accepted");
    refuses("127.0.0.1:1/cpu", n.key, NULL, ERR_IO, "127.0.0.1:1");
    refuses(list_of(&n, "A/tpu"), n.key, NULL, ERR_USAGE, "no device \"tpu\" here");
    nodes_close(&n);
    unlink(other);
}

/* What a node lends, by name. */
static void lends_some(void **unused)
{
    (void)unused;
    nodes n;
    err e = {0};
    engine *g;
    nodes_open(&n, NULL, NULL);
    n.o.devices = "cpu:1, cpu:2";
    nodes_again(&n);
    const hello *says = node_says(n.at[0]);
    assert_int_equal(says->n_device, 2);
    assert_string_equal(says->device[1].name, "cpu:2");
    refuses(list_of(&n, "A/cpu:3"), n.key, NULL, ERR_USAGE, ": it lends cpu:1, cpu:2, not cpu:3");
    refuses(list_of(&n, "A/cpu:1;B/cpu:3"), n.key, NULL, ERR_USAGE, ", not cpu:3");
    const engine_options fits = {.devices = list_of(&n, "A/cpu:2&B/cpu:1"), .key_file = n.key};
    assert_ok(engine_open(&g, &fits, &e), &e);
    engine_close(g);
    nodes_close(&n);
}

/* ---- a node that lends little */

static void refuses_little(const nodes *n, const char *form, int64_t ctx, const char *weights, const char *what)
{
    const engine_options o = {.devices = list_of(n, form), .ctx = ctx, .weights = weights, .key_file = n->key};
    const char *name = n->name[0];
    err e = {0};
    engine *g = NULL;
    assert_int_equal(engine_open(&g, &o, &e), ERR_MEMORY);
    if (strncmp(e.msg, name, strlen(name)) || strncmp(e.msg + strlen(name), what, strlen(what))) fail_msg("%s", e.msg);
}

static void lends_little(void **unused)
{
    (void)unused;
    const uint64_t mib = 1 << 20;
    nodes n;
    err e = {0};
    engine *g, *other;
    nodes_open(&n, NULL, NULL);
    n.o.memory = 40 * mib;
    nodes_again(&n);
    assert_true(node_says(n.at[0])->device[0].bytes == 40 * mib);
    const engine_options fits = {
        .devices = list_of(&n, "A/cpu"), .ctx = 256, .chunk = 128, .max_batch = 16, .key_file = n.key};
    for (int i = 0; i < 3; i++) { /* what a lease took is given back */
        assert_ok(engine_open(&g, &fits, &e), &e);
        assert_true(nodes_page_bytes(g) > (int64_t)(2 * mib) && nodes_page_bytes(g) < (int64_t)(20 * mib));
        assert_ok(engine_open(&other, &fits, &e), &e); /* beside it: fewer pages */
        assert_true(nodes_page_bytes(other) < nodes_page_bytes(g));
        engine_close(other);
        engine_close(g);
        nodes_await_end(&n);
    }
    const engine_options twice = {
        .devices = list_of(&n, "A/cpu;A/cpu&A/cpu"), .ctx = 256, .chunk = 128, .max_batch = 16, .key_file = n.key};
    assert_ok(engine_open(&g, &twice, &e), &e); /* three ranks share it */
    engine_close(g);
    n.o.memory = 24 * mib;
    nodes_again(&n);
    refuses_little(&n, "A/cpu", 8192, NULL, ": it lends 24.0 MiB, its part needs 4");
    n.o.memory = mib;
    nodes_again(&n);
    refuses_little(&n, "A/cpu", 256, "f32", ": it lends 1.0 MiB, its part needs 1");
    nodes_close(&n);
}

/* ---- rows that no codec holds */

static bool hear_error(void *ctx, const token_event *ev)
{
    if (ev->finish == FINISH_ERROR) snprintf(ctx, ERR_MSG_MAX, "%s", ev->error);
    return true;
}

/* Noticed on nodes alone, and told by layer and token; a model that computes no numbers is not the codec's fault. */
static void rows_not_held(void **unused)
{
    (void)unused;
    static const struct {
        const char *devices;
        reduce_choice reduce;
        wire_type wire;
    } lists[] = {{"A/cpu&B/cpu", REDUCE_F16, WIRE_F32},
                 {"A/cpu&B/cpu;C/cpu", REDUCE_INT8, WIRE_F32},
                 {"A/cpu;B/cpu", REDUCE_EXACT, WIRE_INT4},
                 {"cpu&A/cpu", REDUCE_INT4, WIRE_F32}};
    const int32_t ids[] = {5, 6, 7};
    char *dir = mem_str(temp_path("node-loud"));
    nodes n;
    for (int w = 0; w < 2; w++) {
        wide_times = w ? INFINITY : 1e12f;
        write_model(dir, &(layout){.shards = 1, .wide = "model.layers.0.mlp.down_proj.weight"});
        nodes_open(&n, dir, NULL);
        for (int i = 0; i < 4; i++) {
            const engine_options o = {.model = dir,
                                      .devices = list_of(&n, lists[i].devices),
                                      .choices = {.ends = ENDS_AWAY, .reduce = lists[i].reduce, .wire = lists[i].wire},
                                      .act = "f32",
                                      .threads = 1,
                                      .key_file = n.key};
            char error[ERR_MSG_MAX] = "", want[200];
            table rows;
            err e = {0};
            engine *g;
            assert_ok(engine_open(&g, &o, &e), &e);
            const query q = {.ids = ids,
                             .n_ids = 3,
                             .max_tokens = 4,
                             .n_logprobs = -1,
                             .beams = 1,
                             .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                             .on_token = hear_error,
                             .ctx = error};
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
            for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
            snprintf(want, sizeof want, "--%s %s cannot hold a row of token 0 (id 5) in layer 0",
                     lists[i].reduce ? "reduce" : "wire",
                     lists[i].reduce ? reduce_words[lists[i].reduce] : wire_infos[lists[i].wire].name);
            if (w) snprintf(want, sizeof want, "computed no finite numbers for token 0 (id 5) in layer 0");
            if (!strstr(error, want)) fail_msg("%s: %s", lists[i].devices, error);
            char rank[TCP_NAME_MAX + 20]; /* the first of those that computed it */
            snprintf(rank, sizeof rank, ", %s%scpu), before any", i < 3 ? n.name[0] : "", i < 3 ? "/" : "");
            if (w && (!strstr(error, " (rank ") || !strstr(error, rank))) fail_msg("%s: %s", lists[i].devices, error);
            rows = table_new(engine_describe(g)->n_vocab, IDS_MAX);
            assert_int_equal(engine_eval(g, ids, 3, -1, keep_rows, &rows, &e), ERR_LIMIT);
            if (!strstr(e.msg, want)) fail_msg("%s: %s", lists[i].devices, e.msg);
            free(rows.at);
            engine_close(g);
        }
        nodes_close(&n);
        drop_folder(dir);
    }
    wide_times = 1;
    mem_free(dir);
}

static void *close_soon(void *g)
{
    usleep(700000);
    engine_close(g);
    return NULL;
}

/* What others have now is waited for; a name that does not exist is not. */
static void waits_for_memory(void **unused)
{
    (void)unused;
    nodes n;
    err e = {0};
    engine *g, *other;
    pthread_t closes;
    nodes_open(&n, NULL, NULL);
    n.o.memory = 10 << 20;
    nodes_again(&n);
    engine_options o = {.devices = list_of(&n, "A/cpu"), .ctx = 256, .chunk = 64, .max_batch = 4, .key_file = n.key};
    o.peer_wait = 20;
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_int_equal(pthread_create(&closes, NULL, close_soon, g), 0);
    assert_ok(engine_open(&other, &o, &e), &e);
    pthread_join(closes, NULL);
    engine_close(other);
    o.devices = "no-such-host.invalid:7071/cpu";
    const double from = clock_now();
    assert_int_equal(engine_open(&g, &o, &e), ERR_UNAVAILABLE);
    assert_true(clock_now() - from < 15);
    nodes_close(&n);
}

/* ---- a node that goes */

typedef struct heard {
    int ended, n;
    int32_t ids[256];
    char error[ERR_MSG_MAX];
} heard;

static bool hear(void *ctx, const token_event *ev)
{
    heard *h = ctx;
    if (ev->token >= 0 && h->n < 256) h->ids[h->n++] = ev->token;
    h->ended += ev->finish != FINISH_NONE;
    if (ev->finish == FINISH_ERROR) snprintf(h->error, sizeof h->error, "%s", ev->error);
    return true;
}

static void lost_node(void **unused)
{
    (void)unused;
    nodes n;
    err e = {0};
    engine *g;
    const int32_t ids[] = {5, 6, 7};
    heard h = {.ended = 0};
    nodes_open(&n, NULL, NULL);
    const engine_options o = {.devices = list_of(&n, "A/cpu&B/cpu;C/cpu"), .threads = 1, .ctx = 256, .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    const query q = {.ids = ids,
                     .n_ids = 3,
                     .max_tokens = 200,
                     .ignore_eos = true,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .on_token = hear,
                     .ctx = &h};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    bool more = true;
    for (int i = 0; i < 20 && more; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(h.ended, 0);
    nodes_drop(&n, 1);
    const double from = clock_now();
    while (more && clock_now() < from + 20) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(h.ended, 1);
    assert_true(clock_now() - from < 5);
    assert_true(h.error[0]);
    engine_close(g);
    nodes_close(&n);
}

/* ---- a node that comes back */

enum { TEXTS = 4 };

static void ask(engine *g, heard h[TEXTS])
{
    static const int32_t ids[] = {5, 6, 7, 8, 9};
    err e = {0};
    for (int i = 0; i < TEXTS; i++) {
        const query q = {.ids = ids + i % 2,
                         .n_ids = 3,
                         .max_tokens = 60 + 10 * i,
                         .ignore_eos = true,
                         .sample = {.temperature = i % 2,
                                    .top_p = 1,
                                    .repetition_penalty = 1,
                                    .typical_p = 1,
                                    .tfs_z = 1,
                                    .fsd_n = 1,
                                    .seed = 3},
                         .beams = i == 3 ? 3 : 1,
                         .length_penalty = 1,
                         .n_logprobs = -1,
                         .on_token = hear,
                         .ctx = &h[i]};
        h[i] = (heard){.ended = 0};
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
}

/* Closes node `which` after some steps, and opens it again where it was. */
static void interrupt(nodes *n, int which, engine *g, int steps)
{
    err e = {0};
    bool more = true;
    for (int i = 0; i < steps && more; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_true(more);
    nodes_drop(n, which);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    nodes_return(n, which);
}

static void finish(engine *g)
{
    err e = {0};
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
}

static void expect_texts(const heard got[TEXTS], const heard want[TEXTS])
{
    for (int k = 0; k < TEXTS; k++) {
        if (got[k].error[0]) fail_msg("text %d: %s", k, got[k].error);
        assert_int_equal(got[k].n, want[k].n);
        assert_memory_equal(got[k].ids, want[k].ids, (size_t)want[k].n * sizeof *want[k].ids);
    }
}

/* A leader that found too little memory beside another one runs fewer texts at once, until it places its model anew. */
static void runs_more_again(void **unused)
{
    (void)unused;
    heard h[TEXTS];
    nodes n;
    err e = {0};
    engine *g, *other;
    nodes_open(&n, NULL, NULL);
    n.o.memory = 30 << 20; /* enough for the most alone, for a quarter of that beside another one */
    nodes_again(&n);
    engine_options o = {.devices = list_of(&n, "A/cpu"), .ctx = 256, .chunk = 64, .peer_wait = 20, .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    const int most = engine_describe(g)->max_batch;
    engine_close(g);
    o.max_batch = 64;
    assert_ok(engine_open(&other, &o, &e), &e);
    o.max_batch = 0;
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_true(engine_describe(g)->max_batch < most);
    engine_close(other);
    ask(g, h);
    interrupt(&n, 0, g, 5);
    finish(g);
    for (int i = 0; i < TEXTS; i++) assert_true(h[i].ended == 1 && !h[i].error[0]);
    assert_int_equal(engine_describe(g)->max_batch, most);
    engine_close(g);
    nodes_close(&n);
}

/* An engine on nodes that lend just enough memory for it, so that fewer texts run at once. A node that lends less than
 * that says how much it lends. */
static engine *open_small(nodes *n, const char *list)
{
    engine *g = NULL;
    int rc = ERR_MEMORY;
    for (n->o.memory = 12 << 20; rc == ERR_MEMORY && n->o.memory < 64 << 20; n->o.memory += 1 << 19) {
        err e = {0};
        nodes_again(n);
        const engine_options o = {
            .devices = list_of(n, list), .ctx = 400, .chunk = 300, .peer_wait = 5, .key_file = n->key};
        rc = engine_open(&g, &o, &e);
        const char *lends = rc ? strstr(e.msg, "it lends ") : NULL;
        if (lends && atof(lends + strlen("it lends ")) > (double)n->o.memory / 0x1p20 + 0.05)
            fail_msg("of %.1f MiB: %s", (double)n->o.memory / 0x1p20, e.msg);
    }
    assert_int_equal(rc, OK);
    assert_true(engine_describe(g)->max_batch < g->most);
    return g;
}

/* Prompts that want logits of all rows make the largest steps. On nodes that lend little memory, no step has more rows
 * than the plan has told its nodes and devices. */
static void scores_of_few(void **unused)
{
    (void)unused;
    static const char *const lists[] = {"A/cpu", "cpu&A/cpu", "A/cpu;cpu"};
    static int32_t ids[400];
    heard h[TEXTS];
    nodes n;
    err e = {0};
    engine_stats stats;
    for (int i = 0; i < 400; i++) ids[i] = 5 + i % 90;
    nodes_open(&n, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        engine *g = open_small(&n, lists[i]);
        for (int k = 0; k < TEXTS; k++) {
            const query q = {.ids = ids + k, .n_ids = 390, .prompt_logprobs = true, .on_token = hear, .ctx = &h[k]};
            h[k] = (heard){.ended = 0};
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        }
        finish(g);
        for (int k = 0; k < TEXTS; k++)
            if (h[k].ended != 1 || h[k].error[0]) fail_msg("%s: text %d: %s", lists[i], k, h[k].error);
        engine_get_stats(g, &stats);
        assert_int_equal(stats.recoveries, 0);
        engine_close(g);
    }
    nodes_close(&n);
}

static void comes_back(void **unused)
{
    (void)unused;
    static const char *const lists[] = {"A/cpu;B/cpu", "A/cpu&B/cpu", "cpu&A/cpu;B/cpu", "A/cpu;B/cpu"};
    heard want[TEXTS], got[TEXTS];
    nodes n;
    err e = {0};
    engine *g;
    assert_ok(engine_open(&g, &(engine_options){.threads = 1, .ctx = 256}, &e), &e);
    ask(g, want);
    finish(g);
    engine_close(g);
    nodes_open(&n, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        const engine_options o = {.devices = list_of(&n, lists[i]),
                                  .choices.ends = i == 3 ? ENDS_AWAY : ENDS_HOME,
                                  .threads = 1,
                                  .ctx = 256,
                                  .peer_wait = 10,
                                  .key_file = n.key};
        assert_ok(engine_open(&g, &o, &e), &e);
        ask(g, got);
        interrupt(&n, 0, g, 5 + 13 * (i % 3));
        interrupt(&n, 1, g, 20);
        finish(g);
        engine_stats stats;
        engine_get_stats(g, &stats);
        assert_int_equal(stats.recoveries, 2);
        assert_true(stats.recomputed_tokens > 0 && !stats.away);
        engine_close(g);
        for (int k = 0; k < TEXTS; k++) {
            if (got[k].error[0]) fail_msg("text %d on %s: %s", k, lists[i], got[k].error);
            assert_int_equal(got[k].ended, 1);
            assert_int_equal(got[k].n, want[k].n);
            assert_memory_equal(got[k].ids, want[k].ids, (size_t)want[k].n * sizeof *want[k].ids);
        }
    }
    nodes_close(&n);
}

/* Where a node was, somebody takes connections and says nothing: the wait is not longer for that. */
static void waits_no_longer(void **unused)
{
    (void)unused;
    nodes n;
    err e = {0};
    engine *g = NULL;
    heard h[TEXTS];
    nodes_open(&n, NULL, NULL);
    engine_options o = {.devices = list_of(&n, "A/cpu"), .threads = 1, .ctx = 256, .peer_wait = 1.5, .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    address silent = *node_address(n.at[0]);
    nodes_drop(&n, 0);
    int fd[TCP_DOORS];
    assert_int_equal(tcp_listen(fd, &silent, &e), 1);
    ask(g, h);
    double from = clock_now();
    finish(g);
    const double lost = clock_now() - from;
    err why = {0};
    assert_true(engine_unavailable(g, &why)); /* new texts are refused at once */
    assert_int_equal(why.code, ERR_NODE_LOST);
    engine_close(g);
    from = clock_now();
    assert_int_equal(engine_open(&g, &o, &e), ERR_IO);
    const double absent = clock_now() - from;
    for (int i = 0; i < TEXTS; i++) assert_true(h[i].ended == 1 && h[i].error[0]);
    if (lost > 3.5 || absent > 3.5) fail_msg("%.1f s after a loss, %.1f s at first", lost, absent);
    close(fd[0]);
    nodes_close(&n);
}

/* Nodes in use are up; these two, of four, are not in use, and that is no fault. */
static void check_peers(engine *g, int unused_0, int unused_1)
{
    engine_peer p[4];
    peers_look(g, true);
    assert_int_equal(engine_peers(g, p, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(p[i].unused, i == unused_0 || i == unused_1);
        assert_true(p[i].unused || p[i].state == ENGINE_PEER_UP);
        assert_true(!p[i].unused || p[i].detail[0]);
    }
}

/* A spare takes a lost node's place, and one that is not there yet. */
static void spare(void **unused)
{
    (void)unused;
    heard want[TEXTS], got[TEXTS];
    nodes n;
    err e = {0};
    engine *g;
    assert_ok(engine_open(&g, &(engine_options){.threads = 1, .ctx = 256}, &e), &e);
    ask(g, want);
    finish(g);
    engine_close(g);
    nodes_open(&n, NULL, NULL);
    const engine_options o = {.devices = list_of(&n, "127.0.0.1:1/cpu | A/cpu*2;B/cpu|C/cpu"),
                              .threads = 1,
                              .ctx = 256,
                              .peer_wait = 10,
                              .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    ask(g, got);
    check_peers(g, 0, 3);
    bool more = true;
    for (int i = 0; i < 10 && more; i++) assert_ok(engine_infer(g, &more, &e), &e);
    nodes_drop(&n, 1);
    finish(g);
    check_peers(g, 0, 2);
    engine_close(g);
    expect_texts(got, want);
    nodes_close(&n);
}

/* ---- a node that answers, and stands still */

static atomic_int holds; /* of calls that wait for the device: so many do not come back before go_on */
static sem_t go_on;

static int wait_or_hang(dev *on, err *e)
{
    if (atomic_fetch_sub(&holds, 1) > 0) sem_wait(&go_on);
    return cpu_backend.wait(on, e);
}

/* The computing thread of a node sleeps for ever in a step while its connections answer: it counts as lost in time, and
 * the text goes on at its spare. */
static void stands_still(void **unused)
{
    (void)unused;
    static const cpu_options one_thread = {.threads = 1};
    backend hangs = cpu_backend;
    const backend_use lent[] = {{&hangs, &one_thread}, {0}};
    heard want[TEXTS], got[TEXTS];
    nodes n;
    err e = {0};
    engine *g;
    hangs.wait = wait_or_hang;
    sem_init(&go_on, 0, 0);
    assert_ok(engine_open(&g, &(engine_options){.threads = 1, .ctx = 256}, &e), &e);
    ask(g, want);
    finish(g);
    engine_close(g);
    nodes_open(&n, NULL, NULL);
    n.o.backends = lent;
    nodes_again(&n);
    const engine_options o = {
        .devices = list_of(&n, "A/cpu|B/cpu;C/cpu"), .threads = 1, .ctx = 256, .peer_wait = 20, .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    ask(g, got);
    bool more = true;
    for (int i = 0; i < 10 && more; i++) assert_ok(engine_infer(g, &more, &e), &e);
    const double from = clock_now();
    atomic_store(&holds, 1);
    finish(g);
    const double took = clock_now() - from;
    engine_stats stats;
    engine_get_stats(g, &stats);
    assert_int_equal(stats.recoveries, 1);
    assert_true(took > 4 && took < 25);
    sem_post(&go_on);
    engine_close(g);
    expect_texts(got, want);
    nodes_close(&n);
    sem_destroy(&go_on);
}

static bool none_less(const engine_traffic *a, const engine_traffic *b)
{
    return b->step >= a->step && b->data >= a->data && b->weight >= a->weight;
}

/* What is counted of nodes: bytes by what they carry, idle time, the use of their pages. It outlives connections. */
static void counts(void **unused)
{
    (void)unused;
    nodes n;
    err e = {0};
    engine *g;
    heard h[TEXTS];
    engine_peer first[2], last[2];
    engine_stats stats;
    nodes_open(&n, NULL, NULL);
    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = list_of(&n, "A/cpu;B/cpu"),
                              .threads = 1,
                              .ctx = 256,
                              .peer_wait = 10,
                              .key_file = n.key};
    assert_ok(engine_open(&g, &o, &e), &e);
    ask(g, h);
    bool more = true;
    for (int i = 0; i < 10; i++) assert_ok(engine_infer(g, &more, &e), &e);
    peers_look(g, true);
    engine_get_stats(g, &stats);
    assert_int_equal(engine_peers(g, first, 2), 2);
    const uint64_t row = 4 * (uint64_t)engine_describe(g)->dim;
    for (int i = 0; i < 2; i++) {
        assert_true(stats.kv_usage > 0 && fabs(first[i].kv_usage - stats.kv_usage) < 1e-9);
        assert_true(first[i].sent.step > 0 && first[i].received.step > 0);
        assert_true(first[i].sent.weight > 1000 && first[i].received.weight > 0);
        assert_true(first[i].wait > 0 && first[i].wait < 60);
    }
    assert_true(first[0].sent.data >= stats.generated_tokens * row); /* rows go in at one, and come out of the other */
    assert_true(first[1].received.data >= stats.generated_tokens * row);
    assert_true(first[0].received.data < stats.generated_tokens * row);
    interrupt(&n, 0, g, 5);
    finish(g);
    assert_int_equal(engine_peers(g, last, 2), 2);
    for (int i = 0; i < 2; i++) {
        assert_true(none_less(&first[i].sent, &last[i].sent) && none_less(&first[i].received, &last[i].received));
        assert_true(last[i].wait >= first[i].wait);
        assert_true(last[i].kv_usage == 0);
    }
    assert_true(last[0].sent.weight >= 2 * first[0].sent.weight);
    engine_close(g);
    nodes_close(&n);
}

int main(void)
{
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),        cmocka_unit_test(wires),           cmocka_unit_test(refusals),
        cmocka_unit_test(rows_not_held), cmocka_unit_test(lends_some),      cmocka_unit_test(lends_little),
        cmocka_unit_test(lost_node),     cmocka_unit_test(comes_back),      cmocka_unit_test(waits_no_longer),
        cmocka_unit_test(spare),         cmocka_unit_test(stands_still),    cmocka_unit_test(waits_for_memory),
        cmocka_unit_test(counts),        cmocka_unit_test(runs_more_again), cmocka_unit_test(scores_of_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
