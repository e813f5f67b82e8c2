/* receipt_file.c - see receipt_file.h. */
#include "app/receipt_file.h"

#include "base/file.h"

int receipt_file_write(const char *path, const engine *g, const fingerprint *f, const query *q, const token_list *made,
                       receipt_end how, err *e)
{
    file_out *out;
    buf text = {0};
    json *root = json_new_object();
    receipt_write(root, g, f, q, made->id, made->n, how);
    bool ok = json_print(&text, root, false) && buf_byte(&text, '\n');
    int rc = ok ? file_create(&out, path, e) : err_memory(e, "a receipt");
    if (!rc) {
        rc = file_write(out, text.p, text.n, e);
        if (rc) file_abandon(out);
        else rc = file_commit(out, e);
    }
    json_free(root);
    buf_free(&text);
    return rc;
}
