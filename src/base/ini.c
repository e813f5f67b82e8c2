/* ini.c - see ini.h. The only file that includes inih.
 *
 * inih as Debian builds it splits lines at 200 characters, cuts values at " ;" (our formulas are full of semicolons)
 * and counts no lines for its handler. So the reader below gives inih one short line per source line: sections as
 * they are, "key=<line number>" for keys, empty lines for the rest; values wait here, whole, under their line
 * number. inih judges the shape. */
#include "base/ini.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <ini.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 120, SECTION_MAX = 48, ROWS_MAX = 1 << 16 }; /* inih: lines below 200, sections below 50 characters */

typedef struct reading {
    span text;
    size_t at;
    int line;    /* of the line handed out last */
    char *value; /* of the key line handed out last */
    const char *what;
    ini *out;
    size_t cap;
    map seen; /* "section\0key" -> row */
    int rc;   /* the first failure of ours; inih only learns "stop" */
    err *e;
} reading;

static bool blank(uint8_t c) { return c == ' ' || c == '\t'; }

static span trim(span s)
{
    while (s.n && blank(s.p[0])) s.p++, s.n--;
    while (s.n && (blank(s.p[s.n - 1]) || s.p[s.n - 1] == '\r')) s.n--;
    return s;
}

/* The line that starts at `at`, without its end; *next is where the following one starts. */
static span line_at(span text, size_t at, size_t *next)
{
    const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
    size_t n = end ? (size_t)(end - (text.p + at)) : text.n - at;
    *next = at + n + (end != NULL);
    return span_of(text.p + at, n);
}

static bool is_comment(span s) { return s.n && (s.p[0] == '#' || s.p[0] == ';'); }

/* Joins a value with the indented lines that follow it. */
static char *value_text(reading *r, span first, size_t at)
{
    size_t n = first.n, next;
    for (size_t a = at; a < r->text.n; a = next) {
        span l = line_at(r->text, a, &next), t = trim(l);
        if (!t.n || !blank(l.p[0])) break;
        n += is_comment(t) ? 0 : t.n + 1;
    }
    char *v = arena_alloc(&r->out->mem, n + 1), *to = v;
    if (!v) return NULL;
    if (first.n) memcpy(to, first.p, first.n);
    to += first.n;
    for (size_t a = at; a < r->text.n; a = next) {
        span l = line_at(r->text, a, &next), t = trim(l);
        if (!t.n || !blank(l.p[0])) break;
        if (is_comment(t)) continue;
        if (to > v) *to++ = ' ';
        memcpy(to, t.p, t.n);
        to += t.n;
    }
    return v;
}

static char *stop(reading *r, int rc)
{
    r->rc = rc;
    return NULL;
}

static int make_room(reading *r)
{
    if (r->out->n >= ROWS_MAX) return err_set(r->e, ERR_LIMIT, "%s: more than %d keys", r->what, ROWS_MAX);
    if (mem_grow((void **)&r->out->rows, &r->cap, r->out->n + 1, sizeof *r->out->rows)) return OK;
    return err_memory(r->e, r->what);
}

/* The row of a line [section]. */
static int add_section(reading *r, span name)
{
    const char *section = arena_strn(&r->out->mem, (const char *)name.p, name.n);
    int rc = section ? make_room(r) : err_memory(r->e, r->what);
    if (!rc) r->out->rows[r->out->n++] = (ini_row){section, "", "", r->line};
    r->value = NULL;
    return rc;
}

/* fgets for inih. */
static char *next_line(char *to, int room, void *stream)
{
    reading *r = stream;
    if (r->rc || r->at >= r->text.n) return NULL;
    span raw = line_at(r->text, r->at, &r->at), s = trim(raw);
    r->line++;
    to[0] = '\n', to[1] = 0;
    if (!s.n || is_comment(s)) return to;
    if (blank(raw.p[0])) {
        if (!r->value)
            return stop(r, err_set(r->e, ERR_SPEC, "%s:%d: an indented line continues nothing", r->what, r->line));
        return to; /* taken by value_text */
    }
    const uint8_t *eq = s.p[0] == '[' ? NULL : memchr(s.p, '=', s.n);
    span key = trim(eq ? span_of(s.p, (size_t)(eq - s.p)) : s);
    if (key.n > (eq ? (size_t)KEY_MAX : (size_t)SECTION_MAX))
        return stop(r, err_set(r->e, ERR_SPEC, "%s:%d: %s of more than %d characters", r->what, r->line,
                               eq ? "key" : "line without '='", eq ? KEY_MAX : SECTION_MAX));
    if (!eq) {
        if (s.p[0] == '[' && s.p[s.n - 1] != ']')
            return stop(r, err_set(r->e, ERR_SPEC, "%s:%d: '[' without ']'", r->what, r->line));
        int rc = s.p[0] == '[' ? add_section(r, span_of(s.p + 1, s.n - 2)) : OK;
        if (rc) return stop(r, rc);
        snprintf(to, (size_t)room, "%.*s\n", (int)key.n, (const char *)key.p);
        return to;
    }
    span value = trim(span_of(eq + 1, s.n - (size_t)(eq + 1 - s.p)));
    r->value = value_text(r, value, r->at);
    if (!r->value) return stop(r, err_memory(r->e, r->what));
    snprintf(to, (size_t)room, "%.*s=%d\n", (int)key.n, (const char *)key.p, r->line);
    return to;
}

static int refuse_line(reading *r, int rc)
{
    r->rc = rc;
    return 0;
}

/* inih's handler: 1 = go on. */
static int on_key(void *user, const char *section, const char *key, const char *value)
{
    reading *r = user;
    int line = atoi(value);
    if (r->rc) return 0;
    if (!*section)
        return refuse_line(
            r, err_set(r->e, ERR_SPEC, "%s:%d: '%s' stands before the first [section]", r->what, line, key));
    if (!*key) return refuse_line(r, err_set(r->e, ERR_SPEC, "%s:%d: a key is missing before '='", r->what, line));
    size_t ns = strlen(section), nk = strlen(key);
    char *both = arena_alloc(&r->out->mem, ns + nk + 2);
    if (!both) return refuse_line(r, err_memory(r->e, r->what));
    memcpy(both, section, ns);
    memcpy(both + ns + 1, key, nk);
    span id = span_of(both, ns + 1 + nk);
    uint32_t before = map_get(&r->seen, id);
    if (before != MAP_NONE)
        return refuse_line(r, err_set(r->e, ERR_SPEC, "%s:%d: [%s] %s is already given in line %d", r->what, line,
                                      section, key, r->out->rows[before].line));
    int rc = make_room(r);
    if (rc) return refuse_line(r, rc);
    if (!map_put(&r->seen, id, (uint32_t)r->out->n)) return refuse_line(r, err_memory(r->e, r->what));
    r->out->rows[r->out->n++] = (ini_row){both, both + ns + 1, r->value, line};
    return 1;
}

static int check_bytes(span text, const char *what, err *e)
{
    int line = 1;
    for (size_t i = 0; i < text.n;) {
        uint8_t c = text.p[i];
        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t')
            return err_set(e, ERR_SPEC, "%s:%d: control character 0x%02x", what, line, c);
        line += c == '\n';
        size_t n = c < 0x80 ? 1 : utf8_valid_length(text.p + i, text.n - i);
        if (!n) return err_set(e, ERR_SPEC, "%s:%d: not UTF-8", what, line);
        i += n;
    }
    return OK;
}

int ini_read(ini *out, span text, const char *what, err *e)
{
    *out = (ini){0};
    int rc = utf8_unmark(&text, what, e);
    if (!rc) rc = check_bytes(text, what, e);
    if (rc) return rc;
    reading r = {.text = text, .what = what, .out = out, .e = e};
    int bad = ini_parse_stream(next_line, &r, on_key, &r);
    map_free(&r.seen);
    rc = r.rc;
    if (!rc && bad) rc = err_set(e, ERR_SPEC, "%s:%d: expected '[section]' or 'key = value'", what, bad > 0 ? bad : 1);
    if (rc) ini_free(out);
    return rc;
}

void ini_free(ini *i)
{
    mem_free(i->rows);
    arena_free(&i->mem);
    *i = (ini){0};
}
