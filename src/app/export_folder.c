/* export_folder.c - see export_folder.h. */
#include "app/export_folder.h"

#include "app/checked_file.h"
#include "app/side_files.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/span.h"
#include "io/write_safetensors.h"
#include "text/write_hf_tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char weights_name[] = "model.safetensors", mark[] = "written_by", writer[] = "inferflow export",
                  stage_prefix[] = ".export.";

/* ---- files beside the weights */

static int write_bytes(const char *dir, const char *name, span bytes, err *e)
{
    file_out *f;
    char *path = file_join(dir, name);
    if (!path) return err_memory(e, NULL);
    int rc = file_create(&f, path, e);
    if (!rc) {
        rc = file_write(f, bytes.p, bytes.n, e);
        if (rc) file_abandon(f);
        else rc = file_commit(f, e);
    }
    mem_free(path);
    return rc;
}

static int copy_file(const char *from, const char *dir, const char *name, err *e)
{
    file_mapping *m;
    int rc = file_map(&m, from, e);
    if (rc) return rc;
    rc = write_bytes(dir, name, file_bytes(m), e);
    file_unmap(m);
    return rc;
}

/* The name of a tokenizer file in the folder: its own if that is a usual one, else the usual one of its kind. */
static const char *usual_name(const char *path)
{
    const char *name;
    for (size_t i = 0; (name = side_file_name(i)); i++)
        if (str_ends(path, name)) return name;
    return str_ends(path, ".json") ? "tokenizer.json" : str_ends(path, ".bin") ? "tokenizer.bin" : "tokenizer.model";
}

static int copy_from_folder(const char *from, const char *dir, int *copied, err *e)
{
    int rc = OK;
    const char *name;
    for (size_t i = 0; (name = side_file_name(i)) && !rc; i++) {
        char *path = file_join(from, name);
        if (!path) return err_memory(e, NULL);
        if (file_exists(path) && !(rc = copy_file(path, dir, name, e))) ++*copied;
        mem_free(path);
    }
    return rc;
}

static int copy_tokenizer(const model *m, const engine_options *o, const char *dir, int *copied, err *e)
{
    const char *given = o->tokenizer ? o->tokenizer : m->tokenizer_path;
    if (given && !file_is_dir(given)) {
        *copied = 1;
        return copy_file(given, dir, usual_name(given), e);
    }
    const char *from = given ? given : ckpt_dir(m->weights);
    bool folder = given || (from[0] && !ckpt_describes_itself(m->weights));
    return folder ? copy_from_folder(from, dir, copied, e) : OK;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    bool there = path && file_exists(path);
    mem_free(path);
    return there;
}

/* Writes tokenizer.json for a tokenizer that came from another kind of file. */
static int make_tokenizer(const engine_options *o, const char *dir, bool copied, err *e)
{
    tokenizer *t;
    buf file = {0}, config = {0};
    err why = {0};
    int rc = tokenizer_choose(&t, o, &why);
    if (!rc) {
        rc = write_hf_tokenizer(t, &file, &config, &why);
        tokenizer_close(t);
    }
    if (rc == ERR_NOT_FOUND) {
        if (!copied) log_line(LOG_WARN, "the folder will hold no tokenizer: %s", why.msg);
        rc = OK;
    } else if (rc) {
        err_copy(e, &why);
    } else {
        rc = write_bytes(dir, "tokenizer.json", buf_span(&file), e);
        if (!rc && !has_file(dir, "tokenizer_config.json"))
            rc = write_bytes(dir, "tokenizer_config.json", buf_span(&config), e);
    }
    buf_free(&file);
    buf_free(&config);
    return rc;
}

static int write_tokenizer(const model *m, const engine_options *o, const char *dir, err *e)
{
    int copied = 0, rc = copy_tokenizer(m, o, dir, &copied, e);
    return rc || has_file(dir, "tokenizer.json") ? rc : make_tokenizer(o, dir, copied, e);
}

/* Makes a folder and the missing ones above it. */
static int make_folder(const char *dir, err *e)
{
    if (mkdir(dir, 0777) == 0 || errno == EEXIST) return OK;
    char *above = errno == ENOENT ? file_dir(dir) : NULL;
    bool has_above = above && strcmp(above, dir) != 0 && strcmp(above, ".") != 0;
    int rc = has_above ? make_folder(above, e) : OK;
    mem_free(above);
    if (rc) return rc;
    return mkdir(dir, 0777) == 0 || errno == EEXIST ? OK : err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
}

/* Copies `folder`/`name` of the model, if it is there; folder "": beside the weights. */
static int copy_side(const model *m, const char *folder, const char *name, const char *dir, err *e)
{
    char *inside = *folder ? file_join(folder, name) : mem_str(name);
    char *from = inside ? file_join(ckpt_dir(m->weights), inside) : NULL, *to = file_join(dir, folder);
    int rc = from && to ? OK : err_memory(e, NULL);
    if (!rc && file_exists(from)) {
        if (*folder) rc = make_folder(to, e);
        if (!rc) rc = copy_file(from, dir, inside, e);
    }
    mem_free(inside);
    mem_free(from);
    mem_free(to);
    return rc;
}

/* Copies the files that define pooling: modules.json, the files beside it, and the configuration and weights of each
 * module that is in a folder of its own. */
static int copy_modules(const model *m, const char *dir, err *e)
{
    static const char *const files[] = {"modules.json", "sentence_bert_config.json",
                                        "config_sentence_transformers.json"};
    static const char *const of_module[] = {"config.json", "model.safetensors", "pytorch_model.bin"};
    int rc = OK;
    if (!m->texts.found) return OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !rc; i++) rc = copy_side(m, "", files[i], dir, e);
    const json *modules = ckpt_side_json(m->weights, "modules.json", e);
    for (const json *one = json_first(modules); one && !rc; one = json_next(one)) {
        const char *folder = json_str(json_get(one, "path"), "");
        if (!*folder || strchr(folder, '/') || folder[0] == '.') continue;
        for (size_t i = 0; i < sizeof of_module / sizeof *of_module && !rc; i++)
            rc = copy_side(m, folder, of_module[i], dir, e);
    }
    return rc;
}

/* Copies the Python files of a family that transformers does not have (auto_map in config.json). */
static int copy_code(const model *m, const json *config, const char *dir, err *e)
{
    if (!json_first(json_get(config, "auto_map")) || ckpt_folder(m->weights)->held) return OK;
    DIR *d = opendir(ckpt_dir(m->weights));
    int rc = OK;
    for (struct dirent *f; d && !rc && (f = readdir(d));)
        if (str_ends(f->d_name, ".py")) rc = copy_side(m, "", f->d_name, dir, e);
    if (d) closedir(d);
    return rc;
}

static int write_all(const model *m, const engine_options *o, const exporter *x, const char *dir, err *e)
{
    size_t n;
    buf text = {0};
    const write_tensor *t = export_tensors(x, &n);
    json *metadata = json_new_object();
    char *path = file_join(dir, weights_name);
    bool made = path && json_add_str(metadata, "format", "pt") && json_add_str(metadata, mark, writer) &&
                json_print(&text, export_config(x), true);
    int rc = made ? OK : err_memory(e, NULL);
    if (!rc) rc = write_safetensors(path, t, n, metadata, e);
    if (!rc) rc = write_bytes(dir, "config.json", buf_span(&text), e);
    if (!rc) rc = copy_modules(m, dir, e);
    if (!rc) rc = copy_code(m, export_config(x), dir, e);
    if (!rc) rc = write_tokenizer(m, o, dir, e);
    json_free(metadata);
    mem_free(path);
    buf_free(&text);
    return rc;
}

/* ---- the target */

/* Files that an export may write: those of an earlier one must not stay beside it. */
static bool is_part(const char *name)
{
    static const char *const others[] = {weights_name, "config.json", "modules.json", "sentence_bert_config.json",
                                         "config_sentence_transformers.json"};
    const char *side;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0) return true;
    for (size_t i = 0; (side = side_file_name(i)); i++)
        if (strcmp(name, side) == 0) return true;
    return false;
}

/* Other files that readers of a folder may take for its weights or their index. */
static bool is_weights(const char *name)
{
    static const char *const endings[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends(name, endings[i])) return strcmp(name, weights_name) != 0 && !is_part(name);
    return false;
}

static bool was_exported(const char *dir)
{
    err unread = {0};
    ckpt *c = NULL;
    char *path = file_join(dir, weights_name);
    bool yes = path && file_exists(path) && ckpt_open(&c, path, &unread) == OK &&
               strcmp(json_str(json_get(ckpt_metadata(c), mark), ""), writer) == 0;
    ckpt_close(c);
    mem_free(path);
    return yes;
}

static int check_target(const char *dir, err *e)
{
    bool ours = was_exported(dir);
    DIR *d = opendir(dir);
    int rc = d ? OK : err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *f; !rc && (f = readdir(d));)
        if (is_weights(f->d_name) || (is_part(f->d_name) && !ours))
            rc = err_set(e, ERR_USAGE,
                         "-o %s: holds %s, which no export wrote and which would be taken for part of the model; name "
                         "another folder, or remove it",
                         dir, f->d_name);
    if (d) closedir(d);
    return rc;
}

/* Removes a folder that was made here, with what is in it. */
static void remove_made(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        char *path = strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0 ? NULL : file_join(dir, f->d_name);
        if (path && unlink(path) != 0) remove_made(path);
        mem_free(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

/* Moves files to their places, those of subfolders into folders of the same name. */
static int move_all(const char *from, const char *to, err *e)
{
    DIR *d = opendir(from);
    int rc = d ? make_folder(to, e) : err_set(e, ERR_IO, "%s: %s", from, strerror(errno));
    for (struct dirent *f; !rc && (f = readdir(d));) {
        if (strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0) continue;
        char *a = file_join(from, f->d_name), *b = file_join(to, f->d_name);
        if (!a || !b) rc = err_memory(e, NULL);
        else if (file_is_dir(a)) rc = move_all(a, b, e);
        else if (rename(a, b) != 0) rc = err_set(e, ERR_IO, "%s: %s", b, strerror(errno));
        mem_free(a);
        mem_free(b);
    }
    if (d) closedir(d);
    return rc;
}

/* Removes files of an earlier export that this one does not have. */
static int remove_earlier(const char *dir, const char *stage, err *e)
{
    DIR *d = opendir(dir);
    int rc = d ? OK : err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *f; !rc && (f = readdir(d));) {
        if (!is_part(f->d_name) || has_file(stage, f->d_name)) continue;
        char *path = file_join(dir, f->d_name);
        if (!path) rc = err_memory(e, NULL);
        else if (unlink(path) != 0) rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        mem_free(path);
    }
    if (d) closedir(d);
    return rc;
}

int export_folder_write(const model *m, const engine_options *o, const exporter *x, const char *dir, err *e)
{
    bool there = file_exists(dir), made = false;
    char name[64];
    int rc = make_folder(dir, e);
    if (rc) return rc;
    rc = check_target(dir, e);
    if (!rc) remove_left(dir, stage_prefix, NULL, remove_made); /* stages of exports that were killed */
    snprintf(name, sizeof name, "%s%ld.XXXXXX", stage_prefix, (long)getpid());
    char *stage = file_join(dir, name);
    if (!rc && !stage) rc = err_memory(e, NULL);
    if (!rc && !(made = mkdtemp(stage) != NULL)) rc = err_set(e, ERR_IO, "%s: %s", dir, strerror(errno));
    if (!rc) rc = write_all(m, o, x, stage, e);
    if (!rc) rc = ckpt_check_torn(m->weights, e);
    if (!rc) rc = export_check(m, stage, e);
    if (!rc) rc = remove_earlier(dir, stage, e);
    if (!rc) rc = move_all(stage, dir, e);
    if (made) remove_made(stage);
    if (rc && !there) rmdir(dir); /* only if nothing else is in it */
    mem_free(stage);
    return rc;
}
