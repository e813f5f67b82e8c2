/* leader.c - see leader.h. A control connection to each node for each rank that it lends. */
#include "net/leader_state.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/at_once.h"
#include "net/msg.h"
#include "plan/drive.h"
#include "plan/remote.h"

#include <math.h>
#include <string.h>

/* ---- connections to nodes */

static void on_lost(void *ctx, const err *why)
{
    leader *d = ctx;
    pthread_mutex_lock(&d->asks.lock);
    const bool closes = d->closes;
    rank_links *w = d->w;
    pthread_mutex_unlock(&d->asks.lock);
    if (closes) return;
    plan_remote_lost(d->l, why);
    if (w) rank_links_fail(w, why);
    if (d->o.on_lost) d->o.on_lost(d->o.ctx);
}

static void links_lost(void *ctx, const err *why) { asking_lose(&((leader *)ctx)->asks, why); }

/* NULL: none yet. */
static rank_links *links_of(leader *d)
{
    pthread_mutex_lock(&d->asks.lock);
    rank_links *w = d->w;
    pthread_mutex_unlock(&d->asks.lock);
    return w;
}

static void *control_receiver(void *ctx, peer *p, const frame_head *h, msg_receiver kind)
{
    remote_rank *r = ctx;
    switch ((int)kind) {
    case FOR_RANK: return r;
    case FOR_QUESTION: return &r->q;
    case FOR_MAILBOXES: return rank_links_shared_mailboxes(links_of(r->of), p, h);
    default: return NULL;
    }
}

static void control_lost(void *ctx, peer *p, const err *why) { question_lost(&((remote_rank *)ctx)->q, p, why); }

/* ---- leases */

/* The message for one, as a protocol has it. */
static int write_lease(const remote_rank *r, int protocol, buf *out, err *e)
{
    const leader *d = r->of;
    const plan_options *asked = plan_asked(d->l);
    const rank_links_shape these = rank_links_of_plan(d->l);
    rank_links_others others;
    lease_ask a = {.rank = r->rank,
                   .ranks = d->n,
                   .ctx = d->m->ctx,
                   .sequences = d->o.sequences,
                   .choices = asked->choices,
                   .devices = buf_span(&d->devices),
                   .weights = span_str(d->o.weights ? d->o.weights : ""),
                   .model_spec = buf_span(&d->spec),
                   .list_bytes = (uint32_t)d->o.list->text.n,
                   .flat = buf_span(&d->o.list->flat),
                   .k_type = d->kv_type,
                   .v_type = d->kv_type};
    a.choices.in_flight = plan_in_flight(d->l);
    program_identity(d->m->prog, (span){0}, a.identity); /* the spec is sent */
    for (int i = 0; i < AXIS_COUNT; i++) a.max_rows[i] = asked->max_rows[i];
    memcpy(a.token, d->nodes.token[r->rank], sizeof a.token);
    rank_links_others_of(&others, &these, r->rank, plan_node(d->l, r->rank));
    for (int i = 0; i < d->n; i++) {
        a.meets[i] = others.is[i];
        a.node[i] = span_str(others.node[i]);
    }
    memcpy(a.list, d->o.list->digest, sizeof a.list);
    if (!lease_ask_write(out, &a, protocol)) return err_memory(e, "a message");
    return out->n <= LEASE_BYTES_MAX
               ? OK
               : err_set(e, ERR_LIMIT, "spec and list of tensors of the model are too long for nodes");
}

/* Where the LEASE could not go with the hello. */
static int ask_lease(void *ctx, int i, err *e)
{
    leader *d = ctx;
    remote_rank *r = &d->ranks[i];
    if (!leader_is_remote(d, i) || r->asked) return OK;
    const int protocol = peer_protocol(r->control);
    buf message = {0};
    int rc = protocol >= PROTOCOL_LISTS ? OK : own_list_make_flat(d->o.list, d->m, e);
    if (!rc) rc = write_lease(r, protocol, &message, e);
    if (!rc) rc = question_ask(&r->q, r->control, MSG_LEASE, &message, e);
    buf_free(&message);
    return rc;
}

/* An answer may come as soon as it is said. */
static bool expect_lease(void *ctx, bool quick)
{
    if (quick) question_expect(&((remote_rank *)ctx)->q);
    return true;
}

/* Connects to the node of a rank, and asks for the lease with the hello where that goes; ranks here have none. */
static int dial_remote(void *ctx, int i, err *e)
{
    leader *d = ctx;
    remote_rank *r = &d->ranks[i];
    buf message = {0};
    if (!leader_is_remote(d, i)) return OK;
    r->of = d;
    r->rank = i;
    r->q.of = &d->asks;
    r->sent_at = mem_zero((size_t)plan_in_flight(d->l), sizeof *r->sent_at);
    if (!r->sent_at) return err_memory(e, "leases");
    int rc = supply_open(&r->pieces, d->m->weights, d->o.list, e);
    if (!rc) rc = write_lease(r, PROTOCOL_MAX, &message, e);
    peer_first first = {.head = {(uint32_t)message.n, MSG_LEASE, 0}, .payload = message.p};
    const peer_use use = {.ctx = r,
                          .receiver = control_receiver,
                          .lost = control_lost,
                          .hear = rank_hear,
                          .look = rank_look,
                          .first = &first,
                          .wanted = expect_lease};
    if (!rc) rc = peer_dial(&r->control, &d->nodes.at[i], &d->self, &use, e);
    r->q.to = r->control;
    r->asked = !rc && first.said;
    buf_free(&message);
    return rc;
}

/* Whether the rank is the only one on its node: then nothing was taken there after its lease was answered. */
static bool is_alone(const leader *d, int rank)
{
    for (int i = 0; i < d->n; i++)
        if (i != rank && leader_is_remote(d, i) &&
            peer_hello(d->ranks[i].control)->node == peer_hello(d->ranks[rank].control)->node)
            return false;
    return true;
}

static int await_lease(leader *d, int rank, err *e)
{
    remote_rank *r = &d->ranks[rank];
    int rc = question_await(&r->q, INFINITY, e);
    if (rc) return rc;
    span more = buf_span(&r->q.more);
    r->hashed_at = lease_hashed_read(&more);
    if (peer_protocol(r->control) < PROTOCOL_SHARED) return OK;
    r->told = is_alone(d, rank);
    rc = lease_memory_read(&r->memory, more, e);
    return rc ? err_of(e, peer_name(r->control)), rc : OK;
}

static int remote_open(void *self, plan *l, err *e)
{
    leader *d = self;
    d->l = l;
    d->n = plan_segments(l);
    d->kv_type = d->o.kv_type(d->o.ctx, l);
    d->ranks = mem_zero((size_t)d->n, sizeof *d->ranks);
    int rc = d->ranks ? rank_links_make_tokens(&d->nodes, d->n, e) : err_memory(e, "leases");
    for (int i = 0; i < d->n && !rc; i++)
        if (leader_is_remote(d, i)) rc = address_parse(&d->nodes.at[i], plan_node(l, i), false, e);
    buf_free(&d->spec);
    if (!rc && !device_list_text(plan_asked(l)->devices, &d->devices)) rc = err_memory(e, "the list of devices");
    if (!rc) rc = model_own_spec_text(d->m, NULL, &d->spec, e);
    if (!rc) rc = own_list_make(d->o.list, d->m, e);
    if (!rc) rc = at_once(d->n, dial_remote, d, e);
    for (int i = 0; i < d->n && !rc; i++) rc = ask_lease(d, i, e);
    for (int i = 0; i < d->n && !rc; i++)
        if (leader_is_remote(d, i)) rc = await_lease(d, i, e);
    return rc;
}

/* Asks all, so that one round trip is enough. */
static void ask_memory(leader *d, dtype k_type, dtype v_type)
{
    buf message = {0};
    err ignored = {0}; /* the loss of a node is told by `ready` */
    lease_types_write(&message, k_type, v_type);
    for (int i = 0; i < d->n; i++) {
        remote_rank *r = &d->ranks[i];
        if (!leader_is_remote(d, i) || r->told || (r->counts && question_await(&r->q, INFINITY, &ignored))) continue;
        r->counts = question_ask(&r->q, r->control, MSG_MEMORY, &message, &ignored) == OK;
    }
    buf_free(&message);
}

static void remote_memory(void *self, int rank, dtype k_type, dtype v_type, plan_room *out)
{
    leader *d = self;
    remote_rank *r = &d->ranks[rank];
    lease_memory m = {.left = 0};
    err ignored = {0};
    const bool told = r->told && k_type == d->kv_type && v_type == d->kv_type;
    r->told = told;
    if (!told && !r->counts) ask_memory(d, k_type, v_type);
    int rc = told ? OK : r->counts ? question_await(&r->q, INFINITY, &ignored) : ERR_IO;
    r->counts = false;
    if (told) m = r->memory;
    else if (!rc) rc = lease_memory_read(&m, buf_span(&r->q.more), &ignored);
    if (rc) m = (lease_memory){.left = 0};
    r->memory = m;
    memcpy(out->page, m.page, sizeof m.page);
    const program *p = plan_program(d->l);
    out->slot = m.slot;
    out->slot_row = program_slot_bytes(p, 1) - program_slot_bytes(p, 0); /* at most: the node does not say */
    out->left = m.left;
}

static int open_links(leader *d, err *e)
{
    bool here[LINK_RANKS_MAX];
    const rank_links_use use = {d, links_lost};
    rank_links *w;
    for (int i = 0; i < d->n; i++) here[i] = !leader_is_remote(d, i);
    const rank_links_shape these = rank_links_of_plan(d->l);
    int rc = rank_links_open(&w, &these, here, &use, e);
    for (int b = 0; b < d->n; b++)
        for (int a = 0;
             a < d->n && leader_is_remote(d, b) && peer_protocol(d->ranks[b].control) >= PROTOCOL_SHARED && !rc; a++)
            if (!leader_is_remote(d, a)) rc = rank_links_share(w, a, b, a, d->ranks[b].control, e);
    pthread_mutex_lock(&d->asks.lock);
    d->w = w;
    const bool lost = d->asks.lost;
    pthread_mutex_unlock(&d->asks.lock);
    if (lost && w) rank_links_fail(w, &d->asks.why);
    return rc ? rc : rank_links_dial_all(w, &d->nodes, &d->self, e);
}

/* Nodes of versions before compute them again. */
static bool remote_keeps_rows(void *self)
{
    const leader *d = self;
    for (int i = 0; i < d->n; i++)
        if (leader_is_remote(d, i) && peer_protocol(d->ranks[i].control) < PROTOCOL_APART) return false;
    return true;
}

static int remote_ready(void *self, const cache_options *cache, link_end *(*ends)[PLAN_LANES], err *e)
{
    leader *d = self;
    const program *p = plan_program(d->l);
    step_limits limits;
    buf message = {0};
    lease_cache_write(&message, cache);
    int rc = step_limits_of(&limits, p, plan_asked(d->l)->max_rows, d->o.sequences, d->m->ctx, cache, e);
    if (!rc && cache->slot_rows && !remote_keeps_rows(d))
        rc = err_set(e, ERR_UNAVAILABLE,
                     "a node of an older version cannot take part in --draft for this model: update it");
    if (!rc) rc = step_writer_open(&d->writer, p, &limits, e);
    for (int i = 0; i < d->n && !rc; i++)
        if (leader_is_remote(d, i)) rc = question_ask(&d->ranks[i].q, d->ranks[i].control, MSG_READY, &message, e);
    if (!rc) rc = open_links(d, e);
    for (int i = 0; i < d->n && !rc; i++)
        if (leader_is_remote(d, i)) rc = question_await(&d->ranks[i].q, INFINITY, e);
    for (int i = 0; i < d->n && !rc; i++)
        for (int k = 0; k < plan_lanes(d->l); k++)
            ends[i][k] = leader_is_remote(d, i) ? NULL : rank_links_end(d->w, i, k);
    buf_free(&message);
    return rc;
}

/* A step is about to be sent. */
static void note_sent(leader *d, uint64_t number, double expected)
{
    bool first = true;
    for (int i = 0; i < d->n; i++) first = first && leader_has_done(d, i, number - 1);
    pthread_mutex_lock(&d->asks.lock);
    if (first || number == 0) {
        progress_begin(&d->watch);
        d->began = clock_now();
        for (int i = 0; i < d->n; i++) d->ranks[i].watch.alive_at = d->began;
    }
    d->expected = first || expected > d->expected ? expected : d->expected;
    pthread_mutex_unlock(&d->asks.lock);
    atomic_store(&d->sent, number + 1);
}

static void remote_send(void *self, uint64_t number, const step *st)
{
    leader *d = self;
    span bytes;
    err e = {0};
    int rc = step_write(d->writer, st, &bytes, &e);
    note_sent(d, number, st->expected);
    const frame_head head = {(uint32_t)bytes.n, MSG_STEP, number};
    for (int i = 0; i < d->n && !rc; i++) {
        if (!leader_is_remote(d, i)) continue;
        d->ranks[i].sent_at[number % (uint64_t)plan_in_flight(d->l)] = clock_now();
        rc = peer_send(d->ranks[i].control, PEER_CONTROL, &head, bytes.p, &e);
        if (rc) err_of(&e, peer_name(d->ranks[i].control));
    }
    if (rc) asking_lose(&d->asks, &e);
}

/* Nodes of versions before tell one. */
static int32_t remote_best_most(void *self)
{
    const leader *d = self;
    bool lists = true;
    for (int i = 0; i < d->n && lists; i++)
        lists = !leader_is_remote(d, i) || peer_protocol(d->ranks[i].control) >= PROTOCOL_BEST;
    return lists ? BEST_MAX : 1;
}

static const char *remote_speed(void *self, int rank)
{
    const peer *p = ((leader *)self)->ranks[rank].control;
    return p && peer_hello(p)->pretended_speed[0] ? peer_hello(p)->pretended_speed : NULL;
}

static void remote_close(void *self)
{
    leader *d = self;
    pthread_mutex_lock(&d->asks.lock);
    d->closes = true;
    pthread_mutex_unlock(&d->asks.lock);
    for (int i = 0; d->ranks && i < d->n; i++) {
        supply_stop(d->ranks[i].pieces);
        peer_close(d->ranks[i].control);
        supply_close(d->ranks[i].pieces);
        mem_free(d->ranks[i].sent_at);
    }
    rank_links_close(d->w);
    d->w = NULL;
    step_writer_close(d->writer);
    d->writer = NULL;
    for (int i = 0; d->ranks && i < d->n; i++) buf_free(&d->ranks[i].q.more);
    mem_free(d->ranks);
    d->ranks = NULL;
    d->n = 0;
}

/* ---- */

int leader_open(leader **out, const model *m, const leader_options *o, err *e)
{
    leader *d = *out = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, "a leader");
    asking_open(&d->asks, on_lost, d);
    d->m = m;
    d->o = *o;
    d->remote = (plan_remote){.self = d,
                              .open = remote_open,
                              .memory = remote_memory,
                              .ready = remote_ready,
                              .send = remote_send,
                              .close = remote_close,
                              .best_most = remote_best_most,
                              .keeps_rows = remote_keeps_rows,
                              .pretended_speed = remote_speed};
    int rc = peer_self_open(&d->self, o->key_file, e);
    d->self.me.inexact = o->inexact;
    d->self.patience = o->patience;
    if (o->timeout > 0) d->self.me.silence_ms = (uint32_t)(o->timeout * 1000);
    return rc;
}

const plan_remote *leader_remote(const leader *d) { return &d->remote; }

bool leader_is_left(leader *d, err *why)
{
    pthread_mutex_lock(&d->asks.lock);
    const bool is = d->leaving.code != OK;
    if (is) err_copy(why, &d->leaving);
    pthread_mutex_unlock(&d->asks.lock);
    return is;
}

/* The entry of the rank's node, which is made if there is none; NULL: there is no room. */
static leader_node *node_of(leader_node *all, int *n, int most, const char *name, const peer *p)
{
    for (int k = 0; k < *n; k++)
        if (!strcmp(all[k].name, name)) return &all[k];
    if (*n == most) return NULL;
    all[*n] = (leader_node){
        .name = name, .id = peer_hello(p)->node, .rtt = peer_rtt(p), .pretended_speed = peer_hello(p)->pretended_speed};
    return &all[(*n)++];
}

int leader_nodes(const leader *d, leader_node *out, int most)
{
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const remote_rank *r = &d->ranks[i];
        leader_node *x = r->control ? node_of(out, &n, most, plan_node(d->l, i), r->control) : NULL;
        if (!x) continue;
        peer_count(r->control, &x->bytes);
        if (d->w) rank_links_count(d->w, i, &x->bytes);
        x->wait += r->wait;
        if (r->hashed_at && (!x->hashed_at || r->hashed_at < x->hashed_at)) x->hashed_at = r->hashed_at;
        for (int g = 0; g < GROUP_MAX; g++) x->page[g] += r->memory.page[g];
    }
    return n;
}

void leader_close(leader *d)
{
    if (!d) return;
    asking_close(&d->asks);
    buf_free(&d->spec);
    buf_free(&d->devices);
    mem_free(d);
}
