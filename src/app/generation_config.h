/* generation_config.h - a model's generation_config.json: it sets sampling options and forbids sequences. A warning
 * names the keys that change texts in transformers and are not followed here. */
#pragma once
#include "base/json.h"
#include "sample/sample.h"
#include "text/token_list.h"

/* Sets sampling options (`to`) and adds the sequences that no text may have to `bans`, in the form of query.bad. Every
 * key is read, is harmless by name, or has the value that changes nothing; one warning names all others, a second one
 * the values of a wrong type or out of range. `where`: the file's name in both. */
void generation_config_read(const json *file, const char *where, sample_params *to, token_list *bans);
