/* devices.h - the notation of --devices: which devices, in which order, with which share of the model (Inferflow,
 * section 4).
 *
 *     list   = group { ";" group }          groups follow one another: each has some layers
 *     group  = place { "&" place }          its ranks divide the heads and columns of these layers
 *     place  = device { "|" device }        the first of them, or one of its spares (engine/spares.h)
 *     device = [ node "/" ] name [ ":" number ] [ "*" share [ "," share of experts ] ]
 *     node   = host ":" port | "[" v6 "]:" port           another process, which lends the device
 *
 * "cpu" uses all cores of this process, "cpu:2" two threads; a device may appear more than once. A share is a weight:
 * "cpu*3;cpu*1" gives three quarters of the layers to the first; a group weighs the sum of its shares. The first group
 * and the last may weigh 0: they have what comes before and after the layers, tables and head. Of experts a rank has
 * the same share, unless it says another one: in "cuda:0*1,0&cpu*0,1" the CPU has the experts, and nothing else. "auto"
 * is the first device of the backends in their order that can be used. */
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
    double experts; /* share of these in its group; -1: the same */
    span text;      /* as the list has it; of "auto" what it has come to */
} device_entry;

/* A copy of the struct may choose other alternatives; its memory is that of the one that was parsed. */
typedef struct device_list {
    int n;                      /* places, group by group */
    int chosen[DEVICES_MAX];    /* [n] the alternative that each place has now: 0 the first */
    int first[DEVICES_MAX + 1]; /* [n + 1] in `all`: the alternatives of place i are first[i] … first[i + 1] - 1 */
    device_entry *all;
    char *text;
} device_list;

/* Parses `text` (NULL: "auto") against the list of backends. ERR_USAGE: the message quotes the offending part and names
 * what is available. Closed with device_list_close, also after an error. */
int device_list_parse(device_list *out, const char *text, const backend_use *backends, err *e);
/* The device that place i has now. */
static inline device_entry *device_at(const device_list *l, int i) { return &l->all[l->first[i] + l->chosen[i]]; }
static inline int device_alternatives(const device_list *l, int i) { return l->first[i + 1] - l->first[i]; }
/* The list with the devices chosen now alone. False: memory is short. */
bool device_list_text(const device_list *l, buf *out);
void device_list_close(device_list *l); /* {0} ok */

/* A device of this process that can be used, as the notation calls it: "cuda:1"; the CPU, whose numbers are of threads,
 * is "cpu". */
typedef struct device_here {
    char name[DEVICE_NAME + 8];
    const backend *be;
    int number; /* -1: it has none */
    device_info info;
} device_here;
/* All of them, backend by backend; their number, at most `most`. */
int devices_here(const backend_use *backends, device_here *out, int most);
/* The device of this number; false: there is none. `info.why`: it cannot be used. */
bool device_look(const backend *be, int number, device_here *out);
/* What "auto" is: the first of them; the CPU can always be used. */
device_here devices_preferred(const backend_use *backends);

/* Devices that a node lends, "cpu:1,cpu": names and numbers alone. Returns their number, or a negative code as
 * device_list_parse. */
int devices_lent(const char *text, const backend_use *backends, device_entry out[DEVICES_MAX], err *e);
/* Finds device d among those that a node lends (NULL: all of its backends, with any number). One without a number is
 * whatever the node lends of that kind: the one of the largest number, which d gets, where none is lent without.
 * ERR_USAGE: it lends none such. */
int devices_find_lent(const char *lent, const backend_use *backends, device_entry *d, err *e);
