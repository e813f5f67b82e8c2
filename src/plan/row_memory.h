/* row_memory.h - memory of the process that rows pass through: between devices, and to the caller. It is pinned where a
 * device here copies better so (backend.pin). */
#pragma once
#include "plan/plan_state.h"

/* Page aligned, cleared; NULL: memory is short. Devices are open. */
void *row_memory_take(const plan *l, uint64_t bytes);
/* NULL ok. While the devices are still open. */
void row_memory_give(const plan *l, void *at, uint64_t bytes);
