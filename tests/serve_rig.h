/* serve_rig.h - calls routes without sockets, on the engine of fake_engine.h. */
#pragma once
#include "tests/test.h"
#include "tests/fake_engine.h"

#include "serve/api_list.h"
#include "serve/server.h"

static server srv;
static serve_options opt;

static void start_server(void)
{
    err e = {0};
    param_defaults(serve_param_rows, serve_param_count, &opt);
    param_defaults(sample_param_rows, sample_param_count, &opt.sample);
    assert_ok(server_open(&srv, &opt, &e), &e);
    srv.loopback = true;
    static const engine_options model;
    assert_ok(server_start(&srv, &model, NULL, NULL, &e), &e);
    while (!atomic_load(&srv.g)) usleep(1000);
}

static void stop_server(void)
{
    assert_true(server_stop(&srv, 5));
    server_close(&srv);
}

static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_over = PTHREAD_COND_INITIALIZER;
static bool asleep;

static void fall_asleep(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&sleep_lock);
    asleep = true;
    pthread_mutex_unlock(&sleep_lock);
}

static void wake_up(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&sleep_lock);
    asleep = false;
    pthread_cond_broadcast(&sleep_over);
    pthread_mutex_unlock(&sleep_lock);
}

static void wait_awake(void)
{
    pthread_mutex_lock(&sleep_lock);
    while (asleep) pthread_cond_wait(&sleep_over, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

static char reply[1 << 20];
static exchange last;

/* One request from head to end; its status, its text in `reply`. */
static int call(const char *method, const char *path, const char *body)
{
    exchange x = {.method = method,
                  .path = path,
                  .origin = last.origin,
                  .host = last.host,
                  .authorization = last.authorization,
                  .api_key = last.api_key,
                  .wanted_headers = last.wanted_headers,
                  .client_id = last.client_id,
                  .content_length = body ? (int64_t)strlen(body) : -1,
                  .body = body ? span_str(body) : (span){0}};
    if (exchange_admit(&srv, &x)) exchange_handle(&srv, &x);
    int status = x.status;
    size_t n = 0;
    if (x.later) {
        const char *type;
        bool live;
        stream_attach(x.later, &(stream_waiter){NULL, fall_asleep, wake_up});
        while (!stream_ready(x.later, &status, &type, &live)) wait_awake();
        for (ssize_t got; (got = stream_read(x.later, reply + n, sizeof reply - 1 - n)) >= 0; n += (size_t)got)
            if (!got) wait_awake();
    } else {
        n = x.out.n;
        memcpy(reply, x.out.p ? (char *)x.out.p : "", n);
    }
    reply[n] = 0;
    exchange_finish(&srv, &x, status);
    stream_drop(x.later);
    last = (exchange){0};
    last.n_header = x.n_header;
    memcpy(last.header, x.header, sizeof x.header);
    memcpy(last.id, x.id, sizeof x.id);
    for (int i = 0; i < last.n_header; i++)
        if (last.header[i].value == x.id) last.header[i].value = last.id;
    return status;
}

__attribute__((unused)) static int post(const char *fields)
{
    static char body[1 << 16];
    snprintf(body, sizeof body, "{\"prompt\":\"ab\"%s%s}", *fields ? "," : "", fields);
    return call("POST", "/v1/completions", body);
}

static void expect_part(const char *part)
{
    if (!strstr(reply, part)) fail_msg("reply lacks %s:\n%s", part, reply);
}

static json *parsed(void)
{
    json *j = NULL;
    err e = {0};
    assert_ok(json_parse(&j, span_str(reply), "reply", &e), &e);
    return j;
}

/* An error reply must be the object of the OpenAI API. */
static void expect_error(int status, int got, const char *at, const char *code)
{
    if (status != got) fail_msg("status %d, expected %d: %s", got, status, reply);
    json *j = parsed();
    const json *o = json_get(j, "error");
    assert_non_null(json_str(json_get(o, "message"), NULL));
    assert_non_null(json_str(json_get(o, "type"), NULL));
    assert_non_null(json_get(o, "param"));
    assert_non_null(json_get(o, "code"));
    if (at && strcmp(json_str(json_get(o, "param"), ""), at) != 0) fail_msg("param is not %s: %s", at, reply);
    if (code && strcmp(json_str(json_get(o, "code"), ""), code) != 0) fail_msg("code is not %s: %s", code, reply);
    json_free(j);
}

static int setup(void **state)
{
    (void)state;
    start_server();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop_server();
    return 0;
}

/* A reply may come before its text has left its place. */
static inline void wait_idle(void)
{
    engine_stats st;
    for (int i = 0; i < 6000; i++, usleep(5000)) {
        engine_get_stats(atomic_load(&srv.g), &st);
        if (!st.running) return;
    }
    fail_msg("texts that have ended keep their places");
}
