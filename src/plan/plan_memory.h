/* plan_memory.h - what devices have left for pages. Devices that have one memory count together (backend.memory). */
#pragma once
#include "plan/plan.h"

/* The memory number i that pages come from, with these types. What activations and steps of its devices will take is
 * no part of what is left. False: there are no more. */
bool plan_memory(const plan *l, int i, dtype k_type, dtype v_type, plan_room *out);
/* The node that has it; NULL: it is here. */
const char *plan_memory_node(const plan *l, int i);
bool plan_memory_has(const plan *l, int i, int device);
