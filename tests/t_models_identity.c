/* t_models_identity.c - what a model is: the same for one file and for any shards, whatever its bytes; other for
 * another spec, name or type. What it holds: other for another byte. */
#include "tests/copied_model.h"

#include "io/contents.h"
#include "models/model.h"

typedef struct identity {
    uint8_t model[SHA256_BYTES], contents[SHA256_BYTES];
} identity;

/* Of a model, with the text of a spec over its own (NULL: none) and weights held as `weights`. */
static identity identity_of(const char *dir, const char *text, const char *weights)
{
    err e = {0};
    model *m;
    identity out;
    contents held;
    const char *path = temp_path("identity.ini");
    if (text) put(path, text, strlen(text));
    model_options o = {.model_path = dir, .spec_path = text ? path : NULL, .weights = weights};
    assert_ok(model_open(&m, &o, &e), &e);
    memcpy(out.model, m->prog->hash, sizeof out.model);
    assert_ok(contents_hash(&held, m->weights, NULL, 2, &e), &e);
    memcpy(out.contents, held.all, sizeof out.contents);
    contents_free(&held);
    model_close(m);
    if (text) unlink(path);
    return out;
}

static identity identity_as(const layout *l, const char *text, const char *weights)
{
    char dir[256];
    snprintf(dir, sizeof dir, "%s", temp_path("identity"));
    write_model(dir, l);
    identity out = identity_of(dir, text, weights);
    drop_folder(dir);
    return out;
}

static void expect(const identity *a, const identity *b, bool same_model, bool same_contents, const char *what)
{
    if ((memcmp(a->model, b->model, SHA256_BYTES) == 0) != same_model)
        fail_msg("%s: %s identity", what, same_model ? "another" : "the same");
    if ((memcmp(a->contents, b->contents, SHA256_BYTES) == 0) != same_contents)
        fail_msg("%s: %s contents", what, same_contents ? "other" : "the same");
}

static void files_and_their_order_do_not_matter(void **unused)
{
    (void)unused;
    static const layout other[] = {
        {.shards = 1, .turned = true}, {.shards = 2}, {.shards = 2, .turned = true}, {.shards = 5}};
    identity one = identity_as(&(layout){.shards = 1}, NULL, NULL), as_is = identity_of(model_source, NULL, NULL);
    expect(&one, &as_is, true, true, "written anew");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        identity b = identity_as(&other[i], NULL, NULL);
        expect(&one, &b, true, true, other[i].turned ? "turned shards" : "shards");
    }
}

static void what_a_model_is_matters(void **unused)
{
    (void)unused;
    static const char either[] = "[model]\nbase = llama\n[tensors]\nhead = lm_head | output_head\n";
    const layout plain = {.shards = 1};
    identity one = identity_as(&plain, NULL, NULL), b;
    b = identity_as(&(layout){.shards = 1, .other_byte = "lm_head.weight"}, NULL, NULL);
    expect(&one, &b, true, false, "another byte");
    b = identity_as(&(layout){.shards = 1, .wide = "lm_head.weight"}, NULL, NULL);
    expect(&one, &b, false, false, "another type");
    b = identity_as(&plain, NULL, "f32");
    expect(&one, &b, false, true, "held in another type");
    identity named = identity_as(&plain, either, NULL);
    b = identity_as(&(layout){.shards = 1, .name = "lm_head.weight", .as = "output_head.weight"}, either, NULL);
    expect(&named, &b, false, false, "another name");

    static const struct {
        const char *text;
        bool same;
    } specs[] = {
        {"[model]\nbase = llama\n", true},
        {"[model]\nbase = llama\nname = ours\ndoc = Another sentence.\n", true},
        {"[model]\nbase = llama\n[runtime]\nthreads = 1\nctx = 77\n[serve]\nport = 99\n", true},
        {"[model]\nbase = llama\n[config]\neps = 0.004\n", false},
        {"[model]\nbase = llama\n[network]\nblock = x = x + ffn(norm.b(x)) + attn(norm.a(x))\n", false},
        {"[model]\nbase = llama\n[tensors]\nnorm.f = norm.weight (* 2)\n", false},
        {"[model]\nbase = llama\n[tensors]\nhead = lm_head | output_head\n", false},
        {"[model]\nbase = llama\n[generate]\ntemperature = 0.5\n", false},
        {"[model]\nbase = llama\n[generate]\neos = 3\n", false},
        {"[model]\nbase = llama\n[tokenizer]\npre = llama3\n", false},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        b = identity_as(&plain, specs[i].text, NULL);
        expect(&one, &b, specs[i].same, true, specs[i].text);
    }
    b = identity_of("tests/vectors/models/mistral", NULL, NULL);
    expect(&one, &b, false, false, "another model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_their_order_do_not_matter),
        cmocka_unit_test(what_a_model_is_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
