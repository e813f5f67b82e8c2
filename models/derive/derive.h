/* derive.h - `spec derive`: a commented starting spec for a checkpoint, from its configuration and the names and shapes of its tensors.
 *
 * First every built-in spec is tried: those that bind every tensor, with every shape right, fit; of these the one is taken that
 * reads most keys of the configuration, has fewest bases and asks for fewest absent keys; the others that would compute something else
 * are named. Where none fits, the parts of a layer are recognised one by one (derive_parts.c) and a spec of its own is written
 * (derive_write.c). */
#ifndef MODELS_DERIVE_H
#define MODELS_DERIVE_H
#include "base/buf.h"
#include "base/err.h"
#include "io/ckpt.h"
#include "models/spec/spec.h"

/* Appends the spec. What was inferred, what was guessed and what is left over stand in it as comments. */
int spec_derive(ckpt *c, buf *out, err *e);
#endif
