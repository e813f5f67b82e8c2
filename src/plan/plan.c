/* plan.c - see plan.h: cuts a program over groups of devices and over their ranks, opens them, and asks them what is
 * left for pages. */
#include "plan/plan_state.h"

#include "base/mem.h"
#include "core/kv_type.h"
#include "core/lower_int8.h"
#include "core/place.h"
#include "plan/devices.h"

#include <string.h>

/* ---- cutting the layers of a group by columns */

/* What a device takes for int8; one of which only the node knows is taken to be like the first here. */
static bool (*takes_of(const plan *l, const plan_rank *r))(dtype type)
{
    return l->asked.choices.act_f32 ? NULL : r->seg.be ? r->seg.be->takes_int8 : l->first->takes_int8;
}

/* What all devices of a group take for int8; NULL: nothing, or they differ. */
static bool (*group_takes(const plan *l, const plan_group *g))(dtype type)
{
    bool (*takes)(dtype type) = takes_of(l, &l->ranks[g->rank0]);
    for (int i = 1; i < g->ranks && takes; i++) {
        bool (*other)(dtype type) = takes_of(l, &l->ranks[g->rank0 + i]);
        for (int t = 0; t < DTYPE_COUNT && other && takes; t++)
            if (takes((dtype)t) != other((dtype)t)) takes = NULL;
        if (!other) takes = NULL;
    }
    return takes;
}

static int cut_group(plan *l, plan_group *g, err *e)
{
    g->shape = (cut_shape){.p = l->p,
                           .op0 = g->op0,
                           .op1 = g->op1,
                           .ranks = g->ranks,
                           .share = g->share,
                           .experts = g->experts,
                           .reduces = l->reduction.codec,
                           .whole_experts = l->asked.choices.experts == EXPERTS_WHOLE};
    if (g->ranks == 1) return OK;
    int rc = cut_open(&g->by_columns, &g->shape, group_takes(l, g), e);
    if (!rc) g->n_coll = cut_colls(g->by_columns, &g->colls);
    return rc;
}

/* ---- opening */

/* Those of a rank of another plan. */
static int share_weights(const plan *l, plan_rank *r, const weight_options *o, err *e)
{
    const plan *of = l->asked.shares;
    const int i = (int)(r - l->ranks);
    rank_weights *there = of->p == l->p && i < of->n ? of->ranks[i].weights : NULL;
    r->weights = there ? rank_weights_share(there, r->seg.be, r->seg.p, o) : NULL;
    return r->weights ? OK : err_set(e, ERR_USAGE, "device %d needs other weights than the plan has that shares", i);
}

/* Weights of its own, as yet without values. */
static int open_weights(const plan *l, plan_rank *r, const weight_options *o, err *e)
{
    const segment *s = &r->seg;
    int rc = rank_weights_open(&r->weights, s->be, s->p, o, e);
    return rc || !l->asked.before_weights ? rc : l->asked.before_weights(l->asked.ctx, s->p, e);
}

static int rank_open(plan *l, plan_rank *r, const weight_options *o, err *e)
{
    segment *s = &r->seg;
    const plan_group *g = group_of(l, r);
    const program *p = g->by_columns ? cut_program(g->by_columns, r->index) : l->p;
    s->p = lower_int8(p, g->by_columns ? 0 : g->op0, g->by_columns ? p->n_op : g->op1, takes_of(l, r), e);
    int rc = s->p ? list_edges(l, r, e) : e->code;
    if (!rc) rc = arena_layout(s, l->max_rows, e);
    if (rc || l->asked.only_cut) return rc;
    rc = l->borrows ? share_weights(l, r, o, e) : open_weights(l, r, o, e);
    const uint64_t bytes = rc || l->borrows ? 0 : r->weights->bytes;
    if (!rc && l->asked.may_take) rc = l->asked.may_take(l->asked.ctx, bytes + s->act_bytes, e);
    return rc || l->borrows ? rc : rank_weights_read(r->weights, e);
}

/* Devices of one backend that leave it to the backend how much of the machine they take. */
static int sharers_of(const plan *l, const backend *be)
{
    int sum = 0;
    for (int i = 0; i < l->n; i++) sum += l->ranks[i].seg.be == be && l->ranks[i].number < 1;
    return sum;
}

static const void *own_options(const backend_use *list, const backend *be)
{
    while (list->be && list->be != be) list++;
    return list->own;
}

static int open_ranks(plan *l, const plan_options *o, err *e)
{
    int rc = divide_layers(l, e);
    for (int i = 0; i < l->n_group && !rc; i++) rc = cut_group(l, &l->groups[i], e);
    if (!rc) rc = find_crossings(l, e);
    if (!rc) rc = list_parts(l, e);
    for (int i = 0; i < l->n && !rc; i++) {
        plan_rank *r = &l->ranks[i];
        if (!is_here(l, r) || i == l->results_to) continue;
        const weight_options own = {.number = r->number,
                                    .sharers = drive_has_threads(l) ? sharers_of(l, r->seg.be) : 1,
                                    .inexact = o->choices.exact == EXACT_OFF,
                                    .own = own_options(o->backends, r->seg.be)};
        rc = rank_open(l, r, &own, e);
    }
    return rc;
}

/* Where the outer groups are of other processes, tables and head stay with the leader: groups of their own. If they
 * are to be away, the leader has a last group without a device, which takes the results. */
static int add_ends(device_entry *d, int n, const backend_use *backends, bool away, bool *front, bool *back, err *e)
{
    device_entry home = {.number = -1, .share = 1, .experts = -1};
    for (int i = 0; i < n; i++) {
        *front = *front || (d[i].group == 0 && d[i].node[0] && !away);
        *back = *back || (d[i].group == d[n - 1].group && d[i].node[0]);
    }
    if (n + *front + *back > DEVICES_MAX)
        return err_set(e, ERR_USAGE, "--devices: more than %d devices, with those of tables and head", DEVICES_MAX);
    if ((*front || *back) && !away) {
        const device_here is = devices_preferred(backends);
        home.be = is.be;
        home.number = is.number;
    }
    if (*front) {
        memmove(d + 1, d, (size_t)n * sizeof *d);
        for (int i = 1; i <= n; i++) d[i].group++;
        d[0] = home;
        n++;
    }
    if (*back) {
        d[n] = home;
        d[n].group = d[n - 1].group + 1;
        n++;
    }
    return n;
}

/* Shares of experts, where some rank of the group says one. */
static int note_experts(const plan *l, plan_group *g, err *e)
{
    double all = 0;
    for (int k = 0; k < g->ranks && g->experts; k++) {
        if (g->experts[k] < 0) g->experts[k] = g->share[k];
        all += g->experts[k];
    }
    if (!g->experts) return OK;
    if (!l->p->n_used) return err_set(e, ERR_USAGE, "--devices: shares of experts, for a model that has none");
    if (!(all > 0)) return err_set(e, ERR_USAGE, "--devices: experts without a device: their shares are 0");
    if (l->reduction.codec)
        return err_set(e, ERR_USAGE,
                       "--reduce: experts have shares of their own (--cpu-moe, or a comma in --devices): such ranks "
                       "gather: --reduce exact");
    return OK;
}

/* Groups of weight 0 have no layers, but what comes before or after these. */
static int note_ends(plan *l, bool front, bool back, err *e)
{
    for (int i = 0; i < l->n_group; i++) {
        plan_group *g = &l->groups[i];
        bool idle = false;
        double all = 0;
        int rc = note_experts(l, g, e);
        if (rc) return rc;
        for (int k = 0; k < g->ranks; k++) {
            if (!(all > 0) && g->share[k] > 0) g->shows = k;
            all += g->share[k];
            idle = idle || !(g->share[k] > 0 || (g->experts && g->experts[k] > 0));
        }
        const bool outer = i == 0 || i == l->n_group - 1, bare = !(all > 0);
        if ((bare && (!outer || l->n_group == 1 || g->experts)) || (!bare && idle))
            return err_set(
                e, ERR_USAGE,
                "--devices: a share of 0 is for all devices of the first group, which then have the tables, or "
                "of the last, which have the head");
        for (int k = 0; k < g->ranks && bare; k++) g->share[k] = 1;
        g->is_end = bare || (i == 0 && front) || (i == l->n_group - 1 && back);
    }
    if (l->n_group == 2 && l->groups[0].is_end && l->groups[1].is_end)
        return err_set(e, ERR_USAGE, "--devices: no device has layers: all shares are 0");
    return OK;
}

/* Devices that do a step together do one after the other. */
static int lanes_of(const plan *l, const plan_group *g) { return g->ranks > 1 && !group_may_join(l, g) ? l->lanes : 1; }

/* How many steps each rank may have begun. */
static void add_lanes(plan *l, const plan_options *o)
{
    const int asked = (int)o->choices.in_flight;
    l->in_flight = asked > 0 ? asked : l->n_group > 1 ? plan_groups(l) + 1 : 1;
    l->lanes = l->in_flight > 1 && l->n > l->n_group ? PLAN_LANES : 1;
    for (int i = 0; i < l->n; i++) l->ranks[i].n_lane = lanes_of(l, group_of(l, &l->ranks[i]));
}

/* Groups and ranks of the notation. */
static int add_devices(plan *l, const plan_options *o, err *e)
{
    device_entry d[DEVICES_MAX];
    const bool away = o->choices.ends == ENDS_AWAY;
    bool front = false, back = false;
    int n = o->devices->n;
    for (int i = 0; i < n; i++) d[i] = *device_at(o->devices, i);
    n = add_ends(d, n, o->backends, away, &front, &back, e);
    if (n < 0) return n;
    l->n = n;
    l->n_group = d[n - 1].group + 1;
    l->groups = mem_zero((size_t)l->n_group, sizeof *l->groups);
    l->ranks = mem_zero((size_t)n, sizeof *l->ranks);
    l->shares = mem_array((size_t)n, sizeof *l->shares);
    l->expert_shares = mem_array((size_t)n, sizeof *l->expert_shares);
    if (!l->groups || !l->ranks || !l->shares || !l->expert_shares) return err_memory(e, "the plan");
    l->results_to = back && away ? n - 1 : -1;
    for (int i = 0; i < n; i++) {
        plan_group *g = &l->groups[d[i].group];
        plan_rank *r = &l->ranks[i];
        if (!g->ranks) {
            g->rank0 = i;
            g->share = l->shares + i;
        }
        l->shares[i] = d[i].share;
        l->expert_shares[i] = d[i].experts;
        if (d[i].experts >= 0) g->experts = l->expert_shares + g->rank0;
        *r = (plan_rank){.group = d[i].group, .index = g->ranks++, .number = d[i].number, .of = l};
        memcpy(r->node, d[i].node, sizeof r->node);
        memcpy(r->name, d[i].name, sizeof r->name);
        r->seg.be = d[i].be;
        for (int k = 0; k < PLAN_LANES; k++) r->lane[k] = (rank_lane){.of = r, .next = (uint64_t)k};
        pthread_cond_init(&r->turn, NULL);
        l->n_remote += !is_here(l, r);
        if (!is_here(l, r) && !o->remote && l->self < 0)
            return err_set(e, ERR_USAGE, "--devices: \"%s\": devices of other processes need --key-file", r->node);
        if (i != l->self) continue;
        const int rc = devices_find_lent(o->lends, o->backends, &d[i], e);
        if (rc) return rc;
        r->number = d[i].number;
    }
    return note_ends(l, front, back, e);
}

int plan_open(plan **out, const program *p, const plan_options *o, err *e)
{
    *out = NULL;
    plan *l = mem_zero(1, sizeof *l);
    if (!l) return err_memory(e, "the plan");
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->p = p;
    l->asked = *o;
    l->wire = o->choices.wire;
    memcpy(l->max_rows, o->max_rows, sizeof l->max_rows);
    l->self = o->rank - 1;
    l->borrows = o->shares != NULL;
    l->first = o->backends[0].be;
    l->codecs = backend_wire(o->backends);
    l->remote = o->remote;
    int rc = reduction_of(&l->reduction, &o->choices, e);
    if (!rc && o->choices.experts == EXPERTS_WHOLE && !l->reduction.codec)
        rc = err_set(e, ERR_USAGE, "--experts whole: only where ranks add up their parts: give --reduce f32 or int8");
    if (!rc) rc = add_devices(l, o, e);
    if (!rc) add_lanes(l, o);
    if (!rc) rc = open_ranks(l, o, e);
    if (!rc && l->n_remote && l->remote) rc = l->remote->open(l->remote->self, l, e);
    l->asked.devices = NULL;
    l->asked.backends = NULL;
    l->asked.shares = NULL;
    if (rc) plan_close(l);
    else *out = l;
    return rc;
}

/* Pages of a device, and arenas of its lanes. */
static int rank_ready(plan_rank *r, const cache_options *cache, err *e)
{
    segment *s = &r->seg;
    int rc = s->be->open(&s->on, r->weights->set, s->p, r->of->max_rows, cache, e);
    for (int i = 0; i < r->n_lane && !rc; i++) {
        r->lane[i].seg = *s;
        rc = s->be->compile(s->on, &r->lane[i].seg, e);
    }
    r->seg.compiled = r->lane[0].seg.compiled;
    return rc;
}

int plan_ready(plan *l, const cache_options *cache, link_end *(*ends)[PLAN_LANES], err *e)
{
    int rc = OK;
    link_end *made[DEVICES_MAX][PLAN_LANES] = {{NULL}};
    if (l->n_remote && l->remote) {
        rc = l->remote->ready(l->remote->self, cache, made, e);
        ends = made;
    }
    for (int i = 0; ends && i < l->n; i++) memcpy(l->ranks[i].end, ends[i], sizeof ends[i]);
    l->cache = *cache;
    l->cache.host = l->asked.kv_host;
    for (uint32_t i = 0; i < l->p->n_rope && !rc; i++) rc = rope_fill(&l->p->ropes[i], e);
    for (int i = 0; i < l->n && !rc; i++)
        if (l->ranks[i].weights) rc = rank_ready(&l->ranks[i], &l->cache, e);
    return rc ? rc : drive_open(l, e);
}

void plan_close(plan *l)
{
    if (!l) return;
    drive_close(l);
    if (l->n_remote && l->remote) l->remote->close(l->remote->self);
    for (int i = 0; l->ranks && i < l->n; i++) {
        segment *s = &l->ranks[i].seg;
        for (int k = 0; k < PLAN_LANES; k++) {
            segment *own = &l->ranks[i].lane[k].seg;
            if (own->on) own->be->discard(own->on, own);
        }
        if (s->on) s->be->close(s->on);
        if (!l->ranks[i].weights || l->ranks[i].weights->p != s->p) program_free(s->p);
        rank_weights_close(l->ranks[i].weights);
        mem_free(l->ranks[i].sends);
        mem_free(l->ranks[i].receives);
        pthread_cond_destroy(&l->ranks[i].turn);
    }
    for (int i = 0; l->groups && i < l->n_group; i++) cut_close(l->groups[i].by_columns);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    mem_free(l->cross);
    mem_free(l->groups);
    mem_free(l->ranks);
    mem_free(l->shares);
    mem_free(l->expert_shares);
    mem_free(l);
}

/* ---- questions */

plan_preference plan_prefers(const device_list *devices, const backend_use *backends)
{
    plan_preference to = {.devices = devices->n};
    for (int i = 0; i < devices->n; i++) {
        const device_entry *d = device_at(devices, i);
        const backend *be = d->be ? d->be : devices_preferred(backends).be;
        device_here here = {.be = NULL};
        const uint64_t left = !*d->node && d->be && device_look(d->be, d->number, &here) ? here.info.free_bytes : 0;
        if (i == 0 || be->chunk < to.chunk) to.chunk = be->chunk;
        if (i == 0 || be->chunk_most < to.chunk_most) to.chunk_most = be->chunk_most;
        if (i == 0 || be->chunk_rate < to.chunk_rate) to.chunk_rate = be->chunk_rate;
        if (i == 0 || be->sequences < to.sequences) to.sequences = be->sequences;
        if (i == 0 || left < to.free_bytes) to.free_bytes = left;
    }
    return to;
}

bool plan_takes_int8(const plan *l)
{
    for (uint32_t i = 0; i < l->p->n_op; i++)
        if (lower_format(l->p, &l->p->ops[i], takes_of(l, &l->ranks[group_at(l, i)]))) return true;
    return false;
}

uint32_t rank_host_from(const plan_rank *r)
{
    const plan *l = r->of;
    const bool may = is_here(l, r) && r->seg.be && r->seg.be->reads_host;
    return kv_host_from(r->seg.p, may ? l->asked.kv_host : 0);
}

void add_page_bytes(const plan_rank *r, dtype k_type, dtype v_type, uint64_t own[GROUP_MAX], uint64_t host[GROUP_MAX])
{
    const program *p = r->seg.p;
    const uint32_t from = rank_host_from(r);
    for (uint32_t i = 0; i < p->n_state; i++)
        if (program_stores(p, i))
            (i < from ? own : host)[p->states[i].group] += kv_page_bytes(&p->states[i], k_type, v_type);
}

uint64_t plan_taken_bytes(const plan *l)
{
    uint64_t sum = drive_bytes(l);
    for (int i = 0; i < l->n; i++) {
        const plan_rank *r = &l->ranks[i];
        const uint64_t lane = r->seg.act_bytes + r->coll_bytes + r->rows_bytes;
        if (r->weights) sum += (uint64_t)r->n_lane * lane + (l->borrows ? 0 : r->weights->bytes);
        if (r->seg.on) sum += r->seg.be->held_bytes(r->seg.on);
        if (is_here(l, r)) sum += bytes_to_rank(l, i);
    }
    return sum;
}

uint64_t plan_weights_taken(const plan *l)
{
    uint64_t sum = 0;
    for (int i = 0; i < l->n; i++) sum += l->ranks[i].weights ? l->ranks[i].weights->bytes : 0;
    return sum;
}

int plan_devices(const plan *l) { return l->results_to < 0 ? l->n : l->results_to; }

int plan_groups(const plan *l) { return l->n_group - (l->results_to >= 0); }

int plan_group_of(const plan *l, int i) { return l->ranks[i].group; }

double plan_share_of(const plan *l, int i) { return l->shares[i]; }

int plan_layers_of(const plan *l, int i)
{
    const plan_group *g = group_of(l, &l->ranks[i]);
    return g->layer1 - g->layer0;
}

const char *plan_reduces(const plan *l)
{
    bool any = false;
    for (int i = 0; i < l->n_group; i++)
        for (uint32_t k = 0; k < l->groups[i].n_coll; k++) any = any || l->groups[i].colls[k].how == COLL_REDUCE;
    return any ? l->reduction.codec->name : NULL;
}

const char *plan_wire(const plan *l)
{
    bool any = false;
    for (uint32_t k = 0; k < l->n_cross; k++) any = any || l->cross[k].read_by_device;
    return any && l->wire != WIRE_F32 ? wire_infos[l->wire].name : NULL;
}

int plan_segments(const plan *l) { return l->n; }

const segment *plan_segment(const plan *l, int i) { return &l->ranks[i].seg; }

static bool is_recorded(plan *l, const err *what, err *why)
{
    pthread_mutex_lock(&l->lock);
    const bool is = what->code != OK;
    if (is && why) *why = *what;
    pthread_mutex_unlock(&l->lock);
    return is;
}

bool plan_is_lost(plan *l, err *why) { return is_recorded(l, &l->lost, why); }

bool plan_is_broken(plan *l, err *why) { return is_recorded(l, &l->broken, why); }

double plan_busy(plan *l, int i)
{
    pthread_mutex_lock(&l->lock);
    const double busy = l->ranks[i].busy;
    pthread_mutex_unlock(&l->lock);
    return busy;
}

const char *plan_pretended_speed(const plan *l, int i)
{
    const bool may = !is_here(l, &l->ranks[i]) && l->remote && l->remote->pretended_speed;
    return may ? l->remote->pretended_speed(l->remote->self, i) : NULL;
}

int32_t plan_best_most(const plan *l)
{
    const plan_remote *r = l->n_remote ? l->remote : NULL;
    return r && r->best_most ? r->best_most(r->self) : BEST_MAX;
}

bool plan_keeps_rows(const plan *l)
{
    const plan_remote *r = l->n_remote ? l->remote : NULL;
    return !r || !r->keeps_rows || r->keeps_rows(r->self);
}

bool plan_sees_taps(const plan *l) { return !l->n_remote || (l->remote && l->remote->sees_taps); }

const program *plan_program(const plan *l) { return l->p; }

const plan_options *plan_asked(const plan *l) { return &l->asked; }

int plan_sharers(const plan *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) n += !strcmp(l->ranks[i].node, l->ranks[l->self].node);
    return n;
}

const char *plan_own_node(const plan *l) { return l->ranks[l->self].node; }

const char *plan_node(const plan *l, int i) { return is_here(l, &l->ranks[i]) ? NULL : l->ranks[i].node; }
