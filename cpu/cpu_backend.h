/* cpu_backend.h - the CPU as a device. The number of the notation, "cpu:2", is a number of threads. */
#pragma once
#include "core/backend.h"

/* weight_options.own */
typedef struct cpu_options {
    int threads;     /* of the process; devices without a number divide them; 0: all that it may use */
    const char *isa; /* NULL = best; "c", "avx2", "avxvnni", "avx512", "avx512bf16" (inexact), "neon", "dotprod" */
    bool share_all;  /* all threads take part in steps of any size: for tests */
} cpu_options;

extern const backend cpu_backend;
