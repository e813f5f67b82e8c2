/* cpu_backend.h - the CPU backend's one public name. Ordinal is unused; a share of the cores is dev_options.threads. */
#ifndef CPU_CPU_BACKEND_H
#define CPU_CPU_BACKEND_H
#include "core/backend.h"

extern const backend cpu_backend;

#endif
