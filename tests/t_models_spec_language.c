/* t_models_spec_language.c - the spec language without a model: expressions, scopes, layer classes, inheritance, INI
 * and JSON, exact refusals. */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "models/compile/build.h"
#include "models/compile/spec_unknown.h"
#include "models/compile/spec_unread.h"
#include "models/compile/spec_unused.h"
#include "models/compile/module.h"
#include "models/spec/config_eval.h"
#include "models/spec/spec_load.h"
#include "models/spec/spec_slot.h"

#include <math.h>

static const char config_text[] =
    "{\"hidden_size\": 64, \"num_attention_heads\": 8, \"head_dim\": null, \"eps\": "
    "1e-6, \"tie\": true, \"act\": \"gelu_new\","
    "\"rope\": {\"type\": \"yarn\", \"factor\": 4, \"list\": [1, 2.5]}, \"layer_types\": "
    "[\"full\", \"sliding\", \"full\"],"
    "\"limit\": [{\"__float__\": \"-Infinity\"}, {\"__float__\": \"Infinity\"}, {\"__float__\": \"NaN\"}],"
    "\"deep\": {\"a\": {\"b\": 7}}, \"some\": {\"01\": 3}, \"no_rope\": [1, 0, 1]}";
static const char gguf_text[] =
    "{\"llama.attention.head_count\": 4, \"general.name\": \"n\", \"llama.rope.freq_base\": 500000}";

typedef struct scene {
    spec *s;
    config_eval *values;
    json *hf, *gguf;
} scene;

static void open_scene(scene *c, const char *spec_source)
{
    err e = {0};
    assert_ok(json_parse(&c->hf, span_str(config_text), "config.json", &e), &e);
    assert_ok(json_parse(&c->gguf, span_str(gguf_text), "gguf", &e), &e);
    assert_ok(spec_parse(&c->s, span_str(spec_source), "t.ini", "", NULL, &e), &e);
    config_sources from = {.hf = c->hf, .own = c->gguf, .source = "gguf", .arch = "llama", .option = module_option};
    assert_ok(config_open(&c->values, c->s, &from, &e), &e);
}

static void close_scene(scene *c)
{
    config_close(c->values);
    spec_free(c->s);
    json_free(c->hf);
    json_free(c->gguf);
}

/* The value of an expression as text, "none", or the message of its error. */
static const char *answer(scene *c, const char *text, int layer)
{
    static char out[700];
    err e = {0};
    const expr *x;
    value v;
    buf b = {0};
    if (expr_parse(&x, &c->s->mem, text, "here", &e) || config_value(c->values, x, layer, NULL, "here", &v, &e))
        return snprintf(out, sizeof out, "%s", e.msg), out;
    if (v.kind == VALUE_NONE) return "none";
    if (!value_print(&v, &b)) buf_str(&b, "object");
    snprintf(out, sizeof out, "%s", buf_cstr(&b));
    buf_free(&b);
    return out;
}

typedef struct expectation {
    const char *text, *answer;
    int layer;
} expectation;

static void check_all(scene *c, const expectation *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = answer(c, all[i].text, all[i].layer);
        if (strcmp(got, all[i].answer) != 0)
            fail_msg("%s\n  gives    %s\n  expected %s", all[i].text, got, all[i].answer);
    }
}

static void expressions(void **unused)
{
    (void)unused;
    static const expectation all[] = {
        {"1 + 2 * 3 ^ 2 ^ -1", "4.464101615137754", 0}, /* ^ binds to the right */
        {"-2 ^ 2", "-4", 0},
        {"7 % 4 - 10 / 4", "0.5", 0},
        {"(1 + 2) * 3", "9", 0},
        {"1e-6", "1e-06", 0},
        {"0.1 + 0.2", "0.30000000000000004", 0},
        {"1 < 2 and 2 <= 2 and 3 > 2 and 3 >= 3 and 1 != 2 and 2 == 2", "true", 0},
        {"not 1 < 2 or false", "false", 0},
        {"2 > 1 ? 5 : 1 / 0", "5", 0}, /* the other branch is not looked at */
        {"false ? 1 : true ? 2 : 3", "2", 0},
        {"sqrt(16) + floor(2.7) + ceil(2.1) + abs(-1) + exp(0) + log(1)", "11", 0},
        {"floor(probit(0.95) * 1e6)", "1644853", 0},
        {"abs(probit(0.5)) < 1e-12", "true", 0},
        {"min(3, 1, 2) + max([4, 9], 5)", "10", 0},
        {"[10, 20, 30][i]", "30", 2},
        {"[1, 1 / 0][0]", "1", 0},
        {"some[i]", "3", 1},
        {"some[i]", "none", 2},
        {"len(layer_types) + len([])", "3", 0},
        {"contains(layer_types, \"sliding\")", "true", 0},
        {"contains([1, 2], 3)", "false", 0},
        {"\"a\" == 'a'", "true", 0},
        {"\"1\" == 1", "false", 0},
        {"min(limit[1], 3) + max(limit[0], 2)", "5", 0},
        {"limit[1] > 1e300 and limit[0] < 0", "true", 0},
        {"limit[2]", "object", 0},
        {"letters(\"M*-\")[i]", "\"*\"", 1},
        {"len(letters(\"M*-M\")) + len(letters(\"\")) + len(letters([1, 2]))", "6", 0},
        {"i", "none", OUTSIDE},
        {"i + 1", "3", 2},
    };
    scene c;
    open_scene(&c, "[config]\nlayers = 3\n");
    check_all(&c, all, sizeof all / sizeof *all);
    close_scene(&c);
}

static void names_and_fallbacks(void **unused)
{
    (void)unused;
    static const expectation all[] = {
        {"dim", "64", 0},
        {"head_dim", "8", 0},                  /* null in config.json: the next one */
        {"gguf:attention.head_count", "4", 0}, /* llama. in front */
        {"gguf:general.name", "\"n\"", 0},     /* but not here */
        {"missing | gguf:rope.freq_base", "500000", 0},
        {"missing", "none", 0},
        {"missing + 1 | 3", "3", 0},
        {"missing ? 1 : 2 | 4", "4", 0},
        {"missing == 1", "none", 0},
        {"given(head_dim)", "true", 0},
        {"given(hf:head_dim)", "true", 0}, /* null is given */
        {"given(missing)", "false", 0},
        {"rows(\"no.tensor\") | 3", "3", 0},
        {"null | 1", "1", 0},
        {"[missing, 2, null]", "[2]", 0},  /* what has no value is left out of a list, */
        {"[missing, 2, null][1]", "2", 0}, /* but not counted out */
        {"rope.type", "\"yarn\"", 0},
        {"rope.factor * rope.list[1]", "10", 0},
        {"scaling.factor", "4", 0}, /* an object under a name of ours */
        {"deep.a.b", "7", 0},
        {"deep.a.c | 8", "8", 0},
        {"rope", "object", 0},
        {"act {gelu_new: gelu.tanh, x: y}", "\"gelu.tanh\"", 0},
        {"act {other: gelu.tanh}", "\"gelu_new\"", 0}, /* unknown words pass */
        {"tie {true: no}", "\"no\"", 0},
        {"dim {64: 65}", "65", 0},
        {"local", "0", 0},
        {"local", "512", 1}, /* a class of layers */
        {"twice", "1024", 1},
        {"late", "3", 0}, /* defined in terms of what comes after it */
        {"layer_types[i] == \"sliding\"", "true", 1},
    };
    scene c;
    open_scene(
        &c,
        "[config]\ndim = hidden_size\nlayers = len(layer_types)\nheads = num_attention_heads\n"
        "head_dim = head_dim | dim / heads\nscaling = rope\nlocal = 0\ntwice = 2 * local\nlate = later + 1\nlater = 2\n"
        "[layer sliding]\nwhere = layer_types[i] == \"sliding\"\nlocal = 256 + local + 256\n");
    check_all(&c, all, sizeof all / sizeof *all);
    close_scene(&c);
}

static void expressions_that_fail(void **unused)
{
    (void)unused;
    static const expectation all[] = {
        {"1 +", "here: expected a value at the end", 0},
        {"1 + )", "here: expected a value at ')' (character 5)", 0},
        {"1 2", "here: unexpected text at '2' (character 3)", 0},
        {"(1", "here: expected ')' at the end", 0},
        {"\"a", "here: text without closing quote at '\"a' (character 1)", 0},
        {"1x", "here: not a number at '1x' (character 1)", 0},
        {"a ? 1", "here: expected ':' of '?' at the end", 0},
        {"1 / 0", "here: divided by zero", 0},
        {"letters(\"a\", \"b\")", "here: letters() takes one text or list", 0},
        {"sqrt(-1)", "here: the result is not a finite number", 0},
        {"10 ^ 1000", "here: the result is not a finite number", 0},
        {"layer_types[5]", "here: element 5 of a list of 3", 0},
        {"layer_types[0.5]", "here: element 0.5 of a list of 3", 0},
        {"heads[0]", "here: only lists have elements", 0},
        {"act + 1", "here: '+' needs a number, got \"gelu_new\"", 0},
        {"act < 1", "here: a comparison needs a number, got \"gelu_new\"", 0},
        {"nosuch(1)", "here: there is no function nosuch", 0},
        {"given(1)", "here: given() takes one name", 0},
        {"rows(1)", "here: rows() takes a tensor name in quotes", 0},
        {"heads.x", "here: is not an object, it has no member x", 0},
        {"[[1]]", "here: a list inside a list", 0},
        {"bad", "t.ini:4: bad: divided by zero", 0},
        {"e1", "t.ini:28: e24: names refer to each other too deeply: e25", 0},
    };
    char text[2000] = "[config]\nlayers = 3\nheads = 8\nbad = 1 / 0\n";
    for (int k = 1; k <= 40; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "e%d = e%d + 1\n", k, k + 1);
    scene c;
    open_scene(&c, text);
    check_all(&c, all, sizeof all / sizeof *all);
    char deep[400] = "";
    for (int k = 0; k < 100; k++) strcat(deep, "((");
    assert_non_null(strstr(answer(&c, deep, 0), "here: nested too deeply"));
    close_scene(&c);

    /* Names that double each other would take 2^20 steps. */
    snprintf(text, sizeof text, "[config]\nlayers = 1\n");
    for (int k = 0; k < 20; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "d%d = d%d + d%d\n", k, k + 1, k + 1);
    strcat(text, "d20 = 1\n");
    open_scene(&c, text);
    assert_non_null(strstr(answer(&c, "d0", 0), "takes too many steps to evaluate"));
    close_scene(&c);
}

static void formulas(void **unused)
{
    (void)unused;
    arena a = {0};
    formula f;
    err e = {0};
    assert_ok(formula_parse(&f, &a, "a = norm.a(x); x = x + attn(a) + ffn(a);", "here", &e), &e);
    assert_int_equal(f.n, 2);
    assert_string_equal(f.at[0].name, "a");
    assert_string_equal(f.at[0].value->text, "norm.a");
    assert_int_equal(f.at[1].value->kind, EXPR_BINARY);
    static const char *const bad[][2] = {
        {"x", "here: expected '=' at the end"},
        {"= x", "here: expected 'name = ...' at '= x' (character 1)"},
        {"x = y z", "here: unexpected text at 'z' (character 7)"},
        {"x = attn(x", "here: expected ',' or ')' at the end"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (err){0};
        assert_int_equal(formula_parse(&f, &a, bad[i][0], "here", &e), ERR_SPEC);
        assert_string_equal(e.msg, bad[i][1]);
    }
    arena_free(&a);
}

static void slots_merge(void **unused)
{
    (void)unused;
    spec *s;
    err e = {0};
    const char *text = "[model]\nbase = qwen3\n[network]\nattn = window = 5, bias = false\nnorm = layer\n[layer odd]\n"
                       "where = i % 2\nattn = rope = none\n";
    assert_ok(spec_parse(&s, span_str(text), "t.ini", "", NULL, &e), &e);
    const spec_slot *attn = spec_slot_find(s, "network", "attn"), *norm = spec_slot_find(s, "network", "norm");
    assert_string_equal(attn->module, "gqa"); /* of llama.ini */
    const char *const want[][2] = {{"rope", "neox"}, {"bias", "false"}, {"qk_norm", "head"}, {"window", "5"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        bool found = false;
        for (size_t k = 0; k < attn->n; k++)
            found |= strcmp(attn->options[k].key, want[i][0]) == 0 && strcmp(attn->options[k].text, want[i][1]) == 0;
        if (!found) fail_msg("attn has no %s = %s", want[i][0], want[i][1]);
    }
    assert_string_equal(norm->module, "layer");
    assert_non_null(spec_slot_find(s, "layer odd", "attn"));
    assert_null(spec_find(s, "model", "arch")); /* not inherited */
    assert_memory_equal(spec_find(s, "config", "dim")->where, "llama.ini:", 10);
    spec_free(s);
}

static void json_is_the_same_tree(void **unused)
{
    (void)unused;
    const char *text =
        "{\"model\": {\"base\": \"llama\",\n \"arch\": [\"A\", \"B\"]},\n"
        "\"config\": {\"eps\": 0.5, \"list\": [1, \"two\", true], \"dim\": \"hidden_size | 3\"},\n"
        "\"network\": {\"attn\": {\"module\": \"gqa\", \"window\": 7}, \"block\": [\"a = norm.a(x)\", \"x = a\"]},\n"
        "\"layer\": {\"odd\": {\"where\": \"i % 2\", \"eps\": 1}},\n"
        "\"tensors\": {\"token\": [\"a\", \"b\"]}}";
    spec *s;
    err e = {0};
    assert_ok(spec_parse(&s, span_str(text), "t.json", "", NULL, &e), &e);
    static const char *const want[][4] = {
        {"model", "arch", "A, B", "t.json:2"},
        {"config", "eps", "0.5", "t.json:3"},
        {"config", "list", "[1, \"two\", true]", "t.json:3"},
        {"config", "dim", "hidden_size | 3", "t.json:3"},
        {"network", "block", "a = norm.a(x); x = a", "t.json:4"},
        {"layer odd", "eps", "1", "t.json:5"},
        {"tensors", "token", "a | b", "t.json:6"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const spec_row *r = spec_find(s, want[i][0], want[i][1]);
        assert_non_null(r);
        assert_string_equal(r->text, want[i][2]);
        assert_string_equal(r->where, want[i][3]);
    }
    const spec_slot *attn = spec_slot_find(s, "network", "attn");
    assert_string_equal(attn->options[attn->n - 1].text, "7");
    spec_free(s);
}

static void refusals(void **unused)
{
    (void)unused;
    static const char *const bad[][2] = {
        {"[modle]\nbase = llama\n", "t.ini:1: unknown section [modle]: did you mean [model]?"},
        {"[model]\nbase = llama\n[1]\n", "t.ini:3: unknown section [1]"},
        {"[1]\n[model]\nbase = llama\n", "t.ini:1: unknown section [1]"},
        {"{\"1\": {}}", "t.ini:1: unknown section [1]"},
        {"[model]\nbase = llama\n[layer a]\n", "t.ini: [layer a] needs a key `where` that says for which layers it is"},
        {"[model]\npaht = x\n", "t.ini:2: [model] unknown key 'paht': did you mean 'path'?"},
        {"[model]\nbase = lama\n", "t.ini: base: no built-in spec is called 'lama': did you mean 'llama'?"},
        {"[model]\nbase = nowhere.ini\n", "t.ini: base: nowhere.ini: No such file or directory"},
        {"[network]\nblokc = x = x\n", NULL}, /* a slot, until something calls it */
        {"[model]\nbase = llama\n[layer a]\neps = 1\n",
         "t.ini: [layer a] needs a key `where` that says for which layers it is"},
        {"[model]\nbase = llama\n[layer a]\nwhere = i\nepps = 1\n",
         "t.ini:5: [layer a] epps: neither a slot of [network] nor a name of [config]: did you mean 'eps'?"},
        {"[config]\nrope_dims = rotary_dim | 0\n",
         "t.ini:2: rope_dims: 0 says that no dimension rotates (it said all before): end with -1 for all, or leave it "
         "out"},
        {"[config]\nrope_dims = 0\n", NULL},
        {"[config]\na = 1 +\n", "t.ini:2: a: expected a value at the end"},
        {"[config]\ni = 1\n", "t.ini:2: 'i' cannot be a name (letters, digits, '_'; not i or x)"},
        {"[config]\na-b = 1\n", "t.ini:2: 'a-b' cannot be a name (letters, digits, '_'; not i or x)"},
        {"[network]\nblock = x\n", "t.ini:2: block: expected '=' at the end"},
        {"[network]\nattn = gqa, rope\n", "t.ini:2: attn: expected 'option = value' at 'rope'"},
        {"[network]\nattn = gqa, rope = neox, rope = none\n", "t.ini:2: attn.rope is given twice"},
        {"[network]\nattn = gqa, rope = (neox\n", "t.ini:2: attn.rope: expected ')' at the end"},
        {"{\"model\": {\"base\": null}}", "t.ini:1: [model] base: not a value that fits here"},
        {"{\"model\": 1}", "t.ini:1: section 'model' is not an object"},
        {"{\n\"network\":\n{\"attn\": {\"a\": {}}}}", "t.ini:3: [network] attn: not a value that fits here"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spec *s = NULL;
        err e = {0};
        int rc = spec_parse(&s, span_str(bad[i][0]), "t.ini", "", NULL, &e);
        if (bad[i][1]) assert_string_equal(e.msg, bad[i][1]);
        assert_int_equal(rc != 0, bad[i][1] != NULL);
        if (!rc) spec_free(s);
    }
}

/* Every built-in spec reads well and lists an architecture that no other lists. */
static void builtin_specs(void **unused)
{
    (void)unused;
    const char *name;
    size_t n = 0;
    for (; (name = spec_builtin_name(n)); n++) {
        char bare[64];
        spec *s;
        err e = {0};
        snprintf(bare, sizeof bare, "%.*s", (int)strlen(name) - 4, name);
        assert_ok(spec_load(&s, bare, NULL, &e), &e);
        if (!spec_text(s, "model", "arch") || !spec_text(s, "network", "block"))
            fail_msg("%s lacks arch or block", name);
        spec_free(s);
    }
    assert_true(n >= 7);
    spec *child; /* what a family is called in config.json is not inherited, other keys of it are */
    err e = {0};
    assert_ok(spec_load(&child, "nomic_bert", NULL, &e), &e);
    assert_null(spec_text(child, "config.json", "architectures"));
    assert_non_null(spec_text(child, "config.json", "num_labels"));
    spec_free(child);
}

/* A key that is null and one that is absent are told apart where the classes of transformers have a default: null is no
 * window, and without the key it is 4096 (in versions 5: MistralConfig, MinistralConfig, Dots1Config, Olmo3Config;
 * MixtralConfig has none). */
static void null_is_not_absent(void **unused)
{
    (void)unused;
#define LAYERS_64 "{\"num_hidden_layers\": 64, \"hidden_size\": 64, \"num_attention_heads\": 4"
    static const char kept[] = LAYERS_64 ", \"sliding_window\": 16}", null[] = LAYERS_64 ", \"sliding_window\": null}";
    static const char absent[] = LAYERS_64 "}";
    static const struct {
        const char *spec, *config;
        int layer;
        double window;
    } all[] = {
        {"mistral", kept, 0, 16},    {"mistral", null, 0, 0},      {"mistral", absent, 0, 4096},
        {"ministral", kept, 1, 16},  {"ministral", null, 1, 0},    {"ministral", absent, 1, 4096},
        {"mixtral", kept, 0, 16},    {"mixtral", null, 0, 0},      {"mixtral", absent, 0, 0},
        {"dots1", kept, 61, 0},      {"dots1", kept, 62, 16},      {"dots1", null, 62, 0},
        {"dots1", absent, 62, 4096}, {"glm4_moe", absent, 63, 0},  {"olmo3", kept, 0, 16},
        {"olmo3", null, 0, 0},       {"olmo3", absent, 0, 4096},   {"olmo3", absent, 3, 0},
        {"exaone4", null, 0, 0},     {"exaone4", absent, 0, 4096}, {"gemma2", absent, 0, 4096},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        scene c = {0};
        err e = {0};
        value v;
        assert_ok(json_parse(&c.hf, span_str(all[i].config), "config.json", &e), &e);
        assert_ok(spec_load_builtin(&c.s, all[i].spec, &e), &e);
        assert_ok(config_open(&c.values, c.s, &(config_sources){.hf = c.hf, .option = module_option}, &e), &e);
        assert_ok(config_name(c.values, "window", all[i].layer, &v, &e), &e);
        double window = v.kind == VALUE_NUMBER ? v.number : 0;
        if (window != all[i].window)
            fail_msg("%s, layer %d of %s: window %g, not %g", all[i].spec, all[i].layer, all[i].config, window,
                     all[i].window);
        close_scene(&c);
    }
}

/* Keys of a config.json that a spec does not know. */
static void keys_nobody_reads(void **unused)
{
    (void)unused;
    spec *s;
    json *j;
    buf b = {0};
    err e = {0};
    const char *text = "[model]\nbase = llama\n[config]\nr = residual_scale\n";
    assert_ok(spec_parse(&s, span_str(text), "t.ini", "", NULL, &e), &e);
    assert_ok(
        json_parse(&j,
                   span_str("{\"hidden_size\": 1, \"residual_scale\": 2, \"rope_scaling\": {\"a\": 1}, \"residual\": 3,"
                            "\"new_thing\": 4, \"attention_bias\": true, \"head_dim\": 5}"),
                   "config.json", &e),
        &e);
    assert_true(spec_unread_keys(s, j, &b));
    assert_string_equal(buf_cstr(&b), "rope_scaling.a, residual, new_thing");
    json_free(j);
    buf_free(&b);
    spec_free(s);
}

static void expect_keys(const char *base, const char *config, const char *unread)
{
    spec *s;
    json *j;
    buf b = {0};
    err e = {0};
    char text[100];
    snprintf(text, sizeof text, "[model]\nbase = %s\n[config]\neps = 1\n", base);
    assert_ok(spec_parse(&s, span_str(text), "t.ini", ".", NULL, &e), &e);
    assert_ok(json_parse(&j, span_str(config), "config.json", &e), &e);
    assert_true(spec_unread_keys(s, j, &b) == (*unread != 0));
    assert_string_equal(buf_cstr(&b), unread);
    json_free(j);
    buf_free(&b);
    spec_free(s);
}

/* Keys inside objects; one that the user's file says instead. */
static void keys_inside_objects(void **unused)
{
    (void)unused;
    static const char nested[] = "{\"hidden_size\": 8, \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5e5, "
                                 "\"rope_type\": \"default\"}}}";
    expect_keys("llama", nested, "rope_parameters.full_attention.rope_theta");
    expect_keys("gemma3", nested, "");
    expect_keys("llama",
                "{\"hidden_size\": 8, \"rope_scaling\": {\"factor\": 2, \"attn_factor\": 3}, \"rms_norm_eps\": 1,"
                "\"sliding_window\": 7, \"vision\": {\"hidden_size\": 3}}",
                "rope_scaling.attn_factor, sliding_window, vision");
}

/* What a file of the user says and nothing uses, in its base as well; what would hold for no layer. */
static void lines_without_effect(void **unused)
{
    (void)unused;
    const char *base = temp_path("base.ini");
    char text[400];
    static const struct {
        const char *base, *own, *said;
    } all[] = {
        {"[model]\nbase = llama\n[config]\ntemper = 2\n", "", "base.ini:4: [config] nothing uses the name 'temper'"},
        {"[model]\nbase = bart\n", "[layer odd]\nwhere = i % 2 == 1\nenc.ffn = bias = false\n",
         "t.ini:5: [layer odd] enc.ffn: classes of layers are the decoder's; an encoder's layers are alike, as "
         "[network] "
         "says"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        spec *s;
        err e = {0};
        FILE *f = fopen(base, "w");
        assert_non_null(f);
        fputs(all[i].base, f);
        fclose(f);
        snprintf(text, sizeof text, "[model]\nbase = %s\n%s", base, all[i].own);
        assert_ok(spec_parse(&s, span_str(text), "t.ini", ".", NULL, &e), &e);
        assert_int_equal(spec_check_unused(s, &e), ERR_SPEC);
        assert_non_null(strstr(e.msg, all[i].said));
        spec_free(s);
    }
    unlink(base);
}

/* Names that stand for nothing: behind dots, before |, in where and in options. */
static void names_of_nothing(void **unused)
{
    (void)unused;
    static const char text[] =
        "[model]\nbase = llama\n[config]\ntheta = scaling.rope_thta | rope_teta | gguf:rope.freq_base | 10000\n"
        "act_name = hidden_act {silu: nothing} | \"nothing\"\nwindow = 0\nnew = own_key | given(own_kye) ? 1 : 2\n"
        "[network]\nattn = window = (layer_typs[i] == \"x\") ? sliding_window : window, rope = neox\n"
        "[layer two]\nwhere = layer_types[i] == \"y\" or i > 3 and not hf:use_sliding_windw\nwindow = new\n";
    static const char want[] =
        "t.ini:4: theta: 'scaling.rope_thta' is neither a name of [config] nor a key that is known: did you mean "
        "'rope_theta'?\n"
        "t.ini:4: theta: 'rope_teta' is neither a name of [config] nor a key that is known: did you mean "
        "'rope_theta'?\n"
        "t.ini:7: new: 'own_kye' is neither a name of [config] nor a key that is known: did you mean 'own_key'?\n"
        "t.ini:11: where: 'use_sliding_windw' is neither a name of [config] nor a key that is known: did you mean "
        "'use_sliding_window'?\n"
        "t.ini:9: window: 'layer_typs' is neither a name of [config] nor a key that is known: did you mean "
        "'layer_types'?\n";
    spec *s;
    json *j;
    buf b = {0};
    err e = {0};
    assert_ok(spec_parse(&s, span_str(text), "t.ini", "", NULL, &e), &e);
    assert_ok(json_parse(&j, span_str("{\"own_key\": 3}"), "config.json", &e), &e);
    spec_unknown_names(s, j, &b);
    assert_string_equal(buf_cstr(&b), want);
    json_free(j);
    spec_free(s);
    const char *name;
    b.n = 0;
    for (size_t i = 0; (name = spec_builtin_name(i)); i++) { /* nothing to say of our own */
        char bare[64];
        snprintf(bare, sizeof bare, "%.*s", (int)strlen(name) - 4, name);
        assert_ok(spec_load_builtin(&s, bare, &e), &e);
        spec_unknown_names(s, NULL, &b);
        spec_free(s);
    }
    assert_string_equal(buf_cstr(&b), "");
    buf_free(&b);
}

static void memory_runs_out(void **unused)
{
    (void)unused;
    const char *text = "[model]\nbase = qwen2\n[config]\nwindow = 5\n[network]\nattn = softcap = 2\n";
    long n = 1;
    for (bool fired = true; fired; n += 1 + n / 40) {
        spec *s;
        mem_fail_at(n);
        int rc = spec_parse(&s, span_str(text), "t.ini", "", NULL, NULL);
        fired = mem_fail_at(0);
        if (fired) assert_int_equal(rc, ERR_MEMORY);
        else assert_int_equal(rc, OK);
        if (!rc) spec_free(s);
    }
    assert_true(n > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions),
        cmocka_unit_test(names_and_fallbacks),
        cmocka_unit_test(expressions_that_fail),
        cmocka_unit_test(formulas),
        cmocka_unit_test(slots_merge),
        cmocka_unit_test(json_is_the_same_tree),
        cmocka_unit_test(refusals),
        cmocka_unit_test(builtin_specs),
        cmocka_unit_test(null_is_not_absent),
        cmocka_unit_test(keys_nobody_reads),
        cmocka_unit_test(keys_inside_objects),
        cmocka_unit_test(lines_without_effect),
        cmocka_unit_test(names_of_nothing),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
