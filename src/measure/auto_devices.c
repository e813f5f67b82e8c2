/* auto_devices.c - see auto_devices.h. */
#include "measure/auto_devices.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/kv_type.h"
#include "measure/busy.h"
#include "engine/engine_state.h"
#include "measure/forecast.h"
#include "net/link_speed.h"
#include "plan/layout.h"
#include "plan/step_cost.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PEERS_MAX = LAYOUT_DEVICES - 1, PROMPT = 32, TEXTS_TOKENS = 64, HERE = 0 };
static const double TOGETHER_SECONDS = 0.5;

/* A process that may take part: this one is the first. */
typedef struct place {
    address at;
    char name[TCP_NAME_MAX];
} place;

typedef struct choice {
    model *m;
    engine_options o; /* with a list of devices of its own each time */
    peer_self self;
    place places[LAYOUT_DEVICES];
    int n_place, of[LAYOUT_DEVICES]; /* of: the place of a device of the task */
    layout_task task;
    double waits; /* seconds of a token in which no device computes, with the layers spread over all */
} choice;

static void keep_model(model *m) { (void)m; }

/* ---- who is there */

/* A device of the place that was added last. */
static void add_device(choice *c, const char *name, uint64_t bytes)
{
    layout_task *t = &c->task;
    if (t->n_device == LAYOUT_DEVICES) return;
    const place *p = &c->places[c->n_place - 1];
    c->of[t->n_device] = c->n_place - 1;
    layout_device *d = &t->device[t->n_device++];
    *d = (layout_device){.bytes = bytes};
    snprintf(d->name, sizeof d->name, "%.250s%s%.31s", p->name, p->name[0] ? "/" : "", name);
}

/* The CPU, and all devices with memory of their own. */
static void find_devices_here(choice *c)
{
    device_here here[LAYOUT_DEVICES];
    const int n = engine_devices_here(&c->o, here, LAYOUT_DEVICES);
    c->places[c->n_place++].name[0] = 0;
    add_device(c, "cpu", mem_available());
    for (int i = 0; i < n; i++)
        if (here[i].number >= 0) add_device(c, here[i].name, here[i].info.free_bytes);
}

/* What a node lends; of threads of its CPU, which have one memory, the first entry. */
static void add_node(choice *c, const address *at, const hello *said)
{
    bool cpu = false;
    place *p = &c->places[c->n_place++];
    p->at = *at;
    address_print(at, p->name);
    for (uint32_t k = 0; k < said->n_device; k++) {
        const hello_device *d = &said->device[k];
        if (!d->threads || !cpu) add_device(c, d->name, d->bytes);
        cpu = cpu || d->threads;
    }
}

static int find_peers(choice *c, const char *list, err *e)
{
    address at[PEERS_MAX];
    int n;
    int rc = address_list(at, PEERS_MAX, &n, list, "--peers", e);
    if (!rc) find_devices_here(c);
    for (int i = 0; i < n && !rc; i++) {
        hello said;
        err own = {0};
        if (peer_look(&said, &at[i], &c->self, &own) || !said.n_device)
            log_line(LOG_WARN, "%s: left out", own.code ? own.msg : "a node that lends nothing");
        else add_node(c, &at[i], &said);
    }
    return rc;
}

static void remove_device(choice *c, int i)
{
    layout_task *t = &c->task;
    memmove(&t->device[i], &t->device[i + 1], (size_t)(t->n_device - i - 1) * sizeof *t->device);
    memmove(&c->of[i], &c->of[i + 1], (size_t)(t->n_device - i - 1) * sizeof *c->of);
    t->n_device--;
}

/* ---- what a layer takes */

/* Texts that run at once; each step has one, so that every device works on another. */
typedef struct texts {
    int64_t tokens;
    double until;
} texts;

static bool on_token(void *ctx, const token_event *ev)
{
    texts *x = ctx;
    x->tokens += ev->token >= 0;
    return clock_now() < x->until;
}

static int run_together(engine *g, int n, texts *x, err *e)
{
    static const int32_t ids[] = {0, 1, 2, 3};
    const query q = {.ids = ids,
                     .n_ids = 4,
                     .max_tokens = TEXTS_TOKENS,
                     .ignore_eos = true,
                     .n_logprobs = -1,
                     .on_token = on_token,
                     .ctx = x};
    bool more = true;
    uint64_t id;
    int rc = OK;
    *x = (texts){.until = clock_now() + TOGETHER_SECONDS};
    for (int i = 0; i < n && !rc; i++) rc = engine_add_query(g, &q, &id, e);
    while (!rc && more) rc = engine_infer(g, &more, e);
    return rc;
}

/* Weights of a layer, on average, and the cache of one context for it. */
static double layer_bytes(const program *p, dtype kv, int layers, int ctx)
{
    static const double ALL = 1e9; /* rows: every expert is used */
    const double pages = (double)((ctx + PAGE_TOKENS - 1) / PAGE_TOKENS);
    double sum = 0;
    for (uint32_t i = 0; i < p->n_op; i++)
        if (p->ops[i].layer >= 0) sum += step_cost_weights(p, i, i + 1, ALL, NULL);
    for (uint32_t i = 0; i < p->n_state; i++)
        if (p->states[i].kind == STATE_PAGES) sum += pages * (double)kv_page_bytes(&p->states[i], kv, kv);
    return sum / layers;
}

/* With the layers spread over all devices. */
static int measure_layers(choice *c, engine *g, err *e)
{
    layout_task *t = &c->task;
    forecast f;
    busy_marks marks;
    texts x = {0};
    int rc = forecast_make(&f, g, PROMPT, e);
    if (rc) return rc;
    rc = busy_open(&marks, g, e);
    if (!rc) rc = run_together(g, t->n_device + 1, &x, e);
    const int front = marks.n > t->n_device + 1; /* tables are a group of their own; so is the head, at the end */
    for (int i = 0; i < t->n_device && !rc; i++) {
        const engine_device *d = &marks.of[front + i];
        int ranks = 0;
        for (int k = 0; k < marks.n; k++) ranks += marks.of[k].group == d->group;
        const double layers = (double)d->layers / ranks;
        t->device[i].layer = f.busy[front + i] / layers;
        t->device[i].crowded = busy_of(&marks, g, front + i) / layers / (double)(x.tokens ? x.tokens : 1);
    }
    c->waits = f.communicates;
    t->layer_bytes = layer_bytes(g->prog, g->kv_type, t->layers, g->info.ctx);
    busy_close(&marks);
    forecast_free(&f);
    return rc;
}

/* All devices, shares by memory. Where there are more than layers, some are ranks of a group, of equal shares. */
static void list_all(const choice *c, buf *out)
{
    const layout_task *t = &c->task;
    const int n = t->n_device, groups = n < t->layers ? n : t->layers;
    out->n = 0;
    for (int i = 0; i < n; i++) {
        const bool joins = i && i * groups / n == (i - 1) * groups / n;
        buf_printf(out, "%s%s", joins ? "&" : i ? ";" : "", t->device[i].name);
        if (groups == n) buf_printf(out, "*%.3g", 1 + (double)t->device[i].bytes / (1 << 20));
    }
}

static int open_with(engine **g, choice *c, buf *list, err *e)
{
    if (list->bad) return err_memory(e, "a list of devices");
    c->o.devices = buf_cstr(list);
    return engine_of_model(g, c->m, keep_model, &c->o, e);
}

/* Opens the layers on all devices; without those nodes that cannot have some. */
static int open_all(engine **g, choice *c, err *e)
{
    layout_task *t = &c->task;
    buf list = {0};
    int rc = OK;
    for (bool again = true; again;) {
        err own = {0};
        again = false;
        list_all(c, &list);
        rc = open_with(g, c, &list, &own);
        for (int i = 1; i < t->n_device && rc && !again; i++) {
            if (c->of[i] == HERE || !err_is_of(&own, c->places[c->of[i]].name)) continue;
            log_line(LOG_WARN, "%s: left out", own.msg);
            remove_device(c, i);
            again = true;
        }
        if (rc && !again) rc = err_copy(e, &own);
    }
    buf_free(&list);
    return rc;
}

/* ---- links */

/* One pair, on a thread: pairs of different nodes are measured at once. */
typedef struct pair {
    choice *c;
    int a, b; /* places; a may be HERE */
    link_speed speed;
    int rc;
    err why;
    pthread_t thread;
    bool runs;
} pair;

static void *measure_pair(void *arg)
{
    pair *x = arg;
    const choice *c = x->c;
    const address *a = x->a == HERE ? NULL : &c->places[x->a].at;
    x->rc = link_measure(&x->speed, a, &c->places[x->b].at, &c->self, &x->why);
    return NULL;
}

/* Between all devices of the two places. */
static int note_pair(choice *c, const pair *x, err *e)
{
    layout_task *t = &c->task;
    if (x->rc) return err_copy(e, &x->why);
    for (int i = 0; i < t->n_device; i++)
        for (int k = 0; k < t->n_device; k++) {
            if (c->of[i] != x->a || c->of[k] != x->b) continue;
            t->delay[i][k] = t->delay[k][i] = x->speed.rtt_p50 / 2;
            t->rate[i][k] = t->rate[k][i] = x->speed.bytes_per_s;
        }
    return OK;
}

static bool has_devices(const choice *c, int at)
{
    bool any = false;
    for (int i = 0; i < c->task.n_device; i++) any = any || c->of[i] == at;
    return any;
}

/* Every pair once, in rounds in which each place is in one pair: a tournament by the circle method. */
static int measure_links(choice *c, err *e)
{
    const int n = c->n_place + c->n_place % 2;
    int rc = OK;
    for (int round = 0; round < n - 1 && !rc; round++) {
        pair all[LAYOUT_DEVICES / 2 + 1] = {0};
        int n_pair = 0;
        for (int k = 0; k < n / 2; k++) {
            const int x = k ? (round + k) % (n - 1) : n - 1, y = (round + n - 1 - k) % (n - 1);
            if (x >= c->n_place || y >= c->n_place || !has_devices(c, x) || !has_devices(c, y)) continue;
            pair *p = &all[n_pair++];
            *p = (pair){.c = c, .a = x < y ? x : y, .b = x < y ? y : x};
            p->runs = pthread_create(&p->thread, NULL, measure_pair, p) == 0;
            if (!p->runs) measure_pair(p);
        }
        for (int k = 0; k < n_pair; k++) {
            if (all[k].runs) pthread_join(all[k].thread, NULL);
            if (!rc) rc = note_pair(c, &all[k], e);
        }
    }
    return rc;
}

/* ---- choosing */

/* Roughly what ranks tell each other in a layer about a row: four gathers (the inputs of four matrices, nine bytes an
 * element in all), of sums two. */
static void set_exchanges(choice *c, int64_t dim)
{
    static const double bytes[REDUCE_COUNT] = {[REDUCE_EXACT] = 9, [REDUCE_F32] = 8,    [REDUCE_F16] = 4,
                                               [REDUCE_INT8] = 2,  [REDUCE_INT6] = 1.2, [REDUCE_INT4] = 1.1};
    layout_task *t = &c->task;
    t->row_bytes = 4.0 * (double)dim;
    t->exchanges = c->o.choices.reduce == REDUCE_EXACT ? 4 : 2;
    t->exchange_bytes = bytes[c->o.choices.reduce] * (double)dim;
}

/* What messages cost besides their way, from those of the layers spread over all devices: to each and back. */
static void set_handling(choice *c)
{
    layout_task *t = &c->task;
    double ways = 0;
    for (int i = 0; i < t->n_device; i++) ways += t->delay[i][(i + 1) % t->n_device];
    t->handling = t->n_device > 1 && c->waits > ways ? (c->waits - ways) / t->n_device : 0;
}

/* The best of each kind is tried: what computing leaves out differs most between kinds. */
static int try_best(choice *c, buf *out, err *e)
{
    layout list[LAYOUTS_MAX];
    const int n = layouts_make(list, &c->task);
    double best = 0;
    int chosen = -1;
    bool tried[LAYOUT_KINDS] = {false};
    err last = {0};
    if (n < 0) return err_memory(e, "lists of devices");
    for (int i = 0; i < n; i++) {
        if (tried[list[i].kind]) continue;
        tried[list[i].kind] = true;
        engine *g = NULL;
        forecast f = {0};
        int rc = open_with(&g, c, &list[i].devices, &last);
        if (!rc) rc = forecast_make(&f, g, PROMPT, &last);
        engine_close(g);
        log_line(LOG_INFO, "auto: %s: %.2f ms a token computed, %.2f tried", buf_cstr(&list[i].devices),
                 1e3 * list[i].token, 1e3 * f.token);
        if (!rc && (chosen < 0 || f.token < best)) best = f.token, chosen = i;
        forecast_free(&f);
    }
    int rc = OK;
    if (chosen >= 0) buf_str(out, buf_cstr(&list[chosen].devices));
    else if (n) rc = err_copy(e, &last);
    else rc = err_set(e, ERR_LIMIT, "--devices auto: the model does not fit the memory of this machine and its peers");
    layouts_free(list, n);
    return rc;
}

int auto_devices(buf *out, model *m, const engine_options *o, err *e)
{
    choice *c = mem_zero(1, sizeof *c);
    engine *g = NULL;
    if (!c) return err_memory(e, "a choice of devices");
    c->m = m;
    c->o = *o;
    c->o.peers = NULL;
    c->o.draft = NULL;
    c->o.step_sequences = 1; /* every device works on another text, where there are several */
    c->task.layers = m->prog->n_layer + m->prog->n_enc;
    int rc = o->key_file ? peer_self_open(&c->self, o->key_file, e)
                         : err_set(e, ERR_USAGE, "--peers: nodes need --key-file");
    if (!rc) rc = find_peers(c, o->peers, e);
    if (!rc && c->task.n_device > 1) rc = open_all(&g, c, e);
    if (!rc && c->task.n_device > 1) rc = measure_layers(c, g, e);
    engine_close(g);
    if (!rc && c->task.n_device > 1) rc = measure_links(c, e);
    set_exchanges(c, m->prog->dim);
    set_handling(c);
    if (!rc && c->task.n_device > 1) rc = try_best(c, out, e);
    else if (!rc) buf_str(out, c->task.device[0].name);
    mem_free(c);
    return rc;
}
