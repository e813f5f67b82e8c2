/* t_core_arithmetic.c - the number of the arithmetic contract holds: SHA-256 of the logits of the built-in model, with
 * weights, activations and caches of several types. The same on every processor; a difference is a change of the
 * contract. */
#include "base/rng.h"
#include "base/sha256.h"
#include "core/arithmetic.h"
#include "measure/evaluate.h"

#include "test.h"

enum { IDS = 80, LONG = 600 }; /* LONG: beyond the first range of keys that attention merges */

typedef struct golden {
    const char *weights, *act, *kv; /* NULL: the default */
    int n;
    const char *hash;
} golden;

static const int number = 1; /* that these hashes are of */
static const golden rows[] = {
    {NULL, NULL, NULL, IDS, "6625e09210955dde77f2abdb0ed3cd6bbb1233870cc5b15238f3ea850d693067"},
    {NULL, NULL, NULL, LONG, "1de45bb70e9f316276c0355dd7a127b57a04d62da3cd5813be4150245a99d502"},
    {"f32", NULL, NULL, IDS, "bd43206c0d0f27d52fed74d1b5fbe29732e43247f8380d57aa57bf8ca7f806a9"},
    {"f16", NULL, NULL, IDS, "4bd485f9d3d44c6152a19401ea6f5b85fb00411c20711012d0b861baa0b75e27"},
    {"bf16", NULL, NULL, IDS, "688f9fec607912cc03af2e4f7adfa3ecc8fb740e816c2adc8f30910b0b1c2de7"},
    {"q8_b64", NULL, NULL, IDS, "24130564a7a9019cbb3faa9230f9cd87efd639b33354458405fe4e0191b21bac"},
    {"q6_b64", NULL, NULL, IDS, "fe4a4ef8a0fd19690b50f3e47e6bd194f66ffe152d23486a69e7c628fe0b8ca9"},
    {"q5_b64", NULL, NULL, IDS, "2e979c1618eeac297a0707fd62835742c883281b83463654f48bc04639d97c22"},
    {"q4_b64", NULL, NULL, IDS, "0082bb19345bccefa25bcdabd306ec9e0cc1f61b0a8e2b6fa4bb8f97dc70e2a6"},
    {"q4_b64", "f32", NULL, IDS, "ed16b1a224e22a45d9acbdb8e84f4188dac2cb9b95b9bfc34e3e1fb55c31c555"},
    {"q4_t", NULL, NULL, IDS, "cf5e6546c754055d44f7c087874a99db36c25c028f52b04ae6b8589b0173b145"},
    {"q3h_b64", NULL, NULL, IDS, "682f50a6a9def375b5a8c6c5de551a17f56566bdd0f4ac15766d5a5e3efc8614"},
    {"q2_b32", NULL, NULL, IDS, "b29fb99a9797a775ff73ad3d37f243f7d00aad6f6df547a02593681383eca9f2"},
    {"q4_k", NULL, NULL, IDS, "925491797228d97c9558965603dd7026831e773d97cb318d4d707175e237a85f"},
    {"q8_b64", NULL, "f32", LONG, "808cabf4b2c2dda57263a2bbabaf6e0506110b3b413179058ba3cf6b0a8ddf91"},
    {"q8_b64", NULL, "f16", LONG, "401ed4f04d8c1248fc9b2d597d198f4a7ce4a1df7461881d51eb30ed1b52e7db"},
    {"q8_b64", NULL, "i16", LONG, "39ad93b346f0886705864ad472d1bb2be876aa3bc49354b6dc06c446fa8616ad"},
    {"q8_b64", NULL, "q8", LONG, "86ebbc133a9e24b3803c7ec6a33e5295200788dc91e57fd9aefb07eb2c267d63"},
    {"q8_b64", NULL, "q4", LONG, "d50d2ea8ed64d6e0e988d5e9078904834956208b183c27030d9f5cefc6763709"},
};

typedef struct sum {
    sha256 hash;
    int32_t n_vocab;
} sum;

static int add_rows(void *ctx, const float *logits, int64_t first, int64_t n, err *e)
{
    (void)first;
    (void)e;
    sum *s = ctx;
    sha256_add(&s->hash, logits, (size_t)n * (size_t)s->n_vocab * sizeof *logits);
    return OK;
}

static void hash_of(const golden *g, char hex[2 * SHA256_BYTES + 1])
{
    err e = {0};
    engine *m;
    engine_options o = {.model = "builtin", .weights = g->weights, .act = g->act, .kv = g->kv, .ctx = LONG};
    int32_t ids[LONG];
    uint8_t digest[SHA256_BYTES];
    assert_ok(engine_open(&m, &o, &e), &e);
    sum s = {.n_vocab = engine_describe(m)->n_vocab};
    for (int i = 0; i < g->n; i++) ids[i] = (int32_t)(rng_bits(1, 2, (uint64_t)i) % (uint64_t)s.n_vocab);
    sha256_init(&s.hash);
    assert_ok(engine_eval(m, ids, (size_t)g->n, -1, add_rows, &s, &e), &e);
    sha256_end(&s.hash, digest);
    sha256_hex(digest, sizeof digest, hex);
    engine_close(m);
}

static void logits_are_those_of_the_number(void **unused)
{
    (void)unused;
    bool same = true;
    if (ARITHMETIC != number) fail_msg("ARITHMETIC is %d: put the hashes of that number here", ARITHMETIC);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const golden *g = &rows[i];
        char hex[2 * SHA256_BYTES + 1];
        hash_of(g, hex);
        if (strcmp(hex, g->hash) == 0) continue;
        same = false;
        printf("weights %s, act %s, kv %s, %d ids: \"%s\"\n", g->weights ? g->weights : "as stored",
               g->act ? g->act : "default", g->kv ? g->kv : "default", g->n, hex);
    }
    if (!same)
        fail_msg("the bits of logits are others. If the change is meant, raise ARITHMETIC in src/core/arithmetic.h and "
                 "put the new hashes here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_those_of_the_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
