/* hub_cache.c - see hub_cache.h. */
#define _GNU_SOURCE
#include "hub/hub_cache.h"

#include "base/file.h"
#include "base/mem.h"
#include "hub/hub_choose.h"
#include "io/ckpt_pick.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REF_MAX = 200, INDEX_MAX = 1 << 28, DEPTH_MAX = 4 };

/* The value of a variable as a path, with the home folder for "~"; NULL: it says nothing. */
static const char *path_of(arena *mem, const char *variable)
{
    const char *value = getenv(variable), *home = getenv("HOME");
    if (!value || !*value) return NULL;
    if (value[0] == '~' && (!value[1] || value[1] == '/') && home) return arena_printf(mem, "%s%s", home, value + 1);
    return arena_str(mem, value);
}

/* The folder of the hub's clients; NULL: no variable says it. */
static const char *find_home(arena *mem)
{
    const char *own = path_of(mem, "HF_HOME"), *shared = path_of(mem, "XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own) return own;
    if (shared) return arena_printf(mem, "%s/huggingface", shared);
    return home && *home ? arena_printf(mem, "%s/.cache/huggingface", home) : NULL;
}

void hub_cache_token(char *token, uint64_t cap)
{
    arena mem = {0};
    const char *said = getenv("HF_TOKEN"), *path = path_of(&mem, "HF_TOKEN_PATH"), *home = find_home(&mem);
    buf text = {0};
    if (!path && home) path = arena_printf(&mem, "%s/token", home);
    if (said && *said) buf_str(&text, said);
    else if (path) file_read_regular(&text, path, (size_t)cap, NULL);
    const span s = span_without_blanks(buf_span(&text));
    bool plain = !text.bad && s.n < cap;
    for (size_t i = 0; i < s.n; i++) plain &= s.p[i] > 32 && s.p[i] < 127;
    snprintf(token, cap, "%.*s", plain ? (int)s.n : 0, s.n ? (const char *)s.p : "");
    buf_free(&text);
    arena_free(&mem);
}

int hub_cache_open(hub_cache *c, const char *repo, err *e)
{
    *c = (hub_cache){0};
    const char *slash = strchr(repo, '/'), *said = path_of(&c->mem, "HF_HUB_CACHE"), *home = find_home(&c->mem);
    if (!said) said = path_of(&c->mem, "HUGGINGFACE_HUB_CACHE"); /* its older name */
    if (!said && !home)
        return err_set(e, ERR_NOT_FOUND, "where is the hub's cache? none of HF_HUB_CACHE, HF_HOME, HOME is set");
    c->dir = said ? said : arena_printf(&c->mem, "%s/hub", home);
    char *here = c->dir && *c->dir != '/' ? getcwd(NULL, 0) : NULL;
    if (here) c->dir = arena_printf(&c->mem, "%s/%s", here, c->dir);
    free(here);
    if (c->dir) c->repo = arena_printf(&c->mem, "%s/models--%.*s--%s", c->dir, (int)(slash - repo), repo, slash + 1);
    if (c->repo) c->blobs = arena_printf(&c->mem, "%s/blobs", c->repo);
    if (c->blobs) c->locks = arena_printf(&c->mem, "%s/.locks/%s", c->dir, strrchr(c->repo, '/') + 1);
    return c->locks ? OK : err_memory(e, NULL);
}

void hub_cache_close(hub_cache *c)
{
    arena_free(&c->mem);
    *c = (hub_cache){0};
}

/* ---- what is there */

typedef struct name_list {
    char **name;
    size_t n, cap;
} name_list;

/* Adds the files below dir/within ("" at first), with slashes; links that lead nowhere are none. */
static int list_files(name_list *l, const char *dir, const char *within, int depth, err *e)
{
    char path[PATH_MAX], inner[PATH_MAX];
    const char *slash = *within ? "/" : "";
    struct stat st;
    int n = snprintf(path, sizeof path, "%s%s%s", dir, slash, within), rc = OK;
    DIR *d = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    for (struct dirent *f; d && !rc && (f = readdir(d));) {
        n = snprintf(inner, sizeof inner, "%s%s%s", within, slash, f->d_name);
        if (f->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof inner || fstatat(dirfd(d), f->d_name, &st, 0)) continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) rc = list_files(l, dir, inner, depth + 1, e);
        if (rc || !S_ISREG(st.st_mode)) continue;
        if (!mem_grow((void **)&l->name, &l->cap, l->n + 1, sizeof *l->name)) rc = err_memory(e, NULL);
        else if (!(l->name[l->n] = mem_str(inner))) rc = err_memory(e, NULL);
        else l->n++;
    }
    if (d) closedir(d);
    return rc;
}

/* Whether the files of a choice that other files name are there, too. */
static int check_whole(const char *dir, const hub_choice *choice, err *e)
{
    char **names = NULL, *path = NULL;
    size_t n = 0;
    if (choice->model) return OK;
    int rc = ckpt_pick_files(dir, &names, &n, e);
    ckpt_names_free(names, n);
    if (rc || !choice->index) return rc;
    hub_choice all = {0};
    json *index = NULL;
    if (!(path = file_join(dir, choice->index))) return err_memory(e, NULL);
    rc = json_read(&index, path, INDEX_MAX, e);
    mem_free(path);
    if (!rc) rc = hub_choose_shards(&all, index, choice->index, e);
    for (size_t i = 0; i < all.n && !rc; i++) {
        path = file_join(dir, all.name[i]);
        rc = !path ? err_memory(e, NULL) : file_exists(path) ? OK : ckpt_say_missing(dir, all.name[i], e);
        mem_free(path);
    }
    json_free(index);
    hub_choice_free(&all);
    return rc;
}

/* The snapshot that a revision names: refs/REVISION says its commit, or it is one. NULL: there is none. */
static char *snapshot_of(const hub_cache *c, const char *revision)
{
    char path[PATH_MAX], commit[REF_MAX + 1] = "";
    buf text = {0};
    int n = snprintf(path, sizeof path, "%s/refs/%s", c->repo, revision);
    if (n > 0 && (size_t)n < sizeof path && file_read_regular(&text, path, REF_MAX, NULL) == OK) {
        const span s = span_without_blanks(buf_span(&text));
        memcpy(commit, s.p, s.n);
    } else {
        snprintf(commit, sizeof commit, "%s", revision);
    }
    buf_free(&text);
    n = snprintf(path, sizeof path, "%s/snapshots/%s", c->repo, commit);
    return hub_name_is_plain(commit) && n > 0 && (size_t)n < sizeof path && file_is_dir(path) ? mem_str(path) : NULL;
}

int hub_cache_find(const hub_cache *c, const hub_name *name, char **path, err *e)
{
    char *dir = snapshot_of(c, name->revision);
    *path = NULL;
    if (!dir) return err_set(e, ERR_NOT_FOUND, "%s (%.40s): not in the cache %s", name->repo, name->revision, c->dir);
    name_list files = {0};
    hub_choice choice = {0};
    int rc = list_files(&files, dir, "", 0, e);
    if (!rc) rc = hub_choose(&choice, files.name, files.n, name->pick, name->repo, e);
    if (!rc) rc = check_whole(dir, &choice, e);
    if (!rc && !(*path = choice.model ? file_join(dir, choice.model) : mem_str(dir))) rc = err_memory(e, NULL);
    hub_choice_free(&choice);
    ckpt_names_free(files.name, files.n);
    mem_free(dir);
    return rc;
}

/* ---- what is written */

int hub_cache_folder(const char *path, err *e)
{
    char *part = mem_str(path);
    if (!part) return err_memory(e, NULL);
    int rc = OK;
    for (char *at = part + 1; !rc; at++) {
        const char end = *at;
        if (end && end != '/') continue;
        *at = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST && !file_is_dir(part))
            rc = err_set(e, ERR_IO, "%s: %s", part, strerror(errno));
        *at = end;
        if (!end) break;
    }
    mem_free(part);
    return rc;
}

static const char *file_path(hub_cache *c, const char *commit, const char *file)
{
    return arena_printf(&c->mem, "%s/snapshots/%s/%s", c->repo, commit, file);
}

/* "../../blobs/ETAG", with as many steps as the file has folders. */
static const char *link_text(hub_cache *c, const char *file, const char *etag)
{
    const char *up = "../../";
    for (const char *s = file; (s = strchr(s, '/')) && up; s++) up = arena_printf(&c->mem, "../%s", up);
    return up ? arena_printf(&c->mem, "%sblobs/%s", up, etag) : NULL;
}

bool hub_cache_has(hub_cache *c, const char *commit, const char *file, const char *etag, uint64_t bytes)
{
    const char *path = file_path(c, commit, file), *wanted = link_text(c, file, etag);
    char to[PATH_MAX] = "";
    struct stat st;
    if (!path || !wanted || stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes) return false;
    const ssize_t n = readlink(path, to, sizeof to - 1);
    return n < 0 ? errno == EINVAL : strcmp(to, wanted) == 0; /* where links are not possible, it is a copy */
}

int hub_cache_link(hub_cache *c, const char *commit, const char *file, const char *etag, err *e)
{
    const char *path = file_path(c, commit, file), *to = link_text(c, file, etag);
    char *dir = path ? file_dir(path) : NULL;
    const char *fresh = dir ? arena_printf(&c->mem, "%s/.link.%ld.%.40s", dir, (long)getpid(), etag) : NULL;
    int rc = to && fresh ? hub_cache_folder(dir, e) : err_memory(e, NULL);
    mem_free(dir);
    if (rc) return rc;
    unlink(fresh);
    if (symlink(to, fresh) != 0 || rename(fresh, path) != 0) {
        rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        unlink(fresh);
    }
    return rc;
}

int hub_cache_note(hub_cache *c, const char *revision, const char *commit, err *e)
{
    const char *path = arena_printf(&c->mem, "%s/refs/%s", c->repo, revision);
    buf was = {0};
    const bool noted = path && file_read_regular(&was, path, REF_MAX, NULL) == OK && span_is(buf_span(&was), commit);
    buf_free(&was);
    if (noted || strcmp(revision, commit) == 0) return OK;
    char *dir = path ? file_dir(path) : NULL;
    file_out *f = NULL;
    int rc = dir ? hub_cache_folder(dir, e) : err_memory(e, NULL);
    mem_free(dir);
    if (!rc) rc = file_create(&f, path, e);
    if (rc) return rc;
    rc = file_write(f, commit, strlen(commit), e);
    if (!rc) return file_commit(f, e);
    file_abandon(f);
    return rc;
}
