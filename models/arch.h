/* arch.h - from a checkpoint's architecture to a built-in spec: the `arch` line of [model]. */
#pragma once
#include "io/ckpt.h"

#include <stddef.h>

/* Writes the bare name of the built-in spec that lists the architecture: one of config.json's `architectures`, its
 * `model_type`, "has:" with a top-level key, or the source and architecture of a file that describes itself
 * ("gguf:llama"). `config` may stand in for config.json. ERR_NOT_FOUND names the architecture and what to do. */
int arch_find(const ckpt *c, const json *config, char *out, size_t cap, err *e);

/* The architecture as the checkpoint calls it; "unknown" without one. Lives as long as the checkpoint. */
const char *arch_name(const ckpt *c, const json *config);
