/* keeper.c - see keeper.h. */
#include "net/keeper.h"

#include "base/cond.h"
#include "base/idle_work.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "io/ckpt_build.h"
#include "io/contents_disk.h"
#include "net/store_journal.h"

#include <stdatomic.h>
#include <string.h>

/* Seconds between looks at whether the node has something to do; without work before it begins. */
#define LOOK 0.1
#define IDLE 2.0

typedef struct bad_file {
    file_id id;
    err why;
} bad_file;

struct keeper {
    const char *const *path;
    int n_path;
    const char *cache; /* NULL: none */
    int64_t since;
    keeper_use use;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    bad_file *bad;
    size_t cap_bad;
    atomic_size_t n_bad;
};

/* ---- files that changed */

/* Under the lock. */
static const bad_file *find_bad(const keeper *k, const file_id *id)
{
    for (size_t i = 0; i < atomic_load(&k->n_bad); i++)
        if (!memcmp(&k->bad[i].id, id, sizeof *id)) return &k->bad[i];
    return NULL;
}

int keeper_check(keeper *k, const ckpt *c, err *e)
{
    int rc = OK;
    if (!k || !atomic_load(&k->n_bad)) return OK;
    pthread_mutex_lock(&k->lock);
    for (uint32_t f = 0; f < ckpt_file_count(c) && !rc; f++) {
        file_id id;
        const bad_file *bad = ckpt_file_id(c, f, &id) ? find_bad(k, &id) : NULL;
        if (bad) rc = err_copy(e, &bad->why);
    }
    pthread_mutex_unlock(&k->lock);
    return rc;
}

static void note_bad(keeper *k, const file_id *id, const err *why)
{
    pthread_mutex_lock(&k->lock);
    const size_t n = atomic_load(&k->n_bad);
    const bool room = mem_grow((void **)&k->bad, &k->cap_bad, n + 1, sizeof *k->bad);
    if (room) k->bad[n] = (bad_file){*id, *why};
    if (room) atomic_store(&k->n_bad, n + 1);
    pthread_mutex_unlock(&k->lock);
    log_line(LOG_ERROR, "%s", why->msg);
    k->use.decayed(k->use.ctx, id, why);
}

/* A file of the cache: the next lease fetches what changed. */
static void note_changed(void *ctx, const file_id *id, const err *why)
{
    keeper *k = ctx;
    log_line(LOG_ERROR, "%s: fetched anew when it is needed", why->msg);
    if (k->use.decayed) k->use.decayed(k->use.ctx, id, why);
}

/* ---- looking */

/* False: the keeper ends. */
static bool rest_for(keeper *k, double seconds)
{
    const double until = clock_now() + seconds;
    pthread_mutex_lock(&k->lock);
    for (bool in_time = true; !k->stop && in_time;) in_time = cond_wait(&k->changed, &k->lock, until);
    const bool goes_on = !k->stop;
    pthread_mutex_unlock(&k->lock);
    return goes_on;
}

static bool may_read(void *ctx, uint64_t bytes)
{
    keeper *k = ctx;
    bool goes_on = rest_for(k, (double)bytes / IDLE_RATE);
    while (goes_on && k->use.works(k->use.ctx)) goes_on = rest_for(k, LOOK);
    return goes_on;
}

/* Until the node has had nothing to do for a while. */
static bool await_idleness(keeper *k)
{
    double idle_at = clock_now();
    bool goes_on = true;
    while (goes_on && clock_now() - idle_at < IDLE) {
        if (k->use.works(k->use.ctx)) idle_at = clock_now();
        goes_on = rest_for(k, LOOK);
    }
    return goes_on;
}

static void look_at_copy(keeper *k, const ckpt *c, const char *cache)
{
    const sums_pace pace = {may_read, k};
    int rc = OK;
    for (uint32_t f = 0; f < ckpt_file_count(c) && rc != ERR_CANCELLED; f++) {
        file_id id;
        err e = {0};
        if (!ckpt_file_id(c, f, &id)) continue;
        pthread_mutex_lock(&k->lock);
        const bool known = find_bad(k, &id) != NULL;
        pthread_mutex_unlock(&k->lock);
        rc = known ? OK : contents_recheck(c, f, NULL, cache, 1, &pace, &e);
        if (rc == ERR_UNAVAILABLE) note_bad(k, &id, &e);
    }
}

static uint64_t bytes_of(const ckpt *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ckpt_count(c); i++) bytes += ckpt_at(c, i)->bytes;
    return bytes;
}

/* All of it once; the bytes that were read. */
static uint64_t look_at_all(keeper *k)
{
    char *cache = contents_cache_folder();
    uint64_t bytes = 0;
    for (int i = 0; i < k->n_path; i++) {
        ckpt *c;
        err ignored = {0};
        if (ckpt_open(&c, k->path[i], &ignored)) continue; /* leases say why */
        bytes += bytes_of(c);
        look_at_copy(k, c, cache);
        ckpt_close(c);
    }
    mem_free(cache);
    return bytes + (k->cache ? store_recheck(k->cache, &(sums_pace){may_read, k}, note_changed, k) : 0);
}

static void *look_at_files(void *arg)
{
    keeper *k = arg;
    idle_begin();
    while (await_idleness(k)) {
        const uint64_t bytes = look_at_all(k);
        k->use.looked(k->use.ctx);
        if (!rest_for(k, idle_rest(bytes))) break;
    }
    return NULL;
}

/* ---- */

static bool read_on(void *ctx, uint64_t bytes) { return (void)ctx, (void)bytes, true; }

static int verify_all(keeper *k, err *e)
{
    char *cache = contents_cache_folder();
    int rc = OK;
    for (int i = 0; i < k->n_path && !rc; i++) {
        ckpt *c;
        if ((rc = ckpt_open(&c, k->path[i], e))) break;
        rc = contents_verify(c, cache, pool_default_threads(), e);
        ckpt_close(c);
    }
    mem_free(cache);
    if (!rc && k->cache) store_recheck(k->cache, &(sums_pace){read_on, NULL}, note_changed, k);
    return rc;
}

int keeper_open(keeper **out, const char *const *paths, int n_path, const char *cache, bool verify, err *e)
{
    keeper *k = *out = mem_zero(1, sizeof *k);
    if (!k) return err_memory(e, "a node");
    k->path = paths;
    k->n_path = n_path;
    k->cache = cache;
    k->since = contents_clock();
    pthread_mutex_init(&k->lock, NULL);
    cond_open(&k->changed);
    return verify ? verify_all(k, e) : OK;
}

int keeper_begin(keeper *k, const keeper_use *use, err *e)
{
    k->use = *use;
    if (!k->n_path && !k->cache) return OK;
    k->runs = pthread_create(&k->thread, NULL, look_at_files, k) == 0;
    return k->runs ? OK : err_set(e, ERR_MEMORY, "a thread could not be started");
}

int64_t keeper_since(const keeper *k) { return k->since; }
uint64_t keeper_changed(const keeper *k) { return atomic_load(&k->n_bad); }

void keeper_close(keeper *k)
{
    if (!k) return;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    if (k->runs) pthread_join(k->thread, NULL);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    mem_free(k->bad);
    mem_free(k);
}
