/* write_gguf.h - GGUF files, written to a temporary file that is renamed when all is there.
 *
 * general.* come first, the other pairs in the order in which they were added; general.alignment must not be among
 * them. Tensors lie in the order given, each at the next multiple of 32, as ggml demands. */
#pragma once
#include "base/buf.h"
#include "io/gguf_pairs.h"
#include "io/write.h"

/* Everything before the data, padded: with n = 0 a whole file. */
int write_gguf_header(buf *out, const gguf_pairs *pairs, const write_tensor *t, size_t n, err *e);
/* threads: that encode, 0 = all this process may use */
int write_gguf(const char *path, const gguf_pairs *pairs, const write_tensor *t, size_t n, int threads, err *e);
