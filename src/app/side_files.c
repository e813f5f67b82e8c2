/* side_files.c - see side_files.h. A vocabulary inside a GGUF file travels as a GGUF file without tensors. */
#include "app/side_files.h"

#include "base/mem.h"
#include "io/self_contained.h"
#include "io/write_gguf.h"
#include "io/gguf.h"

#include <stdio.h>
#include <string.h>

/* DESCRIBES: the configuration of the model; an export writes its own. ALWAYS: tokenizer and generation settings.
 * REPLACED: sources of tokenizer.json, not needed beside it. OF_TARGET: not needed beside it either, unless the
 * target language has a tokenizer of its own. Names that end like others come first. */
enum { DESCRIBES, ALWAYS, REPLACED, OF_TARGET };
static const struct side_file {
    const char *name;
    int kind;
} side_files[] = {
    {"tokenizer_config.json", ALWAYS},
    {"special_tokens_map.json", ALWAYS},
    {"added_tokens.json", ALWAYS},
    {"generation_config.json", ALWAYS},
    {"chat_template.jinja", ALWAYS},
    {"chat_template.json", ALWAYS},
    {"target_tokenizer.json", ALWAYS},
    {"tokenizer.json", ALWAYS},
    {"tokenizer.model", REPLACED},
    {"spiece.model", REPLACED},
    {"merges.txt", REPLACED},
    {"vocab.txt", REPLACED},
    {"sentencepiece.bpe.model", REPLACED},
    {"spm.model", REPLACED},
    {"source.spm", REPLACED},
    {"vocab.joint.spm", REPLACED},
    {"tokenizer.bin", REPLACED},
    {"qwen.tiktoken", REPLACED},
    {"tokenizer.gguf", REPLACED},
    {"target_vocab.json", OF_TARGET},
    {"vocab.json", OF_TARGET},
    {"target.spm", OF_TARGET},
    {"config.json", DESCRIBES},
    {"modules.json", DESCRIBES},
    {"sentence_bert_config.json", DESCRIBES},
    {"config_sentence_transformers.json", DESCRIBES},
};
enum { SIDE_FILES = sizeof side_files / sizeof *side_files };

const char *side_file_name(size_t i)
{
    return i < SIDE_FILES && side_files[i].kind != DESCRIBES ? side_files[i].name : NULL;
}

static const char vocabulary[] = "tokenizer.gguf";

static int add_one(json *metadata, const file_folder *from, const char *name, err *e)
{
    folder_file f;
    if (!folder_has(from, name)) return OK;
    int rc = folder_open(&f, from, name, e);
    if (rc) return rc;
    rc = self_add_file(metadata, name, f.bytes, e);
    folder_file_close(&f);
    return rc;
}

static int add_kind(json *metadata, const file_folder *from, int kind, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < SIDE_FILES && !rc; i++)
        if (side_files[i].kind == kind) rc = add_one(metadata, from, side_files[i].name, e);
    return rc;
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < SIDE_FILES; i++)
        if (strcmp(side_files[i].name, name) == 0) return true;
    return false;
}

static int name_tokenizer(json *metadata, const char *name, err *e)
{
    return json_add_str(metadata, SELF_TOKENIZER, name) ? OK : err_memory(e, NULL);
}

/* named: the file that is the tokenizer, whatever is beside it; NULL: by the rules for a model's folder. */
static int add_folder(json *metadata, const file_folder *from, const char *named, err *e)
{
    bool whole = folder_has(from, "tokenizer.json") && (!named || strcmp(named, "tokenizer.json") == 0);
    int rc = add_kind(metadata, from, DESCRIBES, e);
    if (!rc) rc = add_kind(metadata, from, ALWAYS, e);
    if (!rc && !whole) rc = add_kind(metadata, from, REPLACED, e);
    if (!rc && (!whole || folder_has(from, "target.spm"))) rc = add_kind(metadata, from, OF_TARGET, e);
    if (!rc && named && !is_listed(named)) rc = add_one(metadata, from, named, e);
    return rc || !named ? rc : name_tokenizer(metadata, named, e);
}

/* The configuration of each module of sentence-transformers. */
static int add_modules(json *metadata, const model *m, err *e)
{
    char name[300];
    int rc = OK;
    err none = {0};
    const json *modules = ckpt_side_json(m->weights, "modules.json", &none);
    for (const json *one = json_first(modules); one && !rc; one = json_next(one)) {
        const char *path = json_str(json_get(one, "path"), "");
        bool plain = *path && path[0] != '.' && !strchr(path, '/');
        int n = snprintf(name, sizeof name, "%s/config.json", path);
        if (plain && n > 0 && (size_t)n < sizeof name) rc = add_one(metadata, ckpt_folder(m->weights), name, e);
    }
    return rc;
}

static int add_vocabulary(json *metadata, const ckpt *c, err *e)
{
    gguf_pairs p = {0};
    buf file = {0};
    const char *key;
    ckpt_array v;
    bool scalar;
    for (uint32_t i = 0; ckpt_meta_at(c, i, &key, &v, &scalar); i++) {
        uint64_t at = 0;
        if (strncmp(key, "tokenizer.", 10) != 0 && strcmp(key, "general.architecture") != 0) continue;
        span bytes = span_of(v.data, (size_t)v.bytes);
        if (!scalar) gguf_add_array(&p, key, (gguf_type)v.type, v.count, bytes);
        else gguf_add_value(&p, key, (gguf_type)v.type, v.type == GGUF_STRING ? ckpt_array_string(&v, &at) : bytes);
    }
    int rc = write_gguf_header(&file, &p, NULL, 0, e);
    if (!rc) rc = self_add_file(metadata, vocabulary, buf_span(&file), e);
    if (!rc) rc = name_tokenizer(metadata, vocabulary, e);
    gguf_pairs_free(&p);
    buf_free(&file);
    return rc;
}

/* A tokenizer that was named: that of a folder or a GGUF file, or one file with those beside it. */
static int add_given(json *metadata, const char *path, err *e)
{
    ckpt *c;
    err none = {0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (file_is_dir(path)) return add_folder(metadata, &(file_folder){.path = path}, NULL, e);
    if (ckpt_open(&c, path, &none) == OK) {
        const char *key;
        ckpt_array v;
        bool scalar, has_pairs = ckpt_meta_at(c, 0, &key, &v, &scalar);
        int rc = has_pairs ? add_vocabulary(metadata, c, e)
                           : add_folder(metadata, ckpt_folder(c), ckpt_tokenizer_file(c), e);
        ckpt_close(c);
        return rc;
    }
    char *dir = file_dir(path);
    if (!dir) return err_memory(e, NULL);
    const file_folder in = {.path = dir};
    int rc = OK;
    for (size_t i = 0; i < SIDE_FILES && !rc; i++) rc = add_one(metadata, &in, side_files[i].name, e);
    if (!rc && !is_listed(name)) rc = add_one(metadata, &in, name, e);
    mem_free(dir);
    return rc ? rc : name_tokenizer(metadata, name, e);
}

int side_files_add(json *metadata, const model *m, const engine_options *o, err *e)
{
    ckpt_array pieces;
    const char *given = o->tokenizer ? o->tokenizer : m->tokenizer_path;
    int rc = add_modules(metadata, m, e);
    if (rc) return rc;
    if (given) return add_given(metadata, given, e);
    if (ckpt_meta_array(m->weights, "tokenizer.ggml.tokens", &pieces)) return add_vocabulary(metadata, m->weights, e);
    return add_folder(metadata, ckpt_folder(m->weights), ckpt_tokenizer_file(m->weights), e);
}
