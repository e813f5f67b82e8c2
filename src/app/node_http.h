/* node_http.h - `inferflow node --metrics H:P`: /metrics and /health of a node, on an address of their own. */
#pragma once
#include "net/node.h"
#include "net/tcp.h"

typedef struct node_http node_http;

/* Listens at `at`, whose port becomes the one that was picked; /health is 503 until node_http_tell. api_key_file and
 * allow_host: as `serve` has them, NULL: none. */
int node_http_open(node_http **out, address *at, const char *api_key_file, const char *allow_host, err *e);
/* The node is ready; it must outlive this. */
void node_http_tell(node_http *h, node *n);
void node_http_close(node_http *h); /* NULL ok */
