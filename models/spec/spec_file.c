/* spec_file.c - see spec_file.h. JSON gives the rows that the same spec in INI would:
 *
 *     {"model": {"base": "llama"}, "network": {"attn": {"module": "gqa", "rope": "neox"}}, "layer": {"odd": …}}
 *
 * Strings are the INI texts; an object under [network] or a layer is a slot with its options; lists are joined the way
 * the key's section writes lists. cJSON keeps no positions, but it keeps order: a second pass over the text counts
 * lines key by key. */
#include "models/spec/spec_file.h"

#include "base/buf.h"
#include "base/ini.h"
#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <string.h>

static int add_entry(spec_file *f, const char *section, const char *key, const char *text, int line, err *e)
{
    file_row r = {arena_str(&f->mem, section), arena_str(&f->mem, key), arena_str(&f->mem, text), line};
    if (!r.section || !r.key || !r.text || !mem_grow((void **)&f->rows, &f->cap, f->n + 1, sizeof *f->rows))
        return err_memory(e, "a spec");
    f->rows[f->n++] = r;
    return OK;
}

static int from_ini(spec_file *out, span text, const char *what, err *e)
{
    ini i;
    int rc = ini_read(&i, text, what, e);
    for (size_t k = 0; !rc && k < i.n; k++)
        rc = add_entry(out, i.rows[k].section, i.rows[k].key, i.rows[k].value, i.rows[k].line, e);
    ini_free(&i);
    return rc;
}

/* ---- JSON */

typedef struct json_walk {
    spec_file *out;
    const char *what;
    span text;
    size_t at; /* after the key found last */
    int line;  /* of it */
    err *e;
} json_walk;

/* Moves to the next key of the text, which is the next member of the walk. */
static void next_key(json_walk *w)
{
    const uint8_t *p = w->text.p;
    while (w->at < w->text.n) {
        uint8_t c = p[w->at++];
        w->line += c == '\n';
        if (c != '"') continue;
        while (w->at < w->text.n && p[w->at] != '"') w->at += p[w->at] == '\\' ? 2 : 1;
        w->at++;
        size_t k = w->at;
        while (k < w->text.n && (p[k] == ' ' || p[k] == '\t' || p[k] == '\n' || p[k] == '\r')) k++;
        if (k < w->text.n && p[k] == ':') return;
    }
}

static int refuse_key(json_walk *w, const char *section, const char *key, const char *why)
{
    return err_set(w->e, ERR_SPEC, "%s:%d: [%s] %s: %s", w->what, w->line, section, key, why);
}

static bool is_slot_section(const char *section)
{
    return strcmp(section, "network") == 0 || strncmp(section, "layer ", 6) == 0;
}

/* The text of a scalar, or of a list as an expression ("[1, 2]"). */
static bool add_value(buf *b, const json *v, bool quote)
{
    switch (json_type(v)) {
    case JSON_BOOL: return buf_str(b, json_bool(v, false) ? "true" : "false");
    case JSON_NUMBER: return json_print(b, v, false);
    case JSON_STRING: return quote ? json_quote(b, span_str(json_str(v, ""))) : buf_str(b, json_str(v, ""));
    case JSON_ARRAY:
        buf_byte(b, '[');
        for (const json *m = json_first(v); m; m = json_next(m)) {
            if (m != json_first(v)) buf_str(b, ", ");
            if (json_type(m) == JSON_ARRAY || json_type(m) == JSON_OBJECT || json_type(m) == JSON_NULL) return false;
            if (!add_value(b, m, true)) return false;
        }
        return buf_byte(b, ']');
    default: return false;
    }
}

/* Lists of names: "a, b" in [model], "a | b" in [tensors], statements of a formula. */
static bool add_joined(buf *b, const json *list, const char *glue)
{
    for (const json *m = json_first(list); m; m = json_next(m)) {
        if (m != json_first(list)) buf_str(b, glue);
        if (json_type(m) != JSON_STRING) return false;
        buf_str(b, json_str(m, ""));
    }
    return !b->bad;
}

static bool add_slot(json_walk *w, buf *b, const json *object)
{
    bool first = true;
    for (const json *m = json_first(object); m; m = json_next(m), first = false) {
        next_key(w);
        if (!first) buf_str(b, ", ");
        if (strcmp(json_key(m), "module") != 0) buf_printf(b, "%s = ", json_key(m));
        if (!add_value(b, m, false)) return false;
    }
    return !b->bad;
}

static int add_row(json_walk *w, const char *section, const json *m)
{
    const char *key = json_key(m);
    buf b = {0};
    bool fits;
    int line = w->line;
    json_kind kind = json_type(m);
    if (kind == JSON_OBJECT) fits = is_slot_section(section) && add_slot(w, &b, m);
    else if (kind == JSON_ARRAY && strcmp(section, "model") == 0) fits = add_joined(&b, m, ", ");
    else if (kind == JSON_ARRAY && strcmp(section, "tensors") == 0) fits = add_joined(&b, m, " | ");
    else if (kind == JSON_ARRAY && is_slot_section(section)) fits = add_joined(&b, m, "; ");
    else fits = add_value(&b, m, false);
    const char *text = buf_cstr(&b);
    int rc = b.bad                   ? err_memory(w->e, "a spec")
             : !fits                 ? refuse_key(w, section, key, "not a value that fits here")
             : !*key                 ? refuse_key(w, section, key, "a key is missing")
             : strpbrk(text, "\n\r") ? refuse_key(w, section, key, "line breaks have no place in a value")
                                     : add_entry(w->out, section, key, text, line, w->e);
    buf_free(&b);
    return rc;
}

static int add_section(json_walk *w, const char *name, const json *section)
{
    if (json_type(section) != JSON_OBJECT)
        return err_set(w->e, ERR_SPEC, "%s:%d: section '%s' is not an object", w->what, w->line, name);
    int rc = add_entry(w->out, name, "", "", w->line, w->e);
    for (const json *m = json_first(section); m && !rc; m = json_next(m)) {
        next_key(w);
        rc = add_row(w, name, m);
    }
    return rc;
}

static int from_json(spec_file *out, span text, const char *what, err *e)
{
    json *root;
    int rc = json_parse(&root, text, what, e);
    if (rc) return rc;
    json_walk w = {.out = out, .what = what, .text = text, .line = 1, .e = e};
    for (const json *s = json_first(root); s && !rc; s = json_next(s)) {
        next_key(&w);
        if (strcmp(json_key(s), "layer") != 0 || json_type(s) != JSON_OBJECT) {
            rc = add_section(&w, json_key(s), s);
            continue;
        }
        for (const json *c = json_first(s); c && !rc; c = json_next(c)) {
            next_key(&w);
            char *name = arena_printf(&out->mem, "layer %s", json_key(c));
            rc = name ? add_section(&w, name, c) : err_memory(e, "a spec");
        }
    }
    json_free(root);
    return rc;
}

/* ---- either */

int spec_file_parse(spec_file *out, span text, const char *what, err *e)
{
    *out = (spec_file){0};
    size_t at = 0;
    while (at < text.n && isspace(text.p[at])) at++;
    int rc = at < text.n && text.p[at] == '{' ? from_json(out, text, what, e) : from_ini(out, text, what, e);
    if (rc) spec_file_free(out);
    return rc;
}

void spec_file_free(spec_file *f)
{
    mem_free(f->rows);
    arena_free(&f->mem);
    *f = (spec_file){0};
}
