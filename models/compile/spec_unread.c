/* spec_unread.c - see spec_unread.h.
 *
 * What is read is looked for in the texts, not in what was evaluated: the branch of a `?` that was not taken counts,
 * and so does a line of a base that a nearer file replaced. "scaling.rope_theta" reads
 * rope_parameters.full_attention.rope_theta where some line of `scaling` says rope_parameters.full_attention. */
#define _GNU_SOURCE
#include "models/compile/spec_unread.h"

#include "base/embed.h"
#include "models/compile/module.h"
#include "models/spec/expr.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { ALIASES_DEEP = 4, KEYS_DEEP = 8 };

/* ---- names in texts */

typedef bool (*name_fn)(void *ctx, span name); /* true: found, look no further */

static bool name_byte(uint8_t c) { return isalnum(c) || c == '_' || c == '.'; }

/* What comes after a name: '(' of a call, '=' of an option. */
static uint8_t follows(span text, size_t at)
{
    while (at < text.n && text.p[at] == ' ') at++;
    bool equals = at + 1 < text.n && text.p[at] == '=' && text.p[at + 1] == '=';
    return at < text.n && !equals ? text.p[at] : 0;
}

/* The dotted names of a text that stand for keys or for names of [config]. Left out are functions, options, words in
 * quotes or translations, and names of other sources than hf:. Of a line of [tensors] only what is in braces counts. */
static bool each_name(span text, bool braced, name_fn fn, void *ctx)
{
    bool other = false; /* the name after gguf: */
    int depth = 0;
    for (size_t n; text.n; text = span_of(text.p + n, text.n - n)) {
        uint8_t c = *text.p;
        n = 1;
        if (c == '{' || c == '}') depth += c == '{' ? 1 : -1;
        if (c == '"' || c == '\'') {
            const uint8_t *end = memchr(text.p + 1, c, text.n - 1);
            n = end ? (size_t)(end - text.p) + 1 : text.n;
        }
        if (!isalnum(c) && c != '_') continue;
        while (n < text.n && name_byte(text.p[n])) n++;
        bool source = n < text.n && text.p[n] == ':' && expr_is_source((const char *)text.p, n);
        uint8_t next = follows(text, n);
        bool counts = !source && !other && !isdigit(c) && next != '(' && next != '=' && (depth > 0) == braced;
        other = source && !span_is(span_of(text.p, n), "hf");
        if (counts && fn(ctx, span_of(text.p, n))) return true;
    }
    return false;
}

/* Whether a row's text is about keys: formulas are not, they only know names of [config]. */
static bool row_has_names(const char *section, const char *key)
{
    bool layer = strncmp(section, "layer ", 6) == 0, network = strcmp(section, "network") == 0;
    if (layer || network) return !spec_is_formula(key) && strcmp(key, "type") != 0;
    return strcmp(section, "config") == 0 || strcmp(section, "tensors") == 0 || strcmp(section, "generate") == 0;
}

static bool each_in_row(const char *section, const char *key, const char *text, name_fn fn, void *ctx)
{
    return row_has_names(section, key) && each_name(span_str(text), strcmp(section, "tensors") == 0, fn, ctx);
}

static bool each_in_spec(const spec *s, name_fn fn, void *ctx)
{
    for (size_t i = 0; i < s->n; i++)
        if (each_in_row(s->rows[i].section, s->rows[i].key, s->rows[i].text, fn, ctx)) return true;
    for (size_t i = 0; i < s->n_slot; i++)
        for (size_t k = 0; k < s->slots[i].n; k++)
            if (each_name(span_str(s->slots[i].options[k].text), false, fn, ctx)) return true;
    return each_name(buf_span(&s->replaced), false, fn, ctx);
}

/* In the built-in specs whose text has `word` in it; NULL: in all. */
static bool each_in_builtins(const char *word, name_fn fn, void *ctx)
{
    bool found = false;
    for (const embedded_file *f = embedded_files; f->name && !found; f++) {
        spec_file file;
        if (!str_ends(f->name, ".ini") || (word && !memmem(f->p, f->n, word, strlen(word)))) continue;
        if (spec_file_parse(&file, span_of(f->p, f->n), f->name, NULL)) continue;
        for (size_t i = 0; i < file.n && !found; i++)
            found = each_in_row(file.rows[i].section, file.rows[i].key, file.rows[i].text, fn, ctx);
        spec_file_free(&file);
    }
    return found;
}

/* ---- what is read */

typedef struct reading {
    const spec *s;
    span path;
    int depth;
} reading;

/* Whether a name reads the path, or something below it: itself, or through names of [config] that stand for objects. */
static bool reads_name(void *ctx, span name)
{
    const reading *r = ctx;
    bool starts = name.n > r->path.n && memcmp(name.p, r->path.p, r->path.n) == 0 && name.p[r->path.n] == '.';
    if (span_eq(name, r->path) || starts) return true;
    const uint8_t *dot = memchr(name.p, '.', name.n);
    size_t head = dot ? (size_t)(dot - name.p) : 0, rest = name.n - head;
    if (!dot || !r->depth || rest >= r->path.n || memcmp(r->path.p + r->path.n - rest, dot, rest) != 0) return false;
    reading object = {r->s, span_of(r->path.p, r->path.n - rest), r->depth - 1};
    for (size_t i = 0; i < r->s->n; i++) {
        const spec_row *row = &r->s->rows[i];
        bool means = strlen(row->key) == head && memcmp(row->key, name.p, head) == 0;
        if (means && each_in_row(row->section, row->key, row->text, reads_name, &object)) return true;
    }
    return false;
}

static bool is_read(const spec *s, const char *path)
{
    reading r = {s, span_str(path), ALIASES_DEEP};
    return each_in_spec(s, reads_name, &r);
}

/* ---- keys that are not */

typedef bool (*key_fn)(const json *member, const char *key); /* whether the key counts */

typedef struct search {
    const spec *s;
    key_fn counts;
    buf *out;
    size_t unread, read; /* keys so far; of what is not read, those that count */
} search;

static void search_object(search *x, const json *object, const char *path, int depth)
{
    for (const json *m = json_first(object); m; m = json_next(m)) {
        bool family = !depth && (!strcmp(json_key(m), "architectures") || !strcmp(json_key(m), "model_type"));
        char full[400];
        if (family) continue; /* the arch lines read them */
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", json_key(m));
        bool read = is_read(x->s, full), deep = json_type(m) == JSON_OBJECT && depth < KEYS_DEEP;
        x->read += read;
        if (deep && (read || depth)) search_object(x, m, full, depth + 1);
        else if (!read && (!x->counts || x->counts(m, json_key(m))))
            buf_printf(x->out, "%s%s", x->unread++ ? ", " : "", full);
    }
}

bool spec_unread_keys(const spec *s, const json *config, buf *out)
{
    search x = {.s = s, .out = out};
    search_object(&x, config, "", 0);
    return x.unread > 0;
}

static bool ends_with_key(void *ctx, span name)
{
    span key = span_str(ctx);
    if (name.n < key.n || memcmp(name.p + name.n - key.n, key.p, key.n) != 0) return false;
    return name.n == key.n || name.p[name.n - key.n - 1] == '.';
}

/* Numbers but 0, and lists of them; ids of tokens change no number. */
static bool is_lost(const json *member, const char *key)
{
    if (json_type(member) == JSON_ARRAY) member = json_first(member);
    if (json_type(member) != JSON_NUMBER || json_num(member, 0) == 0 || strstr(key, "token_id")) return false;
    return each_in_builtins(key, ends_with_key, (void *)key);
}

bool spec_lost_keys(const spec *s, const json *config, buf *out)
{
    buf found = {0};
    search x = {.s = s, .counts = is_lost, .out = &found};
    search_object(&x, config, "", 0);
    if (x.unread && x.read) buf_add(out, found.p, found.n);
    buf_free(&found);
    return x.unread && x.read;
}

/* ---- names of nothing */

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

static bool ends_so(void *ctx, span name) { return ends_with_key(((naming *)ctx)->text, name); }

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
        if (span_is(head, s->rows[i].key) && row_has_names(s->rows[i].section, s->rows[i].key)) return true;
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
    if (each_in_builtins(x->text, own ? ends_so : is_named, x)) return false;
    x->distance = x->wanted.n < 5 ? 2 : 3;
    x->text[0] = 0;
    for (const json *m = json_first(x->config); m; m = json_next(m)) is_nearer(x, span_str(json_key(m)));
    for (size_t i = 0; i < x->s->n; i++)
        if (strcmp(x->s->rows[i].section, "config") == 0) is_nearer(x, span_str(x->s->rows[i].key));
    each_in_builtins(NULL, is_nearer, x);
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
        if (!r->depth && strcmp(r->section, "tensors") != 0) each_in_row(r->section, r->key, r->text, judge_name, &x);
    }
    for (size_t i = 0; i < s->n_slot; i++)
        for (size_t k = 0; k < s->slots[i].n; k++) {
            const slot_option *o = &s->slots[i].options[k];
            x.where = o->where, x.key = o->key;
            if (strncmp(o->where, s->file, file) == 0 && o->where[file] == ':')
                each_name(span_str(o->text), false, judge_name, &x);
        }
}
