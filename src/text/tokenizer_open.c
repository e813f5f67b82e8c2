/* tokenizer_open.c - finds out what kind of tokenizer file a path is, by content, and calls its loader. */
#include "text/tokenizer_parts.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

static int load_json(tokenizer *t, span file, const char *path, err *e)
{
    json *root;
    int rc = json_parse(&root, file, path, e);
    if (rc) return rc;
    if (json_get(root, "model")) rc = load_hf_json(t, root, path, e);
    else rc = err_set(e, ERR_FORMAT, "%s: a JSON file, but no tokenizer.json (no \"model\") and no vocab.json", path);
    json_free(root);
    return rc;
}

static int load_file(tokenizer *t, const char *path, const char *pre, err *e)
{
    file_mapping *m;
    int rc = file_map(&m, path, e);
    if (rc) return rc;
    span file = file_bytes(m);
    size_t blank = 0;
    while (blank < file.n &&
           (file.p[blank] == ' ' || file.p[blank] == '\n' || file.p[blank] == '\r' || file.p[blank] == '\t'))
        blank++;
    if (file.n >= 2 && file.p[0] == 0x1f && file.p[1] == 0x8b)
        rc = err_set(e, ERR_FORMAT, "%s: compressed with gzip: unpack it first", path);
    else if (blank < file.n && file.p[blank] == '{') rc = load_json(t, file, path, e);
    else if (llama2c_probe(file)) rc = load_llama2c(t, file, path, e);
    else if (spm_probe(file)) rc = load_spm(t, file, path, e);
    else if (tiktoken_probe(file)) rc = load_tiktoken(t, file, path, pre, e);
    else rc = err_set(e, ERR_FORMAT, "%s: not a tokenizer file of a kind that is known", path);
    if (!rc && file_torn(m)) rc = err_set(e, ERR_IO, "%s: shrank while it was read", path);
    file_unmap(m);
    return rc;
}

static int load_folder(tokenizer *t, const char *path, const char *pre, err *e)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file = file_join(path, names[i]);
        if (!file) return err_set(e, ERR_MEMORY, "%s: out of memory", path);
        bool there = file_exists(file);
        int rc = there ? load_file(t, file, pre, e) : OK;
        mem_free(file);
        if (there) return rc;
    }
    return err_set(e, ERR_NOT_FOUND,
                   "%s: no tokenizer file in this folder (tokenizer.json, tokenizer.model, vocab.json, vocab.txt, …)",
                   path);
}

int tokenizer_open(tokenizer **out, const char *path, const char *pre, err *e)
{
    tokenizer *t = *out = NULL;
    if (!(t = tokenizer_new())) return err_set(e, ERR_MEMORY, "out of memory");
    int rc = file_is_dir(path) ? load_folder(t, path, pre, e) : load_file(t, path, pre, e);
    if (rc) tokenizer_close(t);
    else *out = t;
    return rc;
}
