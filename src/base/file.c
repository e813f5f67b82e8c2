/* file.c - see file.h. The SIGBUS handler uses only async-signal-safe calls and a fixed table of live mappings. */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct file_mapping {
    uint8_t *base;
    size_t bytes;
    int slot; /* in live[], -1 for an empty file */
    int fd;   /* of the file that is mapped, whatever its name is now */
    file_id id;
    struct stat seen; /* file_look */
};

enum { LIVE_MAX = 4096 };
static uintptr_t page_bytes;
static struct {
    _Atomic uintptr_t base, end;
    atomic_bool torn;
} live[LIVE_MAX];
static struct sigaction chained;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < LIVE_MAX; i++) {
        uintptr_t base = atomic_load(&live[i].base), end = atomic_load(&live[i].end);
        if (!base || at < base || at >= end) continue;
        void *page = (void *)(at & ~(page_bytes - 1));
        if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
        atomic_store(&live[i].torn, true);
        return;
    }
    if ((chained.sa_flags & SA_SIGINFO) && chained.sa_sigaction) {
        chained.sa_sigaction(sig, info, context);
        return;
    }
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
}

static void install_handler(void)
{
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGBUS, &sa, &chained);
}

static int claim_slot(uint8_t *base, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_handler);
    for (int i = 0; i < LIVE_MAX; i++) {
        uintptr_t free_slot = 0;
        if (!atomic_compare_exchange_strong(&live[i].base, &free_slot, (uintptr_t)base)) continue;
        atomic_store(&live[i].torn, false);
        atomic_store(&live[i].end, ((uintptr_t)base + bytes + page_bytes - 1) & ~(page_bytes - 1));
        return i;
    }
    return -1;
}

static int open_error(const char *path, err *e)
{
    int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    return err_set(e, code, "%s: %s", path, strerror(errno));
}

/* What `git clone` leaves in place of a large file when Git LFS is not there. */
static int refuse_pointer(const char *path, span s, err *e)
{
    if (!span_starts(s, "version https://git-lfs.github.com/spec/")) return OK;
    return err_set(e, ERR_FORMAT, "%s: a Git LFS pointer, not the file itself: `git lfs pull` gets it", path);
}

static file_id id_of(const struct stat *st)
{
    return (file_id){.device = st->st_dev,
                     .inode = st->st_ino,
                     .bytes = (uint64_t)st->st_size,
                     .modified = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                     .changed = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec};
}

/* A descriptor, or a negative error: nobody waits for the writer of a FIFO, and devices have no end. */
static int open_regular(const char *path, struct stat *st, err *e)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return open_error(path, e);
    int rc = fstat(fd, st) ? open_error(path, e) : OK;
    if (!rc && !S_ISREG(st->st_mode)) rc = err_set(e, ERR_IO, "%s: not a regular file", path);
    if (rc) close(fd);
    return rc ? rc : fd;
}

/* Reads only: a private mapping serves where a file system has no shared ones. */
static void *map_pages(void *at, size_t bytes, int fd)
{
    const int fixed = at ? MAP_FIXED : 0;
    void *p = mmap(at, bytes, PROT_READ, MAP_SHARED | fixed, fd, 0);
    return p == MAP_FAILED ? mmap(at, bytes, PROT_READ, MAP_PRIVATE | fixed, fd, 0) : p;
}

int file_map(file_mapping **out, const char *path, err *e)
{
    *out = NULL;
    struct stat st;
    int fd = open_regular(path, &st, e), rc = OK;
    if (fd < 0) return fd;
    file_mapping *m = mem_zero(1, sizeof *m);
    if (m) *m = (file_mapping){.slot = -1, .fd = fd, .id = id_of(&st), .seen = st};
    else rc = err_memory(e, path);
    if (!m) close(fd);
    if (!rc && st.st_size > 0) {
        m->bytes = (size_t)st.st_size;
        void *p = map_pages(NULL, m->bytes, fd);
        if (p == MAP_FAILED) {
            m->bytes = 0;
            rc = open_error(path, e);
        } else {
            m->base = p;
            m->slot = claim_slot(p, m->bytes);
            if (m->slot < 0) rc = err_set(e, ERR_LIMIT, "%s: more than %d files mapped", path, LIVE_MAX);
        }
    }
    if (!rc) rc = refuse_pointer(path, file_bytes(m), e);
    if (rc) {
        file_unmap(m);
        return rc;
    }
    *out = m;
    return OK;
}

span file_bytes(const file_mapping *m) { return span_of(m->base, m->bytes); }

static bool is_marked(const file_mapping *m) { return m->slot >= 0 && atomic_load(&live[m->slot].torn); }

/* Then the end of a page that is left reads as zeros, without a signal. */
static bool is_short(const file_mapping *m, const struct stat *now) { return (uint64_t)now->st_size < m->bytes; }

bool file_torn(const file_mapping *m)
{
    struct stat now;
    if (is_marked(m)) return true;
    return fstat(m->fd, &now) != 0 || is_short(m, &now);
}

static bool same_time(struct timespec a, struct timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

file_state file_look(file_mapping *m)
{
    struct stat now;
    const struct stat *was = &m->seen;
    if (is_marked(m) || fstat(m->fd, &now) != 0 || is_short(m, &now)) return FILE_TORN;
    if (now.st_size != was->st_size || !same_time(now.st_mtim, was->st_mtim)) return FILE_WRITTEN;
    if (same_time(now.st_ctim, was->st_ctim)) return FILE_SAME;
    const bool named = now.st_nlink != was->st_nlink || now.st_mode != was->st_mode || now.st_uid != was->st_uid ||
                       now.st_gid != was->st_gid;
    m->seen = now;
    return named ? FILE_SAME : FILE_TOUCHED;
}

int file_restore(file_mapping *m, const char *path, err *e)
{
    struct stat st;
    const bool torn = file_torn(m);
    int fd = open_regular(path, &st, e);
    if (fd < 0) return fd;
    if ((uint64_t)st.st_size < m->bytes) {
        close(fd);
        return err_set(e, ERR_UNAVAILABLE, "%s: has %llu of %zu bytes", path, (unsigned long long)st.st_size, m->bytes);
    }
    const bool same = st.st_dev == m->seen.st_dev && st.st_ino == m->seen.st_ino;
    if (m->base && (torn || !same) && map_pages(m->base, m->bytes, fd) == MAP_FAILED) {
        const int rc = open_error(path, e);
        close(fd);
        return rc;
    }
    if (m->slot >= 0) atomic_store(&live[m->slot].torn, false);
    close(m->fd);
    m->fd = fd;
    m->seen = st;
    m->id = id_of(&st);
    return OK;
}

file_id file_mapped_id(const file_mapping *m) { return m->id; }

bool file_identify(const char *path, file_id *out)
{
    struct stat st;
    if (stat(path, &st) != 0) return false;
    *out = id_of(&st);
    return true;
}

bool file_is(const char *path, const file_id *id)
{
    file_id now;
    return file_identify(path, &now) && memcmp(&now, id, sizeof now) == 0;
}

bool file_settled(const char *path, const file_id *id)
{
    enum { TICK = 1000000000 }; /* file systems count time in steps: of 10 ms, some of a second */
    struct timespec t;
    if (!file_is(path, id) || clock_gettime(CLOCK_REALTIME, &t) != 0) return false;
    int64_t clock = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec,
            last = id->modified > id->changed ? id->modified : id->changed;
    return last < clock && clock - last > TICK;
}

void file_unmap(file_mapping *m)
{
    if (!m) return;
    if (m->slot >= 0) {
        atomic_store(&live[m->slot].end, 0);
        atomic_store(&live[m->slot].base, 0);
    }
    if (m->base) munmap(m->base, m->bytes);
    close(m->fd);
    mem_free(m);
}

void file_release(const void *p, size_t n)
{
    uintptr_t from = (uintptr_t)p, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < LIVE_MAX && n >= page; i++) {
        uintptr_t base = atomic_load(&live[i].base), end = atomic_load(&live[i].end);
        if (!base || from < base || from >= end) continue;
        uintptr_t to = n < end - from ? from + n : end, first = (from + page - 1) / page * page,
                  last = to / page * page;
        if (first < last) madvise((void *)first, last - first, MADV_DONTNEED);
        return;
    }
}

static int read_all(buf *out, FILE *f, const char *name, size_t max, err *e)
{
    int rc = OK;
    char chunk[65536];
    size_t n;
    while (!rc && (n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        if (out->n + n > max) rc = err_set(e, ERR_LIMIT, "%s: larger than %zu bytes", name, max);
        else if (!buf_add(out, chunk, n)) rc = err_memory(e, name);
    }
    return !rc && ferror(f) ? open_error(name, e) : rc;
}

int file_read(buf *out, const char *path, size_t max, err *e)
{
    bool use_stdin = strcmp(path, "-") == 0;
    const char *name = use_stdin ? "standard input" : path;
    FILE *f = use_stdin ? stdin : fopen(path, "rbe");
    if (!f) return open_error(name, e);
    int rc = read_all(out, f, name, max, e);
    if (!rc && !use_stdin) rc = refuse_pointer(path, buf_span(out), e);
    if (!use_stdin) fclose(f);
    return rc;
}

int file_read_text(buf *out, const char *path, size_t max, err *e)
{
    int rc = file_read(out, path, max, e);
    span text = buf_span(out);
    if (!rc) rc = utf8_unmark(&text, strcmp(path, "-") == 0 ? "standard input" : path, e);
    if (rc || text.n == out->n) return rc;
    memmove(out->p, text.p, text.n);
    out->n = text.n;
    return OK;
}

int file_read_regular(buf *out, const char *path, size_t max, err *e)
{
    struct stat st;
    int fd = open_regular(path, &st, e), rc = OK;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    if (fd < 0) return fd;
    if (!f) {
        rc = open_error(path, e);
        close(fd);
        return rc;
    }
    rc = read_all(out, f, path, max, e);
    if (!rc) rc = refuse_pointer(path, buf_span(out), e);
    fclose(f);
    return rc;
}

void file_warn_readable(const char *path)
{
    static _Atomic uint64_t warned; /* inode of the last one */
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 077)) return;
    if (atomic_exchange(&warned, (uint64_t)st.st_ino) != (uint64_t)st.st_ino)
        log_line(LOG_WARN, "%s can be read by others: chmod 600", path);
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

char *file_join(const char *dir, const char *name)
{
    if (name[0] == '/') return mem_str(name);
    size_t nd = strlen(dir), nn = strlen(name);
    while (nd && dir[nd - 1] == '/') nd--;
    char *p = mem_alloc(nd + nn + 2);
    if (!p) return NULL;
    memcpy(p, dir, nd);
    p[nd] = '/';
    memcpy(p + nd + 1, name, nn + 1);
    return p;
}

char *file_dir(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return mem_str(".");
    return slash == path ? mem_str("/") : mem_strn(path, (size_t)(slash - path));
}

struct file_out {
    FILE *f;
    char *path, *temporary;
    bool unnamed; /* there is no file called `temporary` yet */
    uint64_t at;
};

/* Devices and pipes are written, never replaced by a file of their name. */
static int create_in_place(file_out **out, file_out *f, const char *path, err *e)
{
    if (!f || !(f->path = mem_str(path))) {
        file_abandon(f);
        return err_memory(e, path);
    }
    if (!(f->f = fopen(path, "wbe"))) {
        int rc = open_error(path, e);
        file_abandon(f);
        return rc;
    }
    *out = f;
    return OK;
}

/* A file in the folder of `path` that has no name until it is whole; negative: not on this file system. */
static int open_unnamed(const char *path, mode_t mode)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = snprintf(dir, sizeof dir, "%.*s/", slash ? (int)(slash - path) : 1, slash ? path : ".");
    bool can_name = n > 0 && (size_t)n < sizeof dir && access("/proc/self/fd", X_OK) == 0;
    return can_name ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, mode) : -1;
}

/* Sets the digits at the end of the temporary name: those of try number i. */
static void call_temporary(file_out *f, unsigned i)
{
    snprintf(f->temporary + strlen(f->temporary) - 6, 7, "%06u", ((unsigned)getpid() + i) % 1000000);
}

enum { NAMES_MAX = 1000 };

/* The same with a name, that of f->temporary. */
static int open_named(file_out *f, mode_t mode)
{
    int fd = -1;
    for (unsigned i = 0; i < NAMES_MAX && fd < 0; i++) {
        call_temporary(f, i);
        fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

/* The system takes from `mode` what the user's umask says: asking for that here would change it for other threads. */
static int create_file(file_out **out, const char *path, mode_t mode, err *e)
{
    *out = NULL;
    file_out *f = mem_zero(1, sizeof *f);
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return create_in_place(out, f, path, e);
    char *real = realpath(path, NULL); /* a link stays, what it points to is replaced */
    size_t n = strlen(real ? real : path);
    int fd = -1;
    bool kept = f && (f->path = mem_str(real ? real : path));
    free(real);
    if (!kept || !(f->temporary = mem_alloc(n + 16))) {
        file_abandon(f);
        return err_memory(e, path);
    }
    snprintf(f->temporary, n + 16, "%s.tmp.XXXXXX", f->path);
    fd = open_unnamed(f->path, mode);
    f->unnamed = fd >= 0;
    if (fd < 0) fd = open_named(f, mode);
    if (fd < 0) {
        f->temporary[0] = 0;
        int rc = open_error(path, e);
        file_abandon(f);
        return rc;
    }
    if (!(f->f = fdopen(fd, "wb"))) {
        int rc = open_error(path, e);
        close(fd);
        file_abandon(f);
        return rc;
    }
    setvbuf(f->f, NULL, _IOFBF, 1 << 20);
    *out = f;
    return OK;
}

int file_create(file_out **out, const char *path, err *e) { return create_file(out, path, 0666, e); }

int file_create_private(file_out **out, const char *path, err *e) { return create_file(out, path, 0600, e); }

int file_reserve(file_out *f, uint64_t bytes, err *e)
{
    if (f->temporary && bytes <= INT64_MAX && fallocate(fileno(f->f), FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0 &&
        (errno == ENOSPC || errno == EFBIG))
        return err_set(e, ERR_IO, "%s: %s: it would be %.1f MB", f->path, strerror(errno), (double)bytes / 1e6);
    return OK;
}

int file_write(file_out *f, const void *p, size_t n, err *e)
{
    if (n && fwrite(p, 1, n, f->f) != n) return err_set(e, ERR_IO, "%s: write failed: %s", f->path, strerror(errno));
    f->at += n;
    return OK;
}

int file_pad(file_out *f, size_t align, err *e)
{
    static const char zeros[64];
    size_t n = (size_t)((align - f->at % align) % align);
    while (n) {
        size_t step = n < sizeof zeros ? n : sizeof zeros;
        int rc = file_write(f, zeros, step, e);
        if (rc) return rc;
        n -= step;
    }
    return OK;
}

uint64_t file_offset(const file_out *f) { return f->at; }

/* Gives an unnamed file the temporary name, from which it can be renamed over another. */
static int give_name(file_out *f, err *e)
{
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(f->f));
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        call_temporary(f, i);
        if (linkat(AT_FDCWD, self, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) == 0) {
            f->unnamed = false;
            return OK;
        }
        if (errno != EEXIST) break;
    }
    return err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
}

int file_commit(file_out *f, err *e)
{
    int rc = OK;
    if (fflush(f->f) != 0 || (f->temporary && fsync(fileno(f->f)) != 0))
        rc = err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
    if (!rc && f->unnamed) rc = give_name(f, e);
    if (fclose(f->f) != 0 && !rc) rc = err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
    f->f = NULL;
    if (!rc && f->temporary && rename(f->temporary, f->path) != 0)
        rc = err_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
    if (!rc && f->temporary) f->temporary[0] = 0;
    file_abandon(f);
    return rc;
}

void file_abandon(file_out *f)
{
    if (!f) return;
    if (f->f) fclose(f->f);
    if (f->temporary && f->temporary[0] && !f->unnamed) unlink(f->temporary);
    mem_free(f->path);
    mem_free(f->temporary);
    mem_free(f);
}
