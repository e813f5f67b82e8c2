/* contents.c - see contents.h. A tensor is one thread's: SHA-256 has an order. */
#include "io/contents.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"

#include <stdlib.h>
#include <string.h>

enum { GIB = 1 << 30, SLOW_BYTES = GIB }; /* what takes so long to hash that it is said before */

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory for the digests of tensors"); }

/* The place of a tensor in its file; false: its bytes are not there as they are used. */
static bool place_of(const ckpt *c, const ckpt_entry *t, file_sum *out)
{
    if (!ckpt_entry_mapped(c, t)) return false;
    *out = (file_sum){.offset = (uint64_t)(t->data - ckpt_file_bytes(c, t->file).p), .bytes = t->bytes};
    return true;
}

/* What is known of a tensor's digest. */
typedef enum { SUM_NEW, SUM_OLD, SUM_KNOWN, SUM_CHANGED } sum_state;

/* Digests that are remembered; state SUM_OLD: one from before `since`, to compare with. */
static int remember(contents *o, const ckpt *c, const char *cache, int64_t since, uint8_t *state, err *e)
{
    for (uint32_t f = 0; f < ckpt_file_count(c); f++) {
        file_sums sums = {0};
        file_id id;
        if (!ckpt_file_id(c, f, &id)) continue;
        int rc = contents_cache_read(&sums, cache, &id, e);
        for (uint32_t i = 0; i < ckpt_count(c) && !rc && sums.n; i++) {
            file_sum want;
            const file_sum *s = NULL;
            if (ckpt_at(c, i)->file == f && place_of(c, ckpt_at(c, i), &want)) s = file_sums_find(&sums, &want);
            if (!s) continue;
            memcpy(o->tensor[i], s->digest, SHA256_BYTES);
            state[i] = s->hashed > 0 && s->hashed >= since ? SUM_KNOWN : SUM_OLD;
        }
        file_sums_free(&sums);
        if (rc) return rc;
    }
    return OK;
}

static bool is_wanted(const bool *want, uint32_t i) { return !want || want[i]; }

/* Whether somebody wrote to the file, or may have. */
static bool is_settled(const ckpt *c, uint32_t f, file_id *id)
{
    return ckpt_file_id(c, f, id) && file_settled(ckpt_file(c, f), id);
}

/* Adds digests that are new to what is kept of each file. */
static void keep(const contents *o, const ckpt *c, const char *cache, const bool *want, const uint8_t *state)
{
    const int64_t now = contents_clock();
    for (uint32_t f = 0; f < ckpt_file_count(c); f++) {
        file_sums sums = {0};
        file_id id;
        err e = {0};
        bool fresh = false, ok = ckpt_file_id(c, f, &id) && contents_cache_read(&sums, cache, &id, &e) == OK;
        for (uint32_t i = 0; i < ckpt_count(c) && ok; i++) {
            file_sum s;
            if (ckpt_at(c, i)->file != f || state[i] == SUM_KNOWN || !is_wanted(want, i) ||
                !place_of(c, ckpt_at(c, i), &s))
                continue;
            memcpy(s.digest, o->tensor[i], SHA256_BYTES);
            s.hashed = now;
            ok = fresh = file_sums_add(&sums, &s);
        }
        if (ok && fresh && is_settled(c, f, &id) && contents_cache_write(&sums, cache, &id, &e))
            log_line(LOG_DEBUG, "digests are not kept: %s", e.msg);
        file_sums_free(&sums);
    }
}

static void hash_rest(contents *o, const ckpt *c, const bool *want, uint8_t *state, int threads)
{
    uint64_t total = 0, done = 0;
    (void)threads; /* without OpenMP */
    for (uint32_t i = 0; i < ckpt_count(c); i++)
        if (state[i] != SUM_KNOWN && is_wanted(want, i)) total += ckpt_at(c, i)->bytes;
    if (total >= SLOW_BYTES) log_line(LOG_INFO, "%s: hashing %.1f GiB of tensors", ckpt_path(c), (double)total / GIB);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        uint8_t digest[SHA256_BYTES];
        if (state[i] == SUM_KNOWN || !is_wanted(want, i)) continue;
        sha256_of(t->data, t->bytes, digest);
        file_release(t->data, t->bytes);
        if (state[i] == SUM_OLD && memcmp(digest, o->tensor[i], sizeof digest) != 0) state[i] = SUM_CHANGED;
        memcpy(o->tensor[i], digest, sizeof digest);
#pragma omp critical
        log_progress("hash", done += t->bytes, total);
    }
    o->hashed = total;
}

/* A tensor that changed in a file that nobody wrote to. */
static int find_decay(const ckpt *c, const char *cache, const uint8_t *state, err *e)
{
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        file_id id;
        if (state[i] != SUM_CHANGED || !is_settled(c, t->file, &id)) continue;
        contents_cache_doubt(cache, &id);
        return contents_decayed(ckpt_file(c, t->file), t->name, e);
    }
    return OK;
}

int contents_decayed(const char *path, const char *tensor, err *e)
{
    return err_set(e, ERR_UNAVAILABLE,
                   "%s: tensor '%.100s' has other contents than when it was hashed last, though nobody wrote to the "
                   "file: its disk changed it (copy the file anew)",
                   path, tensor);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const contents_item *)a)->t->name, ((const contents_item *)b)->t->name);
}

static void add_int(sha256 *s, uint64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)(v >> 8 * i);
    sha256_add(s, b, sizeof b);
}

static void add_text(sha256 *s, const char *t)
{
    add_int(s, strlen(t));
    sha256_add(s, t, strlen(t));
}

void contents_join(contents_item *items, size_t n, uint8_t all[SHA256_BYTES])
{
    sha256 s;
    qsort(items, n, sizeof *items, by_name);
    sha256_init(&s);
    for (size_t i = 0; i < n; i++) {
        const ckpt_entry *t = items[i].t;
        add_text(&s, t->name);
        add_text(&s, dtype_info[t->type].name);
        add_int(&s, t->packed);
        add_int(&s, (uint64_t)t->dims.rank);
        for (int d = 0; d < t->dims.rank; d++) add_int(&s, (uint64_t)t->dims.dim[d]);
        sha256_add(&s, items[i].digest, SHA256_BYTES);
    }
    sha256_end(&s, all);
}

static int hash_all(contents *o, const ckpt *c, err *e)
{
    contents_item *items = mem_array(ckpt_count(c), sizeof *items);
    if (!items) return no_memory(e);
    for (uint32_t i = 0; i < ckpt_count(c); i++) items[i] = (contents_item){ckpt_at(c, i), o->tensor[i]};
    contents_join(items, ckpt_count(c), o->all);
    mem_free(items);
    return OK;
}

int contents_hash_some(contents *out, const ckpt *c, const bool *want, const char *cache, int64_t since, int threads,
                       err *e)
{
    uint8_t *state = mem_zero((size_t)ckpt_count(c) + 1, sizeof *state);
    *out = (contents){.tensor = mem_zero((size_t)ckpt_count(c) + 1, sizeof *out->tensor)};
    int rc = state && out->tensor ? OK : no_memory(e);
    if (!rc && cache) rc = remember(out, c, cache, since, state, e);
    if (!rc) hash_rest(out, c, want, state, threads);
    if (!rc) rc = ckpt_check_torn(c, e);
    if (!rc && cache) rc = find_decay(c, cache, state, e);
    if (!rc && cache) keep(out, c, cache, want, state);
    if (!rc && !want) rc = hash_all(out, c, e);
    mem_free(state);
    if (rc) contents_free(out);
    return rc;
}

int contents_hash(contents *out, const ckpt *c, const char *cache, int threads, err *e)
{
    return contents_hash_some(out, c, NULL, cache, 0, threads, e);
}

void contents_free(contents *o)
{
    mem_free(o->tensor);
    *o = (contents){0};
}
