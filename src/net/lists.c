/* lists.c - see lists.h. A file: digits of the digest and ".list"; it is believed when it has that digest. */
#define _GNU_SOURCE
#include "net/lists.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/msg.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 40, NAME = DIGITS + sizeof ".list", KEPT_BYTES = 1 << 26 }; /* in memory, together */

void lists_open(lists *l, const char *dir)
{
    *l = (lists){.dir = dir};
    pthread_mutex_init(&l->lock, NULL);
}

void lists_close(lists *l)
{
    for (int i = 0; i < LISTS_KEPT; i++) buf_free(&l->kept[i].text);
    pthread_mutex_destroy(&l->lock);
}

static void name_of(const uint8_t digest[SHA256_BYTES], char to[NAME])
{
    sha256_hex(digest, DIGITS / 2, to);
    strcpy(to + DIGITS, ".list");
}

static bool is_list(const char *name)
{
    return strspn(name, "0123456789abcdef") == DIGITS && strcmp(name + DIGITS, ".list") == 0;
}

/* ---- in memory, under the lock */

static kept_list *find_list(lists *l, const uint8_t digest[SHA256_BYTES])
{
    for (int i = 0; i < LISTS_KEPT; i++)
        if (l->kept[i].text.n && !memcmp(l->kept[i].digest, digest, SHA256_BYTES)) return &l->kept[i];
    return NULL;
}

static void drop(kept_list *x)
{
    buf_free(&x->text);
    x->used = 0;
}

/* full: of those that hold one; else an empty one is the oldest. */
static kept_list *find_oldest(lists *l, bool full)
{
    kept_list *oldest = NULL;
    for (int i = 0; i < LISTS_KEPT; i++) {
        kept_list *x = &l->kept[i];
        if ((!full || x->text.n) && (!oldest || x->used < oldest->used)) oldest = x;
    }
    return oldest;
}

static size_t held_bytes(const lists *l)
{
    size_t sum = 0;
    for (int i = 0; i < LISTS_KEPT; i++) sum += l->kept[i].text.n;
    return sum;
}

static void keep(lists *l, const uint8_t digest[SHA256_BYTES], span text)
{
    if (!text.n || text.n > KEPT_BYTES || find_list(l, digest)) return;
    while (held_bytes(l) > KEPT_BYTES - text.n) drop(find_oldest(l, true));
    kept_list *to = find_oldest(l, false);
    drop(to);
    if (!buf_add(&to->text, text.p, text.n)) return drop(to);
    memcpy(to->digest, digest, SHA256_BYTES);
    to->used = ++l->uses;
}

/* ---- in the folder */

static bool load(const lists *l, const uint8_t digest[SHA256_BYTES], buf *to)
{
    char name[NAME];
    uint8_t got[SHA256_BYTES];
    err ignored;
    name_of(digest, name);
    char *path = file_join(l->dir, name);
    const bool read = path && file_read_regular(to, path, LIST_BYTES_MAX, &ignored) == OK;
    if (read) sha256_of(to->p, to->n, got);
    const bool good = read && memcmp(got, digest, sizeof got) == 0;
    if (good) utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    else buf_free(to);
    mem_free(path);
    return good;
}

/* Removes the list that was used least recently, where there are more than are kept. */
static void tidy(const lists *l)
{
    char oldest[NAME] = "";
    struct timespec used = {0};
    int n = 0;
    DIR *d = opendir(l->dir);
    for (const struct dirent *f; d && (f = readdir(d));) {
        struct stat st;
        if (!is_list(f->d_name) || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        const bool older = st.st_mtim.tv_sec != used.tv_sec ? st.st_mtim.tv_sec < used.tv_sec
                                                            : st.st_mtim.tv_nsec < used.tv_nsec;
        if (n++ && !older) continue;
        memcpy(oldest, f->d_name, NAME);
        used = st.st_mtim;
    }
    if (d && n > LISTS_ON_DISK) unlinkat(dirfd(d), oldest, 0);
    if (d) closedir(d);
}

static void write_file(const lists *l, const uint8_t digest[SHA256_BYTES], span text)
{
    char name[NAME];
    err e = {0};
    file_out *f;
    name_of(digest, name);
    char *path = file_join(l->dir, name);
    int rc = path ? file_create_private(&f, path, &e) : ERR_MEMORY;
    if (!rc) {
        rc = file_write(f, text.p, text.n, &e);
        if (rc) file_abandon(f);
        else rc = file_commit(f, &e);
    }
    if (rc) log_line(LOG_DEBUG, "a list of tensors is not kept: %s", e.msg);
    mem_free(path);
    tidy(l);
}

/* ---- */

bool lists_get(lists *l, const uint8_t digest[SHA256_BYTES], buf *to)
{
    pthread_mutex_lock(&l->lock);
    kept_list *x = find_list(l, digest);
    bool there = x && buf_add(to, x->text.p, x->text.n);
    if (there) x->used = ++l->uses;
    if (!there && l->dir && (there = load(l, digest, to))) keep(l, digest, buf_span(to));
    pthread_mutex_unlock(&l->lock);
    return there;
}

void lists_put(lists *l, const uint8_t digest[SHA256_BYTES], span text)
{
    pthread_mutex_lock(&l->lock);
    keep(l, digest, text);
    if (l->dir) write_file(l, digest, text);
    pthread_mutex_unlock(&l->lock);
}
