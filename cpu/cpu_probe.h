/* cpu_probe.h - the bounds of the machine: read bandwidth and multiply-adds of all threads together.
 *
 * Kernels are measured against these bounds. A bound is the best of several patterns and rounds, so only noise can
 * exceed it. On a machine whose load changes, interleave its rounds with the measurement. */
#pragma once
#include "base/err.h"

#include <stdint.h>

typedef struct cpu_probe cpu_probe;

/* isa: NULL = the best. bytes: size of the memory that is read, at least 256 KiB a thread; maximum and default (0):
 * eight times the third-level cache, 256 to 512 MiB. */
int cpu_probe_open(cpu_probe **out, int threads, const char *isa, uint64_t bytes, err *e);
void cpu_probe_close(cpu_probe *p);
uint64_t cpu_probe_bytes(const cpu_probe *p); /* memory that it takes */

/* One round; the best of all rounds so far. */
double cpu_probe_read(cpu_probe *p);    /* bytes per second */
double cpu_probe_float(cpu_probe *p);   /* operations per second of the float multiplier, a multiply-add being two */
double cpu_probe_integer(cpu_probe *p); /* operations per second on 8-bit integers; 0: no such instruction */
int cpu_probe_patterns(const cpu_probe *p);
const char *cpu_probe_pattern(const cpu_probe *p, int i,
                              double *bytes_per_s); /* "2 streams, 4096 ahead"; the best so far */
