/* spec_unknown.c - see spec_unknown.h. */
#include "models/compile/spec_unknown.h"

#include "models/compile/module.h"
#include "models/compile/spec_names.h"

#include <stdio.h>
#include <string.h>

enum { KEYS_DEEP = 8 };

typedef struct naming {
    const spec *s;
    const json *config;
    const char *where, *key; /* the row or option that is read now */
    span wanted;
    int distance; /* of the nearest name so far */
    char text[80];
    buf *out;
} naming;

static bool is_named(void *ctx, span name)
{
    const span wanted = ((const naming *)ctx)->wanted;
    bool starts = name.n > wanted.n && memcmp(name.p, wanted.p, wanted.n) == 0 && name.p[wanted.n] == '.';
    return starts || span_eq(name, wanted);
}

static bool ends_so(void *ctx, span name) { return name_ends_with(name, span_str(((naming *)ctx)->text)); }

static bool is_nearer(void *ctx, span name)
{
    naming *x = ctx;
    char known[80], wanted[80];
    const uint8_t *dot = memchr(name.p, '.', name.n);
    snprintf(known, sizeof known, "%.*s",
             (int)(dot && !memchr(x->wanted.p, '.', x->wanted.n) ? dot - name.p : (long)name.n), (const char *)name.p);
    snprintf(wanted, sizeof wanted, "%.*s", (int)x->wanted.n, (const char *)x->wanted.p);
    int d = edit_distance(known, wanted);
    if (d >= x->distance || d == 0) return false;
    x->distance = d;
    snprintf(x->text, sizeof x->text, "%s", known);
    return false;
}

/* A word that is a value of the option, or name, that the text gives. */
static bool is_value(const char *key, span word)
{
    const param *p = module_option(key, PARAM_WORD);
    return p && param_words_have(p->words, word);
}

static bool is_own(const spec *s, span head)
{
    for (size_t i = 0; i < s->n; i++)
        if (span_is(head, s->rows[i].key) && names_in_row_count(s->rows[i].section, s->rows[i].key)) return true;
    return false;
}

static bool has_key(const json *object, const char *key, int depth)
{
    for (const json *m = json_first(object); m; m = json_next(m))
        if (strcmp(json_key(m), key) == 0 || (depth && has_key(m, key, depth - 1))) return true;
    return false;
}

static bool judge_name(void *ctx, span name)
{
    static const char *const words[] = {"i", "x", "null", "true", "false", "and", "or", "not"};
    naming *x = ctx;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(name, words[i])) return false;
    const uint8_t *dot = memchr(name.p, '.', name.n);
    span head = dot ? span_of(name.p, (size_t)(dot - name.p)) : name;
    bool own = is_own(x->s, head);
    if (is_value(x->key, name) || (own && !dot)) return false;
    /* of an object under a name of [config] the member counts, of another name all of it */
    x->wanted = name;
    while (own && (dot = memchr(x->wanted.p, '.', x->wanted.n)))
        x->wanted = span_of(dot + 1, x->wanted.n - (size_t)(dot + 1 - x->wanted.p));
    snprintf(x->text, sizeof x->text, "%.*s", (int)x->wanted.n, (const char *)x->wanted.p);
    if (own ? has_key(x->config, x->text, KEYS_DEEP) : json_path(x->config, x->text) || json_get(x->config, x->text))
        return false;
    if (names_in_builtins("hf", x->text, own ? ends_so : is_named, x)) return false;
    x->distance = x->wanted.n < 5 ? 2 : 3;
    x->text[0] = 0;
    for (const json *m = json_first(x->config); m; m = json_next(m)) is_nearer(x, span_str(json_key(m)));
    for (size_t i = 0; i < x->s->n; i++)
        if (strcmp(x->s->rows[i].section, "config") == 0) is_nearer(x, span_str(x->s->rows[i].key));
    names_in_builtins("hf", NULL, is_nearer, x);
    buf_printf(x->out, "%s: %s: '%.*s' is neither a name of [config] nor a key that is known%s%s%s\n", x->where, x->key,
               (int)name.n, (const char *)name.p, *x->text ? ": did you mean '" : "", x->text, *x->text ? "'?" : "");
    return false;
}

void spec_unknown_names(const spec *s, const json *config, buf *out)
{
    naming x = {.s = s, .config = config, .out = out};
    const size_t file = strlen(s->file);
    for (size_t i = 0; i < s->n; i++) {
        const spec_row *r = &s->rows[i];
        x.where = r->where, x.key = r->key;
        if (!r->depth && strcmp(r->section, "tensors") != 0)
            names_in_row("hf", r->section, r->key, r->text, judge_name, &x);
    }
    for (size_t i = 0; i < s->n_slot; i++)
        for (size_t k = 0; k < s->slots[i].n; k++) {
            const slot_option *o = &s->slots[i].options[k];
            x.where = o->where, x.key = o->key;
            if (strncmp(o->where, s->file, file) == 0 && o->where[file] == ':')
                names_in_text("hf", span_str(o->text), false, judge_name, &x);
        }
}
