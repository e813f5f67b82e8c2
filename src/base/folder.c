/* folder.c - see folder.h. */
#include "base/folder.h"

#include "base/mem.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static const held_file *find_file(const file_folder *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->file[i].name, name) == 0) return &f->file[i];
    return NULL;
}

bool folder_has(const file_folder *f, const char *name)
{
    if (f->held) return find_file(f, name) != NULL;
    char path[PATH_MAX]; /* a longer one cannot be opened */
    int n = snprintf(path, sizeof path, "%s/%s", f->path, name);
    return n > 0 && (size_t)n < sizeof path && file_exists(path);
}

static int open_held(folder_file *out, const file_folder *f, const char *name, err *e)
{
    const held_file *h = find_file(f, name);
    size_t room = strlen(f->path) + strlen(name) + 3;
    if (!h) return err_set(e, ERR_NOT_FOUND, "%s: carries no %s", f->path, name);
    if (!(out->path = mem_alloc(room))) return err_memory(e, f->path);
    snprintf(out->path, room, "%s: %s", f->path, name);
    out->bytes = h->bytes;
    return OK;
}

int folder_open(folder_file *out, const file_folder *f, const char *name, err *e)
{
    *out = (folder_file){0};
    if (f->held) return open_held(out, f, name, e);
    out->path = strcmp(f->path, ".") == 0 ? mem_str(name) : file_join(f->path, name);
    int rc = out->path ? file_map(&out->mapping, out->path, e) : err_memory(e, f->path);
    if (rc) folder_file_close(out);
    else out->bytes = file_bytes(out->mapping);
    return rc;
}

bool folder_file_torn(const folder_file *f) { return f->mapping && file_torn(f->mapping); }

void folder_file_close(folder_file *f)
{
    file_unmap(f->mapping);
    mem_free(f->path);
    *f = (folder_file){0};
}

/* A path without allocation; false: too long to be opened. */
static bool join_path(char to[PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(to, PATH_MAX, "%s/%s", dir, name);
    return n > 0 && n < PATH_MAX;
}

/* The folder of the snapshot that refs/main names, if there is one. */
static bool main_snapshot(const char *root, const char *all, char path[PATH_MAX])
{
    char name[300] = "";
    buf text = {0};
    if (join_path(path, root, "refs/main") && file_read_regular(&text, path, sizeof name - 1, NULL) == OK && text.n)
        memcpy(name, text.p, text.n);
    buf_free(&text);
    name[strcspn(name, "/ \t\r\n")] = 0;
    return *name && *name != '.' && join_path(path, all, name) && file_is_dir(path);
}

static bool newest_snapshot(const char *all, char best[PATH_MAX])
{
    DIR *d = opendir(all);
    char path[PATH_MAX];
    struct stat st;
    time_t newest = 0;
    bool found = false;
    for (struct dirent *f; d && (f = readdir(d));) {
        bool dir = f->d_name[0] != '.' && join_path(path, all, f->d_name) && stat(path, &st) == 0 &&
                   S_ISDIR(st.st_mode);
        if (!dir || (found && st.st_mtime <= newest)) continue;
        memcpy(best, path, sizeof path);
        newest = st.st_mtime;
        found = true;
    }
    if (d) closedir(d);
    return found;
}

char *folder_of_model(const char *dir)
{
    char all[PATH_MAX], path[PATH_MAX];
    const file_folder root = {.path = dir};
    bool hub = (folder_has(&root, "refs") || folder_has(&root, "blobs")) && join_path(all, dir, "snapshots");
    return mem_str(hub && (main_snapshot(dir, all, path) || newest_snapshot(all, path)) ? path : dir);
}

bool folder_hub_name(const char *path, char *name, size_t cap)
{
    static const char prefix[] = "models--", snapshots[] = "/snapshots/";
    const char *at = strstr(path, prefix);
    if (!at || (at > path && at[-1] != '/')) return false;
    at += sizeof prefix - 1;
    const char *end = at + strcspn(at, "/"), *two = strstr(at, "--"), *rest = end;
    if (strncmp(rest, snapshots, sizeof snapshots - 1) == 0) {
        rest += sizeof snapshots - 1;
        rest += strcspn(rest, "/");
    }
    if (rest[strspn(rest, "/")] || !two || two >= end) return false;
    const int n = snprintf(name, cap, "%.*s/%.*s", (int)(two - at), at, (int)(end - two - 2), two + 2);
    return n > 0 && (size_t)n < cap;
}

int folder_json(json **out, const file_folder *f, const char *name, size_t max_bytes, err *e)
{
    folder_file file;
    *out = NULL;
    int rc = folder_open(&file, f, name, e);
    if (rc) return rc;
    if (file.bytes.n > max_bytes) rc = err_set(e, ERR_LIMIT, "%s: larger than %zu bytes", file.path, max_bytes);
    if (!rc) rc = json_parse_python(out, file.bytes, file.path, e);
    if (!rc && folder_file_torn(&file)) {
        rc = err_set(e, ERR_IO, "%s: shrank while it was read", file.path);
        json_free(*out);
        *out = NULL;
    }
    folder_file_close(&file);
    return rc;
}
