/* ids.c - see ids.h. */
#include "app/ids.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <string.h>

enum { IDS_FILE_MAX = 64 << 20 };

static bool is_gap(uint8_t c) { return c == ',' || byte_is_blank(c); }

int ids_parse_text(token_list *out, span text, const char *where, err *e)
{
    size_t at = 0, end = text.n;
    while (at < end && byte_is_blank(text.p[at])) at++;
    while (end > at && byte_is_blank(text.p[end - 1])) end--;
    if (end - at >= 2 && text.p[at] == '[' && text.p[end - 1] == ']') {
        at++;
        end--;
    }
    for (bool comma = false;; comma = true) { /* a comma promises an id */
        while (at < end && byte_is_blank(text.p[at])) at++;
        if (at == end && !comma) return OK;
        size_t start = at;
        int64_t v = 0;
        while (at < end && text.p[at] >= '0' && text.p[at] <= '9' && v <= INT32_MAX) v = v * 10 + (text.p[at++] - '0');
        if (at == start || v > INT32_MAX || (at < end && !is_gap(text.p[at])))
            return err_set(e, ERR_USAGE, "%s: \"%.*s\" is no token id", where,
                           (int)(end - start < 20 ? end - start : 20), (const char *)text.p + start);
        void *p = out->id;
        if (!mem_grow(&p, &out->cap, out->n + 1, sizeof *out->id)) return err_memory(e, NULL);
        out->id = p;
        out->id[out->n++] = (int32_t)v;
        while (at < end && byte_is_blank(text.p[at])) at++;
        if (at == end) return OK;
        at += text.p[at] == ',';
    }
}

int ids_parse(token_list *out, const char *text, err *e)
{
    if (text[0] != '@') return ids_parse_text(out, span_str(text), "--ids", e);
    buf b = {0};
    const char *name = strcmp(text, "@-") == 0 ? "standard input" : text + 1;
    int rc = file_read_text(&b, text + 1, IDS_FILE_MAX, e);
    if (!rc) rc = ids_parse_text(out, buf_span(&b), name, e);
    buf_free(&b);
    return rc;
}
