/* stored_layout.h - from the tensors of one quantized matrix to a `stored`: each layout is a function, and a row of the
 * table in stored_layout.c. */
#pragma once
#include "io/ckpt.h"

/* What the configuration says. 0 and NULL: nothing. */
typedef struct stored_said {
    const char *method;
    int bits;
    int64_t group;    /* columns under one scale; -1: all */
    int64_t block[2]; /* rows and columns under one scale of FP8 */
    bool zero_as_is;  /* GPTQ's zeros are not stored less one */
    bool divides;     /* BitNet: by the scale */
} stored_said;

/* Tries the layouts on tensor i of the checkpoint: *made becomes true where it is the codes of a matrix, which is then
 * joined. ERR_SPEC: it is, but not as its layout says. */
int stored_layout(ckpt *c, uint32_t i, const stored_said *said, bool *made, err *e);
