/* contents_disk.c - see contents_disk.h. */
#include "io/contents_disk.h"

#include "base/file_disk.h"
#include "base/hash_tree.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* OK: as it was. */
static int check_sum(const file_disk *d, const file_sum *s, const contents_pace *pace, uint8_t *room)
{
    sha256 h;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&h);
    for (uint64_t done = 0, n; done < s->bytes; done += n) {
        n = s->bytes - done < DISK_READ ? s->bytes - done : DISK_READ;
        if (pace && !pace->go_on(pace->ctx, n)) return ERR_CANCELLED;
        const uint8_t *p = file_disk_read(d, s->offset + done, (size_t)n, room);
        if (!p) return ERR_UNAVAILABLE;
        if (s->kind == SUM_TREE) tree_root(p, (size_t)n, digest);
        else sha256_add(&h, p, (size_t)n);
    }
    if (s->kind == SUM_FLAT) sha256_end(&h, digest);
    return memcmp(digest, s->digest, sizeof digest) == 0 ? OK : ERR_UNAVAILABLE;
}

/* Whether trees say the same: those of a tensor are made together. */
static bool has_trees(const file_sums *s, const file_sum *x)
{
    const uint64_t n = x->bytes < TREE_BYTES ? x->bytes : TREE_BYTES;
    return x->kind == SUM_FLAT && file_sums_find(s, &(file_sum){.offset = x->offset, .bytes = n, .kind = SUM_TREE});
}

static int check_all(const file_disk *d, file_sums *s, int threads, const contents_pace *pace, size_t *wrong, err *e)
{
    atomic_int first = OK;
    atomic_size_t at = SIZE_MAX;
    const int64_t now = contents_clock();
    (void)threads; /* without OpenMP */
#pragma omp parallel num_threads(threads)
    {
        uint8_t *room = mem_map(DISK_ROOM);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < s->n; i++) {
            int expected = OK;
            if (atomic_load(&first) || has_trees(s, &s->at[i])) continue;
            const int rc = room ? check_sum(d, &s->at[i], pace, room) : ERR_MEMORY;
            if (rc && atomic_compare_exchange_strong(&first, &expected, rc)) atomic_store(&at, i);
        }
        if (room) mem_unmap(room, DISK_ROOM);
    }
    *wrong = atomic_load(&at);
    const int rc = atomic_load(&first);
    for (size_t i = 0; i < s->n && !rc; i++) s->at[i].hashed = now;
    return !rc ? OK : err_set(e, rc, rc == ERR_MEMORY ? "out of memory to hash a file" : "a file was not hashed");
}

/* ERR_UNAVAILABLE: the place *wrong has other contents; ERR_NOT_FOUND: it is not that file any more. */
static int check_file(file_sums *s, const char *path, const file_id *id, int threads, const contents_pace *pace,
                      size_t *wrong, err *e)
{
    file_disk d;
    *wrong = SIZE_MAX;
    if (file_disk_open(&d, path)) return err_set(e, ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    int rc = file_is(path, id) ? check_all(&d, s, threads, pace, wrong, e) : ERR_NOT_FOUND;
    if (rc == ERR_UNAVAILABLE && !file_is(path, id)) rc = ERR_NOT_FOUND; /* somebody writes to it */
    if (rc == ERR_NOT_FOUND) err_set(e, rc, "%s: was replaced or written to", path);
    file_disk_close(&d);
    return rc;
}

static bool add_held(file_sums *s, const ckpt *c, uint32_t f, const contents *held)
{
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        if (t->file != f || !ckpt_entry_mapped(c, t)) continue;
        file_sum x = {.offset = (uint64_t)(t->data - ckpt_file_bytes(c, f).p), .bytes = t->bytes};
        memcpy(x.digest, held->tensor[i], SHA256_BYTES);
        if (!file_sums_add(s, &x)) return false;
    }
    return true;
}

static const char *tensor_at(const ckpt *c, uint32_t f, uint64_t offset)
{
    const uint8_t *p = ckpt_file_bytes(c, f).p + offset;
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        if (t->file == f && p >= t->data && p < t->data + t->bytes) return t->name;
    }
    return "?";
}

int contents_recheck(const ckpt *c, uint32_t f, const contents *held, const char *cache, int threads,
                     const contents_pace *pace, err *e)
{
    const char *path = ckpt_file(c, f);
    file_sums s = {0};
    file_id id;
    size_t wrong = 0;
    err ignored = {0};
    if (!ckpt_file_id(c, f, &id) || (!held && !cache)) return OK;
    int rc = held ? OK : contents_cache_read(&s, cache, &id, e);
    if (held && !add_held(&s, c, f, held)) rc = err_set(e, ERR_MEMORY, "out of memory for the digests of tensors");
    if (!rc && s.n) rc = check_file(&s, path, &id, threads, pace, &wrong, &ignored);
    if (rc == ERR_UNAVAILABLE) contents_decayed(path, tensor_at(c, f, s.at[wrong].offset), e);
    else if (rc && rc != ERR_NOT_FOUND && ignored.code) err_copy(e, &ignored);
    if (rc == ERR_UNAVAILABLE && cache) contents_cache_doubt(cache, &id);
    if (!rc && s.n && !held) contents_cache_write(&s, cache, &id, &ignored);
    file_sums_free(&s);
    return rc == ERR_NOT_FOUND ? OK : rc;
}

int contents_verify(const ckpt *c, const char *cache, int threads, err *e)
{
    contents held;
    const int64_t since = contents_clock();
    int rc = OK;
    if (!cache)
        log_line(LOG_WARN, "%s: no digests are kept (HOME, XDG_CACHE_HOME): nothing to compare with", ckpt_path(c));
    for (uint32_t f = 0; f < ckpt_file_count(c) && !rc; f++) rc = contents_recheck(c, f, NULL, cache, threads, NULL, e);
    if (!rc) rc = contents_hash_some(&held, c, NULL, cache, since, threads, e);
    if (!rc) contents_free(&held);
    return rc;
}
