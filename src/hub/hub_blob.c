/* hub_blob.c - see hub_blob.h. */
#define _GNU_SOURCE
#include "hub/hub_blob.h"

#include "base/mem.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PART_MIN = 8 << 20, PART_MAX = 256 << 20, PARTS = 32, READ = 1 << 20, FLUSH = 4 << 20, SMALL = 1 << 20 };

/* Behind the bytes: this, then `done` of each part. */
typedef struct note {
    char magic[8];
    uint64_t bytes, part_bytes;
} note;
static const char magic[8] = "inferfl1";
_Static_assert(sizeof(note) == 24, "layout of the file");

static int fail(const char *path, err *e) { return err_set(e, ERR_IO, "%s: %s", path, strerror(errno)); }

static bool is_sha256(const char *etag)
{
    return strlen(etag) == 2 * SHA256_BYTES && strspn(etag, "0123456789abcdef") == 2 * SHA256_BYTES;
}

uint64_t hub_blob_end(const hub_blob *b, uint32_t part)
{
    const uint64_t end = (uint64_t)(part + 1) * b->part_bytes;
    return end < b->bytes ? end : b->bytes;
}

/* The lock that huggingface_hub takes. Who ends may remove the file: a lock on one without a name is none. */
static int take_lock(hub_blob *b, const hub_cache *c, err *e)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s.lock", c->locks, b->etag);
    int rc = n > 0 && (size_t)n < sizeof path ? hub_cache_folder(c->locks, e)
                                              : err_set(e, ERR_LIMIT, "%s: too long", c->locks);
    for (struct stat st; !rc;) {
        b->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (b->lock < 0) return fail(path, e);
        if (flock(b->lock, LOCK_EX | LOCK_NB) != 0)
            rc = errno == EWOULDBLOCK ? err_set(e, ERR_BUSY, "%s: another program downloads it", b->path)
                                      : fail(path, e);
        else if (fstat(b->lock, &st) == 0 && st.st_nlink > 0) return OK;
        close(b->lock);
        b->lock = -1;
    }
    return rc;
}

/* Takes what an earlier download left; false: nothing that goes with this file. */
static bool read_notes(hub_blob *b)
{
    note n;
    struct stat st;
    const size_t table = b->n_part * sizeof *b->done;
    if (fstat(b->fd, &st) != 0) return false;
    if ((uint64_t)st.st_size == b->bytes && is_sha256(b->etag)) { /* it was about to get its name */
        for (uint32_t i = 0; i < b->n_part; i++) b->done[i] = hub_blob_end(b, i) - (uint64_t)i * b->part_bytes;
        return true;
    }
    if ((uint64_t)st.st_size != b->bytes + sizeof n + table) return false;
    if (pread(b->fd, &n, sizeof n, (off_t)b->bytes) != (ssize_t)sizeof n) return false;
    if (memcmp(n.magic, magic, sizeof magic) != 0 || n.bytes != b->bytes || n.part_bytes != b->part_bytes) return false;
    if (!is_sha256(b->etag) && b->bytes <= SMALL) return false; /* nobody would see what a crash has torn */
    bool well = pread(b->fd, b->done, table, (off_t)(b->bytes + sizeof n)) == (ssize_t)table;
    for (uint32_t i = 0; i < b->n_part && well; i++)
        well = b->done[i] <= hub_blob_end(b, i) - (uint64_t)i * b->part_bytes;
    return well;
}

static int write_all(const hub_blob *b, const void *p, size_t n, uint64_t at, err *e)
{
    for (const char *from = p; n;) {
        const ssize_t k = pwrite(b->fd, from, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return fail(b->temporary, e);
        from += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return OK;
}

static int check_room(const hub_blob *b, err *e)
{
    struct statvfs v;
    uint64_t need = b->bytes;
    for (uint32_t i = 0; i < b->n_part; i++) need -= b->done[i];
    if (fstatvfs(b->fd, &v) != 0) return OK;
    const double room = (double)v.f_bavail * (double)v.f_frsize;
    if ((double)need <= room) return OK;
    return err_set(e, ERR_IO, "%s: %s: %.1f MB are to come, and the disk has room for %.1f MB", b->path,
                   strerror(ENOSPC), (double)need / 1e6, room / 1e6);
}

static int open_temporary(hub_blob *b, err *e)
{
    const uint64_t share = b->bytes / PARTS;
    b->part_bytes = share < PART_MIN ? PART_MIN : share > PART_MAX ? PART_MAX : share;
    b->n_part = (uint32_t)((b->bytes + b->part_bytes - 1) / b->part_bytes);
    b->done = mem_zero(b->n_part + 1, sizeof *b->done);
    if (!b->done) return err_memory(e, NULL);
    b->fd = open(b->temporary, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (b->fd < 0) return fail(b->temporary, e);
    const bool goes_on = read_notes(b);
    if (!goes_on) memset(b->done, 0, b->n_part * sizeof *b->done);
    int rc = check_room(b, e);
    if (rc || goes_on) return rc;
    note n = {.bytes = b->bytes, .part_bytes = b->part_bytes};
    memcpy(n.magic, magic, sizeof magic);
    if (ftruncate(b->fd, 0) != 0) return fail(b->temporary, e);
    rc = write_all(b, b->done, b->n_part * sizeof *b->done, b->bytes + sizeof n, e);
    return rc ? rc : write_all(b, &n, sizeof n, b->bytes, e);
}

static bool is_there(const hub_blob *b)
{
    struct stat st;
    return stat(b->path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == b->bytes;
}

int hub_blob_open(hub_blob *b, const hub_cache *c, const char *etag, uint64_t bytes, bool *there, err *e)
{
    char path[PATH_MAX];
    *b = (hub_blob){.etag = etag, .fd = -1, .lock = -1, .bytes = bytes};
    const int n = snprintf(path, sizeof path, "%s/%s.inferflow.incomplete", c->blobs, etag);
    int rc = n > 0 && (size_t)n < sizeof path && bytes < INT64_MAX / 2 ? OK
                                                                       : err_set(e, ERR_LIMIT, "%s: too long", etag);
    *there = false;
    if (rc) return rc;
    b->temporary = mem_str(path);
    b->path = mem_strn(path, strlen(c->blobs) + 1 + strlen(etag));
    rc = b->temporary && b->path ? hub_cache_folder(c->blobs, e) : err_memory(e, NULL);
    *there = !rc && is_there(b);
    if (!rc && !*there) rc = take_lock(b, c, e);
    if (!rc && !*there) *there = is_there(b); /* who had the lock has made it */
    if (!rc && !*there) rc = open_temporary(b, e);
    if (rc || *there) hub_blob_close(b);
    return rc;
}

int hub_blob_add(hub_blob *b, uint32_t part, const void *p, size_t n, err *e)
{
    const uint64_t at = (uint64_t)part * b->part_bytes + b->done[part];
    int rc = write_all(b, p, n, at, e);
    if (rc) return rc;
    const uint64_t was = b->done[part] / FLUSH;
    b->done[part] += n;
    if (b->done[part] / FLUSH > was) /* the disk works meanwhile; else all waits for it in the end */
        sync_file_range(b->fd, (off_t)(part * b->part_bytes + was * FLUSH), FLUSH, SYNC_FILE_RANGE_WRITE);
    return write_all(b, &b->done[part], sizeof *b->done, b->bytes + sizeof(note) + part * sizeof *b->done, e);
}

static int check_digest(const hub_blob *b, err *e)
{
    uint8_t digest[SHA256_BYTES], *room = is_sha256(b->etag) ? mem_alloc(READ) : NULL;
    char text[2 * SHA256_BYTES + 1];
    sha256 s;
    if (!is_sha256(b->etag)) return OK;
    if (!room) return err_memory(e, NULL);
    sha256_init(&s);
    int rc = OK;
    for (uint64_t at = 0; at < b->bytes && !rc;) {
        const uint64_t left = b->bytes - at;
        const ssize_t k = pread(b->fd, room, left < READ ? (size_t)left : READ, (off_t)at);
        if (k <= 0) rc = fail(b->temporary, e);
        else sha256_add(&s, room, (size_t)k), at += (uint64_t)k;
    }
    mem_free(room);
    if (rc) return rc;
    sha256_end(&s, digest);
    sha256_hex(digest, SHA256_BYTES, text);
    if (strcmp(text, b->etag) == 0) return OK;
    unlink(b->temporary);
    return err_set(e, ERR_FORMAT, "what came has the SHA-256 %.16s…, and should have %.16s…: it is removed", text,
                   b->etag);
}

int hub_blob_finish(hub_blob *b, err *e)
{
    int rc = check_digest(b, e);
    if (rc) return rc;
    if (ftruncate(b->fd, (off_t)b->bytes) != 0 || fsync(b->fd) != 0 || rename(b->temporary, b->path) != 0)
        return fail(b->path, e);
    return OK;
}

void hub_blob_close(hub_blob *b)
{
    if (b->fd >= 0) close(b->fd);
    if (b->lock >= 0) close(b->lock);
    mem_free(b->path);
    mem_free(b->temporary);
    mem_free(b->done);
    b->fd = b->lock = -1;
    b->path = b->temporary = NULL;
    b->done = NULL;
}
