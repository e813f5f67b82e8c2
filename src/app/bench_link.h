/* bench_link.h - `inferflow bench link`: round trips and rates between this process and nodes, and among the nodes. */
#pragma once
#include "base/json.h"

/* Adds "links" to a JSON object. peers: a list of nodes; NULL: those of `devices`. */
int bench_link(const char *peers, const char *devices, const char *key_file, json *root, err *e);
void bench_link_print(const json *root);
