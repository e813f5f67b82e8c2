/* derive_fit.c - see derive_fit.h. */
#include "models/derive/derive_fit.h"

#include "base/mem.h"
#include "models/compile/build.h"
#include "models/compile/module.h"
#include "models/compile/spec_unread.h"
#include "models/compile/wrapped.h"
#include "models/derive/derive_write.h"
#include "models/spec/spec_split.h"
#include "models/spec/spec_load.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_CTX = 8, NAMES_MAX = 512 };

/* ---- keys of the configuration */

typedef struct keys {
    const config_sources *from;
    spec *s;
    const char *seen[NAMES_MAX];
    int n, read, absent;
} keys;

static bool is_there(const keys *k, const char *name)
{
    char full[256];
    const char *colon = strchr(name, ':');
    if (!k->from->own) return json_path(k->from->hf, colon ? colon + 1 : name) != NULL;
    snprintf(full, sizeof full, "%s.%s", k->from->arch, colon + 1);
    return json_get(k->from->own, full) || json_get(k->from->own, colon + 1);
}

/* Words of options look like names. */
static bool is_word(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < module_count; i++)
        for (size_t k = 0; k < module_list[i]->n_params; k++) {
            const param *p = &module_list[i]->params[k];
            for (const char *w = p->type == PARAM_WORD ? p->words : ""; *w; w += strcspn(w, "|"), w += *w == '|')
                if (strcspn(w, "|") == n && memcmp(w, name, n) == 0) return true;
        }
    return false;
}

/* A name of the source that this checkpoint has: config.json's, or one of GGUF's. */
static void count_name(keys *k, const char *name)
{
    char head[64];
    const char *colon = strchr(name, ':'), *source = k->from->own ? k->from->source : "hf";
    size_t n = strcspn(name, ".");
    if (colon ? !span_is(span_of(name, (size_t)(colon - name)), source) : k->from->own != NULL) return;
    snprintf(head, sizeof head, "%.*s", (int)(n < 63 ? n : 63), name);
    if (!colon && (strcmp(name, "i") == 0 || (spec_find(k->s, "config", head) && !is_there(k, name)))) return;
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->seen[i], name) == 0) return;
    if (k->n == NAMES_MAX || is_word(name)) return;
    k->seen[k->n++] = name;
    if (is_there(k, name)) k->read++;
    else k->absent++;
}

static void count_names(keys *k, const expr *x)
{
    if (x->kind == EXPR_NAME) count_name(k, x->text);
    for (size_t i = 0; i < x->n_arg; i++) count_names(k, x->arg[i]);
}

static void count_keys(keys *k)
{
    for (size_t i = 0; i < k->s->n; i++) {
        const spec_row *r;
        const char *section = k->s->rows[i].section, *key = k->s->rows[i].key;
        bool layer = strncmp(section, "layer ", 6) == 0 && strcmp(key, "block") != 0;
        if (strcmp(section, "config") != 0 && !layer) continue;
        if (spec_value(k->s, section, key, &r, NULL) == OK && r && r->value) count_names(k, r->value);
    }
    for (size_t i = 0; i < k->s->n_slot; i++)
        for (size_t j = 0; j < k->s->slots[i].n; j++)
            if (k->s->slots[i].options[j].value) count_names(k, k->s->slots[i].options[j].value);
}

/* ---- names of tensors */

/* Whether `name` matches one of a [tensors] line, whose {…} are any number; `.weight` and `.bias` may follow. */
static bool name_matches(span pattern, const char *name)
{
    size_t i = 0;
    while (i < pattern.n) {
        if (pattern.p[i] == '{') {
            while (i < pattern.n && pattern.p[i] != '}') i++;
            i++;
            if (!isdigit((unsigned char)*name)) return false;
            while (isdigit((unsigned char)*name)) name++;
        } else if (*name++ != (char)pattern.p[i++]) {
            return false;
        }
    }
    return !*name || strcmp(name, ".weight") == 0 || strcmp(name, ".bias") == 0;
}

static bool line_names(const spec *s, const spec_row *r, const char *name)
{
    const char *prefixes = spec_text(s, "tensors", "prefix");
    span rest = span_str(r->text), name_part;
    while (split_next(&rest, '|', &name_part)) {
        for (size_t i = 0; i + 1 < name_part.n; i++)
            if (name_part.p[i] == ' ' && name_part.p[i + 1] == '(') name_part.n = i;
        const uint8_t *colon = name_part.n ? memchr(name_part.p, ':', name_part.n) : NULL;
        if (colon) name_part = span_of(colon + 1, name_part.n - (size_t)(colon - name_part.p) - 1);
        if (name_matches(name_part, name)) return true;
        span list = span_str(prefixes ? prefixes : ""), p;
        while (list.n && split_next(&list, '|', &p))
            if (p.n && strncmp(name, (const char *)p.p, p.n) == 0 && name_matches(name_part, name + p.n)) return true;
    }
    return false;
}

/* The number of kinds of tensors whose names a spec has. */
static uint32_t count_known(const spec *s, const parts *found)
{
    uint32_t n = 0;
    for (size_t i = 0; i < found->n; i++) {
        bool known = !found->at[i].first;
        for (size_t k = 0; k < s->n && !known; k++)
            known = strcmp(s->rows[k].section, "tensors") == 0 && strcmp(s->rows[k].key, "prefix") != 0 &&
                    strcmp(s->rows[k].key, "ignore") != 0 && line_names(s, &s->rows[k], found->at[i].first->name);
        n += known;
    }
    return n;
}

/* Whether the spec adds 1 to the weights of norms just where this checkpoint stores w - 1. */
static bool norms_agree(const spec *s, bool offset)
{
    const char *line = spec_text(s, "tensors", "{i}.norm.a");
    return (line && strstr(line, "(+ 1)")) == offset;
}

/* ---- building */

static int build_once(ckpt *c, spec *s, uint8_t hash[SHA256_BYTES], uint32_t *weights, const config_sources *from,
                      err *e)
{
    config_eval *values = NULL;
    program *p = NULL;
    int rc = config_open(&values, s, from, e);
    if (!rc) rc = build_program(&p, s, values, c, &(build_options){.ctx = FIT_CTX}, e);
    if (!rc) memcpy(hash, p->hash, sizeof p->hash), *weights = p->n_weight;
    if (!rc) program_free(p);
    if (values) config_close(values);
    return rc;
}

bool derive_builds(ckpt *c, span text, bool judged, buf *unread, char *why, size_t cap)
{
    buf unknown = {0};
    json *text_config = NULL;
    spec *s;
    config_sources from;
    uint8_t hash[SHA256_BYTES];
    uint32_t weights;
    err e = {0};
    int rc = spec_parse(&s, text, "derived.ini", "", NULL, &e);
    if (!rc) {
        rc = build_sources(&from, c, NULL, &e);
        if (!rc) rc = wrapped_config(&text_config, s, from.hf, &e);
        if (text_config) from.hf = text_config;
        if (!rc) rc = build_once(c, s, hash, &weights, &from, &e);
        derive_unread(s, from.hf, unread);
        if (!rc && judged)
            rc = spec_judge_keys(s, &(judged_keys){.config = from.hf, .source = "hf"}, NULL, &unknown, &e);
        buf_free(&unknown);
        json_free(text_config);
        spec_free(s);
    }
    snprintf(why, cap, "%s", e.msg);
    return !rc;
}

static int try_family(ckpt *c, const config_sources *from, const parts *found, bool offset, family_fit *f, err *e)
{
    spec *s;
    err own = {0};
    uint32_t weights;
    int rc = spec_load_builtin(&s, f->name, e);
    if (rc) return rc;
    keys k = {.from = from, .s = s};
    if (from->hf || from->own) count_keys(&k);
    f->read = k.read;
    f->absent = k.absent;
    f->known = count_known(s, found);
    f->norms_agree = norms_agree(s, offset);
    for (size_t i = 0; i < s->n; i++) f->depth = s->rows[i].depth > f->depth ? s->rows[i].depth : f->depth;
    rc = build_once(c, s, f->hash, &weights, from, &own);
    f->builds = !rc;
    snprintf(f->why, sizeof f->why, "%.199s", own.msg);
    spec_free(s);
    return rc == ERR_MEMORY ? err_set(e, rc, "%s", own.msg) : OK;
}

static int by_fit(const void *a, const void *b)
{
    const family_fit *x = a, *y = b;
    if (x->builds != y->builds) return y->builds - x->builds;
    if (!x->builds && x->known != y->known) return x->known < y->known ? 1 : -1;
    if (x->norms_agree != y->norms_agree) return y->norms_agree - x->norms_agree;
    if (x->read != y->read) return y->read - x->read;
    if (x->depth != y->depth) return x->depth - y->depth;
    return x->absent != y->absent ? x->absent - y->absent : strcmp(x->name, y->name);
}

int derive_fits(ckpt *c, const parts *found, family_fit **out, size_t *n, err *e)
{
    config_sources from;
    const char *file;
    family_fit *fits = NULL;
    size_t count = 0, cap = 0;
    int rc = build_sources(&from, c, NULL, e);
    bool offset = !ckpt_describes_itself(c) && derive_norms_are_offset(c);
    for (size_t i = 0; !rc && (file = spec_builtin_name(i)); i++) {
        if (!mem_grow((void **)&fits, &cap, count + 1, sizeof *fits)) rc = err_memory(e, NULL);
        if (rc) break;
        fits[count] = (family_fit){0};
        snprintf(fits[count].name, sizeof fits[count].name, "%.*s", (int)strlen(file) - 4, file);
        rc = try_family(c, &from, found, offset, &fits[count], e);
        count++;
    }
    if (rc) {
        mem_free(fits);
        return rc;
    }
    if (count) qsort(fits, count, sizeof *fits, by_fit);
    *out = fits;
    *n = count;
    return OK;
}
