/* import.c - see import.h: one model of an inferflow_service.ini as a spec, where it lies and how it was run.
 *
 * Values of that file hold macros, ${name} or $(name): names the engine defines, `section/key`, or a key of the same
 * section; unknown ones stay as they are. Here they are expanded for paths only. */
#include "models/import/import.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "models/import/import_settings.h"
#include "models/import/import_write.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_MAX = 1 << 22, MACRO_DEPTH = 8, MACROS_MAX = 4096, VALUE_MAX = 1 << 14, PATH_PARTS = 256 };

/* ---- macros */

static const char *macro(const original_service *s, const char *section, const char *id, const char *name,
                         const char **in)
{
    *in = section;
    if (strcasecmp(name, "model_name") == 0) return id;
    if (strcasecmp(name, "data_root_dir") == 0 || strcasecmp(name, "data_home_dir") == 0)
        return *in = "app_env.base", service_value(s, "app_env.base", "data_root_dir");
    if (strcasecmp(name, "global_model_dir") == 0) return *in = "main", service_value(s, "main", "global_model_dir");
    const char *slash = strrchr(name, '/');
    if (!slash) return service_value(s, section, name);
    char of[200];
    snprintf(of, sizeof of, "%.*s", (int)(slash - name), name);
    return service_value(s, of, slash + 1);
}

static void expand(original_service *s, const char *section, const char *id, const char *text, int depth, buf *out)
{
    for (const char *p = text; *p && out->n < VALUE_MAX;) {
        const char *close = *p == '$' && (p[1] == '{' || p[1] == '(') ? strchr(p, p[1] == '{' ? '}' : ')') : NULL;
        char name[200];
        if (!close || (size_t)(close - p) - 2 >= sizeof name) {
            buf_byte(out, (uint8_t)*p++);
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(close - p) - 2, p + 2);
        p = close + 1;
        const char *in, *value;
        if (strcasecmp(name, "config_dir") == 0 || strcasecmp(name, "app_dir") == 0) buf_printf(out, "%s/", s->dir);
        else if ((value = macro(s, section, id, name, &in)) && depth < MACRO_DEPTH && s->expanded++ < MACROS_MAX)
            expand(s, in, id, value, depth + 1, out);
        else buf_str(out, name);
    }
}

/* "a//b/../c/" -> "a/c": their macros build paths through folders that need not exist. */
static void tidy_path(char *path)
{
    const char *part[PATH_PARTS];
    size_t length[PATH_PARTS], n = 0;
    bool rooted = *path == '/';
    for (const char *p = path; *p;) {
        size_t k = strcspn(p, "/");
        bool up = k == 2 && p[0] == '.' && p[1] == '.';
        bool can_go_up = n && !(length[n - 1] == 2 && memcmp(part[n - 1], "..", 2) == 0);
        if (up && can_go_up) n--;
        else if (k && !(k == 1 && *p == '.') && n < PATH_PARTS) part[n] = p, length[n++] = k;
        p += k + (p[k] == '/');
    }
    size_t at = rooted;
    for (size_t i = 0; i < n; i++) {
        memmove(path + at, part[i], length[i]);
        at += length[i];
        if (i + 1 < n) path[at++] = '/';
    }
    path[at] = 0;
}

/* A path key of a model's section, expanded; relative ones start from `base`. NULL and an error: out of memory. */
static char *path_of(original_service *s, const char *section, const char *id, const char *text, const char *base,
                     err *e)
{
    buf out = {0};
    expand(s, section, id, text, 0, &out);
    for (size_t i = 0; i < out.n; i++)
        if (out.p[i] == '\\') out.p[i] = '/'; /* written on Windows */
    char *full = out.bad                          ? NULL
                 : base && *buf_cstr(&out) != '/' ? arena_printf(&s->mem, "%s/%s", base, buf_cstr(&out))
                                                  : arena_str(&s->mem, buf_cstr(&out));
    buf_free(&out);
    if (full) tidy_path(full);
    else err_memory(e, "a configuration");
    return full;
}

/* ---- which model */

/* Ids of the list, split at ',' and ';'; the only one goes to *id. */
static int active_models(const original_service *s, char *id, size_t cap, buf *all)
{
    const char *list = service_value(s, "transformer_engine", "models");
    int n = 0;
    for (const char *p = list ? list : ""; *p;) {
        size_t k = strcspn(p, ",;"), from = 0, to = k;
        while (from < to && isspace((unsigned char)p[from])) from++;
        while (to > from && isspace((unsigned char)p[to - 1])) to--;
        if (to > from) {
            snprintf(id, cap, "%.*s", (int)(to - from), p + from);
            buf_printf(all, "%s%s", n++ ? ", " : "", id);
        }
        p += k + (p[k] != 0);
    }
    return n;
}

static int unknown_model(const original_service *s, const char *id, err *e)
{
    buf all = {0};
    const char *last = "";
    for (size_t i = 0; i < s->n; i++) {
        const char *section = s->rows[i].section;
        if (strncasecmp(section, "model.", 6) != 0 || strcasecmp(section, last) == 0) continue;
        buf_printf(&all, "%s%s", all.n ? ", " : "", section + 6);
        last = section;
    }
    int rc = err_set(e, ERR_USAGE, "%s: no section [model.%.80s]; there are: %.300s", s->path, id, buf_cstr(&all));
    buf_free(&all);
    return rc;
}

static int choose_model(const original_service *s, const char *asked, char *id, size_t cap, err *e)
{
    char section[220];
    buf all = {0};
    int rc = OK, n = asked ? 1 : active_models(s, id, cap, &all);
    if (asked) snprintf(id, cap, "%s", asked);
    if (n != 1)
        rc = err_set(e, ERR_USAGE, "%s: [transformer_engine] models names %s%.300s: choose one with --name", s->path,
                     n ? "several: " : "none", buf_cstr(&all));
    buf_free(&all);
    snprintf(section, sizeof section, "model.%s", id);
    return rc ? rc : service_value(s, section, "model_dir") ? OK : unknown_model(s, id, e);
}

/* ---- the door */

static int convert_model(original_service *s, const char *asked, const char *model, const ckpt *weights, buf *out,
                         err *e)
{
    char id[200], section[220];
    int rc = choose_model(s, asked, id, sizeof id, e);
    if (rc) return rc;
    snprintf(section, sizeof section, "model.%s", id);
    const char *file = service_value(s, section, "model_specification_file");
    if (!file) file = service_value(s, section, "model_spec_file");
    if (!file) return err_set(e, ERR_FORMAT, "%s: [%s] has no model_specification_file", s->path, section);
    char *dir = path_of(s, section, id, service_value(s, section, "model_dir"), s->dir, e);
    char *spec = dir ? path_of(s, section, id, file, dir, e) : NULL;
    if (!spec) return ERR_MEMORY;
    buf text = {0}, generate = {0}, settings = {0}, remarks = {0};
    buf_printf(&remarks, "# [model.%s] of %s\n", id, s->path);
    rc = service_settings(s, section, &generate, &settings, &remarks, e);
    if (!rc) rc = file_read_text(&text, spec, FILE_MAX, e);
    if (!rc && (generate.bad || settings.bad || remarks.bad)) rc = err_memory(e, "a configuration");
    import_place place = {.dir = dir,
                          .model = model,
                          .weights = weights,
                          .name = id,
                          .generate = buf_cstr(&generate),
                          .settings = buf_cstr(&settings),
                          .remarks = buf_cstr(&remarks)};
    if (!rc) rc = import_model_spec(buf_span(&text), spec, &place, out, e);
    buf_free(&text);
    buf_free(&generate);
    buf_free(&settings);
    buf_free(&remarks);
    return rc;
}

/* The folder of a file, in full: what is written must hold wherever it ends up. */
static char *folder_of(const char *path, err *e)
{
    char *dir = file_dir(path), *full = dir ? realpath(dir, NULL) : NULL;
    mem_free(dir);
    if (!full) err_set(e, ERR_NOT_FOUND, "%s: its folder cannot be found", path);
    return full;
}

int import_service_text(span text, const char *path, const char *dir, const char *id, const char *model,
                        const ckpt *weights, buf *out, err *e)
{
    original_service s = {.path = path, .dir = dir};
    int rc = service_read(&s, text, e);
    if (!rc) rc = convert_model(&s, id, model, weights, out, e);
    service_free(&s);
    return rc;
}

int import_file(const char *path, const char *id, const char *model, const ckpt *weights, buf *out, err *e)
{
    buf text = {0};
    int rc = file_read_regular(&text, path, FILE_MAX, e);
    span body = buf_span(&text);
    if (!rc) rc = utf8_unmark(&body, path, e);
    char *dir = rc ? NULL : folder_of(path, e);
    if (!rc && !dir) rc = e->code;
    bool is_json = false, comment = false;
    for (size_t i = 0; i < body.n && !is_json; i++) {
        if (body.p[i] == '\n') comment = false;
        else if (body.p[i] == '#') comment = true;
        else if (!comment && !isspace(body.p[i])) {
            is_json = body.p[i] == '{';
            break;
        }
    }
    import_place place = {
        .dir = dir, .model = model, .weights = weights, .generate = "", .settings = "", .remarks = ""};
    if (!rc && is_json && id)
        rc = err_set(e, ERR_USAGE, "%s is one model's file: --name chooses among those of a service", path);
    if (!rc && is_json) rc = import_model_spec(buf_span(&text), path, &place, out, e);
    else if (!rc) rc = import_service_text(buf_span(&text), path, dir, id, model, weights, out, e);
    buf_free(&text);
    free(dir);
    return rc;
}
