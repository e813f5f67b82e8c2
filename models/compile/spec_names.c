/* spec_names.c - see spec_names.h. */
#define _GNU_SOURCE
#include "models/compile/spec_names.h"

#include "base/embed.h"
#include "models/spec/expr.h"
#include "models/spec/spec_file.h"
#include "models/spec/spec_keys.h"

#include <ctype.h>
#include <string.h>

static bool name_byte(uint8_t c) { return isalnum(c) || c == '_' || c == '.'; }

/* What comes after a name: '(' of a call, '=' of an option. */
static uint8_t follows(span text, size_t at)
{
    while (at < text.n && text.p[at] == ' ') at++;
    bool equals = at + 1 < text.n && text.p[at] == '=' && text.p[at + 1] == '=';
    return at < text.n && !equals ? text.p[at] : 0;
}

bool names_in_text(const char *source, span text, bool braced, name_fn fn, void *ctx)
{
    const bool bare = strcmp(source, "hf") == 0; /* names without a source are its keys */
    bool asked = bare;                           /* the next name is one of the source */
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
        bool names_source = n < text.n && text.p[n] == ':' && expr_is_source((const char *)text.p, n);
        uint8_t next = follows(text, n);
        bool counts = !names_source && asked && !isdigit(c) && next != '(' && next != '=' && (depth > 0) == braced;
        asked = names_source ? span_is(span_of(text.p, n), source) : bare;
        if (counts && fn(ctx, span_of(text.p, n))) return true;
    }
    return false;
}

bool names_in_row_count(const char *section, const char *key)
{
    bool layer = strncmp(section, "layer ", 6) == 0, network = strcmp(section, "network") == 0;
    if (layer || network) return !spec_is_formula(key) && strcmp(key, "type") != 0;
    return strcmp(section, "config") == 0 || strcmp(section, "tensors") == 0 || strcmp(section, "generate") == 0;
}

bool names_in_row(const char *source, const char *section, const char *key, const char *text, name_fn fn, void *ctx)
{
    return names_in_row_count(section, key) &&
           names_in_text(source, span_str(text), strcmp(section, "tensors") == 0, fn, ctx);
}

bool names_in_spec(const char *source, const spec *s, name_fn fn, void *ctx)
{
    for (size_t i = 0; i < s->n; i++)
        if (names_in_row(source, s->rows[i].section, s->rows[i].key, s->rows[i].text, fn, ctx)) return true;
    for (size_t i = 0; i < s->n_slot; i++)
        for (size_t k = 0; k < s->slots[i].n; k++)
            if (names_in_text(source, span_str(s->slots[i].options[k].text), false, fn, ctx)) return true;
    return names_in_text(source, buf_span(&s->replaced), false, fn, ctx);
}

bool names_in_builtins(const char *source, const char *word, name_fn fn, void *ctx)
{
    bool found = false;
    for (const embedded_file *f = embedded_files; f->name && !found; f++) {
        spec_file file;
        if (!str_ends(f->name, ".ini") || (word && !memmem(f->p, f->n, word, strlen(word)))) continue;
        if (spec_file_parse(&file, span_of(f->p, f->n), f->name, NULL)) continue;
        for (size_t i = 0; i < file.n && !found; i++)
            found = names_in_row(source, file.rows[i].section, file.rows[i].key, file.rows[i].text, fn, ctx);
        spec_file_free(&file);
    }
    return found;
}

bool name_ends_with(span name, span key)
{
    if (name.n < key.n || memcmp(name.p + name.n - key.n, key.p, key.n) != 0) return false;
    return name.n == key.n || name.p[name.n - key.n - 1] == '.';
}
