/* gguf_file.c - see gguf_file.h. */
#include "app/gguf_file.h"

#include "app/tokenizer_choice.h"
#include "base/log.h"
#include "io/write_gguf.h"
#include "text/write_gguf_vocab.h"

#include <string.h>

/* Drops the keys of a vocabulary, which another one sets itself. */
static void drop_vocabulary(gguf_pairs *p)
{
    static const char part[] = "tokenizer.ggml.";
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->pair[i].key, part, sizeof part - 1) != 0) p->pair[n++] = p->pair[i];
    p->n = n;
}

/* Says that there is no vocabulary, as other readers require; a file that has the key keeps it. */
static void say_none(gguf_pairs *p)
{
    gguf_pairs none = {0};
    gguf_add_text(&none, "tokenizer.ggml.model", "none");
    gguf_add_all(p, &none);
    gguf_pairs_free(&none);
}

static int add_vocabulary(const model *m, const engine_options *o, exporter *x, err *e)
{
    tokenizer *t;
    err why = {0};
    if (export_has_vocabulary(x) && !o->tokenizer) return OK;
    int rc = tokenizer_choose(&t, o, &why);
    if (!rc) {
        drop_vocabulary(export_pairs(x));
        rc = write_gguf_vocab(t, (uint32_t)m->prog->vocab, export_pairs(x), &why);
        tokenizer_close(t);
    }
    if (rc == ERR_NOT_FOUND) {
        log_line(LOG_WARN, "the file will carry no tokenizer: %s", why.msg);
        say_none(export_pairs(x));
        return OK;
    }
    return err_copy(e, &why);
}

int gguf_file_write(const model *m, const engine_options *o, exporter *x, const char *path, int threads, err *e)
{
    size_t n;
    const write_tensor *t = export_tensors(x, &n);
    int rc = add_vocabulary(m, o, x, e);
    return rc ? rc : write_gguf(path, export_pairs(x), t, n, threads, e);
}
