/* contents.c - see contents.h. A tensor, or a MiB of one as a tree, is one thread's. */
#include "io/contents.h"

#include "base/hash_tree.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"
#include "io/contents_cache.h"
#include "io/sums_disk.h"

#include <stdlib.h>
#include <string.h>

enum { GIB = 1 << 30, SLOW_BYTES = GIB }; /* what takes so long to hash that it is said before */

/* What is known of a digest. */
typedef enum { HASH_NEW, HASH_OLD, HASH_KNOWN, HASH_CHANGED } hash_state;

/* What is hashed at once. */
typedef struct part {
    uint32_t tensor;
    uint64_t at, bytes; /* of the tensor */
    uint8_t *digest;
    hash_state state;
} part;

typedef struct parts {
    const ckpt *c;
    sum_kind kind;
    part *part;
    size_t n;
    uint64_t hashed; /* bytes that were not remembered */
    int64_t oldest;  /* contents_clock of the oldest digest */
} parts;

/* The place of a part in its file; false: its bytes are not there as they are used. */
static bool place_of(const parts *p, const part *x, file_sum *out)
{
    const ckpt_entry *t = ckpt_at(p->c, x->tensor);
    if (!ckpt_entry_mapped(p->c, t)) return false;
    *out = (file_sum){
        .offset = (uint64_t)(t->data - ckpt_file_bytes(p->c, t->file).p) + x->at, .bytes = x->bytes, .kind = p->kind};
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

int contents_decayed(const ckpt *c, uint32_t file, uint64_t offset, err *e)
{
    return err_set(e, ERR_UNAVAILABLE,
                   "%s: tensor '%.100s' has other contents than when it was hashed last, though nobody wrote to the "
                   "file: its disk changed it (copy the file anew)",
                   ckpt_file(c, file), tensor_at(c, file, offset));
}

/* What is kept of a file. Where it is in doubt the disk is asked: what memory has of it may be better, and lasts no
 * longer than there is room for it. */
static int read_kept(const parts *p, uint32_t f, const file_id *id, const char *cache, int threads, file_sums *out,
                     err *e)
{
    bool doubt = false;
    size_t wrong = 0;
    err ignored = {0};
    int rc = contents_cache_read(out, cache, id, e);
    for (size_t i = 0; i < out->n && !rc; i++) doubt = doubt || out->at[i].hashed <= 0;
    if (rc || !doubt) return rc;
    rc = sums_recheck(out, ckpt_file(p->c, f), id, threads, NULL, &wrong, &ignored);
    if (rc == ERR_UNAVAILABLE) return contents_decayed(p->c, f, out->at[wrong].offset, e);
    if (!rc) contents_cache_write(out, cache, id, &ignored);
    return rc == ERR_NOT_FOUND ? OK : rc ? err_copy(e, &ignored) : OK;
}

/* Digests that are remembered; state HASH_OLD: one from before `since`, to compare with. */
static int remember_sums(parts *p, const char *cache, int64_t since, int threads, err *e)
{
    for (uint32_t f = 0; f < ckpt_file_count(p->c); f++) {
        file_sums sums = {0};
        file_id id;
        if (!ckpt_file_id(p->c, f, &id)) continue;
        int rc = read_kept(p, f, &id, cache, threads, &sums, e);
        for (size_t i = 0; i < p->n && !rc && sums.n; i++) {
            part *x = &p->part[i];
            file_sum want;
            const file_sum *s = NULL;
            if (ckpt_at(p->c, x->tensor)->file == f && place_of(p, x, &want)) s = file_sums_find(&sums, &want);
            if (!s) continue;
            memcpy(x->digest, s->digest, SHA256_BYTES);
            x->state = s->hashed > 0 && s->hashed >= since ? HASH_KNOWN : HASH_OLD;
            if (x->state == HASH_KNOWN && s->hashed < p->oldest) p->oldest = s->hashed;
        }
        file_sums_free(&sums);
        if (rc) return rc;
    }
    return OK;
}

/* Whether nobody writes to the file, or can have. */
static bool is_settled(const ckpt *c, uint32_t f, file_id *id)
{
    return ckpt_file_id(c, f, id) && file_settled(ckpt_file(c, f), id);
}

/* Adds digests that are new to what is kept of each file. */
static void keep_sums(const parts *p, const char *cache)
{
    const int64_t now = contents_clock();
    for (uint32_t f = 0; f < ckpt_file_count(p->c); f++) {
        file_sums sums = {0};
        file_id id;
        err e = {0};
        bool fresh = false, ok = ckpt_file_id(p->c, f, &id) && contents_cache_read(&sums, cache, &id, &e) == OK;
        for (size_t i = 0; i < p->n && ok; i++) {
            const part *x = &p->part[i];
            file_sum s;
            if (ckpt_at(p->c, x->tensor)->file != f || x->state == HASH_KNOWN || !place_of(p, x, &s)) continue;
            memcpy(s.digest, x->digest, SHA256_BYTES);
            s.hashed = now;
            ok = fresh = file_sums_add(&sums, &s);
        }
        if (ok && fresh && is_settled(p->c, f, &id) && contents_cache_write(&sums, cache, &id, &e))
            log_line(LOG_DEBUG, "digests are not kept: %s", e.msg);
        file_sums_free(&sums);
    }
}

static void hash_rest(parts *p, int threads)
{
    uint64_t total = 0, done = 0;
    (void)threads; /* without OpenMP */
    for (size_t i = 0; i < p->n; i++) total += p->part[i].state == HASH_KNOWN ? 0 : p->part[i].bytes;
    if (total >= SLOW_BYTES)
        log_line(LOG_INFO, "%s: hashing %.1f GiB of tensors", ckpt_path(p->c), (double)total / GIB);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < p->n; i++) {
        part *x = &p->part[i];
        const uint8_t *bytes = ckpt_at(p->c, x->tensor)->data + x->at;
        uint8_t digest[SHA256_BYTES];
        if (x->state == HASH_KNOWN) continue;
        if (p->kind == SUM_TREE) tree_root(bytes, x->bytes, digest);
        else sha256_of(bytes, x->bytes, digest);
        file_release(bytes, x->bytes);
        if (x->state == HASH_OLD && memcmp(digest, x->digest, sizeof digest) != 0) x->state = HASH_CHANGED;
        memcpy(x->digest, digest, sizeof digest);
#pragma omp critical
        log_progress("hash", "bytes", done += x->bytes, total);
    }
    p->hashed = total;
}

/* A tensor that changed in a file that nobody wrote to. */
static int find_decay(const parts *p, const char *cache, err *e)
{
    for (size_t i = 0; i < p->n; i++) {
        const ckpt_entry *t = ckpt_at(p->c, p->part[i].tensor);
        file_id id;
        if (p->part[i].state != HASH_CHANGED || !is_settled(p->c, t->file, &id)) continue;
        contents_cache_doubt(cache, &id);
        return contents_decayed(p->c, t->file, (uint64_t)(t->data - ckpt_file_bytes(p->c, t->file).p), e);
    }
    return OK;
}

/* Digests of all parts. */
static int hash_parts(parts *p, const char *cache, int64_t since, int threads, err *e)
{
    p->oldest = contents_clock();
    int rc = cache ? remember_sums(p, cache, since, threads, e) : OK;
    if (!rc) hash_rest(p, threads);
    if (!rc) rc = ckpt_check_torn(p->c, e);
    if (!rc && cache) rc = find_decay(p, cache, e);
    if (!rc && cache) keep_sums(p, cache);
    return rc;
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
    if (!items) return err_memory(e, "the digests of tensors");
    for (uint32_t i = 0; i < ckpt_count(c); i++) items[i] = (contents_item){ckpt_at(c, i), o->tensor[i]};
    contents_join(items, ckpt_count(c), o->all);
    mem_free(items);
    return OK;
}

int contents_hash_some(contents *out, const ckpt *c, const bool *want, const char *cache, int64_t since, int threads,
                       err *e)
{
    parts p = {.c = c, .kind = SUM_FLAT, .part = mem_array((size_t)ckpt_count(c) + 1, sizeof *p.part)};
    *out = (contents){.tensor = mem_zero((size_t)ckpt_count(c) + 1, sizeof *out->tensor)};
    int rc = p.part && out->tensor ? OK : err_memory(e, "the digests of tensors");
    for (uint32_t i = 0; i < ckpt_count(c) && !rc; i++)
        if (!want || want[i])
            p.part[p.n++] = (part){.tensor = i, .bytes = ckpt_at(c, i)->bytes, .digest = out->tensor[i]};
    if (!rc) rc = hash_parts(&p, cache, since, threads, e);
    out->hashed = p.hashed;
    out->hashed_at = p.oldest;
    if (!rc && !want) rc = hash_all(out, c, e);
    mem_free(p.part);
    if (rc) contents_free(out);
    return rc;
}

uint64_t contents_trees(uint64_t bytes) { return bytes / TREE_BYTES + (bytes % TREE_BYTES != 0); }

int contents_roots_some(contents_roots *out, const ckpt *c, const bool *want, const char *cache, int64_t since,
                        int threads, err *e)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < ckpt_count(c); i++) n += contents_trees(ckpt_at(c, i)->bytes);
    parts p = {.c = c, .kind = SUM_TREE, .part = mem_array(n + 1, sizeof *p.part)};
    *out = (contents_roots){.root = mem_zero(n + 1, sizeof *out->root),
                            .first = mem_array((size_t)ckpt_count(c) + 1, sizeof *out->first)};
    int rc = p.part && out->root && out->first ? OK : err_memory(e, "the digests of tensors");
    n = 0;
    for (uint32_t i = 0; i < ckpt_count(c) && !rc; i++) {
        const uint64_t bytes = ckpt_at(c, i)->bytes;
        out->first[i] = n;
        for (uint64_t at = 0; at < bytes; at += TREE_BYTES, n++)
            if (!want || want[i])
                p.part[p.n++] = (part){.tensor = i,
                                       .at = at,
                                       .bytes = bytes - at < TREE_BYTES ? bytes - at : TREE_BYTES,
                                       .digest = out->root[n]};
    }
    if (!rc) rc = hash_parts(&p, cache, since, threads, e);
    out->hashed_at = p.oldest;
    mem_free(p.part);
    if (rc) contents_roots_free(out);
    return rc;
}

void contents_roots_free(contents_roots *o)
{
    mem_free(o->root);
    mem_free(o->first);
    *o = (contents_roots){0};
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
