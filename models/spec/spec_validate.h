/* spec_validate.h - what is wrong with a spec before any model is seen. */
#ifndef MODELS_SPEC_VALIDATE_H
#define MODELS_SPEC_VALIDATE_H
#include "models/spec/spec.h"

/* Checks what can be checked without a model: fixed keys, expressions, formulas, classes. Loading calls it. */
int spec_validate(spec *s, err *e);

#endif
