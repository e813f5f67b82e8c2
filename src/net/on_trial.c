/* on_trial.c - TRIAL and TEST on a node: a rank without a plan, that only measures collectives with others
 * (trial_msg.h). */
#include "base/mem.h"
#include "net/node_state.h"
#include "net/trial_side.h"

#include <stdatomic.h>
#include <string.h>

typedef struct hosted_trial {
    hosted_rank base; /* first */
    trial_layout layout;
    uint8_t token[LINK_RANKS_MAX][LEASE_TOKEN];
    trial_side side;
    bool opened, joined; /* and no test has failed since; all ranks are connected */
} hosted_trial;

static void *trial_receiver(hosted_rank *r, peer *p, const frame_head *h, msg_receiver kind)
{
    (void)p, (void)h;
    return kind == FOR_TRIAL ? r : NULL;
}

static void close_trial(hosted_rank *r)
{
    hosted_trial *t = (hosted_trial *)r;
    trial_side_close(&t->side);
    device_list_close(&t->layout.devices);
}

static const hosted_kind trial_kind = {.first = MSG_TRIAL, .receiver = trial_receiver, .close = close_trial};

static int read_trial(hosted_trial *t, span payload, err *e)
{
    hosted_rank *r = &t->base;
    trial_ask a;
    int rc = trial_ask_read(&a, payload, e);
    if (rc) return rc;
    char *devices = mem_strn((const char *)a.devices.p, a.devices.n);
    t->layout.bytes = a.bytes;
    r->rank = a.rank;
    r->ranks = a.ranks;
    memcpy(t->token, a.token, sizeof a.token);
    r->token = t->token;
    rc = devices ? device_list_parse(&t->layout.devices, devices, r->host->backends, e) : err_memory(e, "a trial");
    mem_free(devices);
    if (rc) return rc;
    if (t->layout.devices.n != a.ranks)
        return err_set(e, ERR_FORMAT, "%d devices for %d ranks", t->layout.devices.n, a.ranks);
    device_entry *own = device_at(&t->layout.devices, a.rank);
    rc = devices_find_lent(r->host->devices, r->host->backends, own, e);
    if (!rc) t->side.wire = backend_wire(r->host->backends);
    return rc;
}

static int open_trial(hosted_rank **out, const rank_host *host, peer *control, span payload, err *e)
{
    hosted_trial *t = mem_zero(1, sizeof *t);
    *out = NULL;
    if (!t) return err_memory(e, "a trial");
    hosted_open(&t->base, &trial_kind, host, control);
    int rc = read_trial(t, payload, e);
    if (rc) hosted_close(&t->base);
    else *out = &t->base;
    return rc;
}

static int take_trial(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)from;
    return visitor_settle(to, visitor_host(to, open_trial, span_of(payload, h->bytes), e), e);
}

static int answer_trial(void *rank, span payload, buf *more, err *e)
{
    hosted_trial *t = rank;
    hosted_rank *r = &t->base;
    const rank_links_shape these = trial_shape(&t->layout);
    const uint64_t left = quota_left(r->host->memory);
    (void)payload, (void)more;
    int rc = t->layout.bytes > left ? quota_refuse(r->host->memory, left, t->layout.bytes, e) : OK;
    if (!rc) rc = hosted_make_links(r, &these, device_at(&t->layout.devices, r->rank)->node, e);
    t->side.w = r->links;
    t->side.rank = r->rank;
    t->opened = !rc;
    return rc;
}

static int answer_test(void *rank, span payload, buf *more, err *e)
{
    hosted_trial *t = rank;
    hosted_rank *r = &t->base;
    coll_test test;
    coll_score score;
    int rc = trial_test_read(&test, payload, e);
    if (!rc && !t->opened) rc = err_set(e, ERR_FORMAT, "a test after one that failed");
    if (!rc && !t->joined) rc = hosted_await_links(r, e);
    t->joined = !rc;
    if (!rc) rc = quota_take(r->host->memory, &r->quota, trial_side_bytes(&t->side, &test), 0, e);
    if (!rc) rc = trial_side_run(&t->side, &test, &score, e);
    quota_return(r->host->memory, &r->quota);
    if (!rc && !trial_score_write(more, &score)) rc = err_memory(e, NULL);
    t->opened = !rc;
    atomic_fetch_add(&r->host->done->trials, !rc);
    return rc;
}

const msg_handler on_TRIAL = {visitor_admit, take_trial, answer_trial};
const msg_handler on_TEST = {.take = hosted_put_off, .answer = answer_test};
