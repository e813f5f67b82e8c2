/* wrapped.h - the text model inside a model of several: LLaVA, Gemma 3, Qwen3-VL and everything built like them.
 * Sizes that the object leaves out are those of the text model's class: `absent` of [model].
 *
 * Their config.json holds the text model's in an object, `text_config`, and their tensors lie behind a prefix. Both
 * follow from `root = text_config` in [model]. What belongs to pictures and sound is left alone. */
#pragma once
#include "base/err.h"
#include "io/ckpt.h"
#include "models/spec/spec.h"

#include <stdbool.h>
#include <stddef.h>

/* The object of a configuration that says what its text model is ("text_config"; in InternVL's own files "llm_config";
 * with a model_type), or NULL. */
const char *wrapped_root(const json *config);
/* The configuration that a spec with `root` reads: a root of its own for the caller to free, or NULL where the spec has
 * no root or the configuration no such object, so that its keys stand at the top. Keys come from the object; which
 * class the whole is, ids of tokens, whether head and token table are one, and how weights are coded from around it. */
int wrapped_config(json **out, const spec *s, const json *config, err *e);

/* The prefixes of a text model's tensors in a checkpoint: those that it has of the ones that files use, each with the
 * text model's own prefix `own` behind it, whole or without its first word, or with none. Writes up to `cap`, in mem;
 * *n 0: the tensors are not behind one. */
int wrapped_prefixes(const char **out, size_t cap, size_t *n, const ckpt *c, const char *own, arena *mem, err *e);
/* Whether a tensor is of a tower: behind no prefix of a text model, and no head. `prefixes`: as above. */
bool wrapped_is_tower(const char *name, const char *const *prefixes, size_t n);
