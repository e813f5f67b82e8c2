/* contents_disk.c - see contents_disk.h. */
#include "io/contents_disk.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"

#include <string.h>

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

int contents_recheck(const ckpt *c, uint32_t f, const contents *held, const char *cache, int threads,
                     const sums_pace *pace, err *e)
{
    const char *path = ckpt_file(c, f);
    file_sums s = {0};
    file_id id;
    size_t wrong = 0;
    err ignored = {0};
    if (!ckpt_file_id(c, f, &id) || (!held && !cache)) return OK;
    int rc = held ? OK : contents_cache_read(&s, cache, &id, e);
    if (held && !add_held(&s, c, f, held)) rc = err_memory(e, "the digests of tensors");
    if (!rc && s.n) rc = sums_recheck(&s, path, &id, threads, pace, &wrong, &ignored);
    if (rc == ERR_UNAVAILABLE) contents_decayed(c, f, s.at[wrong].offset, e);
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
