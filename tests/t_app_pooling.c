/* t_app_pooling.c - how a text becomes one vector by files of sentence-transformers, the spec and the command line,
 * against sums over hidden states; and the commands embed and fill-mask from outside. The model is a committed tiny
 * BERT with a vocabulary written here. */
#include "measure/evaluate.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "measure/embedding.h"

#include "tests/command.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIM = 24, IDS_MAX = 64, CTX = 128 };

static char folder[300];

static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!text) {
        unlink(path);
        return;
    }
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0);
}

static void link_file(const char *from, const char *name)
{
    char here[1024], to[1400], path[400];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(to, sizeof to, "%s/tests/vectors/encoders/%s/%s", here, from, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    assert_int_equal(symlink(to, path), 0);
}

/* A folder with the model `from` and a vocabulary: letters, at the beginning of words and inside. */
static void make_folder(const char *from)
{
    buf words = {0};
    char path[400];
    snprintf(folder, sizeof folder, "%s", temp_path("pooling"));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    mkdir(path, 0700);
    link_file(from, "model.safetensors");
    link_file(from, "config.json");
    buf_str(&words, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < 20; i++) buf_printf(&words, "%c\n##%c\n", 'a' + i, 'a' + i);
    put("vocab.txt", buf_cstr(&words));
    buf_free(&words);
}

static void remove_folder(void)
{
    static const char *const files[] = {"model.safetensors",
                                        "config.json",
                                        "vocab.txt",
                                        "modules.json",
                                        "own.ini",
                                        "1_Pooling/config.json",
                                        "sentence_bert_config.json",
                                        "in.txt",
                                        "out.npy",
                                        "config_sentence_transformers.json"};
    char path[400];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) put(files[i], NULL);
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    rmdir(path);
    assert_int_equal(rmdir(folder), 0);
}

static engine *open_model(engine_options o)
{
    err e = {0};
    engine *g = NULL;
    if (!o.spec) o.model = folder;
    o.kv = "f32";
    o.threads = 1;
    o.ctx = CTX;
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

typedef struct states {
    float at[IDS_MAX * DIM];
    int64_t n;
} states;

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    states *s = ctx;
    (void)e;
    memcpy(s->at + first * DIM, rows, (size_t)n * DIM * sizeof *rows);
    s->n = first + n;
    return OK;
}

/* That the vector of some ids is what `how` and `unit` make of the hidden states. Closes the engine. */
static void expect_vector(engine *g, const char *how, bool unit)
{
    static const int32_t ids[] = {2, 5, 9, 12, 6, 7, 3};
    enum { N = sizeof ids / sizeof *ids };
    err e = {0};
    static states s;
    float got[DIM];
    double want[DIM] = {0}, length = 0;
    embedding_job job = {.ids = ids, .n = N, .vector = got};
    assert_int_equal(engine_describe(g)->n_pooled, DIM);
    assert_ok(embedding_run(g, &job, 1, NULL, NULL, &e), &e);
    assert_ok(engine_eval(g, ids, N, engine_describe(g)->n_layer, keep_rows, &s, &e), &e);
    for (int k = 0; k < DIM; k++) {
        for (int i = 0; i < N; i++) want[k] += s.at[i * DIM + k] / (double)N;
        if (strcmp(how, "cls") == 0) want[k] = s.at[k];
        if (strcmp(how, "last") == 0) want[k] = s.at[(N - 1) * DIM + k];
        length += want[k] * want[k];
    }
    for (int k = 0; k < DIM; k++)
        if (fabs(got[k] - (unit ? want[k] / sqrt(length) : want[k])) > 1e-6)
            fail_msg("%s, unit %d: element %d is %g, not %g", how, unit, k, (double)got[k], want[k]);
    engine_close(g);
}

static const char modules[] =
    "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
    "{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}%s]";
static const char normalize[] =
    ",{\"idx\":2,\"name\":\"2\",\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}";
static const char dense[] =
    ",{\"idx\":2,\"name\":\"2\",\"path\":\"2_Dense\",\"type\":\"sentence_transformers.models.Dense\"}";

static void put_modules(const char *last, const char *pooling)
{
    char text[1000];
    snprintf(text, sizeof text, modules, last);
    put("modules.json", text);
    put("1_Pooling/config.json", pooling);
}

static void files_spec_and_flags(void **state)
{
    (void)state;
    make_folder("bert-bare");
    expect_vector(open_model((engine_options){0}), "mean", true);
    expect_vector(open_model((engine_options){.pooling = "cls"}), "cls", true);
    expect_vector(open_model((engine_options){.pooling = "last", .normalize = "off"}), "last", false);
    put_modules("", "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}");
    expect_vector(open_model((engine_options){0}), "cls", false);
    expect_vector(open_model((engine_options){.normalize = "on"}), "cls", true);
    expect_vector(open_model((engine_options){.pooling = "mean"}), "mean", false);
    put_modules(normalize, "{\"pooling_mode\":\"lasttoken\",\"include_prompt\":true}");
    expect_vector(open_model((engine_options){0}), "last", true);
    char spec[400], text[900];
    snprintf(spec, sizeof spec, "%s/own.ini", folder); /* the user's own spec is stronger than the model's files */
    snprintf(text, sizeof text, "[model]\npath = .\n[config]\npooling = cls\nnormalize = false\n");
    put("own.ini", text);
    expect_vector(open_model((engine_options){.spec = spec}), "cls", false);
    expect_vector(open_model((engine_options){.spec = spec, .pooling = "mean"}), "mean", false);
    remove_folder();
}

static void what_is_not_supported(void **state)
{
    (void)state;
    static const char *const strange[][2] = {
        {dense, "{\"pooling_mode_mean_tokens\":true}"},
        {normalize, "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_max_tokens\":true}"},
        {normalize, "{\"pooling_mode\":\"weightedmean\"}"},
    };
    make_folder("bert-bare");
    for (size_t i = 0; i < 3; i++) {
        err e = {0};
        put_modules(strange[i][0], strange[i][1]);
        engine *g = open_model((engine_options){0});
        assert_int_equal(embedding_check(g, false, false, &e), ERR_USAGE);
        assert_non_null(strstr(e.msg, "modules.json"));
        e = (err){0};
        assert_ok(embedding_check(g, false, true, &e), &e); /* the command line says what to do */
        assert_int_equal(embedding_check(g, true, false, &e), ERR_USAGE);
        engine_close(g);
    }
    err e = {0};
    engine *g = NULL;
    put("modules.json", "[{]");
    assert_int_equal(engine_open(&g, &(engine_options){.model = folder}, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "modules.json"));
    remove_folder();
    e = (err){0};
    assert_ok(engine_open(&g, &(engine_options){.model = "tests/vectors/models/llama"}, &e), &e);
    assert_int_equal(embedding_check(g, false, false, &e), ERR_USAGE); /* a decoder embeds only when asked to */
    engine_close(g);
    e = (err){0};
    assert_ok(engine_open(&g, &(engine_options){.model = "tests/vectors/models/llama", .pooling = "last"}, &e), &e);
    assert_ok(embedding_check(g, false, true, &e), &e);
    assert_true(engine_describe(g)->n_pooled > 0 && engine_describe(g)->generates);
    engine_close(g);
}

static size_t ids_of(engine *g, const char *text, const char *second, bool cut)
{
    err e = {0};
    token_list ids = {0}, types = {0};
    span two = span_str(second ? second : "");
    bool was_cut;
    assert_ok(embedding_tokenize(g, span_str(text), second ? &two : NULL, &was_cut, &ids, &types, &e), &e);
    assert_int_equal(was_cut, cut);
    size_t n = ids.n;
    assert_int_equal(ids.id[n - 1], 3); /* [SEP] stays, however short */
    assert_int_equal(types.n, n);
    if (second) assert_int_equal(types.id[n - 1], 1);
    token_list_free(&ids);
    token_list_free(&types);
    return n;
}

static void lengths_and_prompts(void **state)
{
    (void)state;
    char text[500] = "";
    make_folder("bert-bare");
    engine *g = open_model((engine_options){0});
    for (int i = 0; i < 200; i++) strcat(text, "a ");
    assert_int_equal(ids_of(g, "a bc", NULL, false), 5);
    assert_int_equal(ids_of(g, "", NULL, false), 2);
    assert_int_equal(ids_of(g, text, NULL, true), CTX);
    assert_int_equal(ids_of(g, text, "b b", true), CTX);
    engine_close(g);
    put_modules(normalize, "{\"pooling_mode_mean_tokens\":true}");
    put("sentence_bert_config.json", "{\"max_seq_length\": 9, \"do_lower_case\": false}");
    put("config_sentence_transformers.json",
        "{\"prompts\":{\"query\":\"a a: \",\"passage\":\"b \"},\"default_prompt_name\":\"passage\"}");
    g = open_model((engine_options){0});
    assert_int_equal(ids_of(g, "c", NULL, false), 4); /* [CLS] b c [SEP] */
    assert_int_equal(ids_of(g, "c", "d", false), 5);  /* pairs have no prompt */
    assert_int_equal(ids_of(g, "c c c c c c c c c", NULL, true), 9);
    assert_int_equal(ids_of(g, "c c c c c c", NULL, false), 9); /* as long as may be */
    assert_int_equal(ids_of(g, text, NULL, true), 9);           /* beyond the context */
    engine_close(g);
    remove_folder();
}

/* ---- commands */

static buf out, errors;

__attribute__((format(printf, 2, 3))) static int run(const char *input, const char *fmt, ...)
{
    char args[4096], path[400];
    put("in.txt", input);
    snprintf(path, sizeof path, "%s/in.txt", folder);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    return command_run(path, args, &out, &errors);
}

/* Line i of the output, as JSON. */
static json *line_of(int i)
{
    json *j = NULL;
    err e = {0};
    const char *at = buf_cstr(&out);
    for (; i > 0; i--) at = strchr(at, '\n') + 1;
    assert_ok(json_parse(&j, span_of((const uint8_t *)at, strcspn(at, "\n")), "line", &e), &e);
    return j;
}

static void commands(void **state)
{
    (void)state;
    make_folder("bert-bare");
    assert_int_equal(run("a b\n\nlonger text than that\na b", "embed --model %s -t 1", folder), 0);
    json *a = line_of(0), *c = line_of(2), *d = line_of(3);
    assert_int_equal(json_count(a), DIM);
    assert_int_equal(json_count(c), DIM);
    assert_true(json_num(json_at(a, 3), 0) == json_num(json_at(d, 3), 1));
    json_free(a);
    json_free(c);
    json_free(d);
    buf text = {0};
    buf_add(&text, out.p, out.n);
    assert_int_equal(run("[2,5,7,3]\n[]\n", "embed --model %s --jsonl", folder), 1);
    assert_int_equal(
        run("\"a b\"\n[2,5,7,3]\n{\"ids\":[2,5,7,3],\"types\":[0,0,0,0]}\n", "embed --model %s --jsonl", folder), 0);
    json *x = line_of(0), *y = line_of(1), *z = line_of(2);
    for (size_t k = 0; k < DIM; k++)
        assert_true(json_num(json_at(x, k), 0) == json_num(json_at(y, k), 1) &&
                    json_num(json_at(y, k), 0) == json_num(json_at(z, k), 1));
    json_free(x);
    json_free(y);
    json_free(z);
    assert_int_equal(run("a b\nc\n", "embed --model %s --pooling none", folder), 0);
    x = line_of(0);
    assert_true(json_count(x) == 4 && json_count(json_first(x)) == DIM);
    json_free(x);
    assert_int_equal(run("a b\nc\n", "embed --model %s -o %s/out.npy", folder, folder), 0);
    assert_int_equal(out.n, 0);
    char path[400];
    snprintf(path, sizeof path, "%s/out.npy", folder);
    text.n = 0;
    assert_int_equal(file_read(&text, path, 1 << 20, NULL), OK);
    assert_int_equal(text.n, 128 + 2 * DIM * 4);
    assert_non_null(strstr((char *)text.p + 10, "(2, 24)"));
    put_modules("", "{\"pooling_mode_cls_token\":true}"); /* an exported model embeds the same way */
    put("sentence_bert_config.json", "{\"max_seq_length\": 9}");
    char other[320];
    snprintf(other, sizeof other, "%s-exported", folder);
    assert_int_equal(run("", "export --model %s -o %s", folder, other), 0);
    assert_int_equal(run("a b c d e f g h i j k", "embed --model %s", folder), 0);
    text.n = 0;
    buf_add(&text, out.p, out.n);
    assert_int_equal(run("a b c d e f g h i j k", "embed --model %s", other), 0);
    assert_true(out.n == text.n && !memcmp(out.p, text.p, text.n));
    assert_int_equal(run("", "info >/dev/null; rm -r %s", other), 0);
    buf_free(&text);
    assert_int_equal(run("", "embed --model %s", folder), 2);
    assert_int_equal(run("a", "embed --model %s --scores", folder), 2);
    assert_int_equal(run("a", "run --model %s -p a", folder), 2);
    assert_non_null(strstr(buf_cstr(&errors), "does not generate"));
    remove_folder();

    make_folder("bert");
    assert_int_equal(run("", "fill-mask --model %s -p 'a [MASK] c [MASK]' --top-k 3 --json", folder), 0);
    x = line_of(0);
    const json *masks = json_get(x, "masks"), *p = json_get(json_first(masks), "predictions");
    assert_true(json_count(masks) == 2 && json_count(p) == 3);
    assert_int_equal(json_int(json_get(json_first(masks), "position"), 0), 2);
    double first = json_num(json_get(json_at(p, 0), "score"), 0),
           second = json_num(json_get(json_at(p, 1), "score"), 0);
    assert_true(first >= second && second > 0 && first <= 1);
    json_free(x);
    assert_int_equal(run("", "fill-mask --model %s -p 'a b'", folder), 2);
    assert_non_null(strstr(buf_cstr(&errors), "[MASK]"));
    remove_folder();
    buf_free(&out);
    buf_free(&errors);
}

/* The matrices behind the pooling go with a model that is exported or quantized; without their file, and with an
 * activation that nobody knows, the model opens, and embeds only where the command line says how. */
static void dense_modules(void **state)
{
    (void)state;
    static const char line[] = "[5,6,7,8,9]\n", from[] = "tests/vectors/encoders/bert-dense";
    make_folder("bert-bare");
    buf text = {0};
    assert_int_equal(run(line, "embed --model %s --jsonl --act f32", from), 0);
    buf_add(&text, out.p, out.n);
    json *a = line_of(0);
    assert_int_equal(run(line, "export --model %s -o %s/exported", from, folder), 0);
    assert_int_equal(run(line, "embed --model %s/exported --jsonl --act f32", folder), 0);
    assert_true(out.n == text.n && !memcmp(out.p, text.p, text.n));
    assert_int_equal(run(line, "quantize --model %s --bits 8 -o %s/q.safetensors", from, folder), 0);
    assert_int_equal(run(line, "embed --model %s/q.safetensors --jsonl --act f32", folder), 0);
    json *b = line_of(0);
    double product = 0; /* of vectors of unit length */
    for (size_t k = 0; k < json_count(a); k++) product += json_num(json_at(a, k), NAN) * json_num(json_at(b, k), NAN);
    assert_true(product > 0.999);
    json_free(a);
    json_free(b);
    assert_int_equal(run("", "info >/dev/null; rm -r %s/exported/2_Dense/model.safetensors", folder), 0);
    put_modules(dense, "{\"pooling_mode_mean_tokens\":true}");
    assert_int_equal(run(line, "embed --model %s --jsonl", folder), 2);
    assert_non_null(strstr(buf_cstr(&errors), "whose weights are not beside the model"));
    assert_int_equal(run(line, "embed --model %s --jsonl --pooling mean", folder), 0);
    assert_int_equal(run("", "info >/dev/null; mkdir %s/2_Dense", folder), 0);
    put("2_Dense/config.json", "{\"activation_function\":\"torch.nn.modules.activation.Softshrink\"}");
    assert_int_equal(run(line, "embed --model %s --jsonl", folder), 2);
    assert_non_null(strstr(buf_cstr(&errors), "activation_function"));
    assert_int_equal(run("", "info >/dev/null; rm -r %s/exported %s/q.safetensors %s/2_Dense", folder, folder, folder),
                     0);
    remove_folder();
    buf_free(&text);
}

/* A GGUF file says by its pooling_type and attention.causal what its states are for. */
static void gguf_files(void **state)
{
    (void)state;
    static const char line[] = "[5,6,7,8,9]\n";
    static const char *const all[][2] = {{"llama-texts", "--scores"}, {"qwen3-base", ""}, {"qwen2-uncausal-base", ""}};
    make_folder("bert-bare");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *name = all[i][0], *flag = all[i][1];
        assert_int_equal(run(line, "export --model tests/vectors/encoders/%s -o %s/x.gguf", name, folder), 0);
        assert_int_equal(run(line, "embed --model tests/vectors/encoders/%s --jsonl %s", name, flag), 0);
        buf text = {0};
        buf_add(&text, out.p, out.n);
        assert_true(text.n > 10);
        assert_int_equal(run(line, "embed --model %s/x.gguf --jsonl %s", folder, flag), 0);
        assert_true(out.n == text.n && !memcmp(out.p, text.p, text.n));
        assert_int_equal(run(line, "run --model %s/x.gguf --ids 5 --output ids", folder), 2);
        buf_free(&text);
    }
    put("x.gguf", NULL);
    remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_spec_and_flags), cmocka_unit_test(what_is_not_supported),
                                       cmocka_unit_test(lengths_and_prompts),  cmocka_unit_test(commands),
                                       cmocka_unit_test(dense_modules),        cmocka_unit_test(gguf_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
