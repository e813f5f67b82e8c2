/* store.c - see store.h. The journal: net/store_journal.h. Who has a store open holds a shared lock of its tensors. */
#define _GNU_SOURCE
#include "net/store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"
#include "net/store_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct piece_note {
    size_t run0, n; /* in store.noted */
    uint8_t digest[SHA256_BYTES];
    bool wanted, good;
} piece_note;

struct store {
    const catalogue *told;
    char *path;        /* of the tensors; /proc/self/fd/N in memory */
    int data, journal; /* journal -1: in memory */
    char *dir;         /* NULL: in memory */
    uint64_t most;     /* of the folder */
    piece_note *note;
    size_t n_note, cap_note;
    byte_run *noted; /* one after another as they are in the journal */
    size_t n_noted, cap_noted;
};

static int failed(const store *s, err *e) { return err_set(e, ERR_IO, "%s: %s", s->path, strerror(errno)); }

static int write_all(const store *s, int fd, const uint8_t *p, uint64_t n, uint64_t at, err *e)
{
    while (n) {
        const ssize_t done = pwrite(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return failed(s, e);
        p += done, at += (uint64_t)done, n -= (uint64_t)done;
    }
    return OK;
}

/* ---- the journal */

/* The tensor that has these bytes of the file; NULL: none. */
static const listed *find_place(const catalogue *c, uint64_t at, uint64_t n)
{
    uint32_t lo = 0, hi = c->n;
    while (lo < hi) { /* the first that begins behind it */
        const uint32_t mid = lo + (hi - lo) / 2;
        if (c->tensor[mid].at <= at) lo = mid + 1;
        else hi = mid;
    }
    while (lo && !c->tensor[lo - 1].t.bytes) lo--;
    if (!lo) return NULL;
    const listed *x = &c->tensor[lo - 1];
    const uint64_t from = at - x->at;
    return from <= x->t.bytes && n <= x->t.bytes - from ? x : NULL;
}

static int add_note(store *s, const store_record *r, err *e)
{
    if (!mem_grow((void **)&s->note, &s->cap_note, s->n_note + 1, sizeof *s->note) ||
        !mem_grow((void **)&s->noted, &s->cap_noted, s->n_noted + r->n, sizeof *s->noted))
        return err_memory(e, "weights from the leader");
    piece_note *x = &s->note[s->n_note];
    *x = (piece_note){.run0 = s->n_noted, .n = r->n};
    memcpy(x->digest, r->digest, SHA256_BYTES);
    for (uint32_t i = 0; i < r->n; i++) {
        const listed *t = find_place(s->told, r->run[i].at, r->run[i].n);
        if (!t) return OK; /* of no use */
        s->noted[x->run0 + i] = (byte_run){(uint32_t)(t - s->told->tensor), r->run[i].at - t->at, r->run[i].n};
    }
    s->n_note++;
    s->n_noted += r->n;
    return OK;
}

/* The caller has the lock of the file. */
static int read_journal(store *s, err *e)
{
    buf text = {0};
    store_record *r = mem_alloc(sizeof *r);
    int rc = r ? store_journal_load(s->journal, &text, e) : err_memory(e, "weights from the leader");
    cursor c = cursor_of(buf_span(&text));
    size_t good = 0;
    while (!rc && store_record_read(r, &c)) {
        rc = add_note(s, r, e);
        good = c.at;
    }
    if (!rc && good < text.n && ftruncate(s->journal, (off_t)good)) rc = failed(s, e);
    buf_free(&text);
    mem_free(r);
    return rc;
}

/* ---- opening */

static int open_in_folder(store *s, const char *dir, err *e)
{
    char name[STORE_NAME];
    store_name(s->told->identity, ".tensors", name);
    if (!(s->path = file_join(dir, name))) return err_memory(e, "weights from the leader");
    s->data = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->data < 0 || flock(s->data, LOCK_SH)) return failed(s, e);
    futimens(s->data, NULL); /* used now */
    store_name(s->told->identity, ".journal", name);
    char *path = file_join(dir, name);
    if (!path) return err_memory(e, "weights from the leader");
    s->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
    mem_free(path);
    return s->journal < 0 ? failed(s, e) : OK;
}

static int name_descriptor(store *s, err *e)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->data);
    if (!(s->path = mem_str(path))) return err_memory(e, "weights from the leader");
    return s->data < 0 ? failed(s, e) : OK;
}

/* A file without a name. */
static int open_alone(store *s, const char *dir, err *e)
{
    s->data = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    char *path = s->data < 0 ? file_join(dir, "lease-XXXXXX") : NULL; /* some file systems have none */
    if (path && (s->data = mkostemp(path, O_CLOEXEC)) >= 0) unlink(path);
    mem_free(path);
    return name_descriptor(s, e);
}

static int open_in_memory(store *s, err *e)
{
    s->data = memfd_create("weights", MFD_CLOEXEC);
    return name_descriptor(s, e);
}

/* Never smaller: others read it. */
static int grow(const store *s, uint64_t bytes, err *e)
{
    struct stat st;
    if (fstat(s->data, &st)) return failed(s, e);
    return (uint64_t)st.st_size < bytes && ftruncate(s->data, (off_t)bytes) ? failed(s, e) : OK;
}

int store_open(store **out, const catalogue *told, const char *dir, uint64_t most, err *e)
{
    store *s = *out = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, "weights from the leader");
    *s = (store){.told = told, .data = -1, .journal = -1, .most = most};
    if (dir && !(s->dir = mem_str(dir))) {
        mem_free(s);
        *out = NULL;
        return err_memory(e, "weights from the leader");
    }
    int rc = dir && mkdir(dir, 0700) && errno != EEXIST ? err_set(e, ERR_IO, "%s: %s", dir, strerror(errno)) : OK;
    if (!rc) rc = !dir ? open_in_memory(s, e) : told->has_trees ? open_in_folder(s, dir, e) : open_alone(s, dir, e);
    const bool locked = !rc && s->journal >= 0 && flock(s->journal, LOCK_EX) == 0;
    if (!rc) rc = grow(s, told->bytes ? told->bytes : 1, e);
    if (!rc && s->journal >= 0) rc = read_journal(s, e);
    if (locked) flock(s->journal, LOCK_UN);
    for (uint32_t i = 0; i < told->n && !rc; i++)
        rc = write_all(s, s->data, told->tensor[i].given.p, told->tensor[i].given.n, told->tensor[i].at, e);
    if (!rc) return OK;
    store_close(s);
    *out = NULL;
    return rc;
}

int store_ckpt(store *s, const char *name, ckpt **out, err *e)
{
    ckpt *c;
    int rc = ckpt_begin_listed(&c, s->path, name, s->told->format, e);
    for (uint32_t i = 0; i < s->told->n && !rc; i++) {
        const listed *x = &s->told->tensor[i];
        const span as = span_str(x->t.name);
        rc = x->t.packed ? ckpt_add_packed(c, 0, as, x->t.type, &x->t.dims, x->at, x->t.bytes, e)
                         : ckpt_add(c, 0, as, x->t.type, &x->t.dims, x->at, x->t.bytes, e);
    }
    if (!rc) rc = ckpt_finish_listed(c, e);
    if (rc) ckpt_close(c);
    *out = rc ? NULL : c;
    return rc;
}

/* ---- what is there */

static void check_note(const store *s, const ckpt *c, piece_note *x)
{
    uint8_t digest[SHA256_BYTES];
    sha256 h;
    sha256_init(&h);
    for (size_t i = x->run0; i < x->run0 + x->n; i++)
        sha256_add(&h, ckpt_at(c, s->noted[i].entry)->data + s->noted[i].at, s->noted[i].n);
    sha256_end(&h, digest);
    x->good = memcmp(digest, x->digest, sizeof digest) == 0;
}

int store_missing(store *s, const ckpt *c, byte_runs *runs, err *e)
{
    byte_runs have = {0}, left = {0};
    bool ok = true;
    for (size_t k = 0; k < s->n_note; k++) {
        piece_note *x = &s->note[k];
        for (size_t i = x->run0; i < x->run0 + x->n && !x->wanted; i++) x->wanted = byte_runs_meet(runs, &s->noted[i]);
    }
#pragma omp parallel for schedule(dynamic)
    for (size_t k = 0; k < s->n_note; k++)
        if (s->note[k].wanted) check_note(s, c, &s->note[k]);
    for (size_t k = 0; k < s->n_note; k++) {
        const piece_note *x = &s->note[k];
        const byte_run *first = &s->noted[x->run0];
        if (x->wanted && !x->good)
            log_line(LOG_WARN, "%s: tensor '%.100s' is damaged from its byte %llu on: fetched anew", s->path,
                     ckpt_at(c, first->entry)->name, (unsigned long long)first->at);
        for (size_t i = 0; i < x->n && x->good && ok; i++)
            ok = byte_runs_add(&have, first[i].entry, first[i].at, first[i].n);
    }
    byte_runs_merge(&have);
    ok = ok && byte_runs_minus(&left, runs, &have);
    byte_runs_free(&have);
    byte_runs_free(runs);
    *runs = left;
    return ok ? ckpt_check_torn(c, e) : err_memory(e, "weights from the leader");
}

int store_put(store *s, const piece_ask *a, const uint8_t *bytes, err *e)
{
    buf record = {0};
    int rc = OK;
    const uint8_t *from = bytes;
    for (uint32_t i = 0; i < a->n && !rc; from += a->run[i++].n)
        rc = write_all(s, s->data, from, a->run[i].n, s->told->tensor[a->run[i].entry].at + a->run[i].at, e);
    if (rc || s->journal < 0) return rc;
    store_record *r = mem_alloc(sizeof *r);
    if (r) *r = (store_record){.n = a->n};
    if (r) sha256_of(bytes, a->bytes, r->digest);
    for (uint32_t i = 0; r && i < a->n; i++)
        r->run[i] = (file_run){s->told->tensor[a->run[i].entry].at + a->run[i].at, (uint32_t)a->run[i].n};
    if (!r || !store_record_write(&record, r)) rc = err_memory(e, "weights from the leader");
    mem_free(r);
    if (!rc) {
        flock(s->journal, LOCK_EX); /* others append too */
        if (write(s->journal, record.p, record.n) != (ssize_t)record.n) rc = failed(s, e);
        flock(s->journal, LOCK_UN);
    }
    buf_free(&record);
    return rc;
}

int store_check(const store *s, const ckpt *c, const byte_runs *runs, err *e)
{
    uint32_t wrong = UINT32_MAX;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < runs->n; i++) {
        const byte_run *r = &runs->run[i];
        const listed *x = &s->told->tensor[r->entry];
        uint8_t digest[SHA256_BYTES];
        if (r->at || r->n < x->t.bytes) continue; /* a part, which no digest of the catalogue speaks of */
        sha256_of(ckpt_at(c, r->entry)->data, x->t.bytes, digest);
        if (memcmp(digest, x->digest, sizeof digest) != 0)
#pragma omp critical
            wrong = r->entry;
    }
    if (wrong == UINT32_MAX) return OK;
    return err_set(e, ERR_FORMAT, "tensor '%.100s' of the leader has other contents than its list says",
                   s->told->tensor[wrong].t.name);
}

int store_look(const store *s, err *e)
{
    if (s->journal < 0 || !store_journal_is_left(s->journal)) return OK;
    return err_set(e, ERR_UNAVAILABLE, "%s: has other contents than were written to it: its disk changed it", s->path);
}

/* ---- the folder */

typedef struct kept_file {
    char name[STORE_NAME]; /* of its tensors */
    uint64_t bytes;
    struct timespec used;
} kept_file;

static bool is_older(const kept_file *a, const kept_file *b)
{
    return a->used.tv_sec != b->used.tv_sec ? a->used.tv_sec < b->used.tv_sec : a->used.tv_nsec < b->used.tv_nsec;
}

/* Removes the tensors and their journal, if nobody has them open. */
static bool give_up(const store *s, const kept_file *x)
{
    char name[STORE_NAME];
    char *data = file_join(s->dir, x->name), *journal;
    memcpy(name, x->name, sizeof name);
    strcpy(name + STORE_DIGITS, ".journal");
    journal = file_join(s->dir, name);
    const int fd = data && journal ? open(data, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    const bool mine = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(data) == 0;
    if (mine) unlink(journal);
    if (mine) log_line(LOG_INFO, "%s: given up, for room (%.1f MiB)", data, (double)x->bytes / 0x1p20);
    if (fd >= 0) close(fd);
    mem_free(data);
    mem_free(journal);
    return mine;
}

/* What the files of the folder take, and the one that was used least recently but those before `after`; false: there
 * is none. Files of an older form, which nobody reads any more, are removed. */
static bool oldest_file(const char *dir, const kept_file *after, kept_file *to, uint64_t *bytes)
{
    DIR *d = opendir(dir);
    bool any = false;
    *bytes = 0;
    for (const struct dirent *f; d && (f = readdir(d));) {
        kept_file x = {.bytes = 0};
        struct stat st;
        const size_t digits = strspn(f->d_name, "0123456789abcdef");
        const bool tensors = strcmp(f->d_name + digits, ".tensors") == 0;
        if ((digits == 32 || digits == 40) && (tensors || strcmp(f->d_name + digits, ".journal") == 0))
            unlinkat(dirfd(d), f->d_name, 0);
        if (digits != STORE_DIGITS || !tensors || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        memcpy(x.name, f->d_name, STORE_DIGITS + sizeof ".tensors");
        x.bytes = (uint64_t)st.st_blocks * 512;
        x.used = st.st_mtim;
        *bytes += x.bytes;
        if ((after && !is_older(after, &x)) || (any && !is_older(&x, to))) continue;
        *to = x;
        any = true;
    }
    if (d) closedir(d);
    return any;
}

uint64_t store_folder_bytes(const char *dir)
{
    kept_file oldest;
    uint64_t bytes;
    oldest_file(dir, NULL, &oldest, &bytes);
    return bytes;
}

int store_make_room(store *s, uint64_t bytes, err *e)
{
    kept_file oldest, before;
    struct statvfs disk;
    uint64_t held, most = s->most;
    if (!s->dir || !bytes) return OK;
    if (!most && fstatvfs(s->data, &disk) == 0) most = disk.f_blocks / 2 * disk.f_frsize;
    for (bool any = oldest_file(s->dir, NULL, &oldest, &held); bytes > most || held > most - bytes;) {
        if (!any)
            return err_set(e, ERR_LIMIT, "%s holds %.1f MiB in use, %.1f more would be over %.1f: --cache-bytes N",
                           s->dir, (double)held / 0x1p20, (double)bytes / 0x1p20, (double)most / 0x1p20);
        before = oldest;
        any = give_up(s, &oldest) ? oldest_file(s->dir, NULL, &oldest, &held)
                                  : oldest_file(s->dir, &before, &oldest, &held);
    }
    return OK;
}

void store_close(store *s)
{
    if (!s) return;
    if (s->data >= 0) close(s->data);
    if (s->journal >= 0) close(s->journal);
    mem_free(s->path);
    mem_free(s->dir);
    mem_free(s->note);
    mem_free(s->noted);
    mem_free(s);
}
