/* t_base_sha256.c - SHA-256: the examples of FIPS 180-4, sha256sum on awkward sizes, pieces of any size, and the
 * instructions of this processor against the definition. */
#include "base/rng.h"
#include "base/sha256.h"

#include "test.h"

static void expect(const char *text, size_t times, const char *want)
{
    sha256 s;
    uint8_t digest[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    sha256_init(&s);
    for (size_t i = 0; i < times; i++) sha256_add(&s, text, strlen(text));
    sha256_end(&s, digest);
    sha256_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, want);
}

static void examples_of_the_standard(void **unused)
{
    (void)unused;
    expect("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
        "stu",
        1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    expect("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static uint8_t bytes[300000];

static void fill(void)
{
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rng_bits(5, 6, i);
}

/* What the system's own program says of a file. */
static void equals_sha256sum(void **unused)
{
    (void)unused;
    static const size_t sizes[] = {1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 4095, 4097, 65536, 299999};
    const char *path = temp_path("sha256");
    char line[400], hex[2 * SHA256_BYTES + 1], want[200] = "";
    uint8_t digest[SHA256_BYTES];
    fill();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, sizes[i], f), sizes[i]);
        fclose(f);
        snprintf(line, sizeof line, "sha256sum %s 2>/dev/null", path);
        f = popen(line, "r");
        assert_non_null(f);
        bool there = fgets(want, sizeof want, f) != NULL;
        pclose(f);
        if (!there) {
            skip_msg("there is no sha256sum here");
            break;
        }
        sha256_of(bytes, sizes[i], digest);
        sha256_hex(digest, sizeof digest, hex);
        assert_memory_equal(hex, want, sizeof hex - 1);
    }
    unlink(path);
}

static void pieces_do_not_matter(void **unused)
{
    (void)unused;
    uint8_t whole[SHA256_BYTES], digest[SHA256_BYTES];
    fill();
    sha256_of(bytes, 5000, whole);
    for (uint64_t seed = 0; seed < 200; seed++) {
        sha256 s;
        sha256_init(&s);
        for (size_t at = 0, n, turn = 0; at < 5000; at += n) {
            n = (size_t)(rng_bits(seed, 1, turn++) % (seed % 2 ? 70 : 700));
            if (n > 5000 - at) n = 5000 - at;
            sha256_add(&s, bytes + at, n);
        }
        sha256_end(&s, digest);
        assert_memory_equal(digest, whole, sizeof whole);
    }
}

static void instructions_equal_the_definition(void **unused)
{
    (void)unused;
    sha256_blocks *best = sha256_best();
    if (best == sha256_blocks_c) skip_msg("this processor has no instructions for it");
    fill();
    for (size_t n = 0; n < 70; n++) {
        uint32_t a[8], b[8];
        memcpy(a, bytes + 17 * n, sizeof a);
        memcpy(b, a, sizeof a);
        best(a, bytes + n, n);
        sha256_blocks_c(b, bytes + n, n);
        assert_memory_equal(a, b, sizeof a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_standard),
        cmocka_unit_test(equals_sha256sum),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(instructions_equal_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
