/* checked_file.c - see checked_file.h. */
#include "app/checked_file.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *checked_file_name(const char *path)
{
    struct stat st;
    char *dir = file_dir(path);
    bool in_place = !dir || access(dir, W_OK | X_OK) != 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
    mem_free(dir);
    if (in_place) return mem_str(path);
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t room = strlen(path) + 40;
    char *name = mem_alloc(room);
    if (name) snprintf(name, room, "%.*s.checking.%ld.%s", (int)(base - path), path, (long)getpid(), base);
    return name;
}

int checked_file_end(char *name, const char *path, int rc, err *e)
{
    if (name && strcmp(name, path) != 0) {
        char *real = realpath(path, NULL); /* a link stays, what it points to is replaced */
        if (!rc && rename(name, real ? real : path) != 0) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        if (rc) unlink(name);
        free(real);
    }
    mem_free(name);
    return rc;
}
