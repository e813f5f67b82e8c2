/* t_models_aren.c - a trained encoder-decoder (aren-transliteration: Arabic letters to Latin ones, 6 + 6 layers of
 * width 32) gives the words that its makers expect, by greedy choice and by beam search. The file is CTranslate2's
 * (version 2: a count, then name, shape, bytes per element, values of each tensor): written out as safetensors first,
 * and described by a spec over m2m_100. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "io/write_safetensors.h"

#include "test.h"

static const char spec_text[] =
    "[model]\nbase = m2m_100\npath = %s\n"
    "[config]\ndim = 32\nlayers = 6\nenc_layers = 6\nvocab = 43\npositions = 64\nheads = 8\nenc_heads = 8\n"
    "ffn_dim = 128\nenc_ffn_dim = 128\nact = relu\ntoken_scale = sqrt(dim)\npadding = 0\n"
    "[tensors]\n"
    "enc.token        = encoder/embeddings\n"
    "enc.{i}.attn.q   = encoder/layer_{i}/self_attention/linear_0 (rows 0 .. dim)\n"
    "enc.{i}.attn.k   = encoder/layer_{i}/self_attention/linear_0 (rows dim .. 2 * dim)\n"
    "enc.{i}.attn.v   = encoder/layer_{i}/self_attention/linear_0 (rows 2 * dim .. 3 * dim)\n"
    "enc.{i}.attn.o   = encoder/layer_{i}/self_attention/linear_1\n"
    "enc.{i}.norm.a   = encoder/layer_{i}/self_attention/layer_norm\n"
    "enc.{i}.ffn.up   = encoder/layer_{i}/ffn/linear_0\n"
    "enc.{i}.ffn.down = encoder/layer_{i}/ffn/linear_1\n"
    "enc.{i}.norm.b   = encoder/layer_{i}/ffn/layer_norm\n"
    "enc.norm.f       = encoder/layer_norm\n"
    "token            = decoder/embeddings\n"
    "{i}.attn.q       = decoder/layer_{i}/self_attention/linear_0 (rows 0 .. dim)\n"
    "{i}.attn.k       = decoder/layer_{i}/self_attention/linear_0 (rows dim .. 2 * dim)\n"
    "{i}.attn.v       = decoder/layer_{i}/self_attention/linear_0 (rows 2 * dim .. 3 * dim)\n"
    "{i}.attn.o       = decoder/layer_{i}/self_attention/linear_1\n"
    "{i}.norm.a       = decoder/layer_{i}/self_attention/layer_norm\n"
    "{i}.cross.q      = decoder/layer_{i}/attention/linear_0\n"
    "{i}.cross.k      = decoder/layer_{i}/attention/linear_1 (rows 0 .. dim)\n"
    "{i}.cross.v      = decoder/layer_{i}/attention/linear_1 (rows dim .. 2 * dim)\n"
    "{i}.cross.o      = decoder/layer_{i}/attention/linear_2\n"
    "{i}.norm.c       = decoder/layer_{i}/attention/layer_norm\n"
    "{i}.ffn.up       = decoder/layer_{i}/ffn/linear_0\n"
    "{i}.ffn.down     = decoder/layer_{i}/ffn/linear_1\n"
    "{i}.norm.b       = decoder/layer_{i}/ffn/layer_norm\n"
    "norm.f           = decoder/layer_norm\n"
    "head             = decoder/projection\n"
    "head.bias        = decoder/projection.bias\n"
    "[generate]\neos = 2\nstart = 1\n";

enum { TENSORS_MAX = 256, WORD_MAX = 16, LETTERS_MAX = 64 };

/* ---- the file */

typedef struct reader {
    const uint8_t *p;
    size_t left;
} reader;

static const uint8_t *take(reader *r, size_t n)
{
    assert_true(n <= r->left);
    const uint8_t *at = r->p;
    r->p += n;
    r->left -= n;
    return at;
}

static uint32_t take_number(reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* Length with the NUL, then the text. */
static const char *take_text(reader *r)
{
    size_t n = take_number(r, 2);
    const char *text = (const char *)take(r, n);
    assert_true(n > 0 && text[n - 1] == 0);
    return text;
}

/* "decoder/layer_0/ffn/layer_norm/gamma" -> "decoder/layer_0/ffn/layer_norm.weight". */
static char *new_name(const char *name)
{
    const char *slash = strrchr(name, '/'), *end = slash + 1;
    char text[200];
    if (strcmp(end, "gamma") == 0) end = "weight";
    if (strcmp(end, "beta") == 0) end = "bias";
    snprintf(text, sizeof text, "%.*s.%s", (int)(slash - name), name, end);
    return mem_str(text);
}

static void convert(span file, const char *path)
{
    static write_tensor t[TENSORS_MAX];
    err e = {0};
    reader r = {file.p, file.n};
    assert_int_equal(take_number(&r, 4), 2);
    assert_string_equal(take_text(&r), "TransformerBase");
    take_number(&r, 4);
    uint32_t n = take_number(&r, 4);
    assert_true(n <= TENSORS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        t[i] = (write_tensor){.name = new_name(take_text(&r)), .type = DTYPE_F32};
        t[i].dims.rank = (int)take_number(&r, 1);
        assert_true(t[i].dims.rank >= 1 && t[i].dims.rank <= 2);
        for (int d = 0; d < t[i].dims.rank; d++) t[i].dims.dim[d] = take_number(&r, 4);
        assert_int_equal(take_number(&r, 1), 4); /* bytes per element: floats */
        t[i].raw = take(&r, (size_t)take_number(&r, 4) * 4);
    }
    assert_int_equal(r.left, 0);
    assert_ok(write_safetensors(path, t, n, NULL, &e), &e);
    for (uint32_t i = 0; i < n; i++) mem_free((void *)t[i].name);
}

/* ---- letters */

typedef struct alphabet {
    buf text;
    const char *letter[LETTERS_MAX];
    int n;
} alphabet;

static void alphabet_read(alphabet *a, const char *path)
{
    err e = {0};
    assert_non_null(path);
    assert_ok(file_read(&a->text, path, 1 << 16, &e), &e);
    for (char *p = (char *)buf_cstr(&a->text); *p && a->n < LETTERS_MAX;) {
        char *end = strchr(p, '\n');
        a->letter[a->n++] = p;
        if (!end) break;
        *end = 0;
        p = end + 1;
    }
}

static int ids_of(const alphabet *a, const json *letters, int32_t *to)
{
    int n = 0;
    for (const json *j = json_first(letters); j; j = json_next(j)) {
        int id = 0;
        while (id < a->n && strcmp(a->letter[id], json_str(j, "")) != 0) id++;
        assert_true(id < a->n && n < WORD_MAX);
        to[n++] = id;
    }
    return n;
}

typedef struct word {
    int32_t ids[WORD_MAX];
    int n, stopped;
} word;

static bool on_token(void *ctx, const token_event *ev)
{
    word *w = ctx;
    if (ev->token >= 0 && w->n < WORD_MAX) w->ids[w->n++] = ev->token;
    w->stopped += ev->finish == FINISH_STOP;
    return true;
}

/* All words at once. */
static void translate(engine *g, const json *cases, const alphabet *source, const alphabet *target, int beams)
{
    static word got[8];
    int n = 0;
    err e = {0};
    memset(got, 0, sizeof got);
    for (const json *c = json_first(cases); c; c = json_next(c), n++) {
        int32_t enc[WORD_MAX];
        assert_true(n < 8);
        query q = {.ids = engine_describe(g)->start,
                   .n_ids = 1,
                   .enc_ids = enc,
                   .n_enc = (size_t)ids_of(source, json_get(c, "src"), enc),
                   .max_tokens = WORD_MAX,
                   .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                   .beams = beams,
                   .length_penalty = 1,
                   .early_stopping = BEAM_STOP_BETTER,
                   .n_logprobs = -1,
                   .on_token = on_token,
                   .ctx = &got[n]};
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
    n = 0;
    for (const json *c = json_first(cases); c; c = json_next(c), n++) {
        int32_t want[WORD_MAX];
        assert_int_equal(got[n].n, ids_of(target, json_get(c, "tgt"), want));
        assert_memory_equal(got[n].ids, want, (size_t)got[n].n * sizeof *want);
        assert_int_equal(got[n].stopped, 1);
    }
    assert_true(n >= 3);
}

static void expected_words(void **unused)
{
    (void)unused;
    const char *file_path = shared_path("models/aren-transliteration/model.bin");
    if (!file_path) {
        skip_msg("aren-transliteration is not there");
        return;
    }
    err e = {0};
    json *expected;
    buf file = {0};
    alphabet source = {.n = 0}, target = {.n = 0};
    const char *weights = temp_path("aren.safetensors"), *spec = temp_path("aren.ini");
    assert_ok(file_read(&file, file_path, 1 << 24, &e), &e);
    convert(buf_span(&file), weights);
    FILE *f = fopen(spec, "w");
    assert_non_null(f);
    fprintf(f, spec_text, weights);
    assert_int_equal(fclose(f), 0);
    alphabet_read(&source, shared_path("models/aren-transliteration/source_vocabulary.txt"));
    alphabet_read(&target, shared_path("models/aren-transliteration/target_vocabulary.txt"));
    assert_ok(json_read(&expected, shared_path("models/aren-transliteration/expected.json"), 1 << 20, &e), &e);

    engine *g;
    engine_options o = {.spec = spec, .threads = 1};
    assert_ok(engine_open(&g, &o, &e), &e);
    const int beams[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) translate(g, json_get(expected, "cases"), &source, &target, beams[i]);
    engine_close(g);
    json_free(expected);
    buf_free(&file);
    buf_free(&source.text);
    buf_free(&target.text);
    unlink(weights);
    unlink(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
