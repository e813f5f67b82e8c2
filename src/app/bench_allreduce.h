/* bench_allreduce.h - `inferflow bench allreduce`: every algorithm in every codec with every size, between the devices
 * of one group. */
#pragma once
#include "base/json.h"
#include "engine/engine_params.h"

typedef struct allreduce_options {
    const char *bytes, *codec, *algorithm; /* lists */
    const char *nccl;                      /* the library's path; NULL: where the loader has it */
} allreduce_options;

extern const param allreduce_rows[];
extern const size_t allreduce_row_count;

/* Adds "ranks", "rows", and "nccl" where its sums could be measured, to a JSON object. Of m devices, isa, codec_group,
 * key_file and peer_timeout are read. */
int bench_allreduce(const allreduce_options *o, const engine_options *m, int64_t reps, json *root, err *e);
void bench_allreduce_print(const json *root);
