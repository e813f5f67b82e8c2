/* t_app_node_http.c - what a node tells whoever watches it: `node --metrics`, scraped while leaders use the node. */
#include "app/node_http.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_state.h"
#include "command.h"
#include "node_rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static char got[1 << 16];

/* GET; the status, 0: nobody answers. The reply is in `got`. */
static int get(int port, const char *path, const char *head)
{
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[500];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = 0;
    got[0] = 0;
    if (connect(fd, (const struct sockaddr *)&a, sizeof a)) return close(fd), 0;
    const int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", path, head);
    assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    for (ssize_t more; (more = recv(fd, got + n, sizeof got - 1 - n, 0)) > 0; n += (size_t)more) continue;
    close(fd);
    got[n] = 0;
    return strncmp(got, "HTTP/1.1 ", 9) ? 0 : atoi(got + 9);
}

#define LOCAL "Host: localhost\r\n"

/* The value of a metric in `got`, with its label. */
static double value(const char *name)
{
    char line[120];
    snprintf(line, sizeof line, "\ninferflow_%s ", name);
    const char *at = strstr(got, line);
    if (!at) fail_msg("no %s in %s", name, got);
    return at ? atof(at + strlen(line)) : 0;
}

static void scrape(int port) { assert_int_equal(get(port, "/metrics", LOCAL), 200); }

/* Until a metric has this value. */
static void await(int port, const char *name, double want)
{
    const double until = clock_now() + 20;
    for (scrape(port); value(name) != want; scrape(port), usleep(10000))
        if (clock_now() > until) fail_msg("%s is %g, not %g", name, value(name), want);
}

static const char *label(const char *direction, const char *kind)
{
    static char text[4][100];
    static int turn;
    char *to = text[turn++ & 3];
    snprintf(to, sizeof text[0], "link_bytes_total{direction=\"%s\",kind=\"%s\"}", direction, kind);
    return to;
}

static node_http *watch(const nodes *n, int which, const char *keys, int *port)
{
    address at = {"127.0.0.1", 0};
    node_http *h;
    err e = {0};
    assert_ok(node_http_open(&h, &at, keys, NULL, &e), &e);
    *port = at.port;
    assert_int_equal(get(at.port, "/health", LOCAL), 503);
    assert_non_null(strstr(got, "\"starting\""));
    assert_int_equal(get(at.port, "/metrics", LOCAL), 200);
    assert_non_null(strstr(got, "\ninferflow_build_info{"));
    node_http_tell(h, n->at[which]);
    return h;
}

static bool hear(void *ctx, const token_event *ev)
{
    (void)ctx;
    if (ev->finish == FINISH_ERROR) fail_msg("%s", ev->error);
    return true;
}

/* What a server of one model over A and B makes of both, scraped on the way and when it has gone. */
static void tells_what_it_does(void **unused)
{
    (void)unused;
    static const int32_t ids[] = {5, 6, 7};
    static const char *const totals[] = {"leases_total", "steps_total", "compute_seconds_total"};
    char *cache = mem_str(temp_path("watched-cache"));
    nodes n;
    node_http *h[2];
    int port[2];
    double before[3];
    err e = {0};
    engine *g;
    nodes_open(&n, NULL, cache);
    n.o.memory = 1 << 30;
    nodes_again(&n);
    for (int i = 0; i < 2; i++) h[i] = watch(&n, i, NULL, &port[i]);
    scrape(port[0]);
    assert_true(value("leases") == 0 && value("leases_total") == 0 && value("connections") == 0);
    assert_true(value("memory_lent_bytes") == 0 && value("memory_left_bytes") <= 1 << 30);
    assert_true(value("cache_bytes") == 0 && value("connections_refused_total") == 0);

    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = list_of(&n, "A/cpu;B/cpu"),
                              .choices.ends = ENDS_AWAY,
                              .threads = 1,
                              .ctx = 256,
                              .key_file = n.key};
    const query q = {.ids = ids,
                     .n_ids = 3,
                     .max_tokens = 20,
                     .ignore_eos = true,
                     .n_logprobs = -1,
                     .beams = 1,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .on_token = hear};
    assert_ok(engine_open(&g, &o, &e), &e);
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
    for (int i = 0; i < 2; i++) {
        await(port[i], "steps_in_flight", 0);
        assert_true(value("leases") == 1 && value("leases_total") == 1 && value("leases_refused_total") == 0);
        assert_true(value("leases_stalled") == 0 && value("trials_total") == 0);
        assert_true(value("connections") >= 1 && value("steps_total") >= 20);
        assert_true(value("compute_seconds_total") > 0 && value("compute_seconds_total") < 60);
        assert_true(value("memory_lent_bytes") > 0 && value("cache_bytes") > 0);
        assert_true(value("memory_left_bytes") <= (1 << 30) - value("memory_lent_bytes"));
        assert_true(value(label("received", "step")) > 0 && value(label("sent", "step")) > 0);
        assert_true(value(label("received", "weight")) > 1000 && value(label("sent", "weight")) > 0);
    }
    const double rows = 22 * 4.0 * engine_describe(g)->dim; /* prompt and tokens, from A to B by a connection of A's */
    assert_true(value(label("received", "data")) >= rows);
    scrape(port[0]);
    assert_true(value(label("sent", "data")) >= rows && value(label("sent", "data")) < 20 * rows);
    const double sent = value(label("sent", "data"));
    for (int i = 0; i < 3; i++) before[i] = value(totals[i]);
    assert_int_equal(get(port[0], "/health", LOCAL), 200);
    assert_non_null(strstr(got, "\"status\":\"ok\""));
    assert_non_null(strstr(got, "\"leases\":1"));
    engine_close(g);
    for (int i = 1; i >= 0; i--) await(port[i], "leases", 0);
    for (int i = 0; i < 3; i++) assert_true(value(totals[i]) >= before[i]);
    assert_true(value(label("sent", "data")) >= sent);
    await(port[0], "memory_lent_bytes", 0);
    for (int i = 0; i < 2; i++) node_http_close(h[i]);
    nodes_close(&n);
    char line[600];
    snprintf(line, sizeof line, "rm -r %s", cache);
    assert_int_equal(system(line), 0);
    mem_free(cache);
}

/* Who is refused, who has no memory, and a node that is about to end. */
static void tells_what_it_refuses(void **unused)
{
    (void)unused;
    nodes n;
    int port;
    err e = {0};
    engine *g;
    nodes_open(&n, NULL, NULL);
    n.o.memory = 1 << 16;
    nodes_again(&n);
    node_http *h = watch(&n, 0, NULL, &port);
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)node_address(n.at[0])->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    await(port, "connections_refused_total", 1);
    close(fd);
    const engine_options o = {.model = "tests/vectors/models/llama",
                              .devices = list_of(&n, "A/cpu"),
                              .threads = 1,
                              .ctx = 256,
                              .peer_wait = 0.1,
                              .key_file = n.key};
    assert_int_not_equal(engine_open(&g, &o, &e), OK);
    await(port, "leases", 0);
    assert_true(value("leases_refused_total") >= 1 && value("leases_refused_total") == value("leases_total"));
    node_drain(n.at[0]);
    assert_int_equal(get(port, "/health", LOCAL), 503);
    assert_non_null(strstr(got, "\"draining\""));
    node_http_close(h);
    nodes_close(&n);
}

/* As the server's: names that other machines give, and keys. */
static void not_everybody_is_told(void **unused)
{
    (void)unused;
    char *keys = mem_str(temp_path("watch-keys"));
    nodes n;
    int port;
    FILE *f = fopen(keys, "w");
    assert_non_null(f);
    fputs("secret # Prometheus\n", f);
    fclose(f);
    nodes_open(&n, NULL, NULL);
    node_http *h = watch(&n, 0, NULL, &port);
    assert_int_equal(get(port, "/metrics", "Host: evil.example\r\n"), 403);
    assert_non_null(strstr(got, "--allow-host evil.example"));
    assert_int_equal(get(port, "/health", "Host: evil.example\r\n"), 200);
    assert_int_equal(get(port, "/v1/models", LOCAL), 404);
    node_http_close(h);
    address at = {"127.0.0.1", 0};
    err e = {0};
    assert_ok(node_http_open(&h, &at, keys, NULL, &e), &e);
    node_http_tell(h, n.at[0]);
    assert_int_equal(get(at.port, "/metrics", LOCAL), 401);
    assert_int_equal(get(at.port, "/metrics", "Host: evil.example\r\nAuthorization: Bearer secret\r\n"), 200);
    assert_int_equal(get(at.port, "/health", LOCAL), 200);
    assert_null(strstr(got, "\"node\""));
    assert_int_equal(get(at.port, "/health", LOCAL "Authorization: Bearer secret\r\n"), 200);
    assert_non_null(strstr(got, "\"node\""));
    node_http_close(h);
    nodes_close(&n);
    unlink(keys);
    mem_free(keys);
}

/* One line, with what is wrong. */
static void wrong_addresses_are_refused(void **unused)
{
    (void)unused;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    char taken[40], says[200];
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&a, &size);
    snprintf(taken, sizeof taken, "127.0.0.1:%d", ntohs(a.sin_port));
    snprintf(says, sizeof says, "cannot listen on %s: Address already in use; choose another with --metrics", taken);
    const struct {
        const char *at;
        int status;
        const char *says;
    } row[] = {{"9100", 2, "--metrics: \"9100\": an address is HOST:PORT"},
               {"127.0.0.1:x", 2, "--metrics: \"127.0.0.1:x\": a port is a number from 0 to 65535"},
               {"no.such.name.invalid:0", 2, "choose another with --metrics"},
               {taken, 1, says}};
    nodes n;
    buf out = {0}, errors = {0};
    nodes_open(&n, NULL, NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char args[800];
        snprintf(args, sizeof args, "node --listen 127.0.0.1:0 --key-file %s --metrics %s", n.key, row[i].at);
        const int status = command_run(NULL, args, &out, &errors);
        if (status != row[i].status || !strstr(buf_cstr(&errors), row[i].says) || out.n ||
            strchr(buf_cstr(&errors), '\n') != buf_cstr(&errors) + errors.n - 1)
            fail_msg("%s: %d: %s", row[i].at, status, buf_cstr(&errors));
    }
    nodes_close(&n);
    close(fd);
    buf_free(&out);
    buf_free(&errors);
}

/* Port 0 picks one, which is printed, in both forms. */
static void the_port_is_printed(void **unused)
{
    (void)unused;
    nodes n;
    buf errors = {0};
    char line[2000];
    nodes_open(&n, NULL, NULL);
    for (int as_json = 0; as_json < 2; as_json++) {
        snprintf(
            line, sizeof line,
            "mkfifo said.%d && { $P node --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --key-file %s%s >said.%d & } && "
            "node=$! && exec 3<said.%d && read first <&3 && %s && kill $node && wait $node && rm said.%d && "
            "echo \"$web\" >&2",
            getpid(), n.key, as_json ? " --json" : "", getpid(), getpid(),
            as_json ? "web=${first#*\\\"metrics\\\":\\\"} && web=${web%%%%\\\"*}"
                    : "read second <&3 && web=${second#metrics at http://} && web=${web%%/metrics}",
            getpid());
        assert_int_equal(command_shell("/tmp", line, &errors), 0);
        if (strncmp(buf_cstr(&errors), "127.0.0.1:", 10) || atoi(buf_cstr(&errors) + 10) < 1024)
            fail_msg("%s", buf_cstr(&errors));
    }
    nodes_close(&n);
    buf_free(&errors);
}

/* ---- the log */

/* Runs a shell line while a node lends, $N its address and $K the key; the node's log. */
static void log_of(const nodes *n, const char *shell, buf *log)
{
    char line[3000];
    snprintf(line, sizeof line,
             "K=%s; F=said.%d; mkfifo $F && { $P node --listen 127.0.0.1:0 --key-file $K >$F & } && node=$! && "
             "read _ _ N _ <$F && N=${N%%,} && { %s; } 2>/dev/null; sleep 0.3; kill $node; wait $node; rm $F",
             n->key, getpid(), shell);
    assert_int_equal(command_shell("/tmp", line, log), 0);
}

/* The line with this part, which begins with date and time. */
static void expect_line(const buf *log, const char *part)
{
    const char *at = strstr(buf_cstr((buf *)log), part), *from = at;
    while (from && from > (const char *)log->p && from[-1] != '\n') from--;
    int year, month, day, hour, minute;
    double second;
    if (!at || sscanf(from, "%d-%d-%dT%d:%d:%lfZ ", &year, &month, &day, &hour, &minute, &second) != 6 || year < 2026)
        fail_msg("no line with \"%s\": %s", part, buf_cstr((buf *)log));
}

/* When leases begin and end, of whom, with what, and why. */
static void the_log_tells_of_leases(void **unused)
{
    (void)unused;
    nodes n;
    buf log = {0};
    nodes_open(&n, NULL, NULL);
    log_of(&n, "$P run --log-level error --key-file $K --devices $N/cpu:1\\;cpu:1 -p Hello -n 4 >/dev/null", &log);
    expect_line(&log, "lease of 127.0.0.1:");
    expect_line(&log, ": rank 1 of 3 is ready: ");
    expect_line(&log, " layers, ");
    expect_line(&log, ": rank 1 of 3 has ended after ");
    expect_line(&log, " steps: the leader has left\n");
    log_of(&n,
           "$P run --log-level error --key-file $K --devices $N/cpu:1\\;cpu:1 -p Hello -n 2000 --ignore-eos >$F.text & "
           "leader=$!; until test -s $F.text; do sleep 0.02; done; kill -9 $leader; rm $F.text",
           &log);
    expect_line(&log, " steps: the leader is lost: ");
    nodes_close(&n);
    buf_free(&log);
}

int main(void)
{
    setenv("XDG_CACHE_HOME", "/proc", 1); /* where no digest can be kept */
    log_set_level("error");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_it_does),    cmocka_unit_test(tells_what_it_refuses),
        cmocka_unit_test(not_everybody_is_told), cmocka_unit_test(wrong_addresses_are_refused),
        cmocka_unit_test(the_port_is_printed),   cmocka_unit_test(the_log_tells_of_leases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
