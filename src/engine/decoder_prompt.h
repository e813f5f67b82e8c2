/* decoder_prompt.h - the tokens that the decoder of an encoder-decoder starts from. */
#pragma once
#include "engine/engine.h"

/* Appends the start token and `text`, in which special tokens count; NULL: the ids that the model's generation
 * configuration forces (the language of a translation). */
int engine_decoder_ids(const engine *g, const char *text, token_list *out, err *e);
