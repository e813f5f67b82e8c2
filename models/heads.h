/* heads.h - which head a model has, by the name of its class: `XModel` has none, `XForSequenceClassification` one for
 * texts, `XForTokenClassification` and `XForQuestionAnswering` one for tokens. It becomes the key `output` of
 * [network], and the name `output_kind` of [config]; a spec that has the key decides itself. */
#pragma once
#include "base/json.h"
#include "io/ckpt.h"

typedef struct spec spec; /* models/spec/spec.h */

/* Writes `output` into the spec where the class says it; the class is the first name of `architectures` in
 * config (NULL: a file that describes itself). */
int heads_apply(spec *s, const ckpt *c, const json *config, err *e);
