/* t_base_hash_tree.c - trees of SHA-256 over leaves of 1 KiB: roots by their definition; proofs of some leaves. */
#include "base/hash_tree.h"
#include "base/rng.h"

#include "test.h"

static uint8_t bytes[TREE_BYTES], back[TREE_BYTES], proof[TREE_BYTES + SHA256_BYTES];

/* RFC 6962, 2.1, as it is written. */
static void define(const uint8_t *p, size_t n, uint8_t out[SHA256_BYTES])
{
    uint8_t text[1 + TREE_LEAF] = {0};
    size_t leaves = (n + TREE_LEAF - 1) / TREE_LEAF, k = 1;
    if (leaves == 1) {
        memcpy(text + 1, p, n);
        sha256_of(text, 1 + n, out);
        return;
    }
    while (k * 2 < leaves) k *= 2;
    text[0] = 1;
    define(p, k * TREE_LEAF, text + 1);
    define(p + k * TREE_LEAF, n - k * TREE_LEAF, text + 1 + SHA256_BYTES);
    sha256_of(text, 1 + 2 * SHA256_BYTES, out);
}

static const size_t sizes[] = {1, 1000, 1024, 1025, 2048, 3000, 4096, 5121, 100000, TREE_BYTES - 1, TREE_BYTES};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void roots_are_as_defined(void **unused)
{
    (void)unused;
    for (int i = 0; i < SIZES; i++) {
        uint8_t want[SHA256_BYTES], got[SHA256_BYTES];
        define(bytes, sizes[i], want);
        tree_root(bytes, sizes[i], got);
        assert_memory_equal(want, got, sizeof want);
    }
}

static void leaves_are_proved(void **unused)
{
    (void)unused;
    for (int i = 0; i < SIZES; i++)
        for (uint32_t turn = 0; turn < 40; turn++) {
            const size_t n = sizes[i];
            bool want[TREE_LEAVES] = {false};
            uint8_t root[SHA256_BYTES];
            size_t from[6], size[6], runs = turn % 6;
            for (size_t k = 0; k < runs; k++) {
                from[k] = rng_bits(1, turn, k) % n;
                size[k] = 1 + rng_bits(2, turn, k) % (n - from[k]);
                tree_want(want, from[k], size[k]);
            }
            const size_t all = tree_proof_bytes(want, n);
            assert_true(all <= sizeof proof);
            tree_root(bytes, n, root);
            tree_prove(want, bytes, n, proof);
            memset(back, 0, n);
            assert_true(tree_check(want, span_of(proof, all), root, back, n));
            for (size_t k = 0; k < runs; k++) assert_memory_equal(back + from[k], bytes + from[k], size[k]);
            assert_false(tree_check(want, span_of(proof, all - 1), root, back, n));
            assert_false(tree_check(want, span_of(proof, all + 1), root, back, n));
            const size_t at = rng_bits(3, turn, 0) % all;
            proof[at] ^= 0x20;
            assert_false(tree_check(want, span_of(proof, all), root, back, n));
        }
}

static int fill(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rng_bits(5, 6, i);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_as_defined),
        cmocka_unit_test(leaves_are_proved),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
