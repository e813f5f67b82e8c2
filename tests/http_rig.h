/* http_rig.h - the listener on real loopback sockets, with the engine of fake_engine.h behind it, and a client of a few
 * lines over plain sockets, so that it can be as rude as needed. */
#pragma once
#include "tests/test.h"
#include "tests/fake_engine.h"

#include "base/clock.h"
#include "serve/api_list.h"
#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static server srv;
static serve_options opt;
static http *listener;

static int setup(void **state)
{
    (void)state;
    err e = {0};
    static const engine_options model;
    param_defaults(serve_param_rows, serve_param_count, &opt);
    param_defaults(sample_param_rows, sample_param_count, &opt.sample);
    opt.port = 0;
    opt.head_timeout = 2;
    fake.max_batch = 256;
    fake.ctx = 1 << 20;
    fake.chat_template = "{{ messages[0].content }}";
    assert_ok(server_open(&srv, &opt, &e), &e);
    assert_ok(http_open(&listener, &srv, &e), &e);
    assert_ok(server_start(&srv, &model, NULL, NULL, &e), &e);
    while (!atomic_load(&srv.g)) usleep(1000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_close(listener);
    assert_true(server_stop(&srv, 5));
    server_close(&srv);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)http_port(listener)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

static void put(int fd, const char *text)
{
    for (size_t n = strlen(text), at = 0; at < n;) {
        ssize_t sent = send(fd, text + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += (size_t)sent;
    }
}

static char got[1 << 20];
static size_t n_got;

/* Reads until `until` appears, the peer closes (NULL: only that), or `seconds` pass. True: it happened. */
static bool get(int fd, const char *until, double seconds)
{
    double end = clock_now() + seconds;
    n_got = 0;
    got[0] = 0;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        double left = end - clock_now();
        if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) <= 0) return false;
        ssize_t n = recv(fd, got + n_got, sizeof got - 1 - n_got, 0);
        if (n <= 0) return until == NULL && n == 0;
        n_got += (size_t)n;
        got[n_got] = 0;
        if (until && strstr(got, until)) return true;
    }
}

static void expect_status(const char *status)
{
    if (strncmp(got, "HTTP/1.1 ", 9) || strncmp(got + 9, status, strlen(status)))
        fail_msg("expected %s, got: %.300s", status, n_got ? got : "nothing");
}

/* Sends a raw request on a connection of its own and reads until the server closes or 3 s pass. */
static void raw(const char *request)
{
    int fd = dial();
    assert_true(fd >= 0);
    put(fd, request);
    get(fd, NULL, 0.7);
    close(fd);
}

static const char *post_text(const char *body)
{
    static char text[1 << 16];
    snprintf(text, sizeof text, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    return text;
}
