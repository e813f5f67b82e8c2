/* hash_tree.c - see hash_tree.h. A part of a tree: leaves [lo, hi) of n bytes. */
#include "base/hash_tree.h"

#include <string.h>

static size_t leaves_of(size_t n) { return (n + TREE_LEAF - 1) / TREE_LEAF; }

static size_t leaf_bytes(size_t leaf, size_t n)
{
    const size_t left = n - leaf * TREE_LEAF;
    return left < TREE_LEAF ? left : TREE_LEAF;
}

static size_t middle(size_t lo, size_t hi)
{
    size_t left = 1;
    while (left * 2 < hi - lo) left *= 2;
    return lo + left;
}

static void hash_leaf(const uint8_t *p, size_t n, uint8_t out[SHA256_BYTES])
{
    static const uint8_t tag = 0;
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, &tag, 1);
    sha256_add(&h, p, n);
    sha256_end(&h, out);
}

static void hash_two(const uint8_t left[SHA256_BYTES], const uint8_t right[SHA256_BYTES], uint8_t out[SHA256_BYTES])
{
    static const uint8_t tag = 1;
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, &tag, 1);
    sha256_add(&h, left, SHA256_BYTES);
    sha256_add(&h, right, SHA256_BYTES);
    sha256_end(&h, out);
}

static void hash_part(const uint8_t *p, size_t lo, size_t hi, size_t n, uint8_t out[SHA256_BYTES])
{
    uint8_t left[SHA256_BYTES], right[SHA256_BYTES];
    if (hi - lo == 1) {
        hash_leaf(p + lo * TREE_LEAF, leaf_bytes(lo, n), out);
        return;
    }
    hash_part(p, lo, middle(lo, hi), n, left);
    hash_part(p, middle(lo, hi), hi, n, right);
    hash_two(left, right, out);
}

void tree_root(const uint8_t *p, size_t n, uint8_t root[SHA256_BYTES]) { hash_part(p, 0, leaves_of(n), n, root); }

void tree_want(bool *want, size_t at, size_t n)
{
    for (size_t i = at / TREE_LEAF; n && i <= (at + n - 1) / TREE_LEAF; i++) want[i] = true;
}

static bool any_wanted(const bool *want, size_t lo, size_t hi) { return memchr(want + lo, true, hi - lo) != NULL; }

static size_t part_bytes(const bool *want, size_t lo, size_t hi, size_t n)
{
    if (!any_wanted(want, lo, hi)) return SHA256_BYTES;
    if (hi - lo == 1) return leaf_bytes(lo, n);
    const size_t at = middle(lo, hi);
    return part_bytes(want, lo, at, n) + part_bytes(want, at, hi, n);
}

size_t tree_proof_bytes(const bool *want, size_t n) { return part_bytes(want, 0, leaves_of(n), n); }

/* Where the proof goes on. */
static uint8_t *prove_part(const bool *want, const uint8_t *p, size_t lo, size_t hi, size_t n, uint8_t *proof)
{
    if (!any_wanted(want, lo, hi)) {
        hash_part(p, lo, hi, n, proof);
        return proof + SHA256_BYTES;
    }
    if (hi - lo == 1) {
        memcpy(proof, p + lo * TREE_LEAF, leaf_bytes(lo, n));
        return proof + leaf_bytes(lo, n);
    }
    proof = prove_part(want, p, lo, middle(lo, hi), n, proof);
    return prove_part(want, p, middle(lo, hi), hi, n, proof);
}

void tree_prove(const bool *want, const uint8_t *p, size_t n, uint8_t *proof)
{
    prove_part(want, p, 0, leaves_of(n), n, proof);
}

/* The digest of the part, by the proof. */
static void read_part(const bool *want, cursor *proof, uint8_t *p, size_t lo, size_t hi, size_t n,
                      uint8_t out[SHA256_BYTES])
{
    uint8_t left[SHA256_BYTES], right[SHA256_BYTES];
    const bool wanted = any_wanted(want, lo, hi);
    if (!wanted || hi - lo == 1) {
        const span s = cursor_take(proof, wanted ? leaf_bytes(lo, n) : SHA256_BYTES);
        if (proof->bad) memset(out, 0, SHA256_BYTES);
        else if (!wanted) memcpy(out, s.p, SHA256_BYTES);
        else memcpy(p + lo * TREE_LEAF, s.p, s.n), hash_leaf(s.p, s.n, out);
        return;
    }
    read_part(want, proof, p, lo, middle(lo, hi), n, left);
    read_part(want, proof, p, middle(lo, hi), hi, n, right);
    hash_two(left, right, out);
}

bool tree_check(const bool *want, span proof, const uint8_t root[SHA256_BYTES], uint8_t *p, size_t n)
{
    uint8_t got[SHA256_BYTES];
    cursor c = cursor_of(proof);
    read_part(want, &c, p, 0, leaves_of(n), n, got);
    return !c.bad && !cursor_left(&c) && memcmp(got, root, sizeof got) == 0;
}
