/* write_safetensors.h - safetensors files, written to a temporary file that is renamed when all is there. */
#pragma once
#include "base/json.h"
#include "io/write.h"

/* The aligned tensors come first, in the order given; the others follow as the reference writer orders them, wide types
 * first, then by name. `metadata`: an object of strings for "__metadata__", or NULL. Block types have no name in this
 * format: ERR_USAGE. */
int write_safetensors(const char *path, const write_tensor *t, size_t n, const json *metadata, err *e);
