/* plan_pages.h - pages and slots of the cache as bytes, wherever their states lie: what outlives the devices. */
#pragma once
#include "base/buf.h"
#include "plan/plan.h"

/* Bytes of one page of each group, with the types of the cache: the parts of all devices, one after another. False:
 * some devices are in other processes, which do not give theirs. After plan_ready. */
bool plan_page_bytes(const plan *l, uint64_t page[GROUP_MAX]);
uint64_t plan_slot_bytes(const plan *l); /* of one slot, likewise, without rows apart */
/* Says how these bytes are divided: equal texts, equal bytes. */
void plan_page_layout(const plan *l, buf *out);
/* Reads a page, or writes it, while no step is under way; of group GROUP_MAX a slot. */
int plan_page_get(plan *l, int group, int32_t page, uint8_t *to, err *e);
int plan_page_put(plan *l, int group, int32_t page, const uint8_t *from, err *e);
