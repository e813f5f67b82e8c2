/* piece_proof.h - the bytes of a request for weights (net/piece_ask.h) with what shows that they are the leader's.
 *
 * Of each MiB of a tensor the catalogue has the root of a tree (base/hash_tree.h). The answer to a request is, for the
 * runs in one MiB together, a proof of the leaves that they touch. So it needs no digest of its own, and nobody can
 * make another one for the same catalogue. */
#pragma once
#include "net/piece_ask.h"

/* Bytes of an answer at most: of two leaves a run more than was asked for, and digests of inner parts. */
enum { PROOF_MAX = 1 << 23 };

/* Whether each run lies in one MiB of its tensor, which such a request has to keep to. */
bool piece_proof_fits(const piece_ask *a);
/* bytes_of: as piece_ask_read. */
uint32_t piece_proof_bytes(const piece_ask *a, uint64_t (*bytes_of)(const void *ctx, uint32_t i), const void *ctx);
/* order: of catalogue_write. */
void piece_prove(const piece_ask *a, const ckpt *c, const uint32_t *order, uint8_t *proof);
/* Runs of the answer, one after another, go to `bytes`; room: TREE_BYTES. ERR_FORMAT names the tensor. */
int piece_proof_check(const piece_ask *a, const catalogue *told, span proof, uint8_t *room, uint8_t *bytes, err *e);
