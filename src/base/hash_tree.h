/* hash_tree.h - the SHA-256 of up to 1 MiB as the root of a tree over its leaves of 1 KiB, so that some of the leaves
 * can be shown to belong to it without the others.
 *
 * As RFC 6962 (2.1) has it: a leaf's digest is of a 0 and its bytes, an inner one of a 1 and the digests below; left
 * lies the largest power of two of leaves that is less than all. A proof is, from left to right, the bytes of the
 * leaves that are wanted and, of parts of the tree in which none is, the digest of the part. Its size follows from what
 * is wanted. */
#pragma once
#include "base/sha256.h"
#include "base/span.h"

#include <stdbool.h>

enum { TREE_LEAF = 1 << 10, TREE_BYTES = 1 << 20, TREE_LEAVES = TREE_BYTES / TREE_LEAF };

/* Of n bytes: 1 to TREE_BYTES. */
void tree_root(const uint8_t *p, size_t n, uint8_t root[SHA256_BYTES]);

/* want: [TREE_LEAVES] leaves that are wanted; this adds those with bytes of [at, at + n). */
void tree_want(bool *want, size_t at, size_t n);
size_t tree_proof_bytes(const bool *want, size_t n);
void tree_prove(const bool *want, const uint8_t *p, size_t n, uint8_t *proof);
/* Whether the proof is one of this root; then the wanted leaves lie in p, [n], where they belong. */
bool tree_check(const bool *want, span proof, const uint8_t root[SHA256_BYTES], uint8_t *p, size_t n);
