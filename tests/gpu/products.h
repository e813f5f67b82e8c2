/* products.h - wgmma under way. */
#pragma once
#include "tests/gpu/lanes.h"

extern uint64_t products_done; /* by warps */

/* Forgets a warp's products that nobody has waited for. */
void products_forget(warp *w);
