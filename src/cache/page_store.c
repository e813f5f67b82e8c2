/* page_store.c - see page_store.h. */
#include "cache/page_store.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    DIGITS = 32,
    NAME_BYTES = DIGITS + 6, /* "….page" and NUL */
    PATH_BYTES = 4096 + NAME_MAX,
    BAD_MAX = 256,       /* files that are known to be damaged */
    LEFT_SECONDS = 3600, /* after which an unfinished file is nobody's any more */
};
static const char ending[] = ".page";

struct page_store {
    page_shape shape;
    uint64_t page_bytes; /* of all groups */
    uint8_t *in, *out;   /* [page_bytes] */
    page_record *record; /* [n_record] of the file; NULL: there is none */
    uint32_t n_record, next;
    file_mapping *file;
    char *dir; /* NULL: there is no folder */
    int64_t most;
    void (*on_free)(void *ctx);
    void *ctx;
    pthread_t writer;
    bool has_writer;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool full, stop; /* `out` is to be written; the writer ends */
    page_record due; /* what is in `out` */
    int64_t depth;
    char bad[BAD_MAX][NAME_BYTES];
    int n_bad;

    /* of the writer */
    int64_t held, since; /* bytes of all files when they were last counted; written since */
    bool refused;        /* the last file could not be written */
};

int page_store_open(page_store **out, const page_shape *of, err *e)
{
    page_store *s = mem_zero(1, sizeof *s);
    *out = s;
    if (!s) return err_memory(e, "pages on disk");
    cond_open(&s->changed);
    pthread_mutex_init(&s->lock, NULL);
    s->shape = *of;
    s->page_bytes = page_record_bytes(of, PAGE_ALL);
    s->in = mem_alloc(s->page_bytes);
    s->out = mem_alloc(s->page_bytes);
    if (s->in && s->out) return OK;
    page_store_close(s);
    *out = NULL;
    return err_memory(e, "pages on disk");
}

void page_store_close(page_store *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_writer) pthread_join(s->writer, NULL);
    file_unmap(s->file);
    mem_free(s->record);
    mem_free(s->dir);
    mem_free(s->in);
    mem_free(s->out);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* ---- one file */

int page_store_add_file(page_store *s, const char *path, err *e)
{
    uint32_t n;
    if (!file_exists(path)) return OK;
    int rc = file_map(&s->file, path, e);
    if (rc) return rc;
    const span all = file_bytes(s->file);
    err why = {0};
    rc = page_file_read_head(all, all.n, &s->shape, NULL, 0, &n, &why);
    if (rc) return err_set(e, rc, "%s: %s", path, why.msg);
    s->record = mem_array((size_t)n + 1, sizeof *s->record);
    if (!s->record) return err_memory(e, "pages on disk");
    page_file_read_head(all, all.n, &s->shape, s->record, n, &s->n_record, e);
    for (uint32_t i = 0; i < n && !rc; i++) {
        const page_record *r = &s->record[i];
        if (!page_record_holds(r, all.p + r->offset, page_record_bytes(&s->shape, r->groups)) || file_torn(s->file))
            rc = err_set(e, ERR_FORMAT, "%s: page %u of its text is damaged", path, i);
    }
    return rc;
}

static bool find_in_file(page_store *s, const uint8_t name[SHA256_BYTES], page_record *out)
{
    for (uint32_t i = 0; i < s->n_record; i++) { /* mostly the one after the last that was found */
        const uint32_t at = (s->next + i) % s->n_record;
        if (memcmp(s->record[at].name, name, SHA256_BYTES) != 0) continue;
        *out = s->record[at];
        s->next = at + 1;
        return true;
    }
    return false;
}

/* ---- a folder: what its files are called */

static void call_page(const page_store *s, const uint8_t name[SHA256_BYTES], char file[NAME_BYTES])
{
    sha256 sum;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&sum);
    sha256_add(&sum, s->shape.made_for, SHA256_BYTES);
    sha256_add(&sum, name, SHA256_BYTES);
    sha256_end(&sum, digest);
    sha256_hex(digest, DIGITS / 2, file);
    memcpy(file + DIGITS, ending, sizeof ending);
}

static const char *path_of(const page_store *s, const char *file, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", s->dir, file);
    return path;
}

static bool is_called_as_page(const char *file)
{
    return strspn(file, "0123456789abcdef") == DIGITS && !strcmp(file + DIGITS, ending);
}

/* What base/file.c calls a file that is not whole yet. */
static bool is_called_as_unfinished(const char *file)
{
    static const char middle[] = ".page.tmp.";
    return strspn(file, "0123456789abcdef") == DIGITS && !strncmp(file + DIGITS, middle, sizeof middle - 1) &&
           strlen(file) == DIGITS + sizeof middle - 1 + 6;
}

/* Whether a file is known to be bad. */
static bool known_bad(page_store *s, const char *file)
{
    pthread_mutex_lock(&s->lock);
    int i = 0;
    while (i < s->n_bad && strcmp(s->bad[i], file) != 0) i++;
    const bool known = i < s->n_bad;
    pthread_mutex_unlock(&s->lock);
    return known;
}

/* Names a bad file in the log, once; of very many only the first. */
static void tell_bad(page_store *s, const char *file, const char *why)
{
    if (known_bad(s, file)) return;
    pthread_mutex_lock(&s->lock);
    const bool tell = s->n_bad < BAD_MAX;
    if (tell) snprintf(s->bad[s->n_bad++], NAME_BYTES, "%s", file);
    pthread_mutex_unlock(&s->lock);
    if (tell) log_line(LOG_WARN, "%s/%s: %s: it is left alone", s->dir, file, why);
}

/* Opens a file of the folder and reads its head; -1: it is not there, or bad. others: pages of other models are good
 * enough. */
static int open_page(page_store *s, const char *file, page_record *r, struct stat *st, bool others)
{
    char path[PATH_BYTES];
    uint8_t head[PAGE_FILE_ONE];
    uint32_t n;
    err e = {0};
    const int fd = known_bad(s, file) ? -1 : open(path_of(s, file, path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    const ssize_t got = fstat(fd, st) == 0 && S_ISREG(st->st_mode) ? pread(fd, head, sizeof head, 0) : -1;
    int rc = got < 0 ? err_set(&e, ERR_IO, "it cannot be read")
                     : page_file_read_head(span_of(head, (size_t)got), (uint64_t)st->st_size, &s->shape, r, 1, &n, &e);
    if (!rc && n != 1) rc = err_set(&e, ERR_FORMAT, "it holds pages of a whole text");
    if (!rc || (rc == ERR_NOT_FOUND && others)) return fd;
    tell_bad(s, file, e.msg);
    close(fd);
    return -1;
}

/* A page that is read, or written, is younger than others; the more so the nearer it is to where its text begins. */
static void set_age(int fd, int64_t depth)
{
    struct timespec now, t[2];
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ns = now.tv_sec * 1000000000ll + now.tv_nsec - depth * 1000000;
    t[0] = t[1] = (struct timespec){ns / 1000000000, ns % 1000000000};
    futimens(fd, t); /* where that is not allowed, pages go in the order in which they were written */
}

bool page_store_find(page_store *s, const uint8_t name[SHA256_BYTES], page_record *out)
{
    char file[NAME_BYTES];
    struct stat st;
    if (find_in_file(s, name, out)) return true;
    if (!s->dir) return false;
    call_page(s, name, file);
    const int fd = open_page(s, file, out, &st, false);
    if (fd < 0) return false;
    close(fd);
    const bool same = !memcmp(out->name, name, SHA256_BYTES);
    if (!same) tell_bad(s, file, "it is called as another page");
    return same;
}

static bool read_all(int fd, uint8_t *to, uint64_t n, uint64_t at)
{
    while (n) {
        const ssize_t got = pread(fd, to, n, (off_t)at);
        if (got <= 0) return false;
        to += got;
        at += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return true;
}

const uint8_t *page_store_read(page_store *s, const page_record *r, int64_t depth)
{
    page_record again;
    char file[NAME_BYTES];
    struct stat st;
    if (find_in_file(s, r->name, &again)) return file_torn(s->file) ? NULL : file_bytes(s->file).p + again.offset;
    call_page(s, r->name, file);
    const int fd = open_page(s, file, &again, &st, false);
    if (fd < 0) return NULL;
    const uint64_t n = page_record_bytes(&s->shape, again.groups);
    const bool good = again.groups == r->groups && !memcmp(again.name, r->name, SHA256_BYTES) &&
                      read_all(fd, s->in, n, again.offset) && page_record_holds(&again, s->in, n);
    if (good) set_age(fd, depth);
    else tell_bad(s, file, "a damaged page");
    close(fd);
    return good ? s->in : NULL;
}

/* ---- a folder: the thread that writes and removes */

typedef struct old_file {
    char name[NAME_BYTES];
    int64_t bytes;
    struct timespec at;
} old_file;

static int by_age(const void *pa, const void *pb)
{
    const struct timespec *a = &((const old_file *)pa)->at, *b = &((const old_file *)pb)->at;
    if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

/* The files of pages in the folder. */
typedef struct file_list {
    old_file *file; /* [n] */
    size_t n, cap;
    int64_t bytes;
} file_list;

/* Adds a file of the folder if it is one of pages; false: it is something else. */
static bool list_file(page_store *s, const char *name, file_list *list)
{
    page_record r;
    struct stat st;
    char path[PATH_BYTES];
    void *p = list->file;
    if (is_called_as_unfinished(name)) {
        if (stat(path_of(s, name, path), &st) == 0 && time(NULL) - st.st_mtime > LEFT_SECONDS) unlink(path);
        return true;
    }
    if (!is_called_as_page(name)) return false;
    const int fd = open_page(s, name, &r, &st, true);
    if (fd < 0) return true; /* the log has it */
    close(fd);
    if (!mem_grow(&p, &list->cap, list->n + 1, sizeof *list->file)) return true;
    list->file = p;
    old_file *f = &list->file[list->n++];
    *f = (old_file){.bytes = (int64_t)st.st_size, .at = st.st_mtim};
    memcpy(f->name, name, NAME_BYTES);
    list->bytes += f->bytes;
    return true;
}

static bool is_ending(page_store *s)
{
    pthread_mutex_lock(&s->lock);
    const bool stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

/* Counts the files, and removes the oldest until `room` more bytes are allowed. */
static void count_files(page_store *s, int64_t room, bool tell)
{
    char first[NAME_MAX + 1] = "", path[PATH_BYTES];
    file_list list = {0};
    size_t gone = 0;
    int foreign = 0;
    DIR *d = opendir(s->dir);
    for (struct dirent *f; d && !is_ending(s) && (f = readdir(d));) {
        if (!strcmp(f->d_name, ".") || !strcmp(f->d_name, "..") || list_file(s, f->d_name, &list)) continue;
        if (!foreign++) snprintf(first, sizeof first, "%s", f->d_name);
    }
    if (d) closedir(d);
    if (list.bytes + room > s->most) {
        qsort(list.file, list.n, sizeof *list.file, by_age);
        for (; gone < list.n && list.bytes + room > s->most - s->most / 16; gone++)
            if (unlink(path_of(s, list.file[gone].name, path)) == 0 || errno == ENOENT)
                list.bytes -= list.file[gone].bytes;
    }
    mem_free(list.file);
    s->held = list.bytes;
    s->since = 0;
    if (tell && foreign)
        log_line(LOG_WARN, "%s: %d files are no pages, such as %s: they are left alone", s->dir, foreign, first);
    if (tell) log_line(LOG_INFO, "%s: %zu pages, %.1f MiB", s->dir, list.n - gone, (double)s->held / (1 << 20));
}

/* Writes what is in `out`. */
static int write_page(page_store *s, const char *path, err *e)
{
    buf head = {0};
    file_out *f;
    const uint64_t n = page_record_bytes(&s->shape, s->due.groups);
    sha256_of(s->out, n, s->due.sum);
    page_file_add_head(&head, &s->shape, &s->due, 1);
    int rc = head.bad ? err_memory(e, "pages on disk") : file_create_private(&f, path, e);
    if (!rc) {
        rc = file_write(f, head.p, head.n, e);
        if (!rc) rc = file_write(f, s->out, n, e);
        if (rc) file_abandon(f);
        else rc = file_commit(f, e);
    }
    buf_free(&head);
    return rc;
}

static void keep_page(page_store *s)
{
    char file[NAME_BYTES], path[PATH_BYTES];
    err e = {0};
    const int64_t bytes = (int64_t)page_record_bytes(&s->shape, s->due.groups) + PAGE_FILE_ONE;
    call_page(s, s->due.name, file);
    if (file_exists(path_of(s, file, path)) || bytes > s->most) return;
    if (s->held + s->since + bytes > s->most || s->since > s->most / 16) count_files(s, bytes, false);
    const int rc = write_page(s, path, &e);
    if (rc && !s->refused) log_line(LOG_WARN, "%s; pages are not kept until that is mended", e.msg);
    s->refused = rc != OK;
    if (rc) return;
    s->since += bytes;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) set_age(fd, s->depth), close(fd);
}

static void *run_writer(void *arg)
{
    page_store *s = arg;
    count_files(s, 0, true);
    pthread_mutex_lock(&s->lock);
    while (!s->stop || s->full) {
        if (!s->full) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        keep_page(s);
        pthread_mutex_lock(&s->lock);
        s->full = false;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        s->on_free(s->ctx);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int page_store_add_folder(page_store *s, const char *dir, int64_t most, void (*on_free)(void *ctx), void *ctx, err *e)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) return err_set(e, ERR_IO, "--cache-dir %s: %s", dir, strerror(errno));
    if (!file_is_dir(dir) || access(dir, R_OK | W_OK | X_OK) != 0)
        return err_set(e, ERR_IO, "--cache-dir %s: %s", dir, file_is_dir(dir) ? strerror(errno) : "it is no folder");
    if (strlen(dir) > PATH_BYTES - NAME_MAX - 2) return err_set(e, ERR_USAGE, "--cache-dir: the name is too long");
    if (!(s->dir = mem_str(dir))) return err_memory(e, "pages on disk");
    s->most = most;
    s->on_free = on_free;
    s->ctx = ctx;
    if (pthread_create(&s->writer, NULL, run_writer, s)) return err_set(e, ERR_IO, "cannot start a thread for pages");
    s->has_writer = true;
    return OK;
}

uint8_t *page_store_room(page_store *s)
{
    pthread_mutex_lock(&s->lock);
    const bool full = s->full;
    pthread_mutex_unlock(&s->lock);
    return s->dir && !full ? s->out : NULL;
}

void page_store_write(page_store *s, const uint8_t name[SHA256_BYTES], uint32_t groups, int64_t depth)
{
    pthread_mutex_lock(&s->lock);
    s->due = (page_record){.groups = groups};
    memcpy(s->due.name, name, SHA256_BYTES);
    s->depth = depth;
    s->full = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool page_store_wait(page_store *s, double seconds)
{
    const double until = clock_now() + seconds;
    bool in_time = true;
    pthread_mutex_lock(&s->lock);
    while (s->full && in_time) in_time = cond_wait(&s->changed, &s->lock, until);
    const bool free = !s->full;
    pthread_mutex_unlock(&s->lock);
    return free;
}
