/* lease_model.c - the model that a lease computes with: the node's own copy, whose tensors are compared with the
 * leader's list, or one made of pieces that the leader sends. Its files are looked at after each step. */
#include "base/idle_work.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"
#include "net/lease_state.h"
#include "net/msg.h"
#include "plan/drive.h"

#include <string.h>

int lease_read_list(lease *l, err *e)
{
    const lease_ask *a = &l->ask;
    if (peer_protocol(l->base.control) < PROTOCOL_LISTS) return catalogue_read_flat(&l->told, buf_span(&l->listed), e);
    const bool there = lists_get(l->base.host->told, a->list, &l->listed);
    int rc = there ? OK : fetch_list(l->fetches, a->list, a->list_bytes, &l->listed, e);
    if (!rc) rc = catalogue_read(&l->told, buf_span(&l->listed), e);
    if (!rc && !there) lists_put(l->base.host->told, a->list, buf_span(&l->listed));
    return rc;
}

/* The model with the leader's spec, of a checkpoint that is open or of a path. ERR_NOT_FOUND: it is another one. */
static int open_model(lease *l, ckpt *given, const char *path, err *e)
{
    const model_options o = {.spec_given = l->text,
                             .given = given,
                             .model_path = path,
                             .weights = *l->weights ? l->weights : NULL,
                             .act = l->ask.choices.act_f32 ? "f32" : NULL,
                             .ctx = l->ask.ctx};
    uint8_t identity[SHA256_BYTES];
    int rc = model_open(&l->m, &o, e);
    if (rc) return rc;
    program_identity(l->m->prog, (span){0}, identity);
    if (!memcmp(identity, l->ask.identity, SHA256_BYTES)) return OK;
    model_close(l->m);
    l->m = NULL;
    return err_set(e, ERR_NOT_FOUND, "spec, names, types or shapes of its tensors differ");
}

/* One of the node's copies. */
static int find_model(lease *l, err *e)
{
    static const char *const builtin[] = {"builtin"};
    const char *const *paths = l->base.host->n_model ? l->base.host->models : builtin;
    const int n = l->base.host->n_model ? l->base.host->n_model : 1;
    err last = {0};
    for (int i = 0; i < n; i++)
        if (open_model(l, NULL, paths[i], &last) == OK) return OK;
    return err_set(e, ERR_NOT_FOUND, "it has no copy of this model (its --model says where, or --cache): %s", last.msg);
}

/* A model whose weights come from the leader, as its part is known. */
static int take_model(lease *l, err *e)
{
    ckpt *c;
    int rc = store_open(&l->parts, &l->told, l->base.host->cache, l->base.host->cache_bytes, e);
    if (!rc) rc = store_ckpt(l->parts, "the model of the leader", &c, e);
    return rc ? rc : open_model(l, c, NULL, e);
}

/* plan_options.may_take. */
static int may_take(void *ctx, uint64_t bytes, err *e)
{
    lease *l = ctx;
    return quota_take(l->base.host->memory, &l->base.quota, l->fetched + bytes, e);
}

/* Leases that end now may hold the room for a moment. */
static int make_room(lease *l, uint64_t bytes, err *e)
{
    int rc = store_make_room(l->parts, bytes, e);
    for (int tries = 0; rc == ERR_LIMIT && tries < 20 && !hosted_is_over(&l->base); tries++) {
        idle_sleep(0.05);
        *e = (err){0};
        rc = store_make_room(l->parts, bytes, e);
    }
    return rc;
}

static int fetch_weights(lease *l, const program *p, err *e)
{
    byte_runs reads = {0}, missing = {0}, none = {0};
    int rc = OK;
    for (uint32_t i = 0; i < p->n_op && !rc; i++)
        for (int k = 0; k < 4 && !rc; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (p->ops[i].in[k] && t->kind == TENSOR_WEIGHT) rc = weight_reads(&p->weights[t->weight], &reads, e);
        }
    byte_runs_merge(&reads);
    if (!l->base.host->cache) l->fetched = byte_runs_bytes(&reads);
    if (!rc) rc = may_take(l, 0, e);
    if (!rc && !byte_runs_minus(&missing, &reads, &none))
        rc = err_set(e, ERR_MEMORY, "out of memory for a list of bytes");
    l->hashed_at = contents_clock(); /* what is there is hashed each time */
    if (!rc) rc = store_missing(l->parts, l->m->weights, &missing, e);
    if (!rc) rc = make_room(l, byte_runs_bytes(&missing), e);
    if (!rc) rc = fetch_run(l->fetches, l->parts, &l->told, &missing, e);
    if (!rc && !l->told.has_trees) rc = store_check(l->parts, l->m->weights, &reads, e);
    byte_runs_free(&reads);
    byte_runs_free(&missing);
    return rc;
}

/* plan_options.before_weights. */
static int have_weights(void *ctx, const program *p, err *e)
{
    lease *l = ctx;
    if (l->parts) return fetch_weights(l, p, e);
    char *cache = contents_cache_folder();
    int rc = l->m->weights ? keeper_check(l->base.host->copies, l->m->weights, e) : OK;
    if (!rc)
        rc = catalogue_compare(&l->told, l->m->weights, p, cache, keeper_since(l->base.host->copies),
                               pool_default_threads(), &l->hashed_at, e);
    mem_free(cache);
    l->differs = rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE;
    return rc;
}

int lease_place_model(lease *l, const plan_options *o, err *e)
{
    plan_options all = *o;
    all.before_weights = have_weights;
    all.may_take = may_take;
    all.ctx = l;
    const bool may_fetch = l->base.host->cache || !l->base.host->n_model;
    err own = {0};
    int rc = find_model(l, &own);
    bool fetches = rc && may_fetch;
    if (!rc) {
        rc = plan_open(&l->l, l->m->prog, &all, &own);
        fetches = rc && l->differs && may_fetch;
    }
    if (!fetches) return err_copy(e, &own);
    if (l->differs) log_line(LOG_WARN, "%s", own.msg);
    model_close(l->m);
    l->m = NULL;
    rc = take_model(l, e);
    return rc ? rc : plan_open(&l->l, l->m->prog, &all, e);
}

int lease_check_weights(const lease *l, err *e)
{
    bool touched = false;
    ckpt *c = l->m->weights;
    if (!c) return OK;
    int rc = l->parts ? store_look(l->parts, e) : keeper_check(l->base.host->copies, c, e);
    return rc ? rc : l->parts ? ckpt_check_torn(c, e) : ckpt_look(c, &touched, e);
}

/* Of a file that pieces are written to times change. */
bool lease_reads_file(const lease *l, const file_id *id)
{
    const ckpt *c = l->m->weights;
    for (uint32_t f = 0; c && f < ckpt_file_count(c); f++) {
        file_id own;
        if (ckpt_file_id(c, f, &own) && own.device == id->device && own.inode == id->inode) return true;
    }
    return false;
}
