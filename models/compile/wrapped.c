/* wrapped.c - see wrapped.h. Names and keys as transformers 4 and 5 write them. */
#include "models/compile/wrapped.h"

#include "models/spec/spec_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const roots[] = {"text_config", "llm_config"};
/* longer ones first: one may begin with another */
static const char *const outer[] = {"model.language_model.", "language_model.", "model.text_model.", "text_model."};
/* what the class of the whole reads itself, before the text model's own value */
static const char *const of_the_whole[] = {"architectures",      "bos_token_id",           "eos_token_id",
                                           "pad_token_id",       "decoder_start_token_id", "torch_dtype",
                                           "quantization_config"};

const char *wrapped_root(const json *config)
{
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const json *text = json_get(config, roots[i]);
        if (json_type(text) == JSON_OBJECT && *json_str(json_get(text, "model_type"), "")) return roots[i];
    }
    return NULL;
}

/* Whether a spec goes into the object by itself: "text_config.hidden_size". */
static bool reads_into(const spec *s, const char *root)
{
    const size_t n = strlen(root);
    for (size_t i = 0; i < s->n; i++)
        for (const char *at = s->rows[i].text; (at = strstr(at, root)); at += n)
            if (at[n] == '.') return true;
    return false;
}

/* The object that the spec reads, or NULL. */
static const json *text_of(const spec *s, const json *config)
{
    const char *root = spec_text(s, "model", "root");
    if (!root && (root = wrapped_root(config)) && reads_into(s, root)) return NULL;
    const json *text = root ? json_path(config, root) : NULL;
    return json_type(text) == JSON_OBJECT ? text : NULL;
}

static bool is_of_the_whole(const char *key)
{
    for (size_t i = 0; i < sizeof of_the_whole / sizeof *of_the_whole; i++)
        if (strcmp(of_the_whole[i], key) == 0) return true;
    return false;
}

/* "hidden_size 4096, …": what the class has where its configuration is silent, which those of old wrappers are. */
static bool add_absent(json *made, const char *list)
{
    bool ok = true;
    for (span item; ok && list && list_next(&list, &item);) {
        const uint8_t *blank = memchr(item.p, ' ', item.n);
        char key[80];
        snprintf(key, sizeof key, "%.*s", (int)(blank ? (size_t)(blank - item.p) : item.n), (const char *)item.p);
        if (blank && !json_get(made, key)) ok = json_add_num(made, key, strtod((const char *)blank, NULL));
    }
    return ok;
}

int wrapped_config(json **out, const spec *s, const json *config, err *e)
{
    const json *text = text_of(s, config);
    *out = NULL;
    if (!text) return OK;
    json *made = json_new_object();
    bool ok = made != NULL;
    for (size_t i = 0; i < sizeof of_the_whole / sizeof *of_the_whole && ok; i++) {
        const json *own = json_get(config, of_the_whole[i]);
        if (json_type(own) == JSON_NULL) own = json_get(text, of_the_whole[i]);
        if (own) ok = json_add_copy(made, of_the_whole[i], own);
    }
    /* the head is the wrapper's; a wrapper that is silent leaves it to the tensors */
    const json *tied = json_get(config, "tie_word_embeddings");
    if (ok) ok = json_add_bool(made, "tie_word_embeddings", json_bool(tied, true));
    for (const json *m = json_first(text); m && ok; m = json_next(m))
        if (!is_of_the_whole(json_key(m)) && strcmp(json_key(m), "tie_word_embeddings") != 0)
            ok = json_add_copy(made, json_key(m), m);
    if (ok) ok = add_absent(made, spec_text(s, "model", "absent"));
    if (!ok) {
        json_free(made);
        return err_memory(e, "a configuration");
    }
    *out = made;
    return OK;
}

static bool has_behind(const ckpt *c, const char *prefix)
{
    for (uint32_t i = 0; i < ckpt_count(c); i++)
        if (strncmp(ckpt_at(c, i)->name, prefix, strlen(prefix)) == 0) return true;
    return false;
}

int wrapped_prefixes(const char **out, size_t cap, size_t *n, const ckpt *c, const char *own, arena *mem, err *e)
{
    *n = 0;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++) {
        span rest = span_str(own), part;
        if (!has_behind(c, outer[i])) continue;
        while (split_next(&rest, '|', &part)) {
            const uint8_t *dot = memchr(part.p, '.', part.n);
            const size_t skip = dot ? (size_t)(dot - part.p) + 1 : part.n;
            for (int k = 0; k < 2; k++) {
                const span tail = k ? span_of(part.p + skip, part.n - skip) : part;
                const char *full = arena_printf(mem, "%s%.*s", outer[i], (int)tail.n, (const char *)tail.p);
                if (!full) return err_memory(e, "tensors");
                if (tail.n && has_behind(c, full) && *n < cap) out[(*n)++] = full;
            }
        }
        if (*n < cap) out[(*n)++] = outer[i];
        return OK;
    }
    return OK;
}

bool wrapped_is_tower(const char *name, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return false;
    return n && strncmp(name, "lm_head", strlen("lm_head")) != 0;
}
