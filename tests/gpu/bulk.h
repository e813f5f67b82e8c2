/* bulk.h - bulk copies of a block that are under way. */
#pragma once
#include "tests/gpu/machine.h"

/* One of them may go on now. */
void bulk_go_on(block *b);
/* The block has ended: a fault where one is left. */
void bulk_end(block *b);
