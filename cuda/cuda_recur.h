/* cuda_recur.h - RECUR and CONV on the device: ops with slots. */
#pragma once
#include "cuda/cuda_state.h"

/* Starts the kernel of an op RECUR; *done false: there is none for such a state. */
int cuda_recur_start(cuda_device *d, const cuda_segment *s, const step *st, const op *o, bool *done, err *e);
int cuda_conv_start(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e);
