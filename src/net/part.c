/* part.c - what is in a part (part.h): it is opened, and asked whether its files are as they were. */
#include "net/part_state.h"

#include "base/idle_work.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"
#include "plan/plan.h"

#include <string.h>

/* While it opens. */
typedef struct opening {
    part *x;
    const part_ask *a;
    bool differs; /* the node's own copy has other contents */
} opening;

/* ---- the list of the leader's tensors, which this node may have already */

int part_read_list(part *x, const part_ask *of, err *e)
{
    const lease_ask *a = of->asked;
    if (peer_protocol(of->by->control) < PROTOCOL_LISTS)
        return buf_add(&x->listed, of->flat.p, of->flat.n) ? catalogue_read_flat(&x->told, buf_span(&x->listed), e)
                                                           : err_memory(e, "a list of tensors");
    const bool there = lists_get(x->host->told, a->list, &x->listed);
    int rc = there ? OK : fetch_list(of->fetches, a->list, a->list_bytes, &x->listed, e);
    if (!rc) rc = catalogue_read(&x->told, buf_span(&x->listed), e);
    if (!rc && !there) lists_put(x->host->told, a->list, buf_span(&x->listed));
    return rc;
}

/* ---- the model */

/* With the leader's spec, of a checkpoint that is open or of a path. ERR_NOT_FOUND: it is another one. */
static int open_model(const opening *o, ckpt *given, const char *path, err *e)
{
    part *x = o->x;
    const part_ask *a = o->a;
    const model_options how = {.spec_given = a->spec,
                               .given = given,
                               .model_path = path,
                               .weights = *a->weights ? a->weights : NULL,
                               .act = a->asked->choices.act_f32 ? "f32" : NULL,
                               .ctx = a->asked->ctx};
    uint8_t identity[SHA256_BYTES];
    int rc = model_open(&x->m, &how, e);
    if (rc) return rc;
    program_identity(x->m->prog, (span){0}, identity);
    if (!memcmp(identity, a->asked->identity, SHA256_BYTES)) return OK;
    model_close(x->m);
    x->m = NULL;
    return err_set(e, ERR_NOT_FOUND, "spec, names, types or shapes of its tensors differ");
}

/* One of the node's copies. */
static int find_model(const opening *o, err *e)
{
    static const char *const builtin[] = {"builtin"};
    const rank_host *host = o->x->host;
    const char *const *paths = host->n_model ? host->models : builtin;
    const int n = host->n_model ? host->n_model : 1;
    err last = {0};
    for (int i = 0; i < n; i++)
        if (open_model(o, NULL, paths[i], &last) == OK) return OK;
    return err_set(e, ERR_NOT_FOUND, "it has no copy of this model (its --model says where, or --cache): %s", last.msg);
}

/* One whose weights come from the leader, as the rank's part of them is known. */
static int make_model(const opening *o, err *e)
{
    part *x = o->x;
    ckpt *c;
    int rc = store_open(&x->pieces, &x->told, x->host->cache, x->host->cache_bytes, e);
    if (!rc) rc = store_ckpt(x->pieces, "the model of the leader", &c, e);
    return rc ? rc : open_model(o, c, NULL, e);
}

/* ---- its weights */

/* plan_options.may_take. */
static int may_take(void *ctx, uint64_t bytes, err *e)
{
    const opening *o = ctx;
    return quota_take(o->x->host->memory, &o->x->quota, o->x->fetched + bytes, 0, e);
}

/* Leases that end now may hold the room for a moment. */
static int make_room(const opening *o, uint64_t bytes, err *e)
{
    int rc = store_make_room(o->x->pieces, bytes, e);
    for (int tries = 0; rc == ERR_LIMIT && tries < 20 && !hosted_is_over(o->a->by); tries++) {
        idle_sleep(0.05);
        *e = (err){0};
        rc = store_make_room(o->x->pieces, bytes, e);
    }
    return rc;
}

static int fetch_weights(opening *o, const program *p, err *e)
{
    part *x = o->x;
    byte_runs reads = {0}, missing = {0}, none = {0};
    int rc = OK;
    for (uint32_t i = 0; i < p->n_op && !rc; i++)
        for (int k = 0; k < 4 && !rc; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (p->ops[i].in[k] && t->kind == TENSOR_WEIGHT) rc = weight_reads(&p->weights[t->weight], &reads, e);
        }
    byte_runs_merge(&reads);
    if (!x->host->cache) x->fetched = byte_runs_bytes(&reads);
    if (!rc) rc = may_take(o, 0, e);
    if (!rc && !byte_runs_minus(&missing, &reads, &none)) rc = err_memory(e, "a list of bytes");
    x->hashed_at = contents_clock(); /* what is there is hashed each time */
    if (!rc) rc = store_missing(x->pieces, x->m->weights, &missing, e);
    if (!rc) rc = make_room(o, byte_runs_bytes(&missing), e);
    if (!rc) rc = fetch_run(o->a->fetches, x->pieces, &x->told, &missing, e);
    if (!rc && !x->told.has_trees) rc = store_check(x->pieces, x->m->weights, &reads, e);
    byte_runs_free(&reads);
    byte_runs_free(&missing);
    return rc;
}

/* plan_options.before_weights. */
static int have_weights(void *ctx, const program *p, err *e)
{
    opening *o = ctx;
    part *x = o->x;
    keeper *copies = x->host->copies;
    if (x->pieces) return fetch_weights(o, p, e);
    char *cache = contents_cache_folder();
    int rc = x->m->weights ? keeper_check(copies, x->m->weights, e) : OK;
    if (!rc)
        rc = catalogue_compare(&x->told, x->m->weights, p, cache, keeper_since(copies), pool_default_threads(),
                               &x->hashed_at, e);
    mem_free(cache);
    o->differs = rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE;
    return rc;
}

plan_options part_plan_options(const part_ask *a)
{
    const rank_host *host = a->by->host;
    plan_options o = {.devices = a->devices,
                      .backends = host->backends,
                      .choices = a->asked->choices,
                      .rank = a->asked->rank + 1,
                      .pretended_speed = host->pretended_speed,
                      .lends = host->devices};
    for (int i = 0; i < AXIS_COUNT; i++) o.max_rows[i] = a->asked->max_rows[i];
    return o;
}

static int open_plan(opening *o, err *e)
{
    part *x = o->x;
    plan_options how = part_plan_options(o->a);
    how.before_weights = have_weights;
    how.may_take = may_take;
    how.ctx = o;
    int rc = plan_open(&x->l, x->m->prog, &how, e);
    for (uint32_t i = 0; i < x->m->prog->n_rope && !rc; i++) rc = rope_fill(&x->m->prog->ropes[i], e);
    return rc ? rc : quota_take(x->host->memory, &x->quota, x->fetched + plan_weights_taken(x->l), 0, e);
}

/* With the node's own copy if it has one, else with what the leader sends. */
static int place_model(opening *o, err *e)
{
    part *x = o->x;
    const bool may_fetch = x->host->cache || !x->host->n_model;
    err own = {0};
    int rc = find_model(o, &own);
    bool fetches = rc && may_fetch;
    if (!rc) {
        rc = open_plan(o, &own);
        fetches = rc && o->differs && may_fetch;
    }
    if (!fetches) return err_copy(e, &own);
    if (o->differs) log_line(LOG_WARN, "%s", own.msg);
    model_close(x->m);
    x->m = NULL;
    rc = make_model(o, e);
    return rc ? rc : open_plan(o, e);
}

int part_open(part *x, const part_ask *a, err *e)
{
    opening o = {.x = x, .a = a};
    return place_model(&o, e);
}

void part_close(part *x)
{
    plan_close(x->l);
    store_close(x->pieces);
    model_close(x->m);
    quota_return(x->host->memory, &x->quota);
    catalogue_free(&x->told);
    buf_free(&x->listed);
    mem_free(x);
}

/* ---- questions */

const model *part_model(const part *x) { return x->m; }
const plan *part_plan(const part *x) { return x->l; }
uint64_t part_bytes(const part *x) { return x->quota; }
int64_t part_hashed_at(const part *x) { return x->hashed_at; }

int part_check(const part *x, err *e)
{
    bool touched = false;
    ckpt *c = x->m->weights;
    if (!c) return OK;
    int rc = x->pieces ? store_look(x->pieces, e) : keeper_check(x->host->copies, c, e);
    return rc ? rc : x->pieces ? ckpt_check_torn(c, e) : ckpt_look(c, &touched, e);
}

int part_look(const part *x, err *e) { return x->pieces ? store_look(x->pieces, e) : OK; }

/* Of a file that pieces are written to times change. */
bool part_reads_file(const part *x, const file_id *id)
{
    const ckpt *c = x->m->weights;
    for (uint32_t f = 0; c && f < ckpt_file_count(c); f++) {
        file_id own;
        if (ckpt_file_id(c, f, &own) && own.device == id->device && own.inode == id->inode) return true;
    }
    return false;
}
