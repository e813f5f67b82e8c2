/* t_text_tokenizer_class.c - vocabularies in bare files: the class that frames their texts, and languages. */
#include "test.h"

#include "base/file.h"
#include "text/tokenizer_open.h"

#include <sys/stat.h>

#define VECTORS "tests/vectors/tokenizers/"

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[400];
    err e = {0};
    file_out *f;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, text, strlen(text), &e), &e);
    assert_ok(file_commit(f, &e), &e);
}

/* A folder with up to three files (name, text, …, NULL). */
static int open_folder(tokenizer **t, const char *const *files, err *e)
{
    const char *folder = temp_path("class");
    char path[400];
    mkdir(folder, 0700);
    for (const char *const *f = files; *f; f += 2) write_text(folder, f[0], f[1]);
    int rc = tokenizer_open(t, folder, NULL, e);
    for (const char *const *f = files; *f; f += 2) {
        snprintf(path, sizeof path, "%s/%s", folder, f[0]);
        unlink(path);
    }
    rmdir(folder);
    return rc;
}

static void expect(const tokenizer *t, const token_input *in, const char *want)
{
    err e = {0};
    token_list ids = {0};
    buf shown = {0};
    assert_ok(tokenizer_encode_input(t, in, TOKENIZE_SPECIAL, &ids, NULL, &e), &e);
    for (size_t i = 0; i < ids.n; i++) buf_printf(&shown, i ? " %d" : "%d", ids.id[i]);
    assert_string_equal(buf_cstr(&shown), want);
    buf_free(&shown);
    token_list_free(&ids);
}

#define MPNET_WORDS "<s>\n<pad>\n</s>\n<unk>\n[UNK]\nhello\nworld\n<mask>\n"

/* The class is the one in tokenizer_config.json, else the one of config.json's model_type, else BERT's. */
static void classes_of_vocab_txt(void **state)
{
    (void)state;
    static const struct {
        const char *files[8], *want, *error;
    } rows[] = {
        {{"vocab.txt", MPNET_WORDS, "tokenizer_config.json", "{\"tokenizer_class\":\"MPNetTokenizerFast\"}"},
         "0 5 4 6 2"},
        {{"vocab.txt", MPNET_WORDS, "config.json", "{\"model_type\":\"mpnet\"}"}, "0 5 4 6 2"},
        {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n", "config.json", "{\"model_type\":\"bert\"}"},
         "2 4 1 5 3"},
        {{"vocab.txt", "[UNK]\nhello\nworld\n"}, "1 0 2"}, /* no [CLS], no frame */
        {{"vocab.txt", MPNET_WORDS, "tokenizer_config.json", "{\"tokenizer_class\":\"BertweetTokenizer\"}"},
         NULL,
         "BertweetTokenizer"},
        {{"vocab.json", "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"a\":3,\"<mask>\":4}", "merges.txt", "#version: 0.2\n",
          "config.json", "{\"model_type\":\"roberta\"}"},
         "0 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer *t;
        err e = {0};
        int rc = open_folder(&t, rows[i].files, &e);
        if (rows[i].error) {
            assert_int_equal(rc, ERR_FORMAT);
            assert_non_null(strstr(e.msg, rows[i].error));
            continue;
        }
        assert_ok(rc, &e);
        expect(t, &(token_input){.a = span_str(strstr(rows[i].files[0], "json") ? "" : "hello zzz world")},
               rows[i].want);
        tokenizer_close(t);
    }
}

static void texts_are_cut_at_their_side(void **state)
{
    (void)state;
    tokenizer *t;
    err e = {0};
    span b = span_str("world hello");
    static const char *const left[] = {"vocab.txt", MPNET_WORDS, "tokenizer_config.json",
                                       "{\"tokenizer_class\":\"MPNetTokenizer\",\"truncation_side\":\"left\"}", NULL};
    assert_ok(open_folder(&t, left, &e), &e);
    token_input in = {.a = span_str("hello hello world"), .ids_max = 4};
    expect(t, &in, "0 5 6 2");
    in.b = &b;
    in.ids_max = 7;
    expect(t, &in, "0 5 6 2 2 5 2"); /* the longer text gives way first, then equal shares */
    token_list ids = {0};
    in.ids_max = 3;
    assert_int_equal(tokenizer_encode_input(t, &in, TOKENIZE_SPECIAL, &ids, NULL, &e), ERR_USAGE);
    assert_int_equal(ids.n, 0);
    tokenizer_close(t);
}

/* The language of a text: as the files say, or as the caller does. */
static void languages(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *own, *other;
        bool first;
    } rows[] = {{VECTORS "mbart", "ro_RO", "en_XX", false},
                {VECTORS "nllb", "fra_Latn", "zul_Latn", true},
                {VECTORS "m2m100", "fr", "zu", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer *t;
        err e = {0};
        token_list ids = {0};
        assert_ok(tokenizer_open(&t, rows[i].folder, NULL, &e), &e);
        int32_t own = tokenizer_language(t, rows[i].own), other = tokenizer_language(t, rows[i].other);
        assert_true(own > 0 && other > 0 && own != other && tokenizer_is_special(t, own));
        assert_int_equal(tokenizer_language(t, "tlh"), -1);
        for (int k = 0; k < 2; k++) {
            ids.n = 0;
            token_input in = {.a = span_str("the"), .language = k ? other : 0};
            assert_ok(tokenizer_encode_input(t, &in, TOKENIZE_SPECIAL, &ids, NULL, &e), &e);
            assert_int_equal(ids.id[rows[i].first ? 0 : ids.n - 1], k ? other : own);
        }
        token_list_free(&ids);
        tokenizer_close(t);
    }
}

/* One tokenizer serves both sides unless the folder has another. */
static void target_tokenizers(void **state)
{
    (void)state;
    tokenizer *t;
    err e = {0};
    assert_int_equal(tokenizer_open_target(&t, VECTORS "m2m100", &e), ERR_NOT_FOUND);
    assert_null(t);
    e = (err){0};
    assert_ok(tokenizer_open_target(&t, VECTORS "marian", &e), &e);
    assert_true(tokenizer_size(t) < 90);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes_of_vocab_txt),
                                       cmocka_unit_test(texts_are_cut_at_their_side), cmocka_unit_test(languages),
                                       cmocka_unit_test(target_tokenizers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
