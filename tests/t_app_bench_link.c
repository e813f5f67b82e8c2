/* t_app_bench_link.c - `bench link`: every pair once, also between nodes; `plan` over nodes; the choice of --peers;
 * what cannot be measured is named. */
#include "command.h"
#include "net/link_speed.h"
#include "node_rig.h"

#include "base/json.h"
#include "base/log.h"

#define SLOW "0.05,5" /* of the second node; it has at least a third of 2 MB of the built-in model's layers */
enum { SLOW_TOKENS = 75 };

static nodes ns;
static buf out, errors;

static void open_nodes(void)
{
    nodes_open(&ns, NULL, NULL);
    nodes_drop(&ns, 1);
    ns.o.pretended_speed = SLOW;
    nodes_return(&ns, 1);
}

static void every_pair_is_measured(void **unused)
{
    (void)unused;
    char args[3000];
    json *j;
    err e = {0};
    int row = 0;
    open_nodes();
    snprintf(args, sizeof args, "bench link --json --key-file %s --peers %s", ns.key, list_of(&ns, "A,B,C"));
    assert_int_equal(command_run(NULL, args, &out, &errors), 0);
    assert_ok(json_parse(&j, buf_span(&out), "links", &e), &e);
    assert_int_equal(json_count(json_get(j, "links")), 6);
    const json *r = json_first(json_get(j, "links"));
    for (int a = -1; a < NODES; a++)
        for (int b = a + 1; b < NODES; b++, row++, r = json_next(r)) {
            const double p50 = json_num(json_get(r, "rtt_ms_p50"), 0), p99 = json_num(json_get(r, "rtt_ms_p99"), 0);
            assert_string_equal(json_str(json_get(r, "a"), ""), a < 0 ? "here" : ns.name[a]);
            assert_string_equal(json_str(json_get(r, "b"), ""), ns.name[b]);
            assert_true(p50 > 0 && p50 <= p99 && p99 < 1000);
            assert_true(json_num(json_get(r, "mbit_per_s"), 0) > 1);
        }
    json_free(j);
    snprintf(args, sizeof args, "bench link --json --key-file %s --devices '%s'", ns.key,
             list_of(&ns, "A/cpu;cpu;B/cpu*2&A/cpu"));
    assert_int_equal(command_run(NULL, args, &out, &errors), 0);
    assert_ok(json_parse(&j, buf_span(&out), "links", &e), &e);
    assert_int_equal(json_count(json_get(j, "links")), 3);
    json_free(j);
    nodes_close(&ns);
}

/* `plan` measures the links that are used, tries a short text, and says which node pretends to be another machine. */
static void plan_tells_links_and_times(void **unused)
{
    (void)unused;
    char args[3000];
    json *j;
    err e = {0};
    open_nodes();
    snprintf(args, sizeof args, "plan --json -p 100 --key-file %s --devices '%s'", ns.key,
             list_of(&ns, "A/cpu;B/cpu&C/cpu"));
    if (command_run(NULL, args, &out, &errors)) fail_msg("%s", buf_cstr(&errors));
    assert_ok(json_parse(&j, buf_span(&out), "plan", &e), &e);
    const json *ranks = json_get(j, "ranks"); /* tables, three, the head */
    assert_int_equal(json_count(ranks), 5);
    for (int i = 0; i < 5; i++) {
        const char *as = json_str(json_get(json_at(ranks, i), "as"), "");
        assert_string_equal(as, i == 2 ? SLOW : "");
        assert_true(json_num(json_get(json_at(ranks, i), "tokens_per_s"), 0) > 0);
    }
    const json *edges = json_get(j, "edges"), *back = json_at(edges, json_count(edges) - 1);
    assert_string_equal(json_str(json_get(back, "tensor"), ""), "dec.out"); /* only wanted rows come back */
    assert_int_equal(json_count(json_get(j, "links")), 6);                  /* here to all, 0 to both, 1 to 2 */
    const double tokens = json_num(json_path(j, "predicted.decode_tokens_per_s"), 0);
    assert_true(tokens > 0 && tokens < json_num(json_get(json_at(ranks, 2), "tokens_per_s"), 0));
    assert_true(json_num(json_get(json_at(ranks, 2), "tokens_per_s"), 0) < SLOW_TOKENS);
    assert_true(json_num(json_path(j, "predicted.ttft_s"), 0) > 0 &&
                json_int(json_path(j, "predicted.prompt"), 0) == 100);
    json_free(j);
    static const char *const away[] = {"plan -p 100", "bench -p 40 -n 4 --reps 1"}; /* no device is here */
    for (int i = 0; i < 2; i++) {
        snprintf(args, sizeof args, "%s --json --ends away --key-file %s --devices '%s'", away[i], ns.key,
                 list_of(&ns, "A/cpu;B/cpu"));
        if (command_run(NULL, args, &out, &errors)) fail_msg("%s", buf_cstr(&errors));
        assert_ok(json_parse(&j, buf_span(&out), "without devices", &e), &e);
        assert_int_equal(json_count(json_get(j, i ? "rows" : "ranks")), 2);
        json_free(j);
    }
    snprintf(args, sizeof args, "run --json -p Once -n 2 --key-file %s --devices '%s/cpu'", ns.key, ns.name[1]);
    assert_int_equal(command_run(NULL, args, &out, &errors), 0);
    assert_non_null(strstr(buf_cstr(&out), "\"as\":\"" SLOW "\""));
    assert_non_null(strstr(buf_cstr(&errors), "pretends to be a machine of " SLOW));
    nodes_close(&ns);
}

/* --peers: some layout of this process and the nodes that are there, which computes the same. */
static void peers_are_chosen_from(void **unused)
{
    (void)unused;
    char args[3000];
    buf alone = {0};
    open_nodes();
    assert_int_equal(command_run(NULL, "run --output ids -p Once -n 5 --temperature 0", &alone, &errors), 0);
    snprintf(args, sizeof args,
             "run --output ids -p Once -n 5 --temperature 0 --log-level info --key-file %s --peers %s", ns.key,
             list_of(&ns, "A,127.0.0.1:1,B"));
    if (command_run(NULL, args, &out, &errors)) fail_msg("%s", buf_cstr(&errors));
    assert_string_equal(buf_cstr(&out), buf_cstr(&alone));
    assert_non_null(strstr(buf_cstr(&errors), "warn: 127.0.0.1:1: Connection refused: left out"));
    int tried = 0;
    for (const char *line = buf_cstr(&errors); (line = strstr(line, "ms a token computed")); line++) tried++;
    assert_int_equal(tried, 3);
    snprintf(args, sizeof args, "run -p Once --key-file %s --peers %s --devices cpu", ns.key, ns.name[0]);
    assert_int_equal(command_run(NULL, args, &out, &errors), 2);
    assert_non_null(strstr(buf_cstr(&errors), "--devices names others"));
    snprintf(args, sizeof args, "run -p Once --peers %s", ns.name[0]);
    assert_int_equal(command_run(NULL, args, &out, &errors), 2);
    assert_non_null(strstr(buf_cstr(&errors), "--peers: nodes need --key-file"));
    buf_free(&alone);
    nodes_close(&ns);
}

static void what_cannot_be_is_named(void **unused)
{
    (void)unused;
    open_nodes();
    const struct {
        const char *peers, *key;
        int status;
        const char *says;
    } row[] = {
        {NULL, ns.key, 2, "--peers is missing"},
        {ns.name[0], NULL, 2, "--key-file is missing"},
        {"a:b", ns.key, 2, "--peers: \"a:b\": a port is a number"},
        {"127.0.0.1:1", ns.key, 1, "127.0.0.1:1: Connection refused"},
        {ns.name[0], "/nowhere/key", 1, "/nowhere/key: No such file"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char args[1200];
        int n = snprintf(args, sizeof args, "bench link");
        if (row[i].peers) n += snprintf(args + n, sizeof args - (size_t)n, " --peers %s", row[i].peers);
        if (row[i].key) snprintf(args + n, sizeof args - (size_t)n, " --key-file %s", row[i].key);
        assert_int_equal(command_run(NULL, args, &out, &errors), row[i].status);
        if (!strstr(buf_cstr(&errors), row[i].says)) fail_msg("row %zu: %s", i, buf_cstr(&errors));
    }
    nodes_close(&ns);
}

/* A node that cannot reach the other one says so. */
static void nodes_say_what_fails(void **unused)
{
    (void)unused;
    link_speed speed;
    peer_self self = {.patience = 0};
    err e = {0};
    open_nodes();
    const address nowhere = {"127.0.0.1", 1};
    assert_ok(key_file_read(self.key, ns.key, &e), &e);
    assert_ok(hello_init(&self.me, &e), &e);
    assert_int_equal(link_measure(&speed, node_address(ns.at[0]), &nowhere, &self, &e), ERR_IO);
    assert_true(strncmp(e.msg, ns.name[0], strlen(ns.name[0])) == 0);
    assert_non_null(strstr(e.msg, "127.0.0.1:1: cannot be measured from there"));
    e = (err){0};
    assert_ok(link_measure(&speed, node_address(ns.at[0]), node_address(ns.at[1]), &self, &e), &e);
    assert_true(speed.rtt_p50 > 0 && speed.bytes_per_s > 0);
    nodes_close(&ns);
}

int main(void)
{
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_measured), cmocka_unit_test(plan_tells_links_and_times),
        cmocka_unit_test(peers_are_chosen_from),  cmocka_unit_test(what_cannot_be_is_named),
        cmocka_unit_test(nodes_say_what_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
