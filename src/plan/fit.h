/* fit.h - how many of the last layers a device has room for, with the output head: what "auto" gives a GPU. */
#pragma once
#include "plan/plan.h"

typedef struct fit_ask {
    const program *p;
    const plan_options *o;    /* but for the devices */
    int32_t pages[GROUP_MAX]; /* that the device must have room for at least, */
    int slots;                /* slots, */
    uint64_t beside;          /* bytes, for others */
    dtype (*kv_type)(void *ctx, const plan *l);
    void *ctx;
} fit_ask;

/* "cpu*3;cuda:0*5": the last n of so many layers on the device, the others before them on `rest`. */
bool fit_list(buf *out, int layers, int n, const char *rest, const char *device);
/* *n: so many layers, all of them too, fit what is free in the memory of the device now: weights, pages, activations,
 * and what steps need. */
int fit_layers(int *n, const fit_ask *a, const device_here *d, const char *rest, err *e);
