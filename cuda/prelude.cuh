/* prelude.cuh - what every image begins with: the headers of C that definitions read, and the data that they need.
 *
 * The C files are compiled as they are. `inline` says "for the host too" from here on: functions of headers are used
 * on both sides. */
#pragma once
#include <math.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define inline   inline __host__ __device__
#define restrict __restrict__

extern "C" {
#include "core/best_logit.h"
#include "tensor/dtype.h"

GPU_DATA const dtype_row dtype_info[DTYPE_COUNT] = {
    {"none", 0, 0, -1},
#define X(id, name, weights, bytes, ggml) {name, weights, bytes, ggml},
    DTYPE_LIST(X)
#undef X
};

#include "src/tensor/quant_tables_level.c"
#include "src/tensor/panel_strip.c"
}
