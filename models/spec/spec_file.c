/* spec_file.c - see spec_file.h. */
#include "models/spec/spec_file.h"

#include "base/ini.h"
#include "base/mem.h"

#include <ctype.h>

int spec_file_add(spec_file *f, const char *section, const char *key, const char *text, int line, err *e)
{
    file_row r = {arena_str(&f->mem, section), arena_str(&f->mem, key), arena_str(&f->mem, text), line};
    if (!r.section || !r.key || !r.text || !mem_grow((void **)&f->rows, &f->cap, f->n + 1, sizeof *f->rows))
        return err_set(e, ERR_MEMORY, "out of memory while reading a spec");
    f->rows[f->n++] = r;
    return OK;
}

static int from_ini(spec_file *out, span text, const char *what, err *e)
{
    ini i;
    int rc = ini_read(&i, text, what, e);
    for (size_t k = 0; !rc && k < i.n; k++)
        rc = spec_file_add(out, i.rows[k].section, i.rows[k].key, i.rows[k].value, i.rows[k].line, e);
    ini_free(&i);
    return rc;
}

int spec_file_parse(spec_file *out, span text, const char *what, err *e)
{
    *out = (spec_file){0};
    size_t at = 0;
    while (at < text.n && isspace(text.p[at])) at++;
    int rc = at < text.n && text.p[at] == '{' ? spec_file_json(out, text, what, e) : from_ini(out, text, what, e);
    if (rc) spec_file_free(out);
    return rc;
}

void spec_file_free(spec_file *f)
{
    mem_free(f->rows);
    arena_free(&f->mem);
    *f = (spec_file){0};
}
