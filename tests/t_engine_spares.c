/* t_engine_spares.c - nodes that stand by: they are greeted while nothing is asked of them, take the part of a node
 * that says it is about to end before it does, and /health tells that one serves. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cpu/cpu_backend.h"
#include "engine/engine_state.h"
#include "node_rig.h"
#include "serve/server.h"
#include "serve/exchange.h"

enum { TOKENS = 80 };

typedef struct heard {
    int ids[TOKENS], n, ended;
    char error[ERR_MSG_MAX];
} heard;

static bool hear(void *ctx, const token_event *ev)
{
    heard *h = ctx;
    if (ev->token >= 0 && h->n < TOKENS) h->ids[h->n++] = ev->token;
    h->ended += ev->finish != FINISH_NONE;
    if (ev->finish == FINISH_ERROR) snprintf(h->error, sizeof h->error, "%s", ev->error);
    return true;
}

static void ask(engine *g, heard *h)
{
    static const int32_t ids[] = {5, 6, 7};
    const query q = {.ids = ids,
                     .n_ids = 3,
                     .max_tokens = TOKENS,
                     .ignore_eos = true,
                     .n_logprobs = -1,
                     .beams = 1,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .on_token = hear,
                     .ctx = h};
    err e = {0};
    *h = (heard){.n = 0};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
}

static void steps(engine *g, int most)
{
    err e = {0};
    bool more = true;
    for (int i = 0; i < most && more; i++) assert_ok(engine_infer(g, &more, &e), &e);
}

static engine *open_over(const nodes *n, const char *devices, double wait)
{
    const engine_options o = {.devices = n ? list_of(n, devices) : devices,
                              .threads = 1,
                              .ctx = 256,
                              .peer_wait = wait,
                              .key_file = n ? n->key : NULL};
    engine *g;
    err e = {0};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static heard undisturbed(void)
{
    heard h;
    engine *g = open_over(NULL, "cpu", 0);
    ask(g, &h);
    steps(g, INT32_MAX);
    engine_close(g);
    return h;
}

static void expect_text(const heard *got, const heard *want)
{
    if (got->error[0]) fail_msg("%s", got->error);
    assert_int_equal(got->n, TOKENS);
    assert_memory_equal(got->ids, want->ids, sizeof want->ids);
}

/* ---- draining */

/* While the node that drains is still there: nothing is cut, nobody waits. */
static void a_node_that_drains_is_left_for_its_spare(void **unused)
{
    (void)unused;
    const heard want = undisturbed();
    heard got;
    engine_stats stats;
    nodes n;
    nodes_open(&n, NULL, NULL);
    engine *g = open_over(&n, "A/cpu|B/cpu;C/cpu", 20);
    ask(g, &got);
    steps(g, 10);
    assert_int_equal(node_leases(n.at[0]), 1);
    node_drain(n.at[0]);
    const double from = clock_now();
    while (node_leases(n.at[0]) && clock_now() < from + 10) {
        if (got.ended) usleep(1000);
        else steps(g, 1);
    }
    assert_int_equal(node_leases(n.at[0]), 0);
    steps(g, INT32_MAX);
    expect_text(&got, &want);
    assert_int_equal(node_leases(n.at[1]), 1);
    engine_get_stats(g, &stats);
    assert_true(stats.spare && !stats.away);
    engine_close(g);
    nodes_close(&n);
}

/* Where there is none the text ends where it began; nobody new comes in. */
static void a_node_that_drains_ends_what_it_began(void **unused)
{
    (void)unused;
    const heard want = undisturbed();
    heard got;
    err e = {0};
    nodes n;
    engine *other;
    nodes_open(&n, NULL, NULL);
    engine *g = open_over(&n, "A/cpu;cpu", 20);
    ask(g, &got);
    steps(g, 10);
    node_drain(n.at[0]);
    assert_true(node_works(n.at[0]) || !got.ended);
    const engine_options late = {
        .devices = list_of(&n, "A/cpu"), .threads = 1, .ctx = 256, .peer_wait = 0.1, .key_file = n.key};
    assert_int_equal(engine_open(&other, &late, &e), ERR_BUSY);
    assert_non_null(strstr(e.msg, "this node is about to end"));
    steps(g, INT32_MAX);
    expect_text(&got, &want);
    assert_int_equal(node_leases(n.at[0]), 1);
    engine_close(g);
    nodes_close(&n);
}

/* ---- greetings */

static engine_peer_state state_of(engine *g, const char *name)
{
    engine_peer all[NODES];
    const int n = engine_peers(g, all, NODES);
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i].name, name)) return all[i].state;
    fail_msg("no peer %s", name);
    return ENGINE_PEER_DOWN;
}

static void await_state(engine *g, const char *name, engine_peer_state want)
{
    const double until = clock_now() + 15; /* each is greeted every 5 s */
    while (state_of(g, name) != want && clock_now() < until) usleep(10000);
    assert_int_equal(state_of(g, name), want);
}

static void spares_are_greeted(void **unused)
{
    (void)unused;
    nodes n;
    nodes_open(&n, NULL, NULL);
    engine *g = open_over(&n, "A/cpu|B/cpu;cpu", 20);
    await_state(g, n.name[1], ENGINE_PEER_SPARE);
    assert_int_equal(state_of(g, n.name[0]), ENGINE_PEER_UP);
    nodes_drop(&n, 1);
    await_state(g, n.name[1], ENGINE_PEER_DOWN);
    nodes_return(&n, 1);
    await_state(g, n.name[1], ENGINE_PEER_SPARE);
    engine_close(g);
    nodes_close(&n);
}

/* ---- /health */

static server srv;
static char reply[1 << 14];

static int get_health(void)
{
    exchange x = {.method = "GET", .path = "/health", .content_length = -1};
    if (exchange_admit(&srv, &x)) exchange_handle(&srv, &x);
    const int status = x.status;
    snprintf(reply, sizeof reply, "%s", buf_cstr(&x.out));
    exchange_finish(&srv, &x, status);
    return status;
}

/* Until it says this. */
static void await_health(int status, const char *word)
{
    char part[60];
    const double until = clock_now() + 15;
    snprintf(part, sizeof part, "\"status\":\"%s\"", word);
    while ((get_health() != status || !strstr(reply, part)) && clock_now() < until) usleep(10000);
    if (!strstr(reply, part)) fail_msg("not %s: %s", word, reply);
    assert_int_equal(get_health(), status);
}

/* "peer":name …, "state":"…" */
static void expect_peer(const char *name, const char *as)
{
    char part[60];
    const char *at = strstr(reply, name), *end = at ? strchr(at, '}') : NULL;
    snprintf(part, sizeof part, "\"state\":\"%s\"", as);
    const char *said = at ? strstr(at, part) : NULL;
    if (!said || !end || said > end) fail_msg("%s is not %s: %s", name, as, reply);
}

static void health_tells_of_spares(void **unused)
{
    (void)unused;
    static serve_options opt;
    err e = {0};
    nodes n;
    nodes_open(&n, NULL, NULL);
    const engine_options over = {
        .devices = list_of(&n, "A/cpu|B/cpu;cpu"), .threads = 1, .ctx = 256, .peer_wait = 2, .key_file = n.key};
    param_defaults(serve_param_rows, serve_param_count, &opt);
    assert_ok(server_open(&srv, &opt, &e), &e);
    assert_ok(server_start(&srv, &over, NULL, NULL, &e), &e);
    await_health(200, "ok");
    expect_peer(n.name[0], "up");
    const double until = clock_now() + 15;
    while (!strstr(reply, "\"state\":\"spare\"") && clock_now() < until) get_health(), usleep(10000);
    expect_peer(n.name[1], "spare");
    nodes_drop(&n, 0);
    await_health(200, "degraded");
    for (const double end = clock_now() + 15; !strstr(reply, "\"state\":\"up\"") && clock_now() < end; get_health())
        usleep(10000);
    expect_peer(n.name[1], "up"); /* it serves, and that is told as long as it does */
    usleep(300000);
    await_health(200, "degraded");
    nodes_drop(&n, 1);
    await_health(503, "unavailable"); /* after --peer-wait */
    nodes_return(&n, 0);
    await_health(200, "ok");
    expect_peer(n.name[0], "up");
    assert_true(server_stop(&srv, 5));
    server_close(&srv);
    nodes_close(&n);
}

/* Whose part another takes, by whom an error is of. */
static void errors_name_nodes(void **unused)
{
    (void)unused;
    static const char *const row[][3] = {
        {"a:1/cpu|s:1/cpu;b:1/cpu|t:1/cpu", "a:1", "s:1/cpu;b:1/cpu"},
        {"a:1/cpu|s:1/cpu;b:1/cpu|t:1/cpu", "a:1 b:1", "s:1/cpu;b:1/cpu"},
        {"a:1/cpu;b:1/cpu|t:1/cpu", "a:1 b:1", "a:1/cpu;t:1/cpu"},
        {"a:1/cpu;b:1/cpu|t:1/cpu", "a:1 bb:1 b:11", NULL},
        {"a:1/cpu;b:1/cpu|t:1/cpu", "a:1", NULL},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        static const backend_use backends[] = {{&cpu_backend, NULL}, {0}};
        device_list l;
        buf now = {0};
        err e = {0};
        assert_ok(device_list_parse(&l, row[i][0], backends, &e), &e);
        assert_int_equal(spares_turn(&l, row[i][1]), row[i][2] != NULL);
        assert_int_equal(spares_any(&l), row[i][2] != NULL);
        assert_true(device_list_text(&l, &now));
        if (row[i][2]) assert_string_equal(buf_cstr(&now), row[i][2]);
        buf_free(&now);
        device_list_close(&l);
    }
}

int main(void)
{
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_nodes),
        cmocka_unit_test(a_node_that_drains_is_left_for_its_spare),
        cmocka_unit_test(a_node_that_drains_ends_what_it_began),
        cmocka_unit_test(spares_are_greeted),
        cmocka_unit_test(health_tells_of_spares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
