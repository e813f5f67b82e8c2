/* t_models_wrapped.c - a text model inside another one (models/compile/wrapped.h): which keys count, whether they stand
 * inside or around it, and what is refused. Logits of such models are judged by t_models_families.c. */
#include "command.h"

#include "base/mem.h"

#include <string.h>

typedef struct change {
    const char *model;
    const char *config;  /* a sed script for config.json; "": nothing */
    const char *weights; /* for the weights' file */
    const char *says;    /* part of the error; NULL: it runs, without a word, to the tokens that it had */
} change;

static const change changes[] = {
    {"llava", "", "", NULL},
    {"llava", "s/^ \"tie_word_embeddings\": false/ \"use_bidirectional_attention\": true/", "", NULL},
    {"llava", "s/\"pretraining_tp\": 1/\"use_bidirectional_attention\": true/", "", "use_bidirectional_attention"},
    {"llava", "s/\"architectures\"/\"classes\"/", "", NULL},
    {"llava", "s/\"text_config\"/\"llm_config\"/; s/LlavaForConditionalGeneration/InternVLChatModel/", "", NULL},
    {"llava", "s/ForConditionalGeneration/ForSequenceClassification/", "", "'LlavaForSequenceClassification'"},
    {"llava", "s/\"model_type\": \"llama\"/\"model_type\": \"unheard\"/", "", "'LlavaForConditionalGeneration'"},
    {"llava", "s/\"num_hidden_layers\": 2,/\"num_hidden_layers\": -1,/", "", "layers is -1"},
    {"llava", "/\"num_hidden_layers\": 2,/d", "", "layers.2.input_layernorm.weight' is missing"}, /* the class has 32 */
    {"llava", "/\"num_attention_heads\": 4,/d", "", "expected [320, 24]"},                        /* 32 */
    {"llava", "", "s/multi_modal_projector.linear_2.bias/language_model.model.layers.7.zzzzz/", "layers.7.zzzzz"},
    {"llava", "", "s/language_model.lm_head/language_model.lm_hand/", "lm_head.weight' is missing"},
    /* the wrapper says whether head and table are one, whatever the text model's configuration has */
    {"mistral3", "", "", NULL},
    {"mistral3", "s/^ \"tie_word_embeddings\": true/ \"tie_word_embeddings\": false/", "",
     "lm_head.weight' is missing"},
    {"mistral3", "/^ \"tie_word_embeddings\"/d", "", NULL},
    {"gemma3", "s/^  \"tie_word_embeddings\": true/  \"tie_word_embeddings\": false/", "", NULL},
    /* its text sees its whole prompt */
    {"gemma3", "s/Gemma3For/PaliGemmaFor/; s/\"gemma3_text\"/\"gemma\"/", "", "'PaliGemmaForConditionalGeneration'"},
    /* files made before 2025: all keys at the top */
    {"qwen2_vl",
     "/\"text_config\": {/,/^ },/{/\"text_config\"/d;/^ },/d;/\"model_type\"/d;/\"tie_word/d;"
     "s/\"vocab_size\": 101/&,/;s/\"rope_type\": \"default\"/\"type\": \"mrope\"/;"
     "s/rope_parameters/rope_scaling/}",
     "", NULL},
    {"qwen2_vl", "s/\"rope_type\": \"default\"/\"type\": \"mrope\"/; s/rope_parameters/rope_scaling/", "", NULL},
};

static buf said, errors;

/* Greedy tokens of a folder; NULL: an error. On the CPU: a GPU says on stderr that floats are slow there. */
static const char *tokens_of(const char *args)
{
    char line[600];
    snprintf(line, sizeof line, "run --devices cpu --ids 3,4,5,6,7 -n 12 --temp 0 --ignore-eos --output ids %s", args);
    return command_run(NULL, line, &said, &errors) ? NULL : buf_cstr(&said);
}

static char *copy_of(const change *c)
{
    char shell[3000];
    const char *dir = temp_path("wrapped");
    snprintf(shell, sizeof shell,
             "mkdir %s && sed '%s' $V/models/wrapped-%s/config.json >%s/config.json && "
             "sed '%s' $V/models/wrapped-%s/model.safetensors >%s/model.safetensors",
             dir, c->config, c->model, dir, c->weights, c->model, dir);
    assert_int_equal(command_shell("/", shell, &errors), 0);
    return mem_str(dir);
}

static void drop(char *dir)
{
    char shell[600];
    snprintf(shell, sizeof shell, "rm -r %s", dir);
    assert_int_equal(command_shell("/", shell, &errors), 0);
    mem_free(dir);
}

static void keys_inside_and_around(void **unused)
{
    (void)unused;
    int wrong = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        char args[600], had[400] = "";
        snprintf(args, sizeof args, "-m tests/vectors/models/wrapped-%s", c->model);
        assert_non_null(tokens_of(args));
        snprintf(had, sizeof had, "%s", buf_cstr(&said));
        char *dir = copy_of(c);
        snprintf(args, sizeof args, "-m %s", dir);
        const char *got = tokens_of(args);
        const bool right = c->says ? !got && strstr(buf_cstr(&errors), c->says)
                                   : got && strcmp(got, had) == 0 && errors.n == 0;
        if (!right) printf("%s, %s%s: %s%s", c->model, c->config, c->weights, got ? got : "", buf_cstr(&errors));
        wrong += !right;
        drop(dir);
    }
    assert_int_equal(wrong, 0);
}

/* [model] root names an object of another name, and a spec that goes into the object by itself needs none. */
static void specs_name_the_object(void **unused)
{
    (void)unused;
    static const char *const specs[][2] = {
        {"s/\"text_config\"/\"llm_config\"/", "base = llama\\nroot = llm_config"},
        {"", "base = llama\\nroot = text_config"},
        {"", "base = llama"},
        {"", "base = llama\\nunread = text_config.*\\n[config]\\ndim = text_config.hidden_size\\nlayers = "
             "text_config.num_hidden_layers\\n"
             "heads = text_config.num_attention_heads\\nkv_heads = text_config.num_key_value_heads\\n"
             "head_dim = text_config.head_dim\\nffn_dim = text_config.intermediate_size\\neps = "
             "text_config.rms_norm_eps\\nvocab = text_config.vocab_size\\nscaling = text_config.rope_parameters\\n"
             "trained = text_config.max_position_embeddings"},
    };
    char had[400], args[600], shell[3000];
    assert_non_null(tokens_of("-m tests/vectors/models/wrapped-llava"));
    snprintf(had, sizeof had, "%s", buf_cstr(&said));
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        char *dir = copy_of(&(change){"llava", specs[i][0], "", NULL});
        snprintf(shell, sizeof shell, "printf '[model]\\npath = .\\n%s\\n' >%s/my.ini", specs[i][1], dir);
        assert_int_equal(command_shell("/", shell, &errors), 0);
        snprintf(args, sizeof args, "--spec %s/my.ini", dir);
        const char *got = tokens_of(args);
        if (!got) fail_msg("%s: %s", specs[i][1], buf_cstr(&errors));
        assert_string_equal(got, had);
        drop(dir);
    }
}

/* A file that `quantize` made of one goes on as the text model alone. */
static void text_goes_on_alone(void **unused)
{
    (void)unused;
    char shell[1200];
    const char *dir = temp_path("alone");
    snprintf(shell, sizeof shell,
             "mkdir %s && cd %s && $P quantize -m $V/models/wrapped-llava --bits 8 -o q.safetensors 2>&1 >/dev/null && "
             "$P export -m q.safetensors -o hf 2>&1 >/dev/null && grep -q LlamaForCausalLM hf/config.json && "
             "! grep -q text_config hf/config.json && $P export -m q.safetensors -o t.gguf 2>&1 >/dev/null && "
             "for m in q.safetensors hf t.gguf; do $P run -m $m --ids 3,4,5,6 -n 9 --temp 0 --ignore-eos --output ids; "
             "done >said && test $(sort -u said | wc -l) = 1",
             dir, dir);
    if (command_shell("/", shell, &errors)) fail_msg("%s", buf_cstr(&errors));
    drop(mem_str(dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_inside_and_around),
                                       cmocka_unit_test(specs_name_the_object), cmocka_unit_test(text_goes_on_alone)};
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&said);
    buf_free(&errors);
    return rc;
}
