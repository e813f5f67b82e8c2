/* t_app_bench_nodes.c - `bench allreduce` with ranks on nodes: the results of ranks in one process, and what goes into
 * sockets; what cannot be measured is named, and nodes go on afterwards. */
#include "command.h"
#include "node_rig.h"

#include "base/json.h"
#include "base/log.h"

static nodes ns;
static buf out, errors;

static int open_all(void **unused)
{
    (void)unused;
    nodes_open(&ns, NULL, NULL);
    return 0;
}

static int close_all(void **unused)
{
    (void)unused;
    nodes_close(&ns);
    return 0;
}

static json *measure(const char *devices)
{
    char args[2000];
    json *j;
    err e = {0};
    snprintf(
        args, sizeof args,
        "bench allreduce --json --reps 2 --bytes 600,256K --codec f16,int6 --algorithm two_step,one_shot,ring,gather "
        "--key-file %s --devices '%s'",
        ns.key, devices);
    if (command_run(NULL, args, &out, &errors)) fail_msg("%s", buf_cstr(&errors));
    assert_ok(json_parse(&j, buf_span(&out), "rows", &e), &e);
    assert_int_equal(json_count(json_get(j, "rows")), 14);
    return j;
}

/* forms: A and B are the nodes. */
static void the_same_as_in_one_process(void **unused)
{
    static const char *const forms[] = {"A/cpu&B/cpu&A/cpu", "cpu:1&A/cpu&B/cpu", "A/cpu&cpu:1&cpu:1"};
    json *here = measure("cpu:1&cpu:1&cpu:1");
    (void)unused;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        json *there = measure(list_of(&ns, forms[i]));
        const json *a = json_first(json_get(here, "rows"));
        for (const json *b = json_first(json_get(there, "rows")); b; a = json_next(a), b = json_next(b)) {
            const double payload = json_num(json_get(b, "payload_bytes"), 0);
            const double sent = json_num(json_get(b, "socket_bytes"), 0);
            assert_string_equal(json_str(json_get(a, "hash"), ""), json_str(json_get(b, "hash"), "-"));
            assert_true(json_bool(json_get(b, "equal_on_all_ranks"), false));
            assert_true(fabs(json_num(json_get(a, "payload_bytes"), 0) - payload) < 1e-3);
            assert_true(json_num(json_get(b, "seconds"), 0) > 0 && sent > 0);
            if (i == 0 && json_num(json_get(b, "bytes"), 0) > 1e5) assert_true(sent > payload && sent < 1.01 * payload);
        }
        json_free(there);
    }
    json_free(here);
}

static void what_cannot_be_is_named(void **unused)
{
    (void)unused;
    const struct {
        const char *second, *key;
        int status;
        const char *says;
    } row[] = {
        {"127.0.0.1:1/cpu", ns.key, 1, "127.0.0.1:1: Connection refused"},
        {"cpu", NULL, 2, "need --key-file"},
        {"a/cpu", ns.key, 2, "a node is host:port"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char args[1200];
        int n = snprintf(args, sizeof args, "bench allreduce --devices '%s/cpu&%s'", ns.name[0], row[i].second);
        if (row[i].key) snprintf(args + n, sizeof args - (size_t)n, " --key-file %s", row[i].key);
        assert_int_equal(command_run(NULL, args, &out, &errors), row[i].status);
        if (!strstr(buf_cstr(&errors), row[i].says)) fail_msg("row %zu: %s", i, buf_cstr(&errors));
    }
}

int main(void)
{
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_named),
        cmocka_unit_test(the_same_as_in_one_process),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
