/* heads.c - see heads.h. */
#include "models/heads.h"

#include "base/span.h"
#include "models/spec/spec_load.h"

#include <stdio.h>

/* The name of the class; of a GGUF file one that fits its pooling_type: 1 to 3 makes vectors, 4, "rank", scores. */
static const char *class_of(const ckpt *c, const json *config)
{
    char key[160];
    if (config || !ckpt_describes_itself(c)) return json_str(json_first(json_get(config, "architectures")), "");
    snprintf(key, sizeof key, "%.120s.pooling_type", ckpt_arch(c));
    const int64_t type = json_int(json_get(ckpt_config(c), key), 0);
    return type == 4 ? "ForSequenceClassification" : type > 0 ? "Model" : "";
}

/* The same as a name that expressions of the spec can ask for. */
static int put_kind(spec *s, const char *output, err *e)
{
    char word[40];
    snprintf(word, sizeof word, "\"%.30s\"", output);
    return spec_put(s, "config", "output_kind", word, e);
}

int heads_apply(spec *s, const ckpt *c, const json *config, err *e)
{
    const char *cls = class_of(c, config);
    static const struct {
        const char *end, *output;
    } heads[] = {{"Model", "states"}, /* the last that fits counts */
                 {"LMHeadModel", NULL},
                 {"ChatModel", NULL},
                 {"MTModel", NULL},
                 {"ForSequenceClassification", "scores"},
                 {"ForTokenClassification", "labels"},
                 {"ForQuestionAnswering", "labels"}};
    const char *said = spec_text(s, "network", "output");
    if (said) return put_kind(s, said, e);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (str_ends(cls, heads[i].end)) said = heads[i].output;
    if (!said) return OK;
    const int rc = spec_put(s, "network", "output", said, e);
    return rc ? rc : put_kind(s, said, e);
}
