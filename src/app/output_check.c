/* output_check.c - see output_check.h. Two names are one file when device and inode are the same. */
#include "app/output_check.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/span.h"
#include "io/ckpt.h"
#include "models/spec/spec_load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct output {
    const char *path;
    char flag[80]; /* that names it */
    struct stat id;
    char reader[300]; /* the flag whose input is compared, for the message */
    err *e;
} output;

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
static bool keeps_data(const struct stat *s)
{
    return S_ISREG(s->st_mode) || S_ISBLK(s->st_mode) || S_ISDIR(s->st_mode);
}

/* Whether one of the folders above a path is `dir`. Cuts the path. */
static bool is_below(char *path, const struct stat *dir)
{
    struct stat st;
    for (char *slash; path && (slash = strrchr(path, '/'));) {
        *slash = 0;
        if (stat(*path ? path : "/", &st) == 0 && is_same_file(&st, dir)) return true;
    }
    return false;
}

/* Links count where they are and where they lead. */
static bool is_inside(const char *path, const struct stat *dir)
{
    char *as_given = file_join(".", path), *real = realpath(path, NULL);
    bool inside = is_below(as_given, dir) || is_below(real, dir);
    mem_free(as_given);
    free(real);
    return inside;
}

static int check_file(const output *o, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !keeps_data(&st)) return OK;
    if (is_same_file(&st, &o->id))
        return err_set(o->e, ERR_USAGE, "%s %s: would overwrite %s, which %s reads", o->flag, o->path, path, o->reader);
    if (S_ISDIR(o->id.st_mode) && is_inside(path, &o->id))
        return err_set(o->e, ERR_USAGE, "%s %s: this folder holds %s, which %s reads", o->flag, o->path, path,
                       o->reader);
    return OK;
}

/* Files that are read with a model, configurations and tokenizer files, by how names begin or end. */
static bool is_companion(const char *name)
{
    static const char *const begins[] = {"config",
                                         "generation_config",
                                         "special_tokens_map",
                                         "added_tokens",
                                         "chat_template",
                                         "tokenizer",
                                         "vocab",
                                         "merges",
                                         "target_",
                                         "modules",
                                         "sentence_",
                                         "model.",
                                         "pytorch_model."};
    static const char *const ends[] = {".jinja", ".model", ".spm", ".tiktoken", ".index.json", ".ini"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i]))) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (str_ends(name, ends[i])) return true;
    return false;
}

static int check_beside(const output *o, const char *dir)
{
    DIR *d = opendir(dir);
    int rc = OK;
    for (struct dirent *f; d && !rc && (f = readdir(d));) {
        char *path = file_join(dir, f->d_name), *inner = path ? file_join(path, "config.json") : NULL;
        if (!inner) rc = err_memory(o->e, NULL);
        else if (is_companion(f->d_name)) rc = check_file(o, path);
        else if (!S_ISDIR(o->id.st_mode)) rc = check_file(o, inner); /* of a module in a folder of its own */
        mem_free(path);
        mem_free(inner);
    }
    if (d) closedir(d);
    return rc;
}

/* A model or tokenizer that cannot be read is no error here: the command reports it. */
static int check_model(const output *o, const char *path)
{
    ckpt *c = NULL;
    err unread = {0};
    struct stat st;
    if (strcmp(path, "builtin") == 0 || stat(path, &st) != 0 || !keeps_data(&st)) return OK;
    int rc = check_file(o, path);
    if (!rc && ckpt_open(&c, path, &unread) == OK)
        for (uint32_t i = 0, last = UINT32_MAX; i < ckpt_count(c) && !rc; last = ckpt_at(c, i++)->file)
            if (ckpt_at(c, i)->file != last) rc = check_file(o, ckpt_file(c, ckpt_at(c, i)->file));
    char *dir = S_ISDIR(st.st_mode) ? mem_str(path) : file_dir(path);
    if (!rc) rc = dir ? check_beside(o, c ? ckpt_dir(c) : dir) : err_memory(o->e, NULL);
    ckpt_close(c);
    mem_free(dir);
    return rc;
}

static int check_spec(const output *o, const char *path, int depth)
{
    static const char *const named[][2] = {
        {"model", "path"}, {"model", "config"}, {"tokenizer", "path"}, {"model", "base"}};
    spec *s;
    err unread = {0};
    const char *file;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return OK; /* a built-in spec, or a pipe */
    int rc = check_file(o, path);
    if (rc || spec_load(&s, path, NULL, &unread)) return rc;
    for (size_t i = 0; i < sizeof named / sizeof *named && !rc; i++) {
        if (spec_path(s, named[i][0], named[i][1], &file, &unread) || !file) continue;
        bool base = strcmp(named[i][1], "base") == 0;
        if (!base) rc = check_model(o, file);
        else if (depth < SPEC_DEPTH_MAX) rc = check_spec(o, file, depth + 1);
    }
    spec_free(s);
    return rc;
}

static int check_input(const output *o, param_path kind, const char *value)
{
    if (kind == PATH_IDS) return value[0] == '@' ? check_file(o, value + 1) : OK;
    if (kind == PATH_FILE) return check_file(o, value);
    bool is_spec = kind == PATH_SPEC || str_ends(value, ".ini") || str_ends(value, ".json"); /* --against takes both */
    int rc = is_spec ? check_spec(o, value, 0) : OK;
    return rc || kind == PATH_SPEC ? rc : check_model(o, value);
}

/* The path that row i of a group got, NULL: none. */
static const char *path_of(const invocation *v, const flag_group *g, size_t i)
{
    return g->rows[i].path ? *(const char **)((char *)v->options + g->offset + g->rows[i].offset) : NULL;
}

static bool is_output(const param *row) { return row->path == PATH_OUT || row->path == PATH_EXPORT; }

/* Whether an output that is not there yet can be made: better told now than after the work. */
static int check_folder(const output *o, bool makes_folders)
{
    char *dir = file_dir(o->path);
    int rc = OK;
    for (char *above; makes_folders && dir && access(dir, F_OK) && errno == ENOENT; dir = above) {
        above = file_dir(dir);
        mem_free(dir);
    }
    if (!dir) rc = err_memory(o->e, NULL);
    else if (access(dir, W_OK)) rc = err_set(o->e, ERR_IO, "%s %s: %s: %s", o->flag, o->path, dir, strerror(errno));
    mem_free(dir);
    return rc;
}

static int check_output(const invocation *v, const param *row, const char *path, err *e)
{
    output o = {.path = path, .e = e, .reader = "standard input"};
    char key[80];
    struct stat in;
    if (row->alias && !row->alias[1]) snprintf(o.flag, sizeof o.flag, "-%s", row->alias);
    else snprintf(o.flag, sizeof o.flag, "--%.70s", param_spell(row->key, key));
    if (stat(path, &o.id) != 0) return check_folder(&o, row->path == PATH_EXPORT && !str_ends(path, ".gguf"));
    if (!keeps_data(&o.id)) return OK;
    if (fstat(0, &in) == 0 && S_ISREG(in.st_mode) && is_same_file(&in, &o.id))
        return err_set(e, ERR_USAGE, "%s %s: would overwrite what standard input reads", o.flag, path);
    int rc = OK;
    for (const flag_group *g = v->cmd->flags; g && g->title && !rc; g++)
        for (size_t i = 0; i < *g->n && !rc; i++) {
            const char *input = is_output(&g->rows[i]) ? NULL : path_of(v, g, i);
            if (!input) continue;
            snprintf(o.reader, sizeof o.reader, "--%s", param_spell(g->rows[i].key, key));
            rc = check_input(&o, g->rows[i].path, input);
        }
    for (int i = v->cmd->first_file; i && i < v->n_operand && !rc; i++) {
        snprintf(o.reader, sizeof o.reader, "%s %.200s", v->cmd->name, v->operand[i - 1]);
        rc = check_input(&o, PATH_SPEC, v->operand[i]);
    }
    return rc;
}

int output_check(const invocation *v, err *e)
{
    int rc = OK;
    for (const flag_group *g = v->cmd->flags; g && g->title && !rc; g++)
        for (size_t i = 0; i < *g->n && !rc; i++) {
            const char *path = is_output(&g->rows[i]) ? path_of(v, g, i) : NULL;
            if (path) rc = check_output(v, &g->rows[i], path, e);
        }
    return rc;
}
