/* decoder_prompt.c - what the decoder of an encoder-decoder starts from: its start token, then the caller's text, else the ids that the
 * model's generation forces (the language of a translation). */
#include "engine/engine.h"

#include "base/mem.h"

#include <string.h>

static int append(token_list *out, const int32_t *ids, size_t n, err *e)
{
    void *p = out->id;
    if (!mem_grow(&p, &out->cap, out->n + n, sizeof *out->id)) return err_set(e, ERR_MEMORY, "out of memory");
    out->id = p;
    memcpy(out->id + out->n, ids, n * sizeof *ids);
    out->n += n;
    return OK;
}

int engine_decoder_ids(const engine *g, const char *text, token_list *out, err *e)
{
    const engine_info *i = engine_describe(g);
    const tokenizer *t = engine_target_tokenizer(g);
    if (!i->n_start)
        return err_set(e, ERR_USAGE,
                       "this model does not say what its decoder starts from: give the decoder's token ids");
    int rc = append(out, i->start, text ? 1 : (size_t)i->n_start, e);
    if (rc || !text) return rc;
    if (!t) return err_set(e, ERR_USAGE, "this model has no tokenizer for a decoder prompt");
    return tokenizer_encode(t, span_str(text), TOKENIZE_PARSE, out, e);
}
