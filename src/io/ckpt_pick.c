/* ckpt_pick.c - see ckpt_pick.h. Names of files matter only here, to choose files in a folder; the format of a chosen
 * file is decided by its content. */
#include "io/ckpt_pick.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/span.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = 1 << 28 };

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void ckpt_names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++) mem_free(names[i]);
    mem_free(names);
}

static int add_name(char ***names, size_t *n, size_t *cap, const char *name, err *e)
{
    if (!mem_grow((void **)names, cap, *n + 1, sizeof **names)) return err_memory(e, NULL);
    char *copy = mem_str(name);
    if (!copy) return err_memory(e, NULL);
    (*names)[(*n)++] = copy;
    return OK;
}

/* Things that training leaves in the folder; they are not weights. */
static bool is_leftover(const char *name)
{
    static const char *const known[] = {"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt",
                                        "rng_state.pth",     "scaler.pt",    "tokenizer.bin"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0) return true;
    return strncmp(name, "rng_state_", 10) == 0;
}

static int list_folder(const char *dir, char ***names, size_t *n, err *e)
{
    DIR *d = opendir(dir);
    if (!d) return err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
    size_t cap = 0;
    int rc = OK;
    for (struct dirent *f; !rc && (f = readdir(d));)
        if (f->d_name[0] != '.') rc = add_name(names, n, &cap, f->d_name, e);
    closedir(d);
    if (!rc && *n) qsort(*names, *n, sizeof **names, by_name);
    return rc;
}

/* Keeps the names that match a rule; a rule with an exact name keeps one. Returns their number; 0: all are kept. */
typedef bool name_rule(const char *name);
static size_t keep_names(char **names, size_t *n, name_rule *rule)
{
    size_t hits = 0;
    for (size_t i = 0; i < *n; i++) hits += rule(names[i]);
    if (!hits) return 0;
    size_t to = 0;
    for (size_t i = 0; i < *n; i++) {
        if (rule(names[i])) names[to++] = names[i];
        else mem_free(names[i]);
    }
    return *n = to;
}

static bool is_st_index(const char *s) { return strcmp(s, "model.safetensors.index.json") == 0; }
static bool is_st_model(const char *s) { return strcmp(s, "model.safetensors") == 0; }
static bool is_pt_index(const char *s) { return strcmp(s, "pytorch_model.bin.index.json") == 0; }
static bool is_pt_model(const char *s) { return strcmp(s, "pytorch_model.bin") == 0; }
static bool is_any_st(const char *s) { return str_ends(s, ".safetensors"); }
static bool is_pt_shard(const char *s) { return strncmp(s, "pytorch_model-", 14) == 0 && str_ends(s, ".bin"); }
static bool is_split_head(const char *s) { return strstr(s, "-00001-of-") && str_ends(s, ".gguf"); }
static bool is_gguf(const char *s) { return str_ends(s, ".gguf"); }
static bool is_other(const char *s)
{
    return (str_ends(s, ".bin") || str_ends(s, ".pt") || str_ends(s, ".pth")) && !is_leftover(s);
}

/* The name of a download that did not end: beside the model, or where the clients of hubs keep it. NULL: none. */
static char *find_incomplete(const char *dir)
{
    static const char *const places[] = {"", "../../blobs", ".cache/huggingface/download"};
    char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        char *path = *places[i] ? file_join(dir, places[i]) : mem_str(dir), **names = NULL;
        size_t n = 0;
        err none = {0};
        if (path && list_folder(path, &names, &n, &none) == OK)
            for (size_t k = 0; k < n && !found; k++)
                if (str_ends(names[k], ".incomplete") || str_ends(names[k], ".part") || str_ends(names[k], ".aria2"))
                    found = file_join(path, names[k]);
        ckpt_names_free(names, n);
        mem_free(path);
    }
    return found;
}

/* Where the K of "PREFIX-K-of-N.EXTENSION" begins, and both numbers; 0: the name has no such form. */
static size_t shard_of(const char *name, int *k, int *n)
{
    const char *of = strstr(name, "-of-"), *at = of;
    while (at && at > name && at[-1] >= '0' && at[-1] <= '9') at--;
    if (!of || at == of || at <= name || at[-1] != '-' || of - at > 5) return 0;
    *k = atoi(at);
    *n = atoi(of + 4);
    return *n > 0 && *n < 100000 ? (size_t)(at - name) : 0;
}

int ckpt_say_missing(const char *dir, const char *name, err *e)
{
    int k, n;
    char *begun = find_incomplete(dir);
    const char *why = begun ? "; its download did not end: " : "", *file = begun ? begun : "";
    if (shard_of(name, &k, &n))
        err_set(e, ERR_NOT_FOUND, "%s: shard %d of %d is missing: %.200s%s%s", dir, k, n, name, why, file);
    else err_set(e, ERR_NOT_FOUND, "%s: a file of the model is missing: %.200s%s%s", dir, name, why, file);
    mem_free(begun);
    return ERR_NOT_FOUND;
}

/* Whether shards that no index lists are all there, as their names say. */
static int check_shards(const char *dir, char *const *names, size_t n, err *e)
{
    for (size_t i = 0; i < n; i++) {
        int k, count, rc = OK;
        const size_t at = shard_of(names[i], &k, &count);
        const char *rest = at ? strstr(names[i] + at, "-of-") : NULL;
        for (int want = 1; at && want <= count && !rc; want++) {
            char other[400];
            snprintf(other, sizeof other, "%.*s%0*d%s", (int)at, names[i], (int)(rest - names[i] - (ptrdiff_t)at), want,
                     rest);
            char *path = file_join(dir, other);
            rc = !path ? err_memory(e, NULL) : file_exists(path) ? OK : ckpt_say_missing(dir, other, e);
            mem_free(path);
        }
        if (rc) return rc;
    }
    return OK;
}

bool ckpt_keep_model(char **names, size_t *n, bool *many)
{
    static const struct {
        name_rule *rule;
        bool many; /* several files make one model */
    } order[] = {{is_st_index, false},   {is_st_model, false}, {is_pt_index, false},
                 {is_pt_model, false},   {is_any_st, true},    {is_pt_shard, true},
                 {is_split_head, false}, {is_gguf, false},     {is_other, false}};
    size_t hits = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order && !hits; i++) {
        hits = keep_names(names, n, order[i].rule);
        *many = order[i].many;
    }
    return hits > 0;
}

int ckpt_pick_files(const char *dir, char ***names, size_t *n, err *e)
{
    bool many;
    int rc = list_folder(dir, names, n, e);
    if (rc) return rc;
    const bool found = ckpt_keep_model(*names, n, &many);
    if (found && *n > 1 && !many)
        return err_set(e, ERR_USAGE, "%s: holds several models (%s, %s): name one of the files", dir, (*names)[0],
                       (*names)[1]);
    if (found) return many ? check_shards(dir, *names, *n, e) : OK;
    char *begun = find_incomplete(dir);
    if (begun) err_set(e, ERR_NOT_FOUND, "%s: no weights here; their download did not end: %s", dir, begun);
    mem_free(begun);
    if (begun) return ERR_NOT_FOUND;
    return err_set(e, ERR_NOT_FOUND,
                   "%s: no weights here (looked for *.safetensors, pytorch_model*.bin, *.gguf, *.pt, *.pth, *.bin)",
                   dir);
}

int ckpt_is_index(const char *path, bool *yes, err *e)
{
    file_mapping *m;
    *yes = false;
    int rc = file_map(&m, path, e);
    if (rc) return rc;
    span s = file_bytes(m);
    size_t i = 0;
    while (i < s.n && i < 64 && s.p[i] && strchr(" \t\r\n", s.p[i])) i++;
    *yes = i < s.n && s.p[i] == '{';
    file_unmap(m);
    return OK;
}

static bool index_names(const json *index, const char *shard)
{
    for (const json *m = json_first(json_get(index, "weight_map")); m; m = json_next(m))
        if (strcmp(json_str(m, ""), shard) == 0) return true;
    return false;
}

int ckpt_prefer_index(const char *dir, char **name, err *e)
{
    static const char *const known[] = {"model.safetensors.index.json", "pytorch_model.bin.index.json"};
    bool found = false;
    int rc = OK;
    for (size_t i = 0; i < sizeof known / sizeof *known && !rc && !found && strstr(*name, "-of-"); i++) {
        char *path = file_join(dir, known[i]);
        json *index = NULL;
        rc = path ? OK : err_memory(e, NULL);
        if (!rc && file_exists(path)) rc = json_read(&index, path, INDEX_MAX, e);
        if (!rc && index_names(index, *name)) {
            char *copy = mem_str(known[i]);
            if (!copy) rc = err_memory(e, NULL);
            else mem_free(*name), *name = copy, found = true;
        }
        json_free(index);
        mem_free(path);
    }
    return rc;
}

static bool leaves_folder(const char *name)
{
    return !name[0] || strchr(name, '/') || strchr(name, '\\') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int ckpt_part_path(char **path, const char *dir, const char *name, err *e)
{
    *path = NULL;
    if (leaves_folder(name))
        return err_set(e, ERR_FORMAT, "\"%.80s\" is not the name of a file in the same folder", name);
    *path = file_join(dir, name);
    return *path ? OK : err_memory(e, NULL);
}

int ckpt_index_files(const json *index, const char *path, char ***names, size_t *n, err *e)
{
    const json *weights = json_get(index, "weight_map");
    if (json_type(weights) != JSON_OBJECT || !json_first(weights))
        return err_set(e, ERR_FORMAT, "%s: JSON, but not the index of a sharded model (no \"weight_map\")", path);
    map seen = {0};
    size_t cap = 0;
    int rc = OK;
    for (const json *m = json_first(weights); m && !rc; m = json_next(m)) {
        const char *file = json_str(m, "");
        if (map_get_str(&seen, file) != MAP_NONE) continue;
        if (leaves_folder(file))
            rc = err_set(e, ERR_FORMAT, "%s: \"%.80s\" is not the name of a file in the same folder", path, file);
        else if (!map_put(&seen, span_str(file), 0)) rc = err_memory(e, NULL);
        else rc = add_name(names, n, &cap, file, e);
    }
    map_free(&seen);
    if (!rc) qsort(*names, *n, sizeof **names, by_name);
    return rc;
}
