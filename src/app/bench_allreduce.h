/* bench_allreduce.h - `inferflow bench allreduce`: every algorithm in every codec with every size, between the devices
 * of one group. */
#pragma once
#include "base/json.h"
#include "base/param.h"

typedef struct allreduce_options {
    const char *bytes, *codec, *algorithm; /* lists */
    int64_t codec_group;
} allreduce_options;

extern const param allreduce_rows[];
extern const size_t allreduce_row_count;

/* Adds "ranks" and "rows" to a JSON object. devices: as given to --devices; isa: NULL, the best here. */
int bench_allreduce(const allreduce_options *o, const char *devices, const char *isa, int64_t reps, json *root, err *e);
void bench_allreduce_print(const json *root);
