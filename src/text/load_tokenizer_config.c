/* load_tokenizer_config.c - see load_tokenizer_config.h. */
#include "text/load_tokenizer_config.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/load_hf_steps.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_FILE_MAX = 64 << 20 };

/* Each role's key in the files, and the usual names of its token. */
static const struct {
    const char *key;
    const char *name[10];
} roles[TOKEN_ROLE_COUNT] = {
    [TOKEN_BOS] = {"bos_token",
                   {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|begin_of_sentence|>",
                    "<｜begin▁of▁sentence｜>"}},
    [TOKEN_EOS] = {"eos_token",
                   {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>", "<|end_of_sentence|>", "<｜end▁of▁sentence｜>",
                    "<|im_end|>"}},
    [TOKEN_UNK] = {"unk_token", {"<unk>", "[UNK]", "<UNK>"}},
    [TOKEN_PAD] = {"pad_token", {"<pad>", "[PAD]", "<|pad|>", "<PAD>"}},
    [TOKEN_SEP] = {"sep_token", {"[SEP]", "<sep>"}},
    [TOKEN_CLS] = {"cls_token", {"[CLS]", "<cls>"}},
    [TOKEN_MASK] = {"mask_token", {"[MASK]", "<mask>"}},
    [TOKEN_EOT] = {"eot_token",
                   {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>", "<|endofturn|>",
                    "<|END_OF_TURN_TOKEN|>", "<|return|>", "<turn|>"}},
};

static int read_one(json **out, const file_folder *in, const char *name, err *e)
{
    return folder_has(in, name) ? folder_json(out, in, name, CONFIG_FILE_MAX, e) : OK;
}

static int read_chat(char **out, const file_folder *in, err *e)
{
    static const char name[] = "chat_template.jinja";
    folder_file f;
    if (!folder_has(in, name)) return OK;
    int rc = folder_open(&f, in, name, e);
    if (rc) return rc;
    if (f.bytes.n > CONFIG_FILE_MAX) rc = err_set(e, ERR_LIMIT, "%s: larger than %d bytes", f.path, CONFIG_FILE_MAX);
    else rc = utf8_unmark(&f.bytes, f.path, e);
    if (!rc && !(*out = mem_strn((const char *)f.bytes.p, f.bytes.n))) rc = err_memory(e, f.path);
    folder_file_close(&f);
    return rc;
}

int tokenizer_config_read(tokenizer_config *s, const file_folder *in, err *e)
{
    *s = (tokenizer_config){0};
    int rc = read_one(&s->config, in, "tokenizer_config.json", e);
    if (!rc) rc = read_one(&s->special, in, "special_tokens_map.json", e);
    if (!rc) rc = read_one(&s->added, in, "added_tokens.json", e);
    if (!rc) rc = read_one(&s->model, in, "config.json", e);
    if (!rc) rc = read_one(&s->processor, in, "chat_template.json", e);
    return rc ? rc : read_chat(&s->chat, in, e);
}

void tokenizer_config_free(tokenizer_config *s)
{
    json_free(s->config);
    json_free(s->special);
    json_free(s->added);
    json_free(s->model);
    json_free(s->processor);
    mem_free(s->chat);
    *s = (tokenizer_config){0};
}

span tokenizer_config_class(const tokenizer_config *s)
{
    span name = span_str(json_str(json_get(s->config, "tokenizer_class"), ""));
    if (name.n > 4 && memcmp(name.p + name.n - 4, "Fast", 4) == 0) name.n -= 4;
    return name;
}

/* The text of a token that is written as "text" or as {"content": "text", ...}; NULL when it is neither. */
static const char *token_text(const json *j)
{
    return json_type(j) == JSON_OBJECT ? json_str(json_get(j, "content"), NULL) : json_str(j, NULL);
}

static hf_added token_of(const json *j, bool special)
{
    return (hf_added){.text = span_str(token_text(j) ? token_text(j) : ""),
                      .special = json_bool(json_get(j, "special"), special),
                      .normalized = json_bool(json_get(j, "normalized"), !special),
                      .single_word = json_bool(json_get(j, "single_word"), false),
                      .lstrip = json_bool(json_get(j, "lstrip"), false),
                      .rstrip = json_bool(json_get(j, "rstrip"), false)};
}

typedef struct numbered {
    int64_t id;
    const json *token;
} numbered;

static int by_id(const void *x, const void *y)
{
    const numbered *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int add_one(tokenizer *t, const hf_added *a, int64_t id, err *e)
{
    int32_t there = vocab_find(&t->voc, a->text);
    if (!a->text.n || (there < 0 && id < 0)) return OK;
    if (there < 0 && (id >= VOCAB_IDS_MAX || vocab_has(&t->voc, id)))
        return err_set(e, ERR_FORMAT, "added token \"%.*s\" with id %lld, which is another token's",
                       (int)(a->text.n < 60 ? a->text.n : 60), (const char *)a->text.p, (long long)id);
    return hf_add_token(t, a, there >= 0 ? there : (int32_t)id, e);
}

/* added_tokens_decoder {"id": {...}} or added_tokens.json {"text": id}, by id. */
static int add_numbered(tokenizer *t, const json *list, bool keyed_by_id, err *e)
{
    size_t n = json_count(list), k = 0;
    numbered *order = mem_array(n, sizeof *order);
    if (!order) return err_memory(e, "added tokens");
    for (const json *m = json_first(list); m; m = json_next(m), k++)
        order[k] = (numbered){keyed_by_id ? strtoll(json_key(m), NULL, 10) : json_int(m, -1), m};
    qsort(order, n, sizeof *order, by_id);
    int rc = OK;
    for (k = 0; k < n && !rc; k++) {
        hf_added a = keyed_by_id ? token_of(order[k].token, false)
                                 : (hf_added){.text = span_str(json_key(order[k].token)), .special = true};
        rc = add_one(t, &a, order[k].id, e);
    }
    mem_free(order);
    return rc;
}

int tokenizer_config_add_tokens(tokenizer *t, const tokenizer_config *s, err *e)
{
    const json *listed = json_get(s->config, "added_tokens_decoder");
    int rc = OK;
    if (listed) rc = add_numbered(t, listed, true, e);
    else if (s->added) rc = add_numbered(t, s->added, false, e);
    const json *sources[] = {s->config, s->special};
    for (int i = 0; i < 2 && !listed; i++) {
        for (int r = 0; r < TOKEN_ROLE_COUNT && !rc; r++) {
            hf_added a = token_of(json_get(sources[i], roles[r].key), true);
            a.special = true;
            a.normalized = false;
            rc = add_one(t, &a, -1, e);
        }
        for (const json *j = json_first(json_get(sources[i], "additional_special_tokens")); j && !rc;
             j = json_next(j)) {
            hf_added a = token_of(j, true);
            rc = add_one(t, &a, -1, e);
        }
    }
    return rc;
}

void tokenizer_config_guess_roles(tokenizer *t)
{
    for (int r = 0; r < TOKEN_ROLE_COUNT; r++)
        for (int k = 0; k < 10 && roles[r].name[k] && t->role[r] < 0; k++) {
            int32_t id = tokenizer_id(t, roles[r].name[k]);
            if (id >= 0 && (t->voc.flag[id] & PIECE_SPECIAL)) t->role[r] = id;
        }
}

/* A string, or a list of {"name", "template"} of which "default" is the one for chat. */
static const char *template_text(const json *j)
{
    const json *first = json_first(j), *chosen = first;
    if (json_type(j) == JSON_STRING) return json_str(j, NULL);
    for (const json *m = first; m; m = json_next(m))
        if (strcmp(json_str(json_get(m, "name"), ""), "default") == 0) chosen = m;
    return json_str(json_get(chosen, "template"), NULL);
}

int tokenizer_config_apply(tokenizer *t, const tokenizer_config *s, err *e)
{
    const json *sources[] = {s->config, s->special};
    for (int r = 0; r < TOKEN_ROLE_COUNT; r++)
        for (int i = 0; i < 2; i++) {
            const char *text = token_text(json_get(sources[i], roles[r].key));
            int32_t id = text ? tokenizer_id(t, text) : -1;
            if (id < 0) continue;
            t->role[r] = id;
            break;
        }
    tokenizer_config_guess_roles(t);
    t->cut_left = strcmp(json_str(json_get(s->config, "truncation_side"), "right"), "left") == 0;
    const char *chat = s->chat ? s->chat : template_text(json_get(s->config, "chat_template"));
    if (!chat) chat = template_text(json_get(s->processor, "chat_template"));
    if (!chat) return OK;
    mem_free(t->chat_template);
    t->chat_template = mem_str(chat);
    return t->chat_template ? OK : err_memory(e, "the chat template");
}
