/* cpu_route.c - reference of ROUTE; see cpu_route.h. */
#include "cpu/cpu_route_body.h"

void cpu_route(const run *r, const op *o, int worker, int workers) { route_rows(r, o, worker, workers); }
