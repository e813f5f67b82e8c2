/* t_models_experts_apart.c - experts whose weights and biases lie in tensors of their own, beside the same numbers in
 * one tensor each: the same logits in bits, for every type of biases, on every instruction set, with packed weights,
 * fused and sliced. And a vector in parts whose last part ends at a page that cannot be read. */
#include "measure/evaluate.h"
#include "rows_rig.h"

#include "base/fnv.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "io/write_safetensors.h"

#include <sys/mman.h>

enum { DIM = 64, WIDE = 32, EXPERTS = 5, LAYERS = 2, VOCAB = 50, TENSORS = 120 };

/* What a tensor holds: rows of one expert, or those of all. */
typedef struct content {
    char name[80];
    const char *role;
    int layer, expert; /* expert -1: all, `rows` for each */
    int rows, cols;
} content;

typedef struct file {
    write_tensor t[TENSORS];
    content of[TENSORS];
    size_t n;
} file;

/* A number that follows from where it belongs, not from where it lies. */
static float number(const char *role, int layer, int expert, int row, int col)
{
    uint64_t x = fnv_add(FNV_START, role, strlen(role));
    x ^= ((((uint64_t)layer * 64 + (uint64_t)expert) * 4096 + (uint64_t)row) * 4096 + (uint64_t)col) *
         0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)(int)(x >> 58) / 32 - 1; /* exact in 16 bits */
}

static int fill_row(void *self, uint64_t n, float *to, err *e)
{
    (void)e;
    const content *c = self;
    int cols = c->cols ? c->cols : c->rows, row = c->cols ? (int)n : 0;
    int expert = c->expert >= 0 ? c->expert : c->cols ? row / c->rows : (int)n;
    for (int k = 0; k < cols; k++)
        to[k] = c->cols ? number(c->role, c->layer, expert, row % c->rows, k) / 4
                        : number(c->role, c->layer, expert, k, 0);
    return OK;
}

/* cols 0: a vector. expert -1: as many as there are below each other; -2: outside experts. */
static void put(file *f, dtype type, const char *role, int layer, int expert, int rows, int cols)
{
    content *c = &f->of[f->n];
    write_tensor *t = &f->t[f->n++];
    assert_true(f->n <= TENSORS);
    *c = (content){.role = role, .layer = layer, .expert = expert == -2 ? 0 : expert, .rows = rows, .cols = cols};
    if (expert >= 0) snprintf(c->name, sizeof c->name, "z.%d.%d.%s", layer, expert, role);
    else snprintf(c->name, sizeof c->name, "a.%d.%s", layer, role);
    *t = (write_tensor){.name = c->name, .type = type, .row = fill_row, .self = c};
    if (expert == -1) t->dims = cols ? (shape){3, {EXPERTS, rows, cols}} : (shape){2, {EXPERTS, rows}};
    else t->dims = cols ? (shape){2, {rows, cols}} : (shape){1, {rows}};
}

/* One tensor for each expert where `apart`, else one for all. */
static void put_experts(file *f, bool apart, dtype type, const char *role, int layer, int rows, int cols)
{
    for (int e = apart ? 0 : -1; e < (apart ? EXPERTS : 0); e++) put(f, type, role, layer, e, rows, cols);
}

static void write_model(const char *path, dtype biases, bool apart, bool fused)
{
    static file f;
    err e = {0};
    f.n = 0;
    put(&f, DTYPE_F32, "token", 9, -2, VOCAB, DIM);
    put(&f, DTYPE_F32, "last", 9, -2, DIM, 0);
    for (int i = 0; i < LAYERS; i++) {
        put(&f, DTYPE_F32, "norm", i, -2, DIM, 0);
        put(&f, DTYPE_F32, "router", i, -2, EXPERTS, DIM);
        for (int k = 0; k < (fused ? 1 : 2); k++) {
            const char *const role[] = {fused ? "both" : "gate", "up"};
            put_experts(&f, apart, DTYPE_F32, role[k], i, fused ? 2 * WIDE : WIDE, DIM);
            const char *const bias[] = {fused ? "both.bias" : "gate.bias", "up.bias"};
            put_experts(&f, apart, biases, bias[k], i, fused ? 2 * WIDE : WIDE, 0);
        }
        put_experts(&f, apart, DTYPE_F32, "down", i, DIM, WIDE);
        put_experts(&f, apart, biases, "down.bias", i, DIM, 0);
    }
    assert_ok(write_safetensors(path, f.t, f.n, NULL, &e), &e);
}

static void write_spec(const char *path, const char *weights, bool apart, bool fused)
{
    const char *at = apart ? "z.{i}.{0 .. experts}." : "a.{i}.", *gate = fused ? "both" : "gate",
               *up = fused ? "both" : "up";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "[model]\npath = %s\n[config]\ndim = %d\nlayers = %d\nvocab = %d\nexperts = %d\npositions = 96\n"
            "[network]\ntoken = table\nnorm = rms, eps = 1e-5\nffn = moe, used = 3, expert_dim = %d, bias = true\n"
            "head = linear\nblock = x = x + ffn(norm.a(x))\nfinal = norm.f(x)\n"
            "[tensors]\ntoken = a.9.token (bare)\nnorm.f = a.9.last (bare)\n{i}.norm.a = a.{i}.norm\n"
            "{i}.ffn.router = a.{i}.router\n",
            weights, DIM, LAYERS, VOCAB, EXPERTS, WIDE);
    fprintf(f, "{i}.ffn.gate = %s%s%s\n{i}.ffn.up = %s%s%s\n{i}.ffn.down = %sdown\n", at, gate,
            fused ? " (rows 0 .. 32)" : "", at, up, fused ? " (rows 32 .. 64)" : "", at);
    assert_int_equal(fclose(f), 0);
}

static table run_model(bool apart, bool fused, dtype biases, const char *isa, const char *weights)
{
    static const int32_t ids[] = {3, 41, 7, 7, 30, 12, 9, 48, 0, 22, 5, 17, 33, 26};
    err e = {0};
    char weights_path[300], spec_path_text[300];
    snprintf(weights_path, sizeof weights_path, "%s", temp_path("apart.safetensors"));
    snprintf(spec_path_text, sizeof spec_path_text, "%s", temp_path("apart.ini"));
    write_model(weights_path, biases, apart, fused);
    write_spec(spec_path_text, weights_path, apart, fused);
    engine *g = open_model((engine_options){.spec = spec_path_text, .threads = 1, .isa = isa, .weights = weights});
    table t = table_new(VOCAB, 64);
    assert_ok(engine_eval(g, ids, sizeof ids / sizeof *ids, -1, keep_rows, &t, &e), &e);
    engine_close(g);
    unlink(weights_path);
    unlink(spec_path_text);
    return t;
}

static void biases_in_tensors_of_their_own(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64};
    for (size_t k = 0; k < 4; k++)
        for (int fused = 0; fused < 2; fused++)
            for (int packed = 0; packed < 2; packed++)
                for (int i = 0; cpu_tables[i]; i++) {
                    const char *isa = cpu_tables[i]->isa, *weights = packed ? "q8_0" : NULL;
                    if (!cpu_kernels_named(isa) || cpu_tables[i]->inexact) continue;
                    table one = run_model(false, fused, types[k], isa, weights);
                    table own = run_model(true, fused, types[k], isa, weights);
                    bool same = same_bits(&one, &own);
                    free(one.at);
                    free(own.at);
                    if (!same)
                        fail_msg("%s biases%s, %s, %s: other logits than of one tensor", dtype_info[types[k]].name,
                                 fused ? " of gate and up" : "", isa, packed ? weights : "f32");
                }
}

/* Each part in a mapping of its own, at its end; behind the last nothing can be read. */
static void vectors_end_with_their_mapping(void **unused)
{
    (void)unused;
    enum { PARTS = 3, ROWS = 7, PAGE = 4096 };
    err e = {0};
    piece pieces[PARTS];
    uint8_t *memory = mmap(NULL, 2 * PARTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (int i = 0; i < PARTS; i++) {
        float *at = (float *)(void *)(memory + (2 * i + 1) * PAGE) - ROWS;
        for (int k = 0; k < ROWS; k++) at[k] = (float)(100 * i + k);
        assert_int_equal(mprotect(memory + (2 * i + 1) * PAGE, PAGE, PROT_NONE), 0);
        pieces[PARTS - 1 - i] = (piece){.type = DTYPE_F32,
                                        .data = (const uint8_t *)at,
                                        .src_rows = ROWS,
                                        .src_cols = 1,
                                        .rows = ROWS,
                                        .block = ROWS,
                                        .stride = ROWS,
                                        .mul = 1};
    }
    program *p = program_new(&e);
    weight w = {.name = "b",
                .pieces = pieces,
                .n_piece = PARTS,
                .rows = PARTS * ROWS,
                .cols = 1,
                .parts = PARTS,
                .vector = true};
    held_weight held[1] = {0};
    weight_set d = {.p = p, .held = held, .threads = 2};
    assert_int_equal(program_weight(p, &w, &e), 0);
    assert_ok(cpu_weight_put(&d, 0, &e), &e);
    assert_ok(cpu_weights_read(&d, &e), &e);
    const float *got = (const float *)(const void *)held[0].data;
    for (int k = 0; k < PARTS * ROWS; k++) assert_true(got[k] == (float)(100 * (PARTS - 1 - k / ROWS) + k % ROWS));
    cpu_weight_drop(&held[0]);
    program_free(p);
    munmap(memory, 2 * PARTS * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(biases_in_tensors_of_their_own),
                                       cmocka_unit_test(vectors_end_with_their_mapping)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
