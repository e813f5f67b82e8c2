/* damage.c - see damage.h. A thread hashes, so that the engine's goes on to answer. */
#include "engine/damage.h"

#include "base/clock.h"
#include "base/idle_work.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "engine/engine_state.h"
#include "io/ckpt_build.h"
#include "io/contents_disk.h"

#include <string.h>

/* Seconds between looks at files that are not whole; after hashing in vain, so many times what it took. */
#define LOOK        0.25
#define AGAIN_TIMES 4
/* Seconds without work before the disk is looked at. */
#define IDLE        2.0

/* Whether weights are read here. */
static bool is_used(const engine *g)
{
    bool here = false;
    for (int i = 0; g->plan && i < plan_devices(g->plan); i++) here = here || !plan_node(g->plan, i);
    return here && g->model->weights;
}

/* ---- hashing */

/* Waits while there is work, and so that not too much is read at once. */
static bool may_read(void *ctx, uint64_t bytes)
{
    engine *g = ctx;
    const bool looks = g->harm.looks;
    while (looks && !atomic_load(&g->harm.stop) && queue_has_work(g)) idle_sleep(LOOK);
    if (looks) idle_sleep((double)bytes / IDLE_RATE);
    return !atomic_load(&g->harm.stop);
}

/* All files on their disks. */
static int read_disks(engine *g, err *e)
{
    const sums_pace slowly = {may_read, g};
    char *cache = contents_cache_folder();
    int rc = OK;
    for (uint32_t f = 0; f < ckpt_file_count(g->model->weights) && !rc; f++)
        rc = contents_recheck(g->model->weights, f, &g->harm.held, cache, 1, &slowly, e);
    mem_free(cache);
    if (rc == ERR_UNAVAILABLE) g->harm.decayed = true;
    return rc;
}

static int compare_contents(const damage *d, const ckpt *c, err *e)
{
    for (uint32_t i = 0; i < ckpt_count(c) && !atomic_load(&d->stop); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        uint8_t digest[SHA256_BYTES];
        if (!ckpt_entry_mapped(c, t)) continue;
        sha256_of(t->data, t->bytes, digest);
        if (memcmp(digest, d->held.tensor[i], sizeof digest) != 0 && !ckpt_check_torn(c, e))
            return err_set(e, ERR_UNAVAILABLE, "%s: tensor '%.100s' has other contents than when it was loaded",
                           ckpt_file(c, t->file), t->name);
    }
    return ckpt_check_torn(c, e);
}

static void *hash_contents(void *arg)
{
    engine *g = arg;
    if (g->harm.looks) idle_begin();
    int rc = g->harm.looks || g->harm.decayed ? read_disks(g, &g->harm.found) : OK;
    if (!g->harm.looks && !rc) rc = compare_contents(&g->harm, g->model->weights, &g->harm.found);
    if (rc != ERR_UNAVAILABLE) g->harm.found = (err){0};
    if (!rc && !g->harm.looks) g->harm.decayed = false;
    atomic_store(&g->harm.done, true);
    engine_wake(g);
    return NULL;
}

static void hash_begin(engine *g, bool looks)
{
    damage *d = &g->harm;
    d->looks = looks;
    d->found = (err){0};
    d->began = clock_now();
    atomic_store(&d->stop, false);
    atomic_store(&d->done, false);
    d->hashes = pthread_create(&d->thread, NULL, hash_contents, g) == 0;
}

/* True: it has ended; then *found says how. */
static bool hash_ended(damage *d, err *found)
{
    if (!d->hashes || !atomic_load(&d->done)) return false;
    pthread_join(d->thread, NULL);
    d->hashes = false;
    d->took = clock_now() - d->began;
    *found = d->found;
    return true;
}

void damage_close(engine *g)
{
    damage *d = &g->harm;
    atomic_store(&d->stop, true);
    if (d->hashes) pthread_join(d->thread, NULL);
    contents_free(&d->held);
}

/* ---- */

void engine_watch_files(engine *g) { g->harm.watches = true; }

/* Begins to look at the disk when it is time. */
static void look_at_disk(engine *g)
{
    damage *d = &g->harm;
    const double now = clock_now();
    uint64_t bytes = 0;
    if (!d->watches || !d->held.tensor || d->hashes) return;
    if (queue_has_work(g) || !d->idle_at) d->idle_at = now;
    if (now - d->idle_at < IDLE || now < d->look_at) return;
    for (uint32_t i = 0; i < ckpt_count(g->model->weights); i++) bytes += ckpt_at(g->model->weights, i)->bytes;
    d->look_at = now + idle_rest(bytes);
    hash_begin(g, true);
}

int damage_check(engine *g, err *e)
{
    damage *d = &g->harm;
    bool touched = false;
    err found = {0};
    if (d->active) return err_copy(e, &d->why);
    if (!is_used(g)) return OK;
    int rc = ckpt_look(g->model->weights, &touched, e);
    if (!rc && hash_ended(d, &found) && found.code) rc = err_copy(e, &found);
    d->touched |= touched;
    if (!rc && d->touched && d->held.tensor && !d->hashes) {
        d->touched = false;
        hash_begin(g, false);
    }
    if (!rc) look_at_disk(g);
    return rc;
}

/* Queries that wait, or came meanwhile. */
static void end_queries(engine *g)
{
    schedule_accept(g);
    while (g->waiting) session_finish(g, g->waiting, FINISH_ERROR, g->harm.why.msg);
    sessions_free_gone(g);
}

void damage_begin(engine *g, const err *why)
{
    pthread_mutex_lock(&g->lock);
    g->harm.active = true;
    g->harm.why = *why;
    g->stats.running = 0;
    g->stats.kv_usage = 0;
    pthread_mutex_unlock(&g->lock);
    g->harm.next = clock_now() + LOOK;
    if (g->harm.looks) atomic_store(&g->harm.stop, true);
    if (g->harm.held.tensor) log_line(LOG_ERROR, "%s: not used until it is whole again", why->msg);
    engine_end_steps(g);
    schedule_accept(g);
    schedule_requeue(g);
    end_queries(g);
}

/* Whether the files may be whole now: then they are mapped anew, and hashed. */
static void try_to_mend(engine *g)
{
    damage *d = &g->harm;
    err why = {0};
    const double now = clock_now();
    d->next = now + LOOK;
    if (ckpt_restore(g->model->weights, &why) == OK) hash_begin(g, false);
    if (!why.code) return;
    pthread_mutex_lock(&g->lock);
    d->why = why;
    pthread_mutex_unlock(&g->lock);
}

void damage_go_on(engine *g)
{
    damage *d = &g->harm;
    err found = {0};
    bool touched = false;
    end_queries(g);
    if (!d->hashes && d->held.tensor && clock_now() >= d->next) try_to_mend(g);
    const bool looked = d->looks;
    if (!hash_ended(d, &found) || looked) return;
    ckpt_look(g->model->weights, &touched, &found); /* written to while it was hashed */
    d->next = clock_now() + LOOK + AGAIN_TIMES * d->took;
    pthread_mutex_lock(&g->lock);
    d->active = found.code != OK;
    if (d->active) d->why = found;
    pthread_mutex_unlock(&g->lock);
    if (!d->active) log_line(LOG_WARN, "%s: whole again", ckpt_path(g->model->weights));
}

bool engine_unavailable(engine *g, err *why)
{
    pthread_mutex_lock(&g->lock);
    const bool is = g->harm.active || g->broken.code, vain = g->away.vain;
    if (is) err_copy(why, g->harm.active ? &g->harm.why : &g->broken);
    else if (vain) err_set(why, ERR_NODE_LOST, "%s", g->away.why.msg);
    pthread_mutex_unlock(&g->lock);
    return is || vain;
}
