/* folder.c - see folder.h. */
#include "base/folder.h"

#include "base/mem.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static const held_file *find(const file_folder *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->file[i].name, name) == 0) return &f->file[i];
    return NULL;
}

bool folder_has(const file_folder *f, const char *name)
{
    if (f->held) return find(f, name) != NULL;
    char path[PATH_MAX]; /* a longer one cannot be opened */
    int n = snprintf(path, sizeof path, "%s/%s", f->path, name);
    return n > 0 && (size_t)n < sizeof path && file_exists(path);
}

static int open_held(folder_file *out, const file_folder *f, const char *name, err *e)
{
    const held_file *h = find(f, name);
    size_t room = strlen(f->path) + strlen(name) + 3;
    if (!h) return err_set(e, ERR_NOT_FOUND, "%s: carries no %s", f->path, name);
    if (!(out->path = mem_alloc(room))) return err_set(e, ERR_MEMORY, "%s: out of memory", f->path);
    snprintf(out->path, room, "%s: %s", f->path, name);
    out->bytes = h->bytes;
    return OK;
}

int folder_open(folder_file *out, const file_folder *f, const char *name, err *e)
{
    *out = (folder_file){0};
    if (f->held) return open_held(out, f, name, e);
    out->path = strcmp(f->path, ".") == 0 ? mem_str(name) : file_join(f->path, name);
    int rc = out->path ? file_map(&out->mapping, out->path, e) : err_set(e, ERR_MEMORY, "%s: out of memory", f->path);
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

/* The snapshot that refs/main names, "": none. */
static void main_snapshot(const char *root, char *name, size_t room)
{
    char *ref = file_join(root, "refs/main");
    buf text = {0};
    *name = 0;
    if (ref && file_read(&text, ref, room - 1, NULL) == OK) snprintf(name, room, "%s", buf_cstr(&text));
    name[strcspn(name, "/ \t\r\n")] = 0;
    if (name[0] == '.') *name = 0;
    mem_free(ref);
    buf_free(&text);
}

char *folder_snapshot(const char *root)
{
    char name[300];
    char *all = file_join(root, "snapshots"), *best = NULL;
    struct stat st;
    time_t newest = 0;
    bool known = folder_has(&(file_folder){.path = root}, "refs") || folder_has(&(file_folder){.path = root}, "blobs");
    DIR *d = all && known ? opendir(all) : NULL;
    if (d) main_snapshot(root, name, sizeof name);
    if (d && *name && (best = file_join(all, name)) && !file_is_dir(best)) mem_free(best), best = NULL;
    bool chosen = best;
    for (struct dirent *f; d && !chosen && (f = readdir(d));) {
        char *path = f->d_name[0] == '.' ? NULL : file_join(all, f->d_name);
        bool better = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && (!best || st.st_mtime > newest);
        if (better) newest = st.st_mtime;
        mem_free(better ? best : path);
        if (better) best = path;
    }
    if (d) closedir(d);
    mem_free(all);
    return best;
}

int folder_json(json **out, const file_folder *f, const char *name, size_t max_bytes, err *e)
{
    folder_file file;
    *out = NULL;
    int rc = folder_open(&file, f, name, e);
    if (rc) return rc;
    if (file.bytes.n > max_bytes) rc = err_set(e, ERR_LIMIT, "%s: larger than %zu bytes", file.path, max_bytes);
    if (!rc) rc = json_parse(out, file.bytes, file.path, e);
    if (!rc && folder_file_torn(&file)) {
        rc = err_set(e, ERR_IO, "%s: shrank while it was read", file.path);
        json_free(*out);
        *out = NULL;
    }
    folder_file_close(&file);
    return rc;
}
