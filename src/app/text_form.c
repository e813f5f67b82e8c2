/* text_form.c - see text_form.h. */
#include "app/text_form.h"

#include "base/file.h"
#include "sample/form_source.h"

enum { FORM_BYTES_MAX = 8 << 20 };

int text_form_read(grammar **out, engine *g, const char *gbnf, const char *schema, err *e)
{
    const char *path = gbnf ? gbnf : schema;
    buf text = {0};
    *out = NULL;
    if (!path) return OK;
    if (gbnf && schema) return err_set(e, ERR_USAGE, "give one of --grammar and --json-schema");
    const token_trie *t = engine_token_trie(g, e);
    int rc = t ? file_read_text(&text, path, FORM_BYTES_MAX, e) : ERR_USAGE;
    if (!rc) rc = form_compile(out, gbnf ? FORM_GBNF : FORM_SCHEMA, buf_span(&text), t, e);
    if (rc && t) err_wrap(e, "%s", path);
    buf_free(&text);
    return rc;
}
