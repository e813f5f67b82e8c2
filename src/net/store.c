/* store.c - see store.h. A record of the journal: bytes (4), SHA-256 of them, and the runs as in piece_ask.h, with
 * numbers of tensors in the order of names. One that was cut short by the end of a process is taken off. Who has a
 * store open holds a shared lock of its tensors. */
#define _GNU_SOURCE
#include "net/store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/ckpt_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A file's name begins with digits of the list's digest. Files with fewer are of an earlier form, whose places followed
 * the order of the leader's file. */
enum { JOURNAL_MAX = 1 << 28, NAME_DIGITS = 40, OLD_DIGITS = 32, NAME_MAX_BYTES = 64 };

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

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory for weights from the leader"); }

static int failed(const store *s, err *e) { return err_set(e, ERR_IO, "%s: %s", s->path, strerror(errno)); }

static uint64_t ranked_bytes(const void *ctx, uint32_t rank)
{
    const catalogue *c = ctx;
    return c->tensor[c->ranked[rank]].t.bytes;
}

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

static int add_note(store *s, const piece_ask *a, const uint8_t *digest, err *e)
{
    if (!mem_grow((void **)&s->note, &s->cap_note, s->n_note + 1, sizeof *s->note) ||
        !mem_grow((void **)&s->noted, &s->cap_noted, s->n_noted + a->n, sizeof *s->noted))
        return no_memory(e);
    s->note[s->n_note] = (piece_note){.run0 = s->n_noted, .n = a->n};
    memcpy(s->note[s->n_note++].digest, digest, SHA256_BYTES);
    for (uint32_t i = 0; i < a->n; i++) {
        byte_run *to = &s->noted[s->n_noted++];
        *to = a->run[i];
        to->entry = s->told->ranked[to->entry];
    }
    return OK;
}

/* The caller has the lock of the file. */
static int read_journal(store *s, err *e)
{
    struct stat st;
    if (fstat(s->journal, &st)) return failed(s, e);
    if (st.st_size > JOURNAL_MAX) return ftruncate(s->journal, 0) ? failed(s, e) : OK;
    const size_t n = (size_t)st.st_size;
    uint8_t *bytes = mem_alloc(n + 1);
    piece_ask *a = mem_alloc(sizeof *a);
    int rc = bytes && a ? OK : no_memory(e);
    if (!rc && pread(s->journal, bytes, n, 0) != st.st_size) rc = failed(s, e);
    cursor c = cursor_of(span_of(bytes, rc ? 0 : n));
    size_t good = 0;
    while (!rc && cursor_left(&c)) {
        const uint32_t total = cursor_u32(&c);
        const span digest = cursor_take(&c, SHA256_BYTES);
        if (c.bad || piece_ask_read(a, &c, s->told->n, ranked_bytes, s->told, NULL) || a->bytes != total) break;
        rc = add_note(s, a, digest.p, e);
        good = c.at;
    }
    if (!rc && good < n && ftruncate(s->journal, (off_t)good)) rc = failed(s, e);
    mem_free(bytes);
    mem_free(a);
    return rc;
}

/* ---- opening */

static int open_in_folder(store *s, const char *dir, err *e)
{
    char name[NAME_MAX_BYTES];
    sha256_hex(s->told->all, NAME_DIGITS / 2, name);
    strcat(name, ".tensors");
    if (mkdir(dir, 0700) && errno != EEXIST) return err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
    if (!(s->path = file_join(dir, name))) return no_memory(e);
    s->data = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->data < 0 || flock(s->data, LOCK_SH)) return failed(s, e);
    futimens(s->data, NULL); /* used now */
    strcpy(name + NAME_DIGITS, ".journal");
    char *path = file_join(dir, name);
    if (!path) return no_memory(e);
    s->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
    mem_free(path);
    return s->journal < 0 ? failed(s, e) : OK;
}

static int open_in_memory(store *s, err *e)
{
    char path[40];
    s->data = memfd_create("weights", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->data);
    if (!(s->path = mem_str(path))) return no_memory(e);
    return s->data < 0 ? failed(s, e) : OK;
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
    if (!s) return no_memory(e);
    *s = (store){.told = told, .data = -1, .journal = -1, .most = most};
    if (dir && !(s->dir = mem_str(dir))) {
        mem_free(s);
        *out = NULL;
        return no_memory(e);
    }
    int rc = dir ? open_in_folder(s, dir, e) : open_in_memory(s, e);
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
    return ok ? ckpt_check_torn(c, e) : no_memory(e);
}

int store_put(store *s, const piece_ask *a, const uint8_t digest[SHA256_BYTES], const uint8_t *bytes, err *e)
{
    buf record = {0};
    int rc = OK;
    for (uint32_t i = 0; i < a->n && !rc; bytes += a->run[i++].n)
        rc = write_all(s, s->data, bytes, a->run[i].n, s->told->tensor[a->run[i].entry].at + a->run[i].at, e);
    if (rc || s->journal < 0) return rc;
    buf_uint(&record, a->bytes, 4);
    buf_add(&record, digest, SHA256_BYTES);
    piece_ask *ranked = mem_alloc(sizeof *ranked);
    if (ranked) *ranked = *a;
    for (uint32_t i = 0; ranked && i < a->n; i++) ranked->run[i].entry = s->told->tensor[a->run[i].entry].rank;
    if (!ranked || !piece_ask_write(&record, ranked)) rc = no_memory(e);
    mem_free(ranked);
    if (!rc) {
        flock(s->journal, LOCK_EX); /* others append too */
        if (write(s->journal, record.p, record.n) != (ssize_t)record.n) rc = failed(s, e);
        flock(s->journal, LOCK_UN);
    }
    buf_free(&record);
    return rc;
}

int store_check(const store *s, const ckpt *c, const byte_runs *runs, byte_runs *bad, err *e)
{
    bool *wrong = mem_zero((size_t)s->told->n + 1, sizeof *wrong), ok = wrong != NULL;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < (ok ? runs->n : 0); i++) {
        const byte_run *r = &runs->run[i];
        const listed *x = &s->told->tensor[r->entry];
        uint8_t digest[SHA256_BYTES];
        if (r->at || r->n < x->t.bytes) continue; /* a part, which no digest of the catalogue speaks of */
        sha256_of(ckpt_at(c, r->entry)->data, x->t.bytes, digest);
        wrong[r->entry] = memcmp(digest, x->digest, sizeof digest) != 0;
    }
    for (uint32_t i = 0; ok && i < s->told->n; i++)
        if (wrong[i]) ok = byte_runs_add(bad, i, 0, s->told->tensor[i].t.bytes);
    mem_free(wrong);
    return ok ? OK : no_memory(e);
}

/* ---- the folder */

typedef struct kept_file {
    char name[NAME_MAX_BYTES];
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
    char name[NAME_MAX_BYTES];
    char *data = file_join(s->dir, x->name), *journal;
    memcpy(name, x->name, sizeof name);
    strcpy(name + NAME_DIGITS, ".journal");
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
static bool oldest_file(const store *s, const kept_file *after, kept_file *to, uint64_t *bytes)
{
    DIR *d = opendir(s->dir);
    bool any = false;
    *bytes = 0;
    for (const struct dirent *f; d && (f = readdir(d));) {
        kept_file x = {.bytes = 0};
        struct stat st;
        const size_t digits = strspn(f->d_name, "0123456789abcdef");
        const bool tensors = strcmp(f->d_name + digits, ".tensors") == 0;
        if (digits == OLD_DIGITS && (tensors || strcmp(f->d_name + digits, ".journal") == 0))
            unlinkat(dirfd(d), f->d_name, 0);
        if (digits != NAME_DIGITS || !tensors || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        memcpy(x.name, f->d_name, NAME_DIGITS + sizeof ".tensors");
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

int store_make_room(store *s, uint64_t bytes, err *e)
{
    kept_file oldest, before;
    struct statvfs disk;
    uint64_t held, most = s->most;
    if (!s->dir || !bytes) return OK;
    if (!most && fstatvfs(s->data, &disk) == 0) most = disk.f_blocks / 2 * disk.f_frsize;
    for (bool any = oldest_file(s, NULL, &oldest, &held); bytes > most || held > most - bytes;) {
        if (!any)
            return err_set(e, ERR_LIMIT, "%s holds %.1f MiB in use, %.1f more would be over %.1f: --cache-bytes N",
                           s->dir, (double)held / 0x1p20, (double)bytes / 0x1p20, (double)most / 0x1p20);
        before = oldest;
        any = give_up(s, &oldest) ? oldest_file(s, NULL, &oldest, &held) : oldest_file(s, &before, &oldest, &held);
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
