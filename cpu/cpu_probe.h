/* cpu_probe.h - what the machine can do at most: read bandwidth and multiply-adds of all threads together.
 *
 * The bounds that kernels are measured against. A bound is the best of several patterns and rounds, so that no share of it
 * exceeds 100 % but by noise; call it interleaved with what is measured, on a machine whose load changes. */
#ifndef CPU_CPU_PROBE_H
#define CPU_CPU_PROBE_H
#include "base/err.h"

#include <stdint.h>

typedef struct cpu_probe cpu_probe;

/* isa: NULL = the best. bytes: size of the memory that is read, 0 = eight times the last cache, 256 to 512 MiB, which is also the most; at
 * least 256 KiB a thread. */
int cpu_probe_open(cpu_probe **out, int threads, const char *isa, uint64_t bytes, err *e);
void cpu_probe_close(cpu_probe *p);
uint64_t cpu_probe_bytes(const cpu_probe *p); /* memory that it takes */

/* One round; the best of all rounds so far. */
double cpu_probe_read(cpu_probe *p); /* bytes per second */
double cpu_probe_float(
    cpu_probe *p); /* operations per second of what multiplies matrices of floats, a multiply-add being two */
double cpu_probe_integer(
    cpu_probe *p); /* the same of 8-bit integers with 32-bit sums; 0: no such instruction is used */
int cpu_probe_patterns(const cpu_probe *p);
const char *cpu_probe_pattern(const cpu_probe *p, int i,
                              double *bytes_per_s); /* "2 streams, 4096 ahead"; the best so far */

#endif
