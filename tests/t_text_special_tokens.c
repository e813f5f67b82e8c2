/* t_text_special_tokens.c - texts of two origins: special tokens count in the template's part only, with every
 * tokenizer at hand. */
#define _GNU_SOURCE
#include "test.h"

#include "base/mem.h"
#include "text/tokenizer_open.h"

static size_t count(const token_list *ids, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < ids->n; i++) n += ids->id[i] == id;
    return n;
}

/* The ids of a template's text before a user's text before another of the template. */
static void encode(const tokenizer *t, const char *before, const char *user, const char *after, token_list *out)
{
    static char text[4096];
    static uint8_t marks[4096];
    err e = {0};
    const size_t a = strlen(before), n = strlen(user);
    snprintf(text, sizeof text, "%s%s%s", before, user, after);
    memset(marks, 0, sizeof marks);
    memset(marks + a, 1, n);
    out->n = 0;
    assert_ok(tokenizer_encode_marked(t, span_str(text), marks, out, &e), &e);
}

static void expect_same(const char *file, const char *text, const token_list *a, const token_list *b)
{
    if (a->n != b->n || (a->n && memcmp(a->id, b->id, a->n * sizeof *a->id) != 0))
        fail_msg("%s: \"%s\": %zu ids, not %zu", file, text, a->n, b->n);
}

/* A special token as text: of the user it is none, beside one of the template the template's alone is. */
static void check_token(const tokenizer *t, const char *file, const char *piece)
{
    token_list all = {0}, marked = {0};
    err e = {0};
    char text[600];
    const int32_t id = tokenizer_id(t, piece);
    snprintf(text, sizeof text, "Hello %s world", piece);
    assert_ok(tokenizer_encode(t, span_str(text), TOKENIZE_PARSE, &all, &e), &e);
    const bool counts = count(&all, id) == 1;
    encode(t, text, "", "", &marked);
    expect_same(file, text, &marked, &all);
    encode(t, "", text, "", &marked);
    all.n = 0;
    assert_ok(tokenizer_encode(t, span_str(text), 0, &all, &e), &e);
    expect_same(file, text, &marked, &all);
    const bool unknown = strcasestr(piece, "unk") != NULL; /* what letters give that a vocabulary lacks */
    if (counts && !unknown) {
        char own[700];
        snprintf(own, sizeof own, "Hello %s", piece);
        encode(t, own, text, text, &marked);
        if (count(&marked, id) != 2)
            fail_msg("%s: \"%s\" of the template counts %zu times of 2", file, piece, count(&marked, id));
        for (size_t cut = 1; cut < strlen(piece); cut++) { /* half a token of each */
            char half[600];
            if (((unsigned char)piece[cut] & 0xc0) == 0x80) continue;
            snprintf(half, sizeof half, "%.*s", (int)cut, piece);
            encode(t, half, piece + cut, "", &marked);
            if (count(&marked, id)) fail_msg("%s: \"%s\" in two parts is special", file, piece);
            encode(t, "", half, piece + cut, &marked);
            if (count(&marked, id)) fail_msg("%s: \"%s\" in two parts is special", file, piece);
        }
    }
    mem_free(all.id);
    mem_free(marked.id);
}

static void check_file(const char *path)
{
    tokenizer *t;
    err e = {0};
    if (!path) {
        skip_msg("no shared data");
        return;
    }
    assert_ok(tokenizer_open(&t, path, NULL, &e), &e);
    int checked = 0;
    for (uint32_t id = 0; id < tokenizer_size(t) && checked < 300; id++) {
        const span piece = tokenizer_piece(t, (int32_t)id);
        char text[200];
        if (!tokenizer_is_special(t, (int32_t)id) || !piece.n || piece.n >= sizeof text) continue;
        snprintf(text, sizeof text, "%.*s", (int)piece.n, piece.p);
        check_token(t, path, text);
        checked++;
    }
    tokenizer_close(t);
}

static void vocabularies_of_every_kind(void **state)
{
    (void)state;
    char path[100];
    for (int i = 0; i < 12; i++) {
        snprintf(path, sizeof path, "tests/vectors/tokenizers/random%d.json", i);
        check_file(path);
    }
    check_file("tests/vectors/tokenizers/bpe.model");
    check_file("tests/vectors/tokenizers/unigram.model");
    check_file("tests/vectors/tokenizers/llama2c.bin");
    check_file("tests/vectors/tokenizers/vocab.txt");
    check_file("specs/builtin.gguf");
}

static void vocabularies_of_models(void **state)
{
    (void)state;
    static const char *const files[] = {"gpt2/tokenizer.json",        "llama2/tokenizer.json",
                                        "llama2/tokenizer.model",     "qwen2",
                                        "bert/all-minilm-l6-v2.json", "ggml-vocab/ggml-vocab-llama-spm.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[200];
        snprintf(name, sizeof name, "tokenizers/%s", files[i]);
        check_file(shared_path(name));
    }
}

/* Words cross from one origin to the other: the ids are those of the whole. */
static void words_cross(void **state)
{
    (void)state;
    static const char *const files[] = {"specs/builtin.gguf", "tests/vectors/tokenizers/random0.json"};
    for (size_t i = 0; i < 2; i++) {
        tokenizer *t;
        err e = {0};
        token_list whole = {0}, parts = {0};
        assert_ok(tokenizer_open(&t, files[i], NULL, &e), &e);
        assert_ok(tokenizer_encode(t, span_str("under the understanding"), 0, &whole, &e), &e);
        encode(t, "under the under", "stand", "ing", &parts);
        expect_same(files[i], "understanding", &parts, &whole);
        mem_free(whole.id);
        mem_free(parts.id);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies_of_every_kind),
        cmocka_unit_test(vocabularies_of_models),
        cmocka_unit_test(words_cross),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
