/* store_journal.c - see store_journal.h. A record: SHA-256, number of runs (4 bytes), of each place (8) and bytes (4),
 * little-endian. */
#define _GNU_SOURCE
#include "net/store_journal.h"

#include "base/file_disk.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOURNAL_MAX = 1 << 28 };

void store_name(const uint8_t identity[SHA256_BYTES], const char *ending, char to[STORE_NAME])
{
    sha256_hex(identity, STORE_DIGITS / 2, to);
    strcpy(to + STORE_DIGITS, ending);
}

bool store_record_write(buf *out, const store_record *r)
{
    buf_add(out, r->digest, SHA256_BYTES);
    buf_uint(out, r->n, 4);
    for (uint32_t i = 0; i < r->n; i++) {
        buf_uint(out, r->run[i].at, 8);
        buf_uint(out, r->run[i].n, 4);
    }
    return !out->bad;
}

bool store_record_read(store_record *r, cursor *c)
{
    const span digest = cursor_take(c, SHA256_BYTES);
    uint32_t bytes = 0;
    r->n = cursor_u32(c);
    if (c->bad || !r->n || r->n > PIECE_RUNS) return false;
    memcpy(r->digest, digest.p, SHA256_BYTES);
    for (uint32_t i = 0; i < r->n; i++) {
        r->run[i].at = cursor_u64(c);
        r->run[i].n = cursor_u32(c);
        if (c->bad || !r->run[i].n || r->run[i].n > PIECE_BYTES - bytes) return false;
        bytes += r->run[i].n;
    }
    return true;
}

int store_journal_load(int journal, buf *to, err *e)
{
    struct stat st;
    if (fstat(journal, &st)) return err_set(e, ERR_IO, "a journal of weights: %s", strerror(errno));
    if (st.st_size > JOURNAL_MAX) return ftruncate(journal, 0) ? err_set(e, ERR_IO, "a journal of weights") : OK;
    const size_t n = (size_t)st.st_size;
    to->p = mem_alloc(n + 1);
    if (!to->p) return err_memory(e, "a journal of weights");
    to->cap = n + 1;
    to->n = n;
    return pread(journal, to->p, n, 0) == st.st_size ? OK : err_set(e, ERR_IO, "a journal of weights cannot be read");
}

/* ---- reading it all again */

typedef struct reading {
    const sums_pace *pace;
    file_disk disk;
    uint8_t *room;
    uint64_t bytes;
    bool stopped;
} reading;

/* Whether the file has what the record says; also where one may not go on. */
static bool is_whole(reading *g, const store_record *r)
{
    sha256 h;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&h);
    for (uint32_t i = 0; i < r->n; i++) {
        g->stopped = g->stopped || !g->pace->go_on(g->pace->ctx, r->run[i].n);
        if (g->stopped) return true;
        const uint8_t *p = file_disk_read(&g->disk, r->run[i].at, r->run[i].n, g->room);
        if (!p) return false;
        sha256_add(&h, p, r->run[i].n);
        g->bytes += r->run[i].n;
    }
    sha256_end(&h, digest);
    return memcmp(digest, r->digest, sizeof digest) == 0;
}

static int write_journal(const char *path, const buf *text, err *e)
{
    file_out *f;
    int rc = file_create_private(&f, path, e);
    if (rc) return rc;
    rc = file_write(f, text->p, text->n, e);
    if (rc) file_abandon(f);
    else rc = file_commit(f, e);
    return rc;
}

bool store_journal_is_left(int journal)
{
    struct stat st;
    return fstat(journal, &st) == 0 && st.st_nlink == 0;
}

/* Leaves records out: those in `bad`. The journal becomes another file, so that whoever has this one open, in another
 * process too, sees that it was left. *gone: somebody else has done so meanwhile: nothing is written, as the journal
 * that is there now may have new records. */
static int take_out(int journal, const char *path, const buf *bad, bool *gone, err *e)
{
    buf text = {0}, left = {0};
    store_record *r = mem_alloc(sizeof *r);
    const bool locked = r && flock(journal, LOCK_EX) == 0; /* others append */
    int rc = locked ? store_journal_load(journal, &text, e) : err_set(e, ERR_IO, "%s: cannot be locked", path);
    *gone = locked && store_journal_is_left(journal);
    cursor c = cursor_of(buf_span(&text));
    for (size_t from = 0; !rc && !*gone && store_record_read(r, &c); from = c.at) {
        const span own = span_of(text.p + from, c.at - from);
        if (!memmem(bad->p, bad->n, own.p, own.n)) buf_add(&left, own.p, own.n);
    }
    if (!rc && !*gone) rc = left.bad ? err_memory(e, path) : write_journal(path, &left, e);
    if (locked) flock(journal, LOCK_UN);
    buf_free(&text);
    buf_free(&left);
    mem_free(r);
    return rc;
}

/* Records that are not whole any more. */
static void find_bad(reading *g, const buf *journal, buf *bad)
{
    store_record *r = mem_alloc(sizeof *r);
    cursor c = cursor_of(buf_span(journal));
    for (size_t from = 0; r && !g->stopped && store_record_read(r, &c); from = c.at)
        if (!is_whole(g, r)) buf_add(bad, journal->p + from, c.at - from);
    mem_free(r);
}

static void recheck(reading *g, const char *tensors, int journal, const char *path, store_changed *changed, void *ctx)
{
    buf text = {0}, bad = {0};
    err e = {0};
    file_id id;
    flock(journal, LOCK_SH);
    int rc = store_journal_load(journal, &text, &e);
    flock(journal, LOCK_UN);
    if (!rc) find_bad(g, &text, &bad);
    if (bad.n && file_identify(tensors, &id)) {
        bool gone;
        if (take_out(journal, path, &bad, &gone, &e)) log_line(LOG_WARN, "%s", e.msg);
        e = (err){0};
        err_set(&e, ERR_UNAVAILABLE, "%s: has other contents than were written to it: its disk changed it", tensors);
        if (!gone) changed(ctx, &id, &e);
    }
    buf_free(&text);
    buf_free(&bad);
}

uint64_t store_recheck(const char *dir, const sums_pace *pace, store_changed *changed, void *ctx)
{
    reading g = {.pace = pace, .room = mem_map(DISK_ROOM)};
    DIR *d = g.room ? opendir(dir) : NULL;
    for (const struct dirent *f; d && !g.stopped && (f = readdir(d));) {
        char name[STORE_NAME];
        if (strspn(f->d_name, "0123456789abcdef") != STORE_DIGITS || strcmp(f->d_name + STORE_DIGITS, ".journal"))
            continue;
        const int journal = openat(dirfd(d), f->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_APPEND);
        memcpy(name, f->d_name, STORE_DIGITS);
        strcpy(name + STORE_DIGITS, ".tensors");
        char *tensors = file_join(dir, name), *path = file_join(dir, f->d_name);
        if (journal >= 0 && path && tensors && !file_disk_open(&g.disk, tensors)) {
            recheck(&g, tensors, journal, path, changed, ctx);
            file_disk_close(&g.disk);
        }
        mem_free(tensors);
        mem_free(path);
        if (journal >= 0) close(journal);
    }
    if (d) closedir(d);
    if (g.room) mem_unmap(g.room, DISK_ROOM);
    return g.bytes;
}
