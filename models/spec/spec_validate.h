/* spec_validate.h - what is wrong with a spec before any model is seen. */
#pragma once
#include "models/spec/spec.h"

/* Checks what can be checked without a model: fixed keys, expressions, formulas, classes. Loading calls it. */
int spec_validate(spec *s, err *e);
