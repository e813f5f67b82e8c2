/* bench_link.h - `inferflow bench link`: round trips and rates between this process and nodes, and among the nodes. */
#pragma once
#include "base/json.h"
#include "base/param.h"

typedef struct link_options {
    const char *peers; /* list */
} link_options;

extern const param link_rows[];
extern const size_t link_row_count;

/* Adds "links" to a JSON object. devices: whose nodes are meant without --peers. */
int bench_link(const link_options *o, const char *devices, const char *key_file, json *root, err *e);
void bench_link_print(const json *root);
