/* t_text_tokenizer_vectors.c - what the reference libraries made of texts: small vocabularies of every kind (made by
 * tools/oracle/tokenizer_vectors.py), and the real ones of the shared data with the cases that came with them. */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer_open.h"

#define VECTORS "tests/vectors/tokenizers/"

static void ids_of(const json *list, token_list *out)
{
    out->n = 0;
    for (const json *j = json_first(list); j; j = json_next(j))
        assert_true(token_list_add(out, (int32_t)json_int(j, -1)));
}

static void show(buf *b, const token_list *l)
{
    for (size_t i = 0; i < l->n; i++) buf_printf(b, i ? " %d" : "%d", l->id[i]);
}

static void expect_same_ids(const char *file, const char *text, const token_list *got, const token_list *want)
{
    if (got->n == want->n && (got->n == 0 || memcmp(got->id, want->id, got->n * sizeof *got->id) == 0)) return;
    buf g = {0}, w = {0};
    show(&g, got);
    show(&w, want);
    fail_msg("%s: \"%.100s\"\n  want %.500s\n  got  %.500s", file, text, buf_cstr(&w), buf_cstr(&g));
}

/* Decodes whole and as a stream whose parts are whole characters. */
static void expect_decoded(const char *file, const tokenizer *t, const token_list *ids, const char *want)
{
    err e = {0};
    buf whole = {0}, parts = {0};
    detok *d;
    assert_ok(tokenizer_decode(t, ids->id, ids->n, 0, &whole, &e), &e);
    assert_ok(detok_open(&d, t, 0, &e), &e);
    for (size_t i = 0; i <= ids->n; i++) {
        size_t before = parts.n;
        assert_ok(i < ids->n ? detok_next(d, ids->id[i], &parts, &e) : detok_finish(d, &parts, &e), &e);
        if (parts.n > before && !utf8_is_valid(span_of(parts.p + before, parts.n - before)))
            fail_msg("%s: the stream gave half a character", file);
    }
    detok_close(d);
    if (strcmp(buf_cstr(&whole), want) != 0)
        fail_msg("%s: decoded\n  want %s\n  got  %s", file, want, buf_cstr(&whole));
    assert_string_equal(buf_cstr(&whole), buf_cstr(&parts));
    buf_free(&whole);
    buf_free(&parts);
}

static int flags_of(const char *mode)
{
    return strcmp(mode, "special") == 0 ? TOKENIZE_SPECIAL : strcmp(mode, "parse") == 0 ? TOKENIZE_PARSE : 0;
}

/* One text or two, cut to "max" ids. */
static void expect_input(const char *file, const tokenizer *t, const json *j, const token_list *want)
{
    err e = {0};
    token_list ids = {0}, types = {0}, want_types = {0};
    const json *a = json_first(json_get(j, "input")), *b = json_next(a);
    span second = span_str(json_str(b, ""));
    token_input in = {span_str(json_str(a, "")), b ? &second : NULL, (size_t)json_int(json_get(j, "max"), 0)};
    ids_of(json_get(j, "types"), &want_types);
    assert_ok(tokenizer_encode_input(t, &in, flags_of(json_str(json_get(j, "mode"), "")), &ids, &types, &e), &e);
    expect_same_ids(file, json_str(a, ""), &ids, want);
    expect_same_ids(file, "types", &types, &want_types);
    token_list_free(&ids);
    token_list_free(&types);
    token_list_free(&want_types);
}

static void small_vocabularies(void **state)
{
    (void)state;
    err e = {0};
    buf cases = {0};
    char open_name[64] = "";
    tokenizer *t = NULL;
    bool is_target = false;
    token_list want = {0}, got = {0};
    assert_ok(file_read(&cases, VECTORS "cases.jsonl", 1 << 24, &e), &e);
    size_t lines = 0;
    for (size_t at = 0; at < cases.n; lines++) {
        size_t n = (size_t)((uint8_t *)memchr(cases.p + at, '\n', cases.n - at) - (cases.p + at));
        json *j;
        assert_ok(json_parse(&j, span_of(cases.p + at, n), "cases.jsonl", &e), &e);
        at += n + 1;
        const char *file = json_str(json_get(j, "file"), "");
        bool target = json_bool(json_get(j, "target"), false);
        if (strcmp(file, open_name) != 0 || target != is_target) {
            char path[200];
            snprintf(path, sizeof path, VECTORS "%s", file);
            snprintf(open_name, sizeof open_name, "%s", file);
            tokenizer_close(t);
            is_target = target;
            if (target) assert_ok(tokenizer_open_target(&t, path, &e), &e);
            else assert_ok(tokenizer_open(&t, path, json_str(json_get(j, "pre"), NULL), &e), &e);
        }
        ids_of(json_get(j, "ids"), &want);
        const char *text = json_str(json_get(j, "text"), NULL);
        if (json_get(j, "input")) {
            expect_input(file, t, j, &want);
        } else if (text) {
            got.n = 0;
            assert_ok(tokenizer_encode(t, span_str(text), flags_of(json_str(json_get(j, "mode"), "")), &got, &e), &e);
            expect_same_ids(file, text, &got, &want);
        } else {
            expect_decoded(file, t, &want, json_str(json_get(j, "decoded"), ""));
        }
        json_free(j);
    }
    assert_true(lines > 500);
    tokenizer_close(t);
    token_list_free(&want);
    token_list_free(&got);
    buf_free(&cases);
}

/* Texts separated by a marker, and a line of ids for each. */
static void check_case_files(const char *name, const tokenizer *t)
{
    static const char marker[] = "\n__ggml_vocab_test__\n";
    char path[200];
    snprintf(path, sizeof path, "tokenizers/ggml-vocab/ggml-vocab-%s.gguf.inp", name);
    const char *in = shared_path(path);
    snprintf(path, sizeof path, "tokenizers/ggml-vocab/ggml-vocab-%s.gguf.out", name);
    const char *out = shared_path(path);
    if (!in || !out) return;
    err e = {0};
    buf texts = {0}, ids = {0};
    assert_ok(file_read(&texts, in, 1 << 20, &e), &e);
    assert_ok(file_read(&ids, out, 1 << 20, &e), &e);
    char *text = buf_cstr(&texts), *line = buf_cstr(&ids);
    int cases = 0;
    for (char *next; text; text = next, cases++) {
        next = strstr(text, marker);
        if (next) {
            *next = 0;
            next += strlen(marker);
        }
        token_list want = {0}, got = {0};
        for (char *end; *line && *line != '\n'; line = end) {
            long id = strtol(line, &end, 10);
            if (end == line) break;
            assert_true(token_list_add(&want, (int32_t)id));
            while (*end == ' ') end++;
        }
        while (*line && *line != '\n') line++;
        if (*line) line++;
        assert_ok(tokenizer_encode(t, span_str(text), 0, &got, &e), &e);
        expect_same_ids(name, text, &got, &want);
        token_list_free(&want);
        token_list_free(&got);
    }
    assert_int_equal(cases, 47);
    buf_free(&texts);
    buf_free(&ids);
}

static tokenizer *open_shared(const char *name, const char *pre)
{
    const char *path = shared_path(name);
    tokenizer *t = NULL;
    err e = {0};
    if (path) assert_ok(tokenizer_open(&t, path, pre, &e), &e);
    else skip_msg("%s is absent", name);
    return t;
}

/* Opening and using each kind of file with the n-th allocation failing, n = 1, 2, …, ends in an error or in success. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const files[] = {"random0.json", "random3.json", "bpe.model", "unigram.model", "ranks.tiktoken",
                                        "llama2c.bin",  "vocab.txt",    "albert",    "mbart",         "m2m100"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[200];
        snprintf(path, sizeof path, VECTORS "%s", files[i]);
        bool fired = true;
        for (long n = 1; fired; n += 1 + n / 50) {
            err e = {0};
            tokenizer *t = NULL;
            token_list ids = {0};
            buf text = {0};
            mem_fail_at(n);
            int rc = tokenizer_open(&t, path, strstr(path, "tiktoken") ? "cl100k" : NULL, &e);
            if (!rc)
                rc = tokenizer_encode(
                    t, span_str("Hello w\xc3\xb6rld, \xe4\xbd\xa0 <s>x  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 3, &ids,
                    &e);
            if (!rc) rc = tokenizer_decode(t, ids.id, ids.n, 0, &text, &e);
            fired = mem_fail_at(0);
            if (!rc != !e.code || (rc && !fired)) fail_msg("%s, allocation %ld: code %d, %s", files[i], n, rc, e.msg);
            token_list_free(&ids);
            buf_free(&text);
            tokenizer_close(t);
        }
    }
}

static void llama_cpp_cases(void **state)
{
    (void)state;
    static const struct {
        const char *cases, *vocabulary, *pre;
    } rows[] = {
        {"gpt-2", "tokenizers/ggml-vocab/ggml-vocab-gpt-2.gguf", NULL},
        {"llama-spm", "tokenizers/ggml-vocab/ggml-vocab-llama-spm.gguf", NULL},
        {"bert-bge", "tokenizers/ggml-vocab/ggml-vocab-bert-bge.gguf", NULL},
        {"gpt-2", "tokenizers/gpt2/vocab.json", NULL},
        {"llama-spm", "tokenizers/llama2/tokenizer.json", NULL},
        {"phi-3", "tokenizers/llama2/tokenizer.model", NULL},
        {"llama-bpe", "tokenizers/llama3/tokenizer.model", "llama3"},
        {"qwen2", "tokenizers/qwen2", NULL},
        {"deepseek-r1-qwen", "tokenizers/qwen2", NULL},
        {"bert-bge", "tokenizers/bert/bert-base-uncased-vocab.txt", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer *t = open_shared(rows[i].vocabulary, rows[i].pre);
        if (t) check_case_files(rows[i].cases, t);
        tokenizer_close(t);
    }
}

/* Inputs and ids as transformers gave them, special tokens included. */
static void transformers_cases(void **state)
{
    (void)state;
    static const struct {
        const char *key, *vocabulary, *pre, *bos;
    } rows[] = {
        {"bert-base-uncased", "tokenizers/bert/bert-base-uncased-vocab.txt", NULL, NULL},
        {"distilgpt2", "tokenizers/gpt2/tokenizer.json", NULL, NULL},
        {"coreml-projects/Llama-2-7b-chat-coreml", "tokenizers/llama2/tokenizer.json", NULL, NULL},
        {"t5-base", "tokenizers/t5/tokenizer.json", NULL, NULL},
        {"pcuenq/Llama-3.2-1B-Instruct-tokenizer", "tokenizers/llama3/tokenizer.model", "llama3", "<|begin_of_text|>"},
    };
    const char *path = shared_path("tokenizers/expected/swift-transformers-tokenizer_tests.json");
    if (!path) {
        skip_msg("the expected ids are absent");
        return;
    }
    err e = {0};
    json *root;
    token_list want = {0}, got = {0};
    assert_ok(json_read(&root, path, 1 << 24, &e), &e);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer *t = open_shared(rows[i].vocabulary, rows[i].pre);
        const json *list = json_get(root, rows[i].key);
        assert_true(json_count(list) >= 18);
        for (const json *j = json_first(list); t && j; j = json_next(j)) {
            const char *text = json_str(json_get(j, "input"), "");
            got.n = 0;
            if (rows[i].bos) token_list_add(&got, tokenizer_id(t, rows[i].bos)); /* rank files add none by themselves */
            assert_ok(tokenizer_encode(t, span_str(text), TOKENIZE_SPECIAL, &got, &e), &e);
            ids_of(json_path(j, "encoded.input_ids"), &want);
            expect_same_ids(rows[i].key, text, &got, &want);
        }
        tokenizer_close(t);
    }
    token_list_free(&want);
    token_list_free(&got);
    json_free(root);
}

static void a_source_file_in_gpt2(void **state)
{
    (void)state;
    const char *text_path = shared_path("tokenizers/expected/ms-lib.rs.txt"),
               *ids_path = shared_path("tokenizers/expected/ms-tokens_gpt2.json");
    tokenizer *t = text_path && ids_path ? open_shared("tokenizers/gpt2/tokenizer.json", NULL) : NULL;
    if (!t) {
        skip_msg("the expected ids are absent");
        return;
    }
    err e = {0};
    buf text = {0};
    json *list;
    token_list want = {0}, got = {0};
    assert_ok(file_read(&text, text_path, 1 << 20, &e), &e);
    assert_ok(json_read(&list, ids_path, 1 << 20, &e), &e);
    ids_of(list, &want);
    assert_ok(tokenizer_encode(t, buf_span(&text), 0, &got, &e), &e);
    expect_same_ids("gpt2", "lib.rs", &got, &want);
    expect_decoded("gpt2", t, &want, buf_cstr(&text));
    json_free(list);
    buf_free(&text);
    token_list_free(&want);
    token_list_free(&got);
    tokenizer_close(t);
}

/* The ids of a source file in a vocabulary of ranks. The first 100256 ranks of Llama 3 are those of cl100k. */
static void a_source_file_in_cl100k(void **state)
{
    (void)state;
    const char *ranks = shared_path("tokenizers/llama3/tokenizer.model"),
               *text_path = shared_path("tokenizers/expected/ms-lib.rs.txt");
    const char *ids_path = shared_path("tokenizers/expected/ms-tokens_gpt_3.5_turbo.json");
    if (!ranks || !text_path || !ids_path) {
        skip_msg("the expected ids are absent");
        return;
    }
    err e = {0};
    buf all = {0}, text = {0};
    json *list;
    tokenizer *t;
    file_out *f;
    token_list want = {0}, got = {0};
    const char *path = temp_path("cl100k");
    assert_ok(file_read(&all, ranks, 1 << 24, &e), &e);
    size_t end = 0;
    for (int lines = 0; lines < 100256; lines++)
        end = (size_t)((uint8_t *)memchr(all.p + end, '\n', all.n - end) - all.p) + 1;
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, all.p, end, &e), &e);
    assert_ok(file_commit(f, &e), &e);
    int rc = tokenizer_open(&t, path, "cl100k", &e);
    unlink(path);
    assert_ok(rc, &e);
    assert_ok(file_read(&text, text_path, 1 << 20, &e), &e);
    assert_ok(json_read(&list, ids_path, 1 << 20, &e), &e);
    ids_of(list, &want);
    assert_ok(tokenizer_encode(t, buf_span(&text), 0, &got, &e), &e);
    expect_same_ids("cl100k", "lib.rs", &got, &want);
    json_free(list);
    buf_free(&all);
    buf_free(&text);
    token_list_free(&want);
    token_list_free(&got);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_vocabularies),    cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(llama_cpp_cases),       cmocka_unit_test(transformers_cases),
        cmocka_unit_test(a_source_file_in_gpt2), cmocka_unit_test(a_source_file_in_cl100k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
