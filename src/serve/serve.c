/* serve.c - see serve.h. The main thread alone takes signals, by a descriptor; the engine thread reports by another. */
#include "serve/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/http.h"
#include "serve/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const double BODY_SECONDS = 0.5; /* after SIGTERM, for the rest of bodies that were on their way */
static const double STOP_SECONDS = 1.5; /* for a step that still runs when everything else has ended */

typedef struct inbox {
    int signals, states;
} inbox;

static int inbox_open(inbox *in, err *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread starts: all inherit it */
    in->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    in->states = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (in->signals >= 0 && in->states >= 0) return OK;
    return err_set(e, ERR_IO, "signalfd: %s", strerror(errno));
}

static void inbox_close(inbox *in)
{
    if (in->signals >= 0) close(in->signals);
    if (in->states >= 0) close(in->states);
}

static void report_state(void *ctx)
{
    inbox *in = ctx;
    ssize_t n = write(in->states, &(uint64_t){1}, 8);
    (void)n; /* a full counter is a report already */
}

/* Waits; the signal that came, 0: none. */
static int inbox_wait(inbox *in, int milliseconds)
{
    struct pollfd p[2] = {{in->signals, POLLIN, 0}, {in->states, POLLIN, 0}};
    uint64_t count;
    struct signalfd_siginfo info;
    poll(p, 2, milliseconds);
    while (read(in->states, &count, sizeof count) > 0) continue;
    return read(in->signals, &info, sizeof info) > 0 ? (int)info.ssi_signo : 0;
}

static bool inbox_asks_to_end(inbox *in, int milliseconds)
{
    int signal = inbox_wait(in, milliseconds);
    return signal && signal != SIGHUP;
}

static void announce(const server *s, const http *h)
{
    bool v6 = strchr(s->o->host, ':') != NULL;
    printf("inferflow serves at %s://%s%s%s:%d\n", s->o->tls_cert ? "https" : "http", v6 ? "[" : "", s->o->host,
           v6 ? "]" : "", http_port(h));
    fflush(stdout);
}

/* Streams get their time; a second signal ends the process at once. */
static void drain_server(server *s, http *h, inbox *in)
{
    supervisor_tell("STOPPING=1");
    atomic_store(&s->draining, true);
    http_quiesce(h);
    double now = clock_now(), until = now + (double)s->o->drain, bodies_until = now + BODY_SECONDS;
    if (http_active(h))
        log_line(LOG_INFO, "stopping: %d requests may finish within %lld s", http_active(h), (long long)s->o->drain);
    while (((http_active(h) && clock_now() < until) || (http_receiving(h) && clock_now() < bodies_until)) &&
           atomic_load(&s->state) == SERVER_READY)
        if (inbox_asks_to_end(in, 20)) _exit(0);
    if (!server_stop(s, STOP_SECONDS)) _exit(0); /* a long step or a load: nothing is lost by ending here */
    for (int i = 0; i < 25 && http_active(h); i++)
        if (inbox_asks_to_end(in, 20)) _exit(0); /* clients read the end of streams that were cut */
}

/* SIGHUP: what administrators change while the server runs. */
static void reload(server *s, http *h)
{
    err e = {0};
    int rc = server_reload(s, &e);
    if (!rc) rc = http_reload(h, &e);
    if (rc) log_line(LOG_ERROR, "SIGHUP: %s; what was read before stays", e.msg);
    else log_line(LOG_INFO, "SIGHUP: keys and certificate were read again");
}

static int wait_for_end(server *s, http *h, inbox *in, err *e)
{
    double began = clock_now();
    bool told = false;
    const int interval = supervisor_interval();
    for (;;) {
        int signal = inbox_wait(in, interval);
        if (interval > 0 && server_is_alive(s)) supervisor_tell("WATCHDOG=1");
        if (atomic_load(&s->state) == SERVER_FAILED) {
            *e = s->load_error;
            drain_server(s, h, in);
            return e->code;
        }
        if (signal == SIGHUP) {
            reload(s, h);
        } else if (signal) {
            drain_server(s, h, in);
            return OK;
        }
        if (atomic_load(&s->state) == SERVER_READY && !told) {
            const engine_info *info = engine_describe(s->g);
            const bool alone = !strcmp(info->devices, "cpu"); /* then the number of threads says it all */
            log_line(LOG_INFO, "%s ready after %.2f s: context %d, up to %d sequences at once, %d threads%s%s",
                     server_model_name(s), clock_now() - began, info->ctx, info->max_batch, info->threads,
                     alone ? "" : ", on ", alone ? "" : info->devices);
            supervisor_tell("READY=1");
            told = true;
        }
    }
}

int serve_run(const serve_options *o, const engine_options *model, err *e)
{
    server s;
    http *h = NULL;
    inbox in = {-1, -1};
    log_set_json(o->log_format && strcmp(o->log_format, "json") == 0);
    int rc = server_open(&s, o, e);
    if (!rc) rc = inbox_open(&in, e);
    if (!rc) rc = http_open(&h, &s, e);
    if (!rc) {
        announce(&s, h);
        if (!s.loopback && !s.keys.n)
            log_line(LOG_WARN, "whoever reaches %s may use this server: --api-key-file asks for a key", o->host);
        rc = server_start(&s, model, report_state, &in, e);
    }
    if (!rc) rc = wait_for_end(&s, h, &in, e);
    http_close(h);
    server_close(&s);
    inbox_close(&in);
    return rc;
}
