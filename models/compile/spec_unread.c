/* spec_unread.c - see spec_unread.h.
 *
 * "scaling.rope_theta" reads rope_parameters.full_attention.rope_theta where some line of `scaling` says
 * rope_parameters.full_attention. */
#include "models/compile/spec_unread.h"

#include "base/glob.h"
#include "models/compile/key_list.h"
#include "models/compile/spec_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIASES_DEEP = 4, KEYS_DEEP = 8 };

/* ---- what is read */

typedef struct reading {
    const spec *s;
    const char *source;
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
    reading object = {r->s, r->source, span_of(r->path.p, r->path.n - rest), r->depth - 1};
    for (size_t i = 0; i < r->s->n; i++) {
        const spec_row *row = &r->s->rows[i];
        bool means = strlen(row->key) == head && memcmp(row->key, name.p, head) == 0;
        if (means && names_in_row(r->source, row->section, row->key, row->text, reads_name, &object)) return true;
    }
    return false;
}

static bool is_read(const spec *s, const char *source, const char *path)
{
    reading r = {s, source, span_str(path), ALIASES_DEEP};
    return names_in_spec(source, s, reads_name, &r);
}

/* ---- keys that are not */

typedef struct search search;
struct search {
    const spec *s;
    const char *source, *prefix; /* "gguf", and what stands before its keys: "llama." */
    void (*see)(search *x, const json *member, const char *path); /* called for each key that is not read */
    const char *ignored;                                          /* keys with commas between them, or NULL */
    size_t read;                                                  /* keys that are */
    buf *out, *wrong;
};

static void search_object(search *x, const json *object, const char *path, int depth)
{
    const size_t before = strlen(x->prefix);
    for (const json *m = json_first(object); m; m = json_next(m)) {
        const char *key = json_key(m);
        bool family = !depth && (!strcmp(key, "architectures") || !strcmp(key, "model_type"));
        char full[400];
        if (family) continue; /* the arch lines read them */
        if (!depth && strncmp(key, x->prefix, before) == 0) key += before;
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", key);
        bool read = is_read(x->s, x->source, full), deep = json_type(m) == JSON_OBJECT && depth < KEYS_DEEP;
        x->read += read;
        if (deep && (read || depth)) search_object(x, m, full, depth + 1);
        else if (!read) x->see(x, m, full);
    }
}

/* ---- which of them count */

static bool is_empty(const json *j)
{
    switch (json_type(j)) {
    case JSON_NULL: return true;
    case JSON_BOOL: return !json_bool(j, false);
    case JSON_NUMBER: return json_num(j, 0) == 0;
    case JSON_STRING: return !*json_str(j, "");
    default: return !json_first(j);
    }
}

/* `text`: of the value, as JSON. 1 and 1.0 are one number. */
static bool is_value(const json *j, const char *text, const char *wanted)
{
    char *end;
    const double number = strtod(wanted, &end);
    return json_type(j) == JSON_NUMBER && !*end ? json_num(j, 0) == number : strcmp(text, wanted) == 0;
}

/* Whether a pattern of the list "a, b*" is that of the key, whole or by its last part. */
static bool is_listed(const char *list, const char *path)
{
    const char *last = strrchr(path, '.');
    for (span item; list_next(&list, &item);)
        if (glob_match(item, path) || (last && glob_match(item, last + 1))) return true;
    return false;
}

/* What a row of the list says of a key; NULL: there is none. */
static const known_key *find_known(const search *x, const char *path)
{
    const char *type = spec_text(x->s, "network", "type"), *last = strrchr(path, '.');
    if (strcmp(x->source, "hf") != 0) last = NULL; /* names with dots of their own */
    for (const known_key *k = known_keys; k->name; k++) {
        if (k->type && strcmp(k->type, type ? type : "decoder_only") != 0) continue;
        if (glob_match(span_str(k->name), path) || (last && glob_match(span_str(k->name), last + 1))) return k;
    }
    return NULL;
}

/* Whether what the key says changes nothing. */
static bool is_silent(const search *x, const json *m, const char *path, const known_key *known)
{
    buf value = {0};
    json_print(&value, m, false);
    bool silent = json_type(m) == JSON_NULL || is_listed(x->ignored, path) ||
                  is_listed(spec_text(x->s, "model", "unread"), path);
    if (known) silent |= !known->neutral || is_value(m, buf_cstr(&value), known->neutral);
    else silent |= is_empty(m);
    buf_free(&value);
    return silent;
}

static void list_key(search *x, const json *m, const char *path)
{
    if (!is_silent(x, m, path, find_known(x, path))) buf_printf(x->out, "%s%s", x->out->n ? ", " : "", path);
}

bool spec_unread_keys(const spec *s, const json *config, buf *out)
{
    search x = {.s = s, .source = "hf", .prefix = "", .see = list_key, .out = out};
    const size_t before = out->n;
    search_object(&x, config, "", 0);
    return out->n > before;
}

/* ---- what is lost */

static bool ends_with_key(void *ctx, span name) { return name_ends_with(name, span_str(ctx)); }

static void judge_key(search *x, const json *m, const char *path)
{
    const known_key *known = find_known(x, path);
    const char *last = strrchr(path, '.'), *key = last && strcmp(x->source, "hf") == 0 ? last + 1 : path;
    if (is_silent(x, m, path, known)) return;
    buf value = {0};
    const bool tells = known || names_in_builtins(x->source, key, ends_with_key, (void *)key);
    buf *to = tells ? x->wrong : x->out;
    json_print(&value, m, false);
    buf_printf(to, "%s%s (%.60s%s)", to->n ? ", " : "", path, buf_cstr(&value), value.n > 60 ? "..." : "");
    buf_free(&value);
}

int spec_judge_keys(const spec *s, const judged_keys *of, const char *ignored, buf *unknown, err *e)
{
    buf wrong = {0};
    char prefix[80] = "";
    if (of->arch) snprintf(prefix, sizeof prefix, "%.70s.", of->arch);
    search x = {s, of->source, prefix, judge_key, ignored, 0, unknown, &wrong};
    search_object(&x, of->config, "", 0);
    int rc = OK;
    if (!x.read) unknown->n = 0;
    else if (wrong.n)
        rc = err_set(e, ERR_SPEC,
                     "%s does not read these keys, which change what is computed: %s (a spec that reads them makes it "
                     "right; --ignore-key NAME runs without)",
                     s->file, buf_cstr(&wrong));
    buf_free(&wrong);
    return rc;
}
