/* contents_cache.c - see contents_cache.h. A file: the line `magic`, the identity (5 numbers), the number of sums, the
 * sums (offset, bytes, kind, when they were made, digest), and the SHA-256 of all that; numbers of 64 bits,
 * little-endian. */
#include "io/contents_cache.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char magic[] = "inferflow contents 3\n";
enum { SUM_BYTES = 32 + SHA256_BYTES };

static bool add_head(buf *b, const file_id *id)
{
    uint64_t f[] = {id->device, id->inode, id->bytes, (uint64_t)id->modified, (uint64_t)id->changed};
    bool ok = buf_str(b, magic);
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) ok = ok && buf_uint(b, f[i], 8);
    return ok;
}

/* dir/<digits of the place and of nothing that changes with the contents>: an older state is replaced. */
static char *name_of(const char *dir, const file_id *id)
{
    uint64_t place[2] = {id->device, id->inode};
    uint8_t digest[SHA256_BYTES];
    char name[40];
    sha256_of(place, sizeof place, digest);
    sha256_hex(digest, 16, name);
    memcpy(name + 32, ".sums", 6);
    return file_join(dir, name);
}

static int by_place(const void *pa, const void *pb)
{
    const file_sum *a = pa, *b = pb;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Nothing, where the bytes are not what contents_cache_write writes about this file. */
static int parse_sums(file_sums *out, span all, const file_id *id, err *e)
{
    buf head = {0};
    uint8_t digest[SHA256_BYTES];
    cursor c = cursor_of(all);
    if (!add_head(&head, id)) return buf_free(&head), err_memory(e, "remembered digests");
    bool same = span_eq(cursor_take(&c, head.n), buf_span(&head));
    uint64_t n = cursor_u64(&c);
    buf_free(&head);
    if (!same || c.bad || n > cursor_left(&c) / SUM_BYTES || cursor_left(&c) != n * SUM_BYTES + SHA256_BYTES) return OK;
    sha256_of(all.p, all.n - SHA256_BYTES, digest);
    if (memcmp(digest, all.p + all.n - SHA256_BYTES, sizeof digest) != 0) return OK;
    if (!mem_grow((void **)&out->at, &out->cap, n + 1, sizeof *out->at)) return err_memory(e, "remembered digests");
    for (; out->n < n; out->n++) {
        file_sum *s = &out->at[out->n];
        s->offset = cursor_u64(&c);
        s->bytes = cursor_u64(&c);
        s->kind = cursor_u64(&c) == SUM_TREE ? SUM_TREE : SUM_FLAT;
        s->hashed = (int64_t)cursor_u64(&c);
        memcpy(s->digest, cursor_take(&c, SHA256_BYTES).p, SHA256_BYTES);
    }
    qsort(out->at, out->n, sizeof *out->at, by_place);
    return OK;
}

int contents_cache_read(file_sums *out, const char *dir, const file_id *id, err *e)
{
    file_mapping *m;
    char *path = name_of(dir, id);
    *out = (file_sums){0};
    if (!path) return err_memory(e, "remembered digests");
    int rc = OK;
    if (file_map(&m, path, NULL) == OK) {
        rc = parse_sums(out, file_bytes(m), id, e);
        if (file_torn(m)) out->n = 0;
        file_unmap(m);
    }
    mem_free(path);
    return rc;
}

const file_sum *file_sums_find(const file_sums *s, const file_sum *place)
{
    return bsearch(place, s->at, s->n, sizeof *s->at, by_place);
}

bool file_sums_add(file_sums *s, const file_sum *x)
{
    if (!mem_grow((void **)&s->at, &s->cap, s->n + 1, sizeof *s->at)) return false;
    s->at[s->n++] = *x;
    return true;
}

static int by_place_and_time(const void *pa, const void *pb)
{
    const file_sum *a = pa, *b = pb;
    const int place = by_place(a, b);
    return place ? place : a->hashed < b->hashed ? -1 : a->hashed > b->hashed;
}

static void sort_sums(file_sums *s)
{
    size_t n = 0;
    if (s->n) qsort(s->at, s->n, sizeof *s->at, by_place_and_time);
    for (size_t i = 0; i < s->n; i++)
        if (i + 1 == s->n || by_place(&s->at[i], &s->at[i + 1]) != 0) s->at[n++] = s->at[i];
    s->n = n;
}

/* The folder and those above it, for this user only. */
static int make_folder(const char *dir, err *e)
{
    char *path = mem_str(dir);
    int rc = path ? OK : err_memory(e, "remembered digests");
    for (char *p = path; !rc && *p; p++) {
        char kept = p[1];
        if (kept && kept != '/') continue;
        p[1] = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        p[1] = kept;
    }
    mem_free(path);
    return rc;
}

int contents_cache_write(file_sums *s, const char *dir, const file_id *id, err *e)
{
    buf b = {0};
    uint8_t digest[SHA256_BYTES];
    file_out *f;
    char *path = name_of(dir, id);
    sort_sums(s);
    bool ok = path && add_head(&b, id) && buf_uint(&b, s->n, 8);
    for (size_t i = 0; i < s->n && ok; i++)
        ok = buf_uint(&b, s->at[i].offset, 8) && buf_uint(&b, s->at[i].bytes, 8) && buf_uint(&b, s->at[i].kind, 8) &&
             buf_uint(&b, (uint64_t)s->at[i].hashed, 8) && buf_add(&b, s->at[i].digest, SHA256_BYTES);
    sha256_of(b.p, b.n, digest);
    int rc = ok && buf_add(&b, digest, sizeof digest) ? make_folder(dir, e) : err_memory(e, "remembered digests");
    if (!rc && !(rc = file_create(&f, path, e))) {
        rc = file_write(f, b.p, b.n, e);
        if (rc) file_abandon(f);
        else rc = file_commit(f, e);
    }
    buf_free(&b);
    mem_free(path);
    return rc;
}

void contents_cache_doubt(const char *dir, const file_id *id)
{
    file_sums s;
    err ignored;
    if (!dir || contents_cache_read(&s, dir, id, &ignored)) return;
    for (size_t i = 0; i < s.n; i++) s.at[i].hashed = 0;
    if (s.n) contents_cache_write(&s, dir, id, &ignored);
    file_sums_free(&s);
}

int64_t contents_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void file_sums_free(file_sums *s)
{
    mem_free(s->at);
    *s = (file_sums){0};
}

char *contents_cache_folder(void)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (base && *base == '/') return file_join(base, "inferflow"); /* others are to be ignored */
    return home && *home == '/' ? file_join(home, ".cache/inferflow") : NULL;
}
