/* def_route.c - reference of ROUTE; see route_rows.h. */
#include "ops/route_rows.h"

GPU_CODE void def_route(const run *r, const op *o, int worker, int workers) { route_rows(r, o, worker, workers); }
