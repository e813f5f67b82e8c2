/* hub_ask.c - see hub_ask.h. */
#include "hub/hub_ask.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double silence = 45, broken = 100, naps = 0.1;
enum { WAITS_MAX = 20, WAIT_SECONDS_MAX = 900, MUCH = 1 << 18 };

void hub_tell(const hub_client *c, const char *why)
{
    log_line(isatty(STDERR_FILENO) ? LOG_INFO : LOG_DEBUG, "%s: %s", c->repo, why);
}

static bool is_stopped(const hub_client *c) { return atomic_load(&c->stop); }

static int nap(hub_client *c, double seconds, err *e)
{
    const double until = clock_now() + seconds;
    while (!is_stopped(c) && clock_now() < until) {
        const struct timespec t = clock_timespec(naps);
        nanosleep(&t, NULL);
    }
    return is_stopped(c) ? err_set(e, ERR_CANCELLED, "cancelled") : OK;
}

static bool is_busy(int status) { return status == 429 || status == 408 || status >= 500; }

/* Why the hub does not give something. */
static int refuse_status(const hub_client *c, const hub_request *q, const hub_head *h, err *e)
{
    const char *more = *h->reason ? ": " : "";
    const bool gated = strstr(h->code, "Gated") != NULL;
    if (h->status == 401 && !gated)
        return err_set(e, ERR_NOT_FOUND, "the hub has no such model, or not for everybody%s (HF_TOKEN)%s%s",
                       *c->token ? ": the token does not open it" : ": a token may open it", more, h->reason);
    if (gated || h->status == 401 || h->status == 403)
        return err_set(e, ERR_IO, "the hub does not give it to %s: ask for access at %s/%s, and give HF_TOKEN%s%s",
                       *c->token ? "this user" : "everybody", c->endpoint, c->repo, more, h->reason);
    if (h->status == 404 && strcmp(h->code, "RevisionNotFound") == 0)
        return err_set(e, ERR_NOT_FOUND, "the hub has it, but not this revision%s%s", more, h->reason);
    if (h->status == 404)
        return err_set(e, ERR_NOT_FOUND, "the hub has no such %s%s%s", q->file ? "file" : "model", more, h->reason);
    return err_set(e, ERR_IO, "the hub answers %d%s%s", h->status, more, h->reason);
}

/* As long as the hub says, or a little longer each time. */
static int wait_turn(hub_client *c, const hub_head *h, int waits, err *e)
{
    if (h->wait > WAIT_SECONDS_MAX || waits > WAITS_MAX)
        return err_set(e, ERR_BUSY, "the hub limits requests, and says to wait for %d seconds: try again later",
                       h->wait > 0 ? h->wait : 0);
    const int seconds = h->wait > 0 ? h->wait : 1;
    char why[80];
    snprintf(why, sizeof why, "the hub limits requests: waiting %d s", seconds);
    if (seconds > 2) hub_tell(c, why);
    const int rc = nap(c, seconds, e);
    atomic_store(&c->heard, clock_now());
    return rc;
}

static int ask_until(hub_client *c, hub_http *h, hub_request *q, hub_head *head, err *e)
{
    double since = clock_now();
    int failures = 0, waits = 0;
    for (;;) {
        err own = {0};
        const uint64_t from = q->from;
        int rc = hub_http_ask(h, q, head, &own);
        const bool redirects = q->head && head->status >= 300 && head->status < 400;
        if (!rc && (head->status == 200 || head->status == 206 || redirects)) {
            atomic_store(&c->heard, clock_now());
            return OK;
        }
        if (rc && rc != ERR_UNAVAILABLE) return err_copy(e, &own);
        if (!rc && !is_busy(head->status)) return refuse_status(c, q, head, e);
        if (!rc && (head->status == 429 || head->wait >= 0)) {
            if ((rc = wait_turn(c, head, ++waits, e))) return rc;
            since = clock_now();
            continue;
        }
        if (q->from - from >= MUCH) since = clock_now(), failures = 0;
        const double now = clock_now();
        if (now - atomic_load(&c->heard) > silence || now - since > (rc ? broken : silence)) {
            if (!rc) return refuse_status(c, q, head, e);
            err_copy(e, &own);
            return err_wrap(e, "the download does not go on");
        }
        if (!failures) hub_tell(c, rc ? own.msg : "the hub is busy");
        failures += failures < 3;
        if ((rc = nap(c, q->from > from ? 0.1 : (double)(1 << failures) / 2, e))) return rc;
    }
}

int hub_ask(hub_client *c, hub_http *h, hub_request *q, hub_head *head, err *e)
{
    q->stop = &c->stop;
    q->heard = &c->heard;
    q->token = c->token;
    const int rc = ask_until(c, h, q, head, e);
    return rc ? err_wrap(e, "%s%s%s", c->repo, q->file ? "/" : "", q->file ? q->file : "") : OK;
}
