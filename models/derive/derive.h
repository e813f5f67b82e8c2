/* derive.h - `spec derive`: a commented starting spec for a checkpoint, from its configuration and the names and shapes
 * of its tensors.
 *
 * First every built-in spec is tried. Those fit that bind every tensor with the right shape; the best of them reads
 * most keys of the configuration, has fewest bases and asks for fewest absent keys, and others that compute something
 * else are named (derive_fit.c). Where none fits, the parts of a layer are recognised one by one (derive_parts.c) and
 * written as a new spec (derive_write.c). */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "io/ckpt.h"

/* Appends the spec, with comments on everything that was inferred, guessed or left over. ERR_SPEC: what was appended is
 * a start that does not load yet, as it says. */
int spec_derive(ckpt *c, buf *out, err *e);
