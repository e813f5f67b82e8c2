/* generation_config.h - a model's generation_config.json: what of it holds for texts here, and what is told because it
 * does not. */
#pragma once
#include "base/json.h"
#include "sample/sample.h"

/* Sequences that no text may have, as query.bad. */
typedef struct ban_list {
    int32_t *id;
    size_t n, cap;
} ban_list;

/* Sets sampling options (`to`) and adds to `bans`. Every key is read, is harmless by name, or has the value that
 * changes nothing; all others are named in one warning, as are values of a wrong type or out of range. `where`: the
 * file. */
void generation_config_read(const json *file, const char *where, sample_params *to, ban_list *bans);
