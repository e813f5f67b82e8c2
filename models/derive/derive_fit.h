/* derive_fit.h - which built-in specs fit a checkpoint, and how well its configuration suits each. */
#pragma once
#include "base/buf.h"
#include "base/sha256.h"
#include "models/derive/derive_parts.h"

typedef struct family_fit {
    char name[64];
    bool builds;
    uint8_t hash[SHA256_BYTES]; /* of the program without its spec: equal where two compute the same */
    int read, absent;           /* keys of the configuration that the spec reads; keys it would read that are absent */
    uint32_t known;             /* kinds of tensors whose names stand in it */
    bool norms_agree;           /* it adds 1 to norms just where these store w - 1 */
    int depth;                  /* bases below it */
    char why[200];              /* the message where it does not build */
} family_fit;

/* Tries every built-in spec; *out belongs to the caller (mem_free), best first. */
int derive_fits(ckpt *c, const parts *found, family_fit **out, size_t *n, err *e);
/* Whether the text of a spec builds for the checkpoint, and, `judged`, loses no key of it; else `why` gets the message.
 * Appends derive_unread of it. */
bool derive_builds(ckpt *c, span text, bool judged, buf *unread, char *why, size_t cap);
