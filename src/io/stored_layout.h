/* stored_layout.h - from the tensors of one quantized matrix to a `stored`: each layout is a function, and a row of the
 * table in stored_layout.c. */
#pragma once
#include "base/buf.h"
#include "io/ckpt.h"

/* Matrices of integers whose scales are no f16: they are held as floats. Who has not the scales yet has to be told. */
typedef struct stored_wide {
    const char *told;  /* their names, a blank before each, or " *": all; NULL: the scales say it, and it is noted: */
    buf names;         /* the same of those that were found */
    uint32_t n, found; /* matrices of integers; of wide ones */
} stored_wide;

/* What the configuration says. 0 and NULL: nothing. */
typedef struct stored_said {
    const char *method;
    int bits;
    int64_t group;    /* columns under one scale; -1: all */
    int64_t block[2]; /* rows and columns under one scale of FP8 */
    bool zero_as_is;  /* GPTQ's zeros are not stored less one */
    bool divides;     /* BitNet: by the scale */
    stored_wide *wide;
} stored_said;

/* Tries the layouts on tensor i of the checkpoint: *made becomes true where it is the codes of a matrix, which is then
 * joined. ERR_SPEC: it is, but not as its layout says. */
int stored_layout(ckpt *c, uint32_t i, const stored_said *said, bool *made, err *e);
