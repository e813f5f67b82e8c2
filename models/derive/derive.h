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
#include "models/derive/derive_parts.h"
#include "models/spec/spec.h"

#include <stdbool.h>

/* Appends the spec. What was inferred, what was guessed and what is left over stand in it as comments. */
int spec_derive(ckpt *c, buf *out, err *e);
/* Appends a comment with the keys of config.json that the spec does not read, but for those of training and of files. */
void derive_unread(const spec *s, const json *config, buf *out);

/* ---- derive_fit.c */

typedef struct family_fit {
    char name[64];
    bool builds;
    uint64_t hash; /* of the program */
    int heard,
        absent;     /* keys of the configuration that the spec reads; keys that it would read and that are not there */
    uint32_t known; /* kinds of tensors whose names stand in it */
    bool norms_agree; /* it adds 1 to norms where these store w - 1, and only there */
    int depth;        /* bases below it */
    char why[200];    /* it does not build: the message */
} family_fit;

/* Tries every built-in spec; *out belongs to the caller (mem_free), best first. */
int derive_fits(ckpt *c, const parts *found, family_fit **out, size_t *n, err *e);
/* Whether weights of norms in layers are below zero as often as only those are that store w - 1 (Gemma). */
bool derive_norms_are_offset(const ckpt *c);
/* Whether the text of a spec builds for the checkpoint; the message otherwise. Appends derive_unread of it. */
bool derive_builds(ckpt *c, span text, buf *unread, char *why, size_t cap);

/* ---- derive_write.c */

/* Appends [config], [network] and [tensors] of a spec that takes only names for numbers from its base, llama. */
int derive_from_parts(ckpt *c, const parts *found, buf *out, err *e);

#endif
