/* conv_args.h - the parameters of the kernel of conv.cuh. Kernel and host include it. */
#pragma once
#include "ops/conv_rows.h"

enum { CONV_COLUMNS = 128, CONV_ROWS = 8 }; /* of a block of threads */
typedef struct conv_args {
    conv_seq s; /* x and y of row 0, dim, past */
    const step *st;
    slot_store slots;
    const float *w, *bias; /* [past + 1, w_row]; NULL: none */
    int64_t w_row;
} conv_args;
