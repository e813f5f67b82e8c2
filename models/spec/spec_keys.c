/* spec_keys.c - see spec_keys.h. */
#include "models/spec/spec_keys.h"

#include <string.h>

#define TEXT(name, show, ...)                                                                                          \
    {                                                                                                                  \
        .key = name, .type = PARAM_TEXT, .words = show, .doc = __VA_ARGS__                                             \
    }

static const param model_rows[] = {
    TEXT("base", "NAME", "spec to start from: a built-in one by name, or a file (.ini, .json)"),
    TEXT("path", "PATH", "the model: folder, .safetensors, .bin/.pt, .gguf or llama2.c file; relative to this spec"),
    TEXT("config", "FILE", "JSON file that stands in for the checkpoint's config.json; relative to this spec"),
    TEXT("quantized", "METHOD BITS GROUP ROWS COLUMNS ZERO DIVIDES NAME ...",
         "what quantization_config says, and which scales are no f16: for nodes, which have neither"),
    TEXT("root", "NAME",
         "object of config.json that holds the text model's keys, where it has it (default: text_config)"),
    TEXT("absent", "KEY N, KEY N",
         "what the class has where the configuration of a text model inside another is silent"),
    TEXT("format", "NAME", "what the checkpoint must be: safetensors, pickle, gguf or llama2c"),
    TEXT("name", "NAME", "name of the model in answers (default: of the spec or the path)"),
    TEXT("arch", "A, B",
         "architectures it is for: config.json's architectures or model_type, has:KEY, gguf:NAME, llama2c:llama2"),
    TEXT("doc", "TEXT", "a sentence about the family"),
    TEXT("unread", "A, B",
         "keys of the configuration that change nothing for the family; '*' stands for any run of characters"),
    TEXT("code", "WORD", "apart: transformers has no class for it, a folder needs the Python files of the family"),
};
static const param network_rows[] = {
    TEXT("type", "KIND", "decoder_only (the default), encoder_only (tokens see later ones too), encoder_decoder"),
    TEXT("output", "WORD",
         "the head that is built: logits, labels (for each token), scores (of a text), or states, without a head "
         "(default: as the name of the class ends, else logits, and scores where there are some)"),
    TEXT("layers", "N", "number of layers (default: layers of [config])"),
    TEXT("enc_layers", "N", "layers of the encoder of an encoder-decoder (default: enc_layers of [config])"),
    TEXT("dim", "N", "width of the hidden state (default: dim of [config])"),
    TEXT("positions", "N", "positions the model was made for; 0 unknown (default: positions of [config])"),
    TEXT("enc.embed", "FORMULA",
         "encoder: its tokens to its hidden state (default: token, which is the slot enc.token)"),
    TEXT("enc.block", "FORMULA", "encoder: one layer, x to x"),
    TEXT("enc.final", "FORMULA", "encoder: after its last layer; what cross attention reads (default: x)"),
    TEXT("embed", "FORMULA",
         "tokens to the hidden state: `token * sqrt(dim)`; or statements that set x, and other variables for blocks"),
    TEXT("block", "FORMULA", "one layer, x to x: `x = x + attn(norm.a(x)); x = x + ffn(norm.b(x))`"),
    TEXT("final", "FORMULA", "after the last layer, on rows whose result is wanted: `norm.f(x)` (default: x)"),
    TEXT("logits", "FORMULA", "final state x to logits: `head(x)` (the default); 0: none (the default of encoders)"),
    TEXT("labels", "FORMULA",
         "final state x to labels of each token, or the start and end of an answer: `linear.c(x)`; 0: none"),
    TEXT("pooled", "FORMULA", "final state x to one vector for a text: `l2(pool(x))`; 0: none"),
    TEXT("scores", "FORMULA",
         "final state x to what a classification head says of a text: `linear.c(pool.c(x))`; 0: none"),
};
static const param tokenizer_rows[] = {
    TEXT("path", "PATH", "tokenizer files, for models that carry none or instead of theirs; relative to this spec"),
    TEXT("pre", "NAME", "pre-tokenizer pattern of a tiktoken rank file: llama3, cl100k, ..."),
};
static const param generate_rows[] = {
    TEXT("bos", "ID", "id a text starts with"),
    TEXT("eos", "ID or LIST", "ids that end a text"),
    TEXT("start", "ID or LIST", "ids that the decoder of an encoder-decoder starts from: its start and forced ones"),
    TEXT("wrap", "true or false",
         "where a head judges a text, the decoder starts from the text's last token instead (default: false)"),
};

#define SECTION_LIST(X) X(model) X(network) X(tokenizer) X(generate)

const param *spec_section_rows(const char *section, size_t *n)
{
#define X(name)                                                                                                        \
    if (strcmp(section, #name) == 0) return *n = sizeof name##_rows / sizeof *name##_rows, name##_rows;
    SECTION_LIST(X)
#undef X
    *n = 0;
    return NULL;
}

bool spec_is_formula(const char *key)
{
    const param *p = param_find(network_rows, sizeof network_rows / sizeof *network_rows, key);
    return p && strcmp(p->words, "FORMULA") == 0;
}
