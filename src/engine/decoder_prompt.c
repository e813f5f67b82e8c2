/* decoder_prompt.c - see decoder_prompt.h. */
#include "engine/decoder_prompt.h"

int engine_decoder_ids(const engine *g, const char *text, token_list *out, err *e)
{
    const engine_info *i = engine_describe(g);
    const tokenizer *t = engine_target_tokenizer(g);
    if (!i->n_start)
        return err_set(e, ERR_USAGE,
                       "this model does not say what its decoder starts from: give the decoder's token ids");
    for (int k = 0; k < (text ? 1 : i->n_start); k++)
        if (!token_list_add(out, i->start[k])) return err_memory(e, NULL);
    if (!text) return OK;
    if (!t) return err_set(e, ERR_USAGE, "this model has no tokenizer for a decoder prompt");
    return tokenizer_encode(t, span_str(text), TOKENIZE_PARSE, out, e);
}

int engine_shifted_ids(const engine *g, const int32_t *ids, size_t n, bool to_end, token_list *out, err *e)
{
    const engine_info *i = engine_describe(g);
    const int32_t start = i->wraps && n ? ids[n - 1] : i->start[0];
    if (!i->n_start || !i->n_eos)
        return err_set(e, ERR_USAGE, "this model does not say what its decoder starts from, or what ends a text");
    while (to_end && n && ids[n - 1] != i->eos[0]) n--;
    if (!n) return err_set(e, ERR_USAGE, "the text has no end token (%d), whose state would be scored", (int)i->eos[0]);
    for (size_t k = 0; k < n; k++)
        if (!token_list_add(out, k ? ids[k - 1] : start)) return err_memory(e, "a text");
    return OK;
}
