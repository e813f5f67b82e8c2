/* spec_unread.h - keys of a checkpoint's configuration that no line of a spec reads: what they say would be lost. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "models/spec/spec.h"

/* Appends the keys of a config.json that nothing in the spec reads, at any depth, with dots, split by ", "; false when
 * there are none. An object of which nothing is read is named as a whole. Silent are empty values (null, false, 0, "",
 * [], {}), what key_list.c calls harmless, and what [model] unread names. */
bool spec_unread_keys(const spec *s, const json *config, buf *out);
typedef struct judged_keys {
    const json *config;
    const char *source; /* as specs name it: "hf", "gguf" */
    const char *arch;   /* what may stand before its keys ("llama" of llama.block_count); NULL: nothing */
} judged_keys;

/* Judges them; silent are those of `ignored`, too (patterns with commas between them; NULL ok). A key that key_list.c
 * says changes what is computed, or that some built-in spec reads, is an error, ERR_SPEC; the others are appended to
 * `unknown` with their values. A spec that reads no key at all stands alone: nothing is judged. */
int spec_judge_keys(const spec *s, const judged_keys *of, const char *ignored, buf *unknown, err *e);
