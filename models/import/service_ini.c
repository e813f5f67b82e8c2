/* service_ini.c - see service_ini.h. */
#include "models/import/service_ini.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { ROWS_MAX = 1 << 16 };

static char *trim_copy(arena *a, const char *from, size_t n)
{
    while (n && isspace((unsigned char)*from)) from++, n--;
    while (n && isspace((unsigned char)from[n - 1])) n--;
    return arena_strn(a, from, n);
}

static void drop_section(original_service *s, const char *section)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (strcasecmp(s->rows[i].section, section) != 0) s->rows[kept++] = s->rows[i];
    s->n = kept;
}

static int read_line(original_service *s, const char *line, size_t n, const char **section, err *e)
{
    while (n && isspace((unsigned char)*line)) line++, n--;
    if (n == 0 || *line == ';' || *line == '#') return OK;
    if (memchr(line, 0, n)) return err_set(e, ERR_FORMAT, "%s: not a text file", s->path);
    const char *close = *line == '[' ? memchr(line, ']', n) : NULL, *equals = memchr(line, '=', n);
    if (close) {
        if (!(*section = trim_copy(&s->mem, line + 1, (size_t)(close - line) - 1)))
            return err_memory(e, "a configuration");
        drop_section(s, *section);
        return OK;
    }
    if (!equals) return OK;
    service_row r = {*section, trim_copy(&s->mem, line, (size_t)(equals - line)),
                     trim_copy(&s->mem, equals + 1, n - (size_t)(equals - line) - 1)};
    if (s->n == ROWS_MAX) return err_set(e, ERR_LIMIT, "%s: more than %d keys", s->path, ROWS_MAX);
    if (!r.key || !r.value || !mem_grow((void **)&s->rows, &s->cap, s->n + 1, sizeof *s->rows))
        return err_memory(e, "a configuration");
    s->rows[s->n++] = r;
    return OK;
}

int service_read(original_service *s, span text, err *e)
{
    int rc = utf8_unmark(&text, s->path, e);
    const char *section = "", *p = (const char *)text.p, *end = p + text.n;
    if (!rc && !utf8_is_valid(text)) rc = err_set(e, ERR_FORMAT, "%s: not UTF-8 text", s->path);
    while (p < end && !rc) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        rc = read_line(s, p, n, &section, e);
        p += n + (stop != NULL);
    }
    return rc;
}

const char *service_value(const original_service *s, const char *section, const char *key)
{
    for (size_t i = s->n; i-- > 0;)
        if (strcasecmp(s->rows[i].section, section) == 0 && strcasecmp(s->rows[i].key, key) == 0)
            return s->rows[i].value;
    return NULL;
}

const char *service_key_at(const original_service *s, const char *section, size_t *at, const char **value)
{
    for (; *at < s->n; ++*at) {
        if (strcasecmp(s->rows[*at].section, section) != 0) continue;
        *value = s->rows[*at].value;
        return s->rows[(*at)++].key;
    }
    return NULL;
}

void service_free(original_service *s)
{
    mem_free(s->rows);
    arena_free(&s->mem);
}
