/* t_models_nano_sort.c - a trained model (gpt-nano-sort: it sorts six letters of three) against every tensor of one
 * forward pass that its makers recorded, and by what it is for. The file is JSON with tensors in base64: written out as
 * safetensors first. */
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "io/write_safetensors.h"
#include "models/model.h"
#include "plan_rig.h"
#include "base/base64.h"

#include "test.h"

#include <math.h>

enum { SEQS = 3, LENGTH = 11, ROWS = SEQS * LENGTH, DIM = 48, HEADS = 3, HEAD_DIM = 16, FFN = 192, LETTERS = 3 };

static const char spec_text[] = "[model]\nbase = gpt2\npath = %s\n"
                                "[config]\ndim = 48\nlayers = 3\nvocab = 3\npositions = 11\nheads = 3\ntied = false\n"
                                "[tensors]\n"
                                "{i}.attn.q = h.{i}.attn.c_attn (rows 0 .. dim)\n"
                                "{i}.attn.k = h.{i}.attn.c_attn (rows dim .. 2 * dim)\n"
                                "{i}.attn.v = h.{i}.attn.c_attn (rows 2 * dim .. 3 * dim)\n"
                                "{i}.attn.o = h.{i}.attn.c_proj\n"
                                "{i}.ffn.up = h.{i}.mlp.c_fc\n"
                                "{i}.ffn.down = h.{i}.mlp.c_proj\n";

static json *read_json(const char *path)
{
    err e = {0};
    json *j;
    assert_ok(json_read(&j, path, 4 << 20, &e), &e);
    return j;
}

/* The floats of {"shape", "data"}; the count in *n. */
static float *values_of(const json *j, size_t *n)
{
    buf b = {0};
    if (!base64_decode(span_str(json_str(json_get(j, "data"), "")), &b)) fail_msg("not base64");
    *n = b.n / sizeof(float);
    assert_true(*n > 0);
    return (float *)(void *)b.p;
}

/* Writes model and spec to temporary files; the path of the spec. */
static const char *write_model(const json *j)
{
    write_tensor t[64];
    size_t n = 0, count;
    err e = {0};
    for (const json *i = json_first(j); i; i = json_next(i)) {
        if (strcmp(json_key(i), "config") == 0) continue;
        assert_true(n < 64);
        t[n] = (write_tensor){.name = json_key(i), .type = DTYPE_F32, .raw = values_of(i, &count)};
        for (const json *d = json_first(json_get(i, "shape")); d; d = json_next(d))
            t[n].dims.dim[t[n].dims.rank++] = (uint64_t)json_int(d, 0);
        n++;
    }
    const char *weights = temp_path("nano-sort.safetensors"), *path = temp_path("nano-sort.ini");
    assert_ok(write_safetensors(weights, t, n, NULL, &e), &e);
    for (size_t i = 0; i < n; i++) mem_free((void *)t[i].raw);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, spec_text, weights);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* What is recorded and where it is in the program. by_head: recorded as [seq, head, position, HEAD_DIM]. */
typedef struct point {
    const char *recorded, *tensor;
    int width;
    bool by_head;
    float *got; /* [ROWS, width] */
} point;

static point points[] = {
    {"tok_emb", "dec.token", DIM, false, NULL},  {"pos_emb", "dec.position", DIM, false, NULL},
    {"x", "dec.embed.1", DIM, false, NULL},      {"ln1", "dec.0.norm.a", DIM, false, NULL},
    {"q", "dec.0.attn.q", DIM, true, NULL},      {"k", "dec.0.attn.k", DIM, true, NULL},
    {"v", "dec.0.attn.v", DIM, true, NULL},      {"y", "dec.0.attn.mix", DIM, false, NULL},
    {"yProj", "dec.0.attn.o", DIM, false, NULL}, {"attnResid", "dec.0.x.1", DIM, false, NULL},
    {"ln2", "dec.0.norm.b", DIM, false, NULL},   {"fc", "dec.0.ffn.up", FFN, false, NULL},
    {"gelu", "dec.0.ffn.act", FFN, false, NULL}, {"mlp", "dec.0.ffn.down", DIM, false, NULL},
    {"mlpResid", "dec.0.x.2", DIM, false, NULL}, {"block0", "dec.0.x.2", DIM, false, NULL},
    {"block1", "dec.1.x.2", DIM, false, NULL},   {"block2", "dec.2.x.2", DIM, false, NULL},
    {"ln_f", "dec.norm.f", DIM, false, NULL},    {"lm_head", "dec.head", LETTERS, false, NULL},
};
enum { POINTS = sizeof points / sizeof *points };

static ref tensor_named(const program *p, const char *name)
{
    for (uint32_t i = 1; i < p->n_tensor; i++)
        if (p->tensors[i].kind == TENSOR_ACT && strcmp(p->tensors[i].name, name) == 0) return i;
    fail_msg("no tensor %s", name);
    return 0;
}

/* One step of the three recorded sequences, everything tapped. */
static void run_step(program *p, const float *ids)
{
    int32_t token[ROWS], type[ROWS] = {0}, pos[ROWS], seq[ROWS], out[ROWS], page[SEQS], len[SEQS], first[SEQS + 1];
    tap taps[POINTS];
    plan *l = rig_plan(p, (plan_case){.cpu.threads = 2, .rows = ROWS, .pages = SEQS});
    for (int i = 0; i < ROWS; i++) {
        token[i] = (int32_t)ids[i];
        pos[i] = i % LENGTH;
        seq[i] = i / LENGTH;
        out[i] = i;
    }
    for (int s = 0; s <= SEQS; s++) {
        first[s] = s * LENGTH;
        if (s == SEQS) break;
        len[s] = LENGTH;
        page[s] = s;
    }
    step st = {.tok = {.token = token, .type = type, .pos = pos, .seq = seq, .seq_len = len, .seq_row = first},
               .out = out,
               .n_seq = SEQS,
               .page = page,
               .page_cap = 1,
               .taps = taps,
               .n_tap = POINTS};
    st.n[AXIS_TOK] = st.n[AXIS_OUT] = ROWS;
    for (int i = 0; i < POINTS; i++) {
        points[i].got = mem_array((size_t)(ROWS * points[i].width), sizeof(float));
        taps[i] = (tap){.what = tensor_named(p, points[i].tensor), .to = points[i].got};
    }
    rig_plan_step(l, &st);
    plan_close(l);
}

static void close_to(const char *what, int at, double got, float want)
{
    if (!(fabs(got - (double)want) <= 1e-5)) fail_msg("%s[%d] is %.8g, recorded %.8g", what, at, got, (double)want);
}

static const float *got_of(const char *recorded)
{
    for (int i = 0; i < POINTS; i++)
        if (strcmp(points[i].recorded, recorded) == 0) return points[i].got;
    return NULL;
}

/* What no tensor of ours holds, from those that do: scores and their softmax from q and k, q|k|v side by side,
 * probabilities. */
static void check_derived(const json *recorded)
{
    size_t n;
    const float *q = got_of("q"), *k = got_of("k"), *v = got_of("v"), *logits = got_of("lm_head");
    float *scores = values_of(json_get(recorded, "att"), &n), *soft = values_of(json_get(recorded, "attSm"), &n);
    assert_int_equal(n, SEQS * HEADS * LENGTH * LENGTH);
    for (int u = 0; u < SEQS * HEADS * LENGTH; u++) {
        int row = u / (HEADS * LENGTH) * LENGTH + u % LENGTH, head = u / LENGTH % HEADS;
        double s[LENGTH], max = -1e300, sum = 0;
        for (int j = 0; j <= u % LENGTH; j++) {
            s[j] = 0;
            for (int d = 0; d < HEAD_DIM; d++)
                s[j] += (double)q[row * DIM + head * HEAD_DIM + d] *
                        (double)k[(row - u % LENGTH + j) * DIM + head * HEAD_DIM + d] / 4;
            if (s[j] > max) max = s[j];
        }
        for (int j = 0; j <= u % LENGTH; j++) sum += exp(s[j] - max);
        for (int j = 0; j < LENGTH; j++) {
            bool seen = j <= u % LENGTH;
            if (seen) close_to("att", u * LENGTH + j, s[j], scores[u * LENGTH + j]);
            close_to("attSm", u * LENGTH + j, seen ? exp(s[j] - max) / sum : 0, soft[u * LENGTH + j]);
        }
    }
    float *qkv = values_of(json_get(recorded, "qkv"), &n), *probs = values_of(json_get(recorded, "probs"), &n);
    for (int i = 0; i < ROWS * 3 * DIM; i++) {
        const float *part[] = {q, k, v};
        close_to("qkv", i, (double)part[i / DIM % 3][i / (3 * DIM) * DIM + i % DIM], qkv[i]);
    }
    for (int row = 0; row < ROWS; row++) {
        const float *x = logits + row * LETTERS;
        double sum = 0;
        for (int j = 0; j < LETTERS; j++) sum += exp((double)x[j]);
        for (int j = 0; j < LETTERS; j++)
            close_to("probs", row * LETTERS + j, exp((double)x[j]) / sum, probs[row * LETTERS + j]);
    }
    mem_free(scores);
    mem_free(soft);
    mem_free(qkv);
    mem_free(probs);
}

static void every_tensor_is_as_recorded(void **unused)
{
    (void)unused;
    const char *path = shared_path("models/gpt-nano-sort/gpt-nano-sort-model.json"),
               *partials = shared_path("models/gpt-nano-sort/gpt-nano-sort-t0-partials.json");
    if (!path || !partials) {
        skip_msg("gpt-nano-sort is not there");
        return;
    }
    json *weights = read_json(path), *recorded = read_json(partials);
    err e = {0};
    model *m;
    size_t n;
    assert_ok(model_open(&m, &(model_options){.spec_path = write_model(weights)}, &e), &e);
    float *ids = values_of(json_get(recorded, "idx"), &n);
    assert_int_equal(n, ROWS);
    run_step(m->prog, ids);
    for (int i = 0; i < POINTS; i++) {
        const point *t = &points[i];
        float *want = values_of(json_get(recorded, t->recorded), &n);
        assert_true(n == (size_t)(ROWS * t->width) || n == (size_t)(LENGTH * t->width)); /* positions: once for all */
        for (int row = 0; row < (int)n / t->width; row++)
            for (int d = 0; d < t->width; d++) {
                int at = t->by_head
                             ? ((row / LENGTH * HEADS + d / HEAD_DIM) * LENGTH + row % LENGTH) * HEAD_DIM + d % HEAD_DIM
                             : row * t->width + d;
                close_to(t->recorded, at, (double)t->got[row * t->width + d], want[at]);
            }
        mem_free(want);
    }
    check_derived(recorded);
    for (int i = 0; i < POINTS; i++) mem_free(points[i].got);
    mem_free(ids);
    model_close(m);
    json_free(weights);
    json_free(recorded);
}

static bool on_token(void *ctx, const token_event *ev)
{
    int32_t *sorted = ctx;
    if (ev->token >= 0) sorted[ev->index] = ev->token;
    return true;
}

/* All 729 words. */
static void it_sorts(void **unused)
{
    (void)unused;
    const char *path = shared_path("models/gpt-nano-sort/gpt-nano-sort-model.json");
    if (!path) {
        skip_msg("gpt-nano-sort is not there");
        return;
    }
    enum { WORDS = 729, LETTERS_OF_A_WORD = 6 };
    static int32_t word[WORDS][LETTERS_OF_A_WORD], sorted[WORDS][LETTERS_OF_A_WORD];
    json *weights = read_json(path);
    err e = {0};
    engine *g;
    int right = 0;
    assert_ok(engine_open(&g, &(engine_options){.spec = write_model(weights), .max_batch = 16}, &e), &e);
    for (int w = 0; w < WORDS; w++) {
        for (int i = 0, rest = w; i < LETTERS_OF_A_WORD; i++, rest /= 3) word[w][i] = rest % 3;
        query q = {.ids = word[w], .n_ids = LETTERS_OF_A_WORD, .max_tokens = LETTERS_OF_A_WORD - 1, .n_logprobs = -1};
        q.sample = (sample_params){.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1};
        q.ignore_eos = true;
        q.on_token = on_token;
        q.ctx = sorted[w];
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    }
    for (bool more = true; more;) assert_ok(engine_infer(g, &more, &e), &e);
    for (int w = 0; w < WORDS; w++) {
        int count[3] = {0}, at = 0;
        bool good = true;
        for (int i = 0; i < LETTERS_OF_A_WORD; i++) count[word[w][i]]++;
        for (int letter = 0; letter < 3; letter++)
            for (int i = 0; i < count[letter] && at < LETTERS_OF_A_WORD - 1; i++)
                good = good && sorted[w][at++] == letter;
        right += good;
    }
    printf("%d of %d words sorted\n", right, WORDS);
    assert_int_equal(right, WORDS);
    engine_close(g);
    json_free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_as_recorded),
        cmocka_unit_test(it_sorts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
