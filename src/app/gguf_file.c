/* gguf_file.c - see gguf_file.h. */
#include "app/gguf_file.h"

#include "app/tokenizer_choice.h"
#include "base/log.h"
#include "text/tokenizer_gguf.h"

static int add_vocabulary(const model *m, const engine_options *o, exporter *x, err *e)
{
    tokenizer *t;
    err why = {0};
    if (export_has_vocabulary(x) && !o->tokenizer) return OK;
    int rc = tokenizer_choose(&t, o, &why);
    if (!rc) {
        rc = tokenizer_to_gguf(t, (uint32_t)m->prog->vocab, export_pairs(x), &why);
        tokenizer_close(t);
    }
    if (rc == ERR_NOT_FOUND) {
        log_line(LOG_WARN, "the file will carry no tokenizer: %s", why.msg);
        gguf_add_text(export_pairs(x), "tokenizer.ggml.model", "none"); /* other readers want to be told */
        return OK;
    }
    return rc ? err_set(e, rc, "%s", why.msg) : OK;
}

int gguf_file_write(const model *m, const engine_options *o, exporter *x, const char *path, int threads, err *e)
{
    size_t n;
    const write_tensor *t = export_tensors(x, &n);
    int rc = add_vocabulary(m, o, x, e);
    return rc ? rc : write_gguf(path, export_pairs(x), t, n, threads, e);
}
