/* t_sample_grammar_speed.c - the time of masks over a vocabulary of 151 646 tokens: the median of a text's tokens is at
 * most 0.3 ms. Where every position is another state, by counts, no mask is used twice; this is bounded more loosely,
 * for it takes as long as memory does, which other programs use. */
#include "tests/test.h"

#include "base/mem.h"
#include "sample/gbnf.h"
#include "sample/json_schema.h"
#include "text/tokenizer_open.h"

static tokenizer *tok;
static token_trie *trie;

static void bytes_of(void *ctx, int32_t id, buf *out) { tokenizer_bytes(ctx, id, out); }

/* Of this thread, so that what else the machine does counts little. */
static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The mask after n ids has the tokens that the grammar can follow one by one. */
static void check_mask(grammar *g, const grammar_place *place, const int32_t *ids, int n, const uint64_t *allowed)
{
    int32_t all[64];
    grammar_next next;
    memcpy(all, ids, (size_t)n * sizeof *ids);
    for (all[n] = 0; all[n] < trie->n_vocab; all[n]++) {
        grammar_place at = *place;
        const bool follows = grammar_follow(g, &at, all, n + 1, false, NULL, &next, NULL) == OK;
        if (follows != (allowed[all[n] >> 6] >> (all[n] & 63) & 1)) fail_msg("token %d after %d others", all[n], n);
    }
}

/* Draws texts of the grammar evenly from its masks and times each mask. Some are checked. */
static void measure(const char *name, double limit, const char *schema, const char *gbnf)
{
    enum { TEXTS = 8, TOKENS = 60 };
    grammar *g;
    json *j = NULL;
    err e = {0};
    double seconds[TEXTS * TOKENS], compile = cpu_now();
    int n = 0;
    if (schema) assert_ok(json_parse(&j, span_str(schema), "schema", &e), &e);
    const int rc = schema ? json_schema_compile(&g, j, trie, &e) : gbnf_compile(&g, span_str(gbnf), trie, &e);
    assert_ok(rc, &e);
    compile = cpu_now() - compile;
    uint64_t *allowed = mem_array(grammar_mask_words(g), sizeof *allowed), draw = 1;
    for (int text = 0; text < TEXTS; text++) {
        int32_t ids[TOKENS];
        grammar_place at = {0};
        for (int made = 0; made < TOKENS; made++) {
            grammar_next next;
            const double begun = cpu_now();
            assert_ok(grammar_follow(g, &at, ids, made, false, allowed, &next, &e), &e);
            seconds[n++] = cpu_now() - begun;
            if (next.over) break;
            if (n % 61 == 0) check_mask(g, &at, ids, made, allowed);
            int32_t id;
            do { /* evenly, so that rare tokens of all scripts come up */
                draw = draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                id = (int32_t)((draw >> 33) % (uint64_t)trie->n_vocab);
                for (int32_t k = 0; k < trie->n_vocab && !(allowed[id >> 6] >> (id & 63) & 1); k++)
                    id = (id + 1) % trie->n_vocab;
            } while (!(allowed[id >> 6] >> (id & 63) & 1));
            ids[made] = id;
        }
    }
    qsort(seconds, (size_t)n, sizeof *seconds, by_time);
    printf("%-22s compiled in %6.2f ms; of %3d masks the median %6.3f ms, 0.9 %6.3f, worst %6.3f\n", name,
           compile * 1e3, n, seconds[n / 2] * 1e3, seconds[n * 9 / 10] * 1e3, seconds[n - 1] * 1e3);
    assert_true(seconds[n / 2] < limit);
    mem_free(allowed);
    grammar_drop(g);
    json_free(j);
}

static void masks_are_fast(void **state)
{
    (void)state;
    const char *path = shared_path("tokenizers/qwen2/vocab.json");
    if (!path) {
        skip_msg("no shared tokenizers");
        return;
    }
    err e = {0};
    assert_ok(tokenizer_open(&tok, path, NULL, &e), &e);
    const double begun = cpu_now();
    assert_ok(token_trie_open(
                  &trie, &(trie_source){.n_vocab = (int32_t)tokenizer_size(tok), .bytes = bytes_of, .ctx = tok}, &e),
              &e);
    printf("trie of %d tokens, %u nodes in %.0f ms\n", trie->n_vocab, trie->n_node, (cpu_now() - begun) * 1e3);
    measure("any JSON", 0.1e-3, "true", NULL);
    measure("object", 0.1e-3,
            "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},"
            "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"name\",\"age\"]}",
            NULL);
    measure("long strings", 1e-3,
            "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":400},\"minItems\":3}", NULL);
    measure("short strings", 1e-3,
            "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20},\"minItems\":30}", NULL);
    measure("pattern", 1e-3, "{\"type\":\"array\",\"items\":{\"pattern\":\"^[A-Za-z ]{3,40}[0-9]+$\"},\"minItems\":9}",
            NULL);
    measure("other names", 0.1e-3,
            "{\"properties\":{\"abc\":{},\"name\":{}},\"additionalProperties\":{\"type\":\"string\"},\"required\":["
            "\"name\"]}",
            NULL);
    measure("words", 3e-3, NULL, "root ::= ([a-zA-Z]{1,12} \" \"){20} \".\"");
    measure("counts that go on", 1e-3, NULL, "root ::= ([a-z ]{1,5} [0-9]{2,40} [^\\x00-\\x1f]{1,9} \".\"){9}");
    measure("any text", 1e-3, NULL, "root ::= .{2000}");
    token_trie_close(trie);
    tokenizer_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_fast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
