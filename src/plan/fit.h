/* fit.h - which of the last layers lie on GPUs, with the output head, by the memory that these have: what "auto" gives
 * them. Layers that the GPUs have no room for are on the device that they leave the rest to; so may be the experts of
 * some. */
#pragma once
#include "plan/plan.h"

enum { FIT_DEVICES = 16 };

typedef struct fit_ask {
    const program *p;
    const plan_options *o;  /* but for the devices */
    const device_here *gpu; /* [n_gpu] at most FIT_DEVICES, in the order of their layers */
    int n_gpu;
    const char *rest;         /* the device of what is left: "cpu" */
    int moe;                  /* of so many first layers of the model it has the experts */
    int32_t pages[GROUP_MAX]; /* that a GPU must have room for at least, */
    int slots, slot_rows;     /* slots, with so many rows apart, */
    uint64_t beside;          /* bytes, for others */
    dtype (*kv_type)(void *ctx, const plan *l);
    void *ctx;
} fit_ask;

/* "cpu*3;cuda:0*5;cuda:1*4": n[i] layers on GPU i, those before them on the rest. False: memory is short. */
bool fit_list(buf *out, const fit_ask *a, const int *n);
/* n[i]: the last `asked` layers over the GPUs, in proportion to what is free in their memory now, if weights, pages,
 * activations and what steps need have room there; else as many on each as have, from the last GPU on. must: all of
 * them, room or not. */
int fit_layers(int *n, const fit_ask *a, int asked, bool must, err *e);
