/* strategy.h - the decoding strategies of the original Inferflow by name, as other defaults of sampling parameters. */
#pragma once
#include "sample/sample.h"

/* Where p->strategy names one ("fsd", "sample.top_p"): turns what chooses among tokens off, then sets what the strategy
 * says. p->strategy becomes a text that lives for ever. ERR_USAGE, with `where` in front, for another name. */
int strategy_apply(sample_params *p, const char *where, err *e);
/* The name of the i-th; NULL behind the last. */
const char *strategy_name(size_t i);
