/* t_bench_nodes.c - `bench allreduce` with ranks on nodes: the results of ranks in one process, and what goes into
 * sockets; what cannot be measured is named, and nodes go on afterwards. */
#include "command.h"
#include "cpu/cpu_backend.h"
#include "net/key_file.h"
#include "net/node.h"

#include "base/json.h"
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NODES = 2 };

static const backend_use lent[] = {{&cpu_backend, NULL}, {0}};
static char key[256], at[NODES][TCP_NAME_MAX];
static node *nodes[NODES];
static pthread_t tidier;
static atomic_bool over;
static buf out, errors;

static void *tidy(void *unused)
{
    for (; !atomic_load(&over); usleep(2000))
        for (int i = 0; i < NODES; i++) node_tidy(nodes[i]);
    return unused;
}

static int open_nodes(void **unused)
{
    err e = {0};
    (void)unused;
    snprintf(key, sizeof key, "%s", temp_path("trial-key"));
    unlink(key);
    assert_ok(key_file_write(key, &e), &e);
    for (int i = 0; i < NODES; i++) {
        const node_options o = {.key_file = key, .at = {"127.0.0.1", 0}, .backends = lent};
        assert_ok(node_open(&nodes[i], &o, &e), &e);
        address_print(node_address(nodes[i]), at[i]);
    }
    return pthread_create(&tidier, NULL, tidy, NULL);
}

static int close_nodes(void **unused)
{
    (void)unused;
    atomic_store(&over, true);
    pthread_join(tidier, NULL);
    for (int i = 0; i < NODES; i++) node_close(nodes[i]);
    unlink(key);
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
        key, devices);
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
        buf list = {0};
        for (const char *c = forms[i]; *c; c++)
            if (*c == 'A' || *c == 'B') buf_str(&list, at[*c - 'A']);
            else buf_byte(&list, (uint8_t)*c);
        json *there = measure(buf_cstr(&list));
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
        buf_free(&list);
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
        {"127.0.0.1:1/cpu", key, 1, "127.0.0.1:1: Connection refused"},
        {"cpu", NULL, 2, "need --key-file"},
        {"a/cpu", key, 2, "a node is host:port"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char args[1200];
        int n = snprintf(args, sizeof args, "bench allreduce --devices '%s/cpu&%s'", at[0], row[i].second);
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
    return cmocka_run_group_tests(tests, open_nodes, close_nodes);
}
