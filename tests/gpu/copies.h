/* copies.h - cp.async under way. */
#pragma once
#include "tests/gpu/lanes.h"

/* Forgets a warp's copies that nobody has waited for. */
void copies_forget(warp *w);
