/* t_models_specs.c - specs on checkpoints: the messages for a wrong spec or a wrong file, word for word; recipes and
 * layer classes as programs; the resolved spec gives the same program. The checkpoints are written here: a Llama of two
 * layers, and what a case changes. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/write_safetensors.h"
#include "models/compile/module.h"
#include "models/compile/module_list.h"
#include "models/spec/config_eval.h"
#include "models/model.h"
#include "app/spec_check.h"
#include "app/spec_text.h"

#include <math.h>

#define X(name) extern const module module_##name;
MODULE_LIST(X)
#undef X

enum { DIM = 8, HEADS = 2, KV = 1, HEAD_DIM = 4, FFN = 12, VOCAB = 10, TENSORS = 40 };

typedef struct made {
    write_tensor t[TENSORS];
    char name[TENSORS][80];
    size_t n;
} made;

/* Values that tell tensor, row and column apart. */
static int fill_row(void *self, uint64_t n, float *to, err *e)
{
    (void)e;
    const write_tensor *t = self;
    int64_t cols = t->dims.dim[t->dims.rank - 1];
    for (int64_t k = 0; k < cols; k++) to[k] = (float)(n * 100 + (uint64_t)k) / 1000 + (float)strlen(t->name) / 7;
    return OK;
}

__attribute__((format(printf, 4, 5))) static void add(made *m, int64_t rows, int64_t cols, const char *fmt, ...)
{
    write_tensor *t = &m->t[m->n];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->name[m->n], sizeof m->name[0], fmt, ap);
    va_end(ap);
    *t = (write_tensor){.name = m->name[m->n++], .type = DTYPE_F32, .row = fill_row, .self = t};
    t->dims = cols ? (shape){2, {rows, cols}} : (shape){1, {rows}};
}

static void add_llama(made *m, int layers)
{
    *m = (made){0};
    add(m, VOCAB, DIM, "model.embed_tokens.weight");
    for (int i = 0; i < layers; i++) {
        add(m, DIM, 0, "model.layers.%d.input_layernorm.weight", i);
        add(m, HEADS * HEAD_DIM, DIM, "model.layers.%d.self_attn.q_proj.weight", i);
        add(m, KV * HEAD_DIM, DIM, "model.layers.%d.self_attn.k_proj.weight", i);
        add(m, KV * HEAD_DIM, DIM, "model.layers.%d.self_attn.v_proj.weight", i);
        add(m, DIM, HEADS * HEAD_DIM, "model.layers.%d.self_attn.o_proj.weight", i);
        add(m, DIM, 0, "model.layers.%d.post_attention_layernorm.weight", i);
        add(m, FFN, DIM, "model.layers.%d.mlp.gate_proj.weight", i);
        add(m, FFN, DIM, "model.layers.%d.mlp.up_proj.weight", i);
        add(m, DIM, FFN, "model.layers.%d.mlp.down_proj.weight", i);
    }
    add(m, DIM, 0, "model.norm.weight");
}

static write_tensor *tensor_named(made *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0) return &m->t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void drop(made *m, const char *name)
{
    write_tensor *t = tensor_named(m, name);
    char spare[80];
    snprintf(spare, sizeof spare, "%s", m->t[m->n - 1].name);
    shape dims = m->t[m->n - 1].dims;
    snprintf((char *)t->name, sizeof m->name[0], "%s", spare);
    t->dims = dims;
    m->n--;
}

static char weights_path[300], spec_path_text[300];

static void write_text(const char *path, const char *text)
{
    file_out *f;
    err e = {0};
    assert_ok(file_create(&f, path, &e), &e);
    assert_ok(file_write(f, text, strlen(text), &e), &e);
    assert_ok(file_commit(f, &e), &e);
}

/* Writes checkpoint and spec. "@" in the text is the file with the weights. */
static void prepare(const made *m, const char *text)
{
    err e = {0};
    char whole[8000];
    snprintf(weights_path, sizeof weights_path, "%s", temp_path("model.safetensors"));
    snprintf(spec_path_text, sizeof spec_path_text, "%s", temp_path("model.ini"));
    assert_ok(write_safetensors(weights_path, m->t, m->n, NULL, &e), &e);
    snprintf(whole, sizeof whole, "[model]\npath = %s\n%s", weights_path, text);
    write_text(spec_path_text, whole);
}

static void tidy(void)
{
    unlink(weights_path);
    unlink(spec_path_text);
}

static int open_prepared(model **m, err *e) { return model_open(m, &(model_options){.spec_path = spec_path_text}, e); }

#define NUMBERS                                                                                                        \
    "base = llama\n[config]\ndim = 8\nlayers = 2\nvocab = 10\nheads = 2\nkv_heads = 1\nhead_dim = 4\nffn_dim = 12\n"   \
    "positions = 32\neps = 1e-5\n"

/* Replaces names of files by S and W, line numbers of llama.ini by '#': what is left is what the message says. */
static const char *plain(const char *msg)
{
    static char out[2000];
    size_t n = 0;
    for (const char *p = msg; *p && n < sizeof out - 1;) {
        if (strncmp(p, weights_path, strlen(weights_path)) == 0) out[n++] = 'W', p += strlen(weights_path);
        else if (strncmp(p, spec_path_text, strlen(spec_path_text)) == 0) out[n++] = 'S', p += strlen(spec_path_text);
        else out[n++] = *p++;
        if (n > 10 && memcmp(out + n - 10, "llama.ini:", 10) == 0) { /* its lines may move */
            out[n++] = '#';
            p += strspn(p, "0123456789");
        }
    }
    out[n] = 0;
    return out;
}

static void expect(const made *m, const char *spec_source, const char *message)
{
    model *opened;
    err e = {0};
    prepare(m, spec_source);
    int rc = open_prepared(&opened, &e);
    tidy();
    if (!rc) {
        model_close(opened);
        fail_msg("opened; expected: %s", message);
    }
    const char *got = plain(e.msg);
    if (strcmp(got, message) != 0) fail_msg("\n  said     %s\n  expected %s", got, message);
}

static void what_is_wrong_with_the_file(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    drop(&m, "model.layers.1.self_attn.k_proj.weight");
    expect(
        &m, NUMBERS,
        "W: tensor 'model.layers.1.self_attn.k_proj.weight' is missing: {i}.attn.k (llama.ini:#; llama.ini:#: attn)");
    add_llama(&m, 2);
    tensor_named(&m, "model.layers.0.self_attn.k_proj.weight")->dims.dim[0] = 5;
    expect(&m, NUMBERS,
           "W: tensor 'model.layers.0.self_attn.k_proj.weight' is [5, 8], expected [4, 8] for {i}.attn.k (llama.ini:#; "
           "llama.ini:#: attn)");
    add_llama(&m, 2);
    tensor_named(&m, "model.norm.weight")->dims.dim[0] = 9;
    expect(&m, NUMBERS,
           "W: tensor 'model.norm.weight' is [9], expected [8] for norm.f (llama.ini:#; llama.ini:#: norm.f)");
    add_llama(&m, 3);
    expect(&m, NUMBERS,
           "W: 9 tensors that nothing in S uses: 'model.layers.2.input_layernorm.weight', "
           "'model.layers.2.mlp.down_proj.weight', 'model.layers.2.mlp.gate_proj.weight', ... (if they are not needed, "
           "name "
           "them in [tensors] ignore)");
    add_llama(&m, 2);
    add(&m, 3, 3, "extra");
    expect(&m, NUMBERS,
           "W: 1 tensor that nothing in S uses: 'extra' (if they are not needed, name them in [tensors] ignore)");
}

static void what_is_wrong_with_the_spec(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {
        {NUMBERS "kv_head = 1\n", "S:14: [config] nothing uses the name 'kv_head': did you mean 'kv_heads'?"},
        {NUMBERS "[network]\natn = window = 4\n", "S:15: [network] no formula uses 'atn': did you mean 'attn'?"},
        {NUMBERS "[network]\nattn = widow = 4\n", "S:15: attn: attn.gqa has no option 'widow': did you mean 'window'?"},
        {NUMBERS "[network]\nattn = rope = circular\n",
         "S:15: attn.rope has no value: it is one of none|neox|interleaved, or a name that may be absent and then '| "
         "WORD'"},
        {NUMBERS "[network]\nattn = rope = \"circular\"\n",
         "S:15: attn.rope: 'circular' is not one of none|neox|interleaved"},
        {NUMBERS "[network]\nattn = mha\n", "S:15: attn: there is no module 'mha' (inferflow spec modules lists them)"},
        {NUMBERS "[network]\nattn = window = -1\n", "S:15: attn.window: -1 is out of range: 0 to 1073741824"},
        {NUMBERS "[network]\nattn = window = 1.5\n", "S:15: attn.window: '1.5' is not a whole number"},
        {NUMBERS "[network]\nattn = window = 1 / 0\n", "S:15: attn.window: divided by zero"},
        {NUMBERS "[network]\ntype = encoder\n",
         "S:15: type 'encoder' is not one of decoder_only, encoder_only, encoder_decoder"},
        {NUMBERS "[network]\nblock = x = x + attn(norm.a(x)) + y\n",
         "S:15: block: neither a variable, nor a slot, nor a name of [config]: y"},
        {NUMBERS "[network]\nblock = x = attn(x, x)\n", "S:15: block: attn (attn.gqa) takes 1 activation, got 2"},
        {NUMBERS "[network]\nblock = x = attn(2)\n", "S:15: block: a number is no activation: argument of attn"},
        {NUMBERS "[network]\nblock = x = x - x\n",
         "S:15: block: activations are added, multiplied with each other, and multiplied or divided by numbers"},
        {NUMBERS "[network]\nblock = x = 1\n", "S:15: block: the value is a number, not an activation: x"},
        {NUMBERS "[network]\nlogits = has(\"lm_head.weight\") ? head(x) : 0\n",
         "S:15: logits: has(), given() and rows() belong in [config]: use a name that is defined there"},
        {NUMBERS "[network]\nblock = x = mix(x)\n", "S:15: block: there is no slot, activation or function mix"},
        {NUMBERS "[network]\nblock = x = x + columns(x, 6, 3)\n", "S:15: block: columns 6 to 8 of 8"},
        {NUMBERS "[network]\nblock = x = x + columns(x, 6)\n",
         "S:15: block: columns takes an activation, the first column and their number"},
        {NUMBERS "[network]\nembed = y = token; y = y + y\n",
         "S:15: embed: no statement gives x: a layer would be its input"},
        {NUMBERS "[network]\nembed = token * hidden_size\n",
         "S:15: embed: neither a variable, nor a slot, nor a name of [config]: hidden_size"},
        {NUMBERS "[tensors]\n{i}.attn.kk = a\n",
         "S:15: [tensors] no slot asks for '{i}.attn.kk': did you mean '{i}.attn.k'?"},
        {NUMBERS "[tensors]\n{i}.attn.k = layers.{i}.self_attn.k_proj (turn)\n",
         "S:15: {i}.attn.k: unknown recipe 'turn': known are transpose, fit, conv1d, kernel, rope_pairs, "
         "head_pairs, unit, alone, exp, flat, bare, lines N, rows A .. B, columns A .. B, every S take L at O, norm "
         "NAME eps E, "
         "through NAME, + N, * N"},
        {NUMBERS "[tensors]\n{i}.attn.k = layers.{i}.self_attn.k_proj (rows 0 .. 3)\n",
         "W: tensor 'model.layers.0.self_attn.k_proj.weight' is [4, 8], expected 4 rows, not the 3 of the recipe, for "
         "{i}.attn.k "
         "(S:15; llama.ini:#: attn)"},
        {NUMBERS "[tensors]\n{i}.attn.k = layers.{i}.self_attn.q_proj (rows 0 .. 4)\n",
         "W: 2 tensors that nothing in S uses: 'model.layers.0.self_attn.k_proj.weight', "
         "'model.layers.1.self_attn.k_proj.weight' (if they are not needed, name them in [tensors] ignore)"},
        {NUMBERS "[tensors]\n{i}.attn.q = layers.{i}.self_attn.q_proj (every 8 take 6 at 4)\n",
         "S:15: {i}.attn.q: 6 rows at 4 do not fit in every 8"},
        {NUMBERS "[tensors]\n{i}.attn.v = layers.{i}.self_attn.v_proj (rope_pairs)\n",
         "S:15: {i}.attn.v: rope_pairs is for queries and keys"},
        {NUMBERS "[tensors]\n{i}.norm.a = layers.{i}.input_layernorm (transpose)\n",
         "S:15: {i}.norm.a: transpose is for matrices"},
        {NUMBERS "[tensors]\n{i}.norm.a = layers.{i}.self_attn.o_proj (transpose, columns 0 .. 2)\n",
         "S:15: {i}.norm.a: transpose is for matrices"},
        {NUMBERS "[tensors]\nrope_freqs = norm (+ 1)\n", "S:15: rope_freqs: numbers are read from one tensor as it is"},
        {NUMBERS "[tensors]\nrope_freqs = layers.{0 .. 2}.input_layernorm\n",
         "S:15: rope_freqs: numbers are read from one tensor as it is"},
        {NUMBERS "[tensors]\n{i}.attn.v = layers.{hidden_size}.v\n",
         "S:15: {i}.attn.v: 'hidden_size' is not a name of [config]"},
        {NUMBERS "[tensors]\n{i}.norm.a = gguf:blk\n",
         "S:15: {i}.norm.a names no tensor of a safetensors file (llama.ini:#: norm.a needs it)"},
        {"base = llama\n[config]\nlayers = 2\n", "S: dim is 0: expected a width from 1 to 1048576"},
        {"base = llama\n", "S: layers has no value: the model's configuration does not say how many there are"},
        {"base = llama\nformat = gguf\n", "S:4: format is gguf, but W is a safetensors file"},
        {"name = x\n",
         "W: no config.json beside it says what it is: give --spec FILE (two lines: [model] base = NAME)"},
    };
    made m;
    add_llama(&m, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect(&m, cases[i][0], cases[i][1]);
}

/* Lines of a built-in spec that a model's values do not fit: the file of the values is named in front. */
static void what_is_wrong_with_the_values(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {
        {NUMBERS "[network]\nattn = kv_layers = 0\n", ": attn: layer 0 has no keys of its own, and no layer"},
        {NUMBERS "[network]\nattn = rope_type = yarn, rope_share = 0.5\n",
         ": attn: rope_share goes with rope_type none"},
        {NUMBERS "[network]\nnorm = width = 3\n", ": norm.a: width 3 does not divide a row of 8"},
    };
    made m;
    add_llama(&m, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *opened;
        err e = {0};
        prepare(&m, cases[i][0]);
        assert_int_equal(open_prepared(&opened, &e), ERR_SPEC);
        if (!strstr(e.msg, cases[i][1])) fail_msg("\n  said     %s\n  expected %s", e.msg, cases[i][1]);
    }
    tidy();
}

static const op *find_op(const program *p, int kind, int layer, int nth)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        if (p->ops[i].kind == kind && p->ops[i].layer == layer && nth-- == 0) return &p->ops[i];
    fail_msg("no such op");
    return NULL;
}

static model *open_or_fail(const made *m, const char *text)
{
    model *opened;
    err e = {0};
    prepare(m, text);
    assert_ok(open_prepared(&opened, &e), &e);
    return opened;
}

/* Classes, numbers of the layer, labels and scalars reach the ops they are for. */
static void layers_and_scalars(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    model *o = open_or_fail(&m, NUMBERS
                            "window = 0\nr = 0.5\nscale = 1 / (i + 1)\n[network]\n"
                            "block = x = x + r * attn(norm.a(x)); x = x + silu(ffn(norm.b(x)))\nnorm.b = eps = 1e-3\n"
                            "logits = softcap(head(x), 30) / 4\n[layer second]\nwhere = i == 1\nwindow = 7\n");
    const program *p = o->prog;
    assert_int_equal(find_op(p, OP_ATTN, 0, 0)->u.attn.window, 0);
    assert_int_equal(find_op(p, OP_ATTN, 1, 0)->u.attn.window, 7);
    assert_true(find_op(p, OP_ATTN, 1, 0)->u.attn.scale == 0.5f);
    assert_true(find_op(p, OP_SCALE, 1, 0)->u.scale.factor == 0.5f);
    assert_true(find_op(p, OP_NORM, 0, 0)->u.norm.eps == 1e-5f && find_op(p, OP_NORM, 0, 1)->u.norm.eps == 1e-3f);
    assert_int_equal(find_op(p, OP_ACT, 0, 1)->u.act.fn, ACT_SILU);
    assert_true(find_op(p, OP_SOFTCAP, OUTSIDE, 0)->u.softcap.cap == 30 &&
                find_op(p, OP_SCALE, OUTSIDE, 0)->u.scale.factor == 0.25f);
    assert_int_equal(p->n_group, 2);
    assert_string_equal(p->tensors[find_op(p, OP_MATMUL, 1, 0)->in[1]].name, "dec.1.attn.q");
    assert_int_equal(p->tensors[p->entries[ENTRY_HEAD].out].axis, AXIS_OUT);
    assert_int_equal(p->dim, DIM);
    assert_int_equal(p->vocab, VOCAB);
    assert_int_equal(o->ctx, 32);
    assert_int_equal(p->n_cut > 1, 1);
    model_close(o);
    tidy();
}

/* What `embed` sets beside x goes on from layer to layer, as blocks change it. A layer
 * that reads the keys of an earlier one has no state, whatever matrices the file has for it. */
static void what_goes_on_through_layers(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    model *o = open_or_fail(&m, NUMBERS "values = own\n[network]\nembed = x = token; y = x * 3\n"
                                        "block = h = x + attn(norm.a(x)); y = y * columns(h, 4 * i, 1); "
                                        "x = h + ffn(norm.b(y))\nattn = kv_layers = 1, v_norm = true\n[tensors]\n"
                                        "ignore = *.1.self_attn.k_proj.* | *.1.self_attn.v_proj.*\n");
    const program *p = o->prog;
    const op *tripled = find_op(p, OP_SCALE, OUTSIDE, 0), *first = find_op(p, OP_MUL, 0, 0);
    assert_int_equal(p->n_state, 1);
    assert_int_equal(find_op(p, OP_ATTN, 1, 0)->state, find_op(p, OP_KV_PUT, 0, 0)->state);
    assert_true(tripled->u.scale.factor == 3 && first->in[0] == tripled->out);
    assert_int_equal(find_op(p, OP_COLUMNS, 1, 0)->u.columns.from, 4);
    assert_int_equal(find_op(p, OP_MUL, 1, 0)->in[0], first->out);
    model_close(o);
    o = open_or_fail(&m, NUMBERS "values = keys\n[tensors]\nignore = *.self_attn.v_proj.*\n");
    const op *put = find_op(o->prog, OP_KV_PUT, 1, 0), *turn = find_op(o->prog, OP_ROPE, 1, 1);
    assert_true(put->in[0] == turn->out && put->in[1] == turn->in[0]);
    model_close(o);
    tidy();
}

static const weight *weight_named(const program *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_weight; i++)
        if (strcmp(p->weights[i].name, name) == 0) return &p->weights[i];
    fail_msg("no weight %s", name);
    return NULL;
}

static float element(const program *p, const char *name, int64_t row, int64_t col)
{
    float values[64];
    const weight *w = weight_named(p, name);
    weight_decode_row(w, row, values);
    return values[col];
}

/* Fused tensors in the orders families use, transposed, shifted, permuted, stacked: element by element. */
static void recipes(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 1);
    for (const char *const *name = (const char *const[]){"q_proj", "k_proj", "v_proj", NULL}; *name; name++) {
        char full[80];
        snprintf(full, sizeof full, "model.layers.0.self_attn.%s.weight", *name);
        drop(&m, full);
    }
    drop(&m, "model.layers.0.self_attn.o_proj.weight");
    drop(&m, "model.layers.0.post_attention_layernorm.weight");
    add(&m, DIM, 16, "fused"); /* [in, out], per group: 2 q heads, k, v of 4 rows each */
    add(&m, 16, 0, "fused.bias");
    add(&m, HEADS * HEAD_DIM, DIM, "o.weight");
    add(&m, 4, 0, "half.0");
    add(&m, 4, 0, "half.1");
    char text[1200];
    snprintf(text, sizeof text, "%s%s", NUMBERS,
             "[network]\nattn = bias = true\n[tensors]\n"
             "{i}.attn.q = fused (transpose, every 16 take 8 at 0, rope_pairs)\n{i}.attn.k = fused (transpose, every "
             "16 take 4 at 8)\n"
             "{i}.attn.v = fused (rows 12 .. 16, transpose, * 2, + 1)\n{i}.attn.q.bias = fused.bias (rows 0 .. 8)\n"
             "{i}.attn.k.bias = fused.bias (rows 8 .. 12)\n{i}.attn.v.bias = fused.bias (rows 12 .. 16)\n"
             "{i}.attn.o = nothing | o (unit)\n{i}.norm.b = half.{0 .. 2} (+ 1)\n");
    char *two = strstr(text, "layers = 2");
    two[9] = '1';
    model *o = open_or_fail(&m, text);
    const program *p = o->prog;
    float base = 5.0f / 7; /* strlen("fused") / 7 */
    float file = (float)(2 * 100 + 13) / 1000 + base;
    assert_true(element(p, "dec.0.attn.v", 1, 2) == file * 2 + 1); /* row 13 of the transposed = column 13 of row 2 */
    assert_true(element(p, "dec.0.attn.k", 3, 0) == 11.0f / 1000 + base);
    assert_true(element(p, "dec.0.attn.q", 5, 0) == 6.0f / 1000 + base); /* head 1, half order 1 = neighbour order 2 */
    assert_true(element(p, "dec.0.attn.q", 6, 0) == 5.0f / 1000 + base);
    assert_true(element(p, "dec.0.attn.k.bias", 1, 0) == 9.0f / 1000 + 10.0f / 7);
    assert_true(element(p, "dec.0.norm.b", 5, 0) == 1.0f / 1000 + 6.0f / 7 + 1);
    float row[DIM], sum = 0;
    weight_decode_row(weight_named(p, "dec.0.attn.o"), 3, row);
    for (int k = 0; k < DIM; k++) sum += row[k] * row[k];
    assert_true(fabsf(sum - 1) < 1e-6f && row[1] > row[0]);
    assert_true(weight_named(p, "dec.0.attn.q.bias")->vector);
    assert_int_equal(weight_named(p, "dec.0.norm.b")->n_piece, 2);
    model_close(o);
    tidy();
}

/* Ids beyond the vocabulary, as configurations have them, are no reason to refuse a model, but nothing starts or ends
 * with them. */
static void ids_beyond_the_vocabulary(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    model *o = open_or_fail(&m, NUMBERS "[generate]\nbos = 10\neos = [50256, 9, -1]\n");
    assert_int_equal(o->bos, -1);
    assert_int_equal(o->n_eos, 1);
    assert_int_equal(o->eos[0], 9);
    model_close(o);
    tidy();
    expect(&m, NUMBERS "[generate]\neos = 1.5\n", "S:15: eos is not a token id or a list of them");
}

static void quantization_config_is_seen(void **unused)
{
    (void)unused;
    made m;
    char text[900];
    const char *config = temp_path("quantized.json");
    write_text(config, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}");
    snprintf(text, sizeof text, "config = %s\n%s", config, NUMBERS);
    add_llama(&m, 2);
    model *o = open_or_fail(&m, text); /* floats: the weights of any model */
    model_close(o);
    tidy();
    add(&m, 4, 4, "model.layers.0.self_attn.q_proj.qweight");
    m.t[m.n - 1].type = DTYPE_I32;
    m.t[m.n - 1].raw = (const int32_t[16]){0};
    expect(&m, text,
           "W: quantized (gptq): tensor 'model.layers.0.self_attn.q_proj.qweight' of i32 is in no known layout");
    unlink(config);
}

/* An error about a value names the file it comes from, not a line of a built-in spec. */
static void the_file_of_a_value_is_named(void **unused)
{
    (void)unused;
    made m;
    char text[900], want[700];
    const char *config = temp_path("values.json");
    write_text(config, "{\"hidden_size\": 8, \"num_hidden_layers\": 2, \"vocab_size\": 10, \"num_attention_heads\": 2,"
                       "\"intermediate_size\": 12, \"head_dim\": 2.5, \"max_position_embeddings\": 32}");
    snprintf(text, sizeof text, "config = %s\nbase = llama\n", config);
    snprintf(
        want, sizeof want,
        "%s: llama.ini:#: attn: attn.head_dim (llama.ini:#: head_dim = head_dim | gguf:attention.key_length | dim / "
        "heads): '2.5' is not a whole number (from head_dim)",
        config);
    add_llama(&m, 2);
    expect(&m, text, want);
    unlink(config);
}

/* transformers writes InternLM 3 as LlamaForCausalLM: the defaults are those of the model type. */
static void model_type_narrows_the_class(void **unused)
{
    (void)unused;
    static const struct {
        const char *class, *type;
        float eps;
    } all[] = {{"LlamaForCausalLM", "internlm3", 1e-5f},
               {"LlamaForCausalLM", "llama", 1e-6f},
               {"LlamaModel", "llama", 1e-6f},
               {"LlamaForCausalLM", "gpt2", 1e-6f},    /* no kind of Llama */
               {"NoSuchForCausalLM", "internlm3", 0}}; /* nor of InternLM 3 */
    made m;
    add_llama(&m, 2);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[900];
        const char *config = temp_path("class.json");
        snprintf(text, sizeof text,
                 "{\"architectures\": [\"%s\"], \"model_type\": \"%s\", \"hidden_size\": 8, \"num_hidden_layers\": 2,"
                 "\"vocab_size\": 10, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4,"
                 "\"intermediate_size\": 12, \"max_position_embeddings\": 32}",
                 all[i].class, all[i].type);
        write_text(config, text);
        snprintf(text, sizeof text, "config = %s\n", config);
        if (all[i].eps > 0) {
            model *o = open_or_fail(&m, text);
            assert_true(find_op(o->prog, OP_NORM, 0, 0)->u.norm.eps == all[i].eps);
            model_close(o);
            tidy();
        } else
            expect(&m, text,
                   "W: no built-in spec is for the class 'NoSuchForCausalLM'; its model_type 'internlm3' is that of "
                   "internlm3.ini, which computes other classes: where it is right all the same, two lines of --spec "
                   "FILE say so: [model] base = internlm3");
        unlink(config);
    }
}

/* eps 0 is a number like others; none at all is a mistake. */
static void eps_may_be_zero(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    model *o = open_or_fail(&m, NUMBERS "[network]\nnorm.b = eps = 0\n");
    assert_true(find_op(o->prog, OP_NORM, 0, 1)->u.norm.eps == 0);
    model_close(o);
    tidy();
    expect(&m, NUMBERS "[network]\nnorm = eps = -1\n", "S:15: norm.a.eps: -1 is out of range: 0 to 1");
    expect(
        &m, NUMBERS "[network]\nnorm = eps = absent\n",
        "S:15: norm.a.eps has no value: give it here or as a name in [config]; the model's configuration has none of "
        "the keys that were asked for");
}

static void pairs_of_a_part(const char *recipe, const int row[8])
{
    made m;
    char text[400];
    add_llama(&m, 2);
    for (size_t i = 0; i < m.n; i++)
        if (strstr(m.name[i], "k_proj") || strstr(m.name[i], "v_proj")) m.t[i].dims.dim[0] = 8;
    snprintf(text, sizeof text,
             "base = llama\n[config]\ndim = 8\nlayers = 2\nvocab = 10\nheads = 1\nhead_dim = 8\nffn_dim = 12\n"
             "positions = 32\neps = 1e-5\nrope_dims = 6\n[tensors]\n{i}.attn.q = layers.{i}.self_attn.q_proj (%s)\n",
             recipe);
    model *o = open_or_fail(&m, text);
    for (int i = 0; i < 8; i++)
        assert_true(element(o->prog, "dec.0.attn.q", i, 0) ==
                    (float)(100 * row[i]) / 1000 + (float)strlen("model.layers.0.self_attn.q_proj.weight") / 7);
    assert_int_equal(find_op(o->prog, OP_ROPE, 0, 0)->u.rope.dims, 6);
    model_close(o);
    tidy();
}

static void rope_pairs_of_a_part(void **unused)
{
    (void)unused; /* that part of a head lies in another order, or the whole head does */
    pairs_of_a_part("rope_pairs", (const int[8]){0, 2, 4, 1, 3, 5, 6, 7});
    pairs_of_a_part("head_pairs", (const int[8]){0, 2, 4, 6, 1, 3, 5, 7});
}

/* tie_word_embeddings over a file that has a head: the head counts, whichever values it has. */
static void the_head_of_the_file(void **unused)
{
    (void)unused;
    made m;
    for (int own = 0; own < 2; own++)
        for (int tied = 0; tied < 3; tied++) {
            add_llama(&m, 2);
            if (own) add(&m, VOCAB, DIM, "lm_head.weight");
            const char *said[] = {NUMBERS "tied = false\n", NUMBERS "tied = true\n", NUMBERS "tied = \"auto\"\n"};
            if (!own && !tied) {
                expect(&m, said[tied], "W: tensor 'model.lm_head.weight' is missing: head (llama.ini:#; S: head)");
                continue;
            }
            model *o = open_or_fail(&m, said[tied]);
            const op *last = find_op(o->prog, OP_MATMUL, OUTSIDE, 0);
            assert_string_equal(o->prog->tensors[last->in[1]].name, own ? "dec.head" : "dec.token");
            model_close(o);
            tidy();
        }
}

static void weights_in_another_type(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    model *o = open_or_fail(&m, NUMBERS "[runtime]\nweights = f16\nctx = 20\n");
    assert_int_equal(weight_named(o->prog, "dec.1.ffn.up")->want, DTYPE_F16);
    assert_int_equal(weight_named(o->prog, "dec.1.norm.a")->want, DTYPE_NONE);
    assert_int_equal(o->ctx, 20);
    model_close(o);
    err e = {0};
    assert_int_equal(model_open(&o, &(model_options){.spec_path = spec_path_text, .weights = "f61"}, &e), ERR_USAGE);
    assert_memory_equal(e.msg, "--weights f61: weights can be held as f32, ", 42);
    /* rows of 8, less than a block of q8_0 */
    e = (err){0};
    assert_ok(model_open(&o, &(model_options){.spec_path = spec_path_text, .weights = "q8_0", .ctx = 9}, &e), &e);
    assert_int_equal(weight_named(o->prog, "dec.1.ffn.up")->want, DTYPE_Q8_0);
    assert_int_equal(o->ctx, 9);
    model_close(o);
    prepare(&m, NUMBERS "[runtime]\nweights = f61\n");
    e = (err){0};
    assert_int_equal(model_open(&o, &(model_options){.spec_path = spec_path_text}, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, ":15: [runtime] weights f61: weights can be held as f32, "));
    tidy();
}

static void check_round_trip(const char *model_path, const char *spec_file)
{
    model *first, *second;
    err e = {0};
    buf text = {0}, again = {0};
    assert_ok(model_open(&first, &(model_options){.model_path = model_path, .spec_path = spec_file}, &e), &e);
    assert_ok(model_spec_text(first, &text, &e), &e);
    const char *path = temp_path("resolved.ini");
    write_text(path, buf_cstr(&text));
    if (model_open(&second, &(model_options){.spec_path = path}, &e)) fail_msg("%s\n%s", e.msg, buf_cstr(&text));
    if (memcmp(first->prog->hash, second->prog->hash, SHA256_BYTES)) fail_msg("another program:\n%s", buf_cstr(&text));
    assert_int_equal(first->n_eos, second->n_eos);
    assert_int_equal(first->bos, second->bos);
    assert_int_equal(first->ctx, second->ctx);
    assert_ok(model_spec_text(second, &again, &e), &e);
    assert_string_equal(buf_cstr(&text), buf_cstr(&again));
    model_close(first);
    model_close(second);
    buf_free(&text);
    buf_free(&again);
    unlink(path);
}

static void resolved_spec_is_the_same_program(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    prepare(&m, NUMBERS
            "window = 0\ntheta = [100, 200][i] | 300\n[network]\nnorm.b = eps = 1 / (i + 3)\n[layer second]\nwhere = i "
            "== 1\n"
            "window = 7\nattn = rope_type = linear, rope_factor = 2\nblock = x = x + ffn(norm.b(x)) + attn(norm.a(x))\n"
            "[generate]\neos = [1, 2]\nbos = 3\ntemperature = 0.5\n[runtime]\nctx = 16\n");
    check_round_trip(NULL, spec_path_text);
    tidy();
    const char *stories = shared_path("models/stories260K/stories260K.bin");
    if (stories) check_round_trip(stories, NULL);
    else skip_msg("stories260K is not here");
}

static void memory_runs_out(void **unused)
{
    (void)unused;
    made m;
    add_llama(&m, 2);
    prepare(&m, NUMBERS "window = 0\n[layer second]\nwhere = i == 1\nwindow = 7\n");
    long n = 1;
    for (bool fired = true; fired; n += 1 + n / 60) {
        model *o;
        err e = {0};
        mem_fail_at(n);
        int rc = open_prepared(&o, &e);
        fired = mem_fail_at(0);
        if (fired && rc != ERR_MEMORY) fail_msg("allocation %ld: code %d: %s", n, rc, e.msg);
        if (!rc) model_close(o);
    }
    assert_true(n > 100);
    tidy();
}

/* Every mistake of a file, of whatever kind, a line each. */
static void mistakes_are_told_together(void **unused)
{
    (void)unused;
    static const char text[] = NUMBERS "kv_head = 1\ndepth = 3 +\n[modle]\nname = x\nother = y\n"
                                       "[network]\natn = window = 4\nattn = widow = 4, bias = )\nffn = gatd\n"
                                       "block = y = x + attn(norm.a(x))\n"
                                       "[layer two]\nwhere = i = 1\n[layer one]\nwindow = 3\n"
                                       "[tensors]\n{i}.attn.kk = a\n[tokenizer]\npat = x\n[runtime]\nthread = 3\n";
    static const char want[] = "S:21: attn.bias: expected a value at ')' (character 1)\n"
                               "S:16: unknown section [modle]: did you mean [model]?\n"
                               "S:23: block: no statement gives x: a layer would be its input\n"
                               "S:15: depth: expected a value at the end\n"
                               "S:25: where: unexpected text at '= 1' (character 3)\n"
                               "S:27: [layer one] window: neither a slot of [network] nor a name of [config]\n"
                               "S:31: [tokenizer] unknown key 'pat': did you mean 'path'?\n"
                               "S: [layer one] needs a key `where` that says for which layers it is\n"
                               "S:33: [runtime] thread: unknown key: did you mean 'threads'?\n"
                               "S:21: attn: attn.gqa has no option 'widow': did you mean 'window'?\n"
                               "S:22: [network] no formula uses 'ffn'\n"
                               "S:20: [network] no formula uses 'atn': did you mean 'attn'?\n"
                               "S:14: [config] nothing uses the name 'kv_head': did you mean 'kv_heads'?\n"
                               "S:15: [config] nothing uses the name 'depth'\n"
                               "S:29: [tensors] no slot asks for '{i}.attn.kk': did you mean '{i}.attn.k'?\n";
    made m;
    buf b = {0};
    err e = {0};
    add_llama(&m, 2);
    prepare(&m, text);
    assert_int_equal(spec_check(spec_path_text, NULL, NULL, &b, &e), ERR_SPEC);
    assert_string_equal(plain(e.msg), "S: 15 mistakes");
    assert_string_equal(plain(buf_cstr(&b)), want);
    /* one is the message itself, and loading tells the first */
    b.n = 0;
    e = (err){0};
    prepare(&m, NUMBERS "[network]\nffn = gatd\n");
    assert_int_equal(spec_check(spec_path_text, NULL, NULL, &b, &e), ERR_SPEC);
    assert_string_equal(plain(e.msg), "S:15: ffn: there is no module 'gatd' (inferflow spec modules lists them)");
    assert_int_equal(b.n, 0);
    tidy();
    buf_free(&b);
}

static void texts(void **unused)
{
    (void)unused;
    buf b = {0};
    err e = {0};
    assert_ok(spec_text_list(&b, &e), &e);
    assert_non_null(strstr(buf_cstr(&b), "for LlamaForCausalLM, llama, gguf:llama, llama2c:llama2\n"));
    assert_true(spec_text_modules(&b));
    assert_non_null(strstr(buf_cstr(&b), "attn.gqa: self attention"));
    assert_non_null(strstr(buf_cstr(&b), "default none"));
    b.n = 0;
    made m;
    add_llama(&m, 2);
    prepare(&m, NUMBERS);
    assert_ok(spec_check(spec_path_text, NULL, NULL, &b, &e), &e);
    assert_non_null(strstr(buf_cstr(&b), ": 2 layers, 20 tensors, "));
    tidy();
    buf_free(&b);
}

/* Each module: named as its file, with words for people, options whose defaults they take themselves, and roles told
 * apart. */
static void every_module_keeps_the_rules(void **unused)
{
    (void)unused;
    static const struct {
        const char *file;
        const module *m;
    } all[] = {
#define X(name) {#name, &module_##name},
        MODULE_LIST(X)
#undef X
    };
    err e = {0};
    buf told = {0};
    assert_true(spec_text_modules(&told));
    assert_int_equal(sizeof all / sizeof *all, module_count);
    for (size_t i = 0; i < module_count; i++) {
        const module *m = all[i].m;
        char path[120], name[64], line[300], *bar;
        snprintf(path, sizeof path, "models/modules/%s.c", all[i].file);
        snprintf(name, sizeof name, "%s", all[i].file);
        if ((bar = strchr(name, '_'))) *bar = '.';
        assert_string_equal(m->name, name);
        if (!file_exists(path)) fail_msg("%s: there is no %s", name, path);
        assert_ptr_equal(module_find("", name), m);
        assert_true(m->doc && *m->doc && m->emit && m->args >= 0 && m->args <= 4);
        snprintf(line, sizeof line, "%s: %s\n", m->name, m->doc);
        if (!strstr(buf_cstr(&told), line)) fail_msg("spec modules does not tell of %s", name);
        void *options = mem_zero(1, m->options_size);
        for (size_t k = 0; k < m->n_params; k++) {
            const param *p = &m->params[k];
            if (!p->doc || !*p->doc) fail_msg("%s.%s has no doc", name, p->key);
            if (param_find(m->params, m->n_params, p->key) != p) fail_msg("%s.%s stands twice", name, p->key);
            assert_true(p->offset < m->options_size);
            if (p->otherwise) assert_ok(param_set(p, options, p->otherwise, p->key, &e), &e);
            else if (p->type == PARAM_BOOL || p->type == PARAM_WORD) fail_msg("%s.%s has no default", name, p->key);
        }
        mem_free(options);
        for (size_t k = 0; k < m->n_weights; k++) {
            assert_true(*m->weights[k].shape && *m->weights[k].doc);
            for (size_t j = 0; j < k; j++) assert_string_not_equal(m->weights[j].role, m->weights[k].role);
        }
    }
    buf_free(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_the_file),
        cmocka_unit_test(what_is_wrong_with_the_spec),
        cmocka_unit_test(what_is_wrong_with_the_values),
        cmocka_unit_test(layers_and_scalars),
        cmocka_unit_test(what_goes_on_through_layers),
        cmocka_unit_test(recipes),
        cmocka_unit_test(ids_beyond_the_vocabulary),
        cmocka_unit_test(quantization_config_is_seen),
        cmocka_unit_test(the_file_of_a_value_is_named),
        cmocka_unit_test(model_type_narrows_the_class),
        cmocka_unit_test(eps_may_be_zero),
        cmocka_unit_test(rope_pairs_of_a_part),
        cmocka_unit_test(the_head_of_the_file),
        cmocka_unit_test(weights_in_another_type),
        cmocka_unit_test(resolved_spec_is_the_same_program),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(mistakes_are_told_together),
        cmocka_unit_test(texts),
        cmocka_unit_test(every_module_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
