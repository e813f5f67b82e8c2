/* decoder_prompt.h - the tokens that the decoder of an encoder-decoder starts from. */
#pragma once
#include "engine/engine.h"

/* Appends the start token and `text`, in which special tokens count; NULL: the ids that the model's generation
 * configuration forces (the language of a translation). */
int engine_decoder_ids(const engine *g, const char *text, token_list *out, err *e);
/* Appends what the decoder of an encoder-decoder reads where a head judges the text itself: the start token, or the
 * text's last one where the family wraps, and the text, one token later. `to_end`: up to the row of the last end token,
 * whose state is the text's; ERR_USAGE: there is none. */
int engine_shifted_ids(const engine *g, const int32_t *ids, size_t n, bool to_end, token_list *out, err *e);
