/* spares.h - devices with spares in --devices: "a:7071/cpu|b:7071/cpu" is b where a cannot be reached. */
#pragma once
#include "plan/devices.h"

/* Whether any place has another device than its first. */
bool spares_any(const device_list *l);
/* Whether any place has a spare. */
bool spares_exist(const device_list *l);
/* Places that have the first node of an error's `who` take their next alternative; where none of them has another one,
 * those of the next node. Whether any has. */
bool spares_turn(device_list *l, const char *who);
