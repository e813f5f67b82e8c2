/* backend.h - what a device must be able to do. A backend is one const struct; "can" is "the table has an entry".
 *
 * Nothing is global, so several devices may run at once; all calls on one device come from one thread. */
#pragma once
#include "base/err.h"
#include "core/program.h"
#include "core/step.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dev dev; /* the backend's own */
typedef struct backend backend;

/* A contiguous run of ops on one device. Made by src/plan; `compiled` belongs to the backend. */
typedef struct segment {
    const program *p;
    uint32_t op0, op1;
    ref in, out; /* the one activation handed over at the cut before (0: starts from tokens) and after (0: last) */
    ref memory;  /* the encoder's result, handed over beside `in`; 0: not needed, or made here */
    const backend *be;
    dev *on;
    uint64_t act_bytes; /* arena for activations at full capacity: core/place.h */
    void *compiled;
} segment;

/* One segment of one step. */
typedef struct run {
    const segment *seg;
    const step *st;
    uint8_t *act; /* arena of the segment; activations at tensor.off */
} run;

/* A CPU kernel. All workers of the pool call it; each takes its share of output units (never of a reduction). */
typedef void (*kernel)(const run *r, const op *o, int worker, int workers);

typedef struct dev_options {
    int threads;              /* 0 = all this process may use */
    int max_rows[AXIS_COUNT]; /* capacity of each row symbol in one step */
    int n_page[GROUP_MAX];    /* KV pages per group */
    dtype k_type, v_type;     /* of the cache: kv_type.h */
    bool inexact;             /* kernels may round otherwise than the definitions where that is faster */
    const char *isa; /* NULL = best; "c", "avx2", "avxvnni", "avx512", "avx512bf16" (inexact), "neon", "dotprod" */
    bool share_all;  /* all threads take part in steps of any size: for tests */
} dev_options;

struct backend {
    const char *name;
    int (*open)(dev **d, int ordinal, const program *p, const dev_options *o, err *e);
    void (*close)(dev *d);
    int (*weight_put)(dev *d, const program *p, uint32_t weight, err *e); /* once per weight */
    int (*page_copy)(dev *d, int group, int32_t from, int32_t to, int tokens, err *e);
    int (*compile)(dev *d, segment *s, err *e); /* after place_segment: fuses, sets barriers */
    void (*discard)(dev *d, segment *s);        /* undo compile */
    int (*run)(const run *r, err *e);
    /* Length of the fusable run that starts at op i, provided its output does not overlap its inputs; NULL: nothing
     * fuses. Called before placement. */
    uint32_t (*joins)(const segment *s, uint32_t i);
    /* Name and length of the fused run that starts at op i of a compiled segment; NULL: no run. Results inside a run
     * are not written, unless a step has taps. */
    const char *(*fused)(const segment *s, uint32_t i, uint32_t *n);
    const char *(*isa)(const dev *d);     /* what its kernels are made for: "avx2"; static text */
    uint64_t (*held_bytes)(const dev *d); /* memory taken for weights and pages, without mapped files */
};
