/* tokenizer_open.c - see tokenizer_open.h: looks at the first bytes and calls the loader.
 *
 * In a folder tokenizer.json precedes the files from which it can be made. */
#include "text/tokenizer_open.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/load_class.h"
#include "text/load_gguf_vocab.h"
#include "text/load_hf_json.h"
#include "text/load_llama2c.h"
#include "text/load_spm.h"
#include "text/load_spm_folder.h"
#include "text/load_tiktoken.h"
#include "text/load_vocab_files.h"
#include "text/tokenizer_build.h"

#include <string.h>

typedef struct opening {
    tokenizer *t;
    file_folder in;         /* where the files are */
    const char *path, *pre; /* path: for messages; pre: NULL ok */
    bool takes_pre;         /* the file leaves the pattern to `pre` */
    bool folder;            /* a model's folder: its classes' rules count */
    bool target;            /* the tokenizer of the model's output */
    tokenizer_config side;
    err *e;
} opening;

static int load_vocab_json(opening *o, const json *root, const char *path)
{
    static const char *const source[] = {"source.spm", "vocab.joint.spm", "sentencepiece.bpe.model", NULL},
                             *const target[] = {"target.spm", NULL};
    const char *const *models = o->target ? target : source;
    folder_file other = {0};
    while (*models && !folder_has(&o->in, *models)) models++;
    o->takes_pre = !*models;
    int rc = folder_open(&other, &o->in, *models ? *models : "merges.txt", o->e);
    if (!rc && !*models) rc = utf8_unmark(&other.bytes, other.path, o->e);
    if (!rc)
        rc = *models ? load_numbered_spm(o->t, root, other.bytes, other.path, &o->side, o->e)
                     : load_byte_bpe(o->t, root, other.bytes, path, o->pre, &o->side, o->e);
    folder_file_close(&other);
    return rc;
}

static int load_json(opening *o, span file, const char *path)
{
    json *root;
    int rc = json_parse(&root, file, path, o->e);
    if (rc) return rc;
    if (json_type(json_get(root, "model")) == JSON_OBJECT) {
        rc = load_hf_json(o->t, root, path, o->e);
        if (!rc) rc = tokenizer_config_apply(o->t, &o->side, o->e);
        if (!rc) class_frame_languages(o->t, &o->side);
    } else if (json_is_int(json_first(root))) {
        rc = load_vocab_json(o, root, path);
    } else {
        rc = err_set(o->e, ERR_FORMAT,
                     "%s: a JSON file, but no tokenizer.json (no \"model\") and no vocab.json (pieces and ids)", path);
    }
    json_free(root);
    return rc;
}

static int load_gguf_bytes(opening *o, span file, const char *path)
{
    ckpt *model;
    int rc = ckpt_open_bytes(&model, file, path, o->e);
    if (rc) return rc;
    rc = load_gguf_vocab(o->t, model, o->e);
    ckpt_close(model);
    return rc;
}

static int load_bytes(opening *o, span file, const char *path)
{
    size_t blank = 0;
    int rc = utf8_unmark(&file, path, o->e);
    if (rc) return rc;
    while (blank < file.n &&
           (file.p[blank] == ' ' || file.p[blank] == '\n' || file.p[blank] == '\r' || file.p[blank] == '\t'))
        blank++;
    if (file.n >= 2 && file.p[0] == 0x1f && file.p[1] == 0x8b)
        return err_set(o->e, ERR_FORMAT, "%s: compressed with gzip: unpack it first", path);
    if (span_starts(file, "GGUF")) return load_gguf_bytes(o, file, path);
    if (blank < file.n && file.p[blank] == '{') return load_json(o, file, path);
    if (llama2c_probe(file)) return load_llama2c(o->t, file, path, o->e);
    if (spm_probe(file) && o->folder) return load_spm_model(o->t, file, path, &o->side, o->e);
    if (spm_probe(file)) return load_spm(o->t, file, path, o->e);
    if (tiktoken_probe(file)) {
        o->takes_pre = true;
        return load_tiktoken(o->t, file, path, o->pre, o->e);
    }
    if (vocab_txt_probe(file)) return load_vocab_txt(o->t, file, path, &o->side, o->e);
    return err_set(o->e, ERR_FORMAT, "%s: not a tokenizer file of a kind that is known", path);
}

static int load_file(opening *o, const char *name)
{
    folder_file f;
    int rc = folder_open(&f, &o->in, name, o->e);
    if (rc) return rc;
    rc = load_bytes(o, f.bytes, f.path);
    if (!rc && folder_file_torn(&f)) rc = err_set(o->e, ERR_IO, "%s: shrank while it was read", f.path);
    if (!rc) tokenizer_config_guess_roles(o->t);
    folder_file_close(&f);
    return rc;
}

/* The first of some files that is there. */
static int load_first(opening *o, const char *const *names, size_t n, const char *none)
{
    for (size_t i = 0; i < n; i++)
        if (folder_has(&o->in, names[i])) return load_file(o, names[i]);
    return err_set(o->e, ERR_NOT_FOUND, "%s: %s", o->path, none);
}

static int load_folder(opening *o)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model",         "spiece.model", "vocab.json",
                                        "vocab.txt",      "sentencepiece.bpe.model", "spm.model",    "tokenizer.bin",
                                        "qwen.tiktoken",  "tokenizer.gguf"};
    return load_first(o, names, sizeof names / sizeof *names,
                      o->in.held ? "carries no tokenizer"
                                 : "no tokenizer in this folder (tokenizer.json, tokenizer.model, vocab.json, "
                                   "vocab.txt, …)");
}

static int load_target(opening *o)
{
    bool apart = json_bool(json_get(o->side.config, "separate_vocabs"), false);
    const char *const names[] = {"target_tokenizer.json", apart ? "target_vocab.json" : "vocab.json"};
    return load_first(o, names, folder_has(&o->in, "target.spm") ? 2 : 1,
                      "no tokenizer of its own for what the model writes");
}

/* `file`: the one of the folder that is the tokenizer; NULL: by the rules for a model's folder. */
static int open_in(opening *o, const char *file)
{
    o->folder = !file;
    int rc = tokenizer_config_read(&o->side, &o->in, o->e);
    if (!rc) rc = o->target ? load_target(o) : file ? load_file(o, file) : load_folder(o);
    tokenizer_config_free(&o->side);
    return rc;
}

static int open_path(opening *o)
{
    bool whole = o->target || file_is_dir(o->path);
    const char *slash = strrchr(o->path, '/');
    char *dir = whole ? folder_of_model(o->path) : file_dir(o->path);
    o->in = (file_folder){.path = dir};
    int rc = dir ? open_in(o, whole ? NULL : slash ? slash + 1 : o->path) : err_memory(o->e, o->path);
    mem_free(dir);
    return rc;
}

/* Hands the loaded tokenizer out, or frees it. */
static int finish_tokenizer(opening *o, int rc, tokenizer **out)
{
    *out = NULL;
    if (!rc) rc = tokenizer_complete(o->t, o->e);
    if (!rc && o->pre && !o->takes_pre)
        rc = err_set(
            o->e, ERR_USAGE,
            "--pre %.40s: %s says itself how it splits a text; --pre is for tiktoken rank files and vocab.json", o->pre,
            o->path);
    if (rc) tokenizer_close(o->t);
    else *out = o->t;
    return rc;
}

int tokenizer_open(tokenizer **out, const char *path, const char *pre, err *e)
{
    opening o = {.t = tokenizer_new(), .path = path, .pre = pre, .e = e};
    *out = NULL;
    return o.t ? finish_tokenizer(&o, open_path(&o), out) : err_memory(o.e, o.path);
}

int tokenizer_open_target(tokenizer **out, const char *path, err *e)
{
    opening o = {.t = tokenizer_new(), .path = path, .target = true, .e = e};
    *out = NULL;
    return o.t ? finish_tokenizer(&o, open_path(&o), out) : err_memory(o.e, o.path);
}

int tokenizer_of_model(tokenizer **out, const ckpt *model, const char *pre, err *e)
{
    ckpt_array pieces;
    bool gguf = ckpt_meta_array(model, "tokenizer.ggml.tokens", &pieces);
    opening o = {.t = tokenizer_new(), .path = ckpt_path(model), .in = *ckpt_folder(model), .pre = pre, .e = e};
    *out = NULL;
    if (!o.t) return err_memory(o.e, o.path);
    if (!gguf) o.path = o.in.path;
    return finish_tokenizer(&o, gguf ? load_gguf_vocab(o.t, model, e) : open_in(&o, ckpt_tokenizer_file(model)), out);
}

int tokenizer_target_of_model(tokenizer **out, const ckpt *model, err *e)
{
    opening o = {.t = tokenizer_new(), .in = *ckpt_folder(model), .target = true, .e = e};
    *out = NULL;
    if (!o.t) return err_memory(o.e, o.path);
    o.path = o.in.path;
    return finish_tokenizer(&o, open_in(&o, NULL), out);
}
