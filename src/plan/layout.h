/* layout.h - which devices, groups and shares make a token fastest: `--devices auto`.
 *
 * From what one layer takes on each device and how long messages travel between them, the time of a token is added up
 * for every layout worth a thought: the fastest devices filled one after another, as far as their memory goes (a token
 * passes through devices one after another, so a slow one only helps by its memory); the k fastest as ranks of one
 * group; equal groups of neighbours. */
#pragma once
#include "base/buf.h"
#include "plan/devices.h"

enum { LAYOUT_DEVICES = 32, LAYOUTS_MAX = 64, LAYOUT_NAME = DEVICE_NODE + DEVICE_NAME };

typedef struct layout_device {
    char name[LAYOUT_NAME]; /* in the notation of devices: "cpu", "a:7071/cpu" */
    double layer;           /* seconds of a token for a whole layer, while others wait */
    double crowded;         /* the same while all devices compute: some may share a machine */
    uint64_t bytes;         /* for weights and pages */
} layout_device;

/* What devices work on, and between what. */
typedef struct layout_task {
    int n_device, layers;
    layout_device device[LAYOUT_DEVICES];         /* the first is of the process that leads */
    double layer_bytes;                           /* weights and pages of a layer */
    double row_bytes;                             /* that one group hands to the next */
    int exchanges;                                /* between the ranks of a group, in a layer */
    double exchange_bytes;                        /* that a rank sends in a layer, at most */
    double handling;                              /* seconds that a message costs its two sides, besides its way */
    double delay[LAYOUT_DEVICES][LAYOUT_DEVICES]; /* seconds one way */
    double rate[LAYOUT_DEVICES][LAYOUT_DEVICES];  /* bytes a second; 0: at once */
} layout_task;

enum { LAYOUT_FILLED, LAYOUT_RANKS, LAYOUT_GROUPS, LAYOUT_KINDS };
typedef struct layout {
    int kind;
    double token; /* seconds */
    buf devices;  /* the list */
} layout;

/* Layouts that fit, the fastest first; their number, at most LAYOUTS_MAX. For layouts_free. 0: none fits; negative:
 * memory is short. */
int layouts_make(layout out[LAYOUTS_MAX], const layout_task *t);
void layouts_free(layout *list, int n);
