/* on_rank.c - on the leader, what a rank on a node says: steps are DONE, it GETs weights, its node is DRAINING; and
 * whether it stands still. */
#include "base/clock.h"
#include "net/leader_state.h"
#include "plan/drive.h"
#include "plan/remote.h"

#include <inttypes.h>

/* ---- nodes that stand still */

#define STEP_LEAST 5.0  /* seconds without progress of any rank after which one counts as lost, at least */
#define STEP_TIMES 8    /* and so many times what the step should take */
#define STEP_MOST  30.0 /* the same for a step that goes on and never ends; where nothing is known of its length, … */
#define STEP_ENDS  20
#define STEP_WHOLE 600.0

/* Something moves; `ends`: a step is over somewhere. */
static void note_moved(leader *d, bool ends)
{
    pthread_mutex_lock(&d->asks.lock);
    progress_begin(&d->watch);
    if (ends) d->began = clock_now();
    pthread_mutex_unlock(&d->asks.lock);
}

/* The rank at which the oldest step hangs: of those that have not done it one whose threads cannot run, else the first,
 * or whose rows it waits for. -1: none elsewhere. Under the lock. */
static int find_culprit(leader *d)
{
    uint64_t oldest = UINT64_MAX;
    int at = -1;
    for (int i = 0; i < d->n; i++)
        if (leader_is_remote(d, i) && atomic_load(&d->ranks[i].done) < oldest) oldest = atomic_load(&d->ranks[i].done);
    if (oldest < atomic_load(&d->sent)) {
        for (int i = d->n - 1; i >= 0; i--)
            if (!leader_has_done(d, i, oldest)) at = i;
        for (int i = 0; i < d->n; i++) {
            const remote_rank *r = &d->ranks[i];
            if (!leader_has_done(d, i, oldest) && clock_now() - r->watch.alive_at > STEP_LEAST / 2) return i;
        }
        for (int hops = 0; hops < d->n; hops++) {
            const int next = d->ranks[at].watch.last.waits;
            if (next < 0 || next >= d->n || next == at) return at;
            if (!leader_is_remote(d, next)) return at;
            if (leader_has_done(d, next, oldest)) return next;
            at = next;
        }
        return at;
    }
    const int waits = plan_progress_now(d->l).waits;
    return waits >= 0 && leader_is_remote(d, waits) ? waits : -1;
}

static int look_at_steps(remote_rank *r, err *e)
{
    leader *d = r->of;
    int culprit = -1;
    double rest = 0;
    if (!atomic_load(&d->sent)) return OK;
    const plan_progress here = plan_progress_now(d->l);
    const progress ours = {.work = here.work, .waits = here.waits};
    pthread_mutex_lock(&d->asks.lock);
    const double missed = clock_now() - d->watch.looked - 1;
    if (missed > 0) d->began += missed; /* this process stood still */
    progress_hear(&d->watch, &ours);
    rest = progress_rest(&d->watch);
    const double often = d->expected * STEP_TIMES, whole = d->expected * STEP_ENDS, took = clock_now() - d->began;
    const double soft = often > STEP_LEAST ? often : STEP_LEAST;
    const double hard = whole <= 0 ? STEP_WHOLE : whole > STEP_MOST ? whole : STEP_MOST;
    if (rest > soft || took > hard) culprit = find_culprit(d);
    pthread_mutex_unlock(&d->asks.lock);
    if (culprit != r->rank) return OK;
    return rest > soft ? err_set(e, ERR_IO, "no progress for %.0f s in a step that should take %.1f: it stands still",
                                 rest, d->expected)
                       : err_set(e, ERR_IO, "a step is not over after %.0f s: it should take %.1f", took, d->expected);
}

void rank_hear(void *ctx, const progress *said)
{
    remote_rank *r = ctx;
    leader *d = r->of;
    question_hear(&r->q, said);
    pthread_mutex_lock(&d->asks.lock);
    const uint64_t before = r->watch.last.work;
    progress_hear(&r->watch, said);
    if (said->work != before) progress_begin(&d->watch);
    pthread_mutex_unlock(&d->asks.lock);
}

int rank_look(void *ctx, err *e)
{
    remote_rank *r = ctx;
    int rc = question_look(&r->q, PROGRESS_BUSY, e);
    return rc ? rc : look_at_steps(r, e);
}

/* ---- messages */

/* A device takes steps in order: it could begin when the one before was over. */
static void note_wait(remote_rank *r, uint64_t number, double took)
{
    const double now = clock_now(), sent = r->sent_at[number % (uint64_t)plan_in_flight(r->of->l)];
    const double idle = now - (sent > r->done_at ? sent : r->done_at) - took;
    if (idle > 0) atomic_store(&r->wait, r->wait + idle);
    r->done_at = now;
}

static int take_done(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    remote_rank *r = to;
    err why = {0};
    span more;
    int rc = lease_answer_read(&more, span_of(payload, h->bytes), &why);
    err_of(&why, peer_name(p));
    const double took = lease_seconds_read(more);
    if (h->channel == r->done) note_wait(r, h->channel, took);
    row_fault x;
    int32_t k;
    for (size_t i = 0; !rc && lease_faults_read(more, i, &k, &x); i++)
        if (!plan_remote_fault(r->of->l, r->rank, h->channel, k, &x))
            return err_set(e, ERR_FORMAT, "a row of no step is at fault");
    if (rc == ERR_UNAVAILABLE) asking_lose(&r->of->asks, &why); /* its weights are not whole: others may have them */
    note_moved(r->of, true);
    if (h->channel == r->done++ && plan_remote_done(r->of->l, r->rank, h->channel, took, &why)) return OK;
    return err_set(e, ERR_FORMAT, "step %" PRIu64 " is done, which it was not given", h->channel);
}

static int take_get(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    remote_rank *r = to;
    question_moves(&r->q);
    return supply_take(r->pieces, p, h, payload, e);
}

/* The node ends soon: whoever has a spare for it need not wait for that. */
static int take_draining(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    leader *d = ((remote_rank *)to)->of;
    (void)h, (void)payload, (void)e;
    pthread_mutex_lock(&d->asks.lock);
    if (!d->leaving.code) {
        err_set(&d->leaving, ERR_IO, "it is about to end");
        err_of(&d->leaving, peer_name(p));
    }
    const bool closes = d->closes;
    pthread_mutex_unlock(&d->asks.lock);
    if (d->o.on_lost && !closes) d->o.on_lost(d->o.ctx);
    return OK;
}

const msg_handler on_DONE = {.take = take_done};
const msg_handler on_GET = {.take = take_get};
const msg_handler on_GET_LIST = {.take = take_get};
const msg_handler on_DRAINING = {.take = take_draining};
