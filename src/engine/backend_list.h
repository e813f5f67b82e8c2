/* backend_list.h - the backends of this build, the preferred first: "auto" is the first. X(backend, what points to its
 * own options in engine.c, or NULL) */
#pragma once
#include "cpu/cpu_backend.h"

enum { BACKENDS_MAX = 16 };
#define BACKEND_LIST(X) X(cpu_backend, cpu)
