/* checked_file.c - see checked_file.h. */
#include "app/checked_file.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char checking[] = ".checking.";

/* Whether a file's name is `prefix`, the id of a process that is gone, '.' and *rest. */
static bool left_by_dead(const char *name, const char *prefix, const char **rest)
{
    size_t n = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, n) != 0 || name[n] < '1' || name[n] > '9') return false;
    long pid = strtol(name + n, &end, 10);
    *rest = end + 1;
    return *end == '.' && pid == (pid_t)pid && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

void remove_left(const char *dir, const char *prefix, const char *rest, void (*remove_one)(const char *path))
{
    DIR *d = opendir(dir);
    const char *end;
    for (struct dirent *f; d && (f = readdir(d));) {
        bool left = left_by_dead(f->d_name, prefix, &end) && (!rest || strcmp(end, rest) == 0);
        char *path = left ? file_join(dir, f->d_name) : NULL;
        if (path) remove_one(path);
        mem_free(path);
    }
    if (d) closedir(d);
}

static void remove_file(const char *path) { unlink(path); }

char *checked_file_name(const char *path)
{
    struct stat st;
    char *dir = file_dir(path);
    bool in_place = !dir || access(dir, W_OK | X_OK) != 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (!in_place) remove_left(dir, checking, base, remove_file);
    mem_free(dir);
    if (in_place) return mem_str(path);
    size_t room = strlen(path) + 40;
    char *name = mem_alloc(room);
    if (name) snprintf(name, room, "%.*s%s%ld.%s", (int)(base - path), path, checking, (long)getpid(), base);
    return name;
}

int checked_file_end(char *name, const char *path, int rc, err *e)
{
    if (name && strcmp(name, path) != 0) {
        char *real = realpath(path, NULL); /* a link stays, what it points to is replaced */
        if (!rc && rename(name, real ? real : path) != 0) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        if (rc) unlink(name);
        if (rc && e) err_rename(e, name, path); /* the file that was asked for, not the removed one */
        free(real);
    }
    mem_free(name);
    return rc;
}
