/* hub_choose.c - see hub_choose.h. Which file of a folder is the model is said by io/ckpt_pick.h, as for any folder. */
#define _GNU_SOURCE
#include "hub/hub_choose.h"

#include "base/mem.h"
#include "base/span.h"
#include "hub/hub_name.h"
#include "io/ckpt_pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What describes a model and its texts, beside weights that do not describe themselves. */
static const char *const side_files[] = {"config.json",
                                         "generation_config.json",
                                         "hf_quant_config.json",
                                         "quantize_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "added_tokens.json",
                                         "special_tokens_map.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "tokenizer.model",
                                         "spiece.model",
                                         "sentencepiece.bpe.model",
                                         "spm.model",
                                         "source.spm",
                                         "target.spm",
                                         "vocab.joint.spm",
                                         "vocab.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "target_vocab.json",
                                         "target_tokenizer.json",
                                         "qwen.tiktoken",
                                         "tokenizer.bin",
                                         "tiktoken.model",
                                         "modules.json",
                                         "sentence_bert_config.json",
                                         "config_sentence_transformers.json"};

static int add_file(hub_choice *c, const char *name, err *e)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->name[i], name) == 0) return OK;
    if (!mem_grow((void **)&c->name, &c->cap, c->n + 1, sizeof *c->name)) return err_memory(e, NULL);
    if (!(c->name[c->n] = mem_str(name))) return err_memory(e, NULL);
    c->n++;
    return OK;
}

void hub_choice_free(hub_choice *c)
{
    ckpt_names_free(c->name, c->n);
    *c = (hub_choice){0};
}

/* "1_Pooling/config.json", "2_Dense/model.safetensors": modules of sentence-transformers. */
static bool is_module_file(const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t digits = strspn(name, "0123456789");
    if (!slash || !digits || name[digits] != '_') return false;
    return strcmp(slash, "/config.json") == 0 || strcmp(slash, "/model.safetensors") == 0;
}

static bool is_side_file(const char *name)
{
    for (size_t i = 0; i < sizeof side_files / sizeof *side_files; i++)
        if (strcmp(name, side_files[i]) == 0) return true;
    return is_module_file(name);
}

static int add_sides(hub_choice *c, char *const *names, size_t n, err *e)
{
    int rc = OK;
    for (size_t i = 0; i < n && !rc; i++)
        if (is_side_file(names[i])) rc = add_file(c, names[i], e);
    return rc;
}

/* ---- GGUF */

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* "PREFIX-00002-of-00003.gguf": which part, and where its number is; 0: it is whole. */
static int part_of(const char *name, size_t *at)
{
    const size_t n = strlen(name), tail = strlen("-00001-of-00003.gguf");
    if (n <= tail || name[n - tail] != '-' || strncmp(name + n - 14, "-of-", 4) != 0) return 0;
    *at = n - tail + 1;
    const int k = atoi(name + *at);
    return strspn(name + *at, "0123456789") == 5 && k > 0 ? k : 0;
}

/* Whether it is a model, and not the second part of one. */
static bool is_gguf_model(const char *name)
{
    size_t at;
    const char *base = base_of(name);
    return str_ends(name, ".gguf") && part_of(name, &at) <= 1 && strncasecmp(base, "mmproj", 6) != 0 &&
           !strcasestr(base, "-mmproj") && !strcasestr(base, "imatrix");
}

/* Whether a word stands in the name, with marks around it; `open`: any letters may follow. Case does not count. */
static bool has_type(const char *name, const char *type, bool open)
{
    for (const char *at = name; (at = strcasestr(at, type)); at++) {
        const char end = at[strlen(type)];
        if ((at == name || strchr("-._/", at[-1])) && (open || (end && strchr("-./", end)))) return true;
    }
    return false;
}

/* The first of the models whose name has the type (NULL: any). */
static const char *find_gguf(char *const *names, size_t n, const char *type, bool open)
{
    for (size_t i = 0; i < n; i++)
        if (is_gguf_model(names[i]) && (!type || has_type(names[i], type, open))) return names[i];
    return NULL;
}

/* The file and its other parts. */
static int take_gguf(hub_choice *c, char *const *names, size_t n, const char *name, const char *what, err *e)
{
    size_t at;
    int rc = add_file(c, name, e), found = 1;
    const int parts = part_of(name, &at) ? atoi(name + at + 9) : 1;
    if (rc) return rc;
    c->model = c->name[c->n - 1];
    for (size_t i = 0; i < n && parts > 1 && !rc; i++) {
        size_t own;
        if (part_of(names[i], &own) < 2 || own != at || strncmp(names[i], name, at) != 0) continue;
        if (strcmp(names[i] + at + 5, name + at + 5) == 0) rc = add_file(c, names[i], e), found++;
    }
    if (!rc && found != parts)
        return err_set(e, ERR_NOT_FOUND, "%s: has %d of %d parts of %.200s", what, found, parts, name);
    return rc;
}

/* ---- */

/* One file by name: a GGUF file, or weights beside their configuration. */
static int take_named(hub_choice *c, char *const *names, size_t n, const char *name, const char *what, err *e)
{
    if (str_ends(name, ".gguf")) return take_gguf(c, names, n, name, what, e);
    int rc = add_sides(c, names, n, e);
    if (!rc) rc = add_file(c, name, e);
    if (!rc) c->model = c->name[c->n - 1];
    return rc;
}

/* The weights of the repository's own folder by the rules of folders; *found false: none but GGUF. */
static int take_folder(hub_choice *c, char *const *names, size_t n, bool *found, const char *what, err *e)
{
    char **own = mem_array(n + 1, sizeof *own);
    size_t count = 0;
    bool many;
    int rc = own ? OK : err_memory(e, NULL);
    for (size_t i = 0; i < n && !rc; i++)
        if (!strchr(names[i], '/') && names[i][0] != '.') {
            if (!(own[count] = mem_str(names[i]))) rc = err_memory(e, NULL);
            else count++;
        }
    const bool hit = !rc && ckpt_keep_model(own, &count, &many);
    *found = hit && !str_ends(own[0], ".gguf");
    if (*found && count > 1 && !many)
        rc = err_set(e, ERR_NOT_FOUND, "%s: has several models (%.200s, %.200s): %s:FILE names one", what, own[0],
                     own[1], what);
    if (*found && !rc) rc = add_sides(c, names, n, e);
    for (size_t i = 0; *found && i < count && !rc; i++) rc = add_file(c, own[i], e);
    if (!rc && *found && str_ends(own[0], ".index.json")) c->index = c->name[c->n - 1];
    ckpt_names_free(own, own ? count : 0);
    return rc;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int choose_sorted(hub_choice *out, char *const *names, size_t n, const char *pick, const char *what, err *e)
{
    bool found = false;
    for (size_t i = 0; i < n && *pick; i++)
        if (strcmp(names[i], pick) == 0) return take_named(out, names, n, pick, what, e);
    int rc = *pick ? OK : take_folder(out, names, n, &found, what, e);
    if (rc || found) return rc;
    const char *gguf = *pick ? find_gguf(names, n, pick, false) : find_gguf(names, n, "Q4_K_M", false);
    if (!*pick && !gguf) gguf = find_gguf(names, n, "Q4", true);
    if (!*pick && !gguf) gguf = find_gguf(names, n, NULL, false);
    if (gguf) return take_gguf(out, names, n, gguf, what, e);
    if (*pick) return err_set(e, ERR_NOT_FOUND, "%s: has no file %s, and no GGUF file of that type", what, pick);
    return err_set(e, ERR_NOT_FOUND, "%s: has no weights (looked for *.safetensors, pytorch_model*.bin, *.gguf)", what);
}

int hub_choose(hub_choice *out, char *const *names, size_t n, const char *pick, const char *what, err *e)
{
    *out = (hub_choice){0};
    char **sorted = mem_array(n + 1, sizeof *sorted);
    if (!sorted) return err_memory(e, NULL);
    if (n) memcpy(sorted, names, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    const int rc = choose_sorted(out, sorted, n, pick, what, e);
    mem_free(sorted);
    return rc;
}

int hub_choose_shards(hub_choice *c, const json *index, const char *what, err *e)
{
    char **names = NULL;
    size_t n = 0;
    int rc = ckpt_index_files(index, what, &names, &n, e);
    for (size_t i = 0; i < n && !rc; i++) {
        if (hub_name_stays(names[i])) rc = add_file(c, names[i], e);
        else rc = err_set(e, ERR_FORMAT, "%s: \"%.80s\" is not the name of a file", what, names[i]);
    }
    ckpt_names_free(names, n);
    return rc;
}
