/* t_text_tokenizer_write.c - tokenizers written as GGUF vocabularies and as tokenizer.json do the same when read back.
 * */
#include "test.h"

#include "base/file.h"
#include "io/ckpt.h"
#include "io/write_gguf.h"
#include "text/write_gguf_vocab.h"
#include "text/write_hf_tokenizer.h"
#include "text/tokenizer_equal.h"
#include "text/tokenizer_open.h"

static void add_string(buf *b, const char *s)
{
    buf_uint(b, strlen(s), 8);
    buf_str(b, s);
}

/* A small SentencePiece-like vocabulary: <unk>, <s>, </s>, the bytes, letters and some words. */
static tokenizer *small_tokenizer(void)
{
    static const char *const words[] = {"\xe2\x96\x81",
                                        "t",
                                        "h",
                                        "e",
                                        "c",
                                        "a",
                                        "th",
                                        "the",
                                        "\xe2\x96\x81the",
                                        "at",
                                        "cat",
                                        ("\xe2\x96\x81"
                                         "cat"),
                                        "he"};
    gguf_pairs p = {0};
    buf tokens = {0}, scores = {0}, types = {0}, file = {0};
    char piece[8];
    uint32_t n = 0;
    for (int i = 0; i < 3 + 256 + 13; i++, n++) {
        float score = i < 259 ? 0 : -(float)(i - 258);
        snprintf(piece, sizeof piece, "<0x%02X>", (i - 3) & 255);
        add_string(&tokens, i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : i < 259 ? piece : words[i - 259]);
        buf_add(&scores, &score, 4);
        buf_uint(&types, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1, 4);
    }
    gguf_add_text(&p, "general.architecture", "llama");
    gguf_add_text(&p, "tokenizer.ggml.model", "llama");
    gguf_add_array(&p, "tokenizer.ggml.tokens", GGUF_STRING, n, buf_span(&tokens));
    gguf_add_array(&p, "tokenizer.ggml.scores", GGUF_F32, n, buf_span(&scores));
    gguf_add_array(&p, "tokenizer.ggml.token_type", GGUF_I32, n, buf_span(&types));
    err e = {0};
    ckpt *c;
    tokenizer *t;
    assert_ok(write_gguf_header(&file, &p, NULL, 0, &e), &e);
    assert_ok(ckpt_open_bytes(&c, buf_span(&file), "small", &e), &e);
    assert_ok(tokenizer_of_model(&t, c, NULL, &e), &e);
    ckpt_close(c);
    gguf_pairs_free(&p);
    buf_free(&tokens);
    buf_free(&scores);
    buf_free(&types);
    buf_free(&file);
    return t;
}

static tokenizer *through_gguf(const tokenizer *t)
{
    gguf_pairs p = {0};
    buf file = {0};
    err e = {0};
    ckpt *c;
    tokenizer *again;
    assert_ok(write_gguf_vocab(t, tokenizer_size(t) + 7, &p, &e), &e);
    assert_ok(write_gguf_header(&file, &p, NULL, 0, &e), &e);
    assert_ok(ckpt_open_bytes(&c, buf_span(&file), "written", &e), &e);
    assert_ok(tokenizer_of_model(&again, c, NULL, &e), &e);
    assert_int_equal(tokenizer_size(again), tokenizer_size(t) + 7); /* rows of the model without a piece */
    ckpt_close(c);
    gguf_pairs_free(&p);
    buf_free(&file);
    return again;
}

static tokenizer *open_json(span file)
{
    err e = {0};
    tokenizer *t;
    const char *path = temp_path("tokenizer.json");
    FILE *f = fopen(path, "w");
    fwrite(file.p, 1, file.n, f);
    fclose(f);
    assert_ok(tokenizer_open(&t, path, NULL, &e), &e);
    unlink(path);
    return t;
}

static tokenizer *through_json(const tokenizer *t)
{
    buf file = {0}, config = {0};
    err e = {0};
    assert_ok(write_hf_tokenizer(t, &file, &config, &e), &e);
    json *j;
    assert_ok(json_parse(&j, buf_span(&config), "config", &e), &e);
    json_free(j);
    tokenizer *again = open_json(buf_span(&file));
    buf_free(&file);
    buf_free(&config);
    return again;
}

static void check(tokenizer *t, bool added)
{
    tokenizer *a = through_gguf(t), *b = through_json(t), *c = through_json(a);
    assert_true(tokenizer_equal(t, a, added));
    assert_true(tokenizer_equal(t, b, added));
    assert_true(tokenizer_equal(t, c, added));
    tokenizer_close(a);
    tokenizer_close(b);
    tokenizer_close(c);
    tokenizer_close(t);
}

static void small_vocabulary(void **unused)
{
    (void)unused;
    tokenizer *t = small_tokenizer();
    token_list ids = {0};
    err e = {0};
    assert_ok(tokenizer_encode(t, span_str("the cat"), TOKENIZE_SPECIAL, &ids, &e), &e);
    assert_int_equal(ids.n, 3); /* <s> ▁the ▁cat */
    token_list_free(&ids);
    check(t, false);
}

static void real_vocabularies(void **unused)
{
    (void)unused;
    static const struct {
        const char *path;
        bool added;
    } files[] = {{"models/stories260K/tok512.bin", false},
                 {"tokenizers/llama2/tokenizer.json", false},
                 {"tokenizers/llama2/tokenizer.model", false},
                 {"tokenizers/gpt2/tokenizer.json", true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = shared_path(files[i].path);
        tokenizer *t;
        err e = {0};
        if (!path) {
            skip_msg("%s is not there", files[i].path);
            continue;
        }
        assert_ok(tokenizer_open(&t, path, NULL, &e), &e);
        check(t, files[i].added);
    }
}

/* What cannot be said is not said: nothing is added, and the message names the kind. */
static void other_kinds_are_refused(void **unused)
{
    (void)unused;
    const char *path = shared_path("tokenizers/t5/tokenizer.json");
    tokenizer *t;
    err e = {0};
    if (!path) {
        skip_msg("tokenizers/t5 is not there");
        return;
    }
    assert_ok(tokenizer_open(&t, path, NULL, &e), &e);
    gguf_pairs p = {0};
    buf file = {0}, config = {0};
    assert_int_equal(write_gguf_vocab(t, 0, &p, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "unigram"));
    assert_int_equal(p.n, 0);
    e = (err){0};
    assert_int_equal(write_hf_tokenizer(t, &file, &config, &e), ERR_NOT_FOUND);
    assert_int_equal(file.n, 0);
    gguf_pairs_free(&p);
    buf_free(&file);
    tokenizer_close(t);
}

/* A vocabulary of an encoder as GGUF has XLM-R's: <s> a </s></s> b </s>. */
static void two_texts_of_a_gguf_encoder(void **unused)
{
    (void)unused;
    static const char *const words[] = {"<s>", "<pad>", "</s>", "<unk>", "\xe2\x96\x81x", "\xe2\x96\x81y"};
    static const int32_t want[] = {0, 4, 4, 2, 2, 5, 2};
    gguf_pairs p = {0};
    buf tokens = {0}, scores = {0}, types = {0}, file = {0};
    for (int i = 0; i < 6; i++) {
        float score = -1;
        add_string(&tokens, words[i]);
        buf_add(&scores, &score, 4);
        buf_uint(&types, i < 3 ? 3 : i == 3 ? 2 : 1, 4);
    }
    gguf_add_text(&p, "tokenizer.ggml.model", "t5");
    gguf_add_array(&p, "tokenizer.ggml.tokens", GGUF_STRING, 6, buf_span(&tokens));
    gguf_add_array(&p, "tokenizer.ggml.scores", GGUF_F32, 6, buf_span(&scores));
    gguf_add_array(&p, "tokenizer.ggml.token_type", GGUF_I32, 6, buf_span(&types));
    gguf_add_uint(&p, "tokenizer.ggml.bos_token_id", GGUF_U32, 0);
    gguf_add_uint(&p, "tokenizer.ggml.eos_token_id", GGUF_U32, 2);
    gguf_add_uint(&p, "tokenizer.ggml.unknown_token_id", GGUF_U32, 3);
    gguf_add_uint(&p, "tokenizer.ggml.seperator_token_id", GGUF_U32, 2);
    gguf_add_uint(&p, "tokenizer.ggml.add_bos_token", GGUF_BOOL, 1);
    gguf_add_uint(&p, "tokenizer.ggml.add_eos_token", GGUF_BOOL, 1);
    err e = {0};
    ckpt *c;
    tokenizer *t;
    token_list ids = {0}, types_of = {0};
    span b = span_str("y");
    assert_ok(write_gguf_header(&file, &p, NULL, 0, &e), &e);
    assert_ok(ckpt_open_bytes(&c, buf_span(&file), "encoder", &e), &e);
    assert_ok(tokenizer_of_model(&t, c, NULL, &e), &e);
    assert_ok(
        tokenizer_encode_input(t, &(token_input){.a = span_str("x x"), .b = &b}, TOKENIZE_SPECIAL, &ids, &types_of, &e),
        &e);
    assert_int_equal(ids.n, 7);
    assert_memory_equal(ids.id, want, sizeof want);
    for (size_t i = 0; i < ids.n; i++) assert_int_equal(types_of.id[i], 0);
    token_list_free(&ids);
    token_list_free(&types_of);
    tokenizer_close(t);
    ckpt_close(c);
    gguf_pairs_free(&p);
    buf_free(&tokens);
    buf_free(&scores);
    buf_free(&types);
    buf_free(&file);
}

/* The template for two texts, with a special token that the one for one text lacks. */
static void templates_for_two(void **unused)
{
    (void)unused;
    static const char file[] =
        "{\"added_tokens\":[{\"id\":2,\"content\":\"</"
        "s>\",\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{"
        "\"id\":"
        "\"B\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</"
        "s>\",\"type_id\":3}},{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}"
        "],\"special_tokens\":{\"</s>\":{\"id\":\"</s>\",\"ids\":[2]}}},"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"</s>\":2},\"merges\":[]}}";
    static const int32_t want_ids[] = {1, 2, 0, 0}, want_types[] = {0, 3, 1, 1};
    err e = {0};
    tokenizer *t = open_json(span_str(file));
    tokenizer *again = through_json(t);
    span b = span_str("b");
    token_list ids = {0}, types = {0};
    assert_ok(tokenizer_encode_input(again, &(token_input){span_str("aa"), &b, 0}, TOKENIZE_SPECIAL, &ids, &types, &e),
              &e);
    assert_int_equal(ids.n, 4);
    assert_int_equal(types.n, 4);
    assert_memory_equal(ids.id, want_ids, sizeof want_ids);
    assert_memory_equal(types.id, want_types, sizeof want_types);
    ids.n = 0;
    assert_int_equal(
        tokenizer_encode_input(again, &(token_input){span_str("aa"), &b, 1}, TOKENIZE_SPECIAL, &ids, NULL, &e),
        OK); /* the special token alone */
    assert_int_equal(ids.n, 1);
    token_list_free(&ids);
    token_list_free(&types);
    tokenizer_close(again);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_vocabulary), cmocka_unit_test(real_vocabularies),
                                       cmocka_unit_test(other_kinds_are_refused), cmocka_unit_test(templates_for_two),
                                       cmocka_unit_test(two_texts_of_a_gguf_encoder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
