/* t_text_tokenizer.c - tokenizers: small vocabularies written here, real ones where the shared data is present. */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tk_trie.h"
#include "text/tokenizer_open.h"

#include <time.h>

static tokenizer *open_text(const char *name, const char *text, err *e)
{
    const char *path = temp_path(name);
    file_out *f;
    assert_ok(file_create(&f, path, e), e);
    assert_ok(file_write(f, text, strlen(text), e), e);
    assert_ok(file_commit(f, e), e);
    tokenizer *t = NULL;
    tokenizer_open(&t, path, NULL, e);
    unlink(path);
    return t;
}

static void expect_ids(const tokenizer *t, const char *text, int flags, const char *want)
{
    err e = {0};
    token_list ids = {0};
    buf shown = {0};
    assert_ok(tokenizer_encode(t, span_str(text), flags, &ids, &e), &e);
    for (size_t i = 0; i < ids.n; i++) buf_printf(&shown, i ? " %d" : "%d", ids.id[i]);
    assert_string_equal(buf_cstr(&shown), want);
    buf_free(&shown);
    token_list_free(&ids);
}

/* Decodes and, in passing, checks that the stream gives the same text in parts that are whole characters. */
static void expect_text(const tokenizer *t, const int32_t *id, size_t n, int flags, const char *want)
{
    err e = {0};
    buf whole = {0}, parts = {0};
    assert_ok(tokenizer_decode(t, id, n, flags, &whole, &e), &e);
    detok *d;
    assert_ok(detok_open(&d, t, flags, &e), &e);
    for (size_t i = 0; i <= n; i++) {
        size_t before = parts.n;
        assert_ok(i < n ? detok_next(d, id[i], &parts, &e) : detok_finish(d, &parts, &e), &e);
        assert_true(parts.n == before || utf8_is_valid(span_of(parts.p + before, parts.n - before)));
    }
    detok_close(d);
    assert_true(span_eq(buf_span(&whole), buf_span(&parts)));
    if (want) assert_string_equal(buf_cstr(&whole), want);
    buf_free(&whole);
    buf_free(&parts);
}

static const char tiny_bpe[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<end>\",\"special\":true,\"normalized\":false},"
    "{\"id\":10,\"content\":\"now\",\"special\":false,\"normalized\":false,\"single_word\":true,\"lstrip\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
    "{\"SpecialToken\":{\"id\":\"<end>\",\"type_id\":0}}],\"special_tokens\":{\"<end>\":{\"id\":\"<end>\",\"ids\":[9]}}"
    "},"
    "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"\xc4\xa0"
    "ab\":4,\"aa\":5,\"\xc3\xa3\":6,\"\xc4\xa3\":7,\"\xc4\xa4\":8},"
    "\"merges\":[\"a b\",\"\xc4\xa0 ab\",[\"a\",\"a\"]]}}";

static void bytes_merge_by_rank(void **state)
{
    (void)state;
    err e = {0};
    tokenizer *t = open_text("tiny.json", tiny_bpe, &e);
    assert_non_null(t);
    assert_string_equal(tokenizer_kind(t), "bpe");
    expect_ids(t, "ab ab", 0, "3 4");
    expect_ids(t, "aaab", 0, "5 3");                   /* a+b first, then a+a */
    expect_ids(t, "ab<end>", TOKENIZE_SPECIAL, "3 9"); /* < e n d > are no bytes of this vocabulary: they vanish */
    expect_ids(t, "ab<end>b", TOKENIZE_PARSE, "3 9 1");
    expect_ids(t, "ab  now ab", 0, "3 10 4");
    expect_ids(t, "anow", 0, "0"); /* inside a word it is text */
    expect_ids(t, "", TOKENIZE_SPECIAL, "9");
    expect_text(t, (int32_t[]){3, 4, 9}, 3, 0, "ab ab<end>");
    expect_text(t, (int32_t[]){3, 4, 9}, 3, DETOKENIZE_SKIP_SPECIAL, "ab ab");
    expect_text(t, (int32_t[]){6, 7, 8}, 3, 0, "\xe3\x81\x82"); /* one character in three tokens */
    expect_text(t, (int32_t[]){6, 7, 0}, 3, 0,
                "\xef\xbf\xbd"
                "a");
    buf b = {0};
    assert_int_equal(tokenizer_decode(t, (int32_t[]){77}, 1, 0, &b, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "77"));
    buf_free(&b);
    tokenizer_close(t);
}

static void unknown_parts_are_named(void **state)
{
    (void)state;
    static const char *const file[] = {
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"normalizer\":{\"type\":\"Rot13\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Rot13\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"post_processor\":{\"type\":\"Rot13\"}}",
        ("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{"
         "\"type\":\"Rot13\"}]}}"),
        "{\"model\":{\"type\":\"Rot13\"}}",
    };
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        err e = {0};
        assert_null(open_text("unknown.json", file[i], &e));
        assert_int_equal(e.code, ERR_FORMAT);
        assert_non_null(strstr(e.msg, "Rot13"));
    }
}

/* Random keys of two letters against a plain list, before and after packing. */
static void tries_find_prefixes(void **state)
{
    (void)state;
    enum { KEYS = 400 };
    static char key[KEYS][16];
    trie t = {0};
    err e = {0};
    uint32_t r = 1;
    for (int i = 0; i < KEYS; i++) {
        int n = 1 + (int)((r = r * 1664525u + 1013904223u) >> 24) % 12;
        for (int k = 0; k < n; k++) key[i][k] = (char)("ab\x80\xff"[(r = r * 1664525u + 1013904223u) >> 30]);
        assert_ok(trie_put(&t, span_of(key[i], (size_t)n), i, &e), &e);
    }
    for (int packed = 0; packed < 2; packed++) {
        for (int i = 0; i < KEYS; i++) {
            char text[32];
            snprintf(text, sizeof text, "%.15s%.15s", key[i], key[(i * 7 + 1) % KEYS]);
            int best = -1;
            for (int k = 0; k < KEYS; k++) /* the last of equal keys counts */
                if (!strncmp(text, key[k], strlen(key[k])) && (best < 0 || strlen(key[k]) >= strlen(key[best])))
                    best = k;
            size_t n = 0;
            assert_int_equal(trie_longest(&t, span_str(text), &n), best);
            assert_int_equal(n, strlen(key[best]));
        }
        assert_ok(trie_seal(&t, &e), &e);
    }
    size_t n;
    assert_int_equal(trie_longest(&t, span_str("c"), &n), -1);
    trie_free(&t);
}

/* Keys whose packed form would be many times as large: the bytes of each node exclude other nodes from its block. */
static void wide_tries_stay_small(void **state)
{
    (void)state;
    enum { NODES = 3000 };
    trie t = {0};
    err e = {0};
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < 30; k++) { /* low nibbles of 0x00, high nibbles of 0x0f: differences cover all bytes */
            uint8_t key[4] = {1, (uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(k < 15 ? k + 1 : (k - 14) << 4)};
            assert_ok(trie_put(&t, span_of(key, 4), i, &e), &e);
        }
    assert_ok(trie_seal(&t, &e), &e);
    assert_true(t.units <= 4 * (size_t)t.nodes + 4096);
    for (int i = 0; i < NODES; i++) {
        size_t n = 0;
        uint8_t text[5] = {1, (uint8_t)i, (uint8_t)(i >> 8), 0x30, 7};
        assert_int_equal(trie_longest(&t, span_of(text, 5), &n), i);
        assert_int_equal(n, 4);
    }
    trie_free(&t);
}

static void expect_pair(const tokenizer *t, const char *a, const char *b, const char *want_ids, const char *want_types)
{
    err e = {0};
    token_list ids = {0}, types = {0};
    buf shown[2] = {{0}, {0}};
    span second = span_str(b);
    assert_ok(tokenizer_encode_input(t, &(token_input){span_str(a), &second, 0}, TOKENIZE_SPECIAL, &ids, &types, &e),
              &e);
    assert_int_equal(ids.n, types.n);
    for (size_t i = 0; i < ids.n; i++) {
        buf_printf(&shown[0], i ? " %d" : "%d", ids.id[i]);
        buf_printf(&shown[1], "%d", types.id[i]);
    }
    assert_string_equal(buf_cstr(&shown[0]), want_ids);
    assert_string_equal(buf_cstr(&shown[1]), want_types);
    buf_free(&shown[0]);
    buf_free(&shown[1]);
    token_list_free(&ids);
    token_list_free(&types);
}

static void pairs_of_texts(void **state)
{
    (void)state;
    const char *bert = shared_path("tokenizers/bert/all-minilm-l6-v2.json"),
               *llama = shared_path("tokenizers/llama2/tokenizer.json");
    if (!bert || !llama) {
        skip_msg("the vocabularies are absent");
        return;
    }
    err e = {0};
    tokenizer *t;
    assert_ok(tokenizer_open(&t, bert, NULL, &e), &e);
    expect_pair(t, "hello world", "good bye", "101 7592 2088 102 2204 9061 102", "0000111");
    tokenizer_close(t);
    assert_ok(tokenizer_open(&t, llama, NULL, &e), &e);
    expect_pair(t, "hello", "bye", "1 22172 1 491 29872", "00111");
    tokenizer_close(t);
}

static void side_files_name_roles(void **state)
{
    (void)state;
    const char *path = shared_path("tokenizers/qwen2");
    if (!path) {
        skip_msg("the vocabulary is absent");
        return;
    }
    err e = {0};
    tokenizer *t;
    assert_ok(tokenizer_open(&t, path, NULL, &e), &e);
    int32_t end = tokenizer_id(t, "<|im_end|>");
    assert_int_equal(end, 151645);
    assert_int_equal(tokenizer_role(t, TOKEN_EOS), end);
    assert_int_equal(tokenizer_role(t, TOKEN_BOS), -1);
    assert_int_equal(tokenizer_role(t, TOKEN_PAD), 151643);
    assert_true(tokenizer_is_special(t, end));
    assert_non_null(strstr(tokenizer_chat_template(t), "<|im_start|>"));
    buf b = {0};
    assert_true(tokenizer_bytes(t, tokenizer_id(t, "\xc4\xa0the"), &b));
    assert_string_equal(buf_cstr(&b), " the");
    assert_false(tokenizer_bytes(t, end, &b));
    buf_free(&b);
    tokenizer_close(t);
}

/* Of a processor of pictures the template stands in a file of its own; the tokenizer's own comes before it. */
static void templates_of_processors(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"chat_template.json", "{\"chat_template\": \"of the processor\"}", "of the processor"},
        {"tokenizer_config.json", "{\"chat_template\": \"of the tokenizer\"}", "of the tokenizer"},
        {"chat_template.jinja", "of the file", "of the file"},
    };
    const char *dir = temp_path("processor");
    char shell[900];
    snprintf(shell, sizeof shell, "mkdir %s && cp tests/vectors/tokenizers/random0.json %s/tokenizer.json", dir, dir);
    assert_int_equal(system(shell), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err e = {0};
        tokenizer *t;
        snprintf(shell, sizeof shell, "printf '%%s' '%s' >%s/%s", rows[i][1], dir, rows[i][0]);
        assert_int_equal(system(shell), 0);
        assert_ok(tokenizer_open(&t, dir, NULL, &e), &e);
        assert_string_equal(tokenizer_chat_template(t), rows[i][2]);
        tokenizer_close(t);
    }
    snprintf(shell, sizeof shell, "rm -r %s", dir);
    assert_int_equal(system(shell), 0);
}

/* A byte of a decoder with ByteFallback stands for itself, though half a character has no text. */
static void bytes_of_fallback_are_raw(void **state)
{
    (void)state;
    err e = {0};
    tokenizer *t;
    buf b = {0};
    assert_ok(tokenizer_open(&t, "tests/vectors/tokenizers/fallback.json", NULL, &e), &e);
    assert_true(tokenizer_bytes(t, tokenizer_id(t, "<0xC3>"), &b) && tokenizer_bytes(t, tokenizer_id(t, "<0x22>"), &b));
    assert_string_equal(buf_cstr(&b), "\xc3\"");
    buf_free(&b);
    tokenizer_close(t);
}

/* Of work: what else the machine does is left out. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One long word, one long run of spaces: n log n at most. The bound is generous; quadratic work would take minutes. */
static void expect_fast(const tokenizer *t)
{
    static const struct {
        char c;
        size_t n;
    } runs[] = {{'a', 10000},    {' ', 5000},    {'a', 1 << 20}, {' ', 1 << 20},
                {'\n', 1 << 20}, {'=', 1 << 20}, {'7', 1 << 20}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        err e = {0};
        char *text = malloc(runs[i].n);
        memset(text, runs[i].c, runs[i].n);
        token_list ids = {0};
        double start = seconds();
        assert_ok(tokenizer_encode(t, span_of(text, runs[i].n), 0, &ids, &e), &e);
        if (seconds() - start > 20) fail_msg("%zu times '%c' took %.1f s", runs[i].n, runs[i].c, seconds() - start);
        token_list_free(&ids);
        free(text);
    }
}

static void real_vocabularies(void **state)
{
    (void)state;
    static const struct {
        const char *path, *pre, *text, *ids;
        int flags;
    } rows[] = {
        {"models/stories260K/tok512.bin", NULL, "Once upon a time", "1 403 407 261 378", TOKENIZE_SPECIAL},
        {"models/stories260K/tok512.model", NULL, "Once upon a time", "403 407 261 378", TOKENIZE_SPECIAL},
        {"tokenizers/llama2/tokenizer.bin", NULL, "Hello  world", "1 15043 29871 3186", TOKENIZE_SPECIAL},
        {"tokenizers/llama2/tokenizer.model", NULL, "Hello  world", "15043 29871 3186", TOKENIZE_SPECIAL},
        {"tokenizers/llama2/tokenizer.json", NULL, "Hello  world", "1 15043 29871 3186", TOKENIZE_SPECIAL},
        {"tokenizers/gpt2/tokenizer.json", NULL, "Hello world's", "15496 995 338", TOKENIZE_SPECIAL},
        {"tokenizers/llama3/tokenizer.model", "llama3", "Hello world's", "9906 1917 596", TOKENIZE_SPECIAL},
        {"tokenizers/t5/tokenizer.json", NULL, "Hello world", "8774 296 1", TOKENIZE_SPECIAL},
        {"tokenizers/bert/all-minilm-l6-v2.json", NULL, "Hello wörld!", "101 7592 2088 999 102", TOKENIZE_SPECIAL},
        {"tokenizers/unigram-spm/test_model.model", NULL, "Hello world!", "151 88 21 887 147", TOKENIZE_SPECIAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = shared_path(rows[i].path);
        if (!path) {
            skip_msg("%s is absent", rows[i].path);
            continue;
        }
        err e = {0};
        tokenizer *t;
        assert_ok(tokenizer_open(&t, path, rows[i].pre, &e), &e);
        expect_ids(t, rows[i].text, rows[i].flags, rows[i].ids);
        expect_fast(t);
        int32_t some[64];
        for (int32_t k = 0; k < 64; k++) some[k] = (int32_t)(k * 7919u % tokenizer_size(t));
        for (int k = 0; k < 64; k++)
            if (!tokenizer_piece(t, some[k]).p) some[k] = 3;
        expect_text(t, some, 64, 0, NULL);
        tokenizer_close(t);
    }
}

/* Listed twice, once special: special, in either order and however each listing is normalized. */
static void special_once_is_special(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        char text[1024];
        err e = {0};
        snprintf(text, sizeof text,
                 "{\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
                 "{\"id\":1,\"content\":\"<x>\",\"special\":%s,\"normalized\":%s},"
                 "{\"id\":1,\"content\":\"<x>\",\"special\":%s,\"normalized\":%s}],"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<x>\":1,\"<\":2,\"x\":3,\">\":4},\"merges\":[]}}",
                 i & 1 ? "true" : "false", i & 2 ? "true" : "false", i & 1 ? "false" : "true",
                 i & 4 ? "true" : "false");
        tokenizer *t = open_text("twice.json", text, &e);
        if (!t) fail_msg("%s", e.msg);
        expect_ids(t, "a<x>", 0, "0 2 3 4");
        expect_ids(t, "a<x>", TOKENIZE_PARSE, "0 1");
        assert_true(tokenizer_is_special(t, 1));
        tokenizer_close(t);
    }
}

/* Two spellings of one id, one of them special: plain text makes that id of neither. */
static void spellings_of_a_special_id(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[1024];
        err e = {0};
        snprintf(text, sizeof text,
                 "{\"added_tokens\":[{\"id\":1,\"content\":\"<x>\",\"special\":%s,\"normalized\":false},"
                 "{\"id\":1,\"content\":\"</x>\",\"special\":%s,\"normalized\":false}],"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<x>\":1,\"</x>\":1,\"a\":0,\"<\":2,\"x\":3,\">\":4,\"/\":5},"
                 "\"merges\":[]}}",
                 i ? "true" : "false", i ? "false" : "true");
        tokenizer *t = open_text("spellings.json", text, &e);
        if (!t) fail_msg("%s", e.msg);
        expect_ids(t, "a<x></x>", 0, "0 2 3 4 2 5 3 4");
        expect_ids(t, "a<x></x>", TOKENIZE_PARSE, "0 1 1");
        assert_true(tokenizer_is_special(t, 1));
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_fallback_are_raw),
        cmocka_unit_test(special_once_is_special),
        cmocka_unit_test(spellings_of_a_special_id),
        cmocka_unit_test(bytes_merge_by_rank),
        cmocka_unit_test(unknown_parts_are_named),
        cmocka_unit_test(real_vocabularies),
        cmocka_unit_test(tries_find_prefixes),
        cmocka_unit_test(wide_tries_stay_small),
        cmocka_unit_test(pairs_of_texts),
        cmocka_unit_test(side_files_name_roles),
        cmocka_unit_test(templates_of_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
