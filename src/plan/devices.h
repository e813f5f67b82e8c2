/* devices.h - the notation of --devices: which devices, in which order, with which share of the model (Inferflow,
 * section 4).
 *
 *     list   = group { ";" group }          groups follow one another: each has some layers
 *     group  = device { "&" device }        its ranks divide the heads and columns of these layers
 *     device = [ node "/" ] name [ ":" number ] [ "*" share ]
 *                                            (spares after '|' are chosen before: engine/spares.h)
 *     node   = host ":" port | "[" v6 "]:" port           another process, which lends the device
 *
 * "cpu" uses all cores of this process, "cpu:2" two threads; a device may appear more than once. A share is a positive
 * weight: "cpu*3;cpu*1" gives three quarters of the layers to the first; a group weighs the sum of its shares. "auto"
 * is the first backend. */
#pragma once
#include "base/buf.h"
#include "core/backend.h"

enum { DEVICES_MAX = 64 };

enum { DEVICE_NODE = 280, DEVICE_NAME = 32 };
typedef struct device_entry {
    char node[DEVICE_NODE]; /* "a:7071"; "": this process */
    char name[DEVICE_NAME]; /* of the backend */
    const backend *be;      /* NULL: only the node has it */
    int number;             /* after ':'; -1 when absent */
    int group;              /* 0, 1, … */
    double share;
} device_entry;

/* Parses `text` (NULL: "auto") against the list of backends. Returns the number of devices, group by group, or a
 * negative code with a message that quotes the offending part and names what is available. */
int devices_parse(const char *text, const backend_use *backends, device_entry out[DEVICES_MAX], err *e);

/* Devices that a node lends, "cpu:1,cpu": names and numbers alone. As devices_parse. */
int devices_lent(const char *text, const backend_use *backends, device_entry out[DEVICES_MAX], err *e);
/* Finds device d among those that a node lends (NULL: all of its backends, with any number). One without a number is
 * whatever the node lends of that kind: the one of the largest number, which d gets, where none is lent without.
 * ERR_USAGE: it lends none such. */
int devices_find_lent(const char *lent, const backend_use *backends, device_entry *d, err *e);
