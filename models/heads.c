/* heads.c - see heads.h. */
#include "models/heads.h"

#include "base/span.h"
#include "models/spec/spec_load.h"

#include <stdio.h>

/* The name of the class; of a GGUF file with pooling_type 4, "rank", one that scores texts. */
static const char *class_of(const ckpt *c, const json *config)
{
    char key[160];
    if (config || !ckpt_describes_itself(c)) return json_str(json_first(json_get(config, "architectures")), "");
    snprintf(key, sizeof key, "%.120s.pooling_type", ckpt_arch(c));
    return json_int(json_get(ckpt_config(c), key), 0) == 4 ? "ForSequenceClassification" : "";
}

int heads_apply(spec *s, const ckpt *c, const json *config, err *e)
{
    const char *cls = class_of(c, config);
    static const struct {
        const char *end, *output;
    } heads[] = {{"LMHeadModel", NULL},
                 {"MTModel", NULL},
                 {"Model", "states"},
                 {"ForSequenceClassification", "scores"},
                 {"ForTokenClassification", "labels"},
                 {"ForQuestionAnswering", "labels"}};
    if (spec_find(s, "network", "output")) return OK;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (str_ends(cls, heads[i].end))
            return heads[i].output ? spec_put(s, "network", "output", heads[i].output, e) : OK;
    return OK;
}
