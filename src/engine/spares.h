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
/* A message that begins with the address of a node, and ':' or a blank: positions that have it take their next
 * alternative; where none has another one, those of nodes that it names further on ("ranks 1 and 2 (a:7071 and b:7071)
 * cannot reach each other"). Whether any has. */
bool spares_turn(spares *s, const char *list, const char *message);
