/* spares.h - devices with spares in --devices: "a:7071/cpu|b:7071/cpu" is b where a cannot be reached. */
#pragma once
#include "base/buf.h"
#include "plan/devices.h"

/* Which of the alternatives each position of the list has: 0 the first. */
typedef struct spares {
    uint8_t of[DEVICES_MAX];
} spares;

/* Whether any position has another than its first. */
bool spares_any(const spares *s);
/* The list with the chosen alternatives alone. False: memory is short. */
bool spares_apply(const spares *s, const char *list, buf *out);
/* Positions that have the first node of an error's `who` take their next alternative; where none of them has another
 * one, those of the next node. Whether any has. */
bool spares_turn(spares *s, const char *list, const char *who);
