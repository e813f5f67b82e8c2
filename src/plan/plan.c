/* plan.c - see plan.h: cuts a program over groups of devices and over their ranks, opens them, and asks them what is
 * left for pages. */
#include "plan/plan_state.h"

#include "base/mem.h"
#include "core/kv_type.h"
#include "core/lower_int8.h"
#include "core/place.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <string.h>

/* ---- cutting by layers */

/* First op of layer l; n_op when l is past the last layer (then the tail after the layers counts as the last
 * segment's). */
static uint32_t layer_start(const program *p, int layer)
{
    uint32_t i = 0;
    while (i < p->n_op && p->ops[i].layer != layer) i++;
    return i;
}

static double weight_of(const plan_group *g)
{
    double sum = 0;
    for (int i = 0; i < g->ranks; i++) sum += g->share[i];
    return sum;
}

/* Gives each group a run of layers in proportion to its weight, at least one. open: program_open_states. */
static int divide(plan *l, const uint8_t *open, err *e)
{
    const program *p = l->p;
    const int layers = p->n_enc + p->n_layer, n = l->n_group;
    double total = 0, sum = 0;
    if (n > layers && n > 1)
        return err_set(e, ERR_USAGE, "--devices: %d groups of devices for a model of %d layers", n, layers);
    for (int i = 0; i < n; i++) total += weight_of(&l->groups[i]);
    for (int i = 0, layer = 0; i < n; i++) {
        plan_group *g = &l->groups[i];
        sum += weight_of(g);
        int end = (int)(sum / total * layers + 0.5), most = layers - (n - 1 - i);
        if (end < layer + 1) end = layer + 1;
        if (end > most || i == n - 1) end = most;
        while (i < n - 1 && end < most && open[layer_start(p, end)]) end++;
        g->op0 = i ? l->groups[i - 1].op1 : 0;
        g->op1 = i < n - 1 ? layer_start(p, end) : p->n_op;
        if (i < n - 1 && open[g->op1])
            return err_set(e, ERR_USAGE,
                           "--devices: this model cannot be divided before layer %d: later layers read keys and values "
                           "of earlier ones",
                           end);
        g->layer0 = layer;
        g->layer1 = end;
        layer = end;
    }
    return 0;
}

static int divide_layers(plan *l, err *e)
{
    uint8_t *open = mem_zero((size_t)l->p->n_op + 1, 1);
    if (!open) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    program_open_states(l->p, open);
    int rc = divide(l, open, e);
    mem_free(open);
    return rc;
}

/* ---- cutting the layers of a group by columns */

/* What all devices of a group take for int8; NULL: nothing, or they differ. */
static bool (*group_takes(const plan *l, const plan_group *g))(dtype type)
{
    bool (*takes)(dtype type) = l->ranks[g->rank0].seg.be->takes_int8;
    for (int i = 1; i < g->ranks && takes; i++) {
        bool (*other)(dtype type) = l->ranks[g->rank0 + i].seg.be->takes_int8;
        for (int t = 0; t < DTYPE_COUNT && other && takes; t++)
            if (takes((dtype)t) != other((dtype)t)) takes = NULL;
        if (!other) takes = NULL;
    }
    return l->act_f32 ? NULL : takes;
}

static int cut_group(plan *l, plan_group *g, err *e)
{
    if (g->ranks == 1) return OK;
    g->shape = (cut_shape){.p = l->p, .op0 = g->op0, .op1 = g->op1, .ranks = g->ranks, .share = g->share};
    int rc = cut_open(&g->by_columns, &g->shape, group_takes(l, g), e);
    if (!rc) g->n_coll = cut_colls(g->by_columns, &g->colls);
    return rc;
}

/* ---- what crosses */

/* The group that op i belongs to. */
static int group_at(const plan *l, uint32_t i)
{
    int k = 0;
    while (i >= l->groups[k].op1) k++;
    return k;
}

/* The entry whose result, for the caller, is t; -1: none. */
static int result_entry(const program *p, ref t)
{
    for (int i = ENTRY_HEAD; i < ENTRY_COUNT; i++)
        if (p->entries[i].out == t) return i;
    return -1;
}

/* Whether an op from op0 on reads t. */
static bool read_after(const program *p, uint32_t op0, ref t)
{
    for (uint32_t i = op0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++)
            if (p->ops[i].in[k] == t) return true;
    return false;
}

/* Finds what crosses from one group to others, or to the caller. */
static int find_crossings(plan *l, err *e)
{
    const program *p = l->p;
    l->cross = mem_array((size_t)p->n_op + 1, sizeof *l->cross);
    if (!l->cross) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    for (uint32_t i = 0; i < p->n_op; i++) {
        crossing c = {.t = p->ops[i].out, .from = group_at(l, i)};
        const plan_group *g = &l->groups[c.from];
        if (!c.t) continue;
        c.entry = result_entry(p, c.t);
        c.read_by_device = read_after(p, g->op1, c.t);
        for (int r = 1; r < g->ranks; r++) c.divided = c.divided || cut_gives(g->by_columns, r, c.t).t;
        if (c.read_by_device || c.entry >= 0) l->cross[l->n_cross++] = c;
    }
    return OK;
}

/* The lists of what a rank takes and gives. */
static int list_edges(const plan *l, plan_rank *r, err *e)
{
    segment *s = &r->seg;
    const plan_group *g = group_of(l, r);
    s->in = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->in);
    s->out = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->out);
    r->gives = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *r->gives);
    if (!s->in || !s->out || !r->gives) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const crossing *c = &l->cross[k];
        r->gives[k] = (cut_part){0};
        if (c->from < r->group && read_after(s->p, 0, c->t)) s->in[s->n_in++] = (edge){c->t, c->from};
        if (c->from != r->group) continue;
        if (g->by_columns) r->gives[k] = cut_gives(g->by_columns, r->index, c->t);
        else r->gives[k] = (cut_part){c->t, {0, tensor_count(&l->p->tensors[c->t])}};
        if (r->gives[k].t) s->out[s->n_out++] = r->gives[k].t;
    }
    return OK;
}

/* ---- opening */

static int put_weights(segment *s, err *e)
{
    const program *p = s->p;
    int rc = OK;
    for (uint32_t i = 0; i < p->n_op && !rc; i++)
        for (int k = 0; k < 4 && !rc; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (p->ops[i].in[k] && t->kind == TENSOR_WEIGHT) rc = s->be->weight_put(s->on, t->weight, e);
        }
    return rc ? rc : s->be->weights_end(s->on, e);
}

static int rank_open(plan *l, plan_rank *r, const dev_options *o, err *e)
{
    segment *s = &r->seg;
    const plan_group *g = group_of(l, r);
    const program *p = g->by_columns ? cut_program(g->by_columns, r->index) : l->p;
    s->p = lower_int8(p, g->by_columns ? 0 : g->op0, g->by_columns ? p->n_op : g->op1,
                      l->act_f32 ? NULL : s->be->takes_int8, e);
    int rc = s->p ? list_edges(l, r, e) : e->code;
    if (!rc) rc = s->be->open(&s->on, s->p, o, e);
    if (!rc) rc = place_segment(s, l->max_rows, e);
    return rc ? rc : put_weights(s, e);
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
    for (int i = 0; i < l->n && !rc; i++) {
        plan_rank *r = &l->ranks[i];
        dev_options own = {.number = r->number,
                           .sharers = drive_has_threads(l) ? sharers_of(l, r->seg.be) : 1,
                           .inexact = o->inexact,
                           .own = own_options(o->backends, r->seg.be)};
        memcpy(own.max_rows, o->max_rows, sizeof own.max_rows);
        rc = rank_open(l, r, &own, e);
    }
    return rc;
}

/* Groups and ranks of the notation. */
static bool add_devices(plan *l, const device_entry *d, int n)
{
    l->n = n;
    l->n_group = d[n - 1].group + 1;
    l->groups = mem_zero((size_t)l->n_group, sizeof *l->groups);
    l->ranks = mem_zero((size_t)n, sizeof *l->ranks);
    l->shares = mem_array((size_t)n, sizeof *l->shares);
    for (int i = 0; l->groups && l->ranks && l->shares && i < n; i++) {
        plan_group *g = &l->groups[d[i].group];
        if (!g->ranks) {
            g->rank0 = i;
            g->share = l->shares + i;
        }
        l->shares[i] = d[i].share;
        l->ranks[i] = (plan_rank){.group = d[i].group, .index = g->ranks++, .number = d[i].number, .of = l};
        l->ranks[i].seg.be = d[i].be;
    }
    return l->groups && l->ranks && l->shares;
}

int plan_open(plan **out, const program *p, const plan_options *o, err *e)
{
    device_entry d[DEVICES_MAX];
    *out = NULL;
    int n = devices_parse(o->devices, o->backends, d, e);
    if (n < 0) return n;
    plan *l = mem_zero(1, sizeof *l);
    if (!l) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->p = p;
    l->act_f32 = o->act_f32;
    memcpy(l->max_rows, o->max_rows, sizeof l->max_rows);
    int rc = add_devices(l, d, n) ? OK : err_set(e, ERR_MEMORY, "out of memory for the plan");
    l->in_flight = o->in_flight > 0 ? o->in_flight : l->n_group > 1 ? l->n_group + 1 : 1;
    if (!rc) rc = open_ranks(l, o, e);
    if (rc) plan_close(l);
    else *out = l;
    return rc;
}

int plan_ready(plan *l, const cache_options *cache, err *e)
{
    int rc = OK;
    l->cache = *cache;
    for (uint32_t i = 0; i < l->p->n_rope && !rc; i++) rc = rope_fill(&l->p->ropes[i], e);
    for (int i = 0; i < l->n && !rc; i++) {
        segment *s = &l->ranks[i].seg;
        rc = s->be->cache_open(s->on, cache, e);
        if (!rc) rc = s->be->compile(s->on, s, e);
    }
    return rc ? rc : drive_open(l, e);
}

void plan_close(plan *l)
{
    if (!l) return;
    drive_close(l);
    for (int i = 0; l->ranks && i < l->n; i++) {
        segment *s = &l->ranks[i].seg;
        if (s->on) s->be->discard(s->on, s);
        if (s->on) s->be->close(s->on);
        program_free(s->p);
    }
    for (int i = 0; l->groups && i < l->n_group; i++) cut_close(l->groups[i].by_columns);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    mem_free(l->cross);
    mem_free(l->groups);
    mem_free(l->ranks);
    mem_free(l->shares);
    mem_free(l);
}

/* ---- questions */

int plan_prefers(const char *devices, const backend_use *backends, int *chunk, int *sequences, err *e)
{
    device_entry d[DEVICES_MAX];
    int n = devices_parse(devices, backends, d, e);
    if (n < 0) return n;
    for (int i = 0; i < n; i++) {
        if (i == 0 || d[i].be->chunk < *chunk) *chunk = d[i].be->chunk;
        if (i == 0 || d[i].be->sequences < *sequences) *sequences = d[i].be->sequences;
    }
    return OK;
}

bool plan_takes_int8(const plan *l)
{
    for (int i = 0; i < l->n; i++) {
        const program *p = l->ranks[i].seg.p;
        for (uint32_t k = 0; k < p->n_op; k++)
            if (p->ops[k].kind == OP_QUANT) return true;
    }
    return false;
}

void plan_add_pages(const program *p, dtype k_type, dtype v_type, uint64_t page[GROUP_MAX])
{
    for (uint32_t i = 0; i < p->n_state; i++)
        for (uint32_t k = 0; k < p->n_op; k++) {
            if (p->ops[k].kind != OP_KV_PUT || p->ops[k].state != (int16_t)i) continue;
            page[p->states[i].group] += kv_page_bytes(&p->states[i], k_type, v_type);
            break; /* layers may share a state */
        }
}

bool plan_memory(const plan *l, int i, dtype k_type, dtype v_type, uint64_t page[GROUP_MAX], uint64_t *slot,
                 uint64_t *left)
{
    const backend *shared[DEVICES_MAX];
    int n_shared = 0;
    for (int k = 0; k < l->n; k++) {
        const segment *s = &l->ranks[k].seg;
        bool known = false;
        for (int j = 0; j < n_shared; j++) known = known || shared[j] == s->be;
        if (s->be->shares_memory && !known) shared[n_shared++] = s->be;
        if (known || i-- > 0) continue;
        memset(page, 0, GROUP_MAX * sizeof *page);
        *slot = 0;
        *left = s->be->budget(s->on);
        for (int j = k; j < l->n; j++) {
            const segment *other = &l->ranks[j].seg;
            if (j != k && !(s->be->shares_memory && other->be == s->be)) continue;
            plan_add_pages(other->p, k_type, v_type, page);
            *slot += program_slot_bytes(other->p);
        }
        return true;
    }
    return false;
}

int plan_groups(const plan *l) { return l->n_group; }

int plan_segments(const plan *l) { return l->n; }

const segment *plan_segment(const plan *l, int i) { return &l->ranks[i].seg; }
