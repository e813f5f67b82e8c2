/* tokenizer_choice.c - see tokenizer_choice.h. */
#include "app/tokenizer_choice.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/span.h"
#include "models/model.h"
#include "text/tokenizer_open.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int of_spec(tokenizer **out, const engine_options *o, err *e)
{
    model *m;
    model_options mo = {.spec_path = o->spec, .model_path = o->model, .ignored_keys = o->ignore_key};
    int rc = model_open(&m, &mo, e);
    if (rc) return rc;
    const char *pre = o->pre ? o->pre : m->tokenizer_pre;
    rc = m->tokenizer_path ? tokenizer_open(out, m->tokenizer_path, pre, e)
                           : tokenizer_of_model(out, m->weights, pre, e);
    model_close(m);
    return rc;
}

/* A self-contained file's spec may name the pattern. */
static int of_checkpoint(tokenizer **out, const engine_options *o, err *e)
{
    ckpt *c;
    int rc = ckpt_open(&c, o->model, e);
    if (rc) return rc;
    rc = ckpt_own_spec(c) ? of_spec(out, o, e) : tokenizer_of_model(out, c, o->pre, e);
    ckpt_close(c);
    return rc;
}

int tokenizer_choose(tokenizer **out, const engine_options *o, err *e)
{
    if (o->tokenizer) return tokenizer_open(out, o->tokenizer, o->pre, e);
    bool plain = o->model && !o->spec && strcmp(o->model, "builtin") != 0;
    if (plain && file_is_dir(o->model)) { /* needs no weights */
        err none = {0};
        if (tokenizer_open(out, o->model, o->pre, &none) != ERR_NOT_FOUND) return err_copy(e, &none);
    }
    return plain ? of_checkpoint(out, o, e) : of_spec(out, o, e);
}

int tokenizer_choose_target(tokenizer **out, const engine_options *o, err *e)
{
    const char *folder = o->tokenizer ? o->tokenizer : o->model;
    if (!folder) return err_set(e, ERR_USAGE, "--target needs a model's folder: give --model or --tokenizer");
    return tokenizer_open_target(out, folder, e);
}

int tokenizer_missing(const engine *g, const char *instead, err *e)
{
    char *dir = file_dir(engine_describe(g)->path), near[600] = "";
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *f; d && !*near && (f = readdir(d));)
        if (strncmp(f->d_name, "tok", 3) == 0 && (str_ends(f->d_name, ".bin") || str_ends(f->d_name, ".model")))
            snprintf(near, sizeof near, " (beside it lies %s)", f->d_name);
    if (d) closedir(d);
    mem_free(dir);
    return err_set(e, ERR_USAGE, "this model has no tokenizer: give --tokenizer PATH%s%s", near, instead);
}

int jsonl_next(json **out, size_t *line, err *e)
{
    char *text = NULL;
    size_t cap = 0;
    char where[40];
    ssize_t n = getline(&text, &cap, stdin);
    int rc = n > 0;
    snprintf(where, sizeof where, "line %zu", ++*line);
    if (rc) {
        int bad = json_parse(out, span_of(text, (size_t)n), where, e);
        if (bad) rc = bad;
    } else if (ferror(stdin)) {
        rc = err_set(e, ERR_IO, "reading standard input failed");
    }
    free(text);
    return rc;
}
