/* plan.c - see plan.h: cuts a program over devices, opens them, and asks them what is left for pages. */
#include "plan/plan_state.h"

#include "base/mem.h"
#include "core/kv_type.h"
#include "core/lower_int8.h"
#include "core/place.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <string.h>

/* ---- cutting */

/* First op of layer l; n_op when l is past the last layer (then the tail after the layers counts as the last
 * segment's). */
static uint32_t layer_start(const program *p, int layer)
{
    uint32_t i = 0;
    while (i < p->n_op && p->ops[i].layer != layer) i++;
    return i;
}

/* Gives each device a run of layers in proportion to its share, at least one: ends[i] is the op after its last. open:
 * program_open_states. */
static int divide(plan *l, const device_entry *d, const uint8_t *open, uint32_t *ends, err *e)
{
    const program *p = l->p;
    const int layers = p->n_enc + p->n_layer;
    double total = 0, sum = 0;
    if (l->n > layers && l->n > 1)
        return err_set(e, ERR_USAGE, "--devices: %d devices for a model of %d layers", l->n, layers);
    for (int i = 0; i < l->n; i++) total += d[i].share;
    for (int i = 0, layer = 0; i < l->n; i++) {
        stage *s = &l->stages[i];
        sum += d[i].share;
        int end = (int)(sum / total * layers + 0.5), most = layers - (l->n - 1 - i);
        if (end < layer + 1) end = layer + 1;
        if (end > most || i == l->n - 1) end = most;
        while (i < l->n - 1 && end < most && open[layer_start(p, end)]) end++;
        ends[i] = i < l->n - 1 ? layer_start(p, end) : p->n_op;
        if (i < l->n - 1 && open[ends[i]])
            return err_set(e, ERR_USAGE,
                           "--devices: this model cannot be divided before layer %d: later layers read keys and values "
                           "of earlier ones",
                           end);
        s->layer0 = layer;
        s->layer1 = end;
        s->number = d[i].number;
        s->seg.be = d[i].be;
        layer = end;
    }
    return 0;
}

/* The segment that op i belongs to. */
static int stage_of(const uint32_t *ends, uint32_t i)
{
    int k = 0;
    while (i >= ends[k]) k++;
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

/* Finds what crosses from one segment to others, or to the caller. */
static int find_crossings(plan *l, const uint32_t *ends, err *e)
{
    const program *p = l->p;
    l->cross = mem_array((size_t)p->n_op + 1, sizeof *l->cross);
    if (!l->cross) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    for (uint32_t i = 0; i < p->n_op; i++) {
        crossing c = {.t = p->ops[i].out, .from = stage_of(ends, i)};
        if (!c.t) continue;
        c.entry = result_entry(p, c.t);
        c.read_by_device = read_after(p, ends[c.from], c.t);
        if (c.read_by_device || c.entry >= 0) l->cross[l->n_cross++] = c;
    }
    return OK;
}

/* The lists of what segment i takes and gives. */
static int list_edges(const plan *l, int i, err *e)
{
    segment *s = &l->stages[i].seg;
    s->in = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->in);
    s->out = arena_array(&s->p->mem, (size_t)l->n_cross + 1, sizeof *s->out);
    if (!s->in || !s->out) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    for (uint32_t k = 0; k < l->n_cross; k++) {
        const crossing *c = &l->cross[k];
        if (c->from == i) s->out[s->n_out++] = c->t;
        else if (c->from < i && read_after(s->p, 0, c->t)) s->in[s->n_in++] = (edge){c->t, c->from};
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

static int stage_open(plan *l, int i, uint32_t op0, uint32_t op1, const dev_options *o, err *e)
{
    segment *s = &l->stages[i].seg;
    s->p = lower_int8(l->p, op0, op1, l->act_f32 ? NULL : s->be->takes_int8, e);
    int rc = s->p ? list_edges(l, i, e) : e->code;
    if (!rc) rc = s->be->open(&s->on, s->p, o, e);
    if (!rc) rc = place_segment(s, l->max_rows, e);
    return rc ? rc : put_weights(s, e);
}

/* Devices of one backend that leave it to the backend how much of the machine they take. */
static int sharers_of(const device_entry *d, int n, const backend *be)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += d[i].be == be && d[i].number < 1;
    return sum;
}

static const void *own_options(const backend_use *list, const backend *be)
{
    while (list->be && list->be != be) list++;
    return list->own;
}

static int open_stages(plan *l, const device_entry *d, const plan_options *o, err *e)
{
    uint32_t ends[DEVICES_MAX];
    uint8_t *open = mem_zero((size_t)l->p->n_op + 1, 1);
    if (!open) return err_set(e, ERR_MEMORY, "out of memory for the plan");
    program_open_states(l->p, open);
    int rc = divide(l, d, open, ends, e);
    mem_free(open);
    if (!rc) rc = find_crossings(l, ends, e);
    for (int i = 0; i < l->n && !rc; i++) {
        dev_options own = {.number = d[i].number,
                           .sharers = l->in_flight > 1 ? sharers_of(d, l->n, d[i].be) : 1,
                           .inexact = o->inexact,
                           .own = own_options(o->backends, d[i].be)};
        memcpy(own.max_rows, o->max_rows, sizeof own.max_rows);
        rc = stage_open(l, i, i ? ends[i - 1] : 0, ends[i], &own, e);
    }
    return rc;
}

int plan_open(plan **out, const program *p, const plan_options *o, err *e)
{
    device_entry d[DEVICES_MAX];
    *out = NULL;
    int n = devices_parse(o->devices, o->backends, d, e);
    if (n < 0) return n;
    plan *l = mem_zero(1, sizeof *l);
    if (l) l->stages = mem_zero((size_t)n, sizeof *l->stages);
    if (!l || !l->stages) {
        mem_free(l);
        return err_set(e, ERR_MEMORY, "out of memory for the plan");
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->p = p;
    l->act_f32 = o->act_f32;
    l->n = n;
    l->in_flight = o->in_flight > 0 ? o->in_flight : n > 1 ? n + 1 : 1;
    memcpy(l->max_rows, o->max_rows, sizeof l->max_rows);
    int rc = open_stages(l, d, o, e);
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
        segment *s = &l->stages[i].seg;
        rc = s->be->cache_open(s->on, cache, e);
        if (!rc) rc = s->be->compile(s->on, s, e);
    }
    return rc ? rc : drive_open(l, e);
}

void plan_close(plan *l)
{
    if (!l) return;
    drive_close(l);
    for (int i = 0; i < l->n; i++) {
        segment *s = &l->stages[i].seg;
        if (s->on) s->be->discard(s->on, s);
        if (s->on) s->be->close(s->on);
        program_free(s->p);
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    mem_free(l->cross);
    mem_free(l->stages);
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
        const program *p = l->stages[i].seg.p;
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
        const segment *s = &l->stages[k].seg;
        bool known = false;
        for (int j = 0; j < n_shared; j++) known = known || shared[j] == s->be;
        if (s->be->shares_memory && !known) shared[n_shared++] = s->be;
        if (known || i-- > 0) continue;
        memset(page, 0, GROUP_MAX * sizeof *page);
        *slot = 0;
        *left = s->be->budget(s->on);
        for (int j = k; j < l->n; j++) {
            const segment *other = &l->stages[j].seg;
            if (j != k && !(s->be->shares_memory && other->be == s->be)) continue;
            plan_add_pages(other->p, k_type, v_type, page);
            *slot += program_slot_bytes(other->p);
        }
        return true;
    }
    return false;
}

int plan_segments(const plan *l) { return l->n; }

const segment *plan_segment(const plan *l, int i) { return &l->stages[i].seg; }
